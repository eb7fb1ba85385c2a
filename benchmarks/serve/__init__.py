"""The forecast service under load: throughput, latency, memory, start, and reloads.

``coterie ads serve`` runs in a process of its own and is asked over HTTP from another. Single
forecasts are measured beside a bare FastAPI service, the two taking turns, so that both have the
same machine. Models are grown from a small fitted one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Context
from benchmarks.results import OKABE_ITO, Result, Table
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

__all__ = ["BATCH", "run"]

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

    Parameters
    ----------
    context : Context
        Quick: shorter rounds and smaller models.
    seconds, rounds : int, optional
        Length and number of the measurements of each load: 4 s and 5, or 1 s and 2.
    reload_seconds, reloads : int
        How long the load lasts while the model is replaced, and how often it is replaced.
    sizes : tuple of int, optional
        Advertisers of the models; the last is used for all loads.
    connections, batch_connections : tuple of int
    starts : int, optional
        How often each model is started.
    market : MarketSettings
        The market the models are grown from.
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
        command, singles = serve_command(self.files[-1]), []
        with running_service(command) as service, running_service(BARE) as bare:
            self._check(service, self.questions, 50)
            run_load(bare.port, self.questions, 8, 1)
            for n in connections:
                both = ([], [])  # type: tuple[list[dict[str, Any]], list[dict[str, Any]]]
                for _ in range(self.rounds):
                    for one, found in zip((service, bare), both, strict=True):
                        found.append(self._round(one, self.questions, n))
                ours, theirs = map(_summary, both)
                ratios = [a["rate"] / b["rate"] for a, b in zip(*both, strict=True)]
                singles.append(
                    {"connections": n, "service": ours, "bare": theirs, "ratios": sorted(ratios)}
                )
            bodies = draw_questions(self.model, 20, BATCH)
            self._check(service, bodies, 5)
            batches = [
                {
                    "connections": n,
                    **_summary([self._round(service, bodies, n) for _ in range(self.rounds)]),
                }
                for n in batch_connections
            ]
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
    checked, loads = (
        data["checked"],
        [*(row[side] for row in data["singles"] for side in ("service", "bare")), *data["batches"]],
    )
    notes = [
        f"{checked['wrong']} of {checked['forecasts']} checked answers differ from the model's.",
        f"{sum(row['failed'] for row in loads)} of {sum(row['requests'] for row in loads):,} "
        "requests failed outside the reloads.",
        f"Load: {data['generator']}; it shared {data['cores']} cores with the service.",
    ]
    return Result("serve", tables, data, notes, {"": partial(_plot, data)})


def _single_table(data: dict[str, Any]) -> Table:
    rows = []
    for row in data["singles"]:
        ours, bare, ratios = row["service"], row["bare"], row["ratios"]
        rows.append(
            (
                str(row["connections"]),
                f"{ours['rate']:,.0f}",
                f"{bare['rate']:,.0f}",
                f"{ours['rate'] / bare['rate']:.2f}",
                f"{ratios[0]:.2f}–{ratios[-1]:.2f}",
                *(f"{1e3 * side[p]:.2f}" for side in (ours, bare) for p in ("p50", "p99")),
                *(_micros(side["cpu_seconds_per_request"]) for side in (ours, bare)),
                str(ours["failed"]),
            )
        )
    headings = (
        "connections", "requests/s", "bare", "ratio", "ratio by round", "p50, ms", "p99, ms",
        "bare p50", "bare p99", "CPU, µs", "bare CPU", "failed",
    )  # fmt: skip
    return Table("Single forecasts beside a bare FastAPI service", headings, rows)


def _batch_table(data: dict[str, Any]) -> Table:
    rows = [
        (
            str(row["connections"]),
            f"{BATCH * row['rate']:,.0f}",
            f"{1e3 * row['p50']:.1f}",
            f"{1e3 * row['p99']:.1f}",
            _micros(row["cpu_seconds_per_request"], BATCH),
            str(row["failed"]),
        )
        for row in data["batches"]
    ]
    headings = (
        "connections",
        "forecasts/s",
        "p50, ms",
        "p99, ms",
        "CPU per forecast, µs",
        "failed",
    )
    return Table(f"Batches of {BATCH:,} forecasts", headings, rows)


def _reload_table(data: dict[str, Any]) -> Table:
    found, run = data["reloads"], data["reloads"]["run"]
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
        ("model versions that answered", str(len(run["versions"]))),
        ("resident memory before", _size(found["before"]["resident"])),
        ("resident memory after", _size(found["after"]["resident"])),
        ("peak resident memory", _size(found["after"]["peak"])),
    ]
    title = f"The model replaced under load, {run['connections']} connections"
    return Table(title, ("figure", "found"), rows)


def _size_table(data: dict[str, Any]) -> Table:
    rows = [
        (
            f"{row['advertisers']:,}",
            _size(row["file_bytes"]),
            f"{median(row['starts']):.2f}",
            f"{max(row['starts']):.2f}",
            "–" if row["start_cpu_seconds"] is None else f"{row['start_cpu_seconds']:.2f}",
            *(_size(row["started"][kind]) for kind in ("resident", "proportional")),
            *(_size(row["loaded"][kind]) for kind in ("resident", "peak")),
        )
        for row in data["sizes"]
    ]
    headings = (
        "advertisers", "file", "start, s", "slowest", "CPU, s", "resident", "proportional",
        "resident after load", "peak",
    )  # fmt: skip
    return Table("Start and memory", headings, rows)


def _micros(seconds: float | None, divisor: int = 1) -> str:
    return "–" if seconds is None else f"{1e6 * seconds / divisor:.1f}"


def _size(n_bytes: int | None) -> str:
    return "–" if n_bytes is None else readable_bytes(n_bytes)


def _plot(data: dict[str, Any]) -> Figure:
    """Draw requests and forecasts per second over connections."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for side, label, colour, marker in (
        ("service", "coterie ads serve", "blue", "o"),
        ("bare", "bare FastAPI", "grey", "s"),
    ):
        rates = [row[side]["rate"] for row in data["singles"]]
        places = [row["connections"] for row in data["singles"]]
        left.plot(places, rates, marker=marker, color=OKABE_ITO[colour], label=label)
    places = [row["connections"] for row in data["batches"]]
    rates = [BATCH * row["rate"] for row in data["batches"]]
    right.plot(places, rates, marker="o", color=OKABE_ITO["blue"])
    left.set_title("single forecasts per second", fontsize=9, loc="left")
    right.set_title(f"forecasts per second in batches of {BATCH:,}", fontsize=9, loc="left")
    left.legend(frameon=False, fontsize=9)
    for axes in (left, right):
        axes.set(xscale="log", xlabel="connections")
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd", linewidth=0.6)
    return figure
