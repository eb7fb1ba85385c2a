"""Plans of ensembles: kinds in turn, numbers of clusters, samples of rows and columns."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from coterie.ensembles.plans import ENSEMBLES, KINDS, MIXED, Plan, check_ensemble, check_sizes
from coterie.ensembles.scalings import Scaling
from coterie.errors import InvalidParameterError

SCALINGS = [Scaling(shift=np.zeros(10) + shift) for shift in (0.0, 1.0, 2.0)]


def planned_runs(ensemble, n_runs, n_rows=400, n_clusters=3, **shares):
    """Return the runs of an ensemble of 10 features."""
    plan = Plan(
        n_rows=n_rows,
        n_features=10,
        sizes=check_sizes(n_clusters, n_rows),
        kinds=check_ensemble(ensemble),
        **shares,
    )
    plan.check_draws(n_runs)
    return list(plan.runs(SCALINGS, np.random.SeedSequence(0).spawn(n_runs)))


def drawn_sizes(name, n_rows, n_clusters):
    """Return the different K_v of 300 runs."""
    return {run.n_clusters for run in planned_runs(name, 300, n_rows, n_clusters)}


@pytest.mark.parametrize("n_rows", [1, 3, 30, 400, 10_000])
@pytest.mark.parametrize("K", [None, 1, 3, 30])
@pytest.mark.parametrize("name", {kind.sizes: name for name, kind in KINDS.items()}.values())
def test_numbers_of_clusters_are_in_the_documented_range(name, n_rows, K):
    """K_v is never below K or above n, and covers the range of its kind, end to end."""
    K = K and min(K, n_rows)
    root = min(math.isqrt(n_rows), 50)
    least = K or max(2, root // 4)
    fine = min(int(1.5 * math.sqrt(n_rows)), 60)
    low, high = {
        "given": (least, root if K is None else least),
        "diverse": (least, root),
        "coarse": (least, min(root, n_rows // 30)),
        "fine": (max(least, min(fine // 3, fine - 1)), fine),
    }[KINDS[name].sizes]
    high = max(low, high)
    sizes = drawn_sizes(name, n_rows, K)
    assert sizes == set(range(min(low, n_rows), min(high, n_rows) + 1))


@pytest.mark.parametrize(
    ("kind", "n_clusters", "drawn"),
    [
        *((name, [2, 7, 9], {2, 7, 9}) for name in ("kmeans", "subspaces", "scalings")),
        ("diverse", [18, 19], {18, 19, 20}),
        ("spectral", [29, 40], {29, 30, 40}),
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
    assert names == [*MIXED, "ward", *MIXED[:2]]
    runs = planned_runs(["kmeans", "scalings", KMeans()], 12)
    assert [run.scaling.shift[0] for run in runs[0::3]] == [0, 0, 0, 0]
    assert [run.scaling.shift[0] for run in runs[1::3]] == [0, 1, 2, 0]
    assert all(run.scaling.shift is None for run in runs[2::3])  # features unchanged
    assert [run.clusterer is None for run in runs[:3]] == [True, True, False]
    assert len({run.seed for run in runs}) == len(runs)


def test_partitions_are_named_and_numbered_by_kind():
    """A name is the kind, and a number that counts within the kind."""
    plan = Plan(n_rows=9, n_features=1, sizes=(2,), kinds=check_ensemble(["mixed", KMeans()]))
    first = ("spectral 0", "mixture 0", "diagonal mixture 0", "mixture 1", "KMeans 0")
    assert plan.names(7) == (*first, "spectral 1", "mixture 2")


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
    kinds = check_ensemble(name)
    plan = Plan(n_rows=n_rows, n_features=2, sizes=(3,), kinds=kinds, subsample=subsample)
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
