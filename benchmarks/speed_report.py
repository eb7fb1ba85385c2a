"""Results of the speed benchmark as JSON, as tables and as a page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchmarks.environment import in_words
from benchmarks.measuring import Measurement
from benchmarks.result_tables import ResultTable
from benchmarks.speed import FULL, Check, SpeedResults
from coterie.runtime.devices import readable_bytes

__all__ = ["METHOD", "as_json", "as_page", "as_tables", "notes"]

METHOD = (
    "Every run is a fresh process that loads its input and warms up on a small problem before the "
    "clock starts, so compilation is not in the times; warm-up is given apart. Contenders "
    "take turns; times are medians. Peak memory is the highest resident set during the run less "
    "that right before it: what is needed beyond the input. For one-hot k-means (10 starts, "
    "scikit-learn) the input is the encoded matrix, so encoding costs it neither time nor memory; "
    "sparse is double precision as the encoder gives it, dense is single, and ratios are to the "
    "faster of the two."
)


def as_json(results: SpeedResults, described: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`.

    ``{"cells": [{name, title, contenders: {name: {seconds, runs, peak_bytes, warm_up_seconds,
    memory_method, facts, warnings}}, checks: [{what, value, limit, at_most, met}]}],
    "first_use": {cold, warm, checks}, "scale": …, "method": …, "environment": …}``
    """
    return {
        "cells": [
            {
                "name": cell.name,
                "title": cell.title,
                "contenders": {name: asdict(found) for name, found in cell.measured.items()},
                "checks": [_check_json(check) for check in cell.checks],
            }
            for cell in results.cells
        ],
        "first_use": {
            **{state: asdict(found) for state, found in results.first_use.items()},
            "checks": [_check_json(check) for check in results.first_use_checks],
        },
        "scale": asdict(results.scale),
        "method": METHOD,
        "environment": described,
    }


def as_tables(results: SpeedResults) -> list[ResultTable]:
    """Times and memory; checks; first use."""
    return [_times_table(results), _checks_table(results), _first_use_table(results)]


def notes(results: SpeedResults) -> list[str]:
    """Warnings the library gave while it was measured."""
    return [
        f"{cell.title}, {name}: {kind}, {times} times"
        for cell in results.cells
        for name, found in cell.measured.items()
        for kind, times in found.warnings.items()
    ]


def as_page(results: SpeedResults, described: dict[str, Any]) -> str:
    """A page in Markdown."""
    parts = ["# Time and memory", METHOD]
    for table in as_tables(results):
        parts += [f"## {table.title}", table.markdown()]
    warned = [f"- {note}" for note in notes(results)]
    parts += ["Warnings of the library:", "\n".join(warned)] if warned else []
    parts.append(f"Measured {in_words(described)}.")
    return "\n\n".join(parts) + "\n"


def _times_table(results: SpeedResults) -> ResultTable:
    headings = (
        "cell", "contender", "seconds", "runs", "peak memory", "warm-up, s", "tuples", "J",
        "accuracy",
    )  # fmt: skip
    rows = []
    for cell in results.cells:
        for place, (name, found) in enumerate(cell.measured.items()):
            rows.append((cell.title if place == 0 else "", name, *_measurement_texts(found)))
    return ResultTable("Side by side", headings, rows, n_named=2)


def _measurement_texts(found: Measurement) -> tuple[str, ...]:
    facts = found.facts
    return (
        seconds_in_short(found.seconds),
        str(len(found.runs)),
        readable_bytes(found.peak_bytes),
        seconds_in_short(found.warm_up_seconds),
        f"{facts['n_tuples']:,}" if "n_tuples" in facts else "",
        f"{facts['objective']:.5g}" if "objective" in facts else "",
        f"{facts['accuracy']:.3f}" if "accuracy" in facts else "",
    )


def _checks_table(results: SpeedResults) -> ResultTable:
    named = [(cell.title, check) for cell in results.cells for check in cell.checks]
    named += [("first use", check) for check in results.first_use_checks]
    rows = [
        (
            title,
            check.what,
            f"{check.value:.3g}",
            f"{'≤' if check.at_most else '≥'} {check.limit:g}",
            "met" if check.met else "missed",
        )
        for title, check in named
    ]
    missed = {(r, 4) for r, (_, check) in enumerate(named) if not check.met}
    headings = ("cell", "figure", "measured", "limit", "")
    title = "Limits" if results.scale == FULL else "Limits, which are meant for the full scale"
    return ResultTable(title, headings, rows, n_named=2, stressed=frozenset(missed))


def _first_use_table(results: SpeedResults) -> ResultTable:
    headings = (
        "kernels on disk",
        "import coterie",
        "import RobustConsensus",
        "first fit",
        "second",
    )
    state = {"cold": "none: compiled now", "warm": "compiled before"}
    rows = [
        (state[name], *(seconds_in_short(value) for value in asdict(found).values()))
        for name, found in results.first_use.items()
    ]
    return ResultTable("First use in a fresh process, seconds", headings, rows)


def seconds_in_short(seconds: float) -> str:
    """Three digits, no more than milliseconds.

    >>> seconds_in_short(0.01234), seconds_in_short(3.456), seconds_in_short(123.4)
    ('0.012', '3.46', '123')
    """
    decimals = 3 if seconds < 1 else 2 if seconds < 10 else 1 if seconds < 100 else 0
    return f"{seconds:.{decimals}f}"


def _check_json(check: Check) -> dict[str, Any]:
    return {**asdict(check), "met": check.met}
