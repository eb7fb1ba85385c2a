"""The paper's figures: which are known, and that nothing else is claimed."""

from __future__ import annotations

import pytest

from benchmarks.paper_figures import TABLE2, TABLE3
from coterie.datasets.loading import dataset_info


@pytest.mark.parametrize("table", [TABLE2, TABLE3], ids=lambda table: table.name)
def test_figures_are_accuracies_of_its_own_columns_and_sets(table):
    """Every known figure belongs to a printed column and a set that can be loaded."""
    assert set(table.figures) <= set(table.columns)
    for figures in table.figures.values():
        assert set(figures) <= set(table.sets)
        assert all(0 < figure <= 1 for figure in figures.values())
    assert [dataset_info(dataset).name for dataset in table.sets] == list(table.sets)


def test_what_is_not_at_hand_is_none():
    """Of table 2 two columns are known, of table 3 three views and RCC on one set."""
    known = {c for c in TABLE2.columns if TABLE2.figure("zoo", c) is not None}
    assert known == {"k-means", "RCC"}
    assert [TABLE3.figure(dataset, "RCC") for dataset in TABLE3.sets] == [0.80, None, None]
    assert TABLE3.figure("msrc_v1", "Classemes") is None
