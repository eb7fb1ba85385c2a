"""A long run of the service under a mixed load: memory, files, threads, failures, latencies.

``coterie ads serve`` answers on 127.0.0.1. Clients ask all endpoints at a steady pace, with good
and bad requests; others stop half-way, drip or leave. The model file is replaced from time to time,
each third time by a damaged one. The process is measured by Linux's ``/proc``.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import Context
from benchmarks.results import Marks, Result, Table, line_plot
from benchmarks.serve.disturbances import wait_for_version
from benchmarks.serve.models import check_answers
from benchmarks.serve.processes import RunningService, get, running_service, serve_command
from benchmarks.soak.clients import RudeClient, SteadyClient, Tally, quantiles
from benchmarks.soak.requests import MixedRequests
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.histograms.counting import read_histograms, read_targets
from coterie.ads.logs.bid_logs import open_logs, read_descriptions
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.ads.service.served_model import file_version
from coterie.models import save_model
from coterie.runtime.devices import n_threads, readable_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKET = MarketSettings(advertisers=400, segments=8, bids_per_day=30.0, dimensions=2)
_MIB = 1 << 20
_CLIENTS, _RUDE_CLIENTS = 4, 2

MEASURES = ("ads/service", "ads/protocol", "ads/forecasts", "ads/decisions")


def run(
    context: Context,
    *,
    seconds: int | None = None,
    requests_per_minute: int = 360,
    reload_seconds: float | None = None,
    sample_seconds: float | None = None,
    market: MarketSettings = MARKET,
) -> Result:
    """Serve for ``seconds``; the model file is replaced every ``reload_seconds``.

    Figures are sampled every ``sample_seconds``. The trend of memory is taken after the warm-up,
    which is the first two periods between reloads.
    """
    seconds = seconds or (60 if context.quick else 3_600)
    plan = Plan(
        seconds,
        requests_per_minute,
        reload_seconds or min(300.0, seconds / 12),
        sample_seconds or min(10.0, seconds / 60),
    )
    models = fitted_days(market)
    with tempfile.TemporaryDirectory(prefix="coterie-soak-") as name:
        folder = Path(name)
        files = [folder / f"{number}.coterie" for number in range(2)]
        for model, file in zip(models, files, strict=True):
            save_model(model, file)
        by_version = dict(zip(map(file_version, files), models, strict=True))
        served = folder / "served.coterie"
        os.link(files[0], served)
        with running_service(serve_command(served)) as service:
            data = soak(service, served, files, models[0], plan)
    data["checked"] = check_answers(data.pop("kept"), by_version)
    return _result({"plan": vars(plan), "cores": n_threads(), **data})


@dataclass(frozen=True)
class Plan:
    """How long the service runs, how much it is asked, and when it is measured."""

    seconds: float
    requests_per_minute: float
    reload_seconds: float
    sample_seconds: float


def fitted_days(market: MarketSettings) -> list[AdForecaster]:
    """Fit one model to all days of a simulated log but the last, and one to all days."""
    made = []
    with tempfile.TemporaryDirectory(prefix="coterie-market-") as folder:
        simulated = simulate_logs(market, Path(folder) / "market")
        for files in (simulated.bids[:-1], simulated.bids):
            logs = open_logs(
                files, advertisers=simulated.advertisers, dimensions=["device", "country"]
            )
            histograms = read_histograms(logs)
            model = AdForecaster(market.segments, alphas=(0.05,), strengths=(1.0, 10.0), origins=1)
            targets = read_targets(logs, histograms)
            made.append(model.fit(histograms, read_descriptions(logs), targets=targets))
    return made


def soak(
    service: RunningService, served: Path, files: Sequence[Path], model: AdForecaster, plan: Plan
) -> dict[str, Any]:
    """Load a service, replace its model and measure it; return everything that was found."""
    stop, tally = threading.Event(), Tally()
    seeds = iter(np.random.default_rng(0).spawn(2 * _RUDE_CLIENTS + _CLIENTS))
    interval = 60 * _CLIENTS / plan.requests_per_minute
    clients: list[threading.Thread] = [
        SteadyClient(service.port, MixedRequests(model, next(seeds)), tally, interval, stop)
        for _ in range(_CLIENTS)
    ]
    clients += [
        RudeClient(service.port, MixedRequests(model, next(seeds)), tally, 6.0, stop, next(seeds))
        for _ in range(_RUDE_CLIENTS)
    ]
    reloads: list[dict[str, Any]] = []
    clients.append(
        threading.Thread(
            target=replace_models,
            args=(service.port, served, files, plan.reload_seconds, stop, reloads),
            daemon=True,
        )
    )
    for client in clients:
        client.start()
    try:
        samples = list(_samples(service, tally, plan))
    finally:
        stop.set()
    for client in clients:
        client.join(60)
    metrics = get(service.port, "/v1/model")
    return {
        "samples": samples,
        "reloads": reloads,
        "requests": dict(tally.by_kind.most_common()),
        "latencies": {kind: quantiles(found) for kind, found in sorted(tally.latencies.items())},
        "all": quantiles([one for found in tally.latencies.values() for one in found]),
        "failures": dict(Counter(tally.failures)),
        "answers_at_the_end": metrics is not None,
        "peak": service.memory()["peak"],
        "kept": tally.kept,
        "trend": memory_trend(samples, plan.reload_seconds),
    }


def replace_models(
    port: int,
    served: Path,
    files: Sequence[Path],
    interval: float,
    stop: threading.Event,
    found: list[dict[str, Any]],
) -> None:
    """Replace the served file by the other model, back, then by a damaged one, and so on."""
    damaged = served.with_name("damaged")
    damaged.write_bytes(files[0].read_bytes()[:-1_000])
    order = [files[1], files[0], damaged]
    while not stop.wait(interval):
        chosen = order[len(found) % 3]
        following = served.with_name("following")
        os.link(chosen, following)
        start = time.perf_counter()
        following.replace(served)
        if chosen is damaged:
            wait = _wait_for_refusal(port, start)
        else:
            wait = wait_for_version(port, file_version(chosen), start)
        found.append({"damaged": chosen is damaged, "seconds": wait})


def _wait_for_refusal(port: int, since: float) -> float | None:
    """Return the seconds until the service says that it refused a file; None if it does not."""
    while time.perf_counter() < since + 30:
        found = get(port, "/v1/model")
        if found is not None and found["last_refusal"] is not None:
            return time.perf_counter() - since
        time.sleep(0.05)
    return None


def _samples(service: RunningService, tally: Tally, plan: Plan) -> Any:
    """Yield what /proc and the clients tell, at equal intervals."""
    start = time.perf_counter()
    for number in range(1, int(plan.seconds / plan.sample_seconds) + 1):
        time.sleep(max(0.0, start + number * plan.sample_seconds - time.perf_counter()))
        folder = Path(f"/proc/{service.pid}")
        window = tally.look()
        yield {
            "seconds": time.perf_counter() - start,
            **{key: service.memory()[key] for key in ("resident", "proportional")},
            "files": len(list((folder / "fd").iterdir())),
            "threads": len(list((folder / "task").iterdir())),
            "cpu": service.cpu_seconds(),
            "load": os.getloadavg()[0],
            "total": window.requests,
            "failed": len(window.failures),
            **quantiles(window.latencies),
        }


def memory_trend(samples: Sequence[Mapping[str, Any]], period: float) -> dict[str, Any]:
    """Fit a line to the mean resident memory of each period after the first two.

    Samples within a period depend on each other, because the model and its caches stay; means of
    periods much less so. Return the slope in bytes per hour with the ends of its 95% interval by
    Student's t, and None where there are fewer than three periods.

    >>> rows = [{"seconds": s, "resident": 1_000 + s} for s in range(100)]
    >>> found = memory_trend(rows, 10)
    >>> found["periods"], round(found["slope"]), round(found["high"] - found["low"])
    (8, 3600, 0)
    """
    from scipy.stats import t as student

    means: dict[int, list[tuple[float, float]]] = {}
    for one in samples:
        place = int(one["seconds"] // period)
        if place >= 2:
            means.setdefault(place, []).append((one["seconds"] / 3_600, one["resident"]))
    points = np.array([np.mean(found, axis=0) for found in means.values()])
    n = len(points)
    if n < 3:
        return {"periods": n, "slope": None, "low": None, "high": None}
    hours, resident = points[:, 0] - points[:, 0].mean(), points[:, 1]
    slope = float(hours @ resident / (hours @ hours))
    left = resident - resident.mean() - slope * hours
    error = float(np.sqrt(left @ left / (n - 2) / (hours @ hours)))
    half = float(student.ppf(0.975, n - 2)) * error
    return {"periods": n, "slope": slope, "low": slope - half, "high": slope + half}


def _result(data: dict[str, Any]) -> Result:
    tables = [
        Table("The service after the whole run", ("figure", "found"), _facts(data)),
        Table.of("Requests by kind", data["latencies"].items(), _KINDS),
    ]
    checked, rude = data["checked"], set(data["requests"]) - set(data["latencies"])
    counts = ", ".join(f"{kind} {data['requests'][kind]}" for kind in sorted(rude))
    notes = [
        f"{len(checked['faults'])} of {checked['checked']} checked forecasts differ from the "
        f"model's; {len(checked['versions'])} versions of the model answered.",
        f"Clients that stop half-way, drip or leave: {counts or 'none'}.",
        f"Load average of the machine, {data['cores']} cores: "
        f"{np.median([one['load'] for one in data['samples']]):.1f} (median); other work ran "
        "next to the service where it exceeds 1.",
        *(f"{count} × {what}" for what, count in data["failures"].items()),
    ]
    return Result("soak", tables, data, notes, {"": partial(_plot, data)})


def _facts(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    samples, trend, reloads = data["samples"], data["trend"], data["reloads"]
    first, last = samples[0], samples[-1]
    total = sum(data["requests"].values())
    taken = [one["seconds"] for one in reloads if not one["damaged"]]
    refused = [one["seconds"] for one in reloads if one["damaged"]]
    whole = {**data["all"]}
    return [
        ("minutes", f"{last['seconds'] / 60:.0f}"),
        ("requests", f"{total:,}"),
        ("answers with another status than expected", str(sum(data["failures"].values()))),
        ("new models taken", f"{len(taken) - taken.count(None)} of {len(taken)}"),
        ("damaged models refused", f"{len(refused) - refused.count(None)} of {len(refused)}"),
        ("p50, p99, slowest, ms", ", ".join(f"{1e3 * whole[p]:.1f}" for p in _QUANTILES)),
        ("CPU of the service, s", f"{last['cpu']:.0f}"),
        ("resident memory, first and last sample", _pair(first, last)),
        ("peak resident memory", readable_bytes(data["peak"])),
        ("slope of resident memory after the warm-up, MiB per hour", _slope_text(trend)),
        ("periods between reloads behind it", str(trend["periods"])),
        ("open files, first, most, last", _first_most_last(samples, "files")),
        ("threads, first, most, last", _first_most_last(samples, "threads")),
    ]


_QUANTILES = ("p50", "p99", "slowest")
_KINDS: dict[str, Any] = {
    "kind": itemgetter(0),
    "requests": lambda row: f"{row[1]['requests']:,}",
    **{f"{p}, ms": lambda row, p=p: f"{1e3 * row[1][p]:.1f}" for p in _QUANTILES},
}


def _pair(first: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    return f"{readable_bytes(first['resident'])}, {readable_bytes(last['resident'])}"


def _slope_text(trend: Mapping[str, Any]) -> str:
    if trend["slope"] is None:
        return "–"
    slope, low, high = (trend[name] / _MIB for name in ("slope", "low", "high"))
    return f"{slope:+.2f} (95% interval {low:+.2f} to {high:+.2f})"


def _first_most_last(samples: Sequence[Mapping[str, Any]], name: str) -> str:
    found = [one[name] for one in samples]
    return f"{found[0]}, {max(found)}, {found[-1]}"


def _plot(data: dict[str, Any]) -> Figure:
    """Draw memory, files and threads, and latencies over minutes."""
    samples = data["samples"]
    minutes = [one["seconds"] / 60 for one in samples]

    def line(label: str, colour: str, marker: str, name: str, unit: float = 1.0) -> Marks:
        y = [float("nan") if one[name] is None else one[name] / unit for one in samples]
        return Marks(label, colour, marker, minutes, y, settings={"markersize": 2})

    panels = {
        "resident memory, MiB": [line("resident memory", "blue", "o", "resident", _MIB)],
        "open files and threads": [
            line("open files", "green", "s", "files"),
            line("threads", "purple", "^", "threads"),
        ],
        "latency, ms": [
            line("median", "sky", "v", "p50", 1e-3),
            line("99th percentile", "vermilion", "D", "p99", 1e-3),
        ],
    }
    figure, all_axes = line_plot(panels, (11, 3.4), xlabel="minutes")
    for axes in all_axes[:2]:
        axes.set_ylim(bottom=0)
    for axes in all_axes:
        axes.legend(frameon=False, fontsize=8)
    all_axes[2].set_yscale("log")
    for place in range(1, len(data["reloads"]) + 1):
        at = place * data["plan"]["reload_seconds"] / 60
        all_axes[0].axvline(at, color="#bbbbbb", linewidth=0.6, zorder=0)
    return figure
