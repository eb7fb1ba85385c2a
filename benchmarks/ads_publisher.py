"""Forecasts of a publisher's orders five days ahead, on the 2019 auction.

There are no bids in the data, so the sources of a curve become sources of the shape of a week
(:mod:`benchmarks.ads_order_forecasts`). Segments are the consensus of three looks
(:mod:`benchmarks.ads_order_views`). Every setting is chosen by rolling origin inside the
training days, never by the days held out.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.ads_order_forecasts import SOURCES, Candidate, History, Pair, forecasts
from benchmarks.ads_order_views import OrderLog, views_of_orders
from coterie.consensus.robust.estimator import RobustConsensus
from coterie.errors import InvalidParameterError
from coterie.inspection.scores import adjusted_rand_index
from coterie.runtime.devices import on_one_thread

__all__ = ["NUMBERS", "paired_difference", "run_publisher", "wape"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

NUMBERS = (3, 5, 8, 12)
_ORIGINS = 6
#: An order with fewer impressions a day than this is thin.
_THIN = 500.0
_SHUFFLES = 20
_REFERENCES = ("own", "global", "global+pooled")
_LOG = logging.getLogger("coterie")


def wape(forecast: Floats, truth: Floats) -> float | None:
    """Σ|forecast − truth| / Σ truth; None where the truth is nothing.

    >>> wape(np.array([1.0, 4.0]), np.array([2.0, 2.0]))
    0.75
    """
    total = float(truth.sum())
    return float(np.abs(forecast - truth).sum() / total) if total > 0 else None


def paired_difference(errors: Floats, others: Floats, total: float) -> dict[str, float]:
    """The difference of two WAPEs and its standard error, over orders.

    Parameters
    ----------
    errors, others : (A,) arrays
        Σ|forecast − truth| of each order by two sources.
    total : float
        Σ truth.

    Examples
    --------
    >>> paired_difference(np.array([3.0, 3.0]), np.array([2.0, 2.0]), 10.0)
    {'mean': 0.2, 'se': 0.0}
    """
    gaps = errors - others
    se = np.sqrt(len(gaps)) * np.std(gaps, ddof=1) / total
    return {"mean": float(gaps.sum() / total), "se": float(se)}


def run_publisher(
    log: OrderLog,
    *,
    horizon: int = 5,
    origins: int = _ORIGINS,
    numbers: Sequence[int] = NUMBERS,
    after_origin: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Choose the settings of every source inside the training days, then forecast the holdout.

    Parameters
    ----------
    log : OrderLog
    horizon : int
        Days held out, and days forecast from each origin; a week at most.
    origins : int
        Origins to choose by: the last that leave ``horizon`` training days to forecast.
    numbers : sequence of int
        Numbers of segments to choose from.
    after_origin : callable, optional
        Called when an origin is done, the holdout's included.

    Returns
    -------
    dict
        ``sources``: settings and errors of each; ``random_segments``: what segments of the
        same sizes, filled at random, do; ``segments``; ``notes`` on the file.
    """
    n_train = len(log.days) - horizon
    starts = range(n_train - horizon - origins + 1, n_train - horizon + 1)
    if not 1 <= horizon <= 7 or origins < 1 or starts[0] < 7:
        raise InvalidParameterError(
            f"{len(log.days)} days, {origins} origins, a horizon of {horizon}: the horizon may be "
            "1 to 7, and the first origin needs a week before it; lower origins or horizon"
        )
    sums: dict[Candidate, Floats] = {}
    for start in starts:
        _LOG.info("Forecasting the orders from %s", log.days[start])
        origin = _origin(log, start, horizon, numbers)
        for candidate, found in forecasts(origin.history, origin.segments):
            sums[candidate] = sums.get(candidate, 0) + _totals(found, origin.truth)
        if after_origin is not None:
            after_origin()
    errors = {candidate: float(np.mean(part / whole)) for candidate, (part, whole) in sums.items()}
    chosen = _chosen(errors)
    final = _origin(log, n_train, horizon, numbers)
    if after_origin is not None:
        after_origin()
    return {
        "days": [str(log.days[0]), str(log.days[n_train - 1]), str(log.days[-1])],
        "horizon": horizon,
        "origins": [str(log.days[start]) for start in starts],
        "orders": len(log.orders),
        "thin_orders": int(final.thin.sum()),
        "notes": log.notes,
        "sources": _sources(final, chosen, errors),
        "random_segments": _random_segments(final, chosen),
        "segments": _segments_told(log, final, chosen["segment+pooled"]),
    }


