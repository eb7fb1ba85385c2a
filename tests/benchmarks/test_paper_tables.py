"""The paper's tables 2 and 3: cells, recipes, outcomes, kept draws and figures."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from benchmark_results import check_result
from benchmarks import paper_table2, paper_table3
from benchmarks.harness import Context
from benchmarks.paper_table2 import ENSEMBLES, TABLE2, make_runs, recipe_features
from benchmarks.paper_table3 import TABLE3
from benchmarks.paper_tables import BASE_RUNS, method_title
from coterie import load_dataset, make_partitions
from coterie.consensus.registry import (
    CONSENSUS_METHODS,
    FLAGSHIP,
    MULTIVIEW_METHODS,
    consensus_method,
)
from coterie.inspection.scores import clustering_accuracy


@pytest.fixture
def only_iris(monkeypatch):
    """Iris is the only dataset that can be read."""

    def missing(_, names):
        return {name: "not here" for name in names if name != "iris"}

    monkeypatch.setattr(Context, "missing_datasets", missing)
    few = TABLE2._replace(columns={"k-means": BASE_RUNS})
    monkeypatch.setattr(paper_table2, "TABLE2", few)


def test_table_2_runs(only_iris, tmp_path):
    """Means are those of the draws; rows have all columns; missing datasets are named."""
    result = paper_table2.run(Context(quick=True, keep=tmp_path), draws=2, jobs=1)
    assert "Reuters was not run: --quick leaves it out" in result.notes
    assert "Wine was not run: not here" in result.notes
    cells = check_result(result)["cells"]
    assert [cell["condition"] for cell in cells] == ["mixed, fixed", "mixed, diverse"]
    for cell in cells:
        assert list(cell["methods"]) == [BASE_RUNS, FLAGSHIP]
        for found in cell["methods"].values():
            assert found["mean"] == pytest.approx(np.mean(found["accuracies"]))
            assert found["draws"] == 2
    summary, accuracies, _ = result.tables
    assert [row[-1] for row in summary.rows] == [".830", "–"]
    assert [row[0] for row in accuracies.rows[:3]] == [
        "k-means",
        "k-means, printed",
        method_title(FLAGSHIP),
    ]
    assert ("RCC, printed", ".89") in accuracies.rows
    assert len(accuracies.rows) == 2 + len(TABLE2.figures)


def test_table_3_without_data_is_empty(only_iris):
    """Without data there are no tables, and one note a dataset."""
    result = paper_table3.run(Context(), jobs=1)
    assert not result.tables and len(result.notes) == len(TABLE3.titles)


def test_columns_of_the_paper_are_the_methods_that_name_them():
    """Cells have the paper's methods in its order, then the flagship, then the others."""
    for paper, methods in ((TABLE2, CONSENSUS_METHODS), (TABLE3, MULTIVIEW_METHODS)):
        assert set(paper.columns) == set(paper.figures) - {"Classemes"}
        named = {m.paper_name: key for key, m in methods.items() if m.paper_name}
        assert {column: paper.columns[column] for column in named} == {**named, "RCC": "rcc"}
    cells = [c for (c,) in paper_table2.make_cells(["iris", "wine"], all_methods=True).values()]
    assert len({cell.name for cell in cells}) == len(cells) == 12
    assert cells[0].methods[:11] == (*TABLE2.columns.values(), FLAGSHIP)
    assert set(cells[0].methods) == {BASE_RUNS, *CONSENSUS_METHODS}
    (own,) = paper_table3.make_cells(["caltech101_7"]).values()
    methods = [cell.methods[0] for cell in own]
    assert methods[:3] == ["lbp", "hog", "gist"]
    assert methods[-4:] == [FLAGSHIP, "gabor", "wm", "centrist"]


def test_recipes():
    """Dense features are scaled as by scikit-learn; text becomes unit rows and their SVD."""
    X = load_dataset("wine")[0]
    raw, standardised, ranged = recipe_features(X, "mixed")
    assert raw is X
    np.testing.assert_allclose(standardised, StandardScaler().fit_transform(X))
    np.testing.assert_allclose(ranged, MinMaxScaler().fit_transform(X), atol=1e-12)
    words = sp.random_array((70, 60), density=0.2, rng=0, format="csr")
    rows, reduced = recipe_features(words, "mixed")
    np.testing.assert_allclose(sp.linalg.norm(rows, axis=1), 1)
    values = np.linalg.svd(rows.toarray(), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(reduced, axis=0), values[:50], rtol=0.05)


def test_runs_are_divided_among_the_features_and_follow_the_seed():
    """40 runs on three arrays are 14, 13 and 13; diverse runs have K to √n clusters."""
    y = np.repeat([0, 1], 10)
    good, bad = np.where(y == 0, 0.0, 9.0)[:, None], np.tile([0.0, 9.0], 10)[:, None]
    P = make_runs([good, bad, good], 2, "fixed", seed=3)
    right = [clustering_accuracy(y, labels) == 1 for labels in P.T]
    assert right == [True] * 14 + [False] * 13 + [True] * 13
    X = load_dataset("iris")[0]
    fixed, diverse = (make_runs([X], 3, kind, 0, 12).max(axis=0) + 1 for kind in ENSEMBLES)
    assert set(fixed) == {3}
    assert diverse.min() >= 3 and 3 < diverse.max() <= 12
    assert not np.array_equal(make_runs([X], 3, "fixed", 0, 12), make_runs([X], 3, "fixed", 1, 12))


def test_methods_of_a_draw_share_its_partitions():
    """An accuracy is that of the method on the runs of the draw; k-means is their mean."""
    X, y = load_dataset("iris")
    P = make_partitions(X, 3, 40, ensemble="kmeans", random_state=np.random.RandomState(5))
    score = paper_table2._load("iris", "raw", "fixed")(5)
    assert score(BASE_RUNS) == pytest.approx(np.mean([clustering_accuracy(y, c) for c in P.T]))
    labels = consensus_method("l2").make(3, 5).fit(P).labels_
    assert score("l2") == clustering_accuracy(y, labels)


def test_a_view_is_clustered_alone(monkeypatch):
    """A view that separates the classes has accuracy 1, and another one has not."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    views = [rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 20 * y[:, None]]

    class Info:
        view_sizes = ("gist", "hog")

    monkeypatch.setattr(paper_table3, "load_views", lambda *_, **__: (views, y, Info))
    score = paper_table3._load("made up")(0)
    assert score("hog") == 1
    assert score("gist") < 0.9
    assert 0.5 <= score("rcc") <= 1
