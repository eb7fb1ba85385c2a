"""Distinct labels of a column are the same from every library."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from coterie.errors import InvalidLabelsError
from coterie.labels.distinct_labels import as_numbers, distinct_labels, drop_categories

TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")))
CELLS = st.one_of(
    st.lists(st.one_of(st.none(), TEXTS), min_size=1, max_size=12),
    st.lists(st.one_of(st.none(), st.integers(-3, 2**63 - 1)), min_size=1, max_size=12),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=1, max_size=12),
    st.lists(st.one_of(st.none(), st.sampled_from([-2, 0, 3, 0.5])), min_size=1, max_size=12),
)


def as_objects(cells):
    """Return an object array."""
    return np.fromiter(cells, object, len(cells))


def outcome(column):
    """Return the label of every row (None if it is missing), or the message of the error."""
    try:
        codes, labels = distinct_labels(column, "a")
    except InvalidLabelsError as error:
        return str(error)
    assert sorted(set(codes[codes >= 0].tolist())) == list(range(len(labels)))
    return [None if code < 0 else labels[code].item() for code in codes]


@settings(deadline=None, max_examples=60)
@given(CELLS)
def test_every_library_gives_the_same_labels_and_messages(cells):
    """A dictionary, arrow and the columns of pandas and polars are exchangeable."""
    expected = outcome(as_objects(cells))
    arrow = pa.array(cells)
    columns = [
        arrow,
        pa.chunked_array([arrow[:1], arrow[1:]]),
        arrow.dictionary_encode(),
        pd.Series(as_objects(cells), dtype=object),
        pd.Series(as_objects(cells)).astype("category"),
        pl.Series(cells, strict=False),
    ]
    if not any(isinstance(cell, float) for cell in cells):
        columns.append(pd.Series(arrow.to_pandas(types_mapper=pd.ArrowDtype)))
    for column in columns:
        assert outcome(column) == expected, column


@pytest.mark.parametrize("cells", [[1, True], [None, False, 0], [1.0, np.True_]])
def test_numbers_and_truth_values_are_not_mixed_up(cells):
    """1 and True are equal as keys of a dictionary, but they are two kinds of labels."""
    with pytest.raises(InvalidLabelsError, match="mixes kinds of labels"):
        distinct_labels(as_objects(cells), "a")


def test_bytes_and_texts_are_the_same_labels():
    """Bytes are UTF-8."""
    codes, labels = distinct_labels(as_objects(["ü", "ü".encode(), b""]), "a")
    assert (codes.tolist(), labels.tolist()) == ([0, 0, -1], ["ü"])


def test_only_numbers_without_nulls_are_arrays():
    """Integers beside nulls would become floats, which are not exact."""
    assert_array_equal(as_numbers(pl.Series([2**60 + 1])), [2**60 + 1])
    assert_array_equal(as_numbers(pd.Series([True, False])), [True, False])
    for column in (pl.Series([1, None]), pd.Series(["a"]), pa.array([1]), pl.Series(["a"])):
        assert as_numbers(column) is None


def test_dropped_categories_are_missing():
    """Codes of dropped categories become −1, and the others close the gaps."""
    codes, names = drop_categories(
        np.array([0, 1, 2, -1]), np.array([10, 20, 30]), np.array([False, True, False])
    )
    assert codes.tolist() == [0, -1, 1, -1]
    assert names.tolist() == [10, 30]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0.0, -0.0, 1.0, None]),
        pd.Series([0.0, -0.0, 1.0, None], dtype="double[pyarrow]"),
        pd.Series([0.0, -0.0, 1.0, None], dtype="Float64"),
        pl.Series([0.0, -0.0, 1.0, None]),
        as_objects([0.0, -0.0, 1.0, None]),
    ],
)
def test_zero_has_no_sign(column):
    """The floats 0.0 and −0.0 are one label, as they are in arrays of numbers."""
    codes, labels = distinct_labels(column, "run")
    assert codes.tolist() == [0, 0, 1, -1]
    assert labels.tolist() == [0, 1]


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="this version of polars has no such type")
def test_long_integers_of_polars_are_labels_up_to_64_bits():
    """NumPy has no integers of 128 bits; those that fit are labels, the others are refused."""
    small = pl.Series([4, 4, 2**40], dtype=pl.Int128)
    assert as_numbers(small) is None
    codes, labels = distinct_labels(small, "run")
    assert (codes.tolist(), labels.tolist()) == ([0, 0, 1], [4, 2**40])
    with pytest.raises(InvalidLabelsError, match="run"):
        distinct_labels(pl.Series([4, 2**64], dtype=pl.Int128), "run")


@pytest.mark.parametrize("library", ["pandas", "pandas and arrow", "polars", "arrow"])
def test_numbers_beyond_single_precision_are_refused(library):
    """Whole numbers of 25 bits are not all exact in single precision, whoever stores them."""
    cells = [0.0, 2.0**25, None]
    column = {
        "pandas": lambda: pd.Series(cells, dtype="Float32"),
        "pandas and arrow": lambda: pd.Series(cells, dtype="float[pyarrow]"),
        "polars": lambda: pl.Series(cells, dtype=pl.Float32),
        "arrow": lambda: pa.array(cells, pa.float32()),
    }[library]()
    with pytest.raises(InvalidLabelsError, match="at row 1, partition 'a' is too large"):
        distinct_labels(column, "a")
