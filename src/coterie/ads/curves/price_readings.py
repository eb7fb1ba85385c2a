"""Price readings: whether prices are the smallest bids that win, and how to learn if they are not.

In a second-price log, the prices paid at high bids say how often lower bids win, and so do the
lower bids that were made. If the two differ, prices are averages, are rounded, or hold or lack a
fee; or losses are missing; or bids follow the prices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from coterie.ads.curves.auction_counts import count_auctions, log_edges
from coterie.ads.curves.landscapes import Evidence, evidence_of, own_curves, spend_curves
from coterie.ads.curves.price_masses import with_masses
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.arrays import Floats
from coterie.runtime.wording import percent

#: The readings, and what the backtest says if it chose them although prices do not fit the wins.
READINGS = {
    "minimum": "a backtest still found prices the best guide to win rates",
    "scaled": "by a backtest, prices are read as a factor times the smallest bids that win",
    "outcomes": "by a backtest, win rates are learnt from wins and losses alone",
}
_QUARTERS = ("lowest quarter", "lower middle quarter", "upper middle quarter", "highest quarter")
#: Wins do not fit if they differ by such a share, and so many standard errors.
_LEAST_SHARE, _LEAST_ERRORS = 0.04, 5.0
_FEWEST_BIDS = 50
#: The highest bids of an advertiser are so many; a band of bids is e^0.4 wide. Prices are rare if
#: the curve rises there by less than such a ratio of its rise, of at least so much, one band below.
_FEWEST_TOP_BIDS, _BAND, _RARE, _LEAST_RISE = 20.0, 0.4, 0.3, 0.05
#: So many advertisers must show a ceiling, and lose such a share of the highest bids.
_FEWEST_CEILINGS, _LEAST_CEILING = 3, 0.2
#: What is usual counts as much as what an advertiser paid for so many wins.
_USUAL_WINS = 10.0
_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)


class PriceMisfit(NamedTuple):
    """Wins that prices do not explain."""

    quarter: int  # of the bids of each advertiser, in which wins differ most
    share: float  # of the wins there that are too many; below 0 if too few were won

    @property
    def sentence(self) -> str:
        """What differs, and what it may mean."""
        above = "lost bids are missing, or prices are above the smallest bids that win"
        is_above = (self.share > 0) == (self.quarter < 2)
        return (
            f"the {_QUARTERS[self.quarter]} of bids won {percent(abs(self.share))} "
            f"{'more' if self.share > 0 else 'less'} often than the prices of other bids let "
            f"expect: perhaps {above if is_above else 'prices are averages, or net of a fee'}, "
            "or bids follow the prices"
        )


def price_misfit(histograms: BidHistograms) -> PriceMisfit | None:
    """Return the largest difference between wins and what prices let expect, if it is clear.

    The expected wins are those by each advertiser's own curve, in which a win reveals its price.
    """
    if histograms.revealed != "paid" or histograms.auction == "first":
        return None
    evidence, counts = evidence_of(histograms), histograms.dense()
    total = counts.bids.sum(axis=1, keepdims=True)
    scale = evidence.observations[:, None] / np.maximum(total, 1e-9)
    bids, wins, n = counts.bids * scale, counts.wins * scale, np.maximum(total * scale, 1e-9)
    upper = own_curves(evidence)
    middle = (upper + np.pad(upper, ((0, 0), (1, 0)))[:, :-1]) / 2
    rank = (np.cumsum(bids, axis=1) - bids / 2) / n
    quarter = np.where(n >= _FEWEST_BIDS, np.minimum((4 * rank).astype(np.int64), 3), 4).ravel()
    gap, variance, won = (
        np.bincount(quarter, part.ravel(), 5)[:4]
        for part in (wins - bids * middle, bids * middle * (1 - middle), wins)
    )
    share = gap / np.maximum(won, 1.0)
    share[(np.abs(share) < _LEAST_SHARE) | (gap**2 < _LEAST_ERRORS**2 * variance)] = 0.0
    worst = int(np.abs(share).argmax())
    return PriceMisfit(worst, float(share[worst])) if share[worst] else None


class WinCeiling(NamedTuple):
    """The highest bids lost although prices hardly reach them."""

    share: float  # of these bids that lost and should have won

    @property
    def sentence(self) -> str:
        """What is strange, and what it may mean."""
        return (
            f"{percent(self.share)} of the highest bids lost, although hardly any price is as "
            "high: perhaps win notices are missing, or bids were filtered before the auction"
        )


def win_ceiling(histograms: BidHistograms) -> WinCeiling | None:
    """Return how many of the highest bids lost without a price that explains it, if it is clear.

    Prices become rare near the highest bids of an advertiser if its own curve rises by much less in
    the last band of bids than in the band before, by a ratio r. If the density of log prices has no
    second peak there, the share of higher prices is at most r / (1 − r) of that of the last band.
    """
    if histograms.revealed != "paid" or histograms.auction == "first":
        return None
    evidence, bids = evidence_of(histograms), histograms.dense().bids
    win = own_curves(evidence)
    bids *= (evidence.observations / np.maximum(bids.sum(axis=1), 1e-9))[:, None]
    band = round(_BAND / np.diff(log_edges(histograms.edges)).mean())
    top = (np.cumsum(bids[:, ::-1], axis=1) >= _FEWEST_TOP_BIDS).sum(axis=1) - 1
    rows = np.flatnonzero(top >= 2 * band)
    highest, middle, lowest = (win[rows, top[rows] - k * band] for k in range(3))
    last, before = highest - middle, middle - lowest
    rare = (before > _LEAST_RISE) & (last < _RARE * before)
    if rare.sum() < _FEWEST_CEILINGS:
        return None
    ratio = last[rare] / before[rare]
    lost = 1 - highest[rare] - last[rare] * ratio / (1 - ratio)
    # some markets have a second peak, but not most
    share = float(np.quantile(lost, 0.25))
    return WinCeiling(share) if share > _LEAST_CEILING else None


class PriceReading(NamedTuple):
    """A way to read prices: a key of :data:`READINGS`, and the factor of scaled ones."""

    name: str = "minimum"
    factor: float = 1.0

    def of(self, histograms: BidHistograms) -> BidHistograms:
        """Return histograms as curves learn from them; sums of prices stay those paid."""
        if self.name == "outcomes":
            return replace(histograms, revealed="none")
        if self.name == "minimum":
            return with_masses(histograms)
        prices, width = histograms.prices, np.diff(log_edges(histograms.edges)).mean()
        moved = prices.bin - round(np.log(self.factor) / width)
        place = np.clip(moved, 0, len(histograms.edges) - 1).astype(prices.bin.dtype)
        return replace(histograms, prices=replace(prices, bin=place))


def readings_of(histograms: BidHistograms) -> list[PriceReading]:
    """Return the readings that are worth trying, the usual one first."""
    if price_misfit(histograms) is None:
        return [PriceReading()]
    # imported here because it is slow and forecasts do not need it
    from coterie.ads.curves.market_dictionary import general_posterior

    outcomes = PriceReading("outcomes")
    read, sums = outcomes.of(histograms), histograms.dense()
    atoms, _, posterior = general_posterior(count_auctions(read), 0)
    win = (posterior @ atoms)[:, 1:]
    price = (sums.bids * spend_curves(win, evidence_of(read))).sum() / (sums.bids * win).sum()
    factor = np.clip(sums.cost.sum() / max(sums.wins.sum(), 1.0) / price, 0.2, 5.0)
    return [PriceReading(), PriceReading("scaled", float(factor)), outcomes]


def paid_prices(win: Floats, evidence: Evidence, wins: Floats, cost: Floats) -> Floats:
    """Return the mean price (G,) by bin of the smallest bid that wins, learnt from what was paid.

    It is a power of that bid, up to a factor of each advertiser: 1 for prices with a fee, 0 for
    averages. ``win``, ``wins`` and ``cost`` are (A, G), the last two by bin of the bid.
    """
    best, least = evidence.price, np.inf
    for power in _POWERS:
        price = evidence.price**power
        spend = spend_curves(win, replace(evidence, price=price))
        expected = wins * spend / np.maximum(win, 1e-12)
        of_all = np.maximum(expected.sum(axis=1, keepdims=True), 1e-12)
        expected *= cost.sum(axis=1, keepdims=True) / of_all
        miss = float(((cost - expected) ** 2 / np.maximum(expected, 1.0)).sum())
        if miss < least:
            best, least = price, miss
    return best


def paid_shares(cost: Floats, wins: Floats, expected: Floats) -> tuple[float, Floats]:
    """Return what winners paid over what is expected: of all, and of each over that of all.

    ``cost``, ``wins`` and ``expected``, the expected cost of a win, are (A,).

    >>> overall, own = paid_shares(np.array([3.0, 60.0]), np.array([1.0, 10.0]), np.full(2, 5.0))
    >>> round(overall, 2), own.round(2).tolist()
    (1.15, [0.96, 1.02])
    """
    total = float(wins @ expected)
    overall = float(cost.sum()) / total if total > 0 and cost.sum() > 0 else 1.0
    usual = np.divide(cost, overall * expected, out=wins.copy(), where=expected > 0)
    return overall, (usual + _USUAL_WINS) / (wins + _USUAL_WINS)
