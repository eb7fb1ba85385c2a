"""Experiments on real advertising data: win curves, forecasts, orders of a publisher, texts.

The data sets are read from ``--data`` or ``COTERIE_DATA``; ``python -m benchmarks ads-real``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.ads_real import ipinyou, ipinyou_markets, publisher, snap
from benchmarks.harness import FORECASTS, Context
from benchmarks.results import Result
from coterie.ads.histograms.ipinyou import IPINYOU, files_of

_EXPERIMENTS: dict[str, Any] = {
    "ipinyou": ipinyou,
    "ipinyou_markets": ipinyou_markets,
    "publisher": publisher,
    "snap": snap,
}

MEASURES = (*FORECASTS, "ads/evaluation")


def run(context: Context) -> Result:
    """Run all of them; quick means fewer bidders, origins and repeats."""
    for dataset in (IPINYOU, publisher.PUBLISHER, snap.SNAP):
        files_of(dataset, context.data)  # a missing one is an error before any work
    steps = context.track(_EXPERIMENTS.items(), "measuring", total=len(_EXPERIMENTS))
    return result_of({name: experiment.measure(context) for name, experiment in steps})


def result_of(data: dict[str, Any]) -> Result:
    """Return the result of measured data, with notes on what was left out."""
    tables = [t for name, module in _EXPERIMENTS.items() for t in module.tables(data[name])]
    plots = {name: partial(module.plot, data[name]) for name, module in _EXPERIMENTS.items()}
    rows, ads = data["publisher"]["notes"], data["snap"]["notes"]
    notes = [
        f"Publisher: of {rows['rows']:,} rows {rows['rows_without_impressions']:,} without "
        f"impressions and {rows['rows_with_negative_revenue']:,} with negative revenue are left "
        "out.",
        f"Snap: {ads['ads_in_dollars']:,} of {ads['ads']:,} ads were paid in dollars; "
        f"{ads['advertisers_spending_too_little']:,} of {ads['advertisers_in_dollars']:,} "
        f"advertisers spent less than {ads['least_spend']} dollars and are left out.",
        *(f"Publisher, warning: {text}" for text in data["publisher"].get("warnings", [])),
    ]
    return Result("ads_real", tables, data, notes, plots)
