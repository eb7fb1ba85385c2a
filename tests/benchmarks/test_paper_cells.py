"""Recipes, ensembles and cells of the paper's tables."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from benchmarks import paper_cells
from benchmarks.paper_cells import (
    BASE_RUNS,
    ENSEMBLES,
    RECIPES,
    TABLE2_METHODS,
    TABLE3_METHODS,
    Table2Cell,
    Table3Cell,
    looks_of,
    method_title,
    partitions_of,
    table2_cells,
    table3_cells,
)
from benchmarks.paper_figures import TABLE2, TABLE3
from coterie import MultiViewClusterer, clustering_accuracy, load_dataset, make_partitions
from coterie.consensus.registry import CONSENSUS_METHODS, FLAGSHIP, make_consensus
from coterie.datasets.loading import dataset_info


@pytest.fixture
def few_images(monkeypatch):
    """MSRC-v1 by name, in truth two small groups that three of its five views tell apart."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    info = dataset_info("msrc_v1")
    telling = ("hog", "lbp", "centrist")
    views = [
        rng.normal(size=(40, 3)) + 9 * (name in telling) * y[:, None] for name in info.view_sizes
    ]
    monkeypatch.setattr(paper_cells, "load_views", lambda *_, **__: (views, y, info))
    return views, y


def test_every_column_of_the_paper_has_a_method_but_classemes():
    """What stands for a column is a method of the lists, a view, or the mean of the runs."""
    assert set(TABLE2_METHODS) == set(TABLE2.columns)
    assert set(TABLE2.columns[1:]) == {
        method.paper_name for method in CONSENSUS_METHODS.values() if method.paper_name
    }
    assert set(TABLE3.columns) - set(TABLE3_METHODS) == {"Classemes"}


def test_looks_at_dense_features():
    """Standardised and min–max are scikit-learn's; mixed has both beside the raw features."""
    X = load_dataset("wine")[0]
    assert looks_of(X, "raw")[0] is X
    standardised = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(looks_of(X, "standardised")[0], standardised)
    raw, second, third = looks_of(X, "mixed")
    assert raw is X
    np.testing.assert_allclose(second, standardised)
    np.testing.assert_allclose(third, MinMaxScaler().fit_transform(X), atol=1e-12)


def test_looks_at_text():
    """Text is seen as rows of unit length, and by an SVD whose products are nearest to theirs."""
    X = sp.random_array((70, 60), density=0.2, rng=0, format="csr")
    rows, reduced = looks_of(X, "mixed")
    np.testing.assert_allclose(rows.toarray(), TfidfTransformer().fit_transform(X).toarray())
    np.testing.assert_allclose(sp.linalg.norm(rows, axis=1), 1)
    assert reduced.shape == (70, 50)
    values = np.linalg.svd(rows.toarray(), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(reduced, axis=0), values[:50], rtol=0.05)
    (alone,) = looks_of(X, "standardised")
    assert (alone != rows).nnz == 0


def test_runs_are_dealt_evenly_to_the_looks():
    """40 runs on three looks are 14, 13 and 13; a look is clustered by none but its own runs."""
    y = np.repeat([0, 1], 10)
    looks = [np.where(y == 0, 0.0, 9.0)[:, None], np.tile([0.0, 9.0], 10)[:, None]]
    P = partitions_of([looks[0], looks[1], looks[0]], 2, "fixed", seed=3)
    assert P.shape == (20, 40)
    follows = [clustering_accuracy(y, run) == 1 for run in P.T]
    assert follows == [True] * 14 + [False] * 13 + [True] * 13


def test_ensembles_follow_the_seed_and_their_number_of_clusters():
    """Fixed runs have K clusters, diverse ones from K to √n, and seeds differ."""
    X = load_dataset("iris")[0]
    fixed, diverse = (partitions_of([X], 3, kind, 0, 12) for kind in ENSEMBLES)
    assert set(fixed.max(axis=0) + 1) == {3}
    counts = diverse.max(axis=0) + 1
    assert counts.min() >= 3
    assert 3 < counts.max() <= 12
    assert np.array_equal(diverse, partitions_of([X], 3, "diverse", 0, 12))
    assert not np.array_equal(diverse, partitions_of([X], 3, "diverse", 1, 12))


def test_methods_of_a_draw_share_its_partitions():
    """A score is that of the method on the draw's partitions; k-means is the mean of the runs."""
    cell = Table2Cell("iris", "raw", "fixed", (BASE_RUNS, "l2"))
    X, y = load_dataset("iris")
    P = make_partitions(X, 3, 40, random_state=np.random.RandomState(5))
    score = cell.opened()(5)
    runs = [clustering_accuracy(y, run) for run in P.T]
    assert score(BASE_RUNS) == pytest.approx(np.mean(runs))
    labels = make_consensus("l2", 3, random_state=5).fit(P).labels_
    assert score("l2") == clustering_accuracy(y, labels)


def test_a_view_by_its_name_is_that_view_alone(few_images):
    """A view that tells the groups apart is perfect, another is not."""
    score = Table3Cell("msrc_v1", "hog").opened()(0)
    assert score("hog") == 1
    assert score("gist") < 0.9


def test_rcc_and_the_flagship_differ_in_the_consensus_alone(few_images):
    """RCC hears all runs alike and does not search; both are MultiViewClusterer."""
    views, y = few_images
    rcc = paper_cells._multiview_estimator("rcc", 2, 7)
    flagship = paper_cells._multiview_estimator(FLAGSHIP, 2, 7)
    assert isinstance(rcc, MultiViewClusterer)
    assert rcc.consensus.get_params()["partition_weights"] is None
    assert rcc.consensus.get_params()["refine"] is False
    assert rcc.set_params(consensus=None).get_params() == flagship.get_params()
    expected = clustering_accuracy(y, flagship.fit(views).labels_)
    assert Table3Cell("msrc_v1", FLAGSHIP).opened()(7)(FLAGSHIP) == expected


def test_the_cells_of_table_2():
    """Recipes × ensembles of each set; the paper's methods in its order, then the flagship."""
    cells = table2_cells(["iris", "wine"])
    assert len({cell.name for cell in cells}) == 2 * len(RECIPES) * len(ENSEMBLES) == len(cells)
    paper = tuple(TABLE2_METHODS[column] for column in TABLE2.columns)
    assert cells[0].methods == (*paper, FLAGSHIP)
    (every,) = table2_cells(["iris"], [("raw", "fixed")], all_methods=True)
    assert every.methods[: len(paper) + 1] == (*paper, FLAGSHIP)
    assert set(every.methods) == {BASE_RUNS, *CONSENSUS_METHODS}


def test_the_cells_of_table_3():
    """A cell for every method and every view, each once."""
    methods = [cell.method for cell in table3_cells(["caltech101_7"])]
    assert methods[:3] == ["lbp", "hog", "gist"]
    assert methods[-4:] == [FLAGSHIP, "gabor", "wm", "centrist"]
    assert len(set(methods)) == len(methods)


@pytest.mark.parametrize(
    ("method", "title"), [(BASE_RUNS, "k-means"), ("ap", "AP"), ("color_moment", "COLOR MOMENT")]
)
def test_titles(method, title):
    """Methods by their title, views in capitals."""
    assert method_title(method) == title
