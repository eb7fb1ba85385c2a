"""The forecast service under load: throughput, latency, memory, start, and reloads.

``coterie ads serve`` runs in one process and is asked over HTTP from another. Single
forecasts are measured beside a bare FastAPI service, the two taking turns, so that both have the
same machine. Models are grown from a small fitted one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Context
from benchmarks.results import Marks, Result, Table, figure_text, line_plot
from benchmarks.serve.answers import check_answers, draw_questions
from benchmarks.serve.grown_models import MARKET, fitted_market, grow
from benchmarks.serve.load import generator_name, run_load
from benchmarks.serve.processes import BARE, RunningService, running_service, serve_command
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.errors import CoterieError
from coterie.files.model_files import save_model
from coterie.runtime.devices import n_threads, readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Questions in a batch.
BATCH = 1_000


def run(
    context: Context,
    *,
    seconds: int | None = None,
    rounds: int | None = None,
    reload_seconds: int | None = None,
    reloads: int = 5,
    sizes: tuple[int, ...] | None = None,
    connections: tuple[int, ...] = (1, 8, 64),
    batch_connections: tuple[int, ...] = (1, 2, 8),
    starts: int | None = None,
    market: MarketSettings = MARKET,
) -> Result:
    """Measure on a machine that does nothing else.

    A quick run has shorter rounds and smaller models. Each load is measured ``rounds`` times for
    ``seconds``; the model is replaced ``reloads`` times within ``reload_seconds``. ``sizes`` are
    the advertisers of the models, grown from ``market``; the last one is used for all loads. Each
    model is started ``starts`` times.
    """
    quick = context.quick
    sizes = sizes or ((1_000, 10_000) if quick else (10_000, 100_000))
    seconds, rounds = seconds or (1 if quick else 4), rounds or (2 if quick else 5)
    with tempfile.TemporaryDirectory(prefix="coterie-serve-") as name:
        bench = _Bench(Path(name), sizes, seconds, rounds, market)
        with running_service(serve_command(bench.files[0])):
            pass  # compiles the kernels
        data = {
            "sizes": [bench.size(n, starts or (2 if quick else 3)) for n in range(len(sizes))],
            **bench.throughput(connections, batch_connections),
            "reloads": bench.reloads(reloads, reload_seconds or (12 if quick else 60)),
            "checked": bench.checked,
            "generator": generator_name(),
            "cores": n_threads(),
            "busy_before": os.getloadavg()[0],
        }
    return _result(data)


class _Bench:
    """Models, their files, questions, and the answers checked so far."""

    def __init__(
        self, folder: Path, sizes: Sequence[int], seconds: int, rounds: int, market: MarketSettings
    ) -> None:
        self.folder, self.sizes, self.seconds, self.rounds = folder, sizes, seconds, rounds
        small = fitted_market(market)
        grown = [grow(small, advertisers) for advertisers in sizes]
        self.files = [folder / f"{advertisers}.coterie" for advertisers in sizes]
        self.other_file = folder / "other.coterie"
        self.model, other = grown[-1], grow(small, sizes[-1], seed=1)
        for model, file in zip([*grown, other], [*self.files, self.other_file], strict=True):
            save_model(model, file)
        versions = [_version(file) for file in (self.files[-1], self.other_file)]
        self.models = dict(zip(versions, (self.model, other), strict=True))
        self.first_questions = [draw_questions(model, 1_000) for model in grown]
        self.questions = draw_questions(self.model, 20_000)
        self.checked: dict[str, Any] = {"forecasts": 0, "wrong": 0, "faults": []}

    def size(self, number: int, starts: int) -> dict[str, Any]:
        """Start a service of a model several times, and measure its memory."""
        file, times = self.files[number], []
        for turn in range(starts):
            with running_service(serve_command(file)) as service:
                times.append(service.start_seconds)
                cpu, started = service.cpu_seconds(), service.memory()
                if turn == starts - 1:
                    run_load(service.port, self.first_questions[number], 1, 1)
                    loaded = service.memory()
        return {
            "advertisers": self.sizes[number],
            "file_bytes": file.stat().st_size,
            "starts": times,
            "start_cpu_seconds": cpu,
            "started": started,
            "loaded": loaded,
        }

    def throughput(
        self, connections: Sequence[int], batch_connections: Sequence[int]
    ) -> dict[str, Any]:
        """Measure single forecasts beside the bare service, then batches."""
        command, singles, batches = serve_command(self.files[-1]), [], []
        with running_service(command) as service, running_service(BARE) as bare:
            self._check(service, self.questions, 50)
            run_load(bare.port, self.questions, 8, 1)
            for n in connections:
                pairs = [
                    [self._round(one, self.questions, n) for one in (service, bare)]
                    for _ in range(self.rounds)
                ]
                ratios = sorted(ours["rate"] / other["rate"] for ours, other in pairs)
                ours, other = map(_summary, zip(*pairs, strict=True))
                singles.append({"connections": n, "service": ours, "bare": other, "ratios": ratios})
            bodies = draw_questions(self.model, 20, BATCH)
            self._check(service, bodies, 5)
            for n in batch_connections:
                rounds = [self._round(service, bodies, n) for _ in range(self.rounds)]
                batches.append({"connections": n, **_summary(rounds)})
        return {"singles": singles, "batches": batches}

    def reloads(self, times: int, seconds: int) -> dict[str, Any]:
        """Replace the model file under load, by renaming another file over it."""
        served = self.folder / "served.coterie"
        os.link(self.files[-1], served)
        waits: list[float | None] = []
        with running_service(serve_command(served)) as service:
            run_load(service.port, self.questions, 8, 1)
            before = service.memory()
            replace = partial(self._replace, service, served, times, seconds, waits)
            found = run_load(
                service.port, self.questions, 8, seconds, keep_every=200, meanwhile=replace
            )
            after = service.memory()
        self._count(check_answers(found.pop("kept"), self.models))
        return {"run": found, "waits": waits, "before": before, "after": after}

    def _replace(
        self,
        service: RunningService,
        served: Path,
        times: int,
        seconds: int,
        waits: list[float | None],
    ) -> None:
        start, gap = time.perf_counter(), seconds / (times + 1)
        for number in range(times):
            time.sleep(max(0.0, start + (number + 1) * gap - time.perf_counter()))
            file = (self.other_file, self.files[-1])[number % 2]
            following = served.with_suffix(".next")
            os.link(file, following)
            replaced = time.perf_counter()
            following.replace(served)
            waits.append(_wait_for(service, _version(file), replaced))

    def _round(self, service: RunningService, bodies: Sequence[bytes], n: int) -> dict[str, Any]:
        before = service.cpu_seconds()
        found = run_load(service.port, bodies, n, self.seconds)
        after = service.cpu_seconds()
        found.pop("kept")
        cpu = None if before is None or after is None else after - before
        return {**found, "rate": found["requests"] / found["seconds"], "cpu_seconds": cpu}

    def _check(self, service: RunningService, bodies: Sequence[bytes], every: int) -> None:
        found = run_load(service.port, bodies, 8, 1, keep_every=every)
        self._count(check_answers(found["kept"], self.models))

    def _count(self, found: dict[str, Any]) -> None:
        self.checked = {name: value + found[name] for name, value in self.checked.items()}


def _version(file: Path) -> str:
    from coterie.ads.service.models.served_model import file_version

    return file_version(file)


def _wait_for(service: RunningService, version: str, since: float) -> float | None:
    """Return the seconds until the service names a version; None after half a minute."""
    while time.perf_counter() < since + 30:
        with contextlib.suppress(CoterieError, OSError):
            if service.get("/health")["model"]["version"] == version:
                return time.perf_counter() - since
        time.sleep(0.05)
    return None


def _summary(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return medians over the rounds, and their sums of requests and failures."""
    cpu = [r["cpu_seconds"] / r["requests"] for r in rounds if r["cpu_seconds"] and r["requests"]]
    return {
        **{name: median(r[name] for r in rounds) for name in ("rate", "p50", "p99")},
        "cpu_seconds_per_request": median(cpu) if cpu else None,
        "requests": sum(r["requests"] for r in rounds),
        "failed": sum(r["failed"] for r in rounds),
        "rounds": list(rounds),
    }


