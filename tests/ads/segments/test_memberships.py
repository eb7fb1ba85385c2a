"""Memberships: expectation–maximisation over curves, sizes and votes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.curves.landscapes import Evidence, evidence_of
from coterie.ads.curves.pooling import SEGMENT_STRENGTH, overall_rate, segment_rates
from coterie.ads.segments.memberships import hard_memberships, learn_memberships
from coterie.inspection.scores import adjusted_rand_index
from markets import EASY, market


def thin_evidence(a=40, g=8, seed=0, form="hazard"):
    """Two kinds of advertisers with at most 200 bids each, below the limit of the likelihood."""
    rng = np.random.default_rng(seed)
    kind = np.arange(a) % 2
    trials = np.sort(rng.integers(1, 60, (a, g)), axis=1)[:, ::-1].astype(float)
    rate = np.where(kind[:, None] == 0, np.linspace(0.05, 0.5, g), np.linspace(0.5, 0.05, g))
    successes = rng.binomial(trials.astype(int), rate).astype(float)
    edges = np.arange(1, g + 1)
    evidence = Evidence(form, "price", edges, successes, trials, edges * 1.0, trials[:, 0])
    return evidence, kind


def penalised_likelihood(evidence, memberships, votes=()):
    """What expectation–maximisation is to raise, from the definition.

    The log-likelihood of the mixture, with sizes p that need not sum to 1 (less A·Σp, as for
    Poisson numbers of members), the least size 0.02 of "no segment", the Beta prior of the
    segments' rates around those of all, and the prior of one vote a cell.
    """
    informed = evidence.observations > 0
    sizes = np.maximum(memberships.shares[informed].mean(axis=0), 1e-6)
    sizes[-1] = max(sizes[-1], 0.02)
    q = np.clip(memberships.rates, 1e-9, 1 - 1e-9)
    overall = overall_rate(evidence)[0]
    prior = SEGMENT_STRENGTH * (overall * np.log(q[:-1]) + (1 - overall) * np.log(1 - q[:-1])).sum()
    log_p = np.zeros(memberships.shares.shape)
    for a, s in np.ndindex(log_p.shape):
        x, y = evidence.successes[a], evidence.trials[a]
        log_p[a, s] = np.log(sizes[s]) + (x * np.log(q[s]) + (y - x) * np.log(1 - q[s])).sum()
    for column in votes:
        table = np.ones((column.max() + 1, log_p.shape[1]))
        for a in np.flatnonzero((column >= 0) & informed):
            table[column[a]] += memberships.shares[a]
        table /= table.sum(axis=0)
        prior += np.log(table).sum()
        log_p[column >= 0] += np.log(table[column[column >= 0]])
    mixture = np.logaddexp.reduce(log_p, axis=1)[informed].sum()
    return mixture - informed.sum() * sizes.sum() + prior


@pytest.mark.parametrize("form", ["hazard", "rate"])
@pytest.mark.parametrize("with_votes", [False, True])
def test_every_step_raises_the_penalised_likelihood(form, with_votes):
    """Below the limit and with one partition per view, it is exact expectation–maximisation."""
    evidence, _ = thin_evidence(seed=2, form=form)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 40)
    votes = [rng.integers(-1, 4, 40)] if with_votes else []
    reached = [
        penalised_likelihood(
            evidence,
            learn_memberships(
                evidence, labels, [v[:, None] for v in votes], max_iter=steps, tol=0.0
            ),
            votes,
        )
        for steps in range(1, 12)
    ]
    assert (np.diff(reached) >= -1e-8).all()
    assert reached[-1] > reached[0] + 1


def test_one_step_from_the_definition():
    """Shares are proportional to size × likelihood × votes of the start."""
    evidence, _ = thin_evidence(a=6, g=3)
    labels = np.array([0, 1, 0, 1, 1, -1])
    votes = np.array([[0, 0], [1, 1], [0, -1], [1, 0], [-1, 1], [0, 0]])
    start = np.zeros((6, 3))
    start[np.arange(5), labels[:5]] = 1
    start[5] = 0.4, 0.6, 0
    rates = np.vstack([segment_rates(evidence, start[:, :2]), overall_rate(evidence)])
    sizes = start.mean(axis=0)
    sizes[2] = 0.02
    score = np.zeros((6, 3))
    for a, s in np.ndindex(6, 3):
        x, y, q = evidence.successes[a], evidence.trials[a], rates[s]
        score[a, s] = np.log(sizes[s]) + (x * np.log(q) + (y - x) * np.log(1 - q)).sum()
        for column in votes.T:
            if column[a] >= 0:
                said = [start[(column == c), s].sum() + 1 for c in range(column.max() + 1)]
                score[a, s] += np.log(said[column[a]] / sum(said)) / 2
    expected = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    found = learn_memberships(evidence, labels, [votes], max_iter=1)
    np.testing.assert_allclose(found.shares, expected, atol=1e-12)
    np.testing.assert_allclose(found.rates[:2], segment_rates(evidence, expected[:, :2]))
    assert found.n_iter == 1


def test_planted_segments_are_found_again():
    """The start has three in ten advertisers in wrong segments."""
    made = market(EASY)
    evidence = evidence_of(made.histograms)
    rng = np.random.default_rng(0)
    start = np.where(rng.random(90) < 0.3, rng.integers(0, 3, 90), made.segments)
    assert adjusted_rand_index(start, made.segments) < 0.7
    found = learn_memberships(evidence, start, max_observations=2000)
    assert adjusted_rand_index(found.labels, made.segments) >= 0.95
    assert found.n_iter < 30


def test_a_random_view_has_almost_no_effect():
    """Random votes change no label and hardly any share."""
    made = market(EASY)
    evidence = evidence_of(made.histograms)
    random = np.random.default_rng(5).integers(0, 3, (90, 1))
    without = learn_memberships(evidence, made.segments)
    with_it = learn_memberships(evidence, made.segments, [random])
    assert adjusted_rand_index(with_it.labels, without.labels) > 0.95
    assert np.abs(with_it.shares - without.shares).mean() < 0.02


def test_votes_decide_without_evidence():
    """Advertisers without bids follow a reliable view."""
    made = market(EASY)
    evidence = evidence_of(made.histograms, [0, 1, 2])
    silent = np.flatnonzero(evidence.observations <= 0)
    assert len(silent) > 0
    start = made.segments.copy()
    start[silent] = -1
    right = learn_memberships(evidence, start, [made.segments[:, None]])
    np.testing.assert_array_equal(right.labels[silent], made.segments[silent])
    assert right.shares[silent, made.segments[silent]].min() > 0.8
    alone = learn_memberships(evidence, start)
    sizes = alone.shares[evidence.observations > 0].mean(axis=0)
    sizes[-1] = max(sizes[-1], 0.02)
    np.testing.assert_allclose(
        alone.shares[silent], np.tile(sizes / sizes.sum(), (len(silent), 1)), atol=0.01
    )


def test_advertisers_without_evidence_do_not_affect_others():
    """Their number and votes change no other share."""
    evidence, kind = thin_evidence()
    votes = np.arange(40) % 3
    rng = np.random.default_rng(0)

    def with_silent(part):
        return np.concatenate([part, np.zeros((25, *part.shape[1:]))])

    more = Evidence(
        "hazard",
        "price",
        evidence.edges,
        with_silent(evidence.successes),
        with_silent(evidence.trials),
        evidence.price,
        with_silent(evidence.observations),
    )
    steps = {"max_iter": 6, "tol": 0.0}
    alone = learn_memberships(evidence, kind, [votes[:, None]], **steps)
    labels = np.append(kind, np.zeros(25, dtype=np.int64))
    said = np.append(votes, rng.integers(0, 3, 25))
    among = learn_memberships(more, labels, [said[:, None]], **steps)
    np.testing.assert_allclose(among.shares[:40], alone.shares, atol=1e-12)
    np.testing.assert_allclose(among.rates, alone.rates, atol=1e-12)


def test_partitions_of_a_view_count_together_as_one():
    """The same partition five times equals the partition once."""
    evidence, kind = thin_evidence()
    votes = kind[:, None]
    once = learn_memberships(evidence, kind, [votes])
    often = learn_memberships(evidence, kind, [np.repeat(votes, 5, axis=1)])
    np.testing.assert_allclose(often.shares, once.shares, atol=1e-9)


def test_missing_labels_and_votes():
    """A label of −1 is an unknown start, and a vote of −1 is ignored."""
    evidence, kind = thin_evidence()
    start = np.where(np.arange(40) < 10, -1, kind)
    found = learn_memberships(evidence, start)
    assert adjusted_rand_index(found.labels, kind) == 1
    silent = np.full((40, 2), -1)
    same = learn_memberships(evidence, start, [silent, np.empty((40, 0), dtype=np.int64)])
    np.testing.assert_allclose(same.shares, found.shares)


@settings(deadline=None, max_examples=15)
@given(st.permutations(range(12)))
def test_the_order_of_advertisers_does_not_matter(order):
    """Permuted advertisers have permuted shares."""
    evidence, kind = thin_evidence(a=12)
    votes = np.arange(12)[:, None] % 3
    found = learn_memberships(evidence, kind, [votes])
    permuted = learn_memberships(evidence.rows(order), kind[order], [votes[order]])
    np.testing.assert_allclose(permuted.shares, found.shares[order], atol=1e-7)
    np.testing.assert_allclose(permuted.rates, found.rates, atol=1e-7)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.integers(-1, 3), min_size=12, max_size=12),
    st.lists(st.integers(-1, 2), min_size=12, max_size=12),
    st.floats(0, 1e5),
)
def test_shares_are_valid_for_any_start(labels, votes, scale):
    """Rows have values from 0 to 1 and sum to 1."""
    evidence, _ = thin_evidence(a=12)
    scaled = Evidence(
        "hazard",
        "price",
        evidence.edges,
        evidence.successes * scale,
        evidence.trials * scale,
        evidence.price,
        evidence.observations * scale,
    )
    found = learn_memberships(
        scaled, np.array(labels), [np.array(votes)[:, None]], max_observations=2000
    )
    assert found.shares.shape == (12, max(labels) + 2)
    assert found.shares.min() >= 0
    np.testing.assert_allclose(found.shares.sum(axis=1), 1)
    assert np.isfinite(found.rates).all() and found.rates.min() >= 0 and found.rates.max() <= 1
    assert ((found.labels >= -1) & (found.labels <= max(labels))).all()
    assert np.isfinite(found.prior).all() and found.prior.min() >= 0 and found.prior.max() <= 1


def test_hard_memberships_are_the_labels():
    """A label of −1 gives the last column."""
    evidence, kind = thin_evidence(a=10)
    labels = np.where(np.arange(10) < 2, -1, kind)
    found = hard_memberships(evidence, labels)
    np.testing.assert_array_equal(found.labels[2:], kind[2:])
    np.testing.assert_array_equal(found.shares.sum(axis=1), 1)
    np.testing.assert_allclose(found.prior[0], overall_rate(evidence)[0])
    np.testing.assert_allclose(found.prior[2], segment_rates(evidence, np.eye(3)[labels])[kind[2]])


def test_without_segments_there_is_one_column():
    """Labels of −1 give one column of ones."""
    evidence, _ = thin_evidence(a=4)
    nobody = np.full(4, -1)
    for found in (hard_memberships(evidence, nobody), learn_memberships(evidence, nobody)):
        assert found.shares.tolist() == [[1.0]] * 4
        assert found.labels.tolist() == [-1] * 4
        np.testing.assert_allclose(found.prior, np.tile(overall_rate(evidence), (4, 1)))


def test_evidence_counts_up_to_two_hundred_observations():
    """Ten times as many bids with equal rates give the same shares."""
    size = np.array([200.0, 2000.0, 200.0, 2000.0])
    trials = size[:, None] * [[0.5, 0.5]]
    successes = trials * np.array([[0.2, 0.4], [0.2, 0.4], [0.3, 0.5], [0.3, 0.5]])
    edges = np.array([10, 20])
    evidence = Evidence("rate", "bid", edges, successes, trials, edges * 1.0, size)
    found = learn_memberships(evidence, np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(found.shares[[0, 2]], found.shares[[1, 3]], atol=1e-9)
    assert 0.5 < found.shares[1, 0] < 0.999
