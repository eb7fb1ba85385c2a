"""The suite of consensus cells: its halves, and what a draw of each family is."""

from itertools import groupby

import numpy as np
import pytest

from benchmarks import consensus_suite as suite
from benchmarks.consensus_suite import SUITE
from coterie.errors import DatasetUnavailableError

BY_NAME = {cell.name: cell for cell in SUITE}


def test_cells_alternate_between_halves_and_no_dataset_is_in_both():
    """Names are unique; within a family the halves take turns, dataset by dataset."""
    assert len(BY_NAME) == len(SUITE) == 58
    for _, family in groupby(SUITE, key=lambda cell: cell.family):
        groups = groupby(family, key=lambda cell: cell.dataset or cell.name)
        halves = [{cell.half for cell in together} for _, together in groups]
        assert halves == [{("develop", "report")[place % 2]} for place in range(len(halves))]


@pytest.mark.parametrize(
    "name",
    ["iris, fixed K", "zoo, diverse K", "digits, fixed K", "3×100; 1 of 3 bad together; noise 0.1"],
)
def test_a_draw_follows_its_seed(name):
    """A draw has n labels a column, n classes and K = number of classes; seeds decide it."""
    cell = BY_NAME[name]
    first, again, other = cell.draw(3), cell.draw(3), cell.draw(4)
    assert first.P.dtype.kind == "i" and first.P.min() >= 0
    assert len(first.P) == len(first.y) <= 1000
    assert first.n_clusters == len(np.unique(first.y))
    assert np.array_equal(first.P, again.P) and np.array_equal(first.y, again.y)
    assert not np.array_equal(first.P, other.P)


def test_a_pool_is_sampled_by_members_and_rows(monkeypatch, tmp_path):
    """A draw has 10 of the 100 members and at most so many rows, both decided by the seed."""
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(suite, "_MAX_POOL_ROWS", 30)
    assert set(suite.missing_pools(["VS", "MF"])) == {"VS", "MF"}
    (tmp_path / "pools").mkdir()
    y = np.repeat([2, 5], 25)
    # the label tells the row and the member
    members = (np.arange(50)[:, None] * 100 + np.arange(100)).astype(np.int16)
    np.savez(tmp_path / "pools" / "VS.npz", members=members, y=y)
    assert set(suite.missing_pools(["VS", "MF"])) == {"MF"}
    first, again, other = (BY_NAME["pool VS"].draw(seed) for seed in (0, 0, 1))
    rows, chosen = first.P[:, 0] // 100, first.P[0] % 100
    assert len(set(rows)) == 30 and len(set(chosen)) == 10 and first.n_clusters == 2
    assert np.array_equal(first.P, rows[:, None] * 100 + chosen)
    assert np.array_equal(first.y, y[rows]) and np.array_equal(first.P, again.P)
    assert set(other.P[:, 0] // 100) != set(rows) and set(other.P[0] % 100) != set(chosen)
    with pytest.raises(DatasetUnavailableError, match="pools/MF"):
        BY_NAME["pool MF"].draw(0)
