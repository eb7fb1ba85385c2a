"""Exact compression: points with equal labels in all partitions become one weighted tuple.

Points i and j with ``P[i, :] == P[j, :]`` have equal rows in the co-association matrix, so every
method gives them the same label. Methods therefore work on the u ≤ n distinct tuples and their
weights, and expand the result to the points.

Tuples, partitions and clusters are sorted by *colours*: 64-bit hashes that depend neither on the
order of points and partitions nor on the names of labels (:func:`order_colours`). Later steps break
ties by this order, so results do not depend on these, either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import coterie.labels.kernels as kernels
from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.errors import InvalidLabelsError
from coterie.labels.encode import (
    MISSING,
    LabelMatrix,
    are_memberships,
    as_label_matrix,
    code_dtype,
    numbered,
)
from coterie.labels.soft import Memberships, as_memberships, slots_of
from coterie.runtime.devices import map_row_blocks
from coterie.runtime.wording import short_repr

Colours = NDArray[np.uint64]
Vocabulary = LabelMatrix | Memberships  # names of partitions and labels, without rows

#: A labelled mass from this value on counts as 1; the difference is rounding.
_WHOLE = 1 - 1e-9
_MIN_THREAD_ROWS = 4_096

_SINGLED_OUT = np.uint64(0xD1B54A32D192ED03)
_MAX_ROUNDS = 30
#: Ties are broken one by one only up to this number of tuples, and this number of times.
_FEW_TUPLES = 2_000
_MAX_SINGLED_OUT = 200


@dataclass(frozen=True)
class LabelTuples:
    """The u distinct label tuples of n points in V partitions.

    The cluster indicator Z (u, m) has one row for each tuple and one column for each of the m
    clusters of all partitions: Z[a, codes[a, v]] = 1. Tuples of soft partitions have S slots
    instead of V labels. Then ``codes[a]`` holds the columns in which row a of Z is not zero,
    increasing, with −1 in unused slots at the end, and ``memberships[a]`` holds the values of Z.
    """

    codes: AnyArray  # (u, V) or (u, S), int16 or int32, C-contiguous; −1 is missing
    offsets: Ints  # (V + 1,) first column of each partition; the last is m
    weights: Floats  # (u,) number of points with this tuple, or the sum of their weights
    inverse: AnyArray  # (n,) tuple of each point
    partition_order: Ints  # (V,) the user's partition of each column of codes
    recode: Ints  # (m,) column of cluster c of the user's partition v: [K_0 + … + K_{v-1} + c]
    memberships: Floats | None = None  # (u, S), None for labels
    names: tuple[str, ...] | None = None  # of the user's partitions, (V,)

    __repr__ = short_repr

    @property
    def n_points(self) -> int:
        """Return the number of points n: the total weight, rounded."""
        return round(self.weights.sum())

    @property
    def n_tuples(self) -> int:
        return int(self.codes.shape[0])

    @property
    def n_partitions(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_columns(self) -> int:
        """Return the number of clusters of all partitions, m."""
        return int(self.offsets[-1])

    @property
    def n_labels(self) -> Ints:
        """Return the number of clusters K_v of each partition, (V,)."""
        return np.diff(self.offsets)

    @property
    def partition_names(self) -> tuple[str, ...]:
        """Return the name of the partition of each column of codes, or its number, (V,)."""
        order = self.partition_order
        return tuple(str(v) if self.names is None else self.names[v] for v in order.tolist())

    @property
    def partition_of(self) -> Ints:
        """Return the partition of each indicator column, (m,)."""
        return np.repeat(np.arange(self.n_partitions), self.n_labels)

    @cached_property
    def mass(self) -> Floats:
        """Return the labelled mass of each tuple in each partition, (u, V): 0 or 1 for labels."""
        if self.memberships is None:
            return (self.codes >= 0).astype(np.float64)
        rows = np.broadcast_to(np.arange(self.n_tuples)[:, None], self.codes.shape)
        # unused slots have code −1, the last partition, and add their membership 0 to it
        cell = rows * self.n_partitions + self.partition_of[self.codes]
        mass = np.bincount(
            cell.ravel(), self.memberships.ravel(), self.n_tuples * self.n_partitions
        )
        return np.where(mass >= _WHOLE, 1.0, mass).reshape(self.n_tuples, self.n_partitions)

    @cached_property
    def squares(self) -> Floats:
        """Return Σ_c π_c² of each tuple over the clusters of each partition, (u, V)."""
        if self.memberships is None:
            return self.mass
        return replace(self, memberships=self.memberships**2).mass

    @cached_property
    def has_missing(self) -> bool:
        """Return whether any tuple has a labelled mass below 1 in any partition."""
        if self.memberships is None:
            return bool(self.codes.min(initial=0) < 0)
        return bool(self.mass.min(initial=1.0) < _WHOLE)

    def has_weighted_label(self, partition_weights: Floats) -> Bools:
        """Return which tuples have a label in a partition of positive weight, (u,)."""
        if self.memberships is None:
            return np.any((self.codes >= 0) & (partition_weights > 0), axis=1)
        return np.any(self.mass[:, partition_weights > 0] > 0, axis=1)

    def is_complete(self, partition_weights: Floats) -> bool:
        """Return whether every partition of positive weight fully labels every tuple."""
        if self.memberships is None:
            return bool((self.codes[:, partition_weights > 0] >= 0).all())
        return bool(self.mass[:, partition_weights > 0].min(initial=1.0) >= _WHOLE)

    def expand(self, of_tuples: AnyArray) -> AnyArray:
        """Return values of the n points from values of the u tuples."""
        return of_tuples[self.inverse]

    def labels_of_partition(self, v: int) -> Ints:
        """Return the labels 0..K_v − 1 or −1 of the tuples in partition v, (u,).

        For a soft partition it is the cluster of largest membership, the first one on ties.
        """
        column, labelled = self.codes[:, v], self.codes[:, v] != MISSING
        if self.memberships is not None:
            own = np.append(self.partition_of == v, False)[self.codes]
            best = np.argmax(np.where(own, self.memberships, 0.0), axis=1)
            column, labelled = self.codes[np.arange(len(best)), best], own.any(axis=1)
        return np.where(labelled, column - self.offsets[v], MISSING)

    def indicator(self, values: AnyArray) -> csr_array:
        """Return Z (u, m) as a sparse matrix, each entry multiplied by a value.

        ``values`` has one value for each partition, (V,), or for each tuple, (u, 1).
        """
        present = self.codes != MISSING
        rows, _ = np.nonzero(present)
        if self.memberships is not None:
            if values.ndim == 1:
                values = values[self.partition_of[self.codes]]
            values = values * self.memberships
        entries = np.broadcast_to(values, self.codes.shape)[present]
        return csr_array(
            (entries, (rows, self.codes[present])), shape=(self.n_tuples, self.n_columns)
        )

    def in_given_order(self, of_partitions: AnyArray) -> AnyArray:
        """Reorder values of the V partitions (first axis) to the user's order."""
        given = np.empty_like(of_partitions)
        given[self.partition_order] = of_partitions
        return given

    def columns_of(self, codes: AnyArray) -> AnyArray:
        """Return the columns of Z, (n', V), of new rows with the codes of the user's matrix."""
        n_labels = self.in_given_order(self.n_labels)
        starts = np.cumsum(n_labels) - n_labels
        order, lookup = self.partition_order, self.recode.astype(self.codes.dtype)
        return recoded_rows(codes, np.arange(len(codes)), order, starts[order], lookup)

    def slots(self) -> tuple[AnyArray, Floats]:
        """Return columns and memberships (u, S) of the tuples; those of labels are 1."""
        if self.memberships is not None:
            return self.codes, self.memberships
        return slots_of(self.indicator(np.ones(self.n_partitions)))

    def slots_of(self, soft: Memberships) -> tuple[AnyArray, Floats]:
        """Return columns and memberships (n', S) of new points."""
        return slots_of(soft.shares[:, np.argsort(self.recode)])

    def subset(self, chosen: AnyArray | slice, weights: Floats | None = None) -> LabelTuples:
        """Return the chosen tuples (mask or indices) without points; ``weights`` are new ones."""
        return replace(
            self,
            inverse=np.empty(0, dtype=self.inverse.dtype),
            codes=self.codes[chosen],
            weights=self.weights[chosen] if weights is None else weights,
            memberships=None if self.memberships is None else self.memberships[chosen],
        )

    def restricted_to(self, partitions: Bools) -> tuple[LabelTuples, AnyArray]:
        """Return the tuples of some partitions (a mask), and the new tuple of each old one.

        Dropping partitions can merge tuples.
        """
        if partitions.all():
            return self, np.arange(self.n_tuples)
        kept = np.repeat(partitions, self.n_labels)
        lookup = np.where(kept, np.cumsum(kept) - 1, MISSING)
        memberships = None
        if self.memberships is None:
            every, columns = np.arange(self.n_tuples), np.flatnonzero(partitions)
            codes = recoded_rows(
                self.codes, every, columns, np.zeros(len(columns)), lookup.astype(self.codes.dtype)
            )
            first, group, weights = group_rows(codes, self.weights)
        else:
            codes, memberships = slots_of(self.indicator(np.ones(self.n_partitions))[:, kept])
            first, group, weights = group_rows(_slot_keys(codes, memberships), self.weights)
            memberships = memberships[first]
        recode = lookup[self.recode]
        restricted = LabelTuples(
            codes[first],
            _offsets(self.n_labels[partitions]),
            weights,
            group[self.inverse],
            self.partition_order[partitions],
            recode[recode != MISSING],
            memberships,
            self.names,
        )
        return restricted, group

    def with_points_apart(
        self, points: AnyArray, row_weights: Floats | None = None
    ) -> tuple[LabelTuples, Ints]:
        """Return tuples in which each of some points is a separate tuple, at the end.

        The second result are the old places of the first tuples; those without a point left are
        gone. ``row_weights`` (n,) are those of :func:`compress_labels`.
        """
        at, own = self.inverse[points], np.ones(len(points))
        own = own if row_weights is None else row_weights[points]
        left = np.bincount(self.inverse, minlength=self.n_tuples)
        left -= np.bincount(at, minlength=self.n_tuples)
        kept = np.flatnonzero(left)
        rest = self.weights - np.bincount(at, own, self.n_tuples)
        inverse = (np.cumsum(left > 0) - 1)[self.inverse].astype(self.inverse.dtype)
        inverse[points] = len(kept) + np.arange(len(points))
        chosen = np.append(kept, at)
        apart = self.subset(chosen, np.append(rest[kept], own))
        return replace(apart, inverse=inverse), kept

    def without_compression(self) -> LabelTuples:
        """Return n tuples of weight one, one for each point."""
        n = len(self.inverse)
        return replace(self.subset(self.inverse, np.ones(n)), inverse=np.arange(n))


