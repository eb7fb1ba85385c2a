"""Time and memory of the library beside other ways to the same answer.

All contenders of a cell run in new processes, in turn, on the same labels; compilation is excluded
(:mod:`benchmarks.measuring`). The first use of the package, with compilation, is measured
separately.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import speed_works as works
from benchmarks.harness import Context, error_line
from benchmarks.measuring import Measurement, Work, measure_side_by_side
from benchmarks.results import Result, Table, seconds_text
from coterie.errors import CoterieError
from coterie.runtime.devices import readable_bytes

#: Name of the library among the contenders of a cell.
OURS = "coterie"
#: Rows of k-means labels, planted rows, tuples to relax, and steps of the relaxation.
FULL = {"n_rows": 200_000, "n_large": 1_000_000, "n_tuples": 3_000, "n_iter": 40}
QUICK = {"n_rows": 20_000, "n_large": 50_000, "n_tuples": 600, "n_iter": 20}

_SHARES = (300, 200, 150, 100, 80, 60, 40, 30, 25, 15)
_FIRST_USE = """
import json, time
times = [time.perf_counter()]
import coterie
times.append(time.perf_counter())
from coterie import RobustConsensus, planted_partitions
times.append(time.perf_counter())
P, _ = planted_partitions([60, 30, 10], 10, 4, 0.1, random_state=0)
fits = []
for _ in range(2):
    start = time.perf_counter()
    RobustConsensus(3, random_state=0).fit(P)
    fits.append(time.perf_counter() - start)
