"""Evaluation on held-out days: the model that would be saved, and every other source of curves.

The last days are held out. The model is fitted to the other days as ``coterie ads segment`` would
fit it, and asked through the tables that serve it. The sources of the paper, and two simple
baselines, forecast the same bids. What a source has to choose is chosen by backtest inside the
training days.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import evidence_of
from coterie.ads.curves.shrinkage import pooled_curves
from coterie.ads.evaluation.baselines import BASELINES, boosted_forecast, lognormal_forecast
from coterie.ads.fitting.backtest import (
    SourceChoice,
    Training,
    choose_sources,
    middle_settings,
)
from coterie.ads.fitting.forecaster import AdForecaster, Prepared
from coterie.ads.forecasts.calibration import LEVELS, TARGETS
from coterie.ads.forecasts.fitted_market import Choice
from coterie.ads.forecasts.forecast_figures import COLUMNS
from coterie.ads.forecasts.forecast_tables import (
    Outcome,
    Plans,
    forecast_by_curves,
    outcome_of,
    plans_of,
    tables_of,
)
from coterie.ads.forecasts.kernels import FIGURES
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.histograms.price_grid import on_price_grid
from coterie.ads.segments.memberships import SOURCES, candidates
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.text_view import texts_of
from coterie.arrays import Bools, Floats, Ints
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import on_one_thread
from coterie.runtime.wording import short_repr

_LOG = logging.getLogger("coterie")
#: The source that a saved model serves.
DEFAULT = "dictionary"
#: Bids in the training days: name, from, to (exclusive).
STRATA: tuple[tuple[str, float, float], ...] = (
    ("new", 0, 1),
    ("1–9 bids", 1, 10),
    ("10–199 bids", 10, 200),
    ("200–1,999 bids", 200, 2000),
    ("2,000 bids and more", 2000, np.inf),
)
#: The targets of the tables; conversions are too rare for an error to say much.
_SHOWN = ("impressions", "spend", "clicks")
_PLACED_TOGETHER = 256


# ---- Errors


@dataclass(frozen=True)
class Measures:
    """Errors of a forecast f of y over some advertisers; a measure that is not defined is None."""

    wape: float | None  # Σ|f − y| / Σ y, the headline: every impression counts alike
    wape_standard_error: float | None  # over advertisers: that of a ratio of two sums
    mape: float | None  # mean of |f − y| / y over the advertisers with y > 0, the paper's
    mape_advertisers: int  # how many those are
    smape: float | None  # mean of 2|f − y| / (f + y) over those where either is above 0
    bias: float | None  # Σ(f − y) / Σ y
    # share of advertisers with y inside the interval of level 90%, with given supply
    coverage: float | None
    advertisers: int


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
    wape = float(error.sum()) / total if total > 0 else None
    return Measures(
        wape=wape,
        wape_standard_error=_standard_error(error - truth * (wape or 0.0), total),
        mape=_mean(error[positive] / truth[positive]),
        mape_advertisers=int(positive.sum()),
        smape=_mean(2 * error[either] / (forecast + truth)[either]),
        bias=float((forecast - truth).sum()) / total if total > 0 else None,
        coverage=None if low is None or high is None else share_inside(truth, low, high),
        advertisers=len(truth),
    )


def share_inside(truth: Floats, low: Floats, high: Floats) -> float | None:
    """Return the share of values inside their intervals; None without values or intervals.

    >>> share_inside(np.array([1.0, 5.0]), np.zeros(2), np.full(2, 3.0))
    0.5
    """
    # the ends are NaN if the log has no such events
    if not len(truth) or np.isnan(low).any():
        return None
    return float(((truth >= low) & (truth <= high)).mean())


def paired_difference(first: Floats, second: Floats, truth: Floats) -> Difference:
    """Return WAPE of ``first`` minus WAPE of ``second``, and its standard error over advertisers.

    With δ = |f₁ − y| − |f₂ − y| for each of the A advertisers the difference is Σδ / Σy and its
    standard error √(A · var δ) / Σy.

    >>> paired_difference(np.array([9.0, 4.0]), np.array([8.0, 4.0]), np.array([10.0, 4.0]))
    Difference(difference=-0.0714..., standard_error=0.0714...)
    """
    delta, total = np.abs(first - truth) - np.abs(second - truth), float(truth.sum())
    error = _standard_error(delta, total)
    if error is None:
        return Difference(float("nan"), float("nan"))
    return Difference(float(delta.sum()) / total, error)


def strata_of(observations: Floats) -> Mapping[str, Bools]:
    """Return the advertisers in each stratum of :data:`STRATA`, by bids in the training days."""
    return {name: (observations >= low) & (observations < high) for name, low, high in STRATA}


def _standard_error(parts: Floats, total: float) -> float | None:
    """Return √(A · var parts) / Σ y, the standard error of a ratio of sums to a total of y."""
    if total <= 0 or len(parts) < 2:
        return None
    return float(np.sqrt(len(parts) * parts.var(ddof=1))) / total


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


# ---- The result


@dataclass(frozen=True)
class Interval:
    """Intervals of one level: ``low`` and ``high`` by target, (A,) each."""

    level: float
    supply: str  # "given" or "forecast"
    low: dict[str, Floats]
    high: dict[str, Floats]


@dataclass(frozen=True)
class Evaluation:
    """Forecasts of the held-out days, and what happened."""

    days: list[str]  # the days held out
    advertisers: NDArray[np.str_]
    # (A,), bids in the training days; 0 for one that first bid in the held-out ones
    observations: Floats
    bids: Floats  # (A,), in the held-out days; without any there is nothing to forecast
    compared: Bools  # (A,), those that all sources forecast: the representatives of the model
    truth: Outcome
    # keys as in "dictionary", "robust" and "robust+pooled"; the default forecasts all advertisers
    forecasts: dict[str, Outcome]
    intervals: list[Interval]  # of the default source
    choices: dict[str, SourceChoice]
    model: AdForecaster  # fitted to the training days
    training: Training  # evidence and views of the training days

    __repr__ = short_repr

    @property
    def segments(self) -> Ints:
        """The segment of each advertiser that the views of the training days place."""
        return self.model.labels_[self.model.representatives_]

    def measures(self, name: str, target: str, rows: Bools | None = None) -> Measures:
        """Return the errors of one source, by default over the advertisers that all forecast."""
        chosen = self._common if rows is None else rows
        if name != DEFAULT:
            # other sources say nothing of new advertisers
            chosen = chosen & (self.observations > 0) & self.compared
        truth = getattr(self.truth, target)[chosen]
        value = getattr(self.forecasts[name], target)[chosen]
        if name != DEFAULT:
            return measure(value, truth)
        interval = next(one for one in self.intervals if (one.level, one.supply) == (0.9, "given"))
        return measure(value, truth, interval.low[target][chosen], interval.high[target][chosen])

    def coverage(self, interval: Interval, target: str, rows: Bools | None = None) -> float | None:
        """Return the share of advertisers with the actual value inside; by default as above."""
        chosen = self._common if rows is None else rows
        truth = getattr(self.truth, target)[chosen]
        return share_inside(truth, interval.low[target][chosen], interval.high[target][chosen])

    def difference(self, first: str, second: str, target: str) -> Difference:
        """Return WAPE of one source minus that of another, over the advertisers of both."""
        seen = self._common
        one, other = (getattr(self.forecasts[name], target)[seen] for name in (first, second))
        return paired_difference(one, other, getattr(self.truth, target)[seen])

    def as_dict(self) -> dict[str, Any]:
        """Return everything that is reported as plain values for JSON.

        Errors are of the advertisers that all sources forecast, so that they can be compared.
        ``placed`` has those of the model for the others that it knows, None if there are none.
        """
        # those that bid in the held-out days, by their bids in training; some are new
        shown = (self.bids > 0) & (self.compared | (self.observations <= 0))
        strata = {name: rows & shown for name, rows in strata_of(self.observations).items()}
        placed = (self.observations > 0) & (self.bids > 0) & ~self.compared
        return {
            "holdout": self.days,
            "default": DEFAULT,
            "advertisers": int(self._common.sum()),
            "new_advertisers": int(((self.observations <= 0) & (self.bids > 0)).sum()),
            "sources": {name: self._errors(name, None) for name in self.forecasts},
            "placed": {"advertisers": int(placed.sum()), **self._errors(DEFAULT, placed)}
            if placed.any()
            else None,
            "strata": [
                {
                    "name": name,
                    "advertisers": int(rows.sum()),
                    "sources": {source: self._errors(source, rows) for source in self.forecasts},
                }
                for name, rows in strata.items()
            ],
            "intervals": [
                {
                    "target": target,
                    "supply": interval.supply,
                    "level": interval.level,
                    "stratum": name,
                    "coverage": self.coverage(interval, target, rows),
                }
                for interval in self.intervals
                for target in TARGETS
                for name, rows in {"all": None, **strata}.items()
            ],
            "differences": [
                {
                    "a": DEFAULT,
                    "b": name,
                    "target": target,
                    "difference": _number(wape.difference),
                    "standard_error": _number(wape.standard_error),
                }
                for name in self.forecasts
                if name != DEFAULT
                for target in _SHOWN
                for wape in [self.difference(DEFAULT, name, target)]
            ],
            "chosen": _chosen(self.model.choice_, self.choices),
            "warnings": list(self.model.warnings_),
        }

    @property
    def _common(self) -> Bools:
        """Advertisers that all sources forecast and that bid in the held-out days, (A,)."""
        return (self.observations > 0) & (self.bids > 0) & self.compared

    def _errors(self, name: str, rows: Bools | None) -> dict[str, Any]:
        return {target: asdict(self.measures(name, target, rows)) for target in _SHOWN}


# ---- Forecasts of the held-out days


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
    model = AdForecaster(**vars(settings or SegmentSettings()))
    texts = texts_of(before.advertisers, descriptions)
    paper = [source for source in sources if source in SOURCES]
    prepared = model._prepare(before, texts, list(dict.fromkeys([*paper, "robust"])))
    model._fit(before, texts, prepared)
    _LOG.info("Forecasting the held-out days by every source")
    held_out = HeldOutPlans(histograms, before, held, descriptions, model.representatives_)
    sample, training, plans = prepared.sample, prepared.training, held_out.compared_plans
    choices, pairs = _by_sources(prepared, paper, plans)
    if "lognormal" in sources:
        pairs["lognormal"] = lognormal_forecast(sample, training.evidence, plans)
    if "boosting" in sources:
        seed = model.random_state
        pairs["boosting"] = boosted_forecast(sample, plans, prepared.vectors, seed)
    forecasts = {name: held_out.spread(pair) for name, pair in pairs.items()}
    for name, curves in (known_curves or {}).items():
        evidence = evidence_of(histograms, train)
        forecasts[name] = forecast_by_curves(curves, evidence, held_out.plans)
    figures, intervals = _of_model(model, held_out)
    return Evaluation(
        days=[str(day) for day in histograms.days[held]],
        advertisers=histograms.advertisers,
        observations=held_out.of_known(model.observations_),
        bids=histograms.daily("count")[:, held].sum(axis=1),
        compared=held_out.is_compared,
        truth=outcome_of(histograms, held),
        forecasts=_with_events(forecasts, figures),
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


class HeldOutPlans:
    """The bids of the held-out days, of all advertisers and of those that are known.

    The model knows those of the training days, and other sources the representatives among them.
    """

    def __init__(
        self,
        histograms: BidHistograms,
        before: BidHistograms,
        held: list[int],
        descriptions: Mapping[str, str] | None,
        representatives: Ints,
    ) -> None:
        self.plans = plans_of(histograms, held)
        self.n = len(histograms.advertisers)
        row = np.searchsorted(before.advertisers, histograms.advertisers)
        row = np.minimum(row, len(before.advertisers) - 1)
        self.is_known = before.advertisers[row] == histograms.advertisers
        place = np.full(len(before.advertisers), -1, dtype=np.int64)
        place[representatives] = np.arange(len(representatives))
        self._row, self._place = row, place[row]
        self.is_compared = self.is_known & (self._place >= 0)
        self.known_plans = self._numbered(self.is_known, row)
        self.compared_plans = self._numbered(self.is_compared, self._place)
        self.new_plans = self.plans.of_rows(~self.is_known)
        self._new_texts = texts_of(histograms.advertisers[self.new_plans.rows], descriptions)

    def new_blocks(self, size: int) -> Iterator[tuple[Plans, list[str]]]:
        """Yield the plans of new advertisers and their texts, at most ``size`` at a time."""
        rows = self.new_plans.rows
        for first in range(0, len(rows), size):
            chosen = np.zeros(self.n, dtype=bool)
            chosen[rows[first : first + size]] = True
            yield self.new_plans.of_rows(chosen), self._new_texts[first : first + size]

    def spread(self, pair: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """Return figures of representatives for all advertisers; 0 for the others."""
        of_all = [np.where(self.is_compared, part[self._place], 0.0) for part in pair]
        return of_all[0], of_all[1]

    def of_known(self, values: Floats) -> Floats:
        """Return values of the advertisers of the model for all of them; 0 for the others."""
        return np.where(self.is_known, values[self._row], 0.0)

    def _numbered(self, some: Bools, number: Ints) -> Plans:
        """Return the plans of some advertisers, with other numbers of these."""
        plans = self.plans.of_rows(some)
        return replace(plans, rows=number[plans.rows])


def _by_sources(
    prepared: Prepared, sources: Sequence[str], plans: Plans
) -> tuple[dict[str, SourceChoice], dict[str, tuple[Floats, Floats]]]:
    """Return choices and forecasts of the sources of the paper, alone and pooled."""
    settings, trials, training = prepared.settings, prepared.trials, prepared.training
    offered = (
        list(candidates(training.views, training.evidence, settings, sources)) if sources else []
    )
    choices = (
        choose_sources(trials, settings, sources) if trials else middle_settings(offered, settings)
    )
    by_key = {candidate.key: candidate for candidate in offered}
    forecasts = {}
    for name, choice in choices.items():
        prior = by_key[choice.source, choice.settings].memberships.prior
        win = pooled_curves(training.evidence, prior, choice.strength)
        forecasts[name] = forecast_by_curves(win, training.evidence, plans)
    return choices, forecasts


def _of_model(model: AdForecaster, held_out: HeldOutPlans) -> tuple[Floats, list[Interval]]:
    """Return the figures (A, 14) of the model with given supply, and all intervals."""
    tables = tables_of(model)
    # new advertisers by their texts; a placement has a weight for every advertiser, so some are
    # placed at a time
    of_new: dict[float, list[Floats]] = {level: [np.empty((0, FIGURES))] for level in LEVELS}
    for plans, texts in held_out.new_blocks(_PLACED_TOGETHER):
        placements = tables.placer.placed_by_texts(texts)
        for level in LEVELS:
            of_new[level].append(tables.of_placed_plans(placements, plans, level=level))
    intervals, of_default = [], np.zeros((held_out.n, FIGURES))
    known = held_out.plans.of_rows(held_out.is_known).rows
    for supply in ("given", "forecast"):
        for level in LEVELS:
            figures = np.zeros((held_out.n, FIGURES))
            given = supply == "given"
            figures[known] = tables.of_plans(
                held_out.known_plans, tables.interval_factors(level), given=given
            )
            # nothing is known of the supply of a new advertiser
            figures[held_out.new_plans.rows] = np.concatenate(of_new[level])
            low, high = (
                {name: figures[:, column + side] for name, column in COLUMNS.items()}
                for side in (1, 2)
            )
            intervals.append(Interval(level, supply, low, high))
            if (supply, level) == ("given", 0.9):
                of_default = figures
    return of_default, intervals


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
    outcomes = {
        name: Outcome(impressions, spend, impressions * rates[:, 0], impressions * rates[:, 1])
        for name, (impressions, spend) in forecasts.items()
    }
    outcomes[DEFAULT] = Outcome(*(np.nan_to_num(figures[:, c]) for c in COLUMNS.values()))
    return outcomes


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
