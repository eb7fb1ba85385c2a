"""The paper's tables 2 and 3 computed anew: ``table2`` and ``table3``.

Cells (:mod:`benchmarks.paper_cells`) run side by side, each in one process on one thread.
A method for which a set is too large or too slow, and one that fails, is named in the result. What
every draw gave is kept, where a folder is given, and not computed again.
"""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from benchmarks.environment import computing_alone, variables_set
from benchmarks.paper_cells import Cell, Score, table2_cells, table3_cells
from benchmarks.paper_figures import TABLE2, TABLE3, PaperTable
from coterie.datasets.loading import dataset_info, load_views
from coterie.errors import DatasetUnavailableError, TableError, TooManyPointsError
from coterie.runtime.atomic_files import atomic_file
from coterie.runtime.devices import n_threads

__all__ = [
    "PATIENCE",
    "MethodResult",
    "Outcome",
    "RunSettings",
    "TableResults",
    "run_cell",
    "run_table2",
    "run_table3",
]

#: Seconds of processor time after which a method gets no further draws of a cell.
PATIENCE = 60.0
_QUICK_CONDITIONS = (("mixed", "fixed"), ("mixed", "diverse"))
_LARGE = ("reuters", "caltech101_7", "caltech101_20")


@dataclass(frozen=True)
class MethodScores:
    """Accuracy and seconds of one method in each draw of a cell."""

    accuracies: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return float(np.mean(self.accuracies))

    @property
    def standard_error(self) -> float | None:
        """s/√r with s² the unbiased variance over r draws; None for a single draw.

        >>> round(MethodScores((0.8, 1.0), (0.1, 0.1)).standard_error, 9)
        0.1
        """
        if len(self.accuracies) < 2:
            return None
        return float(np.std(self.accuracies, ddof=1) / np.sqrt(len(self.accuracies)))

    @property
    def mean_seconds(self) -> float:
        """Mean wall time of a draw."""
        return float(np.mean(self.seconds))


@dataclass(frozen=True)
class RunSettings:
    """How a table is run.

    Attributes
    ----------
    n_draws : int
        Draws of each cell; draw d is seeded with d.
    keep : Path or None
        A folder for what each draw gave; what is there is not computed again, failures are.
    data : Path or None
        Where the datasets are, in place of what ``COTERIE_DATA`` says.
    patience : float
        Seconds of processor time after which a method gets no further draws of a cell.
    n_jobs : int or None
        Cells at a time; by default as many as there are cores.
    """

    n_draws: int = 20
    keep: Path | None = None
    data: Path | None = None
    patience: float = PATIENCE
    n_jobs: int | None = None

    @property
    def fit_limit(self) -> float:
        """Seconds of processor time after which a single fit is given up."""
        return 10 * self.patience


@dataclass(frozen=True)
class Outcome:
    """What became of one method in one draw.

    Attributes
    ----------
    status : {"ran", "too large", "too slow", "failed"}
    seconds : float
        Processor time.
    accuracy : float or None
        None unless it ran.
    message : str
        What it said where it did not run.
    warnings : mapping
        How often it gave each kind of warning.
    """

    status: str
    seconds: float
    accuracy: float | None = None
    message: str = ""
    warnings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class MethodResult:
    """What became of one method in the draws of a cell."""

    outcomes: tuple[Outcome, ...]

    @property
    def status(self) -> str:
        """That of all draws: a failure is not averaged away, one draw that ran is enough."""
        statuses = {outcome.status for outcome in self.outcomes}
        order = ("failed", "ran", "too slow", "too large")
        return next(status for status in order if status in statuses)

    @property
    def scores(self) -> MethodScores | None:
        """Accuracies and seconds of the draws that ran; None unless the status is "ran"."""
        if self.status != "ran":
            return None
        ran = [o for o in self.outcomes if o.accuracy is not None]
        accuracies = tuple(o.accuracy for o in ran if o.accuracy is not None)
        return MethodScores(accuracies, tuple(o.seconds for o in ran))

    @property
    def messages(self) -> list[str]:
        """Status and words of the draws that did not run, each once."""
        unable = (o for o in self.outcomes if o.status != "ran")
        return list(dict.fromkeys(f"{o.status}: {' '.join(o.message.split())}" for o in unable))


@dataclass(frozen=True)
class TableResults:
    """A table computed anew.

    Attributes
    ----------
    table : PaperTable
    rows : mapping
        ``rows[condition][dataset][method]`` is a :class:`MethodResult`; the condition names
        recipe and ensemble, and is empty in table 3.
    absent : mapping of str to str
        Datasets that are not here, and why.
    settings : RunSettings
    """

    table: PaperTable
    rows: Mapping[str, Mapping[str, Mapping[str, MethodResult]]]
    absent: Mapping[str, str]
    settings: RunSettings


def run_table2(
    settings: RunSettings,
    *,
    quick: bool = False,
    all_methods: bool = False,
    after_cell: Callable[[str], None] | None = None,
) -> TableResults:
    """Table 2: the consensus of k-means runs on eight sets.

    Parameters
    ----------
    settings : RunSettings
    quick : bool
        The small sets and the one recipe for all of them.
    all_methods : bool
        Every consensus function there is, not only the paper's and the flagship.
    after_cell : callable, optional
        Called with the name of each cell that is done.
    """
    absent = _absent_sets(TABLE2, settings.data, quick)
    present = [dataset for dataset in TABLE2.sets if dataset not in absent]
    conditions = {"conditions": _QUICK_CONDITIONS} if quick else {}
    cells = table2_cells(present, **conditions, all_methods=all_methods)
    return TableResults(TABLE2, _rows(cells, settings, after_cell), absent, settings)


