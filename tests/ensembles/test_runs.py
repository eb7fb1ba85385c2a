"""Runs: kinds in turn, numbers of clusters, samples of rows and columns; which rows are fitted."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from coterie.ensembles import generate, runs, scalings
from coterie.ensembles.generate import fit_ensemble
from coterie.ensembles.members import MOST_LLOYD, label_rows
from coterie.ensembles.runs import (
    ENSEMBLES,
    KINDS,
    MOST_FITTED,
    SEVERAL,
    Plan,
    Run,
    check_ensemble,
    check_sizes,
    fit_run,
    fitted_rows,
)
from coterie.ensembles.scalings import Scaling, centring
from coterie.ensembles.spark_backend import SparkBackend
from coterie.errors import InvalidParameterError
from coterie.inspection.scores import clustering_accuracy

SCALINGS = [Scaling(shift=np.zeros(10) + shift) for shift in (0.0, 1.0, 2.0)]


def planned_runs(ensemble, n_runs, n_rows=400, n_clusters=3, subsample=None, subspace=None, **odds):
    """Return the runs of an ensemble of 10 features."""
    plan = Plan(
        n_rows=n_rows,
        n_features=10,
        sizes=check_sizes(n_clusters, n_rows),
        kinds=check_ensemble(ensemble, subsample, subspace),
        same_samples=subsample is not None,
        **odds,
    )
    plan.check_draws(n_runs)
    return list(plan.runs(SCALINGS, np.random.SeedSequence(0).spawn(n_runs)))


def drawn_sizes(name, n_rows, n_clusters):
    """Return the different K_v of 1,000 runs."""
    return {run.n_clusters for run in planned_runs(name, 1_000, n_rows, n_clusters)}


@pytest.mark.parametrize("n_rows", [1, 3, 30, 400, 10_000])
@pytest.mark.parametrize("K", [None, 1, 3, 30])
@pytest.mark.parametrize("name", {kind.sizes: name for name, kind in KINDS.items()}.values())
def test_numbers_of_clusters_are_in_the_documented_range(name, n_rows, K):
    """K_v is never below K or above n, and covers the range of its kind, end to end."""
    K = K and min(K, n_rows)

    def highest(root):
        most = max(min(int(root), 100), min(20, n_rows // 5), 1)
        return max(most, K or 1, min(2 * (K or 1), n_rows // 5))

    root, fine = highest(math.sqrt(n_rows)), highest(1.5 * math.sqrt(n_rows))
    usual = max(min(math.isqrt(n_rows), 100), min(20, n_rows // 5), 1)
    fine_usual = max(min(int(1.5 * math.sqrt(n_rows)), 100), min(20, n_rows // 5), 1)
    least = max(2, usual // 4, K or 1)
    low, high = {
        "given": (K or least, K or root),
        "cut": (K or least, K or root),
        "diverse": (least, root),
        "coarse": (least, min(root, max(n_rows // 30, least))),
        "fine": (max(2, fine_usual // 3, K or 1), fine),
    }[KINDS[name].sizes]
    sizes = drawn_sizes(name, n_rows, K)
    high = min(high, n_rows)
    assert sizes == set(range(min(low, high), high + 1))


@pytest.mark.parametrize(
    ("kind", "n_clusters", "drawn"),
    [
        *((name, [2, 7, 9], {2, 7, 9}) for name in ("kmeans", "subspaces", "scalings")),
        ("diverse", [18, 19], set(range(18, 39))),
        ("spectral", [29, 40], set(range(29, 81))),
        (KMeans(), 3, {3}),
        (KMeans(), [3, 5], {3, 5}),
        (KMeans(), None, {None}),
    ],
)
def test_runs_draw_from_a_sequence(kind, n_clusters, drawn):
    """Kinds of given size and clusterers draw from it; it bounds the others from below."""
    assert drawn_sizes(kind, 400, n_clusters) == drawn


def test_kinds_take_turns():
    """Names and clusterers are used in turn; "mixed" is four runs; scalings vary by cycle."""
    names = [run.kind for run in planned_runs(["mixed", "ward"], 7)]
    assert names == [*SEVERAL["mixed"], "ward", *SEVERAL["mixed"][:2]]
    runs = planned_runs(["kmeans", "scalings", KMeans()], 12)
    assert [run.scaling.shift[0] for run in runs[0::3]] == [0, 0, 0, 0]
    assert [run.scaling.shift[0] for run in runs[1::3]] == [0, 1, 2, 0]
    assert all(run.scaling.shift is None for run in runs[2::3])  # features unchanged
    assert [run.clusterer is None for run in runs[:3]] == [True, True, False]
    assert len({run.seed for run in runs}) == len(runs)


def test_partitions_are_named_and_numbered_by_kind():
    """A name is the kind, and a number that counts within the kind."""
    found = fit_ensemble(np.arange(9.0)[:, None], 2, 7, ensemble=["mixed", KMeans(n_init=1)])
    first = ("spectral 0", "mixture 0", "diagonal mixture 0", "mixture 1", "KMeans 0")
    assert found.names == (*first, "spectral 1", "mixture 2")


@pytest.mark.parametrize(("name", "share", "count"), [("subspaces", 0.5, 5), ("ward", 0.7, 7)])
def test_shares_of_the_columns(name, share, count):
    """A run has distinct increasing columns; ``subspace`` replaces the share of the kind."""
    assert KINDS[name].subspace == share
    for subspace, expected in ((None, count), (0.3, 3), (0.01, 1), (1.0, 10)):
        subsets = [run.scaling.features for run in planned_runs(name, 20, subspace=subspace)]
        assert all(len(columns) == expected for columns in subsets)
        assert all((np.diff(columns) > 0).all() for columns in subsets)
        assert len({tuple(columns) for columns in subsets}) > 1 or expected == 10


@settings(max_examples=40)
@given(
    n_rows=st.integers(1, 40),
    n_runs=st.integers(2, 8),
    share=st.sampled_from([0.3, 0.5, 0.8, 1.0]),
    kinds=st.sampled_from([["subsample"], ["kmeans", "mixture"], ["spectral", "ward", KMeans()]]),
)
def test_samples_are_balanced_and_shared_by_all_kinds_of_a_cycle(n_rows, n_runs, share, kinds):
    """All kinds of a cycle have the same rows; draws of two rows differ by at most one.

    Every row is drawn and samples overlap, or the ensemble is refused.
    """
    n_samples = math.ceil(n_runs / len(kinds))
    count = max(round(share * n_rows), 1)
    if n_samples * count < n_rows + (n_samples > 1):
        with pytest.raises(
            InvalidParameterError,
            match=rf"{n_samples} samples with subsample={share} draw "
            rf"{n_samples * count} of the {n_rows} rows",
        ):
            planned_runs(kinds, n_runs, n_rows, 1, subsample=share)
        return
    runs = planned_runs(kinds, n_runs, n_rows, 1, subsample=share)
    for turn, run in enumerate(runs):
        assert run.drawn.sum() == count
        assert run.drawn is runs[turn - turn % len(kinds)].drawn
    times = np.sum([run.drawn for run in runs[:: len(kinds)]], axis=0)
    assert times.min() >= 1
    assert times.max() - times.min() <= 1


def test_samples_are_large_enough():
    """A sample has at least K rows; with other runs, or alone, it need not draw all rows."""
    assert planned_runs("subsample", 4, 20, [2, 9], subsample=0.25)[0].drawn.sum() == 9
    assert planned_runs(["kmeans", "subsample"], 2)[0].drawn is None
    assert planned_runs("subsample", 1)[0].drawn.sum() == 320


@pytest.mark.parametrize(
    "entry", ["kmean", None, 3, KMeans, StandardScaler(), LogisticRegression()]
)
def test_what_is_no_clusterer_is_refused(entry):
    """The message shows the entry and the names, alone and in a sequence."""
    for ensemble in (entry, ["kmeans", entry]):
        with pytest.raises(InvalidParameterError, match=r"ensemble: .* is neither a name") as error:
            check_ensemble(ensemble)
        assert repr(entry) in str(error.value)
        assert ", ".join(ENSEMBLES) in str(error.value)


@pytest.mark.parametrize(
    ("name", "n_rows", "subsample", "shortcuts"),
    [
        ("kmeans", 60_000, 0.5, ()),
        ("kmeans", 60_000, 0.9, ("kmeans runs are fitted to 54,000 of 60,000 rows by mini-batch",)),
        ("mixture", 5_000, 0.8, ()),
        ("mixture", 9_000, 0.8, ("mixture runs are fitted to 4,000 of 9,000 rows",)),
    ],
)
def test_shortcuts_count_the_rows_that_are_drawn(name, n_rows, subsample, shortcuts):
    """A sample that is fitted completely is no shortcut."""
    plan = Plan(n_rows=n_rows, n_features=2, sizes=(3,), kinds=check_ensemble(name, subsample))
    assert len(plan.shortcuts()) == len(shortcuts)
    for found, expected in zip(plan.shortcuts(), shortcuts, strict=True):
        assert found.startswith(expected)


def test_rows_are_drawn_in_proportion_to_their_weights():
    """A row of weight 2 is drawn twice as often, but at most once in each run."""
    odds = np.repeat([1.0, 2.0, 100.0], [100, 100, 10])
    runs = planned_runs("subsample", 200, 210, 3, subsample=0.3, row_odds=odds)
    times = np.sum([run.drawn for run in runs], axis=0)
    assert all(run.drawn.sum() == 63 for run in runs)
    assert (times[200:] == 200).all()
    light, heavy = times[:100], times[100:200]
    assert np.ptp(light) <= 2
    assert np.ptp(heavy) <= 2
    assert heavy.mean() == pytest.approx(2 * light.mean(), rel=0.05)


def test_columns_are_drawn_by_their_weights():
    """Columns of weight 0 are never drawn, and heavy ones more often."""
    odds = np.array([0, 0, 1, 1, 1, 1, 1, 1, 1, 8.0])
    runs = planned_runs("subspaces", 300, subspace=0.4, column_odds=odds)
    times = np.bincount(np.concatenate([run.scaling.features for run in runs]), minlength=10)
    assert times[:2].sum() == 0
    assert times[9] > 1.5 * times[2:9].max()
    few = planned_runs("subspaces", 5, subspace=0.9, column_odds=odds)
    assert all(run.scaling.features.tolist() == list(range(2, 10)) for run in few)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ensemble": "kmeans", "row_odds": np.ones(400)}, "the runs draw no subsample"),
        ({"ensemble": "kmeans", "column_odds": np.ones(10)}, "the runs draw no subspace"),
        (
            {"ensemble": "subsample", "row_odds": np.r_[1e-3, np.ones(399)]},
            r"subsample_weight\[0\] is so small",
        ),
    ],
)
def test_weights_without_effect_are_refused(settings, message):
    """Weights need samples, and every row must be drawn."""
    with pytest.raises(InvalidParameterError, match=message):
        planned_runs(n_runs=5, **settings)


IRIS = load_iris().data


@pytest.fixture
def few_fitted(monkeypatch):
    """Runs are fitted to 90 rows, a task labels 40 rows, and a block has 7."""
    monkeypatch.setattr(scalings, "_MOST_ROWS", 7)
    for kind in MOST_FITTED:
        monkeypatch.setitem(MOST_FITTED, kind, 90)
    monkeypatch.setattr(runs, "_ROWS_PER_TASK", 40)
    monkeypatch.setattr(generate, "_SHARED_LANDMARKS", 20)


@pytest.mark.usefixtures("few_fitted")
@pytest.mark.parametrize("X", [IRIS, IRIS.astype(np.float32)], ids=["double", "single"])
def test_members_together_label_as_each_alone(X, monkeypatch):
    """What members share and the blocks change no label; all rows are labelled like new ones."""
    found = fit_ensemble(X, 3, 9, ensemble=list(KINDS), random_state=0)
    monkeypatch.undo()
    alone = np.column_stack([member.predict(X) for member in found.members])
    np.testing.assert_array_equal(label_rows(found.members, X), alone)
    left_out = found.labels < 0
    np.testing.assert_array_equal(alone[~left_out], found.labels[~left_out])
    # only "subsample" leaves rows out: 20%
    assert left_out.sum(axis=0).tolist() == [30 if "subsample" in n else 0 for n in found.names]


@pytest.mark.usefixtures("few_fitted")
def test_weights_of_rows_reach_the_sample():
    """The rows of k-means weigh in a sample of many rows as well."""
    weights = np.repeat([1e6, 1.0], [50, 100])
    found = fit_ensemble(IRIS, 1, 1, ensemble="kmeans", sample_weight=weights, random_state=0)
    centre = found.members[0].centres[0] + IRIS.mean(axis=0)
    assert np.abs(centre - IRIS[:50].mean(axis=0)).max() < 0.3


def test_spectral_runs_on_many_rows_share_landmarks(request):
    """Then all runs have the same landmarks, and ``shortcuts`` say so."""
    few = fit_ensemble(IRIS, 3, 2, ensemble="spectral", random_state=0)
    request.getfixturevalue("few_fitted")
    many = fit_ensemble(IRIS, 3, 2, ensemble="spectral", random_state=0)
    for found, share in ((few, False), (many, True)):
        first, second = (member.landmarks for member in found.members)
        assert np.array_equal(first, second) == share
    (shortcut,) = many.shortcuts
    assert shortcut.startswith("spectral runs are fitted to 90 of 150 rows and share")
    assert few.shortcuts == ()


def test_many_rows_have_mini_batches():
    """Above a number of rows k-means uses batches, says so, and finds the same clusters."""
    n = MOST_LLOYD + 1
    X, y = make_blobs(n, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    found = fit_ensemble(X, 3, 1, ensemble="kmeans", random_state=1)
    assert found.shortcuts == (
        f"kmeans runs are fitted to {n:,} of {n:,} rows by mini-batch k-means",
    )
    assert clustering_accuracy(y, found.labels[:, 0]) > 0.999


@pytest.mark.parametrize(("K", "dtype"), [(100, np.int8), (140, np.int16)])
def test_labels_have_the_smallest_type(K, dtype):
    """128 clusters fit in one byte; more labels need two, even next to smaller runs."""
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
    table = runs._LabelTable(n, V)
    drawn = np.random.default_rng(0).random((n, V)) < 0.5
    with ThreadPoolExecutor(4) as threads:
        marked = [threads.submit(table.leave_out, ~drawn[:, v], v) for v in range(V)]
        for largest in (100, 200, 40_000):
            table.put(slice(None), [0], np.full((n, 1), largest))
        for one in marked:
            one.result()
    np.testing.assert_array_equal(table.labels[:, 1:] < 0, ~drawn[:, 1:])


def iris_run(kind, n_clusters=3, drawn=None, seed=0):
    """Return a run on centred iris flowers."""
    return Run(kind=kind, n_clusters=n_clusters, scaling=centring(IRIS), drawn=drawn, seed=seed)


@pytest.mark.parametrize("kind", MOST_FITTED)
def test_many_rows_are_sampled_and_all_are_labelled(kind, monkeypatch):
    """Above the limit a run fits a random sample; the others are labelled like new rows."""
    monkeypatch.setitem(MOST_FITTED, kind, 60)
    drawn = np.arange(150) % 3 > 0
    for rows in (None, drawn):
        fitted, weights = fitted_rows(150, iris_run(kind, drawn=rows), None)
        assert weights is None
        assert len(np.unique(fitted)) == len(fitted) == 60
        assert rows is None or rows[fitted].all()
        member, labels = fit_run(IRIS, iris_run(kind, 4, rows))
        np.testing.assert_array_equal(labels >= 0, np.ones(150, bool) if rows is None else rows)
        np.testing.assert_array_equal(member.predict(IRIS)[labels >= 0], labels[labels >= 0])
        assert set(labels[labels >= 0]) == set(range(labels.max() + 1))
    other, again = (fitted_rows(150, iris_run(kind, seed=s), None)[0] for s in (1, 0))
    assert not np.array_equal(other, again)


@settings(max_examples=30)
@given(
    weights=st.lists(st.integers(0, 20), min_size=1, max_size=30).filter(any),
    seed=st.integers(0, 99),
    some=st.booleans(),
)
def test_fitted_rows_are_in_proportion_to_their_weights(weights, seed, some):
    """Of m draws, row i has ⌊m w_i/Σw⌋ or ⌈m w_i/Σw⌉; rows that may not be drawn have none."""
    w = np.array(weights, dtype=float)
    drawn = None
    if some:
        drawn = (np.arange(len(w)) % 2 == 0) | (np.arange(len(w)) == w.argmax())
    rows, kept = fitted_rows(len(w), iris_run("ward", drawn=drawn, seed=seed), w)
    assert kept is None
    used = w if drawn is None else np.where(drawn, w, 0.0)
    expected = len(rows) * used / used.sum()
    times = np.bincount(rows, minlength=len(w))
    assert (times >= np.floor(expected - 1e-9)).all()
    assert (times <= np.ceil(expected + 1e-9)).all()


def test_a_sample_without_weight_is_refused():
    """The message says what to do if all rows of a sample have weight 0."""
    drawn = np.arange(150) < 10
    with pytest.raises(InvalidParameterError, match=r"sample_weight is 0 for all 10 rows.*raise"):
        fit_run(IRIS, iris_run("mixture", drawn=drawn), (~drawn).astype(float))


@pytest.mark.parametrize("kind", MOST_FITTED)
def test_every_cluster_has_a_fitted_row(kind):
    """New rows get only labels that fitted rows have."""
    X = np.repeat(IRIS[[0, 60, 120]], 5, axis=0)
    member, labels = fit_run(X, iris_run(kind, 10))
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
