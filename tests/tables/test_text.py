"""Delimited text is read as written, and errors name the line."""

from __future__ import annotations

import csv
import gzip
import io
import tracemalloc
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.errors import TableError
from coterie.tables.text import open_text, write_text

FEW = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ANY_TEXT = st.text(
    st.one_of(st.sampled_from(",;\t|\"\r\n '."), st.characters(exclude_categories=["Cs"])),
    max_size=8,
)
WORDS = st.text(st.characters(categories=["L"]), min_size=1, max_size=6)


@st.composite
def tables(draw, names=ANY_TEXT, min_columns=1):
    """Draw rows of text, the header first."""
    width = draw(st.integers(min_columns, 4))
    header = draw(st.lists(names, min_size=width, max_size=width, unique=True))
    rows = draw(st.lists(st.lists(ANY_TEXT, min_size=width, max_size=width), max_size=6))
    return [header, *rows]


def saved(path: Path, content: str | bytes) -> Path:
    """Write a file and return its path."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_text(path: Path) -> tuple[list[str], list[list[str | None]]]:
    """Return the header and the columns."""
    connection = duckdb.connect()
    text, names, rows, n_rows = open_text(connection, path)
    found = connection.execute(f"SELECT * FROM {rows}").fetchall()
    assert len(found) == n_rows == sum(1 for _ in text.records()) - 1
    return names, [list(column) for column in zip(*found, strict=True)] or [[] for _ in names]


def rows_of(path: Path) -> list[list[str]]:
    """Return the rows, header first, with blanks for missing cells."""
    names, columns = read_text(path)
    rows = zip(*columns, strict=True)
    return [names, *([cell or "" for cell in row] for row in rows)]


@FEW
@given(
    table=tables(names=WORDS, min_columns=2),
    delimiter=st.sampled_from(",;\t|"),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_minimally_quoted_text_reads_back(table, delimiter, mark, tmp_path):
    """Text of the csv module is read for every delimiter, with or without a byte-order mark."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(table)
    assert rows_of(saved(tmp_path / "t.csv", mark + text.getvalue())) == table


