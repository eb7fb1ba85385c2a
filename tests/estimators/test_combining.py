"""The consensus of runs: which consensus function, which K and seed, and the confidence."""

import numpy as np
import pytest

import coterie as ct
from coterie.estimators.combining import fit_consensus, rows_with_weight

IRIS = ct.load_dataset("iris")[0]
SETTINGS = {"ensemble": "diverse", "n_partitions": 8, "random_state": 0}


@pytest.fixture(scope="module")
def partitions():
    """Eight noisy partitions of three clusters, and their names."""
    P, _ = ct.planted_partitions([40, 30, 20], 8, 0, 0.1, random_state=0)
    return P, tuple(f"run {v}" for v in range(8))


def test_a_consensus_function_may_be_named():
    """consensus= takes a key of the registry; K and seed are set."""
    est = ct.ConsensusClusterer(3, consensus="l2", **SETTINGS).fit(IRIS)
    assert isinstance(est.consensus_, ct.L2Consensus) and est.consensus_.n_clusters == 3
    assert est.consensus_.random_state is not None and est.consensus == "l2"
    views = ct.MultiViewClusterer(3, consensus="median", **SETTINGS)
    views.fit([IRIS[:, :2], IRIS[:, 2:]])
    assert views.consensus_.refine is True and views.consensus_.relaxation == "l2"


@pytest.mark.parametrize(
    ("function", "n_clusters"),
    [
        (ct.L2Consensus(), 3),
        (ct.L2Consensus(None), 3),
        (ct.L2Consensus(5), 5),
        (ct.RobustConsensus(), 3),
    ],
)
def test_k_of_a_consensus_function_is_set_unless_it_was_chosen(function, n_clusters):
    """K is that of the clusterer if the consensus function has the default or None."""
    before = function.get_params()
    est = ct.ConsensusClusterer(3, consensus=function, **SETTINGS).fit(IRIS)
    assert est.n_clusters_ == est.consensus_.n_clusters_ == n_clusters
    assert function.get_params() == before and not hasattr(function, "labels_")


def test_a_chosen_seed_of_a_consensus_function_is_kept(partitions):
    """random_state is replaced only if it is None."""
    rng = np.random.RandomState(0)
    seeds = [
        fit_consensus(ct.L2Consensus(random_state=seed), *partitions, 3, rng).random_state
        for seed in (5, None)
    ]
    assert seeds[0] == 5 and seeds[1] is not None


def test_the_consensus_is_that_of_the_partitions(partitions):
    """Labels equal a direct fit; the names of the runs are those of the partitions."""
    P, names = partitions
    found = fit_consensus("eac", P, names, 3, np.random.RandomState(0))
    np.testing.assert_array_equal(found.labels_, ct.EvidenceAccumulation(3).fit(P).labels_)
    assert set(found.to_frame("partitions").index) == set(names)


def test_only_rows_with_weight_are_kept():
    """Without weights, or without zeros, they are all rows."""
    X = np.arange(6.0).reshape(3, 2)
    assert rows_with_weight(X, None) is X and rows_with_weight(X, [1, 2, 3]) is X
    np.testing.assert_array_equal(rows_with_weight(X, [1, 0, 2]), X[[0, 2]])
