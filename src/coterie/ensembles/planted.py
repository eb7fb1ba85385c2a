"""Label matrices with a known solution: noisy copies of a planted partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from coterie.ensembles.input_checks import check_number, check_whole
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
    """Draw a random partition y of n = Σ sizes points and V partitions, good and wrong ones.

    A good partition is a noisy copy of y: with probability ``noise`` a label is redrawn uniformly
    from the K = len(sizes) labels. The last ``n_bad`` columns are wrong, that is, independent of y:

    * ``correlated=True``: noisy copies of one wrong partition, whose labels are drawn uniformly
      from ``bad_clusters`` labels. They agree with each other, but not with y.
    * ``correlated=False``: labels drawn uniformly from ``bad_clusters``, anew for each column.

    The labels of each column are renamed at random, and the points are in random order.

    Parameters
    ----------
    sizes : sequence of K positive ints
        Cluster sizes of the planted partition.
    n_partitions : int
        V, the number of good and wrong partitions together.
    n_bad : int
        Number of wrong partitions, 0 to V.
    noise : float
        Probability that a label is redrawn, 0 to 1. A redrawn label equals the old one with
        probability 1/K, so a share ``noise``·(1 − 1/K) of the labels changes.
    bad_clusters : int, optional
        Number of labels of the wrong partitions; K by default.
    correlated : bool
        Whether the wrong partitions agree with each other.
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
    sizes = [check_whole(f"sizes[{k}]", size) for k, size in enumerate(sizes)]
    if not sizes:
        raise InvalidParameterError("sizes is empty; give the size of at least one cluster")
    check_whole("n_partitions", n_partitions)
    check_whole("n_bad", n_bad, 0, n_partitions)
    check_number("noise", noise, 0.0, or_equal=True, most=1.0)
    if bad_clusters is None:
        bad_clusters = len(sizes)
    check_whole("bad_clusters", bad_clusters)

    rng = check_random_state(random_state)
    y = rng.permutation(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
    wrong = rng.randint(bad_clusters, size=len(y), dtype=np.int32)
    P = np.empty((len(y), n_partitions), dtype=np.int32)
    for v in range(n_partitions):
        if v < n_partitions - n_bad:
            column, n_labels, rate = y, len(sizes), noise
        else:
            # Redrawing every label makes the wrong partitions independent of each other.
            column, n_labels, rate = wrong, bad_clusters, noise if correlated else 1.0
        redrawn = rng.randint(n_labels, size=len(y), dtype=np.int32)
        labels = np.where(rng.random_sample(len(y)) < rate, redrawn, column)
        P[:, v] = rng.permutation(n_labels).astype(np.int32)[labels]
    return P, y