def _result(data: dict[str, Any]) -> Result:
    tables = [_single_table(data), _batch_table(data), _reload_table(data), _size_table(data)]
    loads = [row[side] for row in data["singles"] for side in ("service", "bare")]
    loads += data["batches"]
    failed, asked = (sum(row[name] for row in loads) for name in ("failed", "requests"))
    checked = data["checked"]
    notes = [
        f"{checked['wrong']} of {checked['forecasts']} checked answers differ from the model's.",
        f"{failed} of {asked:,} requests failed outside the reloads.",
        f"Load: {data['generator']}; it shared {data['cores']} cores with the service.",
    ]
    return Result("serve", tables, data, notes, {"": partial(_plot, data)})


def _single_table(data: dict[str, Any]) -> Table:
    columns: dict[str, Callable[[Any], object]] = {
        "connections": itemgetter("connections"),
        "requests/s": lambda row: f"{row['service']['rate']:,.0f}",
        "bare": lambda row: f"{row['bare']['rate']:,.0f}",
        "ratio": lambda row: f"{row['service']['rate'] / row['bare']['rate']:.2f}",
        "ratio by round": lambda row: f"{row['ratios'][0]:.2f}–{row['ratios'][-1]:.2f}",
        "p50, ms": lambda row: f"{1e3 * row['service']['p50']:.2f}",
        "p99, ms": lambda row: f"{1e3 * row['service']['p99']:.2f}",
        "bare p50": lambda row: f"{1e3 * row['bare']['p50']:.2f}",
        "bare p99": lambda row: f"{1e3 * row['bare']['p99']:.2f}",
        "CPU, µs": lambda row: _micros(row["service"]),
        "bare CPU": lambda row: _micros(row["bare"]),
        "failed": lambda row: row["service"]["failed"],
    }
    return Table.of("Single forecasts beside a bare FastAPI service", data["singles"], columns)