def _chosen(errors: Mapping[Candidate, float]) -> dict[str, Candidate]:
    """The best settings of each source, with one half-life for all.

    The level is no part of a source; with a half-life each, sources would differ by that too.
    """

    def best(source: str, half_life: float | None) -> Candidate:
        rivals = [c for c in errors if c.source == source and c.half_life in {half_life, None}]
        return min(rivals, key=errors.__getitem__)

    half_life = min(
        {c.half_life for c in errors if c.half_life is not None},
        key=lambda tried: sum(errors[best(source, tried)] for source in SOURCES),
    )
    return {source: best(source, half_life) for source in SOURCES}


@dataclass(frozen=True)
class _Origin:
    """One day: what is known on it, the segments found by that, and what came."""

    history: History
    truth: Pair
    segments: dict[int, Labels]
    views: Mapping[str, Labels]
    warned: int

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


def _totals(found: Pair, truth: Pair) -> Floats:
    """Σ|forecast − truth| and Σ truth, (2, 2): of impressions and of revenue."""
    missed = [np.abs(f - t).sum() for f, t in zip(found, truth, strict=True)]
    return np.array([missed, [t.sum() for t in truth]])


def _sources(
    final: _Origin, chosen: Mapping[str, Candidate], errors: Mapping[Candidate, float]
) -> dict[str, Any]:
    """Settings and errors of every source."""
    found = {
        candidate.source: pair
        for candidate, pair in forecasts(final.history, final.segments)
        if candidate == chosen[candidate.source]
    }
    told = {}
    for source, pair in found.items():
        described: dict[str, Any] = {
            "settings": _settings(chosen[source]),
            "backtest": errors[chosen[source]],
        }
        for place, name in enumerate(("impressions", "revenue")):
            truth = final.truth[place]
            described[name] = _measures(pair[place], truth, final.thin)
            described[name]["difference_from"] = {
                other: paired_difference(
                    _by_order(pair[place], truth),
                    _by_order(found[other][place], truth),
                    float(truth.sum()),
                )
                for other in _REFERENCES
            }
        told[source] = described
    return {source: told[source] for source in SOURCES}


def _settings(candidate: Candidate) -> dict[str, float]:
    return {
        name: value
        for name, value in asdict(candidate).items()
        if name != "source" and value is not None
    }


def _measures(forecast: Floats, truth: Floats, thin: NDArray[np.bool_]) -> dict[str, Any]:
    """WAPE of order-days, in all and of thin orders; WAPE and MAPE of the orders' totals."""
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


def _by_order(forecast: Floats, truth: Floats) -> Floats:
    return np.abs(forecast - truth).sum(axis=1)


def _random_segments(final: _Origin, chosen: Mapping[str, Candidate]) -> dict[str, Any]:
    """WAPE with the segments' members dealt at random: mean and standard deviation."""
    told = {}
    for source in ("segment", "segment+pooled"):
        candidate = chosen[source]
        found: list[list[float | None]] = []
        for labels in _dealt(final.segments[candidate.n_segments or 0]):
            segments = {candidate.n_segments or 0: labels}
            pair = dict(forecasts(final.history, segments))[candidate]
            found.append([wape(f, t) for f, t in zip(pair, final.truth, strict=True)])
        values = np.array(found, dtype=np.float64)
        told[source] = {
            name: {"mean": float(column.mean()), "sd": float(column.std(ddof=1))}
            for name, column in zip(("impressions", "revenue"), values.T, strict=True)
        }
    return told


def _dealt(labels: Labels) -> Iterator[Labels]:
    rng = np.random.default_rng(0)
    for _ in range(_SHUFFLES):
        dealt = labels.copy()
        dealt[labels >= 0] = rng.permutation(labels[labels >= 0])
        yield dealt


def _segments_told(log: OrderLog, final: _Origin, chosen: Candidate) -> dict[str, Any]:
    """Sizes of the chosen segments, their eCPM, and how far each view agrees with them."""
    labels = final.segments[chosen.n_segments or 0]
    impressions, revenue = (
        final.history.impressions.sum(axis=1),
        final.history.revenue.sum(axis=1),
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
        "warnings": final.warned,
    }
