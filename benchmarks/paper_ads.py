"""The paper's tables 4 to 7: views, their agreement, and forecast errors by feature type.

The paper's logs are private, so its protocol is run on simulated markets as large as its market
(1,268 advertisers, a week), and on markets with the real prices of iPinYou. The last day is held
out; numbers of segments, levels of the test and strengths of pooling are chosen by forecasts of the
two days before it. Every source of curves is used *alone*, as in the paper, and *pooled* with each
advertiser's own auctions. A consensus is also used after its members *moved* to the segments that
their own auctions and texts fit, as coterie does it.

============  =====================================================================================
text          clusters of the texts
win, cost     the paper's graphs of Kolmogorov–Smirnov tests, clustered by normalised cuts
l2            the least-squares consensus of the partitions of these three views
rcc           the paper's consensus of them: ℓ1 by ADMM, equal weights
own, global   the advertiser's own curve, and one curve for all; not in the paper
robust        the source of that name in coterie: another consensus, of four views, and moved
dictionary    what coterie serves
============  =====================================================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial, reduce
from itertools import product
from operator import getitem
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from benchmarks.ads import simulate
from benchmarks.ads_real.ipinyou_markets import market_rows
from benchmarks.harness import FORECASTS, Context
from benchmarks.results import (
    Marks,
    Result,
    Table,
    add_legend,
    dot_plot,
    figure_text,
    line_plot,
    short_text,
)
from coterie.ads import (
    BidHistograms,
    MarketSettings,
    SegmentSettings,
    evaluate,
    load_ipinyou_histograms,
    open_logs,
    read_histograms,
)
from coterie.ads.curves.landscapes import share_of_cost, share_of_wins
from coterie.ads.curves.shrinkage import pooled_curves
from coterie.ads.evaluation.evaluation import DEFAULT, measure
from coterie.ads.evaluation.paper_tables import PRINTED_AGREEMENT, PRINTED_CLUSTERS, PRINTED_MAPE
from coterie.ads.fitting.backtest import (
    SourceTrial,
    Training,
    choose_sources,
    feasible_settings,
    training_on,
)
from coterie.ads.forecasts.forecast_tables import (
    forecast_by_curves,
    outcome_of,
    plans_of,
)
from coterie.ads.histograms.price_grid import on_price_grid
from coterie.ads.segments.memberships import (
    Candidate,
    consensus_labels,
    hard_memberships,
    robust_memberships,
)
from coterie.ads.segments.segment_profiles import compare_views
from coterie.ads.segments.text_view import TextView, texts_of
from coterie.consensus.registry import consensus_method
from coterie.errors import DatasetUnavailableError
from coterie.runtime.devices import on_one_thread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

TARGETS = ("impressions", "spend")
VIEWS = ("text", "win", "cost")
CONSENSUS = ("l2", "rcc")
#: Sources that are chosen and forecast here, and those of :func:`coterie.ads.evaluate`.
MOVED = tuple(f"{source} moved" for source in CONSENSUS)
OWN_PROTOCOL, OF_EVALUATE = ("own", "global", *VIEWS, *CONSENSUS, *MOVED), ("robust",)
#: Feature types as the tables name them.
_TITLES = {
    "win": "win c.d.f.",
    "cost": "eCPM c.d.f.",
    "text": "text",
    "l2": "ℓ2 consensus",
    "rcc": "robust consensus (RCC)",
    "l2 moved": "ℓ2 consensus, moved",
    "rcc moved": "RCC, moved",
    "own": "own curve",
    "global": "one curve for all",
    "robust": "coterie's source “robust”",
    DEFAULT: "what coterie serves",
}
#: RCC has this name in coterie's own tables.
_PRINTED_AS = {"rcc": "robust"}
#: How a source is used: the end of its name.
_WAYS = {"alone": "", "moved": " moved", "pooled": "+pooled"}
#: Label, source, colour, marker, height in a row and settings of marks.
_HOLLOW, _SMALL = {"mfc": "none"}, {"markersize": 3}
_MARKS: tuple[tuple[str, str, str, str, float, dict[str, Any]], ...] = (
    ("ℓ2 alone", "l2", "orange", "s", -0.24, {}),
    ("ℓ2, moved", "l2 moved", "orange", "s", 0.0, _HOLLOW),
    ("ℓ2, pooled", "l2+pooled", "orange", "s", 0.24, _SMALL),
    ("RCC alone", "rcc", "vermilion", "D", -0.24, {}),
    ("RCC, moved", "rcc moved", "vermilion", "D", 0.0, _HOLLOW),
    ("RCC, pooled", "rcc+pooled", "vermilion", "D", 0.24, _SMALL),
    ("own curve alone", "own", "black", "x", -0.24, {}),
    ("what coterie serves", DEFAULT, "blue", "o", 0.24, {}),
)
#: Without the limit of bids that count, which the paper lacks.
SETTINGS = SegmentSettings(max_observations=None)


class Market(NamedTuple):
    """A kind of market; ``settings`` are those of the simulation, None means prices of iPinYou."""

    name: str
    auction: str
    settings: dict[str, Any] | None


MARKETS = (
    Market("simulated", "second", {}),
    Market("simulated", "first", {}),
    Market("simulated, many outliers", "second", {"outliers": 0.35, "text_error": 0.4}),
    Market("iPinYou prices", "second", None),
    Market("iPinYou prices", "first", None),
)

MEASURES = (*FORECASTS, "ads/evaluation")


def run(context: Context, *, draws: int = 3, advertisers: int = 1268) -> Result:
    """Run the protocol in every market; a quick run has one draw of one, with 300 advertisers.

    Draw d is seeded with d.
    """
    markets = MARKETS[:1] if context.quick else MARKETS
    n_draws, size = (1, min(300, advertisers)) if context.quick else (draws, advertisers)
    kept = context.trials("paper_ads")
    rows, notes = [], []
    for market in context.track(markets, "forecasting by every feature type"):
        size_of = {} if market.settings is None else {"advertisers": size}
        try:
            found = [
                kept.find_or_run(
                    {**market._asdict(), **size_of, "draw": draw},
                    partial(run_draw, market, draw, size, context),
                )
                for draw in range(n_draws)
            ]
        except DatasetUnavailableError as error:
            notes.append(f"{market.name} were not run: {' '.join(str(error).split())}")
            continue
        rows.append({"market": market.name, "auction": market.auction, "draws": found})
    curves = example_curves(size)
    data = {"draws": n_draws, "markets": rows, "curves": curves}
    plots = {"": partial(_plot, data), "curves": partial(_plot_curves, curves)}
    return Result("paper_ads", tables_of(data) if rows else [], data, notes, plots)


@on_one_thread()
def run_draw(market: Market, draw: int, advertisers: int, context: Context) -> dict[str, Any]:
    """Return figures of one market: ``clusters``, ``agreement``, ``errors``, ``rcc_less_l2``."""
    if market.settings is None:
        histograms, texts = _ipinyou_market(market.auction, draw, context)
    else:
        drawn = {**market.settings, "auction": market.auction, "advertisers": advertisers}
        histograms, texts, _, _ = simulate(MarketSettings(seed=draw, **drawn))
    histograms = on_price_grid(histograms)
    ours = evaluate(histograms, texts, sources=OF_EVALUATE)
    n_days = len(histograms.days)
    train, held = list(range(n_days - 1)), [n_days - 1]
    about = texts_of(histograms.advertisers, texts)
    vectors = TextView().fit(about).transform(about)
    settings = feasible_settings(histograms, train, SETTINGS)
    trials = [_trial(histograms, day, vectors, settings) for day in train[-settings.origins :]]
    choices = choose_sources(trials, settings, OWN_PROTOCOL)
    training = training_on(histograms, train, vectors, settings)
    offered = {one.key: one for one in _candidates(training, settings)}
    plans, truth = plans_of(histograms, held), outcome_of(histograms, held)
    forecasts = {}
    for name, choice in choices.items():
        prior = offered[choice.source, choice.settings].memberships.prior
        win = pooled_curves(training.evidence, prior, choice.strength)
        forecasts[name] = dict(
            zip(TARGETS, forecast_by_curves(win, training.evidence, plans), strict=True)
        )
    for name in ("robust", "robust+pooled", DEFAULT):
        forecasts[name] = {target: getattr(ours.forecasts[name], target) for target in TARGETS}
    seen = (training.evidence.observations > 0) & (
        histograms.daily("count")[:, held].sum(axis=1) > 0
    )
    actual = {target: getattr(truth, target)[seen] for target in TARGETS}
    return {
        "advertisers": int(seen.sum()),
        "clusters": _clusters(training),
        "agreement": _agreement(offered["rcc", choices["rcc"].settings], training),
        "chosen": {name: dict(choice.settings) for name, choice in choices.items()},
        "errors": {
            target: {
                name: _errors(one[target][seen], actual[target]) for name, one in forecasts.items()
            }
            for target in TARGETS
        },
        "rcc_less_l2": {
            target: {
                way: _difference(
                    forecasts[f"rcc{end}"][target][seen],
                    forecasts[f"l2{end}"][target][seen],
                    actual[target],
                )
                for way, end in _WAYS.items()
            }
            for target in TARGETS
        },
    }


def example_curves(advertisers: int) -> dict[str, Any]:
    """Return the two c.d.f.s of the two busiest advertisers of three planted segments."""
    settings = MarketSettings(seed=0, advertisers=advertisers)
    histograms, _, traits, rows = simulate(settings)
    counts = on_price_grid(histograms).dense()
    wins = counts.wins.sum(axis=1)
    busiest = np.argsort(-wins, kind="stable")
    segment = traits.segment[rows]
    shown = [row for s in range(3) for row in busiest[segment[busiest] == s][:2].tolist()]
    curves = {"cost": share_of_cost(counts)[shown], "win": share_of_wins(counts)[shown]}
    drawn = np.vstack(list(curves.values()))
    rising = ((drawn > 0.001) & (drawn < 0.999)).any(axis=0)
    return {
        "bids": (counts.edges[rising] / 1e6).tolist(),
        "segments": segment[shown].tolist(),
        **{name: np.round(both[:, rising], 3).tolist() for name, both in curves.items()},
    }


def _ipinyou_market(
    auction: str, draw: int, context: Context
) -> tuple[BidHistograms, dict[str, str]]:
    """Return a market of 270 bidders at the real prices of nine advertisers, and their texts."""
    import ibis

    histograms, industries = load_ipinyou_histograms(context.data)
    names = histograms.advertisers.tolist()
    rows = market_rows(histograms.dense().prices, names, auction, np.random.default_rng(draw))
    logs = open_logs(ibis.memtable(pa.table(rows)), auction=auction)
    texts = {name: industries[name.split("/")[0]] for name in set(rows["advertiser_id"])}
    return read_histograms(logs), texts


def _trial(
    histograms: BidHistograms, day: int, vectors: Floats | None, settings: SegmentSettings
) -> SourceTrial:
    """Fit the candidates to the days before one of the training days."""
    before = list(range(day))
    training = training_on(histograms, before, vectors, settings)
    plans = plans_of(histograms, [day]).of_rows(training.evidence.observations > 0)
    found = list(_candidates(training, settings))
    return SourceTrial(before, training.evidence, found, plans, outcome_of(histograms, [day]))


def _candidates(training: Training, settings: SegmentSettings) -> Iterator[Candidate]:
    """Yield the candidates of the paper's sources: everyone has the curve of its segment."""
    evidence = training.evidence
    views = {name: view for name, view in training.views.items() if name in VIEWS}
    unlabelled = np.full(len(evidence.observations), -1, dtype=np.int64)
    for source in ("own", "global"):
        yield Candidate(source, (), hard_memberships(evidence, unlabelled))
    for source, view in views.items():
        for chosen, labels in zip(view.settings, view.partitions.T, strict=True):
            found = hard_memberships(evidence, labels)
            yield Candidate(source, tuple(sorted(chosen.items())), found)
    for source in CONSENSUS:
        for k in settings.possible_numbers(int((evidence.observations > 0).sum())):
            function = consensus_method(source).make(k, settings.random_state)
            with warnings.catch_warnings():
                # the best iterate of ADMM is used, converged or not
                warnings.simplefilter("ignore", ConvergenceWarning)
                labels, _ = consensus_labels(views, function)
            yield Candidate(source, (("k", k),), hard_memberships(evidence, labels))
            moved = robust_memberships(views, evidence, labels, settings.max_observations)
            yield Candidate(f"{source} moved", (("k", k),), moved)


