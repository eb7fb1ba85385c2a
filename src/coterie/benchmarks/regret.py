"""Regret: how far each consensus method stays behind the best one, cell by cell.

    regret of a method in a cell = best mean accuracy of any method in it − its own

over the cells of :mod:`coterie.benchmarks.consensus_suite`. Every draw of a cell gives all methods
the same label matrix. Nothing is tuned per cell; a method that cannot run scores as if it
had put all points into one cluster, and the report says so.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from coterie.benchmarks.consensus_suite import SUITE, SuiteCell
from coterie.datasets import load_views
from coterie.devices import on_one_thread
from coterie.errors import CoterieError, DatasetUnavailableError
from coterie.method_registry import CONSENSUS_METHODS, FLAGSHIP, consensus_method
from coterie.scores import clustering_accuracy
from coterie.whole_files import whole_file

__all__ = [
    "CellRegret",
    "MethodRegret",
    "available_cells",
    "cell_regrets",
    "method_regrets",
    "run_draw",
    "run_regret",
]

#: One draw: accuracy and seconds by method, and why a method could not run.
DrawResult = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class CellRegret:
    """Mean accuracy and its standard error by method in one cell, and the regrets."""

    cell: SuiteCell
    accuracy: dict[str, float]
    error: dict[str, float]
    regret: dict[str, float]
    failed: dict[str, str]


@dataclass(frozen=True)
class MethodRegret:
    """Mean and worst regret of one method over some cells."""

    method: str
    mean: float
    worst: float
    worst_cell: str
    by_family: dict[str, tuple[float, float]]


def available_cells(cells: Sequence[SuiteCell] = SUITE) -> tuple[list[SuiteCell], dict[str, str]]:
    """The cells whose data are here, and why the others cannot be drawn."""
    here, missing = [], {}
    for cell in cells:
        try:
            if cell.dataset not in (None, "digits"):
                load_views(str(cell.dataset))
        except DatasetUnavailableError as error:
            missing[cell.name] = str(error)
        else:
            here.append(cell)
    return here, missing


def run_regret(
    cells: Sequence[SuiteCell],
    n_draws: int = 10,
    *,
    methods: Sequence[str] = tuple(CONSENSUS_METHODS),
    again: Sequence[str] = (),
    keep: Path | None = None,
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
    n_jobs : int
        Processes, each on one thread.
    after_draw : callable, optional
        Called after each draw.

    Returns
    -------
    dict of cell name to list of draws
    """
    tasks = [(cell, draw) for draw in range(n_draws) for cell in cells]
    run = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
    found = run(
        joblib.delayed(_kept_draw)(SUITE.index(cell), draw, list(methods), list(again), keep)
        for cell, draw in tasks
    )
    results: dict[str, list[DrawResult]] = {cell.name: [] for cell in cells}
    for (cell, _), result in zip(tasks, found, strict=True):
        results[cell.name].append(result)
        if after_draw is not None:
            after_draw()
    return results


def run_draw(cell: SuiteCell, draw: int, methods: Iterable[str]) -> DrawResult:
    """Accuracy and seconds of every method on one draw."""
    drawn = cell.draw(draw)
    result: DrawResult = {"accuracy": {}, "seconds": {}, "failed": {}}
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


def method_regrets(regrets: Sequence[CellRegret], half: str | None = None) -> list[MethodRegret]:
    """Mean and worst regret of every method over the cells of one half, or all; best first."""
    chosen = [regret for regret in regrets if half is None or regret.cell.half == half]
    if not chosen:
        return []
    found = [_method_regret(key, chosen) for key in chosen[0].regret]
    return sorted(found, key=lambda method: (round(method.mean, 6), method.method != FLAGSHIP))


def _cell_regret(cell: SuiteCell, draws: Sequence[DrawResult]) -> CellRegret:
    values = {key: np.array([d["accuracy"][key] for d in draws]) for key in draws[0]["accuracy"]}
    accuracy = {key: float(each.mean()) for key, each in values.items()}
    spread = {
        key: float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else float("nan")
        for key, each in values.items()
    }
    best = max(accuracy.values())
    failed = {key: why for draw in draws for key, why in draw["failed"].items()}
    return CellRegret(
        cell, accuracy, spread, {key: best - a for key, a in accuracy.items()}, failed
    )


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


def _kept_draw(
    place: int, draw: int, methods: Sequence[str], again: Sequence[str], keep: Path | None
) -> DrawResult:
    """One draw, with what was kept of it before."""
    cell = SUITE[place]  # a cell's draw is a closure of arrays at times; its place is not
    path = None if keep is None else keep / f"{_file_name(cell)}-{draw}.json"
    result: DrawResult = {"accuracy": {}, "seconds": {}, "failed": {}}
    if path is not None and path.exists():
        result = json.loads(path.read_text(encoding="utf-8"))
    wanted = [key for key in methods if key not in result["accuracy"] or key in again]
    if wanted:
        found = run_draw(cell, draw, wanted)
        result["failed"] = {k: why for k, why in result["failed"].items() if k not in wanted}
        for part in result:
            result[part] |= found[part]
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as unfinished:
                unfinished.write_text(json.dumps(result), encoding="utf-8")
    return {
        part: {key: value for key, value in result[part].items() if key in methods}
        for part in result
    }


def _file_name(cell: SuiteCell) -> str:
    digest = hashlib.sha256(cell.name.encode()).hexdigest()[:12]
    return f"{cell.family}-{digest}"
