"""When do segments help a forecast? The same model with different groups in its prior.

The market model is fitted to the training days of simulated markets with four kinds of groups:
none (all advertisers together), clusters of the texts, the consensus segments, and the planted
segments. The forecasts of the held-out day are compared by the bids that advertisers made before.
New advertisers, of which nothing is known but a text, get the curve of their group.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.ads import settings_of, simulate
from benchmarks.harness import FORECASTS, Context
from benchmarks.results import Marks, Result, Table, dot_plot, figure_text
from coterie.ads.curves.landscapes import Evidence, evidence_of
from coterie.ads.evaluation.evaluation import measure, strata_of
from coterie.ads.fitting.backtest import training_on
from coterie.ads.fitting.market_fit import fit_market
from coterie.ads.forecasts.forecast_tables import forecast_by_curves, outcome_of, plans_of
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.segments.memberships import (
    consensus_function,
    consensus_labels,
    robust_memberships,
)
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.text_view import TextView, texts_of
from coterie.runtime.devices import on_one_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Labels = NDArray[np.int64]

KINDS: dict[str, dict[str, Any]] = {
    "many bids": {"bids_per_day": 150.0},
    "base": {},
    "few bids": {"bids_per_day": 8.0, "volume_spread": 0.8},
    "few bids, far moves": {"bids_per_day": 8.0, "volume_spread": 0.8, "bid_move": 0.8},
    "few bids, wrong texts": {"bids_per_day": 8.0, "volume_spread": 0.8, "text_error": 0.6},
}
GROUPS = {
    "none": ("grey", "x"),
    "text": ("purple", "v"),
    "consensus": ("blue", "o"),
    "planted": ("black", "|"),
}
STRATA = ("new", "10–199 bids", "200–1,999 bids", "all")
#: Of the dictionary's curves; a middle value, so that only the groups differ.
_STRENGTH = 100.0
_SEGMENTS = 10

MEASURES = (*FORECASTS, "ads/evaluation")


def run(context: Context, *, draws: int = 4, advertisers: int = 1268, jobs: int = 2) -> Result:
    """Measure every kind of market, second and first price; a quick run has one of each."""
    kinds = {"few bids": KINDS["few bids"]} if context.quick else KINDS
    n_draws = 1 if context.quick else draws
    kept = context.trials("ads_segments")
    grid = [(auction, kind) for auction in ("second", "first") for kind in kinds]
    shared = {"advertisers": advertisers, "newcomers": 0.1}
    markets = [
        {**kinds[kind], "auction": auction, **shared, "draw": draw}
        for auction, kind in grid
        for draw in range(n_draws)
    ]
    track = partial(context.track, title="fitting with and without segments")
    outcomes = kept.run_all(markets, run_draw, jobs, track)
    cells = [
        {
            "auction": auction,
            "kind": kind,
            "wape": _means(outcomes[place * n_draws : (place + 1) * n_draws]),
        }
        for place, (auction, kind) in enumerate(grid)
    ]
    tables = [_table(cells, target) for target in ("impressions", "spend")]
    return Result("ads_segments", tables, {"cells": cells}, [], {"": partial(_plot, cells)})


@on_one_thread()
def run_draw(market: dict[str, Any]) -> dict[str, Any]:
    """Return the WAPE of impressions and spend by group and stratum."""
    settings = settings_of(market)
    histograms, texts, traits, rows = simulate(settings)
    held = [len(histograms.days) - 1]
    train = list(range(held[0]))
    evidence = evidence_of(histograms, train)
    plans, truth = plans_of(histograms, held), outcome_of(histograms, held)
    active = histograms.daily("count")[:, held].sum(axis=1) > 0
    strata = {name: mask & active for name, mask in strata_of(evidence.observations).items()}
    strata["all"] = active & (evidence.observations > 0)
    found: dict[str, Any] = {}
    for name, labels in _groups(histograms, train, texts, evidence, traits.segment[rows]).items():
        curves = _curves(histograms, train, labels, evidence)
        pair = forecast_by_curves(curves, evidence, plans)
        found[name] = {
            target: {
                stratum: measure(value[strata[stratum]], actual[strata[stratum]]).wape
                for stratum in STRATA
            }
            for target, value, actual in zip(
                ("impressions", "spend"), pair, (truth.impressions, truth.spend), strict=True
            )
        }
    return found


def _groups(
    histograms: BidHistograms,
    train: list[int],
    texts: dict[str, str],
    evidence: Evidence,
    planted: Labels,
) -> dict[str, Labels]:
    """Return the labels of every kind of group; new advertisers are placed by their texts."""
    about = texts_of(histograms.advertisers, texts)
    vectors = TextView().fit(about).transform(about)
    settings = SegmentSettings(n_segments=_SEGMENTS)
    training = training_on(histograms, train, vectors, settings)
    views = training.informative_views
    function = consensus_function(None, _SEGMENTS)
    labels, _ = consensus_labels(views, function)
    return {
        "none": np.full(len(planted), -1),
        "text": views["text"].column(k=_SEGMENTS),
        "consensus": robust_memberships(views, evidence, labels, settings.max_observations).labels,
        "planted": planted,
    }


def _curves(
    histograms: BidHistograms, train: list[int], labels: Labels, evidence: Evidence
) -> NDArray[np.float64]:
    """Return win rates (A, G); those of an advertiser without bids are its group's."""
    known = evidence.observations > 0
    groups = np.where(known, labels, -1)
    fit = fit_market(histograms, train, groups, int(labels.max(initial=-1)) + 1)
    curves = fit.curves(_STRENGTH)[0].astype(np.float64)
    curves[~known] = fit.segment_curves()[0][labels[~known]]
    return curves


def _means(draws: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: {
            target: {
                stratum: float(np.mean([draw[name][target][stratum] or np.nan for draw in draws]))
                for stratum in STRATA
            }
            for target in ("impressions", "spend")
        }
        for name in GROUPS
    }


def _table(cells: list[dict[str, Any]], target: str) -> Table:
    rows = []
    for cell in cells:
        for stratum in STRATA:
            wapes = [cell["wape"][name][target][stratum] for name in GROUPS]
            if not np.isnan(wapes).any():
                texts = [figure_text(100 * wape, ".2f") for wape in wapes]
                rows.append([cell["auction"], cell["kind"], stratum, *texts])
    headings = ["auction", "market", "bids before", *GROUPS]
    return Table(f"{target.capitalize()}: WAPE in % by groups of the prior", headings, rows, 3)


def _plot(cells: list[dict[str, Any]]) -> Figure:
    """Draw the WAPE of new and of thin advertisers, and of all."""
    panels = {
        f"impressions, {stratum}": [
            Marks(name, *style, [100 * c["wape"][name]["impressions"][stratum] for c in cells])
            for name, style in GROUPS.items()
        ]
        for stratum in ("new", "10–199 bids", "all")
    }
    names = [f"{cell['auction']} price, {cell['kind']}" for cell in cells]
    return dot_plot(names, panels, "WAPE, %", width=11, row_height=0.3, ncols=4)
