"""Files are read as written, and errors name the file and the line."""

from __future__ import annotations

import csv
import gzip
import io
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.errors import TableError
from coterie.tables.columns import label_columns
from coterie.tables.reading import guess_delimiter, header_difference, parse_table, read_table
from coterie.tables.writing import csv_text, write_table
from table_files import columns_of

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
    rows = draw(
        st.lists(st.lists(ANY_TEXT, min_size=width, max_size=width), min_size=1, max_size=6)
    )
    return [header, *rows]


def saved(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows_of(path: Path) -> list[list[str]]:
    """Return the rows, header first, with blanks for missing cells."""
    columns = columns_of(path)
    rows = zip(*columns.values(), strict=True)
    return [[*columns], *([cell or "" for cell in row] for row in rows)]


@FEW
@given(
    table=tables(),
    delimiter=st.sampled_from(",;\t|"),
    mark=st.sampled_from(["", "\ufeff"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_quoted_text_reads_back(table, delimiter, mark, end, tmp_path):
    """Text of the csv module is read for every delimiter, with or without a byte-order mark."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows(table)
    assert rows_of(saved(tmp_path / "t.csv", mark + text.getvalue())) == table


@FEW
@given(table=tables(names=WORDS, min_columns=2), delimiter=st.sampled_from(",;\t|"))
def test_minimally_quoted_text_reads_back(table, delimiter, tmp_path):
    """Only cells that need quotes have them."""
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(table)
    assert rows_of(saved(tmp_path / "t.csv", text.getvalue())) == table


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
    ],
)
def test_delimiter_is_guessed(text, names, tmp_path):
    """Decimal commas, and delimiters or quotes inside names, do not mislead."""
    assert rows_of(saved(tmp_path / "t.csv", text))[0] == names


def test_delimiter_of_a_long_file(tmp_path):
    """The sample may end inside a quoted field, a character or the header."""
    wide = [f"feature_{index:05}" for index in range(6000)]
    text = ",".join(wide) + "\n" + ",".join("1" * 6000) + "\n"
    assert rows_of(saved(tmp_path / "wide.csv", text))[0] == wide
    row = '1,"' + "é;" * 500 + '"\n'
    path = saved(tmp_path / "t.csv", "a,b\n" + row * 200)
    names, *rows = rows_of(path)
    assert (names, len(rows)) == (["a", "b"], 200)


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
    """Even if it is read in many blocks."""
    path = saved(tmp_path / "t.csv", "a,b\n" + text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coterie.tables.reading._BLOCK_BYTES", block)
        patch.setattr("coterie.tables.reading._DELIMITERS", ",")
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
    assert [read_table(path).place(row) for row in (0, 1)] == ["line 4", "line 6"]


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
        read_table(saved(tmp_path / "t.csv", content))


def test_a_row_longer_than_duckdb_reads_is_refused(tmp_path, monkeypatch):
    """Other errors of the parser are quoted in one line with the name of the file."""
    monkeypatch.setattr("coterie.tables.reading._LONGEST_LINE", 64)
    path = saved(tmp_path / "t.csv", "a,b\n" + "x" * 60 + "," + "y" * 60)
    with pytest.raises(TableError, match=r"t\.csv cannot be read: [^\n]+$"):
        read_table(path)


def test_gzip_that_fills_the_memory_is_refused(tmp_path, monkeypatch):
    """A small file that holds far more than the free memory is refused before it is read whole."""
    monkeypatch.setattr("coterie.tables.reading.available_memory", lambda: 10**8)
    path = saved(tmp_path / "t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 2 * 10**7))
    assert path.stat().st_size < 10**6
    tracemalloc.start()
    with pytest.raises(TableError, match=r"t\.csv\.gz holds more than .* MB of text.* 100\.0 MB"):
        read_table(path)
    assert tracemalloc.get_traced_memory()[1] < 6 * 10**7
    tracemalloc.stop()
    members = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n")
    assert columns_of(saved(tmp_path / "t.csv.gz", members))["b"] == ["2", "4"]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.text("abc ,;|\t'", min_size=1).map(lambda name: f'"{name}"'), min_size=2),
    st.sampled_from(",;|\t"),
)
def test_delimiters_inside_quotes_do_not_count(names, delimiter):
    """The delimiter of a header is found again."""
    assert guess_delimiter(delimiter.join(names)) == delimiter


def test_differences_of_headers_are_described():
    """Extra names, missing names, or only the order."""
    assert header_difference(["a", "b"], ["b", "c"]) == "it has a and it lacks c"
    assert header_difference(["a", "b"], ["b", "a"]) == "the order of columns"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"a,b\n", r"t\.csv has no rows"),
        ("t.csv", b"a,b,a\n1,2,3\n", r"t\.csv has more than one column named 'a'"),
        ("t.csv.gz", gzip.compress(b"a\n"), r"t\.csv\.gz has no rows"),
        ("t.csv.gz", gzip.compress(b"a\n1\n")[:-9], r"t\.csv\.gz is not a complete gzip file"),
        ("t.csv.gz", b"a,b\n1,2\n", r"t\.csv\.gz is not a complete gzip file"),
        ("t.npy", b"not NumPy", r"t\.npy is not a \.npy file"),
    ],
)
def test_unusable_files_are_refused(name, content, message, tmp_path):
    """The message names the file."""
    with pytest.raises(TableError, match=message):
        read_table(saved(tmp_path / name, content))


def test_missing_and_empty_tables_are_refused(tmp_path):
    """A missing file, a folder without tables and tables without rows or columns are refused."""
    with pytest.raises(TableError, match=r"there is no file .*nothing\.csv"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(TableError, match="is a folder without Parquet files"):
        read_table(tmp_path)
    for columns, message in (({"x": pa.array([], pa.int64())}, "has no rows"), ({}, "column")):
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
        with pytest.raises(TableError, match=message):
            read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npy"])
def test_unreadable_files_are_refused(name, tmp_path):
    """A file without permission is refused by name."""
    path = tmp_path / name
    write_table(path, {"a": [1]})
    path.chmod(0)
    if os.access(path, os.R_OK):
        path.unlink()
        path.symlink_to(name)  # a superuser can read anything but a circular link
    with pytest.raises(TableError, match=name):
        read_table(path)


def test_text_in_memory_is_read_and_written():
    """Text from a stream is a table with a name for messages, and CSV text reads back."""
    columns = {"id": ["007", "a,b"], "run": ["1", None]}
    table = parse_table(io.BytesIO(csv_text(columns)), "standard input")
    assert {name: values.tolist() for name, values in table.values(columns).items()} == columns
    assert (str(table.path), table.place(1)) == ("standard input", "line 3")


def test_other_types_of_parquet_are_read(tmp_path):
    """Dictionaries and large strings are text, and so is what is no number, as an id."""
    path = tmp_path / "t.parquet"
    days = pa.array([0, None], pa.date32())
    columns = {
        "dictionary": pa.array(["a", None]).dictionary_encode(),
        "large": pa.array(["a", None], pa.large_string()),
        "view": pa.array(["a", None], pa.string_view()),
        "day": days,
        "price": pa.array([1, None]).cast(pa.decimal128(22, 2)),
        "inside": pa.array([{"a": [1]}, None]),
        "nothing": pa.nulls(2),
    }
    pq.write_table(pa.table(columns), path)
    assert columns_of(path) == {
        **{name: ["a", None] for name in ("dictionary", "large", "view")},
        "day": ["1970-01-01", None],
        "price": ["1.00", None],
        "inside": ["{'a': [1]}", None],
        "nothing": [None, None],
    }


def test_names_of_parquet_columns_are_exact(tmp_path):
    """DuckDB itself renames columns whose names differ by case or are empty."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"": [1], "a": [2], "A": [3]}), path)
    assert columns_of(path) == {"": [1], "a": [2], "A": [3]}
    pq.write_table(pa.table([[1], [2]], names=["x", "x"]), path)
    with pytest.raises(TableError, match="more than one column named 'x'"):
        read_table(path)


def test_folder_of_parquet_is_one_table(tmp_path):
    """Files are read in the order of their names; key=value folders give columns of text."""
    for name, value in [("day=1/b.parquet", 2), ("day=1/a.parquet", 1), ("day=2/a.parquet", 3)]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": [value]}), tmp_path / name)
    (tmp_path / "_unfinished.parquet").write_bytes(b"not Parquet")
    (tmp_path / "_SUCCESS").touch()
    assert columns_of(tmp_path) == {"x": [1, 2, 3], "day": ["1", "1", "2"]}


def test_row_groups_of_parquet_stay_in_order(tmp_path):
    """Cells that are slow to interpret do not let one group overtake another."""
    n = 200_000
    columns = {"id": np.arange(n), "a": [f"it's {i % 5}" for i in range(n)]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=50_000)
    ids, _, _ = label_columns(read_table(tmp_path / "t.parquet"), ["id"])
    assert np.array_equal(ids["id"], np.arange(n))


def test_keys_of_a_folder_may_be_missing(tmp_path):
    """They are decoded, and taken neither from above the folder nor from the path of a file."""
    folder = tmp_path / "key=above"
    for name in ("day=1/site=a%20b/t.parquet", "day=x/t.parquet"):
        (folder / name).parent.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1]}), folder / name)
    assert columns_of(folder) == {"x": [1, 1], "day": ["1", "x"], "site": ["a b", None]}
    assert columns_of(folder / "day=x" / "t.parquet") == {"x": [1]}


