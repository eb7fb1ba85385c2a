"""Evaluation on days nobody looked at: every source of curves, with and without pooling.

The last days are held out. What every source needs to have chosen (the level of the test, the
number of segments, the strength of pooling) is chosen by backtest inside the other days
(:mod:`coterie.ads.forecasts.backtest`); then each forecasts the held-out days from the bids made
on them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.demand import Outcome, demand_of, outcome_of
from coterie.ads.curves.landscapes import PER_UNIT
from coterie.ads.forecasts.backtest import (
    NINE_IN_TEN,
    Choice,
    Training,
    all_candidates,
    choose,
    forecast_outcome,
    settled,
    training_on,
)
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.segments.memberships import hard_memberships
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.sources import SOURCES, Candidate
from coterie.ads.segments.text_view import description_vectors
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import on_one_thread

__all__ = [
    "STRATA",
    "Difference",
    "Evaluation",
    "Measures",
    "evaluate",
    "measure",
    "paired_difference",
    "strata_of",
]

Floats = NDArray[np.float64]
_LOG = logging.getLogger("coterie")
_TARGETS = ("impressions", "spend")
#: Bids in the training days: name, from, to (exclusive).
STRATA: tuple[tuple[str, float, float], ...] = (
    ("new", 0, 1),
    ("1–9 bids", 1, 10),
    ("10–199 bids", 10, 200),
    ("200–1,999 bids", 200, 2000),
    ("2,000 bids and more", 2000, np.inf),
)


@dataclass(frozen=True)
class Evaluation:
    """Forecasts of the held-out days beside what happened."""

    days: list[str]  # the days held out
    advertisers: NDArray[np.str_]
    # (A,), bids in the training days; 0 for one that first bid in the held-out ones
    observations: Floats
    bids: Floats  # (A,), in the days held out; who made none there has nothing to forecast
    truth: Outcome  # spend in units of currency, as in the forecasts
    # keys as in "robust" and "robust+pooled"; spread includes day-to-day noise
    forecasts: dict[str, Outcome]
    choices: dict[str, Choice]
    segments: NDArray[np.int64]  # (A,), by the robust source, on the training days; −1 without one
    training: Training  # evidence and views of the training days

    def measures(self, name: str, target: str, rows: NDArray[np.bool_] | None = None) -> Measures:
        """Errors of one source; by default over the advertisers seen in training and held out."""
        chosen = self._seen if rows is None else rows
        found, truth = self.forecasts[name], getattr(self.truth, target)
        value = getattr(found, target)
        low, high = interval(found, target)
        return measure(value[chosen], truth[chosen], low[chosen], high[chosen])

    @property
    def _seen(self) -> NDArray[np.bool_]:
        return (self.observations > 0) & (self.bids > 0)

    def difference(self, first: str, second: str, target: str) -> Difference:
        """WAPE of one source less that of another, over the advertisers seen in training."""
        seen = self._seen
        one, other = (getattr(self.forecasts[name], target)[seen] for name in (first, second))
        return paired_difference(one, other, getattr(self.truth, target)[seen])

    def as_dict(self) -> dict[str, Any]:
        """Everything that is reported, ready for JSON."""
        reference = _flagship(self.forecasts)
        return {
            "holdout": self.days,
            "advertisers": int(self._seen.sum()),
            "new_advertisers": int(((self.observations <= 0) & (self.bids > 0)).sum()),
            "sources": {
                name: {target: self.measures(name, target).as_dict() for target in _TARGETS}
                for name in self.forecasts
            },
            "strata": [self._stratum(n, rows) for n, rows in strata_of(self.observations).items()],
            "differences": [
                self._difference(name, reference, target)
                for name in self.forecasts
                for target in _TARGETS
                if name != reference
            ],
            "chosen": {name: _chosen(choice) for name, choice in self.choices.items()},
        }

    def _stratum(self, name: str, rows: NDArray[np.bool_]) -> dict[str, Any]:
        active = rows & (self.bids > 0)
        return {
            "name": name,
            "advertisers": int(active.sum()),
            "sources": {
                source: {
                    target: self.measures(source, target, active).as_dict() for target in _TARGETS
                }
                for source in self.forecasts
            },
        }

    def _difference(self, name: str, reference: str, target: str) -> dict[str, Any]:
        found = self.difference(reference, name, target)
        return {
            "a": reference,
            "b": name,
            "target": target,
            "difference": _number(found.difference),
            "standard_error": _number(found.standard_error),
        }


@on_one_thread()  # many small steps: handing them to other threads costs more than it gains
def evaluate(
    histograms: BidHistograms,
    descriptions: Mapping[str, str] | None = None,
    *,
    holdout_days: int = 1,
    settings: SegmentSettings | None = None,
    true_segments: NDArray[np.int64] | None = None,
    sources: Sequence[str] = SOURCES,
) -> Evaluation:
    """Hold out the last days, and forecast them by every source.

    Parameters
    ----------
    histograms : BidHistograms
    descriptions : mapping of str to str, optional
        The text of each advertiser.
    holdout_days : int
    settings : SegmentSettings, optional
    true_segments : (A,) int array, optional
        Where they are known (a simulation): adds the sources "true" and "true+pooled", the
        latter with the strength chosen for "robust+pooled", or for the last source there is.
    sources : sequence of str
    """
    train, held = split_days(histograms, holdout_days)
    settings = settled(histograms, train, settings or SegmentSettings())
    vectors = description_vectors(histograms, descriptions, settings.random_state)
    choices = choose(histograms, train, vectors, settings, sources)
    _LOG.info("Fitting every source on the %d training days", len(train))
    training = training_on(histograms, train, vectors, settings)
    by_key = {c.key: c for c in all_candidates(training, settings, sources)}
    demand, forecasts = demand_of(histograms, held), {}
    for name, choice in choices.items():
        memberships = by_key[choice.source, choice.settings].memberships
        found = forecast_outcome(training.evidence, memberships, choice.strength, demand)
        forecasts[name] = _finished(found, choice.noise)
    if true_segments is not None:
        memberships = hard_memberships(training.evidence, true_segments, settings.max_observations)
        strengths = {"true": np.inf, "true+pooled": choices[_flagship(choices)].strength}
        for name, strength in strengths.items():
            found = forecast_outcome(training.evidence, memberships, strength, demand)
            forecasts[name] = _finished(found, 0.0)
    return Evaluation(
        days=[str(day) for day in histograms.days[held]],
        advertisers=histograms.advertisers,
        observations=training.evidence.observations,
        bids=histograms.daily("count")[:, held].sum(axis=1),
        truth=_in_units(outcome_of(histograms, held)),
        forecasts=forecasts,
        choices=choices,
        segments=_segments(by_key, choices, len(histograms.advertisers)),
        training=training,
    )


def split_days(histograms: BidHistograms, holdout_days: int) -> tuple[list[int], list[int]]:
    """Return the indices of the training days and of the last days, which are held out."""
    n_days = len(histograms.days)
    if holdout_days < 1:
        raise InvalidParameterError(f"holdout_days={holdout_days}: hold out at least one day")
    if n_days <= holdout_days:
        raise InvalidParameterError(
            f"the log has {n_days} day{'s' if n_days != 1 else ''}, and {holdout_days} are to be "
            f"held out: nothing is left to learn from; bring at least {holdout_days + 1} days"
        )
    return list(range(n_days - holdout_days)), list(range(n_days - holdout_days, n_days))


def interval(found: Outcome, target: str) -> tuple[Floats, Floats]:
    """Return the interval that should hold nine in ten outcomes.

    Impressions are whole: the interval is widened to them. Spend follows in proportion.
    """
    spread = np.zeros_like(found.impressions) if found.spread is None else found.spread
    low = np.floor(np.maximum(found.impressions - NINE_IN_TEN * spread, 0.0))
    high = np.ceil(found.impressions + NINE_IN_TEN * spread)
    if target == "impressions":
        return low, high
    price = np.divide(
        found.spend, found.impressions, out=np.zeros_like(low), where=found.impressions > 0
    )
    return low * price, high * price


@dataclass(frozen=True)
class Measures:
    """Errors of a forecast f of y over some advertisers; a measure that cannot be told is None."""

    wape: float | None  # Σ|f − y| / Σ y, the headline: every impression counts alike
    wape_standard_error: float | None  # over advertisers: that of a ratio of two sums
    mape: float | None  # mean of |f − y| / y over the advertisers with y > 0, the paper's
    mape_advertisers: int  # how many those are
    smape: float | None  # mean of 2|f − y| / (f + y) over those where either is above 0
    bias: float | None  # Σ(f − y) / Σ y
    # share of advertisers whose y lies in the interval that is to hold nine in ten
    coverage: float | None
    advertisers: int

    def as_dict(self) -> dict[str, float | int | None]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Difference:
    """WAPE of one source less that of another, on the same advertisers."""

    difference: float
    standard_error: float


def measure(
    forecast: Floats, truth: Floats, low: Floats | None = None, high: Floats | None = None
) -> Measures:
    """Compare a forecast with what happened, advertiser by advertiser; all are (A,) arrays.

    >>> found = measure(np.array([8.0, 5.0]), np.array([10.0, 0.0]))
    >>> found.wape, found.mape, found.mape_advertisers, round(found.smape, 3), found.bias
    (0.7, 0.2, 1, 1.111, 0.3)
    """
    error, total = np.abs(forecast - truth), float(truth.sum())
    positive, either = truth > 0, (truth + forecast) > 0
    inside = None
    if low is not None and high is not None and len(truth):
        inside = float(((truth >= low) & (truth <= high)).mean())
    return Measures(
        wape=float(error.sum()) / total if total > 0 else None,
        wape_standard_error=_ratio_error(error, truth),
        mape=_mean(error[positive] / truth[positive]),
        mape_advertisers=int(positive.sum()),
        smape=_mean(2 * error[either] / (forecast + truth)[either]),
        bias=float((forecast - truth).sum()) / total if total > 0 else None,
        coverage=inside,
        advertisers=len(truth),
    )


def paired_difference(first: Floats, second: Floats, truth: Floats) -> Difference:
    """WAPE of ``first`` less that of ``second``, with its standard error over advertisers.

    With δ = |f₁ − y| − |f₂ − y| for each of the A advertisers the difference is Σδ / Σy and its
    standard error √(A · var δ) / Σy.

    >>> paired_difference(np.array([9.0, 4.0]), np.array([8.0, 4.0]), np.array([10.0, 4.0]))
    Difference(difference=-0.0714..., standard_error=0.0714...)
    """
    delta = np.abs(first - truth) - np.abs(second - truth)
    total = float(truth.sum())
    if total <= 0 or len(delta) < 2:
        return Difference(float("nan"), float("nan"))
    error = float(np.sqrt(len(delta) * delta.var(ddof=1))) / total
    return Difference(float(delta.sum()) / total, error)


def strata_of(observations: Floats) -> Mapping[str, NDArray[np.bool_]]:
    """Which advertisers are in which stratum of :data:`STRATA`, by bids in the training days."""
    return {name: (observations >= low) & (observations < high) for name, low, high in STRATA}


def _flagship(names: Iterable[str]) -> str:
    """Return what the others are compared with: of the sources there are, the last one, pooled."""
    there = set(names)
    return next(f"{source}+pooled" for source in reversed(SOURCES) if f"{source}+pooled" in there)


def _segments(
    by_key: Mapping[Any, Candidate], choices: Mapping[str, Choice], n: int
) -> NDArray[np.int64]:
    choice = choices.get("robust+pooled")
    if choice is None:
        return np.full(n, -1, dtype=np.int64)
    return by_key[choice.source, choice.settings].memberships.labels


def _finished(found: Outcome, noise: float) -> Outcome:
    """With day-to-day noise in the spread, and the spend in units of currency."""
    spread = np.zeros_like(found.impressions) if found.spread is None else found.spread
    return _in_units(replace(found, spread=np.sqrt(spread**2 + (noise * found.impressions) ** 2)))


def _in_units(outcome: Outcome) -> Outcome:
    return replace(outcome, spend=outcome.spend / PER_UNIT)


def _chosen(choice: Choice) -> dict[str, Any]:
    return {
        **dict(choice.settings),
        "strength": "segment only" if np.isinf(choice.strength) else choice.strength,
        "backtest_error": _number(choice.error),
        "backtest_days": choice.days,
        "daily_noise": choice.noise,
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def _ratio_error(error: Floats, truth: Floats) -> float | None:
    """Return √(A · var(|f − y| − WAPE · y)) / Σ y, the standard error of Σ|f − y| / Σ y."""
    total = float(truth.sum())
    if total <= 0 or len(truth) < 2:
        return None
    left = error - truth * (error.sum() / total)
    return float(np.sqrt(len(left) * left.var(ddof=1))) / total


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None
