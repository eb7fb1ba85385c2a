"""Accuracy on planted partitions where some votes are noisy and some are wrong.

A cell says how a partition is planted and spoiled (:func:`coterie.planted_partitions`). Each draw
of a cell gives every method the same label matrix. The planted partition is used only for the
score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import Cell, run_cells, summarise
from benchmarks.harness import CONSENSUS, Context
from benchmarks.results import (
    Marks,
    Result,
    Table,
    best_cells,
    dot_plot,
    lane_heights,
    score_text,
    short_text,
)
from coterie.consensus import OneHotKMeans
from coterie.consensus.robust import RobustConsensus
from coterie.counts.contingency import all_contingencies, count_pairs
from coterie.ensembles.generate import planted_partitions
from coterie.errors import CoterieError
from coterie.inspection.scores import clustering_accuracy
from coterie.labels.tuples import as_label_tuples

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class NoiseCell:
    """A planted partition and how its votes are spoiled.

    ``n_bad`` of the ``n_partitions`` are unrelated to the planted one. They share one wrong
    partition (``correlated``) or are wrong independently. In every partition a label is redrawn
    with probability ``noise``.
    """

    sizes: tuple[int, ...]
    n_partitions: int
    n_bad: int
    noise: float
    correlated: bool = True

    def draw(self, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return a label matrix (n, V) and the planted partition (n,)."""
        settings = asdict(self)
        return planted_partitions(settings.pop("sizes"), **settings, random_state=seed)


#: The cells in which methods differ most …
CORE_CELLS = (
    NoiseCell((100, 100, 100), 3, 1, 0.1),
    NoiseCell((200, 60, 40), 3, 1, 0.1),
    NoiseCell((200, 60, 40), 5, 2, 0.1),
    NoiseCell((200, 60, 20, 20), 5, 2, 0.1),
    NoiseCell((200, 60, 40), 20, 8, 0.2),
    NoiseCell((300, 30, 20), 10, 4, 0.1),
    NoiseCell((300, 30, 20), 10, 4, 0.1, correlated=False),
    NoiseCell((100, 50, 50, 30, 20), 10, 4, 0.2),
    NoiseCell((100, 50, 50, 30, 20), 40, 20, 0.4, correlated=False),
    NoiseCell((200, 50, 50), 40, 30, 0.3, correlated=False),
    NoiseCell((400, 200, 100, 100, 50), 40, 16, 0.2),
)
#: … and more of them: 2 to 20 clusters, 3 to 100 partitions, up to 5,000 points.
MORE_CELLS = (
    NoiseCell((150, 150), 3, 1, 0.1),
    NoiseCell((250, 50), 5, 2, 0.1),
    NoiseCell((250, 50), 5, 2, 0.1, correlated=False),
    NoiseCell((4000, 1000), 10, 4, 0.1),
    NoiseCell((100, 100, 100), 10, 4, 0.3),
    NoiseCell((100, 100, 100), 10, 4, 0.3, correlated=False),
    NoiseCell((4000, 700, 300), 7, 3, 0.1),
    NoiseCell((4000, 700, 300), 7, 3, 0.1, correlated=False),
    NoiseCell((200, 50, 50), 100, 40, 0.3),
    NoiseCell((500, 300, 150, 50), 6, 2, 0.2),
    NoiseCell((1000,) * 5, 4, 1, 0.1, correlated=False),
    NoiseCell((1000,) * 5, 5, 2, 0.1),
    NoiseCell((3000, 1200, 500, 200, 100), 5, 2, 0.1),
    NoiseCell((3000, 1200, 500, 200, 100), 5, 2, 0.05, correlated=False),
    NoiseCell((200, 100, 50, 25, 12), 10, 0, 0.4),
    NoiseCell((200, 100, 50, 25, 12), 40, 0, 0.6),
    NoiseCell((150, 80, 40, 20, 10), 60, 24, 0.5),
    NoiseCell((120, 60, 30, 20, 10), 100, 45, 0.4),
    NoiseCell((500,) * 10, 3, 1, 0.05),
    NoiseCell((40,) * 10, 20, 8, 0.2),
    NoiseCell((100, 80, 60, 50, 40, 30, 20, 10, 5, 5), 20, 8, 0.1),
    NoiseCell((100, 80, 60, 50, 40, 30, 20, 10, 5, 5), 20, 8, 0.1, correlated=False),
    NoiseCell((30,) * 20, 40, 16, 0.2),
    NoiseCell((80, 70, 60, 50, 40) + (20,) * 10 + (10,) * 5, 30, 10, 0.2),
)