def as_label_tuples(P: Any) -> LabelTuples:
    """Return label tuples; P are labels, membership matrices, or already label tuples."""
    if isinstance(P, LabelTuples):
        return P
    if are_memberships(P):
        return compress_memberships(as_memberships(P))
    return compress_labels(as_label_matrix(P))


def compress_labels(matrix: LabelMatrix, row_weights: Floats | None = None) -> LabelTuples:
    """Compress a label matrix to its distinct tuples, in time and memory linear in n·V.

    ``row_weights`` (n,) > 0 are one by default; a weight w has the effect of w equal rows.
    """
    first, inverse, weights = group_rows(matrix.codes, row_weights)
    tuples = tuples_of_groups(matrix.codes[first], matrix.n_labels, inverse, weights)
    return replace(tuples, names=matrix.names)


def compress_memberships(soft: Memberships, row_weights: Floats | None = None) -> LabelTuples:
    """Compress soft partitions to their distinct rows, which are compared bit by bit.

    If all memberships are hard, the result has labels and no memberships.
    """
    if soft.is_hard:
        return compress_labels(soft.labels(), row_weights)
    codes, memberships = slots_of(soft.shares)
    first, inverse, weights = group_rows(_slot_keys(codes, memberships), row_weights)
    tuples = _sorted(codes[first], _offsets(soft.n_labels), inverse, weights, memberships[first])
    return replace(tuples, names=soft.names)


