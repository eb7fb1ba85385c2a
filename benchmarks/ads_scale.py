"""Segments and forecasts of a thousand to a million advertisers: time, memory and errors.

Every trial runs ``coterie ads segment`` in a new process (:mod:`benchmarks.program_runs`) on seven
days of a simulated market. Volumes are heavy-tailed: most advertisers have a few dozen bids. The
segments of the model are compared with the planted ones. The bids of the eighth day are forecast,
in batches of advertisers, by the model, by each advertiser's own curve and by its own mean.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.ads_speed import market_of
from benchmarks.harness import FORECASTS, Context
from benchmarks.program_runs import ProgramRun, busy_notes, failure_text, run_program
from benchmarks.results import (
    Marks,
    Result,
    Table,
    add_legend,
    exponents,
    item,
    line_plot,
    seconds_text,
)
from coterie.ads import AdForecaster, MarketSettings, open_logs, read_histograms, simulate_logs
from coterie.ads.curves.landscapes import PER_UNIT, own_curves
from coterie.ads.evaluation.evaluation import measure
from coterie.ads.fitting.forecaster import load_forecaster
from coterie.ads.forecasts.forecast_tables import (
    Plans,
    forecast_by_curves,
    outcome_of,
    plans_of,
    tables_of,
)
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.errors import InvalidParameterError
from coterie.inspection.scores import adjusted_rand_index
from coterie.runtime.devices import readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Advertisers, and rows of a week.
SIZES = {1_268: 380_000, 20_000: 6_000_000, 100_000: 30_000_000, 1_000_000: 100_000_000}
AUCTIONS = {"second": ("blue", "o"), "first": ("vermilion", "s")}
#: First-price markets are measured up to this size.
MOST_FIRST = 20_000
#: Growth is fitted from this size on; below it everybody is compared with everybody.
GROWTH_FROM = 20_000
DAYS = 7
RIVALS = ("model", "own curve", "own mean")

_BATCH = 20_000
_SHOWN_STAGES = 0.03  # of the time of a run
# logs the stages with their times in milliseconds
_WITH_STAGES = (
    "import logging, runpy; logging.basicConfig(format='stage %(relativeCreated)d %(message)s'); "
    "logging.getLogger('coterie').setLevel(logging.INFO); "
    "runpy.run_module('coterie', run_name='__main__', alter_sys=True)"
)

Trial = dict[str, Any]
Floats = NDArray[np.float64]

MEASURES = FORECASTS


def run(
    context: Context, *, most: int | None = None, folder: str = "", seconds: float = 7200.0
) -> Result:
    """Run the program on growing markets; keep the trials that succeed.

    ``most`` is the largest number of advertisers: a million, with ``--quick`` 1,268. Simulated logs
    are kept in ``folder``, if it is given, and used again. An auction type ends with the first
    trial that fails or takes longer than ``seconds``.
    """
    most = most or (min(SIZES) if context.quick else max(SIZES))
    kept, load = context.trials("ads_scale"), os.getloadavg()[0]
    trials: list[Trial] = []
    with ExitStack() as stack:
        place = Path(folder or stack.enter_context(_temporary_folder()))
        for auction in context.track(AUCTIONS, "running the program"):
            growing = [
                {"auction": auction, "advertisers": n, "rows": SIZES[n]}
                for n in _sizes(auction, most)
            ]
            trials += kept.run_growing(
                growing, lambda one: run_trial(place, seconds, settings_of(**one))
            )
    notes = [
        f"{t['auction']} price, {t['advertisers']:,} advertisers: {t['status']}: {t['message']}"
        for t in trials
        if t["status"] != "done"
    ]
    data = {"trials": trials, "growth": growth_of(trials)}
    plots = {"": lambda: draw(trials)}
    return Result("ads_scale", tables_of_trials(data), data, [*notes, *busy_notes(load)], plots)


def settings_of(auction: str, advertisers: int, rows: int) -> MarketSettings:
    """Return a market with about ``rows`` bids in its first week, and a day after it."""
    week = market_of(rows, advertisers)
    volume = round(week.bids_per_day, 3)
    return replace(week, days=DAYS + 1, auction=auction, bids_per_day=volume)


def run_trial(place: Path, limit: float, settings: MarketSettings) -> Trial:
    """Simulate a market or find it, run the program on its first days, and score the model."""
    market = simulated(place, settings)
    files = sorted((market / "bids").iterdir())
    with _temporary_folder() as folder:
        model = Path(folder) / "model.coterie"
        words = [*map(str, files[:DAYS]), "--advertisers", str(market / "advertisers.parquet")]
        command = [
            sys.executable,
            "-P",
            "-c",
            _WITH_STAGES,
            "ads",
            "segment",
            *words,
            "-o",
            str(model),
        ]
        run = run_program(command, limit)
        found = {
            "seconds": run.seconds,
            "processor_seconds": run.processor_seconds,
            "peak_bytes": run.peak_bytes,
            "stages": stages_of(run, market),
        }
        if not run.in_time:
            return {**found, "status": "time-out", "message": f"no answer in {run.seconds:.0f} s"}
        if run.status != 0:
            return {**found, "status": "failed", "message": failure_text(run, market)}
        scores = scores_of(load_forecaster(model), market, files[DAYS])
        return {**found, "status": "done", "model_bytes": model.stat().st_size, **scores}


def simulated(place: Path, settings: MarketSettings) -> Path:
    """Return the folder of a market; it is simulated if it is not there."""
    folder = place / f"{settings.auction}-{settings.advertisers}"
    if not folder.exists():
        place.mkdir(parents=True, exist_ok=True)
        simulate_logs(settings, folder)
    metadata = pq.read_schema(folder / "truth.parquet").metadata
    if json.loads(metadata[b"settings"]) != asdict(settings):
        raise InvalidParameterError(f"{folder} is a market with other settings; remove it")
    return folder


def stages_of(run: ProgramRun, market: Path) -> dict[str, float]:
    """Return the seconds of the stages that the program logged, in the order of their start.

    Paths and numbers in their names are left out, so that equal stages are added.
    """
    starts: list[tuple[str, float]] = []
    for line in run.error.splitlines():
        if line.startswith("stage "):
            _, time, message = line.split(" ", 2)
            name = re.sub(r"\d[\d,]*", "n", message.split(str(market))[0]).strip()
            starts.append((name, float(time) / 1000))
    ends = [*(start for _, start in starts[1:]), run.seconds]
    found: dict[str, float] = {}
    for (name, start), end in zip(starts, ends, strict=False):
        found[name] = found.get(name, 0.0) + end - start
    return found


def scores_of(model: AdForecaster, market: Path, next_day: Path) -> Trial:
    """Return how good the segments and the forecasts of the next day are."""
    truth = pq.read_table(market / "truth.parquet", columns=["advertiser_id", "segment"])
    planted = truth["segment"].to_numpy()
    rows = np.searchsorted(np.array(truth["advertiser_id"].to_pylist()), model.advertisers_)
    logs = open_logs(next_day, advertisers=market / "advertisers.parquet")
    after = read_histograms(logs)
    known = np.flatnonzero(np.isin(after.advertisers, model.advertisers_))
    parts: dict[str, list[Floats]] = {}
    for start in range(0, len(known), _BATCH):
        batch = after.for_advertisers(known[start : start + _BATCH])
        for name, found in _forecasts(model, batch):
            parts.setdefault(name, []).append(found)
    figures = {name: np.concatenate(some, axis=1) for name, some in parts.items()}
    wape = {
        name: {
            target: measure(figures[name][i], figures["truth"][i]).wape
            for i, target in enumerate(("impressions", "spend"))
        }
        for name in RIVALS
    }
    return {
        "ari": adjusted_rand_index(model.labels_, planted[rows]),
        "n_segments": len(model.segments_),
        "wape": wape,
        "scored": len(known),
    }


def _forecasts(model: AdForecaster, batch: BidHistograms) -> Iterator[tuple[str, Floats]]:
    """Yield impressions and spend of the bids of some advertisers, (2, n), by each forecast."""
    rows = np.searchsorted(model.advertisers_, batch.advertisers)
    plans, truth = plans_of(batch, [0]), outcome_of(batch, [0])
    yield "truth", np.stack([truth.impressions, truth.spend])
    in_model = Plans(rows[plans.rows], *list(vars(plans).values())[1:])
    found = np.zeros((2, len(rows)))
    tables = tables_of(model)
    figures = tables.of_plans(in_model, tables.interval_factors(0.9), given=True)
    found[:, plans.rows] = figures[:, [2, 5]].T
    yield "model", found
    evidence = model.evidence(rows)
    yield "own curve", np.stack(forecast_by_curves(own_curves(evidence), evidence, plans))
    bids, wins, cost = model.observations_[rows], model.wins_[rows], model.cost_[rows]
    supply = np.zeros(len(rows))
    supply[plans.rows] = plans.supplies
    won = supply * np.divide(wins, bids, out=np.zeros_like(wins), where=bids > 0)
    price = np.divide(cost, wins, out=np.zeros_like(cost), where=wins > 0)
    yield "own mean", np.stack([won, won * price / PER_UNIT])


def growth_of(trials: Sequence[Trial]) -> dict[str, float]:
    """Return least-squares slopes of log(seconds) and log(memory) on log(advertisers)."""
    large = [t for t in done_of(trials, "second") if t["advertisers"] >= GROWTH_FROM]
    return exponents(large, "advertisers", ("seconds", "processor_seconds", "peak_bytes"))


def done_of(trials: Sequence[Trial], auction: str) -> list[Trial]:
    """Return the successful trials of an auction type."""
    return [t for t in trials if t["auction"] == auction and t["status"] == "done"]


def tables_of_trials(data: dict[str, Any]) -> list[Table]:
    """Return time and memory, errors, stages, and exponents of growth."""
    trials = data["trials"]
    named = {"auction": item("auction"), "advertisers": item("advertisers", form=",")}
    columns = {
        **named,
        "rows of a week": item("rows", form=","),
        "seconds": lambda t: seconds_text(t["seconds"]) if t["status"] == "done" else t["status"],
        "processor s": item("processor_seconds", form=seconds_text),
        "peak memory": item("peak_bytes", form=readable_bytes),
        "model": item("model_bytes", form=readable_bytes),
    }
    done = [trial for trial in trials if trial["status"] == "done"]
    errors = {
        **named,
        "segments": item("n_segments"),
        "ARI": item("ari", form=".3f"),
        **{
            f"{target}, {name}": item("wape", name, target, form=_percent)
            for target in ("impressions", "spend")
            for name in RIVALS
        },
    }
    stages = [
        {**trial, "stage": name, "stage_seconds": seconds}
        for trial in done
        for name, seconds in trial["stages"].items()
        if seconds >= _SHOWN_STAGES * trial["seconds"]
    ]
    stage_columns = {
        **named,
        "stage": item("stage"),
        "stage seconds": item("stage_seconds", form=seconds_text),
    }
    title = f"Exponent of growth with the advertisers, from {GROWTH_FROM:,} on"
    growth_columns = {
        "seconds": item("seconds", form=".2f"),
        "processor s": item("processor_seconds", form=".2f"),
        "peak memory": item("peak_bytes", form=".2f"),
    }
    tables = [
        Table.of("Time and memory", trials, columns, n_named=2),
        Table.of("Segments, and WAPE of the next day in %", done, errors, n_named=2),
        Table.of(title, [data["growth"]] if data["growth"] else [], growth_columns),
        Table.of("Stages that take 3% of the time or more", stages, stage_columns, n_named=3),
    ]
    return [table for table in tables if table.rows]


def draw(trials: Sequence[Trial]) -> Figure:
    """Draw seconds and peak memory against the number of advertisers."""
    panels = {}
    for title, what, unit in (("Seconds", "seconds", 1), ("Peak memory, GB", "peak_bytes", 1e9)):
        panels[title] = [
            Marks(
                f"{auction} price",
                *style,
                [t["advertisers"] for t in done_of(trials, auction)],
                [t[what] / unit for t in done_of(trials, auction)],
            )
            for auction, style in AUCTIONS.items()
        ]
    figure, _ = line_plot(panels, (9.5, 4.2), xscale="log", yscale="log", xlabel="advertisers")
    add_legend(figure)
    return figure


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="coterie-ads-scale-")


def _sizes(auction: str, most: int) -> list[int]:
    limit = most if auction == "second" else min(most, MOST_FIRST)
    return [n for n in SIZES if n <= limit]


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"