def run_table3(
    settings: RunSettings,
    *,
    quick: bool = False,
    after_cell: Callable[[str], None] | None = None,
) -> TableResults:
    """Table 3: sets seen in several views. Parameters as in :func:`run_table2`."""
    absent = _absent_sets(TABLE3, settings.data, quick)
    cells = table3_cells([dataset for dataset in TABLE3.sets if dataset not in absent])
    return TableResults(TABLE3, _rows(cells, settings, after_cell), absent, settings)


def run_cell(cell: Cell, settings: RunSettings) -> list[dict[str, Outcome]]:
    """Run the methods of a cell on draws 0, 1, …; of each draw, the outcome of each method.

    The first draw has all of them, a later one those that have not used up the patience.
    """
    opened = functools.cache(cell.opened)  # a cell that is kept whole needs no features
    limit = settings.fit_limit
    spent = dict.fromkeys(cell.methods, 0.0)
    draws = []
    with computing_alone(settings.data):
        for seed in range(settings.n_draws):
            path = None if settings.keep is None else settings.keep / f"{cell.name}-{seed}.json"
            kept = _read_kept(path)
            done = {m: kept[m] for m in cell.methods if m in kept and _is_final(kept[m], limit)}
            wanted = [m for m in cell.methods if m not in done and spent[m] < settings.patience]
            if wanted:
                score = opened()(seed)
                done |= {method: _outcome(score, method, limit) for method in wanted}
                _write_kept(path, {**kept, **done})
            for method, outcome in done.items():
                spent[method] += outcome.seconds
            draws.append(done)
    return draws


def _rows(
    cells: Sequence[Cell], settings: RunSettings, after_cell: Callable[[str], None] | None
) -> dict[str, dict[str, dict[str, MethodResult]]]:
    """Run the cells, those of the largest sets first; results in the order of the cells."""
    order = sorted(range(len(cells)), key=lambda c: -dataset_info(cells[c].dataset).n_samples)
    tasks = (joblib.delayed(_numbered)(c, cells[c], settings) for c in order)
    parallel = joblib.Parallel(
        settings.n_jobs or n_threads(), return_as="generator_unordered", batch_size=1
    )
    found = {}
    with contextlib.closing(parallel(tasks)) as results:
        for c, draws in results:
            found[c] = draws
            if after_cell is not None:
                after_cell(cells[c].name)
    rows: dict[str, dict[str, dict[str, MethodResult]]] = {}
    for c, cell in enumerate(cells):
        row = rows.setdefault(cell.condition, {}).setdefault(cell.dataset, {})
        for method in cell.methods:
            row[method] = MethodResult(tuple(draw[method] for draw in found[c] if method in draw))
    return rows


def _numbered(
    number: int, cell: Cell, settings: RunSettings
) -> tuple[int, list[dict[str, Outcome]]]:
    return number, run_cell(cell, settings)


def _absent_sets(table: PaperTable, data: Path | None, quick: bool) -> dict[str, str]:
    """The sets of a table that are not to be had, and why."""
    if data is not None and not data.is_dir():
        raise DatasetUnavailableError(
            f"{data} is not a folder; name the one that holds the datasets (--data, COTERIE_DATA)"
        )
    absent = {}
    with variables_set(COTERIE_DATA=data):
        for dataset in table.sets:
            if quick and dataset in _LARGE:
                absent[dataset] = "--quick leaves it out"
                continue
            try:
                load_views(dataset)
            except DatasetUnavailableError as error:
                absent[dataset] = " ".join(str(error).split())
    return absent


def _outcome(score: Score, method: str, limit: float) -> Outcome:
    """Run one method, and tell what became of it."""
    accuracy, at_least = None, 0.0
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _processor_time_limit(limit):
                accuracy = score(method)
            status, message = "ran", ""
        except TooManyPointsError as error:
            status, message = "too large", str(error)
        except _OutOfTime:
            # the timer ticks coarsely, and may have gone off a little early
            status, message, at_least = "too slow", f"given up after {limit:g} s", limit
        except Exception as error:  # whatever it is, it is shown, and the others go on
            status, message = "failed", f"{type(error).__name__}: {error}"
    kinds = Counter(warning.category.__name__ for warning in caught)
    seconds = max(at_least, time.process_time() - start)
    return Outcome(status, seconds, accuracy, message, dict(kinds))


def _is_final(outcome: Outcome, limit: float) -> bool:
    """Whether computing it again would give the same: not after a failure, or for more time."""
    given_up_early = outcome.status == "too slow" and outcome.seconds < limit
    return outcome.status != "failed" and not given_up_early


def _read_kept(path: Path | None) -> dict[str, Outcome]:
    if path is None or not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {method: Outcome(**outcome) for method, outcome in found.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise TableError(f"{path} is not the kept result of a draw ({error}); remove it") from error


def _write_kept(path: Path | None, outcomes: Mapping[str, Outcome]) -> None:
    if path is None:
        return
    with atomic_file(path) as unfinished:
        found = {method: asdict(outcome) for method, outcome in outcomes.items()}
        unfinished.write_text(json.dumps(found), encoding="utf-8")


class _OutOfTime(BaseException):
    """The processor time of a fit is used up; not an Exception, lest a method catch it."""


@contextlib.contextmanager
def _processor_time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`_OutOfTime` after that much processor time; signals reach main threads only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(*_: Any) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
