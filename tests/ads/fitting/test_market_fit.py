"""Market fit: curves of all advertisers at a common price level, and drifts of this level."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.true_curves import day_shifts, true_win_rates
from coterie.ads.curves.auction_counts import count_auctions
from coterie.ads.curves.day_levels import day_weights, fit_levels, weekday_of
from coterie.ads.fitting.market_fit import _SHAPE, Widening, fit_market, price_drift
from coterie.ads.logs.simulation.simulated_traits import draw_traits
from markets import EASY, FIRST_DAY, market

KINDS = {
    "second price": {},
    "first price": {"auction": "first"},
    "minimum logged": {"minimum_logged": True},
}
#: Prices rise by 30% on the last four of seven days.
RISING = replace(EASY, advertisers=120, days=7, price_rise=0.26, newcomers=0.0)


@pytest.fixture(scope="module", params=KINDS)
def fit(request):
    """Settings, log and fit of a market of one kind."""
    chosen = replace(RISING, **KINDS[request.param])
    made = market(chosen)
    return chosen, made, fit_market(made.histograms, list(range(7)), made.segments, 3)


def mean_error(chosen, found, strength, level):
    """Mean distance of the curves from the true ones of a price level."""
    traits = draw_traits(chosen)
    truth = true_win_rates(chosen, traits, level, found.counts.edges)
    return np.abs(found.curves(strength)[0] - truth).mean()


def test_curves_are_at_the_mean_level_of_the_days(fit):
    """Level 0 of the model is the mean of the planted levels, weighted by what is known."""
    chosen, _, found = fit
    shifts = day_shifts(chosen, draw_traits(chosen)).mean(axis=1)
    level = np.average(shifts - found.levels.values, weights=1 / found.levels.errors)
    right = mean_error(chosen, found, 100.0, level)
    assert right < 0.03
    assert right < 0.8 * min(mean_error(chosen, found, 100.0, level + d) for d in (-0.15, 0.15))


def test_curves_have_sensible_deviations(fit):
    """Most true curves are within three of them; all are distribution functions."""
    chosen, made, found = fit
    shifts = day_shifts(chosen, draw_traits(chosen)).mean(axis=1)
    level = np.average(shifts - found.levels.values, weights=1 / found.levels.errors)
    truth = true_win_rates(chosen, draw_traits(chosen), level, found.counts.edges)
    for strength in (10.0, 100.0, np.inf):
        win, spread = found.curves(strength)
        assert win.dtype == spread.dtype == np.float32
        assert win.shape == spread.shape == (len(made.segments), len(found.counts.edges))
        assert (win >= 0).all() and (win <= 1).all() and (np.diff(win, axis=1) >= -1e-6).all()
        assert (spread >= 0).all() and (spread <= 0.75).all()
        inner = (truth > 0.05) & (truth < 0.95)
        assert (np.abs(win - truth) < 3 * spread + 0.02)[inner].mean() > 0.9


def test_segment_curves_are_those_of_their_members(fit):
    """Rather than of others; a new advertiser is less certain than a known one."""
    _, made, found = fit
    win, spread = found.segment_curves()
    assert win.shape == spread.shape == (4, len(found.counts.edges))
    known, known_spread = found.curves(np.inf)
    for s in range(3):
        mine = made.segments == s
        near, far = (np.abs(win[s] - known[some].mean(axis=0)).max() for some in (mine, ~mine))
        assert near < 0.2 and near < 0.5 * far
        assert np.mean(spread[s]) > np.mean(known_spread[mine])
    overall = np.abs(win[3] - known.mean(axis=0)).max()
    assert overall < 0.1


def test_a_half_life_weighs_the_counts(fit):
    """Recent days count more; the atoms stay."""
    _, made, found = fit
    aged = found.with_half_life(1.0)
    weights = day_weights(made.histograms.days, 1.0)
    expected = count_auctions(made.histograms, weights=weights, shifts=found.levels.values)
    np.testing.assert_allclose(aged.counts.total, expected.total)
    assert aged.dictionary is found.dictionary
    assert np.abs(aged.curves(10.0)[0] - found.curves(10.0)[0]).max() > 0.01
    same = found.with_half_life(np.inf)
    np.testing.assert_array_equal(same.curves(10.0)[0], found.curves(10.0)[0])


def test_other_days_change_nothing():
    """A fit to some days is that of a log of these days."""
    made = market(RISING)
    some = [0, 1, 2, 3]
    alone = made.histograms.for_days(some)
    assert len(alone.advertisers) == len(made.segments)
    one = fit_market(made.histograms, some, made.segments, 3)
    other = fit_market(alone, [0, 1, 2, 3], made.segments, 3)
    np.testing.assert_allclose(one.curves(30.0)[0], other.curves(30.0)[0], atol=1e-6)


def test_a_long_log_takes_old_days_at_the_oldest_level_known():
    """Levels are kept for twelve weeks; a log may have more days."""
    made = market(replace(EASY, advertisers=20, days=90, bids_per_day=3))
    found = fit_market(made.histograms, list(range(90)), np.full(len(made.segments), -1), 0)
    assert len(found.levels.values) == 84
    levels = np.append(np.repeat(found.levels.values[0], 6), found.levels.values)
    expected = count_auctions(made.histograms, weights=np.ones(90), shifts=levels)
    np.testing.assert_array_equal(found.counts.total, expected.total)


def test_markets_without_segments():
    """Everybody has everybody's weights."""
    made = market(replace(RISING, days=2))
    none = np.full(len(made.segments), -1)
    found = fit_market(made.histograms, [0, 1], none, 0)
    win, spread = found.segment_curves()
    assert win.shape == spread.shape == (1, len(found.counts.edges))


