"""Texts of advertisers are read from Parquet, CSV and tables of an engine."""

from __future__ import annotations

from pathlib import Path

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.ads.logs.advertiser_texts import read_texts, texts_beside
from coterie.errors import TableError


def written(path: Path, **columns: list) -> str:
    """A Parquet file of texts."""
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_texts_of_one_advertiser_are_joined(tmp_path):
    """Distinct texts are joined in the order of the table; without any, the text is empty."""
    path = written(
        tmp_path / "t.parquet",
        advertiser_id=["a", "b", "a", "a", "c", None, ""],
        description=["red shoes", None, "boots", "red shoes", "", "lost", "lost"],
    )
    assert read_texts(path) == {"a": "red shoes boots", "b": "", "c": ""}


@pytest.mark.parametrize(
    "ids", [[7], [" 7 "], pa.array(["7"]).dictionary_encode(), pa.array(["7"], "large_string")]
)
def test_names_may_be_numbers_or_any_text(tmp_path, ids):
    """Ids become text."""
    path = written(tmp_path / "t.parquet", advertiser_id=ids, description=["x"])
    assert read_texts(path) == {"7": "x"}


def test_bytes_that_are_not_utf_8_are_replaced(tmp_path):
    """In Parquet texts, Parquet bytes and CSV; emoji remain."""
    spoilt = pa.array([b"caf\xe9 \xf0\x9f\xa6\x8a"])
    claimed = pa.StringArray.from_buffers(1, *spoilt.buffers()[1:])
    for column in (spoilt, claimed):
        path = written(tmp_path / "t.parquet", advertiser_id=["a"], description=column)
        assert read_texts(path) == {"a": "caf\ufffd 🦊"}
    (tmp_path / "t.csv").write_bytes(b"advertiser_id,description\na,caf\xe9 \xf0\x9f\xa6\x8a\n")
    assert read_texts(str(tmp_path / "t.csv")) == {"a": "caf\ufffd 🦊"}


def test_delimited_texts_may_hold_delimiters_and_lines(tmp_path):
    """Delimiters and line breaks in quotes are text; a short row has no text."""
    (tmp_path / "t.csv").write_text('description;advertiser_id\n"a; ""b""\nc";x\n;y\nz\n')
    assert read_texts(str(tmp_path / "t.csv")) == {"x": 'a; "b"\nc', "y": ""}


def test_a_table_of_an_engine_holds_texts_too():
    """Only the two required columns are fetched."""
    table = pa.table({"description": ["x", None], "advertiser_id": [1, 2], "email": ["e", "f"]})
    assert read_texts(ibis.memtable(table)) == {"1": "x", "2": ""}


def test_a_table_without_the_columns_is_refused(tmp_path):
    """The message lists the columns of the table."""
    path = written(tmp_path / "t.parquet", advertiser=["a"])
    with pytest.raises(
        TableError, match=r"advertiser_id and description missing; .*this one has adv"
    ):
        read_texts(path)
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(TableError, match=r"t\.csv: .* this one has no columns"):
        read_texts(str(tmp_path / "t.csv"))
    with pytest.raises(TableError, match="the table of advertisers: column description missing"):
        read_texts(ibis.memtable(pa.table({"advertiser_id": ["a"]})))


def test_a_damaged_table_is_refused(tmp_path):
    """An incomplete Parquet file and a CSV file with a huge field are refused."""
    path = Path(written(tmp_path / "t.parquet", advertiser_id=["a"], description=["x"]))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(TableError, match=r"t\.parquet: .*damaged"):
        read_texts(str(path))
    (tmp_path / "t.csv").write_text("advertiser_id,description\na," + "x" * 200_000)
    with pytest.raises(TableError, match=r"t\.csv, line 2: field larger"):
        read_texts(str(tmp_path / "t.csv"))


def test_there_may_be_no_texts(tmp_path):
    """A folder without texts and a remote folder give None."""
    assert texts_beside(tmp_path) is None
    assert texts_beside(Path("s3://bucket/bids")) is None