@FEW
@given(
    table=tables(),
    delimiter=st.sampled_from(",;\t|"),
    mark=st.sampled_from(["", "\ufeff"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_fully_quoted_text_reads_back(table, delimiter, mark, end, tmp_path):
    """Fully quoted text with any names is read, also with a single column."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows(table)
    assert rows_of(saved(tmp_path / "t.csv", mark + text.getvalue())) == table


@FEW
@given(table=tables(), suffix=st.sampled_from([".csv", ".tsv", ".csv.gz", ".tsv.gz"]))
def test_written_text_reads_back(table, suffix, tmp_path):
    """read_text and the csv module read what write_text writes."""
    header, *rows = table
    path = tmp_path / f"t{suffix}"
    columns = {
        name: np.array([row[index] or None for row in rows], dtype=object)
        for index, name in enumerate(header)
    }
    write_text(path, columns, path)
    assert rows_of(path) == table
    raw = gzip.decompress(path.read_bytes()) if suffix.endswith(".gz") else path.read_bytes()
    delimiter = "\t" if "tsv" in suffix else ","
    assert list(csv.reader(io.StringIO(raw.decode(), newline=""), delimiter=delimiter)) == table


def test_only_what_must_be_quoted_is(tmp_path):
    """Plain values are not quoted, missing ones are blank, numbers have full precision."""
    path = tmp_path / "t.csv"
    columns = {
        "id": np.array(["007", 'say "hi"', None, ""], dtype=object),
        "share": np.ma.masked_array([0.1, 1 / 3, np.nan, 0], [False, False, False, True]),
    }
    write_text(path, columns, path)
    written = path.read_text().splitlines()
    assert written[:2] == ["id,share", "007,0.1"]
    assert written[2] == f'"say ""hi""",{1 / 3!r}'
    assert written[3:] == [",nan", '"",']


def test_gzip_is_reproducible(tmp_path):
    """The compressed bytes do not depend on time or name."""
    column = {"a": np.array([1, 2])}
    for name in ("x.csv.gz", "y.csv.gz"):
        write_text(tmp_path / name, column, tmp_path / name)
    assert (tmp_path / "x.csv.gz").read_bytes() == (tmp_path / "y.csv.gz").read_bytes()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x;y\n1,5;2,5\n", ["x", "y"]),
        ("id,x;y|z;w\n1,2\n3,4\n", ["id", "x;y|z;w"]),
        ('"a","b;c;d"\n"1","x;y;z"\n', ["a", "b;c;d"]),
        ("a|b|c\n1|2|3\n", ["a", "b", "c"]),
        ("lone\n1\n2\n", ["lone"]),
        ('a,b\n"x"y,1\n', ["a", "b"]),
        ("\n\na,b\n1,2\n", ["a", "b"]),
        ("a,b", ["a", "b"]),
    ],
)
def test_delimiter_is_guessed(text, names, tmp_path):
    """Decimal commas, and delimiters or quotes inside names, do not mislead."""
    assert read_text(saved(tmp_path / "t.csv", text))[0] == names


def test_delimiter_of_a_long_file(tmp_path):
    """The sample may end inside a quoted field or a character."""
    row = '1,"' + "é;" * 500 + '"\n'
    path = saved(tmp_path / "t.csv", "a,b\n" + row * 200)
    assert read_text(path)[0] == ["a", "b"]
    assert len(read_text(path)[1][1]) == 200


def test_wide_header(tmp_path):
    """A header may be longer than the sample."""
    names = [f"feature_{index:05}" for index in range(6000)]
    path = saved(tmp_path / "t.csv", ",".join(names) + "\n" + ",".join("1" * 6000) + "\n")
    assert read_text(path)[0] == names


def test_blank_lines(tmp_path):
    """Blank lines are skipped, but are missing values in a single column."""
    assert rows_of(saved(tmp_path / "t.csv", "a,b\n\n1,2\n\n")) == [["a", "b"], ["1", "2"]]
    assert rows_of(saved(tmp_path / "u.csv", "a\n\n1\n")) == [["a"], [""], ["1"]]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('a,b\n "x",5" disk\n"x"y,"a""b"\n', [[' "x"', '5" disk'], ["xy", 'a"b']]),
        ('a,b\n"x" ,2\n3,"4"\n', [["x ", "2"], ["3", "4"]]),
        ('a,b\n" x","2"\n3,"4"\n', [[" x", "2"], ["3", "4"]]),
        ('"a","b"\n"1",2\n3,"4, 5"', [["1", "2"], ["3", "4, 5"]]),
        ("a,b\r\n1,2\n3,4\r5,6\r\n", [["1", "2"], ["3", "4"], ["5", "6"]]),
        ("a,b\n#1,2\\\n3\0,\\N\n", [["#1", "2\\"], ["3\0", "\\N"]]),
        ('\n\n"a\n1",b\n1,\n\n,2\n', [["1", ""], ["", "2"]]),
        ("a,b\n" + "x" * 5_000_000 + ",1\n", [["x" * 5_000_000, "1"]]),
    ],
)
def test_duckdb_reads_what_the_csv_module_reads(text, rows, tmp_path):
    """Quotes and blanks inside cells, mixed line ends, marks of comments, long lines."""
    assert rows_of(saved(tmp_path / "t.csv", text))[1:] == rows