WEEK = np.array([0.0, 0.01, 0.02, 0.01, 0.0, -0.05, -0.06])


def levels_of(values):
    """Measured levels of consecutive days."""
    return fit_levels(FIRST_DAY + np.arange(len(values)), values, np.full(len(values), 1e-5))


def steady(n):
    """Levels that only weekdays and a little noise move."""
    rng = np.random.default_rng(n)
    return WEEK[weekday_of(FIRST_DAY + np.arange(n))] + 0.01 * rng.standard_normal(n)


@pytest.mark.parametrize(("change", "at"), [(0.26, 3), (-0.35, 7), (0.8, 11)])
def test_a_lasting_change_is_found_with_its_day_and_size(change, at):
    """Of two weeks, over the weekdays; the sentence tells both."""
    found = price_drift(levels_of(steady(14) + np.where(np.arange(14) < at, 0, change)))
    assert found.since == str(FIRST_DAY + np.timedelta64(at, "D"))
    assert np.log1p(found.change) == pytest.approx(change, abs=0.06)
    assert f"{'rose' if change > 0 else 'fell'} by" in found.sentence
    assert found.since in found.sentence


@pytest.mark.parametrize("n", [1, 4, 7, 28])
def test_weekdays_and_noise_are_no_change(n):
    """However many days there are."""
    assert price_drift(levels_of(steady(n))) is None


@pytest.mark.parametrize("at", [5, 13])
def test_a_single_day_is_no_lasting_change(at):
    """Not in the middle, nor at the end, where it may yet last."""
    values = steady(14)
    values[at] += 0.5
    assert price_drift(levels_of(values)) is None


def test_small_changes_are_not_worth_a_warning():
    """Below a tenth."""
    assert price_drift(levels_of(np.repeat([0.0, 0.08], 7))) is None
    assert price_drift(levels_of(np.repeat([0.0, 0.12], 7))) is not None


def grid_of(edges, masses=(), revealed="minimum"):
    """What widened deviations read of histograms."""
    return SimpleNamespace(edges=edges, masses=np.array(masses, np.int64), revealed=revealed)


@pytest.mark.parametrize(
    ("revealed", "sides"), [("none", [1, 0, 1]), ("paid", [0, 0, 1]), ("minimum", [0, 0, 0])]
)
def test_errors_of_the_shape_grow_with_distance(revealed, sides):
    """By its square and the slope; not where prices are revealed."""
    grid = grid_of(np.array([1_000_000, 2_000_000, 4_000_000]), revealed=revealed)
    win = np.array([[0.1, 0.4, 0.5], [0.2, 0.2, 0.2]], dtype=np.float32)
    found = Widening(4.0).of(win, np.full((2, 3), 0.02, np.float32), grid, np.array([2e6, 0.0]))
    slope = np.array([0.3, 0.2, 0.1]) / np.log(2)
    moved = np.sqrt(_SHAPE) * np.log(2) ** 2 * np.array(sides) * slope
    np.testing.assert_allclose(found, [np.hypot(0.04, moved), [0.04] * 3], rtol=1e-5)


def test_deviations_grow_with_the_slope():
    """Those of an own level; no deviation is above a half, and a grid of one edge has no slope."""
    grid = grid_of(np.array([1_000_000, 2_000_000, 4_000_000]))
    win = np.array([[0.1, 0.4, 0.5], [0.2, 0.2, 0.2]], dtype=np.float32)
    spread, bid = np.full((2, 3), 0.02, dtype=np.float32), np.array([2e6, 0.0])
    np.testing.assert_array_equal(Widening().of(win, spread, grid, bid), spread)
    own = Widening(level=0.01).of(win, spread, grid, bid)
    slope = np.array([0.3, 0.2, 0.1]) / np.log(2)
    np.testing.assert_allclose(own, [np.hypot(0.02, 0.1 * slope), [0.02] * 3], rtol=1e-5)
    assert Widening(1e9).of(win, spread, grid, bid).max() == 0.5
    one = Widening(level=1.0).of(win[:, :1], spread[:, :1], grid_of(grid.edges[:1]), bid)
    np.testing.assert_array_equal(one, spread[:, :1])


def test_no_level_moves_a_mass():
    """The jump of a curve at a mass is no slope: deviations are those of the curve without it."""
    edges = np.array([1_000_000, 1_998_000, 2_000_000, 4_000_000])
    win = np.array([[0.1, 0.4, 0.7, 0.8]], dtype=np.float32)
    spread, bid = np.full((1, 4), 0.02, dtype=np.float32), np.array([2e6])
    own = Widening(level=0.01).of(win, spread, grid_of(edges, [2_000_000]), bid)
    kept = [0, 2, 3]
    smooth = Widening(level=0.01).of(
        win[:, kept] - [0, 0.3, 0.3], spread[:, kept], grid_of(edges[kept]), bid
    )
    np.testing.assert_allclose(own[:, kept], smooth, rtol=1e-5)
    assert own[0, 1] == own[0, 2]
