"""The paper's tables 2 and 3: cells, recipes, outcomes, kept draws and figures."""

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from benchmarks import paper_table2, paper_table3
from benchmarks.paper_table2 import ENSEMBLES, TABLE2, make_runs, recipe_features
from benchmarks.paper_table3 import TABLE3
from benchmarks.paper_tables import BASE_RUNS
from coterie import load_dataset
from coterie.consensus.registry import (
    CONSENSUS_METHODS,
    DEFAULT_METHOD,
    MULTIVIEW_METHODS,
)
from coterie.inspection.scores import clustering_accuracy


def test_columns_of_the_paper_are_the_methods_that_name_them():
    """Cells have the paper's methods in its order, then the flagship, then the others."""
    for paper, methods in ((TABLE2, CONSENSUS_METHODS), (TABLE3, MULTIVIEW_METHODS)):
        assert set(paper.columns) == set(paper.figures) - {"Classemes"}
        named = {m.paper_name: key for key, m in methods.items() if m.paper_name}
        assert {column: paper.columns[column] for column in named} == {**named, "RCC": "rcc"}
    cells = [c for (c,) in paper_table2.make_cells(["iris", "wine"], all_methods=True).values()]
    assert len({cell.name for cell in cells}) == len(cells) == 12
    assert cells[0].methods[:11] == (*TABLE2.columns.values(), DEFAULT_METHOD)
    assert set(cells[0].methods) == {BASE_RUNS, *CONSENSUS_METHODS}
    (own,) = paper_table3.make_cells(["caltech101_7"]).values()
    methods = [cell.methods[0] for cell in own]
    assert methods[:3] == ["lbp", "hog", "gist"]
    assert methods[-4:] == [DEFAULT_METHOD, "gabor", "wm", "centrist"]


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
    """40 runs on three arrays are 14, 13 and 13; diverse runs have more clusters."""
    y = np.repeat([0, 1], 10)
    good, bad = np.where(y == 0, 0.0, 9.0)[:, None], np.tile([0.0, 9.0], 10)[:, None]
    P = make_runs([good, bad, good], 2, "fixed", seed=3)
    right = [clustering_accuracy(y, labels) == 1 for labels in P.T]
    assert right == [True] * 14 + [False] * 13 + [True] * 13
    X = load_dataset("iris")[0]
    fixed, diverse = (make_runs([X], 3, kind, 0, 12).max(axis=0) + 1 for kind in ENSEMBLES)
    assert set(fixed) == {3}
    assert diverse.min() >= 3 and 3 < diverse.max() <= 20
    assert not np.array_equal(make_runs([X], 3, "fixed", 0, 12), make_runs([X], 3, "fixed", 1, 12))