def _clusters(training: Training) -> list[dict[str, Any]]:
    """Return similar pairs and clusters by view and level of the test."""
    return [
        {"view": view, "p": alpha, "pairs": pairs, "clusters": found.leaders.get(alpha)}
        for view, found in training.views.items()
        for alpha, pairs in found.edges.items()
    ]


def _agreement(consensus: Candidate, training: Training) -> dict[str, Any]:
    """Return how often win rate and cost agree on a pair, with as many clusters as a consensus."""
    views = {name: training.views[name] for name in ("win", "cost")}
    (found,) = [
        pair
        for pair in compare_views(views, consensus.memberships.labels, None).pairs
        if {pair["a"], pair["b"]} == set(views)
    ]
    return {name: found[name] for name in ("tpn", "fpn", "ari")}


def _errors(forecast: Floats, actual: Floats) -> dict[str, float | None]:
    found = measure(forecast, actual)
    return {"mape": found.mape, "wape": found.wape}


def _difference(first: Floats, second: Floats, actual: Floats) -> dict[str, float]:
    """Return MAPE of the first less MAPE of the second, and its standard error."""
    some = actual > 0
    shares = [np.abs(one[some] - actual[some]) / actual[some] for one in (first, second)]
    gap = shares[0] - shares[1]
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    return {"difference": float(gap.mean()), "standard_error": float(error)}


