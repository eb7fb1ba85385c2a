"""Price levels: planted changes of all prices are found again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.true_curves import day_shifts
from coterie.ads.curves.price_levels import level_curves, own_levels, price_levels
from coterie.ads.logs.simulation.simulated_traits import draw_traits
from markets import EASY, log_of, market

KINDS = {
    "second price": {},
    "first price": {"auction": "first"},
    "minimum logged": {"minimum_logged": True},
}
MOVING = replace(EASY, advertisers=120, bids_per_day=40, days=9, price_rise=0.26, newcomers=0.0)


def true_levels(settings):
    """The planted level of each day, relative to their mean."""
    shifts = day_shifts(settings, draw_traits(settings)).mean(axis=1)
    return shifts - shifts.mean()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rise", [0.26, -0.4])
def test_planted_levels_are_found(kind, rise):
    """A rise or fall of all prices on the last days, and weekdays, within a few errors."""
    chosen = replace(MOVING, price_rise=rise, **KINDS[kind])
    found = price_levels(market(chosen).histograms, list(range(9)))
    truth = true_levels(chosen)
    gap = found.values - found.values.mean() - truth
    error = np.sqrt(found.errors)
    assert np.ptp(truth) > abs(rise) and error.max() < 0.03
    # beside chance, advertisers' own drifts and the shape of the curves
    assert (np.abs(gap) < 4 * error + 0.015).all()
    assert np.abs(gap).mean() < 0.02


def test_levels_are_relative_to_their_mean():
    """Days count by what is known of them."""
    found = price_levels(market(MOVING).histograms, [1, 3, 6])
    assert len(found.values) == 3
    np.testing.assert_array_equal(found.days, market(MOVING).histograms.days[[1, 3, 6]])
    assert np.average(found.values, weights=1 / found.errors) == pytest.approx(0, abs=1e-3)


def test_later_days_change_nothing():
    """The levels of some days are those of a log of these days alone."""
    log = market(MOVING).histograms
    of_some, alone = price_levels(log, [0, 1, 2]), price_levels(log.for_days([0, 1, 2]), [0, 1, 2])
    np.testing.assert_allclose(of_some.values, alone.values, atol=1e-12)
    np.testing.assert_allclose(of_some.errors, alone.errors, rtol=1e-9)


def test_one_day_has_level_zero():
    """There is nothing to compare it with."""
    found = price_levels(market(MOVING).histograms, [4])
    assert found.values.tolist() == [0.0]


def test_a_day_with_hardly_any_auctions_has_a_large_error():
    """It is at most that of a level nobody knows, and it does not move the other days."""
    log = market(replace(MOVING, days=3, price_rise=0.0)).histograms

    def thinned(cells):
        kept = (cells.day != 1) | (cells.advertiser == 0)
        return type(cells)(**{name: part[kept] for name, part in vars(cells).items()})

    thin = replace(log, bids=thinned(log.bids), prices=thinned(log.prices))
    found, full = price_levels(thin, [0, 1, 2]), price_levels(log, [0, 1, 2])
    assert found.errors[1] > 20 * full.errors[1] and found.errors[1] <= 0.26
    np.testing.assert_allclose(
        np.diff(found.values[[0, 2]]), np.diff(full.values[[0, 2]]), atol=0.01
    )


@pytest.mark.parametrize("won", [True, False])
def test_logs_that_tell_nothing_of_levels(won):
    """If all bids won or all were lost at one amount, all levels are 0."""
    log = log_of(
        bid=np.full(12, 2_000_000),
        won=won,
        price=2_000_000,
        advertiser=np.arange(12) % 3,
        day=np.arange(12) // 4,
        edges=[2_000_000],
    )
    found = price_levels(log, [0, 1, 2])
    np.testing.assert_allclose(found.values, 0, atol=1e-9)
    assert np.isfinite(found.errors).all() and (found.errors > 0).all()


def test_advertisers_that_come_and_go_do_not_move_levels():
    """A dear advertiser that bids on the last day only is no change of prices."""
    log = market(replace(MOVING, days=4, price_rise=0.0, weekday_effect=0.0)).histograms
    dear = np.argsort(log.dense().price.sum(axis=1) / np.maximum(log.dense().prices.sum(axis=1), 1))
    late = dear[-40:]

    def without(cells):
        kept = (cells.day == 3) | ~np.isin(cells.advertiser, late)
        return type(cells)(**{name: part[kept] for name, part in vars(cells).items()})

    changed = replace(log, bids=without(log.bids), prices=without(log.prices))
    found = price_levels(changed, [0, 1, 2, 3])
    assert abs(found.values[3] - found.values[:3].mean()) < 0.04


def test_a_common_weight_of_all_rows_changes_nothing():
    """A sample of one row in ten tells as much as it has rows."""
    made = market(replace(MOVING, days=3))
    names = [f"adv-{i:05d}" for i in range(120)]
    plain, weighted = (
        price_levels(
            log_of(**made.rows, edges=made.histograms.edges, names=names, weight=weight), [0, 1, 2]
        )
        for weight in (1.0, 10.0)
    )
    np.testing.assert_allclose(weighted.values, plain.values, atol=1e-9)
    np.testing.assert_allclose(weighted.errors, plain.errors, rtol=1e-9)


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


@pytest.mark.parametrize("kind", KINDS)
def test_own_levels_of_periods_find_a_planted_rise(kind):
    """Prices that rise by 20% on the last four days raise every own level by about 0.18.

    At the highest likelihood, the scores of the days and of the prior cancel.
    """
    log = market(replace(STEADY, price_rise=0.18, **KINDS[kind])).histograms
    curves = level_curves(log, list(range(6)), np.zeros(6))
    found = [
        own_levels(log, curves, np.zeros(6), np.array(days)) for days in ([0, 1], [2, 3, 4, 5])
    ]
    (before, known, _), (after, known_later, _) = found
    error = np.sqrt(1 / known + 1 / known_later)
    assert np.median(after - before) == pytest.approx(0.18, abs=0.02)
    assert np.median(np.abs(after - before - 0.18) / error) < 1.5
    for level, information, score in found:
        slope = score.sum(axis=1) - level / 0.25
        assert (np.abs(slope) < 0.2 * np.sqrt(information)).all()


def test_own_levels_are_beyond_the_common_ones():
    """A common level of the days takes its part; without auctions the prior decides."""
    log = market(replace(STEADY, price_rise=0.18)).histograms
    curves, days = level_curves(log, list(range(6)), np.zeros(6)), np.array([2, 3, 4, 5])
    (level, *_), (rest, *_) = (
        own_levels(log, curves, np.full(6, common), days) for common in (0.0, 0.18)
    )
    np.testing.assert_allclose(level - rest, 0.18, atol=0.02)
    absent = replace(log, bids=none_of(log.bids), prices=none_of(log.prices))
    level, information, _ = own_levels(absent, curves, np.zeros(6), days)
    np.testing.assert_allclose(level, 0.0, atol=1e-12)
    np.testing.assert_allclose(information, 4.0)


def none_of(cells):
    """No cells."""
    return type(cells)(**{name: part[:0] for name, part in vars(cells).items()})
