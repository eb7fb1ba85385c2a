"""Parquet and NPY files keep types, and damaged files are refused by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.errors import OutputError, TableError
from coterie.tables.files import feature_matrix, label_columns, read_table, write_table
from table_files import columns_of


def test_parquet_keeps_types(tmp_path):
    """Numbers keep their width, missing values are missing, and NaN is not."""
    path = tmp_path / "t.parquet"
    columns = {
        "text": ["a", "b", None],
        "small": np.ma.masked_array(np.array([1, 2, 0], np.int8), [False, False, True]),
        "label": np.array([0, 1, -1], np.int32),
        "share": np.array([0.5, np.nan, np.inf]),
        "truth": np.array([True, False, True]),
        'a "name"': np.array([1, 2, 3], np.uint64),
    }
    write_table(path, columns)
    schema = pq.read_schema(path)
    assert [str(kind) for kind in schema.types] == [
        *("string", "int8", "int32", "double", "bool", "uint64")
    ]
    assert pq.read_table(path)["share"].null_count == 0
    read = columns_of(path)
    assert list(read) == list(columns)
    assert (read["text"], read["small"]) == (["a", "b", None], [1, 2, None])
    np.testing.assert_array_equal(read["share"], columns["share"])


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
    for columns in ({"a": [1], "A": [2]}, {"": [1]}):
        with pytest.raises(OutputError, match=r"columns of \.parquet need names"):
            write_table(path, columns)


def test_folder_of_parquet_is_one_table(tmp_path):
    """Files are read in the order of their names; key=value folders give columns of text."""
    for name, value in [("day=1/b.parquet", 2), ("day=1/a.parquet", 1), ("day=2/a.parquet", 3)]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": [value]}), tmp_path / name)
    (tmp_path / "_unfinished.parquet").write_bytes(b"not Parquet")
    (tmp_path / "_SUCCESS").touch()
    assert columns_of(tmp_path) == {"x": [1, 2, 3], "day": ["1", "1", "2"]}


def test_keys_of_a_folder_may_be_missing(tmp_path):
    """They are decoded, and not taken from above the folder."""
    folder = tmp_path / "key=above"
    for name in ("day=1/site=a%20b/t.parquet", "day=x/t.parquet"):
        (folder / name).parent.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1]}), folder / name)
    assert columns_of(folder) == {"x": [1, 1], "day": ["1", "x"], "site": ["a b", None]}


@pytest.mark.parametrize("is_folder", [False, True])
def test_parquet_that_fills_the_memory_is_refused(is_folder, tmp_path, monkeypatch):
    """Millions of equal values take kilobytes in the file, and are refused before they are read."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": np.zeros(10**6, np.int64), "y": np.zeros(10**6, bool)}), path)
    assert path.stat().st_size < 10**5
    given = tmp_path if is_folder else path
    assert len(feature_matrix(read_table(given))[2]) == 10**6
    table = read_table(given)
    monkeypatch.setattr("coterie.tables.files.available_memory", lambda: 2 * 8_999_999)
    with pytest.raises(TableError, match=r"has 1,000,000 rows, which take 9\.0 MB or more in"):
        label_columns(table)


def test_single_file_takes_no_column_from_its_path(tmp_path):
    """A file in a folder named key=value has only its own columns."""
    (tmp_path / "run=3").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "run=3" / "t.parquet")
    assert columns_of(tmp_path / "run=3" / "t.parquet") == {"x": [1]}


def test_folder_of_different_tables_is_refused(tmp_path):
    """Files with different columns are refused by name."""
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"y": [1]}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"a\.parquet and .*b\.parquet have different columns"):
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


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    names=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    data=st.data(),
)
def test_npy_reads_back(names, data, tmp_path):
    """Integers, floats, booleans and text are read as written."""
    n = data.draw(st.integers(1, 5))
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
    kinds = {
        np.int16: st.integers(-(2**15), 2**15 - 1),
        np.float64: st.floats(allow_nan=False),
        np.bool_: st.booleans(),
        object: st.one_of(st.none(), text.filter(bool)),
    }
    columns = {}
    for name in names:
        kind = data.draw(st.sampled_from(list(kinds)))
        values = data.draw(st.lists(kinds[kind], min_size=n, max_size=n))
        columns[name] = np.array(values, kind)
    path = tmp_path / "t.npy"
    write_table(path, columns)
    assert np.load(path, allow_pickle=False).dtype.names == tuple(names)
    read = read_table(path).values(names)
    for name in names:
        assert read[name].dtype == columns[name].dtype
        assert read[name].tolist() == columns[name].tolist()


def test_missing_float_is_nan_in_npy(tmp_path):
    """A missing float is written as NaN."""
    path = tmp_path / "t.npy"
    write_table(path, {"x": np.ma.masked_array([1.5, 2], [False, True])})
    np.testing.assert_array_equal(np.load(path)["x"], [1.5, np.nan])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, None], r"column 'x' \(int64\) has values"),
        ([1, "a"], "column 'x' has cells that are no numbers and no texts"),
        (np.ma.masked_array([1, 2], [False, True]), r"column 'x' \(int64\) has values"),
        (["a\0"], r"column 'x' \(object\) has values"),
        ([[1, 2]], "column 'x' has cells that are no numbers and no texts"),
    ],
)
def test_values_that_npy_cannot_hold_are_refused(values, message, tmp_path):
    """Missing integers, text that ends in NUL, nested values and empty names are refused."""
    with pytest.raises(OutputError, match=message):
        write_table(tmp_path / "t.npy", {"x": values})
    with pytest.raises(OutputError, match="need names"):
        write_table(tmp_path / "t.npy", {"": [1]})


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


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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