MEASURES = CONSENSUS


def run(context: Context, *, draws: int | None = None) -> Result:
    """Measure the accuracy of six methods in every cell; a quick run has the core cells only.

    ``draws`` of each cell are 5 by default, 2 in a quick run. Draw d is seeded with d.
    """
    chosen = CORE_CELLS if context.quick else CORE_CELLS + MORE_CELLS
    n_draws = draws or (2 if context.quick else 5)
    tasks = [
        Cell(f"noise-{_cell_text(asdict(cell))}", tuple(METHODS), partial(_load, cell))
        for cell in chosen
    ]
    rows = []
    for cell, draws_of in zip(chosen, run_cells(tasks, n_draws, context, 1).values(), strict=True):
        methods = {name: summarise([draw[name] for draw in draws_of]) for name in METHODS}
        failures = [message for found in methods.values() for message in found["messages"]]
        if failures:
            raise CoterieError(f"a method failed: {failures[0]}")
        rows.append({**asdict(cell), "core": cell in CORE_CELLS, "methods": methods})
    return _result({"cells": rows})


def _load(cell: NoiseCell) -> Callable[[int], Callable[[str], float]]:
    def accuracy(P: NDArray[Any], y: NDArray[Any], seed: int, method: str) -> float:
        return clustering_accuracy(y, METHODS[method](P, len(cell.sizes), seed))

    return lambda seed: partial(accuracy, *cell.draw(seed), seed)


def most_central_partition(P: NDArray[Any]) -> NDArray[Any]:
    """Return the given partition with the lowest objective J, the first one in a tie.

    It is the best single partition that can be chosen without knowing the answer: its mean Mirkin
    distance to all partitions is the least.

    Examples
    --------
    >>> most_central_partition(np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])).tolist()
    [0, 0, 1, 1]
    """
    tuples = as_label_tuples(P)
    distances = count_pairs(tuples, all_contingencies(tuples)).mirkin
    return np.asarray(P)[:, int(np.argmin(tuples.in_given_order(distances.sum(axis=1))))]


def _robust(P: NDArray[Any], n_clusters: int, seed: int, **settings: Any) -> NDArray[Any]:
    return RobustConsensus(n_clusters, random_state=seed, **settings).fit(P).labels_


#: Labels of the points from the label matrix, the number of clusters and a seed.
Method = Callable[[NDArray[Any], int, int], NDArray[Any]]
FLAGSHIP = "robust_consensus"
#: ``robust_consensus`` is :class:`~coterie.RobustConsensus` with default settings, ``admm`` is the
#: method of the paper, ``search`` is the discrete search with equal weights.
METHODS: Mapping[str, Method] = {
    "best_single": lambda P, *_: most_central_partition(P),
    "one_hot_kmeans": lambda P, K, seed: OneHotKMeans(K, random_state=seed).fit(P).labels_,
    "l2": partial(_robust, relaxation="l2", refine="relaxation", partition_weights=None),
    "admm": partial(_robust, relaxation="admm", refine="relaxation", partition_weights=None),
    "search": partial(_robust, refine="search", partition_weights=None),
    FLAGSHIP: _robust,
}
#: Title, colour and marker.
_STYLES = {
    "best_single": ("best single", "grey", "x"),
    "one_hot_kmeans": ("one-hot k-means", "purple", "v"),
    "l2": ("ℓ2", "orange", "s"),
    "admm": ("ADMM (paper)", "vermilion", "D"),
    "search": ("search", "sky", "^"),
    FLAGSHIP: ("RobustConsensus", "blue", "o"),
}


