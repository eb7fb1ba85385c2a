"""Small fitted forecasters with dimensions. All are cached and shared: they are not changed."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.histograms.counting import read_histograms, read_targets
from coterie.ads.histograms.target_counts import TargetCounts
from coterie.ads.logs.bid_logs import open_logs, read_descriptions
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from markets import EASY, QUICK

DIVIDED = replace(EASY, advertisers=60, days=5, bids_per_day=150, dimensions=2)


class CountedMarket(NamedTuple):
    """A simulated log with dimensions, counted."""

    histograms: BidHistograms
    targets: TargetCounts
    texts: dict[str, str]


@cache
def counted_market(auction: str = "second", days: tuple[int, int] | None = None) -> CountedMarket:
    """Return the counts of a market, or of some of its days, from the first to the last + 1."""
    with tempfile.TemporaryDirectory() as folder:
        made = simulate_logs(replace(DIVIDED, auction=auction), Path(folder) / "market")
        files = made.bids[slice(*days)] if days else made.bids
        logs = open_logs(files, advertisers=made.advertisers, dimensions=["device", "country"])
        histograms = read_histograms(logs)
        return CountedMarket(histograms, read_targets(logs, histograms), read_descriptions(logs))


@cache
def targets_model(auction: str = "second") -> AdForecaster:
    """A forecaster with the dimensions device and country."""
    made = counted_market(auction)
    return AdForecaster(**vars(QUICK)).fit(made.histograms, made.texts, targets=made.targets)
