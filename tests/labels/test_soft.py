"""Soft partitions of every kind are read, and invalid ones refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings

from coterie.errors import InvalidLabelsError
from coterie.labels.encode import are_memberships, as_label_matrix
from coterie.labels.soft import as_memberships, hard_labels, memberships_like, slots_of
from soft_memberships import soft_partitions

HALVES = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 0.25]])


def arrow_table(matrix):
    """Return a matrix as a table of arrow."""
    return pa.table({str(c): column for c, column in enumerate(matrix.T)})


@pytest.mark.parametrize(
    "convert",
    [sp.csc_matrix, sp.coo_array, pd.DataFrame, pl.DataFrame, arrow_table],
    ids=lambda f: f.__name__,
)
@given(P=soft_partitions())
@settings(max_examples=10, deadline=None)
def test_every_kind_of_matrix_is_read(convert, P):
    """Sparse matrices and tables give the same memberships as arrays, to the last bit."""
    expected, read = as_memberships(P), as_memberships(tuple(convert(m) for m in P))
    assert (expected.shares.toarray() == read.shares.toarray()).all()
    assert (expected.columns == read.columns).all() and (expected.widths == read.widths).all()


def test_lists_of_matrices_are_memberships():
    """Only a list of two-dimensional items holds memberships."""
    assert are_memberships((sp.eye_array(2), pd.DataFrame(np.eye(2))))
    for labels in (np.eye(2), [np.zeros(3), np.zeros(3)], [[0, 1], [1, 0]]):
        assert not are_memberships(labels)


def test_rounded_sums_become_one():
    """A rounding error of the sum is removed; a larger deficit stays."""
    thirds = np.full((2, 3), 1 / 3, dtype=np.float32)
    thirds[1, 0] -= 1e-5
    sums = as_memberships([thirds]).shares.sum(axis=1)
    assert sums[0] == pytest.approx(1, abs=1e-15) and sums[1] == pytest.approx(1 - 1e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("P", "words"),
    [
        ([np.eye(2), np.array([[0.5, 0.6], [1, 0]])], "row 0 of membership matrix 1 sums to 1.1"),
        ([np.array([[0.5, 0.50001]])], "row 0 of membership matrix 0 sums to 1.00001"),
        ([np.array([[1, 0], [-0.1, 0.5]])], "membership -0.1 at row 1, column 0 of .* matrix 0"),
        ([np.array([[1, 0], [0.1, np.nan]])], "membership nan at row 1, column 1"),
        ([np.eye(2, 4), np.eye(3)], "matrix 1 has 3 rows .* matrix 0 has 2;"),
        ([np.eye(2), np.zeros((2, 2))], "membership matrix 1 has only zeros"),
        ([np.array([[1.0, 0], [0, 0]])], r"row 1 has no membership in any partition \(1 such"),
        ([np.array([[1], [0]])] * 2, "matrix 0 is one column of integers"),
        ([np.empty((0, 2))], "membership matrix 0 is empty"),
        ([np.ma.masked_less(HALVES, 0.3)], "membership nan at row 1, column 1"),
        (np.eye(2), r"a list of membership matrices.*the list \[M\]"),
        ([np.array([["0.5", "0.5"]])], "matrix 0 contains a value that is not a number"),
        (
            [np.array([["0.5", 0.5]], dtype=object)],
            "matrix 0 contains a value that is not a number",
        ),
        ([sp.csr_array(np.eye(2, dtype=complex))], "matrix 0 contains complex numbers"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_invalid_memberships_are_refused(P, words):
    """The message names the matrix and the row."""
    with pytest.raises(InvalidLabelsError, match=words):
        as_memberships(P)


def test_unit_rows_are_labels():
    """Unit vectors and zeros are a label matrix; its labels are column numbers."""
    P = [np.eye(3)[[2, 0, 2]], np.array([[1.0, 0], [0, 0], [1, 0]])]
    soft = as_memberships(P)
    assert soft.is_hard
    expected = as_label_matrix([[2, 0], [0, -1], [2, 0]])
    assert (soft.labels().codes == expected.codes).all()
    assert (soft.codes() == expected.codes).all()


@given(P=soft_partitions())
@settings(max_examples=25, deadline=None)
def test_hard_labels_are_arg_max(P):
    """The label of a row with mass is its argmax."""
    expected = np.column_stack([np.where(m.any(axis=1), m.argmax(axis=1), -1) for m in P])
    assert (hard_labels(P) == expected).all()


def test_new_rows_are_read_like_fitted_ones():
    """Columns without members in the fit are missing; other matrices are refused."""
    fitted = as_memberships([pd.DataFrame({"a": [0.5], "b": [0.0], "c": [0.5]}), np.ones((1, 1))])
    new = [pd.DataFrame({"a": [0.2], "b": [0.7], "c": [0.1]}), np.ones((1, 1))]
    assert memberships_like(new, fitted).shares.toarray().tolist() == [[0.2, 0.1, 1.0]]
    with pytest.raises(
        InvalidLabelsError, match=r"have \[3\] columns, those of the fit had \[3, 1\]"
    ):
        memberships_like(new[:1], fitted)
    with pytest.raises(InvalidLabelsError, match="matrix 0 are not those of the fit: c, b, a"):
        memberships_like([new[0][["c", "b", "a"]], new[1]], fitted)
    with pytest.raises(InvalidLabelsError, match="fitted on 2 membership matrices"):
        memberships_like([[0, 0]], fitted)


@given(P=soft_partitions())
@settings(max_examples=25, deadline=None)
def test_slots_hold_the_rows(P):
    """Slots contain all entries of the rows; their columns increase."""
    rows = as_memberships(P).shares
    codes, values = slots_of(rows)
    dense = np.zeros((rows.shape[0], rows.shape[1] + 1))
    np.add.at(dense, (np.arange(len(codes))[:, None], codes), values)
    assert (dense[:, :-1] == rows.toarray()).all() and not dense[:, -1].any()
    rising = np.where(codes < 0, rows.shape[1] + np.arange(codes.shape[1]), codes)
    assert (np.diff(rising) > 0).all()


@pytest.mark.parametrize(
    ("P", "words"),
    [
        ([np.eye(2), np.eye(2)], r"coterie\.hard_labels"),
        (HALVES, "is not a whole number.*a list of membership matrices"),
        ([HALVES.tolist()] * 2, "two dimensions .*, got 3.*a list of membership matrices"),
        ([np.array([0, 1, 1]), HALVES], "item 1 of the list is a matrix, but item 0 is not"),
        ([HALVES, HALVES, [0, 1, 1]], "item 0 of the list is a matrix, but item 2 is not"),
    ],
    ids=["list", "bare", "nested lists", "labels first", "labels last"],
)
def test_memberships_given_as_labels_are_explained(P, words):
    """The message says how soft partitions are given, and which function gives labels."""
    with pytest.raises(InvalidLabelsError, match=words):
        as_label_matrix(P)


@given(P=soft_partitions())
@settings(max_examples=25, deadline=None)
def test_matrices_are_joined_and_rows_chosen(P):
    """Joined partitions are those read together; columns without members are dropped."""
    assume(len(P) > 1)
    soft = as_memberships(P)
    first, others = (as_memberships(part, allow_unlabelled_rows=True) for part in (P[:1], P[1:]))
    joined = first.joined(others)
    assert (joined.shares.toarray() == soft.shares.toarray()).all()
    assert (joined.columns == soft.columns).all() and (joined.widths == soft.widths).all()
    assert joined.names == soft.names == tuple(map(str, range(len(P))))
    assert joined.column_names == soft.column_names == (None,) * len(P)
    assert soft.n_labels.tolist() == [m.any(axis=0).sum() for m in P]
    assert (first.labelled_rows == P[0].any(axis=1)).all()
    chosen = np.arange(len(P[0])) < 2
    dense = soft.shares.toarray()[chosen]
    part = soft.rows(chosen)
    assert (part.shares.toarray() == dense[:, dense.any(axis=0)]).all()
    assert (part.columns == soft.columns[dense.any(axis=0)]).all()
    assert (part.n_points, part.n_partitions) == (2, len(P))
    assert soft.without_rows().n_points == 0 and repr(part).startswith("Memberships(shares=")
