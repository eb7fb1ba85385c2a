"""Partitions made from features, for every kind, backend and input; and planted ones."""

import inspect
import itertools
import threading
import time
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib._parallel_backends import ThreadingBackend
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans, MiniBatchKMeans
from sklearn.datasets import load_iris, make_blobs
from threadpoolctl import threadpool_info

from coterie.ensembles.generate import fit_ensemble, make_partitions, planted_partitions
from coterie.ensembles.runs import KINDS
from coterie.errors import InvalidParameterError, LabelWarning
from coterie.inspection.scores import adjusted_rand_index, clustering_accuracy

IRIS = load_iris().data
ALL_KINDS = list(KINDS)
SPARSE = sp.random(80, 12, density=0.3, random_state=0, format="csr")


def assert_consecutive(P: np.ndarray) -> None:
    """Check that the labels of every column are 0, 1, … without gaps."""
    for column in P.T:
        present = np.unique(column[column >= 0])
        np.testing.assert_array_equal(present, np.arange(len(present)))


def test_make_partitions_gives_the_labels_of_the_ensemble():
    """Both functions have the same parameters and labels."""
    ours, theirs = map(inspect.signature, (make_partitions, fit_ensemble))
    assert ours.parameters == theirs.parameters
    found = make_partitions(IRIS, [2, 3], 8, subsample=0.6, subspace=0.3, random_state=4)
    ensemble = fit_ensemble(IRIS, [2, 3], 8, subsample=0.6, subspace=0.3, random_state=4)
    assert_array_equal(found, ensemble.labels)


def test_labels_do_not_depend_on_the_number_of_jobs():
    """One job, two jobs and another backend agree to the last bit, even on new rows."""
    # Enough rows for k-means to use several threads if it were allowed to.
    X, _ = make_blobs(1000, 3, centers=5, cluster_std=3, random_state=0)
    new = X + 0.1
    settings_ = {"ensemble": [*KINDS, MiniBatchKMeans(n_init=1)], "random_state": 3}
    alone = fit_ensemble(X, 5, 10, n_jobs=1, **settings_)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        in_threads = fit_ensemble(X, 5, 10, **settings_)
    for other in (in_threads, fit_ensemble(X, 5, 10, n_jobs=2, **settings_)):
        np.testing.assert_array_equal(other.labels, alone.labels)
        np.testing.assert_array_equal(other.predict(new), alone.predict(new))


def test_backends_that_cannot_stream_still_work():
    """A joblib backend that cannot return a generator gives the same labels."""

    class Whole(ThreadingBackend):
        supports_return_generator = False

    with joblib.parallel_config(backend=Whole(), n_jobs=2):
        P = make_partitions(IRIS, 3, 4, random_state=0)
    assert_array_equal(P, make_partitions(IRIS, 3, 4, random_state=0))


def test_a_longer_ensemble_begins_like_a_shorter_one():
    """The first runs do not depend on how many follow."""
    P = make_partitions(IRIS, 3, 2 * len(KINDS), ensemble=ALL_KINDS, random_state=0)
    Q = make_partitions(IRIS, 3, len(KINDS) + 1, ensemble=ALL_KINDS, random_state=0)
    np.testing.assert_array_equal(P[:, : Q.shape[1]], Q)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, np.int64])
def test_every_kind_of_seed(make):
    """Generators, RandomStates and integers are seeds; generators are advanced."""
    seed = make(7)
    P = make_partitions(IRIS, 8, 5, random_state=seed)
    np.testing.assert_array_equal(make_partitions(IRIS, 8, 5, random_state=make(7)), P)
    other = make(8) if isinstance(seed, int | np.int64) else seed
    assert not np.array_equal(make_partitions(IRIS, 8, 5, random_state=other), P)


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


def test_the_presence_of_a_clusterer_does_not_change_other_kinds():
    """Kinds of this package are centred, and clusterers get the features unchanged."""
    X = np.round(IRIS * 10) + 2**33
    ensemble = fit_ensemble(X, 3, 4, ensemble=["kmeans", KMeans(n_init=1)], random_state=0)
    around_zero = fit_ensemble(X - 2**33, 3, 4, ensemble=["kmeans"] * 2, random_state=0)
    np.testing.assert_array_equal(ensemble.labels[:, ::2], around_zero.labels[:, ::2])
    assert all(member.shift is None for member in ensemble.members[1::2])


