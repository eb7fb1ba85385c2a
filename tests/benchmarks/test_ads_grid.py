"""The grid of simulated markets: what is measured, kept, summarised and shown."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import ads_grid
from benchmarks.ads_grid import FLAGSHIP, FULL_GRID, GridCell, run_grid, summarise_cell
from grid_draws import SOURCES, THIN, draw_with

CELL = GridCell(20, 0.5, 0.1, 0.1)


def test_the_grid_crosses_volume_shift_text_error_and_outliers():
    """Every combination is there once, under a name of its own."""
    assert len({cell.name for cell in FULL_GRID}) == len(FULL_GRID)
    for field in ("bids_per_day", "bid_move", "text_error", "outliers"):
        values = {getattr(cell, field) for cell in FULL_GRID}
        assert len(values) >= 2
        counts = [sum(getattr(cell, field) == value for cell in FULL_GRID) for value in values]
        assert len(set(counts)) == 1


@pytest.mark.filterwarnings("ignore::coterie.errors.CoterieWarning")
def test_a_draw_has_every_source_and_is_not_computed_twice(tmp_path, monkeypatch):
    """Kept draws are read back; a source that knows the truth stands beside the others."""
    first = run_grid([CELL], 1, advertisers=60, keep=tmp_path)
    (draw,) = first[CELL.name]
    names = {f"{source}{suffix}" for source in (*SOURCES, "true") for suffix in ("", "+pooled")}
    assert set(draw["wape"]) == names
    assert draw["thin_advertisers"] > 0

    def fail(*_):
        raise AssertionError("computed again")

    monkeypatch.setattr(ads_grid, "run_draw", fail)
    assert run_grid([CELL], 1, advertisers=60, keep=tmp_path) == json.loads(json.dumps(first))


def test_summary_names_the_lowest_that_does_not_know_the_truth():
    """How far the flagship is behind it, in both kinds of standard error, and what it closes."""
    wape = dict.fromkeys(THIN, 0.2) | {"l2+pooled": 0.100, FLAGSHIP: 0.105, "true+pooled": 0.05}
    summary = summarise_cell([draw_with(wape, THIN, 0.003)] * 4, "impressions")
    assert summary.best == "l2+pooled"
    assert summary.behind == pytest.approx(0.005)
    assert summary.of_best == pytest.approx(0.01 / 2)
    assert summary.paired == pytest.approx(0.003 / 2)
    assert summary.holds is (summary.behind <= summary.of_best)
    assert not summary.holds_paired
    assert summary.closed == pytest.approx(0.8)


def test_a_lowest_flagship_holds():
    """Nothing is behind itself."""
    wape = dict.fromkeys(THIN, 0.2) | {FLAGSHIP: 0.1}
    summary = summarise_cell([draw_with(wape, THIN, 0.003)], "spend")
    assert summary.best == FLAGSHIP
    assert summary.behind == 0
    assert summary.holds and summary.holds_paired


def test_outliers_are_segments_of_their_own(tmp_path):
    """The truth puts each of them alone, and everybody else with its kind."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = {
        "advertiser_id": ["a", "b", "c", "d"],
        "segment": [0, 0, 1, 1],
        "outlier": [False, True, False, True],
    }
    pq.write_table(pa.table(table), tmp_path / "truth.parquet")
    labels = ads_grid.true_segments(tmp_path / "truth.parquet", np.array(["d", "a", "b", "c"]))
    assert labels.tolist() == [2, 0, 3, 1]
