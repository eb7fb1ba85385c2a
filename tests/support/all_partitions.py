"""Brute force: every partition of a few points, and the objective by its definition."""

from collections.abc import Iterator

import numpy as np


def all_partitions(n: int, most: int | None = None) -> Iterator[np.ndarray]:
    """Yield the labels of every partition of n points into at most ``most`` clusters."""
    most = n if most is None else most

    def grow(prefix: list[int]) -> Iterator[np.ndarray]:
        if len(prefix) == n:
            yield np.array(prefix)
            return
        for label in range(min(max(prefix, default=-1) + 2, most)):
            yield from grow([*prefix, label])

    yield from grow([])


def dense_objectives(P: np.ndarray, labellings: np.ndarray) -> np.ndarray:
    """Return J of many labellings (c, n) of the points of P (n, V), −1 missing, from all pairs."""
    present = (P[:, None] >= 0) & (P[None] >= 0)
    together = (present & (P[:, None] == P[None])).mean(axis=2)
    apart = present.mean(axis=2) - together
    same = labellings[:, :, None] == labellings[:, None, :]
    return np.where(same, apart, together).sum(axis=(1, 2))


def least_objective(P: np.ndarray, most: int | None = None) -> float:
    """Return the smallest J over all partitions into at most ``most`` clusters."""
    return float(dense_objectives(P, np.array(list(all_partitions(len(P), most)))).min())


def all_single_moves(labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return every labelling that differs in one point, (c, n)."""
    moved = np.repeat(labels[None], len(labels) * n_clusters, axis=0)
    row = np.arange(len(moved))
    moved[row, row // n_clusters] = row % n_clusters
    return moved


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two labellings differ only in names."""
    return bool(((a[:, None] == a) == (b[:, None] == b)).all())
