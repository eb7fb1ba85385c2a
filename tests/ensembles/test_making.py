"""Ensembles of base partitions: strategies, seeds, parallel runs, new rows, bad input."""

import inspect
import itertools
import threading
import time
import warnings

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib._parallel_backends import ThreadingBackend
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans, MiniBatchKMeans
from sklearn.datasets import load_iris, make_blobs
from threadpoolctl import threadpool_info

from coterie.ensembles.making import (
    fit_ensemble,
    make_partitions,
)
from coterie.ensembles.given_clusterers import EstimatorMember
from coterie.ensembles.plans import KINDS
from coterie.errors import InvalidParameterError, LabelWarning

IRIS = load_iris().data
ALL_KINDS = list(KINDS)
SPARSE = sp.random(80, 12, density=0.3, random_state=0, format="csr")


def assert_consecutive(P: np.ndarray) -> None:
    """Check that the labels of every column are 0, 1, … without gaps."""
    for column in P.T:
        present = np.unique(column[column >= 0])
        np.testing.assert_array_equal(present, np.arange(len(present)))


@pytest.mark.parametrize("ensemble", KINDS)
@pytest.mark.parametrize("X", [IRIS.astype(np.float32), sp.csr_array(SPARSE)])
def test_every_kind_gives_a_label_matrix(ensemble, X):
    """Labels are n × V int32 without gaps; predict returns them where they are not −1."""
    fitted = fit_ensemble(X, 3, 7, ensemble=ensemble, random_state=0)
    P = fitted.labels
    assert P.shape == (X.shape[0], 7)
    assert P.dtype == np.int32
    assert_consecutive(P)
    predicted = fitted.predict(X)
    assert predicted.dtype == np.int32
    assert np.all(predicted >= 0)
    np.testing.assert_array_equal(predicted[P >= 0], P[P >= 0])
    assert np.all(P >= 0) == (ensemble != "subsample")


def test_make_partitions_gives_the_labels_of_the_ensemble():
    """Both functions have the same parameters and labels."""
    assert (
        inspect.signature(make_partitions).parameters == inspect.signature(fit_ensemble).parameters
    )
    settings_ = {"ensemble": ALL_KINDS, "subsample": 0.6, "subspace": 0.3, "random_state": 4}
    np.testing.assert_array_equal(
        make_partitions(IRIS, [2, 3], 10, **settings_),
        fit_ensemble(IRIS, [2, 3], 10, **settings_).labels,
    )


@pytest.mark.parametrize(
    ("n", "k", "most"),
    [
        (150, 3, 12),
        (150, 20, 20),
    ],
)
def test_diverse_draws_k_between_its_bounds(n, k, most):
    """K_v covers {K, …, max(K, min(⌊√n⌋, 50))} and nothing else."""
    X = np.random.default_rng(0).normal(size=(n, 1))
    sizes = make_partitions(X, k, 60, ensemble="diverse", random_state=0).max(axis=0) + 1
    assert sizes.min() >= k
    assert sizes.max() <= most
    assert len(set(sizes)) >= min(most - k + 1, 10)


@pytest.mark.parametrize(("share", "p", "count"), [(0.5, 4, 2), (0.01, 4, 1), (1, 4, 4)])
def test_subspaces_use_a_share_of_the_columns(share, p, count):
    """Each run uses that many distinct columns, ascending, and runs use different ones."""
    ensemble = fit_ensemble(
        IRIS[:, :p], 3, 20, ensemble="subspaces", subspace=share, random_state=0
    )
    subsets = {tuple(member.features) for member in ensemble.members}
    for subset in subsets:
        assert list(subset) == sorted(set(subset))
        assert len(subset) == count
        assert set(subset) <= set(range(p))
    assert len(subsets) > 1 or count in (p, 1)


