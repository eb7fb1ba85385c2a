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
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import Context
from benchmarks.local_spark import local_spark
from benchmarks.planted_tables import MEMORY_LIMIT, N_CLUSTERS, N_TUPLES, PlantedTables
from benchmarks.program_runs import PROGRAM, busy_notes, failure_text, run_program
from benchmarks.results import Result, Table, item, seconds_text
from coterie.errors import TableError
from coterie.runtime.devices import readable_bytes

_DUCKDB = "duckdb://"
_MOST_SECONDS = 3600.0
_MOST_KILLED, _MOST_SPARK = 10**7, 10**6

Run = dict[str, Any]


def run(context: Context, *, rows: int | None = None, spark: bool = False) -> Result:
    """Run the largest table, kill runs of a smaller one, and compare Spark with DuckDB.

    ``rows`` of the largest table are 10⁸, with ``--quick`` 10⁶. ``spark`` starts a cluster on this
    machine; without it Spark is left out.
    """
    n_rows = rows or (10**6 if context.quick else 10**8)
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="coterie-tables-", ignore_cleanup_errors=True) as name,
        PlantedTables(Path(name)) as tables,
    ):
        bench = Bench(tables, Path(name))
        bench.run("first", N_TUPLES, "first.parquet")  # compiles the kernels
        same, notes = bench.compare_engines(min(n_rows, _MOST_SPARK)) if spark else ([], [])
        undisturbed, kills, more = bench.kill_runs(min(n_rows, _MOST_KILLED))
        runs = [bench.run("largest table", n_rows, "largest.parquet"), *undisturbed, *same]
        size = readable_bytes(tables.file(n_rows).stat().st_size)
    failed = [
        f"{one['engine']}, {one['n_rows']:,} rows ({one['run']}): {one['message']}"
        for one in runs
        if one["message"]
    ]
    notes = [*failed, f"The table of {n_rows:,} rows has {size}.", *more, *notes, *busy_notes(load)]
    return Result("tables", _tables(runs, kills), {"runs": runs, "kills": kills}, notes)


