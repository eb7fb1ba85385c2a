"""Text forms of numbers and dates: rounding, limits and signs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.runtime import wording as words

NUMBERS = st.floats(0, 1e11)


def value_of(text: str) -> float:
    """Return the number in a text."""
    size = {"M": 1e6, "B": 1e9}.get(text[-1], 1.0)
    return float(text.rstrip("MB%").replace(",", "").replace("−", "-")) * size


@settings(max_examples=40)
@given(NUMBERS.filter(lambda n: n == 0 or n >= 0.01))
def test_counts_are_close_to_the_number(number: float) -> None:
    """The error is at most half of the last digit: 5% below ten, less above."""
    assert value_of(words.format_count(number)) == pytest.approx(
        number, rel=0.051 if number < 20 else 0.03
    )


@settings(max_examples=40)
@given(st.integers(0, 999_999))
def test_exact_counts_are_exact(number: int) -> None:
    """Below a million every digit is kept."""
    assert value_of(words.exact(number)) == number


@settings(max_examples=40)
@given(NUMBERS.filter(lambda n: n == 0 or n >= 0.0001))
def test_money_is_close_to_the_amount(amount: float) -> None:
    """An amount follows its symbol, within half a cent or 5% below ten cents."""
    text = words.money(amount, "$")
    assert text.startswith("$")
    assert value_of(text[1:]) == pytest.approx(amount, rel=0.051)


@settings(max_examples=40)
@given(st.floats(-5, 5).filter(lambda s: s == 0 or abs(s) >= 0.0001))
def test_percent_is_close_to_the_share(share: float) -> None:
    """The error is at most half of the last digit; the minus sign is U+2212."""
    text = words.percent(share)
    assert value_of(text) / 100 == pytest.approx(share, rel=0.051)
    assert "-" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (words.format_count(0), "0"),
        (words.format_count(0.001), "<0.01"),
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
def test_special_cases(text: str, expected: str) -> None:
    """Small values, signs, periods and enumerations."""
    assert text == expected


@settings(max_examples=40)
@given(st.text(st.characters(), max_size=30))
def test_visible_text_can_be_encoded(text: str) -> None:
    """Any text becomes one that can be encoded, of the same length, without control characters."""
    shown = words.visible(text)
    shown.encode()
    assert len(shown) == len(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
