"""Stability: how much a clustering changes when the points are resampled (Monti et al. 2003)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from coterie.arrays import AnyArray, Floats, Ints
from coterie.ensembles.generate import make_partitions
from coterie.ensembles.input_checks import check_whole
from coterie.errors import InvalidLabelsError, InvalidParameterError
from coterie.labels.tuples import LabelTuples, as_label_tuples
from coterie.runtime.sampling import sample_multiplicities

_CELLS_A_BLOCK = 1 << 20
#: K is stable if its ratio of ambiguous pairs exceeds the smallest ratio by at most this …
_STABLE_WITHIN = 0.1
#: … and the smallest ratio is at most this.
_UNSTABLE_ABOVE = 0.25


def resampled_ensembles(
    X: Any,
    ks: Iterable[int] = range(2, 11),
    n_resamples: int = 50,
    subsample: float = 0.8,
    *,
    ensemble: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> dict[int, AnyArray]:
    """Cluster random samples of the rows of X into k clusters, many times for each k.

    Parameters
    ----------
    X : (n, p) array or sparse matrix
    ks : iterable of int
        Numbers of clusters, each at least 2.
    n_resamples : int
        Number of samples for each k.
    subsample : float in (0, 1]
        Share of the rows in a sample; the other rows get the label −1.
    ensemble : name, scikit-learn clusterer or sequence of these, optional
        As in :func:`~coterie.make_partitions`. Several cluster the same samples in turn. By
        default k-means with the best of five starts, so that the labels vary with the sample
        rather than with the start.
    n_jobs : int, optional
    random_state : int, RandomState, Generator or None
        With a fixed seed every k gets the same samples.

    Returns
    -------
    dict of k to (n, n_resamples) array, as of :func:`~coterie.make_partitions`
        Input for :func:`~coterie.choose_k`.

    Examples
    --------
    >>> X = np.append(np.linspace(0, 1, 12), np.linspace(5, 6, 12))[:, None]
    >>> ensembles = resampled_ensembles(X, [2, 3], n_resamples=20, random_state=0)
    >>> [proportion_of_ambiguous_pairs(ensembles[k]) > 0 for k in (2, 3)]
    [False, True]
    """
    return {
        k: make_partitions(
            X,
            k,
            n_resamples,
            ensemble=KMeans(n_init=5) if ensemble is None else ensemble,
            subsample=subsample,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        for k in check_ks(ks).tolist()
    }


def consensus_cdf(P: Any, n_bins: int = 100, *, max_points: int = 5_000) -> tuple[Floats, Floats]:
    """Compute the cumulative distribution of the co-association of pairs of points.

    With M_ij = times i and j were together / times both were drawn,

        CDF(x) = #{i < j : M_ij ≤ x} / #{i < j},

    over the pairs that were drawn together at least once. The CDF of a clustering that does not
    change with the sample has steps at 0 and 1 only. P (n, V) is −1 where a point was not drawn;
    of more than ``max_points`` points a random sample is used. The result is x = 0, 1/n_bins, …, 1
    and the CDF there, which is nan if no two points were drawn together.

    >>> x, cdf = consensus_cdf([[0, 0], [0, 1], [1, -1]], n_bins=2)
    >>> cdf.round(2).tolist()
    [0.67, 1.0, 1.0]
    """
    check_whole("n_bins", n_bins)
    # bin edges are quotients of integers, like M, so that equal values compare as equal
    x = np.arange(n_bins + 1) / n_bins
    counts = np.zeros(n_bins + 1)
    for shares, weights in _pair_blocks(as_label_tuples(P), max_points):
        counts += np.bincount(np.searchsorted(x, shares), weights, n_bins + 1)
    return x, np.cumsum(counts) / (counts.sum() or np.nan)


def proportion_of_ambiguous_pairs(
    P: Any, low: float = 0.1, high: float = 0.9, *, max_points: int = 5_000
) -> float:
    """Compute PAC: the share of pairs with low < M_ij < high, M as in :func:`consensus_cdf`.

    PAC is meaningful only if P holds partitions of samples of the points, all with the same
    number of clusters: see :func:`~coterie.choose_k`.

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


