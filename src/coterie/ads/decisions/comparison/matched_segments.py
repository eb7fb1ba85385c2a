"""Matched segments: which segments of one model correspond to which of another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.forecasts.fitted_market import FittedMarket

__all__ = ["MatchedSegments", "match_segments", "segments_of"]

Labels = NDArray[np.int64]


class MatchedSegments(NamedTuple):
    """Segments of A advertisers before and after, (A,) each, −1 for none."""

    names: list[str]  # after
    names_before: list[str]
    after: Labels
    before: Labels
    expected: Labels  # the segment after that corresponds to the one before
    adjusted_rand: float | None  # None for one model

    @property
    def groups(self) -> Labels:
        """The segment after of each advertiser, or what corresponds to the one before."""
        return np.where(self.after >= 0, self.after, self.expected)

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Whether an advertiser of both models is not where its former segment is now."""
        return (self.after >= 0) & (self.before >= 0) & (self.after != self.expected)


def segments_of(model: FittedMarket) -> MatchedSegments:
    """Return the segments of one model, which are the same before and after."""
    names, labels = _names(model), model.labels_.astype(np.int64)
    return MatchedSegments(names, names, labels, labels, labels, None)


def match_segments(
    before: FittedMarket, after: FittedMarket, advertisers: NDArray[Any]
) -> MatchedSegments:
    """Match the segments of two models one to one, with the most advertisers in common."""
    # imported here because scipy.optimize is slow to import
    from scipy.optimize import linear_sum_assignment

    from coterie.inspection.scores import adjusted_rand_index

    first, last = (_labels_of(model, advertisers) for model in (before, after))
    names = _names(before), _names(after)
    both = (first >= 0) & (last >= 0)
    common = np.zeros((len(names[0]), len(names[1])))
    np.add.at(common, (first[both], last[both]), 1.0)
    # the last entry is for advertisers without a segment, whose label is −1
    match = np.full(len(names[0]) + 1, -1)
    of_before, of_after = linear_sum_assignment(-common)
    match[of_before] = np.where(common[of_before, of_after] > 0, of_after, -1)
    agreement = adjusted_rand_index(first[both], last[both]) if both.any() else None
    return MatchedSegments(names[1], names[0], last, first, match[first], agreement)


def _names(model: FittedMarket) -> list[str]:
    return [profile.name for profile in model.segments_]


def _labels_of(model: FittedMarket, advertisers: NDArray[Any]) -> Labels:
    """Return the segment of each of some advertisers, −1 for one that the model has not."""
    known = model.advertisers_
    place = np.minimum(np.searchsorted(known, advertisers), len(known) - 1)
    return np.where(known[place] == advertisers, model.labels_[place], -1).astype(np.int64)
