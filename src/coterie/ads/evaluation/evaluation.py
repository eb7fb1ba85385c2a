"""Evaluation on held-out days: the model that would be saved, and every other source of curves.

The last days are held out. The model is fitted to the other days as ``coterie ads segment`` would
fit it, and asked through the tables that serve it. The sources of the paper, and two simple
baselines, forecast the same bids. What a source has to choose is chosen by backtest inside the
training days.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence, evidence_of
from coterie.ads.curves.pooling import pooled_curves
from coterie.ads.evaluation.baselines import BASELINES, boosted_forecast, lognormal_forecast
from coterie.ads.evaluation.error_measures import (
    Difference,
    Measures,
    measure,
    paired_difference,
    strata_of,
)
from coterie.ads.evaluation.held_out_plans import HeldOutPlans
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.fitting.source_choice import (
    SourceChoice,
    SourceTrial,
    Training,
    all_candidates,
    choose_sources,
    settled,
    training_on,
    trials_on,
    unchosen_sources,
)
from coterie.ads.forecasts.calibration import LEVELS, TARGETS
from coterie.ads.forecasts.fitted_market import Choice
from coterie.ads.forecasts.forecast_figures import COLUMNS
from coterie.ads.forecasts.forecast_tables import ForecastTables, tables_of
from coterie.ads.forecasts.plan_forecasts import forecast_by_curves
from coterie.ads.forecasts.plans import Outcome, Plans, outcome_of
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.histograms.price_grid import on_price_grid
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.sources import SOURCES
from coterie.ads.segments.text_view import texts_of
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import on_one_thread
from coterie.runtime.short_reprs import short_repr

__all__ = ["DEFAULT", "Evaluation", "Interval", "evaluate", "split_days"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_LOG = logging.getLogger("coterie")
#: The source that a saved model serves.
DEFAULT = "dictionary"
#: The targets of the tables; conversions are too rare for an error to say much.
_SHOWN = ("impressions", "spend", "clicks")
_PLACED_TOGETHER = 256


@dataclass(frozen=True)
class Interval:
    """Intervals of one level: ``low`` and ``high`` by target, (A,) each."""

    level: float
    supply: str  # "given" or "forecast"
    low: dict[str, Floats]
    high: dict[str, Floats]


@dataclass(frozen=True)
class Evaluation:
    """Forecasts of the held-out days beside what happened."""

    days: list[str]  # the days held out
    advertisers: NDArray[np.str_]
    # (A,), bids in the training days; 0 for one that first bid in the held-out ones
    observations: Floats
    bids: Floats  # (A,), in the days held out; who made none there has nothing to forecast
    compared: Mask  # (A,), whom all sources forecast: the representatives of the model
    truth: Outcome
    # keys as in "dictionary", "robust" and "robust+pooled"; the default forecasts all advertisers
    forecasts: dict[str, Outcome]
    intervals: list[Interval]  # of the default source
    choices: dict[str, SourceChoice]
    model: AdForecaster  # fitted to the training days
    training: Training  # evidence and views of the training days

    __repr__ = short_repr

    @property
    def segments(self) -> NDArray[np.int64]:
        """The segment of each advertiser that the views of the training days place."""
        return self.model.labels_[self.model.representatives_]

    def measures(self, name: str, target: str, rows: Mask | None = None) -> Measures:
        """Errors of one source; by default over the advertisers that all sources forecast."""
        chosen = self._common if rows is None else rows
        if name != DEFAULT:
            # other sources say nothing of new advertisers
            chosen = chosen & (self.observations > 0) & self.compared
        truth = getattr(self.truth, target)[chosen]
        value = getattr(self.forecasts[name], target)[chosen]
        if name != DEFAULT:
            return measure(value, truth)
        stated = next(one for one in self.intervals if (one.level, one.supply) == (0.9, "given"))
        return measure(value, truth, stated.low[target][chosen], stated.high[target][chosen])

    def coverage(self, interval: Interval, target: str, rows: Mask | None = None) -> float | None:
        """Share of advertisers whose actual value is in the interval; by default as above."""
        chosen = self._common if rows is None else rows
        truth = getattr(self.truth, target)[chosen]
        low, high = interval.low[target][chosen], interval.high[target][chosen]
        is_known = len(truth) > 0 and not np.isnan(low).any()  # NaN if the log has no such events
        return float(((truth >= low) & (truth <= high)).mean()) if is_known else None

    def difference(self, first: str, second: str, target: str) -> Difference:
        """WAPE of one source less that of another, over the advertisers that both forecast."""
        seen = self._common
        one, other = (getattr(self.forecasts[name], target)[seen] for name in (first, second))
        return paired_difference(one, other, getattr(self.truth, target)[seen])

    def as_dict(self) -> dict[str, Any]:
        """Everything that is reported, ready for JSON.

        Errors are of the advertisers that all sources forecast, so that they can be compared.
        ``placed`` has those of the model for the others that it knows, None if there are none.
        """
        return {
            "holdout": self.days,
            "default": DEFAULT,
            "advertisers": int(self._common.sum()),
            "new_advertisers": int(((self.observations <= 0) & (self.bids > 0)).sum()),
            "sources": self._sources(None),
            "placed": self._placed(),
            "strata": [
                {"name": name, "advertisers": int(rows.sum()), "sources": self._sources(rows)}
                for name, rows in self._strata().items()
            ],
            "intervals": [row for one in self.intervals for row in self._coverages(one)],
            "differences": [
                self._difference(name, target)
                for name in self.forecasts
                for target in _SHOWN
                if name != DEFAULT
            ],
            "chosen": _chosen(self.model.choice_, self.choices),
            "warnings": list(self.model.warnings_),
        }

    @property
    def _common(self) -> Mask:
        """Those whom all sources forecast, and who bid in the held-out days, (A,)."""
        return (self.observations > 0) & (self.bids > 0) & self.compared

    def _strata(self) -> dict[str, Mask]:
        """Return who bid in the held-out days by bids in training; new ones are a stratum."""
        kept = (self.bids > 0) & (self.compared | (self.observations <= 0))
        return {name: rows & kept for name, rows in strata_of(self.observations).items()}

    def _placed(self) -> dict[str, Any] | None:
        rows = (self.observations > 0) & (self.bids > 0) & ~self.compared
        if not rows.any():
            return None
        errors = {target: self.measures(DEFAULT, target, rows).as_dict() for target in _SHOWN}
        return {"advertisers": int(rows.sum()), **errors}

    def _sources(self, rows: Mask | None) -> dict[str, Any]:
        return {
            name: {target: self.measures(name, target, rows).as_dict() for target in _SHOWN}
            for name in self.forecasts
        }

    def _coverages(self, interval: Interval) -> list[dict[str, Any]]:
        """Return the coverage of one interval, of all and by stratum, for every target."""
        groups = {"all": None} | self._strata()
        about = {"supply": interval.supply, "level": interval.level}
        return [
            {"target": target, **about, "stratum": name, "coverage": share}
            for target in TARGETS
            for name, rows in groups.items()
            for share in [self.coverage(interval, target, rows)]
        ]

    def _difference(self, name: str, target: str) -> dict[str, Any]:
        found = self.difference(DEFAULT, name, target)
        return {
            "a": DEFAULT,
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
    sources: Sequence[str] = (*SOURCES, *BASELINES),
    known_curves: Mapping[str, Floats] | None = None,
) -> Evaluation:
    """Hold out the last days, and forecast them by the model and by every other source.

    Parameters
    ----------
    histograms : BidHistograms
    descriptions : mapping of str to str, optional
        The text of each advertiser.
    holdout_days : int
    settings : SegmentSettings, optional
    sources : sequence of str
        What to compare the model with.
    known_curves : mapping of str to (A, G) array, optional
        Win rates on the grid of ``on_price_grid(histograms)`` that are known otherwise, as in a
        simulation; each is a further source.
    """
    histograms = on_price_grid(histograms)
    train, held = split_days(histograms, holdout_days)
    before = histograms.for_days(train)
    settings = settled(before, train, settings or SegmentSettings())
    model = AdForecaster(**vars(settings))
    texts = texts_of(before.advertisers, descriptions)
    sample, vectors = model._begin(before, texts)
    settings = settled(sample, train, settings)
    paper = [source for source in sources if source in SOURCES]
    trials = trials_on(sample, train, vectors, settings, [*dict.fromkeys([*paper, "robust"])])
    training = training_on(sample, train, vectors, settings)
    model._fit(before, texts, settings, trials, training)
    _LOG.info("Forecasting the held-out days by every source")
    asked = HeldOutPlans(histograms, before, held, dict(descriptions or {}), model.representatives_)
    plans = asked.compared_plans
    choices, pairs = _by_sources(training, trials, settings, paper, plans)
    for name in BASELINES:
        if name in sources:
            seed = settings.random_state
            pairs[name] = _baseline(name, sample, training.evidence, plans, vectors, seed)
    full = {name: asked.spread(pair) for name, pair in pairs.items()}
    if known_curves:
        evidence = evidence_of(histograms, train)
        for name, curves in known_curves.items():
            full[name] = forecast_by_curves(curves, evidence, asked.plans)
    figures, intervals = _of_model(model, asked)
    return Evaluation(
        days=[str(day) for day in histograms.days[held]],
        advertisers=histograms.advertisers,
        observations=asked.of_known(model.observations_),
        bids=histograms.daily("count")[:, held].sum(axis=1),
        compared=asked.is_compared,
        truth=outcome_of(histograms, held),
        forecasts=_with_events(full, figures),
        intervals=intervals,
        choices=choices,
        model=model,
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
            f"held out: nothing is left to learn from; give at least {holdout_days + 1} days"
        )
    return list(range(n_days - holdout_days)), list(range(n_days - holdout_days, n_days))


def _by_sources(
    training: Training,
    trials: list[SourceTrial],
    settings: SegmentSettings,
    sources: Sequence[str],
    plans: Plans,
) -> tuple[dict[str, SourceChoice], dict[str, tuple[Floats, Floats]]]:
    """Return choices and forecasts of the sources of the paper, alone and pooled."""
    offered = all_candidates(training, settings, sources) if sources else []
    choices = (
        choose_sources(trials, settings, sources) if trials else unchosen_sources(offered, settings)
    )
    by_key = {candidate.key: candidate for candidate in offered}
    found = {}
    for name, choice in choices.items():
        prior = by_key[choice.source, choice.settings].memberships.prior
        win = pooled_curves(training.evidence, prior, choice.strength)
        found[name] = forecast_by_curves(win, training.evidence, plans)
    return choices, found


def _baseline(
    name: str,
    before: BidHistograms,
    evidence: Evidence,
    plans: Plans,
    vectors: Floats | None,
    seed: int,
) -> tuple[Floats, Floats]:
    if name == "lognormal":
        return lognormal_forecast(before, evidence, plans)
    return boosted_forecast(before, plans, vectors, seed)


def _of_model(model: AdForecaster, asked: HeldOutPlans) -> tuple[Floats, list[Interval]]:
    """Return the figures (A, 14) of the model with given supply, and all intervals."""
    tables = tables_of(model)
    of_new = _of_new(tables, asked)
    intervals, stated = [], np.zeros((asked.n, 14))
    known = asked.plans.of_rows(asked.is_known).rows
    for supply in ("given", "forecast"):
        for level in LEVELS:
            figures = np.zeros((asked.n, 14))
            given = supply == "given"
            figures[known] = tables.of_plans(asked.known_plans, given=given, level=level)
            # nothing is known of the supply of a new advertiser
            figures[asked.new_plans.rows] = of_new[level]
            ends = [
                {name: figures[:, column + side] for name, column in COLUMNS.items()}
                for side in (1, 2)
            ]
            intervals.append(Interval(level, supply, *ends))
            if (supply, level) == ("given", 0.9):
                stated = figures
    return stated, intervals


def _of_new(tables: ForecastTables, asked: HeldOutPlans) -> dict[float, Floats]:
    """Return the figures of new advertisers at each level, (N, 14), by their texts.

    A placement has a weight for every advertiser, so some are placed at a time.
    """
    found: dict[float, list[Floats]] = {level: [np.empty((0, 14))] for level in LEVELS}
    for plans, texts in asked.new_blocks(_PLACED_TOGETHER):
        placements = tables.placer.placed_by_texts(texts)
        for level in LEVELS:
            found[level].append(tables.of_placed_plans(placements, plans, level=level))
    return {level: np.concatenate(parts) for level, parts in found.items()}


def _with_events(
    forecasts: Mapping[str, tuple[Floats, Floats]], figures: Floats
) -> dict[str, Outcome]:
    """Add clicks and conversions to impressions and spend, by the rates of the model."""
    rates = np.divide(
        figures[:, [8, 11]],
        figures[:, 2:3],
        out=np.zeros((len(figures), 2)),
        where=figures[:, 2:3] > 0,
    )
    rates = np.nan_to_num(rates)
    found = {
        name: Outcome(impressions, spend, impressions * rates[:, 0], impressions * rates[:, 1])
        for name, (impressions, spend) in forecasts.items()
    }
    found[DEFAULT] = Outcome(*(np.nan_to_num(figures[:, c]) for c in COLUMNS.values()))
    return found


def _chosen(default: Choice, choices: Mapping[str, SourceChoice]) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        name: {
            **dict(choice.settings),
            "strength": _strength(choice.strength),
            "backtest_error": _number(choice.error),
            "backtest_days": choice.days,
        }
        for name, choice in choices.items()
    }
    chosen[DEFAULT] = {
        "k": default.n_segments,
        "strength": _strength(default.strength),
        "half_life": None if np.isinf(default.half_life) else default.half_life,
        "backtest_error": _number(default.error),
        "backtest_bias": _number(default.bias),
        "backtest_days": default.days,
    }
    return chosen


def _strength(value: float) -> float | str:
    return "segment only" if np.isinf(value) else value


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
