"""Points of charts: those of the evaluation and of the days, thinned but not changed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from coterie.ads.curves.day_levels import fit_levels
from coterie.ads.report.chart_points import day_points, forecast_points
from markets import evaluated


@pytest.mark.parametrize("target", ["impressions", "spend"])
def test_points_are_the_forecasts_and_the_truth(target):
    """Each point has the forecast, the interval and the actual value of its advertiser."""
    evaluation = evaluated()
    found = forecast_points(evaluation, 0.8)
    rows = np.searchsorted(evaluation.advertisers, found["advertisers"])
    stated = next(one for one in evaluation.intervals if (one.level, one.supply) == (0.8, "given"))
    expected = {
        "forecast": getattr(evaluation.forecasts["dictionary"], target),
        "low": stated.low[target],
        "high": stated.high[target],
        "actual": getattr(evaluation.truth, target),
    }
    assert found[target] == {name: column[rows].tolist() for name, column in expected.items()}
    assert found["of"] == len(rows) == evaluation.as_dict()["advertisers"]
    inside = evaluation.coverage(stated, target)
    assert 1 - found["outside"][target] / found["of"] == pytest.approx(inside)


def test_many_advertisers_are_thinned():
    """Of more advertisers than wanted every n-th by size is kept, from the largest to the least."""
    evaluation = evaluated()
    whole, some = (forecast_points(evaluation, 0.9, most) for most in (2_000, 7))
    assert len(some["advertisers"]) == 7
    assert some["of"] == whole["of"]
    assert some["outside"] == whole["outside"]
    ends = (whole["advertisers"][0], whole["advertisers"][-1])
    assert (some["advertisers"][0], some["advertisers"][-1]) == ends
    sizes = some["impressions"]["actual"]
    assert sizes == sorted(sizes, reverse=True)


def test_days_are_expected_from_those_before():
    """A day is expected as the levels of the days before say; the mean factor is 1."""
    days = np.datetime64("2026-03-02") + np.arange(9)
    values = np.random.default_rng(3).normal(0.4, 0.05, 9)
    levels = fit_levels(days, values, np.full(9, 1e-4))
    rows = day_points(levels, levels, 0.9)
    assert [row["day"] for row in rows] == [str(day) for day in days]
    assert np.log([row["price"]["observed"] for row in rows]).mean() == pytest.approx(0)
    mean, variance = levels.one_day_ahead()
    for d in range(1, 9):
        one = rows[d]["supply"]
        assert np.log(one["expected"]) == pytest.approx(mean[d] - values.mean())
        half = ndtri(0.95) * np.sqrt(variance[d])
        assert np.log(one["high"] / one["low"]) == pytest.approx(2 * half)
