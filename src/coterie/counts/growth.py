"""Partitions that join a fitted consensus: tuples split, tables grow, nothing is counted twice.

To V fitted partitions of n points come V' more of the same points. Two points agree in all V + V'
just when they had the same tuple and have the same new labels, so the new tuples are the groups of
(old tuple, new labels): O(n·V'), the old labels are not read again. In the contingency tables

    C = [[C_old,old  C_old,new],
         [C_new,old  C_new,new]]

the first block is what it was, and O(u·V'·(V + V')) counts give the rest. Tuples and tables come
out as if all partitions had been there from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from coterie.counts.contingency import all_contingencies
from coterie.errors import InvalidLabelsError
from coterie.labels import tuple_kernels as label_tuple_kernels
from coterie.labels.label_matrix import MISSING, LabelMatrix, are_memberships, as_label_matrix
from coterie.labels.soft_memberships import Memberships, as_memberships
from coterie.labels.tuples import LabelTuples, compress_memberships, tuples_of_groups
from coterie.runtime.devices import map_row_blocks

__all__ = ["Growth", "append_partitions", "contingencies_to_keep"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Growth:
    """What became of fitted tuples when partitions came to them.

    Attributes
    ----------
    before : :class:`~coterie.labels.tuples.LabelTuples`
        The u tuples of the V partitions there were.
    tuples : :class:`~coterie.labels.tuples.LabelTuples`
        The tuples of all V + V' partitions; in the given order the new ones come last.
    origin : (u',) int
        Which of the tuples before each tuple was part of.
    vocabulary : :class:`~coterie.labels.label_matrix.LabelMatrix` or
    :class:`~coterie.labels.soft_memberships.Memberships`
        Names of all partitions and of their labels, without rows.
    """

    before: LabelTuples
    tuples: LabelTuples
    origin: NDArray[np.int64]
    vocabulary: LabelMatrix | Memberships

    def contingencies(self, before: Array | None) -> Array:
        """Contingency tables C of all pairs of partitions, given those of the pairs before.

        Without these everything is counted.
        """
        if before is None or self.tuples.memberships is not None:
            return all_contingencies(self.tuples)
        old, new = np.split(self.tuples.recode, [self.before.n_columns])
        C = np.empty((self.tuples.n_columns,) * 2)
        C[np.ix_(old, old)] = before[np.ix_(self.before.recode, self.before.recode)]
        is_new = self.tuples.partition_order >= self.before.n_partitions
        rows = _contingencies_of(self.tuples, np.flatnonzero(is_new))[new]
        C[new] = rows
        C[:, new] = rows.T
        return C


def append_partitions(
    before: LabelTuples,
    vocabulary: LabelMatrix | Memberships,
    P: Any,
    row_weights: Array | None = None,
) -> Growth:
    """Tuples of the partitions there are and of those in the columns of P.

    Parameters
    ----------
    before : the fitted tuples, with the way back to the n points
    vocabulary : names of the fitted partitions and of their labels
    P : (n, V') labels of the same points, in the same order
        As in ``fit``, but for points that only the partitions before label. Memberships
        join memberships, and labels labels.
    row_weights : (n,), optional
        Weights of the points as in the fit, where they have any.

    Examples
    --------
    >>> from coterie.labels.tuples import compress_labels
    >>> fitted = as_label_matrix([[0], [0], [1], [1]])
    >>> growth = append_partitions(compress_labels(fitted), fitted, [[5], [6], [6], [6]])
    >>> growth.tuples.n_tuples, sorted(growth.tuples.weights.tolist())
    (3, [1.0, 1.0, 2.0])
    """
    if isinstance(vocabulary, Memberships):
        return _append_memberships(before, vocabulary, P, row_weights)
    if are_memberships(P):
        raise InvalidLabelsError(
            "the partitions before are labels, and these are membership matrices; fit again, on "
            "membership matrices of all partitions"
        )
    new = as_label_matrix(P, allow_unlabelled_rows=True)
    _refuse_other_points(new.n_points, len(before.inverse))
    keys = np.column_stack([before.inverse, new.codes])
    first, inverse, counts = label_tuple_kernels.group_equal_rows(keys)
    weights = counts.astype(np.float64)
    if row_weights is not None:
        weights = np.bincount(inverse, weights=row_weights).astype(np.float64)
    origin = before.inverse[first].astype(np.int64)
    both = _joined(vocabulary, new)
    codes = np.empty((len(first), both.n_partitions), dtype=both.codes.dtype)
    codes[:, : before.n_partitions] = _codes_as_given(before)[origin]
    codes[:, before.n_partitions :] = new.codes[first]
    tuples = tuples_of_groups(codes, both.n_labels, inverse, weights)
    by_tuple = np.empty_like(origin)
    by_tuple[tuples.inverse[first]] = origin
    return Growth(before, tuples, by_tuple, both)


def contingencies_to_keep(tuples: LabelTuples, contingencies: Array) -> Array | None:
    """The tables if they are no larger than the tuples; if they are, to count anew is cheap.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> few = as_label_tuples([[0, 0], [0, 1]])
    >>> contingencies_to_keep(few, all_contingencies(few)) is None
    True
    """
    return contingencies if contingencies.nbytes <= tuples.codes.nbytes else None


def _append_memberships(
    before: LabelTuples, vocabulary: Memberships, P: Any, row_weights: Array | None
) -> Growth:
    """Tuples of soft partitions, the fitted ones written out and compressed again with the new."""
    if not are_memberships(P):
        raise InvalidLabelsError(
            "the partitions before are membership matrices, and these are labels; give a list of "
            "matrices with one column a label"
        )
    new = as_memberships(P, allow_unlabelled_rows=True)
    _refuse_other_points(new.n_points, len(before.inverse))
    shares = before.indicator(np.ones(before.n_partitions))[:, before.recode][before.inverse]
    both = replace(vocabulary, shares=shares).joined(new)
    tuples = compress_memberships(both, row_weights)
    origin = np.empty(tuples.n_tuples, dtype=np.int64)
    origin[tuples.inverse] = before.inverse
    return Growth(before, tuples, origin, both.without_rows())


def _refuse_other_points(n_new: int, n_before: int) -> None:
    if n_new != n_before:
        raise InvalidLabelsError(
            f"the new partitions have {n_new} rows (points), those before have {n_before}; give "
            "the same points in the same order (new points are for predict)"
        )


def _joined(before: LabelMatrix, new: LabelMatrix) -> LabelMatrix:
    """Names of the partitions and labels of both, without rows."""
    numbers = [str(v) for v in range(before.n_partitions + new.n_partitions)]
    # columns without names are known by their numbers, which go on counting
    unnamed = list(new.names) == numbers[: new.n_partitions]
    names = numbers[before.n_partitions :] if unnamed else list(new.names)
    _refuse_twice([*before.names, *names], before.n_partitions)
    dtype = np.result_type(before.codes, new.codes)
    codes = np.empty((0, len(numbers)), dtype=dtype)
    return LabelMatrix(codes, (*before.categories, *new.categories), (*before.names, *names))


def _refuse_twice(names: Sequence[str], n_before: int) -> None:
    for v in range(n_before, len(names)):
        if names[v] in names[:v]:
            where = "is there already" if names[v] in names[:n_before] else "is there twice"
            raise InvalidLabelsError(
                f"partition '{names[v]}' (new column {v - n_before}) {where}: it would vote twice; "
                "leave it out, or give it another name"
            )


def _codes_as_given(tuples: LabelTuples) -> NDArray[Any]:
    """Codes (u, V) of the tuples as the label matrix had them: columns and labels in its order."""
    n_labels = tuples.in_given_order(tuples.n_labels)
    starts = np.cumsum(n_labels) - n_labels
    label = np.full(tuples.n_columns + 1, MISSING, dtype=tuples.codes.dtype)
    label[tuples.recode] = np.arange(tuples.n_columns) - np.repeat(starts, n_labels)
    # the last slot is what the code −1 looks up
    return label[tuples.codes[:, np.argsort(tuples.partition_order)]]


def _contingencies_of(tuples: LabelTuples, partitions: NDArray[np.int64]) -> Array:
    """Rows of C, shape (m, m), of the clusters of some partitions; zero in the others."""
    m = tuples.n_columns

    def count(start: int, stop: int) -> Array:
        C = np.zeros((m, m))
        _add_rows(tuples.codes, tuples.weights, partitions, start, stop, C)
        return C

    C: Array = reduce(np.add, map_row_blocks(count, tuples.n_tuples, max(20_000, m)))
    return C


@nb.njit(cache=True, nogil=True)
def _add_rows(codes: Any, weights: Any, partitions: Any, start: Any, stop: Any, out: Any) -> None:
    """Add what tuples start..stop count of the clusters of some partitions to their rows."""
    V = codes.shape[1]
    for a in range(start, stop):
        for w in partitions:
            d = codes[a, w]
            if d >= 0:
                row = out[d]
                for v in range(V):
                    c = codes[a, v]
                    if c >= 0:
                        row[c] += weights[a]
