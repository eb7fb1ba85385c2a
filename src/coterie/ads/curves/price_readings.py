"""Price readings: whether prices are the smallest bids that win, and how to learn if they are not.

In a second-price log, the prices paid at high bids say how often lower bids win, and so do the
lower bids that were made. If the two differ, prices are averages, are rounded, or hold or lack a
fee; or losses are missing; or bids follow the prices.

**Masses** are amounts that are the minimum to win of many auctions, such as a common floor. A curve
between two edges of the price grid would spread a mass over its bin, and a bid just below it would
seem to win a part of it. Histograms therefore get two further edges for each mass f, f and one a
thousandth below: all of the mass is in the bin between them. Stored days have none of them.

An auction whose price is f says of all other prices what a bid of f that lost says: they are above
it. Curves F are fitted to this evidence (:func:`censored_at_masses`), and masses are put back
afterwards: with h_k, the share of f_k in the prices that are not below it,

    W(b) = 1 − (1 − F(b)) · Π_{f_k ≤ b} (1 − h_k).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from coterie.ads.curves.auction_counts import count_auctions, log_edges
from coterie.ads.curves.landscapes import Evidence, evidence_of, own_curves, spend_curves
from coterie.ads.histograms.bid_histograms import (
    BidCells,
    BidHistograms,
    bin_of,
    columns_of,
    compact,
    keys_in_order,
    with_columns,
)
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
_LEAST_MISFIT, _MISFIT_ERRORS = 0.04, 5.0
_FEWEST_BIDS = 50
#: The highest bids of an advertiser are so many; a band of bids is e^0.4 wide. Prices are rare if
#: the curve rises there by less than such a ratio of its rise, of at least so much, one band below.
_FEWEST_TOP_BIDS, _BAND, _RARE, _LEAST_RISE = 20.0, 0.4, 0.3, 0.05
#: So many advertisers must show a ceiling, and lose such a share of the highest bids.
_FEWEST_CEILINGS, _LEAST_CEILING = 3, 0.2
#: What is usual counts as much as what an advertiser paid for so many wins.
_USUAL_WINS = 10.0
_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)

#: A mass has this share of all prices, and together they have at most that one: other prices must
#: remain to fit curves to.
_LEAST_SHARE, _MOST_SHARE, _MOST_MASSES = 0.002, 0.95, 32
#: Prices are so many times as dense in its bin as in the bins around it, but for the two densest of
#: them, and so many standard errors more than usual there.
_LEAST_RATIO, _LEAST_ERRORS = 1.5, 6.0
_AROUND, _DENSER = 4, 2
#: Cells with one price alone say where a mass is, if they have this share of it.
_LEAST_PURE = 0.05
#: The share of a mass in its bin, over all advertisers, counts as so many prices of each.
_STRENGTH = 5.0


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
    share[(np.abs(share) < _LEAST_MISFIT) | (gap**2 < _MISFIT_ERRORS**2 * variance)] = 0.0
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


def with_masses(histograms: BidHistograms) -> BidHistograms:
    """Return histograms with the edges around the masses; unchanged if there are none."""
    bids, prices, edges = histograms.bids, histograms.prices, histograms.edges
    # a common weight of all auctions changes nothing
    number = prices.count * float(bids.count.sum() / bids.square.sum())
    width = np.diff(log_edges(edges))
    in_bin, total = np.bincount(prices.bin, number, len(edges)), number.sum()
    density = np.pad(in_bin / width, _AROUND)
    near = np.lib.stride_tricks.sliding_window_view(density, 2 * _AROUND + 1)
    near = np.sort(np.delete(near, _AROUND, axis=1), axis=1)
    usual, mean = np.median(near, axis=1), prices.price / np.maximum(prices.count, 1e-300)
    excess = in_bin - usual * width
    # where most bins are empty, all prices are few amounts
    is_mass = (
        (usual > 0) & (excess > _LEAST_SHARE * total) & (excess > _LEAST_ERRORS * np.sqrt(in_bin))
    )
    is_mass &= in_bin / width > _LEAST_RATIO * near[:, -1 - _DENSER]
    found = np.flatnonzero(is_mass)
    found = found[np.argsort(-excess[found], kind="stable")][:_MOST_MASSES]
    found = np.sort(found[np.cumsum(excess[found]) <= _MOST_SHARE * total])
    if not len(found):
        return histograms

    mass, share = np.zeros_like(edges), np.zeros(len(number))  # by bin; by cell
    mass[found] = edges[found]
    free = np.where(mass == 0, width, 0.0)
    for g in found.tolist():
        here = prices.bin == g
        value, place = np.unique(np.rint(mean[here]), return_inverse=True)
        pure = np.bincount(place, number[here])
        if pure.max() >= _LEAST_PURE * excess[g]:
            mass[g] = max(value[pure.argmax()], 2)  # a price of 0 is won by any bid
        # of each advertiser, the share of this bin that the bins around do not explain
        around = np.abs(np.arange(len(edges)) - g) <= _AROUND
        there, near_by = (
            np.bincount(prices.advertiser[some], number[some], len(histograms.advertisers))
            for some in (here, (around & (free > 0))[prices.bin])
        )
        own = there - near_by * width[g] / max(free[around].sum(), 1e-9)
        own = (own + _STRENGTH * excess[g] / in_bin[g]) / (there + _STRENGTH)
        share[here] = np.clip(own, 0.0, 1.0)[prices.advertiser[here]]

    masses = mass[found]
    grid = np.union1d(edges, np.concatenate([masses - np.maximum(masses // 1000, 1), masses]))

    def moved(cells: Any, amount: Any) -> Any:
        """Return cells in the bins of the finer grid; where a bin is divided, by their means."""
        upper, lower = edges[cells.bin], np.append(0, edges)[cells.bin]
        mean = np.clip(np.rint(amount / np.maximum(cells.count, 1e-300)), lower + 1, upper)
        return replace(cells, bin=bin_of(np.where(mass[cells.bin] > 0, mean, upper), grid))

    at, f = prices.count * share, mass[prices.bin]
    at_mass, others = (
        with_columns(prices, lambda values: values, count=count, price=np.maximum(price, 0.0))
        for count, price in ((at, at * f), (prices.count - at, prices.price - at * f))
    )
    at_mass = replace(at_mass, bin=bin_of(f, grid))
    shape = (*histograms.shape[:2], len(grid))
    return replace(
        histograms,
        edges=grid,
        masses=masses,
        bids=_in_order([moved(bids, bids.bid)], shape),
        prices=_in_order([at_mass, moved(others, others.price)], shape),
    )


def censored_at_masses(histograms: BidHistograms) -> BidHistograms:
    """Return histograms in which every price at a mass is instead a bid of this much that lost."""
    if not len(histograms.masses):
        return histograms
    bids, prices = histograms.bids, histograms.prices
    if histograms.revealed == "minimum":  # then no loss of the log says more than its price
        bids = replace(bids, wins=bids.count)
    of_mass = np.isin(prices.bin, bin_of(histograms.masses, histograms.edges))
    chosen = with_columns(prices, lambda values: values[of_mass])
    others = with_columns(prices, lambda values: values[~of_mass])
    lost: dict[str, Any] = dict.fromkeys(columns_of(BidCells), np.zeros(len(chosen.bin)))
    lost |= {"count": chosen.count, "square": chosen.count, "bid": chosen.price}
    lost_cells = BidCells(chosen.advertiser, chosen.day, chosen.bin, **lost)
    bids = _in_order([bids, lost_cells], histograms.shape)
    return replace(histograms, revealed="paid", bids=bids, prices=others)


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


def _in_order(parts: list[Any], shape: tuple[int, int, int]) -> Any:
    """Return cells put together, without empty ones, sorted by advertiser, day and bin."""
    joined = type(parts[0])(
        **{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])}
    )
    used = np.flatnonzero(joined.count > 0)
    order = used[np.argsort(keys_in_order(joined, shape)[used], kind="stable")]
    return compact(with_columns(joined, lambda values: values[order]))
