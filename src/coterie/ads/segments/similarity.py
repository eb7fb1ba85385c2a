"""Similarity: Kolmogorov–Smirnov distances between advertisers' curves, and similarity graphs.

Let F_i and F_j be c.d.f. values on one grid, estimated from m_i and m_j observations. Their
distance is D_ij = max_g |F_i(g) − F_j(g)|. They are similar at level α if the two-sample test does
not reject equality: √(m_i m_j / (m_i + m_j)) · D_ij ≤ C_α.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import kolmogi

import coterie.ads.segments.kernels as kernels
from coterie.ads.segments.similar_pairs import (
    BLOCK,
    CurveTest,
    count_leaders,
    find_all_pairs,
    find_nearest_pairs,
    graph_of,
    in_steps,
)
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import available_memory, map_in_threads, readable_bytes

__all__ = [
    "SimilarCurves",
    "compare_curves",
    "kolmogorov_critical_value",
    "ks_distances",
    "ks_graph",
]

Floats = NDArray[np.float64]

_WEIGHTS = {"binary": np.bool_, "pvalue": np.float32}
_MOST_LEVELS = 255  # a level is stored in a byte


def kolmogorov_critical_value(alpha: float) -> float:
    """Return C_α, which √(mn/(m+n))·D exceeds with probability α for equal distributions.

    Parameters
    ----------
    alpha : float
        Between 0 and 1.

    Examples
    --------
    >>> [round(kolmogorov_critical_value(alpha), 5) for alpha in (0.10, 0.05, 0.01)]
    [1.22385, 1.3581, 1.62762]
    """
    if not 0 < alpha < 1:
        raise InvalidParameterError(f"alpha={alpha}: it must be between 0 and 1, for example 0.05")
    return float(kolmogi(alpha))


def ks_distances(curves: ArrayLike) -> NDArray[np.float32]:
    """Compute all Kolmogorov–Smirnov distances D_ij = max_g |F_i(g) − F_j(g)|, to within 2⁻²⁴.

    Parameters
    ----------
    curves : (A, G) array-like
        One c.d.f. per row, on one grid: nondecreasing values from 0 to 1.

    Returns
    -------
    (A, A) float32 array
        Symmetric, 0 on the diagonal. :func:`ks_graph` does not need this array.

    Raises
    ------
    InvalidParameterError
        A curve is not a c.d.f., or the distances do not fit in memory.

    Examples
    --------
    >>> ks_distances([[0.0, 0.5, 1.0], [0.25, 0.5, 1.0]])
    array([[0.  , 0.25],
           [0.25, 0.  ]], dtype=float32)
    """
    F = _checked_curves(curves)
    A = len(F)
    needed, free = 4 * A * A + 4 * F.size, available_memory()
    if needed > free:
        raise InvalidParameterError(
            f"the distances of {A:,} curves need {readable_bytes(needed)}, but "
            f"{readable_bytes(free)} are free; ks_graph stores only similar pairs"
        )
    fine = in_steps(F, kernels.FINE, np.int32)
    distances = np.zeros((A, A), dtype=np.float32)

    def fill(start: int) -> None:
        kernels.fill_distances(fine, start, min(start + BLOCK, A), distances)

    map_in_threads(fill, range(0, A, BLOCK))
    return distances


def ks_graph(
    curves: ArrayLike,
    observations: ArrayLike,
    alpha: float = 0.05,
    *,
    max_observations: float | None = None,
    tolerance: float = 0.0,
    weights: str = "binary",
    n_neighbors: int | None = None,
) -> sp.csr_array:
    """Compute the graph of similar advertisers at one level of the Kolmogorov–Smirnov test.

    Two advertisers are joined if the distance of their curves is at most the threshold of the
    two-sample test, or at most ``tolerance``; :func:`compare_curves` has the formula.

    Parameters
    ----------
    curves : (A, G) array-like
        One c.d.f. per row, on one grid: nondecreasing values from 0 to 1.
    observations : (A,) array-like
        Number of observations of each curve, not necessarily whole. An advertiser without
        observations has no edges, and its curve is ignored.
    alpha : float
        Level between 0 and 1; a higher level gives fewer edges.
    max_observations : float, optional
        Larger numbers of observations count as this one, which limits the power of the test.
    tolerance : float
        Curves within this distance are joined even if the test rejects.
    weights : {"binary", "pvalue"}
        An edge holds True or the p-value of the test.
    n_neighbors : int, optional
        The number of nearest similar advertisers of each that may be joined; by default all.

    Returns
    -------
    (A, A) csr_array of bool or float32
        Symmetric, without loops.

    Examples
    --------
    >>> curves = [[0.1, 0.5, 1.0], [0.2, 0.5, 1.0], [0.8, 0.9, 1.0]]
    >>> ks_graph(curves, [100, 100, 100]).toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 0],
           [0, 0, 0]])
    """
    compared = compare_curves(
        curves,
        observations,
        [alpha],
        max_observations=max_observations,
        tolerance=tolerance,
        weights=weights,
        n_neighbors=n_neighbors,
    )
    return compared.graphs[0]


class SimilarCurves:
    """Which advertisers are similar at each of L levels.

    Attributes
    ----------
    graphs : list of L (A, A) csr_array
    pairs : list of L int
        Numbers of similar pairs, also of those that ``n_neighbors`` leaves out of the graphs.
    """

    def __init__(
        self,
        graphs: list[sp.csr_array],
        degrees: list[NDArray[np.int64]],
        count: Callable[[int, NDArray[np.int64]], int],
    ) -> None:
        self.graphs = graphs
        self.pairs = [int(of_level.sum()) // 2 for of_level in degrees]
        self._degrees, self._count = degrees, count

    def leaders(self) -> list[int]:
        """Return the number of clusters of the leader rule at each level, by all similar pairs.

        The advertiser with the most observations, then with the most neighbours, leads and takes
        all similar ones that are left; then the next one leads.
        """
        return [self._count(level, of_level) for level, of_level in enumerate(self._degrees)]


def compare_curves(
    curves: ArrayLike,
    observations: ArrayLike,
    alphas: Sequence[float],
    *,
    max_observations: float | None = None,
    tolerance: float = 0.0,
    weights: str = "binary",
    n_neighbors: int | None = None,
) -> SimilarCurves:
    """Compare all pairs of curves at several levels.

    i and j ≠ i are similar, and joined in the graph of a level α, if

        D_ij ≤ max(C_α · √(1/m_i + 1/m_j), tolerance),   m = min(observations, max_observations)

    With the default settings this is the two-sample test. With enough data the test separates any
    two advertisers. ``max_observations`` limits its power. Pairs within ``tolerance`` are joined
    even if the test rejects. The edges are exactly those of float64 arithmetic.

    With few observations an advertiser is similar to most others, and the number of edges grows
    with the square of A. ``n_neighbors`` limits it: i and j are joined only if one of them is
    among the nearest of the other, by D and then by the number of observations.

    Parameters
    ----------
    curves : (A, G) array-like
        One c.d.f. per row, on one grid: nondecreasing values from 0 to 1.
    observations : (A,) array-like
        Number of observations of each curve, not necessarily whole. An advertiser without
        observations has no edges, and its curve is ignored.
    alphas : sequence of float
        Levels, each between 0 and 1; a higher level gives fewer edges.
    max_observations : float, optional
        Larger numbers of observations count as this one.
    tolerance : float, default=0
        Curves within this distance are joined at every level.
    weights : {"binary", "pvalue"}, default="binary"
        An edge holds True or the p-value of the test: 1 for equal curves, α at the threshold and
        for edges due to the tolerance. With few observations, clusters are better with p-values.
    n_neighbors : int, optional
        The number of nearest similar advertisers of each, at the lowest level, that may be
        joined; by default all, as in the paper.

    Returns
    -------
    SimilarCurves
        Its graphs, of bool or float32, are symmetric, without loops, columns sorted.

    Raises
    ------
    InvalidParameterError
        A curve is not a c.d.f., a setting is invalid, or the graphs do not fit in memory.

    Examples
    --------
    Each of four curves is similar to all others; only the two nearest pairs are joined.

    >>> curves = [[0.1, 1.0], [0.11, 1.0], [0.2, 1.0], [0.21, 1.0]]
    >>> found = compare_curves(curves, [20] * 4, [0.05], n_neighbors=1)
    >>> found.pairs, found.graphs[0].nnz // 2, found.leaders()
    ([6], 2, [1])
    """
    m = _checked_observations(observations, max_observations)
    _check_settings(weights, tolerance, n_neighbors)
    criticals = np.array([kolmogorov_critical_value(alpha) for alpha in alphas], dtype=np.float64)
    known = np.flatnonzero(m > 0)
    F = _known_curves(curves, known, len(m))
    if not len(criticals):
        return SimilarCurves([], [], lambda *_: 0)
    descending, rank = np.unique(-criticals, return_inverse=True)
    if len(descending) > _MOST_LEVELS:
        raise InvalidParameterError(
            f"alphas has {len(descending)} distinct levels; the limit is {_MOST_LEVELS}"
        )
    test = CurveTest(F, 1.0 / m[known], -descending, tolerance, weights)
    if n_neighbors is None:
        # a pair has two entries, each with a column and a weight
        bytes_per_pair = 2 * (4 + np.dtype(_WEIGHTS[weights]).itemsize)
        most = available_memory() // (bytes_per_pair * (1 + len(criticals)))
        pairs, similar = find_all_pairs(test, most), None
    else:
        pairs, similar = find_nearest_pairs(test, n_neighbors)
    graphs = [
        graph_of(pairs, int(level) + 1, alpha, known, len(m))
        for level, alpha in zip(rank, alphas, strict=True)
    ]
    degrees = (
        [np.diff(graph.indptr)[known] for graph in graphs]
        if similar is None
        else [similar[:, level] for level in rank]
    )
    weight = np.asarray(observations, dtype=np.float64)[known]
    return SimilarCurves(graphs, degrees, partial(count_leaders, test, rank, weight))


def _known_curves(curves: ArrayLike, known: NDArray[np.intp], A: int) -> Floats:
    """Check and return the curves of the known advertisers."""
    table = np.asarray(curves)
    if table.ndim != 2 or len(table) != A:
        raise InvalidParameterError(
            f"curves has shape {table.shape} and observations {(A,)}: "
            "both need one row per advertiser"
        )
    return _checked_curves(table if len(known) == A else table[known], known)


def _checked_curves(curves: ArrayLike, rows: NDArray[np.intp] | None = None) -> Floats:
    """Return the curves as a contiguous array; ``rows`` are their numbers, for messages."""
    try:
        F = np.ascontiguousarray(curves, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"curves are not a table of numbers: {error}") from error
    if F.ndim != 2 or F.shape[1] == 0:
        raise InvalidParameterError(f"curves has shape {F.shape}; it needs one curve per row")
    i, g = kernels.first_fault(F)
    if i >= 0:
        row = i if rows is None else int(rows[i])
        before = f" after {F[i, g - 1]:.6g}" if g else ""
        raise InvalidParameterError(
            f"curves, row {row}, column {g}: {F[i, g]:.6g}{before}; "
            "a c.d.f. has nondecreasing values from 0 to 1"
        )
    return F


def _checked_observations(observations: ArrayLike, max_observations: float | None) -> Floats:
    try:
        m = np.asarray(observations, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"observations are not numbers: {error}") from error
    if m.ndim != 1:
        raise InvalidParameterError(
            f"observations has shape {m.shape}; it needs one number per curve"
        )
    wrong = np.flatnonzero(~(np.isfinite(m) & (m >= 0)))
    if len(wrong):
        raise InvalidParameterError(
            f"observations, row {wrong[0]}: {m[wrong[0]]}; it must be a number from 0 up"
        )
    if max_observations is None:
        return m
    if not max_observations > 0:
        raise InvalidParameterError(f"max_observations={max_observations}: it must be above 0")
    return np.minimum(m, max_observations)


def _check_settings(weights: str, tolerance: float, n_neighbors: int | None) -> None:
    if weights not in _WEIGHTS:
        raise InvalidParameterError(f"weights={weights!r}: it must be {' or '.join(_WEIGHTS)}")
    if not 0 <= tolerance <= 1:
        raise InvalidParameterError(f"tolerance={tolerance}: it must be a distance from 0 to 1")
    if n_neighbors is not None and not (
        isinstance(n_neighbors, int | np.integer) and n_neighbors >= 1
    ):
        raise InvalidParameterError(
            f"n_neighbors={n_neighbors!r}: it must be a whole number from 1 up, or None for all"
        )
