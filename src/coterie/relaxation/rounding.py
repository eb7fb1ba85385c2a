"""Rounding of a continuous factor F = H√D to labels, by pivoted QR or by k-means on its rows."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from scipy.linalg import qr
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from coterie.arrays import Floats, Ints
from coterie.labels.encode import renumber_by_appearance
from coterie.runtime.devices import map_row_blocks, on_one_thread
from coterie.runtime.messages import ignore_duplicate_points_warning
from coterie.runtime.sampling import draw_weighted_subsample

# Up to this many rows, one thread is faster than several.
_ONE_THREAD_UP_TO = 5_000
_SAMPLE = 20_000
_ROWS_PER_BLOCK = 1 << 13


def round_by_pivoted_qr(factor: Floats, weights: Floats | None = None) -> Ints:
    """Round by column-pivoted QR (Damle, Minden, Ying 2019): deterministic, without initial labels.

    A pivoted QR of Fᵀ selects K nearly orthogonal rows of the factor F (u, K), one for each
    cluster. The orthogonal matrix nearest to these rows rotates F so that each cluster is near an
    axis. The label of a row is the axis of its largest coordinate. Above 20,000 rows only the rows
    of largest weight can be pivots.
    """
    rows = factor
    if len(factor) > _SAMPLE:
        order = np.arange(len(factor)) if weights is None else np.argsort(-weights, kind="stable")
        rows = factor[order[:_SAMPLE]]
    _, pivots = qr(rows.T, mode="r", pivoting=True)
    left, _, right = np.linalg.svd(rows[pivots[: factor.shape[1]]])
    rotated = factor @ (left[:, : factor.shape[1]] @ right).T
    return renumber_by_appearance(np.abs(rotated, out=rotated).argmax(axis=1))


def round_by_kmeans(
    factor: Floats, weights: Floats, n_clusters: int, random_state: Any = None, n_init: int = 10
) -> Ints:
    """Round by weighted k-means on the rows of the factor F (u, K), the best of several starts.

    Above 20,000 rows k-means runs on a sample drawn by weight, and every row gets the label of the
    nearest centre.
    """
    rng = check_random_state(random_state)
    rows, sample_weight = factor, weights
    if len(factor) > _SAMPLE:
        chosen, sample_weight = draw_weighted_subsample(weights, _SAMPLE, rng)
        rows = factor[chosen]
    model = KMeans(n_clusters, n_init=n_init, random_state=rng)
    threads = on_one_thread() if len(rows) <= _ONE_THREAD_UP_TO else contextlib.nullcontext()
    with ignore_duplicate_points_warning(), threads:
        model.fit(rows, sample_weight=sample_weight)
    labels = model.labels_ if rows is factor else _nearest(factor, model.cluster_centers_)
    return renumber_by_appearance(labels)


def _nearest(rows: Floats, centres: Floats) -> Ints:
    """Return the index of the nearest centre of each row, computed by blocks of rows."""
    labels = np.empty(len(rows), dtype=np.int64)
    half_squares = (centres**2).sum(axis=1) / 2

    def assign(start: int, stop: int) -> None:
        for a in range(start, stop, _ROWS_PER_BLOCK):
            block = slice(a, min(a + _ROWS_PER_BLOCK, stop))
            # |x − c|² = |x|² − 2 (x·c − |c|²/2)
            labels[block] = (rows[block] @ centres.T - half_squares).argmax(axis=1)

    with on_one_thread():
        map_row_blocks(assign, len(rows), at_least=_ROWS_PER_BLOCK)
    return labels
