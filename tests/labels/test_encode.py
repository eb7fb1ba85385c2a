"""Label matrices from every kind of input, and names of rows."""

import datetime
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from scipy import sparse

from coterie import RobustConsensus
from coterie.errors import InvalidLabelsError, LabelWarning
from coterie.labels import encode
from coterie.labels.encode import (
    MISSING,
    as_label_matrix,
    encode_array,
    encode_columns,
    encode_like,
    refuse_other_rows,
    renumber_by_appearance,
    renumber_by_size,
    row_index_of,
    warn_if_transposed,
    warn_of_ids,
)
from label_matrices import label_matrices

properties = settings(deadline=None, max_examples=25)

NUMBERS = [[3, 0], [7, 2], [3, None], [None, 2]]
TEXTS = [["ü", "b"], ["a", None], ["ü", "b"], [None, "longer"]]
BOTH = [["x", 5], ["y", None], [None, 5], ["x", 0]]


def filled(rows, missing):
    """Return the rows with another value in place of None."""
    return [[missing if cell is None else cell for cell in row] for row in rows]


def column(rows, v):
    """Return column v of a list of rows."""
    return [row[v] for row in rows]


def assert_reads(P, rows):
    """Check that codes name the given labels, one to one, and that every code is used."""
    matrix = as_label_matrix(P)
    assert (matrix.n_points, matrix.n_partitions) == (len(rows), len(rows[0]))
    assert_array_equal(matrix.n_labels, [len(categories) for categories in matrix.categories])
    for v, categories in enumerate(matrix.categories):
        codes = matrix.codes[:, v]
        read = [None if code == MISSING else categories[code] for code in codes]
        assert read == column(rows, v)
        assert len(set(categories.tolist())) == len(categories)
        assert set(codes[codes != MISSING].tolist()) == set(range(len(categories)))
    assert matrix.has_missing == any(None in row for row in rows)
    return matrix


def objects(*rows):
    """Return an object array that keeps lists as cells."""
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        for v, cell in enumerate(row):
            array[i, v] = cell
    return array


