"""Text forms of numbers, dates and records: rounding, limits and signs."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.cluster import KMeans

import coterie
from coterie import RobustConsensus, planted_partitions
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import as_label_tuples
from coterie.runtime import wording as words
from coterie.runtime.wording import short_repr

NUMBERS = st.floats(0, 1e11)


def value_of(text):
    size = {"M": 1e6, "B": 1e9}.get(text[-1], 1.0)
    return float(text.rstrip("MB%").replace(",", "").replace("−", "-")) * size


@settings(max_examples=40)
@given(NUMBERS.filter(lambda n: n == 0 or n >= 0.01))
def test_counts_are_close_to_the_number(number):
    """The error is at most half of the last digit: 5% below ten, less above."""
    assert value_of(words.format_count(number)) == pytest.approx(
        number, rel=0.051 if number < 20 else 0.03
    )


@settings(max_examples=40)
@given(st.integers(0, 999_999))
def test_exact_counts_are_exact(number):
    """Below a million every digit is kept."""
    assert value_of(words.exact(number)) == number


@settings(max_examples=40)
@given(NUMBERS.filter(lambda n: n == 0 or n >= 0.0001))
def test_money_is_close_to_the_amount(amount):
    """An amount follows its symbol, within half a cent or 5% below ten cents."""
    text = words.money(amount, "$")
    assert text.startswith("$")
    assert value_of(text[1:]) == pytest.approx(amount, rel=0.051)


@settings(max_examples=40)
@given(st.floats(-5, 5).filter(lambda s: s == 0 or abs(s) >= 0.0001))
def test_percent_is_close_to_the_share(share):
    """The error is at most half of the last digit; the minus sign is U+2212."""
    text = words.percent(share)
    assert value_of(text) / 100 == pytest.approx(share, rel=0.051)
    assert "-" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (words.format_count(0), "0"),
        (words.format_count(1234567), "1.23M"),
        (words.format_count(123456), "123,500"),
        (words.format_count(98.7), "99"),
        (words.format_count(3.14159), "3.1"),
        (words.format_span((0.25, 0.5), words.percent), "25.0%–50.0%"),
        (words.format_span((12.6, 25000), words.format_count), "13–25,000"),
        (words.format_span((0.4, 3.7), words.format_count), "1–3"),
        (words.format_span((9.3, 10.7), words.format_count), "10–11"),
        (words.format_span((10.3, 14.7), words.format_count), "10–15"),
        (words.format_span((0, 0.09), words.format_count), "0"),
        (words.exact(20e9), "20B"),
        (words.number_of(1, "day"), "1 day"),
        (words.number_of(1268, "advertiser"), "1,268 advertisers"),
        (words.money(0.0123, "$"), "$0.012"),
        (words.money(12.3, "$"), "$12.30"),
        (words.percent(-0.002), "−0.2%"),
        (words.percent(None), "–"),
        (words.format_cell(None), "–"),
        (words.format_cell(True), "yes"),
        (words.format_cell(-1234.5), "−1,234.5"),
        (words.format_cell("text"), "text"),
        (words.period("2026-03-02", "2026-03-08"), "2–8 March 2026"),
        (words.period("2025-12-29", "2026-01-04"), "29 December 2025 – 4 January 2026"),
        (words.moment("2026-03-09T08:30:00+00:00"), "9 March 2026, 08:30 UTC"),
        (words.in_words(["text", "win", "cost"]), "text, win and cost"),
        (words.capitalised("its 7 bids in USD"), "Its 7 bids in USD"),
        (words.visible("a\x00b\x7f"), "a\u2400b\u2421"),
        (words.visible("a\ud800b"), "a\ufffdb"),
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
def test_special_cases(text, expected):
    """Small values, signs, periods and enumerations."""
    assert text == expected


@settings(max_examples=40)
@given(st.text(st.characters(), max_size=30))
def test_visible_text_can_be_encoded(text):
    """Any text becomes one that can be encoded, of the same length, without control characters."""
    shown = words.visible(text)
    shown.encode()
    assert len(shown) == len(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)


#: Records that no result holds.
UNSEEN = {"AssignmentRule", "DivergenceFit", "Links", "Plan"}


@dataclass
class Record:
    value: Any
    hidden: Any = dataclasses.field(default=None, repr=False)

    __repr__ = short_repr


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.zeros((40, 2)), "float64 (40, 2)"),
        (np.arange(7), "int64 (7,)"),
        (np.array([1, 2]), "[1, 2]"),
        (np.array([0.123456]), "[0.123]"),
        (np.float64(0.5), "0.5"),
        (csr_array((3, 4)), "csr_array of float64 (3, 4)"),
        ([np.zeros((5, 5))], "[float64 (5, 5)]"),
        ((np.arange(9),), "(int64 (9,),)"),
        ({"losses": [0.5] * 300}, "{'losses': list of 300}"),
        (list(range(1000)), "list of 1,000"),
        (b"x" * 500, "bytes of 500"),
        ("a" * 100, "'" + "a" * 58 + "…"),
        (KMeans(3), "KMeans(…)"),
        (Record(np.zeros((2, 2))), "Record(value=float64 (2, 2))"),
        (3, "3"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_shortened(value, shown):
    """Arrays are shown by type and shape, containers by length, estimators by name."""
    assert repr(Record(value, hidden=1)) == f"Record(value={shown})"


def test_results_have_one_line():
    """The records of a fit of many points have a repr of one line."""
    P, _ = planted_partitions([600, 300, 100], 30, n_bad=4, noise=0.3, random_state=0)
    est = RobustConsensus(3, relaxation="l2", random_state=0).fit(P)
    for record in (as_label_matrix(P), as_label_tuples(P), est._tables, est.dissent_):
        text = repr(record)
        assert text.startswith(type(record).__name__) and "\n" not in text and len(text) < 250


def records_with_arrays():
    """Yield the public dataclasses with a field for an array."""
    for module in pkgutil.walk_packages(coterie.__path__, "coterie."):
        if module.name.split(".")[1] in ("__main__", "ads", "cli"):
            continue
        try:
            namespace = vars(importlib.import_module(module.name))
        except ImportError:  # an optional package is not installed
            continue
        for name, kind in namespace.items():
            if not dataclasses.is_dataclass(kind) or kind.__module__ != module.name:
                continue
            types = " ".join(str(field.type) for field in dataclasses.fields(kind))
            estimator = hasattr(kind, "get_params")
            hidden = estimator or name.startswith("_") or name in UNSEEN
            if re.search("Array|Floats|Ints|Bools", types) and not hidden:
                yield kind


def test_no_record_prints_its_arrays():
    """The repr that dataclasses generate, which prints all arrays, is replaced everywhere."""
    kinds = list(records_with_arrays())
    assert len(kinds) > 10
    assert [kind for kind in kinds if hasattr(kind.__repr__, "__wrapped__")] == []
