"""Forecasts of a publisher's orders five days ahead, on the 2019 auction.

There are no bids in the data, so the sources of a curve become sources of the shape of a week.
Segments are the consensus of three views of the orders:

=========  ==================================================================================
placement  the mix of sites and ad units of an order's impressions
audience   the mix of countries and devices
price      Kolmogorov–Smirnov similarity of the distribution of revenue per impression (eCPM)
=========  ==================================================================================

Every setting is chosen by rolling origin inside the training days, never by the days held out.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.ads_real.order_forecasts import SOURCES, Candidate, History, Pair, forecasts, ratio
from benchmarks.harness import Context
from benchmarks.results import Marks, Table, best_cells, dot_plot, figure_text, lane_heights
from coterie.ads.evaluation.evaluation import measure as measures_of
from coterie.ads.histograms.ipinyou import PublicData, files_of, read_columns
from coterie.ads.segments.similarity import ks_graph
from coterie.ads.segments.views import normalised_cuts, text_clusters
from coterie.consensus.robust import RobustConsensus
from coterie.runtime.devices import on_one_thread
from coterie.runtime.messages import ignore_label_warnings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHER = PublicData(
    "publisher_auction_2019",
    ("publisher_auction_2019.csv.gz",),
    "Kaggle, saurav9786/real-time-advertisers-auction",
)

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

AMOUNTS = ("impressions", "revenue")
#: An order with fewer impressions a day than this is thin.
_THIN = 500.0
_HORIZON = 5
_SHUFFLES = 20
_REFERENCES = ("own", "global", "global+pooled", "segment+pooled")
_STYLES = {"impressions": ("blue", "o"), "revenue": ("vermilion", "s")}
_MEASURES = {
    "wape": "WAPE",
    "wape_thin": "of thin orders",
    "wape_totals": "of totals",
    "mape_totals": "MAPE of totals",
}


@dataclass(frozen=True)
class OrderLog:
    """Rows of impressions and revenue of A orders over T days; N rows.

    ``order``, ``day``, ``placement`` and ``audience`` (N,) are indices: of the order, the day, the
    site with its ad unit, the country with its device. ``notes`` count the rows of the file that
    were dropped, and why.
    """

    orders: Labels
    days: NDArray[np.datetime64]
    order: Labels
    day: Labels
    placement: Labels
    audience: Labels
    impressions: Floats
    revenue: Floats
    notes: dict[str, int]


def read_orders(path: Path) -> OrderLog:
    """Read the file of the 2019 auction.

    Rows without impressions and rows with negative revenue are dropped. Rows that repeat another
    are kept: many rows of the file agree in all but their figures, so equal rows are no fault.
    """
    codes = ("order_id", "site_id", "ad_unit_id", "geo_id", "device_category_id")
    kinds = {"date": "date32", "total_impressions": "float64", "total_revenue": "float64"}
    table = read_columns(path, {**kinds, **dict.fromkeys(codes, "int64")})
    impressions, revenue = table["total_impressions"], table["total_revenue"]
    kept = (impressions > 0) & (revenue >= 0)
    order, site, unit, country, device = (table[name][kept] for name in codes)
    dates = table["date"].astype("datetime64[D]")
    day = (dates[kept] - dates.min()).astype(np.int64)
    orders, order = np.unique(order, return_inverse=True)
    return OrderLog(
        orders=orders,
        days=dates.min() + np.arange(day.max() + 1),
        order=order,
        day=day,
        placement=np.unique([site, unit], axis=1, return_inverse=True)[1],
        audience=np.unique([country, device], axis=1, return_inverse=True)[1],
        impressions=impressions[kept],
        revenue=revenue[kept],
        notes={
            "rows": len(impressions),
            "rows_without_impressions": int((impressions <= 0).sum()),
            "rows_with_negative_revenue": int((revenue < 0).sum()),
        },
    )


def views_of_orders(
    log: OrderLog, n_days: int, ks: Sequence[int], seeds: Sequence[int] = range(5)
) -> dict[str, Labels]:
    """Return partitions (A, V) of each view from the first days alone; −1 where a view is silent.

    Every seed of k-means gives one partition for each number of clusters in ``ks``, so that no
    single run decides.
    """
    known = log.day < n_days
    order, n = log.order[known], log.impressions[known]

    def mixes(code: Labels) -> Floats:
        """Return roots of shares: products of rows are the Bhattacharyya coefficients."""
        counts = _summed(order, code[known], n, (len(log.orders), int(code.max()) + 1))
        return np.sqrt(ratio(counts, counts.sum(axis=1, keepdims=True)))

    curves, observations = _price_curves(order, n, log.revenue[known] / n, len(log.orders))
    graph = ks_graph(curves, observations, 0.05, max_observations=2000.0, weights="pvalue")
    cuts = {
        "placement": partial(text_clusters, mixes(log.placement)),
        "audience": partial(text_clusters, mixes(log.audience)),
        "price": partial(normalised_cuts, graph),
    }
    return {name: np.hstack([cut(list(ks), seed) for seed in seeds]) for name, cut in cuts.items()}


def measure(context: Context) -> dict[str, Any]:
    """Choose the settings of every source inside the training days, then forecast the holdout."""
    log = read_orders(files_of(PUBLISHER, context.data)[0])
    origins, numbers = (2, (3, 8)) if context.quick else (6, (3, 5, 8, 12))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = errors_of(log, origins, numbers)
    return {**found, "warnings": sorted({str(warning.message) for warning in caught})}


def errors_of(log: OrderLog, origins: int, numbers: Sequence[int]) -> dict[str, Any]:
    """Return settings and errors of every source.

    Settings are chosen by the last ``origins`` that leave as many training days to forecast as are
    held out; ``numbers`` of segments are tried.
    """
    n_train = len(log.days) - _HORIZON
    starts = range(n_train - _HORIZON - origins + 1, n_train - _HORIZON + 1)
    sums: dict[Candidate, Floats] = {}
    for start in starts:
        history, truth, segments = _origin(log, start, numbers)
        for candidate, found in forecasts(history, segments):
            missed = [np.abs(f - t).sum() for f, t in zip(found, truth, strict=True)]
            both = np.array([missed, [t.sum() for t in truth]])
            sums[candidate] = sums.get(candidate, 0) + both
    errors = {candidate: float(np.mean(part / whole)) for candidate, (part, whole) in sums.items()}
    chosen = _choose(errors)
    final = _origin(log, n_train, numbers)
    described = _errors(*final, chosen)
    return {
        "days": [str(log.days[0]), str(log.days[n_train - 1]), str(log.days[-1])],
        "horizon": _HORIZON,
        "origins": [str(log.days[start]) for start in starts],
        "orders": len(log.orders),
        "notes": log.notes,
        "sources": {
            source: {
                "settings": candidate._asdict(),
                "backtest": errors[candidate],
                **described[source],
            }
            for source, candidate in chosen.items()
        },
        "random_segments": _random_segments(*final, chosen),
    }


def tables(data: dict[str, Any]) -> list[Table]:
    """Return the errors of every source, and their differences paired by order."""
    words = {"n_segments": "K = {:g}", "strength": "strength {:g}", "half_life": "half-life {:g}"}
    figures, errors, differences = [], [], []
    for source, found in data["sources"].items():
        own = [found["backtest"], *(found[name][m] for name in AMOUNTS for m in _MEASURES)]
        settings = found["settings"]
        named = [text.format(settings[key]) for key, text in words.items() if settings.get(key)]
        figures.append(own)
        errors.append((source, ", ".join(named), *(figure_text(f, ".3f") for f in own)))
        gaps = [
            "" if other == source else f"{gap['mean']:+z.3f} ± {gap['se']:.3f}"
            for name in AMOUNTS
            for other, gap in found[name]["difference_from"].items()
        ]
        differences.append((source, *gaps))
    headings = [f"{name}: {word}" for name in AMOUNTS for word in _MEASURES.values()]
    minus = [f"{name}: minus {other}" for name in AMOUNTS for other in _REFERENCES]
    return [
        Table(
            f"Publisher: errors of {data['orders']} orders over {data['horizon']} days held out",
            ("shape of the week", "settings", "backtest", *headings),
            errors,
            n_named=2,
            bold=best_cells(figures, 2, by="column", lowest=True),
        ),
        Table(
            "Publisher: difference of WAPE ± standard error, paired by order",
            ("shape of the week", *minus),
            differences,
        ),
    ]


def plot(data: dict[str, Any]) -> Figure:
    """Draw the WAPE of impressions and revenue by where the week's shape comes from."""
    sources, dealt = data["sources"], data["random_segments"]
    marks = []
    for (name, style), height in zip(_STYLES.items(), lane_heights(2, 0.72), strict=True):
        own = [found[name] for found in sources.values()]
        errors = [one["difference_from"]["own"]["se"] for one in own]
        marks.append(Marks(name, *style, [one["wape"] for one in own], error=errors, height=height))
        x = [dealt[source][name]["mean"] if source in dealt else None for source in sources]
        marks.append(Marks("segments filled at random", "black", "x", x, height=height))
    label = "WAPE of order-days held out (bars ± standard error of the difference to own)"
    return dot_plot(list(sources), {"": marks}, label, width=7.5, row_height=0.42)


