"""Valid and invalid labels in a table of an engine."""

from __future__ import annotations

import datetime

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.errors import InvalidLabelsError, LabelWarning, TableError
from coterie.labels.encode import as_label_matrix
from coterie.tables.engines import connect, fetch
from coterie.tables.keys import profile_labels, read_text_as_in_csv

BAD = {
    "negative": pa.array([0, -2, 1]),
    "fraction": pa.array([0.0, 1.5, 1.0]),
    "infinite": pa.array([0.0, np.inf, 1.0]),
    "huge": pa.array([0.0, 2.0**60, 1.0]),
    "float32 beyond its digits": pa.array([0.0, 2.0**25, 1.0], pa.float32()),
    "no label": pa.array([-1, None, -1]),
    "no text": pa.array(["", None, ""]),
    "nothing": pa.array([None, None, None], pa.float64()),
    "days": pa.array([datetime.date(2026, 3, 2)] * 3),
    "lists": pa.array([[1], [2], [3]]),
}


def parquet(tmp_path, columns: dict):
    """Write a table to Parquet, whose statistics engines use, and open it."""
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    return connect(threads=1).read_parquet(str(tmp_path / "t.parquet"))


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_a_label_is_refused_as_in_memory(kind, tmp_path):
    """The engine and as_label_matrix refuse the same columns, by name."""
    columns = {"fine": pa.array([0, 1, 2]), "odd one": BAD[kind]}
    with pytest.raises(InvalidLabelsError, match="'odd one'"):
        profile_labels(parquet(tmp_path, columns), list(columns), "t")
    # in memory a column without labels is left out with a warning
    with pytest.raises((InvalidLabelsError, LabelWarning), match="'odd one'"):
        as_label_matrix(pa.table(columns))


def test_bounds_and_gaps_are_found_in_every_kind_of_column(tmp_path):
    """All types of integers, floats, booleans and text; NaN is missing in spite of statistics."""
    columns = {
        "small": pa.array([3, 7, 5], pa.int8()),
        "unsigned": pa.array([3, None, 5], pa.uint16()),
        "minus one": pa.array([-1, 7, 5]),
        "float": pa.array([1.0, 4.0, np.nan], pa.float32()),
        "double": pa.array([None, 4.0, np.nan]),
        "truth": pa.array([True, False, True]),
        "text": pa.array(["a", "", "b"]),
        "category": pa.array(["a", "b", "b"]).dictionary_encode(),
    }
    found = profile_labels(parquet(tmp_path, columns), list(columns), "t")
    assert found.n_rows == 3
    assert {column.name: (column.bounds, column.has_missing) for column in found.columns} == {
        "small": ((3, 7), False),
        "unsigned": ((3, 5), True),
        "minus one": ((0, 7), True),
        "float": ((1, 4), True),
        "double": ((4, 4), True),
        "truth": ((0, 1), False),
        "text": (None, True),
        "category": (None, False),
    }


def test_rows_without_any_label_are_refused_with_their_number(tmp_path):
    """The message has the number of such rows."""
    columns = {"a": [0, -1, None, 1], "b": ["x", "", None, ""], "c": [np.nan, np.nan, np.nan, 1.0]}
    with pytest.raises(InvalidLabelsError, match="without a label in any partition: 2;"):
        profile_labels(parquet(tmp_path, columns), list(columns), "t")


def test_a_table_without_rows_is_refused(tmp_path):
    """The message names the table."""
    with pytest.raises(TableError, match="march has no rows"):
        profile_labels(parquet(tmp_path, {"a": pa.array([], pa.int64())}), ["a"], "march")


def test_text_is_read_as_in_a_csv():
    """A column of integers is integer; words for missing are null; other text is kept."""
    table = ibis.memtable(
        pa.table(
            {
                "numbers": [" 3", "NA", "-1", "12"],
                "padded": ["03", "3", "null", "4"],
                "long": ["9" * 30, "1", "", "2"],
                "words": ["a ", "nan", "1.5", " "],
            }
        )
    )
    read = read_text_as_in_csv(table, list(table.columns), "t.csv")
    assert fetch(read).to_pydict() == {
        "numbers": [3, None, -1, 12],
        "padded": ["03", "3", None, "4"],
        "long": ["9" * 30, "1", None, "2"],
        "words": ["a ", None, "1.5", None],
    }


def test_measurements_in_text_are_refused():
    """Numbers with fractions are not names of clusters."""
    table = ibis.memtable(pa.table({"height": ["1.37", "2", "1e3"]}))
    with pytest.raises(InvalidLabelsError, match=r"'height' of t.csv holds 1.37"):
        read_text_as_in_csv(table, ["height"], "t.csv")
