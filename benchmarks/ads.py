"""Forecast error over a grid of simulated markets: volume × shift × text error × outliers.

In every cell the market is drawn several times. Each draw is simulated to files, read back by the
engine, and evaluated on its last day by every source, and by the true segments, which no source
knows. Nothing is tuned per cell.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Context
from benchmarks.results import Marks, Result, Table, dot_plot, figure_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from coterie.ads import BidHistograms, MarketSettings

FLAGSHIP = "robust+pooled"
THIN = "10–199 bids"
TARGETS = ("impressions", "spend")
_SHOWN = (
    "own", "global", "text+pooled", "win+pooled", "cost+pooled", "l2+pooled", "robust", FLAGSHIP,
    "true+pooled",
)  # fmt: skip
_STYLES = {
    "own": ("grey", "x"),
    "text+pooled": ("purple", "v"),
    "win+pooled": ("sky", "^"),
    "cost+pooled": ("green", "<"),
    "l2+pooled": ("orange", "s"),
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
    cells = [
        {**dict(zip(_KINDS, values, strict=True)), "auction": "second", "draws": []}
        for values in grid
    ]  # type: list[dict[str, Any]]
    tasks = list(itertools.product(cells, range(n_draws)))
    for cell, draw in context.track(tasks, "simulating and forecasting"):
        market = {name: cell[name] for name in (*_KINDS, "auction")} | {"advertisers": advertisers}
        found = kept.find_or_run({**market, "draw": draw}, partial(run_draw, market, draw))
        cell["draws"].append(found)
    return _result({"cells": cells})


def run_draw(market: Mapping[str, Any], draw: int) -> dict[str, Any]:
    """Simulate one market, and evaluate every source on its last day.

    Return ``wape`` and ``standard_error`` by source and target, ``thin`` (the WAPE of thin
    advertisers), ``against`` (the flagship's WAPE minus that of each source, with standard error),
    ``coverage``, ``chosen`` and ``thin_advertisers``.
    """
    from coterie.ads import MarketSettings, evaluate

    histograms, texts, labels, alone = simulate(MarketSettings(seed=draw, **market))
    # each outlier is a separate segment
    labels[alone] = labels.max(initial=-1) + 1 + np.arange(alone.sum())
    found = evaluate(histograms, texts, true_segments=labels).as_dict()
    thin = next(stratum for stratum in found["strata"] if stratum["name"] == THIN)

    def by_source(sources: dict[str, Any], figure: str) -> dict[str, dict[str, float]]:
        return {name: {t: errors[t][figure] for t in TARGETS} for name, errors in sources.items()}

    against: dict[str, dict[str, list[float]]] = {target: {} for target in TARGETS}
    for row in found["differences"]:
        if row["target"] in TARGETS:
            against[row["target"]][row["b"]] = [row["difference"], row["standard_error"]]
    return {
        "wape": by_source(found["sources"], "wape"),
        "standard_error": by_source(found["sources"], "wape_standard_error"),
        "thin": by_source(thin["sources"], "wape"),
        "against": against,
        "coverage": found["sources"][FLAGSHIP]["impressions"]["coverage"],
        "chosen": found["chosen"][FLAGSHIP],
        "thin_advertisers": thin["advertisers"],
    }


def simulate(
    settings: MarketSettings,
) -> tuple[BidHistograms, Any, NDArray[np.int64], NDArray[np.bool_]]:
    """Simulate a market to files and read it back.

    Return its histograms and texts, and for each advertiser the planted segment and whether it is
    an outlier.
    """
    import pyarrow.parquet as pq

    from coterie.ads import open_logs, read_descriptions, read_histograms, simulate_logs

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
    wape, thin = (
        {name: float(np.mean([d[kind][name][target] for d in draws])) for name in draws[0][kind]}
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


def _error_of_mean(errors: Iterable[float]) -> float:
    """Return the standard error of a mean of independent figures, given that of each."""
    each = np.array(list(errors))
    return float(np.linalg.norm(each) / len(each))


def _result(data: dict[str, Any]) -> Result:
    cells = data["cells"]
    for cell in cells:
        cell["summary"] = {target: summarise_cell(cell["draws"], target) for target in TARGETS}
    tables = [_error_table(cells, t) for t in TARGETS] + [_thin_table(cells, t) for t in TARGETS]
    notes = [_note(cells, target) for target in TARGETS]
    return Result("ads", tables, data, notes, {"": partial(_plot, cells)})


def _error_table(cells: Sequence[Mapping[str, Any]], target: str) -> Table:
    rows, bold = [], set()
    for r, cell in enumerate(cells):
        summary = cell["summary"][target]
        error = f"{100 * summary['standard_error_of_best']:.2f}"
        rows.append((*_figures(cell, summary["wape"]), _behind(summary), error))
        if summary["best"] in _SHOWN:
            bold.add((r, 4 + _SHOWN.index(summary["best"])))
    headings = (*_KINDS.values(), *_SHOWN, "behind the lowest", "its error")
    return Table(f"{target.capitalize()}, all advertisers: WAPE in %", headings, rows, 4, bold)


def _thin_table(cells: Sequence[Mapping[str, Any]], target: str) -> Table:
    summaries = [cell["summary"][target] for cell in cells]
    rows = [
        (*_figures(cell, summary["thin"]), figure_text(summary["closed"], ".0%"))
        for cell, summary in zip(cells, summaries, strict=True)
    ]
    headings = (*_KINDS.values(), *_SHOWN, "closed")
    return Table(f"{target.capitalize()}, advertisers with {THIN}: WAPE in %", headings, rows, 4)


def _figures(cell: Mapping[str, Any], errors: Mapping[str, float]) -> list[str]:
    return [f"{cell[kind]:g}" for kind in _KINDS] + [f"{100 * errors[s]:.2f}" for s in _SHOWN]


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
    panels: dict[str, list[Marks]] = {}
    for target in TARGETS:
        panels[f"{target}, advertisers with {THIN}"] = marks = []
        for name, style in _STYLES.items():
            values = [100 * cell["summary"][target]["thin"][name] for cell in cells]
            size = {"markersize": 11 if style[1] == "|" else 5}
            marks.append(Marks(name, *style, values, settings=size))
    names = [
        f"{c['bids_per_day']:g} bids, move {c['bid_move']:g}, text error {c['text_error']:g}, "
        f"outliers {c['outliers']:g}"
        for c in cells
    ]
    return dot_plot(names, panels, "WAPE, %", width=10, row_height=0.3, ncols=7)
