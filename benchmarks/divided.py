"""The robust relaxation in parts beside the same relaxation undivided.

Each cell is relaxed by least squares, where the others start, by the ADMM on all tuples, and by the
ADMM on parts of several sizes. Measured are the ℓ1 objective, the accuracy before and after the
search over all tuples, and processor time. The last cell has too many tuples for the undivided
relaxation. All partitions have equal weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Context
from benchmarks.results import OKABE_ITO, Result, Table, seconds_text
from coterie.consensus.robust.votes import Votes
from coterie.counts.coassociation import tuple_coassociation
from coterie.ensembles.making import make_partitions
from coterie.ensembles.planted import planted_partitions
from coterie.inspection.scores import adjusted_rand_index, clustering_accuracy
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation import least_squares_factor, robust_factor
from coterie.relaxation.divided_admm import divided_factor, l1_distance
from coterie.relaxation.rounding import round_by_kmeans, round_by_pivoted_qr
from coterie.search.median_search import Start, median_search

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Labels = NDArray[np.int64]
Drawn = tuple[NDArray[Any], NDArray[Any]]  # labels (n, V) and truth (n,)
Row = dict[str, Any]

_SEED = 0
_TEN_SIZES = (300, 200, 150, 100, 80, 60, 40, 30, 25, 15)
_STYLES = {
    "l2": ("ℓ2", OKABE_ITO["orange"], "s"),
    "undivided": ("undivided", OKABE_ITO["vermilion"], "D"),
    "divided": ("divided", OKABE_ITO["blue"], "o"),
    "polished": ("polished", OKABE_ITO["sky"], "^"),
}


class Cell(NamedTuple):
    """Partitions to relax: one row of results for each largest size of a part."""

    title: str
    n_clusters: int
    draw: Callable[[], Drawn]
    part_sizes: tuple[int, ...]
    undivided: bool = True


def run(context: Context) -> Result:
    """Relax all cells; ``--quick`` takes planted cells with a quarter of the points."""
    list(measure_cell(Cell("warm-up", 2, partial(_planted, (30, 20), 9, 0.5), (20,))))
    rows: list[Row] = []
    for cell in context.track(cells_of(context.quick), "relaxing"):
        rows += measure_cell(cell)
    plots = {"": lambda: draw(rows)}
    return Result("divided", [table_of(rows)], {"rows": rows}, notes_of(rows), plots)


def cells_of(quick: bool) -> list[Cell]:
    """Return the cells."""
    if quick:
        return _planted_cells(1, (250, 500))
    many = partial(_planted, _times((400, 250, 200, 150), 50), 20, 0.5)
    return [
        *_planted_cells(4, (1000, 2000)),
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
    start = least_squares_factor(votes.tuples, votes.weights, cell.n_clusters, votes.contingencies)
    whole = _relax_whole(votes, start) if cell.undivided else None
    for part_size in cell.part_sizes:
        began = time.process_time()
        found = divided_factor(
            votes.tuples, votes.weights, start, part_size=part_size, random_state=_SEED
        )
        seconds = {"divided": time.process_time() - began}
        labels = {"l2": _round(votes, start), "divided": _round(votes, found.factor)}
        first = Start("divided", labels["divided"])
        search = median_search(votes.tuples, votes.weights, cell.n_clusters, [first])
        labels["polished"] = search.labels
        row = {
            "title": cell.title,
            "n_points": len(truth),
            "n_tuples": votes.tuples.n_tuples,
            "part_size": part_size,
            "n_parts": found.n_parts,
            "theta": found.theta,
            "seconds": seconds,
            "excess": {},
            "agreement": None,
        }
        if whole is not None:
            labels["undivided"] = whole["labels"]
            seconds["undivided"] = whole["seconds"]
            row["excess"] = {"l2": whole["excess"](start), "divided": whole["excess"](found.factor)}
        points = {name: votes.tuples.expand(some) for name, some in labels.items()}
        if whole is not None:
            row["agreement"] = adjusted_rand_index(points["divided"], points["undivided"])
        row["accuracy"] = {name: clustering_accuracy(truth, some) for name, some in points.items()}
        yield row


def notes_of(rows: Sequence[Row]) -> list[str]:
    """Return how far the parts are from the undivided relaxation."""
    both = [row for row in rows if row["excess"]]
    excess = [row["excess"]["divided"] for row in both]
    lower = sum(row["excess"]["divided"] < row["excess"]["l2"] for row in both)
    gap = max(row["accuracy"]["undivided"] - row["accuracy"]["divided"] for row in both)
    short = max(max(row["accuracy"].values()) - row["accuracy"]["polished"] for row in rows)
    return [
        "The objective of the parts exceeds that of the undivided relaxation by "
        f"{_percent(median(excess))} (median), at most {_percent(max(excess))}; it is below "
        f"that of least squares in {lower} of {len(both)} rows.",
        f"The accuracy of the parts is at most {max(gap, 0.0):.3f} below that of the undivided "
        f"relaxation. After the search it is at most {short:.3f} below the best of the row.",
    ]


def table_of(rows: Sequence[Row]) -> Table:
    """Return one row for each cell and size of parts."""
    headings = (
        "cell", "n", "u", "part size", "parts", "θ", "CPU s undivided", "divided",
        "above undivided: ℓ2", "divided", "ARI", "accuracy: ℓ2", "undivided", "divided", "polished",
    )  # fmt: skip
    texts = [
        (
            row["title"],
            *(f"{row[name]:,}" for name in ("n_points", "n_tuples", "part_size", "n_parts")),
            f"{row['theta']:.1f}",
            *(_text(row["seconds"].get(name), seconds_text) for name in ("undivided", "divided")),
            *(_text(row["excess"].get(name), _percent) for name in ("l2", "divided")),
            _text(row["agreement"], "{:.3f}".format),
            *(_text(row["accuracy"].get(name), "{:.3f}".format) for name in _STYLES),
        )
        for row in rows
    ]
    return Table("Divided and undivided", headings, texts)


def draw(rows: Sequence[Row]) -> Figure:
    """Draw the objective above the undivided one, and the accuracy, of every row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.6 + 0.36 * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_dots(left, [row["excess"] for row in rows], ("l2", "divided"))
    left.set_xscale("symlog", linthresh=1e-3)
    left.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    left.set_xlabel("objective above that of the undivided relaxation")
    _draw_dots(right, [row["accuracy"] for row in rows], tuple(_STYLES))
    right.set_xlabel("accuracy")
    names = [f"{row['title']}; {row['n_parts']} parts of {row['part_size']:,}" for row in rows]
    left.set_yticks(range(len(rows)), names, fontsize=8)
    left.set_ylim(len(rows) - 0.5, -0.5)
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    return figure


