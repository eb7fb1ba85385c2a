"""Label tables that stay in an engine: a hundred million rows, Spark beside DuckDB, killed runs.

DuckDB generates the tables (:mod:`~benchmarks.table_engines_labels`). Every run is
``coterie consensus TABLE --engine URL --id id -k K -o OUT --json --quiet`` in a fresh process
(:mod:`~benchmarks.program_runs`), and DuckDB judges what it wrote: no table is ever in the
memory of this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from benchmarks.harness import error_line
from benchmarks.local_spark import LocalSpark
from benchmarks.program_runs import run_program
from benchmarks.table_engines_labels import (
    MEMORY_LIMIT,
    N_CLUSTERS,
    N_TUPLES,
    PlantedTables,
)
from coterie.datasets.dataset_files import cache_folder
from coterie.errors import TableError

__all__ = [
    "Effort",
    "EngineRun",
    "Kill",
    "KilledRuns",
    "SparkBesideDuckDB",
    "TableEngineResults",
    "run_table_engines",
    "working_folder",
]

_PROGRAM = (sys.executable, "-P", "-c", "from coterie.command_line import main; main()")
_DUCKDB = "duckdb://"
_MOST_SECONDS = 3600.0


@dataclass(frozen=True)
class Effort:
    """How many rows the largest table has; the others have fewer.

    >>> Effort(10**8).killed_rows, Effort(10**8).spark_rows, Effort(20_000).killed_rows
    (10000000, 1000000, 20000)
    """

    rows: int = 10**8

    @property
    def killed_rows(self) -> int:
        """Rows of the table whose runs are killed."""
        return min(self.rows, 10**7)

    @property
    def spark_rows(self) -> int:
        """Rows of the table that Spark gets."""
        return min(self.rows, 10**6)


@dataclass(frozen=True)
class EngineRun:
    """The program on one table.

    Attributes
    ----------
    engine : {"DuckDB", "Spark"}
    n_rows : int
    message : str
        Why there is no answer; empty where there is one.
    seconds, processor_seconds : float
        Wall time from start to end, and time on processors.
    peak_bytes : int
        Highest resident set of the process.
    accuracy : float or None
    n_tuples, path : what the program told; None where it did not
    stages : dict of str to float
        Seconds of its stages.
    """

    engine: str
    n_rows: int
    message: str = ""
    seconds: float = 0.0
    processor_seconds: float = 0.0
    peak_bytes: int = 0
    accuracy: float | None = None
    n_tuples: int | None = None
    path: str | None = None
    stages: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SparkBesideDuckDB:
    """Both on the same table, and how many rows differ; None where one has no answer."""

    duckdb: EngineRun
    spark: EngineRun
    n_different: int | None


@dataclass(frozen=True)
class Kill:
    """A run that was to be killed.

    Attributes
    ----------
    when : str
        At which moment.
    after : float
        Seconds from its start.
    in_time : bool
        Whether it was still running then.
    output : {"none", "whole", "partial"}
        What was in its place afterwards; whole if it is what an undisturbed run gives.
    n_left : int
        Unfinished folders it left beside.
    """

    when: str
    after: float
    in_time: bool
    output: Literal["none", "whole", "partial"]
    n_left: int


@dataclass(frozen=True)
class KilledRuns:
    """An undisturbed run, some that were killed, and one more to the same place.

    Attributes
    ----------
    whole : EngineRun
    kills : tuple of Kill
    again : EngineRun or None
        None where the undisturbed run had no answer already.
    n_different : int or None
        Rows in which the last run differs from the undisturbed one.
    n_left : int
        Unfinished folders that were there after the last run.
    """

    whole: EngineRun
    kills: tuple[Kill, ...] = ()
    again: EngineRun | None = None
    n_different: int | None = None
    n_left: int = 0


@dataclass(frozen=True)
class TableEngineResults:
    """All that was found.

    Attributes
    ----------
    effort : Effort
    largest : EngineRun
    table_bytes : int
        Size of the largest table.
    table_seconds : float or None
        How long it took to write; None where it was there already.
    spark : SparkBesideDuckDB or None
        None where Spark was left out.
    killed : KilledRuns
    load : float
        How many processes wanted to run before the first run.
    """

    effort: Effort
    largest: EngineRun
    table_bytes: int
    table_seconds: float | None
    spark: SparkBesideDuckDB | None
    killed: KilledRuns
    load: float = 0.0


def run_table_engines(
    effort: Effort,
    folder: Path,
    spark: str | None = None,
    before_step: Callable[[str], None] | None = None,
) -> TableEngineResults:
    """Compare the engines, kill some runs, and run the largest table.

    Parameters
    ----------
    effort : Effort
    folder : Path
        For tables, which are used again where they are there, and all else.
    spark : str, optional
        The URL of a cluster, or "local" for one that is started here. By default Spark is left out.
    before_step : called with a few words on what is done next
    """
    folder.mkdir(parents=True, exist_ok=True)
    say = before_step or (lambda _: None)
    load = os.getloadavg()[0]
    with PlantedTables(folder) as tables, _scratch(folder) as scratch:
        bench = _Bench(tables, folder, scratch, say)
        say("compiling kernels")
        bench.run(N_TUPLES, scratch / "first.parquet")
        compared = None if spark is None else bench.spark_beside_duckdb(effort.spark_rows, spark)
        killed = bench.killed(effort.killed_rows)
        say(f"writing a table of {effort.rows:,} rows")
        table = tables.file(effort.rows)
        largest = bench.run(effort.rows, scratch / "largest.parquet")
        size, seconds = table.stat().st_size, tables.seconds.get(effort.rows)
    return TableEngineResults(effort, largest, size, seconds, compared, killed, round(load, 2))


def working_folder(folder: Path | None) -> Path:
    """The folder of this benchmark alone, in the one given or in the user's cache.

    >>> working_folder(Path("big-disk")).as_posix()
    'big-disk/coterie-tables'
    """
    return (cache_folder() if folder is None else folder) / "coterie-tables"


@dataclass(frozen=True)
class _Bench:
    """Where runs are made: the tables, a folder to work in, and one for what is passing."""

    tables: PlantedTables
    folder: Path
    scratch: Path
    say: Callable[[str], None]

    def run(self, n_rows: int, out: Path, url: str = _DUCKDB) -> EngineRun:
        """One run of the program to its end, judged by what it wrote."""
        table = self.tables.file(n_rows)
        engine = "DuckDB" if url == _DUCKDB else "Spark"
        self.say(f"{engine}, {n_rows:,} rows")
        run = run_program(_command(table, out, url), _MOST_SECONDS)
        cost = (run.seconds, run.processor_seconds, run.peak_bytes)
        message = self._failure(run.status, run.error)
        if message:
            return EngineRun(engine, n_rows, message, *cost)
        told = json.loads(run.output)["engine"]
        try:
            accuracy = self.tables.accuracy(out, n_rows)
        except TableError as error:
            return EngineRun(engine, n_rows, self._without_places(str(error)), *cost)
        facts = (told["tuples"], told["path"], told["seconds"])
        return EngineRun(engine, n_rows, "", *cost, accuracy, *facts)

    def spark_beside_duckdb(self, n_rows: int, spark: str) -> SparkBesideDuckDB:
        """The same table by both engines."""
        here, there = self.scratch / "duckdb.parquet", self.scratch / "spark"
        duckdb = self.run(n_rows, here)
        self.say("starting Spark")
        local = LocalSpark(self.scratch / "cluster")
        with local if spark == "local" else contextlib.nullcontext(spark) as url:
            found = self.run(n_rows, there, url)
        if duckdb.message or found.message:
            return SparkBesideDuckDB(duckdb, found, None)
        return SparkBesideDuckDB(duckdb, found, self.tables.n_different(here, there))

    def killed(self, n_rows: int) -> KilledRuns:
        """Kill a run half-way and one while it writes, and run once more to the same place."""
        undisturbed, place = self.scratch / "whole.parquet", self.scratch / "killed"
        place.mkdir()
        whole = self.run(n_rows, undisturbed)
        if whole.message:
            return KilledRuns(whole)
        out, half_written = place / "out.parquet", undisturbed.stat().st_size // 2
        command = _command(self.tables.file(n_rows), out, _DUCKDB)
        left: set[Path] = set()
        moments: dict[str, Callable[[float], bool]] = {
            "half of its time": lambda seconds: seconds >= whole.seconds / 2,
            "half of the rows written": lambda _: _bytes_unfinished(place, left) >= half_written,
        }
        kills = []
        for when, is_now in moments.items():
            self.say(f"DuckDB, {n_rows:,} rows, killed after {when}")
            left.update(place.iterdir())
            after, in_time = _kill(command, is_now)
            kills.append(Kill(when, after, in_time, self._state(out, undisturbed), _n_left(place)))
            out.unlink(missing_ok=True)
        again = self.run(n_rows, out)
        different = None if again.message else self.tables.n_different(undisturbed, out)
        return KilledRuns(whole, tuple(kills), again, different, _n_left(place))

    def _state(self, out: Path, undisturbed: Path) -> Literal["none", "whole", "partial"]:
        if not out.exists():
            return "none"
        try:
            return "whole" if self.tables.n_different(undisturbed, out) == 0 else "partial"
        except TableError:
            return "partial"

    def _failure(self, status: int, error: str) -> str:
        if status == 0:
            return ""
        return self._without_places(error_line(error)) or f"ended with status {status}"

    def _without_places(self, message: str) -> str:
        """Where things lie on this machine is nobody's concern."""
        for place in (self.scratch, self.folder):
            message = message.replace(f"{place}{os.sep}", "")
        return message


def _command(table: Path, out: Path, url: str) -> Sequence[str]:
    limit = ("--memory-limit", MEMORY_LIMIT) if url == _DUCKDB else ()
    place = ("-k", str(N_CLUSTERS), "-o", str(out), "--json", "--quiet")
    return (*_PROGRAM, "consensus", str(table), "--engine", url, *limit, "--id", "id", *place)


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=folder, prefix="run-", ignore_cleanup_errors=True) as path:
        yield Path(path)


def _kill(command: Sequence[str], is_now: Callable[[float], bool]) -> tuple[float, bool]:
    """Start a command and kill it at some moment: seconds until then, and whether it still ran."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
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


def _bytes_unfinished(folder: Path, left: Collection[Path]) -> int:
    """Bytes of rows in hidden folders, but for those left by others; a file renamed counts not."""
    total = 0
    for path in folder.glob(".*/*.parquet"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size if path.parent not in left else 0
    return total


def _n_left(folder: Path) -> int:
    return sum(path.name.startswith(".") for path in folder.iterdir())
