"""Candidates of curves by source, and the consensus of views."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ads.curves.pooling import overall_rate
from coterie.ads.fitting.backtest import training_on
from coterie.ads.segments.memberships import hard_memberships, learn_memberships
from coterie.ads.segments.sources import (
    SOURCES,
    candidates,
    consensus_function,
    consensus_labels,
    robust_memberships,
)
from coterie.ads.segments.text_view import description_vectors
from coterie.ads.segments.views import View
from coterie.consensus import L2Consensus
from coterie.consensus.robust import RobustConsensus
from coterie.errors import InvalidParameterError
from coterie.inspection.scores import adjusted_rand_index
from markets import EASY, QUICK, market


@pytest.fixture(scope="module")
def training():
    """Evidence and views of the training days of an easy market."""
    made = market(EASY)
    vectors = description_vectors(made.histograms, made.descriptions)
    return training_on(made.histograms, [0, 1, 2], vectors, QUICK)


@pytest.fixture(scope="module")
def offered(training):
    """All candidates."""
    return list(candidates(training.views, training.evidence, [3, 4]))


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
            expected = hard_memberships(training.evidence, labels, 2000)
            np.testing.assert_array_equal(candidate.memberships.shares, expected.shares)
            np.testing.assert_allclose(candidate.memberships.rates, expected.rates)
    assert [dict(c.settings) for c in by_source["robust"]] == [{"k": 3}, {"k": 4}]


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
    found = candidates(training.views, training.evidence, [3], sources=("l2", "own"))
    assert [c.source for c in found] == ["l2", "own"]
    without = candidates({}, training.evidence, [3])
    assert [c.source for c in without] == ["own", "global"]
    only_market = {"market": training.views["market"]}
    found = candidates(only_market, training.evidence, [3], sources=("win", "l2"))
    assert [c.source for c in found] == ["l2"]


@pytest.mark.parametrize("sources", [("own", "robst"), ("market",), ()])
def test_unknown_sources_are_refused(training, sources):
    """The message lists the sources."""
    with pytest.raises(InvalidParameterError, match="own, global, text"):
        list(candidates(training.views, training.evidence, [3], sources=sources))


def test_a_given_consensus_function_replaces_the_robust_one(training):
    """It gets the number of segments, and the given object is not changed."""
    mine = L2Consensus(n_clusters=7, random_state=3)
    (found,) = candidates(
        training.views, training.evidence, [4], sources=("robust",), consensus=mine
    )
    labels, _ = consensus_labels(training.views, L2Consensus(4, random_state=3))
    expected = robust_memberships(training.views, training.evidence, labels)
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
    found = robust_memberships(training.views, training.evidence, made.segments)
    votes = [training.views["text"].partitions]
    expected = learn_memberships(training.evidence, made.segments, votes, max_observations=2000)
    np.testing.assert_array_equal(found.shares, expected.shares)
    without = {name: view for name, view in training.views.items() if name != "text"}
    silent = robust_memberships(without, training.evidence, made.segments)
    expected = learn_memberships(training.evidence, made.segments, max_observations=2000)
    np.testing.assert_array_equal(silent.shares, expected.shares)
