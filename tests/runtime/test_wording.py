"""Numbers and days in words: rounding, limits, and no way back to front."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.runtime import wording as words

NUMBERS = st.floats(0, 1e11)


def value_of(text: str) -> float:
    """The number a text says."""
    size = {"M": 1e6, "B": 1e9}.get(text[-1], 1.0)
    return float(text.rstrip("MB%").replace(",", "").replace("−", "-")) * size


@given(NUMBERS.filter(lambda n: n == 0 or n >= 0.01))
def test_counts_say_the_number(number: float) -> None:
    """A count is within half of its last digit: 5% below ten, less above."""
    assert value_of(words.count(number)) == pytest.approx(
        number, rel=0.051 if number < 20 else 0.03
    )


@given(st.integers(0, 999_999))
def test_exact_counts_lose_nothing(number: int) -> None:
    """Below a million things are counted one by one."""
    assert value_of(words.exact(number)) == number


@given(NUMBERS.filter(lambda n: n == 0 or n >= 0.0001))
def test_money_says_the_amount(amount: float) -> None:
    """An amount follows its symbol, within half a cent or 5% below ten cents."""
    said = words.money(amount, "$")
    assert said.startswith("$")
    assert value_of(said[1:]) == pytest.approx(amount, rel=0.051)


@given(st.floats(-5, 5).filter(lambda s: s == 0 or abs(s) >= 0.0001))
def test_percent_says_the_share(share: float) -> None:
    """A share in percent is within half of its last digit, and has a true minus sign."""
    said = words.percent(share)
    assert value_of(said) / 100 == pytest.approx(share, rel=0.051)
    assert "-" not in said


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.count(0), "0"),
        (words.count(0.001), "<0.01"),
        (words.money(0.00001, "€"), "<€0.0001"),
        (words.money(1_234_567, "$"), "$1.23M"),
        (words.percent(0.000001), "<0.01%"),
        (words.signed(0.02), "+2.0%"),
        (words.signed(-0.02), "−2.0%"),
        (words.signed(None), "–"),
        (words.currency_symbol("CHF"), "CHF\u00a0"),
        (words.currency_symbol(""), ""),
        (words.period("2026-03-02", "2026-03-02"), "2 March 2026"),
        (words.moment("2026-03-09T08:30:00"), "9 March 2026, 08:30"),
        (words.in_words([]), ""),
        (words.in_words(["one"]), "one"),
    ],
)
def test_words(said: str, expected: str) -> None:
    """Limits, signs and periods are said as people say them."""
    assert said == expected


@given(st.text(st.characters(), max_size=30))
def test_visible_text_can_be_written(text: str) -> None:
    """Any text becomes one that can be encoded, of the same length, without control characters."""
    shown = words.visible(text)
    shown.encode()
    assert len(shown) == len(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
