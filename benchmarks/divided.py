"""The robust relaxation in parts compared with the same relaxation undivided.

Each cell is relaxed by least squares, where the others start, by the ADMM on all tuples, and by the
ADMM on parts of several sizes. Measured are the ℓ1 objective, the accuracy before and after the
search over all tuples, and processor time. The last cell has too many tuples for the undivided
relaxation. All partitions have equal weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Context
from benchmarks.results import (
    Marks,
    Result,
    Table,
    dot_plot,
    item,
    lane_heights,
    seconds_text,
)
from coterie.consensus.robust import Votes
from coterie.counts.coassociation import tuple_coassociation
from coterie.ensembles.generate import make_partitions, planted_partitions
from coterie.inspection.scores import adjusted_rand_index, clustering_accuracy
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation.admm import robust_factor
from coterie.relaxation.divided import divided_factor, l1_distance
from coterie.relaxation.spectral import least_squares_factor, round_by_kmeans, round_by_pivoted_qr
from coterie.search.median_search import Start, median_search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn = tuple[NDArray[Any], NDArray[Any]]  # labels (n, V) and truth (n,)
Row = dict[str, Any]

_SEED = 0
_STYLES = {
    "l2": ("ℓ2", "orange", "s"),
    "undivided": ("undivided", "vermilion", "D"),
    "divided": ("divided", "blue", "o"),
    "polished": ("polished", "sky", "^"),
}


class Cell(NamedTuple):
    """Partitions to relax: one row of results for each largest size of a part."""

    title: str
    n_clusters: int
    draw: Callable[[], Drawn]
    part_sizes: tuple[int, ...]
    undivided: bool = True


MEASURES = ("counts", "search", "relaxation")


def run(context: Context) -> Result:
    """Relax all cells; ``--quick`` takes planted cells with a quarter of the points."""
    list(measure_cell(Cell("warm-up", 2, partial(_planted, (30, 20), 9, 0.5), (20,))))
    rows: list[Row] = []
    for cell in context.track(cells_of(context.quick), "relaxing"):
        rows += measure_cell(cell)
    return Result("divided", [table_of(rows)], {"rows": rows}, plots={"": lambda: draw(rows)})


def cells_of(quick: bool) -> list[Cell]:
    """Return planted cells of 1,000 points, or of 4,000 points with others.

    Where tuples repeat there are four times as many points.
    """
    scale, parts = (1, (250, 500)) if quick else (4, (1000, 2000))

    def planted(sizes: Sequence[int], *settings: Any, **more: Any) -> Callable[[], Drawn]:
        return partial(_planted, tuple(scale * size for size in sizes), *settings, **more)

    three, four = (500, 250, 250), (400, 250, 200, 150)
    ten = (300, 200, 150, 100, 80, 60, 40, 30, 25, 15)
    cells = [
        Cell("8 equal clusters", 8, planted((125,) * 8, 40, 0.6), parts),
        Cell("4 clusters", 4, planted(four, 12, 0.5), parts),
        Cell("10 clusters, 1.5% to 30%", 10, planted(ten, 20, 0.4), parts),
        Cell("4 of 10 wrong apart", 3, planted(three, 10, 0.4, 4), parts),
        Cell("4 of 10 wrong together", 3, planted(three, 10, 0.4, 4, True), parts),
        Cell("a third missing", 4, planted(four, 12, 0.3, missing=1 / 3), parts),
        Cell("repeated tuples", 4, planted([4 * size for size in four], 12, 0.15), parts),
    ]
    if quick:
        return cells
    many = partial(_planted, tuple(50 * size for size in four), 20, 0.5)
    return [
        *cells,
        Cell("digits, subspaces", 10, partial(_digits, "subspaces", 40), (400, 800)),
        Cell("digits, subsamples", 10, partial(_digits, "subsample", 20), (400, 800)),
        Cell("4 clusters, many points", 4, many, (4000,), undivided=False),
    ]


def measure_cell(cell: Cell) -> Iterator[Row]:
    """Yield a row for each size of parts.

    ``seconds`` is processor time on all cores; ``excess`` is ‖M − F Fᵀ‖₁ relative to that of the
    undivided relaxation, less 1; ``theta`` is the step from least squares (0) to the parts' rows
    (1); ``agreement`` is the adjusted Rand index of the divided and undivided labels.
    """
    P, truth = cell.draw()
    votes = Votes.from_tuples(as_label_tuples(P), None, cell.n_clusters)
    tuples, weights = votes.tuples, votes.weights
    start = least_squares_factor(tuples, weights, cell.n_clusters, votes.contingencies)
    labels, whole_seconds = {"l2": _round(votes, start)}, None
    if cell.undivided:
        began = time.process_time()
        M = tuple_coassociation(tuples, weights)
        whole = robust_factor(M, start)
        whole_seconds = time.process_time() - began
        labels["undivided"] = _round(votes, whole.factor)
    for part_size in cell.part_sizes:
        began = time.process_time()
        found = divided_factor(tuples, weights, start, part_size=part_size, random_state=_SEED)
        seconds = {"undivided": whole_seconds, "divided": time.process_time() - began}
        labels["divided"] = _round(votes, found.factor)
        first = Start("divided", labels["divided"])
        labels["polished"] = median_search(tuples, weights, cell.n_clusters, [first]).labels
        points = {name: tuples.expand(own) for name, own in labels.items()}
        row = {
            "title": cell.title,
            "n_points": len(truth),
            "n_tuples": tuples.n_tuples,
            "part_size": part_size,
            "n_parts": found.n_parts,
            "theta": found.theta,
            "seconds": seconds,
            "accuracy": {name: clustering_accuracy(truth, own) for name, own in points.items()},
        }
        if cell.undivided:
            row["agreement"] = adjusted_rand_index(points["divided"], points["undivided"])
            row["excess"] = {
                name: l1_distance(M, factor) / whole.objective - 1.0
                for name, factor in (("l2", start), ("divided", found.factor))
            }
        yield row


def table_of(rows: Sequence[Row]) -> Table:
    """Return one row for each cell and size of parts."""
    columns = {
        "cell": item("title"),
        "n": item("n_points", form=","),
        "u": item("n_tuples", form=","),
        "part size": item("part_size", form=","),
        "parts": item("n_parts", form=","),
        "θ": item("theta", form=".1f"),
        "CPU s undivided": item("seconds", "undivided", form=seconds_text),
        "CPU s divided": item("seconds", "divided", form=seconds_text),
        "above: ℓ2": item("excess", "l2", form=".2%"),
        "above: divided": item("excess", "divided", form=".2%"),
        "ARI": item("agreement", form=".3f"),
    }
    for name, (title, *_) in _STYLES.items():
        columns[title] = item("accuracy", name, form=".3f")
    return Table.of("Divided and undivided; the last four columns are accuracies", rows, columns)


def draw(rows: Sequence[Row]) -> Figure:
    """Draw the objective above the undivided one, and the accuracy, of every row."""
    excess, accuracy = "objective above that of the undivided relaxation, %", "accuracy"
    panels: dict[str, list[Marks]] = {excess: [], accuracy: []}
    for (name, style), height in zip(_STYLES.items(), lane_heights(len(_STYLES)), strict=True):
        above = [row.get("excess", {}).get(name, np.nan) * 100 for row in rows]
        panels[excess].append(Marks(*style, above, height=height))
        accuracies = [row["accuracy"].get(name) for row in rows]
        panels[accuracy].append(Marks(*style, accuracies, height=height))
    names = [f"{row['title']}; {row['n_parts']} parts of {row['part_size']:,}" for row in rows]
    figure = dot_plot(names, panels, "", width=10)
    figure.axes[0].set_xscale("symlog", linthresh=0.1)
    figure.axes[0].set_xticks([0, 0.1, 1, 10], ["0", "0.1", "1", "10"])
    return figure


def _round(votes: Votes, factor: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return labels of the tuples, rounded as in RobustConsensus."""
    weights = votes.tuples.weights
    by_kmeans = round_by_kmeans(factor, weights, factor.shape[1], _SEED)
    return min(
        [round_by_pivoted_qr(factor, weights), by_kmeans],
        key=lambda labels: votes.tables(labels).objective(),
    )


def _planted(
    sizes: tuple[int, ...],
    n_partitions: int,
    noise: float,
    n_bad: int = 0,
    correlated: bool = False,
    missing: float = 0.0,
) -> Drawn:
    """Draw planted partitions and remove a share of their labels."""
    P, y = planted_partitions(
        sizes, n_partitions, n_bad, noise, correlated=correlated, random_state=_SEED
    )
    P[np.random.default_rng(_SEED).random(P.shape) < missing] = -1
    return P, y


def _digits(strategy: str, n_partitions: int) -> Drawn:
    """Make partitions of scikit-learn's 1,797 handwritten digits."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return make_partitions(X, 10, n_partitions, ensemble=strategy, random_state=_SEED), y