def tables_of(data: Mapping[str, Any]) -> list[Table]:
    """Return the paper's tables 4 to 7, the printed figures first, and the gain of RCC over ℓ2."""
    errors = [error_table(data, target) for target in TARGETS]
    return [_cluster_table(data), _agreement_table(data), *errors, _difference_table(data)]


def mean_of(market: Mapping[str, Any], *keys: str) -> float | None:
    """Return the mean over the draws of a market; None where a draw has no figure."""
    found = [reduce(getitem, keys, draw) for draw in market["draws"]]
    return None if None in found else float(np.mean(found))


def difference_of(market: Mapping[str, Any], target: str, way: str) -> tuple[float, float]:
    """Return MAPE of RCC less that of ℓ2 over the draws of a market, and its standard error."""
    found = [draw["rcc_less_l2"][target][way] for draw in market["draws"]]
    errors = [one["standard_error"] for one in found]
    # draws are independent: the standard error of their mean is √(Σ se²) / draws
    error = float(np.linalg.norm(errors)) / len(found)
    return float(np.mean([one["difference"] for one in found])), error


def error_table(data: Mapping[str, Any], target: str) -> Table:
    """Return MAPE by feature type, alone and pooled with the advertiser's own auctions."""
    number = 6 + TARGETS.index(target)
    rows = []
    for source, title in _TITLES.items():
        row = [title, _hundredths(_printed(target, source), 2)]
        for market in data["markets"]:
            names = [source] if source == DEFAULT else [source, f"{source}+pooled"]
            shares = [mean_of(market, "errors", target, name, "mape") for name in names]
            row.append(" / ".join(_hundredths(share) for share in shares))
        rows.append(row)
    title = f"Table {number}: MAPE of {target} in %, alone / pooled"
    return Table(title, ("feature type", "printed", *_market_titles(data)), rows)


