"""Results of the benchmark of table engines as JSON, tables, sentences and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.environment import in_words
from benchmarks.result_tables import ResultTable
from benchmarks.speed_report import seconds_in_short
from benchmarks.table_engines import EngineRun, KilledRuns, TableEngineResults
from benchmarks.table_engines_labels import (
    MEMORY_LIMIT,
    N_CLUSTERS,
    N_PARTITIONS,
    N_TUPLES,
    N_WRONG,
    NOISE_PERCENT,
    SAME_CONFIDENCE,
)
from coterie.runtime.devices import readable_bytes

__all__ = [
    "METHOD",
    "Verdict",
    "as_json",
    "as_page",
    "as_tables",
    "notes",
    "summary_lines",
    "verdicts",
]

METHOD = (
    f"Label tables of {N_PARTITIONS} partitions, K = {N_CLUSTERS} unequal clusters, that DuckDB "
    f"generates and writes to Parquet: every row is a copy of one of {N_TUPLES:,} tuples, some of "
    f"them far more frequent than others. {N_WRONG} of the partitions are wrong together: they "
    f"follow another partition than the truth. {NOISE_PERCENT}% of the labels of the tuples are "
    "drawn anew. Each run is the program in a fresh process: `coterie consensus labels.parquet "
    f"--engine duckdb:// --memory-limit {MEMORY_LIMIT} --id id -k {N_CLUSTERS} -o out.parquet`, "
    "on Spark with the URL of the cluster and no limit. Seconds are wall time from its start to "
    "its end; peak memory is the highest resident set of the process, DuckDB within it. A run on "
    "a small table comes first, so that kernels are compiled. Accuracy is that of the rows "
    "written, joined by id with the truth and counted in DuckDB, clusters matched best. Two "
    f"outputs differ in a row if its label does, its confidence by more than {SAME_CONFIDENCE:g}, "
    "or if one lacks it."
)
_LARGE, _MOST_BYTES = 10**8, 3e9
# what an idle machine may show for the moments before
_BUSY = 1.5
_WEAK = (
    "- One table a size and one run of it: times vary from run to run, more so on a busy machine.",
    f"- All tables have {N_TUPLES:,} distinct tuples and go the way of tuples; what many distinct "
    "tuples cost is in {doc}`../guide/label_tables`.",
    "- Tables are made to be recovered. What real votes do to accuracy is measured elsewhere "
    "({doc}`regret`, {doc}`table2`).",
    "- Tables have just been written, so the system has them in its cache: a cold disk adds the "
    "time to read them.",
    "- A run is killed at two moments only, and the machine goes on: what a power failure leaves "
    "depends on the file system.",
)
_WEAK_SPARK = (
    "- Spark gets a small table, and most of its time goes into starting: this asks whether it "
    "answers alike, not how fast it is. Its memory and processor time are its own and not counted."
)


@dataclass(frozen=True)
class Verdict:
    """What was aimed for, what was found, and whether that is it; None where nothing was found."""

    aim: str
    found: str
    met: bool | None

    @property
    def in_words(self) -> str:
        """Met, missed or not measured.

        >>> Verdict("memory within 3 GB", "3.5 GB", met=False).in_words
        'missed'
        """
        return "not measured" if self.met is None else "met" if self.met else "missed"


def verdicts(results: TableEngineResults) -> list[Verdict]:
    """Memory of a hundred million rows, Spark equal to DuckDB, and killed runs."""
    return [_memory_verdict(results), _spark_verdict(results), _killed_verdict(results.killed)]


def as_json(
    results: TableEngineResults, described: dict[str, Any], command: str = ""
) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`.

    ``{"largest": run, "table_bytes": …, "table_seconds": …, "spark": {duckdb, spark, n_different}
    or None, "killed": {whole, kills, again, n_different, n_left}, "verdicts": [{aim, found, met}],
    "effort": …, "load": …, "command": …, "method": …, "environment": …}``
    """
    return {
        **asdict(results),
        "verdicts": [asdict(verdict) for verdict in verdicts(results)],
        "command": command,
        "method": METHOD,
        "environment": described,
    }


def as_tables(results: TableEngineResults) -> list[ResultTable]:
    """The runs, their stages, the killed runs, and the verdicts."""
    named = _named_runs(results)
    tables = [_runs_table(named), _stages_table(named)]
    if results.killed.kills:
        tables.append(_kills_table(results.killed))
    return [*tables, _verdicts_table(results)]


def summary_lines(results: TableEngineResults) -> list[str]:
    """The verdicts as sentences."""
    return [f"{v.aim}: {v.in_words}: {v.found}." for v in verdicts(results)]


def notes(results: TableEngineResults) -> list[str]:
    """Failures, what was left out, and whether the machine was busy."""
    told = [
        f"{run.engine}, {run.n_rows:,} rows ({name}): {run.message}"
        for name, run in _named_runs(results)
        if run.message
    ]
    if results.spark is None:
        told.append("Spark was left out: --spark local starts a cluster on this machine")
    sooner = sum(not kill.in_time for kill in results.killed.kills)
    if sooner:
        told.append(f"{sooner} of the runs to be killed ended sooner than expected")
    if results.load > _BUSY:
        told.append(
            f"the machine was busy: {results.load:.1f} processes wanted to run before the first "
            "run; times are too long (processor seconds suffer less)"
        )
    return told


