"""Colours of tuples, clusters and partitions, by which they are sorted.

Colours are 64-bit hashes that depend neither on the order of points and partitions nor on label
names. ``codes[a, v]`` is the indicator column of tuple a in partition v, −1 if the label is
missing; for soft partitions ``codes[a]`` holds the columns of S slots, −1 if a slot is unused, and
``memberships[a]`` the memberships in these slots.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coterie.labels.kernels as kernels

__all__ = ["order_colours", "refine_colours"]

Array = NDArray[np.float64]
Colours = NDArray[np.uint64]

_SINGLED_OUT = np.uint64(0xD1B54A32D192ED03)
_MAX_ROUNDS = 30
#: Ties are broken one by one only up to this number of tuples, and this number of times.
_FEW_TUPLES = 2_000
_MAX_SINGLED_OUT = 200


def order_colours(
    codes: NDArray[Any],
    offsets: NDArray[np.int64],
    weights: Array,
    memberships: Array | None = None,
) -> tuple[Colours, Colours, Colours]:
    """Return the colours of tuples, clusters and partitions by which they are sorted.

    Tuples with equal colours after :func:`refine_colours` are interchangeable, except in rare
    cases. But the order of tied tuples must be consistent with the order of their clusters and
    partitions. So one of them gets a unique weight, and the colours are refined again. This is
    repeated until all tuples have different colours.
    """
    whole = bool((weights == np.floor(weights)).all())
    seeds = weights.astype(np.uint64) if whole else weights.view(np.uint64).copy()
    # turn[a] is the step in which tuple a got a unique weight
    turn = np.full(len(codes), _MAX_SINGLED_OUT, dtype=np.uint64)
    shared = colours = refine_colours(codes, offsets, seeds, _MAX_ROUNDS, memberships)
    for step in range(_MAX_SINGLED_OUT if len(codes) <= _FEW_TUPLES else 0):
        values, members = np.unique(colours[0], return_counts=True)
        tied = np.flatnonzero(members > 1)
        if not len(tied):
            break
        chosen = int(np.argmax(colours[0] == values[tied[0]]))
        turn[chosen], seeds[chosen] = step, _SINGLED_OUT + np.uint64(step)
        colours = refine_colours(codes, offsets, seeds, _MAX_ROUNDS, memberships)
    if colours is shared:
        return colours
    # sort by the first colours; the later ones only break ties
    return (
        _ranks(shared[0], turn, colours[0]),
        _ranks(shared[1], colours[1]),
        _ranks(shared[2], colours[2]),
    )


def refine_colours(
    codes: NDArray[Any],
    offsets: NDArray[np.int64],
    weights: Colours,
    max_rounds: int,
    memberships: Array | None = None,
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
    colour_tuples: Callable[..., None] = kernels.colour_tuples
    colour_clusters: Callable[..., None] = kernels.colour_clusters
    if memberships is not None:
        bits = memberships.view(np.uint64)
        partition_of = np.repeat(np.arange(V), np.diff(offsets))
        colour_tuples = partial(kernels.colour_soft_tuples, bits, partition_of)
        colour_clusters = partial(kernels.colour_soft_clusters, bits)
    colour_clusters(codes, offsets, weights, tuples, clusters, partitions)
    previous = 0
    for _ in range(max_rounds):
        colour_tuples(codes, weights, clusters, partitions, tuples)
        colour_clusters(codes, offsets, weights, tuples, clusters, partitions)
        n_colours = 1 + int(np.count_nonzero(np.diff(np.sort(tuples))))
        if n_colours in (previous, u):
            break
        previous = n_colours
    return tuples, clusters, partitions


def _ranks(*keys: Colours) -> Colours:
    """Return the rank of each item by the first key; later keys break ties."""
    ranks = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1]
    return ranks.ravel().astype(np.uint64)
