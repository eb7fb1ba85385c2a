"""Own levels: the price level of single advertisers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.ads.curves.auction_counts import bids_per_weight
from coterie.ads.curves.price_levels import cells_of_days, level_curves
from coterie.ads.decisions.comparison.own_levels import LevelScores, mean_win_rates, own_levels
from markets import EASY, market

STEADY = replace(
    EASY,
    advertisers=40,
    days=6,
    bids_per_day=400,
    volume_spread=0.3,
    bid_move=0.0,
    newcomers=0.0,
    weekday_effect=0.0,
)
KINDS = [{}, {"auction": "first"}, {"minimum_logged": True}]


def scores_of(settings):
    """Return the scores of a market whose days have a common level of 0."""
    log = market(settings).histograms
    days, levels = list(range(settings.days)), np.zeros(settings.days)
    curves = level_curves(log, days, levels)
    cells = cells_of_days(log, bids_per_weight(log), np.ones(settings.days, dtype=bool))
    return LevelScores(log.edges, curves, cells, levels), log, curves


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_planted_rise_is_found(kind):
    """Prices that rise by 20% on the last four days raise every own level by about 0.18."""
    scores, *_ = scores_of(replace(STEADY, price_rise=0.18, **kind))
    before, after = (own_levels(scores, np.array(days)) for days in ([0, 1], [2, 3, 4, 5]))
    rise = after.level - before.level
    error = np.sqrt(1 / before.information + 1 / after.information)
    assert np.median(rise) == pytest.approx(0.18, abs=0.02)
    assert np.median(np.abs(rise - 0.18) / error) < 1.5


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_scores_of_the_days_add_up_to_that_of_the_prior(kind):
    """At the highest likelihood the scores of the days and of the prior cancel."""
    scores, *_ = scores_of(replace(STEADY, **kind))
    found = own_levels(scores, np.arange(3))
    slope = found.score.sum(axis=1) - found.level / 0.25
    assert (np.abs(slope) < 0.2 * np.sqrt(found.information)).all()


def test_an_advertiser_without_auctions_is_at_the_common_level():
    """Without evidence the prior decides."""
    _, log, curves = scores_of(STEADY)
    empty = cells_of_days(log, bids_per_weight(log), np.zeros(6, dtype=bool))
    found = own_levels(LevelScores(log.edges, curves, empty, np.zeros(6)), np.arange(3))
    np.testing.assert_allclose(found.level, 0.0, atol=1e-12)
    np.testing.assert_allclose(found.information, 4.0)


def test_win_rates_fall_as_prices_rise():
    """The share of bids won falls with the level, and is that of the log at level 0."""
    _, log, curves = scores_of(STEADY)
    cells = log.bids
    at = cells.advertiser, cells.day, cells.bin
    found = [
        mean_win_rates(log.edges, curves, at, cells.count, np.full(40, level))
        for level in (-0.2, 0.0, 0.2)
    ]
    assert (np.diff(found, axis=0) < 0).all()
    actual = log.daily("wins").sum(axis=1) / log.daily("count").sum(axis=1)
    assert np.abs(found[1] - actual).mean() < 0.05
