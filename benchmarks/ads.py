"""Forecast error over a grid of simulated markets: volume × shift × text error × outliers.

In every cell the market is drawn several times. Each draw is simulated to files, read back by the
engine, and evaluated on its last day by every source, and by the true segments, which no source
knows. Nothing is tuned per cell.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Context
from benchmarks.results import OKABE_ITO, Result, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FULL_GRID", "QUICK_GRID", "GridCell", "run", "run_draw", "summarise_cell"]

FLAGSHIP = "robust+pooled"
THIN = "10–199 bids"
TARGETS = ("impressions", "spend")
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
_STYLES = {
    "own": ("grey", "x"),
    "text+pooled": ("purple", "v"),
    "win+pooled": ("sky", "^"),
    "cost+pooled": ("green", "<"),
    "l2+pooled": ("orange", "s"),
    FLAGSHIP: ("blue", "o"),
    "true+pooled": ("black", "|"),
}


@dataclass(frozen=True)
class GridCell:
    """One kind of market.

    Attributes
    ----------
    bids_per_day : float
        Of the median advertiser.
    bid_move : float
        How far bids move on the held-out day, in the logarithm.
    text_error, outliers : float
        Shares of advertisers.
    auction : {"second", "first"}
    """

    bids_per_day: float
    bid_move: float
    text_error: float
    outliers: float
    auction: str = "second"


FULL_GRID = [
    GridCell(*values)
    for values in itertools.product((12, 30, 150), (0.0, 0.5), (0.05, 0.4), (0.05, 0.2))
]
QUICK_GRID = [GridCell(30, 0.5, 0.1, 0.05)]


def run(context: Context, *, draws: int = 3, advertisers: int = 1268) -> Result:
    """Evaluate every draw of every cell.

    Parameters
    ----------
    context : Context
        Quick: one cell, one draw.
    draws : int
        Draw d is seeded with d.
    advertisers : int
    """
    grid, n_draws = (QUICK_GRID, 1) if context.quick else (FULL_GRID, draws)
    kept = context.trials("ads")
    found: dict[GridCell, list[dict[str, Any]]] = {cell: [] for cell in grid}
    tasks = list(itertools.product(grid, range(n_draws)))
    for cell, draw in context.track(tasks, "simulating and forecasting"):
        trial = {**asdict(cell), "advertisers": advertisers, "draw": draw}
        found[cell].append(kept.find_or_run(trial, partial(run_draw, cell, draw, advertisers)))
    return _result([{**asdict(cell), "draws": found[cell]} for cell in grid])


def run_draw(cell: GridCell, draw: int, advertisers: int) -> dict[str, Any]:
    """Simulate one market, and evaluate every source on its last day.

    Returns
    -------
    dict
        ``wape`` and ``standard_error`` by source and target, ``thin`` (the WAPE of thin
        advertisers), ``against`` (the flagship's WAPE minus that of each source, with standard
        error), ``coverage``, ``chosen`` and ``thin_advertisers``.
    """
    from coterie.ads import (
        MarketSettings,
        evaluate,
        open_logs,
        read_descriptions,
        read_histograms,
        simulate_logs,
    )

    settings = MarketSettings(advertisers=advertisers, seed=draw, **asdict(cell))
    with tempfile.TemporaryDirectory() as folder:
        simulated = simulate_logs(settings, Path(folder) / "market")
        logs = open_logs(simulated.folder)
        histograms, texts = read_histograms(logs), read_descriptions(logs)
        truth = true_segments(simulated.truth, histograms.advertisers)
    found = evaluate(histograms, texts, true_segments=truth).as_dict()
    thin = next(stratum for stratum in found["strata"] if stratum["name"] == THIN)

    def by_source(sources: dict[str, Any], figure: str) -> dict[str, dict[str, float]]:
        return {
            name: {target: errors[target][figure] for target in TARGETS}
            for name, errors in sources.items()
        }

    return {
        "wape": by_source(found["sources"], "wape"),
        "standard_error": by_source(found["sources"], "wape_standard_error"),
        "thin": by_source(thin["sources"], "wape"),
        "against": {
            target: {
                row["b"]: [row["difference"], row["standard_error"]]
                for row in found["differences"]
                if row["target"] == target
            }
            for target in TARGETS
        },
        "coverage": found["sources"][FLAGSHIP]["impressions"]["coverage"],
        "chosen": found["chosen"][FLAGSHIP],
        "thin_advertisers": thin["advertisers"],
    }


def true_segments(path: Path, advertisers: NDArray[np.str_]) -> NDArray[np.int64]:
    """Return the planted segments in the order of the advertisers; each outlier is alone."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=["advertiser_id", "segment", "outlier"]).to_pydict()
    planted = dict(
        zip(
            table["advertiser_id"],
            zip(table["segment"], table["outlier"], strict=True),
            strict=True,
        )
    )
    labels = np.array([planted[str(name)][0] for name in advertisers], dtype=np.int64)
    alone = np.array([planted[str(name)][1] for name in advertisers], dtype=bool)
    labels[alone] = labels.max(initial=-1) + 1 + np.arange(alone.sum())
    return labels


