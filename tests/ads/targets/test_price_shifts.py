"""The likelihood of shifts peaks at the planted shift, for all kinds of logs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from coterie.ads.histograms.bid_histograms import bin_of
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.histograms.target_counts import BINS_TOGETHER, TargetCounts, sum_cells
from coterie.ads.targets.price_shifts import SHIFTS, shift_likelihood

EDGES = price_grid(100_000, 30_000_000)
WIDE = price_grid(100_000, 30_000_000, BINS_TOGETHER)
PLANTED = np.array([-0.4, 0.0, 0.3])


def counts_by(revealed: str, n: int, seed: int = 0) -> tuple[TargetCounts, np.ndarray]:
    """Auctions of one advertiser with three values, and its win curve before the shifts."""
    rng = np.random.default_rng(seed)
    value = rng.integers(0, 3, n)
    price = 2e6 * np.exp(PLANTED[value] + 0.4 * rng.standard_normal(n))
    bid = 2e6 * np.exp(0.3 * rng.standard_normal(n))
    won = bid >= price
    known = {"paid": won, "minimum": np.ones(n, bool), "none": np.zeros(n, bool)}[revealed]
    zero = np.zeros(n)
    bids = {"bids": np.ones(n), "squares": np.ones(n), "wins": won * 1.0, "prices": zero}
    prices = {"bids": zero, "squares": zero, "wins": zero, "prices": known * 1.0}
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


def test_more_auctions_are_more_certain():
    """Four times the auctions halve the standard deviation."""
    spreads = []
    for n in (2_000, 8_000):
        counts, win = counts_by("paid", n)
        found = shift_likelihood(counts, win, EDGES, np.arange(3))
        spreads.append(np.sqrt(found.mode(np.zeros(3), np.full(3, 1e3))[1]))
    np.testing.assert_allclose(spreads[0] / spreads[1], 2, rtol=0.25)


def test_without_evidence_the_prior_remains():
    """Where the likelihood is flat, the mode and its variance are those of the prior."""
    counts, win = counts_by("none", 30)
    found = shift_likelihood(counts, win, EDGES, np.arange(3))
    flat = found._replace(values=np.zeros_like(found.values))
    mode, variance = flat.mode(np.full(3, 0.12), np.full(3, 0.04))
    np.testing.assert_allclose(mode, 0.12, atol=1e-6)
    np.testing.assert_allclose(variance, 0.04, rtol=1e-6)


def test_only_the_values_asked_for_are_returned():
    """Pairs of other values are left out, and each has a likelihood at every shift."""
    counts, win = counts_by("paid", 200)
    found = shift_likelihood(counts, win, EDGES, np.array([2]))
    assert found.value.tolist() == [2]
    assert found.values.shape == (1, len(SHIFTS))
