"""The page of the regrets, in Markdown, and their picture."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.environment import in_words
from benchmarks.regret import (
    CellRegret,
    MethodRegret,
    RegretResults,
    method_regrets,
)
from benchmarks.regret_report import (
    TARGET_MEAN,
    TARGET_WORST,
    as_tables,
    balanced_titles,
    in_digits,
    method_title,
    notes,
    summary_lines,
)
from coterie.consensus.registry import FLAGSHIP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["as_page", "as_picture"]

_FAMILIES = {
    "planted": "a known partition, some votes noisy, some wrong together or each for itself",
    "real": "classes of real data, 40 runs of k-means, K as the classes have it or drawn",
    "views": "classes of real data seen in several views, 10 runs a view, K fixed or drawn",
    "market": "planted segments of simulated advertisers, seen in texts, win and cost curves",
}
# Okabe and Ito's colours, which colour-blind readers tell apart; a marker each as well
_STYLES = {
    "planted": ("#0072B2", "o"),
    "real": ("#D55E00", "s"),
    "views": ("#009E73", "^"),
    "market": ("#CC79A7", "D"),
}
_OTHERS = ("#555555", "x")
_TICKS = (0.0, TARGET_MEAN, TARGET_WORST, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
#: Most letters of a cell's name beside the picture.
_LONGEST = 38


def as_page(results: RegretResults, described: dict[str, Any]) -> str:
    """A page in Markdown, with the picture ``regret.png`` beside it."""
    told = [f"- {note}" for note in notes(results)]
    parts = [
        "# Regret: how far behind the best method",
        *_introduction(results),
        f"```shell\n{results.command} -o regret-report\n```",
        "![Regret of each method in each cell](regret.png)",
        "\n".join(f"- {line}" for line in summary_lines(results)),
    ]
    for table in as_tables(results):
        parts += [f"## {table.title}", table.markdown()]
    parts += ["## What did not go smoothly", "\n".join(told)] if told else []
    parts.append(f"Measured {in_words(described)}.")
    return "\n\n".join(parts) + "\n"


def as_picture(results: RegretResults) -> Figure:
    """A strip for each method, a mark for each cell; the flagship on top, the rest by mean.

    Families have a colour, a marker and a lane each; cells of the develop half are hollow. A bar
    is the mean; on the right stands the worst cell. Roots of regrets are drawn, so that those near
    the targets can be told apart.
    """
    from matplotlib.figure import Figure

    found = sorted(method_regrets(results.regrets), key=lambda one: one.method != FLAGSHIP)
    figure = Figure(figsize=(9, 1.6 + 0.42 * len(found)), layout="constrained")
    axes = figure.subplots()
    for place, one in enumerate(found):
        if place % 2 == 0:
            axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
        axes.plot([one.mean] * 2, [place - 0.4, place + 0.4], color="black", linewidth=2, zorder=4)
    _draw_cells(axes, results.regrets, [one.method for one in found])
    _draw_scales(axes, results.regrets, found)
    figure.legend(
        loc="outside lower center",
        ncols=6,
        frameon=False,
        fontsize=8,
        title="filled: report half, hollow: develop half, bar: mean, dotted: targets",
        title_fontsize=8,
    )
    return figure


def _introduction(results: RegretResults) -> list[str]:
    counts = Counter(regret.cell.family for regret in results.regrets)
    families = "\n".join(
        f"- {family} ({count}): {_FAMILIES.get(family, 'cells of its own kind')}"
        for family, count in counts.items()
    )
    return [
        "A cell is one way to make partitions of things whose classes are known. Each of its "
        f"{results.n_draws} draws gives every method the same label matrix and the number of "
        "classes; the classes are used for the score alone. The regret of a method in a cell is "
        "the best mean accuracy of any method in it, less its own. Nothing is tuned by cell, and a "
        "method that cannot run counts as if it had put all points into one cluster. The cells, by "
        "family:",
        families,
        "Cells were dealt to two halves in turn, within their family and in the order of the "
        "suite; all cells of a data set lie in the same half. The market's cells, one in each "
        "half, cut the same simulated markets differently, and the planted cells by which the "
        "dissent rule was designed lie in both. Which answers the default settings of "
        f"{method_title(FLAGSHIP)} choose among, and by what criterion, was decided on the develop "
        "half; the report half was looked at afterwards. What is wanted of the default: mean "
        f"regret ≤ {in_digits(TARGET_MEAN, 2)}, worst regret ≤ {in_digits(TARGET_WORST, 2)}, and "
        "the lowest mean of all methods.",
        _about_balance(results),
        "Of a family, mean / worst regret are shown; of a cell, mean accuracies over the draws and "
        "the largest of their standard errors. In bold: the default, the least regret of each "
        "column, and the best accuracy in each cell, of all methods and of those without a "
        "balanced cut.",
    ]


def _about_balance(results: RegretResults) -> str:
    titles = balanced_titles(results)
    if not titles:
        return "None of the methods compared here has a balanced cut."
    return (
        f"{' and '.join([', '.join(titles[:-1]), titles[-1]] if titles[1:] else titles)} cut a "
        f"graph into parts of equal size: balance helps where classes happen to be equally "
        "large, as in iris, MSRC-v1, digits and the market's segments. So regrets stand on two "
        "bases: against the best of all methods, and, marked *, against the best of those without "
        "a balanced cut."
    )


def _draw_cells(axes: Axes, regrets: list[CellRegret], methods: list[str]) -> None:
    """A mark for each cell in each strip, its family's lane within it."""
    families = list(dict.fromkeys(regret.cell.family for regret in regrets))
    for lane, family in enumerate(families):
        height = 0.66 * ((lane + 0.5) / len(families) - 0.5)
        colour, marker = _STYLES.get(family, _OTHERS)
        for half in ("report", "develop"):
            some = [r for r in regrets if r.cell.family == family and r.cell.half == half]
            axes.scatter(
                [regret.regret[key] for key in methods for regret in some],
                [place + height for place in range(len(methods)) for _ in some],
                s=16,
                marker=marker,
                linewidths=0.9,
                alpha=0.8,
                facecolors=colour if half == "report" else "none",
                edgecolors=colour,
                zorder=3,
                clip_on=False,
                label=family if some and half == _first_half(regrets, family) else None,
            )