def test_samples_and_subspaces_of_several_kinds():
    """With ``subsample`` and ``subspace``, kinds in turn label the same rows from own columns."""
    kinds = ["spectral", "mixture", KMeans(n_init=1)]
    ensemble = fit_ensemble(IRIS, 3, 9, ensemble=kinds, subsample=0.5, subspace=0.5, random_state=0)
    assert ensemble.kinds == ("spectral", "mixture", "KMeans") * 3
    drawn = (ensemble.labels >= 0).reshape(150, 3, 3)
    assert (drawn == drawn[:, :, :1]).all()
    assert (drawn.sum(axis=0) == 75).all()
    assert [len(member.features) for member in ensemble.members] == [2] * 9
    present = ensemble.labels >= 0
    np.testing.assert_array_equal(ensemble.predict(IRIS)[present], ensemble.labels[present])
    assert (ensemble.predict(IRIS) >= 0).all()


def test_empty_partitions_give_a_warning():
    """The warning names the partitions in which every row is noise."""
    with pytest.warns(LabelWarning, match="partitions DBSCAN 0, DBSCAN 1 label no row"):
        P = make_partitions(IRIS, 3, 2, ensemble=DBSCAN(eps=1e-9, min_samples=9))
    assert np.all(P == -1)


TINY = {
    "one row": [[1.0, 2.0]],
    "two rows": [[0.1], [0.7]],
    "three rows, more columns": np.random.default_rng(0).normal(size=(3, 20)),
    "five rows": np.random.default_rng(1).normal(size=(5, 2)),
    "equal rows": np.full((12, 3), 0.3),
    "zeros in many columns": np.zeros((40, 20)),
    "a constant column": np.column_stack([np.full(30, 7.1), np.arange(30.0)]),
    "three distinct rows": np.repeat(np.random.default_rng(2).normal(size=(3, 4)), 9, axis=0),
}


@pytest.mark.parametrize("make", [np.float64, np.float32, sp.csr_array])
@pytest.mark.parametrize("rows", TINY.values(), ids=TINY.keys())
def test_tiny_and_degenerate_features(rows, make):
    """Every kind labels few, equal or constant rows, without warnings, and predicts them.

    There are at most as many clusters as distinct rows.
    """
    X = make(rows)
    n = X.shape[0]
    for n_clusters in (None, min(n, 4)):
        fitted = fit_ensemble(X, n_clusters, 2 * len(KINDS), ensemble=ALL_KINDS, random_state=0)
        P = fitted.labels
        assert_consecutive(P)
        assert P.max() < len(np.unique(rows, axis=0))
        predicted = np.vstack([fitted.predict(X), fitted.predict(X[-1:])])
        labels = np.vstack([P, P[-1:]])
        np.testing.assert_array_equal(predicted[labels >= 0], labels[labels >= 0])


@pytest.mark.parametrize("ensemble", KINDS)
@pytest.mark.parametrize("X", [IRIS, SPARSE], ids=["dense", "sparse"])
def test_every_kind_labels_and_predicts(X, ensemble):
    """Labels are small integers without gaps, and predict repeats them where they are not −1.

    A row gets the same labels alone, among others, in another order, dense and sparse.
    """
    fitted = fit_ensemble(X, 3, 3, ensemble=ensemble, random_state=0)
    P, labels = fitted.labels, fitted.predict(X)
    assert P.shape == (X.shape[0], 3) and P.dtype == labels.dtype == np.int8
    assert_consecutive(P)
    assert np.all(P >= 0) == (ensemble != "subsample") and np.all(labels >= 0)
    np.testing.assert_array_equal(labels[P >= 0], P[P >= 0])
    order = np.random.default_rng(0).permutation(X.shape[0])
    np.testing.assert_array_equal(fitted.predict(X[order]), labels[order])
    for i in order[:5]:
        np.testing.assert_array_equal(fitted.predict(X[i : i + 1])[0], labels[i])
    other = X.toarray() if sp.issparse(X) else sp.csr_array(X)
    np.testing.assert_array_equal(fitted.predict(other), labels)


class Interrupted(ClusterMixin, BaseEstimator):
    """A clusterer that raises KeyboardInterrupt."""

    def fit(self, X, y=None):  # noqa: ARG002  scikit-learn's signature and meaning
        raise KeyboardInterrupt


