"""Backtest of the market model: settings and intervals by forecasts of earlier days.

The origin rolls over the last days of the log: each is forecast from the days before it, with
segments, price levels, dictionary and supply found from these days alone. The number of segments,
the strength of the dictionary and the half-life of the days are those with the smallest error, the
mean of the WAPEs, Σ|forecast − actual| / Σ actual, of impressions and spend. The errors that remain
calibrate the intervals.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence
from coterie.ads.curves.supply import Supply, fit_supply, shrunk_shares
from coterie.ads.fitting.market_fit import MarketFit, fit_market
from coterie.ads.fitting.source_choice import SourceTrial, choose_sources
from coterie.ads.forecasts.calibration import TARGETS, Calibration, calibrate, normal_calibration
from coterie.ads.forecasts.fitted_market import Choice
from coterie.ads.forecasts.forecast_figures import COLUMNS
from coterie.ads.forecasts.plan_forecasts import PlanForecasts, known_rates, pays_of
from coterie.ads.forecasts.plans import Outcome, Plans, outcome_of, plans_of
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.segments.memberships import Memberships
from coterie.ads.segments.settings import SegmentSettings

__all__ = ["HALF_LIVES", "STRENGTHS", "backtest_market", "event_rates", "plan_forecasts"]

Floats = NDArray[np.float64]

#: Strengths of the dictionary's curves, in auctions, to choose from.
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, np.inf)
#: Half-lives of the days to choose from, in days; there must be twice as many days.
HALF_LIVES = (np.inf, 14.0, 7.0, 3.0)
_USUAL_STRENGTH = 100.0
#: A setting other than the usual must be better by this share of the error.
_LEAST_GAIN = 0.002
_TINY_FACTOR = 1e-6
_TINY_RUNGS = np.full((2, 4, 2, 3), _TINY_FACTOR), 0.0, 1.0

_LOG = logging.getLogger("coterie")


def backtest_market(
    histograms: BidHistograms, trials: list[SourceTrial], settings: SegmentSettings
) -> tuple[Choice, Calibration]:
    """Choose the settings of the market model by forecasts of the last days.

    ``trials`` have the candidates of the source "robust", and may have others. Without trials the
    settings are the usual ones, and the intervals are those of normal errors.
    """
    robust = choose_sources(trials, settings, ("robust",)).get("robust+pooled")
    n_segments = int(dict(robust.settings)["k"]) if robust else 0
    if not trials:
        numbers = settings.possible_numbers(len(histograms.advertisers))
        middle, unknown = numbers[len(numbers) // 2], float("nan")
        usual = Choice(middle, _USUAL_STRENGTH, np.inf, unknown, unknown, unknown, 0)
        return usual, normal_calibration()
    _LOG.info("Choosing the strength of the market curves")
    forecasts = [_trial(histograms, trial, n_segments) for trial in trials]
    strengths = {m: _error(forecasts, m) for m in STRENGTHS}
    strength = _best(strengths, _USUAL_STRENGTH)
    half_lives = {np.inf: strengths[strength]}
    for half_life in HALF_LIVES[1:]:
        if len(histograms.days) >= 2 * half_life:
            aged = [replace(one, fit=one.fit.with_half_life(half_life)) for one in forecasts]
            half_lives[half_life] = _error(aged, strength)
    half_life = _best(half_lives, np.inf)
    if np.isfinite(half_life):
        forecasts = [replace(one, fit=one.fit.with_half_life(half_life)) for one in forecasts]
    choice = Choice(n_segments, strength, half_life, *half_lives[half_life], len(trials))
    return choice, _calibrated(forecasts, strength)


def plan_forecasts(
    fit: MarketFit,
    strength: float,
    evidence: Evidence,
    supply: Supply,
    events: Floats,
) -> PlanForecasts:
    """Return the forecasts of a fitted market with a strength."""
    win, spread = fit.curves(strength)
    return PlanForecasts(
        evidence.edges,
        evidence.price,
        pays_of(evidence),
        win,
        spread,
        events,
        fit.levels,
        supply,
    )


def event_rates(
    wins: Floats, events: Mapping[str, Floats], shares: Floats
) -> dict[str, tuple[Floats | None, Floats | None]]:
    """Return the rates of events per impression, and their worth, (A,) each.

    ``events`` are numbers of clicks and conversions, (A,) each; where all are 0 there is None.
    """
    return {
        name: shrunk_shares(number, wins, shares) if number.any() else (None, None)
        for name, number in events.items()
    }


@dataclass(frozen=True)
class _Forecast:
    """One origin: the market before it, and what happened on it."""

    fit: MarketFit
    evidence: Evidence
    supply: Supply
    events: Floats
    plans: Plans
    truth: Outcome

    def figures(self, strength: float, *, given: bool = True) -> Floats:
        core = plan_forecasts(self.fit, strength, self.evidence, self.supply, self.events)
        return core.of_plans(self.plans, _TINY_RUNGS, given=given)


def _trial(histograms: BidHistograms, trial: SourceTrial, n_segments: int) -> _Forecast:
    memberships = _memberships(trial, n_segments)
    K = memberships.shares.shape[1] - 1
    fit = fit_market(histograms, trial.before, memberships.labels, K)
    outcome = outcome_of(histograms, trial.before)
    events = {"clicks": outcome.clicks, "conversions": outcome.conversions}
    rates = event_rates(outcome.impressions, events, memberships.shares)
    n = len(histograms.advertisers)
    known = trial.evidence.observations > 0
    plans = plans_of(histograms, [trial.day])
    return _Forecast(
        fit,
        trial.evidence,
        fit_supply(histograms, trial.before),
        np.column_stack([part for pair in rates.values() for part in known_rates(n, *pair)]),
        plans.of_rows(known),
        outcome_of(histograms, [trial.day]),
    )


def _memberships(trial: SourceTrial, n_segments: int) -> Memberships:
    """Return the memberships of the chosen number of segments; of no segment without views."""
    for candidate in trial.candidates:
        if candidate.key == ("robust", (("k", n_segments),)):
            return candidate.memberships
    from coterie.ads.segments.memberships import hard_memberships

    unlabelled = np.full(len(trial.evidence.observations), -1, dtype=np.int64)
    return hard_memberships(trial.evidence, unlabelled)


def _error(forecasts: list[_Forecast], strength: float) -> tuple[float, float, float]:
    """Return mean WAPE, mean bias and its standard error, of impressions and spend."""
    sums = np.zeros((4, 2))
    for one in forecasts:
        figures = one.figures(strength)
        for place, target in enumerate(("impressions", "spend")):
            column = COLUMNS[target]
            truth = getattr(one.truth, target)[one.plans.rows]
            gap = figures[:, column] - truth
            sums[:, place] += np.abs(gap).sum(), gap.sum(), (gap**2).sum(), truth.sum()
    total = np.maximum(sums[3], 1e-12)
    relative = sums[0] / total, sums[1] / total, np.sqrt(sums[2]) / total
    wape, bias, error = (float(part.mean()) for part in relative)
    # no bias is known if nothing was won
    return (wape, bias, error) if sums[3].all() else (wape, float("nan"), float("nan"))


def _best(errors: dict[float, tuple[float, float, float]], usual: float) -> float:
    """Return the setting with the smallest error, or the usual one if it is hardly worse."""
    best = min(errors, key=lambda key: errors[key][0])
    is_close = usual in errors and errors[usual][0] <= errors[best][0] * (1 + _LEAST_GAIN)
    return usual if is_close else best


def _calibrated(forecasts: list[_Forecast], strength: float) -> Calibration:
    """Calibrate by the standardised errors of all origins."""
    samples: list[tuple[list[Any], list[Any]]] = [([], []) for _ in range(2 * len(TARGETS))]
    for one in forecasts:
        for mode, given in enumerate((True, False)):
            figures = one.figures(strength, given=given)
            for place, target in enumerate(TARGETS):
                column = COLUMNS[target]
                mean, size = figures[:, column], figures[:, 2 if place < 2 else column]
                # intervals were asked for with tiny factors, so that no limit cuts them
                deviation = (figures[:, column + 2] - mean) / _TINY_FACTOR
                usable = deviation > 0  # NaN is not
                gap = getattr(one.truth, target)[one.plans.rows] - mean
                sizes, errors = samples[mode * len(TARGETS) + place]
                sizes.append(size[usable])
                errors.append(gap[usable] / deviation[usable])
    together = [(np.concatenate(sizes), np.concatenate(errors)) for sizes, errors in samples]
    return calibrate(together)
