"""Effects recover what was planted, their intervals cover it, and odd logs are no trouble."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d
from scipy.special import ndtr

from coterie.ads.curves.auction_counts import log_edges
from coterie.ads.histograms.bid_histograms import bin_of
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.histograms.target_counts import BINS_TOGETHER, TargetCounts, sum_cells
from coterie.ads.logs.simulation.simulated_traits import draw_traits
from coterie.ads.targets.target_effects import (
    SHIFTS,
    Market,
    fit_targets,
    pool_factors,
    pool_shifts,
    shift_likelihood,
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
@pytest.mark.parametrize(("name", "least"), [("share", 0.95), ("shift", 0.85), ("click", 0.5)])
@pytest.mark.parametrize("auction", ["second", "first"])
def test_planted_effects_are_found(planted, auction, name, least):
    """Fitted means correlate with the planted effects."""
    model = targets_model(auction)
    found = getattr(model.targets_, name)[0]
    assert np.corrcoef(found.ravel(), planted[name].ravel())[0, 1] > least


def test_intervals_of_shares_and_shifts_cover(planted):
    """Intervals of 90% contain most planted shares and shifts."""
    effects = targets_model().targets_
    share, shift = effects.share, effects.shift
    relative = np.abs(np.log(share[0] / planted["share"]))
    assert 0.8 < (relative < 1.645 * share[1]).mean() < 0.99
    of_dimension = np.eye(2)[effects.dimension]
    centre = (planted["share"] * shift[0]) @ of_dimension @ of_dimension.T
    far = np.abs(shift[0] - centre - planted["shift"])
    assert 0.75 < (far < 1.645 * shift[1]).mean() < 0.99


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
    assert np.abs(found.shift[0] - model.targets_.shift[0]).mean() < 0.05


def test_an_advertiser_without_auctions_gets_its_segment():
    """Where nothing was counted, the effects are those of a new advertiser of its segments."""
    model, counts = targets_model(), counted_market().targets
    cells = counts.cells
    kept = cells.advertiser != 0
    fewer = type(cells)(**{name: part[kept] for name, part in vars(cells).items()})
    market = Market(model.edges_, model.win_, model.shares_, model.click_rate_, None)
    found = fit_targets(dataclasses.replace(counts, cells=fewer), market)
    own, new = found.of_row(0), found.of_new(model.shares_[0])
    for name in ("share", "shift", "click"):
        np.testing.assert_allclose(
            getattr(own, name)[0], getattr(new, name)[0], rtol=1e-3, atol=1e-4
        )


def test_the_values_of_an_unknown_dimension_are_refused():
    """The message names the dimensions that there are."""
    with pytest.raises(InvalidParameterError, match="device, country"):
        targets_model().targets_.columns("planet")


def counts_by(revealed: str, n: int, weight: float = 1.0) -> tuple[TargetCounts, np.ndarray]:
    """Auctions of one advertiser with three values, and its win curve before the shifts."""
    rng = np.random.default_rng(0)
    value = rng.integers(0, 3, n)
    price = 2e6 * np.exp(PLANTED[value] + 0.4 * rng.standard_normal(n))
    bid = 2e6 * np.exp(0.3 * rng.standard_normal(n))
    won = bid >= price
    known = {"paid": won, "minimum": np.ones(n, bool), "none": np.zeros(n, bool)}[revealed]
    zero, one = np.zeros(n), np.full(n, weight)
    bids = {"bids": one, "squares": one**2, "wins": won * one, "prices": zero}
    prices = {"bids": zero, "squares": zero, "wins": zero, "prices": known * one}
    columns = {name: np.concatenate([bids[name], prices[name]]) for name in bids}
    columns["bin"] = np.concatenate([bin_of(bid, WIDE), bin_of(price, WIDE)])
    columns["value"] = np.tile(value, 2)
    columns["advertiser"] = np.zeros(2 * n, dtype=int)
    cells = sum_cells(columns, (1, 3, len(WIDE)))
    names = np.array(["x", "y", "z"])
    counts = TargetCounts(
        np.array(["a"]), WIDE, ["d"], names, np.zeros(3, dtype=int), cells, revealed
    )
    win = ndtr(np.log(EDGES / 2e6) / 0.4)[None].astype(np.float32)
    return counts, win


@pytest.mark.parametrize("revealed", ["paid", "minimum", "none"])
def test_the_planted_shift_is_found(revealed):
    """With many auctions the mode is the planted shift, within three standard deviations."""
    counts, win = counts_by(revealed, 6_000)
    found = shift_likelihood(counts, win, EDGES, np.arange(3))
    mode, variance = found.mode(np.zeros(3), np.full(3, 0.25))
    # the curve is smoothed where prices are revealed, which costs a little
    assert (np.abs(mode - PLANTED) < 3 * np.sqrt(variance) + 0.03).all()
    assert (np.sqrt(variance) < 0.05).all()


def test_without_evidence_the_prior_remains():
    """Where the likelihood is flat, the mode and its variance are those of the prior."""
    counts, win = counts_by("none", 30)
    found = shift_likelihood(counts, win, EDGES, np.arange(3))
    flat = found._replace(values=np.zeros_like(found.values))
    mode, variance = flat.mode(np.full(3, 0.12), np.full(3, 0.04))
    np.testing.assert_allclose(mode, 0.12, atol=1e-6)
    np.testing.assert_allclose(variance, 0.04, rtol=1e-6)


@pytest.mark.parametrize("revealed", ["paid", "minimum", "none"])
def test_likelihoods_are_sums_over_auctions(revealed):
    """From the definition, cell by cell, with 2% of the auctions unlike the curve.

    Pairs of other values are left out, and a common weight of all rows changes nothing.
    """
    counts, win = counts_by(revealed, 60, weight=3.0)
    cells, asked = counts.cells, [0, 2]
    found = shift_likelihood(counts, win, EDGES, np.array(asked))
    assert found.value.tolist() == asked and found.values.shape == (2, len(SHIFTS))
    curve = win[0] if revealed == "none" else gaussian_filter1d(win[0], 10, mode="nearest")
    x, upper = log_edges(EDGES), np.log(WIDE)
    lower = np.append(2 * upper[0] - upper[1], upper[:-1])
    for row, place in np.ndindex(2, len(SHIFTS)):
        total = 0.0
        for i in np.flatnonzero(cells.value == asked[row]):
            amounts = np.array([lower[cells.bin[i]], upper[cells.bin[i]]])
            low, middle, high = np.interp(
                [amounts[0], amounts.mean(), amounts[1]] - SHIFTS[place], x, np.append(0, curve)
            )
            won = 0.98 * middle + 0.01
            lost = (cells.bids[i] - cells.wins[i]) * np.log(1 - won)
            if revealed == "none":
                total += cells.wins[i] * np.log(won) + lost
                continue
            mass = high - (low if cells.bin[i] else 0.0)
            total += cells.prices[i] * np.log(0.98 * mass + 0.02 / len(WIDE))
            total += lost if revealed == "paid" else 0.0
        assert found.values[row, place] == pytest.approx(total / 3, rel=1e-4)


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
