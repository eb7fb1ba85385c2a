"""Memberships: expectation–maximisation over curves, sizes and votes; candidates by source."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.curves.landscapes import Evidence, evidence_of
from coterie.ads.curves.shrinkage import SEGMENT_STRENGTH, overall_rate, segment_rates
from coterie.ads.fitting.backtest import training_on
from coterie.ads.segments.memberships import (
    FEWEST_BIDS,
    FEWEST_MEMBERS,
    SOURCES,
    Memberships,
    candidates,
    consensus_function,
    consensus_labels,
    hard_memberships,
    learn_memberships,
    robust_memberships,
    sizable_segments,
)
from coterie.ads.segments.views import View
from coterie.consensus import L2Consensus
from coterie.consensus.robust import RobustConsensus
from coterie.errors import InvalidParameterError
from coterie.inspection.scores import adjusted_rand_index
from markets import EASY, QUICK, description_vectors, market

THREE = replace(QUICK, n_segments=3)
UNUSUAL = replace(QUICK, max_observations=15, random_state=3)
OF_ADVERTISERS = ("successes", "trials", "observations")


def thin_evidence(a=40, g=8, seed=0, form="hazard"):
    """Two kinds of advertisers with at most 200 bids each."""
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
        weight = 50 / (evidence.observations[a] + 50)
        score[a, s] = (x * np.log(q) + (y - x) * np.log(1 - q)).sum() * weight + np.log(sizes[s])
        for column in votes.T:
            if column[a] >= 0:
                said = [start[(column == c), s].sum() + 1 for c in range(column.max() + 1)]
                score[a, s] += np.log(said[column[a]] / sum(said)) / 2
    expected = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    found = learn_memberships(evidence, labels, [votes], max_iter=1)
    np.testing.assert_allclose(found.shares, expected, atol=1e-12)
    np.testing.assert_allclose(found.rates[:2], segment_rates(evidence, expected[:, :2]))


def test_planted_segments_are_found_again():
    """The start has three in ten advertisers in wrong segments."""
    made = market(EASY)
    evidence = evidence_of(made.histograms)
    rng = np.random.default_rng(0)
    start = np.where(rng.random(90) < 0.3, rng.integers(0, 3, 90), made.segments)
    assert adjusted_rand_index(start, made.segments) < 0.7
    found = learn_memberships(evidence, start, max_observations=2000)
    assert adjusted_rand_index(found.labels, made.segments) >= 0.95


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

    more = replace(
        evidence, **{name: with_silent(getattr(evidence, name)) for name in OF_ADVERTISERS}
    )
    steps = {"max_iter": 6, "tol": 0.0}
    alone = learn_memberships(evidence, kind, [votes[:, None]], **steps)
    labels = np.append(kind, np.zeros(25, dtype=np.int64))
    said = np.append(votes, rng.integers(0, 3, 25))
    among = learn_memberships(more, labels, [said[:, None]], **steps)
    np.testing.assert_allclose(among.shares[:40], alone.shares, atol=1e-12)
    np.testing.assert_allclose(among.rates, alone.rates, atol=1e-12)


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
    parts = {name: getattr(evidence, name)[order] for name in OF_ADVERTISERS}
    permuted = learn_memberships(replace(evidence, **parts), kind[order], [votes[order]])
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
    scaled = replace(evidence, **{name: scale * getattr(evidence, name) for name in OF_ADVERTISERS})
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


def test_small_segments_go_to_the_next_largest_share():
    """By brute force: a segment of few members or bids is dropped, until all are large enough."""
    rng = np.random.default_rng(1)
    shares = rng.dirichlet([3.0, 1.0, 1.0, 0.4, 2.0, 0.5], 60)
    observations = rng.choice([0.0, 4.0, 30.0], 60)
    found = sizable_segments(Memberships(shares, np.eye(6), "hazard"), observations)
    kept = list(range(5))
    while True:
        labels = np.array(kept)[shares[:, kept].argmax(axis=1)]
        sizes = {s: (labels == s).sum() for s in kept}
        bids = {s: observations[labels == s].sum() for s in kept}
        large = [s for s in kept if sizes[s] >= FEWEST_MEMBERS and bids[s] >= FEWEST_BIDS]
        large.sort(key=lambda s: -sizes[s])
        if sorted(large) == sorted(kept):
            break
        kept = sorted(large)
    assert 1 < len(kept) < 5
    np.testing.assert_array_equal(np.array(large)[found.labels], labels)
    np.testing.assert_array_equal(found.rates, np.eye(6)[[*large, 5]])
    expected = shares[:, [*large, 5]]
    np.testing.assert_allclose(found.shares, expected / expected.sum(axis=1, keepdims=True))


@pytest.fixture(scope="module")
def training():
    """Evidence and views of the training days of an easy market."""
    made = market(EASY)
    vectors = description_vectors(made.histograms, made.descriptions)
    return training_on(made.histograms, [0, 1, 2], vectors, QUICK)


@pytest.fixture(scope="module")
def offered(training):
    """All candidates, by settings other than the usual ones."""
    return list(candidates(training.views, training.evidence, UNUSUAL))


def view_of(name, *partitions):
    """A view of partitions given as lists."""
    columns = np.array(partitions).T
    return View(name, columns, [{"k": i} for i in range(len(partitions))], {}, {})


def test_candidates_come_source_by_source(offered, training):
    """One candidate per partition of a view, and one per number of segments."""
    by_source = {source: [c for c in offered if c.source == source] for source in SOURCES}
    assert [c.source for c in offered] == [s for s in SOURCES for _ in by_source[s]]
    assert {source: len(found) for source, found in by_source.items()} == {
        "own": 1,
        "global": 1,
        "text": 2,
        "win": 2,
        "cost": 2,
        "l2": 2,
        "robust": 2,
    }
    assert len({c.key for c in offered}) == len(offered)
    for source in ("text", "win", "cost"):
        view = training.views[source]
        for candidate, labels in zip(by_source[source], view.partitions.T, strict=True):
            expected = hard_memberships(training.evidence, labels, 15)
            np.testing.assert_array_equal(candidate.memberships.shares, expected.shares)
            np.testing.assert_allclose(candidate.memberships.rates, expected.rates)
    for k, averaged, robust in zip((3, 4), by_source["l2"], by_source["robust"], strict=True):
        assert dict(averaged.settings) == dict(robust.settings) == {"k": k}
        labels, _ = consensus_labels(training.views, L2Consensus(k, random_state=3))
        expected = hard_memberships(training.evidence, labels, 15)
        np.testing.assert_array_equal(averaged.memberships.shares, expected.shares)
        np.testing.assert_allclose(averaged.memberships.rates, expected.rates)
        labels, _ = consensus_labels(training.views, consensus_function(None, k, 3))
        expected = robust_memberships(training.views, training.evidence, labels, 15)
        np.testing.assert_array_equal(robust.memberships.shares, expected.shares)
        np.testing.assert_allclose(robust.memberships.rates, expected.rates)


def test_own_and_global_have_no_segments(offered, training):
    """All advertisers are pooled with the curve of all."""
    for candidate in offered[:2]:
        assert candidate.settings == ()
        assert candidate.memberships.shares.shape == (90, 1)
        np.testing.assert_allclose(
            candidate.memberships.prior[7], overall_rate(training.evidence)[0]
        )


def test_the_two_consensus_sources_find_what_was_planted(offered):
    """Nearly all advertisers with training data are in their segments."""
    made = market(EASY)
    there = made.histograms.daily("count")[:, :3].sum(axis=1) > 0
    for source in ("l2", "robust"):
        found = next(c for c in offered if c.source == source).memberships.labels
        assert adjusted_rand_index(found[there], made.segments[there]) > 0.9


def test_sources_can_be_chosen(training):
    """They are in the given order; sources without views are left out."""
    found = candidates(training.views, training.evidence, THREE, ("l2", "own"))
    assert [c.source for c in found] == ["l2", "own"]
    without = candidates({}, training.evidence, THREE)
    assert [c.source for c in without] == ["own", "global"]
    only_market = {"market": training.views["market"]}
    found = candidates(only_market, training.evidence, THREE, ("win", "l2"))
    assert [c.source for c in found] == ["l2"]


@pytest.mark.parametrize("sources", [("own", "robst"), ("market",), ()])
def test_unknown_sources_are_refused(training, sources):
    """The message lists the sources."""
    with pytest.raises(InvalidParameterError, match="own, global, text"):
        list(candidates(training.views, training.evidence, THREE, sources))


def test_a_given_consensus_function_replaces_the_robust_one(training):
    """It gets the number of segments, and the given object is not changed."""
    mine = L2Consensus(n_clusters=7, random_state=3)
    chosen = replace(QUICK, n_segments=4, consensus=mine)
    (found,) = candidates(training.views, training.evidence, chosen, ("robust",))
    labels, _ = consensus_labels(training.views, L2Consensus(4, random_state=3))
    expected = robust_memberships(training.views, training.evidence, labels, 2000)
    np.testing.assert_allclose(found.memberships.shares, expected.shares)
    assert mine.n_clusters == 7 and not hasattr(mine, "labels_")


def test_the_default_consensus_function_is_the_robust_one():
    """It is unfitted, with the given number and seed."""
    function = consensus_function(None, 5, random_state=9)
    assert isinstance(function, RobustConsensus)
    assert function.n_clusters == 5 and function.random_state == 9
    assert not hasattr(function, "labels_")


def test_consensus_ignores_empty_rows_and_columns():
    """Advertisers without labels get −1, partitions without labels the weight 0."""
    first, second = [0, 0, 1, 1, -1, 2], [0, 0, 1, 1, -1, 1]
    views = {
        "text": view_of("text", first, [-1] * 6),
        "win": view_of("win", second, first),
    }
    function = RobustConsensus(2, relaxation="l2", random_state=0)
    labels, weights = consensus_labels(views, function)
    placed = [0, 1, 2, 3, 5]
    partitions = np.array([first, second, first]).T[placed]
    expected = RobustConsensus(2, relaxation="l2", random_state=0).fit(partitions)
    assert labels[4] == -1
    np.testing.assert_array_equal(labels[placed], expected.labels_)
    np.testing.assert_allclose(weights[[0, 2, 3]], expected.partition_weights_)
    assert weights[1] == 0
    assert not hasattr(function, "labels_")


def test_without_labels_there_is_no_consensus():
    """Labels are −1, and weights are None."""
    labels, weights = consensus_labels({"win": view_of("win", [-1, -1, -1])}, L2Consensus(2))
    assert labels.tolist() == [-1, -1, -1] and weights is None


def test_only_texts_vote_on_memberships(training):
    """The other views are computed from the same auctions, which would count twice."""
    made = market(EASY)
    found = robust_memberships(training.views, training.evidence, made.segments, 2000)
    votes = [training.views["text"].partitions]
    expected = learn_memberships(training.evidence, made.segments, votes, max_observations=2000)
    np.testing.assert_array_equal(found.shares, expected.shares)
    without = {name: view for name, view in training.views.items() if name != "text"}
    silent = robust_memberships(without, training.evidence, made.segments, 2000)
    expected = learn_memberships(training.evidence, made.segments, max_observations=2000)
    np.testing.assert_array_equal(silent.shares, expected.shares)
