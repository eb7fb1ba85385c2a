"""Partitions that come later, ``growing``: partial_fit beside a fit on all columns.

Both are measured in fresh processes, in turn. What ``partial_fit`` goes on from, the fit on the
partitions there were, is not in its time. :mod:`benchmarks.program` registers the command.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.command_steps import (
    Json,
    Output,
    as_json_text,
    prepare_folder,
    progress,
    show,
    text_file,
    write_files,
)

if TYPE_CHECKING:
    from benchmarks.measuring import Work
    from benchmarks.result_tables import ResultTable
    from benchmarks.speed import CellTimes, Check, Measured, SpeedCell

__all__ = ["as_table", "growing", "growing_cells", "run_growing"]

N_BEFORE, N_NEW, N_CLUSTERS = 40, 5, 8
_SHARES = (0.3, 0.2, 0.15, 0.12, 0.1, 0.06, 0.04, 0.03)


def growing(
    as_json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the rows.")] = False,
    repeats: Annotated[
        int, typer.Option(min=1, help="Most runs of each contender; the median counts.")
    ] = 3,
    output: Output = None,
) -> None:
    """Time of 5 partitions that join 40, beside a fit on all 45.

    Run it on a machine that does nothing else. Example: python -m benchmarks growing -o
    growing-report
    """
    prepare_folder(output, ("growing.json",))
    from benchmarks.environment import environment

    with progress("measuring", None) as advance:
        cells = run_growing(20_000 if quick else 200_000, repeats, before_step=advance)
    everything = {"cells": [asdict(cell) for cell in cells], "environment": environment()}
    if output is not None:
        write_files({output / "growing.json": text_file(as_json_text(everything))})
    show(as_json, everything, [as_table(cells)], [], output)


def run_growing(
    n_rows: int, repeats: int = 3, before_step: Callable[[str], None] | None = None
) -> list[CellTimes]:
    """Measure all cells with that many points."""
    from benchmarks.speed import run_speed_cell

    say: Callable[[str], None] = before_step or (lambda _: None)
    with tempfile.TemporaryDirectory(prefix="coterie-growing-") as folder:
        return [run_speed_cell(cell, repeats, say) for cell in growing_cells(n_rows, Path(folder))]


def growing_cells(n_rows: int, folder: Path) -> list[SpeedCell]:
    """Labels of k-means runs that differ little, of ones that differ much, and planted ones."""
    from benchmarks.contenders import kmeans_labels, planted_labels

    V, K = N_BEFORE + N_NEW, N_CLUSTERS
    same, diverse, planted = (folder / f"{name}.npz" for name in ("same", "diverse", "planted"))
    sizes = tuple(round(n_rows * share) for share in _SHARES)
    return [
        _cell(same, f"k-means, K = {K}", kmeans_labels(same, n_rows, K, V, "kmeans")),
        _cell(diverse, f"k-means, K = {K} to 50", kmeans_labels(diverse, n_rows, K, V, "diverse")),
        _cell(
            planted,
            "planted, 20% noise, a third wrong together",
            planted_labels(planted, sizes, V, V // 3, 0.2),
        ),
    ]


def as_table(cells: list[CellTimes]) -> ResultTable:
    """Seconds of both, their ratio, and the ratio of the objectives."""
    from benchmarks.result_tables import ResultTable
    from benchmarks.speed_report import seconds_in_short

    headings = ("labels", "tuples", "partial_fit, s", "fit, s", "time / fit", "J above fit, %")
    rows = []
    for cell in cells:
        ours, whole = cell.measured.values()
        time, objective = cell.checks
        rows.append(
            (
                cell.title,
                f"{whole.facts['n_tuples']:,}",
                seconds_in_short(ours.seconds),
                seconds_in_short(whole.seconds),
                f"{time.value:.2f}",
                f"{objective.value:.2f}",
            )
        )
    return ResultTable(f"{N_NEW} partitions join {N_BEFORE}", headings, rows)


def _cell(path: Path, title: str, inputs: Work) -> SpeedCell:
    from benchmarks.contenders import growing_consensus, robust_consensus
    from benchmarks.speed import OURS, SpeedCell

    contenders = {
        OURS: growing_consensus(path, N_CLUSTERS, N_BEFORE),
        "fit": robust_consensus(path, N_CLUSTERS),
    }
    return SpeedCell(path.stem, title, inputs, contenders, _checks)


def _checks(measured: Measured) -> list[Check]:
    from benchmarks.speed import Check, time_ratio

    ours, whole = (found.facts["objective"] for found in measured.values())
    above = 100 * (ours / whole - 1) if whole else 0.0
    return [
        Check("time / fit on all", time_ratio(measured), 0.5),
        Check("objective above that of fit, %", above, 1.0),
    ]
