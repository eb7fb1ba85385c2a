"""What a forecast consists of, and what may be asked for."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.forecasts.forecast_figures import (
    FIELDS,
    Forecast,
    bids_between,
    checked_bids,
    checked_supply,
    forecast_of,
    number_between,
)
from coterie.ads.forecasts.placement import Placement
from coterie.errors import InvalidParameterError

PLACE = Placement("a", 0, np.ones(1), np.ones(1), "s", "pooled", "because")


@pytest.mark.parametrize(
    "bid",
    [0, -1, float("nan"), float("inf"), "cheap", None, [], [1.0, 0.0], [[1.0]], [1.0, "x"], {}],
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


@given(st.lists(st.floats(0, 1e9), min_size=12, max_size=12))
def test_every_figure_has_its_place(figures):
    """What stands in the column of a field is found under its name."""
    one = forecast_of(PLACE, 2.0, 10.0, figures, "because")
    named = dict(zip(FIELDS, figures, strict=True))
    for name in ("win_rate", "cost", "impressions", "spend", "clicks", "conversions"):
        assert getattr(one, name) == named[name]
    for name in ("impressions", "spend", "clicks"):
        ends = getattr(one, f"{name}_interval")
        assert ends == (named[f"{name}_low"], named[f"{name}_high"])
    assert (one.advertiser, one.segment, one.curve, one.why) == ("a", "s", "pooled", "because")
    assert (one.bid, one.supply) == (2.0, 10.0)


def test_what_the_log_does_not_tell_is_none():
    """Clicks and conversions that are not numbers, each for itself."""
    nan = float("nan")
    silent = forecast_of(PLACE, 2.0, 10.0, [1.0] * 8 + [nan] * 4, "")
    assert silent.clicks is silent.clicks_interval is silent.conversions is None
    clicked = forecast_of(PLACE, 2.0, 10.0, [1.0] * 11 + [nan], "")
    assert clicked.clicks == 1.0 and clicked.conversions is None


def test_a_forecast_is_ready_for_json():
    """All of it."""
    forecast = forecast_of(PLACE, 2.0, 10.0, [float(i) for i in range(12)], "because")
    assert isinstance(forecast, Forecast)
    assert json.loads(json.dumps(forecast.as_dict(), allow_nan=False))["advertiser"] == "a"


@given(st.floats(0.01, 10), st.floats(0, 10), st.floats(1e-3, 20), st.integers(0, 2_000))
def test_ranges_are_counted_without_being_made(start, width, step, most):
    """The number of bids in a range is how many there are, and none where they are too many."""
    number = number_between(start, start + width, step, most)
    assert number == len(bids_between(start, start + width, step, most)) <= most


def test_a_supply_of_nothing_has_no_sign():
    """−0 auctions are 0."""
    assert math.copysign(1, checked_supply(-0.0)) == 1
