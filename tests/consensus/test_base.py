"""The contract of all consensus functions, checked for every entry of the registry."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import coterie as ct
from all_partitions import dense_objectives, least_objective
from coterie.consensus.base import ConsensusFunction
from coterie.consensus.registry import CONSENSUS_METHODS, make_consensus
from coterie.errors import InvalidParameterError, TooManyPointsError

# With noisy labels and tiny tables an iteration may not converge, or camps may be equally large.
# Both give warnings, which do not matter here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning"),
]

#: Methods without ``partition_weights``, because they learn the weights.
WITHOUT_WEIGHTS = {"weighted"}
#: Methods that are linear in the tuples, or fall back to a linear one.
WITHOUT_LIMIT = {
    *("robust", "rcc", "median", "l2", "one-hot"),
    *("hgpa", "mcla", "hbgf", "weighted", "lwgp"),
}


@pytest.fixture(params=CONSENSUS_METHODS)
def key(request):
    """The short name of a method."""
    return request.param


@pytest.fixture(scope="module")
def labels():
    """Eight noisy partitions of 150 points, and the planted one."""
    return ct.planted_partitions([80, 40, 30], 8, 0, 0.2, random_state=0)


def votes_for(key):
    """Return eight partitions of 150 points, as noisy as the method allows, and the planted one.

    Cuts need clusters of equal size. The cut of a hypergraph fails if every base cluster has wrong
    points.
    """
    if key == "hgpa":
        return ct.planted_partitions([50, 50, 50], 8, 0, 0.02, random_state=0)
    if key in {"cspa", "hbgf"}:
        return ct.planted_partitions([50, 50, 50], 8, 0, 0.1, random_state=0)
    return ct.planted_partitions([80, 40, 30], 8, 0, 0.2, random_state=0)


def make(key, n_clusters=3, **settings):
    """Return an unfitted estimator."""
    return make_consensus(key, n_clusters, random_state=0).set_params(**settings)


def renamed(y, n_partitions):
    """Return copies of one partition with different label names."""
    rng = np.random.default_rng(0)
    names = [rng.permutation(y.max() + 1) * (v + 1) for v in range(n_partitions)]
    return np.column_stack([name[y] for name in names])


def same_partition(a, b):
    """Return whether two labellings differ only in names."""
    return ct.clustering_accuracy(a, b) == 1 and ct.clustering_accuracy(b, a) == 1


def test_it_is_a_consensus_function(key):
    """Every class has the base class and the parameter n_clusters."""
    estimator = make(key, 5)
    assert isinstance(estimator, ConsensusFunction)
    assert estimator.n_clusters == 5


@pytest.mark.parametrize("n_partitions", [1, 3, 7])
@pytest.mark.parametrize("sizes", [(5, 15, 30), (12, 12, 12, 12), (1, 2, 9)], ids=str)
def test_noise_free_partition_is_recovered(key, sizes, n_partitions):
    """Copies of one partition under other names give that partition."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    est = make(key, len(sizes)).fit(renamed(y, n_partitions))
    assert same_partition(y, est.labels_)
    assert est.objective_ == pytest.approx(0, abs=1e-9)


def test_a_little_noise_hides_nothing(key):
    """Partitions with 5 % wrong labels give the planted partition."""
    P, y = ct.planted_partitions([40, 40, 40], 9, 0, 0.05, random_state=1)
    assert ct.clustering_accuracy(y, make(key).fit(P).labels_) > 0.97


def test_order_and_names_change_nothing(key, labels):
    """The order of points, partitions and names does not influence the labels."""
    rng = np.random.default_rng(1)
    P = labels[0]
    points, partitions = rng.permutation(150), rng.permutation(8)
    names = np.array(["x", "a", "m"])
    a, b = make(key).fit(P), make(key).fit(names[P][points][:, partitions])
    assert (b.labels_ == a.labels_[points]).all()
    assert b.objective_ == pytest.approx(a.objective_)
    assert b.partition_agreement_ == pytest.approx(a.partition_agreement_[partitions])
    assert b.partition_weights_ == pytest.approx(a.partition_weights_[partitions])


def test_fitted_points_are_predicted_as_fitted(key, labels):
    """predict on the fitted rows, in any order, returns the fitted labels."""
    P, order = labels[0], np.random.default_rng(2).permutation(150)
    est = make(key).fit(P)
    predicted, confidence = est.predict(P[order], return_confidence=True)
    assert (predicted == est.labels_[order]).all()
    assert confidence == pytest.approx(est.confidence_[order])


def test_missing_labels_are_accepted(key):
    """A tenth of missing labels does not change the partition."""
    P, y = votes_for(key)
    holes = np.where(np.random.default_rng(2).random(P.shape) < 0.1, -1, P)
    assert ct.clustering_accuracy(y, make(key).fit(holes).labels_) > 0.93


