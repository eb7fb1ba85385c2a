"""The price grid: the same bins of amounts for every log, evenly spaced in the logarithm.

Because the bins do not depend on the data, days that were counted at different times can be added,
and models can be compared. There are 96 bins per decade, each about 2.4% wide. Every edge has
three significant digits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from coterie.ads.histograms.bid_histograms import (
    KEYS,
    BidHistograms,
    Cells,
    bin_of,
    compact,
    index_type,
    keys_in_order,
    looked_up,
    run_starts,
    with_columns,
)
from coterie.ads.logs.amount_codes import MOST_MICROS, amounts_of, codes_of
from coterie.arrays import Ints

BINS_PER_DECADE = 96


def price_grid(least: float, most: float, step: int = 1) -> Ints:
    """Return the upper edges of the bins that hold the amounts from ``least`` to ``most``.

    Parameters
    ----------
    least, most : float
        Amounts in micros.
    step : int
        A bin is as wide as this number of bins of the grid.

    Returns
    -------
    (G,) int64 array
        Increasing amounts in micros.

    Examples
    --------
    >>> price_grid(1_000_000, 1_070_000).tolist()
    [1000000, 1030000, 1050000, 1080000]
    """
    edges = _all_edges()[::step]
    first, last = np.minimum(np.searchsorted(edges, [least, most]), len(edges) - 1)
    return edges[first : last + 1]


def on_price_grid(histograms: BidHistograms) -> BidHistograms:
    """Return histograms whose bins are those of the price grid, limited to the bins in use.

    Cells move to the bin that holds their upper edge; their sums of amounts stay.
    """
    bids, prices = histograms.bids, histograms.prices
    places = [end(part.bin) for part in (bids, prices) if len(part.bin) for end in (np.min, np.max)]
    used = histograms.edges[[min(places), max(places)]] if places else (MOST_MICROS, 1)
    grid = price_grid(*used)
    if np.array_equal(grid, histograms.edges):
        return histograms
    place = bin_of(histograms.edges, grid)
    return replace(
        histograms,
        edges=grid,
        masses=histograms.masses[:0],
        bids=_moved(bids, place, histograms.shape[:2], len(grid)),
        prices=_moved(prices, place, histograms.shape[:2], len(grid)),
    )


@cache
def _all_edges() -> Ints:
    powers = 10.0 ** (np.arange(15 * BINS_PER_DECADE + 1) / BINS_PER_DECADE)
    return np.unique(amounts_of(codes_of(np.ceil(powers - 1e-9).clip(1, MOST_MICROS))))


def _moved(cells: Cells, place: Ints, shape: tuple[int, int], n_bins: int) -> Cells:
    """Return the cells in their new bins; cells that meet in a bin are added."""
    moved = replace(cells, bin=looked_up(place.astype(index_type(n_bins)), cells.bin))
    key = keys_in_order(moved, (*shape, n_bins))
    first = run_starts(key)
    if len(first) == len(key):
        return moved
    group = np.repeat(np.arange(len(first)), np.diff(first, append=len(key)))
    return compact(
        with_columns(
            moved,
            lambda values: np.bincount(group, values, len(first)).astype(np.float64),
            **{name: getattr(moved, name)[first] for name in KEYS},
        )
    )
