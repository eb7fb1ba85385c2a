"""The paper's tables computed anew, as JSON, as tables and in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.paper_cells import TABLE2_METHODS, TABLE3_METHODS, method_title
from benchmarks.paper_figures import TABLE2, PaperTable
from benchmarks.paper_tables import MethodResult, TableResults
from benchmarks.result_tables import ResultTable
from coterie.consensus.registry import FLAGSHIP

__all__ = [
    "as_json",
    "as_tables",
    "in_short",
    "methods_of_columns",
    "notes",
    "printed_table",
    "summary_lines",
]

_RCC = "rcc"


def as_json(results: TableResults, described: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`.

    ``{"table", "draws", "patience", "printed": {column: {dataset: figure}}, "cells": [{condition,
    dataset, methods}], "absent": {dataset: why}, "environment"}``. A figure that is not at hand is
    null. Of each method its ``status``, ``mean``, ``se`` (null unless it ran, se also for a single
    draw), ``draws`` that ran, mean processor ``seconds``, ``accuracies``, ``messages`` and
    ``warnings``.
    """
    table = results.table
    return {
        "table": table.name,
        "draws": results.settings.n_draws,
        "patience": results.settings.patience,
        "printed": {
            column: {dataset: table.figure(dataset, column) for dataset in table.sets}
            for column in table.columns
        },
        "cells": [
            {
                "condition": condition,
                "dataset": dataset,
                "methods": {method: _method_json(found) for method, found in row.items()},
            }
            for condition, dataset, row in _all_rows(results)
        ],
        "absent": dict(results.absent),
        "environment": described,
    }


def printed_table(table: PaperTable) -> ResultTable:
    """What the paper prints, n/a where it is not at hand: a row a method, a column a set."""
    rows = [
        (column, *(_figure_text(table.figure(dataset, column)) for dataset in table.sets))
        for column in table.columns
    ]
    return ResultTable("Accuracy as printed in the paper", ("", *table.sets.values()), rows)


def as_tables(results: TableResults) -> list[ResultTable]:
    """A table for each condition: methods in the paper's order, then others; a column a set.

    What the paper prints stands below. The best of a column is in bold, ties all of them.
    """
    return [_measured_table(results, condition, rows) for condition, rows in results.rows.items()]


def summary_lines(results: TableResults) -> list[str]:
    """Mean accuracies, how the paper's RCC compares, and how far each method is behind the best."""
    lines = []
    for condition, rows in results.rows.items():
        prefix = f"Recipe {condition} K: " if condition else ""
        if len(rows) > 1:
            means = _means_over_sets(rows)
            shown = ", ".join(f"{method_title(m)} {in_short(mean)}" for m, mean in means.items())
            lines.append(f"{prefix}Mean accuracy over {len(rows)} sets: {shown}.")
        for method in (FLAGSHIP, _RCC):
            lines += [prefix + line for line in _beside_the_printed(results, rows, method)]
    return [*lines, *_behind_the_best(results)]


def notes(results: TableResults) -> list[str]:
    """Sets that are not here, methods that could not run or ran fewer draws, and warnings."""
    unable: dict[str, list[str]] = {}
    fewer: dict[str, list[str]] = {}
    warned = Counter[str]()
    for condition, dataset, row in _all_rows(results):
        where = f"{results.table.sets[dataset]} ({condition})".removesuffix(" ()")
        for method, found in row.items():
            title = method_title(method)
            for message in found.messages:
                unable.setdefault(f"{title}, {message}", []).append(where)
            if found.scores and len(found.outcomes) < results.settings.n_draws:
                fewer.setdefault(title, []).append(where)
            for outcome in found.outcomes:
                warned.update({f"{title}, {kind}": n for kind, n in outcome.warnings.items()})
    absent = {results.table.sets[dataset]: why for dataset, why in results.absent.items()}
    return [
        *(f"Not here: {title}, because {why}" for title, why in absent.items()),
        *(f"Did not run: {what} [{'; '.join(wheres)}]" for what, wheres in unable.items()),
        *(f"Fewer draws: {title}: {'; '.join(wheres)}" for title, wheres in fewer.items()),
        *(f"Warnings: {what}: {times} times" for what, times in warned.items()),
    ]


def methods_of_columns(table: PaperTable) -> dict[str, str]:
    """The method that stands for each column of the paper, for those that have one."""
    methods = TABLE2_METHODS if table is TABLE2 else TABLE3_METHODS
    return {column: methods[column] for column in table.columns if column in methods}


def in_short(figure: float) -> str:
    """An accuracy to three digits, without its zero.

    >>> in_short(0.8866), in_short(1.0)
    ('.887', '1.000')
    """
    return f"{figure:.3f}".removeprefix("0")


