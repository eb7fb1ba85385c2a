"""Evaluation on days nobody looked at: every source of curves, with and without pooling.

The last days are held out. What every source needs to have chosen (the level of the test, the
number of segments, the strength of pooling) is chosen by backtest inside the other days
(:mod:`coterie.ads.forecasts.backtest`); then each forecasts the held-out days from the bids made
on them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.demand import Outcome, demand_of, outcome_of
from coterie.ads.curves.landscapes import PER_UNIT
from coterie.ads.forecasts.accuracy import (
    Difference,
    Measures,
    measure,
    paired_difference,
    strata_of,
)
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
from coterie.ads.segments.text_view import TextView
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import on_one_thread

__all__ = ["Evaluation", "evaluate", "text_vectors"]

Floats = NDArray[np.float64]

_LOG = logging.getLogger("coterie")
_TARGETS = ("impressions", "spend")


@dataclass(frozen=True)
class Evaluation:
    """Forecasts of the held-out days beside what happened.

    Attributes
    ----------
    days : list of str
        The days held out.
    advertisers : (A,) array of str
    observations : (A,) array
        Bids in the training days; 0 for an advertiser that first bid in the held-out ones.
    bids : (A,) array
        Bids in the days held out. Who made none there has nothing to forecast.
    truth : Outcome
        Spend in units of currency, as in the forecasts.
    forecasts : dict of str to Outcome
        Keys as in "robust" and "robust+pooled"; ``spread`` includes day-to-day noise.
    choices : dict of str to Choice
    segments : (A,) int64 array
        By the robust source, on the training days; −1 without one.
    training : Training
        Evidence and views of the training days.
    """

    days: list[str]
    advertisers: NDArray[np.str_]
    observations: Floats
    bids: Floats
    truth: Outcome
    forecasts: dict[str, Outcome]
    choices: dict[str, Choice]
    segments: NDArray[np.int64]
    training: Training

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
    vectors = text_vectors(histograms, descriptions, settings.random_state)
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
    """Indices of the training days and of the last days, which are held out."""
    n_days = len(histograms.days)
    if holdout_days < 1:
        raise InvalidParameterError(f"holdout_days={holdout_days}: hold out at least one day")
    if n_days <= holdout_days:
        raise InvalidParameterError(
            f"the log has {n_days} day{'s' if n_days != 1 else ''}, and {holdout_days} are to be "
            f"held out: nothing is left to learn from; bring at least {holdout_days + 1} days"
        )
    return list(range(n_days - holdout_days)), list(range(n_days - holdout_days, n_days))


def text_vectors(
    histograms: BidHistograms, descriptions: Mapping[str, str] | None, random_state: int = 0
) -> Floats | None:
    """The vectors of the advertisers' texts, (A, d), or None where there is not one text."""
    texts = texts_of(histograms.advertisers, descriptions)
    if not any(texts):
        return None
    return np.asarray(TextView(random_state=random_state).fit(texts).transform(texts))


def texts_of(advertisers: NDArray[np.str_], descriptions: Mapping[str, str] | None) -> list[str]:
    """The text of each advertiser, empty where there is none."""
    return [((descriptions or {}).get(str(name)) or "").strip() for name in advertisers]


def interval(found: Outcome, target: str) -> tuple[Floats, Floats]:
    """The interval that is to hold nine in ten.

    Impressions are whole: the interval is widened to them. Spend follows impressions in
    proportion.
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


def _flagship(names: Iterable[str]) -> str:
    """What the others are compared with: of the sources there are, the last one, pooled."""
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