print(json.dumps([times[1] - times[0], times[2] - times[1], *fits]))
"""

Measured = Mapping[str, Measurement]


class Cell(NamedTuple):
    """One comparison: the labels to write, the contenders, and ratios of their figures."""

    name: str
    title: str
    write_labels: Callable[[], None]
    contenders: Mapping[str, Work]
    ratios: Callable[[Measured], dict[str, float]]


def run(context: Context, *, repeats: int = 3) -> Result:
    """Measure all cells, each contender at most ``repeats`` times, and the first use."""
    size = QUICK if context.quick else FULL
    with tempfile.TemporaryDirectory(prefix="coterie-speed-") as folder:
        cells = speed_cells(Path(folder), **size)
        measured = [measure_cell(cell, repeats) for cell in context.track(cells, "measuring")]
    data = {"cells": measured, "first_use": measure_first_use(), "size": size}
    return Result("speed", tables_of(data), data, warning_notes(measured))


def speed_cells(folder: Path, n_rows: int, n_large: int, n_tuples: int, n_iter: int) -> list[Cell]:
    """Return the cells; their labels will be written to ``folder``."""
    return [
        _kmeans_cell(folder / "fixed_k.npz", n_rows, "kmeans", "admm"),
        _kmeans_cell(folder / "diverse_k.npz", n_rows, "diverse", "l2"),
        _relaxation_cell(folder / "relaxation.npz", n_tuples, n_iter),
        _large_cell(folder / "large.npz", n_large),
        _search_cell(folder / "search.npz", n_large),
    ]


def measure_cell(cell: Cell, repeats: int) -> dict[str, Any]:
    """Write the labels of a cell and measure its contenders."""
    cell.write_labels()
    measured = measure_side_by_side(cell.contenders, repeats)
    return {
        "name": cell.name,
        "title": cell.title,
        "contenders": {name: asdict(found) for name, found in measured.items()},
        "ratios": cell.ratios(measured),
    }


def time_ratio(measured: Measured) -> float:
    """Return the time of the library over that of the fastest other contender."""
    others = [found.seconds for name, found in measured.items() if name != OURS]
    return measured[OURS].seconds / min(others)


def percent_above(measured: Measured) -> float:
    """Return by how many percent the objective of the library exceeds that of the other."""
    ours, other = (found.facts["objective"] for found in measured.values())
    return 100 * (ours / other - 1.0) if other else 0.0


def warning_notes(cells: list[dict[str, Any]]) -> list[str]:
    """Return a note for each kind of warning that a contender raised."""
    return [
        f"{cell['title']}, {name}: {kind}, {times} times"
        for cell in cells
        for name, found in cell["contenders"].items()
        for kind, times in found["warnings"].items()
    ]


def measure_first_use() -> dict[str, dict[str, float]]:
    """Return seconds to import and to fit, before (``cold``) and after (``warm``) compilation."""
    steps = ("import_package", "import_estimator", "first_fit", "second_fit")
    found = {}
    with tempfile.TemporaryDirectory(prefix="coterie-kernels-") as folder:
        # the first process fills the folder of compiled kernels, the second one uses it
        for state in ("cold", "warm"):
            child = subprocess.run(
                [sys.executable, "-c", _FIRST_USE],
                env={**os.environ, "NUMBA_CACHE_DIR": folder},
                capture_output=True,
                text=True,
                check=False,
            )
            if child.returncode != 0:
                message = error_line(child.stderr) or f"exit code {child.returncode}"
                raise CoterieError(f"the first use could not be measured: {message}")
            found[state] = dict(zip(steps, json.loads(child.stdout), strict=True))
    return found


def _kmeans_cell(path: Path, n_rows: int, strategy: str, relaxation: str) -> Cell:
    """Labels of 40 k-means runs; the alternative is k-means on their one-hot encoding."""
    K, V = 8, 40
    kind = f"K = {K}" if strategy == "kmeans" else f"K = {K} to 50"
    return Cell(
        path.stem,
        f"{n_rows:,} × {V} labels by k-means with {kind}",
        partial(works.write_kmeans_labels, path, n_rows, K, V, strategy),
        {
            OURS: partial(works.fit_consensus, path=path, n_clusters=K, relaxation=relaxation),
            "one-hot k-means, sparse": partial(
                works.fit_one_hot_kmeans, path=path, n_clusters=K, dense=False
            ),
            "one-hot k-means, dense": partial(
                works.fit_one_hot_kmeans, path=path, n_clusters=K, dense=True
            ),
        },
        lambda measured: {
            "time / faster one-hot k-means": time_ratio(measured),
            "peak memory / label matrix": measured[OURS].peak_bytes
            / measured[OURS].facts["label_bytes"],
        },
    )


def _relaxation_cell(path: Path, n_tuples: int, n_iter: int) -> Cell:
    """The robust relaxation of distinct tuples, and its textbook form."""
    K, V = 8, 40
    sizes = tuple(n_tuples // K + (k < n_tuples % K) for k in range(K))
    return Cell(
        path.stem,
        f"robust relaxation of {n_tuples:,} distinct tuples, {n_iter} steps",
        partial(works.write_planted_labels, path, sizes, V, 0, 0.6),
        {
            OURS: partial(works.relax, path=path, n_clusters=K, n_iter=n_iter),
            "textbook": partial(works.relax_by_the_book, path=path, n_clusters=K, n_iter=n_iter),
        },
        lambda measured: {
            "times as fast as the textbook": 1.0 / time_ratio(measured),
            "objective above the textbook's, %": percent_above(measured),
        },
    )


def _large_cell(path: Path, n_large: int) -> Cell:
    """Many points, nearly all distinct; two partitions in five are wrong in the same way."""
    sizes, V = tuple(n_large * share // 1000 for share in _SHARES), 40
    return Cell(
        path.stem,
        f"{sum(sizes):,} × {V} planted labels, 40% wrong together, 20% noise",
        partial(works.write_planted_labels, path, sizes, V, 2 * V // 5, 0.2),
        {OURS: partial(works.fit_consensus, path=path, n_clusters=len(sizes), relaxation="l2")},
        lambda _: {},
    )


def _search_cell(path: Path, n_large: int) -> Cell:
    """The discrete search on all cores, and one tuple after the other."""
    K, V = 10, 24
    return Cell(
        path.stem,
        f"search over {n_large:,} × {V} planted labels, 20% noise",
        partial(works.write_planted_labels, path, (n_large // K,) * K, V, 0, 0.2),
        {
            OURS: partial(works.search, path=path, n_clusters=K, in_blocks=True),
            "one tuple after the other": partial(
                works.search, path=path, n_clusters=K, in_blocks=False
            ),
        },
        lambda measured: {
            "times as fast as one after the other": 1.0 / time_ratio(measured),
            "J above one after the other, %": percent_above(measured),
        },
    )


def tables_of(data: dict[str, Any]) -> list[Table]:
    """Return the tables of times, ratios and first use."""
    headings = (
        "cell", "contender", "seconds", "runs", "peak memory", "warm-up, s", "tuples", "J",
        "accuracy",
    )  # fmt: skip
    times = [
        (cell["title"], name, *_measurement_texts(found))
        for cell in data["cells"]
        for name, found in cell["contenders"].items()
    ]
    ratios = [
        (cell["title"], what, f"{value:.3g}")
        for cell in data["cells"]
        for what, value in cell["ratios"].items()
    ]
    state = {"cold": "none: compiled now", "warm": "compiled before"}
    first = [(state[name], *map(seconds_text, data["first_use"][name].values())) for name in state]
    steps = ("kernels on disk", "import coterie", "import RobustConsensus", "first fit", "second")
    return [
        Table("Time and memory", headings, times, n_named=2),
        Table("Ratios", ("cell", "figure", "measured"), ratios, n_named=2),
        Table("First use in a new process, seconds", steps, first),
    ]


def _measurement_texts(found: dict[str, Any]) -> tuple[str, ...]:
    facts = found["facts"]
    return (
        seconds_text(found["seconds"]),
        str(len(found["runs"])),
        readable_bytes(found["peak_bytes"]),
        seconds_text(found["warm_up_seconds"]),
        f"{facts['n_tuples']:,}" if "n_tuples" in facts else "",
        f"{facts['objective']:.5g}",
        f"{facts['accuracy']:.3f}" if "accuracy" in facts else "",
    )
