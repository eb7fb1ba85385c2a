"""Results of the benchmark of the service as JSON, tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.result_tables import ResultTable
from benchmarks.results import seconds_text
from benchmarks.serve_load import LoadRun
from benchmarks.serve_results import (
    BATCH,
    Batches,
    Reloads,
    Rounds,
    ServeResults,
    Singles,
    Size,
)
from coterie.runtime.devices import readable_bytes

__all__ = [
    "TARGET_FORECASTS",
    "TARGET_RATIO",
    "as_json",
    "as_tables",
    "method",
    "notes",
    "summary_lines",
    "verdicts",
]

#: What is aimed for: single forecasts beside the bare service, batched ones a second, a start.
TARGET_RATIO = 0.7
TARGET_FORECASTS = 100_000
TARGET_START, TARGET_ADVERTISERS = 3.0, 100_000
# what an idle machine may show for the moments before
_BUSY = 1.0


def method(results: ServeResults) -> str:
    """How it was measured, in a paragraph."""
    effort = results.effort
    return (
        f"Models are grown from one fitted to {effort.market.advertisers:,} simulated advertisers, "
        "each copy with counts of its own, and served by `coterie ads serve MODEL --quiet` in one "
        "process. Single forecasts name an advertiser and a bid, both drawn at random; a batch "
        f"holds {BATCH:,} of them. Beside the single ones a bare FastAPI service is measured, "
        "which returns a small constant, reads no body and checks nothing, under the same uvicorn "
        f"(uvloop, httptools, no access log). The two take turns, {effort.rounds} rounds of "
        f"{effort.seconds} s each; figures are medians of the rounds, and *rounds* the lowest and "
        f"highest ratio of a round. The load comes from {results.generator}, which asks again as "
        f"soon as it is answered; load and service share {results.cores} cores, and neither is "
        "bound to any. *Processor* is time on processors of the service alone, which suffers least "
        "from that. A start is timed from "
        "the command to the first answer to `GET /health`, kernels compiled before. Answers kept "
        "from loads are compared with `AdForecaster.forecast` of the model they name."
    )


@dataclass(frozen=True)
class Verdict:
    """An aim, what was found, and whether it was met; None if it was not measured."""

    aim: str
    found: str
    met: bool | None

    @property
    def in_words(self) -> str:
        """Return met, missed or not measured."""
        return "not measured" if self.met is None else "met" if self.met else "missed"


def verdicts(results: ServeResults) -> list[Verdict]:
    """What was aimed for, and what came of it."""
    return [
        *(_single_verdict(cell) for cell in results.singles),
        *(_batch_verdict(cell) for cell in results.batches),
        _reload_verdict(results.reloads),
        _start_verdict(results.sizes),
        _failure_verdict(results),
        _answer_verdict(results),
    ]


def as_json(results: ServeResults, described: dict[str, Any], command: str = "") -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`.

    ``{"singles": [{connections, service: {runs, processor_seconds, …}, bare, ratio, ratios}],
    "batches": [{connections, service, forecasts_a_second}], "reloads": {run, waits, missed,
    before, after}, "sizes": [{advertisers, file_bytes, starts, start_processor, started,
    loaded}], "checked": {forecasts, wrong, faults}, "verdicts": [{aim, found, met}], …}``
    """
    return {
        "singles": [
            {
                "connections": cell.connections,
                "service": _rounds_json(cell.service),
                "bare": _rounds_json(cell.bare),
                "ratio": cell.ratio,
                "ratios": cell.ratios,
            }
            for cell in results.singles
        ],
        "batches": [
            {
                "connections": cell.connections,
                "service": _rounds_json(cell.service),
                "forecasts_a_second": cell.forecasts_a_second,
            }
            for cell in results.batches
        ],
        "reloads": {**asdict(results.reloads), "run": _run_json(results.reloads.run)},
        "sizes": [asdict(size) for size in results.sizes],
        "checked": asdict(results.checked),
        "verdicts": [asdict(verdict) for verdict in verdicts(results)],
        "effort": asdict(results.effort),
        "generator": results.generator,
        "cores": results.cores,
        "load": results.load,
        "command": command,
        "method": method(results),
        "environment": described,
    }


def as_tables(results: ServeResults) -> list[ResultTable]:
    """Single forecasts, batches, reloads, sizes, verdicts."""
    return [
        _singles_table(results.singles),
        _batches_table(results.batches),
        _reloads_table(results.reloads),
        _sizes_table(results.sizes),
        _verdicts_table(results),
    ]