MIXED_ROWS = [["x", 5, 7, True], [None, 6, 7, None], ["y", None, None, False]]
MIXED = [column(MIXED_ROWS, v) for v in range(4)]
FOUR = [[3], [4], [2], [5]]
LARGEST = [[2**64 - 1, 2**63], [2**64 - 2, 0]]
READ = {
    **{kind: (np.array(filled(NUMBERS, -1), dtype=kind), NUMBERS) for kind in ("i1", "i4")},
    "f2": (np.array(filled(NUMBERS, np.nan), dtype="f2"), NUMBERS),
    "u1": (np.array([[3, 0], [7, 0]], "u1"), [[3, 0], [7, 0]]),
    "nan in floats": (np.array(filled(NUMBERS, np.nan)), NUMBERS),
    "long floats": (np.array(filled(NUMBERS, np.nan), dtype=np.longdouble), NUMBERS),
    "largest int64": (
        np.array([[2**63 - 1, -1], [2**63 - 2, 0]]),
        [[2**63 - 1, None], [2**63 - 2, 0]],
    ),
    "largest uint64": (np.array(LARGEST, dtype=np.uint64), LARGEST),
    "other byte order": (np.array([[2**40, 1], [7, 1]], dtype=">i8"), [[2**40, 1], [7, 1]]),
    "strided": (np.arange(20).reshape(4, 5)[::2, ::2], [[0, 2, 4], [10, 12, 14]]),
    "truth values": (np.array([[True, False], [False, False]]), [[True, False], [False, False]]),
    "objects with nan": (np.array(filled(BOTH, np.nan), dtype=object), BOTH),
    "objects with NA": (np.array(filled(BOTH, pd.NA), dtype=object), BOTH),
    "texts": (np.array(filled(TEXTS, "")), TEXTS),
    "numpy's new texts": (np.array(filled(TEXTS, ""), dtype=np.dtypes.StringDType()), TEXTS),
    "bytes": (np.array([[b"a", b""], [b"b", b"c"]]), [["a", None], ["b", "c"]]),
    "texts with null characters": (np.array([["a\0b"], ["a\0c"]]), [["a\0b"], ["a\0c"]]),
    "numbers of several types": (objects([3], [4.0], [np.int8(2)], [Fraction(5)]), FOUR),
    "truth values of numpy": (objects([True], [np.False_]), [[1], [0]]),
    "texts and bytes": (
        objects(["ü", 1], ["é".encode(), 1], [b"", 1]),
        [["ü", 1], ["é", 1], [None, 1]],
    ),
    "masked": (np.ma.masked_equal(filled(NUMBERS, 9), 9), NUMBERS),
    "numbers and None": (NUMBERS, NUMBERS),
    "texts and nan": (filled(TEXTS, float("nan")), TEXTS),
    "each column its kind": (BOTH, BOTH),
    "columns are arrays": ([np.array([3, 0]), np.array([7, 0])], [[3, 7], [0, 0]]),
    "columns are Series": ([pd.Series(["a", None]), pl.Series([7, 0])], [["a", 7], [None, 0]]),
    "pandas": (pd.DataFrame({str(v): MIXED[v] for v in range(4)}), MIXED_ROWS),
    "pandas nullable": (
        pd.DataFrame(
            {
                "a": pd.array(MIXED[0], dtype="string"),
                "b": pd.array(MIXED[1], dtype="Int64"),
                "c": pd.array(MIXED[2], dtype="Float64"),
                "d": pd.array(MIXED[3], dtype="boolean"),
            }
        ),
        MIXED_ROWS,
    ),
    "pandas, unused categories": (
        pd.DataFrame({"a": pd.Categorical([1, 2], categories=[-5, 2, 9, 1])}),
        [[1], [2]],
    ),
    "pandas sparse": (pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}), [[0], [1]]),
    "polars": (pl.DataFrame({str(v): MIXED[v] for v in range(4)}), MIXED_ROWS),
    "polars categories": (
        pl.DataFrame(
            {
                "a": pl.Series(MIXED[0], dtype=pl.Categorical),
                "b": pl.Series(["u", "v", "u"], dtype=pl.Enum(["v", "u", "w"])),
            }
        ),
        [["x", "u"], [None, "v"], ["y", "u"]],
    ),
    "arrow": (pa.table({str(v): MIXED[v] for v in range(4)}), MIXED_ROWS),
    "arrow half floats": (pa.table({"a": pa.array(np.array([1, 2], "f2"))}), [[1], [2]]),
}


@pytest.mark.parametrize("kind", READ)
def test_tables_are_read(kind):
    """Arrays, lists of rows or columns, and frames become codes that name the same labels."""
    assert_reads(*READ[kind])


def test_streams_of_columns_are_read():
    """Other sources of arrow columns are read, for example the result of a query."""
    rows = [[1, "a"], [2, None], [1, "b"]]
    labels = pa.table({"x": column(rows, 0), "y": column(rows, 1)})
    assert_reads(labels.to_reader(), rows)
    with duckdb.connect() as connection:
        assert_reads(connection.sql("SELECT * FROM labels"), rows)


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (pd.DataFrame([[1, 2], [3, 4]], columns=[10, 20.5]), ("10.0", "20.5")),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), ("a", "a")),
        ({"a": [1, 3], "b": np.array([2, 4])}, ("a", "b")),
        (np.array([[1, 2], [3, 4]]), ("0", "1")),
    ],
)
def test_names_of_columns(table, names):
    """Columns may have any names, even equal ones; those of arrays are numbers."""
    matrix = assert_reads(table, [[1, 2], [3, 4]])
    assert matrix.names == names
    assert as_label_matrix(table, names=["x", "y"]).names == ("x", "y")
    assert as_label_matrix(matrix) is matrix
    assert_array_equal(encode_like(matrix, matrix), matrix.codes)


