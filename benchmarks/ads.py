"""Forecast error over a grid of simulated markets: volume × shift × text error × outliers.

In every cell the market is drawn several times. Each draw is simulated to files, read back by the
engine, and evaluated on its last day by every source, and by the true segments, which no source
knows. Nothing is tuned per cell.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.harness import Context
from benchmarks.results import Marks, Result, Table, dot_plot, figure_text
from coterie.ads import (
    BidHistograms,
    MarketSettings,
    evaluate,
    open_logs,
    read_descriptions,
    read_histograms,
    simulate_logs,
)
from coterie.ads.forecasts.evaluation import strata_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLAGSHIP = "robust+pooled"
THIN = "10–199 bids"
TARGETS = ("impressions", "spend")
#: Sources in the order of the tables, with colour and marker of those that are drawn.
_SOURCES = {
    "own": ("grey", "x"),
    "global": None,
    "text+pooled": ("purple", "v"),
    "win+pooled": ("sky", "^"),
    "cost+pooled": ("green", "<"),
    "l2+pooled": ("orange", "s"),
    "robust": None,
    FLAGSHIP: ("blue", "o"),
    "true+pooled": ("black", "|"),
}
#: Bids a day of the median advertiser, how far the logarithm of bids moves on the held-out day, and
#: shares of advertisers with a wrong text and without a segment; the heading of each.
_KINDS = {"bids_per_day": "bids", "bid_move": "move", "text_error": "text", "outliers": "outliers"}
FULL_GRID = list(itertools.product((12, 30, 150), (0.0, 0.5), (0.05, 0.4), (0.05, 0.2)))
QUICK_GRID = [(30, 0.5, 0.1, 0.05)]


def run(context: Context, *, draws: int = 3, advertisers: int = 1268) -> Result:
    """Evaluate every draw of every cell; a quick run has one draw of one cell.

    Draw d is seeded with d.
    """
    grid, n_draws = (QUICK_GRID, 1) if context.quick else (FULL_GRID, draws)
    kept = context.trials("ads")
    cells: list[dict[str, Any]] = []
    for values in context.track(grid, "simulating and forecasting"):
        cell = dict(zip(_KINDS, values, strict=True))
        market = {**cell, "advertisers": advertisers}
        found = [
            kept.find_or_run({**market, "draw": draw}, partial(run_draw, market, draw))
            for draw in range(n_draws)
        ]
        summary = {target: summarise_cell(found, target) for target in TARGETS}
        cells.append({**cell, "draws": found, "summary": summary})
    tables = [_table(cells, target, kind) for kind in ("wape", "thin") for target in TARGETS]
    notes = [_note(cells, target) for target in TARGETS]
    return Result("ads", tables, {"cells": cells}, notes, {"": partial(_plot, cells)})


def run_draw(market: Mapping[str, Any], draw: int) -> dict[str, Any]:
    """Simulate one market, and evaluate every source on its last day.

    Return, by target and source, ``wape`` with its ``standard_error``, ``thin`` (the WAPE of thin
    advertisers) and ``paired_error``, the standard error of the difference from the flagship.
    """
    histograms, texts, labels, alone = simulate(MarketSettings(seed=draw, **market))
    # each outlier is a separate segment
    labels[alone] = labels.max(initial=-1) + 1 + np.arange(alone.sum())
    found = evaluate(histograms, texts, true_segments=labels)
    thin = strata_of(found.observations)[THIN] & (found.bids > 0)

    def errors(name: str, target: str) -> dict[str, Any]:
        everyone = found.measures(name, target)
        return {
            "wape": everyone.wape,
            "standard_error": everyone.wape_standard_error,
            "thin": found.measures(name, target, thin).wape,
            "paired_error": found.difference(FLAGSHIP, name, target).standard_error,
        }

    return {target: {name: errors(name, target) for name in found.forecasts} for target in TARGETS}


def simulate(
    settings: MarketSettings,
) -> tuple[BidHistograms, Any, NDArray[np.int64], NDArray[np.bool_]]:
    """Simulate a market to files and read it back.

    Return its histograms and texts, and for each advertiser the planted segment and whether it is
    an outlier.
    """
    with tempfile.TemporaryDirectory(prefix="coterie-market-") as folder:
        simulated = simulate_logs(settings, Path(folder) / "market")
        logs = open_logs(simulated.folder)
        histograms, texts = read_histograms(logs), read_descriptions(logs)
        truth = pq.read_table(simulated.truth).to_pydict()
    place = {name: row for row, name in enumerate(truth["advertiser_id"])}
    rows = [place[str(name)] for name in histograms.advertisers]
    segments, outliers = np.array(truth["segment"]), np.array(truth["outlier"], dtype=bool)
    return histograms, texts, segments.astype(np.int64)[rows], outliers[rows]


def summarise_cell(draws: Sequence[Mapping[str, Any]], target: str) -> dict[str, Any]:
    """Summarise the draws of one cell.

    Return ``wape`` and ``thin`` by source, means over the draws; ``best``, the source with the
    lowest WAPE among those that do not know the truth; ``standard_error_of_best``; ``behind``, the
    flagship's WAPE minus the lowest, with ``paired_standard_error`` over advertisers; ``closed``,
    the share of the distance from "own" to "true+pooled" that the flagship closes for thin
    advertisers, or None where there is no distance.
    """

    def each(name: str, kind: str) -> list[float]:
        return [draw[target][name][kind] for draw in draws]

    wape, thin = (
        {name: float(np.mean(each(name, kind))) for name in draws[0][target]}
        for kind in ("wape", "thin")
    )
    best = min((name for name in wape if not name.startswith("true")), key=wape.__getitem__)
    # draws are independent: the standard error of their mean is √(Σ se²) / draws
    error, paired = (
        float(np.linalg.norm(each(best, kind)) / len(draws))
        for kind in ("standard_error", "paired_error")
    )
    distance = thin["own"] - thin["true+pooled"]
    return {
        "wape": wape,
        "best": best,
        "behind": wape[FLAGSHIP] - wape[best],
        "standard_error_of_best": error,
        "paired_standard_error": paired,
        "thin": thin,
        "closed": (thin["own"] - thin[FLAGSHIP]) / distance if distance > 0 else None,
    }


def _table(cells: Sequence[Mapping[str, Any]], target: str, kind: str) -> Table:
    """Return the WAPE of all advertisers, with the lowest in bold, or of thin ones."""
    rows, bold = [], set()
    for r, cell in enumerate(cells):
        found = cell["summary"][target]
        row = [f"{cell[name]:g}" for name in _KINDS]
        row += [f"{100 * found[kind][source]:.2f}" for source in _SOURCES]
        if kind == "thin":
            row.append(figure_text(found["closed"], ".0%"))
        else:
            row += [_behind(found), f"{100 * found['standard_error_of_best']:.2f}"]
            if found["best"] in _SOURCES:
                bold.add((r, len(_KINDS) + list(_SOURCES).index(found["best"])))
        rows.append(row)
    further = ["closed"] if kind == "thin" else ["behind the lowest", "its error"]
    who = f"advertisers with {THIN}" if kind == "thin" else "all advertisers"
    headings = [*_KINDS.values(), *_SOURCES, *further]
    return Table(f"{target.capitalize()}, {who}: WAPE in %", headings, rows, len(_KINDS), bold)


def _behind(summary: Mapping[str, Any]) -> str:
    return f"{100 * summary['behind']:.2f} ± {100 * summary['paired_standard_error']:.2f}"


def _note(cells: Sequence[Mapping[str, Any]], target: str) -> str:
    summaries = [cell["summary"][target] for cell in cells]
    lowest = sum(s["best"] == FLAGSHIP for s in summaries)
    near = sum(s["behind"] <= s["paired_standard_error"] for s in summaries)
    worst = max(summaries, key=lambda s: s["behind"])
    return (
        f"{target.capitalize()}: {FLAGSHIP} has the lowest WAPE in {lowest} of {len(cells)} cells "
        f"and is within one standard error of the paired difference in {near}. The largest "
        f"difference is {_behind(worst)} points, to {worst['best']}."
    )


def _plot(cells: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the WAPE of thin advertisers: cells from top to bottom, sources by colour."""
    panels = {
        f"{target}, advertisers with {THIN}": [
            Marks(name, *style, [100 * cell["summary"][target]["thin"][name] for cell in cells])
            for name, style in _SOURCES.items()
            if style is not None
        ]
        for target in TARGETS
    }
    names = [
        f"{c['bids_per_day']:g} bids, move {c['bid_move']:g}, text error {c['text_error']:g}, "
        f"outliers {c['outliers']:g}"
        for c in cells
    ]
    return dot_plot(names, panels, "WAPE, %", width=10, row_height=0.3, ncols=7)
