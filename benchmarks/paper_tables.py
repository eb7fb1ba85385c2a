"""What tables 2 and 3 of the paper share: running their cells, tables and picture.

The paper is D. Kong, M. Lu, K. Shmakov, J. Yang: Robust Consensus Clustering and its Applications
for Advertising Forecasting, arXiv:2301.00717. The result names every method for which a dataset is
too large or too slow, and every method that fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.accuracy import Cell, run_cells, summarise
from benchmarks.harness import Context
from benchmarks.results import Marks, Result, Table, best_cells, dot_plot, score_text, short_text
from coterie.consensus.registry import CONSENSUS_METHODS, DEFAULT_METHOD, MULTIVIEW_METHODS
from coterie.datasets import dataset_info
from coterie.runtime.devices import n_threads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The mean accuracy of the single runs of an ensemble.
BASE_RUNS = "k-means"
_QUICK_LEAVES_OUT = ("reuters", "caltech101_7", "caltech101_20")
#: Colour, marker and height in a row of the picture.
_STYLES = {
    BASE_RUNS: ("grey", "s", -0.12),
    "lbp": ("purple", "v", -0.12),
    "hog": ("green", "^", -0.12),
    "gist": ("orange", "<", -0.12),
    "rcc": ("vermilion", "D", -0.22),
    DEFAULT_METHOD: ("blue", "o", -0.02),
}
_OTHER = ("grey", ".", -0.12)

#: By condition and dataset, the figures of every method.
Conditions = dict[str, dict[str, dict[str, Any]]]


class PaperTable(NamedTuple):
    """A table of the paper: accuracies of methods (columns) on datasets."""

    #: The benchmark.
    name: str
    #: The methods as the paper names them, and their keys here; the paper's own method is last.
    columns: Mapping[str, str]
    #: The name of a dataset in this package, and its name in the paper.
    titles: Mapping[str, str]
    #: Of every column of the paper, one accuracy per dataset, with so many digits.
    figures: Mapping[str, tuple[float, ...]]
    digits: int

    def printed(self, column: str, datasets: Iterable[str]) -> list[float]:
        """Return the paper's accuracies of a column on some datasets."""
        figures = dict(zip(self.titles, self.figures[column], strict=True))
        return [figures[dataset] for dataset in datasets]

    def columns_by_method(self) -> dict[str, str]:
        """Return the printed columns by the key of their method, or by their own name."""
        return {self.columns.get(column, column): column for column in self.figures}


def run_table(
    paper: PaperTable,
    make_cells: Callable[[list[str]], dict[tuple[str, str], list[Cell]]],
    context: Context,
    draws: int | None,
    patience: float,
    jobs: int | None,
) -> Result:
    """Run the cells that ``make_cells`` returns, by condition and dataset, for a table."""
    n_draws = draws or (2 if context.quick else 20)
    left_out = [name for name in paper.titles if context.quick and name in _QUICK_LEAVES_OUT]
    absent = dict.fromkeys(left_out, "--quick leaves it out")
    absent |= context.missing_datasets(name for name in paper.titles if name not in left_out)
    groups = make_cells([dataset for dataset in paper.titles if dataset not in absent])
    # the largest datasets first, so that no long cell remains at the end
    by_size = sorted(groups, key=lambda group: -dataset_info(group[1]).n_samples)
    cells = [cell for group in by_size for cell in groups[group]]
    found = run_cells(cells, n_draws, context, jobs or n_threads(), patience)
    conditions: Conditions = {}
    for (condition, dataset), own in groups.items():
        conditions.setdefault(condition, {})[dataset] = {
            method: summarise([draw[method] for draw in found[cell.name] if method in draw])
            for cell in own
            for method in cell.methods
        }
    rows = [
        {"condition": condition, "dataset": dataset, "methods": methods}
        for condition, datasets in conditions.items()
        for dataset, methods in datasets.items()
    ]
    data = {"draws": n_draws, "patience": patience, "cells": rows}
    tables = [_summary_table(conditions, paper)] if conditions else []
    tables += [_accuracy_table(n_draws, paper, *one) for one in conditions.items()]
    notes = [f"{paper.titles[dataset]} was not run: {why}" for dataset, why in absent.items()]
    plots = {"": lambda: _plot(conditions, paper)}
    return Result(paper.name, tables, data, notes + _notes(conditions, paper), plots)


def method_title(method: str) -> str:
    """Return the name of a method, a view, or the mean of the runs in tables.

    >>> method_title("kl"), method_title("lbp"), method_title("robust")
    ('ES-style', 'LBP', 'RobustConsensus')
    """
    known = {**MULTIVIEW_METHODS, **CONSENSUS_METHODS}
    if method in known:
        return known[method].title
    return method if method == BASE_RUNS else method.upper().replace("_", " ")


