"""Compiled loops on rows of labels, compared with NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_array_equal

from coterie.labels.tuples import group_rows, recoded_rows

properties = settings(deadline=None, max_examples=25)


def assert_groups(codes):
    """Check that groups are the unique rows of numpy, numbered in order of appearance."""
    first, inverse, counts = group_rows(codes)
    _, np_first, np_inverse, np_counts = np.unique(
        codes, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(np_first)
    assert_array_equal(first, np_first[order])
    assert_array_equal(counts, np_counts[order])
    assert_array_equal(inverse, np.argsort(order)[np_inverse.ravel()])


@properties
@given(
    st.sampled_from([np.int8, np.int16, np.int32, np.int64]).flatmap(
        lambda dtype: arrays(
            dtype,
            array_shapes(min_dims=2, max_dims=2, max_side=30),
            elements=st.integers(-1, 2),
        )
    )
)
def test_groups_are_the_unique_rows(codes):
    """Only equal rows share a group, and groups are numbered in order of appearance."""
    assert_groups(codes)


@pytest.mark.parametrize("n_distinct", [50, 4000])
def test_groups_of_many_rows(n_distinct):
    """Thousands of groups whose hashes collide are separated."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-1, 30_000, (n_distinct, 6), dtype=np.int16)
    codes = rows[rng.integers(0, n_distinct, 5000)]
    assert_groups(codes)
    assert_groups(codes[::2, ::-2])  # strided in memory


@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_recoded_rows(dtype, monkeypatch):
    """Rows and columns are selected and codes looked up, on any number of threads."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 4, (500, 6)).astype(dtype)
    rows, columns = rng.permutation(500)[:300], rng.permutation(6)[:4]
    starts, lookup = np.arange(4) * 4, rng.permutation(16).astype(np.int32)
    taken = codes[rows[:, None], columns]
    expected = np.where(taken < 0, -1, lookup[taken + starts])
    monkeypatch.setattr("coterie.labels.tuples._MIN_THREAD_ROWS", 10)
    for threads in ("1", "4"):
        monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
        found = recoded_rows(codes, rows, columns, starts, lookup)
        assert found.dtype == lookup.dtype
        assert_array_equal(found, expected)