def _origin(
    log: OrderLog, start: int, numbers: Sequence[int]
) -> tuple[History, Pair, dict[int, Labels]]:
    """Return what is known on one day, what followed, and the segments found from the known."""
    partitions = np.hstack(list(views_of_orders(log, start, numbers).values()))
    placed = (partitions >= 0).any(axis=1)
    segments = {k: np.full(len(log.orders), -1, dtype=np.int64) for k in numbers}
    with on_one_thread():
        for k, labels in segments.items():
            with ignore_label_warnings():
                fitted = RobustConsensus(k, random_state=0).fit(partitions[placed])
            labels[placed] = fitted.labels_
    shape = len(log.orders), len(log.days)
    impressions, revenue = (
        _summed(log.order, log.day, amount, shape) for amount in (log.impressions, log.revenue)
    )
    end = start + _HORIZON
    # 1970-01-01 was a Thursday; 0 is Monday
    weekday = (log.days[:end].astype(np.int64) + 3) % 7
    history = History(impressions[:, :start], revenue[:, :start], weekday)
    return history, (impressions[:, start:end], revenue[:, start:end]), segments


def _choose(errors: Mapping[Candidate, float]) -> dict[str, Candidate]:
    """Return the best settings of each source, with one half-life for all.

    The level is not part of a source; with a half-life each, sources would differ by that too.
    """

    def best(source: str, half_life: float | None) -> Candidate:
        rivals = [c for c in errors if c.source == source and c.half_life in {half_life, None}]
        return min(rivals, key=errors.__getitem__)

    half_life = min(
        {c.half_life for c in errors if c.half_life is not None},
        key=lambda tried: sum(errors[best(source, tried)] for source in SOURCES),
    )
    return {source: best(source, half_life) for source in SOURCES}


