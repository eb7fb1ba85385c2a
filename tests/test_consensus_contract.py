"""What every consensus function promises."""

import numpy as np
import pytest

import coterie as ct

METHODS = {
    "RobustConsensus": lambda K: ct.RobustConsensus(K, random_state=0),
    "paper": lambda K: ct.RobustConsensus(K, refine=False, partition_weights=None, random_state=0),
    "L2Consensus": lambda K: ct.L2Consensus(K, random_state=0),
    "OneHotKMeans": lambda K: ct.OneHotKMeans(K, random_state=0),
}


@pytest.fixture(params=METHODS)
def method(request):
    """A maker of estimators, by number of clusters."""
    return METHODS[request.param]


@pytest.fixture(scope="module")
def labels():
    """Eight noisy partitions of 150 points."""
    return ct.planted_partitions([80, 40, 30], 8, 0, 0.2, random_state=0)


def test_noise_free_partition_is_recovered(method):
    """Copies of one partition under other names give that partition."""
    y = np.repeat([0, 1, 2], [5, 15, 30])
    P = np.column_stack([y, 2 - y, y * 7])
    assert ct.clustering_accuracy(y, method(3).fit(P).labels_) == 1


def test_order_and_names_change_nothing(method, labels):
    """Points, partitions and names may come in any order."""
    rng = np.random.default_rng(1)
    P = labels[0]
    points, partitions = rng.permutation(150), rng.permutation(8)
    shuffled = (2 - P)[points][:, partitions]
    a, b = method(3).fit(P), method(3).fit(shuffled)
    assert (b.labels_ == a.labels_[points]).all()
    assert b.objective_ == pytest.approx(a.objective_)


def test_fitted_points_are_predicted_as_fitted(method, labels):
    """predict on the fitted rows returns the fitted labels."""
    est = method(3).fit(labels[0])
    assert (est.predict(labels[0]) == est.labels_).all()


def test_missing_labels_are_accepted(method, labels):
    """−1 is no vote: a tenth of missing labels leaves the partition as it is."""
    P, y = labels
    holes = np.where(np.random.default_rng(2).random(P.shape) < 0.1, -1, P)
    assert ct.clustering_accuracy(y, method(3).fit(holes).labels_) > 0.93


def test_shared_attributes(method, labels):
    """Labels are numbered by falling size without gaps; confidence lies in [0, 1]."""
    est = method(3).fit(labels[0])
    sizes = np.bincount(est.labels_)
    assert (np.diff(sizes) <= 0).all() and est.n_clusters_ == len(sizes) == 3
    assert 0 <= est.confidence_.min() and est.confidence_.max() <= 1
    assert est.objective_ == pytest.approx(ct.mirkin_objective(labels[0], est.labels_))


@pytest.mark.parametrize("name", ["L2Consensus", "OneHotKMeans"])
def test_weights_equal_copies(name, labels):
    """A partition of weight 2 is the same as the partition twice."""
    P = labels[0]
    weights = np.array([2.0, 1, 1, 3, 1, 1, 1, 1])
    copies = np.repeat(P, weights.astype(int), axis=1)
    weighted = METHODS[name](3).set_params(partition_weights=weights).fit(P)
    copied = METHODS[name](3).fit(copies)
    assert ct.clustering_accuracy(weighted.labels_, copied.labels_) == 1


def test_flagship_weights_equal_copies(labels):
    """With weights given, RobustConsensus too takes a weight for so many copies."""
    P = labels[0]
    weights = np.array([2.0, 1, 1, 3, 1, 1, 1, 1])
    copies = np.repeat(P, weights.astype(int), axis=1)
    weighted = ct.RobustConsensus(3, partition_weights=weights, random_state=0).fit(P)
    copied = ct.RobustConsensus(3, partition_weights=None, random_state=0).fit(copies)
    assert ct.clustering_accuracy(weighted.labels_, copied.labels_) == 1
    assert weighted.objective_ == pytest.approx(copied.objective_)
