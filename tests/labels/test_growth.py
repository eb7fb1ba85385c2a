"""Tuples after partitions are added."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import coterie as ct
from coterie.labels.growth import append_partitions
from coterie.labels.label_matrix import as_label_matrix
from coterie.labels.tuples import compress_labels
from label_matrices import assert_same_tuples, label_matrices


def grown(P, n_before, row_weights=None):
    """Compress the first partitions and add the others."""
    fitted = as_label_matrix(P[:, :n_before], allow_unlabelled_rows=True)
    before = compress_labels(fitted, row_weights)
    return append_partitions(before, fitted.without_rows(), P[:, n_before:], row_weights)


@pytest.fixture(scope="module")
def spoiled():
    """Thirty partitions of 1,800 points, of which ten follow another clustering."""
    P, y = ct.planted_partitions([900, 540, 260, 100], 30, 10, 0.2, random_state=0)
    return P[:, np.random.default_rng(0).permutation(30)], y


@settings(max_examples=25, deadline=None)
@given(label_matrices(max_points=14, max_partitions=6), st.data())
def test_tuples_are_those_of_all_partitions(P, data):
    """Adding partitions gives the tuples of all partitions compressed together."""
    P = P[:, (P >= 0).any(axis=0)]
    assume(P.shape[1] > 1)
    n_before = data.draw(st.integers(1, P.shape[1] - 1))
    assert_same_tuples(grown(P, n_before).tuples, compress_labels(as_label_matrix(P)))


def test_rows_keep_their_weights(spoiled):
    """Weighted rows give the same tuples."""
    P = spoiled[0][:200]
    weights = np.random.default_rng(0).uniform(0.5, 3, 200)
    growth = grown(P, 12, weights)
    whole = compress_labels(as_label_matrix(P), weights)
    assert_same_tuples(growth.tuples, whole)


def test_many_labels_take_wider_codes():
    """Codes get four bytes if the old or the new partitions have many clusters."""
    few, many = np.arange(40_000) % 2, np.arange(40_000)
    for P in (np.column_stack([few, many]), np.column_stack([many, few])):
        assert_same_tuples(grown(P, 1).tuples, compress_labels(as_label_matrix(P)))
