"""Results of the advertising grid as JSON, tables, a page and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.ads_grid import FLAGSHIP, TARGETS, CellSummary, GridCell, summarise_cell
from benchmarks.environment import in_words
from benchmarks.result_tables import ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["as_json", "as_page", "as_picture", "as_tables", "summary_lines"]

Results = Mapping[str, Sequence[dict[str, Any]]]

_SHOWN = (
    "own",
    "global",
    "text+pooled",
    "win+pooled",
    "cost+pooled",
    "l2+pooled",
    "robust",
    FLAGSHIP,
    "true+pooled",
)
# Okabe and Ito's colours, which colour-blind readers tell apart; a marker each as well
_STYLES = {
    "own": ("#999999", "x"),
    "text+pooled": ("#CC79A7", "v"),
    "win+pooled": ("#56B4E9", "^"),
    "cost+pooled": ("#009E73", "<"),
    "l2+pooled": ("#E69F00", "s"),
    FLAGSHIP: ("#0072B2", "o"),
    "true+pooled": ("#000000", "|"),
}


def as_json(
    cells: Sequence[GridCell], results: Results, described: dict[str, Any]
) -> dict[str, Any]:
    """Everything that was measured, and the summary of each cell."""
    return {
        "cells": [
            {
                "bids_per_day": cell.bids_per_day,
                "bid_move": cell.bid_move,
                "text_error": cell.text_error,
                "outliers": cell.outliers,
                "auction": cell.auction,
                "summary": {
                    target: _summary_json(summarise_cell(results[cell.name], target))
                    for target in TARGETS
                },
                "draws": list(results[cell.name]),
            }
            for cell in cells
        ],
        "environment": described,
    }


def as_tables(cells: Sequence[GridCell], results: Results) -> list[ResultTable]:
    """WAPE of every source, all advertisers and thin ones; the lowest that is not told in bold."""
    return [
        *(_error_table(cells, results, target) for target in TARGETS),
        *(_thin_table(cells, results, target) for target in TARGETS),
    ]


def summary_lines(cells: Sequence[GridCell], results: Results) -> list[str]:
    """What holds, in sentences."""
    lines = []
    for target in TARGETS:
        summaries = [summarise_cell(results[cell.name], target) for cell in cells]
        lowest = sum(summary.best == FLAGSHIP for summary in summaries)
        holds = sum(summary.holds for summary in summaries)
        paired = sum(summary.holds_paired for summary in summaries)
        cell, worst = max(zip(cells, summaries, strict=True), key=lambda pair: pair[1].behind)
        lines.append(
            f"{target.capitalize()}: {FLAGSHIP} has the lowest WAPE in {lowest} of {len(cells)} "
            f"cells, is within one standard error of the lowest WAPE in {holds}, and within one "
            f"standard error of the paired difference, which is far smaller, in {paired}. "
            f"Furthest behind: by {100 * worst.behind:.2f} ± {100 * worst.paired:.2f} points, "
            f"{worst.best} ({_in_words(cell)})."
        )
        closed = [summary.closed for summary in summaries]
        lines.append(
            f"Thin advertisers (10–199 bids), {target}: it closes {min(closed):.0%} to "
            f"{max(closed):.0%} of the distance from own curves to the pooled curves of the true "
            f"segments."
        )
    return lines


def as_page(cells: Sequence[GridCell], results: Results, described: dict[str, Any]) -> str:
    """A page in Markdown, with the picture ``ads.png`` beside it."""
    n_draws = len(results[cells[0].name])
    parts = [
        "# Forecasts of simulated markets",
        f"Every cell is a kind of market, drawn {n_draws} times: 1,268 advertisers, ten segments, "
        "six days to learn from and one to forecast, on which bids move by a factor of up to "
        "e^*move*. *Bids* are the median advertiser's a day; *text* is the share of wrong texts, "
        "*outliers* that of advertisers with a market of their own. The held-out day is a Sunday, "
        "with prices and volumes of its own that no training day shows. *true+pooled* knows the "
        "segments; no other source does. Settings are chosen by backtest inside the training "
        "days, nothing is tuned per cell. Errors are WAPE; the lowest of those that do not know "
        "the truth is in bold. *Behind the lowest* is the difference of robust+pooled to it, with "
        "the standard error of the paired difference; *its error* is the standard error of the "
        "lowest WAPE itself.",
        *summary_lines(cells, results),
        "![Error of each source in each cell](ads.png)",
    ]
    for table in as_tables(cells, results):
        parts += [f"## {table.title}", table.markdown()]
    parts += [
        f"Made by `python -m benchmarks ads --draws {n_draws} -o docs/benchmarks`.",
        f"Measured {in_words(described)}.",
    ]
    return "\n\n".join(parts) + "\n"


def as_picture(cells: Sequence[GridCell], results: Results) -> Figure:
    """Thin advertisers: cells from top to bottom, WAPE relative to own curves to the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.6 + 0.3 * len(cells)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    places = range(len(cells))
    for axes, target in zip(panels, TARGETS, strict=True):
        summaries = [summarise_cell(results[cell.name], target) for cell in cells]
        for place in places[::2]:
            axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
        for name, (colour, marker) in _STYLES.items():
            axes.plot(
                [100 * summary.thin[name] for summary in summaries],
                list(places),
                marker,
                color=colour,
                markersize=11 if marker == "|" else 5,
                label=name,
            )
        axes.set_title(f"{target}, advertisers with 10–199 bids", fontsize=9, loc="left")
        axes.set_xlabel("WAPE, %")
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.tick_params(length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
    panels[0].set_yticks(places, [_in_words(cell) for cell in cells], fontsize=8)
    panels[0].set_ylim(len(cells) - 0.5, -0.5)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=7, frameon=False, fontsize=8.5)
    return figure


