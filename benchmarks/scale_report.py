"""Results of the scale benchmark as JSON, tables and sentences; growth, and targets met or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from benchmarks.result_tables import ResultTable
from benchmarks.scale import ScaleResults, ScaleTrial
from benchmarks.scale_labels import Family, Recipe
from benchmarks.scale_peers import MeasuredPeers
from benchmarks.speed_report import seconds_in_short
from coterie.runtime.devices import readable_bytes

__all__ = [
    "FAMILIES",
    "METHOD",
    "TARGETS",
    "Growth",
    "Target",
    "Verdict",
    "as_json",
    "as_tables",
    "growth",
    "notes",
    "summary_lines",
    "verdicts",
]

_TABLE = Recipe("fixed", 0)
FAMILIES: dict[Family, str] = {"fixed": "fixed K", "diverse": "diverse K"}
METHOD = (
    f"Label tables of n rows, {_TABLE.n_partitions} partitions, K = {_TABLE.n_clusters} unequal "
    f"clusters, in Parquet. {_TABLE.n_wrong} of the partitions are wrong together: they copy "
    f"another partition than the truth. {_TABLE.noise:.0%} of all labels are redrawn at random. "
    f"With fixed K every partition has {_TABLE.n_clusters} labels; with diverse K each splits "
    f"every cluster into 1 to 4 parts of its own, and has between {_TABLE.n_clusters} and "
    f"{4 * _TABLE.n_clusters}. Each trial runs the program, as one would in a terminal, in a fresh "
    f"process: `coterie consensus labels.parquet --id id -k {_TABLE.n_clusters} -o out.parquet`. "
    "Seconds are wall time from its start to its end, Python's start, imports, reading and "
    "writing included; peak memory is the highest resident set of the whole process. A run in "
    "which kernels are compiled, which happens once a machine, is made again, and the second "
    "counts. The tables have just been written, so the system has them in its cache. Accuracy "
    "is that of the labels written, joined by id with the truth."
)
#: Growth is read off tables of so many points and more: below, starting the program takes most.
GROWTH_FROM = 100_000
# what an idle machine may show for the moments before
_BUSY = 1.5


@dataclass(frozen=True)
class Target:
    """What a table may take."""

    family: Family
    n_points: int
    seconds: float
    peak_bytes: float


TARGETS = (
    Target("fixed", 10**7, 180.0, 6e9),
    Target("diverse", 10**7, 180.0, 6e9),
    Target("diverse", 10**6, 60.0, 3e9),
)


@dataclass(frozen=True)
class Verdict:
    """A limit beside what was measured; None where nothing was."""

    target: Target
    what: str
    limit: float
    measured: float | None

    @property
    def in_words(self) -> str:
        """Met, missed and by how much, or not measured.

        >>> Verdict(TARGETS[0], "seconds", 180.0, 207.0).in_words
        'missed by 15%'
        """
        if self.measured is None:
            return "not measured"
        excess = self.measured / self.limit - 1
        return "met" if excess <= 0 else f"missed by {excess:.0%}"


@dataclass(frozen=True)
class Growth:
    """The least-squares slope of log(quantity) on log(n), and the points (n, quantity) it fits."""

    exponent: float
    points: tuple[tuple[int, float], ...]


def growth(trials: Sequence[ScaleTrial], quantity: Callable[[ScaleTrial], float]) -> Growth | None:
    """How a quantity grows: q ∝ n^exponent, from 100,000 points on; None below two trials.

    >>> some = [ScaleTrial("fixed", n, "done", seconds=n / 10**4) for n in (10**5, 10**6, 10**7)]
    >>> round(growth(some, lambda trial: trial.seconds).exponent, 6)
    1.0
    """
    points = tuple((t.n_points, quantity(t)) for t in trials if t.n_points >= GROWTH_FROM)
    if len(points) < 2:
        return None
    log_n, log_quantity = np.log(np.array(points, dtype=np.float64)).T
    return Growth(float(np.polyfit(log_n, log_quantity, 1)[0]), points)


def verdicts(results: ScaleResults) -> list[Verdict]:
    """Both limits of every target."""
    found = []
    for target in TARGETS:
        trial = next(
            (t for t in results.done(target.family) if t.n_points == target.n_points), None
        )
        seconds, peak_bytes = (None, None) if trial is None else (trial.seconds, trial.peak_bytes)
        found.append(Verdict(target, "seconds", target.seconds, seconds))
        found.append(Verdict(target, "peak memory", target.peak_bytes, peak_bytes))
    return found


def as_json(
    results: ScaleResults, peers: MeasuredPeers | None, described: dict[str, Any]
) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`.

    ``{"trials": [{family, n_points, status, message, seconds, processor_seconds, peak_bytes, …}],
    "not_run": [{family, n_points, why}], "growth": {family: {seconds, peak_bytes}}, "targets":
    [{family, n_points, what, limit, measured, verdict}], "peers": … or None, "effort": …,
    "method": …, "environment": …}``
    """
    return {
        "trials": [asdict(trial) for trial in results.trials],
        "not_run": [asdict(left) for left in results.not_run],
        "growth": {
            family: {
                what: None if found is None else asdict(found)
                for what, found in _growths(results, family).items()
            }
            for family in get_args(Family)
        },
        "targets": [
            {
                "family": verdict.target.family,
                "n_points": verdict.target.n_points,
                "what": verdict.what,
                "limit": verdict.limit,
                "measured": verdict.measured,
                "verdict": verdict.in_words,
            }
            for verdict in verdicts(results)
        ],
        "peers": None if peers is None else asdict(peers),
        "effort": asdict(results.effort),
        "method": METHOD,
        "environment": described,
    }


