"""Soft partitions in every consensus function."""

import numpy as np
import pytest

import coterie as ct
from all_partitions import same_partition
from coterie.consensus.base import ConsensusFunction
from coterie.consensus.registry import CONSENSUS_METHODS, make_consensus
from coterie.errors import InvalidLabelsError
from soft_memberships import soft_objectives

pytestmark = [
    pytest.mark.filterwarnings("ignore:all . partitions are the same"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning"),
]

#: Methods that are defined for labels only.
LABELS_ONLY = {"ecpcs", "hgpa", "mcla", "correlation"}
SOFT = [key for key in CONSENSUS_METHODS if key not in LABELS_ONLY]
ROBUST = [
    {"relaxation": "admm", "refine": "relaxation"},
    {"relaxation": "l2", "refine": "relaxation"},
    {"relaxation": "divided"},
    {"refine": "search"},
    {"partition_weights": "learned"},
    {"n_clusters": None},
    {"n_clusters": None, "refine": "relaxation"},
]


def make(key, **settings):
    """Return an unfitted estimator of three clusters."""
    return make_consensus(key, 3, random_state=0).set_params(**settings)


def planted(n=60, V=6, K=3, vagueness=0.6, seed=0, missing=0.0):
    """Return soft partitions around K equal clusters, and the labels of these."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    P = []
    for _ in range(V):
        rows = (1 - vagueness) * np.eye(K)[y] + vagueness * rng.dirichlet(np.ones(K), n)
        rows[rng.random(n) < missing] = 0
        P.append(rows[:, rng.permutation(K)])
    return P, y


def units(labels):
    """Return the membership matrices of labels; −1 is a row of zeros."""
    return [np.eye(column.max() + 2)[column][:, :-1] for column in labels.T]


@pytest.mark.parametrize("key", CONSENSUS_METHODS)
def test_unit_vectors_are_labels(key):
    """Matrices of unit vectors and zeros give exactly the results of the labels."""
    P, _ = ct.planted_partitions([24, 20, 16], 5, 0, 0.2, random_state=0)
    P = np.where(np.random.default_rng(0).random(P.shape) < 0.05, -1, P)
    P[(P < 0).all(axis=1)] = 0
    a, b = make(key).fit(P), make(key).fit(units(P))
    assert (a.labels_ == b.labels_).all() and (a.confidence_ == b.confidence_).all()
    assert a.objective_ == b.objective_
    assert (a.partition_agreement_ == b.partition_agreement_).all()
    rows = np.random.default_rng(1).integers(3, size=(20, 5))
    of_labels = a.predict(rows, return_confidence=True)
    of_units = b.predict([np.eye(3)[column] for column in rows.T], return_confidence=True)
    assert all((x == y).all() for x, y in zip(of_labels, of_units, strict=True))


@pytest.mark.parametrize("key", SOFT)
def test_soft_consensus_finds_planted_clusters(key):
    """Vague memberships, of which some rows are missing, give the clusters they are drawn from."""
    P, y = planted(vagueness=0.4, missing=0.15, V=8)
    est = make(key).fit(P)
    assert ct.clustering_accuracy(y, est.labels_) > 0.9
    J = soft_objectives(P, est.labels_[None], est.partition_weights_)[0]
    assert est.objective_ == pytest.approx(J)
    assert 0 <= est.confidence_.min() and est.confidence_.max() <= 1
    assert (est.predict(P) == est.labels_).all()


@pytest.mark.parametrize("key", sorted(LABELS_ONLY))
def test_methods_of_labels_refuse(key):
    """The message names the method and hard_labels, whose result works."""
    P, y = planted(vagueness=0.3)
    est = make(key)
    with pytest.raises(InvalidLabelsError, match=rf"{type(est).__name__} .*hard_labels\(P\)"):
        est.fit(P)
    assert not hasattr(est, "labels_")
    assert len(est.fit(ct.hard_labels(P)).labels_) == len(y)


@pytest.mark.parametrize("key", SOFT)
def test_order_changes_nothing(key):
    """The order of points, partitions and columns does not matter."""
    P, _ = planted(vagueness=0.8)
    rng = np.random.default_rng(1)
    points, partitions = rng.permutation(60), rng.permutation(6)
    a = make(key).fit(P)
    b = make(key).fit([P[v][points][:, rng.permutation(3)] for v in partitions])
    assert (b.labels_ == a.labels_[points]).all()
    assert b.objective_ == pytest.approx(a.objective_)
    assert b.partition_agreement_ == pytest.approx(a.partition_agreement_[partitions])


@pytest.mark.parametrize("settings", ROBUST, ids=str)
def test_settings_of_robust_consensus(settings):
    """Every setting of RobustConsensus works on memberships; the bound holds."""
    P, y = planted(vagueness=0.5, missing=0.05)
    est = make("robust", **settings).fit(P)
    assert ct.clustering_accuracy(y, est.labels_) > 0.95
    assert 0 <= est.lower_bound_ <= est.objective_ + 1e-9
    assert est.embedding_.shape[0] == 60


def test_a_minority_gets_no_weight():
    """Soft partitions that follow another clustering get the weight 0."""
    P, y = planted(n=150, V=6, vagueness=0.4)
    rng = np.random.default_rng(0)
    wrong = rng.permutation(y)
    bad = [0.7 * np.eye(3)[wrong] + 0.3 * rng.dirichlet(np.ones(3), 150) for _ in range(3)]
    est = make("robust").fit([*P, *bad])
    assert est.partition_weights_.tolist() == [1.0] * 6 + [0.0] * 3
    assert ct.clustering_accuracy(y, est.labels_) == 1


def test_weights_equal_repeated_rows():
    """A row of weight w has the effect of w copies; weight 0 has no effect."""
    P, _ = planted(n=30)
    weights = np.random.default_rng(0).integers(1, 4, size=30)
    a = make("robust").fit(P, sample_weight=weights)
    b = make("robust").fit([np.repeat(m, weights, axis=0) for m in P])
    assert (np.repeat(a.labels_, weights) == b.labels_).all()
    assert a.objective_ == pytest.approx(b.objective_)
    assert a.lower_bound_ == pytest.approx(b.lower_bound_)
    weights[:3] = 0
    c = make("robust").fit(P, sample_weight=weights)
    d = make("robust").fit([m[3:] for m in P], sample_weight=weights[3:])
    assert (c.labels_[3:] == d.labels_).all()
    assert (c.labels_ == d.predict(P)).all()


def test_new_rows_join_the_cluster_of_largest_gain():
    """predict returns the cluster of largest gain, computed from the definition."""
    P, _ = planted(V=4)
    new, _ = planted(V=4, seed=5, missing=0.2)
    est = make("robust", partition_weights=None).fit(P)
    predicted = est.predict(new)
    members = np.eye(3)[est.labels_]
    for i in range(60):
        together = sum((m @ n[i]) @ members for m, n in zip(P, new, strict=True))
        both = sum((m.sum(axis=1) * n[i].sum()) @ members for m, n in zip(P, new, strict=True))
        gains = together - est.threshold_ * both
        if predicted[i] >= 0:
            assert gains[predicted[i]] == pytest.approx(gains.max())


def test_soft_rows_join_a_consensus_of_unit_vectors():
    """After a fit on unit vectors, a soft row joins the cluster of its largest membership."""
    y = np.repeat([0, 1, 2], 10)
    est = make("robust").fit([np.eye(3)[y]] * 4)
    row = np.array([[0.2, 0.1, 0.7]])
    label, confidence = est.predict([row] * 4, return_confidence=True)
    assert label[0] == est.labels_[y == 2][0] and 0 < confidence[0] < 1
    assert (est.predict([np.eye(3)[y]] * 4) == est.labels_).all()


@pytest.mark.parametrize("key", ["robust", "median", "l2"])
@pytest.mark.parametrize("n_hard", [0, 4, 6])
def test_partitions_may_join_later(key, n_hard):
    """add_partitions gives the result of a fit on all matrices, also for unit vectors."""
    P, _ = planted(vagueness=0.5)
    P[:n_hard] = units(ct.hard_labels(P[:n_hard])) if n_hard else []
    grown = make(key).fit(P[:4]).add_partitions(P[4:])
    whole = make(key).fit(P)
    assert same_partition(grown.labels_, whole.labels_)
    assert grown.objective_ == pytest.approx(whole.objective_)
    assert (grown.predict(P) == grown.labels_).all()


@pytest.mark.parametrize("hard", [False, True])
def test_models_are_saved_and_loaded(tmp_path, hard):
    """A loaded model of memberships predicts and continues like the saved one."""
    P, _ = planted()
    given = units(ct.hard_labels(P)) if hard else P
    est = make("robust").fit(given)
    ct.save_model(est, tmp_path / "soft.coterie")
    loaded = ct.load_model(tmp_path / "soft.coterie")
    assert isinstance(loaded, ConsensusFunction)
    new, _ = planted(seed=7)
    assert (loaded.predict(new) == est.predict(new)).all()
    assert (loaded.add_partitions(P[:2]).labels_ == est.add_partitions(P[:2]).labels_).all()


@pytest.mark.parametrize("key", ["cspa", "hbgf"])
def test_cuts_by_relaxation(key):
    """The spectral cuts accept memberships."""
    P, y = planted()
    assert ct.clustering_accuracy(y, make(key, partitioner="spectral").fit(P).labels_) == 1
