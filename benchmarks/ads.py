"""Forecast error and coverage over a grid of simulated markets, second and first price.

In every cell the market is drawn several times. Each draw is simulated to files, read back by the
engine, and evaluated on its last day: by the model that would be saved, by every other source of
curves, and by the planted curves, which no source knows. The model is also asked about one constant
bid on the day after its log and on the week after it, and the planted market says what that would
have won and cost. Nothing is tuned per cell.
"""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import FORECASTS, Context
from benchmarks.results import Marks, Result, Table, dot_plot, figure_text
from benchmarks.true_curves import day_shifts, draw_outcomes, true_win_rates
from coterie.ads import (
    BidHistograms,
    MarketSettings,
    evaluate,
    open_logs,
    read_descriptions,
    read_histograms,
    simulate_logs,
)
from coterie.ads.evaluation.evaluation import DEFAULT, STRATA, Evaluation, strata_of
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.forecast_figures import COLUMNS
from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.ads.logs.simulation.simulated_traits import Traits, draw_traits
from coterie.errors import CoterieWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TARGETS = ("impressions", "spend")
_AUCTIONS = ("second", "first")
#: The planted curves, at the mean price level of the training days.
TRUE = "true"
#: Sources in the order of the tables, with colour and marker of those that are drawn.
_SOURCES = {
    "own": ("grey", "x"),
    "global": None,
    "text+pooled": None,
    "win+pooled": None,
    "cost+pooled": None,
    "l2+pooled": None,
    "robust+pooled": ("orange", "s"),
    "lognormal": ("green", "^"),
    "boosting": ("purple", "v"),
    DEFAULT: ("blue", "o"),
    TRUE: ("black", "|"),
}
#: Kinds of markets. Bids of all but one move on the held-out day.
KINDS: dict[str, dict[str, Any]] = {
    "base": {},
    "thin, far moves": {"bids_per_day": 12, "bid_move": 0.8},
    "same bids": {"bid_move": 0.0},
    "many bids": {"bids_per_day": 150, "text_error": 0.4, "outliers": 0.2},
    "outliers": {"outliers": 0.35, "within_segment": 0.15, "text_error": 0.4},
    "four weeks": {"days": 28, "bids_per_day": 12, "weekday_effect": 2.0},
    "floors": {"common_floors": 0.5},
    "price rise": {"days": 15, "bids_per_day": 20, "price_rise": 0.26},
    "own weekdays, young": {"days": 22, "bids_per_day": 20, "own_weekdays": 0.3, "young": 0.5},
    "charged prices": {"markup": 0.1, "price_noise": 0.2},
}
#: Constant bids, in units of the mean bid, and how many days they are kept.
MULTIPLES, HORIZONS = (0.4, 1.0, 2.5, 5.0), (1, 7)
#: Days since an advertiser's first: name, from, to (exclusive).
_SEEN = (("1 day seen", 1, 2), ("2–6", 2, 7), ("7–13", 7, 14), ("14 and more", 14, np.inf))

MEASURES = (*FORECASTS, "ads/evaluation")
FIGURES = {
    "cells": lambda data: str(len(data["cells"])),
    "lowest impressions": lambda data: str(_n_lowest(data["cells"], "impressions")),
    "lowest spend": lambda data: str(_n_lowest(data["cells"], "spend")),
}


def run(context: Context, *, draws: int = 4, advertisers: int = 1268, jobs: int = 2) -> Result:
    """Evaluate every draw of every cell; a quick run has one draw of one cell.

    Draw d is seeded with d.
    """
    kinds = {"base": KINDS["base"]} if context.quick else KINDS
    n_draws = 1 if context.quick else draws
    kept = context.trials("ads")
    # in first price winners pay their bids
    grid = [
        (auction, kind)
        for auction in _AUCTIONS
        for kind in kinds
        if auction == "second" or "markup" not in kinds[kind]
    ]
    markets = [
        {**kinds[kind], "auction": auction, "advertisers": advertisers, "draw": draw}
        for auction, kind in grid
        for draw in range(n_draws)
    ]
    track = partial(context.track, title="simulating and forecasting")
    outcomes = kept.run_all(markets, run_draw, jobs, track)
    cells: list[dict[str, Any]] = []
    for place, (auction, kind) in enumerate(grid):
        found = outcomes[place * n_draws : (place + 1) * n_draws]
        summary = {target: summarise_cell(found, target) for target in TARGETS}
        draws_of_cell = [{target: draw[target] for target in TARGETS} for draw in found]
        cells.append(
            {
                "auction": auction,
                "kind": kind,
                "draws": draws_of_cell,
                "coverage": _summed(found, "coverage"),
                "constant": _summed(found, "constant"),
                "summary": summary,
            }
        )
    tables = [_table(cells, target) for target in TARGETS]
    tables += [_coverage_table(cells), _level_table(cells), _constant_table(cells)]
    notes = [note for target in TARGETS for note in _notes(cells, target)]
    return Result("ads", tables, {"cells": cells}, notes, {"": partial(_plot, cells)})


