"""Similarity: Kolmogorov–Smirnov distances between advertisers' curves, and similarity graphs.

Let F_i and F_j be c.d.f. values on one grid, estimated from m_i and m_j observations. Their
distance is D_ij = max_g |F_i(g) − F_j(g)|. They are similar at level α if the two-sample test does
not reject equality: √(m_i m_j / (m_i + m_j)) · D_ij ≤ C_α.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import kolmogi, kolmogorov

from coterie.ads.segments import similarity_kernels as kernels
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import available_memory, map_in_threads, readable_bytes

__all__ = ["kolmogorov_critical_value", "ks_distances", "ks_graph", "ks_graphs"]

Floats = NDArray[np.float64]
_Weigh = Callable[[int, NDArray[np.int64], NDArray[np.int32]], NDArray[Any]]

_WEIGHTS = {"binary": np.bool_, "pvalue": np.float32}
_BLOCK = 64  # rows of pairs per task
_SIEVE = 32  # columns of the sieve
_PANEL = 2048  # rows of a graph per task
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
    fine = _in_steps(F, kernels.FINE, np.int32)
    distances = np.zeros((A, A), dtype=np.float32)

    def fill(start: int) -> None:
        kernels.fill_distances(fine, start, min(start + _BLOCK, A), distances)

    map_in_threads(fill, range(0, A, _BLOCK))
    return distances


def ks_graph(
    curves: ArrayLike,
    observations: ArrayLike,
    alpha: float = 0.05,
    *,
    max_observations: float | None = None,
    tolerance: float = 0.0,
    weights: str = "binary",
) -> sp.csr_array:
    """Compute the graph of similar advertisers at one level; see :func:`ks_graphs`.

    Examples
    --------
    >>> curves = [[0.1, 0.5, 1.0], [0.2, 0.5, 1.0], [0.8, 0.9, 1.0]]
    >>> ks_graph(curves, [100, 100, 100]).toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 0],
           [0, 0, 0]])
    """
    limits: dict[str, Any] = {"max_observations": max_observations, "tolerance": tolerance}
    return ks_graphs(curves, observations, [alpha], weights=weights, **limits)[0]


def ks_graphs(
    curves: ArrayLike,
    observations: ArrayLike,
    alphas: Sequence[float],
    *,
    max_observations: float | None = None,
    tolerance: float = 0.0,
    weights: str = "binary",
) -> list[sp.csr_array]:
    """Compute the graphs of similar advertisers at several levels, in one pass over the pairs.

    i and j ≠ i are joined if

        D_ij ≤ max(C_α · √(1/m_i + 1/m_j), tolerance),   m = min(observations, max_observations)

    With the default settings this is the two-sample test. With enough data the test separates any
    two advertisers. ``max_observations`` limits its power. Pairs within ``tolerance`` are joined
    even if the test rejects. The edges are exactly those of float64 arithmetic.

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
    tolerance : float, default=0
    weights : {"binary", "pvalue"}, default="binary"
        An edge holds True or the p-value of the test: 1 for equal curves, α at the threshold and
        for edges due to the tolerance. With few observations, clusters are better with p-values.

    Returns
    -------
    list of (A, A) csr_array of bool or float32
        One graph per level: symmetric, without loops, columns sorted.

    Raises
    ------
    InvalidParameterError
        A curve is not a c.d.f., a setting is invalid, or the graphs do not fit in memory.

    Examples
    --------
    >>> curves = [[0.1, 0.5, 1.0], [0.2, 0.6, 1.0], [0.35, 0.6, 1.0]]
    >>> [graph.nnz for graph in ks_graphs(curves, [100, 100, 100], [0.01, 0.05, 0.5])]
    [4, 4, 2]
    """
    m = _checked_observations(observations, max_observations)
    if weights not in _WEIGHTS:
        raise InvalidParameterError(f"weights={weights!r}: it must be {' or '.join(_WEIGHTS)}")
    if not 0 <= tolerance <= 1:
        raise InvalidParameterError(f"tolerance={tolerance}: it must be a distance from 0 to 1")
    criticals = np.array([kolmogorov_critical_value(alpha) for alpha in alphas], dtype=np.float64)
    known = np.flatnonzero(m > 0)
    F = _known_curves(curves, known, len(m))
    if not len(criticals):
        return []
    descending, rank = np.unique(-criticals, return_inverse=True)
    if len(descending) > _MOST_LEVELS:
        raise InvalidParameterError(
            f"alphas has {len(descending)} distinct levels; the limit is {_MOST_LEVELS}"
        )
    # a pair has two entries, each with a column and a weight
    bytes_per_pair = 2 * (4 + np.dtype(_WEIGHTS[weights]).itemsize)
    most = available_memory() // (bytes_per_pair * (1 + len(criticals)))
    pairs = _similar_pairs(F, 1.0 / m[known], -descending, tolerance, weights, most)
    return [
        _graph(pairs, int(level) + 1, alpha, known, len(m))
        for level, alpha in zip(rank, alphas, strict=True)
    ]


@dataclass(frozen=True)
class _Pairs:
    """Similar pairs i < j, row by row."""

    counts: NDArray[np.int64]  # (A,), number of pairs of each i
    columns: NDArray[np.int32]  # (E,), j
    levels: NDArray[np.uint8]  # (E,), number of critical values that are not exceeded
    weights: NDArray[Any]  # (E,)


def _similar_pairs(
    F: Floats, inverse: Floats, criticals: Floats, tolerance: float, weights: str, most: int
) -> _Pairs:
    """Find all similar pairs, in blocks of rows; raise if there are more than ``most``."""
    A, G = F.shape
    coarse = _in_steps(F, kernels.STEPS, np.int16)
    spaced = np.linspace(0, G - 1, _SIEVE).round().astype(np.intp)
    sieve = np.ascontiguousarray(coarse[:, spaced].T)
    weigh = _p_values_of(F, inverse) if weights == "pvalue" else _all_true
    found: list[int] = []

    def of_block(start: int) -> tuple[NDArray[Any], ...]:
        if sum(found) > most:
            raise InvalidParameterError(
                f"more than {most:,} pairs of {A:,} advertisers are similar and do not fit "
                "in memory: raise alpha or max_observations, or lower tolerance"
            )
        stop = min(start + _BLOCK, A)
        counts, columns, levels = kernels.similar_pairs(
            F, coarse, sieve, inverse, criticals, tolerance, start, stop
        )
        found.append(len(columns))
        return counts, columns, levels, weigh(start, counts, columns)

    blocks = map_in_threads(of_block, range(0, max(A, 1), _BLOCK))
    return _Pairs(*(np.concatenate(part) for part in zip(*blocks, strict=True)))


def _all_true(
    _start: int, _counts: NDArray[np.int64], columns: NDArray[np.int32]
) -> NDArray[np.bool_]:
    return np.ones(len(columns), dtype=bool)


def _p_values_of(F: Floats, inverse: Floats) -> _Weigh:
    """Return a function that computes the p-values of the pairs of a block of rows."""
    fine = _in_steps(F, kernels.FINE, np.int32)

    def weigh(
        start: int, counts: NDArray[np.int64], columns: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        distances = kernels.pair_distances(fine, start, counts, columns)
        rows = np.repeat(np.arange(start, start + len(counts)), counts)
        p = kolmogorov(distances / np.sqrt(inverse[rows] + inverse[columns]))
        return np.asarray(p, dtype=np.float32)

    return weigh


def _graph(
    pairs: _Pairs, level: int, alpha: float, known: NDArray[np.intp], A: int
) -> sp.csr_array:
    """Build the graph of A advertisers from the pairs of known ones that pass ``level``."""
    parts = pairs.columns, pairs.levels
    pointers = kernels.count_both(pairs.counts, *parts, level)
    neighbours = np.empty(pointers[-1], dtype=np.int32)
    weights = np.empty(pointers[-1], dtype=pairs.weights.dtype)
    starts = np.concatenate([[0], np.cumsum(pairs.counts)])

    def fill(first: int) -> None:
        last = min(first + _PANEL, len(known))
        kernels.fill_both(
            starts, *parts, pairs.weights, level, pointers, first, last, neighbours, weights
        )

    map_in_threads(fill, range(0, len(known), _PANEL))
    if weights.dtype != bool:
        np.maximum(weights, np.float32(alpha), out=weights)
    if len(known) < A:
        neighbours = known[neighbours].astype(np.int32)
        degrees = np.zeros(A, dtype=np.int64)
        degrees[known] = np.diff(pointers)
        pointers = np.concatenate([[0], np.cumsum(degrees)])
    if pointers[-1] <= np.iinfo(np.int32).max:
        pointers = pointers.astype(np.int32)
    graph = sp.csr_array((weights, neighbours, pointers), shape=(A, A))
    graph.has_canonical_format = True
    return graph


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


def _in_steps(F: Floats, steps: int, dtype: Any) -> NDArray[Any]:
    return np.rint(np.clip(F, 0.0, 1.0) * steps).astype(dtype)
