"""Label matrices with a known answer: noisy copies of a planted partition beside wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from coterie.errors import InvalidParameterError

__all__ = ["planted_partitions"]


def planted_partitions(
    sizes: Sequence[int],
    n_partitions: int,
    n_bad: int,
    noise: float,
    bad_clusters: int | None = None,
    correlated: bool = True,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Plant a partition y of n = Σ sizes points and draw V partitions, some of them wrong.

    A good partition is y with each label redrawn, with probability ``noise``, uniformly from
    the K = len(sizes) labels. The last ``n_bad`` columns are wrong; they have nothing to do
    with y:

    * ``correlated``: noisy copies, in the same sense, of *one* wrong partition, whose labels
      are drawn uniformly from ``bad_clusters``. Wrong together, they look like evidence.
    * otherwise: labels drawn uniformly from ``bad_clusters``, independently for each column.

    Neither names nor order give anything away: the labels of each column are renamed at
    random, and the points come in random order.

    Parameters
    ----------
    sizes : sequence of K positive ints
        Cluster sizes of the planted partition.
    n_partitions : int
        V, good and bad together.
    n_bad : int
        How many of them are wrong, 0 to V.
    noise : float
        Probability that a label is redrawn, 0 to 1. (A redrawn label is the old one with
        probability 1/K, so a share ``noise``·(1 − 1/K) of the labels changes.)
    bad_clusters : int, optional
        Number of labels of the wrong partitions; K if not given.
    correlated : bool
        Whether the wrong partitions are wrong together.
    random_state : int, RandomState or None
        Seed of all draws.

    Returns
    -------
    P : (n, V) array of int32
        The partitions, wrong ones last.
    y : (n,) array of int32
        The planted partition, labels 0..K−1; ``sizes[k]`` points have label k.

    Examples
    --------
    >>> from coterie.inspection.scores import adjusted_rand_index
    >>> P, y = planted_partitions([40, 20], 3, n_bad=1, noise=0.0, random_state=0)
    >>> P.shape, [round(adjusted_rand_index(y, column), 1) for column in P.T]
    ((60, 3), [1.0, 1.0, 0.0])
    """
    sizes = _checked_sizes(sizes)
    _refuse_count("n_partitions", n_partitions, 1)
    _refuse_count("n_bad", n_bad, 0, n_partitions)
    _refuse_probability("noise", noise)
    if bad_clusters is None:
        bad_clusters = len(sizes)
    _refuse_count("bad_clusters", bad_clusters, 1)

    rng = check_random_state(random_state)
    y = rng.permutation(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
    wrong = rng.randint(bad_clusters, size=len(y), dtype=np.int32)
    P = np.empty((len(y), n_partitions), dtype=np.int32)
    for v in range(n_partitions):
        if v < n_partitions - n_bad:
            column, n_labels, rate = y, len(sizes), noise
        else:
            # independent wrong partitions are copies in which every label is redrawn
            column, n_labels, rate = wrong, bad_clusters, noise if correlated else 1.0
        P[:, v] = _renamed(_redrawn(column, n_labels, rate, rng), n_labels, rng)
    return P, y


def _redrawn(
    labels: NDArray[np.int32], n_labels: int, rate: float, rng: np.random.RandomState
) -> NDArray[np.int32]:
    """Labels of which each was, with probability ``rate``, drawn anew."""
    fresh = rng.randint(n_labels, size=len(labels), dtype=np.int32)
    return np.where(rng.random_sample(len(labels)) < rate, fresh, labels)


def _renamed(
    labels: NDArray[np.int32], n_labels: int, rng: np.random.RandomState
) -> NDArray[np.int32]:
    return rng.permutation(n_labels).astype(np.int32)[labels]


def _checked_sizes(sizes: Sequence[int]) -> list[int]:
    sizes = list(sizes)
    if not sizes:
        raise InvalidParameterError("sizes is empty; give the size of at least one cluster")
    for k, size in enumerate(sizes):
        _refuse_count(f"sizes[{k}]", size, 1)
    return sizes


def _refuse_count(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number in ``least..most``."""
    if isinstance(value, Integral) and least <= int(value) and (most is None or int(value) <= most):
        return
    upper = "" if most is None else f" and at most {most}"
    raise InvalidParameterError(
        f"{name} is {value!r}; it is a whole number, at least {least}{upper}"
    )


def _refuse_probability(name: str, value: object) -> None:
    if not (isinstance(value, Real) and 0 <= float(value) <= 1):
        raise InvalidParameterError(f"{name} is {value!r}; it is a probability, 0 to 1")