def run_draw(market: Mapping[str, Any]) -> dict[str, Any]:
    """Simulate one market, and evaluate every source on its last day.

    Return by target and source ``wape``, ``bias``, ``thin`` (the WAPE of thin advertisers) and
    ``paired_error``, the standard error of the difference from the default; ``coverage``, rows of
    target, supply, level, stratum, advertisers and covered ones; and ``constant``, those of
    :func:`constant_bids`.
    """
    settings = settings_of(market)
    histograms, texts, traits, rows = simulate(settings)
    level = day_shifts(settings, traits)[:-1].mean(axis=0)
    true = true_win_rates(settings, traits, level, histograms.edges)[rows]
    with warnings.catch_warnings():
        # a planted rise of prices is noticed
        warnings.simplefilter("ignore", CoterieWarning)
        found = evaluate(histograms, texts, known_curves={TRUE: true})
    thin = strata_of(found.observations)["10–199 bids"] & (found.bids > 0)

    def errors(name: str, target: str) -> dict[str, Any]:
        everyone = found.measures(name, target)
        return {
            "wape": everyone.wape,
            "bias": everyone.bias,
            "thin": found.measures(name, target, thin).wape,
            "paired_error": found.difference(DEFAULT, name, target).standard_error,
        }

    return {
        **{t: {name: errors(name, t) for name in found.forecasts} for t in TARGETS},
        "coverage": _coverages(found),
        "constant": constant_bids(found.model, settings, traits),
    }


def settings_of(market: Mapping[str, Any]) -> MarketSettings:
    """Return the settings of a market; its "draw" is the seed."""
    settings = dict(market)
    return MarketSettings(seed=settings.pop("draw"), **settings)


def constant_bids(
    model: AdForecaster, settings: MarketSettings, traits: Traits
) -> list[dict[str, Any]]:
    """Ask about one bid of each advertiser on the days after the log of a model.

    Return how many 90% intervals contain what the market does, by horizon, supply, days since the
    advertiser's first, multiple of its mean bid, and target.
    """
    tables = tables_of(model)
    who = np.array([int(name.removeprefix("adv-")) for name in model.advertisers_.tolist()])
    rows, n_days = np.flatnonzero(model.bid_ > 0), len(model.days_)
    bids = np.zeros((len(traits.volume), len(MULTIPLES)))
    bids[who] = model.bid_[:, None] / 1e6 * np.array(MULTIPLES)
    auctions, outcomes = draw_outcomes(
        settings, traits, range(n_days, n_days + max(HORIZONS)), bids
    )
    auctions, outcomes, bids = auctions[who], outcomes[:, who], bids[who]
    seen = np.where(traits.newcomer[who], 1, n_days - traits.first_day[who])
    first, found = (model.days_[-1] + 1).item(), []
    for horizon, given in product(HORIZONS, (True, False)):
        days = tables.days(first, horizon)
        known = auctions[:, :horizon].sum(axis=1)
        asked = rows[known[rows] > 0] if given else rows
        supply = known[asked] if given else tables.auctions(asked, days)
        for b, multiple in enumerate(MULTIPLES):
            figures = tables.at(
                asked, bids[asked, b], supply, [days] * len(asked), np.full(len(asked), given)
            )
            for target, actual in zip(TARGETS, outcomes[:, asked, b, :horizon], strict=True):
                column, truth = COLUMNS[target], actual.sum(axis=1)
                slack = 1e-9 * (1 + truth)  # sums of prices round
                low, high = figures[:, column + 1] - slack, figures[:, column + 2] + slack
                inside = (low <= truth) & (truth <= high)
                for name, least, most in _SEEN:
                    some = (seen[asked] >= least) & (seen[asked] < most)
                    found.append(
                        {
                            "horizon": "a week" if horizon > 1 else "one day",
                            "supply": "given" if given else "forecast",
                            "seen": name,
                            "multiple": multiple,
                            "target": target,
                            "advertisers": int(some.sum()),
                            "covered": int(inside[some].sum()),
                        }
                    )
    return found


