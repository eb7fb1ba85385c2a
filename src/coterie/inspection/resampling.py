"""How a clustering varies with the sample: resampled ensembles, their c.d.f., ambiguous pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from coterie.ensembles.making import make_partitions
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import LabelTuples, as_label_tuples
from coterie.runtime.sampling import sample_multiplicities

__all__ = ["check_ks", "consensus_cdf", "proportion_of_ambiguous_pairs", "resampled_ensembles"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

_CELLS_A_BLOCK = 1 << 20


def resampled_ensembles(
    X: Any,
    ks: Iterable[int] = range(2, 11),
    n_resamples: int = 50,
    subsample: float = 0.8,
    *,
    clusterer: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> dict[int, NDArray[np.int32]]:
    """Cluster samples of the rows of X into k clusters, many times for each k.

    Parameters
    ----------
    X : (n, p) array or sparse matrix
    ks : iterable of int, from 2 up
    n_resamples : int
        Samples for each k.
    subsample : float in (0, 1]
        The share of the rows in a sample; the others get −1.
    clusterer : scikit-learn clusterer, optional
        By default k-means, the best of five starts: what varies should be the sample, not
        the luck of the start.
    n_jobs : int, optional
    random_state : int, RandomState, Generator or None
        With the same seed the samples are the same for every k.

    Returns
    -------
    dict of k to (n, n_resamples) int32 array
        What :func:`choose_k` takes.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> ensembles = resampled_ensembles(X, [2, 3], n_resamples=20, random_state=0)
    >>> [proportion_of_ambiguous_pairs(ensembles[k]) > 0 for k in (2, 3)]
    [False, True]
    """
    return {
        k: make_partitions(
            X,
            k,
            n_resamples,
            strategy="subsample",
            clusterer=KMeans(n_init=5) if clusterer is None else clusterer,
            subsample=subsample,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        for k in check_ks(ks).tolist()
    }


def consensus_cdf(P: Any, n_bins: int = 100, *, max_points: int = 5_000) -> tuple[Array, Array]:
    """How the co-association of pairs of points is distributed.

    With M_ij = times i and j were together / times both were drawn,

        CDF(x) = #{i < j : M_ij ≤ x} / #{i < j},

    over the pairs that were drawn together at all. A clustering that does not vary with the
    sample has a step at 0 and one at 1, and is flat between.

    Parameters
    ----------
    P : (n, V) labels, −1 where a point was not drawn
    n_bins : int
        The c.d.f. is given at x = 0, 1/n_bins, …, 1.
    max_points : int
        Of more points, a random sample of this size is looked at.

    Returns
    -------
    x, cdf : (n_bins + 1,) arrays
        The c.d.f. is nan where no two points were ever drawn together.

    Examples
    --------
    >>> x, cdf = consensus_cdf([[0, 0], [0, 1], [1, -1]], n_bins=2)
    >>> cdf.round(2).tolist()
    [0.67, 1.0, 1.0]
    """
    _check_count("n_bins", n_bins, 1)
    # quotients of whole numbers, like M: equal ones are equal to the last bit
    x = np.arange(n_bins + 1) / n_bins
    counts = np.zeros(n_bins + 1)
    for shares, weights in _pair_blocks(as_label_tuples(P), max_points):
        counts += np.bincount(np.searchsorted(x, shares), weights, n_bins + 1)
    return x, np.cumsum(counts) / (counts.sum() or np.nan)


def proportion_of_ambiguous_pairs(
    P: Any, low: float = 0.1, high: float = 0.9, *, max_points: int = 5_000
) -> float:
    """PAC: the share of pairs of points with low < M_ij < high, M as in :func:`consensus_cdf`.

    Only meaningful where P holds partitions of samples of the points, all with the same
    number of clusters: see :func:`choose_k`.

    Examples
    --------
    >>> proportion_of_ambiguous_pairs([[0, 0], [0, 1], [1, 1], [1, 1]])
    0.5
    """
    if not 0 <= low < high <= 1:
        raise InvalidParameterError(f"low={low}, high={high}: give 0 ≤ low < high ≤ 1")
    ambiguous = total = 0.0
    for shares, weights in _pair_blocks(as_label_tuples(P), max_points):
        ambiguous += float(weights[(shares > low) & (shares < high)].sum())
        total += float(weights.sum())
    return ambiguous / (total or np.nan)


def check_ks(ks: Any, n_points: int | None = None) -> Counts:
    """The K to compare, each once, rising; whole numbers from 2 up to the number of points.

    >>> check_ks([3, 2, 3])
    array([2, 3])
    """
    given = list(ks) if isinstance(ks, Iterable) else [ks]
    if not given:
        raise InvalidParameterError("ks is empty; give the numbers of clusters to compare")
    for k in given:
        _check_count("ks", k, 2)
        if n_points is not None and k > n_points:
            raise InvalidParameterError(
                f"ks has {k}, more than the {n_points} points there are; ask for fewer clusters"
            )
    return np.unique(np.array(given, dtype=np.int64))


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidParameterError(f"{name} has {value!r}: give whole numbers from {least} up")


def _pair_blocks(tuples: LabelTuples, max_points: int) -> Iterator[tuple[Array, Array]]:
    """M of the pairs of distinct points, in blocks, and how many pairs have the same tuples.

    Counts of labels are products of the 0/1 matrices Z (u, m) of clusters and B (u, V) of
    drawings; small whole numbers, so single precision is exact. Memberships of soft partitions
    take their place in double precision.
    """
    _check_count("max_points", max_points, 2)
    times = sample_multiplicities(tuples.weights, max_points, random_state=0)
    kept, times = tuples.subset(times > 0), times[times > 0]
    Z = kept.indicator(np.ones(kept.n_partitions, dtype=np.float32)).toarray()
    drawn = kept.mass.astype(Z.dtype)
    rows = max(1, _CELLS_A_BLOCK // len(Z))
    for start in range(0, len(Z), rows):
        block, here = slice(start, start + rows), slice(start, None)
        both = drawn[block] @ drawn[here].T
        pairs = np.outer(times[block], times[here])
        # each pair once: inside the block both (a, b) and (b, a) are met
        pairs[:, : len(both)] /= 2
        own = np.arange(len(both))
        pairs[own, own] = times[block] * (times[block] - 1) / 2
        known = (both > 0) & (pairs > 0)
        same = (Z[block] @ Z[here].T)[known].astype(np.float64)
        yield np.minimum(same / both[known], 1.0), pairs[known]