def _first_half(regrets: list[CellRegret], family: str) -> str:
    """The half by which a family is named in the legend: that of filled marks, if it has any."""
    halves = {regret.cell.half for regret in regrets if regret.cell.family == family}
    return max(halves)


def _draw_scales(axes: Axes, regrets: list[CellRegret], found: list[MethodRegret]) -> None:
    """Methods on the left, worst cells on the right, roots of regrets below."""
    titles = {regret.cell.name: regret.cell.title for regret in regrets}
    places = range(len(found))
    axes.set_yticks(places, [method_title(one.method) for one in found], fontsize=9)
    for label, one in zip(axes.get_yticklabels(), found, strict=True):
        label.set_fontweight("bold" if one.method == FLAGSHIP else "normal")
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0.0)), np.square))
    most = max(TARGET_WORST, *(one.worst for one in found))
    ticks = [tick for tick in _TICKS if tick <= most]
    axes.set_xticks(ticks, [in_digits(tick, 2) if tick else "0" for tick in ticks], fontsize=8)
    axes.set_xlim(0.0, 1.05 * most)
    for target in (TARGET_MEAN, TARGET_WORST):
        axes.axvline(target, color="#888888", linewidth=0.9, linestyle=":", zorder=1)
    axes.set_xlabel("regret: accuracy short of the best method's (root scale)", fontsize=9)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    right = axes.secondary_yaxis("right")
    right.set_yticks(places, [_worst_text(one, titles) for one in found], fontsize=7)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)


def _worst_text(one: MethodRegret, titles: dict[str, str]) -> str:
    if one.worst <= 0:
        return "worst .000"
    title = titles[one.worst_cell]
    short = title if len(title) <= _LONGEST else f"{title[: _LONGEST - 1]}…"
    return f"worst {in_digits(one.worst)}: {short}"