def summary_lines(results: ServeResults) -> list[str]:
    """The verdicts as sentences."""
    return [f"{v.aim}: {v.in_words}: {v.found}." for v in verdicts(results)]


def notes(results: ServeResults) -> list[str]:
    """Answers that were wrong, failures by kind, and whether the machine was busy."""
    told = list(results.checked.faults)
    for title, run in _named_runs(results):
        kinds = {kind: count for kind, count in run.failures.items() if count}
        if kinds:
            told.append(f"{title}: {', '.join(f'{n} × {kind}' for kind, n in kinds.items())}")
    if results.load > _BUSY:
        told.append(
            f"the machine was busy: {results.load:.1f} processes wanted to run before the first "
            "measurement; rates are too low, and times too long"
        )
    return told


def _single_verdict(cell: Singles) -> Verdict:
    found = (
        f"{cell.ratio:.2f} × ({cell.service.a_second:,.0f} of {cell.bare.a_second:,.0f} a second)"
    )
    aim = f"Single forecasts, {_connections(cell.connections)}: {TARGET_RATIO:g} × the bare service"
    return Verdict(aim, found, cell.ratio >= TARGET_RATIO)


def _batch_verdict(cell: Batches) -> Verdict:
    aim = f"Batches, {_connections(cell.connections)}: {TARGET_FORECASTS:,} forecasts a second"
    reached = cell.forecasts_a_second
    return Verdict(aim, f"{reached:,.0f}", reached >= TARGET_FORECASTS)


def _reload_verdict(reloads: Reloads) -> Verdict:
    run, taken = reloads.run, len(reloads.waits)
    aim = f"{taken + reloads.missed} reloads in {run.seconds:.0f} s of load: no failed request"
    found = (
        f"{run.failed:,} of {run.requests:,} failed; {taken} reloads were taken, and answers came "
        f"from {len(run.versions)} versions of the model"
    )
    return Verdict(aim, found, not run.failed and not reloads.missed and len(run.versions) >= 2)


def _start_verdict(sizes: list[Size]) -> Verdict:
    aim = f"Start with {TARGET_ADVERTISERS:,} advertisers: below {TARGET_START:g} s"
    largest = max(sizes, key=lambda size: size.advertisers)
    slowest = max(largest.starts)
    found = f"{seconds_text(slowest)} s with {largest.advertisers:,}, the slowest of "
    found += f"{len(largest.starts)} starts"
    enough = largest.advertisers >= TARGET_ADVERTISERS
    return Verdict(aim, found, slowest < TARGET_START if enough else None)


def _failure_verdict(results: ServeResults) -> Verdict:
    rounds = [cell.service for cell in results.singles]
    rounds += [cell.service for cell in results.batches]
    failed, asked = sum(r.failed for r in rounds), sum(r.requests for r in rounds)
    return Verdict("All other loads: no failed request", f"{failed:,} of {asked:,}", failed == 0)


def _answer_verdict(results: ServeResults) -> Verdict:
    checked = results.checked
    found = f"{checked.wrong:,} of {checked.forecasts:,} that were checked differ"
    met = checked.wrong == 0 if checked.forecasts else None
    return Verdict("Answers under load: those of the model", found, met)


def _singles_table(singles: list[Singles]) -> ResultTable:
    headings = (
        "connections", "a second", "bare", "ratio", "rounds", "p50, ms", "p99, ms", "bare p50",
        "bare p99", "processor, µs", "bare", "failed",
    )  # fmt: skip
    rows = [
        (
            str(cell.connections),
            f"{cell.service.a_second:,.0f}",
            f"{cell.bare.a_second:,.0f}",
            f"{cell.ratio:.2f}",
            f"{cell.ratios[0]:.2f}–{cell.ratios[-1]:.2f}",
            *(_ms(t) for t in (cell.service.p50, cell.service.p99, cell.bare.p50, cell.bare.p99)),
            _microseconds(cell.service.processor_a_request),
            _microseconds(cell.bare.processor_a_request),
            str(cell.service.failed),
        )
        for cell in singles
    ]
    missed = {(r, 3) for r, cell in enumerate(singles) if cell.ratio < TARGET_RATIO}
    title = f"Single forecasts (aim: {TARGET_RATIO:g} × the bare service)"
    return ResultTable(title, headings, rows, stressed=missed)