def tuples_of_groups(
    codes: AnyArray, n_labels: Ints, inverse: AnyArray, weights: Floats
) -> LabelTuples:
    """Return the sorted label tuples, given the distinct rows (u, V) and that of each point (n,).

    The rows have codes 0..K_v − 1 or −1; ``n_labels`` (V,) are the K_v.
    """
    offsets = _offsets(n_labels)
    every, columns = map(np.arange, codes.shape)
    lookup = np.arange(offsets[-1], dtype=code_dtype(offsets[-1]))
    codes = recoded_rows(codes, every, columns, offsets[:-1], lookup)
    return _sorted(codes, offsets, inverse, weights)


def append_partitions(
    before: LabelTuples, vocabulary: Vocabulary, P: Any, row_weights: Floats | None = None
) -> tuple[LabelTuples, Vocabulary]:
    """Add the partitions in the columns of P to fitted tuples; return tuples and names of all.

    P (n, V') has labels of the same points in the same order as in the fit. Rows without any label
    are allowed. ``vocabulary`` has the names of the fitted partitions and labels; ``row_weights``
    (n,) are the weights of the points in the fit. In the given order the new partitions come last.
    """
    is_soft = isinstance(vocabulary, Memberships)
    if is_soft and not are_memberships(P):
        raise InvalidLabelsError(
            "the fitted partitions are membership matrices, but the new ones are labels; give "
            "a list of matrices with one column for each label"
        )
    if not is_soft and are_memberships(P):
        raise InvalidLabelsError(
            "the fitted partitions are labels, but the new ones are membership matrices; fit again "
            "with membership matrices of all partitions"
        )
    new: Any = (as_memberships if is_soft else as_label_matrix)(P, allow_unlabelled_rows=True)
    if new.n_points != len(before.inverse):
        raise InvalidLabelsError(
            f"the new partitions have {new.n_points} rows (points), the fitted ones have "
            f"{len(before.inverse)}; give the same points in the same order (for new points use "
            "predict)"
        )
    if isinstance(vocabulary, Memberships):
        shares = before.indicator(np.ones(before.n_partitions))[:, before.recode][before.inverse]
        joined = replace(vocabulary, shares=shares).joined(new)
        return compress_memberships(joined, row_weights), joined.without_rows()
    both = _joined_vocabulary(vocabulary, new)
    first, inverse, weights = group_rows(np.column_stack([before.inverse, new.codes]), row_weights)
    codes = np.empty((len(first), both.n_partitions), dtype=both.codes.dtype)
    # the labels of the old tuples in the user's order; the code −1 selects the last entry
    n_labels = before.in_given_order(before.n_labels)
    label = np.full(before.n_columns + 1, MISSING, dtype=before.codes.dtype)
    label[before.recode] = np.concatenate([np.arange(K) for K in n_labels])
    given = label[before.codes[:, np.argsort(before.partition_order)]]
    codes[:, : before.n_partitions] = given[before.inverse[first].astype(np.int64)]
    codes[:, before.n_partitions :] = new.codes[first]
    tuples = tuples_of_groups(codes, both.n_labels, inverse, weights)
    return replace(tuples, names=both.names), both


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