def stability_measures(ensembles: Mapping[int, LabelTuples], ks: Ints) -> dict[str, Floats]:
    """Compute PAC, the area under the CDF and its growth for each K; nan without an ensemble."""
    pac, area = np.full((2, len(ks)), np.nan)
    for i, k in enumerate(ks.tolist()):
        if k in ensembles:
            pac[i] = proportion_of_ambiguous_pairs(ensembles[k])
            area[i] = consensus_cdf(ensembles[k])[1][1:].mean()
    return {"pac": pac, "cdf_area": area, "delta_area": area_growth(area)}


def area_growth(area: Floats) -> Floats:
    """Compute Δ(K): how much the area under the CDF exceeds the largest area of smaller K.

    The growth is relative to that largest area; the first value is the area itself. nan areas are
    left out.
    """
    reached = np.fmax.accumulate(np.append(0.0, area[:-1]))
    return np.divide(area - reached, reached, out=area.copy(), where=reached > 0)


def stable_ks(ks: Ints, pac: Floats, cdf_area: Floats) -> Ints:
    """Return the K whose clusters are the same in nearly every sample."""
    # the area above the CDF is the mean of M: the share of pairs that are together
    together = np.where(cdf_area < 1, 1 - cdf_area, np.nan)
    ratio = pac / together
    least = np.nanmin(ratio, initial=np.inf)
    return ks[(ratio <= least + _STABLE_WITHIN) & (least <= _UNSTABLE_ABOVE)]


def ensembles_by_k(ensembles: Any, read: Callable[[Any], Any] = as_label_tuples) -> dict[int, Any]:
    """Return the labels of the ensemble of each K as they are ``read``, in rising order of K."""
    if not isinstance(ensembles, Mapping):
        raise InvalidParameterError(
            f"ensembles is of type {type(ensembles).__name__}; give a mapping of K to labels, as "
            "made by coterie.inspection.stability.resampled_ensembles"
        )
    labels = {k: read(ensembles[k]) for k in check_ks(ensembles).tolist()}
    sizes = {k: each.n_points for k, each in labels.items()}
    if len(set(sizes.values())) > 1:
        given = ", ".join(f"K={k}: {size}" for k, size in sizes.items())
        raise InvalidLabelsError(
            f"the ensembles have different numbers of points ({given}); all must label the same "
            "points, with −1 for points not drawn"
        )
    return labels


def check_ks(ks: Any, n_points: int | None = None) -> Ints:
    """Return the distinct K in rising order; refuse K below 2 or above the number of points."""
    given = list(ks) if isinstance(ks, Iterable) else [ks]
    if not given:
        raise InvalidParameterError("ks is empty; give the numbers of clusters to compare")
    for k in given:
        check_whole("ks", k, 2)
        if n_points is not None and k > n_points:
            raise InvalidParameterError(
                f"ks has {k}, more than the number of points ({n_points}); give smaller numbers"
            )
    return np.unique(np.array(given, dtype=np.int64))


def _pair_blocks(tuples: LabelTuples, max_points: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield M of blocks of pairs of tuples, and the number of pairs of points that have it.

    The counts are products of the indicator matrices Z (u, m) of clusters and B (u, V) of
    drawn points. They are small integers, so single precision is exact. Soft partitions use
    memberships in double precision instead.
    """
    check_whole("max_points", max_points, 2)
    times = sample_multiplicities(tuples.weights, max_points, random_state=0)
    kept, times = tuples.subset(times > 0), times[times > 0]
    Z = kept.indicator(np.ones(kept.n_partitions, dtype=np.float32)).toarray()
    drawn = kept.mass.astype(Z.dtype)
    rows = max(1, _CELLS_A_BLOCK // len(Z))
    for start in range(0, len(Z), rows):
        block, rest = slice(start, start + rows), slice(start, None)
        both = drawn[block] @ drawn[rest].T
        pairs = np.outer(times[block], times[rest])
        # inside the block every pair appears twice, as (a, b) and (b, a)
        pairs[:, : len(both)] /= 2
        diagonal = np.arange(len(both))
        pairs[diagonal, diagonal] = times[block] * (times[block] - 1) / 2
        known = (both > 0) & (pairs > 0)
        same = (Z[block] @ Z[rest].T)[known].astype(np.float64)
        yield np.minimum(same / both[known], 1.0), pairs[known]
