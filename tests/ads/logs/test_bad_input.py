"""Bad logs, from files to histograms, give clear errors; nothing is written or executed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from bad_logs import ADVERTISERS, TEXTS, BadLog, changed, everywhere, good_rows
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs.bid_logs import open_logs, read_descriptions
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.errors import TableError

HOSTILE = (
    "'; DROP TABLE bids; --",
    "\"; COPY (SELECT 1) TO 'executed.csv'; --",
    "<script>fetch('//evil')</script>",
    "<img src=x onerror=alert(1)>",
    "$(touch executed.csv)",
    "=cmd|'/c calc'!A0",
    "{what} %s \\N 🦊\u202e",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A new folder that is also the current one, so that written files are noticed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def store(folder: Path, rows, texts=TEXTS, name: str = "bids.parquet") -> Path:
    """Write a log and its table of advertisers."""
    table = BadLog(rows, 0).table
    path = folder / name
    if name.endswith(".parquet"):
        pq.write_table(table, path)
    else:
        pyarrow.csv.write_csv(table, path)
    if texts is not None:
        columns = {"advertiser_id": list(texts), "description": list(texts.values())}
        pq.write_table(pa.table(columns), folder / "advertisers.parquet")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def codes(path: Path, **given) -> dict[str, int]:
    """Counts of the faults of a log; its folder must not change."""
    before = contents(path.parent)
    check = check_logs(open_logs(path, **given))
    json.dumps(check.as_dict(), allow_nan=False)
    assert contents(path.parent) == before
    return {fault.code: fault.count for fault in check.faults}


def dense(path: Path, **given):
    """Histograms of a log, and their sums over all days."""
    histograms = read_histograms(open_logs(path, **given))
    sums = histograms.dense()
    assert all(np.isfinite(getattr(sums, name)).all() for name in ("bids", "wins", "cost", "price"))
    return histograms, sums


def test_empty_logs(folder):
    """A table without rows is a fault; empty files and folders are refused."""
    empty = store(folder, good_rows(), None)
    pq.write_table(pq.read_table(empty).slice(0, 0), empty)
    header = folder / "header.csv"
    header.write_text("advertiser_id,day,bid_micros,won,price_micros\n")
    for path in (empty, header):
        assert codes(path) == {"no_rows": 0}
        with pytest.raises(TableError, match="no row"):
            read_histograms(open_logs(path))
    (folder / "nothing.csv").touch()
    (folder / "nothing").mkdir()
    for name, words in (("nothing.csv", "empty"), ("nothing", "no Parquet"), ("none", "no such")):
        with pytest.raises(TableError, match=words):
            open_logs(folder / name)


@pytest.mark.parametrize("name", ["bids.parquet", "bids.csv"])
def test_hostile_advertisers_are_names_and_nothing_else(folder, name):
    """Ids with SQL, HTML or shell code are unchanged, and nothing is executed."""
    rows = [
        {**row, "auction_id": i, "advertiser_id": HOSTILE[i % len(HOSTILE)]}
        for i, row in enumerate(good_rows() * 2)
    ]
    rows = changed(*range(40, 60), rows=rows, bid_micros=0)
    texts = {hostile: hostile for hostile in HOSTILE[1:]}
    path = store(folder, rows, texts, name)
    check = check_logs(open_logs(path))
    assert {fault.code for fault in check.faults} == {
        "bid_not_positive",
        "advertisers_without_text",
    }
    named = [example["advertiser_id"] for fault in check.faults for example in fault.examples]
    assert set(named) <= set(HOSTILE)
    histograms, _ = dense(path)
    assert histograms.advertisers.tolist() == sorted(HOSTILE)
    assert read_descriptions(open_logs(path)) == texts
    assert sorted(contents(folder)) == ["advertisers.parquet", name]


def test_hostile_columns_values_and_files(folder):
    """Hostile names of columns and files and hostile values are not executed."""
    rows = everywhere(
        **{"x'); COPY (SELECT 1) TO 'executed.csv'; --": 1, 'user_id" AS ip, "': "alice"},
        bid_micros=lambda row: str(row["bid_micros"]),
    )
    rows = changed(3, rows=rows, bid_micros="1); COPY (SELECT 1) TO 'executed.csv'; --")
    path = store(folder, rows, name="bids'; [x]*{y} --.parquet")
    check = check_logs(open_logs(path))
    assert [fault.code for fault in check.faults] == ["unreadable", "person_columns"]
    assert check.errors[0].examples[0]["bid_micros"].startswith("1); COPY")
    assert dense(path)[1].bids.sum() == 95
    assert sorted(contents(folder)) == ["advertisers.parquet", path.name]


@pytest.mark.parametrize("name", ["bids.parquet", "bids.csv"])
def test_a_blank_advertiser_is_missing(folder, name):
    """Checks count its rows, and no result uses them."""
    rows = changed(0, 1, advertiser_id=" ", campaign_id="x", rows=everywhere(campaign_id="c"))
    path = store(folder, rows, name=name)
    assert codes(path) == {"advertiser_missing": 2}
    assert dense(path)[1].bids.sum() == 94
    assert dense(path, by="campaign")[0].advertisers.tolist() == [f"{one}/c" for one in ADVERTISERS]


def test_parquet_damaged_within(folder):
    """If only its pages are damaged, the engine reports it."""
    path = store(folder, good_rows() * 50)
    whole = bytearray(path.read_bytes())
    whole[8 : len(whole) // 2] = b"\xff" * (len(whole) // 2 - 8)
    path.write_bytes(whole)
    logs = open_logs(path)
    for stage in (check_logs, read_histograms):
        with pytest.raises(TableError, match="cannot read the table"):
            stage(logs)


def test_gzip_cut_off(folder):
    """An incomplete gzipped text is refused."""
    path = store(folder, good_rows() * 50, None, "bids.csv")
    whole = gzip.compress(path.read_bytes())
    cut = folder / "cut.csv.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableError):
        check_logs(open_logs(cut))
