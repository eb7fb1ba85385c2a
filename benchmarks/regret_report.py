"""Regrets as JSON, as tables and in sentences.

Regrets have two bases: the best of all methods, and the best of those without a balanced cut, for
balance wins where classes happen to be equally large.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.regret import (
    CellRegret,
    RegretResults,
    has_balanced_cut,
    method_regrets,
)
from benchmarks.result_tables import ResultTable
from coterie.consensus.registry import FLAGSHIP, consensus_method

__all__ = [
    "TARGET_MEAN",
    "TARGET_WORST",
    "as_json",
    "as_tables",
    "balanced_titles",
    "in_digits",
    "method_title",
    "notes",
    "summary_lines",
]

#: What is wanted of the default: regrets no larger than these, and the lowest mean of all.
TARGET_MEAN, TARGET_WORST = 0.01, 0.04

#: A figure, or mean and worst of a family, or nothing.
Figures = tuple[float, ...]

_HALVES = {"report": "report", "develop": "develop", "all": None}
_PLANTED = "planted"


def as_json(results: RegretResults, described: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`.

    ``{"summary": {half: {key: {mean, worst, worst_cell, families: {family: {mean, worst}}}}},
    "summary_unbalanced": …, "methods": {key: {title, balanced}}, "targets": {mean, worst},
    "cells": [{family, name, half, methods: {key: {mean, se, regret, regret_unbalanced,
    seconds}}}], "missing": {dataset: why}, "failed": [{cell, method, why}], "draws", "command",
    "environment"}``. Halves are "report", "develop" and "all"; one without cells is left out.
    ``se`` is null for a single draw, ``regret_unbalanced`` for a method with a balanced cut.
    """
    return {
        "summary": _summary_json(results.regrets),
        "summary_unbalanced": _summary_json(results.unbalanced),
        "methods": {
            key: {"title": method_title(key), "balanced": has_balanced_cut(key)}
            for key in results.methods
        },
        "targets": {"mean": TARGET_MEAN, "worst": TARGET_WORST},
        "cells": _cells_json(results),
        "missing": dict(results.missing),
        "failed": [
            {"cell": regret.cell.name, "method": key, "why": why}
            for regret in results.regrets
            for key, why in regret.failed.items()
        ],
        "draws": results.n_draws,
        "command": results.command,
        "environment": described,
    }


def as_tables(results: RegretResults) -> list[ResultTable]:
    """Regrets of the methods over each half and all cells; accuracies in the cells.

    In bold the flagship, the least regret of a column, and the best accuracy of a cell, of all
    methods and of those without a balanced cut.
    """
    tables = [_regret_table(results, name) for name in _halves(results.regrets)]
    planted = [regret for regret in results.regrets if regret.cell.family == _PLANTED]
    others = [regret for regret in results.regrets if regret.cell.family != _PLANTED]
    if others:
        families = ", ".join(dict.fromkeys(regret.cell.family for regret in others))
        tables.append(_accuracy_table(f"Accuracy, cells of {families}", others, results))
    if planted:
        tables.append(_accuracy_table("Accuracy, planted partitions", planted, results))
    return tables


def summary_lines(results: RegretResults) -> list[str]:
    """Whether the targets are reached, by half and basis; and where balance is best."""
    bases = {f"all {len(results.methods)} methods": results.regrets}
    if balanced_titles(results):
        others = results.unbalanced
        if others:
            bases[f"the {len(others[0].accuracy)} without a balanced cut"] = others
    lines = [
        f"{_half_title(name, some)}, against the best of {basis}: {_standing(some)}"
        for name in _halves(results.regrets)
        for basis, regrets in bases.items()
        if (some := _cells_of(regrets, name))
    ]
    return [*lines, *_where_balance_wins(results)]


def notes(results: RegretResults) -> list[str]:
    """Data sets that are not here, methods that could not run, packages that are not installed."""
    unable: dict[str, list[str]] = {}
    for regret in results.regrets:
        for key, why in regret.failed.items():
            unable.setdefault(f"{method_title(key)}, {why}", []).append(regret.cell.title)
    fallen = {key: consensus_method(key).missing_packages() for key in results.methods}
    return [
        *(f"Not here: {name}, because {why}" for name, why in results.missing.items()),
        *(
            f"Did not run, and counts as one cluster of all points: {what} [{' | '.join(where)}]"
            for what, where in unable.items()
        ),
        *(
            f"{method_title(key)} fell back to what knows no balance: {', '.join(packages)} is not "
            "installed"
            for key, packages in fallen.items()
            if packages
        ),
    ]


