"""Price masses: amounts that are the minimum to win of many auctions, such as a common floor.

A curve between two edges of the price grid would spread a mass over its bin, and a bid just below
it would seem to win a part of it. Histograms therefore get two further edges for each mass f, f and
one a thousandth below: all of the mass is in the bin between them. Stored days have none of them.

An auction whose price is f says of all other prices what a bid of f that lost says: they are above
it. Curves F are fitted to this evidence (:func:`censored_at_masses`), and masses are put back
afterwards: with h_k, the share of f_k in the prices that are not below it,

    W(b) = 1 − (1 − F(b)) · Π_{f_k ≤ b} (1 − h_k).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from coterie.ads.curves.auction_counts import log_edges
from coterie.ads.histograms.bid_histograms import (
    BidCells,
    BidHistograms,
    bin_of,
    columns_of,
    compact,
    keys_in_order,
    with_columns,
)

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


def _in_order(parts: list[Any], shape: tuple[int, int, int]) -> Any:
    """Return cells put together, without empty ones, sorted by advertiser, day and bin."""
    joined = type(parts[0])(
        **{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])}
    )
    used = np.flatnonzero(joined.count > 0)
    order = used[np.argsort(keys_in_order(joined, shape)[used], kind="stable")]
    return compact(with_columns(joined, lambda values: values[order]))