#: Whole numbers of 25 bits are not all exact in single precision.
BEYOND_SINGLE = [0.0, 2.0**25, None]
REFUSED = {
    "no rows": (np.empty((0, 3)), "empty.*\\(0, 3\\)"),
    "list of empty rows": ([[], []], "empty"),
    "empty pandas": (pd.DataFrame({"a": []}), "empty"),
    "one dimension": ([0, 1, 1], "two dimensions.*got 1.*reshape"),
    "ragged": ([[0, 1], [2, 3], [4]], "row 2 has 1 labels, but row 0 has 2"),
    "a row that is none": ([[0, 1], 5], "row 1 has 1 labels"),
    "a list in a cell": ([[0, [1]], [2, 3]], "one label in each cell"),
    "sparse matrix": (sparse.csr_array(np.eye(2)), "not a sparse matrix"),
    "fraction": (np.array([[0, 1], [2, 1.5]]), "label 1.5 at row 1, partition '1' is not a whole"),
    "shares": ([[0.5, 0.5], [0.0, 1.0]], "label 0.5 at row 0, .* soft partitions are a list"),
    "not shares": ([[1.0, 0.5], [0.0, 1.0]], "label 0.5 at row 0, partition '1' .* measurements"),
    "not only shares": ([[1.0, -1.0], [0.5, 0.5]], "label 0.5 at row 1, .* not measurements"),
    "a column of fractions": ([[0.5], [0.5]], "label 0.5 at row 0, .* use ConsensusClusterer"),
    "floats whose sum overflows": (np.array([[0.5, 6e4, 6e4]], "f2"), "0.5 .* not measurements"),
    "infinity": (np.array([[0, 1], [-np.inf, 1]]), "-inf at row 1, partition '0' is not a whole"),
    "inexact float": (np.array([[0], [2.0**53]]), "row 1, partition '0' is too large"),
    "integers numpy makes floats of": ([[2**63, -1]], "row 0, partition '0' is too large"),
    "integers of both signs and 64 bits": (objects([2**63], [-1]), "'0' .* is too large"),
    "inexact float among integers": (objects([1], [2**53 + 1], [0.0]), "too large to be exact"),
    "time differences": (objects([np.timedelta64(1, "h")]), "labels of type timedelta64"),
    "numbers and truth values": (objects([None], [False], [0]), "mixes kinds of labels"),
    "integer beyond 64 bits": ([[1, 2**70]], "partition '1' .* cannot be read .* 64 bits"),
    "negative": (np.array([[0, 1], [3, -2]]), "label -2 at row 1, partition '1' is negative"),
    "negative next to large": (np.array([[2**40], [-2]]), "-2 at row 1, partition '0' is neg"),
    "row without label": ([[0, 1], [-1, -1], [-1, -1]], "row 1 has no label.*2 such rows"),
    "no label at all": (np.array([[-1, -1], [-1, -1]]), "every label is missing"),
    "vectors of two lengths": ([np.zeros(2), np.zeros(3)], "partition '1' has shape"),
    "mixed column": ([["a", 1], ["b", 2], [3, 3]], "partition '0' mixes.*'a' at row 0, 3 at row 2"),
    "mixed after a blank": (objects([None], [True], [2]), "'0' mixes.*True at row 1, 2 at row 2"),
    "complex": (np.array([[1j]]), "partition '0' has labels of type complex"),
    "lists": (objects([[1, 2]], [[3]]), "partition '0' has labels of type list"),
    "arrow lists": (pa.table({"a": [[1], [2]]}), "partition 'a' has labels of type list"),
    "date objects": (objects([1, datetime.date(2020, 1, 1)]), "'1' has labels of type date"),
    "not UTF-8": (np.array([[b"\xff"]]), "partition '0' has bytes .* not UTF-8"),
    "half a character": ([["\ud800"]], "partition '0' .* cannot be read"),
    **{
        f"single precision {i}": (table, "row 1, partition 'a' is too large")
        for i, table in enumerate(
            [
                pd.DataFrame({"a": pd.Series(BEYOND_SINGLE, dtype="Float32")}),
                pd.DataFrame({"a": pd.Series(BEYOND_SINGLE, dtype="float[pyarrow]")}),
                pl.DataFrame({"a": BEYOND_SINGLE}, schema={"a": pl.Float32}),
                pa.table({"a": pa.array(BEYOND_SINGLE, pa.float32())}),
            ]
        )
    },
    "polars objects": (pl.DataFrame({"a": [object()]}), "partition 'a' has labels of type"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_bad_labels_are_refused(kind):
    """An invalid label matrix is refused; the message gives the place and the reason."""
    P, message = REFUSED[kind]
    with pytest.raises(InvalidLabelsError, match=message):
        as_label_matrix(P)


@pytest.mark.parametrize("cells", [1, 70, 10**6])
def test_lookup_and_sorting_agree(cells, monkeypatch):
    """Lookup (small integers) and sorting (large ones) give the same codes, in any chunks."""
    monkeypatch.setattr(encode, "_CHUNK_CELLS", cells)
    P = np.random.default_rng(0).integers(-1, 50, (500, 4))
    small, small_names = encode_array(P, "abcd")
    large, large_names = encode_array(np.where(P < 0, -1, P + 2**40), "abcd")
    assert_array_equal(small, large)
    for v in range(4):
        assert_array_equal(np.append(small_names[v], -1)[small[:, v]], P[:, v])
        assert_array_equal(small_names[v], large_names[v] - 2**40)


@pytest.mark.parametrize("rare", [0, 3])
def test_large_labels_outside_a_sample_are_found(rare, monkeypatch):
    """Codes are those of sorting all rows, even if the sampled rows lack some labels."""
    monkeypatch.setattr(encode, "_SAMPLED_ROWS", 10)
    y = np.random.default_rng(0).integers(3, size=1000) * 10**12
    y[1 : 1 + rare] = [7, 10**15, -1][:rare]
    codes, (names,) = encode_array(y[:, None], ["a"])
    assert_array_equal(names, np.unique(y[y >= 0]))
    assert_array_equal(np.where(codes[:, 0] < 0, -1, names[codes[:, 0]]), y)


def test_many_labels_take_wider_codes():
    """Codes have two bytes if that is enough, otherwise four."""
    n = np.iinfo(np.int16).max
    assert encode_array(np.arange(n)[:, None], ["a"])[0].dtype == np.int16
    wide, (names,) = encode_array(np.arange(n + 1)[:, None], ["a"])
    assert wide.dtype == np.int32
    assert_array_equal(names[wide[:, 0]], np.arange(n + 1))
    assert encode_array(np.array([[3], [-1]]), ["a"])[0].dtype == np.int16


ANY_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")))
CELLS = st.one_of(
    *(
        st.lists(st.one_of(st.none(), cells), min_size=1, max_size=12)
        for cells in (
            ANY_TEXT,
            st.integers(-3, 2**63 - 1),
            st.booleans(),
            st.sampled_from([-2, 0, 3, 0.5]),
            st.sampled_from([0.0, -0.0, 1.0]),
        )
    )
)


def outcome(column):
    """Return the label of every row (None if it is missing), or the message of the error."""
    try:
        codes, (labels,) = encode_columns([column], ["a"])
        codes = codes[:, 0]
    except InvalidLabelsError as error:
        return str(error)
    assert sorted(set(codes[codes >= 0].tolist())) == list(range(len(labels)))
    return [None if code < 0 else labels[code].item() for code in codes]


@settings(deadline=None, max_examples=75)
@given(CELLS)
def test_every_library_gives_the_same_labels_and_messages(cells):
    """Arrow and the columns of pandas and polars are exchangeable; 0.0 and −0.0 are one label."""
    column = objects(*([cell] for cell in cells))[:, 0]
    expected, arrow = outcome(column), pa.array(cells)
    columns = [
        arrow,
        pa.chunked_array([arrow[:1], arrow[1:]]),
        arrow.dictionary_encode(),
        pd.Series(column, dtype=object),
        pd.Series(column).astype("category"),
        pl.Series(cells, strict=False),
    ]
    if not any(isinstance(cell, float) for cell in cells):
        columns.append(pd.Series(arrow.to_pandas(types_mapper=pd.ArrowDtype)))
    elif not any(isinstance(cell, int) for cell in cells):
        columns += [pd.Series(cells, dtype=kind) for kind in ("double[pyarrow]", "Float64")]
    for other in columns:
        assert outcome(other) == expected, other


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="this version of polars has no such type")
def test_long_integers_of_polars_are_labels_up_to_64_bits():
    """NumPy has no integers of 128 bits; those that fit are labels, the others are refused."""
    small = pl.Series([4, 4, 2**40], dtype=pl.Int128)
    assert outcome(small) == [4, 4, 2**40]
    assert "18446744073709551616 is too large" in outcome(pl.Series([4, 2**64], dtype=pl.Int128))


@properties
@given(P=label_matrices(), factor=st.sampled_from([1, 10**12]))
def test_encode_like_repeats_the_codes(P, factor):
    """Any integers are read; rows of the fit get the same codes, in any order and type."""
    P = np.where(P < 0, -1, P * factor)
    matrix = assert_reads(P, [[None if cell == -1 else cell for cell in row] for row in P.tolist()])
    assert_array_equal(encode_like(P, matrix), matrix.codes)
    assert_array_equal(encode_like(P[::-1].astype(np.float64), matrix), matrix.codes[::-1])
    again = encode_like(P[:1], matrix.without_rows())
    assert again.tolist() == matrix.codes[:1].tolist() and again.dtype == matrix.codes.dtype
    half = np.arange(len(P)) <= len(P) // 2
    assert_array_equal(matrix.rows(half).codes, as_label_matrix(P[half]).codes)


def test_unseen_labels_are_missing():
    """Labels that are new or missing get the code −1, even in all columns of a row."""
    fitted = as_label_matrix([["x", 5], ["y", 6]])
    new = [["y", 5], ["z", 6], [None, 7], ["", None]]
    assert encode_like(new, fitted).tolist() == [[1, 0], [-1, 1], [-1, -1], [-1, -1]]
    assert encode_like([[None, None]], fitted).tolist() == [[-1, -1]]
    # names are compared only with names: arrays may follow tables, and tables arrays
    for one, other in ((FRAME, FRAME.to_numpy()), (FRAME.to_numpy(), FRAME)):
        matrix = as_label_matrix(one)
        assert encode_like(other, matrix).tolist() == matrix.codes.tolist()


ROWS = [["x", 0], ["y", 1]]
FRAME = pd.DataFrame({"a": [0, 1], "b": [1, 0]})


@pytest.mark.parametrize(
    ("fitted", "new", "message"),
    [
        (ROWS, [["x"]], "1 partitions.*fitted on 2"),
        (ROWS, [["x", 0, 2]], "3 partitions.*fitted on 2"),
        (ROWS, [[1, 0]], "partition '0' has numbers .* fitted with texts"),
        (ROWS, [["x", "y"]], "partition '1' has texts .* fitted with numbers"),
        (FRAME, FRAME[["b", "a"]], "not those of the fit: b, a instead of a, b"),
        (FRAME, pl.DataFrame({"b": [0], "a": [1]}), "in the same order"),
        (FRAME, FRAME.set_axis(["c", "d"], axis=1), "c, d instead of a, b"),
    ],
)
def test_encode_like_refuses_other_columns(fitted, new, message):
    """New rows need the names, the order and the kinds of the fitted columns."""
    with pytest.raises(InvalidLabelsError, match=message):
        encode_like(new, as_label_matrix(fitted))


def test_empty_columns_are_left_out_with_a_warning():
    """A column without labels is named and left out, and new rows may have it or not."""
    P = np.array([[0, -1, 3], [2, -1, 3]])
    with pytest.warns(LabelWarning, match=r"'1' \(column 1\)"):
        matrix = as_label_matrix(P)
    assert matrix.names == ("0", "2")
    assert encode_like(P, matrix).tolist() == [[0, 0], [1, 0]]
    assert encode_like(P[:, [0, 2]], matrix).tolist() == [[0, 0], [1, 0]]


@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
def test_a_transposed_table_gives_a_warning():
    """More columns than rows look like partitions in the rows."""
    P = np.arange(60).reshape(3, 20) % 7
    with pytest.warns(LabelWarning, match="3 rows and 20 columns.*pass P.T"):
        RobustConsensus(2).fit(P)
    for as_many in (P.T, np.eye(20, dtype=int), P[:, :19]):
        warn_if_transposed(as_label_matrix(as_many))


@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
def test_a_column_of_ids_gives_a_warning():
    """A column with another label in nearly every row may name the rows."""
    ids = np.arange(20)
    table = pd.DataFrame({"who": ids, "a": ids % 3, "b": ids % 2})
    with pytest.warns(LabelWarning, match="'who' has 20 different labels in 20 rows.*--id"):
        RobustConsensus(2).fit(table)
    with pytest.warns(LabelWarning, match="'who' has 18 different labels in 20 rows"):
        warn_of_ids(["who", "a"], [18, 3], 20)
    warn_of_ids(["who", "a"], [17, 3], 20)
    for fine in (table.drop(columns="who"), table[["who"]], table[:19]):
        matrix = as_label_matrix(fine)
        warn_of_ids(matrix.names, matrix.n_labels.tolist(), matrix.n_points)


LABELS = arrays(np.int64, st.integers(1, 30), elements=st.integers(-5, 5))


@settings(max_examples=30, deadline=None)
@given(LABELS)
def test_renumbering_keeps_the_clusters(labels):
    """Names are 0 to K − 1, by first appearance, or by decreasing size and then appearance."""
    by_appearance, by_size = renumber_by_appearance(labels), renumber_by_size(labels)
    for renamed in (by_appearance, by_size):
        assert ((renamed[:, None] == renamed) == (labels[:, None] == labels)).all()
        assert sorted(set(renamed)) == list(range(len(set(labels.tolist()))))
    assert (np.diff(np.unique(by_appearance, return_index=True)[1]) > 0).all()
    _, first, size = np.unique(by_size, return_index=True, return_counts=True)
    keys = list(zip((-size).tolist(), first.tolist(), strict=True))
    assert keys == sorted(keys)
    assert renumber_by_size(np.array([0, 0, 1]), np.array([1.0, 1.0, 5.0])).tolist() == [1, 1, 0]


NAMES = pd.Index(["ada", "bob", "cem"], name="person")
LABELS = [0, 0, 1]


NAMED = pd.DataFrame({"a": LABELS, "b": LABELS}, index=NAMES)
INDEXED = [
    *(NAMED, NAMED["a"], dict(NAMED), [NAMED["a"], np.array(LABELS)], [NAMED, np.eye(3)]),
    {"a": pd.Series(LABELS), "b": NAMED["a"]},
]
FRAMES = [kind({"a": LABELS}) for kind in (dict, pd.DataFrame, pl.DataFrame, pa.table)]
NUMBERED = [*FRAMES, np.eye(3), [[0, 1], [1, 1]], []]


def test_the_index_is_that_of_the_rows():
    """Tables, and lists and mappings of columns or matrices, have the index of their rows.

    Numbers are an index if they have a name, another start or another order than 0, 1, 2, …
    """
    for table in INDEXED:
        pd.testing.assert_index_equal(row_index_of(table), NAMES)
    for table in NUMBERED:
        assert row_index_of(table) is None
    for index in (pd.RangeIndex(5, 8), pd.RangeIndex(3, name="row"), pd.Index([2, 1, 0])):
        assert row_index_of(pd.DataFrame({"a": LABELS}, index=index)).equals(index)


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
