"""Similar pairs: the pairs of curves that pass the test, all of them or the nearest, as graphs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import kolmogorov

import coterie.ads.segments.kernels as kernels
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import map_in_threads

__all__ = [
    "BLOCK",
    "CurveTest",
    "SimilarPairs",
    "count_leaders",
    "find_all_pairs",
    "find_nearest_pairs",
    "graph_of",
    "in_steps",
]

Floats = NDArray[np.float64]

#: Rows of pairs per task.
BLOCK = 64
_SIEVE = 32  # columns of the sieve
_PANEL = 2048  # rows of a graph per task


@dataclass(frozen=True)
class CurveTest:
    """Curves that all have observations, and the settings of their comparison."""

    F: Floats  # (A, G)
    inverse: Floats  # (A,), 1/m
    criticals: Floats  # (L,), descending
    tolerance: float
    weights: str  # of edges: "binary" or "pvalue"

    @cached_property
    def coarse(self) -> NDArray[np.int16]:
        """The curves in coarse steps, (A, G), which decide most pairs."""
        return in_steps(self.F, kernels.STEPS, np.int16)

    @cached_property
    def fine(self) -> NDArray[np.int32]:
        """The curves in fine steps, (A, G), which give distances."""
        return in_steps(self.F, kernels.FINE, np.int32)

    @cached_property
    def sieve(self) -> NDArray[np.int16]:
        """Some columns of the coarse curves, transposed, which rule most pairs out."""
        spaced = np.linspace(0, self.F.shape[1] - 1, _SIEVE).round().astype(np.intp)
        return np.ascontiguousarray(self.coarse[:, spaced].T)

    def weigh(
        self, start: int, counts: NDArray[np.int64], columns: NDArray[np.int32]
    ) -> NDArray[Any]:
        """Return the weights of pairs (E,) in the rows from ``start`` on, ``counts`` in each."""
        if self.weights == "binary":
            return np.ones(len(columns), dtype=bool)
        distances = kernels.pair_distances(self.fine, start, counts, columns)
        rows = np.repeat(np.arange(start, start + len(counts)), counts)
        p = kolmogorov(distances / np.sqrt(self.inverse[rows] + self.inverse[columns]))
        return np.asarray(p, dtype=np.float32)


@dataclass(frozen=True)
class SimilarPairs:
    """Similar pairs i < j, row by row."""

    counts: NDArray[np.int64]  # (A,), number of pairs of each i
    columns: NDArray[np.int32]  # (E,), j
    levels: NDArray[np.uint8]  # (E,), number of critical values that are not exceeded
    weights: NDArray[Any]  # (E,)


def find_all_pairs(test: CurveTest, most: int) -> SimilarPairs:
    """Find all similar pairs, in blocks of rows; raise if there are more than ``most``."""
    A = len(test.F)
    parts = test.F, test.coarse, test.sieve, test.inverse, test.criticals, test.tolerance
    found: list[int] = []

    def of_block(start: int) -> tuple[NDArray[Any], ...]:
        if sum(found) > most:
            raise InvalidParameterError(
                f"more than {most:,} pairs of {A:,} advertisers are similar and do not fit in "
                "memory: set n_neighbors, raise alpha or max_observations, or lower tolerance"
            )
        counts, columns, levels = kernels.similar_pairs(*parts, start, min(start + BLOCK, A))
        found.append(len(columns))
        return counts, columns, levels, test.weigh(start, counts, columns)

    blocks = map_in_threads(of_block, range(0, max(A, 1), BLOCK))
    return SimilarPairs(*(np.concatenate(part) for part in zip(*blocks, strict=True)))


def find_nearest_pairs(test: CurveTest, most: int) -> tuple[SimilarPairs, NDArray[np.int64]]:
    """Find the pairs of each advertiser and its nearest, and the number of all similar, (A, L)."""
    A = len(test.F)
    # 0 for the most observations
    seniority = np.unique(test.inverse, return_inverse=True)[1].astype(np.int64)
    curves = test.F, test.coarse, test.fine, test.sieve
    rule = test.inverse, seniority, test.criticals, test.tolerance

    def of_block(start: int) -> tuple[NDArray[Any], ...]:
        stop = min(start + BLOCK, A)
        counts, columns, levels, similar = kernels.nearest_similar(
            *curves, *rule, start, stop, min(most, A)
        )
        is_used = np.arange(columns.shape[1]) < counts[:, None]
        rows = np.repeat(np.arange(start, stop), counts)
        return rows, columns[is_used], levels[is_used], similar

    blocks = map_in_threads(of_block, range(0, max(A, 1), BLOCK))
    i, j, levels, similar = (np.concatenate(part) for part in zip(*blocks, strict=True))
    # a pair may be found from both sides
    key, first = np.unique(np.minimum(i, j) * A + np.maximum(i, j), return_index=True)
    counts, columns = np.bincount(key // max(A, 1), minlength=A), (key % max(A, 1)).astype(np.int32)
    weights = test.weigh(0, counts, columns)
    return SimilarPairs(counts, columns, levels[first], weights), similar


def count_leaders(
    test: CurveTest, rank: NDArray[np.intp], weight: Floats, level: int, degrees: NDArray[np.int64]
) -> int:
    """Count the clusters of the leader rule at one of the given levels."""
    order = np.lexsort((-degrees, -weight))
    order = order[degrees[order] > 0]
    critical = test.criticals[rank[level] : rank[level] + 1]
    return int(
        kernels.count_leaders(test.F, test.coarse, test.inverse, critical, test.tolerance, order)
    )


def graph_of(
    pairs: SimilarPairs, level: int, alpha: float, known: NDArray[np.intp], A: int
) -> sp.csr_array:
    """Build the graph of A advertisers from the pairs of known ones that pass ``level``."""
    parts = pairs.columns, pairs.levels
    pointers = kernels.count_both(pairs.counts, *parts, level)
    neighbours = np.empty(pointers[-1], dtype=np.int32)
    weights = np.empty(pointers[-1], dtype=pairs.weights.dtype)
    starts = np.concatenate([[0], np.cumsum(pairs.counts)])

    # the kernels know no booleans
    of_pairs, of_graph = (
        each.view(np.uint8) if each.dtype == bool else each for each in (pairs.weights, weights)
    )

    def fill(first: int) -> None:
        last = min(first + _PANEL, len(known))
        kernels.fill_both(
            starts, *parts, of_pairs, level, pointers, first, last, neighbours, of_graph
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


def in_steps(F: Floats, steps: int, dtype: Any) -> NDArray[Any]:
    """Return curves as whole numbers of steps."""
    return np.rint(np.clip(F, 0.0, 1.0) * steps).astype(dtype)