@settings(deadline=None, max_examples=20)
@given(
    n=st.integers(1, 40),
    n_partitions=st.integers(2, 8),
    share=st.sampled_from([0.5, 0.8, 0.9, 1.0]),
    seed=st.integers(0, 99),
)
def test_subsample_draws_are_balanced(n, n_partitions, share, seed):
    """Runs draw the same number of rows; every row is drawn, numbers differ by one at most."""
    X = np.arange(n, dtype=float)[:, None]
    count = max(round(share * n), 1)
    if n_partitions * count < n:  # an odd n at one half is rounded down
        return
    drawn = (
        make_partitions(
            X, 1, n_partitions, ensemble="subsample", subsample=share, random_state=seed
        )
        >= 0
    )
    assert np.all(drawn.sum(axis=0) == count)
    times = drawn.sum(axis=1)
    assert times.min() >= 1
    assert times.max() - times.min() <= 1


def test_subsample_that_cannot_reach_every_row_is_refused():
    """Two runs of a third of the rows do not reach all rows; with other runs they may."""
    with pytest.raises(InvalidParameterError, match=r"subsample=0\.3 draw at most 90 of the 150"):
        make_partitions(IRIS, 3, 2, ensemble="subsample", subsample=0.3)
    mixed = make_partitions(IRIS, 3, 2, strategy=["kmeans", "subsample"], subsample=0.3)
    assert np.all((mixed >= 0).any(axis=1))
    assert (make_partitions(IRIS, 3, 1, ensemble="subsample") >= 0).sum() == 120


def test_strategies_mix_round_robin():
    """Strategies are used in turn, and scalings take turns within theirs."""
    order = ["subsample", "scalings", "subspaces"]
    ensemble = fit_ensemble(IRIS, 3, 9, ensemble=order, random_state=0)
    left_out = (ensemble.labels < 0).any(axis=0)
    np.testing.assert_array_equal(left_out, [True, False, False] * 3)
    assert [member.features is not None for member in ensemble.members] == [False, False, True] * 3
    assert [member.scale is None for member in ensemble.members[1::3]] == [True, False, False]


@pytest.mark.parametrize("clusterer", [None, MiniBatchKMeans(n_init=1)])
def test_labels_do_not_depend_on_the_number_of_jobs(clusterer):
    """One job, two jobs and another backend agree to the last bit."""
    # Enough rows for k-means to use several threads if it were allowed to.
    X, _ = make_blobs(1000, 3, centers=5, cluster_std=3, random_state=0)
    settings_ = {"ensemble": ALL_KINDS, "clusterer": clusterer, "random_state": 3}

    def fitted(n_jobs: int | None = None) -> tuple[np.ndarray, list[np.ndarray]]:
        ensemble = fit_ensemble(X, 5, 5, n_jobs=n_jobs, **settings_)
        if clusterer is None:
            return ensemble.labels, [member.centres for member in ensemble.members]
        return ensemble.labels, [member.estimator.cluster_centers_ for member in ensemble.members]

    labels, centres = fitted(n_jobs=1)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        in_threads = fitted()
    for other_labels, other_centres in (in_threads, fitted(n_jobs=2)):
        np.testing.assert_array_equal(other_labels, labels)
        for mine, other in zip(centres, other_centres, strict=True):
            np.testing.assert_array_equal(other, mine)


def test_backends_that_cannot_stream_still_work():
    """A joblib backend that cannot return a generator gives the same labels."""

    class Whole(ThreadingBackend):
        supports_return_generator = False

    joblib.register_parallel_backend("whole", Whole)
    try:
        with joblib.parallel_config(backend="whole", n_jobs=2):
            P = make_partitions(IRIS, 3, 4, random_state=0)
    finally:
        del joblib.parallel.BACKENDS["whole"]
    np.testing.assert_array_equal(P, make_partitions(IRIS, 3, 4, random_state=0))


@pytest.mark.parametrize("strategy", [STRATEGIES])
def test_a_longer_ensemble_begins_like_a_shorter_one(strategy):
    """The first runs do not depend on how many follow."""
    P = make_partitions(IRIS, 3, 9, strategy=strategy, random_state=0)
    Q = make_partitions(IRIS, 3, 4, strategy=strategy, random_state=0)
    np.testing.assert_array_equal(P[:, :4], Q)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, np.int64])
