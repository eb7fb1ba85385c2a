"""Forecasts of orders some days ahead, by their level and the shape of a week.

The forecast of order a on a day of weekday w is

    impressions = level_a · f_aw,    revenue = impressions · ecpm_a · g_aw

with the order's own recent level and eCPM, and weekday factors f and g of mean about 1. Sources
differ in where f and g come from: the order itself, all orders, its segment, or a mixture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.pooling import pooled_rates

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Pair = tuple[Floats, Floats]

#: In the order in which tables show them.
SOURCES = (
    "last week", "flat", "own", "global", "segment", "global+pooled", "segment+pooled",
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

    def evidence(self) -> tuple[Pair, Pair]:
        """Return the evidence of the weekday factors of impressions and of eCPM."""
        known = self.weekday[: self.impressions.shape[1]]
        return (
            weekday_evidence(self.impressions, known),
            weekday_evidence(self.revenue, known, self.impressions),
        )


def weekday_evidence(amounts: Floats, weekday: Labels, base: Floats | None = None) -> Pair:
    """Return x and y, (A, 7) each, in days; the weekday factor is x / y.

    y_w days of weekday w were seen, and x_w = y_w · (amount per ``base`` on these days) / (amount
    per ``base`` on all days). ``base`` (A, T) is what amounts (A, T) are divided by, or days.

    >>> x, y = weekday_evidence(np.array([[2.0, 4.0, 6.0, 0.0]]), np.array([0, 1, 0, 1]))
    >>> x[:, :2].round(3).tolist(), y[:, :2].tolist()
    ([[2.667, 1.333]], [[2.0, 2.0]])
    """
    per = np.ones_like(amounts) if base is None else base
    of_weekday = np.eye(7)[weekday]
    rate = _ratio(amounts.sum(axis=1), per.sum(axis=1))
    expected = (per @ of_weekday) * rate[:, None]
    y = np.where(expected > 0, of_weekday.sum(axis=0), 0.0)
    return y * _ratio(amounts @ of_weekday, expected), y


def forecast(history: History, shapes: Pair, half_life: float) -> Pair:
    """Return impressions and revenue on the days ahead, (A, H) each.

    ``shapes`` are weekday factors of impressions, f, and of eCPM, g, (A, 7) each. The level is
    Σ ω·impressions / Σ ω·f over the known days, where the weight ω halves every ``half_life`` days
    into the past; that of eCPM is Σ ω·revenue / Σ ω·impressions·g.

    >>> flat = np.ones((1, 7)), np.ones((1, 7))
    >>> history = History(np.array([[8.0, 8.0]]), np.array([[2.0, 2.0]]), np.array([0, 1, 2]))
    >>> [amounts.tolist() for amounts in forecast(history, flat, 7.0)]
    [[[8.0]], [[2.0]]]
    """
    f, g = shapes
    n_days = history.impressions.shape[1]
    known, ahead = history.weekday[:n_days], history.weekday[n_days:]
    weight = 0.5 ** (np.arange(n_days)[::-1] / half_life)
    level = _ratio(history.impressions @ weight, f[:, known] @ weight)
    ecpm = _ratio(history.revenue @ weight, (history.impressions * g[:, known]) @ weight)
    impressions = level[:, None] * f[:, ahead]
    return impressions, impressions * ecpm[:, None] * g[:, ahead]


def forecasts(
    history: History,
    segments: dict[int, Labels],
    half_lives: Sequence[float] = HALF_LIVES,
    strengths: Sequence[float] = STRENGTHS,
) -> Iterator[tuple[Candidate, Pair]]:
    """Yield the forecasts of every source with all its settings.

    ``segments`` has the labels (A,) of the orders by number of segments; an order with label −1
    takes what all orders share.
    """
    n_days = history.impressions.shape[1]
    ago = n_days - 7 + np.arange(len(history.weekday) - n_days) % 7
    yield Candidate("last week"), (history.impressions[:, ago], history.revenue[:, ago])
    for candidate, shapes in _shapes(history, segments, strengths):
        for half_life in half_lives:
            yield candidate._replace(half_life=half_life), forecast(history, shapes, half_life)


def _shapes(
    history: History, segments: dict[int, Labels], strengths: Sequence[float]
) -> Iterator[tuple[Candidate, Pair]]:
    """Yield the weekday factors of impressions and eCPM of every source, (A, 7) each."""
    evidence = history.evidence()
    count = np.minimum(history.impressions.mean(axis=1) / _FULL_COUNT, 1.0)
    flat = np.ones((len(count), 7)), np.ones((len(count), 7))
    # a weekday without evidence is taken to be like any other
    together = np.zeros(len(count), dtype=np.int64)
    everyone = _of_segments(evidence, count, together, flat, _NEGLIGIBLE)
    yield Candidate("flat"), flat
    yield Candidate("own"), _pooled(evidence, flat, _NEGLIGIBLE)
    yield Candidate("global"), everyone
    for strength in strengths:
        yield Candidate("global+pooled", None, strength), _pooled(evidence, everyone, strength)
    for k, labels in segments.items():
        shared = _of_segments(evidence, count, labels, everyone, _SEGMENT_DAYS)
        yield Candidate("segment", k), shared
        for strength in strengths:
            yield Candidate("segment+pooled", k, strength), _pooled(evidence, shared, strength)


def _pooled(evidence: tuple[Pair, Pair], prior: Pair, strength: float) -> Pair:
    """Shrink each order's factors towards a prior that counts as so many days."""
    (x, y), (u, v) = evidence
    return pooled_rates(x, y, prior[0], strength), pooled_rates(u, v, prior[1], strength)


def _of_segments(
    evidence: tuple[Pair, Pair], count: Floats, labels: Labels, prior: Pair, strength: float
) -> Pair:
    """Return the factors of each order's segment, pooled with the prior, which all orders share."""
    member = np.zeros((len(labels), int(labels.max(initial=-1)) + 1))
    inside = np.flatnonzero(labels >= 0)
    member[inside, labels[inside]] = count[inside]

    def shared(x: Floats, y: Floats, before: Floats) -> Floats:
        rows = before.copy()
        factors = pooled_rates(member.T @ x, member.T @ y, before[:1], strength)
        rows[inside] = factors[labels[inside]]
        return rows

    return shared(*evidence[0], prior[0]), shared(*evidence[1], prior[1])


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, and 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
