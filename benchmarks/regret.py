"""Regret of consensus functions: how far each one is behind the best one, cell by cell.

    regret of a method in a cell = best mean accuracy of any method in the cell − its own

Every draw of a cell (:mod:`benchmarks.consensus_suite`) gives all methods the same label matrix.
Nothing is tuned per cell. A method that cannot run scores as if it had put all points into one
cluster. A second regret leaves out the methods with a balanced cut, because balance helps where
classes happen to have equal sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from benchmarks.accuracy import Cell, Score, run_cells
from benchmarks.consensus_suite import SUITE, Drawn, SuiteCell, missing_pools
from benchmarks.environment import set_variables
from benchmarks.harness import CONSENSUS, Context
from benchmarks.results import (
    Marks,
    Result,
    Table,
    best_cells,
    dot_plot,
    lane_heights,
    short_text,
    standard_error,
)
from coterie.consensus.registry import CONSENSUS_METHODS, DEFAULT_METHOD, consensus_method
from coterie.inspection.scores import clustering_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Methods that need minutes in some cells; a quick run leaves them out.
_SLOW = ("rcc", "hgpa", "nmf", "weighted", "kl", "correlation")
#: What a method that cannot run scores like.
_ONE_CLUSTER = "one cluster"
_HALVES = {"report": "report half", "develop": "develop half", "all": "all cells"}
_STYLES = {
    "planted": ("blue", "o"),
    "real": ("vermilion", "s"),
    "views": ("green", "^"),
    "market": ("purple", "D"),
    "pools": ("orange", "v"),
}
#: NMI on the pools as printed in the article that :mod:`benchmarks.consensus_suite` names.
_ARTICLE_METHODS = ("eac", "hbgf", "lwea", "lwgp")
_PRINTED_NMI = {
    "Caltech20": (0.434, 0.416, 0.452, 0.430),
    "FCT": (0.203, 0.188, 0.231, 0.200),
    "IS": (0.599, 0.609, 0.621, 0.629),
    "MF": (0.597, 0.636, 0.659, 0.682),
    "Semeion": (0.616, 0.621, 0.655, 0.642),
    "SPF": (0.114, 0.129, 0.151, 0.152),
    "VS": (0.129, 0.127, 0.133, 0.132),
}

Cells = Sequence[Mapping[str, Any]]

MEASURES = CONSENSUS
FIGURES = {"ensembles": lambda data: str(len(data["cells"]))}


def run(context: Context, *, draws: int | None = None, methods: str = "", jobs: int = 2) -> Result:
    """Measure accuracy and regret of consensus functions in every cell of the suite.

    A quick run has small cells that need no file, and fast methods. ``draws`` of each cell are 10
    by default, 1 in a quick run; draw d is seeded with d. ``methods`` are keys separated by commas,
    by default all. ``jobs`` is the number of worker processes, each on one thread.
    """
    all_keys = [key for key in CONSENSUS_METHODS if not (context.quick and key in _SLOW)]
    chosen = [consensus_method(key.strip()).key for key in methods.split(",") if key.strip()]
    chosen = chosen or all_keys
    n_draws = draws or (1 if context.quick else 10)
    cells = [cell for cell in SUITE if cell.quick or not context.quick]
    pools = [cell.dataset for cell in cells if cell.dataset and cell.family == "pools"]
    datasets = {cell.dataset for cell in cells if cell.dataset} - {"digits", *pools}
    missing = context.missing_datasets(sorted(datasets))
    with set_variables(COTERIE_DATA=context.data):
        missing |= missing_pools(pools)
    cells = [cell for cell in cells if cell.dataset not in missing]
    tasks = [
        Cell(f"regret-{cell.name}", (*chosen, _ONE_CLUSTER), partial(_load, cell)) for cell in cells
    ]
    found = run_cells(tasks, n_draws, context, jobs)
    data = {
        "draws": n_draws,
        "methods": {key: _method_data(key) for key in chosen},
        "cells": [_cell_data(cell, found[f"regret-{cell.name}"], chosen) for cell in cells],
        "missing": missing,
    }
    return _result(data)


def has_balanced_cut(key: str) -> bool:
    """Return whether a method cuts its points into parts of equal size.

    These methods use an optional package; without it they fall back to a method that is not
    balanced. MCLA cuts base clusters, not points, so its clusters may differ in size.

    >>> has_balanced_cut("l2")
    False
    """
    method = consensus_method(key)
    return key != "mcla" and bool(method.packages) and not method.missing_packages()


def _load(cell: SuiteCell) -> Callable[[int], Score]:
    def scores(drawn: Drawn, seed: int, method: str) -> dict[str, float]:
        P, y, K = drawn
        labels = np.zeros(len(y), dtype=np.int32)
        if method != _ONE_CLUSTER:
            labels = consensus_method(method).make(K, random_state=seed).fit(P).labels_
        found = {"accuracy": clustering_accuracy(y, labels)}
        if cell.family == "pools":
            nmi = normalized_mutual_info_score(y, labels, average_method="geometric")
            found["nmi"] = float(nmi)
        return found

    return lambda seed: partial(scores, cell.draw(seed), seed)


def _method_data(key: str) -> dict[str, Any]:
    method = consensus_method(key)
    return {
        "title": method.title,
        "balanced": has_balanced_cut(key),
        "missing_packages": method.missing_packages(),
    }


def _cell_data(
    cell: SuiteCell, draws: Sequence[Mapping[str, Any]], keys: Sequence[str]
) -> dict[str, Any]:
    counted = {
        key: [draw[key if draw[key]["status"] == "ran" else _ONE_CLUSTER] for draw in draws]
        for key in keys
    }
    accuracies = {key: [one["accuracy"] for one in each] for key, each in counted.items()}
    means = {key: float(np.mean(each)) for key, each in accuracies.items()}
    free = [mean for key, mean in means.items() if not has_balanced_cut(key)]
    methods = {
        key: {
            "mean": mean,
            "se": standard_error(accuracies[key]),
            "regret": max(means.values()) - mean,
            "regret_unbalanced": None if has_balanced_cut(key) else max(free) - mean,
            "seconds": float(np.mean([draw[key]["seconds"] for draw in draws])),
            "failed": next((draw[key]["message"] for draw in draws if draw[key]["message"]), None),
        }
        for key, mean in means.items()
    }
    if cell.family == "pools":
        for key, each in counted.items():
            nmi = [one["nmi"] for one in each]
            methods[key] |= {"nmi": float(np.mean(nmi)), "nmi_se": standard_error(nmi)}
    named = {"family": cell.family, "name": cell.name, "half": cell.half, "dataset": cell.dataset}
    return {**named, "methods": methods}


def _result(data: dict[str, Any]) -> Result:
    cells, methods = data["cells"], data["methods"]
    halves = {name: [c for c in cells if name in ("all", c["half"])] for name in _HALVES}
    halves = {name: some for name, some in halves.items() if some}
    for basis in ("regret", "regret_unbalanced"):
        summary = {name: _summary(some, basis) for name, some in halves.items()}
        data[basis.replace("regret", "summary")] = summary
    tables = [_regret_table(name, data, len(some)) for name, some in halves.items()]
    for planted in (False, True):
        some = [cell for cell in cells if (cell["family"] == "planted") == planted]
        if some:
            families = ", ".join(dict.fromkeys(cell["family"] for cell in some))
            tables.append(_accuracy_table(f"Accuracy: {families}", some, methods))
    if pools := [cell for cell in cells if cell["family"] == "pools"]:
        tables.append(_nmi_table(pools))
    return Result("regret", tables, data, _notes(data), {"": partial(_plot, data)})


def _notes(data: Mapping[str, Any]) -> list[str]:
    failures: dict[str, list[str]] = {}
    for cell in data["cells"]:
        for key, found in cell["methods"].items():
            if found["failed"]:
                what = f"{data['methods'][key]['title']}, {found['failed']}"
                failures.setdefault(what, []).append(cell["name"])
    reasons: dict[str, list[str]] = {}
    for name, why in data["missing"].items():
        reasons.setdefault(why, []).append(name)
    notes = [f"Not run: {', '.join(names)}; {why}" for why, names in reasons.items()]
    for what, where in failures.items():
        cells = " | ".join(where)
        notes.append(f"Did not run and counts as one cluster of all points: {what} [{cells}]")
    for method in data["methods"].values():
        if packages := ", ".join(method["missing_packages"]):
            notes.append(
                f"{method['title']} ran without a balanced cut: {packages} is not installed"
            )
    return notes


def _summary(cells: Cells, basis: str) -> dict[str, dict[str, Any]]:
    """Return mean and worst regret of every method over some cells.

    The method with the least mean of the means of the families is first.
    """
    found = {}
    for key in cells[0]["methods"]:
        each = {cell["name"]: cell["methods"][key][basis] for cell in cells}
        if None in each.values():
            continue
        families: dict[str, list[float]] = {}
        for cell in cells:
            families.setdefault(cell["family"], []).append(each[cell["name"]])
        worst_cell = max(each, key=each.__getitem__)
        found[key] = {
            "mean_of_families": float(np.mean([np.mean(some) for some in families.values()])),
            "mean": float(np.mean(list(each.values()))),
            "worst": each[worst_cell],
            "worst_cell": worst_cell,
            "families": {
                family: {"mean": float(np.mean(some)), "worst": max(some)}
                for family, some in families.items()
            },
        }
    ordered = sorted(
        found, key=lambda key: (round(found[key]["mean_of_families"], 6), key != DEFAULT_METHOD)
    )
    return {key: found[key] for key in ordered}


def _regret_table(half: str, data: Mapping[str, Any], n_cells: int) -> Table:
    found, free = data["summary"][half], data["summary_unbalanced"][half]
    balanced = any(method["balanced"] for method in data["methods"].values())
    families = list(next(iter(found.values()))["families"])
    measures = {"mean_of_families": 4, "mean": 4, "worst": 3}  # with their digits
    rows, figures = [], []
    for key, one in found.items():
        overall = [one, free.get(key, dict.fromkeys(measures))] if balanced else [one]
        parts = [one["families"][family] for family in families]
        rows.append(
            (
                f"{data['methods'][key]['title']} ({key})",
                one["worst_cell"] if one["worst"] > 0 else "none",
                *(short_text(o[measure], n) for o in overall for measure, n in measures.items()),
                *(f"{short_text(part['mean'])} / {short_text(part['worst'])}" for part in parts),
            )
        )
        own = [o[measure] for o in overall for measure in measures]
        figures.append([*own, *(part["mean"] for part in parts)])
    bold = {(r, 0) for r, key in enumerate(found) if key == DEFAULT_METHOD}
    bold |= best_cells(figures, 2, by="column", lowest=True, digits=4)
    named = [measure.replace("_", " ") for measure in measures]
    starred = [f"{name}*" for name in named] if balanced else []
    headings = ("method (key)", "worst cell", *named, *starred, *families)
    return Table(f"Regret, {_HALVES[half]} ({n_cells} cells)", headings, rows, 2, bold)


def _accuracy_table(title: str, cells: Cells, methods: Mapping[str, Any]) -> Table:
    """Return mean accuracies; the best of all methods and of the unbalanced ones are bold."""
    means = [[found["mean"] for found in cell["methods"].values()] for cell in cells]
    balanced = [method["balanced"] for method in methods.values()]
    free = [[None if b else m for b, m in zip(balanced, row, strict=True)] for row in means]
    rows = []
    for cell, own in zip(cells, means, strict=True):
        errors = [found["se"] for found in cell["methods"].values()]
        error = short_text(None if errors[0] is None else max(errors))
        rows.append((cell["name"], cell["half"], *map(short_text, own), error))
    bold = best_cells(means, 2) | best_cells(free, 2)
    return Table(title, ("cell", "half", *methods, "se ≤"), rows, 2, bold)


def _nmi_table(pools: Cells) -> Table:
    """Return mean NMI on the pools, printed figures next to ours; the best of ours are bold."""
    columns = []  # (method, whether the figures are the printed ones)
    for key in pools[0]["methods"]:
        columns += [(key, False), (key, True)] if key in _ARTICLE_METHODS else [(key, False)]
    rows, ours = [], []
    for cell in pools:
        printed = dict(zip(_ARTICLE_METHODS, _PRINTED_NMI[cell["dataset"]], strict=True))
        own = {key: found["nmi"] for key, found in cell["methods"].items()}
        errors = [found["nmi_se"] for found in cell["methods"].values()]
        texts = [short_text(printed[key] if p else own[key]) for key, p in columns]
        error = short_text(None if errors[0] is None else max(errors))
        rows.append((cell["dataset"], cell["half"], *texts, error))
        ours.append([None if p else own[key] for key, p in columns])
    headings = [f"{key}, printed" if p else key for key, p in columns]
    bold = best_cells(ours, 2)
    return Table("NMI on the pools", ("set", "half", *headings, "se ≤"), rows, 2, bold)


def _plot(data: Mapping[str, Any]) -> Figure:
    """Draw a strip for each method and a mark for each cell, on a square-root scale."""
    found = data["summary"]["all"]
    order = sorted(found, key=lambda key: key != DEFAULT_METHOD)
    families = list(dict.fromkeys(cell["family"] for cell in data["cells"]))
    marks = []
    for family, height in zip(families, lane_heights(len(families), 0.66), strict=True):
        for half, fill in (("develop", "none"), ("report", "full")):
            cells = [c for c in data["cells"] if (c["family"], c["half"]) == (family, half)]
            x = [cell["methods"][key]["regret"] for key in order for cell in cells]
            y = [place for place in range(len(order)) for _ in cells]
            style = {"markersize": 4, "alpha": 0.8, "fillstyle": fill, "clip_on": False}
            marks.append(Marks(family, *_STYLES[family], x, y, height=height, settings=style))
    label = "regret: best accuracy in the cell less the method's (root scale)"
    title = "filled: report half, hollow: develop half, bar: mean of all cells"
    names = [data["methods"][key]["title"] for key in order]
    figure = dot_plot(names, {"": marks}, label, width=9, row_height=0.42, title=title)
    (axes,) = figure.axes
    means = [found[key]["mean"] for key in order]
    axes.plot(means, range(len(order)), "|", color="black", markersize=22, mew=2, zorder=4)
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0.0)), np.square))
    most = max(0.04, *(one["worst"] for one in found.values()))
    ticks = [tick for tick in (0, 0.01, 0.04, 0.1, 0.2, 0.4, 0.6, 0.8, 1) if tick <= most]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    axes.set_xlim(0.0, 1.05 * most)
    return figure
