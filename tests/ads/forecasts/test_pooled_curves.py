"""Forecasts at a bid by the book, from one advertiser's pooled curve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.curves.landscapes import Evidence, own_curves, spend_curves, win_curves
from coterie.ads.curves.pooling import pooled_curves, win_variance
from coterie.ads.forecasts.backtest import NINE_IN_TEN
from coterie.ads.forecasts.pooled_curves import Rates, forecast_at, pool

MICROS = 1_000_000
EDGES = np.array([1, 2, 4, 8]) * MICROS
PRIOR = np.array([0.1, 0.2, 0.3, 0.5])


def evidence_of_one(form="hazard", pays="price", times=1.0):
    """Of one advertiser, with so many times the trials."""
    successes, trials = np.array([[1.0, 2, 3, 1]]) * times, np.array([[9.0, 8, 5, 2]]) * times
    return Evidence(
        form, pays, EDGES, successes, trials, EDGES * (0.75 if pays == "price" else 1), trials[:, 0]
    )


@pytest.mark.parametrize(("form", "pays"), [("hazard", "price"), ("rate", "bid")])
@pytest.mark.parametrize("strength", [0.0, 3.0, np.inf])
def test_a_pooled_curve_is_one_row_of_all(form, pays, strength):
    """The same functions as for everyone, on one advertiser."""
    evidence = evidence_of_one(form, pays)
    curve = pool(evidence, PRIOR, strength)
    win = pooled_curves(evidence, PRIOR[None], strength)
    np.testing.assert_allclose(curve.win, win[0], atol=1e-5)
    np.testing.assert_allclose(curve.paid, spend_curves(curve.win[None], evidence)[0])
    np.testing.assert_allclose(curve.own, own_curves(evidence)[0])
    np.testing.assert_allclose(curve.segment, win_curves(PRIOR[None], np.ones((1, 4)), form)[0])
    np.testing.assert_allclose(curve.spread**2, win_variance(evidence, PRIOR[None], strength)[0])
    assert curve.bid.tolist() == [1, 2, 4, 8]
    np.testing.assert_allclose(curve.cost * curve.win * MICROS, curve.paid)
    assert (curve.low >= 0).all() and (curve.high <= 1).all()
    assert (curve.low <= curve.win).all() and (curve.win <= curve.high).all()


def test_figures_by_hand_on_an_edge():
    """Impressions, spend, clicks and the parts of their spread."""
    curve = pool(evidence_of_one(), PRIOR, 3.0)
    found = forecast_at(4.0, 1000, curve, Rates(0.01, 0.003, 0.002), noise=0.1)
    w, sd, paid = curve.win[2], curve.spread[2], curve.paid[2]
    assert found["win_rate"] == pytest.approx(w)
    assert found["impressions"] == pytest.approx(1000 * w)
    assert found["cost"] == pytest.approx(paid / w / MICROS)
    assert found["spend"] == pytest.approx(found["impressions"] * found["cost"] / 1000)
    doubt = np.sqrt((1000 * sd) ** 2 + 1000 * w * (1 - w) + (0.1 * 1000 * w) ** 2)
    low, high = found["impressions_interval"]
    assert low == pytest.approx(max(1000 * w - NINE_IN_TEN * doubt, 0))
    assert high == pytest.approx(min(1000 * w + NINE_IN_TEN * doubt, 1000))
    each = found["cost"] / 1000
    assert found["spend_interval"] == pytest.approx((low * each, high * each))
    assert found["clicks"] == pytest.approx(10 * w)
    variance = 10 * w + (doubt * 0.01) ** 2 + (1000 * w * 0.003) ** 2
    spread = NINE_IN_TEN * np.sqrt(variance)
    assert found["clicks_interval"] == pytest.approx((max(10 * w - spread, 0), 10 * w + spread))
    assert found["conversions"] == pytest.approx(2 * w)


@settings(max_examples=50)
@given(
    st.floats(0.001, 20),
    st.floats(0, 1e9),
    st.floats(0, 2),
    st.sampled_from([("hazard", "price"), ("hazard", "bid"), ("rate", "bid")]),
)
def test_whatever_is_asked_the_answer_is_sound(bid, supply, noise, kind):
    """Intervals hold the mean, nobody wins more than there is or pays more than the bid."""
    curve = pool(evidence_of_one(*kind), PRIOR, 3.0)
    found = forecast_at(bid, supply, curve, Rates(0.01), noise)
    low, high = found["impressions_interval"]
    assert 0 <= low <= found["impressions"] <= high <= supply
    assert found["impressions"] == pytest.approx(supply * found["win_rate"])
    assert found["spend"] <= bid * found["impressions"] / 1000 * (1 + 1e-9)
    assert found["spend_interval"][0] <= found["spend"] <= found["spend_interval"][1]
    assert found["clicks_interval"][0] <= found["clicks"] <= found["clicks_interval"][1]
    assert found["conversions"] is None
    if kind[1] == "bid" and bid <= 8:
        assert found["cost"] == pytest.approx(bid)


def test_more_evidence_makes_narrower_intervals():
    """Of the same win rate, at every bid."""
    widths = []
    for times in (1, 10, 100):
        curve = pool(evidence_of_one(times=times), PRIOR, 1e-6)
        widths.append(curve.high - curve.low)
    assert (np.diff(widths, axis=0) < 0).all()


def test_nothing_won_costs_nothing():
    """No division by what is not there."""
    nothing = np.zeros((1, 4))
    curve = pool(
        Evidence("hazard", "price", EDGES, nothing, nothing, EDGES * 1.0, np.zeros(1)),
        np.zeros(4),
        3.0,
    )
    found = forecast_at(2.0, 100, curve, Rates(), 0.5)
    assert (found["win_rate"], found["cost"], found["impressions"], found["spend"]) == (0,) * 4
    assert found["impressions_interval"] == (0, 0) and found["clicks"] is None
    assert curve.cost.tolist() == [0] * 4
