"""Segment profiles: names, price levels, outliers and uncertain members of segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence, own_curves, win_curves
from coterie.ads.curves.pooling import win_variance
from coterie.ads.segments.memberships import Memberships

__all__ = ["SegmentProfile", "describe_segments", "doubtful_members", "outlying_members"]

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
    evidence: Evidence, memberships: Memberships, texts: Sequence[str]
) -> list[SegmentProfile]:
    """Describe every segment by its characteristic words and its price level.

    ``texts`` has one text per advertiser, empty if there is none.
    """
    # imported here because it needs scikit-learn, which reading a profile does not
    from coterie.ads.segments.text_view import characteristic_words

    labels = memberships.labels
    n_segments = memberships.shares.shape[1] - 1
    curves = segment_curves(evidence, memberships)[:-1]
    prices = np.array([_bid_that_wins_half(curve, evidence.edges) for curve in curves])
    levels = _price_levels(prices)
    words = characteristic_words(list(texts), labels, n=3) if any(texts) else [[]] * n_segments
    words = [*words, *[[]] * (n_segments - len(words))]
    profiles, names = [], set[str]()
    for s in range(n_segments):
        subject = " ".join(words[s][:2]) if words[s] else f"segment {s + 1}"
        name = _distinct_name(f"{subject}, {levels[s]}", names)
        names.add(name)
        mine = labels == s
        size, observations = int(mine.sum()), float(evidence.observations[mine].sum())
        price = float(prices[s])
        profiles.append(SegmentProfile(name, list(words[s]), levels[s], price, size, observations))
    return profiles


def segment_curves(evidence: Evidence, memberships: Memberships) -> Floats:
    """Compute W of every segment and, in the last row, of all advertisers, (K + 1, G)."""
    trials = memberships.shares.T @ evidence.trials
    return win_curves(memberships.rates, trials + 1.0, evidence.form)


def outlying_members(
    evidence: Evidence, memberships: Memberships
) -> tuple[NDArray[np.int64], Floats]:
    """Return the advertisers whose own curve differs from their segment's, and by how much.

    The farthest is first. The difference in some bin must be above 0.15, and above four standard
    deviations of a curve with the advertiser's trials.
    """
    own = own_curves(evidence)
    expected = segment_curves(evidence, memberships)[memberships.labels]
    deviation = np.sqrt(win_variance(evidence, memberships.prior, 1.0))
    distance = np.where(evidence.trials >= _FEWEST_TRIALS, np.abs(own - expected), 0.0)
    distance[distance < _LEAST_DEVIATIONS * deviation] = 0.0
    farthest = distance.max(axis=1, initial=0.0)
    outliers = np.flatnonzero(farthest > _LEAST_DISTANCE)
    outliers = outliers[np.argsort(-farthest[outliers], kind="stable")]
    return outliers, farthest[outliers]


def doubtful_members(memberships: Memberships, observations: Floats) -> NDArray[np.int64]:
    """Return the advertisers with bids whose largest share is small, the smallest first."""
    most = memberships.shares[:, :-1].max(axis=1, initial=0.0)
    doubtful = np.flatnonzero((most < _CERTAIN) & (observations > 0))
    return doubtful[np.argsort(most[doubtful], kind="stable")]


def _bid_that_wins_half(curve: Floats, edges: NDArray[np.int64]) -> float:
    at = int(np.searchsorted(curve, 0.5))
    return float(edges[min(at, len(edges) - 1)])


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
