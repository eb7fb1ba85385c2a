"""The dictionary of market curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from benchmarks.true_curves import true_win_rates
from coterie.ads.curves.auction_counts import AuctionCounts, count_auctions, log_edges
from coterie.ads.curves.landscapes import evidence_of, own_curves
from coterie.ads.curves.market_dictionary import (
    GROUP_STRENGTH,
    MarketDictionary,
    fit_dictionary,
    general_posterior,
    log_likelihood,
)
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.logs.simulation.simulated_traits import draw_traits
from markets import EASY, market

KINDS = {
    "second price": {},
    "first price": {"auction": "first"},
    "minimum logged": {"minimum_logged": True},
}
#: Few bids of each advertiser, and prices that are the same every day.
THIN = replace(
    EASY,
    advertisers=150,
    bids_per_day=12,
    days=3,
    within_segment=0.1,
    newcomers=0.0,
    weekday_effect=0.0,
)


@pytest.fixture(scope="module", params=KINDS)
def simulated(request):
    """A log of one kind with its counts, segments and dictionary."""
    chosen = replace(THIN, **KINDS[request.param])
    made = market(chosen)
    counts = count_auctions(made.histograms)
    return chosen, made, counts, fit_dictionary(counts, made.segments, 3)


def random_counts(seed, n=12, kind="second price"):
    """Auctions at random, on a short grid."""
    rng = np.random.default_rng(seed)
    edges = price_grid(1e6, 4e6)
    drawn = rng.poisson(0.3, (3, n, len(edges))) * 1.0
    if kind == "first price":
        drawn[0] = 0
    else:
        drawn[1] = 0
    return AuctionCounts(edges, *drawn)


def some_rows(counts, rows):
    """The counts of some advertisers."""
    parts = (part[rows] for part in (counts.revealed, counts.won, counts.lost))
    return AuctionCounts(counts.edges, *parts)


def test_atoms_are_distribution_functions(simulated):
    """Non-decreasing from 0 to 1, at the lower edge of the first bin and all upper edges."""
    *_, counts, found = simulated
    assert found.atoms.shape[1] == len(counts.edges) + 1
    assert (found.atoms >= 0).all() and (found.atoms <= 1 + 1e-12).all()
    assert (np.diff(found.atoms, axis=1) >= -1e-12).all()


def test_weights_and_posteriors_are_probabilities(simulated):
    """One row of weights for each segment and one for all; all rows sum to 1."""
    _, made, counts, found = simulated
    posterior = found.posterior(counts, made.segments)
    assert found.weights.shape == (4, len(found.atoms))
    assert posterior.shape == (len(made.segments), len(found.atoms))
    for rows in (found.weights, posterior):
        assert (rows >= 0).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1)


def test_curves_are_nearer_to_the_truth_than_own_curves(simulated):
    """In the mean over advertisers and bids from the lowest to the highest price."""
    chosen, made, counts, found = simulated
    curves, variance = found.curves(found.posterior(counts, made.segments))
    truth = true_win_rates(chosen, draw_traits(chosen), 0.0, counts.edges)
    assert len(made.histograms.advertisers) == len(truth)
    own = own_curves(evidence_of(made.histograms))
    error, of_own = (np.abs(curve - truth).mean() for curve in (curves[:, 1:], own))
    # own curves of 36 bids are off by about 0.06, and by more if only wins are known
    assert error < 0.6 * of_own and error < 0.032
    # advertisers are only near an atom, by about 0.02
    gap = np.abs(curves[:, 1:] - truth)
    assert (gap < 0.02 + 3 * np.sqrt(variance[:, 1:])).mean() > 0.9


def test_own_auctions_decide_between_atoms(simulated):
    """The curve of an advertiser of another segment follows its auctions, not its label."""
    _, made, counts, found = simulated
    wrong = (made.segments + 1) % 3
    right, other = (
        found.curves(found.posterior(some_rows(counts, [row]), labels[[row]]))[0][0]
        for row in [int(counts.total.argmax())]
        for labels in (made.segments, wrong)
    )
    assert np.abs(right - other).max() < 0.1


def test_the_order_of_advertisers_does_not_matter(simulated):
    """Permuted advertisers have permuted curves and the same weights."""
    _, made, counts, found = simulated
    order = np.random.default_rng(0).permutation(len(made.segments))
    again = fit_dictionary(some_rows(counts, order), made.segments[order], 3)
    np.testing.assert_allclose(again.atoms, found.atoms, atol=1e-6)
    np.testing.assert_allclose(again.weights, found.weights, atol=1e-4)
    curves, _ = found.curves(found.posterior(counts, made.segments))
    permuted, _ = again.curves(again.posterior(some_rows(counts, order), made.segments[order]))
    np.testing.assert_allclose(permuted, curves[order], atol=1e-5)


def test_the_names_of_segments_do_not_matter(simulated):
    """Renamed segments have renamed weights and the same curves."""
    _, made, counts, found = simulated
    name = np.array([2, 0, 1])
    again = fit_dictionary(counts, name[made.segments], 3)
    curves, _ = found.curves(found.posterior(counts, made.segments))
    renamed, _ = again.curves(again.posterior(counts, name[made.segments]))
    np.testing.assert_allclose(renamed, curves, atol=1e-5)
    of_segments, _ = found.curves(found.weights)
    same, _ = again.curves(again.weights)
    np.testing.assert_allclose(same[[2, 0, 1, 3]], of_segments, atol=1e-5)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from(["second price", "first price"]))
def test_likelihoods_are_sums_over_auctions(seed, kind):
    """By brute force: the logarithm of each auction's probability, one auction at a time.

    No probability is taken to be less than 1e-7, nor that of a bid to be more than 1 - 1e-7.
    """
    counts = random_counts(seed, 3, kind)
    rng = np.random.default_rng(seed)
    atoms = np.sort(rng.random((4, len(counts.edges) + 1)), axis=1)
    found = log_likelihood(counts, atoms)
    for a in range(3):
        for j, atom in enumerate(atoms):
            total = 0.0
            for g in range(len(counts.edges)):
                lower, upper = atom[g], atom[g + 1]
                middle = min(max((lower + upper) / 2, 1e-7), 1 - 1e-7)
                total += counts.revealed[a, g] * np.log(max(upper - lower, 1e-7))
                total += counts.won[a, g] * np.log(middle)
                total += counts.lost[a, g] * np.log(1 - middle)
            assert found[a, j] == pytest.approx(total)


@settings(max_examples=15)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["second price", "first price"]),
    st.integers(0, 3),
    st.integers(1, 12),
)
def test_any_counts_have_a_dictionary(seed, kind, n_segments, n):
    """Also with segments that nobody is in, and advertisers in none."""
    counts = random_counts(seed, n, kind)
    segments = np.random.default_rng(seed).integers(-1, max(n_segments, 0), n)
    found = fit_dictionary(counts, segments, n_segments)
    assert found.weights.shape == (n_segments + 1, len(found.atoms))
    mean, variance = found.curves(found.posterior(counts, segments))
    assert np.isfinite(mean).all() and (np.diff(mean, axis=1) >= -1e-12).all()
    assert (variance >= 0).all() and (variance <= 0.25 + 1e-12).all()


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(0.1, 3e4))
def test_auctions_of_large_advertisers_count_less(seed, scale):
    """The posterior is ∝ w · exp(L / (1 + n / 1000)), because nobody is exactly at an atom."""
    counts = random_counts(seed, 4)
    counts = AuctionCounts(
        counts.edges, *(scale * part for part in list(vars(counts).values())[1:])
    )
    rng = np.random.default_rng(seed)
    atoms = np.sort(rng.random((3, len(counts.edges) + 1)), axis=1)
    found = MarketDictionary(atoms, rng.dirichlet([1, 1, 1], 3))
    segments = np.array([1, 0, -1, 1])
    logarithm = log_likelihood(counts, atoms) / (1 + counts.total / 1000)[:, None]
    score = logarithm + np.log(found.weights[segments])
    expected = np.exp(score - score.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.posterior(counts, segments), expected, atol=1e-9)


@pytest.mark.parametrize("kind", [(1, 0, 1), (0, 1, 1), (1, 0, 0), (0, 0, 1)])
def test_one_bin_or_no_auction_is_enough(kind):
    """A log in which all bids are equal, and one without wins."""
    parts = [np.ones((2, 1)) if is_there else np.zeros((2, 1)) for is_there in kind]
    one = AuctionCounts(np.array([2_000_000]), *parts)
    edges = price_grid(1e6, 2e6)
    nobody = AuctionCounts(edges, *(np.zeros((2, len(edges))) for _ in range(3)))
    for counts in (one, nobody):
        found = fit_dictionary(counts, np.array([-1, -1]), 0)
        mean, _ = found.curves(found.posterior(counts, np.array([-1, -1])))
        assert mean.shape == (2, len(counts.edges) + 1) and np.isfinite(mean).all()


def test_the_weights_of_all_maximise_the_likelihood():
    """At the maximum, Σ_a exp(L_aj) / Σ_i w_i exp(L_ai) is A for atoms in use, and less for others.

    These are the conditions of Karush, Kuhn and Tucker of a convex problem.
    """
    counts = count_auctions(market(THIN).histograms)
    found = fit_dictionary(counts, np.full(len(counts.total), -1), 0)
    tempered = log_likelihood(counts, found.atoms) / (1 + counts.total / 1000)[:, None]
    likelihood = np.exp(tempered - tempered.max(axis=1, keepdims=True))
    weights = found.weights[-1]
    gradient = (likelihood / (likelihood @ weights)[:, None]).mean(axis=0)
    assert weights @ gradient == pytest.approx(1)
    assert (gradient[weights > 0.01] > 0.95).all()
    # not all atoms have converged, but no one would gain much
    assert gradient.max() < 1.1


def test_a_small_segment_has_nearly_the_weights_of_all():
    """All advertisers count as so many members of each segment."""
    made = market(THIN)
    counts = count_auctions(made.histograms)
    segments = np.where(np.arange(len(counts.total)) == int(counts.total.argmin()), 0, -1)
    found = fit_dictionary(counts, segments, 1)
    apart = np.abs(found.weights[0] - found.weights[-1]).sum() / 2
    assert 0 < apart <= 1 / (1 + GROUP_STRENGTH) + 1e-6


def test_general_atoms_are_shifted_and_scaled_copies_of_one_shape():
    """Without rounds the shape is normal: the quantiles of each atom lie on a straight line."""
    counts = count_auctions(market(THIN).histograms)
    atoms, likelihood, posterior = general_posterior(counts, rounds=0)
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    np.testing.assert_allclose(likelihood, log_likelihood(counts, atoms))
    x = log_edges(counts.edges)
    straight = 0
    for atom in atoms:
        inner = (atom > 0.01) & (atom < 0.99)
        if inner.sum() > 4:
            z, at = ndtri(atom[inner]), x[inner]
            line = np.polynomial.Polynomial.fit(at, z, 1)
            np.testing.assert_allclose(line(at), z, atol=0.01)
            straight += 1
    assert straight > 20


@pytest.mark.parametrize("most", [0, 200_000])
def test_a_segment_has_a_curve_of_its_own_shape(most):
    """Prices around 1 and 4, which no general atom has; the largest member does not decide it."""
    edges = price_grid(0.3e6, 12e6)
    shift = np.random.default_rng(1).uniform(0, 0.4, 40)[:, None]
    x = np.log(edges)

    def near(price, moved=0.0):
        return np.exp(-0.5 * ((x - np.log(price) - moved) / 0.12) ** 2)

    prices = near(1e6, shift) + near(4e6, shift)
    prices /= prices.sum(axis=1, keepdims=True)
    largest = most * near(2e6) / near(2e6).sum()
    revealed, nothing = np.vstack([100 * prices, largest]), np.zeros((41, len(edges)))
    counts = AuctionCounts(edges, revealed, nothing, nothing)
    error = []
    for n_segments in (1, 0):
        segments = np.full(41, n_segments - 1)
        found = fit_dictionary(counts, segments, n_segments)
        curves, _ = found.curves(found.posterior(counts, segments))
        error.append(np.abs(curves[:40, 1:] - np.cumsum(prices, axis=1)).mean())
    assert error[0] < 0.01 < error[1]


def test_campaigns_of_one_advertiser_are_alike(simulated):
    """A campaign without auctions is expected to have the curve of its siblings."""
    _, made, counts, found = simulated
    rows = np.flatnonzero(made.segments == 1)[:4]
    some = some_rows(counts, np.append(rows, rows[:1]))
    for part in (some.revealed, some.won, some.lost):
        part[4] = 0.0  # a fifth campaign, without auctions
    nowhere = np.full(5, -1)
    of_all, _ = found.curves(found.posterior(some, nowhere))
    apart, _ = found.curves(found.posterior(some, nowhere, np.array(["a", "b", "c", "d", "e"])))
    together, _ = found.curves(found.posterior(some, nowhere, np.array(["a"] * 5)))
    siblings = of_all[:4].mean(axis=0)
    assert np.abs(together[4] - siblings).max() < 0.5 * np.abs(of_all[4] - siblings).max()
    np.testing.assert_allclose(apart[4], of_all[4], atol=1e-6)
    np.testing.assert_allclose(found.posterior(some, nowhere, np.array(["a"] * 5)).sum(axis=1), 1)
