"""The contract of all consensus functions, checked for every entry of the registry."""

import warnings
from copy import copy
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import coterie as ct
from all_partitions import dense_objectives, least_objective, same_partition
from coterie.consensus.base import ConsensusFunction, cluster_probabilities
from coterie.consensus.registry import CONSENSUS_METHODS, make_consensus
from coterie.errors import InvalidParameterError, TooManyPointsError
from coterie.labels.tuples import as_label_tuples

# With noisy labels and tiny tables an iteration may not converge, or camps may be equally large.
# Both give warnings, which do not matter here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning"),
]

#: Methods without ``partition_weights``, because they learn the weights.
WITHOUT_WEIGHTS = {"weighted"}
#: Methods of quadratic cost; the others are linear in the tuples, or fall back to a linear one.
QUADRATIC = {"ecpcs", "cspa", "kl", "correlation", "eac", "lwea"}
#: Methods that are quadratic only if labels are missing.
QUADRATIC_IF_MISSING = {"kc", "nmf"}
#: Eight noisy partitions of 150 points, and the planted one.
P, TRUTH = ct.planted_partitions([80, 40, 30], 8, 0, 0.2, random_state=0)


@pytest.fixture(params=CONSENSUS_METHODS)
def key(request):
    """The short name of a method."""
    return request.param


def votes_for(key):
    """Return eight partitions of 150 points, as noisy as the method allows, and the planted one.

    Cuts need clusters of equal size. The cut of a hypergraph fails if every base cluster has wrong
    points.
    """
    if key == "hgpa":
        return ct.planted_partitions([50, 50, 50], 8, 0, 0.02, random_state=0)
    if key in {"cspa", "hbgf"}:
        return ct.planted_partitions([50, 50, 50], 8, 0, 0.1, random_state=0)
    return P, TRUTH


def make(key, n_clusters=3, **settings):
    """Return an unfitted estimator."""
    return make_consensus(key, n_clusters, random_state=0).set_params(**settings)


@cache
def fitted(key):
    """Return an estimator fitted on ``P``, which the tests must not change."""
    return make(key).fit(P)


def weighted(key, weights, labels, n_clusters=3):
    """Return a fit with partition weights; skip methods that learn the weights."""
    if key in WITHOUT_WEIGHTS:
        assert "partition_weights" not in make(key).get_params()
        pytest.skip("the method learns the weights")
    return make(key, n_clusters, partition_weights=weights).fit(labels)


def renamed(y, n_partitions):
    """Return copies of one partition with different label names."""
    rng = np.random.default_rng(0)
    names = [rng.permutation(y.max() + 1) * (v + 1) for v in range(n_partitions)]
    return np.column_stack([name[y] for name in names])