def _errors(
    history: History, truth: Pair, segments: dict[int, Labels], chosen: Mapping[str, Candidate]
) -> dict[str, dict[str, Any]]:
    """Return measures of each source by amount, and differences of WAPE paired by order."""
    found = dict(forecasts(history, segments))
    thin = history.impressions.mean(axis=1) < _THIN
    errors: dict[str, dict[str, Any]] = {source: {} for source in SOURCES}
    for place, (name, true) in enumerate(zip(AMOUNTS, truth, strict=True)):
        forecast = {source: found[chosen[source]][place] for source in SOURCES}
        missed = {source: np.abs(f - true).sum(axis=1) for source, f in forecast.items()}
        for source, f in forecast.items():
            totals = measures_of(f.sum(axis=1), true.sum(axis=1))
            gaps = {other: missed[source] - missed[other] for other in _REFERENCES}
            errors[source][name] = {
                "wape": measures_of(f.ravel(), true.ravel()).wape,
                "wape_thin": measures_of(f[thin].ravel(), true[thin].ravel()).wape,
                "wape_totals": totals.wape,
                "mape_totals": totals.mape,
                "difference_from": {
                    other: {
                        "mean": float(gap.sum() / true.sum()),
                        "se": float(np.sqrt(len(gap)) * np.std(gap, ddof=1) / true.sum()),
                    }
                    for other, gap in gaps.items()
                },
            }
    return errors


def _random_segments(
    history: History, truth: Pair, segments: dict[int, Labels], chosen: Mapping[str, Candidate]
) -> dict[str, Any]:
    """Return the mean WAPE with the members of segments permuted."""
    means: dict[str, Any] = {}
    for source in ("segment", "segment+pooled"):
        k = chosen[source].n_segments or 0
        labels, rng, found = segments[k], np.random.default_rng(0), []
        for _ in range(_SHUFFLES):
            dealt = labels.copy()
            dealt[labels >= 0] = rng.permutation(labels[labels >= 0])
            pair = dict(forecasts(history, {k: dealt}))[chosen[source]]
            found.append([np.abs(f - t).sum() / t.sum() for f, t in zip(pair, truth, strict=True)])
        wape = np.mean(found, axis=0).tolist()
        means[source] = {name: {"mean": w} for name, w in zip(AMOUNTS, wape, strict=True)}
    return means


def _price_curves(order: Labels, n: Floats, ecpm: Floats, n_orders: int) -> tuple[Floats, Floats]:
    """Return the c.d.f. of eCPM over an order's impressions, (A, G), and its observations, (A,).

    Impressions come in rows of one eCPM each, so the effective number of observations is
    (Σn)² / Σn² over the impressions n of the rows.
    """
    grid = np.unique(np.quantile(ecpm, np.linspace(0, 1, 65)))
    at = np.minimum(np.searchsorted(grid, ecpm), len(grid) - 1)
    summed = np.cumsum(_summed(order, at, n, (n_orders, len(grid))), axis=1)
    square = np.asarray(np.bincount(order, n**2, n_orders), dtype=np.float64)
    return ratio(summed, summed[:, -1:]), ratio(summed[:, -1] ** 2, square)


def _summed(row: Labels, column: Labels, values: Floats, shape: tuple[int, int]) -> Floats:
    sums = np.bincount(row * shape[1] + column, values, shape[0] * shape[1])
    return np.asarray(sums, dtype=np.float64).reshape(shape)