def _draw_dots(axes: Axes, figures: Sequence[dict[str, float]], names: Sequence[str]) -> None:
    for place in range(0, len(figures), 2):
        axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
    for lane, name in enumerate(names):
        title, colour, marker = _STYLES[name]
        height = 0.7 * ((lane + 0.5) / len(names) - 0.5)
        shown = [(row[name], place + height) for place, row in enumerate(figures) if name in row]
        x, y = zip(*shown, strict=True)
        axes.plot(x, y, marker, color=colour, markersize=4.5, label=title)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _relax_whole(votes: Votes, start: NDArray[np.float64]) -> dict[str, Any]:
    began = time.process_time()
    M = tuple_coassociation(votes.tuples, votes.weights)
    relaxed = robust_factor(M, start)
    return {
        "seconds": time.process_time() - began,
        "labels": _round(votes, relaxed.factor),
        "excess": lambda factor: l1_distance(M, factor) / relaxed.objective - 1.0,
    }


def _round(votes: Votes, factor: NDArray[np.float64]) -> Labels:
    """Return labels of the tuples, rounded as in RobustConsensus."""
    weights = votes.tuples.weights
    by_kmeans = round_by_kmeans(factor, weights, factor.shape[1], _SEED)
    return min([round_by_pivoted_qr(factor, weights), by_kmeans], key=votes.objective)


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
    return make_partitions(X, 10, n_partitions, strategy=strategy, random_state=_SEED), y


def _times(sizes: tuple[int, ...], factor: int) -> tuple[int, ...]:
    return tuple(size * factor for size in sizes)


def _planted_cells(scale: int, part_sizes: tuple[int, ...]) -> list[Cell]:
    """Return planted cells of 1,000 points times ``scale``, 4,000 times where tuples repeat."""
    three, four = _times((500, 250, 250), scale), _times((400, 250, 200, 150), scale)
    cells: list[tuple[str, int, Callable[[], Drawn]]] = [
        ("8 equal clusters", 8, partial(_planted, (125 * scale,) * 8, 40, 0.6)),
        ("4 clusters", 4, partial(_planted, four, 12, 0.5)),
        ("10 clusters, 1.5% to 30%", 10, partial(_planted, _times(_TEN_SIZES, scale), 20, 0.4)),
        ("4 of 10 wrong apart", 3, partial(_planted, three, 10, 0.4, 4)),
        ("4 of 10 wrong together", 3, partial(_planted, three, 10, 0.4, 4, True)),
        ("a third missing", 4, partial(_planted, four, 12, 0.3, missing=1 / 3)),
        ("repeated tuples", 4, partial(_planted, _times(four, 4), 12, 0.15)),
    ]
    return [Cell(*cell, part_sizes) for cell in cells]


def _text(value: float | None, shown: Callable[[float], str]) -> str:
    return "" if value is None else shown(value)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"
