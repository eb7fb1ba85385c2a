"""The page of the paper shows what the results of the benchmarks say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.pages import ROOT, marks_of, read_result
from benchmarks.paper_page import (
    FIGURES,
    NEAR,
    PRINTED_SIZES,
    cells_by_condition,
    is_near,
    tables_of_page,
)
from benchmarks.paper_table2 import TABLE2
from benchmarks.paper_table3 import TABLE3

PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def results():
    return {name: read_result(name) for name in FIGURES}


@pytest.fixture(scope="module")
def tables(results):
    return {
        f"table {number}": table
        for name, data in results.items()
        for number, table in tables_of_page(name, data).items()
    }


def test_every_table_has_its_place(tables):
    """Every table is on the page once."""
    assert [key for _, key, _ in marks_of(PAGE) if key.startswith("table ")] == list(tables)


def test_every_printed_accuracy_is_on_the_page(tables):
    """Printed rows are the columns of the paper's tables."""
    rows = [(row[0].removesuffix(", printed"), row) for row in tables["table 2"].rows]
    printed = {name: row[1:] for name, row in rows if name != row[0]}
    assert list(printed) == list(TABLE2.figures)
    for column, row in printed.items():
        assert [float(text) for text in row[:-1]] == list(TABLE2.figures[column])
        assert float(row[-1]) == pytest.approx(np.mean(TABLE2.figures[column]), abs=5e-4)
    of_views = {row[0]: row[1::2] for row in tables["table 3"].rows[:-1]}
    assert {c: tuple(map(float, row)) for c, row in of_views.items()} == TABLE3.figures


def test_agreeing_accuracies_are_bold_and_counted(results, tables):
    """A figure of ours is bold where it is near the printed one above it."""
    found, counted = cells_by_condition(results["table2"]), FIGURES["table2"](results["table2"])
    table = tables["table 2"]
    for recipe in ("raw", "standardised", "mixed"):
        near = [
            is_near(found[f"{recipe}, fixed", dataset][key]["mean"], printed)
            for column, key in TABLE2.columns.items()
            for dataset, printed in zip(TABLE2.titles, TABLE2.figures[column], strict=True)
        ]
        rows = {r for r, row in enumerate(table.rows) if row[0] == recipe}
        assert str(sum(near)) == counted[f"near-{recipe}"]
        assert sum(r in rows for r, _ in table.bold) == sum(near)
    assert is_near(0.5, 0.5 + NEAR) and not is_near(0.5, 0.5 + 1.5 * NEAR)


def test_sizes_of_the_datasets(tables):
    """Glass lacks a class and Zoo two columns; the others are as large as printed."""
    differing = {row[0] for row in tables["table 1"].rows if row[1::2] != row[2::2]}
    assert differing == {TABLE2.titles["glass"], TABLE2.titles["zoo"]}
    assert set(PRINTED_SIZES) == set(TABLE2.titles)


def test_figures_of_the_forecasts(results, tables):
    """Tables 4 to 7 have a column for every market, and the printed figures."""
    markets = results["paper_ads"]["markets"]
    for number in (4, 5, 6, 7):
        table = tables[f"table {number}"]
        assert len(table.headings) == table.n_named + 1 + len(markets)
    of_rcc = [
        next(row for row in tables[f"table {number}"].rows if row[0].endswith("(RCC)"))
        for number in (6, 7)
    ]
    assert [row[1] for row in of_rcc] == ["15.96", "9.64"]
    assert {row[2] for row in tables["table 4"].rows} == {"65", "47", "32", "73", "51", "40"}