def known_tuples(codes: AnyArray, memberships: Floats | None, tuples: LabelTuples) -> Ints:
    """Return the fitted tuple that each row equals, the first of several; −1 if there is none.

    ``codes`` are indicator columns (n', V), or (n', S) with ``memberships``.
    """
    fitted = tuples.codes
    if memberships is not None:
        columns, shares = tuples.slots()
        width = max(columns.shape[1], codes.shape[1])
        fitted = _slot_keys(columns, shares, width)
        codes = _slot_keys(codes, memberships, width)
    _, group, _ = group_rows(np.vstack([fitted, codes]))
    u = len(fitted)
    tuple_of = np.full(int(group.max(initial=-1)) + 1, -1, dtype=np.int64)
    # backwards, so that the first of equal tuples remains
    tuple_of[group[:u][::-1]] = np.arange(u)[::-1]
    return tuple_of[group[u:]]


def group_rows(
    rows: AnyArray, row_weights: Floats | None = None
) -> tuple[Ints, NDArray[np.int32], Floats]:
    """Return the first row of each group of equal rows, the group of each row, and its weight."""
    first, group, counts = kernels.group_equal_rows(np.ascontiguousarray(rows))
    if row_weights is None:
        return first, group, counts.astype(np.float64)
    return first, group, np.bincount(group, weights=row_weights).astype(np.float64)


