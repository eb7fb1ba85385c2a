"""Backtest: settings, choices and intervals by forecasts of earlier days.

The origin rolls over the last days of the log: each is forecast from the days before it, with
segments, price levels, dictionary and supply found from these days alone.

Of each source of the paper (own, global, text, win, cost, l2, robust), alone and with each
advertiser's own auctions pooled in (:mod:`coterie.ads.curves.shrinkage`), the level of the test,
the number of segments and the strength of pooling are chosen. Of the market model it is the number
of segments, the strength of the dictionary and the half-life of the days. The settings are those
with the smallest error, the mean of the WAPEs, Σ|forecast − actual| / Σ actual, of impressions and
spend. The errors that remain calibrate the intervals.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from coterie.ads.curves.landscapes import PER_UNIT, Evidence, evidence_of
from coterie.ads.curves.price_readings import paid_prices, paid_shares
from coterie.ads.curves.shrinkage import pooled_curves, shrunk_shares
from coterie.ads.curves.supply import Supply, fit_supply
from coterie.ads.fitting.market_fit import MarketFit, Widening, fit_market
from coterie.ads.forecasts.calibration import LEVELS, TARGETS, Calibration, calibrate
from coterie.ads.forecasts.fitted_market import Choice
from coterie.ads.forecasts.forecast_figures import COLUMNS
from coterie.ads.forecasts.forecast_tables import (
    MarketTables,
    Outcome,
    Plans,
    forecast_by_curves,
    known_events,
    outcome_of,
    plans_of,
)
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.segments.memberships import (
    SOURCES,
    Candidate,
    candidates,
    hard_memberships,
)
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.views import View, make_views
from coterie.arrays import Floats, Ints

#: Strengths of the dictionary's curves, in auctions, to choose from.
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, np.inf)
#: Half-lives of the days to choose from, in days; there must be twice as many days.
HALF_LIVES = (np.inf, 14.0, 7.0, 3.0)
_USUAL_STRENGTH = 100.0
#: A setting other than the usual must be better by this share of the error.
_LEAST_GAIN = 0.002
_TINY_FACTOR = 1e-6
_TINY_FACTORS = np.full((2, 4, 2, 3), _TINY_FACTOR), 0.0, 1.0

#: Means and deviations of the prior of :class:`Widening`.
_WIDENING = (1.0, 1e-4), (0.5, 2e-4)
_LEAST_CURVE, _ROUNDS = 0.25, 4
_ROOT_2 = np.sqrt(2.0)
#: At most so many last days are forecast together.
_MOST_TOGETHER = 7
#: The largest squared standardised error that counts, and the least variance by chance in wins.
_MOST_SQUARE, _LEAST_CHANCE = 10.0, 1.0
#: Bids so far apart, in logarithms, are calibrated separately.
_BID_STEP = 0.4
#: Whether the supply is given, and into what plans are divided then.
_MODES = (True, _BID_STEP), (False, np.inf)

_LOG = logging.getLogger("coterie")
_Key = tuple[str, tuple[tuple[str, Any], ...], float]


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


@dataclass(frozen=True)
class SourceChoice:
    """How one source is used, and how well it did on the days it was chosen by."""

    source: str  # one of coterie.ads.segments.memberships.SOURCES
    settings: tuple[tuple[str, Any], ...]  # the candidate's
    strength: float  # of pooling: infinity is the segment's curve alone, 0 the advertiser's
    error: float  # in the backtest; NaN where there was nothing to choose by
    days: int  # number of days that were forecast


# ---- Trials


def feasible_settings(
    histograms: BidHistograms, days: Sequence[int], settings: SegmentSettings
) -> SegmentSettings:
    """Return the settings with numbers of segments that every span of days to train on allows."""
    # the first span has the fewest advertisers; a number chosen there exists on all
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


def trials_on(
    histograms: BidHistograms,
    days: Sequence[int],
    vectors: Floats | None,
    settings: SegmentSettings,
    sources: Sequence[str] = SOURCES,
) -> list[SourceTrial]:
    """Fit the candidates of every origin; ``settings`` are those of :func:`feasible_settings`."""
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
                list(candidates(training.views, training.evidence, settings, sources)),
                plans_of(histograms, [origin]).of_rows(known),
                outcome_of(histograms, [origin]),
            )
        )
    return trials


def _origins(days: Sequence[int], most: int) -> list[int]:
    return list(days)[1:][-most:] if most else []


# ---- Sources of curves


def choose_sources(
    trials: Sequence[SourceTrial], settings: SegmentSettings, sources: Sequence[str] = SOURCES
) -> dict[str, SourceChoice]:
    """Return the settings of some sources, with and without pooling, that forecast best.

    Keys are as in "robust" and "robust+pooled".
    """
    # Σ|error| and Σ truth of impressions and spend, by candidate and strength
    sums: dict[_Key, Floats] = defaultdict(lambda: np.zeros((2, 2)))
    for trial in trials:
        rows = trial.plans.rows
        truths = trial.truth.impressions[rows], trial.truth.spend[rows]
        for candidate in trial.candidates:
            if candidate.source not in sources:
                continue
            for strength in (_bare_strength(candidate.source), *settings.strengths):
                win = pooled_curves(trial.evidence, candidate.memberships.prior, strength)
                forecasts = forecast_by_curves(win, trial.evidence, trial.plans)
                sums[(*candidate.key, strength)] += [
                    (np.abs(forecast[rows] - truth).sum(), truth.sum())
                    for forecast, truth in zip(forecasts, truths, strict=True)
                ]
    wapes = {
        key: float(np.mean(total[:, 0] / np.maximum(total[:, 1], 1e-12)))
        for key, total in sums.items()
    }
    chosen: dict[str, SourceChoice] = {}
    for source in dict.fromkeys(key[0] for key in wapes):
        for name, is_pooled in ((source, False), (f"{source}+pooled", True)):
            rivals = [
                key
                for key in wapes
                if key[0] == source and (key[2] != _bare_strength(source)) == is_pooled
            ]
            best = min(rivals, key=lambda key: (wapes[key], str(key)))
            chosen[name] = SourceChoice(*best, wapes[best], len(trials))
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


def _bare_strength(source: str) -> float:
    """Return the strength of pooling that gives the curve of a source alone."""
    return 0.0 if source == "own" else np.inf


# ---- The market model


class Backtest(NamedTuple):
    """What is known from forecasts of the last days."""

    choice: Choice
    calibration: Calibration
    widening: Widening
    #: How often values were not below their intervals, by level, mode and target
    shares_above: Floats | None


def backtest_market(
    histograms: BidHistograms, trials: list[SourceTrial], settings: SegmentSettings
) -> Backtest:
    """Choose the settings of the market model by forecasts of the last days.

    Without trials the settings are the usual ones, and the intervals those of normal errors.
    """
    if not trials:
        numbers = settings.possible_numbers(len(histograms.advertisers))
        middle, unknown = numbers[len(numbers) // 2], float("nan")
        usual = Choice(middle, _USUAL_STRENGTH, np.inf, unknown, unknown, unknown, 0)
        return Backtest(usual, calibrate([]), Widening(), None)
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
    days = [*trials[-1].before, int(np.searchsorted(histograms.days, trials[-1].plans.dates[0]))]
    if (together := min(len(days) // 2, _MOST_TOGETHER)) > 1:
        # days together, where chance is a smaller part of errors; with the segments of another day
        before, ahead = days[:-together], days[-together:]
        evidence, truth = evidence_of(histograms, before), outcome_of(histograms, ahead)
        plans = plans_of(histograms, ahead).of_rows(evidence.observations > 0)
        trial = replace(trials[0], before=before, evidence=evidence, plans=plans, truth=truth)
        origins.append(_fit_before(histograms, trial, n_segments))
    origins = _aged(origins, half_life)
    widening = _widening(origins, strength)
    # a jump of all prices within days together is no matter of the width of a day's intervals
    of_days = [replace(origin, widening=widening) for origin in origins[: len(trials)]]
    calibration, above = _calibrated(of_days, strength), _shares_above(of_days, strength)
    return Backtest(choice, calibration, widening, above)


def paid_by(
    win: Any,
    evidence: Evidence,
    histograms: BidHistograms,
    days: list[int],
    rows: Ints | None = None,
) -> tuple[Floats, Floats | None]:
    """Return prices by bin (G,), and what each advertiser paid over them on some days, (A,).

    Where prices are the smallest bids that win, or bids, they are known, and the second is None.
    The first are learnt from some ``rows``, by default all.
    """
    if evidence.form == "hazard" or evidence.pays == "bid":
        return evidence.price, None
    some = np.arange(len(win)) if rows is None else rows
    counts, truth = histograms.for_advertisers(some).dense(days), outcome_of(histograms, days)
    price = paid_prices(win[some], evidence, counts.wins, counts.cost)
    evidence = replace(evidence, price=price)
    impressions, spend = forecast_by_curves(win, evidence, plans_of(histograms, days))
    expected = np.divide(spend, impressions, out=np.zeros_like(spend), where=impressions > 0)
    factor, paid = paid_shares(truth.spend, truth.impressions, expected)
    return factor * price, paid


def event_rates(
    events: Floats, wins: Floats, shares: Floats
) -> tuple[Floats, Floats] | tuple[None, None]:
    """Return rates of ``events`` (A,) per impression, and their worth; None if there are none."""
    return shrunk_shares(events, wins, shares) if events.any() else (None, None)


@dataclass(frozen=True)
class _Origin:
    """The market before one day, and the trial that says what happened on it."""

    trial: SourceTrial
    fit: MarketFit
    supply: Supply
    events: Floats  # (A, 4), see the kernels
    bid: Floats  # (A,), its mean in micros
    widening: Widening

    def tables(self, strength: float) -> MarketTables:
        evidence = self.trial.evidence
        win, spread = self.fit.curves(strength)
        histograms = self.fit.histograms
        price, paid = paid_by(win, evidence, histograms, self.trial.before)
        return MarketTables(
            evidence.edges,
            price,
            evidence.pays,
            win,
            self.widening.of(win, spread, histograms, self.bid),
            self.events,
            self.fit.levels,
            self.supply,
            paid,
            histograms.masses,
        )


def _fit_before(histograms: BidHistograms, trial: SourceTrial, n_segments: int) -> _Origin:
    # without views there are no segments
    memberships = next(
        (
            candidate.memberships
            for candidate in trial.candidates
            if candidate.key == ("robust", (("k", n_segments),))
        ),
        hard_memberships(trial.evidence, np.full(len(trial.evidence.observations), -1)),
    )
    shares, before = memberships.shares, outcome_of(histograms, trial.before)
    count, bid = (histograms.daily(name)[:, trial.before].sum(axis=1) for name in ("count", "bid"))
    rates = [
        event_rates(events, before.impressions, shares)
        for events in (before.clicks, before.conversions)
    ]
    return _Origin(
        trial,
        fit_market(histograms, trial.before, memberships.labels, shares.shape[1] - 1),
        fit_supply(histograms, trial.before),
        known_events(len(shares), *rates),
        np.divide(bid, count, out=np.zeros(len(bid)), where=count > 0),
        Widening(),
    )


def _aged(origins: list[_Origin], half_life: float) -> list[_Origin]:
    if np.isinf(half_life):
        return origins
    return [replace(origin, fit=origin.fit.with_half_life(half_life)) for origin in origins]


def _errors(origins: list[_Origin], strength: float) -> tuple[float, float, float]:
    """Return mean WAPE, mean bias and its standard error, of impressions and spend."""
    sums = np.zeros((4, 2))
    for origin in origins:
        plans = origin.trial.plans
        figures = origin.tables(strength).of_plans(plans, _TINY_FACTORS, given=True)
        for place, target in enumerate(("impressions", "spend")):
            truth = getattr(origin.trial.truth, target)[plans.rows]
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


def _divided(origin: _Origin, step: float) -> tuple[Plans, dict[str, Floats]]:
    """Divide the plans of an origin where bids are a step apart, in logarithms; add the truth."""
    histograms, whole = origin.fit.histograms, origin.trial.plans
    dates, rows = whole.dates, whole.rows
    cells, days = histograms.bids, np.searchsorted(histograms.days, dates)
    chosen = np.flatnonzero(
        np.isin(cells.day, days) & np.isin(cells.advertiser, rows) & (cells.count > 0)
    )
    amount = cells.bid[chosen] / cells.count[chosen]
    group = np.rint(np.log(amount / origin.bid[cells.advertiser[chosen]]) / step)
    order = np.lexsort((group, cells.advertiser[chosen]))
    chosen, amount, group = chosen[order], amount[order], group[order]
    row, number = cells.advertiser[chosen].astype(np.int64), cells.count[chosen].astype(np.float64)
    starts = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(group, prepend=np.nan) != 0))
    day = np.searchsorted(days, cells.day[chosen]).astype(np.int64)
    plans = Plans(row[starts], np.append(starts, len(row)), amount / 1e6, number, day, dates)
    values = (getattr(cells, name)[chosen] for name in ("wins", "cost", "clicks", "conversions"))
    sums = [np.add.reduceat(x * 1.0, starts) for x in values]
    sums[1] /= PER_UNIT
    return plans, dict(zip(TARGETS, sums, strict=True))


def _widening(origins: list[_Origin], strength: float) -> Widening:
    """Find by how much deviations of curves must be widened to explain the errors of forecasts.

    What is left of a squared error after chance is a sum of two variances: of the curve, and of its
    own price level. Their sizes are found by least squares, weighted by the variance of each
    square, which depends on them.
    """
    causes, errors = [], []
    for origin in origins:
        plans, truth = _divided(origin, _BID_STEP)
        sums = origin.tables(strength).asked_plans(plans).sums(given=True)
        # squared errors of a few wins or losses are far from normal
        usable = sums[:, 1] > _LEAST_CHANCE
        for place, target in ((0, "impressions"), (4, "spend")):
            mean, chance, curve, level = sums[usable, place : place + 4].T
            error, variance = truth[target][usable] - mean, chance + curve**2
            # the common error of the level is no error of curves
            error -= level * (level @ (error / variance)) / max(level @ (level / variance), 1e-300)
            causes.append(np.stack([curve**2, level**2, chance], axis=1))
            errors.append(error)
    cause, square = np.concatenate(causes), np.concatenate(errors) ** 2
    means, deviations = np.array(_WIDENING)
    found = means
    for _ in range(_ROUNDS):
        variance = cause @ np.append(found, 1.0)
        left = np.minimum(square / variance, _MOST_SQUARE) - cause[:, -1] / variance
        # a squared standard normal has the variance 2
        design = np.vstack([cause[:, :-1] / variance[:, None] / _ROOT_2, np.diag(1 / deviations)])
        found = nnls(design, np.append(left / _ROOT_2, means / deviations))[0]
    return Widening(max(float(found[0]), _LEAST_CURVE), *found[1:].tolist())


def _calibrated(origins: list[_Origin], strength: float) -> Calibration:
    """Calibrate by the standardised errors of all origins.

    With given supply, bids that are far apart are separate forecasts: a question is about one bid,
    and the errors of a curve at several bids cancel in part.
    """
    samples = []
    for given, step in _MODES:
        parts = [_divided(origin, step) for origin in origins]
        figures = np.concatenate(
            [
                origin.tables(strength).of_plans(plans, _TINY_FACTORS, given=given)
                for origin, (plans, _) in zip(origins, parts, strict=True)
            ]
        )
        # what hardly wins says nothing of the shape
        is_large = figures[:, COLUMNS["impressions"]] > (_LEAST_CHANCE if given else 0.0)
        for place, target in enumerate(TARGETS):
            column = COLUMNS[target]
            mean, high = figures[:, column], figures[:, column + 2]
            # clicks and conversions have sizes of their own
            size = figures[:, COLUMNS["impressions"] if place < 2 else column]
            truth = np.concatenate([truth[target] for _, truth in parts])
            # intervals were requested with tiny factors, so that no limit cuts them
            deviation = (high - mean) / _TINY_FACTOR
            usable = is_large & (deviation > 0)  # NaN is not
            samples.append((size[usable], (truth - mean)[usable] / deviation[usable]))
    return calibrate(samples)


def _shares_above(origins: list[_Origin], strength: float) -> Floats | None:
    """Return how often values were not below their intervals, (4 levels, 2 modes, 4 targets).

    The intervals of each day are calibrated on the others. None of one day alone; 0 if no interval
    is above 0.
    """
    if len(origins) < 2:
        return None
    above, number = np.zeros((2, len(LEVELS), len(_MODES), len(TARGETS)))
    for place, origin in enumerate(origins):
        others = _calibrated(origins[:place] + origins[place + 1 :], strength)
        tables = origin.tables(strength)
        for mode, (given, step) in enumerate(_MODES):
            plans, truth = _divided(origin, step)
            for i, level in enumerate(LEVELS):
                figures = tables.of_plans(plans, others.interval_factors(level), given=given)
                for t, target in enumerate(TARGETS):
                    low = figures[:, COLUMNS[target] + 1]
                    # where nothing is the least, every value is above it
                    above[i, mode, t] += (truth[target] >= low)[low > 0].sum()
                    number[i, mode, t] += (low > 0).sum()
    return above / np.maximum(number, 1.0)
