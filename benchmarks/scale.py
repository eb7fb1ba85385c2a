"""How time and memory grow with n: the program itself on label tables of ten thousand rows and up.

Every trial is ``coterie consensus TABLE --id id -k K -o OUT --quiet --json`` in a fresh process
(:mod:`~benchmarks.program_runs`), timed from its start to its end. The labels it has
written are joined by id with the truth (:mod:`~benchmarks.scale_labels`).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.environment import environment
from benchmarks.harness import error_line
from benchmarks.kept_trials import KeptTrials
from benchmarks.peers.trials import Status
from benchmarks.program_runs import ProgramRun, run_program
from benchmarks.scale_labels import Family, LabelFiles, Recipe, write_labels
from coterie.datasets.dataset_files import cache_folder
from coterie.inspection.scores import clustering_accuracy

__all__ = [
    "LEAST_POINTS",
    "Effort",
    "NotRun",
    "ScaleResults",
    "ScaleTrial",
    "expected_seconds",
    "run_scale",
    "working_folder",
]

LEAST_POINTS = 10_000
_PROGRAM = (sys.executable, "-P", "-c", "from coterie.command_line import main; main()")
_PACKAGE = Path(__file__).parents[1]
# parts of the package that the program does not run on a label table
_NOT_RUN = ("ads", "benchmarks")
_OUT_OF_MEMORY = ("MemoryError", "std::bad_alloc", "Out of Memory", "Unable to allocate")


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes
    ----------
    most : int
        The largest n.
    seconds : float
        The most a trial may take; one that is expected to take longer is not begun.
    """

    most: int = 10_000_000
    seconds: float = 600.0

    @property
    def sizes(self) -> list[int]:
        """The sizes, two for each power of ten.

        >>> Effort(most=10**6).sizes
        [10000, 31623, 100000, 316228, 1000000]
        """
        powers = range(8, 2 * len(str(self.most)))
        return [n for n in (round(10 ** (power / 2)) for power in powers) if n <= self.most]


@dataclass(frozen=True)
class ScaleTrial:
    """The program on one table.

    Attributes
    ----------
    family, n_points : which table
    status : "done", or why there is no answer
    message : str
        The last line of the error; empty where there is none.
    seconds, processor_seconds : float
        Wall time from start to end, and time on processors.
    peak_bytes : int
        Highest resident set of the process.
    first_seconds : float or None
        Wall time of a first run that had to compile kernels, where there was one.
    accuracy : float or None
    n_clusters, n_tuples, path : what the program told; None where it did not
    tuples_exact : bool
        Whether it counted the tuples, or estimated their number.
    stages : dict of str to float
        Seconds of its stages, if it told them.
    date, load : when it began, and how many processes wanted to run before the first trial
    """

    family: Family
    n_points: int
    status: Status
    message: str = ""
    seconds: float = 0.0
    processor_seconds: float = 0.0
    peak_bytes: int = 0
    first_seconds: float | None = None
    accuracy: float | None = None
    n_clusters: int | None = None
    n_tuples: int | None = None
    tuples_exact: bool = True
    path: str | None = None
    stages: dict[str, float] = field(default_factory=dict)
    date: str = ""
    load: float = 0.0


@dataclass(frozen=True)
class NotRun:
    """A table that was left out, and why."""

    family: Family
    n_points: int
    why: str


@dataclass(frozen=True)
class ScaleResults:
    """All that was found."""

    effort: Effort
    trials: list[ScaleTrial]
    not_run: list[NotRun]

    def done(self, family: Family) -> list[ScaleTrial]:
        """The trials of a family that have an answer, by n."""
        return [t for t in self.trials if t.family == family and t.status == "done"]