@FEW
@given(st.text(st.sampled_from('ab12,"\r\n .'), max_size=30), st.sampled_from([1, 7, 1 << 24]))
def test_any_text_is_read_as_by_the_csv_module_or_refused(tmp_path, text, block):
    """Also if it is read in many blocks."""
    path = saved(tmp_path / "t.csv", "a,b\n" + text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coterie.tables.text._BLOCK_BYTES", block)
        patch.setattr("coterie.tables.text._DELIMITERS", ",")
        try:
            rows = rows_of(path)
        except TableError:
            return
    expected = csv.reader(io.StringIO("a,b\n" + text, newline=""))
    assert rows == [fields for fields in expected if fields]


def test_names_of_files_are_no_patterns(tmp_path):
    """DuckDB would take the name for a pattern, and read another file."""
    saved(tmp_path / "t1.csv", "a\nwrong\n")
    for name in ("t[1].csv", "t?.csv", "t*.csv", "it's.csv"):
        assert rows_of(saved(tmp_path / name, "a\nright\n")) == [["a"], ["right"]]


def test_line_of_row(tmp_path):
    """Lines inside quotes and blank lines are counted."""
    path = saved(tmp_path / "t.csv", 'a,"b\nc"\r\n\r\n1,"x\ny"\r\n2,z\r\n')
    text, *_ = open_text(duckdb.connect(), path)
    assert [text.line_of_row(row) for row in (0, 1)] == [4, 6]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf\n\r\n", "is empty"),
        (b"a,b\n1,2\n3\n4,5\n", r"t\.csv, line 3: 1 fields where the header has 2"),
        (b'a,b\n"x\ny",2\n3,4,5\n', r"t\.csv, line 4: 3 fields where the header has 2"),
        (b"a,b\r1,2\r3\r", r"t\.csv, line 3: 1 fields"),
        (b"a,b\n1,2\n3,4,\n", r"t\.csv, line 3: 3 fields where the header has 2"),
        (b'a,b\n"1",2\n3,4,\n', r"t\.csv, line 3: 3 fields where the header has 2"),
        (b'a,b\n1,2\n3,"4\n5,6\n', "row that begins on line 3, and never closed"),
        (b'a,b\n1,2\n"3,4\n5,6\n', "row that begins on line 3, and never closed"),
        (b'a\n1\n"2', "row that begins on line 3, and never closed"),
        (b'"a,b\n1,2\n', "row that begins on line 1, and never closed"),
        (b"a,b\n1,2\ncaf\xe9,4\n", r"t\.csv, line 3: byte 0xe9 is not UTF-8.*iconv"),
        (b"\xff\xfea\x00,\x00b\x00", r"line 1: byte 0xff is not UTF-8"),
        (b'a,b\n1,"' + b"x\n" * 70_000, "row that begins on line 2, and never closed"),
        (b'a,b\n1,"' + b"x\n" * 9_000_000, r"t\.csv, line 2: field larger.*unclosed quote"),
    ],
)
def test_damaged_text_is_refused_by_line(content, message, tmp_path):
    """Ragged rows, unclosed quotes, bytes that are not UTF-8 and empty files are refused."""
    with pytest.raises(TableError, match=message):
        read_text(saved(tmp_path / "t.csv", content))


def test_a_row_longer_than_duckdb_reads_is_refused(tmp_path, monkeypatch):
    """Other errors of the parser are quoted in one line with the name of the file."""
    monkeypatch.setattr("coterie.tables.text._LONGEST_LINE", 64)
    path = saved(tmp_path / "t.csv", "a,b\n" + "x" * 60 + "," + "y" * 60)
    with pytest.raises(TableError, match=r"t\.csv cannot be read: [^\n]+$"):
        read_text(path)


def test_gzip_that_fills_the_memory_is_refused(tmp_path, monkeypatch):
    """A small file that holds far more than the free memory is refused before it is read whole."""
    monkeypatch.setattr("coterie.tables.text.available_memory", lambda: 10**8)
    path = saved(tmp_path / "t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 2 * 10**7))
    assert path.stat().st_size < 10**6
    tracemalloc.start()
    with pytest.raises(TableError, match=r"t\.csv\.gz holds more than .* MB of text.* 100\.0 MB"):
        read_text(path)
    assert tracemalloc.get_traced_memory()[1] < 6 * 10**7
    tracemalloc.stop()
    members = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n")
    assert read_text(saved(tmp_path / "t.csv.gz", members))[1][1] == ["2", "4"]


@pytest.mark.parametrize("content", [gzip.compress(b"a,b\n1,2\n")[:-9], b"a,b\n1,2\n"])
def test_damaged_gzip_is_refused(content, tmp_path):
    """A truncated or invalid gzip file is refused."""
    with pytest.raises(TableError, match=r"t\.csv\.gz is not a complete gzip file"):
        read_text(saved(tmp_path / "t.csv.gz", content))