def _measured_table(
    results: TableResults, condition: str, rows: Mapping[str, Mapping[str, MethodResult]]
) -> ResultTable:
    table, n_draws = results.table, results.settings.n_draws
    methods = list(dict.fromkeys(method for row in rows.values() for method in row))
    texts = [
        (method_title(m), *(_result_text(row.get(m), n_draws) for row in rows.values()))
        for m in methods
    ]
    stressed = set()
    for c, row in enumerate(rows.values(), 1):
        means = {r: _mean(row, method) for r, method in enumerate(methods)}
        ran = {r: round(mean, 3) for r, mean in means.items() if mean is not None}
        stressed |= {(r, c) for r, mean in ran.items() if mean == max(ran.values())}
    for column in table.figures:
        texts.append((f"{column}, printed", *(_figure_text(table.figure(d, column)) for d in rows)))
    what = f"Accuracy, recipe {condition} K" if condition else "Accuracy"
    draws = "ensembles" if table is TABLE2 else "seeds"
    title = f"{what}: mean ± standard error of {n_draws} {draws}"
    return ResultTable(title, ("", *(table.sets[d] for d in rows)), texts, stressed=stressed)


def _result_text(found: MethodResult | None, n_draws: int) -> str:
    """A mean and its error, the number of draws where there were fewer; or what went wrong."""
    if found is None:
        return "–"
    scores = found.scores
    if scores is None:
        return found.status
    text = in_short(scores.mean)
    if scores.standard_error is not None:
        text += f" ± {in_short(scores.standard_error)}"
    n_ran = len(scores.accuracies)
    return text if n_ran == n_draws else f"{text} ({n_ran})"


def _figure_text(figure: float | None) -> str:
    return "n/a" if figure is None else f"{figure:.2f}".removeprefix("0")


def _means_over_sets(rows: Mapping[str, Mapping[str, MethodResult]]) -> dict[str, float]:
    """Mean over the sets, of the methods that ran on all of them."""
    methods = dict.fromkeys(method for row in rows.values() for method in row)
    means = {method: [_mean(row, method) for row in rows.values()] for method in methods}
    return {m: float(np.mean(ms)) for m, ms in means.items() if None not in ms}  # type: ignore[arg-type]


def _beside_the_printed(
    results: TableResults, rows: Mapping[str, Mapping[str, MethodResult]], method: str
) -> Iterator[str]:
    """On how many sets a method reaches the paper's RCC, to the two digits it is printed with."""
    pairs = {
        title: (_mean(rows[dataset], method), results.table.figure(dataset, "RCC"))
        for dataset, title in results.table.sets.items()
        if dataset in rows
    }
    known = {
        title: (mean, figure)
        for title, (mean, figure) in pairs.items()
        if mean is not None and figure is not None
    }
    if not known:
        return
    below = [
        f"{title} ({_figure_text(mean)}, printed {_figure_text(figure)})"
        for title, (mean, figure) in known.items()
        if round(mean, 2) < figure
    ]
    where = f"; below on {', '.join(below)}" if below else ""
    reached = len(known) - len(below)
    yield (
        f"{method_title(method)} reaches the figure printed for RCC on {reached} of {len(known)} "
        f"{'set' if len(known) == 1 else 'sets'}{where}."
    )


def _behind_the_best(results: TableResults) -> list[str]:
    """Distance from the best method of each cell, mean and largest, smallest mean first."""
    rows = [row for _, _, row in _all_rows(results)]
    if len(rows) < 2:
        return []
    common = [m for m in rows[0] if all(_mean(row, m) is not None for row in rows)]
    if not common:
        return []
    means = np.array([[row[m].scores.mean for m in common] for row in rows])  # type: ignore[union-attr]
    behind = means.max(axis=1, keepdims=True) - means
    mean, most = behind.mean(axis=0), behind.max(axis=0)
    shown = ", ".join(
        f"{method_title(common[m])} {in_short(mean[m])} ({in_short(most[m])})"
        for m in np.argsort(mean, kind="stable")
    )
    return [
        f"Behind the best of these methods, mean over all {len(rows)} cells (most in a cell), "
        f"those that ran in every cell: {shown}."
    ]


def _mean(row: Mapping[str, MethodResult], method: str) -> float | None:
    scores = row[method].scores if method in row else None
    return None if scores is None else scores.mean


def _all_rows(
    results: TableResults,
) -> Iterator[tuple[str, str, Mapping[str, MethodResult]]]:
    for condition, rows in results.rows.items():
        for dataset, row in rows.items():
            yield condition, dataset, row


def _method_json(found: MethodResult) -> dict[str, Any]:
    scores = found.scores
    warned = Counter[str]()
    for outcome in found.outcomes:
        warned.update(outcome.warnings)
    return {
        "status": found.status,
        "mean": None if scores is None else scores.mean,
        "se": None if scores is None else scores.standard_error,
        "draws": 0 if scores is None else len(scores.accuracies),
        "seconds": float(np.mean([outcome.seconds for outcome in found.outcomes])),
        "accuracies": [] if scores is None else list(scores.accuracies),
        "messages": found.messages,
        "warnings": dict(warned),
    }
