"""Execution: which rows a run fits, samples, blocks, types of labels, and interrupted queues."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_blobs

from coterie.ensembles import execution, landmark_spectral, plans, scalings
from coterie.ensembles.execution import fit_run, fitted_rows
from coterie.ensembles.generate import fit_ensemble
from coterie.ensembles.members import MOST_LLOYD, label_rows
from coterie.ensembles.plans import KINDS, MOST_FITTED, Run
from coterie.ensembles.scalings import centring
from coterie.ensembles.spark_backend import SparkBackend
from coterie.errors import InvalidParameterError

IRIS = load_iris().data


@pytest.fixture
def few_fitted(monkeypatch):
    """Runs are fitted to 90 rows, and a task labels 40 rows."""
    for kind in plans.MOST_FITTED:
        monkeypatch.setitem(plans.MOST_FITTED, kind, 90)
    monkeypatch.setattr(execution, "_ROWS_PER_TASK", 40)
    monkeypatch.setattr(landmark_spectral, "SHARED_LANDMARKS", 20)


@pytest.mark.usefixtures("few_fitted")
@pytest.mark.parametrize("X", [IRIS, IRIS.astype(np.float32)], ids=["double", "single"])
def test_members_together_label_as_each_alone(X):
    """What members share changes no label; all rows are labelled like new ones."""
    found = fit_ensemble(X, 3, 9, ensemble=list(KINDS), random_state=0)
    alone = np.column_stack([member.predict(X) for member in found.members])
    np.testing.assert_array_equal(label_rows(found.members, X), alone)
    left_out = found.labels < 0
    np.testing.assert_array_equal(alone[~left_out], found.labels[~left_out])
    # only "subsample" leaves rows out: 20%
    assert left_out.sum(axis=0).tolist() == [30 if "subsample" in n else 0 for n in found.names]


@pytest.mark.usefixtures("few_fitted")
def test_spectral_runs_on_many_rows_share_landmarks():
    """All runs have the same landmarks, and ``shortcuts`` say so."""
    found = fit_ensemble(IRIS, 3, 5, ensemble="spectral", random_state=0)
    for member in found.members:
        np.testing.assert_array_equal(member.landmarks, found.members[0].landmarks)
    assert found.shortcuts[0].startswith("spectral runs are fitted to 90 of 150 rows and share")


def test_few_rows_need_no_shortcuts():
    """Every row is fitted, and no landmarks are shared."""
    found = fit_ensemble(IRIS, 3, 8, random_state=0)
    assert found.shortcuts == ()
    first, second = (m.landmarks for m in found.members if hasattr(m, "landmarks"))
    assert not np.array_equal(first, second)


def test_many_rows_have_mini_batches():
    """Above a number of rows k-means uses batches, says so, and finds the same clusters."""
    n = MOST_LLOYD + 1
    X, y = make_blobs(n, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    found = fit_ensemble(X, 3, 1, ensemble="kmeans", random_state=1)
    assert found.shortcuts == (
        f"kmeans runs are fitted to {n:,} of {n:,} rows by mini-batch k-means",
    )
    pairs = set(zip(found.labels[:, 0].tolist(), y.tolist(), strict=True))
    assert len(pairs) >= 3
    sizes = np.bincount(found.labels[:, 0] * 3 + y, minlength=9)
    assert np.sort(sizes)[-3:].sum() > 0.999 * n


@pytest.mark.parametrize(("K", "dtype"), [(100, np.int8), (140, np.int16)])
def test_labels_have_the_smallest_type(K, dtype):
    """128 clusters fit in one byte; more labels need two, also beside smaller runs."""
    X = np.arange(150.0)[:, None]
    found = fit_ensemble(X, [K], 4, ensemble=["kmeans", "spectral"], random_state=0)
    assert found.labels.dtype == found.predict(X).dtype == dtype
    assert found.labels.max() >= K - 10
    np.testing.assert_array_equal(found.predict(X), found.labels)


def test_features_may_be_a_memory_map(tmp_path):
    """Features in a file are read in blocks and give the same labels."""
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, IRIS.shape)
    X[:] = IRIS
    settings = {"n_partitions": 8, "random_state": 0}
    mapped = fit_ensemble(np.load(tmp_path / "X.npy", mmap_mode="r"), 3, n_jobs=2, **settings)
    here = fit_ensemble(IRIS.astype(np.float32), 3, n_jobs=1, **settings)
    np.testing.assert_array_equal(mapped.labels, here.labels)


def test_rows_are_left_out_while_labels_grow():
    """Threads of joblib mark rows of later runs while labels of earlier ones are stored."""
    n, V = 20_000, 24
    table = execution._LabelTable(n, V)
    drawn = np.random.default_rng(0).random((n, V)) < 0.5
    with ThreadPoolExecutor(4) as threads:
        marked = [threads.submit(table.leave_out, ~drawn[:, v], v) for v in range(V)]
        for largest in (100, 200, 40_000):
            table.put(slice(None), [0], np.full((n, 1), largest))
        for one in marked:
            one.result()
    np.testing.assert_array_equal(table.labels[:, 1:] < 0, ~drawn[:, 1:])


def run_of(kind, n_clusters=3, drawn=None, seed=0):
    """Return a run on centred iris flowers."""
    return Run(kind=kind, n_clusters=n_clusters, scaling=centring(IRIS), drawn=drawn, seed=seed)


@pytest.mark.parametrize("kind", MOST_FITTED)
def test_predicting_by_blocks_changes_nothing(kind, monkeypatch):
    """Labels do not depend on the size of the blocks of rows."""
    member, labels = fit_run(IRIS, run_of(kind))
    monkeypatch.setattr(scalings, "_MOST_ROWS", 7)
    np.testing.assert_array_equal(member.predict(IRIS), labels)


@pytest.mark.parametrize("kind", MOST_FITTED)
def test_many_rows_are_sampled_and_all_are_labelled(kind, monkeypatch):
    """Above the limit a run fits a random sample; the others are labelled like new rows."""
    monkeypatch.setitem(MOST_FITTED, kind, 60)
    drawn = np.arange(150) % 3 > 0
    for rows in (None, drawn):
        fitted, weights = fitted_rows(150, run_of(kind, drawn=rows), None)
        assert weights is None
        assert len(np.unique(fitted)) == len(fitted) == 60
        assert rows is None or rows[fitted].all()
        member, labels = fit_run(IRIS, run_of(kind, 4, rows))
        np.testing.assert_array_equal(labels >= 0, np.ones(150, bool) if rows is None else rows)
        np.testing.assert_array_equal(member.predict(IRIS)[labels >= 0], labels[labels >= 0])
        assert set(labels[labels >= 0]) == set(range(labels.max() + 1))
    other = fitted_rows(150, run_of(kind, seed=1), None)[0]
    assert not np.array_equal(other, fitted_rows(150, run_of(kind), None)[0])


@settings(max_examples=30)
@given(
    weights=st.lists(st.integers(0, 20), min_size=1, max_size=30).filter(any),
    seed=st.integers(0, 99),
    some=st.booleans(),
)
def test_rows_are_drawn_in_proportion_to_their_weights(weights, seed, some):
    """Of m draws, row i has ⌊m w_i/Σw⌋ or ⌈m w_i/Σw⌉; rows that may not be drawn have none."""
    w = np.array(weights, dtype=float)
    drawn = None
    if some:
        drawn = (np.arange(len(w)) % 2 == 0) | (np.arange(len(w)) == w.argmax())
    rows, kept = fitted_rows(len(w), run_of("ward", drawn=drawn, seed=seed), w)
    assert kept is None
    used = w if drawn is None else np.where(drawn, w, 0.0)
    expected = len(rows) * used / used.sum()
    times = np.bincount(rows, minlength=len(w))
    assert (times >= np.floor(expected - 1e-9)).all()
    assert (times <= np.ceil(expected + 1e-9)).all()


@pytest.mark.parametrize("kind", ["kmeans", "mixture"])
def test_a_sample_without_weight_is_refused(kind):
    """The message says what to do if all rows of a sample have weight 0."""
    drawn = np.arange(150) < 10
    with pytest.raises(InvalidParameterError, match=r"sample_weight is 0 for all 10 rows.*raise"):
        fit_run(IRIS, run_of(kind, drawn=drawn), (~drawn).astype(float))


@pytest.mark.parametrize("kind", MOST_FITTED)
def test_every_cluster_has_a_fitted_row(kind):
    """New rows get only labels that fitted rows have."""
    X = np.repeat(IRIS[[0, 60, 120]], 5, axis=0)
    member, labels = fit_run(X, run_of(kind, 10))
    present = set(labels.tolist())
    assert present == set(range(len(present)))
    assert len(present) <= 3
    assert set(member.predict(IRIS).tolist()) <= present


def test_a_session_is_needed(monkeypatch):
    """Without an active session the message says how to start one."""
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
    monkeypatch.setattr(sql.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(InvalidParameterError, match=r"no active Spark session; start one"):
        SparkBackend()
