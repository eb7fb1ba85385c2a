"""Backtest of the market model: settings and intervals by forecasts of earlier days.

The origin rolls over the last days of the log: each is forecast from the days before it, with
segments, price levels, dictionary and supply found from these days alone. The number of segments,
the strength of the dictionary and the half-life of the days are those with the smallest error, the
mean of the WAPEs, Σ|forecast − actual| / Σ actual, of impressions and spend. The errors that remain
calibrate the intervals.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.shrinkage import shrunk_shares
from coterie.ads.curves.supply import Supply, fit_supply
from coterie.ads.fitting.market_fit import MarketFit, fit_market
from coterie.ads.fitting.source_choice import SourceTrial, choose_sources
from coterie.ads.forecasts.calibration import TARGETS, Calibration, calibrate, normal_calibration
from coterie.ads.forecasts.fitted_market import Choice
from coterie.ads.forecasts.forecast_figures import COLUMNS
from coterie.ads.forecasts.forecast_tables import MarketTables, known_events
from coterie.ads.forecasts.plans import outcome_of, pays_of
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.segments.memberships import Memberships, hard_memberships
from coterie.ads.segments.settings import SegmentSettings

__all__ = ["HALF_LIVES", "STRENGTHS", "backtest_market", "event_rates"]

Floats = NDArray[np.float64]

#: Strengths of the dictionary's curves, in auctions, to choose from.
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, np.inf)
#: Half-lives of the days to choose from, in days; there must be twice as many days.
HALF_LIVES = (np.inf, 14.0, 7.0, 3.0)
_USUAL_STRENGTH = 100.0
#: A setting other than the usual must be better by this share of the error.
_LEAST_GAIN = 0.002
_TINY_FACTOR = 1e-6
_TINY_FACTORS = np.full((2, 4, 2, 3), _TINY_FACTOR), 0.0, 1.0

_LOG = logging.getLogger("coterie")


def backtest_market(
    histograms: BidHistograms, trials: list[SourceTrial], settings: SegmentSettings
) -> tuple[Choice, Calibration]:
    """Choose the settings of the market model by forecasts of the last days.

    ``trials`` have the candidates of the source "robust", and may have others. Without trials the
    settings are the usual ones, and the intervals are those of normal errors.
    """
    if not trials:
        numbers = settings.possible_numbers(len(histograms.advertisers))
        middle, unknown = numbers[len(numbers) // 2], float("nan")
        usual = Choice(middle, _USUAL_STRENGTH, np.inf, unknown, unknown, unknown, 0)
        return usual, normal_calibration()
    _LOG.info("Choosing the strength of the market curves")
    robust = choose_sources(trials, settings, ("robust",)).get("robust+pooled")
    n_segments = int(dict(robust.settings)["k"]) if robust else 0
    origins = [_fit_before(histograms, trial, n_segments) for trial in trials]
    strengths = {strength: _errors(origins, strength) for strength in STRENGTHS}
    strength = _best(strengths, _USUAL_STRENGTH)
    half_lives = {np.inf: strengths[strength]}
    for half_life in HALF_LIVES[1:]:
        if len(histograms.days) >= 2 * half_life:
            half_lives[half_life] = _errors(_aged(origins, half_life), strength)
    half_life = _best(half_lives, np.inf)
    choice = Choice(n_segments, strength, half_life, *half_lives[half_life], len(trials))
    return choice, _calibrated(_aged(origins, half_life), strength)


def event_rates(
    events: Floats, wins: Floats, shares: Floats
) -> tuple[Floats, Floats] | tuple[None, None]:
    """Return the rates of clicks or conversions per impression, and their worth, (A,) each.

    ``events`` (A,) are their numbers; if all are 0, both results are None.
    """
    return shrunk_shares(events, wins, shares) if events.any() else (None, None)


@dataclass(frozen=True)
class _Origin:
    """The market before one day, and the trial that says what happened on it."""

    trial: SourceTrial
    fit: MarketFit
    supply: Supply
    events: Floats  # (A, 4), see the kernels

    def figures(self, strength: float, *, given: bool = True) -> Floats:
        evidence = self.trial.evidence
        win, spread = self.fit.curves(strength)
        forecasts = MarketTables(
            evidence.edges,
            evidence.price,
            pays_of(evidence),
            win,
            spread,
            self.events,
            self.fit.levels,
            self.supply,
        )
        return forecasts.of_plans(self.trial.plans, _TINY_FACTORS, given=given)

    def truth(self, target: str) -> Floats:
        return np.asarray(getattr(self.trial.truth, target)[self.trial.plans.rows])


def _fit_before(histograms: BidHistograms, trial: SourceTrial, n_segments: int) -> _Origin:
    memberships = _memberships(trial, n_segments)
    shares, n = memberships.shares, len(histograms.advertisers)
    before = outcome_of(histograms, trial.before)
    rates = [
        event_rates(events, before.impressions, shares)
        for events in (before.clicks, before.conversions)
    ]
    return _Origin(
        trial,
        fit_market(histograms, trial.before, memberships.labels, shares.shape[1] - 1),
        fit_supply(histograms, trial.before),
        known_events(n, *rates),
    )


def _aged(origins: list[_Origin], half_life: float) -> list[_Origin]:
    if np.isinf(half_life):
        return origins
    return [replace(origin, fit=origin.fit.with_half_life(half_life)) for origin in origins]


def _memberships(trial: SourceTrial, n_segments: int) -> Memberships:
    """Return the memberships of the chosen number of segments; of no segment without views."""
    for candidate in trial.candidates:
        if candidate.key == ("robust", (("k", n_segments),)):
            return candidate.memberships
    unlabelled = np.full(len(trial.evidence.observations), -1, dtype=np.int64)
    return hard_memberships(trial.evidence, unlabelled)


def _errors(origins: list[_Origin], strength: float) -> tuple[float, float, float]:
    """Return mean WAPE, mean bias and its standard error, of impressions and spend."""
    sums = np.zeros((4, 2))
    for origin in origins:
        figures = origin.figures(strength)
        for place, target in enumerate(("impressions", "spend")):
            truth = origin.truth(target)
            gap = figures[:, COLUMNS[target]] - truth
            sums[:, place] += np.abs(gap).sum(), gap.sum(), (gap**2).sum(), truth.sum()
    total = np.maximum(sums[3], 1e-12)
    relative = sums[0] / total, sums[1] / total, np.sqrt(sums[2]) / total
    wape, bias, error = (float(part.mean()) for part in relative)
    # no bias is known if nothing was won
    return (wape, bias, error) if sums[3].all() else (wape, float("nan"), float("nan"))


def _best(errors: dict[float, tuple[float, float, float]], usual: float) -> float:
    """Return the setting with the smallest error, or the usual one if it is hardly worse."""
    best = min(errors, key=lambda key: errors[key][0])
    is_close = errors[usual][0] <= errors[best][0] * (1 + _LEAST_GAIN)
    return usual if is_close else best


def _calibrated(origins: list[_Origin], strength: float) -> Calibration:
    """Calibrate by the standardised errors of all origins."""
    samples = []
    for given in (True, False):
        figures = [origin.figures(strength, given=given) for origin in origins]
        for place, target in enumerate(TARGETS):
            column = COLUMNS[target]
            mean = np.concatenate([part[:, column] for part in figures])
            high = np.concatenate([part[:, column + 2] for part in figures])
            size = np.concatenate([part[:, 2 if place < 2 else column] for part in figures])
            truth = np.concatenate([origin.truth(target) for origin in origins])
            # intervals were requested with tiny factors, so that no limit cuts them
            deviation = (high - mean) / _TINY_FACTOR
            usable = deviation > 0  # NaN is not
            samples.append((size[usable], (truth - mean)[usable] / deviation[usable]))
    return calibrate(samples)
