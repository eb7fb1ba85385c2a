"""Tests of the index of pandas tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from coterie.errors import InvalidLabelsError
from coterie.labels.encode import as_label_matrix
from coterie.labels.row_index import refuse_other_rows, row_index_of

NAMES = pd.Index(["ada", "bob", "cem"], name="person")
LABELS = [0, 0, 1]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": LABELS, "b": LABELS}, index=NAMES),
        pd.Series(LABELS, index=NAMES),
        {"a": pd.Series(LABELS, index=NAMES), "b": pd.Series(LABELS, index=NAMES)},
        [pd.Series(LABELS, index=NAMES), np.array(LABELS)],
        {"a": pd.Series(LABELS), "b": pd.Series(LABELS, index=NAMES)},
        [pd.DataFrame(np.eye(3), index=NAMES), np.eye(3)],
    ],
)
def test_the_index_is_that_of_the_rows(table):
    """Tables, and lists and mappings of columns or matrices, have the index of their rows."""
    pd.testing.assert_index_equal(row_index_of(table), NAMES)


@pytest.mark.parametrize(
    "table",
    [
        np.eye(3),
        [[0, 1], [1, 1]],
        {"a": LABELS},
        pd.DataFrame({"a": LABELS}),
        pl.DataFrame({"a": LABELS}),
        pa.table({"a": LABELS}),
        [],
    ],
)
def test_numbered_rows_have_no_index(table):
    """Arrays, lists, polars, arrow, and frames with the index 0, 1, 2, … have none."""
    assert row_index_of(table) is None


@pytest.mark.parametrize("index", [pd.RangeIndex(5, 8), pd.RangeIndex(3, name="row"), [2, 1, 0]])
def test_other_numbers_are_an_index(index):
    """Numbers with a name, another start or another order name the rows."""
    frame = pd.DataFrame({"a": LABELS}, index=index)
    assert row_index_of(frame).equals(frame.index)


def test_columns_of_other_rows_are_refused():
    """Series are combined by position, so Series of other rows would give wrong results."""
    table = {"a": pd.Series(LABELS, index=NAMES), "b": pd.Series(LABELS, index=NAMES[::-1])}
    message = "the rows of item 'b' are not those of item 'a': row 0 is 'cem' instead of 'ada'"
    for read in (row_index_of, as_label_matrix):
        with pytest.raises(InvalidLabelsError, match=message):
            read(table)


def test_missing_and_equal_indexes_are_accepted():
    """An index is compared only with another one, by its values."""
    refuse_other_rows(None, NAMES, "new", "old")
    refuse_other_rows(NAMES, None, "new", "old")
    refuse_other_rows(pd.Index([1.0, 2.0]), pd.Index([1, 2]), "new", "old")
    refuse_other_rows(NAMES.astype("category"), NAMES, "new", "old")