def sizes_text(sizes: Sequence[int]) -> str:
    """Return cluster sizes with equal neighbours counted.

    >>> sizes_text((200, 60, 40)), sizes_text((80, 20, 20, 20))
    ('200, 60, 40', '80, 3×20')
    """
    runs = [(size, len(list(same))) for size, same in groupby(sizes)]
    return ", ".join(str(size) if count == 1 else f"{count}×{size}" for size, count in runs)


def _result(data: dict[str, Any]) -> Result:
    cells = data["cells"]
    core = [cell for cell in cells if cell["core"]]
    groups = {"core": core, "all": cells} if len(core) < len(cells) else {"core": core}
    data["summary"] = {name: _summary(some) for name, some in groups.items()}
    counted = Counter[str]()
    for cell in cells:
        for name, found in cell["methods"].items():
            counted.update({f"{_STYLES[name][0]}: {k}": n for k, n in found["warnings"].items()})
    notes = [f"{what}, {times} times" for what, times in counted.items()]
    tables = [_summary_table(data["summary"]), _accuracy_table(cells)]
    return Result("noise", tables, data, notes, {"": partial(_plot, cells)})


def _summary(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return mean and lowest accuracy by method, and where the flagship falls short the most.

    The shortfall is the better of ``l2`` and ``admm`` less the flagship, in one cell.
    """
    means = {
        name: np.array([cell["methods"][name]["mean"] for cell in cells])
        for name in cells[0]["methods"]
    }
    shortfalls = np.maximum(means["l2"], means["admm"]) - means[FLAGSHIP]
    worst = int(np.argmax(shortfalls))
    return {
        "n_cells": len(cells),
        "mean": {name: float(each.mean()) for name, each in means.items()},
        "lowest": {name: float(each.min()) for name, each in means.items()},
        "shortfall": float(shortfalls[worst]),
        "shortfall_cell": _cell_text(cells[worst]),
    }


def _summary_table(summary: Mapping[str, Any]) -> Table:
    counts = ", ".join(f"{name} {some['n_cells']}" for name, some in summary.items())
    parts = [(name, part) for name in summary for part in ("mean", "lowest")]
    rows = [
        (_STYLES[method][0], *(short_text(summary[name][part][method]) for name, part in parts))
        for method in summary["core"]["mean"]
    ]
    headings = ("method", *(f"{name} cells, {part}" for name, part in parts))
    return Table(f"Mean and lowest accuracy over the cells ({counts})", headings, rows)


def _accuracy_table(cells: Sequence[Mapping[str, Any]]) -> Table:
    names = list(cells[0]["methods"])
    rows = []
    for cell in cells:
        kind = "" if cell["n_bad"] == 0 else "c" if cell["correlated"] else "r"
        described = (str(cell["n_partitions"]), f"{cell['n_bad']}{kind}", f"{cell['noise']:g}")
        figures = map(score_text, cell["methods"].values())
        rows.append((sizes_text(cell["sizes"]), *described, *figures))
    bold = best_cells([[one["mean"] for one in cell["methods"].values()] for cell in cells], 4)
    n_draws = len(cells[0]["methods"][names[0]]["accuracies"])
    headings = ("cluster sizes", "V", "bad", "noise", *(_STYLES[name][0] for name in names))
    title = f"Accuracy on planted partitions, mean ± standard error of {n_draws} draws"
    return Table(title, headings, rows, n_named=4, bold=bold)


def _cell_text(cell: Mapping[str, Any]) -> str:
    kind = "" if cell["n_bad"] == 0 else " together" if cell["correlated"] else " apart"
    votes = f"{cell['n_partitions']} votes, {cell['n_bad']} bad{kind}"
    return f"{sizes_text(cell['sizes'])};  {votes}, noise {cell['noise']:g}"


def _plot(cells: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw a row for each cell and a dot for each method."""
    marks = []
    for name, height in zip(METHODS, lane_heights(len(METHODS)), strict=True):
        found = [cell["methods"][name] for cell in cells]
        means, errors = [one["mean"] for one in found], [one["se"] for one in found]
        marks.append(Marks(*_STYLES[name], means, error=errors, height=height))
    label = "accuracy (mean of the draws, bars ± one standard error)"
    return dot_plot([_cell_text(cell) for cell in cells], {"": marks}, label)
