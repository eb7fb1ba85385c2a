"""The page, tables and picture of the advertising grid."""

from __future__ import annotations

import json

from benchmarks import ads_grid_report
from benchmarks.ads_grid import FLAGSHIP, FULL_GRID
from grid_draws import THIN, draw_with


def test_report_shows_every_cell_as_table_page_picture_and_json():
    """Cells are rows, the lowest is in bold, the sentences count the cells that hold."""
    cells = FULL_GRID[:3]
    wape = dict.fromkeys(THIN, 0.2) | {FLAGSHIP: 0.1}
    results = {cell.name: [draw_with(wape, THIN, 0.003)] for cell in cells}
    tables = ads_grid_report.as_tables(cells, results)
    assert [len(table.rows) for table in tables] == [3] * 4
    assert len(tables[0].stressed) == 3
    page = ads_grid_report.as_page(cells, results, described())
    assert "lowest WAPE in 3 of 3 cells" in page
    assert "closes 80% to 80%" in page
    assert len(ads_grid_report.as_picture(cells, results).axes) == 2
    everything = ads_grid_report.as_json(cells, results, described())
    assert json.loads(json.dumps(everything, allow_nan=False))["cells"][0]["bids_per_day"] == 12


def described() -> dict:
    """An environment, as far as a page shows it."""
    return {
        "date": "2026-03-02T00:00:00+00:00",
        "cpu": "a processor",
        "threads": 2,
        "platform": "Linux x86_64",
        "versions": {"python": "3.11"},
    }
