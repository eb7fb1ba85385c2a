"""Time of ``add_partitions`` of further partitions compared with a fit on all partitions.

Both run in new processes, in turn. The fit that ``add_partitions`` continues from is not measured.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import CONSENSUS, Context
from benchmarks.measuring import Stopwatch
from benchmarks.results import Result, Table, item, seconds_text
from benchmarks.speed import (
    OURS,
    WARM_UP_ROWS,
    Cell,
    fit_consensus,
    load_labels,
    measure_cell,
    quality,
    warning_notes,
    write_kmeans_labels,
    write_planted_labels,
)

N_BEFORE, N_NEW, N_CLUSTERS = 40, 5, 8
_SHARES = (0.3, 0.2, 0.15, 0.12, 0.1, 0.06, 0.04, 0.03)

MEASURES = CONSENSUS


def run(context: Context, *, rows: int | None = None, repeats: int = 3) -> Result:
    """Measure labels of ``rows`` points: 200,000, with ``--quick`` 20,000."""
    n, V, K = rows or (20_000 if context.quick else 200_000), N_BEFORE + N_NEW, N_CLUSTERS
    with tempfile.TemporaryDirectory(prefix="coterie-growing-") as folder:
        path = Path(folder) / "labels.npz"
        sizes = tuple(round(n * share) for share in _SHARES)
        labels = {
            f"k-means, K = {K}": partial(write_kmeans_labels, path, n, K, V, "kmeans"),
            f"k-means, K = {K} to 50": partial(write_kmeans_labels, path, n, K, V, "diverse"),
            "planted, 20% noise, a third wrong together": partial(
                write_planted_labels, path, sizes, V, V // 3, 0.2
            ),
        }
        contenders = {
            OURS: partial(add_partitions, path=path),
            "fit": partial(fit_consensus, path=path, n_clusters=K),
        }
        cells = [
            measure_cell(Cell(title, write, contenders), repeats)
            for title, write in context.track(labels.items(), "measuring")
        ]
    columns = {
        "labels": item("title"),
        "tuples": item("contenders", "fit", "facts", "n_tuples", form=","),
        "add_partitions, s": item("contenders", OURS, "seconds", form=seconds_text),
        "fit, s": item("contenders", "fit", "seconds", form=seconds_text),
        "time / fit": item("time_ratio", form=".2f"),
        "J above fit, %": item("objective_percent", form=".2f"),
    }
    table = Table.of(f"{N_NEW} partitions join {N_BEFORE}", cells, columns)
    return Result("growing", [table], {"cells": cells}, warning_notes(cells))


def add_partitions(watch: Stopwatch, path: Path) -> dict[str, Any]:
    """Add the new partitions by ``add_partitions`` to a fit on those before."""
    from coterie import RobustConsensus

    P, y = load_labels(path)
    before, new = P[:, :N_BEFORE], P[:, N_BEFORE:]
    consensus = RobustConsensus(N_CLUSTERS, random_state=0).fit(before)
    with watch.warm_up():
        few = RobustConsensus(N_CLUSTERS, random_state=0).fit(before[:WARM_UP_ROWS])
        few.add_partitions(new[:WARM_UP_ROWS])
    with watch.measure():
        consensus.add_partitions(new)
    return {"n_tuples": consensus.n_tuples_, **quality(P, y, consensus.labels_)}