def _notes(conditions: Conditions, paper: PaperTable) -> list[str]:
    """Return what did not run, with the datasets, and how often a method warned."""
    unable: dict[str, list[str]] = {}
    counted = Counter[str]()
    for condition, datasets in conditions.items():
        for dataset, methods in datasets.items():
            where = f"{paper.titles[dataset]} ({condition})".removesuffix(" ()")
            for method, found in methods.items():
                for message in found["messages"]:
                    unable.setdefault(f"{method_title(method)}, {message}", []).append(where)
                for kind, n in found["warnings"].items():
                    counted[f"{method_title(method)}, {kind}"] += n
    notes = [f"Did not run: {what} [{'; '.join(where)}]" for what, where in unable.items()]
    return notes + [f"Warnings: {what}: {times} times" for what, times in counted.items()]


def _summary_table(conditions: Conditions, paper: PaperTable) -> Table:
    """Return mean accuracies over the datasets, and distances from the best method of a cell."""
    datasets = list(dict.fromkeys(dataset for found in conditions.values() for dataset in found))
    rows = [row for found in conditions.values() for row in found.values()]
    methods = list(dict.fromkeys(method for row in rows for method in row))
    means = np.array(
        [[row.get(m, {}).get("mean") for row in rows] for m in methods], dtype=np.float64
    )
    # a method that did not run in every cell has no mean; the others are compared with each other
    behind = means[~np.isnan(means).any(axis=1)].max(axis=0, initial=0.0) - means
    ends = np.cumsum([len(found) for found in conditions.values()])[:-1]
    columns = [part.mean(axis=1) for part in np.split(means, ends, axis=1)]
    figures = np.column_stack([*columns, behind.mean(axis=1), behind.max(axis=1)])
    columns_of = paper.columns_by_method()
    texts = []
    for m, own in zip(methods, figures, strict=True):
        printed = paper.printed(columns_of[m], datasets) if m in columns_of else [np.nan]
        shown = [*own, float(np.mean(printed))]
        texts.append((method_title(m), *(short_text(None if np.isnan(f) else f) for f in shown)))
    named = [f"{condition} K" if condition else "accuracy" for condition in conditions]
    headings = ("", *named, "behind the best: mean", "largest", "printed")
    return Table(f"Mean accuracy over the datasets; {len(rows)} cells", headings, texts)


def _accuracy_table(
    n_draws: int, paper: PaperTable, condition: str, rows: Mapping[str, Any]
) -> Table:
    """Return accuracies of one condition, a column a dataset; the paper's are below ours."""
    found = {m: [row.get(m) for row in rows.values()] for row in rows.values() for m in row}
    columns_of = paper.columns_by_method()
    texts, means = [], []
    for m in dict.fromkeys([*found, *columns_of]):
        if m in found:
            texts.append((method_title(m), *(_result_text(one, n_draws) for one in found[m])))
            means.append([one and one["mean"] for one in found[m]])
        if m in columns_of:
            printed = paper.printed(columns_of[m], rows)
            texts.append(
                (f"{columns_of[m]}, printed", *(short_text(f, paper.digits) for f in printed))
            )
            means.append([None] * len(rows))  # only our figures are compared
    bold = best_cells(means, 1, by="column")
    name = f"Accuracy, recipe {condition} K" if condition else "Accuracy"
    title = f"{name}: mean ± standard error of {n_draws} draws"
    return Table(title, ("", *(paper.titles[dataset] for dataset in rows)), texts, bold=bold)


def _result_text(found: Mapping[str, Any] | None, n_draws: int) -> str:
    """Return mean ± error, with the number of draws where it is lower; or the status."""
    if found is None or found["mean"] is None:
        return "–" if found is None else str(found["status"])
    return score_text(found) + ("" if found["draws"] == n_draws else f" ({found['draws']})")


def _plot(conditions: Conditions, paper: PaperTable) -> Figure:
    """Draw a row for each dataset; of table 2 a panel for each recipe with fixed K."""
    panels: dict[str, list[Marks]] = {}
    names: list[str] = []
    for condition, rows in conditions.items():
        if condition.endswith("diverse"):
            continue
        names, marks = list(rows), []
        for method in dict.fromkeys(m for row in rows.values() for m in row):
            colour, marker, height = _STYLES.get(method, _OTHER)
            label = method_title(method) if method in _STYLES else "other methods and views"
            x = [row.get(method, {}).get("mean") for row in rows.values()]
            marks.append(Marks(label, colour, marker, x, height=height))
        for column in paper.figures:
            style = _STYLES.get(paper.columns.get(column, ""))
            colour, marker, _ = style or _OTHER
            label = f"{column if style else 'other methods and views'}, printed"
            x, hollow = paper.printed(column, names), {"mfc": "none"}
            marks.append(Marks(label, colour, marker, x, None, None, 0.22, hollow))
        panels[f"recipe {condition} K" if condition else ""] = marks
    width = max(1, len(panels))
    titles = [paper.titles[dataset] for dataset in names]
    size = {"width": 2.5 + 3.6 * width, "row_height": 0.5}
    return dot_plot(titles, panels, "accuracy", **size, ncols=3 * width)