def test_folder_of_different_tables_is_refused(tmp_path):
    """Files with different columns are refused by name."""
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"y": [1]}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"b\.parquet: .* differ .*a\.parquet: it has y and"):
        read_table(tmp_path)


@pytest.mark.parametrize("keep", [0, 3, 200, -5])
def test_damaged_parquet_is_refused(keep, tmp_path):
    """A truncated Parquet file is refused in one line."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": list(range(100))}), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TableError, match=r"t\.parquet is not a Parquet file, or is damaged[^\n]+$"):
        columns_of(path)


def test_text_in_parquet_that_is_not_utf8_is_refused(tmp_path):
    """Invalid text is detected."""
    path = tmp_path / "t.parquet"
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xe9")]
    )
    pq.write_table(pa.table({"x": text}), path)
    with pytest.raises(TableError, match="damaged"):
        columns_of(path)


@pytest.mark.parametrize("dtype", ["i1", ">i4", "u8", "f2", ">f8", "?", "U3"])
def test_plain_array(dtype, tmp_path):
    """The columns are p0, p1, … for all types of numbers, byte orders and text."""
    array = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    np.save(tmp_path / "t.npy", array)
    assert columns_of(tmp_path / "t.npy") == dict(zip(["p0", "p1"], array.T.tolist(), strict=True))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[None, 1]]), "not a .npy file of numbers or text"),
        (np.zeros(3), r"shape \(3,\); a table is 2-D"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\); a table is 2-D"),
        (np.zeros((2, 2), dtype=[("a", "i4")]), r"shape \(2, 2\); a table is 2-D"),
        (np.zeros((2, 1), dtype=complex), "column 'p0' of .* holds complex128 values"),
        (np.zeros(2, dtype=[("a", "i4", (2,))]), "column 'a' of .* holds int32 values"),
    ],
)
def test_arrays_that_are_no_table_are_refused(array, message, tmp_path):
    """Objects, other shapes and complex numbers are refused."""
    np.save(tmp_path / "t.npy", array, allow_pickle=True)
    with pytest.raises(TableError, match=message):
        read_table(tmp_path / "t.npy")


@FEW
@given(position=st.integers(0, 287), value=st.integers(0, 255))
def test_damaged_npy_is_read_or_refused(position, value, tmp_path):
    """A file with one changed byte gives a table or a TableError."""
    path = tmp_path / "t.npy"
    write_table(path, {"id": ["a", "b"] * 5, "é": np.arange(10)})
    raw = bytearray(path.read_bytes())
    raw[position % len(raw)] = value
    path.write_bytes(raw)
    try:
        read = columns_of(path)
    except TableError as error:
        assert "t.npy" in str(error)
    else:
        assert len({len(column) for column in read.values()}) == 1


def test_a_header_that_claims_a_huge_array_is_refused(tmp_path):
    """No memory is allocated for an array that is larger than its file."""
    path = tmp_path / "t.npy"
    np.save(path, np.zeros((2, 2)))
    path.write_bytes(path.read_bytes().replace(b"(2, 2), }            ", b"(2, 2000000000000), }"))
    with pytest.raises(TableError, match="cut short"):
        read_table(path)
