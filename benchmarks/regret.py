"""Regret: how far each consensus method stays behind the best one, cell by cell.

    regret of a method in a cell = best mean accuracy of any method in it − its own

over the cells of :mod:`benchmarks.consensus_suite`. Every draw of a cell gives all methods
the same label matrix. Nothing is tuned per cell; a method that cannot run scores as if it
had put all points into one cluster, and the report says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from benchmarks.consensus_suite import SUITE, SuiteCell, quick_cells
from benchmarks.environment import computing_alone
from coterie.consensus.registry import CONSENSUS_METHODS, FLAGSHIP, consensus_method
from coterie.datasets.loading import load_views
from coterie.errors import CoterieError, DatasetUnavailableError, TableError
from coterie.inspection.scores import clustering_accuracy
from coterie.runtime.atomic_files import atomic_file
from coterie.runtime.devices import on_one_thread

__all__ = [
    "CellRegret",
    "MethodRegret",
    "RegretResults",
    "available_cells",
    "cell_regrets",
    "has_balanced_cut",
    "method_regrets",
    "quick_methods",
    "regrets_among",
    "run_draw",
    "run_regret",
]

#: One draw: accuracy and seconds by method, and why a method could not run.
DrawResult = dict[str, dict[str, Any]]
_PARTS = ("accuracy", "seconds", "failed")

_SLOW = ("rcc", "hgpa", "nmf", "weighted", "kl", "correlation")


@dataclass(frozen=True)
class CellRegret:
    """What the methods did in one cell, by method.

    Attributes
    ----------
    cell : SuiteCell
    accuracy, error : dict
        Mean over the draws and its standard error, NaN for a single draw.
    regret : dict
        Best accuracy of these methods less the method's own.
    seconds : dict
        Mean time of a fit.
    failed : dict
        What a method said that could not run.
    """

    cell: SuiteCell
    accuracy: dict[str, float]
    error: dict[str, float]
    regret: dict[str, float]
    seconds: dict[str, float]
    failed: dict[str, str]


@dataclass(frozen=True)
class MethodRegret:
    """Mean and worst regret of one method over some cells."""

    method: str
    mean: float
    worst: float
    worst_cell: str
    by_family: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class RegretResults:
    """What the benchmark found, and how it was called.

    Attributes
    ----------
    regrets : list of CellRegret
        Against the best of all methods that were run.
    n_draws : int
    missing : dict
        Data sets that are not here, and why.
    command : str
        The command that gives these figures again.
    """

    regrets: list[CellRegret]
    n_draws: int
    missing: dict[str, str]
    command: str

    @property
    def methods(self) -> list[str]:
        """Keys of the methods that were run."""
        return list(self.regrets[0].accuracy)

    @property
    def unbalanced(self) -> list[CellRegret]:
        """Regrets of the methods without a balanced cut, against the best of these."""
        free = [key for key in self.methods if not has_balanced_cut(key)]
        return regrets_among(self.regrets, free) if free else []


def quick_methods() -> list[str]:
    """Methods that need no more than seconds a fit in every cell of the suite.

    >>> "robust" in quick_methods(), "correlation" in quick_methods()
    (True, False)
    """
    return [key for key in CONSENSUS_METHODS if key not in _SLOW]


def has_balanced_cut(key: str) -> bool:
    """Whether a method cuts its points into parts of equal size.

    Such methods prefer a package, and without it fall back to what knows no balance. MCLA cuts
    base clusters, not points: its clusters may differ in size.

    >>> has_balanced_cut("l2")
    False
    """
    method = consensus_method(key)
    return key != "mcla" and bool(method.packages) and not method.missing_packages()


def available_cells(
    cells: Sequence[SuiteCell] | None = None, *, data: Path | None = None, quick: bool = False
) -> tuple[list[SuiteCell], dict[str, str]]:
    """The cells whose data are here, and why the other data sets are not.

    Parameters
    ----------
    cells : sequence of SuiteCell, optional
        By default those of the suite.
    data : Path, optional
        Where the data sets are, in place of what ``COTERIE_DATA`` says.
    quick : bool
        Leave out all cells that need a file or much time.
    """
    if data is not None and not data.is_dir():
        raise DatasetUnavailableError(
            f"{data} is not a folder; name the one that holds the datasets (--data, COTERIE_DATA)"
        )
    chosen = SUITE if cells is None else cells
    if quick:
        chosen = quick_cells(chosen)
    names = {cell.dataset for cell in chosen} - {None, "digits"}
    with computing_alone(data):
        missing = {name: why for name in sorted(map(str, names)) if (why := _why_missing(name))}
    return [cell for cell in chosen if cell.dataset not in missing], missing


def run_regret(
    cells: Sequence[SuiteCell],
    n_draws: int = 10,
    *,
    methods: Sequence[str] = tuple(CONSENSUS_METHODS),
    again: Sequence[str] = (),
    keep: Path | None = None,
    data: Path | None = None,
    n_jobs: int = 1,
    after_draw: Callable[[], None] | None = None,
) -> dict[str, list[DrawResult]]:
    """Every method on every draw of every cell.

    Parameters
    ----------
    cells : sequence of SuiteCell
    n_draws : int
        Draw d is seeded with d.
    methods : sequence of str
        Keys of the registry.
    again : sequence of str
        Methods to be computed anew though a kept draw has them.
    keep : Path, optional
        A folder for the result of each draw; what is already there is not computed again.
    data : Path, optional
        Where the data sets are, in place of what ``COTERIE_DATA`` says.
    n_jobs : int
        Processes, each on one thread.
    after_draw : callable, optional
        Called after each draw.

    Returns
    -------
    dict of cell name to list of draws
    """
    tasks = [(cell, draw) for draw in range(n_draws) for cell in cells]
    run = joblib.Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1)
    calls = (
        joblib.delayed(_kept_draw)(SUITE.index(cell), draw, list(methods), list(again), keep, data)
        for cell, draw in tasks
    )
    results: dict[str, list[DrawResult]] = {cell.name: [] for cell in cells}
    with contextlib.closing(run(calls)) as found:
        for (cell, _), result in zip(tasks, found, strict=True):
            results[cell.name].append(result)
            if after_draw is not None:
                after_draw()
    return results


def run_draw(cell: SuiteCell, draw: int, methods: Iterable[str]) -> DrawResult:
    """Accuracy and seconds of every method on one draw."""
    drawn = cell.draw(draw)
    result: DrawResult = {part: {} for part in _PARTS}
    for key in methods:
        estimator = consensus_method(key).make(drawn.n_clusters, random_state=draw)
        started = time.perf_counter()
        try:
            with warnings.catch_warnings(), on_one_thread():
                warnings.simplefilter("ignore")
                labels = estimator.fit(drawn.P).labels_
        except CoterieError as error:
            result["failed"][key] = str(error)
            labels = np.zeros(len(drawn.y), dtype=np.int32)
        result["seconds"][key] = time.perf_counter() - started
        result["accuracy"][key] = clustering_accuracy(drawn.y, labels)
    return result


def cell_regrets(
    cells: Sequence[SuiteCell], results: Mapping[str, Sequence[DrawResult]]
) -> list[CellRegret]:
    """Mean accuracies and regrets of every cell."""
    return [_cell_regret(cell, results[cell.name]) for cell in cells]


def regrets_among(regrets: Sequence[CellRegret], methods: Sequence[str]) -> list[CellRegret]:
    """The same cells as if only these methods had been run."""
    return [_among(regret, methods) for regret in regrets]


def method_regrets(regrets: Sequence[CellRegret], half: str | None = None) -> list[MethodRegret]:
    """Mean and worst regret of every method over the cells of one half, or all; best first."""
    chosen = [regret for regret in regrets if half is None or regret.cell.half == half]
    if not chosen:
        return []
    found = [_method_regret(key, chosen) for key in chosen[0].regret]
    return sorted(found, key=lambda method: (round(method.mean, 6), method.method != FLAGSHIP))


def _cell_regret(cell: SuiteCell, draws: Sequence[DrawResult]) -> CellRegret:
    accuracy, error = {}, {}
    for key in draws[0]["accuracy"]:
        each = np.array([draw["accuracy"][key] for draw in draws])
        accuracy[key] = float(each.mean())
        several = len(each) > 1
        error[key] = float(each.std(ddof=1) / np.sqrt(len(each))) if several else float("nan")
    return CellRegret(
        cell,
        accuracy,
        error,
        _behind_the_best(accuracy),
        {key: float(np.mean([draw["seconds"][key] for draw in draws])) for key in accuracy},
        {key: why for draw in draws for key, why in draw["failed"].items()},
    )


def _among(regret: CellRegret, methods: Sequence[str]) -> CellRegret:
    def only(values: dict[str, Any]) -> dict[str, Any]:
        return {key: values[key] for key in methods if key in values}

    accuracy = only(regret.accuracy)
    return replace(
        regret,
        accuracy=accuracy,
        error=only(regret.error),
        regret=_behind_the_best(accuracy),
        seconds=only(regret.seconds),
        failed=only(regret.failed),
    )


def _behind_the_best(accuracy: Mapping[str, float]) -> dict[str, float]:
    best = max(accuracy.values())
    return {key: best - own for key, own in accuracy.items()}


def _method_regret(key: str, regrets: Sequence[CellRegret]) -> MethodRegret:
    each = np.array([regret.regret[key] for regret in regrets])
    families: dict[str, list[float]] = {}
    for regret in regrets:
        families.setdefault(regret.cell.family, []).append(regret.regret[key])
    return MethodRegret(
        key,
        float(each.mean()),
        float(each.max()),
        regrets[int(each.argmax())].cell.name,
        {name: (float(np.mean(some)), max(some)) for name, some in families.items()},
    )


def _why_missing(dataset: str) -> str | None:
    try:
        load_views(dataset)
    except DatasetUnavailableError as error:
        return " ".join(str(error).split())
    return None


def _kept_draw(
    place: int,
    draw: int,
    methods: Sequence[str],
    again: Sequence[str],
    keep: Path | None,
    data: Path | None,
) -> DrawResult:
    """One draw, with what was kept of it before."""
    cell = SUITE[place]  # a cell's draw is a closure of arrays at times; its place is not
    path = None if keep is None else keep / f"{_file_name(cell)}-{draw}.json"
    result = _read_kept(path)
    wanted = [key for key in methods if key not in result["accuracy"] or key in again]
    if wanted:
        with computing_alone(data):
            found = run_draw(cell, draw, wanted)
        result["failed"] = {k: why for k, why in result["failed"].items() if k not in wanted}
        for part in _PARTS:
            result[part] |= found[part]
        _write_kept(path, result)
    return {
        part: {key: result[part][key] for key in methods if key in result[part]} for part in _PARTS
    }


def _read_kept(path: Path | None) -> DrawResult:
    if path is None or not path.exists():
        return {part: {} for part in _PARTS}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {part: dict(found[part]) for part in _PARTS}
    except (ValueError, TypeError, KeyError) as error:
        raise TableError(
            f"{path} is not the kept result of a draw ({error!r}); remove it"
        ) from error


def _write_kept(path: Path | None, result: DrawResult) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as unfinished:
        unfinished.write_text(json.dumps(result), encoding="utf-8")


def _file_name(cell: SuiteCell) -> str:
    digest = hashlib.sha256(cell.name.encode()).hexdigest()[:12]
    return f"{cell.family}-{digest}"