def as_tables(results: ScaleResults) -> list[ResultTable]:
    """The trials; their stages, where the program told them; growth and targets, where known."""
    staged = [trial for trial in results.trials if trial.stages]
    tables = [_trials_table(results), *([_stages_table(staged)] if staged else [])]
    if any(found for family in FAMILIES for found in _growths(results, family).values()):
        tables.append(_growth_table(results))
    if any(verdict.measured is not None for verdict in verdicts(results)):
        tables.append(_targets_table(results))
    return tables


def summary_lines(results: ScaleResults) -> list[str]:
    """For each family, how far it came and how it grows."""
    lines = []
    for family, name in FAMILIES.items():
        done = results.done(family)
        if not done:
            continue
        last = done[-1]
        exponents = [
            f"{what} as n^{found.exponent:.2f}"
            for what, found in zip(
                ("time grows", "memory"), _growths(results, family).values(), strict=True
            )
            if found is not None
        ]
        lines.append(
            f"{name[0].upper()}{name[1:]}: {last.n_points:,} points in "
            f"{seconds_in_short(last.seconds)} s and {readable_bytes(last.peak_bytes)}, accuracy "
            f"{last.accuracy:.3f}{'; ' if exponents else ''}{', '.join(exponents)}."
        )
    return lines


def notes(results: ScaleResults) -> list[str]:
    """Failures, tables left out, growth that cannot be told, and whether the machine was busy."""
    told = [
        f"{FAMILIES[t.family]}, {t.n_points:,} points: {t.status}: {t.message}"
        for t in results.trials
        if t.status != "done"
    ]
    told += [
        f"{FAMILIES[left.family]}, {left.n_points:,} points: not run: {left.why}"
        for left in results.not_run
    ]
    if results.effort.most < max(target.n_points for target in TARGETS):
        told.append(f"larger tables than {results.effort.most:,} points were not asked for")
    if any(None in _growths(results, family).values() for family in get_args(Family)):
        told.append(f"growth needs two tables of {GROWTH_FROM:,} points or more")
    busy = max((trial.load for trial in results.trials), default=0.0)
    if busy > _BUSY:
        told.append(
            f"the machine was busy: {busy:.1f} processes wanted to run before the first trial; "
            "times are too long (processor seconds suffer less)"
        )
    return told


def _growths(results: ScaleResults, family: Family) -> dict[str, Growth | None]:
    done = results.done(family)
    return {
        "seconds": growth(done, lambda trial: trial.seconds),
        "peak_bytes": growth(done, lambda trial: trial.peak_bytes),
    }


def _trials_table(results: ScaleResults) -> ResultTable:
    headings = (
        "family", "path", "n", "tuples", "seconds", "processor s", "peak memory", "accuracy",
        "clusters", "first run, s",
    )  # fmt: skip
    rows = [
        (FAMILIES[t.family], t.path or "in memory", f"{t.n_points:,}", *_trial_texts(t))
        for t in results.trials
    ]
    return ResultTable("Time and memory by n", headings, rows, n_named=2)


def _trial_texts(trial: ScaleTrial) -> tuple[str, ...]:
    first, about = trial.first_seconds, "" if trial.tuples_exact else "≈ "
    if trial.status != "done":
        return ("", trial.status, "", "", "", "", "")
    return (
        "" if trial.n_tuples is None else f"{about}{trial.n_tuples:,}",
        seconds_in_short(trial.seconds),
        seconds_in_short(trial.processor_seconds),
        readable_bytes(trial.peak_bytes),
        "" if trial.accuracy is None else f"{trial.accuracy:.4f}",
        "" if trial.n_clusters is None else str(trial.n_clusters),
        "" if first is None else seconds_in_short(first),
    )


def _stages_table(staged: Sequence[ScaleTrial]) -> ResultTable:
    names = list(dict.fromkeys(name for trial in staged for name in trial.stages))
    rows = [
        (
            FAMILIES[trial.family],
            trial.path or "in memory",
            f"{trial.n_points:,}",
            *(seconds_in_short(trial.stages[n]) if n in trial.stages else "" for n in names),
        )
        for trial in staged
    ]
    headings = ("family", "path", "n", *names)
    return ResultTable("Stages, seconds as the program tells them", headings, rows, n_named=2)


def _growth_table(results: ScaleResults) -> ResultTable:
    shown: dict[str, tuple[str, Callable[[float], str]]] = {
        "seconds": ("seconds", seconds_in_short),
        "peak_bytes": ("peak memory", readable_bytes),
    }
    rows = []
    for family, name in FAMILIES.items():
        for what, found in _growths(results, family).items():
            title, as_text = shown[what]
            if found is None:
                rows.append((name, title, "too few tables", ""))
                continue
            points = ", ".join(f"{as_text(value)} at {n:,}" for n, value in found.points)
            rows.append((name, title, points, f"{found.exponent:.2f}"))
    title = f"Exponent of growth with n, from {GROWTH_FROM:,} points on"
    return ResultTable(title, ("family", "figure", "points", "exponent"), rows, n_named=3)


def _targets_table(results: ScaleResults) -> ResultTable:
    found = verdicts(results)
    rows = []
    for verdict in found:
        as_text: Callable[[float], str] = (
            seconds_in_short if verdict.what == "seconds" else readable_bytes
        )
        rows.append(
            (
                f"{FAMILIES[verdict.target.family]}, {verdict.target.n_points:,} points",
                verdict.what,
                "" if verdict.measured is None else as_text(verdict.measured),
                f"≤ {as_text(verdict.limit)}",
                verdict.in_words,
            )
        )
    missed = {(r, 4) for r, verdict in enumerate(found) if verdict.in_words.startswith("missed")}
    headings = ("table", "figure", "measured", "target", "")
    return ResultTable("Targets", headings, rows, n_named=2, stressed=frozenset(missed))
