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


class Cell(NamedTuple):
    """One comparison: the labels to write, and the contenders that read them."""

    name: str
    title: str
    write_labels: Callable[[], None]
    contenders: Mapping[str, Work]


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
    contenders = {name: asdict(found) for name, found in measured.items()}
    return {"name": cell.name, "title": cell.title, "contenders": contenders, **ratios(measured)}


def ratios(measured: Mapping[str, Measurement]) -> dict[str, float | None]:
    """Compare the library with the fastest other contender, and its memory with the labels."""
    ours = measured[OURS]
    others = [found for name, found in measured.items() if name != OURS]
    best = min(others, key=lambda found: found.seconds, default=None)
    names = ("time_ratio", "objective_percent", "memory_ratio")
    found: dict[str, float | None] = dict.fromkeys(names)
    if best is not None:
        found["time_ratio"] = ours.seconds / best.seconds
        J, other = ours.facts["objective"], best.facts["objective"]
        found["objective_percent"] = 100 * (J / other - 1.0) if other else 0.0
    if "label_bytes" in ours.facts:
        found["memory_ratio"] = ours.peak_bytes / ours.facts["label_bytes"]
    return found


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
    consensus = partial(works.fit_consensus, path=path, n_clusters=K, relaxation=relaxation)
    kmeans = partial(works.fit_one_hot_kmeans, path=path, n_clusters=K)
    return Cell(
        path.stem,
        f"{n_rows:,} × {V} labels by k-means with {kind}",
        partial(works.write_kmeans_labels, path, n_rows, K, V, strategy),
        {
            OURS: consensus,
            "one-hot k-means, sparse": partial(kmeans, dense=False),
            "one-hot k-means, dense": partial(kmeans, dense=True),
        },
    )


def _relaxation_cell(path: Path, n_tuples: int, n_iter: int) -> Cell:
    """Return the robust relaxation of distinct tuples and its textbook form."""
    K, V = 8, 40
    sizes = tuple(n_tuples // K + (k < n_tuples % K) for k in range(K))
    settings: dict[str, Any] = {"path": path, "n_clusters": K, "n_iter": n_iter}
    return Cell(
        path.stem,
        f"robust relaxation of {n_tuples:,} distinct tuples, {n_iter} steps",
        partial(works.write_planted_labels, path, sizes, V, 0, 0.6),
        {
            OURS: partial(works.relax, **settings),
            "textbook": partial(works.relax_by_the_book, **settings),
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
    )


def _search_cell(path: Path, n_large: int) -> Cell:
    """Return the discrete search on all cores and tuple by tuple."""
    K, V = 10, 24
    search = partial(works.search, path=path, n_clusters=K)
    return Cell(
        path.stem,
        f"search over {n_large:,} × {V} planted labels, 20% noise",
        partial(works.write_planted_labels, path, (n_large // K,) * K, V, 0, 0.2),
        {
            OURS: partial(search, in_blocks=True),
            "one tuple after the other": partial(search, in_blocks=False),
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
    columns = ("time_ratio", "objective_percent", "memory_ratio")
    compared = ("time / fastest other", "objective above it, %", "peak memory / labels")
    figures = [
        (cell["title"], *("" if cell[c] is None else f"{cell[c]:.3g}" for c in columns))
        for cell in data["cells"]
    ]
    state = {"cold": "none: compiled now", "warm": "compiled before"}
    first = [(state[name], *map(seconds_text, data["first_use"][name].values())) for name in state]
    steps = ("kernels on disk", "import coterie", "import RobustConsensus", "first fit", "second")
    return [
        Table("Time and memory", headings, times, n_named=2),
        Table("coterie beside the others", ("cell", *compared), figures),
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
