"""Colours of tuples, clusters and partitions do not depend on any order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from coterie.labels.colours import order_colours, refine_colours
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices

properties = settings(deadline=None, max_examples=25)


def colours_of(codes, offsets, weights):
    """Return the colours of tuples, clusters and partitions."""
    codes = np.ascontiguousarray(codes, dtype=np.int16)
    return refine_colours(codes, offsets, weights.astype(np.uint64), 30)


@properties
@given(P=label_matrices(max_points=20), seed=st.integers(0, 2**32 - 1))
def test_colours_follow_a_reordering(P, seed):
    """Tuples, partitions and clusters keep their colours in any order."""
    rng = np.random.default_rng(seed)
    tuples = as_label_tuples(P)
    rows, columns = rng.permutation(tuples.n_tuples), rng.permutation(tuples.n_partitions)
    offsets = np.concatenate([[0], np.cumsum(tuples.n_labels[columns])])
    # cluster c of the old columns becomes cluster moved[c] of the new ones
    moved = np.empty(tuples.n_columns + 1, dtype=np.int64)
    moved[-1] = -1
    for place, v in enumerate(columns):
        own = np.arange(tuples.offsets[v], tuples.offsets[v + 1])
        moved[own] = offsets[place] + rng.permutation(len(own))
    before = colours_of(tuples.codes, tuples.offsets, tuples.weights)
    after = colours_of(moved[tuples.codes[np.ix_(rows, columns)]], offsets, tuples.weights[rows])
    assert_array_equal(after[0], before[0][rows])
    assert_array_equal(after[1][moved[:-1]], before[1])
    assert_array_equal(after[2], before[2][columns])


@properties
@given(P=label_matrices(max_points=20))
def test_clusters_differ_where_tuples_do(P):
    """If all tuples have different colours, so have the clusters of each partition."""
    tuples = as_label_tuples(P)
    colours, clusters, _ = colours_of(tuples.codes, tuples.offsets, tuples.weights)
    if len(np.unique(colours)) == tuples.n_tuples:
        for start, stop in zip(tuples.offsets[:-1], tuples.offsets[1:], strict=True):
            assert len(np.unique(clusters[start:stop])) == stop - start


def path(n):
    """Tuples of which neighbours share a cluster in one of two partitions."""
    return np.column_stack([np.arange(n) // 2, (np.arange(n) + 1) // 2])


@pytest.mark.parametrize("n", [21, 40])
def test_colours_are_refined_to_the_end(n):
    """On a path of tuples only mirror images share a colour."""
    tuples = as_label_tuples(path(n))
    colours, _, _ = colours_of(tuples.codes, tuples.offsets, tuples.weights)
    at_point = tuples.expand(colours)
    # for odd n the mirror image swaps the two partitions
    assert_array_equal(at_point, at_point[::-1])
    assert len(np.unique(at_point)) == (n + 1) // 2


def test_missing_labels_colour():
    """A missing label differs from every cluster."""
    codes = np.array([[0, 2], [1, -1]])
    colours, clusters, _ = colours_of(codes, np.array([0, 2, 3]), np.array([1, 1]))
    assert colours[0] != colours[1]
    assert clusters[0] != clusters[1]


@pytest.mark.parametrize("memberships", [None, np.array([[0.5, 1], [1, 1], [0.25, 1], [1, 0.5]])])
def test_ordering_colours_are_kept_in_any_order(memberships):
    """Tuples in another order keep their colours, also of soft partitions."""
    codes = np.array([[0, 2], [0, 3], [1, 2], [1, 3]], dtype=np.int16)
    offsets = np.array([0, 2, 4])
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    tuples, clusters, partitions = order_colours(codes, offsets, weights, memberships)
    assert len(np.unique(tuples)) == 4 and len(np.unique(clusters)) == 4
    order = np.array([2, 0, 3, 1])
    moved = None if memberships is None else np.ascontiguousarray(memberships[order])
    again = order_colours(codes[order], offsets, weights[order], moved)
    assert (again[0] == tuples[order]).all()
    assert (again[1] == clusters).all() and (again[2] == partitions).all()


def test_memberships_colour():
    """Tuples of the same clusters with different memberships have different colours."""
    codes = np.array([[0, 1], [0, 1]], dtype=np.int16)
    shares = np.array([[0.25, 0.75], [0.5, 0.5]])
    tuples, clusters, _ = order_colours(codes, np.array([0, 2]), np.ones(2), shares)
    assert tuples[0] != tuples[1] and clusters[0] != clusters[1]