def simulate(
    settings: MarketSettings,
) -> tuple[BidHistograms, dict[str, str], Traits, NDArray[np.int64]]:
    """Simulate a market to files and read it back.

    Return its histograms and texts, the planted traits, and the row in the traits of each
    advertiser of the histograms.
    """
    with tempfile.TemporaryDirectory(prefix="coterie-market-") as folder:
        simulated = simulate_logs(settings, Path(folder) / "market")
        logs = open_logs(simulated.folder)
        histograms, texts = read_histograms(logs), read_descriptions(logs)
    rows = np.array([int(name.removeprefix("adv-")) for name in histograms.advertisers.tolist()])
    return histograms, texts, draw_traits(settings), rows


def summarise_cell(draws: Sequence[Mapping[str, Any]], target: str) -> dict[str, Any]:
    """Summarise the draws of one cell.

    Return ``wape``, ``bias`` and ``thin`` by source, means over the draws; ``best``, the source
    with the lowest WAPE except for the default and the truth; ``ahead``, its WAPE minus that of
    the default, with ``paired_standard_error`` over advertisers; ``closed``, the share of the
    distance from "own" to the planted curves that the default closes.
    """

    def each(name: str, kind: str) -> list[float]:
        return [draw[target][name][kind] for draw in draws]

    wape, bias, thin = (
        {name: float(np.mean(each(name, kind))) for name in draws[0][target]}
        for kind in ("wape", "bias", "thin")
    )
    best = min((name for name in wape if name not in {TRUE, DEFAULT}), key=wape.__getitem__)
    distance = wape["own"] - wape[TRUE]
    return {
        "wape": wape,
        "bias": bias,
        "thin": thin,
        "best": best,
        "ahead": wape[best] - wape[DEFAULT],
        # draws are independent: the standard error of their mean is √(Σ se²) / draws
        "paired_standard_error": float(np.linalg.norm(each(best, "paired_error")) / len(draws)),
        "closed": (wape["own"] - wape[DEFAULT]) / distance if distance > 0 else None,
    }


def _coverages(found: Evaluation) -> list[dict[str, Any]]:
    seen = (found.observations > 0) & (found.bids > 0)
    groups = {name: rows & seen for name, rows in strata_of(found.observations).items()}
    return [
        {
            "target": target,
            "supply": interval.supply,
            "level": interval.level,
            "stratum": name,
            "advertisers": int(rows.sum()),
            "covered": round((found.coverage(interval, target, rows) or 0.0) * int(rows.sum())),
        }
        for interval in found.intervals
        for target in ("impressions", "spend", "clicks", "conversions")
        for name, rows in groups.items()
        if rows.any()
    ]