def test_every_kind_of_seed(make):
    """Generators, RandomStates and integers are seeds; generators are advanced."""
    seed = make(7)
    P = make_partitions(IRIS, 8, 5, random_state=seed)
    np.testing.assert_array_equal(make_partitions(IRIS, 8, 5, random_state=make(7)), P)
    other = make(8) if isinstance(seed, int | np.int64) else seed
    assert not np.array_equal(make_partitions(IRIS, 8, 5, random_state=other), P)


def test_threads_restore_warnings_and_pools():
    """Runs in threads restore the warning filters and the thread pools."""
    X = np.repeat([[0.0], [1.0]], 10, axis=0)
    filters, pools = list(warnings.filters), threadpool_info()
    with joblib.parallel_config(backend="threading", n_jobs=4):
        P = make_partitions(X, 5, 40, random_state=0)
    assert np.all(P.max(axis=0) == 1)  # as many clusters as distinct points, and no warning
    assert warnings.filters == filters
    assert threadpool_info() == pools


def test_x_is_not_changed():
    """Input is not changed; it may be read-only and Fortran-ordered."""
    X = np.asfortranarray(IRIS)
    X.flags.writeable = False
    P = make_partitions(X, 3, 10, ensemble=ALL_KINDS, random_state=0)
    np.testing.assert_array_equal(
        P, make_partitions(IRIS, 3, 10, ensemble=ALL_KINDS, random_state=0)
    )
    before = SPARSE.copy()
    make_partitions(SPARSE, 3, 10, ensemble=ALL_KINDS, random_state=0)
    assert (before != SPARSE).nnz == 0


def test_duplicate_sparse_entries_are_summed():
    """Duplicate entries of a CSR matrix are added, without changing the input."""
    split = sp.csr_matrix(([1.0, 2.0, 3.0], [0, 0, 1], [0, 2, 3, 3]), shape=(3, 2))
    whole = sp.csr_matrix(np.array([[3.0, 0.0], [0.0, 3.0], [0.0, 0.0]]))
    of_split, of_whole = (
        fit_ensemble(X, 2, 6, ensemble="scalings", random_state=0) for X in (split, whole)
    )
    for a, b in zip(of_split.members[1:3], of_whole.members[1:3], strict=True):
        np.testing.assert_array_equal(a.scale, b.scale)
    np.testing.assert_array_equal(of_split.labels, of_whole.labels)
    assert split.nnz == 3


def test_sparse_and_dense_rows_are_predicted_alike():
    """Ensembles fitted on dense or sparse rows label both kinds equally."""
    for fitted in (SPARSE, SPARSE.toarray()):
        ensemble = fit_ensemble(fitted, 3, 5, ensemble=ALL_KINDS, random_state=0)
        np.testing.assert_array_equal(ensemble.predict(SPARSE), ensemble.predict(SPARSE.toarray()))


def test_a_clusterer_takes_part_in_every_strategy():
    """A given clusterer is fitted on the rows, columns and scalings of each strategy."""
    clusterer = KMeans(8, init="random", n_init=1)
    ensemble = fit_ensemble(IRIS, 3, 15, ensemble=ALL_KINDS, clusterer=clusterer, random_state=0)
    assert all(type(member) is EstimatorMember for member in ensemble.members)
    assert_consecutive(ensemble.labels)
    present = ensemble.labels >= 0
    np.testing.assert_array_equal(ensemble.predict(IRIS)[present], ensemble.labels[present])
    seeds = {member.estimator.get_params()["random_state"] for member in ensemble.members}
    assert len(seeds) == 15
    assert [member.estimator.n_features_in_ for member in ensemble.members[:5]] == [4, 4, 2, 4, 4]


def test_a_clusterer_without_predict_cannot_label_new_rows():
    """Labels are available; the error of predict names the clusterer."""
    ensemble = fit_ensemble(IRIS, 3, 2, clusterer=AgglomerativeClustering(), random_state=0)
    np.testing.assert_array_equal(
        ensemble.labels[:, 0], AgglomerativeClustering(3).fit_predict(IRIS)
    )
    assert not ensemble.can_predict
    with pytest.raises(InvalidParameterError, match="AgglomerativeClustering has no predict"):
        ensemble.predict(IRIS)