def balanced_titles(results: RegretResults) -> list[str]:
    """Titles of the methods that were run with a balanced cut."""
    return [method_title(key) for key in results.methods if has_balanced_cut(key)]


def method_title(key: str) -> str:
    """The name of a method in tables.

    >>> method_title("l2")
    'L2CC'
    """
    return consensus_method(key).title


def in_digits(figure: float, n_digits: int = 3) -> str:
    """A figure without the zero before its point.

    >>> in_digits(0.00512, 4), in_digits(1.0), in_digits(0.0)
    ('.0051', '1.000', '.000')
    """
    return f"{figure:.{n_digits}f}".removeprefix("0")


def _with_key(key: str) -> str:
    return f"{method_title(key)} ({key})"


def _cells_of(regrets: Sequence[CellRegret], name: str) -> list[CellRegret]:
    half = _HALVES[name]
    return [regret for regret in regrets if half is None or regret.cell.half == half]


def _halves(regrets: Sequence[CellRegret]) -> list[str]:
    """Names of the halves that have cells, and "all"."""
    return [name for name in _HALVES if _cells_of(regrets, name)]


def _half_title(name: str, some: Sequence[CellRegret]) -> str:
    if _HALVES[name] is None:
        return f"All {len(some)} cells"
    return f"{name.capitalize()} half ({len(some)} cells)"


def _families(regrets: Iterable[CellRegret]) -> list[str]:
    return list(dict.fromkeys(regret.cell.family for regret in regrets))


def _summary_json(regrets: Sequence[CellRegret]) -> dict[str, Any]:
    return {
        name: {
            found.method: {
                "mean": found.mean,
                "worst": found.worst,
                "worst_cell": found.worst_cell,
                "families": {
                    family: {"mean": mean, "worst": worst}
                    for family, (mean, worst) in found.by_family.items()
                },
            }
            for found in method_regrets(regrets, _HALVES[name])
        }
        for name in _halves(regrets)
    }


def _cells_json(results: RegretResults) -> list[dict[str, Any]]:
    unbalanced = {regret.cell.name: regret.regret for regret in results.unbalanced}
    return [
        {
            "family": regret.cell.family,
            "name": regret.cell.name,
            "half": regret.cell.half,
            "methods": {
                key: {
                    "mean": mean,
                    "se": None if math.isnan(regret.error[key]) else regret.error[key],
                    "regret": regret.regret[key],
                    "regret_unbalanced": unbalanced.get(regret.cell.name, {}).get(key),
                    "seconds": regret.seconds[key],
                }
                for key, mean in regret.accuracy.items()
            },
        }
        for regret in results.regrets
    ]


def _regret_table(results: RegretResults, name: str) -> ResultTable:
    """Methods, least mean regret first: mean and worst on both bases, by family, worst cell."""
    some = _cells_of(results.regrets, name)
    found = method_regrets(some)
    titles = {regret.cell.name: regret.cell.title for regret in some}
    free = {one.method: one for one in method_regrets(_cells_of(results.unbalanced, name))}
    columns: dict[str, list[Figures]] = {
        "mean": [(one.mean,) for one in found],
        "worst": [(one.worst,) for one in found],
    }
    if balanced_titles(results):
        beside = [free.get(one.method) for one in found]
        columns["mean*"] = [(one.mean,) if one else () for one in beside]
        columns["worst*"] = [(one.worst,) if one else () for one in beside]
    for family in _families(some):
        columns[family] = [one.by_family[family] for one in found]
    rows = [
        (
            _with_key(one.method),
            titles[one.worst_cell] if one.worst > 0 else "none",
            *(_regret_text(heading, column[r]) for heading, column in columns.items()),
        )
        for r, one in enumerate(found)
    ]
    return ResultTable(
        f"Regret, {_half_title(name, some).lower()}",
        ("method (key)", "worst cell", *columns),
        rows,
        n_named=2,
        stressed=_least(columns.values()) | _flagship_row([one.method for one in found]),
    )