@pytest.mark.filterwarnings("ignore:all . partitions are the same")
@pytest.mark.parametrize(
    ("sizes", "n_partitions"), [((5, 15, 30), 1), ((1, 2, 9), 3), ((12, 12, 12, 12), 7)], ids=str
)
def test_noise_free_partition_is_recovered(key, sizes, n_partitions):
    """Copies of one partition under other names give that partition."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    est = make(key, len(sizes)).fit(renamed(y, n_partitions))
    assert same_partition(y, est.labels_)
    assert est.objective_ == pytest.approx(0, abs=1e-9)


def test_order_and_names_change_nothing(key):
    """The order of points, partitions and names does not influence the labels."""
    rng = np.random.default_rng(1)
    points, partitions = rng.permutation(150), rng.permutation(8)
    names = np.array(["x", "a", "m"])
    a, b = fitted(key), make(key).fit(names[P][points][:, partitions])
    assert (b.labels_ == a.labels_[points]).all()
    assert b.objective_ == pytest.approx(a.objective_)
    assert b.partition_agreement_ == pytest.approx(a.partition_agreement_[partitions])
    assert b.partition_weights_ == pytest.approx(a.partition_weights_[partitions])


def test_fitted_points_are_predicted_as_fitted(key):
    """predict on the fitted rows, in any order, returns the fitted labels."""
    order = np.random.default_rng(2).permutation(150)
    est = fitted(key)
    predicted, confidence = est.predict(P[order], return_confidence=True)
    assert (predicted == est.labels_[order]).all()
    assert confidence == pytest.approx(est.confidence_[order])


def test_missing_labels_are_accepted(key):
    """A tenth of missing labels does not change the partition."""
    labels, y = votes_for(key)
    holes = np.where(np.random.default_rng(2).random(labels.shape) < 0.1, -1, labels)
    assert ct.clustering_accuracy(y, make(key).fit(holes).labels_) > 0.93


@pytest.mark.filterwarnings("ignore:all . partitions are the same")
def test_a_point_with_one_label_follows_it(key):
    """A point with a single label joins the points with that label."""
    y = np.repeat([0, 1, 2], 12)
    labels = renamed(y, 5)
    labels[0, 1:] = -1
    assert same_partition(y, make(key).fit(labels).labels_)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_compression_is_exact(key, missing):
    """Distinct tuples with multiplicities and one tuple per point give the same result."""
    labels = np.where(np.random.default_rng(0).random(P.shape) < missing, -1, P)
    tuples = as_label_tuples(labels)
    assert tuples.n_tuples < 150
    short, long = make(key), make(key)
    if key in {"cspa", "hgpa", "hbgf"}:  # a balanced cut may separate equal points
        short, long = (make(key, partitioner="spectral") for _ in range(2))
    a, b = short._label_tuples(tuples), long._label_tuples(tuples.without_compression())
    # MCLA breaks ties at random, once per tuple
    least = 0.95 if key == "mcla" else 1
    assert ct.clustering_accuracy(b.labels, tuples.expand(a.labels)) >= least
    assert a.partition_weights == pytest.approx(b.partition_weights, abs=1e-3)
    assert getattr(short, "loss_", 0) == pytest.approx(getattr(long, "loss_", 0), rel=1e-3)


def test_shared_attributes(key):
    """Labels are numbered by falling size without gaps; objective and confidence are consistent."""
    est = fitted(key)
    assert isinstance(est, ConsensusFunction)
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
    labels, _ = votes_for(key)
    weights = np.array([2.0, 1, 1, 3, 1, 1, 1, 1])
    est = weighted(key, weights, labels)
    copied = weighted(key, None, np.repeat(labels, weights.astype(int), axis=1))
    assert same_partition(est.labels_, copied.labels_)
    assert est.objective_ == pytest.approx(copied.objective_)


def test_weight_zero_is_absence(key):
    """A partition of weight 0 does not influence the result, even if it splits tuples."""
    labels, _ = votes_for(key)
    noise = np.random.default_rng(3).integers(4, size=(150, 2))
    est = weighted(key, np.repeat([1.0, 0.0], [8, 2]), np.hstack([labels, noise]))
    absent = weighted(key, None, labels)
    assert ct.clustering_accuracy(est.labels_, absent.labels_) > 0.97
    assert weighted(key, [0, 1], [[0, 0], [1, 0], [2, 0]]).n_clusters_ == 1


@pytest.mark.filterwarnings("ignore:all . partitions are the same")
def test_points_with_labels_of_weight_zero_only(key):
    """Points with labels only in partitions of weight 0 follow these, and change no loss."""
    labels = np.array([[0, 0, 0]] * 6 + [[1, 1, 1]] * 6 + [[-1, -1, 0], [-1, -1, 1]])
    est = weighted(key, [1, 1, 0], labels, n_clusters=2)
    assert est.labels_[12] == est.labels_[0] != est.labels_[6] == est.labels_[13]
    assert est.n_clusters_ == 2 and (est.margin_[12:] == 0).all()
    assert getattr(est, "loss_", 0) == pytest.approx(
        getattr(make(key, 2).fit(labels[:12]), "loss_", 0), abs=1e-4
    )


def test_one_cluster(key):
    """K = 1 puts all points together."""
    est = make(key, 1).fit(P)
    assert est.n_clusters_ == 1 and not est.labels_.any()


def test_more_clusters_than_tuples(key):
    """K above the number of tuples gives a warning; points with equal labels stay together."""
    labels = np.repeat([[0, 0], [0, 1], [1, 2]], 4, axis=0)
    with pytest.warns(ConvergenceWarning, match="only 3 distinct"):
        est = make(key, 6).fit(labels)
    assert 1 < est.n_clusters_ <= 3
    assert (est.labels_.reshape(3, 4) == est.labels_[::4, None]).all()
    with pytest.raises(InvalidParameterError, match="n_clusters=13 is more than the 12 points"):
        make(key, 13).fit(labels)


@pytest.mark.parametrize("n_clusters", [0, 2.5, "three"])
def test_an_invalid_number_of_clusters_is_refused(key, n_clusters):
    """K must be a whole number from 1 up."""
    with pytest.raises(InvalidParameterError, match=f"n_clusters={n_clusters!r}"):
        make(key, n_clusters).fit(P[:9])


@pytest.mark.parametrize(
    ("key", "setting", "value", "message"),
    [
        ("robust", "relaxation", "l3", "'divided' or 'l2'"),
        ("robust", "refine", "maybe", "'relaxation' or 'sizes'"),
        ("robust", "refine", True, "refine=True"),
        ("robust", "refine", np.array([1, 2]), "'relaxation' or 'sizes'"),
        ("robust", "partition_weights", "best", "'agreement', 'learned'"),
        ("robust", "partition_weights", [1, 2], "8 partitions"),
        ("robust", "partition_weights", [-1.0] + [1.0] * 7, r"partition_weights\[0\] is -1"),
        *(("robust", *x, "") for x in (("device", "abacus"), ("max_iter", 0), ("tol", np.nan))),
        ("robust", "threshold", 2, ""),
        ("eac", "linkage", "ward", "linkage='ward': give 'average'"),
        ("eac", "partition_weights", [1], "partition_weights has shape"),
        ("lwea", "strategy", "tree", "strategy='tree': give 'linkage'"),
        ("lwea", "theta", 0, "theta=0: give a finite number above 0"),
        ("ecpcs", "n_steps", 0, ""),
        *(("hbgf", "partitioner", x, "'auto', 'metis' or 'spectral'") for x in ("METIS", None, 3)),
        ("hbgf", "imbalance", -1, ""),
        *(("nmf", *x, "") for x in (("init", "ones"), ("n_init", 0), ("max_iter", 2.5))),
        *(("weighted", *x, "") for x in (("max_outer", 0), ("ridge", -0.1), ("init", "ones"))),
        *(("kl", *x, "") for x in (("error_penalty", 0), ("error_penalty", np.nan), ("n_init", 0))),
        *(("kl", *x, "") for x in (("max_iter", 0), ("tol", -1.0))),
        *(("correlation", *x, "") for x in (("penalty", 0), ("n_bundles", 0), ("n_rounds", 2.5))),
        *(("correlation", "angle_penalty", x, "") for x in (-0.01, 0.03)),
        *(("correlation", "least_code", x, "") for x in (1.0, -0.1)),
    ],
)
def test_bad_settings_are_refused(key, setting, value, message):
    """The message names the valid values, or else the setting with its value."""
    with pytest.raises(InvalidParameterError, match=message or f"{setting}={value!r}"):
        make(key, **{setting: value}).fit(P)


def test_packages_need_whole_row_weights():
    """METIS cuts points, so fractional row weights are refused."""
    pytest.importorskip("pymetis", reason="the extra 'partitioners' is not installed")
    with pytest.raises(InvalidParameterError, match="sample_weight: METIS and KaHyPar need whole"):
        make("hbgf", 2, partitioner="metis").fit([[0], [1], [2]], sample_weight=[1, 0.5, 1])


def test_wild_disagreement_is_not_answered_by_a_constant(key):
    """Random labels give several clusters."""
    est = make(key).fit(np.random.default_rng(0).integers(4, size=(60, 6)))
    assert est.n_clusters_ >= 2
    assert np.bincount(est.labels_)[0] < 60


def test_no_answer_beats_the_best_of_all_partitions(key):
    """J is never below its least value over all partitions of the points into K clusters."""
    labels = np.random.default_rng(0).integers(3, size=(8, 5))
    est = make(key).fit(labels)
    J = dense_objectives(labels, est.labels_[None])[0]
    assert J >= least_objective(labels, est.n_clusters_) - 1e-9 >= least_objective(labels, 3) - 1e-8


@pytest.mark.parametrize("key", ["robust", "l2", "nmf", "kl", "correlation"])
def test_verbose_shows_the_stages(key, capsys):
    """With verbose the stages are lines of the standard error stream; the labels are the same."""
    silent = make(key).fit(P[::2])
    assert capsys.readouterr() == ("", "")
    shown = make(key, verbose=True).fit(P[::2])
    printed = capsys.readouterr()
    name = type(shown).__name__
    lines = printed.err.splitlines()
    assert f"coterie: {name} of 75 rows, {shown.n_tuples_} distinct label tuples" in lines
    assert all(line.startswith("coterie: ") for line in lines) and printed.out == ""
    np.testing.assert_array_equal(shown.labels_, silent.labels_)


@pytest.mark.parametrize("key", ["nmf", "kl", "weighted"])
def test_warnings_point_at_the_line_of_the_user(key):
    """A failure to converge is reported at the call of fit."""
    with pytest.warns(ConvergenceWarning, match="max_iter=1 ") as caught:
        make(key, max_iter=1).fit(P)
    assert {warning.filename for warning in caught} == {__file__}


def test_the_seed_fixes_the_answer(key):
    """The same seed gives the same labels, as a number or as a generator."""
    labels = np.random.default_rng(5).integers(3, size=(40, 5))
    seeds = [{"random_state": 7}, {"random_state": np.random.RandomState(7)}]
    if "random_state" not in make(key).get_params():
        seeds = [{}, {}]
    a, b = (make(key, **seed).fit(labels) for seed in seeds)
    assert (a.labels_ == b.labels_).all() and (a.confidence_ == b.confidence_).all()


def test_a_table_beyond_the_limit_is_refused(key):
    """Methods of quadratic cost refuse large tables, linear ones do not."""
    holes = P.copy()
    holes[0, 0] = -1
    limits = [name for name in ("max_tuples", "max_points") if name in make(key).get_params()]
    small = make(key, **dict.fromkeys(limits, 4))
    if key not in QUADRATIC:
        assert small.fit(P).n_clusters_ >= 2
    if key not in QUADRATIC | QUADRATIC_IF_MISSING:
        return
    with pytest.raises(TooManyPointsError, match=r"max_(tuples|points)=4"):
        small.fit(holes)
    with pytest.raises(InvalidParameterError, match=r"max_(tuples|points)=0"):
        make(key, **dict.fromkeys(limits, 0)).fit(P)


def test_a_fitted_method_can_be_saved(key, tmp_path):
    """A saved and loaded estimator has the same parameters and predictions."""
    est = fitted(key)
    ct.save_model(est, tmp_path / "m.coterie")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = ct.load_model(tmp_path / "m.coterie")
    assert type(loaded) is type(est) and loaded.get_params() == est.get_params()
    assert (loaded.labels_ == est.labels_).all()
    assert (loaded.predict(P) == est.labels_).all()


def test_a_row_of_weight_w_is_w_rows(key):
    """Whole row weights equal repeated rows; a weight of 0 equals leaving the row out."""
    labels = P[::3]
    weights = np.random.default_rng(0).integers(0, 4, len(labels))
    est = make(key).fit(labels, sample_weight=weights)
    repeated = make(key).fit(np.repeat(labels, weights, axis=0))
    np.testing.assert_array_equal(np.repeat(est.labels_, weights), repeated.labels_)
    assert est.objective_ == pytest.approx(repeated.objective_, rel=1e-9)
    np.testing.assert_array_equal(est.labels_, repeated.predict(labels))


def test_a_partition_of_rows_of_weight_zero_is_refused():
    """A partition that labels only rows of weight 0 is refused."""
    with pytest.raises(ct.errors.InvalidLabelsError, match="labels only rows of weight 0"):
        ct.RobustConsensus(2).fit([[0, -1], [1, -1], [1, 1]], sample_weight=[1, 1, 0])


def test_a_fit_that_fails_changes_nothing(key):
    """After a failed fit a fitted estimator predicts as before, an unfitted one stays unfitted."""
    est = copy(fitted(key))
    before = est.predict(P)
    with pytest.raises(InvalidParameterError):
        est.set_params(n_clusters=10**6).fit((P + 1) % 3)
    np.testing.assert_array_equal(est.predict(P), before)
    unfitted = make(key, 10**6)
    for fit in (unfitted.fit, unfitted.add_partitions):
        with pytest.raises(InvalidParameterError):
            fit(P)
        with pytest.raises(NotFittedError):
            unfitted.predict(P)


@pytest.mark.parametrize("unit", [1e-200, 1.0])
def test_very_unequal_row_weights_work(unit):
    """A bound is never above the objective, although sums of the weights are rounded."""
    labels, _ = ct.planted_partitions([60, 40], 5, 1, 0.1, random_state=0)
    heavy = np.where(np.arange(100) == 7, 1e10, 1.0) * unit
    est = ct.RobustConsensus(2, random_state=0).fit(labels, sample_weight=heavy)
    assert est.lower_bound_ <= est.objective_ and np.isfinite(est.confidence_).all()


@pytest.mark.slow
def test_the_number_of_clusters_can_be_chosen(key):
    """n_clusters=None chooses the planted number; a later fit with K forgets the comparison."""
    est = make(key, None).fit(P)
    assert est.n_clusters_ == 3 and est.n_clusters is None
    # evidence accumulation has a rule of its own: the longest lifetime in its tree
    assert hasattr(est, "k_choice_") == (key != "eac")
    if key != "eac":
        assert est.k_choice_.best_k == 3
        assert est.to_frame("k").index.tolist() == list(range(2, 11))
    est.set_params(n_clusters=2).fit(P)
    assert not hasattr(est, "k_choice_") and est.n_clusters_ == 2


def test_one_point_is_one_cluster_without_a_comparison():
    """There is nothing to compare for a single point."""
    est = ct.L2Consensus(None).fit([[0, 1, 0]])
    assert est.labels_.tolist() == [0] and not hasattr(est, "k_choice_")


def test_probabilities_are_of_the_fitted_clusters(key):
    """Rows sum to 1, have at least 0.05/K, and follow the shares of votes; the label is largest."""
    est = fitted(key)
    probabilities = est.predict_proba(P)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert probabilities.shape == (150, est.n_clusters_)
    assert probabilities.min() >= 0.05 / est.n_clusters_ - 1e-12
    M = ct.coassociation(P, est.partition_weights_)
    shares = np.column_stack([M[:, est.labels_ == k].mean(axis=1) for k in range(est.n_clusters_)])
    # without missing labels, the mean share of votes is the mean of M over the cluster
    expected = 0.95 * shares / shares.sum(axis=1, keepdims=True) + 0.05 / est.n_clusters_
    as_voted = expected.argmax(axis=1) == est.labels_
    np.testing.assert_allclose(probabilities[as_voted], expected[as_voted])
    np.testing.assert_array_equal(probabilities.argmax(axis=1), est.labels_)
    np.testing.assert_allclose(est.confidence_, probabilities[np.arange(150), est.labels_])


def test_predicted_labels_have_the_largest_probability(key):
    """Also of rows that were not fitted, and of rows with missing labels."""
    est = fitted(key)
    rows = np.random.default_rng(5).integers(-1, 3, (200, 8))
    rows[0] = [0, *[-1] * 7]
    found = est.predict(rows)
    assert (found >= 0).all()
    np.testing.assert_array_equal(est.predict_proba(rows).argmax(axis=1), found)


def test_rows_without_a_known_label_have_no_label():
    """A row of missing or unknown labels gets −1, confidence 0, and 1/K for every cluster."""
    est, rows = fitted("l2"), np.repeat([[-1], [99]], 8, axis=1)
    labels, confidence = est.predict(rows, return_confidence=True)
    assert labels.tolist() == [-1, -1] and confidence.tolist() == [0, 0]
    np.testing.assert_allclose(est.predict_proba(rows), 1 / 3)


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_label_has_the_largest_probability(K, seed):
    """It does for any shares, ties among them; rows still sum to 1, and a label −1 changes none."""
    rng = np.random.default_rng(seed)
    shares = rng.integers(0, 4, (30, K)) / 3
    labels = rng.integers(-1, K, 30)
    found = cluster_probabilities(shares, labels)
    labelled = labels >= 0
    np.testing.assert_array_equal(found.argmax(axis=1)[labelled], labels[labelled])
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert found.min() >= 0.05 / K - 1e-12
    free = cluster_probabilities(shares, np.full(30, -1))
    same = ~labelled | (free.argmax(axis=1) == labels)
    np.testing.assert_array_equal(found[same], free[same])


def test_probabilities_change_as_little_as_possible():
    """No other probabilities whose largest is that of the label are nearer to the shares."""
    shares = np.array([[0.1, 0.5, 0.3, 0.8]])
    found = cluster_probabilities(shares, np.array([0]))[0]
    free = cluster_probabilities(shares, np.array([3]))[0]
    nearest = minimize(
        lambda p: ((p - free) ** 2).sum(),
        np.full(4, 0.25),
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "ineq", "fun": lambda p: p[0] - p[1:]},
        ],
    )
    np.testing.assert_allclose(found, nearest.x, atol=1e-5)
