"""Columns of text, numbers and labels as arrays."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.errors import InvalidParameterError, LabelWarning, TableError
from coterie.tables.columns import INTEGER_PATTERN, Table, feature_matrix, label_columns
from coterie.tables.reading import array_table, read_table

FEW = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def table_of(**columns) -> Table:
    arrays = {name: np.asanyarray(values) for name, values in columns.items()}
    return array_table(Path("t.parquet"), arrays)


def parquet_of(folder: Path, **columns) -> Table:
    pq.write_table(pa.table(columns), folder / "t.parquet")
    return read_table(folder / "t.parquet")


def csv_of(folder: Path, text: str) -> Table:
    (folder / "t.csv").write_text(text)
    return read_table(folder / "t.csv")


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


@pytest.mark.parametrize(
    "word", ["", "  ", " NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None"]
)
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
    with pytest.raises((TableError, InvalidParameterError), match=message):
        choose(table_of(a=[1], b=[2]), **arguments)


def test_patterns_of_a_column():
    """They see text without blanks around it, and ignore missing values."""
    table = table_of(a=["3 ", None], b=["3", "03"], c=[3, -1])
    assert table.holds_only("a", INTEGER_PATTERN)
    assert not table.holds_only("b", INTEGER_PATTERN)
    assert table.holds_only("c", INTEGER_PATTERN)


def test_minus_one_among_text_gives_a_warning():
    """In a column of text -1 is a label, with a warning."""
    for value in ("-1", "-1.0"):
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
        ("NA", "line 4, column 'b': 'NA' is not a finite number"),
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
        ([1.0, float("nan")], "row 2, column 'a': a missing value is not a finite number"),
        (np.ma.masked_array([1, 2], [False, True]), "row 2, column 'a': a missing value"),
    ],
)
def test_numbers_that_are_not_finite_are_refused_by_row(values, message):
    """Rows of files without lines are counted from 1."""
    with pytest.raises(TableError, match=message):
        feature_matrix(table_of(a=values))


@pytest.mark.parametrize("point", [".", ","])
def test_measurements_are_no_labels(tmp_path, point):
    """A column of numbers with fractions is refused with its line."""
    path = tmp_path / "features.csv"
    path.write_text("id;size\na;1.0\nb;2.5\nc;\nd;9.0\n".replace(".", point))
    shown = f"2[{point}]5"
    with pytest.raises(TableError, match=rf"'size' .* holds {shown} \(line 3\).*measurements"):
        label_columns(read_table(path), ids=["id"])


def test_numbers_with_commas_next_to_words_or_without_fractions_are_labels():
    """Only a column of numbers alone, one of them with a fraction, is one of measurements."""
    for cells in (["1,5", "x"], ["1,0", "2,00"], ["1,5", "2;5"]):
        assert label_columns(table_of(a=cells))[2][0].tolist() == cells


def test_a_sign_in_most_columns_may_mean_a_missing_label():
    """The warning names the sign; signs alone, and those in a few columns, are labels."""
    words = {"a": ["x", "?", "y"], "b": ["1", "?", "2"], "c": ["1", "-", "2"]}
    with pytest.warns(LabelWarning, match=r"^'\?' is a label in 2 of 3 columns .* blank$") as found:
        label_columns(table_of(**words))
    assert len(found) == 1
    label_columns(table_of(a=["+", "-", "+"], b=["-", "-", "+"], c=["é", "x", "?"]))


@pytest.mark.parametrize("is_folder", [False, True])
def test_parquet_that_fills_the_memory_is_refused(is_folder, tmp_path, monkeypatch):
    """Millions of equal values take kilobytes in the file, and are refused before they are read."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": np.zeros(10**6, np.int64), "y": np.zeros(10**6, bool)}), path)
    assert path.stat().st_size < 10**5
    given = tmp_path if is_folder else path
    assert len(feature_matrix(read_table(given))[2]) == 10**6
    table = read_table(given)
    monkeypatch.setattr("coterie.tables.columns.available_memory", lambda: 2 * 8_999_999)
    with pytest.raises(TableError, match=r"has 1,000,000 rows, which take 9\.0 MB or more in"):
        label_columns(table)