def test_empty_partitions_give_a_warning():
    """The warning names the partitions in which every row is noise."""
    with pytest.warns(LabelWarning, match="partitions 0, 1 label no row"):
        P = make_partitions(IRIS, 3, 2, ensemble=DBSCAN(eps=1e-9, min_samples=9))
    assert np.all(P == -1)


class Interrupted(ClusterMixin, BaseEstimator):
    """A clusterer that raises KeyboardInterrupt."""

    def fit(self, X, y=None):  # noqa: ARG002, D102  scikit-learn's signature and meaning
        raise KeyboardInterrupt


class FirstFails(ClusterMixin, BaseEstimator):
    """A clusterer whose first run fails once the second, which is slow, has started."""

    turns = itertools.count()
    started, ended = threading.Event(), threading.Event()

    def fit(self, X, y=None):  # noqa: ARG002, D102  scikit-learn's signature and meaning
        if next(self.turns) == 0:
            self.started.wait(10)
            raise ValueError("the first run fails")
        self.started.set()
        time.sleep(0.3)
        self.labels_ = np.zeros(len(X), dtype=int)
        self.ended.set()
        return self


def test_a_failure_waits_for_running_threads():
    """The error of one thread is raised after the other has ended, and all is restored."""
    filters, pools = list(warnings.filters), threadpool_info()
    with (
        joblib.parallel_config(backend="threading", n_jobs=2),
        pytest.raises(InvalidParameterError, match="the first run fails"),
    ):
        make_partitions(IRIS, 3, 2, ensemble=FirstFails())
    assert FirstFails.ended.is_set()
    assert warnings.filters == filters
    assert threadpool_info() == pools


@pytest.mark.parametrize("verbose", [False, True])
def test_interrupts_are_raised(verbose):
    """Ctrl-C ends the ensemble and restores pools and filters."""
    filters, pools = list(warnings.filters), threadpool_info()
    with pytest.raises(KeyboardInterrupt):
        make_partitions(IRIS, 3, 4, ensemble=Interrupted(), verbose=verbose)
    assert warnings.filters == filters
    assert threadpool_info() == pools


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_clusters": 151}, "n_clusters=151 is more than the 150 rows"),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_clusters": None}, "n_clusters=None"),
        ({"n_clusters": []}, "n_clusters is empty"),
        ({"n_partitions": 0}, "n_partitions=0"),
        ({"strategy": "kmean"}, "strategy='kmean' is not known.*kmeans, diverse"),
        ({"strategy": []}, r"strategy=\[\]"),
        ({"subsample": 0}, "subsample=0"),
        ({"subspace": float("nan")}, "subspace=nan"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"clusterer": KMeans}, "give an instance"),
    ],
)
def test_bad_settings_are_refused(changed, message):
    """The message names the parameter and its value."""
    with pytest.raises(InvalidParameterError, match=message):
        fit_ensemble(**({"X": IRIS, "n_clusters": 3, "n_partitions": 2} | changed))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1.0, 2.0], "1D array"),
        ([["a"], ["b"]], "could not convert"),
        ([[1.0, 2.0], [3.0, np.nan], [np.nan, 4.0]], r"NaN at row 1, column 1 \(2 such cells"),
        ([[1.0, 2.0], [np.inf, 3.0]], "inf.*row 1, column 0"),
        (sp.csr_array([[0.0, 0.0, 1.0], [0.0, np.nan, 0.0]]), "NaN at row 1, column 1"),
        ([[1e200], [0.0]], "overflow"),
    ],
)
def test_bad_features_are_refused(X, message):
    """The message names the problem, and row and column of a bad cell."""
    with pytest.raises(InvalidParameterError, match=message):
        make_partitions(X, 1, 2)


def test_new_rows_are_checked():
    """New rows with other columns or missing values are refused."""
    ensemble = fit_ensemble(IRIS, 3, 2, random_state=0)
    with pytest.raises(InvalidParameterError, match=r"X_new has 3 columns.*fitted on 4"):
        ensemble.predict(IRIS[:, :3])
    with pytest.raises(InvalidParameterError, match="X_new has NaN at row 0, column 2"):
        ensemble.predict([[1.0, 1.0, np.nan, 1.0]])
