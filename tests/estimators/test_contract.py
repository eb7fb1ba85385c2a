"""scikit-learn's conventions, for every public estimator.

Estimators on features pass scikit-learn's own checks. Estimators on labels or on several views take
other input than these checks make, so the same contract is written out here.
"""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import coterie as ct
from coterie.consensus.registry import CONSENSUS_METHODS, MULTIVIEW_METHODS, make_consensus
from coterie.errors import InvalidLabelsError
from coterie.inspection.scores import adjusted_rand_index

_DRAWS_ROWS = "runs draw rows in proportion to weights, as scikit-learn's KMeans declares"
_NO_FEATURES = "the check gives features also to estimators of distances or similarities"
NOT_EXACT = {
    "check_sample_weight_equivalence_on_dense_data": _DRAWS_ROWS,
    "check_sample_weight_equivalence_on_sparse_data": _DRAWS_ROWS,
}
NOT_PAIRWISE = {
    "check_clustering": _NO_FEATURES,
    "check_clustering(readonly_memmap=True)": _NO_FEATURES,
}


# The checks cluster noise: camps may be equally large, and the relaxation may not converge. Both
# give warnings, which do not matter here.
@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    # a check of sparse X expects as many probabilities as its y has classes, which are four
    [
        ct.ConsensusClusterer(n_clusters=4, n_partitions=4),
        ct.ConsensusClusterer(n_clusters=4, n_partitions=2, metric="precomputed"),
        ct.RobustSpectral(n_clusters=2),
        ct.RobustSpectral(n_clusters=2, loss="l2", assign_labels="cluster_qr"),
    ],
    expected_failed_checks=lambda est: (
        NOT_PAIRWISE if get_tags(est).input_tags.pairwise else NOT_EXACT
    ),
)
def test_estimators_on_features_pass_scikit_learns_checks(estimator, check):
    """All of scikit-learn's checks pass, except those of exact weights and of wrong input."""
    check(estimator)


@pytest.fixture(params=CONSENSUS_METHODS)
def est(request):
    """An unfitted consensus function."""
    return make_consensus(request.param, 3, random_state=0)


@pytest.fixture(name="P", scope="module")
def partitions():
    """Eight partitions of 72 points with a little noise; they must not be changed."""
    P, _ = ct.planted_partitions([30, 24, 18], 8, 0, 0.05, random_state=3)
    P.flags.writeable = False
    return P


