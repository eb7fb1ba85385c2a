"""The engine benchmark at a size for tests."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks import ads_engine
from benchmarks.ads_engine import (
    TARGET_BYTES,
    TARGET_RATIO,
    compare_engine,
    count_by_sql,
    market_of,
)

CONTENDERS = {"coterie", "sql", "from_the_start"}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A place for a log that is kept."""
    return tmp_path_factory.mktemp("engine") / "logs"


@pytest.fixture(scope="module")
def found(log):
    """Results for a small log, measured once."""
    return compare_engine(rows=3000, folder=log, repeats=1)


def test_results_are_ready_for_json(found):
    """Everything is a plain number, under the names documented."""
    assert json.loads(json.dumps(found)) == found
    assert (found["target_ratio"], found["target_bytes"]) == (TARGET_RATIO, TARGET_BYTES)
    for name in ("seconds", "runs", "peak_bytes"):
        assert set(found[name]) == CONTENDERS
    assert found["ratio"] == found["seconds"]["coterie"] / found["seconds"]["sql"]
    assert all(peak > 10_000_000 for peak in found["peak_bytes"].values())


def test_cells_are_equal(found):
    """Ours and those of the SQL, in every number."""
    assert found["equal"]
    assert 2000 < found["rows"] < 4000
    assert 0 < found["cells"] < 2 * found["rows"]


def test_a_log_that_is_kept_is_used_again(found, log):
    """Whatever size is asked for."""
    files = {path: path.stat().st_mtime_ns for path in (log / "bids").iterdir()}
    with ads_engine._log_in(log, 10) as again:
        assert again == str(log)
    assert {path: path.stat().st_mtime_ns for path in (log / "bids").iterdir()} == files


def test_a_log_of_no_place_is_thrown_away():
    """Folder and all."""
    with ads_engine._log_in(None, 1000) as passing:
        folder = Path(passing)
        assert (folder / "bids").is_dir()
    assert not folder.parent.exists()


def test_other_cells_are_seen(found, log):
    """A sum that is off by one changes the digest."""
    edges = ads_engine._grid_of(str(log))
    cells = count_by_sql(str(log), edges)
    before = ads_engine._described(None, cells)["digest"]
    bids = cells["bids"]
    off = pa.array([bids["cost"][0].as_py() + 1, *bids["cost"].to_pylist()[1:]])
    spoilt = bids.set_column(bids.column_names.index("cost"), "cost", off)
    assert ads_engine._described(None, {**cells, "bids": spoilt})["digest"] != before


@pytest.mark.parametrize("rows", [1000, 100_000, 5_000_000])
def test_markets_are_of_the_size_asked_for(rows):
    """Within a few per cent where the limits of volumes allow it."""
    assert market_of(rows).expected_rows == pytest.approx(rows, rel=0.05)
