"""Brute force: every partition of a few points."""

from collections.abc import Iterator

import numpy as np


def all_partitions(n: int, most: int | None = None) -> Iterator[np.ndarray]:
    """Labels of every partition of n points into at most ``most`` clusters, as growth strings."""
    most = n if most is None else most

    def grow(prefix: list[int]) -> Iterator[np.ndarray]:
        if len(prefix) == n:
            yield np.array(prefix)
            return
        for label in range(min(max(prefix, default=-1) + 2, most)):
            yield from grow([*prefix, label])

    yield from grow([])
