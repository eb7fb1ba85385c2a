"""What a segment is like, in words: its name, its price level, its odd and doubtful members."""

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
#: An own curve further than this from its segment's, and further than chance, is an outlier's.
_FAR = 0.15
_BEYOND_CHANCE = 4.0
_ENOUGH = 10.0
_CERTAIN = 0.6


@dataclass(frozen=True)
class SegmentProfile:
    """One segment.

    Attributes
    ----------
    name : str
        Its telling words and its price level.
    words : list of str
    price_level : str
    median_price : float
        The bid, in micros, that wins half of its auctions; the last edge where none does.
    size : int
        Members, by their largest share.
    observations : float
        Bids of its members.
    """

    name: str
    words: list[str]
    price_level: str
    median_price: float
    size: int
    observations: float


def describe_segments(
    evidence: Evidence, memberships: Memberships, texts: Sequence[str]
) -> list[SegmentProfile]:
    """Name every segment, by the words that tell it apart and by what it pays.

    Parameters
    ----------
    evidence : Evidence
        Of A advertisers.
    memberships : Memberships
    texts : sequence of A str
        Empty where there is none.
    """
    labels = memberships.labels
    n_segments = memberships.shares.shape[1] - 1
    curves = segment_curves(evidence, memberships)[:-1]
    prices = np.array([_price_of_half(curve, evidence.edges) for curve in curves])
    levels = _price_levels(prices)
    from coterie.ads.segments.text_view import (
        characteristic_words,  # which needs scikit-learn, as profiles do not
    )

    words = characteristic_words(list(texts), labels, n=3) if any(texts) else [[]] * n_segments
    words = [*words, *[[]] * (n_segments - len(words))]
    profiles, taken = [], set[str]()
    for s in range(n_segments):
        name = _unlike(_name(words[s], levels[s], s), taken)
        taken.add(name)
        mine = labels == s
        profiles.append(
            SegmentProfile(
                name,
                list(words[s]),
                levels[s],
                float(prices[s]),
                int(mine.sum()),
                float(evidence.observations[mine].sum()),
            )
        )
    return profiles


def segment_curves(evidence: Evidence, memberships: Memberships) -> Floats:
    """W of every segment, and in the last row of all advertisers, (K + 1, G)."""
    trials = memberships.shares.T @ evidence.trials
    return win_curves(memberships.rates, trials + 1.0, evidence.form)


def outlying_members(evidence: Evidence, memberships: Memberships) -> NDArray[np.int64]:
    """Advertisers whose own curve is unlike their segment's, farthest first.

    In some bin the two must differ by more than a difference that matters, and by more than
    chance would: so many standard deviations of a curve with the advertiser's trials.
    """
    own = own_curves(evidence)
    expected = segment_curves(evidence, memberships)[memberships.labels]
    doubt = np.sqrt(win_variance(evidence, memberships.prior, 1.0))
    told = evidence.trials >= _ENOUGH
    distance = np.where(told, np.abs(own - expected), 0.0)
    distance[distance < _BEYOND_CHANCE * doubt] = 0.0
    farthest = distance.max(axis=1, initial=0.0)
    odd = np.flatnonzero(farthest > _FAR)
    return odd[np.argsort(-farthest[odd], kind="stable")]


def doubtful_members(memberships: Memberships, observations: Floats) -> NDArray[np.int64]:
    """Advertisers with bids that no segment has a clear claim to, most doubtful first."""
    most = memberships.shares[:, :-1].max(axis=1, initial=0.0)
    doubtful = np.flatnonzero((most < _CERTAIN) & (observations > 0))
    return doubtful[np.argsort(most[doubtful], kind="stable")]


def _price_of_half(curve: Floats, edges: NDArray[np.int64]) -> float:
    at = int(np.searchsorted(curve, 0.5))
    return float(edges[min(at, len(edges) - 1)])


def _price_levels(prices: Floats) -> list[str]:
    """Thirds of the segments by price; with one or two segments there is no middle."""
    if len(prices) == 1:
        return [_PRICE_LEVELS[1]]
    rank = np.argsort(np.argsort(prices, kind="stable"), kind="stable")
    third = rank * 3 // len(prices) if len(prices) > 2 else rank * 2
    return [_PRICE_LEVELS[level] for level in third]


def _name(words: Sequence[str], level: str, number: int) -> str:
    return f"{' '.join(words[:2]) if words else f'segment {number + 1}'}, {level}"


def _unlike(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    return next(f"{name} ({i})" for i in range(2, len(taken) + 3) if f"{name} ({i})" not in taken)
