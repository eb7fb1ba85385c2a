"""Forecasts of a publisher's orders five days ahead, on the 2019 auction.

There are no bids in the data, so the sources of a curve become sources of the shape of a week.
Segments are the consensus of three views. Every setting is chosen by rolling origin inside the
training days, never by the days held out.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.ads_real.order_forecasts import SOURCES, Candidate, History, Pair, forecasts
from benchmarks.ads_real.orders import OrderLog, read_orders, views_of_orders
from benchmarks.harness import Context
from benchmarks.results import Marks, Table, best_cells, dot_plot, figure_text, lane_heights
from coterie.ads.histograms.ipinyou import PublicData, files_of
from coterie.consensus.robust.estimator import RobustConsensus
from coterie.inspection.scores import adjusted_rand_index
from coterie.runtime.devices import on_one_thread

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
_SHUFFLES = 20
_REFERENCES = ("own", "global", "global+pooled")
_STYLES = {"impressions": ("blue", "o"), "revenue": ("vermilion", "s")}


def measure(context: Context) -> dict[str, Any]:
    """Choose the settings of every source inside the training days, then forecast the holdout."""
    log = read_orders(files_of(PUBLISHER, context.data)[0])
    origins, numbers = (2, (3, 8)) if context.quick else (6, (3, 5, 8, 12))
    return errors_of(log, origins, numbers)


def errors_of(
    log: OrderLog, origins: int, numbers: Sequence[int], horizon: int = 5
) -> dict[str, Any]:
    """Return settings and errors of every source.

    Settings are chosen by the last ``origins`` that leave ``horizon`` training days to forecast;
    ``numbers`` of segments are tried. The horizon, also that of the days held out, is a week at
    most.
    """
    n_train = len(log.days) - horizon
    starts = range(n_train - horizon - origins + 1, n_train - horizon + 1)
    sums: dict[Candidate, Floats] = {}
    for start in starts:
        origin = _origin(log, start, horizon, numbers)
        for candidate, found in forecasts(origin.history, origin.segments):
            missed = [np.abs(f - t).sum() for f, t in zip(found, origin.truth, strict=True)]
            both = np.array([missed, [t.sum() for t in origin.truth]])
            sums[candidate] = sums.get(candidate, 0) + both
    errors = {candidate: float(np.mean(part / whole)) for candidate, (part, whole) in sums.items()}
    chosen = _choose(errors)
    final = _origin(log, n_train, horizon, numbers)
    return {
        "days": [str(log.days[0]), str(log.days[n_train - 1]), str(log.days[-1])],
        "horizon": horizon,
        "origins": [str(log.days[start]) for start in starts],
        "orders": len(log.orders),
        "thin_orders": int(final.thin.sum()),
        "notes": log.notes,
        "sources": _sources(final, chosen, errors),
        "random_segments": _random_segments(final, chosen),
        "segments": _segments(log, final, chosen["segment+pooled"]),
    }


def wape(forecast: Floats, truth: Floats) -> float | None:
    """Return Σ|forecast − truth| / Σ truth, or None where the truth is zero.

    >>> wape(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    0.75
    """
    total = float(truth.sum())
    return float(np.abs(forecast - truth).sum() / total) if total > 0 else None


def paired_difference(errors: Floats, others: Floats, total: float) -> dict[str, float]:
    """Return the difference of two WAPEs and its standard error over orders.

    ``errors`` and ``others`` (A,) hold Σ|forecast − truth| of each order; ``total`` is Σ truth.

    >>> paired_difference(np.array([3.0, 3.0]), np.array([2.0, 2.0]), 10.0)
    {'mean': 0.2, 'se': 0.0}
    """
    gaps = errors - others
    se = np.sqrt(len(gaps)) * np.std(gaps, ddof=1) / total
    return {"mean": float(gaps.sum() / total), "se": float(se)}


def tables(data: dict[str, Any]) -> list[Table]:
    """Return the errors of every source, and their differences paired by order."""
    measures = {
        "wape": "WAPE",
        "wape_thin": "of thin orders",
        "wape_totals": "of totals",
        "mape_totals": "MAPE of totals",
    }
    figures = [
        [found["backtest"], *(found[name][m] for name in AMOUNTS for m in measures)]
        for found in data["sources"].values()
    ]
    rows = [
        (source, _settings_text(found["settings"]), *(figure_text(f, ".3f") for f in own))
        for (source, found), own in zip(data["sources"].items(), figures, strict=True)
    ]
    words = [f"{name}: {word}" for name in AMOUNTS for word in measures.values()]
    headings = ("shape of the week", "settings", "backtest", *words)
    title = f"Publisher: errors of {data['orders']} orders over {data['horizon']} days held out"
    bold = best_cells(figures, 2, by="column", lowest=True)
    return [Table(title, headings, rows, n_named=2, bold=bold), _differences(data)]


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


class _Origin(NamedTuple):
    """What is known on one day, the segments found from it, and what followed."""

    history: History
    truth: Pair
    segments: dict[int, Labels]
    views: Mapping[str, Labels]
    n_warnings: int

    @property
    def thin(self) -> NDArray[np.bool_]:
        return self.history.impressions.mean(axis=1) < _THIN


def _origin(log: OrderLog, start: int, horizon: int, numbers: Sequence[int]) -> _Origin:
    views = views_of_orders(log, start, numbers)
    partitions = np.hstack(list(views.values()))
    placed = (partitions >= 0).any(axis=1)
    segments = {}
    with warnings.catch_warnings(record=True) as caught, on_one_thread():
        warnings.simplefilter("always")
        for k in numbers:
            labels = np.full(len(log.orders), -1, dtype=np.int64)
            if placed.sum() > k:
                labels[placed] = RobustConsensus(k, random_state=0).fit(partitions[placed]).labels_
            segments[k] = labels
    impressions, revenue = log.daily("impressions"), log.daily("revenue")
    known, ahead = slice(start), slice(start, start + horizon)
    # 1970-01-01 was a Thursday; 0 is Monday
    weekday = (log.days[: start + horizon].astype(np.int64) + 3) % 7
    return _Origin(
        History(impressions[:, known], revenue[:, known], weekday),
        (impressions[:, ahead], revenue[:, ahead]),
        segments,
        views,
        len(caught),
    )


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


def _sources(
    final: _Origin, chosen: Mapping[str, Candidate], errors: Mapping[Candidate, float]
) -> dict[str, Any]:
    found = dict(forecasts(final.history, final.segments))
    described: dict[str, Any] = {}
    for source in SOURCES:
        settings = chosen[source]._asdict()
        del settings["source"]
        described[source] = {
            "settings": {name: value for name, value in settings.items() if value is not None},
            "backtest": errors[chosen[source]],
        }
    for place, (name, truth) in enumerate(zip(AMOUNTS, final.truth, strict=True)):
        forecast = {source: found[chosen[source]][place] for source in SOURCES}
        missed = {source: np.abs(f - truth).sum(axis=1) for source, f in forecast.items()}
        for source in SOURCES:
            gaps = {
                other: paired_difference(missed[source], missed[other], float(truth.sum()))
                for other in _REFERENCES
            }
            measures = _measures(forecast[source], truth, final.thin)
            described[source][name] = {**measures, "difference_from": gaps}
    return described


def _measures(forecast: Floats, truth: Floats, thin: NDArray[np.bool_]) -> dict[str, Any]:
    """Return WAPE of order-days, all and thin orders; WAPE and MAPE of the orders' totals."""
    total, true_total = forecast.sum(axis=1), truth.sum(axis=1)
    there = true_total > 0
    share = np.abs(total - true_total)[there] / true_total[there]
    return {
        "wape": wape(forecast, truth),
        "wape_thin": wape(forecast[thin], truth[thin]),
        "wape_totals": wape(total, true_total),
        "mape_totals": float(share.mean()) if len(share) else None,
        "orders_in_mape": len(share),
        "bias": float(total.sum() / true_total.sum() - 1) if len(share) else None,
    }


def _random_segments(final: _Origin, chosen: Mapping[str, Candidate]) -> dict[str, Any]:
    """Return the WAPE with the members of segments permuted: mean and standard deviation."""
    described = {}
    for source in ("segment", "segment+pooled"):
        candidate = chosen[source]
        k = candidate.n_segments or 0
        labels, rng, found = final.segments[k], np.random.default_rng(0), []
        for _ in range(_SHUFFLES):
            dealt = labels.copy()
            dealt[labels >= 0] = rng.permutation(labels[labels >= 0])
            pair = dict(forecasts(final.history, {k: dealt}))[candidate]
            found.append([wape(f, t) for f, t in zip(pair, final.truth, strict=True)])
        described[source] = {
            name: {"mean": float(column.mean()), "sd": float(column.std(ddof=1))}
            for name, column in zip(AMOUNTS, np.array(found, dtype=np.float64).T, strict=True)
        }
    return described


def _segments(log: OrderLog, final: _Origin, chosen: Candidate) -> dict[str, Any]:
    """Return sizes and eCPM of the chosen segments, and the agreement of each view with them."""
    labels = final.segments[chosen.n_segments or 0]
    impressions, revenue = (
        amount.sum(axis=1) for amount in (final.history.impressions, final.history.revenue)
    )
    parts = [labels == s for s in range(int(labels.max(initial=-1)) + 1)]
    agreement = {}
    for name, partitions in final.views.items():
        scores = [
            adjusted_rand_index(labels[both], column[both])
            for column in partitions.T
            if (both := (labels >= 0) & (column >= 0)).any()
        ]
        agreement[name] = float(np.mean(scores)) if scores else None
    return {
        "sizes": [int(part.sum()) for part in parts],
        "orders": [log.orders[part].tolist() for part in parts],
        "impressions": [float(impressions[part].sum()) for part in parts],
        "ecpm": [
            float(1000 * revenue[part].sum() / max(impressions[part].sum(), 1.0)) for part in parts
        ],
        "view_agreement": agreement,
        "warnings": final.n_warnings,
    }


def _differences(data: dict[str, Any]) -> Table:
    rows = []
    for source, found in data["sources"].items():
        texts = []
        for name in AMOUNTS:
            for other, gap in found[name]["difference_from"].items():
                mean = round(gap["mean"], 3) + 0.0  # no minus before zero
                text = f"{mean:+.3f} ± {gap['se']:.3f}".replace("-", "−")
                texts.append("" if other == source else text)
        rows.append((source, *texts))
    headings = tuple(f"{name}: minus {other}" for name in AMOUNTS for other in _REFERENCES)
    title = "Publisher: difference of WAPE ± standard error, paired by order"
    return Table(title, ("shape of the week", *headings), rows)


def _settings_text(settings: dict[str, float]) -> str:
    words = {"n_segments": "K = {:g}", "strength": "strength {:g}", "half_life": "half-life {:g}"}
    return ", ".join(words[name].format(value) for name, value in settings.items())