def run_scale(
    effort: Effort, folder: Path, before_step: Callable[[str], None] | None = None
) -> ScaleResults:
    """Run the program on larger and larger tables of both families.

    Parameters
    ----------
    effort : Effort
    folder : Path
        For tables, finished trials and compiled kernels; what is there already is used.
    before_step : called with a few words on what is done next
    """
    folder.mkdir(parents=True, exist_ok=True)
    bench = _Bench(effort.seconds, folder, before_step or (lambda _: None))
    trials: list[ScaleTrial] = []
    not_run: list[NotRun] = []
    for family in get_args(Family):
        found, rest = _one_family(family, effort, bench)
        trials += found
        not_run += rest
    return ScaleResults(effort, trials, not_run)


def expected_seconds(trials: Sequence[ScaleTrial], n_points: int) -> float:
    """How long n points will take, from trials of a family on fewer: at least linear growth.

    The last two trials give the exponent, kept between 1 (starting the program weighs on small
    tables) and 2 (one disturbed trial must not end the family).

    >>> some = [ScaleTrial("fixed", n, "done", seconds=s) for n, s in ((100, 3.0), (1000, 12.0))]
    >>> expected_seconds(some, 10_000)
    120.0
    """
    if not trials:
        return 0.0
    last = trials[-1]
    exponent = 1.0
    if len(trials) > 1:
        before = trials[-2]
        growth = np.log(last.seconds / before.seconds) / np.log(last.n_points / before.n_points)
        exponent = float(np.clip(growth, 1.0, 2.0))
    return last.seconds * (n_points / last.n_points) ** exponent


def working_folder(folder: Path | None) -> Path:
    """The folder of this benchmark alone, in the one given or in the user's cache.

    >>> working_folder(Path("big-disk")).as_posix()
    'big-disk/coterie-scale'
    """
    return (cache_folder() if folder is None else folder) / "coterie-scale"


def _one_family(
    family: Family, effort: Effort, bench: _Bench
) -> tuple[list[ScaleTrial], list[NotRun]]:
    """Trials of a family until one fails or would take too long, and the tables left out."""
    trials: list[ScaleTrial] = []
    for place, n in enumerate(effort.sizes):
        expected = expected_seconds(trials, n)
        if expected > effort.seconds:
            why = f"about {expected:,.0f} s expected, more than {effort.seconds:,g} s"
            return trials, [NotRun(family, left, why) for left in effort.sizes[place:]]
        trials.append(bench.trial(Recipe(family, n)))
        if trials[-1].status != "done":
            why = f"{trials[-1].status} at {n:,}"
            return trials, [NotRun(family, left, why) for left in effort.sizes[place + 1 :]]
    return trials, []


