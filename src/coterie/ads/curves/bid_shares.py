"""Bid shares: the paper's c.d.f.s of wins and of cost by bid, of an advertiser and its segment.

For a bid b the win-rate c.d.f. is the share of all wins that had a bid of at most b, the eCPM-cost
c.d.f. their share of all cost. They differ by the Kolmogorov–Smirnov distance
D = max_b |F(b) − G(b)|.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.ads.histograms.stored_days import StoredDays, stored_wins

__all__ = ["BidShares"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_MICROS = 1_000_000


class BidShares:
    """The c.d.f.s of A advertisers and of their segments, on some bids.

    Parameters
    ----------
    stored : StoredDays
        The days of a model.
    labels : (A,) int array
        The segment of each advertiser; −1 is none, and then all advertisers take its place.
    grid : (P,) int array
        Bids in micros, at which the curves are given. The distance is over all bids.
    """

    def __init__(self, stored: StoredDays, labels: Indices, grid: Indices) -> None:
        self._own = stored_wins(stored, len(labels))
        self._labels, self._edges = labels, stored.edges
        self._shown = np.searchsorted(stored.edges, grid, side="right") - 1
        n_segments = int(labels.max(initial=-1)) + 1
        # a row for each segment, and the last for all advertisers
        member = sp.csr_array(
            (np.ones(len(labels)), (labels % (n_segments + 1), np.arange(len(labels)))),
            shape=(n_segments + 1, len(labels)),
        )
        self._segments = {}
        for name, own in self._own.items():
            by_segment = (member @ own).toarray()
            by_segment[-1] = own.sum(axis=0)
            self._segments[name] = _cumulative(by_segment)

    def of_segment(self, segment: int) -> dict[str, list[float]]:
        """Return the c.d.f.s of ``wins`` and ``cost`` of a segment, of all advertisers for −1."""
        return {name: self._at_grid(curves[segment]) for name, curves in self._segments.items()}

    def of_advertiser(self, row: int) -> dict[str, dict[str, Any]] | None:
        """Return those of an advertiser beside its segment; None if it has no wins or no cost.

        For ``wins`` and ``cost`` there are ``own``, (P,), the ``distance`` from the segment and
        the ``bid`` where the curves are so far apart.
        """
        found = {}
        for name, own in self._own.items():
            sums = own[[row]].toarray()
            if sums.sum() <= 0:
                return None
            curve = _cumulative(sums)[0]
            gaps = np.abs(curve - self._segments[name][self._labels[row]])
            found[name] = {
                "own": self._at_grid(curve),
                "distance": float(gaps.max()),
                "bid": float(self._edges[gaps.argmax()]) / _MICROS,
            }
        return found

    def _at_grid(self, curve: Floats) -> list[float]:
        return np.where(self._shown >= 0, curve[self._shown], 0.0).tolist()


def _cumulative(sums: Floats) -> Floats:
    """Return the cumulative share of each row, (R, G); 0 where the row has nothing."""
    total = sums.sum(axis=1, keepdims=True)
    shares = np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)
    return np.clip(np.cumsum(shares, axis=1), 0.0, 1.0)
