"""Choosing by forecast error, inside the training days: the referee that plain clustering lacks.

The origin rolls over the last training days: each is forecast from the days before it, by every
candidate and every pooling strength, and the settings with the smallest error win. The error is
the mean of two WAPEs, Σ|forecast − truth| / Σ truth, of impressions and of spend. No later day is
looked at.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.demand import Demand, Outcome, demand_of, expected_outcome, outcome_of
from coterie.ads.curves.landscapes import Evidence, evidence_of
from coterie.ads.curves.pooling import pooled_curves, win_variance
from coterie.ads.forecasts.pooled_curves import NINE_IN_TEN, Choice
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.segments.memberships import Memberships
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.sources import SOURCES, Candidate, candidates
from coterie.ads.segments.views import View, make_views

__all__ = [
    "NINE_IN_TEN",
    "Choice",
    "Training",
    "choose",
    "forecast_outcome",
    "settled",
    "training_on",
]

Floats = NDArray[np.float64]

_LOG = logging.getLogger("coterie")
_Key = tuple[str, tuple[tuple[str, Any], ...], float]


@dataclass(frozen=True)
class Training:
    """What some days tell: evidence and views."""

    evidence: Evidence
    views: dict[str, View]

    @property
    def informative_views(self) -> dict[str, View]:
        """The views that place at least one advertiser."""
        return {name: view for name, view in self.views.items() if np.any(view.partitions >= 0)}


def settled(
    histograms: BidHistograms, days: Sequence[int], settings: SegmentSettings
) -> SegmentSettings:
    """Return the settings with numbers of segments that every span of days to train on allows.

    The first span of the backtest has the fewest advertisers. Left to each span, a number would
    be cut down differently in each, and what was chosen on one could not be had on another.
    """
    first = min(_origins(days, settings.origins), default=np.inf)
    before = [day for day in days if day < first]
    present = histograms.daily("count")[:, before].sum(axis=1) > 0
    possible = settings.possible_numbers(int(present.sum()))
    is_changed = possible != settings.numbers_of_segments
    return replace(settings, n_segments=possible) if is_changed else settings


def training_on(
    histograms: BidHistograms,
    days: Sequence[int],
    vectors: Floats | None,
    settings: SegmentSettings,
) -> Training:
    """Collect the evidence of some days and take every look at it."""
    evidence = evidence_of(histograms, days)
    numbers = settings.possible_numbers(int((evidence.observations > 0).sum()))
    views = make_views(
        histograms.dense(days),
        evidence,
        vectors,
        ks=numbers,
        alphas=settings.alphas,
        max_observations=settings.max_observations,
        tolerance=settings.tolerance,
        wins_over=settings.wins_over,
        random_state=settings.random_state,
    )
    return Training(evidence, views)


def all_candidates(
    training: Training, settings: SegmentSettings, sources: Sequence[str]
) -> list[Candidate]:
    """Return the candidates of some sources, fitted on the training days."""
    present = int((training.evidence.observations > 0).sum())
    return list(
        candidates(
            training.views,
            training.evidence,
            settings.possible_numbers(present),
            sources=sources,
            consensus=settings.consensus,
            max_observations=settings.max_observations,
            random_state=settings.random_state,
        )
    )


def forecast_outcome(
    evidence: Evidence, memberships: Memberships, strength: float, demand: Demand
) -> Outcome:
    """Impressions and spend of a demand, with their spread."""
    prior = memberships.prior
    win = pooled_curves(evidence, prior, strength)
    return expected_outcome(demand, win, evidence, win_variance(evidence, prior, strength))


def choose(
    histograms: BidHistograms,
    days: Sequence[int],
    vectors: Floats | None = None,
    settings: SegmentSettings | None = None,
    sources: Sequence[str] = SOURCES,
) -> dict[str, Choice]:
    """Return the settings of every source, with and without pooling, that forecast best.

    Parameters
    ----------
    histograms : BidHistograms
    days : sequence of int
        The training days, in order; indices into ``histograms.days``.
    vectors : (A, d) array, optional
        Of the texts.
    settings : SegmentSettings, optional
    sources : sequence of str

    Returns
    -------
    dict of str to Choice
        Keys as in "robust" and "robust+pooled". With fewer than two training days there is
        nothing to choose by: the middle of what was offered is taken, and ``error`` is NaN.
    """
    settings = settled(histograms, days, settings or SegmentSettings())
    errors: dict[_Key, list[Floats]] = defaultdict(list)
    trials: list[_Trial] = []
    for origin in _origins(days, settings.origins):
        _LOG.info("Forecasting %s from the days before it", histograms.days[origin])
        trial = _trial(
            histograms, [d for d in days if d < origin], origin, vectors, settings, sources
        )
        trials.append(trial)
        for key, error in _errors(trial, settings.strengths):
            errors[key].append(error)
    if not trials:
        return _unchosen(histograms, days, vectors, settings, sources)
    chosen: dict[str, Choice] = {}
    for source in dict.fromkeys(key[0] for key in errors):
        for name, is_wanted in ((source, _is_bare), (f"{source}+pooled", _is_pooled)):
            rivals = {
                key: _wape(error)
                for key, error in errors.items()
                if key[0] == source and is_wanted(key)
            }
            best = min(rivals, key=lambda key: (rivals[key], str(key)))
            noise = _noise(trials, best)
            chosen[name] = Choice(*best, rivals[best], noise, len(trials))
    return chosen


@dataclass(frozen=True)
class _Trial:
    """One origin: candidates fitted before it, and what happened on it."""

    evidence: Evidence
    candidates: list[Candidate]
    demand: Demand
    truth: Outcome
    known: NDArray[np.bool_]


def _origins(days: Sequence[int], most: int) -> list[int]:
    return list(days)[1:][-most:] if most else []


def _trial(
    histograms: BidHistograms,
    before: list[int],
    day: int,
    vectors: Floats | None,
    settings: SegmentSettings,
    sources: Sequence[str],
) -> _Trial:
    training = training_on(histograms, before, vectors, settings)
    return _Trial(
        training.evidence,
        all_candidates(training, settings, sources),
        demand_of(histograms, [day]),
        outcome_of(histograms, [day]),
        training.evidence.observations > 0,
    )


def _bare_strength(source: str) -> float:
    return 0.0 if source == "own" else np.inf


def _is_bare(key: _Key) -> bool:
    return key[2] == _bare_strength(key[0])


def _is_pooled(key: _Key) -> bool:
    return not _is_bare(key)


def _errors(trial: _Trial, strengths: Sequence[float]) -> Iterator[tuple[_Key, Floats]]:
    """(Σ|error|, Σ truth) of impressions and of spend, (2, 2), for every candidate and strength."""
    for candidate in trial.candidates:
        prior = candidate.memberships.prior
        for strength in (_bare_strength(candidate.source), *strengths):
            win = pooled_curves(trial.evidence, prior, strength)
            found = expected_outcome(trial.demand, win, trial.evidence)
            yield (
                (*candidate.key, strength),
                np.array(
                    [
                        _totals(found.impressions, trial.truth.impressions, trial.known),
                        _totals(found.spend, trial.truth.spend, trial.known),
                    ]
                ),
            )


def _totals(forecast: Floats, truth: Floats, known: NDArray[np.bool_]) -> tuple[float, float]:
    return float(np.abs(forecast - truth)[known].sum()), float(truth[known].sum())


def _wape(errors: list[Floats]) -> float:
    total = np.sum(errors, axis=0)
    return float(np.mean(total[:, 0] / np.maximum(total[:, 1], 1e-12)))


def _noise(trials: list[_Trial], key: _Key) -> float:
    """Return the least day-to-day noise with which nine in ten intervals held, over all origins."""
    misses = []
    for trial in trials:
        matching = [c for c in trial.candidates if c.key == key[:2]]
        if not matching:
            continue
        found = forecast_outcome(trial.evidence, matching[0].memberships, key[2], trial.demand)
        seen = trial.known & (found.impressions > 0)
        spread = found.spread if found.spread is not None else np.zeros_like(found.impressions)
        miss = (trial.truth.impressions - found.impressions)[seen] / NINE_IN_TEN
        needed = np.maximum(miss**2 - spread[seen] ** 2, 0.0)
        misses.append(np.sqrt(needed) / found.impressions[seen])
    gathered = np.concatenate(misses) if misses else np.zeros(0)
    return float(np.quantile(gathered, 0.9)) if len(gathered) else 0.0


def _unchosen(
    histograms: BidHistograms,
    days: Sequence[int],
    vectors: Floats | None,
    settings: SegmentSettings,
    sources: Sequence[str],
) -> dict[str, Choice]:
    """Return the middle of every list of settings, for want of days to choose by."""
    training = training_on(histograms, days, vectors, settings)
    by_source: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in all_candidates(training, settings, sources):
        by_source[candidate.source].append(candidate)
    strengths = sorted(settings.strengths)
    middle = strengths[len(strengths) // 2]
    chosen = {}
    for source, offered in by_source.items():
        settled = offered[len(offered) // 2].settings
        for name, strength in ((source, _bare_strength(source)), (f"{source}+pooled", middle)):
            chosen[name] = Choice(source, settled, strength, float("nan"), 0.0, 0)
    return chosen
