"""Source choice: settings of the paper's sources of curves, by forecasts of earlier days.

Every source (own, global, text, win, cost, l2, robust) is used alone, and with each advertiser's
own auctions pooled in (:mod:`coterie.ads.curves.shrinkage`). The level of the test, the number of
segments and the strength of pooling are those with the smallest error when each of the last days
is forecast from the days before it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence, evidence_of
from coterie.ads.curves.shrinkage import pooled_curves
from coterie.ads.forecasts.plans import Outcome, Plans, forecast_by_curves, outcome_of, plans_of
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.segments.memberships import SOURCES, Candidate, candidates
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.views import View, make_views

__all__ = [
    "SourceChoice",
    "SourceTrial",
    "Training",
    "all_candidates",
    "choose_sources",
    "feasible_settings",
    "middle_settings",
    "training_on",
    "trials_on",
]

Floats = NDArray[np.float64]

_LOG = logging.getLogger("coterie")
_Key = tuple[str, tuple[tuple[str, Any], ...], float]


@dataclass(frozen=True)
class SourceChoice:
    """How one source is used, and how well it did on the days it was chosen by."""

    source: str  # one of coterie.ads.segments.memberships.SOURCES
    settings: tuple[tuple[str, Any], ...]  # the candidate's
    strength: float  # of pooling: infinity is the segment's curve alone, 0 the advertiser's
    error: float  # in the backtest; NaN where there was nothing to choose by
    days: int  # number of days that were forecast


@dataclass(frozen=True)
class Training:
    """Evidence and views of some days."""

    evidence: Evidence
    views: dict[str, View]

    @property
    def informative_views(self) -> dict[str, View]:
        """The views that place at least one advertiser."""
        return {name: view for name, view in self.views.items() if np.any(view.partitions >= 0)}


@dataclass(frozen=True)
class SourceTrial:
    """One origin: candidates fitted before it, and what happened on it."""

    before: list[int]  # the days to train on
    evidence: Evidence
    candidates: list[Candidate]
    plans: Plans
    truth: Outcome


def feasible_settings(
    histograms: BidHistograms, days: Sequence[int], settings: SegmentSettings
) -> SegmentSettings:
    """Return the settings with numbers of segments that every span of days to train on allows.

    The first span of the backtest has the fewest advertisers. If each span limited the numbers by
    itself, a number chosen on one span might not exist on another.
    """
    first = min(_origins(days, settings.origins), default=np.inf)
    before = [day for day in days if day < first]
    present = histograms.daily("count")[:, before].sum(axis=1) > 0
    return replace(settings, n_segments=settings.possible_numbers(int(present.sum())))


def training_on(
    histograms: BidHistograms,
    days: Sequence[int],
    vectors: Floats | None,
    settings: SegmentSettings,
) -> Training:
    """Collect the evidence of some days and make every view of it."""
    evidence = evidence_of(histograms, days)
    return Training(evidence, make_views(histograms.dense(days), evidence, vectors, settings))


def all_candidates(
    training: Training, settings: SegmentSettings, sources: Sequence[str]
) -> list[Candidate]:
    """Return the candidates of some sources, fitted on the training days."""
    return list(candidates(training.views, training.evidence, settings, sources))


def trials_on(
    histograms: BidHistograms,
    days: Sequence[int],
    vectors: Floats | None,
    settings: SegmentSettings,
    sources: Sequence[str] = SOURCES,
) -> list[SourceTrial]:
    """Fit the candidates of every origin; ``days`` are indices into ``histograms.days``.

    ``settings`` are those of :func:`feasible_settings`.
    """
    trials = []
    for origin in _origins(days, settings.origins):
        _LOG.info("Forecasting %s from the days before it", histograms.days[origin])
        before = [day for day in days if day < origin]
        training = training_on(histograms, before, vectors, settings)
        known = training.evidence.observations > 0
        trials.append(
            SourceTrial(
                before,
                training.evidence,
                all_candidates(training, settings, sources),
                plans_of(histograms, [origin]).of_rows(known),
                outcome_of(histograms, [origin]),
            )
        )
    return trials


def choose_sources(
    trials: Sequence[SourceTrial], settings: SegmentSettings, sources: Sequence[str] = SOURCES
) -> dict[str, SourceChoice]:
    """Return the settings of some sources, with and without pooling, that forecast best.

    Keys are as in "robust" and "robust+pooled".
    """
    errors: dict[_Key, list[Floats]] = defaultdict(list)
    for trial in trials:
        offered = [one for one in trial.candidates if one.source in sources]
        for key, error in _errors(trial, offered, settings.strengths):
            errors[key].append(error)
    chosen: dict[str, SourceChoice] = {}
    for source in dict.fromkeys(key[0] for key in errors):
        for name, is_pooled in ((source, False), (f"{source}+pooled", True)):
            rivals = {
                key: _wape(error)
                for key, error in errors.items()
                if key[0] == source and (key[2] != _bare_strength(source)) == is_pooled
            }
            best = min(rivals, key=lambda key: (rivals[key], str(key)))
            chosen[name] = SourceChoice(*best, rivals[best], len(trials))
    return chosen


def middle_settings(
    offered: Sequence[Candidate], settings: SegmentSettings
) -> dict[str, SourceChoice]:
    """Return the middle of every list of settings, if there are too few days to choose by."""
    by_source: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in offered:
        by_source[candidate.source].append(candidate)
    strengths = sorted(settings.strengths)
    middle = strengths[len(strengths) // 2]
    return {
        name: SourceChoice(source, some[len(some) // 2].settings, strength, float("nan"), 0)
        for source, some in by_source.items()
        for name, strength in ((source, _bare_strength(source)), (f"{source}+pooled", middle))
    }


def _origins(days: Sequence[int], most: int) -> list[int]:
    return list(days)[1:][-most:] if most else []


def _bare_strength(source: str) -> float:
    """Return the strength of pooling that gives the curve of a source alone."""
    return 0.0 if source == "own" else np.inf


def _errors(
    trial: SourceTrial, offered: Sequence[Candidate], strengths: Sequence[float]
) -> Iterator[tuple[_Key, Floats]]:
    """Yield Σ|error| and Σ truth of impressions and spend, (2, 2), by candidate and strength."""
    rows = trial.plans.rows
    truths = [getattr(trial.truth, target)[rows] for target in ("impressions", "spend")]
    for candidate in offered:
        prior = candidate.memberships.prior
        for strength in (_bare_strength(candidate.source), *strengths):
            win = pooled_curves(trial.evidence, prior, strength)
            forecasts = forecast_by_curves(win, trial.evidence, trial.plans)
            error = [
                (np.abs(forecast[rows] - truth).sum(), truth.sum())
                for forecast, truth in zip(forecasts, truths, strict=True)
            ]
            yield (*candidate.key, strength), np.array(error)


def _wape(errors: list[Floats]) -> float:
    total = np.sum(errors, axis=0)
    return float(np.mean(total[:, 0] / np.maximum(total[:, 1], 1e-12)))