def test_a_point_with_one_label_follows_it(key):
    """A point with a single label joins the points with that label."""
    y = np.repeat([0, 1, 2], 12)
    P = renamed(y, 5)
    P[0, 1:] = -1
    assert same_partition(y, make(key).fit(P).labels_)


def test_shared_attributes(key, labels):
    """Labels are numbered by falling size without gaps; objective and confidence are consistent."""
    P = labels[0]
    est = make(key).fit(P)
    sizes = np.bincount(est.labels_)
    assert (np.diff(sizes) <= 0).all() and sizes.min() > 0
    assert 2 <= est.n_clusters_ == len(sizes) <= 3
    assert 0 <= est.confidence_.min() and est.confidence_.max() <= 1
    weights = est.partition_weights_
    assert weights.shape == (8,) and (weights >= 0).all() and weights.any()
    assert est.objective_ == pytest.approx(ct.mirkin_objective(P, est.labels_, weights))
    assert est.n_tuples_ == len(np.unique(P, axis=0)) and est.n_features_in_ == 8


def test_weights_equal_copies(key):
    """A partition of weight 2 equals the partition twice."""
    if "partition_weights" not in make(key).get_params():
        assert key in WITHOUT_WEIGHTS
        return
    P, _ = votes_for(key)
    weights = np.array([2.0, 1, 1, 3, 1, 1, 1, 1])
    copies = np.repeat(P, weights.astype(int), axis=1)
    weighted = make(key, partition_weights=weights).fit(P)
    copied = make(key, partition_weights=None).fit(copies)
    assert same_partition(weighted.labels_, copied.labels_)
    assert weighted.objective_ == pytest.approx(copied.objective_)


def test_weight_zero_is_absence(key):
    """A partition of weight 0 does not influence the result."""
    if "partition_weights" not in make(key).get_params():
        assert key in WITHOUT_WEIGHTS
        return
    P, _ = votes_for(key)
    noise = np.random.default_rng(3).integers(4, size=(150, 2))
    weights = np.repeat([1.0, 0.0], [8, 2])
    weighted = make(key, partition_weights=weights).fit(np.hstack([P, noise]))
    absent = make(key, partition_weights=None).fit(P)
    assert ct.clustering_accuracy(weighted.labels_, absent.labels_) > 0.97


def test_one_cluster(key, labels):
    """K = 1 puts all points together."""
    est = make(key, 1).fit(labels[0])
    assert est.n_clusters_ == 1 and not est.labels_.any()


def test_more_clusters_than_tuples(key):
    """K above the number of tuples gives a warning; points with equal labels stay together."""
    P = np.repeat([[0, 0], [0, 1], [1, 2]], 4, axis=0)
    with pytest.warns(ConvergenceWarning, match="only 3 distinct"):
        est = make(key, 6).fit(P)
    assert 1 < est.n_clusters_ <= 3
    assert (est.labels_.reshape(3, 4) == est.labels_[::4, None]).all()
    with pytest.raises(InvalidParameterError, match="n_clusters=13 is more than the 12 points"):
        make(key, 13).fit(P)


@pytest.mark.parametrize("n_clusters", [0, -1, 2.5, "three", True])
def test_an_invalid_number_of_clusters_is_refused(key, labels, n_clusters):
    """K must be a whole number from 1 up."""
    with pytest.raises(InvalidParameterError, match=f"n_clusters={n_clusters!r}"):
        make(key, n_clusters).fit(labels[0])


@pytest.mark.parametrize("seed", [0, 1])
def test_wild_disagreement_is_not_answered_by_a_constant(key, seed):
    """Random labels give several clusters."""
    P = np.random.default_rng(seed).integers(4, size=(60, 6))
    est = make(key).fit(P)
    assert est.n_clusters_ >= 2
    assert np.bincount(est.labels_)[0] < 60


@pytest.mark.parametrize("seed", range(4))
def test_no_answer_beats_the_best_of_all_partitions(key, seed):
    """J is never below its least value over all partitions of the points into K clusters."""
    P = np.random.default_rng(seed).integers(3, size=(8, 5))
    est = make(key).fit(P)
    J = dense_objectives(P, est.labels_[None])[0]
    assert J >= least_objective(P, est.n_clusters_) - 1e-9 >= least_objective(P, 3) - 1e-8


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("key", ["robust", "median"])
def test_the_search_reaches_the_best_of_all_partitions(key, seed):
    """For a few points with a planted partition the search finds the minimum of J."""
    P, _ = ct.planted_partitions([3, 3, 2], 5, 0, 0.3, random_state=seed)
    est = make(key, refine=True, partition_weights=None).fit(P)
    assert est.objective_ == pytest.approx(least_objective(P, 3))


def test_parameters_survive_cloning(key, labels):
    """A clone has the same parameters, is not fitted, and gives the same labels."""
    est = make(key)
    before = est.get_params()
    fitted = est.fit(labels[0])
    assert fitted is est and est.get_params() == before
    copy = clone(est)
    assert copy.get_params() == before and not hasattr(copy, "labels_")
    assert (copy.fit_predict(labels[0]) == est.labels_).all()