def _summed(draws: Sequence[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Add up advertisers and covered ones over the draws of a cell, by all else that rows say."""
    sums: dict[tuple[tuple[str, Any], ...], Counter[str]] = {}
    counts = ("advertisers", "covered")
    for row in (row for draw in draws for row in draw[kind]):
        key = tuple((name, value) for name, value in row.items() if name not in counts)
        sums.setdefault(key, Counter()).update({name: row[name] for name in counts})
    return [{**dict(key), **{n: total[n] for n in counts}} for key, total in sums.items()]


def _share(
    cells: Sequence[Mapping[str, Any]], kind: str = "coverage", /, **wanted: Any
) -> float | None:
    """Return the share of advertisers whose value was inside, over all draws of some cells."""
    rows = [row for cell in cells for row in cell[kind] if wanted.items() <= row.items()]
    n = sum(row["advertisers"] for row in rows)
    return sum(row["covered"] for row in rows) / n if n else None


def _table(cells: Sequence[Mapping[str, Any]], target: str) -> Table:
    """Return WAPE and bias of every source; the lowest WAPE, but for the truth, is bold."""
    rows, bold = [], set()
    for r, cell in enumerate(cells):
        found = cell["summary"][target]
        texts = [f"{100 * found['wape'][s]:.2f} ({100 * found['bias'][s]:+.1f})" for s in _SOURCES]
        best = min((s for s in _SOURCES if s != TRUE), key=found["wape"].__getitem__)
        bold.add((r, 2 + list(_SOURCES).index(best)))
        ahead = f"{100 * found['ahead']:.2f} ± {100 * found['paired_standard_error']:.2f}"
        closed = figure_text(found["closed"], ".0%")
        rows.append([cell["auction"], cell["kind"], *texts, found["best"], ahead, closed])
    means = {
        s: float(np.mean([cell["summary"][target]["wape"][s] for cell in cells])) for s in _SOURCES
    }
    rows.append(["mean", "", *(f"{100 * means[s]:.2f}" for s in _SOURCES), "", "", ""])
    headings = ["auction", "market", *_SOURCES, "next best", "ahead of it", "closed"]
    title = f"{target.capitalize()}: WAPE and, in brackets, bias in %"
    return Table(title, headings, rows, 2, bold)


def _coverage_table(cells: Sequence[Mapping[str, Any]]) -> Table:
    """Return the coverage of 90% intervals by stratum, over all cells."""
    strata = [name for name, *_ in STRATA[1:]]
    rows = []
    for supply in ("given", "forecast"):
        for target in ("impressions", "spend", "clicks", "conversions"):
            wanted = {"level": 0.9, "supply": supply, "target": target}
            shares = [_share(cells, **wanted)]
            shares += [_share(cells, **wanted, stratum=name) for name in strata]
            rows.append([supply, target, *(figure_text(share, ".1%") for share in shares)])
    headings = ["supply", "target", "all", *strata]
    return Table("Coverage of 90% intervals, by bids before", headings, rows, 2)


def _level_table(cells: Sequence[Mapping[str, Any]]) -> Table:
    """Return the coverage of intervals of every level in every cell, of impressions and spend."""
    rows = []
    for cell in cells:
        row = [cell["auction"], cell["kind"]]
        for supply in ("given", "forecast"):
            for target in TARGETS:
                shares = [
                    _share([cell], supply=supply, target=target, level=level)
                    for level in (0.5, 0.8, 0.9, 0.95)
                ]
                row.append(" / ".join(figure_text(share, ".0%") for share in shares))
        rows.append(row)
    headings = ["auction", "market"]
    headings += [
        f"{target}, supply {supply}" for supply in ("given", "forecast") for target in TARGETS
    ]
    return Table("Coverage of 50 / 80 / 90 / 95% intervals", headings, rows, 2)


def _constant_table(cells: Sequence[Mapping[str, Any]]) -> Table:
    """Return the coverage of 90% intervals at constant bids, by stratum, over all cells."""
    strata: list[tuple[str, dict[str, Any]]] = [("all", {})]
    for name in ("horizon", "supply", "seen", "multiple"):
        values = dict.fromkeys(row[name] for cell in cells for row in cell["constant"])
        strata += [(f"{v:g} × bid" if name == "multiple" else v, {name: v}) for v in values]
    chosen = {auction: [c for c in cells if c["auction"] == auction] for auction in _AUCTIONS}
    rows = []
    for stratum, wanted in strata:
        row = [stratum]
        for target, some in product(TARGETS, (cells, *chosen.values())):
            share = _share(some, "constant", **{"target": target, **wanted})
            row.append(figure_text(share, ".1%"))
        rows.append(row)
    headings = ["stratum"]
    headings += [f"{t}, {name}" for t in TARGETS for name in ("all", *chosen)]
    return Table("Coverage of 90% intervals at constant bids after the log", headings, rows, 1)


def _n_lowest(cells: Sequence[Mapping[str, Any]], target: str) -> int:
    """Return in how many cells the default has the lowest WAPE."""
    return sum(cell["summary"][target]["ahead"] > 0 for cell in cells)


def _notes(cells: Sequence[Mapping[str, Any]], target: str) -> list[str]:
    summaries = [cell["summary"][target] for cell in cells]
    lowest = _n_lowest(cells, target)
    near = sum(s["ahead"] >= -s["paired_standard_error"] for s in summaries)
    usual = [
        cell["summary"][target]["closed"]
        for cell in cells
        if cell["kind"] not in {"four weeks", "price rise"}
    ]
    closed = [share for share in usual if share is not None]
    return [
        f"{target.capitalize()}: {DEFAULT} has the lowest WAPE in {lowest} of {len(cells)} cells "
        f"and is at most one paired standard error behind in {near}.",
        f"{target.capitalize()}: {DEFAULT} closes {figure_text(float(np.mean(closed)), '.0%')} of "
        "the distance from own curves to the planted ones at the level of an average training day, "
        "on average over the cells without a known change of level.",
    ]


def _plot(cells: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the WAPE: cells from top to bottom, sources by colour."""
    panels = {
        target: [
            Marks(name, *style, [100 * cell["summary"][target]["wape"][name] for cell in cells])
            for name, style in _SOURCES.items()
            if style is not None
        ]
        for target in TARGETS
    }
    names = [f"{cell['auction']} price, {cell['kind']}" for cell in cells]
    return dot_plot(names, panels, "WAPE, %", width=10, row_height=0.3, ncols=6)