def summarise_cell(draws: Sequence[dict[str, Any]], target: str) -> dict[str, Any]:
    """Summarise the draws of one cell.

    Returns
    -------
    dict
        ``wape`` and ``thin`` by source, means over the draws; ``best``, the source with the lowest
        WAPE among those that do not know the truth; ``standard_error_of_best``; ``behind``, the
        flagship's WAPE minus the lowest, with ``paired_standard_error`` over advertisers;
        ``closed``, the share of the distance from "own" to "true+pooled" that the flagship closes
        for thin advertisers, or None where there is no distance.
    """
    wape, thin = (
        {
            name: float(np.mean([draw[kind][name][target] for draw in draws]))
            for name in draws[0][kind]
        }
        for kind in ("wape", "thin")
    )
    rivals = {name: value for name, value in wape.items() if not name.startswith("true")}
    best = min(rivals, key=lambda name: (rivals[name], name))
    paired = 0.0
    if best != FLAGSHIP:
        paired = _error_of_mean(draw["against"][target][best][1] for draw in draws)
    distance = thin["own"] - thin["true+pooled"]
    return {
        "wape": wape,
        "best": best,
        "behind": wape[FLAGSHIP] - wape[best],
        "standard_error_of_best": _error_of_mean(d["standard_error"][best][target] for d in draws),
        "paired_standard_error": paired,
        "thin": thin,
        "closed": (thin["own"] - thin[FLAGSHIP]) / distance if distance > 0 else None,
    }


def _result(cells: list[dict[str, Any]]) -> Result:
    for cell in cells:
        cell["summary"] = {target: summarise_cell(cell["draws"], target) for target in TARGETS}
    tables = [_error_table(cells, t) for t in TARGETS] + [_thin_table(cells, t) for t in TARGETS]
    notes = [_note(cells, target) for target in TARGETS]
    return Result("ads", tables, {"cells": cells}, notes, {"": lambda: _plot(cells)})


def _error_of_mean(errors: Iterable[float]) -> float:
    """Return the standard error of a mean of independent figures, given that of each."""
    each = np.array(list(errors))
    return float(np.sqrt(np.sum(each**2)) / len(each))


def _error_table(cells: Sequence[dict[str, Any]], target: str) -> Table:
    rows, bold = [], set()
    for r, cell in enumerate(cells):
        summary = cell["summary"][target]
        behind = f"{100 * summary['behind']:.2f} ± {100 * summary['paired_standard_error']:.2f}"
        error = f"{100 * summary['standard_error_of_best']:.2f}"
        rows.append((*_figures(cell, summary["wape"]), behind, error))
        if summary["best"] in _SHOWN:
            bold.add((r, 4 + _SHOWN.index(summary["best"])))
    headings = ("bids", "move", "text", "outliers", *_SHOWN, "behind the lowest", "its error")
    return Table(f"{target.capitalize()}, all advertisers: WAPE in %", headings, rows, 4, bold)


def _thin_table(cells: Sequence[dict[str, Any]], target: str) -> Table:
    rows = []
    for cell in cells:
        summary = cell["summary"][target]
        closed = "–" if summary["closed"] is None else f"{summary['closed']:.0%}"
        rows.append((*_figures(cell, summary["thin"]), closed))
    headings = ("bids", "move", "text", "outliers", *_SHOWN, "closed")
    return Table(f"{target.capitalize()}, advertisers with {THIN}: WAPE in %", headings, rows, 4)


def _figures(cell: dict[str, Any], errors: dict[str, float]) -> tuple[str, ...]:
    kinds = (f"{cell[n]:g}" for n in ("bids_per_day", "bid_move", "text_error", "outliers"))
    return (*kinds, *(f"{100 * errors[name]:.2f}" for name in _SHOWN))


def _note(cells: Sequence[dict[str, Any]], target: str) -> str:
    summaries = [cell["summary"][target] for cell in cells]
    lowest = sum(s["best"] == FLAGSHIP for s in summaries)
    near = sum(s["behind"] <= s["paired_standard_error"] for s in summaries)
    worst = max(summaries, key=lambda s: s["behind"])
    behind = f"{100 * worst['behind']:.2f} ± {100 * worst['paired_standard_error']:.2f}"
    return (
        f"{target.capitalize()}: {FLAGSHIP} has the lowest WAPE in {lowest} of {len(cells)} cells "
        f"and is within one standard error of the paired difference in {near}. The largest "
        f"difference is {behind} points, to {worst['best']}."
    )


def _plot(cells: Sequence[dict[str, Any]]) -> Figure:
    """Draw the WAPE of thin advertisers: cells from top to bottom, sources by colour."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.6 + 0.3 * len(cells)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    places = range(len(cells))
    for axes, target in zip(panels, TARGETS, strict=True):
        for place in places[::2]:
            axes.axhspan(place - 0.5, place + 0.5, color="#f4f4f4", zorder=0)
        for name, (colour, marker) in _STYLES.items():
            values = [100 * cell["summary"][target]["thin"][name] for cell in cells]
            style = {
                "color": OKABE_ITO.get(colour, colour),
                "markersize": 11 if marker == "|" else 5,
            }
            axes.plot(values, list(places), marker, label=name, **style)
        axes.set_title(f"{target}, advertisers with {THIN}", fontsize=9, loc="left")
        axes.set_xlabel("WAPE, %")
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.tick_params(length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
    names = [
        f"{c['bids_per_day']:g} bids, move {c['bid_move']:g}, text error {c['text_error']:g}, "
        f"outliers {c['outliers']:g}"
        for c in cells
    ]
    panels[0].set_yticks(places, names, fontsize=8)
    panels[0].set_ylim(len(cells) - 0.5, -0.5)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=7, frameon=False, fontsize=8.5)
    return figure