def recoded_rows(
    codes: AnyArray, rows: AnyArray, columns: AnyArray, starts: AnyArray, lookup: AnyArray
) -> AnyArray:
    """Return ``lookup[starts[j] + codes[rows[i], columns[j]]]`` for all i, j; −1 stays −1.

    It reads the codes once, on all cores, without intermediate copies.
    """
    codes = np.ascontiguousarray(codes)
    rows, columns, starts = (np.asarray(x, dtype=np.int64) for x in (rows, columns, starts))
    recoded = np.empty((len(rows), len(columns)), dtype=lookup.dtype)
    map_row_blocks(
        lambda a, b: kernels.recode_rows(codes, rows, columns, starts, lookup, a, b, recoded),
        len(rows),
        at_least=_MIN_THREAD_ROWS,
    )
    return recoded


def _slot_keys(codes: AnyArray, memberships: Floats, width: int = 0) -> Ints:
    """Return integer rows (n, 2S), equal exactly where columns and memberships are equal.

    Empty slots are added up to a common ``width`` S.
    """
    padding = ((0, 0), (0, max(0, width - codes.shape[1])))
    codes = np.pad(codes.astype(np.int64), padding, constant_values=MISSING)
    return np.hstack([codes, np.pad(memberships, padding).view(np.int64)])


def _offsets(n_labels: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(n_labels)])


def _sorted(
    codes: AnyArray,
    offsets: Ints,
    inverse: AnyArray,
    weights: Floats,
    memberships: Floats | None = None,
) -> LabelTuples:
    """Sort tuples, partitions and clusters by their colours."""
    tuple_colours, cluster_colours, partition_colours = order_colours(
        codes, offsets, weights, memberships
    )
    order = np.argsort(tuple_colours, kind="stable")
    partition_order = np.argsort(partition_colours, kind="stable")
    new_offsets = _offsets(np.diff(offsets)[partition_order])
    recode = np.empty(offsets[-1], dtype=np.int64)
    for place, v in enumerate(partition_order):
        own = slice(offsets[v], offsets[v + 1])
        by_colour = np.argsort(cluster_colours[own], kind="stable")
        recode[own][by_colour] = np.arange(new_offsets[place], new_offsets[place + 1])
    rank = np.empty(len(order), dtype=inverse.dtype)
    rank[order] = np.arange(len(order), dtype=inverse.dtype)
    if memberships is None:
        no_shift = np.zeros(len(partition_order))
        lookup = recode.astype(codes.dtype)
        codes = recoded_rows(codes, order, partition_order, no_shift, lookup)
    else:
        # the slots of each row are sorted again; unused ones stay at the end
        unused = len(recode)
        columns = np.append(recode, unused)[codes[order]]
        by_column = np.argsort(columns, axis=1, kind="stable")
        columns = np.take_along_axis(columns, by_column, axis=1)
        codes = np.where(columns == unused, MISSING, columns).astype(codes.dtype)
        memberships = np.take_along_axis(memberships[order], by_column, axis=1)
    return LabelTuples(
        codes, new_offsets, weights[order], rank[inverse], partition_order, recode, memberships
    )


