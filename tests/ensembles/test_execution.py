"""Execution of runs: sampled runs get only their rows, and labels have the smallest type."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs

from coterie.ensembles import execution, landmark_spectral, plans
from coterie.ensembles.generate import fit_ensemble
from coterie.ensembles.members import MOST_LLOYD, label_rows
from coterie.ensembles.plans import KINDS

IRIS = load_iris().data


@pytest.fixture
def few_fitted(monkeypatch):
    """Runs are fitted to 90 rows, and a task labels 40 rows."""
    for kind in plans.MOST_FITTED:
        monkeypatch.setitem(plans.MOST_FITTED, kind, 90)
    monkeypatch.setattr(execution, "_ROWS_PER_TASK", 40)
    monkeypatch.setattr(landmark_spectral, "SHARED_LANDMARKS", 20)


@pytest.mark.slow
@pytest.mark.usefixtures("few_fitted")
@pytest.mark.parametrize("X", [IRIS, IRIS.astype(np.float32)], ids=["double", "single"])
def test_sampled_runs_label_all_rows_as_new_rows(X):
    """The labels of all rows are those that the members predict, for any number of jobs."""
    settings = {"n_partitions": 9, "ensemble": list(KINDS), "random_state": 0}
    found = fit_ensemble(X, 3, n_jobs=1, **settings)
    again = fit_ensemble(X, 3, n_jobs=2, **settings)
    np.testing.assert_array_equal(again.labels, found.labels)
    predicted, left_out = found.predict(X), found.labels < 0
    np.testing.assert_array_equal(predicted[~left_out], found.labels[~left_out])
    # only "subsample" leaves rows out: 20%
    assert left_out.sum(axis=0).tolist() == [30 if "subsample" in n else 0 for n in found.names]


@pytest.mark.usefixtures("few_fitted")
def test_members_together_label_as_each_alone():
    """What members share changes no label."""
    found = fit_ensemble(IRIS, 3, 8, random_state=0)
    alone = np.column_stack([member.predict(IRIS) for member in found.members])
    np.testing.assert_array_equal(label_rows(found.members, IRIS), alone)


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


def test_labels_of_a_block_come_back_in_the_smallest_type():
    """They may come from another machine."""
    members = fit_ensemble(IRIS, 3, 2, ensemble="kmeans", random_state=0).members
    assert execution._label_on_one_thread(members, IRIS).dtype == np.int8
