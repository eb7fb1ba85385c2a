"""The suite: its cells, how they are dealt to halves, and what a draw of them is."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from scipy import sparse

from benchmarks import consensus_suite as suite
from benchmarks.consensus_suite import SUITE, quick_cells, suite_cells
from coterie.datasets.loading import dataset_info

NO_FILE = [
    cell
    for cell in SUITE
    if cell.family == "planted"
    or cell.dataset == "digits"
    or (cell.family == "real" and cell.quick)
]


def named(name: str) -> suite.SuiteCell:
    """The cell of that name."""
    return next(cell for cell in SUITE if cell.name == name)


def test_names_are_unique():
    """Results are kept and told by name, so no two cells share one, nor a title."""
    assert len({cell.name for cell in SUITE}) == len(SUITE)
    assert len({cell.title for cell in SUITE}) == len(SUITE)


def test_no_data_set_is_in_both_halves():
    """What rules were developed on is not what they are reported on."""
    halves = {
        half: {cell.dataset for cell in SUITE if cell.half == half and cell.dataset}
        for half in ("develop", "report")
    }
    assert halves["develop"] and halves["report"]
    assert not halves["develop"] & halves["report"]


@pytest.mark.parametrize("family", ["planted", "real", "views", "market"])
def test_each_family_is_dealt_in_turn(family):
    """Of each family the first goes to develop, the next to report, and so on, by data set."""
    cells = suite_cells([family])
    dealt = [
        half
        for _, together in groupby(cells, key=lambda cell: cell.dataset or cell.name)
        for half in {cell.half for cell in together}
    ]
    assert dealt == [("develop", "report")[place % 2] for place in range(len(dealt))]


def test_families_partition_the_suite():
    """All four families together are the suite, none by itself is empty."""
    parts = [suite_cells([family]) for family in ("planted", "real", "views", "market")]
    assert all(parts)
    assert [cell for part in parts for cell in part] == suite_cells() == list(SUITE)


def test_quick_cells_need_no_file():
    """They are planted, or of data sets that come with the package or with scikit-learn."""
    for cell in quick_cells():
        if cell.dataset is not None:
            info = dataset_info(cell.dataset)
            assert info.bundled or not info.editions
        else:
            assert cell.family == "planted"
    assert {cell.half for cell in quick_cells()} == {"develop", "report"}


@pytest.mark.parametrize("cell", NO_FILE, ids=lambda cell: cell.title)
def test_a_draw_is_partitions_of_points_whose_classes_are_known(cell):
    """Labels of n points, their n classes, and as many clusters asked for as there are classes."""
    drawn = cell.draw(0)
    n, V = drawn.P.shape
    assert drawn.P.dtype == np.int32
    assert len(drawn.y) == n <= 1000
    assert V == 40 or cell.family == "planted"
    assert drawn.n_clusters == len(np.unique(drawn.y)) > 1
    assert drawn.P.min() >= 0


@pytest.mark.parametrize("name", ["iris, fixed K", "zoo, diverse K", "digits, fixed K"])
def test_a_seed_decides_the_draw(name):
    """The same seed gives the same draw, another seed another."""
    cell = named(name)
    first, again, other = cell.draw(3), cell.draw(3), cell.draw(4)
    assert np.array_equal(first.P, again.P) and np.array_equal(first.y, again.y)
    assert not np.array_equal(first.P, other.P)


def test_every_planted_cell_keeps_its_sizes():
    """The sizes in a planted cell's name are those of its classes."""
    for cell in suite_cells(["planted"]):
        sizes = sorted(map(int, cell.name.partition(";")[0].split(",")))
        assert sorted(np.bincount(cell.draw(1).y).tolist()) == sizes


def test_each_view_gives_ten_partitions(monkeypatch):
    """Columns of all views stand side by side; a constant feature does no harm."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 12)
    views = [rng.normal(size=(36, 3)) + y[:, None], np.column_stack([y, np.ones(36)])]
    monkeypatch.setattr(suite, "load_views", lambda _: (views, y))
    drawn = named("msrc_v1, fixed K").draw(0)
    assert drawn.P.shape == (36, 20)
    assert drawn.n_clusters == 3
    for column in drawn.P[:, 10:].T:  # in the second view, points of a class are the same
        assert all(len(np.unique(column[y == c])) == 1 for c in range(3))


def test_texts_are_weighted_and_numbers_scaled(monkeypatch):
    """Sparse counts become rows of length one; other features lie in [0, 1]."""
    counts = sparse.csr_array(np.array([[3, 0, 1], [0, 2, 0]]))
    tables = {"words": counts, "numbers": np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])}
    monkeypatch.setattr(suite, "load_dataset", lambda name: (tables[name], np.arange(2)))
    words, _ = suite._features.__wrapped__("words")
    assert np.allclose(np.sqrt((words.toarray() ** 2).sum(axis=1)), 1)
    numbers, _ = suite._features.__wrapped__("numbers")
    assert numbers.tolist() == [[0, 0], [1, 0], [0.5, 0]]


def test_the_market_leaves_out_whom_no_view_sees(monkeypatch):
    """As many cuts a view as the cell says; advertisers without any label are not points."""
    view = np.array([[0, 0, 1], [1, 1, 0], [-1, -1, -1], [1, 0, 0]])
    other = np.where(np.arange(4)[:, None] == 1, -1, view)
    monkeypatch.setattr(suite, "_market", lambda _: ([view, other, view], np.array([0, 1, 1, 0])))
    one, six = suite_cells(["market"])
    assert one.draw(0).P.tolist() == [[0, 0, 0], [1, -1, 1], [1, 1, 1]]
    assert one.draw(0).y.tolist() == [0, 1, 0]
    assert six.draw(0).P.shape == (3, 9)