def test_the_seed_fixes_the_answer(key):
    """The same seed gives the same labels, as a number or as a generator."""
    P = np.random.default_rng(5).integers(3, size=(40, 5))
    if "random_state" not in make(key).get_params():
        a, b = make(key).fit(P), make(key).fit(P)
    else:
        seeds = (7, np.random.RandomState(7))
        a, b = (make(key, random_state=seed).fit(P) for seed in seeds)
    assert (a.labels_ == b.labels_).all() and (a.confidence_ == b.confidence_).all()


def test_a_table_beyond_the_limit_is_refused(key, labels):
    """Methods of quadratic cost refuse large tables, linear ones do not."""
    P = labels[0].copy()
    P[0, 0] = -1  # some methods need no (u, u) matrix unless a label is missing
    limits = [name for name in ("max_tuples", "max_points") if name in make(key).get_params()]
    small = make(key, **dict.fromkeys(limits, 4))
    if key in WITHOUT_LIMIT:
        assert small.fit(P).n_clusters_ >= 2
        return
    with pytest.raises(TooManyPointsError, match=r"max_(tuples|points)=4"):
        small.fit(P)
    with pytest.raises(InvalidParameterError, match=r"max_(tuples|points)=0"):
        make(key, **dict.fromkeys(limits, 0)).fit(P)


def test_a_fitted_method_can_be_saved(key, labels, tmp_path):
    """A saved and loaded estimator has the same parameters and predictions."""
    P = labels[0]
    est = make(key).fit(P)
    ct.save_model(est, tmp_path / "m.coterie")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = ct.load_model(tmp_path / "m.coterie")
    assert type(loaded) is type(est) and loaded.get_params() == est.get_params()
    assert (loaded.labels_ == est.labels_).all()
    assert (loaded.predict(P) == est.labels_).all()


def test_a_row_of_weight_w_is_w_rows(key, labels):
    """Whole row weights equal repeated rows; a weight of 0 equals leaving the row out."""
    P = labels[0][::3]
    weights = np.random.default_rng(0).integers(0, 4, len(P))
    weighted = make(key).fit(P, sample_weight=weights)
    repeated = make(key).fit(np.repeat(P, weights, axis=0))
    np.testing.assert_array_equal(np.repeat(weighted.labels_, weights), repeated.labels_)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-9)
    np.testing.assert_array_equal(weighted.labels_, repeated.predict(P))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], "has shape"),
        ([1.0, -1.0, 1.0], r"sample_weight\[1\] is -1.0"),
        ([1.0, np.nan, 1.0], r"sample_weight\[1\] is nan"),
        ([0, 0, 0], "all zero"),
        (["a", "b", "c"], "one number per row"),
    ],
)
def test_invalid_row_weights_are_refused(weights, message):
    """Row weights of wrong number, sign or type are refused with the reason."""
    with pytest.raises(InvalidParameterError, match=message):
        ct.RobustConsensus(2).fit([[0, 0], [0, 1], [1, 1]], sample_weight=weights)


def test_a_partition_of_rows_of_weight_zero_is_refused():
    """A partition that labels only rows of weight 0 is refused."""
    with pytest.raises(ct.errors.InvalidLabelsError, match="labels only rows of weight 0"):
        ct.RobustConsensus(2).fit([[0, -1], [1, -1], [1, 1]], sample_weight=[1, 1, 0])


@pytest.mark.parametrize("scale", [1e-200, 1 / 150, 0.5, 1e200])
def test_only_ratios_of_fractional_weights_count(labels, scale):
    """Weights that are not whole numbers are scaled to a mean of one."""
    P = labels[0]
    weights = np.random.default_rng(0).random(len(P)) + 0.5
    first = ct.RobustConsensus(3, random_state=0).fit(P, sample_weight=weights)
    scaled = clone(first).fit(P, sample_weight=weights * scale)
    np.testing.assert_array_equal(first.labels_, scaled.labels_)
    assert scaled.objective_ == pytest.approx(first.objective_)
    even = clone(first).fit(P, sample_weight=np.full(len(P), 0.5))
    assert even.objective_ == pytest.approx(clone(first).fit(P).objective_)


def test_a_fit_that_fails_changes_nothing(key, labels):
    """After a failed fit a fitted estimator predicts as before, an unfitted one stays unfitted."""
    P = labels[0]
    est = make(key).fit(P)
    before = est.predict(P)
    with pytest.raises(InvalidParameterError):
        est.set_params(n_clusters=10**6).fit((P + 1) % 3)
    np.testing.assert_array_equal(est.predict(P), before)
    unfitted = make(key, 10**6)
    for fit in (unfitted.fit, unfitted.partial_fit):
        with pytest.raises(InvalidParameterError):
            fit(P)
        with pytest.raises(NotFittedError):
            unfitted.predict(P)
