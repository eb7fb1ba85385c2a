"""Parquet and NPY files keep types, and damaged files are refused by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.errors import OutputError, TableError
from coterie.files.binary_tables import read_npy, read_parquet, write_npy, write_parquet


def test_parquet_keeps_every_type(tmp_path):
    """Dictionaries, large strings, small integers and nulls are read as written."""
    path = tmp_path / "t.parquet"
    columns = {
        "dictionary": pa.chunked_array([pa.array(["a", "b", None]).dictionary_encode()]),
        "large": pa.chunked_array([pa.array(["a", "b", None], pa.large_string())]),
        "small": pa.chunked_array([pa.array([1, 2, None], pa.int8())]),
    }
    write_parquet(path, columns, path)
    names, read = read_parquet(path)
    assert names == list(columns)
    for column, original in zip(read, columns.values(), strict=True):
        assert column.equals(original)


def test_folder_of_parquet_is_one_table(tmp_path):
    """Files are read in the order of their names; key=value folders give columns."""
    for name, value in [("day=1/b.parquet", 2), ("day=1/a.parquet", 1), ("day=2/a.parquet", 3)]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": [value]}), tmp_path / name)
    (tmp_path / "_unfinished.parquet").write_bytes(b"not Parquet")
    (tmp_path / "_SUCCESS").touch()
    names, columns = read_parquet(tmp_path)
    assert names == ["x", "day"]
    assert [column.to_pylist() for column in columns] == [[1, 2, 3], [1, 1, 2]]


@pytest.mark.parametrize("is_folder", [False, True])
def test_parquet_that_fills_the_memory_is_refused(is_folder, tmp_path, monkeypatch):
    """Millions of equal values take kilobytes in the file, and are refused before they are read."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": np.zeros(10**6, np.int64), "y": np.zeros(10**6, bool)}), path)
    assert path.stat().st_size < 10**5
    given = tmp_path if is_folder else path
    assert len(read_parquet(given)[1][0]) == 10**6
    monkeypatch.setattr("coterie.files.binary_tables.available_memory", lambda: 2 * 8_124_999)
    with pytest.raises(TableError, match=r"has 1,000,000 rows, which take 8\.1 MB or more in"):
        read_parquet(given)


def test_single_file_takes_no_column_from_its_path(tmp_path):
    """A file in a folder named key=value has only its own columns."""
    (tmp_path / "run=3").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "run=3" / "t.parquet")
    assert read_parquet(tmp_path / "run=3" / "t.parquet")[0] == ["x"]


def test_folder_of_different_tables_is_refused(tmp_path):
    """Files with different columns are refused by name."""
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"y": [1]}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"a\.parquet and .*b\.parquet have different columns"):
        read_parquet(tmp_path)


@pytest.mark.parametrize("keep", [0, 3, 200, -5])
def test_damaged_parquet_is_refused(keep, tmp_path):
    """A truncated Parquet file is refused in one line."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": list(range(100))}), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TableError, match=r"t\.parquet is not a Parquet file, or is damaged[^\n]+$"):
        read_parquet(path)


def test_text_in_parquet_that_is_not_utf8_is_refused(tmp_path):
    """Invalid text is detected."""
    path = tmp_path / "t.parquet"
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xe9")]
    )
    pq.write_table(pa.table({"x": text}), path)
    with pytest.raises(TableError, match="damaged"):
        read_parquet(path)


@pytest.mark.parametrize("dtype", ["i1", ">i4", "u8", "f2", ">f8", "?", "U3"])
def test_plain_array(dtype, tmp_path):
    """The columns are p0, p1, … for all types of numbers, byte orders and text."""
    array = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    np.save(tmp_path / "t.npy", array)
    names, columns = read_npy(tmp_path / "t.npy")
    assert names == ["p0", "p1"]
    assert [column.to_pylist() for column in columns] == array.T.tolist()


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
        pa.int16(): st.integers(-(2**15), 2**15 - 1),
        pa.float64(): st.floats(allow_nan=False),
        pa.bool_(): st.booleans(),
        pa.string(): st.one_of(st.none(), text.filter(bool)),
    }
    columns = {}
    for name in names:
        kind = data.draw(st.sampled_from(list(kinds)))
        values = data.draw(st.lists(kinds[kind], min_size=n, max_size=n))
        columns[name] = pa.chunked_array([pa.array(values, kind)])
    path = tmp_path / "t.npy"
    write_npy(path, columns, path)
    assert np.load(path, allow_pickle=False).dtype.names == tuple(names)
    read_names, read = read_npy(path)
    assert read_names == names
    for column, original in zip(read, columns.values(), strict=True):
        assert column.equals(original)


def test_missing_float_is_nan_in_npy(tmp_path):
    """A missing float is written as NaN."""
    path = tmp_path / "t.npy"
    write_npy(path, {"x": pa.chunked_array([[1.5, None]])}, path)
    np.testing.assert_array_equal(np.load(path)["x"], [1.5, np.nan])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([1, None]), r"column 'x' \(int64\) has values"),
        (pa.array(["a\0"]), r"column 'x' \(string\) has values"),
        (pa.array([[1, 2]]), r"column 'x' \(list<.*>\) has values"),
    ],
)
def test_values_that_npy_cannot_hold_are_refused(values, message, tmp_path):
    """Missing integers, text that ends in NUL, nested values and empty names are refused."""
    with pytest.raises(OutputError, match=message):
        write_npy(tmp_path / "t.npy", {"x": pa.chunked_array([values])}, tmp_path / "t.npy")
    with pytest.raises(OutputError, match="need names"):
        write_npy(tmp_path / "t.npy", {"": pa.chunked_array([[1]])}, tmp_path / "t.npy")


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
        read_npy(tmp_path / "t.npy")


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(position=st.integers(0, 287), value=st.integers(0, 255))
def test_damaged_npy_is_read_or_refused(position, value, tmp_path):
    """A file with one changed byte gives a table or a TableError."""
    path = tmp_path / "t.npy"
    columns = {"id": pa.chunked_array([["a", "b"] * 5]), "é": pa.chunked_array([range(10)])}
    write_npy(path, columns, path)
    raw = bytearray(path.read_bytes())
    raw[position % len(raw)] = value
    path.write_bytes(raw)
    try:
        names, read = read_npy(path)
    except TableError as error:
        assert "t.npy" in str(error)
    else:
        assert len(names) == len(read)


def test_a_header_that_claims_a_huge_array_is_refused(tmp_path):
    """No memory is allocated for an array that is larger than its file."""
    path = tmp_path / "t.npy"
    np.save(path, np.zeros((2, 2)))
    path.write_bytes(path.read_bytes().replace(b"(2, 2), }            ", b"(2, 2000000000000), }"))
    with pytest.raises(TableError, match="cut short"):
        read_npy(path)