class _Bench:
    """Where trials are made: their limit, room for tables, and those kept."""

    def __init__(self, seconds: float, folder: Path, say: Callable[[str], None]) -> None:
        self.seconds, self.folder, self.say = seconds, folder, say
        self.kept = KeptTrials(folder / "trials.jsonl")
        self.load = os.getloadavg()[0]

    def trial(self, recipe: Recipe) -> ScaleTrial:
        """A trial that was kept, or a new one; only those with an answer are kept."""
        described = environment()
        date = described.pop("date")
        key = {"recipe": asdict(recipe), "program": _program_digest(), "environment": described}
        known = self.kept.find(key)
        if known is not None:
            return ScaleTrial(**known)
        title = f"{recipe.n_points:,} points, {recipe.family} K"
        self.say(f"{title}: writing the table")
        files = write_labels(recipe, self.folder)
        self.say(f"{title}: consensus")
        outcome = self._outcome(recipe, files)
        found = ScaleTrial(
            recipe.family, recipe.n_points, **outcome, date=date, load=round(self.load, 2)
        )
        if found.status == "done":
            self.kept.add(key, asdict(found))
        return found

    def _outcome(self, recipe: Recipe, files: LabelFiles) -> dict[str, Any]:
        """Run once more if kernels were compiled in the first run: that happens once a machine."""
        out, kernels = self.folder / "consensus.parquet", self.folder / "kernels"
        command = [*_PROGRAM, "consensus", str(files.table), "--id", "id"]
        command += ["-k", str(recipe.n_clusters), "-o", str(out), "--quiet", "--json"]
        first_seconds = None
        before = _n_files(kernels)
        run = run_program(command, self.seconds, {"NUMBA_CACHE_DIR": str(kernels)})
        if run.status == 0 and _n_files(kernels) > before:
            first_seconds = run.seconds
            run = run_program(command, self.seconds, {"NUMBA_CACHE_DIR": str(kernels)})
        try:
            return {
                "seconds": run.seconds,
                "processor_seconds": run.processor_seconds,
                "peak_bytes": run.peak_bytes,
                "first_seconds": first_seconds,
                **(_judged(run, out, files.truth) if run.status == 0 else self._failure(run)),
            }
        finally:
            out.unlink(missing_ok=True)

    def _failure(self, run: ProgramRun) -> dict[str, Any]:
        """Why a run has no answer; where things lie on this machine is nobody's concern."""
        if not run.in_time:
            return {"status": "time-out", "message": f"no answer in {run.seconds:.0f} s"}
        if run.status == -signal.SIGKILL:
            message = "killed by the system, which was out of memory"
            return {"status": "memory", "message": message}
        message = error_line(run.error) or f"ended with status {run.status}"
        for place in (self.folder, _PACKAGE.parent):
            message = message.replace(f"{place}{os.sep}", "")
        out_of_memory = any(sign in run.error for sign in _OUT_OF_MEMORY)
        return {"status": "memory" if out_of_memory else "crash", "message": message}


def _judged(run: ProgramRun, out: Path, truth: Path) -> dict[str, Any]:
    """What the program told, and the accuracy of what it wrote."""
    y = np.load(truth)
    labels = _labels_by_id(out, len(y))
    if isinstance(labels, str):
        return {"status": "wrong labels", "message": labels}
    return {
        "status": "done",
        "accuracy": clustering_accuracy(y, labels),
        **_told(json.loads(run.output)),
    }


def _told(facts: dict[str, Any]) -> dict[str, Any]:
    """What is kept of the facts the program prints; its paths differ in what they know."""
    engine = facts.get("engine")
    facts = facts | engine if isinstance(engine, dict) else facts
    stages = facts.get("stages", facts.get("seconds"))  # in memory the latter is one number
    return {
        "n_clusters": facts.get("clusters", facts.get("n_clusters")),
        "n_tuples": facts.get("tuples", facts.get("n_tuples")),
        "tuples_exact": facts.get("tuples_exact", True),
        "path": facts.get("path"),
        "stages": stages if isinstance(stages, dict) else {},
    }


def _labels_by_id(out: Path, n_points: int) -> NDArray[np.int64] | str:
    """Labels in the order of the ids, or what is wrong with them; rows may come in any order."""
    try:
        table = pq.read_table(out, columns=["id", "label"])
        ids, written = table["id"].to_numpy(), table["label"].to_numpy()
    except (OSError, KeyError, pa.ArrowException) as error:
        return f"the table written cannot be read: {error}"
    if len(ids) != n_points or not np.array_equal(np.sort(ids), np.arange(n_points)):
        return f"{len(ids):,} rows, which are not the {n_points:,} ids, each once"
    if written.dtype.kind not in "iu":
        return f"labels of type {written.dtype}, not whole numbers"
    labels = np.empty(n_points, dtype=np.int64)
    labels[ids] = written
    return labels


def _program_digest() -> str:
    """What tells one state of the program from another: its source files."""
    digest = hashlib.sha256()
    for path in _source_files():
        digest.update(path.relative_to(_PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _source_files() -> Iterator[Path]:
    for path in sorted(_PACKAGE.rglob("*.py")):
        if path.relative_to(_PACKAGE).parts[0] not in _NOT_RUN:
            yield path


def _n_files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*")) if folder.exists() else 0
