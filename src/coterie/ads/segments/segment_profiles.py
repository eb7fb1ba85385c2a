"""Segment profiles: names, price levels, outliers and uncertain members of segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence, own_curves, win_curves
from coterie.ads.curves.pooling import win_variance
from coterie.ads.segments.memberships import Memberships

__all__ = [
    "SegmentProfile",
    "bid_that_wins_half",
    "describe_segments",
    "distances_from_segments",
    "doubtful_members",
    "outlying_members",
    "segment_curves",
    "segment_words",
]

Floats = NDArray[np.float64]

_PRICE_LEVELS = ("low price", "medium price", "high price")
#: In some bin, the curve of an outlier differs from that of its segment by more than this distance
#: and this many standard deviations; the bin has at least this many trials.
_LEAST_DISTANCE = 0.15
_LEAST_DEVIATIONS = 4.0
_FEWEST_TRIALS = 10.0
#: The largest share of an uncertain member is below this.
_CERTAIN = 0.6


@dataclass(frozen=True)
class SegmentProfile:
    """Profile of a segment."""

    name: str  # its characteristic words and its price level
    words: list[str]
    price_level: str
    median_price: float  # the bid in micros that wins half of its auctions, or the last edge
    size: int  # number of members; a member has its largest share in the segment
    observations: float  # number of bids of its members


def describe_segments(
    curves: Floats,
    edges: NDArray[np.int64],
    labels: NDArray[np.int64],
    observations: Floats,
    words: Sequence[list[str]],
) -> list[SegmentProfile]:
    """Describe every segment by its characteristic words and its price level.

    Parameters
    ----------
    curves : (K, G) array
        Win rates of a new advertiser of each segment at the bids ``edges``.
    edges : (G,) array
        Bids in micros.
    labels, observations : (A,) arrays
        Segment of each advertiser, −1 for none, and the number of its bids.
    words : K lists of str
        From :func:`segment_words`.
    """
    K, inside = len(curves), labels >= 0
    sizes = np.bincount(labels[inside], minlength=K)
    bids = np.bincount(labels[inside], observations[inside], K)
    prices = [bid_that_wins_half(curve, edges) for curve in curves]
    levels = _price_levels(np.array(prices))
    profiles, names = [], set[str]()
    for s in range(K):
        subject = " ".join(words[s][:2]) if words[s] else f"segment {s + 1}"
        name = _distinct_name(f"{subject}, {levels[s]}", names)
        names.add(name)
        size, number = int(sizes[s]), float(bids[s])
        profiles.append(SegmentProfile(name, words[s], levels[s], prices[s], size, number))
    return profiles


def segment_words(texts: Sequence[str], labels: NDArray[np.int64], K: int) -> list[list[str]]:
    """Return up to three characteristic words of each segment; none where there are no texts."""
    # imported here because it needs scikit-learn, which reading a profile does not
    from coterie.ads.segments.text_view import characteristic_words

    words = characteristic_words(list(texts), labels, n=3) if any(texts) else []
    return [list(words[s]) if s < len(words) else [] for s in range(K)]


def bid_that_wins_half(curve: Floats, edges: NDArray[np.int64]) -> float:
    """Return the first edge at which a curve reaches one half, or else the last edge."""
    at = int(np.searchsorted(curve, 0.5))
    return float(edges[min(at, len(edges) - 1)])


def segment_curves(evidence: Evidence, memberships: Memberships) -> Floats:
    """Compute W of every segment and, in the last row, of all advertisers, (K + 1, G)."""
    trials = memberships.shares.T @ evidence.trials
    return win_curves(memberships.rates, trials + 1.0, evidence.form)


def distances_from_segments(evidence: Evidence, memberships: Memberships, curves: Floats) -> Floats:
    """Return the distance of each advertiser's own curve from that of its segment, (A,).

    ``curves`` are those of :func:`segment_curves`, perhaps of other advertisers. Only differences
    above four standard deviations of a curve with the advertiser's trials count.
    """
    own = own_curves(evidence)
    deviation = np.sqrt(win_variance(evidence, memberships.prior, 1.0))
    difference = np.abs(own - curves[memberships.labels])
    distance = np.where(evidence.trials >= _FEWEST_TRIALS, difference, 0.0)
    distance[distance < _LEAST_DEVIATIONS * deviation] = 0.0
    return np.asarray(distance.max(axis=1, initial=0.0))


def outlying_members(distances: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the advertisers farther than 0.15 from their segment, the farthest first, and how far.

    ``distances`` (A,) are those of :func:`distances_from_segments`.
    """
    outliers = np.flatnonzero(distances > _LEAST_DISTANCE)
    outliers = outliers[np.argsort(-distances[outliers], kind="stable")]
    return outliers, distances[outliers]


def doubtful_members(memberships: Memberships, observations: Floats) -> NDArray[np.int64]:
    """Return the advertisers with bids whose largest share is small, the smallest first."""
    most = memberships.shares[:, :-1].max(axis=1, initial=0.0)
    doubtful = np.flatnonzero((most < _CERTAIN) & (observations > 0))
    return doubtful[np.argsort(most[doubtful], kind="stable")]


def _price_levels(prices: Floats) -> list[str]:
    """Divide the segments into thirds by price; two segments are low and high."""
    if len(prices) == 1:
        return [_PRICE_LEVELS[1]]
    rank = np.argsort(np.argsort(prices, kind="stable"), kind="stable")
    third = rank * 3 // len(prices) if len(prices) > 2 else rank * 2
    return [_PRICE_LEVELS[level] for level in third]


def _distinct_name(name: str, names: set[str]) -> str:
    if name not in names:
        return name
    return next(f"{name} ({i})" for i in range(2, len(names) + 3) if f"{name} ({i})" not in names)
