"""Must-link and cannot-link: every pair holds, the votes are the most possible, refusals."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coterie as ct
from coterie.consensus.constraints import check_links
from coterie.errors import InvalidParameterError


@pytest.fixture(scope="module", name="P")
def noisy_partitions():
    """Eight noisy partitions of 60 points into three clusters."""
    return ct.planted_partitions([30, 20, 10], 8, 0, noise=0.2, random_state=0)[0]


def assert_pairs_hold(labels, must, cannot):
    """Check every pair."""
    assert all(labels[i] == labels[j] for i, j in must)
    assert all(labels[i] != labels[j] for i, j in cannot)


@st.composite
def small_problems(draw):
    """Draw labels and votes of a few points for a few clusters, and pairs of points."""
    n, K = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    pairs = st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=4)
    return rng.integers(0, K, n), rng.random((n, K)).round(1), draw(pairs), draw(pairs)


@given(small_problems())
@settings(max_examples=120, deadline=None)
def test_no_assignment_has_more_votes(problem):
    """The votes of points in broken pairs equal the best of all assignments; others stay."""
    labels, votes, must, cannot = problem
    n, K = votes.shape
    allowed = [
        z
        for z in product(range(K), repeat=n)
        if all(z[i] == z[j] for i, j in must) and all(z[i] != z[j] for i, j in cannot)
    ]
    if not allowed:
        with pytest.raises(InvalidParameterError, match="cannot_link"):
            found = check_links(must, cannot, n)
            found.assign(labels[found.points], votes[found.points])
        return
    links = check_links(must, cannot, n)
    if links is None:
        return
    held, exact = links.assign(labels[links.points], votes[links.points])
    result = labels.copy()
    result[links.points] = held
    assert exact
    assert_pairs_hold(result, must, cannot)
    if tuple(labels) in allowed:
        assert (result == labels).all()
    moved = result != labels
    # among assignments that differ only in the moved points and those connected with them
    linked = _connected([*must, *cannot], moved)
    rivals = [z for z in allowed if (np.array(z) == labels)[~linked].all()]
    best = max(votes[np.arange(n), z].sum() for z in rivals)
    assert votes[np.arange(n), result].sum() == pytest.approx(best)


def _connected(pairs, start):
    linked = start.copy()
    for _ in range(len(linked)):
        for i, j in pairs:
            linked[i] = linked[j] = linked[i] | linked[j]
    return linked


@given(st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_every_pair_holds(P, seed):
    """Random pairs of points hold after a fit, and the result is consistent."""
    rng = np.random.default_rng(seed)
    truth = np.repeat([0, 1, 2], [30, 20, 10])
    rng.shuffle(truth)  # pairs that can hold, but contradict the votes
    pairs = rng.choice(60, (12, 2))
    must = [(i, j) for i, j in pairs if truth[i] == truth[j]]
    cannot = [(i, j) for i, j in pairs if truth[i] != truth[j]]
    est = ct.L2Consensus(3, random_state=0).fit(P, must_link=must, cannot_link=cannot)
    assert_pairs_hold(est.labels_, must, cannot)
    assert est.objective_ == pytest.approx(ct.mirkin_objective(P, est.labels_))
    free = ct.L2Consensus(3, random_state=0).fit(P)
    assert est.n_tuples_ == free.n_tuples_
    untouched = np.setdiff1d(np.arange(60), est.constraints_["moved"])
    together = est.labels_[untouched][:, None] == est.labels_[untouched]
    assert (together == (free.labels_[untouched][:, None] == free.labels_[untouched])).all()


def test_pairs_that_hold_change_nothing(P):
    """Constraints that the consensus keeps by itself leave every attribute as it was."""
    free = ct.RobustConsensus(3, random_state=0).fit(P)
    labels = free.labels_
    first, second = np.flatnonzero(labels == 0)[:2]
    other = int(np.flatnonzero(labels == 1)[0])
    est = ct.RobustConsensus(3, random_state=0)
    est.fit(P, must_link=[(first, second)], cannot_link=[(first, other)])
    for name in ("labels_", "confidence_", "objective_", "partition_agreement_", "n_tuples_"):
        np.testing.assert_array_equal(getattr(est, name), getattr(free, name))
    assert len(est.constraints_["moved"]) == 0
    est.fit(P)
    assert not hasattr(est, "constraints_")


def test_equal_rows_can_be_apart():
    """Points with the same labels in all partitions are divided if a pair says so."""
    P = np.repeat([[0, 0, 1], [1, 1, 0]], [6, 4], axis=0)
    P[0] = [0, 1, 1]
    est = ct.RobustConsensus(2, random_state=0).fit(P, cannot_link=[(1, 2)])
    assert est.labels_[1] != est.labels_[2]
    assert est.constraints_["exact"]
    assert "1 cannot-link pair" in est.summary().replace("pairs", "pair")
    assert est.predict(P[3:]).tolist() == est.labels_[3:].tolist()
    assert len(est.confidence_) == len(est.to_frame()) == 10


def test_rows_of_weight_zero_keep_their_places(P):
    """Rows that are not fitted do not shift the constraints of the others, nor have any."""
    weight = np.ones(60)
    weight[[0, 7]] = 0
    est = ct.RobustConsensus(3, random_state=0)
    est.fit(P, sample_weight=weight, cannot_link=[(1, 2), (2, 8)], must_link=[(1, 40)])
    assert_pairs_hold(est.labels_, [(1, 40)], [(1, 2), (2, 8)])
    with pytest.raises(InvalidParameterError, match="row 7 has a must_link or cannot_link pair"):
        est.fit(P, sample_weight=weight, must_link=[(7, 8)])
    est.fit(P, cannot_link=[(0, 1)])
    with pytest.raises(InvalidParameterError, match="fit again on all partitions"):
        est.add_partitions(P)  # which would lose the constraints


def test_moved_rows_have_their_numbers_in_the_input(P):
    """Of two rows that must be together the lighter one moves, also after a row of weight 0."""
    weight = np.ones(60)
    weight[0], weight[8] = 0, 30
    est = ct.RobustConsensus(3, random_state=0).fit(P, sample_weight=weight, must_link=[(8, 9)])
    assert est.constraints_["moved"].tolist() == [9]


@pytest.mark.parametrize("seed", range(5))
def test_a_row_of_weight_w_is_w_rows_that_must_be_together(P, seed):
    """Votes count by the weights of the rows."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 6, 60)
    must, cannot = rng.permutation(60)[:24].reshape(2, 6, 2)
    weighted = ct.L2Consensus(3, random_state=0)
    weighted.fit(P, sample_weight=weights, must_link=must, cannot_link=cannot)
    copies, first = np.repeat(np.arange(60), weights), np.cumsum(weights) - weights
    together = [*first[must], *zip(first[copies], range(len(copies)), strict=True)]
    repeated = ct.L2Consensus(3, random_state=0)
    repeated.fit(P[copies], must_link=together, cannot_link=first[cannot])
    np.testing.assert_array_equal(weighted.labels_[copies], repeated.labels_)


