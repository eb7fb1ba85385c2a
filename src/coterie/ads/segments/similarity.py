"""Similarity: Kolmogorov–Smirnov distances between advertisers' curves, and similarity graphs.

Let F_i and F_j be c.d.f. values on one grid, estimated from m_i and m_j observations. Their
distance is D_ij = max_g |F_i(g) − F_j(g)|. They are similar at level α, and joined in its graph, if
the two-sample test does not reject equality:

    D_ij ≤ max(C_α · √(1/m_i + 1/m_j), tolerance),   m = min(observations, max_observations)

With enough data the test separates any two advertisers; ``max_observations`` limits its power, and
pairs within ``tolerance`` are joined even if it rejects. With few observations an advertiser is
similar to most others, and the number of edges grows with the square of A; ``n_neighbors`` limits
it: i and j are joined only if one of them is among the nearest of the other, by D and then by the
number of observations. The edges are exactly those of float64 arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import kolmogi, kolmogorov

import coterie.ads.segments.kernels as kernels
from coterie.arrays import AnyArray, Floats, Ints
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import available_memory, map_in_threads, readable_bytes

_WEIGHTS = {"binary": np.bool_, "pvalue": np.float32}
_MOST_LEVELS = 255  # a level is stored in a byte
_BLOCK = 64  # rows of pairs per task
_SIEVE = 32  # columns of the sieve


def kolmogorov_critical_value(alpha: float) -> float:
    """Return C_α, which √(mn/(m+n))·D exceeds with probability α for equal distributions.

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
    n_neighbors: int | None = None,
) -> sp.csr_array:
    """Compute the graph of similar advertisers at one level of the Kolmogorov–Smirnov test.

    i and j ≠ i are joined if D_ij ≤ max(C_α · √(1/m_i + 1/m_j), tolerance), with m the number of
    observations. With the default settings this is the two-sample test.

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
        An edge holds True or the p-value of the test: 1 for equal curves, α at the threshold and
        for edges due to the tolerance. With few observations, clusters are better with p-values.
    n_neighbors : int, optional
        The number of nearest similar advertisers of each that may be joined; by default all.

    Returns
    -------
    (A, A) csr_array of bool or float32
        Symmetric, without loops.

    Raises
    ------
    InvalidParameterError
        A curve is not a c.d.f., a setting is invalid, or the graph does not fit in memory.

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


@dataclass(frozen=True)
class SimilarCurves:
    """Which advertisers are similar at each of L levels."""

    graphs: list[sp.csr_array]
    # of the curves with observations: the number of similar ones, also of those that n_neighbors
    # leaves out of the graphs, at each level
    degrees: list[Ints]
    observations: Floats
    criticals: list[float]
    test: _Test

    @property
    def pairs(self) -> list[int]:
        """Number of similar pairs at each level."""
        return [int(of_level.sum()) // 2 for of_level in self.degrees]

    def leaders(self) -> list[int]:
        """Return the number of clusters of the leader rule at each level, by all similar pairs.

        The advertiser with the most observations, then with the most neighbours, leads and takes
        all similar ones that are left; then the next one leads.
        """
        test, found = self.test, []
        for critical, degrees in zip(self.criticals, self.degrees, strict=True):
            order = np.lexsort((-degrees, -self.observations))
            order = order[degrees[order] > 0]
            parts = test.F, test.coarse, test.inverse, np.array([critical]), test.tolerance
            found.append(int(kernels.count_leaders(*parts, order)))
        return found


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
    """Compare all pairs of curves at several levels; the parameters are those of :func:`ks_graph`.

    With ``n_neighbors`` the nearest are those at the lowest level.

    Each of four curves is similar to all others; only the two nearest pairs are joined.

    >>> curves = [[0.1, 1.0], [0.11, 1.0], [0.2, 1.0], [0.21, 1.0]]
    >>> found = compare_curves(curves, [20] * 4, [0.05], n_neighbors=1)
    >>> found.pairs, found.graphs[0].nnz // 2, found.leaders()
    ([6], 2, [1])
    """
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
    m = _checked_observations(observations)
    if max_observations is not None and not max_observations > 0:
        raise InvalidParameterError(f"max_observations={max_observations}: it must be above 0")
    counted = m if max_observations is None else np.minimum(m, max_observations)
    criticals = [kolmogorov_critical_value(alpha) for alpha in alphas]
    known, A = np.flatnonzero(m > 0), len(m)
    table = np.asarray(curves)
    if table.ndim != 2 or len(table) != A:
        raise InvalidParameterError(
            f"curves has shape {table.shape} and observations {(A,)}: "
            "both need one row per advertiser"
        )
    F = _checked_curves(table if len(known) == A else table[known], known)
    descending, rank = np.unique(-np.array(criticals), return_inverse=True)
    if len(descending) > _MOST_LEVELS:
        raise InvalidParameterError(
            f"alphas has {len(descending)} distinct levels; the limit is {_MOST_LEVELS}"
        )
    test = _Test(F, 1.0 / counted[known], -descending, tolerance, weights)
    if not criticals:
        return SimilarCurves([], [], m[known], [], test)
    if n_neighbors is None:
        # a pair has two entries, each with a column and a weight
        bytes_per_pair = 2 * (4 + np.dtype(_WEIGHTS[weights]).itemsize)
        most = available_memory() // (bytes_per_pair * (1 + len(criticals)))
        pairs = _all_pairs(test, most)
    else:
        pairs, similar = _nearest_pairs(test, n_neighbors)
    counts, columns = np.zeros(A, dtype=np.int64), known.astype(np.int32)[pairs.columns]
    counts[known] = pairs.counts
    # the kernel knows no booleans
    weight = pairs.weights.view(np.uint8) if weights == "binary" else pairs.weights
    graphs = []
    for level, alpha in zip(rank.tolist(), alphas, strict=True):
        pointers, neighbours, stored = kernels.symmetric_graph(
            counts, columns, pairs.levels, weight, level + 1
        )
        if weights == "pvalue":
            np.maximum(stored, np.float32(alpha), out=stored)
        if pointers[-1] <= np.iinfo(np.int32).max:
            pointers = pointers.astype(np.int32)
        parts = stored.view(_WEIGHTS[weights]), neighbours, pointers
        graph = sp.csr_array(parts, shape=(A, A))
        graph.has_canonical_format = True
        graphs.append(graph)
    if n_neighbors is None:
        degrees = [np.diff(graph.indptr)[known] for graph in graphs]
    else:
        degrees = [similar[:, level] for level in rank]
    return SimilarCurves(graphs, degrees, m[known], criticals, test)


@dataclass(frozen=True)
class _Test:
    """Curves that all have observations, and the settings of their comparison."""

    F: Floats  # (A, G)
    inverse: Floats  # (A,), 1/m
    criticals: Floats  # (L,), descending
    tolerance: float
    weights: str  # of edges: "binary" or "pvalue"

    @cached_property
    def coarse(self) -> NDArray[np.int16]:
        """The curves in coarse steps, (A, G), which decide most pairs."""
        return _in_steps(self.F, kernels.STEPS, np.int16)

    @cached_property
    def fine(self) -> NDArray[np.int32]:
        """The curves in fine steps, (A, G), which give distances."""
        return _in_steps(self.F, kernels.FINE, np.int32)

    @cached_property
    def sieve(self) -> NDArray[np.int16]:
        """Some columns of the coarse curves, transposed, which rule most pairs out."""
        spaced = np.linspace(0, self.F.shape[1] - 1, _SIEVE).round().astype(np.intp)
        return np.ascontiguousarray(self.coarse[:, spaced].T)

    def weigh(self, start: int, counts: Ints, columns: NDArray[np.int32]) -> AnyArray:
        """Return the weights of pairs (E,) in the rows from ``start`` on, ``counts`` in each."""
        if self.weights == "binary":
            return np.ones(len(columns), dtype=bool)
        distances = kernels.pair_distances(self.fine, start, counts, columns)
        rows = np.repeat(np.arange(start, start + len(counts)), counts)
        p = kolmogorov(distances / np.sqrt(self.inverse[rows] + self.inverse[columns]))
        return np.asarray(p, dtype=np.float32)


class _Pairs(NamedTuple):
    """Similar pairs i < j, row by row."""

    counts: Ints  # (A,), number of pairs of each i
    columns: NDArray[np.int32]  # (E,), j, ascending in each row
    levels: NDArray[np.uint8]  # (E,), number of critical values that are not exceeded
    weights: AnyArray  # (E,)


def _all_pairs(test: _Test, most: int) -> _Pairs:
    """Find all similar pairs, in blocks of rows; raise if there are more than ``most``."""
    A = len(test.F)
    parts = test.F, test.coarse, test.sieve, test.inverse, test.criticals, test.tolerance
    found: list[int] = []

    def of_block(start: int) -> _Pairs:
        if sum(found) > most:
            raise InvalidParameterError(
                f"more than {most:,} pairs of {A:,} advertisers are similar and do not fit in "
                "memory: set n_neighbors, raise alpha or max_observations, or lower tolerance"
            )
        counts, columns, levels = kernels.similar_pairs(*parts, start, min(start + _BLOCK, A))
        found.append(len(columns))
        return _Pairs(counts, columns, levels, test.weigh(start, counts, columns))

    blocks = map_in_threads(of_block, range(0, max(A, 1), _BLOCK))
    return _Pairs(*(np.concatenate(part) for part in zip(*blocks, strict=True)))


def _nearest_pairs(test: _Test, most: int) -> tuple[_Pairs, Ints]:
    """Find the pairs of each advertiser and its nearest, and the number of all similar, (A, L)."""
    A = len(test.F)
    # 0 for the most observations
    seniority = np.unique(test.inverse, return_inverse=True)[1].astype(np.int64)
    curves = test.F, test.coarse, test.fine, test.sieve
    rule = test.inverse, seniority, test.criticals, test.tolerance

    def of_block(start: int) -> tuple[AnyArray, ...]:
        stop = min(start + _BLOCK, A)
        counts, columns, levels, similar = kernels.nearest_similar(
            *curves, *rule, start, stop, min(most, A)
        )
        is_used = np.arange(columns.shape[1]) < counts[:, None]
        rows = np.repeat(np.arange(start, stop), counts)
        return rows, columns[is_used], levels[is_used], similar

    blocks = map_in_threads(of_block, range(0, max(A, 1), _BLOCK))
    i, j, levels, similar = (np.concatenate(part) for part in zip(*blocks, strict=True))
    # a pair may be found from both sides
    key, first = np.unique(np.minimum(i, j) * A + np.maximum(i, j), return_index=True)
    counts, columns = np.bincount(key // max(A, 1), minlength=A), (key % max(A, 1)).astype(np.int32)
    return _Pairs(counts, columns, levels[first], test.weigh(0, counts, columns)), similar


def _in_steps(F: Floats, steps: int, dtype: Any) -> AnyArray:
    """Return curves as whole numbers of steps."""
    return np.rint(np.clip(F, 0.0, 1.0) * steps).astype(dtype)


def _checked_curves(curves: ArrayLike, rows: Ints | None = None) -> Floats:
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


def _checked_observations(observations: ArrayLike) -> Floats:
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
    return m
