"""Plans of held-out days: the bids made on them, by advertisers that a model knows or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from coterie.ads.forecasts.plans import Plans, plans_of
from coterie.ads.histograms.bid_histograms import BidHistograms

__all__ = ["HeldOutPlans"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class HeldOutPlans:
    """The bids of the held-out days, of all advertisers and of those that are known.

    The model knows those of the training days, and other sources the representatives among them.
    """

    def __init__(
        self,
        histograms: BidHistograms,
        before: BidHistograms,
        held: list[int],
        texts: Mapping[str, str | None],
        representatives: NDArray[np.int64],
    ) -> None:
        self.plans = plans_of(histograms, held)
        self.n = len(histograms.advertisers)
        row = np.searchsorted(before.advertisers, histograms.advertisers)
        row = np.minimum(row, len(before.advertisers) - 1)
        self.is_known = before.advertisers[row] == histograms.advertisers
        place = np.full(len(before.advertisers), -1, dtype=np.int64)
        place[representatives] = np.arange(len(representatives))
        self._row, self._place = row, place[row]
        self.is_compared = self.is_known & (self._place >= 0)
        self.known_plans = self._numbered(self.is_known, row)
        self.compared_plans = self._numbered(self.is_compared, self._place)
        self.new_plans = self.plans.of_rows(~self.is_known)
        self._new_texts = [
            texts.get(str(histograms.advertisers[row])) or "" for row in self.new_plans.rows
        ]

    def new_blocks(self, size: int) -> Iterator[tuple[Plans, list[str]]]:
        """Yield the plans of new advertisers and their texts, at most ``size`` at a time."""
        rows = self.new_plans.rows
        for first in range(0, len(rows), size):
            chosen = np.zeros(self.n, dtype=bool)
            chosen[rows[first : first + size]] = True
            yield self.new_plans.of_rows(chosen), self._new_texts[first : first + size]

    def spread(self, pair: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """Return figures of representatives for all advertisers; 0 for the others."""
        of_all = [np.where(self.is_compared, part[self._place], 0.0) for part in pair]
        return of_all[0], of_all[1]

    def of_known(self, values: Floats) -> Floats:
        """Return values of the advertisers of the model for all of them; 0 for the others."""
        return np.where(self.is_known, values[self._row], 0.0)

    def _numbered(self, some: Mask, number: NDArray[np.int64]) -> Plans:
        """Return the plans of some advertisers, with other numbers of these."""
        plans = self.plans.of_rows(some)
        return replace(plans, rows=number[plans.rows])