def as_page(results: TableEngineResults, described: dict[str, Any], command: str) -> str:
    """A page in Markdown."""
    size, seconds = readable_bytes(results.table_bytes), results.table_seconds
    written = "" if seconds is None else f", written in {seconds_in_short(seconds)} s"
    parts = [
        "# Tables that stay in an engine",
        METHOD,
        f"`{command}`",
        "\n".join(f"- {line}" for line in summary_lines(results)),
        f"The table of {results.effort.rows:,} rows is a file of {size}{written}.",
    ]
    for table in as_tables(results):
        parts += [f"## {table.title}", table.markdown()]
    told = [f"- {note}" for note in notes(results)]
    parts += ["## Notes", "\n".join(told)] if told else []
    weak = _WEAK if results.spark is None else (*_WEAK, _WEAK_SPARK)
    parts += ["## What is weak", "\n".join(weak), f"Measured {in_words(described)}."]
    return "\n\n".join(parts) + "\n"


def _memory_verdict(results: TableEngineResults) -> Verdict:
    run = results.largest
    aim = f"{_LARGE // 10**6} million rows: memory within {readable_bytes(_MOST_BYTES)}"
    if run.message:
        return Verdict(aim, run.message, met=False if run.n_rows >= _LARGE else None)
    cost = f"{readable_bytes(run.peak_bytes)} and {seconds_in_short(run.seconds)} s"
    found = f"{run.n_rows:,} rows took {cost}"
    return Verdict(aim, found, run.peak_bytes <= _MOST_BYTES if run.n_rows >= _LARGE else None)


def _spark_verdict(results: TableEngineResults) -> Verdict:
    aim = "Spark: the rows that DuckDB gives"
    if results.spark is None:
        return Verdict(aim, "Spark was left out", None)
    different, n_rows = results.spark.n_different, results.spark.spark.n_rows
    if different is None:
        message = results.spark.spark.message
        return Verdict(aim, message or "DuckDB has no answer", met=False if message else None)
    return Verdict(aim, f"{different:,} of {n_rows:,} rows differ", met=different == 0)


def _killed_verdict(killed: KilledRuns) -> Verdict:
    aim = "Killed: whole or nothing"
    dead = [kill for kill in killed.kills if kill.in_time]
    if killed.again is None or not dead:
        why = "no run was killed in time" if killed.kills else "there was no run to kill"
        return Verdict(aim, why, None)
    partial = sum(kill.output == "partial" for kill in dead)
    if partial:
        found = f"{partial} of {len(dead)} killed runs left a partial output"
        return Verdict(aim, found, met=False)
    if killed.again.message:
        found = f"no partial output; the next run failed: {killed.again.message}"
        return Verdict(aim, found, met=False)
    found = f"no partial output; the next run took {seconds_in_short(killed.again.seconds)} s"
    if killed.n_left or killed.n_different:
        found += f", left {killed.n_left} unfinished folders and {killed.n_different} other rows"
    return Verdict(aim, found, met=not killed.n_left and killed.n_different == 0)


def _named_runs(results: TableEngineResults) -> list[tuple[str, EngineRun]]:
    killed, spark = results.killed, results.spark
    named = [("largest table", results.largest), ("undisturbed", killed.whole)]
    named += [] if killed.again is None else [("after killed ones", killed.again)]
    named += [] if spark is None else [("the same table", r) for r in (spark.duckdb, spark.spark)]
    return named


def _runs_table(named: Sequence[tuple[str, EngineRun]]) -> ResultTable:
    headings = (
        "run", "engine", "rows", "path", "tuples", "seconds", "processor s", "peak memory",
        "accuracy",
    )  # fmt: skip
    rows = [(name, run.engine, f"{run.n_rows:,}", *_run_texts(run)) for name, run in named]
    return ResultTable("Time and memory", headings, rows, n_named=2)


def _run_texts(run: EngineRun) -> tuple[str, ...]:
    if run.message or run.accuracy is None:
        return ("", "", "failed", "", "", "")
    is_here = run.engine == "DuckDB"
    return (
        run.path or "",
        f"{run.n_tuples:,}",
        seconds_in_short(run.seconds),
        seconds_in_short(run.processor_seconds) if is_here else "–",
        readable_bytes(run.peak_bytes) if is_here else "–",
        f"{run.accuracy:.4f}",
    )


def _stages_table(named: Sequence[tuple[str, EngineRun]]) -> ResultTable:
    told = [(name, run) for name, run in named if run.stages]
    stages = list(dict.fromkeys(stage for _, run in told for stage in run.stages))
    rows = [
        (
            name,
            run.engine,
            f"{run.n_rows:,}",
            *(seconds_in_short(run.stages[s]) if s in run.stages else "" for s in stages),
        )
        for name, run in told
    ]
    title = "Stages, seconds as the program tells them"
    return ResultTable(title, ("run", "engine", "rows", *stages), rows, n_named=2)


def _kills_table(killed: KilledRuns) -> ResultTable:
    rows = [
        (
            kill.when,
            "killed" if kill.in_time else "ended sooner",
            f"{seconds_in_short(kill.after)} of {seconds_in_short(killed.whole.seconds)}",
            kill.output,
            str(kill.n_left),
        )
        for kill in killed.kills
    ]
    headings = ("after", "the run", "seconds", "output", "unfinished folders")
    return ResultTable(f"Killed runs, {killed.whole.n_rows:,} rows", headings, rows, n_named=2)


def _verdicts_table(results: TableEngineResults) -> ResultTable:
    found = verdicts(results)
    missed = {(r, 2) for r, verdict in enumerate(found) if verdict.met is False}
    rows = [(verdict.aim, verdict.found, verdict.in_words) for verdict in found]
    headings = ("aim", "found", "")
    return ResultTable("Verdicts", headings, rows, n_named=3, stressed=missed)
