"""The order of tuples, clusters and partitions depends on nothing but what they are."""

import numpy as np
import pytest

from coterie.labels.tuple_order import order_colours

CODES = np.array([[0, 2], [0, 3], [1, 2], [1, 3]])
OFFSETS = np.array([0, 2, 4])
WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("memberships", [None, np.array([[0.5, 1], [1, 1], [0.25, 1], [1, 0.5]])])
def test_colours_move_with_what_they_colour(memberships):
    """Tuples and partitions in another order have the colours they had."""
    tuples, clusters, partitions = order_colours(CODES, OFFSETS, WEIGHTS, memberships)
    assert len(np.unique(tuples)) == 4 and len(np.unique(clusters)) == 4
    order = np.array([2, 0, 3, 1])
    moved = None if memberships is None else np.ascontiguousarray(memberships[order])
    again = order_colours(CODES[order], OFFSETS, WEIGHTS[order], moved)
    assert (again[0] == tuples[order]).all()
    assert (again[1] == clusters).all() and (again[2] == partitions).all()


def test_memberships_tell_tuples_apart():
    """Tuples in the same clusters to different degrees have different colours."""
    codes = np.array([[0, 1], [0, 1]])
    shares = np.array([[0.25, 0.75], [0.5, 0.5]])
    tuples, clusters, _ = order_colours(codes, np.array([0, 2]), np.ones(2), shares)
    assert tuples[0] != tuples[1] and clusters[0] != clusters[1]
