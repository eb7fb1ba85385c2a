"""Time of ``partial_fit`` of further partitions beside a fit on all partitions.

Both run in new processes, in turn. The fit that ``partial_fit`` continues from is not measured.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import speed_works as works
from benchmarks.harness import Context
from benchmarks.results import Result, Table, seconds_text
from benchmarks.speed import OURS, Cell, measure_cell, warning_notes

N_BEFORE, N_NEW, N_CLUSTERS = 40, 5, 8
_SHARES = (0.3, 0.2, 0.15, 0.12, 0.1, 0.06, 0.04, 0.03)


def run(context: Context, *, rows: int | None = None, repeats: int = 3) -> Result:
    """Measure labels of ``rows`` points: 200,000, with ``--quick`` 20,000."""
    n_rows = rows or (20_000 if context.quick else 200_000)
    with tempfile.TemporaryDirectory(prefix="coterie-growing-") as folder:
        cells = [
            measure_cell(cell, repeats)
            for cell in context.track(growing_cells(Path(folder), n_rows), "measuring")
        ]
    return Result("growing", [table_of(cells)], {"cells": cells}, warning_notes(cells))


def growing_cells(folder: Path, n_rows: int) -> list[Cell]:
    """Return cells of similar k-means labels, of different ones, and of planted labels."""
    V, K = N_BEFORE + N_NEW, N_CLUSTERS
    sizes = tuple(round(n_rows * share) for share in _SHARES)
    same, diverse, planted = (folder / f"{name}.npz" for name in ("same", "diverse", "planted"))
    write_kmeans, write_planted = works.write_kmeans_labels, works.write_planted_labels
    labels = {
        f"k-means, K = {K}": partial(write_kmeans, same, n_rows, K, V, "kmeans"),
        f"k-means, K = {K} to 50": partial(write_kmeans, diverse, n_rows, K, V, "diverse"),
        "planted, 20% noise, a third wrong together": partial(
            write_planted, planted, sizes, V, V // 3, 0.2
        ),
    }
    return [
        Cell(
            path.stem,
            title,
            write,
            {
                OURS: partial(works.grow_consensus, path=path, n_clusters=K, n_before=N_BEFORE),
                "fit": partial(works.fit_consensus, path=path, n_clusters=K),
            },
        )
        for path, (title, write) in zip((same, diverse, planted), labels.items(), strict=True)
    ]


def table_of(cells: list[dict[str, Any]]) -> Table:
    """Return seconds of both, and the ratios of times and objectives."""
    rows = []
    for cell in cells:
        ours, whole = cell["contenders"].values()
        rows.append(
            (
                cell["title"],
                f"{whole['facts']['n_tuples']:,}",
                seconds_text(ours["seconds"]),
                seconds_text(whole["seconds"]),
                f"{cell['time_ratio']:.2f}",
                f"{cell['objective_percent']:.2f}",
            )
        )
    headings = ("labels", "tuples", "partial_fit, s", "fit, s", "time / fit", "J above fit, %")
    return Table(f"{N_NEW} partitions join {N_BEFORE}", headings, rows)
