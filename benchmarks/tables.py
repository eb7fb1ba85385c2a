"""Label tables that stay in an engine: a large table, Spark beside DuckDB, and killed runs.

DuckDB generates the tables (:mod:`benchmarks.planted_tables`). Every run is ``coterie consensus
TABLE --engine URL --id id -k K -o OUT --json --quiet`` in a new process, and DuckDB scores its
output. No table is in the memory of this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import Context
from benchmarks.local_spark import LocalSpark, check_spark
from benchmarks.planted_tables import MEMORY_LIMIT, N_CLUSTERS, N_TUPLES, PlantedTables
from benchmarks.program_runs import PROGRAM, busy_notes, failure_text, run_program
from benchmarks.results import Result, Table, seconds_text
from coterie.errors import TableError
from coterie.runtime.devices import readable_bytes

_DUCKDB = "duckdb://"
_MOST_SECONDS = 3600.0
_MOST_KILLED, _MOST_SPARK = 10**7, 10**6

Run = dict[str, Any]


def run(context: Context, *, rows: int | None = None, spark: str | None = None) -> Result:
    """Run the largest table, kill runs of a smaller one, and compare Spark with DuckDB.

    ``rows`` of the largest table are 10⁸, with ``--quick`` 10⁶. ``spark`` is "local", which starts
    a cluster on this machine, or the URL of a cluster; without it Spark is left out.
    """
    check_spark(spark)
    n_rows = rows or (10**6 if context.quick else 10**8)
    data: dict[str, Any] = {"rows": n_rows, "load": round(os.getloadavg()[0], 2), "spark": None}
    with (
        tempfile.TemporaryDirectory(prefix="coterie-tables-", ignore_cleanup_errors=True) as name,
        PlantedTables(Path(name)) as tables,
    ):
        bench = Bench(tables, Path(name))
        bench.run(N_TUPLES, bench.folder / "first.parquet")  # compiles the kernels
        if spark is not None:
            data["spark"] = bench.compare_engines(min(n_rows, _MOST_SPARK), spark)
        data["killed"] = bench.kill_runs(min(n_rows, _MOST_KILLED))
        data["table_bytes"] = tables.file(n_rows).stat().st_size
        data["table_seconds"] = tables.seconds[n_rows]
        data["largest"] = bench.run(n_rows, bench.folder / "largest.parquet")
    return result_of(data)


class Bench(NamedTuple):
    """The tables and the folder for outputs."""

    tables: PlantedTables
    folder: Path

    def run(self, n_rows: int, out: Path, url: str = _DUCKDB) -> Run:
        """Run the program to its end; ``message`` says why there is no answer."""
        run = run_program(command(self.tables.file(n_rows), out, url), _MOST_SECONDS)
        found: Run = {
            "engine": "DuckDB" if url == _DUCKDB else "Spark",
            "n_rows": n_rows,
            "message": failure_text(run, self.folder),
            "seconds": run.seconds,
            "processor_seconds": run.processor_seconds,
            "peak_bytes": run.peak_bytes,
        }
        if run.status == 0:
            facts = json.loads(run.output)["engine"]
            try:
                found["accuracy"] = self.tables.accuracy(out, n_rows)
            except TableError as error:
                found["message"] = str(error).replace(f"{self.folder}{os.sep}", "")
            names = {"n_tuples": "tuples", "path": "path", "stages": "seconds"}
            found |= {name: facts[theirs] for name, theirs in names.items()}
        return found

    def compare_engines(self, n_rows: int, spark: str) -> dict[str, Any]:
        """Run both engines on the same table; count the rows that differ."""
        here, there = self.folder / "duckdb.parquet", self.folder / "spark"
        duckdb = self.run(n_rows, here)
        local = LocalSpark(self.folder / "cluster")
        with local if spark == "local" else contextlib.nullcontext(spark) as url:
            found = self.run(n_rows, there, url)
        failed = duckdb["message"] or found["message"]
        different = None if failed else self.tables.n_different(here, there)
        return {"duckdb": duckdb, "spark": found, "n_different": different}

    def kill_runs(self, n_rows: int) -> dict[str, Any]:
        """Kill a run after half of its time and one while it writes; then run once more."""
        whole_out, place = self.folder / "whole.parquet", self.folder / "killed"
        place.mkdir()
        whole = self.run(n_rows, whole_out)
        if whole["message"]:
            return {"whole": whole, "kills": [], "again": None, "n_different": None, "n_left": 0}
        out, half_written = place / "out.parquet", whole_out.stat().st_size // 2
        killed = command(self.tables.file(n_rows), out, _DUCKDB)
        left: set[Path] = set()
        moments: dict[str, Callable[[float], bool]] = {
            "half of its time": lambda seconds: seconds >= whole["seconds"] / 2,
            "half of the rows written": lambda _: unfinished_bytes(place, left) >= half_written,
        }
        kills = []
        for when, is_now in moments.items():
            left.update(place.iterdir())
            after, in_time = kill_at(killed, is_now)
            state = {"output": self.output_state(out, whole_out), "n_left": n_unfinished(place)}
            kills.append({"when": when, "after": after, "in_time": in_time, **state})
            out.unlink(missing_ok=True)
        again = self.run(n_rows, out)
        different = None if again["message"] else self.tables.n_different(whole_out, out)
        end = {"n_different": different, "n_left": n_unfinished(place)}
        return {"whole": whole, "kills": kills, "again": again, **end}

    def output_state(self, out: Path, whole: Path) -> str:
        """Return "none", "whole" (equal to the output of an undisturbed run) or "partial"."""
        if not out.exists():
            return "none"
        with contextlib.suppress(TableError):
            if self.tables.n_different(whole, out) == 0:
                return "whole"
        return "partial"


def command(table: Path, out: Path, url: str) -> Sequence[str]:
    """Return the command of a run; only DuckDB gets a memory limit."""
    limit = ("--memory-limit", MEMORY_LIMIT) if url == _DUCKDB else ()
    output = ("-k", str(N_CLUSTERS), "-o", str(out), "--json", "--quiet")
    return (*PROGRAM, "consensus", str(table), "--engine", url, *limit, "--id", "id", *output)


def kill_at(command: Sequence[str], is_now: Callable[[float], bool]) -> tuple[float, bool]:
    """Start a command and kill it at a moment; return the seconds and whether it still ran."""
    started = time.perf_counter()
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=null, stdout=null, stderr=null, start_new_session=True
    )
    seconds = 0.0
    try:
        while process.poll() is None and not is_now(seconds) and seconds < _MOST_SECONDS:
            time.sleep(0.005)
            seconds = time.perf_counter() - started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return seconds, process.returncode == -signal.SIGKILL


def unfinished_bytes(folder: Path, left: Collection[Path]) -> int:
    """Return the bytes of rows in hidden folders, except those that earlier runs left."""
    total = 0
    for path in folder.glob(".*/*.parquet"):
        if path.parent not in left:
            # a finished file is renamed, maybe just now
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size
    return total


def n_unfinished(folder: Path) -> int:
    """Return the number of hidden files and folders."""
    return sum(path.name.startswith(".") for path in folder.iterdir())


def result_of(data: dict[str, Any], **others: Any) -> Result:
    """Return tables and notes of the measured runs."""
    killed, spark = data["killed"], data["spark"]
    named = [("largest table", data["largest"]), ("undisturbed", killed["whole"])]
    named += [("after killed runs", killed["again"])] if killed["again"] else []
    named += [("the same table", spark[name]) for name in ("duckdb", "spark")] if spark else []
    notes = [
        f"{run['engine']}, {run['n_rows']:,} rows ({name}): {run['message']}"
        for name, run in named
        if run["message"]
    ]
    notes.append(
        f"The table of {data['rows']:,} rows has {readable_bytes(data['table_bytes'])} and was "
        f"written in {seconds_text(data['table_seconds'])} s."
    )
    if killed["n_different"] is not None:
        notes.append(
            f"The run after the killed ones differs in {killed['n_different']:,} rows from the "
            f"undisturbed one and leaves {killed['n_left']} unfinished folders."
        )
    if spark is None:
        notes.append("Spark was left out; spark=local starts a cluster on this machine.")
    elif spark["n_different"] is not None:
        rows = spark["spark"]["n_rows"]
        notes.append(f"Spark and DuckDB differ in {spark['n_different']:,} of {rows:,} rows.")
    notes += busy_notes(data["load"])
    return Result("tables", [*_run_tables(named), _kill_table(killed)], data, notes, **others)


def _run_tables(named: Sequence[tuple[str, Run]]) -> list[Table]:
    headings = (
        "run", "engine", "rows", "path", "tuples", "seconds", "processor s", "peak memory",
        "accuracy",
    )  # fmt: skip
    names = [(name, run["engine"], f"{run['n_rows']:,}") for name, run in named]
    rows = [(*left, *_run_texts(run)) for left, (_, run) in zip(names, named, strict=True)]
    all_stages = [run.get("stages", {}) for _, run in named]
    stages = list(dict.fromkeys(stage for one in all_stages for stage in one))
    stage_rows = [
        (*left, *(seconds_text(one[stage]) if stage in one else "" for stage in stages))
        for left, one in zip(names, all_stages, strict=True)
    ]
    return [
        Table("Time and memory", headings, rows, n_named=2),
        Table("Stages in seconds", (*headings[:3], *stages), stage_rows, n_named=2),
    ]


def _run_texts(run: Run) -> tuple[str, ...]:
    if run["message"]:
        return ("", "", "failed", "", "", "")
    is_here = run["engine"] == "DuckDB"  # memory of Spark is in other processes
    return (
        run["path"],
        f"{run['n_tuples']:,}",
        seconds_text(run["seconds"]),
        seconds_text(run["processor_seconds"]) if is_here else "–",
        readable_bytes(run["peak_bytes"]) if is_here else "–",
        f"{run['accuracy']:.4f}",
    )


def _kill_table(killed: dict[str, Any]) -> Table:
    whole = killed["whole"]
    rows = [
        (
            kill["when"],
            "killed" if kill["in_time"] else "ended before",
            f"{seconds_text(kill['after'])} of {seconds_text(whole['seconds'])}",
            kill["output"],
            str(kill["n_left"]),
        )
        for kill in killed["kills"]
    ]
    headings = ("killed after", "the run", "seconds", "output", "unfinished folders")
    return Table(f"Killed runs, {whole['n_rows']:,} rows", headings, rows, n_named=2)
