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

from coterie.arrays import Floats
from coterie.errors import InvalidLabelsError
from coterie.labels.encode import MISSING, LabelMatrix, are_memberships, as_label_matrix, numbered
from coterie.labels.soft import Memberships, as_memberships
from coterie.labels.tuples import LabelTuples, compress_memberships, group_rows, tuples_of_groups

Vocabulary = LabelMatrix | Memberships  # names of partitions and labels, without rows


def append_partitions(
    before: LabelTuples, vocabulary: Vocabulary, P: Any, row_weights: Floats | None = None
) -> tuple[LabelTuples, Vocabulary]:
    """Add the partitions in the columns of P to fitted tuples; return tuples and names of all.

    P (n, V') has labels of the same points in the same order as in the fit. Rows without any label
    are allowed. Memberships can be added only to memberships, and labels only to labels.
    ``vocabulary`` has the names of the fitted partitions and labels; ``row_weights`` (n,) are the
    weights of the points in the fit. In the given order the new partitions come last.
    """
    if isinstance(vocabulary, Memberships):
        if not are_memberships(P):
            raise InvalidLabelsError(
                "the fitted partitions are membership matrices, but the new ones are labels; give "
                "a list of matrices with one column for each label"
            )
        more = as_memberships(P, allow_unlabelled_rows=True)
        _refuse_other_points(more.n_points, len(before.inverse))
        shares = before.indicator(np.ones(before.n_partitions))[:, before.recode][before.inverse]
        joined = replace(vocabulary, shares=shares).joined(more)
        return compress_memberships(joined, row_weights), joined.without_rows()
    if are_memberships(P):
        raise InvalidLabelsError(
            "the fitted partitions are labels, but the new ones are membership matrices; fit again "
            "with membership matrices of all partitions"
        )
    new = as_label_matrix(P, allow_unlabelled_rows=True)
    _refuse_other_points(new.n_points, len(before.inverse))
    keys = np.column_stack([before.inverse, new.codes])
    first, inverse, weights = group_rows(keys, row_weights)
    both = _joined_vocabulary(vocabulary, new)
    codes = np.empty((len(first), both.n_partitions), dtype=both.codes.dtype)
    # the labels of the old tuples in the user's order; the code −1 selects the last entry
    n_labels = before.in_given_order(before.n_labels)
    starts = np.cumsum(n_labels) - n_labels
    label = np.full(before.n_columns + 1, MISSING, dtype=before.codes.dtype)
    label[before.recode] = np.arange(before.n_columns) - np.repeat(starts, n_labels)
    given = label[before.codes[:, np.argsort(before.partition_order)]]
    codes[:, : before.n_partitions] = given[before.inverse[first].astype(np.int64)]
    codes[:, before.n_partitions :] = new.codes[first]
    tuples = tuples_of_groups(codes, both.n_labels, inverse, weights)
    return replace(tuples, names=both.names), both


def _refuse_other_points(n_new: int, n_before: int) -> None:
    if n_new != n_before:
        raise InvalidLabelsError(
            f"the new partitions have {n_new} rows (points), the fitted ones have {n_before}; give "
            "the same points in the same order (for new points use predict)"
        )


def _joined_vocabulary(before: LabelMatrix, new: LabelMatrix) -> LabelMatrix:
    """Return the names of the partitions and labels of both matrices, without rows."""
    n_before, V = before.n_partitions, before.n_partitions + new.n_partitions
    # columns without names get numbers that continue those of the fitted columns
    given = numbered(new.n_partitions + len(new.empty))
    unnamed = new.names == tuple(name for v, name in enumerate(given) if v not in new.empty)
    names = (*before.names, *(numbered(V)[n_before:] if unnamed else new.names))
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