def order_colours(
    codes: AnyArray, offsets: Ints, weights: Floats, memberships: Floats | None = None
) -> tuple[Colours, Colours, Colours]:
    """Return the colours of tuples (u,), clusters (m,) and partitions (V,) by which to sort them.

    Tuples with equal colours after :func:`refine_colours` are interchangeable, except in rare
    cases. But the order of tied tuples must be consistent with the order of their clusters and
    partitions. So one of them gets a unique weight, and the colours are refined again, until all
    tuples have different colours.
    """
    whole = bool((weights == np.floor(weights)).all())
    seeds = weights.astype(np.uint64) if whole else weights.view(np.uint64).copy()
    # turn[a] is the step in which tuple a got a unique weight
    turn = np.full(len(codes), _MAX_SINGLED_OUT, dtype=np.uint64)
    shared = colours = refine_colours(codes, offsets, seeds, memberships)
    for step in range(_MAX_SINGLED_OUT if len(codes) <= _FEW_TUPLES else 0):
        values, members = np.unique(colours[0], return_counts=True)
        tied = np.flatnonzero(members > 1)
        if not len(tied):
            break
        chosen = int(np.argmax(colours[0] == values[tied[0]]))
        turn[chosen], seeds[chosen] = step, _SINGLED_OUT + np.uint64(step)
        colours = refine_colours(codes, offsets, seeds, memberships)
    if colours is shared:
        return colours

    def ranks(*keys: Colours) -> Colours:
        inverse = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1]
        return inverse.ravel().astype(np.uint64)

    # sort by the first colours; the later ones only break ties
    of_clusters, of_partitions = (ranks(shared[i], colours[i]) for i in (1, 2))
    return ranks(shared[0], turn, colours[0]), of_clusters, of_partitions


def refine_colours(
    codes: AnyArray, offsets: Ints, weights: Colours, memberships: Floats | None = None
) -> tuple[Colours, Colours, Colours]:
    """Compute colours of tuples (u,), clusters (m,) and partitions (V,) by colour refinement.

    First, the colour of a cluster is a hash of the weights of its tuples. Then every round computes
    the colours of tuples from those of their clusters, the colours of clusters from those of their
    tuples, and the colours of partitions from those of their clusters. Sets of colours are hashed
    by sums, which do not depend on the order. The rounds end when all tuples have different
    colours, or when a round adds no new colour. ``memberships`` (u, S) are compared bit by bit.
    """
    u, V = len(codes), len(offsets) - 1
    tuples = np.zeros(u, np.uint64)
    clusters = np.zeros(offsets[-1], np.uint64)
    partitions = np.zeros(V, np.uint64)
    partition_of = np.repeat(np.arange(V), np.diff(offsets))
    bits = None if memberships is None else memberships.view(np.uint64)
    kernels.colour_clusters(bits, codes, offsets, weights, tuples, clusters, partitions)
    previous = 0
    for _ in range(_MAX_ROUNDS):
        kernels.colour_tuples(bits, codes, partition_of, weights, clusters, partitions, tuples)
        kernels.colour_clusters(bits, codes, offsets, weights, tuples, clusters, partitions)
        n_colours = 1 + int(np.count_nonzero(np.diff(np.sort(tuples))))
        if n_colours in (previous, u):
            break
        previous = n_colours
    return tuples, clusters, partitions
