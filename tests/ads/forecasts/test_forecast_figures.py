"""What a forecast consists of, and what may be asked for."""

from __future__ import annotations

import math
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.curves.day_levels import fit_levels
from coterie.ads.forecasts.forecast_figures import (
    bids_between,
    checked_bids,
    checked_day,
    checked_supply,
    describe_days,
    number_between,
)
from coterie.errors import InvalidParameterError
from markets import FIRST_DAY


@pytest.mark.parametrize(
    "bid", [0, float("nan"), float("inf"), "cheap", None, [], [1.0, 0.0], [[1.0]], {}]
)
def test_what_is_no_bid_is_refused(bid):
    """The message says what a bid is."""
    with pytest.raises(InvalidParameterError, match="bids must be numbers above 0"):
        checked_bids(bid)


@pytest.mark.parametrize("supply", [-1, float("nan"), float("inf"), "1e6", [5], None])
def test_what_is_no_supply_is_refused(supply):
    """The message says what it was."""
    with pytest.raises(InvalidParameterError) as caught:
        checked_supply(supply)
    assert str(caught.value).startswith(f"supply={supply!r}: ")
    assert checked_supply(np.int64(3)) == 3.0


def test_bids_are_an_array():
    """One, or several, of any kind of number."""
    assert checked_bids(2).tolist() == [2.0]
    assert checked_bids((1, np.float32(2.5))).tolist() == [1.0, 2.5]


@given(st.floats(0.01, 10), st.floats(0, 10), st.floats(1e-3, 20), st.integers(0, 2_000))
def test_ranges_are_counted_without_being_made(start, width, step, most):
    """The number of bids in a range is how many there are, and none where they are too many."""
    number = number_between(start, start + width, step, most)
    assert number == len(bids_between(start, start + width, step, most)) <= most


def test_a_supply_of_nothing_has_no_sign():
    """−0 auctions are 0."""
    assert math.copysign(1, checked_supply(-0.0)) == 1


@pytest.mark.parametrize("day", ["", "NaT", "today", "2026-02-30", "2026-03"])
def test_what_is_no_date_is_refused(day):
    """Also texts that numpy would read."""
    with pytest.raises(InvalidParameterError, match="it must be a date as in 2026-03-09"):
        checked_day(day, 1)


@pytest.mark.parametrize("days", [0, -1, 1.0, 2.5, True, "7", None, 367, 10**9])
def test_what_is_no_number_of_days_is_refused(days):
    """From 1 to a year, and whole."""
    with pytest.raises(InvalidParameterError, match=r"days=.*it must be a whole number from 1 to"):
        checked_day("2026-03-09", days)


def test_days_are_read():
    """A day may be missing, and be a date."""
    assert checked_day(None, 1) is None
    assert checked_day(date(2026, 3, 9), np.int64(7)) == date(2026, 3, 9)


#: From Monday to Friday.
WORKDAYS = fit_levels(FIRST_DAY + np.arange(5), np.zeros(5), np.full(5, 1e-4))


OTHERS = "so other weekdays stand in"


@pytest.mark.parametrize(
    ("first", "days", "said"),
    [
        (None, 1, f"an average day; the log has no Saturday or Sunday, {OTHERS}"),
        (None, 2, f"the 2 days after the log; the log has no Saturday or Sunday, {OTHERS}"),
        (date(2026, 3, 9), 1, "2026-03-09"),
        (date(2026, 3, 9), 5, "the 5 days from 2026-03-09"),
        (date(2026, 3, 7), 1, f"2026-03-07; the log has no Saturday, {OTHERS}"),
        (date(2026, 3, 12), 3, f"the 3 days from 2026-03-12; the log has no Saturday, {OTHERS}"),
        (
            date(2026, 3, 9),
            300,
            f"the 300 days from 2026-03-09; the log has no Saturday or Sunday, {OTHERS}",
        ),
    ],
)
def test_days_are_described(first, days, said):
    """And whether the log has their weekdays; whether supply is theirs too."""
    assert describe_days(WORKDAYS, first, days, True) == f"; supply and prices of {said}"
    assert describe_days(WORKDAYS, first, days, False) == f"; prices of {said}"


def test_the_days_after_the_log_have_the_weekdays_that_follow_it():
    """After a log from Wednesday to Tuesday but for a Friday, that is the third day."""
    days = FIRST_DAY + np.array([2, 3, 5, 6, 7, 8])
    levels = fit_levels(days, np.zeros(6), np.full(6, 1e-4))
    assert describe_days(levels, None, 2, True).endswith("the 2 days after the log")
    assert describe_days(levels, None, 3, True).endswith(f"; the log has no Friday, {OTHERS}")