class Bench(NamedTuple):
    """The tables and the folder for outputs."""

    tables: PlantedTables
    folder: Path

    def command(self, n_rows: int, out: str, url: str = _DUCKDB) -> list[str]:
        """Return the command of a run; only DuckDB gets a memory limit."""
        limit = ["--memory-limit", MEMORY_LIMIT] if url == _DUCKDB else []
        table, place = str(self.tables.file(n_rows)), str(self.folder / out)
        output = ["-k", str(N_CLUSTERS), "-o", place, "--json", "--quiet"]
        return [*PROGRAM, "consensus", table, "--engine", url, *limit, "--id", "id", *output]

    def run(self, name: str, n_rows: int, out: str, url: str = _DUCKDB) -> Run:
        """Run the program to its end; ``message`` says why there is no answer."""
        run = run_program(self.command(n_rows, out, url), _MOST_SECONDS)
        found: Run = {
            "run": name,
            "engine": "DuckDB" if url == _DUCKDB else "Spark",
            "n_rows": n_rows,
            "message": failure_text(run, self.folder),
            "seconds": run.seconds,
            "stages": {},
        }
        if url == _DUCKDB:  # Spark computes in other processes
            found |= {"processor_seconds": run.processor_seconds, "peak_bytes": run.peak_bytes}
        if run.status == 0:
            facts = json.loads(run.output)["engine"]
            try:
                found["accuracy"] = self.tables.accuracy(self.folder / out, n_rows)
            except TableError as error:
                found["message"] = str(error).replace(f"{self.folder}{os.sep}", "")
            found |= {"n_tuples": facts["tuples"], "path": facts["path"]}
            found["stages"] = facts["seconds"]
        return found

    def compare_engines(self, n_rows: int) -> tuple[list[Run], list[str]]:
        """Run both engines on the same table; return the runs, and how many rows differ."""
        runs = [self.run("the same table", n_rows, "duckdb.parquet")]
        with local_spark(self.folder / "cluster") as cluster:
            runs.append(self.run("the same table", n_rows, "spark", cluster.url))
        if any(run["message"] for run in runs):
            return runs, []
        different = self.tables.n_different(self.folder / "duckdb.parquet", self.folder / "spark")
        return runs, [f"Spark and DuckDB differ in {different:,} of {n_rows:,} rows."]

    def kill_runs(self, n_rows: int) -> tuple[list[Run], list[dict[str, Any]], list[str]]:
        """Kill a run after half of its time and one while it writes; then run once more.

        Return the runs that were not killed, those that were, and what the last run has left.
        """
        whole, place = self.folder / "whole.parquet", self.folder / "killed"
        place.mkdir()
        undisturbed = self.run("undisturbed", n_rows, whole.name)
        if undisturbed["message"]:
            return [undisturbed], [], []
        out, half_written = place / "out.parquet", whole.stat().st_size // 2
        left: set[Path] = set()
        moments: dict[str, Callable[[float], bool]] = {
            "half of its time": lambda seconds: seconds >= undisturbed["seconds"] / 2,
            "half of the rows written": lambda _: unfinished_bytes(place, left) >= half_written,
        }
        kills = []
        for when, is_now in moments.items():
            left.update(place.iterdir())
            kill = kill_at(self.command(n_rows, "killed/out.parquet"), is_now)
            state = {"output": self.output_state(out, whole), "n_left": n_unfinished(place)}
            kills.append({"when": when, "of": undisturbed["seconds"], **kill, **state})
            out.unlink(missing_ok=True)
        again = self.run("after killed runs", n_rows, "killed/out.parquet")
        if again["message"]:
            return [undisturbed, again], kills, []
        note = (
            f"The run after the killed ones differs in {self.tables.n_different(whole, out):,} "
            f"rows from the undisturbed one and leaves {n_unfinished(place)} unfinished folders."
        )
        return [undisturbed, again], kills, [note]

    def output_state(self, out: Path, whole: Path) -> str:
        """Return "none", "whole" (equal to the output of an undisturbed run) or "partial"."""
        if not out.exists():
            return "none"
        with contextlib.suppress(TableError):
            if self.tables.n_different(whole, out) == 0:
                return "whole"
        return "partial"


def kill_at(command: list[str], is_now: Callable[[float], bool]) -> dict[str, Any]:
    """Start a command and kill it at a moment; return seconds, and whether it still ran."""
    started = time.perf_counter()
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=null, stdout=null, stderr=null)
    seconds = 0.0
    while process.poll() is None and not is_now(seconds) and seconds < _MOST_SECONDS:
        time.sleep(0.005)
        seconds = time.perf_counter() - started
    process.kill()
    return {"seconds": seconds, "in_time": process.wait() == -signal.SIGKILL}


def unfinished_bytes(folder: Path, left: set[Path]) -> int:
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


def _tables(runs: list[Run], kills: list[dict[str, Any]]) -> list[Table]:
    named = {"run": item("run"), "engine": item("engine"), "rows": item("n_rows", form=",")}
    columns = {
        **named,
        "path": item("path"),
        "tuples": item("n_tuples", form=","),
        "seconds": lambda run: "failed" if run["message"] else seconds_text(run["seconds"]),
        "processor s": item("processor_seconds", form=seconds_text, missing="–"),
        "peak memory": item("peak_bytes", form=readable_bytes, missing="–"),
        "accuracy": item("accuracy", form=".4f"),
    }
    stages = dict.fromkeys(stage for run in runs for stage in run["stages"])
    stage_columns = {stage: item("stages", stage, form=seconds_text) for stage in stages}
    kill_columns = {
        "killed after": item("when"),
        "the run": lambda kill: "killed" if kill["in_time"] else "ended before",
        "seconds": item("seconds", form=seconds_text),
        "of": item("of", form=seconds_text),
        "output": item("output"),
        "unfinished folders": item("n_left"),
    }
    return [
        Table.of("Time and memory", runs, columns, n_named=2),
        Table.of("Stages in seconds", runs, {**named, **stage_columns}, n_named=2),
        Table.of("Killed runs", kills, kill_columns, n_named=2),
    ]
