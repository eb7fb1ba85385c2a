"""The forecast service under load: throughput, fairness, workers, reloads, start and memory.

``coterie ads serve`` is asked over HTTP from another process. Single forecasts are measured next to
a bare Starlette service, the two taking turns, so that both have the same machine. Models are grown
from a small fitted one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Context
from benchmarks.results import Marks, Result, Table, add_legend, line_plot
from benchmarks.serve.bare_service import COMMAND as BARE
from benchmarks.serve.disturbances import measure_greedy, measure_kill, measure_reloads
from benchmarks.serve.models import MARKET, check_answers, draw_questions, fitted_market, grow
from benchmarks.serve.processes import RunningService, run_load, running_service, serve_command
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.ads.service.served_model import file_version
from coterie.models import save_model
from coterie.runtime.devices import n_threads, readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Questions in a batch.
BATCH = 1_000
#: Bodies of about 1 MiB that are deep, or have many members, and a short one with many faults.
HOSTILE = (
    b"[" + b",".join([b"[" * 500 + b"]" * 500] * 1_000) + b"]",
    b"[" + b",".join([b"{}"] * 340_000) + b"]",
    b'{"advertiser":"a","bid":[' + b",".join([b"1"] * 49_000) + b"]}",
    b"[" + b",".join([b"{}"] * 600) + b"]",
)

MEASURES = ("ads/service", "ads/protocol", "ads/forecasts", "ads/decisions")


def run(
    context: Context,
    *,
    rounds: int | None = None,
    disturbed_seconds: int | None = None,
    sizes: tuple[int, ...] | None = None,
    connections: tuple[int, ...] = (1, 8, 64),
    batch_connections: tuple[int, ...] = (1, 2, 8),
    greedy_connections: int = 64,
    market: MarketSettings = MARKET,
) -> Result:
    """Measure on a machine that does nothing else.

    A quick run has shorter rounds and smaller models. Each load is measured ``rounds`` times for
    four seconds; the model is replaced five times within ``disturbed_seconds``. ``sizes`` are the
    advertisers of the models, grown from ``market``; the last one is used for all loads.
    """
    quick = context.quick
    sizes = sizes or ((1_000, 10_000) if quick else (10_000, 100_000))
    long = disturbed_seconds or (12 if quick else 60)
    small = fitted_market(market)
    models = [*(grow(small, n) for n in sizes), grow(small, sizes[-1], seed=1)]
    questions, batches = draw_questions(models[-1], 20_000), draw_questions(models[-1], 20, BATCH)
    rounds = rounds or (2 if quick else 5)
    load = partial(measure_load, seconds=1 if quick else 4, rounds=rounds)
    data: dict[str, Any] = {"cores": n_threads()}
    with tempfile.TemporaryDirectory(prefix="coterie-serve-") as name:
        files = [Path(name) / f"{number}.coterie" for number in range(len(models))]
        for model, file in zip(models, files, strict=True):
            save_model(model, file)
        by_version = dict(zip(map(file_version, files), models, strict=True))
        started = zip(models[:-1], files[:-1], strict=True)
        data["sizes"] = [measure_start(*pair, 2 if quick else 3) for pair in started]
        one, two = serve_command(files[-2]), serve_command(files[-2], workers=2)
        with running_service(one) as service, running_service(BARE) as bare:
            kept = [
                run_load(service.port, bodies, 8, 1, keep_every=every)[1]
                for bodies, every in ((questions, 50), (batches, 5))
            ]
            run_load(bare.port, questions, 8, 1)
            data["singles"] = [load((service, bare), questions, n) for n in connections]
            data["batches"] = [load((service,), batches, n) for n in batch_connections]
            large = draw_questions(models[-1], 20, BATCH, two_bids=True)
            meanwhile = partial(measure_greedy, service)
            for kind, bodies in (("greedy", large), ("hostile", HOSTILE)):
                data[kind] = meanwhile(bodies, questions, greedy_connections, long // 3)
        with running_service(one) as service, running_service(two) as double:
            sides = (double, service)
            data["workers"] = [load(sides, asked, 16) for asked in (questions, batches)]
        data["reloads"], answers = measure_reloads(files[-2:], questions, long)
        names = models[-1].advertisers_.tolist()
        data["kill"] = measure_kill(files[-2:], names, long)
    checks = [check_answers(bodies, by_version) for bodies in (*kept, answers)]
    data["reloads"]["versions"] = checks[-1]["versions"]
    data["checked"] = sum(check["checked"] for check in checks)
    data["faults"] = [fault for check in checks for fault in check["faults"]]
    return _result(data)


def measure_start(model: AdForecaster, file: Path, starts: int) -> dict[str, Any]:
    """Start a service of a model several times, and measure its memory."""
    times = []
    for _ in range(starts):
        with running_service(serve_command(file)) as service:
            times.append(service.start_seconds)
            cpu, started = service.cpu_seconds(), service.memory()
            if len(times) == starts:
                run_load(service.port, draw_questions(model, 1_000), 1, 1)
                loaded = service.memory()
    return {
        "advertisers": len(model.advertisers_),
        "file_bytes": file.stat().st_size,
        "starts": times,
        "start_cpu_seconds": cpu,
        "started": started,
        "loaded": loaded,
    }


def measure_load(
    services: Sequence[RunningService],
    bodies: Sequence[bytes],
    connections: int,
    seconds: int,
    rounds: int,
) -> dict[str, Any]:
    """Load services in turn; return medians over the rounds, and sums of requests and failures.

    They are those of ``service`` and, where there is a second one, of ``bare``.
    """
    found: list[list[dict[str, Any]]] = [[] for _ in services]
    for _ in range(rounds):
        for service, own in zip(services, found, strict=True):
            before = service.cpu_seconds()
            load, _ = run_load(service.port, bodies, connections, seconds)
            load["rate"] = load["requests"] / load["seconds"]
            load["cpu"] = (service.cpu_seconds() - before) / max(load["requests"], 1)
            own.append(load)
    sides = [
        {
            **{name: median(load[name] for load in own) for name in ("rate", "p50", "p99", "cpu")},
            **{name: sum(load[name] for load in own) for name in ("requests", "failed")},
            "rates": [load["rate"] for load in own],
        }
        for own in found
    ]
    return {"connections": connections, **dict(zip(("service", "bare"), sides, strict=False))}


def _result(data: dict[str, Any]) -> Result:
    tables = [
        Table.of("Single forecasts and a bare Starlette service", data["singles"], _SINGLES),
        Table.of(f"Batches of {BATCH:,} forecasts", data["batches"], _BATCHES),
        _greedy_table(data["greedy"], f"{BATCH:,} questions with two bids"),
        _greedy_table(data["hostile"], "bodies that are no questions"),
        _worker_table(data["workers"]),
        _reload_table(data["reloads"]),
        _kill_table(data["kill"]),
        Table.of("Start and memory", data["sizes"], _SIZES),
    ]
    loads = [row[side] for row in data["singles"] for side in ("service", "bare")]
    loads += [row["service"] for row in data["batches"]]
    failed, asked = (sum(load[name] for load in loads) for name in ("failed", "requests"))
    notes = [
        f"{len(data['faults'])} of {data['checked']} checked answers differ from the model's.",
        f"{failed} of {asked:,} requests failed outside the reloads.",
        f"Load: wrk with one thread; it shared {data['cores']} cores with the service.",
    ]
    return Result("serve", tables, data, notes, {"": partial(_plot, data)})


_SINGLES: dict[str, Callable[[Any], object]] = {
    "connections": itemgetter("connections"),
    "requests/s": lambda row: f"{row['service']['rate']:,.0f}",
    "bare": lambda row: f"{row['bare']['rate']:,.0f}",
    "ratio": lambda row: f"{row['service']['rate'] / row['bare']['rate']:.2f}",
    "ratio by round": lambda row: "{:.2f}–{:.2f}".format(*_range_of_ratios(row)),
    "p50, ms": lambda row: f"{1e3 * row['service']['p50']:.2f}",
    "p99, ms": lambda row: f"{1e3 * row['service']['p99']:.2f}",
    "bare p50": lambda row: f"{1e3 * row['bare']['p50']:.2f}",
    "bare p99": lambda row: f"{1e3 * row['bare']['p99']:.2f}",
    "CPU, µs": lambda row: f"{1e6 * row['service']['cpu']:.1f}",
    "bare CPU": lambda row: f"{1e6 * row['bare']['cpu']:.1f}",
    "failed": lambda row: row["service"]["failed"],
}
_BATCHES: dict[str, Callable[[Any], object]] = {
    "connections": itemgetter("connections"),
    "forecasts/s": lambda row: f"{BATCH * row['service']['rate']:,.0f}",
    "p50, ms": lambda row: f"{1e3 * row['service']['p50']:.1f}",
    "p99, ms": lambda row: f"{1e3 * row['service']['p99']:.1f}",
    "CPU per forecast, µs": lambda row: f"{1e6 * row['service']['cpu'] / BATCH:.1f}",
    "failed": lambda row: row["service"]["failed"],
}
_SIZES: dict[str, Callable[[Any], object]] = {
    "advertisers": lambda row: f"{row['advertisers']:,}",
    "file": lambda row: readable_bytes(row["file_bytes"]),
    "start, s": lambda row: f"{median(row['starts']):.2f}",
    "slowest": lambda row: f"{max(row['starts']):.2f}",
    "CPU, s": lambda row: f"{row['start_cpu_seconds']:.2f}",
    "resident": lambda row: readable_bytes(row["started"]["resident"]),
    "proportional": lambda row: readable_bytes(row["started"]["proportional"]),
    "resident after load": lambda row: readable_bytes(row["loaded"]["resident"]),
    "peak": lambda row: readable_bytes(row["loaded"]["peak"]),
}


def _range_of_ratios(row: dict[str, Any]) -> tuple[float, float]:
    pairs = zip(row["service"]["rates"], row["bare"]["rates"], strict=True)
    ratios = [ours / other for ours, other in pairs]
    return min(ratios), max(ratios)


def _greedy_table(found: dict[str, Any], asked: str) -> Table:
    """Return latencies of others while one client sends requests without pause."""
    columns: dict[str, Callable[[Any], object]] = {
        "asked": itemgetter(0),
        "requests": lambda row: f"{row[1]['requests']:,}",
        **{
            f"{name}, ms": lambda row, key=key: f"{1e3 * row[1][key]:.1f}"  # type: ignore[misc]
            for name, key in (("p50", "p50"), ("p99", "p99"), ("slowest", "slowest"))
        },
    }
    named = {
        "single forecasts of another client, alone": found["alone"],
        "single forecasts of another client, meanwhile": found["other client"],
        "single forecasts of the greedy client itself": found["same client"],
        "/health/live": found["/health/live"],
        f"requests of the greedy client ({found['greedy']['failed']} refused)": found["greedy"],
    }
    title = f"One client with {found['connections']} connections of {asked}"
    return Table.of(title, named.items(), columns)


def _worker_table(found: Sequence[dict[str, Any]]) -> Table:
    """Return rates of one worker and of two; the second service measured is the one."""
    columns: dict[str, Callable[[Any], object]] = {
        "asked": itemgetter(0),
        "one worker, requests/s": lambda row: f"{row[1]['bare']['rate']:,.0f}",
        "two workers": lambda row: f"{row[1]['service']['rate']:,.0f}",
        "ratio": lambda row: f"{row[1]['service']['rate'] / row[1]['bare']['rate']:.2f}",
        "ratio by round": lambda row: "{:.2f}–{:.2f}".format(*_range_of_ratios(row[1])),
    }
    names = ("single forecasts", f"batches of {BATCH:,}")
    return Table.of("Workers, 16 connections", list(zip(names, found, strict=True)), columns)


def _kill_table(found: dict[str, Any]) -> Table:
    rows = [
        ("answers", f"{found['answers']:,}"),
        ("failed", f"{len(found['failures']):,}"),
        ("reloads taken", str(found["reloads"])),
        ("workers replaced", str(found["workers_replaced"])),
    ]
    title = "Four clients and two workers: five reloads, one worker killed"
    return Table(title, ("figure", "found"), rows)


def _reload_table(found: dict[str, Any]) -> Table:
    run = found["run"]
    taken = [wait for wait in found["waits"] if wait is not None]
    rows = [
        ("requests", f"{run['requests']:,}"),
        ("failed", f"{run['failed']:,}"),
        ("requests/s", f"{run['requests'] / run['seconds']:,.0f}"),
        (
            "p50, p99, slowest, ms",
            ", ".join(f"{1e3 * run[p]:.1f}" for p in ("p50", "p99", "slowest")),
        ),
        ("reloads taken", f"{len(taken)} of {len(found['waits'])}"),
        ("seconds until taken", ", ".join(f"{wait:.2f}" for wait in taken)),
        ("model versions that answered", str(len(found["versions"]))),
        ("resident memory before", readable_bytes(found["before"]["resident"])),
        ("resident memory after", readable_bytes(found["after"]["resident"])),
        ("peak resident memory", readable_bytes(found["after"]["peak"])),
    ]
    return Table("The model replaced under load, 8 connections", ("figure", "found"), rows)


def _plot(data: dict[str, Any]) -> Figure:
    """Draw requests and forecasts per second over connections."""

    def line(label: str, colour: str, marker: str, rows: str, side: str, size: int = 1) -> Marks:
        rates = [size * row[side]["rate"] for row in data[rows]]
        return Marks(label, colour, marker, [row["connections"] for row in data[rows]], rates)

    panels = {
        "single forecasts per second": [
            line("coterie ads serve", "blue", "o", "singles", "service"),
            line("bare Starlette", "grey", "s", "singles", "bare"),
        ],
        f"forecasts per second in batches of {BATCH:,}": [
            line("coterie ads serve", "blue", "o", "batches", "service", BATCH)
        ],
    }
    figure, all_axes = line_plot(panels, (8.5, 3.4), xlabel="connections")
    for axes in all_axes:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_ylim(bottom=0)
    add_legend(figure)
    return figure
