"""Tables in memory: text, Parquet and NPY are read and written alike."""

from __future__ import annotations

import gzip
import io
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.errors import InvalidParameterError, LabelWarning, OutputError, TableError
from coterie.tables.files import (
    INTEGER_PATTERN,
    Table,
    array_table,
    check_table_output,
    csv_text,
    feature_matrix,
    label_columns,
    parse_table,
    read_table,
    write_table,
)
from table_files import columns_of

FEW = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


def table_of(**columns) -> Table:
    """Return a table without a file."""
    arrays = {name: np.asanyarray(values) for name, values in columns.items()}
    return array_table(Path("t.parquet"), arrays)


def parquet_of(folder: Path, **columns) -> Table:
    """Return the table in a Parquet file."""
    pq.write_table(pa.table(columns), folder / "t.parquet")
    return read_table(folder / "t.parquet")


def csv_of(folder: Path, text: str) -> Table:
    """Return the table in a CSV file of this text."""
    (folder / "t.csv").write_text(text)
    return read_table(folder / "t.csv")


@FEW
@given(data=st.data(), suffix=st.sampled_from([".csv", ".TSV", ".csv.gz", ".parquet", ".npy"]))
def test_tables_are_read_as_written(data, suffix, tmp_path):
    """Names, order and values are the same in every format."""
    names = data.draw(st.lists(TEXT.filter(bool), min_size=2, max_size=4, unique=True))
    n = data.draw(st.integers(1, 5))
    columns = {
        name: data.draw(st.lists(st.one_of(st.none(), TEXT.filter(bool)), min_size=n, max_size=n))
        for name in names[1:]
    }
    columns = {
        names[0]: np.array(data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n)))
    } | {name: np.array(values, object) for name, values in columns.items()}
    if suffix == ".parquet" and len({name.lower() for name in names}) < len(names):
        return  # refused
    path = tmp_path / f"t{suffix}"
    write_table(path, columns)
    read = read_table(path)
    assert list(read.columns) == names
    assert read.n_rows == n
    values = read.values(names)
    assert [int(value) for value in values[names[0]]] == list(columns[names[0]])
    for name in names[1:]:
        assert values[name].tolist() == columns[name].tolist()


def test_ids_are_unchanged(tmp_path):
    """An id of digits keeps its zeros, and missing ids are missing."""
    table = csv_of(tmp_path, "id,run\n007,1\n7,2\n")
    ids, _, _ = label_columns(table, ids=["id"])
    write_table(tmp_path / "out.csv", ids | {"cluster": np.array([0, 1])})
    assert (tmp_path / "out.csv").read_text() == "id,cluster\n007,0\n7,1\n"
    table = parquet_of(tmp_path, id=pa.array([7, None], pa.int16()), run=[1, 2])
    ids, _, _ = label_columns(table, ids=["id"])
    write_table(tmp_path / "out.parquet", ids)
    assert pq.read_table(tmp_path / "out.parquet")["id"].equals(
        pa.chunked_array([[7, None]], "int16")
    )