PUBLIC = [
    *sorted({method.class_name for method in CONSENSUS_METHODS.values()}),
    *sorted({method.class_name for method in MULTIVIEW_METHODS.values()}),
    "ConsensusClusterer",
    "RobustSpectral",
    "SpectralView",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_defaults_follow_one_rule(name):
    """K and the seed are None and features are not scaled by default; parameters are attributes."""
    est = getattr(ct, name)()
    defaults = {"n_clusters": None, "random_state": None, "standardize": False, "verbose": False}
    params = est.get_params()
    assert {k: params[k] for k in defaults if k in params} == {
        k: v for k, v in defaults.items() if k in params
    }
    assert "n_clusters" in params and not [k for k in vars(est) if k not in params]
    assert repr(est) == f"{name}()"
    assert clone(est).set_params(n_clusters=4).n_clusters == 4 and est.n_clusters is None
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        est.set_params(colour="red")
    assert get_tags(est).estimator_type == "clusterer"


def test_fit_changes_neither_parameters_nor_labels(est, P):
    """fit returns self, sets attributes that end with _, and keeps parameters and input."""
    before, copy = clone(est).get_params(), P.copy()
    assert est.fit(P) is est
    assert est.get_params() == before
    np.testing.assert_array_equal(P, copy)
    assert est.n_features_in_ == P.shape[1] and len(est.labels_) == len(P)
    public = [name for name in vars(est) if name not in before and not name.startswith("_")]
    assert all(name.endswith("_") for name in public)


def test_a_second_fit_replaces_the_first(est, P):
    """Labels do not depend on earlier fits, and fit_predict returns them."""
    labels = clone(est).fit(X=P).labels_
    np.testing.assert_array_equal(est.fit(P[:40, :3]).fit(P).labels_, labels)
    np.testing.assert_array_equal(clone(est).fit_predict(P), labels)


def test_a_pickle_predicts_the_same(est, P):
    """Labels, probabilities and parameters survive, fitted or not."""
    unfitted = pickle.loads(pickle.dumps(est))
    assert unfitted.get_params() == est.get_params() and not hasattr(unfitted, "labels_")
    copy = pickle.loads(pickle.dumps(est.fit(P)))
    np.testing.assert_array_equal(copy.predict(P[::-1]), est.predict(P)[::-1])
    np.testing.assert_array_equal(copy.predict_proba(P), est.predict_proba(P))


def test_wrong_calls_give_scikit_learns_errors(est, P):
    """predict before fit is a NotFittedError; input of another shape or kind is a ValueError."""
    for method in (est.predict, est.predict_proba, est.score):
        with pytest.raises(NotFittedError):
            method(P)
    est.fit(P)
    with pytest.raises(ValueError, match="fitted on 8"):
        est.predict(P[:, :3])
    for bad in (np.empty((0, 3), dtype=int), P[:, 0], np.full((4, 2), -1)):
        with pytest.raises(ValueError, match=r"\w+"):
            clone(est).fit(bad)


def test_names_of_columns_are_known(P):
    """A table with names gives feature_names_in_, which predict checks; other input forgets it."""
    table = pd.DataFrame(P, columns=list("abcdefgh"))
    est = ct.L2Consensus(3, random_state=0).fit(table)
    assert est.feature_names_in_.tolist() == list("abcdefgh")
    with pytest.raises(ValueError, match="not those of the fit"):
        est.predict(table[table.columns[::-1]])
    assert not hasattr(est.fit(P), "feature_names_in_")
    est.fit(table[["a", "b"]]).add_partitions(table[["c", "d"]])
    assert est.n_features_in_ == 4 and not hasattr(est, "feature_names_in_")


def test_rows_are_labelled_one_by_one(est, P):
    """A row gets the same label and probabilities alone, among others, and in another order."""
    est.fit(P)
    order = np.random.default_rng(0).permutation(len(P))
    labels, shares = est.predict(P), est.predict_proba(P)
    np.testing.assert_array_equal(est.predict(P[order]), labels[order])
    for i in order[:3]:
        assert est.predict(P[[i]])[0] == labels[i]
        np.testing.assert_allclose(est.predict_proba(P[[i]])[0], shares[i])


def test_score_is_the_mean_agreement_with_the_partitions(est, P):
    """On the fitted points it is the mean of partition_agreement_; the truth scores 1."""
    est.fit(P)
    assert est.score(P) == pytest.approx(est.partition_agreement_.mean(), abs=1e-9)
    assert est.score(P[:5]) <= 1
    assert est.score(np.column_stack([est.labels_] * 8)) <= 1
    # a partition is left out if the rows that can be labelled have no label in it
    some = P[:9].copy()
    some[:, 3:] = -1
    unknown = np.array([[-1] * 3 + [99] * 5])
    expected = [adjusted_rand_index(est.predict(some), column) for column in some.T[:3]]
    assert est.score(np.vstack([some, unknown])) == pytest.approx(np.mean(expected))
    with pytest.raises(InvalidLabelsError, match="no row has a label"):
        est.score(np.repeat(unknown + 100 * (unknown < 0), 3, axis=0))


def test_score_leaves_out_rows_and_partitions_without_labels(P):
    """Rows without any label do not count."""
    est = ct.L2Consensus(3, random_state=0).fit(P)
    more = np.vstack([P, np.full((3, 8), -1)])
    assert est.score(more) == pytest.approx(est.score(P))


@pytest.mark.filterwarnings("ignore:partitions without any label:coterie.errors.LabelWarning")
@pytest.mark.parametrize("key", ["robust", "l2", "eac"])
def test_weights_are_those_of_the_given_partitions(P, key):
    """The weight of a partition without any label is left out with it, or is not given."""
    weights = np.array([1.0, 2.0, 9.0, 1.0, 3.0, 1.0, 1.0, 1.0, 2.0])
    with_empty = np.insert(P, 2, -1, axis=1)
    est, kept = make_consensus(key, 3, random_state=0), np.delete(weights, 2)
    for given, labels in ((weights, with_empty), (kept, with_empty), (kept, P)):
        est.set_params(partition_weights=given).fit(labels)
        np.testing.assert_array_equal(est.partition_weights_, kept)


def test_methods_are_compared_by_a_search(P):
    """A grid search with cross-validation chooses among parameters, also inside a pipeline."""
    steps = Pipeline([("same", FunctionTransformer()), ("consensus", ct.RobustConsensus(3))])
    steps.set_params(consensus__random_state=0)
    grid = {"consensus": [ct.L2Consensus(3, random_state=0), ct.CSPA(3, random_state=0)]}
    search = GridSearchCV(steps, grid, cv=KFold(3, shuffle=True, random_state=0)).fit(P)
    assert search.best_score_ > 0.8
    assert len(search.predict(P)) == len(P)
    few = GridSearchCV(ct.HBGF(random_state=0), {"n_clusters": [1, 3]}, cv=3).fit(P)
    assert few.best_params_ == {"n_clusters": 3}


def test_settings_of_features_are_compared_by_a_search():
    """A search sets parameters of the clusterer and of its consensus function in a pipeline."""
    X = np.repeat(3.0 * np.eye(3), 20, axis=0)
    X += np.random.default_rng(0).normal(0, 0.3, X.shape)
    X = X[np.random.default_rng(1).permutation(len(X))]
    clusterer = ct.ConsensusClusterer(3, n_partitions=4, consensus=ct.L2Consensus(), random_state=0)
    pipe = make_pipeline(StandardScaler(), clusterer)
    name = "consensusclusterer"
    grid = {f"{name}__ensemble": ["kmeans"], f"{name}__consensus__n_clusters": [2, 3]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X)
    assert search.best_params_[f"{name}__consensus__n_clusters"] == 3
    assert 0.85 < search.best_score_ <= 1
    assert search.best_estimator_[-1].n_clusters_ == 3


def test_weights_of_rows_are_routed(P, tmp_path):
    """A pipeline passes sample_weight on where it is requested; the model can be saved."""
    X, weights = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
    with config_context(enable_metadata_routing=True):
        for last, rows in (
            (ct.ConsensusClusterer(2, n_partitions=4, random_state=0), X),
            (ct.L2Consensus(2, random_state=0), P[:60]),
        ):
            direct = clone(last).fit(rows, sample_weight=weights)
            pipe = Pipeline([("same", FunctionTransformer()), ("last", last)])
            pipe.set_params(last=last.set_fit_request(sample_weight=True))
            pipe.fit(rows, sample_weight=weights)
            np.testing.assert_array_equal(pipe[-1].labels_, direct.labels_)
            ct.save_model(pipe[-1], tmp_path / "model.coterie")
            loaded = ct.load_model(tmp_path / "model.coterie")
            np.testing.assert_array_equal(loaded.predict(rows), direct.predict(rows))


@pytest.mark.parametrize("name", PUBLIC)
def test_metadata_are_weights_and_constraints_only(name):
    """The data are no metadata, by whatever name the first argument goes."""
    requests = str(getattr(ct, name)().get_metadata_routing())
    assert not re.search(r"'(P|X|views|S)'", requests)
    assert ("'sample_weight'" in requests) == hasattr(getattr(ct, name)(), "predict_proba")


def test_the_data_may_be_given_by_name():
    """X is the first argument of what takes features, views or similarities."""
    X = np.repeat(5.0 * np.eye(2), 6, axis=0) + np.random.default_rng(0).normal(size=(12, 2)) / 9
    for name, data in (
        ("ConsensusClusterer", X),
        ("RobustSpectral", X @ X.T),
        ("MultiViewClusterer", [X, X + 1]),
        ("MultiViewKMeans", {"one": X}),
        ("SpectralView", [X]),
    ):
        est = getattr(ct, name)(2, random_state=0)
        np.testing.assert_array_equal(est.fit(X=data).labels_, clone(est).fit_predict(X=data))


def test_tags_say_what_the_input_may_be():
    """Labels may be texts and missing; views are no table."""
    labels = get_tags(ct.MCLA()).input_tags
    assert labels.string and labels.categorical and labels.allow_nan
    assert not get_tags(ct.MultiViewClusterer()).input_tags.two_d_array
    assert not get_tags(ct.MultiViewKMeans()).input_tags.two_d_array
