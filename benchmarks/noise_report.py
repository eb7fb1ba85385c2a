"""Results of the noise benchmark as JSON, as a table, as a page and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from benchmarks.environment import in_words
from benchmarks.noise import (
    CORE_CELLS,
    FLAGSHIP,
    CellResult,
    MethodScores,
    NoiseCell,
    NoiseSummary,
    summarise,
)
from benchmarks.result_tables import ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["as_json", "as_page", "as_picture", "as_table", "notes", "summary_lines"]

TITLES = {
    "best_single": "best single",
    "one_hot_kmeans": "one-hot k-means",
    "l2": "ℓ2",
    "admm": "ADMM (paper)",
    "search": "search",
    "robust_consensus": "RobustConsensus",
}
# Okabe and Ito's colours, which colour-blind readers tell apart; a marker each as well
_STYLES = {
    "best_single": ("#999999", "x"),
    "one_hot_kmeans": ("#CC79A7", "v"),
    "l2": ("#E69F00", "s"),
    "admm": ("#D55E00", "D"),
    "search": ("#56B4E9", "^"),
    "robust_consensus": ("#0072B2", "o"),
}


def as_json(results: Sequence[CellResult], described: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`.

    ``{"cells": [{sizes, n_partitions, n_bad, noise, correlated, core, methods, warnings}],
    "summary": {"core": …, "all": …}, "environment": …}`` (one summary where all cells are core
    cells, or none is); of each method ``mean`` and ``se`` of the
    accuracy (se is null for a single draw), mean ``seconds``, and the ``accuracies``.
    """
    return {
        "cells": [_cell_json(result) for result in results],
        "summary": {
            name: _summary_json(summarise(some)) for name, some in _families(results).items()
        },
        "environment": described,
    }


def as_table(results: Sequence[CellResult]) -> ResultTable:
    """Mean accuracy ± standard error of every method in every cell; the best in bold."""
    names = list(results[0].methods)
    n_draws = len(results[0].methods[names[0]].accuracies)
    rows, stressed = [], set()
    for r, result in enumerate(results):
        best = max(round(result.methods[name].mean, 3) for name in names)
        for c, name in enumerate(names):
            if round(result.methods[name].mean, 3) == best:
                stressed.add((r, c + 4))
        rows.append(
            (*_cell_texts(result.cell), *(_score_text(result.methods[name]) for name in names))
        )
    headings = ("cluster sizes", "V", "bad", "noise", *(TITLES[name] for name in names))
    title = f"Accuracy on planted partitions, mean ± standard error of {n_draws} draws"
    return ResultTable(title, headings, rows, n_named=4, stressed=frozenset(stressed))


def summary_lines(results: Sequence[CellResult]) -> list[str]:
    """A sentence for the core cells, and one for all cells where there are others."""
    lines = []
    for name, some in _families(results).items():
        summary = summarise(some)
        means = ", ".join(
            f"{TITLES[method]} {value:.3f} (lowest cell {summary.lowest[method]:.3f})"
            for method, value in summary.mean.items()
        )
        # as printed: rounding is no shortfall
        short = round(summary.shortfall, 3) > 0
        worst = (
            f"by {summary.shortfall:.3f} at most ({_one_line(summary.shortfall_cell)})"
            if short
            else "nowhere"
        )
        lines.append(
            f"{name.capitalize()} cells ({summary.n_cells}), mean accuracy: {means}. "
            f"{TITLES[FLAGSHIP]} falls short of the better of ℓ2 and ADMM {worst}."
        )
    return lines


def notes(results: Sequence[CellResult]) -> list[str]:
    """How often each method gave each kind of warning, over all cells and draws."""
    counts: dict[tuple[str, str], int] = {}
    for result in results:
        for key, times in result.warnings.items():
            counts[key] = counts.get(key, 0) + times
    return [f"{TITLES[name]}: {kind}, {times} times" for (name, kind), times in counts.items()]


def as_page(results: Sequence[CellResult], described: dict[str, Any]) -> str:
    """A page in Markdown, with the picture ``noise.png`` beside it."""
    table = as_table(results)
    warned = [f"- {note}" for note in notes(results)]
    parts = [
        "# Planted partitions with spoiled votes",
        f"{table.title}. *V* partitions, of which *bad* are wrong together (c) or each for itself "
        "(r); *noise* is the probability that a label is redrawn. *Best single* is the most "
        "central of the given partitions; ℓ2, ADMM and search hear all partitions alike; "
        "RobustConsensus is used as it comes. In bold, the best of each row.",
        table.markdown(),
        "![Accuracy of each method in each cell](noise.png)",
        *summary_lines(results),
        *(["Warnings of the library:", "\n".join(warned)] if warned else []),
        f"Measured {in_words(described)}.",
    ]
    return "\n\n".join(parts) + "\n"


