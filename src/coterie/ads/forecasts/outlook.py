"""Outlook: one advertiser on some days, ready to be asked for figures at any bid."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.ads.forecasts.forecast_figures import Forecast, forecast_of
from coterie.ads.forecasts.target_forecasts import AskedPlans, Target, target_figures

if TYPE_CHECKING:
    from coterie.ads.forecasts.forecast_tables import ForecastTables
    from coterie.ads.forecasts.placement import Placement
    from coterie.ads.forecasts.plan_forecasts import DayTable

__all__ = ["Outlook"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outlook:
    """The advertiser of a question, its number of auctions and its days.

    Every question about one advertiser is answered by the figures of its outlook: at a bid, the bid
    for a goal, a budget.
    """

    tables: ForecastTables
    placement: Placement
    supply: float  # auctions of all days together; of a target, those in it
    days: DayTable
    first: date | None  # the first day; None for an average day, or the days after the log
    given: bool  # whether the supply was given, rather than expected
    level: float  # of the intervals
    grounds: str  # what the figures are based on
    currency: str
    target: Target | None = None  # the values of dimensions asked about; None for all auctions

    def figures(self, bids: ArrayLike) -> Floats:
        """Return the figures at B bids, (B, 14), in the order of ``forecast_figures.FIELDS``."""
        bids = np.atleast_1d(np.asarray(bids, dtype=np.float64))
        if self.target is not None:
            return target_figures(self.asked(bids), self.tables.rungs(self.level), self.target)
        return self.tables.at_placed(
            self.placement, bids, self.supply, self.days, self.given, self.level
        )

    def asked(self, bids: Floats) -> AskedPlans:
        """Return questions about all auctions, not only those of the target, at B bids."""
        supply = self.supply / (1.0 if self.target is None else self.target.share)
        return self.tables.asked(self.placement, bids, supply, self.days, self.given)

    def forecasts(self, bids: ArrayLike) -> list[Forecast]:
        """Return the forecast at each of some bids."""
        bids = np.atleast_1d(np.asarray(bids, dtype=np.float64))
        return [
            forecast_of(
                self.placement,
                bid,
                self.supply,
                of_bid,
                self.grounds + self.tables.remark(bid),
                self.level,
                self.currency,
            )
            for bid, of_bid in zip(bids.tolist(), self.figures(bids).tolist(), strict=True)
        ]
