"""The loops that keep the nearest curves equal numpy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from coterie.ads.segments import nearest_kernels, similarity_kernels
from leader_rule import leader_clusters

CRITICALS = np.array([1.6, 1.2, 0.5])


def some_curves(A, G=9):
    """Random c.d.f.s, in floats, coarse and fine steps and as a sieve; and their 1/m."""
    rng = np.random.default_rng(A)
    curves = np.sort(rng.random((A, G)), axis=1)
    coarse = np.rint(curves * similarity_kernels.STEPS).astype(np.int16)
    fine = np.rint(curves * similarity_kernels.FINE).astype(np.int32)
    sieve = np.ascontiguousarray(coarse[:, [0, G // 2]].T)
    return (curves, coarse, fine, sieve), 1.0 / rng.integers(1, 60, A)


def levels_of(curves, inverse):
    """The number of thresholds that each pair does not exceed, (A, A), 0 on the diagonal."""
    gaps = np.abs(curves[:, None] - curves).max(axis=2)
    spread = np.sqrt(inverse[:, None] + inverse)
    levels = (gaps <= CRITICALS[:, None, None] * spread).sum(axis=0)
    np.fill_diagonal(levels, 0)
    return levels


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (500, 530), (589, 590)])
def test_nearest_similar(start, stop):
    """Of each row the nearest come first, across tiles; all similar curves are counted."""
    A, most = 590, 6
    parts, inverse = some_curves(A)
    seniority = np.unique(inverse, return_inverse=True)[1]
    counts, columns, levels, similar = nearest_kernels.nearest_similar(
        *parts, inverse, seniority, CRITICALS, 0.0, start, stop, most
    )
    expected = levels_of(parts[0], inverse)
    for row, i in enumerate(range(start, stop)):
        gaps = np.abs(parts[2][i] - parts[2]).max(axis=1)
        order = np.argsort(gaps, kind="stable")
        nearest = order[expected[i][order] > 0][:most]
        assert counts[row] == len(nearest)
        assert_array_equal(columns[row, : counts[row]], nearest)
        assert_array_equal(levels[row, : counts[row]], expected[i][nearest])
        assert_array_equal(similar[row], [(expected[i] >= level).sum() for level in (1, 2, 3)])


def test_count_leaders():
    """It is the number of clusters of the leader rule on the graph."""
    (curves, coarse, _, _), inverse = some_curves(120)
    for level in (1, 2, 3):
        graph = levels_of(curves, inverse) >= level
        order = np.lexsort((-graph.sum(axis=1), inverse))
        found = nearest_kernels.count_leaders(
            curves, coarse, inverse, CRITICALS[level - 1 : level], 0.0, order[graph[order].any(1)]
        )
        assert found == leader_clusters(graph, 1 / inverse).max() + 1
