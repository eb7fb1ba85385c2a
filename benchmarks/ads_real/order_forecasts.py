"""Forecasts of orders some days ahead, by their level and the shape of a week.

The forecast of order a on a day of weekday w is

    impressions = level_a · f_aw,    revenue = impressions · ecpm_a · g_aw

with the order's own recent level and eCPM, and weekday factors f and g of mean about 1. Sources
differ in where f and g come from: the order itself, all orders, its segment, or a mixture. The
source "model" is the supply of :class:`~coterie.ads.AdForecaster`, which chooses by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.day_levels import day_weights, weekday_of
from coterie.ads.curves.shrinkage import pooled_rates
from coterie.ads.curves.supply import fit_supply_rule

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Pair = tuple[Floats, Floats]

#: In the order in which tables show them.
SOURCES = (
    "last week", "flat", "own", "global", "segment", "global+pooled", "segment+pooled", "model",
)  # fmt: skip
#: Pooling strengths to choose from, in days of one weekday.
STRENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
#: Half-lives of the level to choose from, in days.
HALF_LIVES = (0.5, 1.0, 2.0, 4.0, 7.0, 14.0)
# days of one weekday that a segment's shape borrows from that of all orders
_SEGMENT_DAYS = 5.0
# impressions a day from which an order counts fully in a shared shape
_FULL_COUNT = 100.0
_NEGLIGIBLE = 1e-9


class Candidate(NamedTuple):
    """A source with its settings; None where it has no such setting."""

    source: str
    n_segments: int | None = None
    strength: float | None = None
    half_life: float | None = None


class History(NamedTuple):
    """What is known on one day of A orders.

    ``impressions`` and ``revenue`` (A, T) of the T days before it; ``weekday`` (T + H,) of these
    days and of the H to forecast, from 0 to 6.
    """

    impressions: Floats
    revenue: Floats
    weekday: Labels


def weekday_evidence(amounts: Floats, weekday: Labels, base: Floats | None = None) -> Pair:
    """Return x and y, (A, 7) each, in days; the weekday factor is x / y.

    y_w days of weekday w were seen, and x_w = y_w · (amount per ``base`` on these days) / (amount
    per ``base`` on all days). ``base`` (A, T) is what amounts (A, T) are divided by, or days.
    """
    per = np.ones_like(amounts) if base is None else base
    of_weekday = np.eye(7)[weekday]
    rate = ratio(amounts.sum(axis=1), per.sum(axis=1))
    expected = (per @ of_weekday) * rate[:, None]
    y = np.where(expected > 0, of_weekday.sum(axis=0), 0.0)
    return y * ratio(amounts @ of_weekday, expected), y


def forecast(history: History, f: Floats, g: Floats, half_life: float) -> Pair:
    """Return impressions and revenue on the days ahead, (A, H) each.

    f and g are weekday factors of impressions and of eCPM, (A, 7) each. The level is
    Σ ω·impressions / Σ ω·f over the known days, where the weight ω halves every ``half_life`` days
    into the past; that of eCPM is Σ ω·revenue / Σ ω·impressions·g.
    """
    n_days = history.impressions.shape[1]
    known, ahead = history.weekday[:n_days], history.weekday[n_days:]
    weight = 0.5 ** (np.arange(n_days)[::-1] / half_life)
    level = ratio(history.impressions @ weight, f[:, known] @ weight)
    ecpm = ratio(history.revenue @ weight, (history.impressions * g[:, known]) @ weight)
    impressions = level[:, None] * f[:, ahead]
    return impressions, impressions * ecpm[:, None] * g[:, ahead]


def model_forecast(history: History) -> Pair:
    """Return impressions and revenue on the days ahead by the supply model, (A, H) each.

    eCPM is the order's own, with the half-life that the model chose.
    """
    n_days = history.impressions.shape[1]
    # any Monday, so that weekdays are right
    dates = np.datetime64("2019-06-03") + history.weekday[0] + np.arange(len(history.weekday))
    supply = fit_supply_rule(history.impressions, dates[:n_days]).supply(history.impressions)
    ahead = dates[n_days:]
    factor = np.exp(supply.factors.ahead(ahead)[0])
    impressions = supply.level[:, None] * supply.weekday[:, weekday_of(ahead)] * factor
    weight = day_weights(dates[:n_days], max(supply.half_life, 1.0))
    ecpm = ratio(history.revenue @ weight, history.impressions @ weight)
    return impressions, impressions * ecpm[:, None]


def forecasts(history: History, segments: dict[int, Labels]) -> Iterator[tuple[Candidate, Pair]]:
    """Yield the forecasts of every source with all its settings.

    ``segments`` has the labels (A,) of the orders by number of segments; an order with label −1
    takes what all orders share.
    """
    n_days = history.impressions.shape[1]
    ago = n_days - 7 + np.arange(len(history.weekday) - n_days) % 7
    yield Candidate("last week"), (history.impressions[:, ago], history.revenue[:, ago])
    yield Candidate("model"), model_forecast(history)
    known = history.weekday[:n_days]
    of_impressions = weekday_evidence(history.impressions, known)
    of_ecpm = weekday_evidence(history.revenue, known, history.impressions)
    count = np.minimum(history.impressions.mean(axis=1) / _FULL_COUNT, 1.0)
    shapes = (_shapes(evidence, count, segments) for evidence in (of_impressions, of_ecpm))
    for (candidate, f), (_, g) in zip(*shapes, strict=True):
        for half_life in HALF_LIVES:
            yield candidate._replace(half_life=half_life), forecast(history, f, g, half_life)


def _shapes(
    evidence: Pair, count: Floats, segments: dict[int, Labels]
) -> Iterator[tuple[Candidate, Floats]]:
    """Yield the weekday factors of every source, (A, 7); orders have a ``count`` up to 1."""
    x, y = evidence
    flat = np.ones(x.shape)
    # a weekday without evidence is taken to be like any other
    together = np.zeros(len(count), dtype=np.int64)
    everyone = _shared(evidence, count, together, flat, _NEGLIGIBLE)
    yield Candidate("flat"), flat
    yield Candidate("own"), pooled_rates(x, y, flat, _NEGLIGIBLE)
    yield Candidate("global"), everyone
    for strength in STRENGTHS:
        yield Candidate("global+pooled", None, strength), pooled_rates(x, y, everyone, strength)
    for k, labels in segments.items():
        shared = _shared(evidence, count, labels, everyone, _SEGMENT_DAYS)
        yield Candidate("segment", k), shared
        for strength in STRENGTHS:
            yield Candidate("segment+pooled", k, strength), pooled_rates(x, y, shared, strength)


def _shared(evidence: Pair, count: Floats, labels: Labels, prior: Floats, days: float) -> Floats:
    """Return the factors of each order's segment; the prior counts as so many days."""
    member = (labels[:, None] == np.arange(labels.max() + 1)) * count[:, None]
    x, y = (member.T @ part for part in evidence)
    factors = pooled_rates(x, y, prior[:1], days)
    return np.where(labels[:, None] >= 0, factors[labels], prior)


def ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, and 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