class FirstFails(ClusterMixin, BaseEstimator):
    """A clusterer whose first run fails once the second, which is slow, has started."""

    def fit(self, X, y=None):  # noqa: ARG002  scikit-learn's signature and meaning
        if next(self.turns) == 0:
            self.started.wait(60)
            raise ValueError("the first run fails")
        self.started.set()
        time.sleep(0.3)
        self.labels_ = np.zeros(len(X), dtype=int)
        self.ended.set()
        return self


@pytest.mark.parametrize("verbose", [False, True])
def test_failures_and_interrupts_are_raised_and_all_is_restored(verbose):
    """The error of one thread is raised after the other has ended; Ctrl-C ends the ensemble."""
    filters, pools = list(warnings.filters), threadpool_info()
    with pytest.raises(KeyboardInterrupt):
        make_partitions(IRIS, 3, 4, ensemble=Interrupted(), verbose=verbose)
    FirstFails.turns = itertools.count()
    FirstFails.started, FirstFails.ended = threading.Event(), threading.Event()
    with (
        joblib.parallel_config(backend="threading", n_jobs=2),
        pytest.raises(InvalidParameterError, match="the first run fails"),
    ):
        make_partitions(IRIS, 3, 2, ensemble=FirstFails(), verbose=verbose)
    assert FirstFails.ended.is_set()
    assert warnings.filters == filters
    assert threadpool_info() == pools


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_clusters": 151}, "n_clusters=151 is more than the 150 rows"),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_clusters": [3, None]}, "n_clusters=None"),
        ({"n_clusters": []}, "n_clusters is empty"),
        ({"n_partitions": 0}, "n_partitions=0"),
        ({"ensemble": []}, "ensemble is empty"),
        ({"subsample": 0}, "subsample=0"),
        ({"subspace": float("nan")}, "subspace=nan"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"sample_weight": [1, 2]}, "sample_weight has shape"),
    ],
)
def test_bad_settings_are_refused(changed, message):
    with pytest.raises(InvalidParameterError, match=message):
        fit_ensemble(**({"X": IRIS, "n_clusters": 3, "n_partitions": 2} | changed))


TABLES = (pd.DataFrame, pl.DataFrame, pa.table)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1.0, 2.0], "1D array"),
        ([[1.0, "2", "x"], [2.0, "3", "y"]], "column 2 holds text"),
        *((table({"city": ["Rome"]}), r"'city' holds text \('Rome' in row 0") for table in TABLES),
        *((table({"a": [1.0, 2.0], "b": [0.5, np.inf]}), "row 1, column 'b'") for table in TABLES),
        ([[1.0, 2.0], [3.0, np.nan], [np.nan, 4.0]], r"NaN at row 1, column 1 \(2 such cells"),
        ([[1.0, 2.0], [np.inf, 3.0]], "inf.*row 1, column 0"),
        (sp.csr_array([[0.0, 0.0, 1.0], [0.0, np.nan, 0.0]]), "NaN at row 1, column 1"),
        ([[1e200], [0.0]], "overflow"),
    ],
)
def test_bad_features_are_refused(X, message):
    with pytest.raises(InvalidParameterError, match=message):
        make_partitions(X, 1, 2)