def _batches_table(batches: list[Batches]) -> ResultTable:
    headings = (
        "connections", "forecasts a second", "batches a second", "p50, ms", "p99, ms",
        "processor a forecast, µs", "failed",
    )  # fmt: skip
    rows = []
    for cell in batches:
        processor = cell.service.processor_a_request
        rows.append(
            (
                str(cell.connections),
                f"{cell.forecasts_a_second:,.0f}",
                f"{cell.service.a_second:,.1f}",
                _ms(cell.service.p50),
                _ms(cell.service.p99),
                _microseconds(None if processor is None else processor / BATCH),
                str(cell.service.failed),
            )
        )
    missed = {(r, 1) for r, b in enumerate(batches) if b.forecasts_a_second < TARGET_FORECASTS}
    title = f"Batches of {BATCH:,} (aim: {TARGET_FORECASTS:,} forecasts a second)"
    return ResultTable(title, headings, rows, stressed=missed)


def _reloads_table(reloads: Reloads) -> ResultTable:
    run, waits = reloads.run, reloads.waits
    rows = [
        ("requests", f"{run.requests:,}"),
        ("failed", f"{run.failed:,}"),
        ("a second", f"{run.a_second:,.0f}"),
        ("p50, p99, slowest, ms", ", ".join(_ms(t) for t in (run.p50, run.p99, run.slowest))),
        ("reloads taken", f"{len(waits)} of {len(waits) + reloads.missed}"),
        ("seconds until each was", ", ".join(seconds_text(wait) for wait in waits) or "–"),
        ("versions of the model that answered", str(len(run.versions))),
        ("resident memory before", _size(reloads.before.resident)),
        ("resident memory after", _size(reloads.after.resident)),
        ("highest resident memory", _size(reloads.after.peak)),
    ]
    title = f"The model replaced under load, {_connections(run.connections)}"
    return ResultTable(title, ("figure", "found"), rows)


def _sizes_table(sizes: list[Size]) -> ResultTable:
    headings = (
        "advertisers", "file", "start, s", "slowest", "processor, s", "resident", "proportional",
        "resident after load", "highest",
    )  # fmt: skip
    rows = [
        (
            f"{size.advertisers:,}",
            readable_bytes(size.file_bytes),
            seconds_text(median(size.starts)),
            seconds_text(max(size.starts)),
            "–" if size.start_processor is None else seconds_text(size.start_processor),
            _size(size.started.resident),
            _size(size.started.proportional),
            _size(size.loaded.resident),
            _size(size.loaded.peak),
        )
        for size in sizes
    ]
    return ResultTable("Start and memory", headings, rows)


def _verdicts_table(results: ServeResults) -> ResultTable:
    found = verdicts(results)
    missed = {(r, 2) for r, verdict in enumerate(found) if verdict.met is False}
    rows = [(verdict.aim, verdict.found, verdict.in_words) for verdict in found]
    return ResultTable("Verdicts", ("aim", "found", ""), rows, n_named=3, stressed=missed)


def _named_runs(results: ServeResults) -> Iterator[tuple[str, LoadRun]]:
    for cell in results.singles:
        for name, rounds in (("single forecasts", cell.service), ("the bare service", cell.bare)):
            yield from ((f"{name}, {_connections(cell.connections)}", run) for run in rounds.runs)
    for batch in results.batches:
        title = f"batches, {_connections(batch.connections)}"
        yield from ((title, run) for run in batch.service.runs)
    yield "reloads", results.reloads.run


def _rounds_json(rounds: Rounds) -> dict[str, Any]:
    return {
        "a_second": rounds.a_second,
        "p50": rounds.p50,
        "p99": rounds.p99,
        "processor_a_request": rounds.processor_a_request,
        "processor_seconds": list(rounds.processor_seconds),
        "runs": [_run_json(run) for run in rounds.runs],
    }


def _run_json(run: LoadRun) -> dict[str, Any]:
    """Less the answers that were kept."""
    return {name: value for name, value in asdict(run).items() if name != "kept"}


def _connections(n: int) -> str:
    return f"{n} connection{'' if n == 1 else 's'}"


def _ms(seconds: float) -> str:
    milliseconds = 1000 * seconds
    return f"{milliseconds:.2f}" if milliseconds < 10 else f"{milliseconds:.1f}"


def _microseconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{1e6 * seconds:.0f}" if seconds >= 1e-4 else f"{1e6 * seconds:.1f}"


def _size(n: int | None) -> str:
    return "–" if n is None else readable_bytes(n)