def _batch_table(data: dict[str, Any]) -> Table:
    columns: dict[str, Callable[[Any], object]] = {
        "connections": itemgetter("connections"),
        "forecasts/s": lambda row: f"{BATCH * row['rate']:,.0f}",
        "p50, ms": lambda row: f"{1e3 * row['p50']:.1f}",
        "p99, ms": lambda row: f"{1e3 * row['p99']:.1f}",
        "CPU per forecast, µs": lambda row: _micros(row, BATCH),
        "failed": itemgetter("failed"),
    }
    return Table.of(f"Batches of {BATCH:,} forecasts", data["batches"], columns)


def _reload_table(data: dict[str, Any]) -> Table:
    found, run = data["reloads"], data["reloads"]["run"]
    taken = [wait for wait in found["waits"] if wait is not None]
    latencies = ", ".join(f"{1e3 * run[p]:.1f}" for p in ("p50", "p99", "slowest"))
    rows = [
        ("requests", f"{run['requests']:,}"),
        ("failed", f"{run['failed']:,}"),
        ("requests/s", f"{run['requests'] / run['seconds']:,.0f}"),
        ("p50, p99, slowest, ms", latencies),
        ("reloads taken", f"{len(taken)} of {len(found['waits'])}"),
        ("seconds until taken", ", ".join(f"{wait:.2f}" for wait in taken)),
        ("model versions that answered", str(len(run["versions"]))),
        ("resident memory before", _size(found["before"]["resident"])),
        ("resident memory after", _size(found["after"]["resident"])),
        ("peak resident memory", _size(found["after"]["peak"])),
    ]
    title = f"The model replaced under load, {run['connections']} connections"
    return Table(title, ("figure", "found"), rows)


def _size_table(data: dict[str, Any]) -> Table:
    columns: dict[str, Callable[[Any], object]] = {
        "advertisers": lambda row: f"{row['advertisers']:,}",
        "file": lambda row: _size(row["file_bytes"]),
        "start, s": lambda row: f"{median(row['starts']):.2f}",
        "slowest": lambda row: f"{max(row['starts']):.2f}",
        "CPU, s": lambda row: figure_text(row["start_cpu_seconds"], ".2f"),
        "resident": lambda row: _size(row["started"]["resident"]),
        "proportional": lambda row: _size(row["started"]["proportional"]),
        "resident after load": lambda row: _size(row["loaded"]["resident"]),
        "peak": lambda row: _size(row["loaded"]["peak"]),
    }
    return Table.of("Start and memory", data["sizes"], columns)


def _micros(load: dict[str, Any], divisor: int = 1) -> str:
    return figure_text(load["cpu_seconds_per_request"], lambda s: f"{1e6 * s / divisor:.1f}")


def _size(n_bytes: int | None) -> str:
    return figure_text(n_bytes, readable_bytes)


def _plot(data: dict[str, Any]) -> Figure:
    """Draw requests and forecasts per second over connections."""
    singles, batches = data["singles"], data["batches"]

    def line(label: str, colour: str, marker: str, rows: Any, rates: list[float]) -> Marks:
        return Marks(label, colour, marker, [row["connections"] for row in rows], rates)

    ours = [row["service"]["rate"] for row in singles]
    others = [row["bare"]["rate"] for row in singles]
    together = [BATCH * row["rate"] for row in batches]
    panels = {
        "single forecasts per second": [
            line("coterie ads serve", "blue", "o", singles, ours),
            line("bare FastAPI", "grey", "s", singles, others),
        ],
        f"forecasts per second in batches of {BATCH:,}": [line("", "blue", "o", batches, together)],
    }
    figure, (left, right) = line_plot(panels, (8.5, 3.2), xscale="log", xlabel="connections")
    for axes, rows in ((left, singles), (right, batches)):
        ticks = [row["connections"] for row in rows]
        axes.set_xticks(ticks, map(str, ticks))
        axes.set_xticks([], minor=True)
        axes.set_ylim(bottom=0)
    left.legend(frameon=False, fontsize=9)
    return figure
