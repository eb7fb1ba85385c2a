"""An order of tuples, clusters and partitions that no reordering of the input changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.labels import tuple_kernels as kernels

__all__ = ["order_colours"]

_MOST_ROUNDS = 30
_FEW_TUPLES = 2_000
_MOST_SINGLED_OUT = 200
_SINGLED_OUT = np.uint64(0xD1B54A32D192ED03)


def order_colours(
    codes: NDArray[Any],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float64],
    memberships: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
    """Colours of tuples, clusters and partitions by which they are put in order.

    Colour refinement: a cluster's colour starts as the weights of its tuples; a partition's is
    the multiset of its clusters' colours, a tuple's that of the clusters it lies in, a cluster's
    again that of its tuples. Multisets are hashed by sums, which no order changes. Tuples that
    share a colour to the end are interchangeable but for rare coincidences; but which of them comes
    first must fit with which cluster and which partition does. So one of them is singled out, as
    if it had a weight of its own, and the colours spread again, until all tuples differ.
    """
    whole = bool((weights == np.floor(weights)).all())
    seeds = weights.astype(np.uint64) if whole else weights.view(np.uint64).copy()
    turn = np.full(len(codes), _MOST_SINGLED_OUT, dtype=np.uint64)
    shared = colours = kernels.refine_colours(codes, offsets, seeds, _MOST_ROUNDS, memberships)
    for step in range(_MOST_SINGLED_OUT if len(codes) <= _FEW_TUPLES else 0):
        values, members = np.unique(colours[0], return_counts=True)
        tied = np.flatnonzero(members > 1)
        if not len(tied):
            break
        chosen = int(np.argmax(colours[0] == values[tied[0]]))
        turn[chosen], seeds[chosen] = step, _SINGLED_OUT + np.uint64(step)
        colours = kernels.refine_colours(codes, offsets, seeds, _MOST_ROUNDS, memberships)
    if colours is shared:
        return colours
    return (
        _ranks(shared[0], turn, colours[0]),
        _ranks(shared[1], colours[1]),
        _ranks(shared[2], colours[2]),
    )


def _ranks(*keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Ranks by the first key, and by the next where that is equal."""
    ranks = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1]
    return ranks.ravel().astype(np.uint64)