def test_new_rows_are_checked():
    """New rows with other columns or missing values are refused."""
    ensemble = fit_ensemble(IRIS, 3, 2, random_state=0)
    for X, message in (
        (IRIS[:, :3], r"X_new has 3 columns.*fitted on 4"),
        ([[1.0, 1.0, np.nan, 1.0]], "X_new has NaN at row 0, column 2"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            ensemble.predict(X)


@pytest.mark.parametrize(
    "ensemble",
    ["mixed", "ward", "scalings", "subsample", [KMeans(n_init=1), AgglomerativeClustering()]],
    ids=str,
)
def test_rows_of_weight_0_do_not_influence_the_runs(ensemble):
    """The runs are those of the other rows; rows of weight 0 are labelled like new rows."""
    X = np.random.default_rng(0).normal(size=(80, 3))
    weights = np.arange(80) % 3
    X[weights == 0] *= 50
    settings = {"n_partitions": 5, "ensemble": ensemble, "random_state": 0}
    every = fit_ensemble(X, 3, sample_weight=weights, **settings)
    some = fit_ensemble(X[weights > 0], 3, sample_weight=weights[weights > 0], **settings)
    np.testing.assert_array_equal(every.labels[weights > 0], some.labels)
    np.testing.assert_array_equal(every.labels[weights == 0], some.predict(X[weights == 0]))
    used, odds = weights > 0, np.linspace(2, 4, 80)
    drawn, ones = settings | {"subsample": 0.8}, np.ones(used.sum())
    every = fit_ensemble(X, 3, subsample_weight=odds, sample_weight=used, **drawn)
    some = fit_ensemble(X[used], 3, subsample_weight=odds[used], sample_weight=ones, **drawn)
    np.testing.assert_array_equal(every.labels[used], some.labels)


SIZES = [6_000, 3_000, 1_000]


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(0, 6),
    st.floats(0, 1),
    st.booleans(),
    st.integers(0, 100),
)
def test_shapes_sizes_and_seed(sizes, n_partitions, n_bad, noise, correlated, seed):
    """Cluster sizes are the given ones, labels are 0..K−1, and a seed fixes all draws."""
    arguments = (sizes, n_partitions, min(n_bad, n_partitions), noise)
    P, y = planted_partitions(*arguments, correlated=correlated, random_state=seed)
    assert P.shape == (sum(sizes), n_partitions)
    assert P.dtype == y.dtype == np.int32
    assert P.min() >= 0 and P.max() < len(sizes)
    assert_array_equal(np.bincount(y), sizes)
    again = planted_partitions(*arguments, correlated=correlated, random_state=seed)
    assert_array_equal(P, again[0])
    assert_array_equal(y, again[1])


def test_without_noise_copies_are_exact():
    """At noise 0 good columns equal y up to names; correlated wrong columns equal each other."""
    P, y = planted_partitions(SIZES, 6, 2, noise=0.0, random_state=0)
    scores = [adjusted_rand_index(y, column) for column in P.T]
    assert scores[:4] == [1.0] * 4
    assert_allclose(scores[4:], 0, atol=0.01)
    assert adjusted_rand_index(P[:, 4], P[:, 5]) == 1.0


def test_noise_redraws_its_share():
    """A share noise·(1 − 1/K) of the labels changes, in good and in correlated wrong columns."""
    noise = 0.5
    P, y = planted_partitions(SIZES, 3, 2, noise, random_state=2)
    kept = 1 - noise * (1 - 1 / len(SIZES))
    assert_allclose(clustering_accuracy(y, P[:, 0]), kept, atol=0.015)
    # Two noisy copies of one partition agree where both kept the label, or by chance.
    agree = (1 - noise) ** 2 + (1 - (1 - noise) ** 2) / len(SIZES)
    assert_allclose(clustering_accuracy(P[:, 1], P[:, 2]), agree, atol=0.015)


def test_names_and_order_are_random():
    """Columns have different label names, and points of a class are not adjacent."""
    P, y = planted_partitions([25] * 12, 20, 0, noise=0.0, random_state=5)
    assert len({tuple(column) for column in P.T}) == 20
    assert (np.diff(y) != 0).sum() > 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": []}, "sizes is empty"),
        ({"sizes": [3, 0]}, r"sizes\[1\]=0"),
        ({"n_bad": -1}, "n_bad=-1: .* 0 to 5"),
        ({"n_bad": 6}, "n_bad=6: .* 0 to 5"),
        ({"noise": 1.5}, "noise=1.5"),
        ({"bad_clusters": 0}, "bad_clusters=0"),
    ],
)
def test_bad_settings_of_planted_partitions_are_refused(change, message):
    arguments = {"sizes": [3, 2], "n_partitions": 5, "n_bad": 1, "noise": 0.1} | change
    with pytest.raises(InvalidParameterError, match=message):
        planted_partitions(**arguments)


@pytest.mark.parametrize("correlated", [True, False])
def test_number_of_wrong_clusters(correlated):
    """Wrong columns have ``bad_clusters`` equally likely labels, and agree if correlated."""
    P, y = planted_partitions(SIZES, 3, 2, 0.2, 7, correlated=correlated, random_state=4)
    assert len(np.unique(P[:, 0])) == 3
    for column in P[:, 1:].T:
        assert_allclose(np.bincount(column) / len(y), 1 / 7, atol=0.02)
    assert (adjusted_rand_index(P[:, 1], P[:, 2]) > 0.005) == correlated