def _cluster_table(data: Mapping[str, Any]) -> Table:
    rows = []
    for view, printed in PRINTED_CLUSTERS.items():
        for p, count in printed.items():
            row = [_TITLES[view], f"{p:g}", str(count)]
            for market in data["markets"]:
                counts = [
                    one["clusters"]
                    for draw in market["draws"]
                    for one in draw["clusters"]
                    if (one["view"], one["p"]) == (view, p)
                ]
                row.append(f"{np.mean(counts):.0f}")
            rows.append(row)
    title = "Table 4: clusters at each level of the test"
    return Table(title, ("view", "p", "printed", *_market_titles(data)), rows, 2)


def _agreement_table(data: Mapping[str, Any]) -> Table:
    names = {"tpn": "TPN", "fpn": "FPN", "ari": "adjusted Rand index"}
    printed = dict(zip(names, PRINTED_AGREEMENT, strict=False))
    rows = []
    for key, title in names.items():
        shares = [mean_of(market, "agreement", key) for market in data["markets"]]
        form = short_text if key == "ari" else _percent
        rows.append((title, _percent(printed.get(key), 2), *(form(share) for share in shares)))
    title = "Table 5: agreement of win rate and cost over pairs of advertisers"
    return Table(title, ("", "printed", *_market_titles(data)), rows)