def test_soft_partitions_and_long_chains_hold_too():
    """Membership matrices work as labels do; a chain holds even if the search is not exhaustive."""
    rng = np.random.default_rng(0)
    soft = [rng.dirichlet([1, 1, 1], 30) for _ in range(4)]
    est = ct.L2Consensus(3, random_state=0).fit(soft, cannot_link=[(0, 1), (0, 2), (1, 2)])
    assert len(set(est.labels_[:3])) == 3
    P, _ = ct.planted_partitions([80, 80, 80], 5, 0, noise=0.3, random_state=1)
    chain = [(i, i + 1) for i in range(239)]
    est = ct.L2Consensus(3, random_state=0).fit(P, cannot_link=chain)
    assert_pairs_hold(est.labels_, [], chain)


def test_a_clusterer_of_features_passes_pairs_on():
    """ConsensusClusterer holds the pairs, says so, and its confidence is that of the labels."""
    X = np.r_[np.zeros((12, 2)), np.full((12, 2), 5.0)] + np.arange(24)[:, None] / 50
    est = ct.ConsensusClusterer(2, n_partitions=6, random_state=0)
    est.fit(X, must_link=[(0, 20)], cannot_link=[(3, 4)])
    assert_pairs_hold(est.labels_, [(0, 20)], [(3, 4)])
    free = ct.ConsensusClusterer(2, n_partitions=6, random_state=0).fit(X)
    moved = est.constraints_["moved"]
    assert (est.confidence_[moved] < free.confidence_[moved]).all()
    assert len(moved) and est.constraints_["must_link"] == est.constraints_["cannot_link"] == 1
    assert not hasattr(est.fit(X), "constraints_")


@pytest.mark.parametrize(
    ("must", "cannot", "message"),
    [
        ([(1, 2), (2, 5), (5, 9)], [(9, 1)], r"pair \(9, 1\) .* together: 9–5, 5–2, 2–1"),
        ([], [(4, 4)], r"\(4, 4\) contradicts must_link, because it is one row"),
        ([], [(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)], "rows 0, 1, 2, 3 must all be apart"),
        ([(0, 60)], [], r"must_link has the pair \(0, 60\); rows are from 0 to 59"),
        ([], [(0, -1)], r"cannot_link has the pair \(0, -1\)"),
        ([0, 1], [], "give pairs of row numbers"),
        ([(0.5, 1)], [], "give pairs of row numbers"),
    ],
)
def test_impossible_pairs_are_refused(P, must, cannot, message):
    """The message names the pairs that contradict each other; the estimator is unchanged."""
    est = ct.L2Consensus(3, random_state=0)
    with pytest.raises(InvalidParameterError, match=message):
        est.fit(P, must_link=must, cannot_link=cannot)
    assert not hasattr(est, "labels_")