def as_picture(results: Sequence[CellResult]) -> Figure:
    """A dot plot: cells from top to bottom, accuracy to the right, methods by colour."""
    from matplotlib.figure import Figure

    names = list(results[0].methods)
    figure = Figure(figsize=(9.5, 1.4 + 0.36 * len(results)), layout="constrained")
    axes = figure.subplots()
    places = range(len(results))
    for place in places[::2]:
        axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
    for lane, name in enumerate(names):
        # a lane each, so that equal accuracies do not hide one another
        height = 0.74 * ((lane + 0.5) / len(names) - 0.5)
        scores = [result.methods[name] for result in results]
        colour, marker = _STYLES[name]
        axes.errorbar(
            [score.mean for score in scores],
            [place + height for place in places],
            xerr=[score.standard_error or 0.0 for score in scores],
            fmt=marker,
            color=colour,
            markersize=5.5 if name == FLAGSHIP else 4.5,
            elinewidth=1,
            zorder=3,
            label=TITLES[name],
        )
    n_core = sum(result.cell in CORE_CELLS for result in results)
    if 0 < n_core < len(results):
        axes.axhline(n_core - 0.5, color="#666666", linewidth=0.8)
    axes.set_yticks(places, [_one_line(result.cell) for result in results], fontsize=8)
    axes.set_ylim(len(results) - 0.5, -0.5)
    axes.set_xlabel("accuracy (mean of the draws, bars ± one standard error)")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=6, frameon=False, fontsize=8.5)
    return figure


def sizes_in_short(sizes: Sequence[int]) -> str:
    """Cluster sizes with runs of equal ones counted.

    >>> sizes_in_short((200, 60, 40)), sizes_in_short((80, 20, 20, 20))
    ('200, 60, 40', '80, 3×20')
    """
    runs = [(size, len(list(same))) for size, same in groupby(sizes)]
    return ", ".join(str(size) if count == 1 else f"{count}×{size}" for size, count in runs)


def _families(results: Sequence[CellResult]) -> dict[str, list[CellResult]]:
    """The core cells, and all cells; one of the two where there is nothing else."""
    core = [result for result in results if result.cell in CORE_CELLS]
    families = {"core": core, "all": list(results)}
    if not core:
        del families["core"]
    elif len(core) == len(results):
        del families["all"]
    return families


def _cell_texts(cell: NoiseCell) -> tuple[str, str, str, str]:
    kind = "" if cell.n_bad == 0 else "c" if cell.correlated else "r"
    return (
        sizes_in_short(cell.sizes),
        str(cell.n_partitions),
        f"{cell.n_bad}{kind}",
        f"{cell.noise:g}",
    )


def _one_line(cell: NoiseCell) -> str:
    kind = "" if cell.n_bad == 0 else " together" if cell.correlated else " apart"
    return (
        f"{sizes_in_short(cell.sizes)};  {cell.n_partitions} votes, {cell.n_bad} bad{kind}, "
        f"noise {cell.noise:g}"
    )


def _score_text(scores: MethodScores) -> str:
    if scores.standard_error is None:
        return f"{scores.mean:.3f}"
    return f"{scores.mean:.3f} ± {scores.standard_error:.3f}"


def _cell_json(result: CellResult) -> dict[str, Any]:
    cell = result.cell
    return {
        "sizes": list(cell.sizes),
        "n_partitions": cell.n_partitions,
        "n_bad": cell.n_bad,
        "noise": cell.noise,
        "correlated": cell.correlated,
        "core": cell in CORE_CELLS,
        "methods": {
            name: {
                "mean": scores.mean,
                "se": scores.standard_error,
                "seconds": scores.mean_seconds,
                "accuracies": list(scores.accuracies),
            }
            for name, scores in result.methods.items()
        },
        "warnings": [
            {"method": name, "kind": kind, "times": times}
            for (name, kind), times in result.warnings.items()
        ],
    }


def _summary_json(summary: NoiseSummary) -> dict[str, Any]:
    cell = summary.shortfall_cell
    return {
        "n_cells": summary.n_cells,
        "mean": dict(summary.mean),
        "lowest": dict(summary.lowest),
        "shortfall": summary.shortfall,
        "shortfall_cell": {
            "sizes": list(cell.sizes),
            "n_partitions": cell.n_partitions,
            "n_bad": cell.n_bad,
            "noise": cell.noise,
            "correlated": cell.correlated,
        },
    }
