"""Label tables that stay in an engine: large tables, Spark and DuckDB, and killed runs.

Tables have few tuples (:mod:`benchmarks.planted_tables`) or many (:mod:`benchmarks.many_tuples`).
Every run is ``coterie consensus
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import counted_sockets, many_tuples
from benchmarks.harness import CONSENSUS, Context
from benchmarks.local_spark import local_spark
from benchmarks.many_tuples import write_many_tuples
from benchmarks.planted_tables import (
    MEMORY_LIMIT,
    N_CLUSTERS,
    N_PARTITIONS,
    N_TUPLES,
    PlantedTables,
)
from benchmarks.program_runs import PROGRAM, busy_notes, failure_text, run_program
from benchmarks.results import Result, Table, item, seconds_text
from coterie.errors import TableError
from coterie.runtime.devices import readable_bytes

_DUCKDB = "duckdb://"
_MOST_SECONDS = 3600.0
_MOST_KILLED, _MOST_SPARK = 10**7, 10**6
_N_MANY_PARTITIONS = 40
_STAGES = ("profile", "group", "fit", "keep", "sweeps", "write")
#: The program fits up to so many tuples without a sample.
_FEWEST_MANY = 2_000_000

Run = dict[str, Any]

MEASURES = (*CONSENSUS, "tables")


def run(
    context: Context,
    *,
    rows: int | None = None,
    many_rows: int | None = None,
    spark: bool = False,
    spark_rows: int | None = None,
) -> Result:
    """Run large tables of few and of many tuples, kill runs, and compare Spark with DuckDB.

    ``rows`` of the largest table of few tuples are 10⁸, with ``--quick`` 10⁶; ``many_rows`` of the
    table of many tuples 10⁸ and 5·10⁶. ``spark`` starts a cluster on this machine; without it Spark
    is left out. It gets ``spark_rows``, 10⁷ and 3·10⁶, nearly all distinct. 0 leaves a table out.
    """
    n_rows = rows or (10**6 if context.quick else 10**8)
    n_many = (5 * 10**6 if context.quick else 10**8) if many_rows is None else many_rows
    n_spark = (3 * 10**6 if context.quick else 10**7) if spark_rows is None else spark_rows
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="coterie-tables-", ignore_cleanup_errors=True) as name,
        PlantedTables(Path(name)) as tables,
    ):
        bench = Bench(tables, Path(name))
        bench.run("first", bench.planted(N_TUPLES), "first.parquet")  # warms the disk cache
        same, notes = (
            bench.compare_engines(min(n_rows, _MOST_SPARK), n_spark) if spark else ([], [])
        )
        undisturbed, kills, more = bench.kill_runs(min(n_rows, _MOST_KILLED))
        runs = [bench.run("largest table", bench.planted(n_rows), "largest.parquet")]
        size = readable_bytes(tables.file(n_rows).stat().st_size)
        runs += [*bench.run_many(n_many), *undisturbed, *same]
    failed = [
        f"{one['engine']}, {one['n_rows']:,} rows ({one['run']}): {one['message']}"
        for one in runs
        if one["message"]
    ]
    notes = [*failed, f"The table of {n_rows:,} rows has {size}.", *more, *notes, *busy_notes(load)]
    return Result("tables", _tables(runs, kills), {"runs": runs, "kills": kills}, notes)


class BenchTable(NamedTuple):
    """A table, and how to score an output."""

    path: Path
    n_rows: int
    n_partitions: int
    n_clusters: int
    accuracy: Callable[[Path], float]


class Bench(NamedTuple):
    """The planted tables and the folder for outputs."""

    tables: PlantedTables
    folder: Path

    def planted(self, n_rows: int) -> BenchTable:
        """Return a table of few tuples."""
        path = self.tables.file(n_rows)
        score = lambda out: self.tables.accuracy(out, n_rows)  # noqa: E731
        return BenchTable(path, n_rows, N_PARTITIONS, N_CLUSTERS, score)

    @contextlib.contextmanager
    def many(self, n_rows: int, n_partitions: int, repeats: int) -> Iterator[BenchTable]:
        """Write a table of many tuples, and remove it at the end."""
        path = self.folder / f"many-{n_rows}-{repeats}.parquet"
        write_many_tuples(path, n_rows, n_partitions, repeats)
        score = lambda out: self.tables.accuracy_by_id(out, n_rows, many_tuples.N_CLUSTERS)  # noqa: E731
        try:
            yield BenchTable(path, n_rows, n_partitions, many_tuples.N_CLUSTERS, score)
        finally:
            path.unlink()

    def command(self, table: BenchTable, out: str, url: str = _DUCKDB) -> list[str]:
        """Return the command of a run; only DuckDB gets a memory limit."""
        limit = ["--memory-limit", MEMORY_LIMIT] if url == _DUCKDB else []
        output = ["-k", str(table.n_clusters), "-o", str(self.folder / out), "--json", "--quiet"]
        place = str(table.path)
        return [*PROGRAM, "consensus", place, "--engine", url, *limit, "--id", "id", *output]

    def run(self, name: str, table: BenchTable, out: str, url: str = _DUCKDB) -> Run:
        """Run the program to its end; ``message`` says why there is no answer."""
        command, counts = self.command(table, out, url), self.folder / "socket-bytes.json"
        if url != _DUCKDB:
            command[1 : len(PROGRAM)] = [counted_sockets.__file__, str(counts)]
        run = run_program(command, _MOST_SECONDS)
        found: Run = {
            "run": name,
            "engine": "DuckDB" if url == _DUCKDB else "Spark",
            "n_rows": table.n_rows,
            "n_partitions": table.n_partitions,
            "message": failure_text(run, self.folder),
            "seconds": run.seconds,
            "stages": {},
        }
        if url == _DUCKDB:  # Spark computes in other processes
            found |= {"processor_seconds": run.processor_seconds, "peak_bytes": run.peak_bytes}
        if run.status == 0:
            facts = json.loads(run.output)["engine"]
            try:
                found["accuracy"] = table.accuracy(self.folder / out)
            except TableError as error:
                found["message"] = str(error).replace(f"{self.folder}{os.sep}", "")
            found |= {"n_tuples": facts["tuples"], "path": facts["path"]}
            found["stages"] = facts["seconds"]
            if url != _DUCKDB:
                found |= {"socket_bytes": sum(json.loads(counts.read_text()).values())}
        return found

    def run_many(self, n_rows: int) -> list[Run]:
        """Run a table of half as many tuples as rows, and a smaller one whose rows often repeat."""
        runs = []
        sizes = {"many tuples": (n_rows, 2), "repeated tuples": (n_rows // 5, 8)}
        for name, (n, repeats) in sizes.items():
            if n // repeats > _FEWEST_MANY:
                with self.many(n, _N_MANY_PARTITIONS, repeats) as table:
                    runs.append(self.run(name, table, "many.parquet"))
                (self.folder / "many.parquet").unlink(missing_ok=True)
        return runs

    def compare_engines(self, n_few: int, n_many: int) -> tuple[list[Run], list[str]]:
        """Run both engines on the same tables; return the runs, and how many rows differ."""
        runs, notes = [], []
        with contextlib.ExitStack() as stack:
            named = {"the same table": self.planted(n_few)}
            if n_many > _FEWEST_MANY:
                table = stack.enter_context(self.many(n_many, N_PARTITIONS, 1))
                named["the same, many tuples"] = table
            cluster = stack.enter_context(local_spark(self.folder / "cluster", event_log=True))
            for number, (name, table) in enumerate(named.items()):
                outs = [f"duckdb-{number}.parquet", f"spark-{number}"]
                pair = [self.run(name, table, outs[0]), self.run(name, table, outs[1], cluster.url)]
                if not any(run["message"] for run in pair):
                    pair[1]["task_bytes"] = cluster.task_result_bytes()
                    different = self.tables.n_different(*(self.folder / out for out in outs))
                    of = f"{table.n_rows:,} rows ({name})"
                    notes.append(f"Spark and DuckDB differ in {different:,} of {of}.")
                runs += pair
        return runs, notes

    def kill_runs(self, n_rows: int) -> tuple[list[Run], list[dict[str, Any]], list[str]]:
        """Kill a run after half of its time and one while it writes; then run once more.

        Return the runs that were not killed, those that were, and what the last run has left.
        """
        whole, place = self.folder / "whole.parquet", self.folder / "killed"
        place.mkdir()
        table = self.planted(n_rows)
        undisturbed = self.run("undisturbed", table, whole.name)
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
            kill = kill_at(self.command(table, "killed/out.parquet"), is_now)
            state = {"output": self.output_state(out, whole), "n_left": n_unfinished(place)}
            kills.append({"when": when, "of": undisturbed["seconds"], **kill, **state})
            out.unlink(missing_ok=True)
        again = self.run("after killed runs", table, "killed/out.parquet")
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


def _driver_bytes(run: Run) -> int:
    """Return the bytes that came to Spark's driver or went through its Python process."""
    return int(run["task_bytes"] + run["socket_bytes"])


def _tables(runs: list[Run], kills: list[dict[str, Any]]) -> list[Table]:
    named = {
        "run": item("run"),
        "engine": item("engine"),
        "rows": item("n_rows", form=","),
        "labels": item("n_partitions"),
    }
    columns = {
        **named,
        "path": item("path"),
        "tuples": item("n_tuples", form=","),
        "seconds": lambda run: "failed" if run["message"] else seconds_text(run["seconds"]),
        "processor s": item("processor_seconds", form=seconds_text, missing="–"),
        "peak memory": item("peak_bytes", form=readable_bytes, missing="–"),
        "driver": lambda run: readable_bytes(_driver_bytes(run)) if "task_bytes" in run else "–",
        "accuracy": item("accuracy", form=".4f"),
    }
    measured = {stage for run in runs for stage in run["stages"]}
    stages = [stage for stage in _STAGES if stage in measured]
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
