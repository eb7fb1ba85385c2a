"""Tuples after partitions are added."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coterie.errors import InvalidLabelsError, LabelWarning
from coterie.labels.append import append_partitions
from coterie.labels.encode import as_label_matrix
from coterie.labels.soft import as_memberships
from coterie.labels.tuples import compress_labels, compress_memberships
from label_matrices import assert_same_tuples, label_matrices
from soft_memberships import soft_partitions


@settings(max_examples=25, deadline=None)
@given(label_matrices(max_points=14, max_partitions=6), st.data())
def test_tuples_are_those_of_all_partitions(P, data):
    """Adding partitions gives the tuples of all partitions compressed together, weighted or not."""
    P = P[:, (P >= 0).any(axis=0)]
    assume(P.shape[1] > 1)
    n_before = data.draw(st.integers(1, P.shape[1] - 1))
    weights = data.draw(st.sampled_from([None, np.arange(1.0, len(P) + 1)]))
    fitted = as_label_matrix(P[:, :n_before], allow_unlabelled_rows=True)
    before = compress_labels(fitted, weights)
    tuples, _ = append_partitions(before, fitted.without_rows(), P[:, n_before:], weights)
    assert_same_tuples(tuples, compress_labels(as_label_matrix(P), weights))


def test_many_labels_take_wider_codes():
    """Codes get four bytes if the old or the new partitions have many clusters."""
    few, many = (np.arange(40_000)[:, None] % K for K in (2, 40_000))
    for old, new in ((few, many), (many, few)):
        fitted = as_label_matrix(old)
        found, _ = append_partitions(compress_labels(fitted), fitted, new)
        assert_same_tuples(found, compress_labels(as_label_matrix(np.hstack([old, new]))))


@settings(max_examples=25, deadline=None)
@given(soft_partitions(), st.data())
def test_soft_tuples_are_those_of_all_partitions(P, data):
    """Adding membership matrices gives the tuples of all matrices compressed together."""
    assume(len(P) > 1)
    n_before = data.draw(st.integers(1, len(P) - 1))
    fitted = as_memberships(P[:n_before], allow_unlabelled_rows=True)
    weights = data.draw(st.sampled_from([None, np.arange(1.0, len(P[0]) + 1)]))
    before = compress_memberships(fitted, weights)
    tuples, names = append_partitions(before, fitted.without_rows(), P[n_before:], weights)
    whole = as_memberships(P)
    assert_same_tuples(tuples, compress_memberships(whole, weights))
    assert names.n_points == 0 and names.names == whole.names
    for field in ("columns", "widths"):
        assert (getattr(names, field) == getattr(whole, field)).all()


@pytest.mark.parametrize(
    ("fitted", "new", "words"),
    [
        ([[0], [1]], [[0], [1], [1]], r"have 3 rows \(points\), the fitted ones have 2; give"),
        ({"a": [0, 1]}, {"b": [0, 1], "a": [0, 1]}, r"'a' \(new column 1\) was fitted already"),
        ({"a": [0, 1]}, pd.DataFrame([[0, 1], [1, 1]], columns=["b", "b"]), "'b' .* given twice"),
        ([[0], [1]], [np.eye(2)], "partitions are labels, but the new ones are membership"),
        ([np.eye(2)], [[0], [1]], "are membership matrices, but the new ones are labels"),
        ([np.eye(2)], [np.eye(3)], r"have 3 rows \(points\), the fitted ones have 2; give"),
    ],
)
def test_partitions_that_do_not_fit_are_refused(fitted, new, words):
    """Other points, other kinds of partitions and partitions given twice are refused."""
    soft = isinstance(fitted[0], np.ndarray) if isinstance(fitted, list) else False
    read = as_memberships(fitted) if soft else as_label_matrix(fitted)
    before = compress_memberships(read) if soft else compress_labels(read)
    with pytest.raises(InvalidLabelsError, match=words):
        append_partitions(before, read, new)


def test_columns_without_names_continue_the_numbers():
    """New columns are numbered after the fitted ones; places of empty columns count all columns."""
    with pytest.warns(LabelWarning):
        fitted = as_label_matrix([[0, -1], [1, -1]])
        tuples, both = append_partitions(compress_labels(fitted), fitted, [[-1, 0, 0], [-1, 1, 0]])
    assert both.names == tuples.names == ("0", "1", "2")
    assert both.empty == (1, 2)
    assert append_partitions(tuples, both, {"c": [0, 1]})[1].names == ("0", "1", "2", "c")