def _difference_table(data: Mapping[str, Any]) -> Table:
    rows = []
    for title, market in zip(_market_titles(data), data["markets"], strict=True):
        row = [title]
        for target, way in product(TARGETS, _WAYS):
            gap, error = (100 * figure for figure in difference_of(market, target, way))
            row.append(f"{gap:+.2f} ± {error:.2f}")
        rows.append(row)
    ways = product(TARGETS, _WAYS)
    headings = ("market", *(f"{target}, {way}" for target, way in ways))
    return Table("MAPE of RCC less MAPE of ℓ2, in percentage points", headings, rows)


def _printed(target: str, source: str) -> float | None:
    """Return the printed MAPE of a source; the paper's robust consensus is RCC."""
    return None if source == "robust" else PRINTED_MAPE[target].get(_PRINTED_AS.get(source, source))


def _market_titles(data: Mapping[str, Any]) -> list[str]:
    return [f"{market['market']}, {market['auction']} price" for market in data["markets"]]


def _hundredths(share: float | None, digits: int = 1) -> str:
    return figure_text(None if share is None else 100 * share, f".{digits}f")


def _percent(share: float | None, digits: int = 1) -> str:
    return figure_text(share, f".{digits}%")


def _plot(data: Mapping[str, Any]) -> Figure:
    """Draw the MAPE of the two consensus functions, alone and pooled, and of own curves."""
    names = ["printed", *_market_titles(data)]
    panels = {}
    for target in TARGETS:
        marks = []
        for label, source, colour, marker, height, settings in _MARKS:
            printed = _printed(target, source)
            found = [
                mean_of(market, "errors", target, source, "mape") for market in data["markets"]
            ]
            x = [None if share is None else 100 * share for share in (printed, *found)]
            marks.append(Marks(label, colour, marker, x, height=height, settings=settings))
        panels[target] = marks
    size = {"width": 10, "row_height": 0.6}
    return dot_plot(names, panels, "MAPE, %", **size, ncols=4)


def _plot_curves(curves: Mapping[str, Any]) -> Figure:
    """Draw what the paper's figure 1 draws: the two c.d.f.s of some advertisers."""
    panels = {}
    for name, title in (("cost", "eCPM cost c.d.f."), ("win", "win rate c.d.f.")):
        panels[title] = [
            Marks(f"segment {s + 1}", ("blue", "vermilion", "green")[s], "", curves["bids"], curve)
            for s, curve in zip(curves["segments"], curves[name], strict=True)
        ]
    limits = curves["bids"][0], curves["bids"][-1]
    shared: dict[str, Any] = {"sharey": True, "ylim": (0, 1.02), "xlim": limits}
    figure, _ = line_plot(panels, (9, 3.2), xlabel="eCPM bid", **shared)
    add_legend(figure)
    return figure
