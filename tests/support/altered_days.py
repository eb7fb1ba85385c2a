"""A log with other contents on some days, for tests that nothing looks at later days."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from coterie.ads.histograms.bid_histograms import BidHistograms


def altered(histograms: BidHistograms, days: list[int], seed: int) -> BidHistograms:
    """Return the same log with other counts, advertisers and amounts on some days."""
    rng = np.random.default_rng(seed)
    A, _, G = histograms.shape
    who, amount, factor = rng.permutation(A), rng.permutation(G), rng.integers(2, 5)

    def changed(cells: Any) -> Any:
        there = np.isin(cells.day, days)
        parts = {name: part.copy() for name, part in vars(cells).items()}
        parts["advertiser"][there] = who[parts["advertiser"][there]]
        parts["bin"][there] = amount[parts["bin"][there]]
        for name in parts.keys() - {"advertiser", "day", "bin"}:
            parts[name][there] *= factor
        order = np.lexsort((parts["bin"], parts["day"], parts["advertiser"]))
        return type(cells)(**{name: part[order] for name, part in parts.items()})

    return replace(histograms, bids=changed(histograms.bids), prices=changed(histograms.prices))
