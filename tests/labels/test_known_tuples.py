"""Rows are found among the tuples of a fit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.labels.known_tuples import known_tuples
from coterie.labels.tuples import as_label_tuples


@given(st.integers(1, 30), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_every_row_finds_its_tuple(n, seed):
    """Fitted rows find their tuple, rows that were not fitted find none."""
    rng = np.random.default_rng(seed)
    tuples = as_label_tuples(rng.integers(0, 3, (n, 2)))
    rows = rng.integers(-1, tuples.n_columns, (20, 2)).astype(tuples.codes.dtype)
    every = tuples.codes.tolist()
    expected = [every.index(row) if row in every else -1 for row in rows.tolist()]
    assert known_tuples(rows, None, tuples).tolist() == expected
    assert known_tuples(tuples.codes, None, tuples).tolist() == list(range(tuples.n_tuples))


def test_the_first_of_equal_tuples_is_found():
    """Points that were set apart are found after the tuple that they were part of."""
    tuples = as_label_tuples([[0, 0], [0, 0], [1, 1]])
    apart, _ = tuples.with_points_apart(np.array([1]))
    found = known_tuples(apart.codes, None, apart)
    assert found.tolist() == [0, 1, int(apart.inverse[0])]


def test_soft_rows_are_compared_by_their_memberships():
    """Rows with the same clusters but other memberships are different."""
    tuples = as_label_tuples([np.array([[0.9, 0.1], [0.5, 0.5], [0.9, 0.1]])])
    codes, shares = tuples.slots()
    assert known_tuples(codes, shares, tuples).tolist() == [0, 1]
    assert known_tuples(codes, shares[::-1], tuples).tolist() == [1, 0]
    assert known_tuples(codes[:1], shares[:1] / 2, tuples).tolist() == [-1]
