"""Adding partitions to fitted tuples.

V' partitions of the same n points are added to V fitted ones. Two points have equal labels in all
V + V' partitions if they have the same old tuple and the same new labels. So the new tuples are the
distinct pairs (old tuple, new labels), found in O(n·V') without the old labels. The results are the
same as if all partitions had been fitted together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.errors import InvalidLabelsError
from coterie.labels.label_matrix import MISSING, LabelMatrix, are_memberships, as_label_matrix
from coterie.labels.soft_memberships import Memberships, as_memberships
from coterie.labels.tuples import LabelTuples, compress_memberships, group_rows, tuples_of_groups

__all__ = ["append_partitions"]

Array = NDArray[np.float64]
Vocabulary = LabelMatrix | Memberships  # names of partitions and labels, without rows


def append_partitions(
    before: LabelTuples, vocabulary: Vocabulary, P: Any, row_weights: Array | None = None
) -> tuple[LabelTuples, Vocabulary]:
    """Add the partitions in the columns of P to fitted tuples; return tuples and names of all.

    P (n, V') has labels of the same points in the same order as in the fit. Rows without any label
    are allowed. Memberships can be added only to memberships, and labels only to labels.
    ``vocabulary`` has the names of the fitted partitions and labels; ``row_weights`` (n,) are the
    weights of the points in the fit. In the given order the new partitions come last.

    >>> from coterie.labels.tuples import compress_labels
    >>> fitted = as_label_matrix([[0], [0], [1], [1]])
    >>> tuples, _ = append_partitions(compress_labels(fitted), fitted, [[5], [6], [6], [6]])
    >>> tuples.n_tuples, sorted(tuples.weights.tolist())
    (3, [1.0, 1.0, 2.0])
    """
    if isinstance(vocabulary, Memberships):
        return _append_memberships(before, vocabulary, P, row_weights)
    if are_memberships(P):
        raise InvalidLabelsError(
            "the fitted partitions are labels, but the new ones are membership matrices; fit again "
            "with membership matrices of all partitions"
        )
    new = as_label_matrix(P, allow_unlabelled_rows=True)
    _refuse_other_points(new.n_points, len(before.inverse))
    keys = np.column_stack([before.inverse, new.codes])
    first, inverse, weights = group_rows(keys, row_weights)
    origin = before.inverse[first].astype(np.int64)
    both = _joined_vocabulary(vocabulary, new)
    codes = np.empty((len(first), both.n_partitions), dtype=both.codes.dtype)
    codes[:, : before.n_partitions] = _codes_as_given(before)[origin]
    codes[:, before.n_partitions :] = new.codes[first]
    tuples = tuples_of_groups(codes, both.n_labels, inverse, weights)
    return replace(tuples, names=both.names), both


def _append_memberships(
    before: LabelTuples, vocabulary: Memberships, P: Any, row_weights: Array | None
) -> tuple[LabelTuples, Memberships]:
    """Add soft partitions: expand the fitted memberships and compress them with the new ones."""
    if not are_memberships(P):
        raise InvalidLabelsError(
            "the fitted partitions are membership matrices, but the new ones are labels; give a "
            "list of matrices with one column for each label"
        )
    new = as_memberships(P, allow_unlabelled_rows=True)
    _refuse_other_points(new.n_points, len(before.inverse))
    shares = before.indicator(np.ones(before.n_partitions))[:, before.recode][before.inverse]
    both = replace(vocabulary, shares=shares).joined(new)
    return compress_memberships(both, row_weights), both.without_rows()


def _refuse_other_points(n_new: int, n_before: int) -> None:
    if n_new != n_before:
        raise InvalidLabelsError(
            f"the new partitions have {n_new} rows (points), the fitted ones have {n_before}; give "
            "the same points in the same order (for new points use predict)"
        )


def _joined_vocabulary(before: LabelMatrix, new: LabelMatrix) -> LabelMatrix:
    """Return the names of the partitions and labels of both matrices, without rows."""
    n_before, V = before.n_partitions, before.n_partitions + new.n_partitions
    numbers = tuple(str(v) for v in range(V))
    # columns without names get numbers that continue those of the fitted columns
    given = range(new.n_partitions + len(new.empty))
    unnamed = new.names == tuple(str(v) for v in given if v not in new.empty)
    names = (*before.names, *(numbers[n_before:] if unnamed else new.names))
    for v in range(n_before, V):
        if names[v] in names[:v]:
            where = "was fitted already" if names[v] in names[:n_before] else "is given twice"
            raise InvalidLabelsError(
                f"partition '{names[v]}' (new column {v - n_before}) {where} and would count "
                "twice; leave it out, or rename it"
            )
    shift = n_before + len(before.empty)
    empty = (*before.empty, *(shift + v for v in new.empty))
    codes = np.empty((0, V), dtype=np.result_type(before.codes, new.codes))
    return LabelMatrix(codes, (*before.categories, *new.categories), names, empty)


def _codes_as_given(tuples: LabelTuples) -> NDArray[Any]:
    """Return the codes (u, V) of the tuples with columns and labels in the user's order."""
    n_labels = tuples.in_given_order(tuples.n_labels)
    starts = np.cumsum(n_labels) - n_labels
    # the code −1 selects the last entry
    label = np.full(tuples.n_columns + 1, MISSING, dtype=tuples.codes.dtype)
    label[tuples.recode] = np.arange(tuples.n_columns) - np.repeat(starts, n_labels)
    return label[tuples.codes[:, np.argsort(tuples.partition_order)]]
