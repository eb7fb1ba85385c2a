"""The compiled loops over pairs of curves equal numpy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from coterie.ads.segments import kernels
from leader_rule import leader_clusters

A, G = 90, 11
CRITICALS = np.array([1.6, 1.2, 0.5])


@pytest.fixture
def curves():
    """Random c.d.f.s."""
    return np.sort(np.random.default_rng(0).random((A, G)), axis=1)


@pytest.fixture
def inverse():
    """Reciprocals of numbers of observations."""
    return 1.0 / np.random.default_rng(1).integers(1, 60, A)


def levels_of(curves, inverse, tolerance):
    """The number of thresholds that each pair above the diagonal does not exceed, (A, A)."""
    gaps = np.abs(curves[:, None] - curves).max(axis=2)
    spread = np.sqrt(inverse[:, None] + inverse)
    thresholds = np.maximum(CRITICALS[:, None, None] * spread, tolerance)
    return np.triu((gaps <= thresholds).sum(axis=0), k=1)


def found_in(curves, inverse, tolerance, start, stop):
    """The pairs in rows start … stop − 1, with a sieve of three columns."""
    coarse = np.rint(curves * kernels.STEPS).astype(np.int16)
    sieve = np.ascontiguousarray(coarse[:, [0, 5, 10]].T)
    return kernels.similar_pairs(curves, coarse, sieve, inverse, CRITICALS, tolerance, start, stop)


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
@pytest.mark.parametrize(("start", "stop"), [(0, A), (0, 0), (17, 40), (A - 1, A)])
def test_similar_pairs(curves, inverse, tolerance, start, stop):
    """A block of rows gives the columns right of the diagonal and their levels."""
    counts, columns, levels = found_in(curves, inverse, tolerance, start, stop)
    expected = levels_of(curves, inverse, tolerance)[start:stop]
    assert_array_equal(counts, (expected > 0).sum(axis=1))
    rows, right = np.nonzero(expected)
    assert_array_equal(columns, right)
    assert_array_equal(levels, expected[rows, right])


@pytest.mark.parametrize("n", [512, 513, 1100])
def test_similar_pairs_over_several_tiles(n):
    """No pair is lost or repeated where tiles of columns meet."""
    same = np.tile(np.linspace(0, 1, 3), (n, 1))
    coarse = np.rint(same * kernels.STEPS).astype(np.int16)
    sieve = np.ascontiguousarray(coarse.T)
    counts, columns, _ = kernels.similar_pairs(
        same, coarse, sieve, np.ones(n), CRITICALS, 0.0, 2, 5
    )
    assert_array_equal(counts, [n - 3, n - 4, n - 5])
    assert_array_equal(columns, np.concatenate([np.arange(i, n) for i in (3, 4, 5)]))


def test_pair_distances(curves, inverse):
    """They are the distances of the fine integer curves."""
    fine = np.rint(curves * kernels.FINE).astype(np.int32)
    counts, columns, _ = found_in(curves, inverse, 0.0, 20, 60)
    rows = np.repeat(np.arange(20, 60), counts)
    expected = np.abs(fine[rows] - fine[columns]).max(axis=1) / kernels.FINE
    assert_array_equal(kernels.pair_distances(fine, 20, counts, columns), expected)


@pytest.mark.parametrize(("start", "stop"), [(0, A), (30, 31), (64, A)])
def test_fill_distances(curves, start, stop):
    """Rows of a block are filled right of the diagonal, with their mirror images only."""
    fine = np.rint(curves * kernels.FINE).astype(np.int32)
    out = np.full((A, A), -1.0, np.float32)
    kernels.fill_distances(fine, start, stop, out)
    gaps = (np.abs(fine[:, None] - fine).max(axis=2) / kernels.FINE).astype(np.float32)
    rows, columns = np.indices((A, A))
    first = np.minimum(rows, columns)
    filled = (rows != columns) & (first >= start) & (first < stop)
    assert_array_equal(out, np.where(filled, gaps, -1.0))


@pytest.mark.parametrize("value", [np.nan, -0.1, 1.1])
def test_first_fault(curves, value):
    """The first invalid value is found by row and column."""
    assert kernels.first_fault(curves) == (-1, -1)
    curves[5, 3] = curves[7, 0] = value
    assert kernels.first_fault(curves) == (5, 3)


def test_a_slow_fall_is_a_fault():
    """Many small decreases are compared with the largest value before."""
    row = 0.5 - 0.9e-9 * np.arange(5)
    assert kernels.first_fault(row[None]) == (0, 2)


def some_curves(A, G=9):
    """Random c.d.f.s, in floats, coarse and fine steps and as a sieve; and their 1/m."""
    rng = np.random.default_rng(A)
    curves = np.sort(rng.random((A, G)), axis=1)
    coarse = np.rint(curves * kernels.STEPS).astype(np.int16)
    fine = np.rint(curves * kernels.FINE).astype(np.int32)
    sieve = np.ascontiguousarray(coarse[:, [0, G // 2]].T)
    return (curves, coarse, fine, sieve), 1.0 / rng.integers(1, 60, A)


def symmetric_levels(curves, inverse):
    """The number of thresholds that each pair does not exceed, (A, A), 0 on the diagonal."""
    upper = levels_of(curves, inverse, 0.0)
    return upper + upper.T


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (500, 530), (589, 590)])
def test_nearest_similar(start, stop):
    """Of each row the nearest come first, across tiles; all similar curves are counted."""
    A, most = 590, 6
    parts, inverse = some_curves(A)
    seniority = np.unique(inverse, return_inverse=True)[1]
    counts, columns, levels, similar = kernels.nearest_similar(
        *parts, inverse, seniority, CRITICALS, 0.0, start, stop, most
    )
    expected = symmetric_levels(parts[0], inverse)
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
        graph = symmetric_levels(curves, inverse) >= level
        order = np.lexsort((-graph.sum(axis=1), inverse))
        found = kernels.count_leaders(
            curves, coarse, inverse, CRITICALS[level - 1 : level], 0.0, order[graph[order].any(1)]
        )
        assert found == leader_clusters(graph, 1 / inverse).max() + 1