def _regret_text(heading: str, figures: Figures) -> str:
    """A mean with four digits, all else with three; a dash for none."""
    if not figures:
        return "–"
    if len(figures) == 2:
        return " / ".join(map(in_digits, figures))
    return in_digits(figures[0], 4 if heading.startswith("mean") else 3)


def _least(columns: Iterable[Sequence[Figures]]) -> set[tuple[int, int]]:
    """Where the least first figure of each column stands; ties all of them."""
    stressed = set()
    for c, column in enumerate(columns, 2):
        firsts = {r: round(figures[0], 4) for r, figures in enumerate(column) if figures}
        stressed |= {(r, c) for r, first in firsts.items() if first == min(firsts.values())}
    return stressed


def _flagship_row(methods: Sequence[str]) -> set[tuple[int, int]]:
    return {(r, 0) for r, key in enumerate(methods) if key == FLAGSHIP}


def _accuracy_table(title: str, some: Sequence[CellRegret], results: RegretResults) -> ResultTable:
    methods = results.methods
    rows, stressed = [], set()
    for r, regret in enumerate(some):
        for group in (methods, [key for key in methods if not has_balanced_cut(key)]):
            best = max((round(regret.accuracy[key], 3) for key in group), default=None)
            stressed |= {
                (r, c)
                for c, key in enumerate(methods, 2)
                if key in group and round(regret.accuracy[key], 3) == best
            }
        largest = max(regret.error.values())
        rows.append(
            (
                regret.cell.title,
                regret.cell.half,
                *(in_digits(regret.accuracy[key]) for key in methods),
                "–" if math.isnan(largest) else in_digits(largest),
            )
        )
    headings = ("cell", "half", *methods, "se ≤")
    return ResultTable(title, headings, rows, n_named=2, stressed=stressed)


def _standing(some: Sequence[CellRegret]) -> str:
    """How the flagship stands by the three targets; who leads where it was not run."""
    found = method_regrets(some)
    first = f"{method_title(found[0].method)}, {in_digits(found[0].mean, 4)}"
    rank = next((r for r, one in enumerate(found) if one.method == FLAGSHIP), None)
    if rank is None:
        return f"lowest mean regret: {first}."
    own = found[rank]
    above = {
        regret.cell.title: regret.regret[FLAGSHIP]
        for regret in some
        if round(regret.regret[FLAGSHIP], 3) > TARGET_WORST
    }
    where = ", ".join(
        f"{title} ({in_digits(figure)})"
        for title, figure in sorted(above.items(), key=lambda item: -item[1])
    )
    lowest = (
        "its mean is the lowest"
        if rank == 0
        else f"its mean is number {rank + 1} of {len(found)} (lowest: {first})"
    )
    return (
        f"{method_title(FLAGSHIP)} has mean regret {in_digits(own.mean, 4)} "
        f"({_against(own.mean, TARGET_MEAN, 4)}) and worst regret {in_digits(own.worst)} "
        f"({_against(own.worst, TARGET_WORST, 3)}); {lowest}."
        + (f" Above the target in {len(above)} of {len(some)} cells: {where}." if above else "")
    )


def _against(figure: float, target: float, n_digits: int) -> str:
    """As printed: rounding is no shortfall."""
    excess = round(figure, n_digits) - target
    reached = "reached" if excess <= 1e-9 else f"missed by {in_digits(excess, n_digits)}"
    return f"target {in_digits(target, 2)} {reached}"


def _where_balance_wins(results: RegretResults) -> list[str]:
    """The cells in which a method with a balanced cut beats all those without."""
    unbalanced = results.unbalanced
    if not unbalanced or not balanced_titles(results):
        return []
    ahead = {
        regret.cell.title: max(regret.accuracy.values()) - max(free.accuracy.values())
        for regret, free in zip(results.regrets, unbalanced, strict=True)
    }
    where = [
        f"{title} ({in_digits(by)})"
        for title, by in sorted(ahead.items(), key=lambda item: -item[1])
        if round(by, 3) > 0
    ]
    if not where:
        return ["No method with a balanced cut is ahead of all others in any cell."]
    return [
        f"A method with a balanced cut is ahead of all others in {len(where)} of {len(ahead)} "
        f"cells: {', '.join(where)}."
    ]