def _error_table(cells: Sequence[GridCell], results: Results, target: str) -> ResultTable:
    rows, stressed = [], set()
    for r, cell in enumerate(cells):
        summary = summarise_cell(results[cell.name], target)
        rows.append(
            (
                *_cell_texts(cell),
                *(_percent(summary.wape[name]) for name in _SHOWN),
                f"{100 * summary.behind:.2f} ± {100 * summary.paired:.2f}",
                f"{100 * summary.of_best:.2f}",
            )
        )
        if summary.best in _SHOWN:
            stressed.add((r, 4 + _SHOWN.index(summary.best)))
    headings = ("bids", "move", "text", "outliers", *_SHOWN, "behind the lowest", "its error")
    title = f"{target.capitalize()}, all advertisers: WAPE in %"
    return ResultTable(title, headings, rows, n_named=4, stressed=frozenset(stressed))


def _thin_table(cells: Sequence[GridCell], results: Results, target: str) -> ResultTable:
    rows = []
    for cell in cells:
        summary = summarise_cell(results[cell.name], target)
        rows.append(
            (
                *_cell_texts(cell),
                *(_percent(summary.thin[name]) for name in _SHOWN),
                f"{summary.closed:.0%}",
            )
        )
    headings = ("bids", "move", "text", "outliers", *_SHOWN, "closed")
    title = f"{target.capitalize()}, advertisers with 10–199 bids: WAPE in %"
    return ResultTable(title, headings, rows, n_named=4)


def _cell_texts(cell: GridCell) -> tuple[str, str, str, str]:
    return (
        f"{cell.bids_per_day:g}",
        f"{cell.bid_move:g}",
        f"{cell.text_error:g}",
        f"{cell.outliers:g}",
    )


def _in_words(cell: GridCell) -> str:
    return (
        f"{cell.bids_per_day:g} bids, move {cell.bid_move:g}, text error {cell.text_error:g}, "
        f"outliers {cell.outliers:g}"
    )


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _summary_json(summary: CellSummary) -> dict[str, Any]:
    return {
        "wape": summary.wape,
        "best": summary.best,
        "behind": summary.behind,
        "standard_error_of_best": summary.of_best,
        "paired_standard_error": summary.paired,
        "holds": summary.holds,
        "holds_paired": summary.holds_paired,
        "thin": summary.thin,
        "closed": summary.closed,
    }