def test_nothing_is_left_of_a_failed_write(tmp_path):
    """An earlier file is unchanged, and no temporary file remains."""
    path = tmp_path / "t.npy"
    write_table(path, {"x": [1]})
    before = path.read_bytes()
    with pytest.raises(OutputError, match="cannot hold"):
        write_table(path, {"x": [1, None]})
    with pytest.raises(OutputError, match=r"cannot write .*t\.csv"):
        write_table(tmp_path / "t.csv", {"x": [[1, 2]]})
    with pytest.raises(OutputError, match="surrogates"):
        write_table(tmp_path / "t.csv", {"x": ["\ud800"]})
    with pytest.raises(InvalidParameterError, match="of one length; got 'x': 1, 'y': 2"):
        write_table(tmp_path / "t.csv", {"x": [1], "y": [1, 2]})
    with pytest.raises(InvalidParameterError, match="got none"):
        write_table(tmp_path / "t.csv", {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_suffix_is_refused_with_those_known(tmp_path):
    """The message lists the possible suffixes; outputs are checked before the work."""
    path = tmp_path / "t.xlsx"
    with pytest.raises(OutputError, match=r"t\.xlsx.*\.csv, \.csv\.gz, .*\.parquet, \.npy"):
        write_table(path, {"x": [1]})
    with pytest.raises(OutputError, match=r"must end in one of"):
        check_table_output(path)
    path.touch()
    with pytest.raises(TableError, match=r"must end in one of"):
        read_table(path)
    check_table_output(tmp_path / "t.csv")
    with pytest.raises(OutputError, match="does not exist"):
        check_table_output(tmp_path / "nowhere" / "t.csv")
    with pytest.raises(OutputError, match="it is a folder"):
        check_table_output(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", r"t\.csv is empty"),
        ("t.csv", b"a,b\n", r"t\.csv has no rows"),
        ("t.csv", b"a,b,a\n1,2,3\n", r"t\.csv has more than one column named 'a'"),
        ("t.csv", b"a,b\n1\n", r"t\.csv, line 2: 1 fields"),
        ("t.csv.gz", gzip.compress(b"a\n"), r"t\.csv\.gz has no rows"),
        ("t.parquet", b"not Parquet", r"t\.parquet is not a Parquet file"),
        ("t.npy", b"not NumPy", r"t\.npy is not a \.npy file"),
    ],
)
def test_unusable_files_are_refused(name, content, message, tmp_path):
    """The message names the file."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=message):
        read_table(tmp_path / name)


def test_missing_and_empty_tables_are_refused(tmp_path):
    """A missing file, a folder without tables and tables without rows or columns are refused."""
    with pytest.raises(TableError, match=r"there is no file .*nothing\.csv"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(TableError, match="is a folder without Parquet files"):
        read_table(tmp_path)
    with pytest.raises(TableError, match="has no rows"):
        parquet_of(tmp_path, x=pa.array([], pa.int64()))
    with pytest.raises(TableError, match="column"):
        parquet_of(tmp_path)


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


def test_text_of_integers_is_integer(tmp_path):
    """Integers, also with blanks around them, become integers; 01 stays text."""
    table = csv_of(tmp_path, "a,b,c,d,e\n1,01,x,2.0, 3\n-1,1,1,2,NA\n0,1,2,3,-1\n")
    ids, names, labels = label_columns(table)
    assert ids == {}
    assert names == ["a", "b", "c", "d", "e"]
    assert [column.dtype.kind for column in labels] == ["i", *"OOO", "i"]
    assert labels[0].tolist() == [1, -1, 0]
    assert labels[1].tolist() == ["01", "1", "1"]
    assert labels[4].tolist() == [3, -1, -1]


@FEW
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**64), 2**64)), min_size=1, max_size=10).filter(
        lambda values: -1 not in values
    )
)
def test_integer_labels_keep_their_values(values):
    """Text becomes integer if all values fit into 64 bits; otherwise it is unchanged."""
    cells = np.array([None if v is None else str(v) for v in values], object)
    (labels,) = label_columns(table_of(a=cells))[2]
    fits = all(v is None or -(2**63) <= v < 2**63 for v in values)
    text = [None if v is None else str(v) for v in values]
    assert labels.tolist() == ([-1 if v is None else v for v in values] if fits else text)


@pytest.mark.parametrize("word", ["", "  ", "NaN", " NA", "None", "N/A"])
def test_words_for_missing(word):
    """They are missing among integers, among text, and in a column of their own kind."""
    assert label_columns(table_of(a=["1", word]))[2][0].tolist() == [1, -1]
    assert label_columns(table_of(a=["x", word]))[2][0].tolist() == ["x", None]
    assert label_columns(table_of(a=[word, None]))[2][0].tolist() == [-1, -1]


def test_typed_columns_keep_their_values(tmp_path):
    """Missing is −1 among integers, NaN among floats, and otherwise None."""
    table = parquet_of(
        tmp_path,
        small=pa.array([1, None], pa.int8()),
        unsigned=pa.array([2**64 - 1, None], pa.uint64()),
        real=[1.5, None],
        truth=[True, None],
        coded=pa.array(["2", "3"]).dictionary_encode(),
        view=pa.array(["x", "NA"], pa.string_view()),
        nothing=pa.nulls(2),
    )
    labels = dict(zip(*label_columns(table)[1:], strict=True))
    np.testing.assert_array_equal(labels.pop("real"), [1.5, np.nan])
    assert labels["small"].dtype == np.int8
    assert {name: values.tolist() for name, values in labels.items()} == {
        "small": [1, -1],
        "unsigned": [2**64 - 1, None],
        "truth": [True, None],
        "coded": [2, 3],
        "view": ["x", None],
        "nothing": [-1, -1],
    }


def test_columns_are_chosen_by_name():
    """Columns have the order of the argument; ids are returned unchanged."""
    table = table_of(a=[1, 2], id=["x", "y"], b=[3, 4], day=["m", "t"])
    ids, names, labels = label_columns(table, ids=["id"], columns=["b", "a"])
    assert {name: values.tolist() for name, values in ids.items()} == {"id": ["x", "y"]}
    assert (names, labels[0].tolist()) == (["b", "a"], [3, 4])
    ids, names, _ = label_columns(table, ids=["day", "id"])
    assert (list(ids), names) == (["day", "id"], ["a", "b"])
    assert feature_matrix(table, columns=["b"])[1] == ["b"]


@pytest.mark.parametrize("choose", [label_columns, feature_matrix])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["z"]}, "t.parquet has no column 'z'; it has 'a', 'b'"),
        ({"ids": ["z"]}, "has no column 'z'; it has 'a', 'b'"),
        ({"columns": ["a", "a"]}, "'a' of t.parquet is asked for twice"),
        ({"ids": ["a"], "columns": ["a"]}, "'a' of t.parquet is asked for twice"),
        ({"columns": []}, "has no column to use"),
    ],
)
def test_impossible_choices_are_refused(choose, arguments, message):
    """Unknown and repeated columns are named."""
    with pytest.raises(TableError, match=message):
        choose(table_of(a=[1], b=[2]), **arguments)


def test_text_in_memory_is_read_and_written():
    """Text from a stream is a table with a name for messages, and CSV text reads back."""
    columns = {"id": ["007", "a,b"], "run": ["1", None]}
    table = parse_table(io.BytesIO(csv_text(columns)), "standard input")
    assert {name: values.tolist() for name, values in table.values(columns).items()} == columns
    assert (str(table.path), table.place(1)) == ("standard input", "line 3")
    with pytest.raises(OutputError, match="cannot write the table"):
        csv_text({"a": [[1]]})
    assert csv_text({"a": pa.array(["x", None])}) == b'a\nx\n""\n'


def test_patterns_of_a_column():
    """They see text without blanks around it, and ignore missing values."""
    table = table_of(a=["3 ", None], b=["3", "03"], c=[3, -1])
    assert table.holds_only("a", INTEGER_PATTERN)
    assert not table.holds_only("b", INTEGER_PATTERN)
    assert table.holds_only("c", INTEGER_PATTERN)


@pytest.mark.parametrize("value", ["-1", "-1.0"])
def test_minus_one_among_text_gives_a_warning(value):
    """In a column of text -1 is a label, with a warning."""
    with pytest.warns(LabelWarning, match="'a' of t.parquet is text, in which -1 is a label"):
        (labels,) = label_columns(table_of(a=["x", value]))[2]
    assert labels.tolist() == ["x", value]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([[1]]), "BIGINT[]"),
        (pa.array([0], pa.timestamp("us")), "TIMESTAMP"),
        (pa.array([b"x"]), "BLOB"),
    ],
)
def test_other_types_are_refused(values, kind, tmp_path):
    """Lists, times and bytes are refused with their column and type."""
    table = parquet_of(tmp_path, a=values)
    with pytest.raises(TableError, match=re.escape(f"t.parquet holds {kind} values")):
        label_columns(table)
    with pytest.raises(TableError, match="features are numbers"):
        feature_matrix(table)


@FEW
@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.integers(-(10**20), 10**20).map(str),
            st.sampled_from(["+1", ".5", "5.", " 7 ", "1E3", "-0"]),
        ),
        min_size=1,
    )
)
def test_text_is_read_as_the_numbers_python_reads(cells):
    """Text is read as the same floats as in Python."""
    np.testing.assert_array_equal(
        feature_matrix(table_of(a=cells))[2][:, 0], [float(cell) for cell in cells]
    )


def test_features_of_any_number_type(tmp_path):
    """Integers, booleans, decimals and half floats become float64."""
    _, names, X = feature_matrix(
        parquet_of(
            tmp_path,
            a=pa.array([1, 2], pa.int8()),
            b=[True, False],
            c=pa.array([1, 2]).cast(pa.decimal128(22, 2)),
            d=pa.array(np.array([0.5, 1.5], np.float16)),
        )
    )
    assert names == ["a", "b", "c", "d"]
    assert X.dtype == np.float64
    assert X.tolist() == [[1, 1, 1, 0.5], [2, 0, 2, 1.5]]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("abc", "line 4, column 'b': 'abc' is not a finite number"),
        ("1,5", "line 4, column 'b': '1,5' is not a finite number"),
        ("1_000", "'1_000' is not a finite number"),
        ("1e999", "'1e999' is not a finite number"),
        ("x" * 99, "'x{59}… is not a finite number"),
        ("", "line 4, column 'b': the value is missing"),
        ("NA", "line 4, column 'b': the value is missing"),
    ],
)
def test_cells_that_are_no_numbers_are_refused_by_line(cell, message, tmp_path):
    """The message has line, column and value; lines inside quotes are counted."""
    table = csv_of(tmp_path, f'a;b;note\n1;2;"x\ny"\n3;"{cell}";z\n')
    with pytest.raises(TableError, match=message):
        feature_matrix(table, columns=["a", "b"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, float("inf")], "t.parquet, row 2, column 'a': inf is not a finite number"),
        ([1.0, float("nan")], "t.parquet, row 2, column 'a': the value is missing"),
        (np.ma.masked_array([1, 2], [False, True]), "row 2, column 'a': the value is missing"),
    ],
)
def test_numbers_that_are_not_finite_are_refused_by_row(values, message):
    """Rows of files without lines are counted from 1."""
    with pytest.raises(TableError, match=message):
        feature_matrix(table_of(a=values))


def test_measurements_are_no_labels(tmp_path):
    """A column of numbers with fractions is refused with its line."""
    path = tmp_path / "features.csv"
    path.write_text("id,size\na,1.0\nb,2.5\nc,9.0\n")
    with pytest.raises(TableError, match=r"column 'size' .* holds 2\.5 \(line 3\).*measurements"):
        label_columns(read_table(path), ids=["id"])


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
