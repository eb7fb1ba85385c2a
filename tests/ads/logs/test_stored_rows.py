"""Logs of text are converted once, into a file that lives as long as the log."""

from __future__ import annotations

import tempfile
import weakref
from dataclasses import replace
from pathlib import Path

import ibis
import pyarrow.parquet as pq
import pytest

from bid_tables import as_arrow, bid_frame, cells_of, write_csv
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs import stored_rows
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.tables.engines import fetch
from coterie.tables.reading import TemporaryCopy


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Return a function that lists the copies that exist; none has a name in any folder."""
    folder, made = tmp_path / "temporary", []
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))

    class Watched(TemporaryCopy):
        def __init__(self):
            super().__init__()
            made.append(weakref.ref(self))

    monkeypatch.setattr(stored_rows, "TemporaryCopy", Watched)

    def existing():
        assert list(folder.iterdir()) == []
        return [copy() for copy in made if copy() is not None]

    return existing


def test_text_is_read_once(tmp_path, stored):
    """Histograms and auction are those of a Parquet log; the text may be gone by then."""
    frame = bid_frame(200)
    pq.write_table(as_arrow(frame), tmp_path / "log.parquet")
    write_csv(frame, tmp_path / "log.csv")
    logs = open_logs(tmp_path / "log.csv")
    assert not stored()
    assert len(fetch(logs.rows)) == 200 and len(stored()) == 1
    (tmp_path / "log.csv").unlink()
    found, expected = read_histograms(logs), read_histograms(open_logs(tmp_path / "log.parquet"))
    assert cells_of(found) == cells_of(expected)
    assert len(stored()) == 1


def test_the_file_goes_with_the_log(tmp_path, stored):
    """A log with another auction type shares the rows."""
    write_csv(bid_frame(20), tmp_path / "log.csv")
    logs = open_logs(tmp_path / "log.csv")
    assert logs.auction == "second"
    other = replace(logs, given_auction="first")
    del logs
    assert len(fetch(other.rows)) == 20 and len(stored()) == 1
    del other
    assert not stored()


def test_a_query_is_run_once(tmp_path, stored):
    """Its rows are stored even if they have canonical types."""
    pq.write_table(as_arrow(bid_frame(20)), tmp_path / "log.parquet")
    logs = open_logs(tmp_path / "log.parquet", sql="FROM log")
    read_histograms(logs)
    check_logs(logs)
    assert len(stored()) == 1


def test_canonical_columns_are_not_copied(stored):
    """They are read where they are."""
    logs = open_logs(ibis.memtable(as_arrow(bid_frame(20))))
    read_histograms(logs)
    assert not stored()


def test_values_that_cannot_be_read_are_kept(tmp_path, stored):
    """The check shows them as they are written; those that can be read are not stored twice."""
    path = Path(tmp_path / "log.csv")
    path.write_text("advertiser_id,day,bid_micros,won,price_micros\na,2026-03-02,2500000,1,1\n"
                    "a,2026-03-02,many,0,\n")  # fmt: skip
    logs = open_logs(path)
    assert sorted(fetch(logs.rows)["written_bid_micros"].to_pylist(), key=str) == [None, "many"]
    faults = {fault.code: fault for fault in check_logs(logs).faults}
    assert faults["unreadable"].examples[0]["bid_micros"] == "many"
    assert len(stored()) == 1
