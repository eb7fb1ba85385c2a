"""Three experiments on real advertising data: win curves, orders of a publisher, texts and prices.

The data sets are read from ``--data`` or ``COTERIE_DATA``; ``python -m benchmarks ads-real``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.ads_real import ipinyou, publisher, snap
from benchmarks.harness import Context
from benchmarks.results import Result
from coterie.ads.histograms.ipinyou import IPINYOU, PublicData, files_of
from coterie.errors import DatasetUnavailableError

_EXPERIMENTS: dict[str, Any] = {"ipinyou": ipinyou, "publisher": publisher, "snap": snap}


def run(context: Context) -> Result:
    """Run all three; quick means fewer bidders, origins and repeats."""
    _refuse_missing((IPINYOU, publisher.PUBLISHER, snap.SNAP), context.data)
    steps = context.track(_EXPERIMENTS.items(), "measuring", total=len(_EXPERIMENTS))
    data = {name: experiment.measure(context) for name, experiment in steps}
    return _result(data)


def _refuse_missing(datasets: tuple[PublicData, ...], folder: Path | None) -> None:
    """Raise one error that names every missing dataset."""
    messages = []
    for dataset in datasets:
        try:
            files_of(dataset, folder)
        except DatasetUnavailableError as error:
            messages.append(str(error))
    if messages:
        raise DatasetUnavailableError("\n".join(messages))


def _result(data: dict[str, Any]) -> Result:
    tables = [t for name, module in _EXPERIMENTS.items() for t in module.tables(data[name])]
    plots = {name: partial(module.plot, data[name]) for name, module in _EXPERIMENTS.items()}
    return Result("ads_real", tables, data, plots=plots)
