"""Effects recover what was planted, their intervals cover it, and odd logs are no trouble."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from coterie.ads.histograms.bid_histograms import bin_of
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.histograms.target_counts import BINS_TOGETHER, TargetCounts, sum_cells
from coterie.ads.logs.simulation.simulated_traits import draw_traits
from coterie.ads.targets.target_effects import (
    Market,
    fit_targets,
    interval_derivatives,
    pool_factors,
    pool_shifts,
    thresholds,
)
from coterie.errors import InvalidParameterError
from target_markets import DIVIDED, counted_market, targets_model

A, V, K = 600, 6, 5
EDGES = price_grid(100_000, 30_000_000)
WIDE = price_grid(100_000, 30_000_000, BINS_TOGETHER)
PLANTED = np.array([-0.4, 0.0, 0.3])


@pytest.fixture(scope="module")
def planted():
    """Planted shares, shifts and click factors, (60, V) each, in the order of the model."""
    model = targets_model()
    rows = [int(name.removeprefix("adv-")) for name in model.advertisers_]
    found = {}
    for name in ("share", "shift", "click"):
        parts = []
        for one in draw_traits(DIVIDED).effects:
            values = model.targets_.values[model.targets_.columns(one.name)]
            order = [one.values.index(value) for value in values]
            parts.append(getattr(one, name)[rows][:, order])
        found[name] = np.hstack(parts)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "true", "least"),
    [("share", "share", 0.95), ("score", "shift", 0.8), ("click", "click", 0.5)],
)
@pytest.mark.parametrize("auction", ["second", "first"])
def test_planted_effects_are_found(planted, auction, name, true, least):
    """Fitted means correlate with the planted effects; scores with shifts of log prices."""
    found = getattr(targets_model(auction).targets_, name)[0]
    assert np.corrcoef(found.ravel(), planted[true].ravel())[0, 1] > least


def test_intervals_of_shares_cover(planted):
    """Intervals of 90% contain most planted shares."""
    share = targets_model().targets_.share
    relative = np.abs(np.log(share[0] / planted["share"]))
    assert 0.8 < (relative < 1.645 * share[1]).mean() < 0.99


def test_shares_sum_to_one_and_unknown_events_change_nothing():
    """Without rates of events all factors are 1; shares of every dimension sum to 1."""
    model, counts = targets_model(), counted_market().targets
    market = Market(model.edges_, model.win_, model.shares_, None, None)
    found = fit_targets(counts, market)
    assert np.all(found.click[0] == 1)
    assert np.all(found.conversion[1] == 0)
    sums = found.share[0] @ np.eye(2)[found.dimension]
    np.testing.assert_allclose(sums, 1, atol=1e-5)
    # each is known better than by a binomial draw of its own auctions alone
    mean, sd = found.share
    with np.errstate(divide="ignore"):
        assert (sd < np.sqrt((1 - mean) / counts.totals("bids"))).all()


def test_an_error_of_the_curve_moves_no_effect():
    """Of a value, the shift is what sets it apart from the others."""
    model, counts = targets_model(), counted_market().targets
    x = np.log(model.edges_)
    moved = np.array([np.interp(x - 0.2, x, row) for row in model.win_]).astype(np.float32)
    market = Market(model.edges_, moved, model.shares_, model.click_rate_, None)
    found = fit_targets(counts, market)
    assert np.abs(found.score[0] - model.targets_.score[0]).mean() < 0.05


def test_an_advertiser_without_auctions_gets_its_segment():
    """Where nothing was counted, the effects are those of a new advertiser of its segments."""
    model, counts = targets_model(), counted_market().targets
    cells = counts.cells
    kept = cells.advertiser != 0
    fewer = type(cells)(**{name: part[kept] for name, part in vars(cells).items()})
    market = Market(model.edges_, model.win_, model.shares_, model.click_rate_, None)
    found = fit_targets(dataclasses.replace(counts, cells=fewer), market)
    own, new = found.of_row(0), found.of_new(model.shares_[0])
    for name in ("share", "score", "click"):
        np.testing.assert_allclose(
            getattr(own, name)[0], getattr(new, name)[0], rtol=1e-3, atol=1e-4
        )


def test_the_values_of_an_unknown_dimension_are_refused():
    """The message names the dimensions that there are."""
    with pytest.raises(InvalidParameterError, match="device, country"):
        targets_model().targets_.columns("planet")


def market_by(revealed: str, floor: float, shifts: np.ndarray = PLANTED) -> tuple[Any, ...]:
    """Return counts of 300 alike advertisers with three values, their market, and true win rates.

    Log prices are normal, of standard deviation 0.4 and with a mean that the value shifts, but not
    below the floor. The true rates are those at a bid of 2.
    """
    rng = np.random.default_rng(0)
    A, n = 300, 300 * 60
    row, value = np.arange(n) % A, rng.integers(0, 3, n)
    price = np.maximum(2e6 * np.exp(shifts[value] + 0.4 * rng.standard_normal(n)), floor)
    bid = 2e6 * np.exp(0.3 * rng.standard_normal(n))
    won = bid >= price
    known = {"paid": won, "minimum": np.ones(n, bool), "none": np.zeros(n, bool)}[revealed]
    zero, one = np.zeros(n), np.ones(n)
    bids = {"bids": one, "squares": one, "wins": won * one, "prices": zero}
    prices = {"bids": zero, "squares": zero, "wins": zero, "prices": known * one}
    columns = {name: np.concatenate([bids[name], prices[name]]) for name in bids}
    columns["bin"] = np.concatenate([bin_of(bid, WIDE), bin_of(price, WIDE)])
    columns["value"], columns["advertiser"] = np.tile(value, 2), np.tile(row, 2)
    cells = sum_cells(columns, (A, 3, len(WIDE)))
    names = np.array([f"a{a:03d}" for a in range(A)])
    counts = TargetCounts(
        names, WIDE, ["d"], np.array(["x", "y", "z"]), np.zeros(3, dtype=int), cells, revealed
    )
    of_values = ndtr((np.log(EDGES / 2e6)[:, None] - shifts) / 0.4) * (EDGES >= floor)[:, None]
    win = np.tile(of_values.mean(axis=1), (A, 1)).astype(np.float32)
    return counts, Market(EDGES, win, np.ones((A, 1)), None, None), ndtr(-shifts / 0.4)


@pytest.mark.parametrize("shifts", [PLANTED, 3 * PLANTED])
@pytest.mark.parametrize("floor", [0.0, 1.6e6])
@pytest.mark.parametrize("revealed", ["paid", "minimum", "none"])
def test_planted_win_rates_are_found(revealed, floor, shifts):
    """By value, near and far apart, with a floor that hides low prices and without one."""
    counts, market, true = market_by(revealed, floor, shifts)
    found = fit_targets(counts, market).of_row(0)
    z = ndtri(np.array([[np.interp(2e6, EDGES, market.win[0])]]))
    x = thresholds(z, np.full((1, 3), 1 / 3), found.score[:1])
    np.testing.assert_allclose(ndtr(x - found.score[0])[0], true, atol=0.04)


def test_without_auctions_nothing_is_known_of_scores():
    """All values have the score 0, and the deviation of the variances that are assumed."""
    counts, market, _ = market_by("paid", 0.0)
    no_cells = type(counts.cells)(**{name: part[:0] for name, part in vars(counts.cells).items()})
    found = fit_targets(dataclasses.replace(counts, cells=no_cells), market).of_row(0)
    np.testing.assert_allclose(found.score[0], 0, atol=1e-9)
    assert (found.score[1] > 0).all()


@settings(max_examples=50, deadline=None)
@given(
    z=st.lists(st.floats(-4, 4), min_size=1, max_size=5),
    parts=st.lists(st.tuples(st.floats(0.01, 1), st.floats(-3, 3)), min_size=1, max_size=5),
)
def test_win_rates_of_values_add_up(z, parts):
    """Σ π Φ(x − δ) = Φ(z); x rises with z, and is infinite where z is."""
    share, shift = np.array(parts).T
    share = share / share.sum()
    z = np.sort([-np.inf, *z, np.inf])
    x = thresholds(z[None], share[None], shift[None])[0]
    np.testing.assert_allclose(ndtr(x[:, None] - shift) @ share, ndtr(z), atol=1e-6)
    assert (x[1:] >= x[:-1] - 1e-6).all()


@settings(max_examples=50, deadline=None)
@given(low=st.floats(-6, 6), width=st.floats(0.01, 8))
def test_derivatives_are_those_of_the_likelihood(low, width):
    """By differences of log [Φ(high − δ) − Φ(low − δ)]; information is never negative."""
    ends = np.array([[low, -np.inf, low], [low + width, low, np.inf]])
    first, second = interval_derivatives(*ends)
    assert (second >= 0).all()

    def log_mass(shift):
        turned = np.where(ends[0] > 0, -ends[::-1], ends) + np.where(ends[0] > 0, shift, -shift)
        return np.log(ndtr(turned[1]) - ndtr(turned[0]))

    step = 1e-3
    below, here, above = (log_mass(shift) for shift in (-step, 0.0, step))
    np.testing.assert_allclose(first, (above - below) / (2 * step), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(second, (2 * here - below - above) / step**2, rtol=0.02, atol=1e-3)


@pytest.fixture(scope="module")
def segments():
    """Shares of advertisers in segments, the last column being that of none."""
    shares = np.zeros((A, K + 1))
    shares[np.arange(A), np.arange(A) % K] = 1.0
    return shares


@pytest.fixture(scope="module")
def planted_shifts(segments):
    """Shifts, noisy observations of them, and their information."""
    rng = np.random.default_rng(0)
    centre = 0.1 * rng.standard_normal(V)
    of_segments = centre + 0.25 * rng.standard_normal((K, V))
    shift = segments[:, :K] @ of_segments + 0.08 * rng.standard_normal((A, V))
    information = rng.choice([0.0, 4.0, 100.0, 2000.0], (A, V))
    noise = np.where(information > 0, 1 / np.sqrt(np.maximum(information, 1e-9)), 0.0)
    return shift, shift + noise * rng.standard_normal((A, V)), information


@pytest.fixture(scope="module")
def planted_factors(segments):
    """Factors, events and their expected numbers at a factor of 1."""
    rng = np.random.default_rng(1)
    of_segments = rng.gamma(8, 1 / 8, (K, V))
    factor = (segments[:, :K] @ of_segments) * rng.gamma(25, 1 / 25, (A, V))
    expected = rng.choice([0.0, 0.5, 5.0, 500.0], (A, V))
    return factor, rng.poisson(expected * factor).astype(float), expected


def test_variances_of_shifts_are_found(planted_shifts, segments):
    """The variation within and between segments is that planted, within a third."""
    _, x, information = planted_shifts
    found = pool_shifts(x, information, segments)
    assert np.sqrt(found.within) == pytest.approx(0.08, rel=0.33)
    assert np.sqrt(found.between) == pytest.approx(0.25, rel=0.33)
    # of a new advertiser of no segment in particular, both are unknown
    np.testing.assert_allclose(found.segment_sd[-1] ** 2, found.within + found.between)


def test_pooled_shifts_beat_own_and_segments(planted_shifts, segments):
    """Pooled shifts have a smaller error than own ones alone and than those of segments alone."""
    shift, x, information = planted_shifts
    found = pool_shifts(x, information, segments)
    known = information > 0
    error = np.square(found.mean - shift)[known].mean()
    assert error < np.square(x - shift)[known].mean()
    assert error < np.square(segments @ found.segment_mean - shift)[known].mean()


def test_intervals_of_shifts_cover(planted_shifts, segments):
    """Intervals of 90% contain about 90% of the shifts, those without evidence included."""
    shift, x, information = planted_shifts
    found = pool_shifts(x, information, segments)
    for some in (information == 0, information == 4, information == 2000):
        covered = np.abs(found.mean - shift)[some] < 1.645 * found.sd[some]
        assert 0.85 < covered.mean() < 0.95


def test_intervals_of_factors_cover(planted_factors, segments):
    """Intervals of 90% of the factors contain about 90% of them, for few events and for many."""
    factor, events, expected = planted_factors
    found = pool_factors(events, expected, segments)
    for some in (expected == 0, expected == 5, expected == 500):
        error = np.abs(found.mean / factor - 1)[some]
        assert 0.84 < (error < 1.645 * found.sd[some]).mean() < 0.97


def test_many_events_outweigh_the_segment():
    """With many events of its own, the factor of an advertiser is its own."""
    events, expected = np.full((3, 1), 1e6), np.array([[1e6], [2e6], [4e6]])
    found = pool_factors(events, expected, np.ones((3, 1)))
    np.testing.assert_allclose(found.mean, events / expected, rtol=0.01)


def test_without_any_events_factors_are_one():
    """A log without an event gives the factor 1 for all values."""
    zero = np.zeros((4, 3))
    found = pool_factors(zero, zero, np.ones((4, 1)))
    np.testing.assert_allclose(found.mean, 1.0)
    assert (found.sd > 0).all()


def test_the_order_of_advertisers_does_not_matter(planted_factors, segments):
    """Advertisers in another order get the same factors."""
    _, events, expected = planted_factors
    order = np.random.default_rng(3).permutation(A)
    one = pool_factors(events, expected, segments)
    other = pool_factors(events[order], expected[order], segments[order])
    np.testing.assert_allclose(other.mean, one.mean[order], rtol=1e-6)
