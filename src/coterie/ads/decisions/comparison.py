"""Comparison: what changed between two models or two periods, by how much, and whether it is noise.

Both are comparisons of days, because a model keeps the histograms of its days. The result is one
table with a row for each subject and measure.

A measure of an advertiser is a ratio Σx / Σy over the days of a period (auctions per day, wins per
auction, cost per win) or its price level. Its logarithm in a period is θ, the mean of the days with
weights K_d, and the deviation of a day, R_d = K_d (θ_d − θ), has the variance

    v·K_d + τ²·K_d²

by chance (v per unit of weight) and by variation from day to day (τ², common to all advertisers).
Both are estimated. The variances of one advertiser may still be larger than that by a factor c,
whose distribution over advertisers decides how heavy the tails of the test are: the estimate of
c is drawn to 1 by d₀ degrees of freedom (a moderated t statistic; Smyth 2004, Linear models and
empirical Bayes methods). A change that days have in common, such as a day with more traffic, adds
the variation of these common effects to the error of every advertiser. Discoveries are those of
Benjamini and Hochberg (1995), Controlling the false discovery rate.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.day_levels import level_curves, measured_levels, own_levels, weekday_of
from coterie.ads.forecasts.fitted_market import FittedMarket
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.histograms.stored_days import KIND_OF_LOG, merge_histograms, unpack_days
from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.errors import InvalidParameterError

Days = NDArray[np.datetime64]
#: The first and the last day, as dates or texts such as 2026-03-02.
Period = tuple[str | date, str | date]
#: Indices of the days of both periods in a log, whose days need not be sorted.
Sides = tuple[Ints, Ints]
#: Log changes, their variances and p-values, and which are discoveries.
Tested = tuple[Floats, Floats, Floats, Bools]

_LOG = logging.getLogger("coterie")

#: The measures, with what is assumed before any day is seen: standard deviations of the effects of
#: weekdays and of days on all advertisers, and τ², the variance of an advertiser's own days.
_ASSUMED = {
    "impressions": (0.1, 0.03, 0.05),
    "supply": (0.1, 0.03, 0.05),
    "win_rate": (0.04, 0.015, 0.0025),
    "price_level": (0.04, 0.015, 0.0025),
    "mean_bid": (0.04, 0.015, 0.0025),
    "ecpm": (0.04, 0.015, 0.0025),
    "click_rate": (0.1, 0.03, 0.01),
}
#: Number of days that the assumed variation between days counts as.
_ASSUMED_DAYS = 3.0
#: Measures of advertisers that are also given relative to those of the market.
_ALSO_OWN = ("supply", "price_level")
_IN_MICROS = ("mean_bid", "ecpm")
#: Advertisers with fewer chance events per day say nothing about the tails.
_FEWEST_EVENTS = 5.0
_HUBER, _SKEW, _HUBER_ROUNDS = 1.5, 4.0, 20
#: Relative variance of the amounts within a bin of the price grid, which is 2.4% wide.
_WITHIN_BIN = (0.024**2) / 12
#: Relative variance of an advertiser's days beyond chance, for the weights of advertisers.
_TYPICAL_VARIATION = 0.05
_TINY = 1e-300


@dataclass(frozen=True)
class Change:
    """One row of a comparison: the change of one measure of one subject.

    Attributes
    ----------
    kind : {"market", "segment", "advertiser"}
    subject : str
        Name of the segment, id of the advertiser, or ``"market"``.
    segment, segment_before : str or None
        Of an advertiser: its segments in the later and the earlier model.
    moved : bool
        Whether the segment of an advertiser does not correspond to its former one.
    measure : str
        Of an advertiser, ``impressions`` and ``supply`` (impressions and auctions per day),
        ``own_supply`` (relative to that of the market), ``win_rate``, ``price_level`` (prices of
        its market), ``own_price_level`` (relative to that of all advertisers), ``mean_bid``,
        ``ecpm`` (cost of a thousand impressions) and ``click_rate``. An advertiser that bids in one
        period only has ``impressions`` and ``supply``, which are 0 in the other.

        Of the market or a segment, the same without the own ones: the change of a typical
        advertiser, a robust mean over those that bid in both periods. Also, as sums over all
        advertisers, ``advertisers`` that bid, ``total_impressions`` per day, and what the
        advertisers of one period only contribute: ``new_impressions``, ``vanished_impressions``.
    before, after : float or None
        Money in units of the currency; None for a price level and for a typical advertiser, which
        have changes only.
    change : float or None
        Relative: 0.1 is 10% more. None if ``before`` is 0.
    error : float or None
        Standard error of the logarithm of the ratio: chance, and variation from day to day. None
        for sums, which are exact.
    p : float or None
        Two-sided p-value: how likely a change this large would be if nothing had changed.
    changed : bool
        Whether it is beyond noise: a discovery at the false discovery rate of the comparison.
    """

    kind: str
    subject: str
    segment: str | None
    segment_before: str | None
    moved: bool
    measure: str
    before: float | None
    after: float | None
    change: float | None
    error: float | None
    p: float | None
    changed: bool


@dataclass(frozen=True)
class ModelComparison:
    """What changed between two models, or between two periods of one.

    Attributes
    ----------
    currency : str
        Of all amounts; empty where the log has none.
    days_before, days_after : tuple of str
        The days that are compared.
    false_discovery_rate : float
        Expected share of wrong ones among the subjects said to have changed, by measure; of the
        market among its measures.
    adjusted_rand : float or None
        Agreement of the segments of two models: 1 equal, 0 chance; None for one model.
    notes : tuple of str
        What should be known before the changes are trusted.
    rows : tuple of Change
        Of the market, the segments of the later model, and the advertisers in the order of their
        ids. A measure that is not known in both periods has no row.
    """

    currency: str
    days_before: tuple[str, ...]
    days_after: tuple[str, ...]
    false_discovery_rate: float
    adjusted_rand: float | None
    notes: tuple[str, ...]
    rows: tuple[Change, ...]

    def of(self, kind: str, subject: str = "market") -> dict[str, Change]:
        """Return the rows of one subject by measure; none for a subject of neither period.

        Parameters
        ----------
        kind : {"market", "segment", "advertiser"}
        subject : str
            Name of the segment or id of the advertiser.
        """
        return {row.measure: row for row in self.rows if (row.kind, row.subject) == (kind, subject)}

    def columns(self) -> dict[str, AnyArray]:
        """Return the rows as columns by name; "" or NaN where nothing is known."""
        table = {}
        for field in fields(Change):
            values = [getattr(row, field.name) for row in self.rows]
            if "float" in str(field.type):
                table[field.name] = np.array(values, dtype=np.float64)
            else:
                table[field.name] = np.array(["" if value is None else value for value in values])
        return table


def compare_models(
    before: FittedMarket, after: FittedMarket, *, false_discovery_rate: float = 0.1
) -> ModelComparison:
    """Compare two models: what changed, for whom, and whether it may be noise.

    Days that are the same in both models say nothing about a change. Each model is compared by its
    other days, or by all of its days if it has no others. A day that both have with other bids is
    compared: the models are of different logs.

    Parameters
    ----------
    before, after : FittedMarket
        Fitted forecasters, or what :func:`~coterie.load_model` returns, of logs of the same kind.
    false_discovery_rate : float
        Expected share of wrong ones among the subjects said to have changed, by measure.

    Returns
    -------
    ModelComparison

    Examples
    --------
    A model does not differ from itself::

        found = compare_models(model, model)
        assert not any(row.changed for row in found.rows)
    """
    log, sides, notes = days_of_models(before, after)
    segments = match_segments(before, after, log.advertisers)
    return _comparison(log, sides, segments, false_discovery_rate, notes)


def compare_periods(
    model: FittedMarket,
    before: Period,
    after: Period,
    *,
    false_discovery_rate: float = 0.1,
) -> ModelComparison:
    """Compare two periods of a model: what changed, for whom, and whether it may be noise.

    Parameters
    ----------
    model : FittedMarket
        A fitted forecaster, or what :func:`~coterie.load_model` returns. Segments are those of the
        model; they are not found again for the periods.
    before, after : (first, last)
        The first and the last day of each period, as in ``("2026-03-02", "2026-03-05")``. They
        have no day in common.
    false_discovery_rate : float
        Expected share of wrong ones among the subjects said to have changed, by measure.

    Returns
    -------
    ModelComparison
    """
    log, sides = days_of_periods(model, before, after)
    segments = match_segments(model, model, log.advertisers)._replace(adjusted_rand=None)
    return _comparison(log, sides, segments, false_discovery_rate, [])


def _comparison(
    log: BidHistograms, sides: Sides, segments: MatchedSegments, rate: float, notes: list[str]
) -> ModelComparison:
    if not isinstance(rate, int | float) or not 0 < rate < 1:
        raise InvalidParameterError(
            f"false_discovery_rate={rate!r}: it must be a number between 0 and 1, for example 0.1"
        )
    dates = [log.days[days] for days in sides]
    if not same_weekdays(*dates):
        notes.append(
            "the periods do not have the same weekdays: differences between weekdays look like "
            "changes, and the errors allow for them"
        )
    ratios = ratios_of(log)
    impressions, supply = (
        np.stack([ratios[name].value(days) for days in sides]) for name in ("impressions", "supply")
    )
    bids: Bools = supply > 0
    both = bids[0] & bids[1]
    if not both.any():
        raise InvalidParameterError("no advertiser bids in both periods; compare other days")

    # the subjects: the market, the segments, and all advertisers
    bidding = np.flatnonzero(bids.any(axis=0))
    subjects: list[tuple[Any, ...]] = [
        ("market", "market", None, None, False),
        *(("segment", name, None, None, False) for name in segments.names),
        *(("advertiser", str(log.advertisers[row]), *segments.columns[row]) for row in bidding),
    ]
    groups = [np.ones_like(both), *(segments.groups == s for s in range(len(segments.names)))]
    place = np.zeros(len(both), dtype=np.int64)
    place[bidding] = np.arange(len(groups), len(subjects))
    # by measure: before, after, change, error, p and whether changed, of each subject
    table: dict[str, Floats] = {}

    def fill(measure: str, at: Any, ends: Any, tested: Tested | None = None) -> None:
        """Note the changes of some subjects, with their ends (2, n) where these are known."""
        if measure not in table:
            table[measure] = np.full((6, len(subjects)), np.nan)
            table[measure][5] = False
        cells = table[measure]
        if tested is not None:
            change, variance, p, changed = tested
            cells[2:, at] = np.expm1(change), np.sqrt(variance), p, changed
        if ends is not None:
            first, last = np.asarray(ends) * (1e-6 if measure in _IN_MICROS else 1.0)
            cells[:2, at] = first, last
            ratio = np.full(np.shape(first), np.nan)
            cells[2, at] = np.divide(last, first, out=ratio, where=first > 0) - 1.0

    for g, group in enumerate(groups):
        first, last = impressions[:, group]
        vanished, new = first[~bids[1, group]].sum(), last[~bids[0, group]].sum()
        fill("advertisers", g, bids[:, group].sum(axis=1))
        fill("total_impressions", g, (first.sum(), last.sum()))
        fill("new_impressions", g, (0.0, new))
        fill("vanished_impressions", g, (vanished, 0.0))
    for name in _ASSUMED:
        known, ratio = both, ratios.get(name)
        if ratio is not None:
            for days in sides:
                x, y = ratio.sums(days)
                known = known & (y > 0) & ((x > 0) | (ratio.kind != "mean"))
        if not known.any() or (ratio is None and name != "price_level"):
            continue
        one = _changes(name, ratio, log, sides, np.flatnonzero(known))
        # the typical change of each group; discoveries are among the segments
        change, variance = np.array([one.typical(group) for group in groups]).T
        p = p_values(change, variance, one.days.freedom)
        is_found = np.append(False, discoveries(p[1:], rate))
        fill(name, np.arange(len(groups)), None, (change, variance, p, is_found))
        at, p = place[one.rows], p_values(one.change, one.variance, one.freedom)
        fill(name, at, one.values, (one.change, one.variance, p, discoveries(p, rate)))
        if name in _ALSO_OWN:
            middle, error = one.typical(both)
            # the variation of days is common to the advertiser and the market
            change, variance = one.change - middle, one.own_variance + error - one.days.variance
            p = p_values(change, variance, one.own_freedom)
            fill(f"own_{name}", at, None, (change, variance, p, discoveries(p, rate)))
    # discoveries of the market are among its measures
    measures = [name for name in _ASSUMED if name in table]
    of_market = discoveries(np.array([table[name][4, 0] for name in measures]), rate)
    for name, is_changed in zip(measures, of_market, strict=True):
        table[name][5, 0] = is_changed
    alone = np.flatnonzero(bids[0] ^ bids[1])
    fill("impressions", place[alone], impressions[:, alone])
    fill("supply", place[alone], supply[:, alone])

    rows, by_subject = [], {measure: cells.T.tolist() for measure, cells in table.items()}
    for s, subject in enumerate(subjects):
        for measure, cells in by_subject.items():
            *numbers, changed = cells[s]
            if not (isnan(numbers[0]) and isnan(numbers[-1])):
                known = (None if isnan(number) else number for number in numbers)
                row = (*subject, measure, *known, bool(changed))
                rows.append(Change(*row))
    return ModelComparison(
        currency=log.currency,
        days_before=tuple(map(str, dates[0])),
        days_after=tuple(map(str, dates[1])),
        false_discovery_rate=rate,
        adjusted_rand=segments.adjusted_rand,
        notes=tuple(notes),
        rows=tuple(rows),
    )


def days_of_models(
    before: FittedMarket, after: FittedMarket
) -> tuple[BidHistograms, Sides, list[str]]:
    """Put the days of two models into one log; return it, the days of each, and notes.

    Days that are the same in both models are left out, unless a model has no others. A day that
    both models have with different bids is there twice: once before and once after.
    """
    logs = first, last = _days_of(before, "before"), _days_of(after, "after")
    for name, term in KIND_OF_LOG.items():
        one, other = getattr(first, name), getattr(last, name)
        if one != other:
            raise InvalidParameterError(
                f"the {term} of the model before is {one!r} and that of the model after {other!r}; "
                "only models of logs of the same kind can be compared"
            )
    common = np.intersect1d(first.days, last.days)
    names = np.union1d(first.advertisers, last.advertisers)
    is_same = np.ones(len(common), dtype=bool)
    for name in ("count", "bid", "wins", "cost", "clicks"):
        sums = np.zeros((2, len(names), len(common)))
        for side, log in zip(sums, logs, strict=True):
            rows = np.searchsorted(names, log.advertisers)
            side[rows] = log.daily(name)[:, np.searchsorted(log.days, common)]
        # sums of weights depend a little on the order of the bids
        is_same &= np.isclose(sums[0], sums[1], rtol=1e-9).all(axis=0)
    same, different = int(is_same.sum()), int((~is_same).sum())
    others = [np.flatnonzero(~np.isin(log.days, common[is_same])) for log in logs]
    if not any(map(len, others)):
        days = np.arange(len(first.days))
        return first, (days, days), ["both models have the same days"]
    notes = []
    if same:
        notes.append(
            f"{same} of the days {'is' if same == 1 else 'are'} in both models and "
            f"{'says' if same == 1 else 'say'} nothing about a change; each model is compared by "
            "its other days, if it has any"
        )
    if different:
        notes.append(
            f"{'1 day has' if different == 1 else f'{different} days have'} other bids in one "
            "model than in the other; the models are of different logs, and such days are compared "
            "with each other"
        )
    first, last = (
        log.for_days(days) if len(days) else log for days, log in zip(others, logs, strict=True)
    )
    # all days of the first log before those of the last; dates may repeat
    dates = np.concatenate([first.days, last.days])
    later = first.days[-1] + np.timedelta64(1, "D") - last.days[0]
    merged = replace(merge_histograms(first, replace(last, days=last.days + later)), days=dates)
    n = len(first.days)
    return merged, (np.arange(n), np.arange(n, len(dates))), notes


def days_of_periods(
    model: FittedMarket, before: Period, after: Period
) -> tuple[BidHistograms, Sides]:
    """Return the days of two periods of a model; refuse periods with a common day."""
    log, sides = _days_of(model, "model"), []
    for name, period in (("before", before), ("after", after)):
        written = ":".join(map(str, period))
        try:
            start, end = (np.datetime64(date.fromisoformat(str(day)), "D") for day in period)
        except ValueError:
            raise InvalidParameterError(
                f"{name}={written}: a period has two dates, as in 2026-03-02 and 2026-03-05"
            ) from None
        if start > end:
            raise InvalidParameterError(
                f"{name}={written}: the first day is after the last; give the first day first"
            )
        sides.append(np.flatnonzero((log.days >= start) & (log.days <= end)))
        if not len(sides[-1]):
            raise InvalidParameterError(
                f"{name}={written}: the model has no day in this period; it has days from "
                f"{log.days[0]} to {log.days[-1]}"
            )
    common = np.intersect1d(sides[0], sides[1])
    if len(common):
        raise InvalidParameterError(
            f"both periods have {log.days[common[0]]}; give periods without common days"
        )
    return log, (sides[0], sides[1])


def _days_of(model: FittedMarket, name: str) -> BidHistograms:
    model.refuse_unfitted()
    stored = getattr(model, "stored_days_", None)
    if stored is None:
        raise InvalidParameterError(
            f"{name}: this model keeps no days, so that it cannot be compared; fit it again"
        )
    return unpack_days(stored)[0]


def same_weekdays(first: Days, last: Days) -> bool:
    """Return whether all weekdays have the same share in two periods.

    >>> week = np.datetime64("2026-03-02") + np.arange(7)
    >>> same_weekdays(week, week + 7), same_weekdays(week[:4], week[4:])
    (True, False)
    """
    shares = [np.bincount(weekday_of(days), minlength=7) / len(days) for days in (first, last)]
    return bool(np.allclose(shares[0], shares[1]))


class MatchedSegments(NamedTuple):
    """Segments of A advertisers of two models."""

    names: list[str]  # after
    groups: Ints  # (A,), the segment after, or what corresponds to the one before; −1 for none
    columns: list[tuple[str | None, str | None, bool]]  # segment, segment_before, moved
    adjusted_rand: float | None


def match_segments(
    before: FittedMarket, after: FittedMarket, advertisers: AnyArray
) -> MatchedSegments:
    """Match the segments of two models one to one, with the most advertisers in common.

    An advertiser of both models has moved if it is not where its former segment is now.
    """
    # imported here because scipy.optimize is slow to import
    from scipy.optimize import linear_sum_assignment

    from coterie.inspection.scores import adjusted_rand_index

    labels: list[Ints] = []
    names: list[list[Any]] = []
    for model in (before, after):
        known = model.advertisers_
        place = np.minimum(np.searchsorted(known, advertisers), len(known) - 1)
        labels.append(np.where(known[place] == advertisers, model.labels_[place], -1))
        # the last name is for advertisers without a segment, whose label is −1
        names.append([*(profile.name for profile in model.segments_), None])
    first, last = labels
    both = (first >= 0) & (last >= 0)
    common = np.zeros((len(names[0]) - 1, len(names[1]) - 1))
    np.add.at(common, (first[both], last[both]), 1.0)
    match = np.full(len(names[0]), -1)
    of_before, of_after = linear_sum_assignment(-common)
    match[of_before] = np.where(common[of_before, of_after] > 0, of_after, -1)
    moved = both & (last != match[first])
    columns = [
        (names[1][b], names[0][a], is_moved)
        for a, b, is_moved in zip(first.tolist(), last.tolist(), moved.tolist(), strict=True)
    ]
    agreement = adjusted_rand_index(first[both], last[both]) if both.any() else None
    return MatchedSegments(
        names[1][:-1], np.where(last >= 0, last, match[first]), columns, agreement
    )


class PeriodEstimate(NamedTuple):
    """A measure of A advertisers in a period of D days; see the symbols above."""

    value: Floats  # (A,), θ
    unit: Floats  # (A,), v
    weight: Floats  # (A, D), K
    residual: Floats  # (A, D), R, without effects common to all advertisers


class DayVariation(NamedTuple):
    """Variance of a change of effects common to all advertisers, and its degrees of freedom."""

    variance: float
    freedom: float


class MeasureChanges(NamedTuple):
    """Log changes Δθ of the n advertisers that have a measure in both periods, (n,) each."""

    rows: Ints  # of the log
    values: Floats | None  # (2, n), before and after; None for a price level
    change: Floats
    own_variance: Floats  # without the variation of days common to all advertisers
    own_freedom: float
    variance: Floats
    freedom: Floats
    averaged: tuple[Floats, Floats]  # changes to be averaged, and their variances
    days: DayVariation

    def typical(self, members: Bools) -> tuple[float, float]:
        """Return the typical log change of some rows (A,), and its variance; NaN without any."""
        some = members[self.rows]
        if not some.any():
            return np.nan, np.nan
        change, variance = typical_change(*(part[some] for part in self.averaged))
        return change, variance + self.days.variance


def _changes(
    name: str, ratio: Ratio | None, log: BidHistograms, sides: Sides, rows: Ints
) -> MeasureChanges:
    """Return the changes of a ratio of some advertisers; without one, those of their price levels.

    On day d advertiser a wins at a bid b with probability F_a(b·e^{−τ_d−s_a}), with the common
    level τ_d of :mod:`coterie.ads.curves.day_levels` and an own level s_a of each period.
    """
    of_week, of_day, assumed = _ASSUMED[name]
    union, estimates = np.union1d(*sides), []
    effects, errors = np.zeros((2, len(log.days)))  # of days on all advertisers
    if ratio is None:
        _LOG.info("Comparing the price levels of %d advertisers", len(rows))
        effects[union], errors[union] = measured_levels(log, union.tolist())
        curves = level_curves(log, union.tolist(), effects[union])
        for days in sides:
            own, information, score = own_levels(log, curves, effects, days)
            number = log.daily("count")[:, days]
            share = number / np.maximum(number.sum(axis=1, keepdims=True), _TINY)
            level, weight = own + share @ effects[days], information[:, None] * share
            estimate = level, np.ones(len(level)), weight, score
            estimates.append(PeriodEstimate(*(part[rows] for part in estimate)))
    else:
        ratio = ratio.of(rows)
        effects[union], errors[union] = day_effects(ratio, union)
        bases = [ratio.sums(days)[1] for days in sides]
        for days, base in zip(sides, bases, strict=True):
            share = base / (bases[0] + bases[1])
            estimates.append(period_estimate(ratio, days, effects[days], share))
    on_days, of_measurement = ([part[days] for days in sides] for part in (effects, errors))
    dates = [log.days[days] for days in sides]
    common = day_variation(on_days, of_measurement, dates, (of_week, of_day))
    before, after = estimates
    own, by_day, own_freedom = own_variances(before, after, assumed)
    change, total = after.value - before.value, own + common.variance
    # Satterthwaite's degrees of freedom of a sum of two estimated variances
    denominator = own**2 / own_freedom + common.variance**2 / common.freedom
    freedom = np.divide(total**2, denominator, out=np.full(len(own), np.inf), where=denominator > 0)
    values, averaged = None, (change, own)
    if ratio is not None:
        values = np.stack([ratio.value(days) for days in sides])
        unbiased, by_chance = unbiased_changes(ratio, *sides)
        averaged = unbiased, by_chance + by_day
    return MeasureChanges(rows, values, change, own, own_freedom, total, freedom, averaged, common)


def own_variances(
    before: PeriodEstimate, after: PeriodEstimate, assumed: float
) -> tuple[Floats, Floats, float]:
    """Return the variances of changes, their parts by variation from day to day, and freedom.

    They are without the variation of days common to all advertisers. ``assumed`` is τ² before any
    day is seen.
    """
    sides, n = (before, after), len(before.value)
    totals = [side.weight.sum(axis=1) for side in sides]
    squares = [(side.weight**2).sum(axis=1) for side in sides]
    numbers = [side.weight.shape[1] for side in sides]
    freedom = sum(numbers) - 2
    # τ², by what the squares of residuals exceed chance; and how many degrees of freedom it has
    square, chance, size = np.zeros((3, n))
    for side, total, of_days, D in zip(sides, totals, squares, numbers, strict=True):
        if D > 1:
            square += (side.residual**2).sum(axis=1) * D / (D - 1)
            chance += side.unit * total
            size += of_days
    known = size > 0
    tau2, effective = assumed, _ASSUMED_DAYS
    if known.any():
        own = (square[known] - chance[known]) / size[known]
        # small numbers say little: their share of variation in the variance is small
        share = assumed * size[known] / (chance[known] + assumed * size[known])
        used = own <= np.quantile(own, 0.98)
        trust = freedom * share[used] ** 2
        effective = float(trust.sum()) + _ASSUMED_DAYS
        tau2 = (max(float(trust @ own[used]), 0.0) + _ASSUMED_DAYS * assumed) / effective
    # the factor c of each advertiser, and d₀
    excess, prior = np.ones(n), effective
    if freedom >= 1:
        ratio, events = np.zeros(n), np.full(n, np.inf)
        for side in sides:
            variance = side.unit[:, None] * side.weight + tau2 * side.weight**2
            relative = np.zeros_like(variance)
            np.divide(side.residual**2, variance, out=relative, where=variance > 0)
            ratio += relative.sum(axis=1)
            by_chance = np.full(n, np.inf)
            np.divide(side.weight.mean(axis=1), side.unit, out=by_chance, where=side.unit > 0)
            events = np.minimum(events, by_chance)
        ratio /= freedom
        steady = ratio[events >= _FEWEST_EVENTS]
        prior = np.inf
        if len(steady) > 1:
            # the variance of F-distributed ratios of mean 1, solved for d₀
            spread = float(steady.var(ddof=1)) * freedom
            prior = (4 * spread + 2 * freedom - 4) / (spread - 2) if spread > 2 else np.inf
        prior = min(max(prior, 4.0), effective)
        excess = (prior + freedom * ratio) / (prior + freedom)
    first, last = (np.maximum(total, _TINY) for total in totals)
    # Σ K² / (Σ K)²: how much variation from day to day averages out
    by_day = tau2 * (squares[0] / first**2 + squares[1] / last**2)
    own = (by_day + before.unit / first + after.unit / last) * excess
    return own, by_day, prior + freedom


def day_variation(
    effects: Sequence[Floats],
    errors: Sequence[Floats],
    dates: Sequence[Days],
    assumed: tuple[float, float],
) -> DayVariation:
    """Estimate the variance of the mean common effect of one period minus that of the other.

    ``effects`` and ``errors`` are the log effects of the days of each period, and the variances of
    their measurement; ``assumed`` the standard deviations of weekdays and of days. Weekdays are
    only noise if the periods do not have the same ones.
    """
    balanced = same_weekdays(dates[0], dates[1])
    residual = np.concatenate([effect - effect.mean() for effect in effects])
    freedom = len(residual) - 2.0
    prior = assumed[1] ** 2 if balanced else assumed[0] ** 2 + assumed[1] ** 2
    if balanced:
        of_weekday = np.eye(7)[weekday_of(np.concatenate(dates))]
        number = of_weekday.sum(axis=0)
        residual = residual - of_weekday @ ((residual @ of_weekday) / np.maximum(number, 1))
        freedom = max(freedom - (np.count_nonzero(number) - 1), 0.0)
    total = _ASSUMED_DAYS + freedom
    square = (_ASSUMED_DAYS * prior + float(residual @ residual)) / total
    # errors of measurement are in the residuals, but not in the days themselves
    least = _ASSUMED_DAYS * prior / total
    square = max(square - float(np.concatenate(errors).mean()) * freedom / total, least)
    return DayVariation(square * sum(1.0 / len(effect) for effect in effects), total)


def typical_change(change: Floats, variance: Floats) -> tuple[float, float]:
    """Return the change of a typical advertiser and its variance: Huber's robust mean.

    The weights are the inverse of variance and heterogeneity together. An infinite variance is
    that of an advertiser that says nothing.
    """
    known = np.isfinite(variance)
    change, variance = change[known], variance[known]
    if not len(change):
        return 0.0, 0.0
    # the half that knows most says how unlike the advertisers are
    informed = variance <= np.median(variance)
    middle = float(np.median(change[informed]))
    spread = (1.4826 * float(np.median(np.abs(change[informed] - middle)))) ** 2
    scale2 = np.maximum(variance + max(spread - float(variance[informed].mean()), 0.0), 1e-12)
    weight = 1.0 / scale2
    # changes of small numbers are skewed: cutting off one side of them would be a bias
    furthest = (_HUBER + _SKEW * np.sqrt(variance)) * np.sqrt(scale2)
    for _ in range(_HUBER_ROUNDS):
        use = weight * np.minimum(1.0, furthest / np.maximum(np.abs(change - middle), 1e-12))
        middle = float(use @ change / use.sum())
    bounded = use**2 @ (change - middle) ** 2 / use.sum() ** 2
    return middle, float(max(bounded, 1.0 / weight.sum()))


def p_values(change: Floats, variance: Floats, freedom: Floats | float) -> Floats:
    """Return two-sided p-values of Student's t statistics, (A,); 1 for a variance of 0."""
    from scipy.stats import t

    error = np.sqrt(variance)
    z = np.divide(np.abs(change), error, out=np.zeros_like(error), where=error != 0)
    # beyond a million degrees of freedom it is the normal distribution, which scipy cannot say
    return np.asarray(2.0 * t.sf(z, np.minimum(freedom, 1e6)))


def discoveries(p: Floats, rate: float) -> Bools:
    """Return which hypotheses Benjamini and Hochberg reject at a rate; NaN is no hypothesis.

    >>> discoveries(np.array([0.001, 0.04, np.nan, 0.9]), 0.1).tolist()
    [True, True, False, False]
    """
    from scipy.stats import false_discovery_control

    is_rejected = np.zeros(len(p), dtype=bool)
    tested = ~np.isnan(p)
    if tested.any():
        is_rejected[tested] = false_discovery_control(p[tested]) <= rate
    return is_rejected


@dataclass(frozen=True)
class Ratio:
    """A measure x/y of A advertisers on D days.

    Its variance by chance per unit of y, relative to the square of the ratio r, is q/r for counts,
    q·(1 − r)/r for shares, and q·cv² for means of amounts with coefficient of variation cv.
    q = Σw² / Σw is 1 unless bids are weighted.
    """

    kind: str  # "count", "share" or "mean"
    amount: Floats  # (A, D), x
    base: Floats  # (A, D), y
    weight: Floats  # (A,), q
    dispersion: Floats  # (A,), cv² of means, otherwise 0

    def sums(self, days: Ints) -> tuple[Floats, Floats]:
        """Return Σx and Σy over some days, (A,) each."""
        return self.amount[:, days].sum(axis=1), self.base[:, days].sum(axis=1)

    def value(self, days: Ints) -> Floats:
        """Return Σx / Σy over some days, (A,); NaN where Σy = 0."""
        amount, base = self.sums(days)
        return np.divide(amount, base, out=np.full(len(base), np.nan), where=base > 0)

    def of(self, rows: Ints) -> Ratio:
        """Return the measure of some advertisers."""
        arrays = (self.amount, self.base, self.weight, self.dispersion)
        return Ratio(self.kind, *(array[rows] for array in arrays))

    def unit(self, rate: Floats, rows: Any = slice(None)) -> Floats:
        """Return the relative variance by chance of one unit of the base, of some advertisers."""
        weight = self.weight[rows]
        if self.kind == "mean":
            return weight * self.dispersion[rows]
        missing = np.clip(1.0 - rate, 0.0, 1.0) if self.kind == "share" else 1.0
        return np.asarray(weight * missing / rate)


def ratios_of(log: BidHistograms) -> dict[str, Ratio]:
    """Return the ratios that a log has, by name; amounts in micros per thousand impressions."""
    count, square, bid, wins, cost, clicks = (
        log.daily(name) for name in ("count", "square", "bid", "wins", "cost", "clicks")
    )
    n, total, bids, prices = len(count), count.sum(axis=1), log.bids, log.prices

    def dispersion(row: Ints, number: Floats, amount: Floats) -> Floats:
        """Return the squared coefficient of variation of amounts in bins by advertiser, (A,)."""
        used = number > 0
        row, number, amount = row[used], number[used], amount[used]
        zeroth, first, second = (
            np.bincount(row, values, n) for values in (number, amount, amount**2 / number)
        )
        mean_square = np.divide(first**2, zeroth, out=np.zeros(n), where=zeroth > 0)
        squared = np.divide(second, mean_square, out=np.ones(n), where=mean_square > 0) - 1.0
        return np.maximum(squared, 0.0) + _WITHIN_BIN

    if log.auction == "first" or log.revealed == "none":
        of_prices = dispersion(bids.advertiser, bids.wins, bids.cost)
    else:
        paid = np.ones(len(prices.bin), dtype=bool)
        if log.revealed == "minimum":
            # prices of lost auctions are among them; nobody pays more than its highest bid
            highest = np.zeros(n, dtype=np.int64)
            np.maximum.at(highest, bids.advertiser, bids.bin)
            paid = prices.bin <= highest[prices.advertiser]
        of_prices = dispersion(prices.advertiser[paid], prices.count[paid], prices.price[paid])
    q = np.divide(square.sum(axis=1), total, out=np.ones(n), where=total > 0)
    each, none = np.ones_like(count), np.zeros(n)
    of_bids = dispersion(bids.advertiser, bids.count, bids.bid)
    ratios = {
        "impressions": Ratio("count", wins, each, q, none),
        "supply": Ratio("count", count, each, q, none),
        "win_rate": Ratio("share", wins, count, q, none),
        "mean_bid": Ratio("mean", bid, count, q, of_bids),
        "ecpm": Ratio("mean", cost, wins, q, of_prices),
    }
    if clicks.any():
        ratios["click_rate"] = Ratio("count", clicks, wins, q, none)
    return ratios


def day_effects(ratio: Ratio, days: Ints) -> tuple[Floats, Floats]:
    """Return the log effect of each of some days on all advertisers, and its variance, (D,) each.

    Advertisers are weighted by the inverse of the variance of a day, so that none decides alone.
    """
    amount, base = ratio.amount[:, days], ratio.base[:, days]
    number = base.sum(axis=1)
    # advertisers without events say nothing about days
    known = amount.sum(axis=1) > 0
    amount, base, number = amount[known], base[known], number[known]
    rate = amount.sum(axis=1) / number
    relative = ratio.unit(rate, known) * len(days) / number
    weight = 1.0 / ((relative + _TYPICAL_VARIATION) * rate)
    expected = rate[:, None] * base
    total = weight @ expected
    is_measured = total > 0
    total = np.where(is_measured, total, 1.0)
    # half an event where a day has none
    factor = np.maximum(weight @ amount, 0.5 * weight.max(initial=1.0)) / total
    factor = np.where(is_measured, factor, 1.0)
    error = (weight**2 @ (amount - expected * factor) ** 2) / (total * factor) ** 2
    return np.log(factor), np.where(is_measured, error, 1.0)


def period_estimate(ratio: Ratio, days: Ints, effects: Floats, share: Floats) -> PeriodEstimate:
    """Return the logarithm of a ratio in the period of some days (D,), with its residuals.

    The common log effects of these days (D,) are taken out of the residuals. ``share`` (A,) is
    that of the period in the base of both periods: one event is divided between the periods by it,
    so that small numbers have a logarithm and their change has no bias.
    """
    amount, base = ratio.amount[:, days], ratio.base[:, days]
    added = np.zeros(len(share)) if ratio.kind == "mean" else ratio.weight * share
    number = base.sum(axis=1) + (2 * added if ratio.kind == "share" else 0.0)
    rate = (amount.sum(axis=1) + added) / np.maximum(number, _TINY)
    weight = base * np.exp(effects - effects.mean())
    scale = np.divide(number, weight.sum(axis=1), out=np.ones(len(number)), where=number > 0)
    weight = weight * scale[:, None]
    safe = np.maximum(rate, _TINY)
    residual = amount / safe[:, None] - weight
    return PeriodEstimate(np.log(safe), ratio.unit(safe), weight, residual)


def unbiased_changes(ratio: Ratio, before: Ints, after: Ints) -> tuple[Floats, Floats]:
    """Return log changes whose mean is right, and their variances by chance, (A,) each.

    The logarithm of a small number is biased, which a mean over many advertisers would show. With
    sums x₁, y₁ before and x₂, y₂ after, the residual of a common change δ,

        ρ_a(δ) = (x₂·y₁ − x₁·y₂·e^δ) / (y₁ + y₂·e^δ),

    has the mean 0, however small the numbers. δ is estimated as Mantel and Haenszel do, and the
    change of an advertiser is δ + ρ_a(δ) / E[−ρ_a′(δ)]. The variance is infinite without events.
    """
    (x1, y1), (x2, y2) = ratio.sums(before), ratio.sums(after)
    known = x1 + x2 > 0
    rate = np.where(known, x1 + x2, 1.0) / (y1 + y2)
    size = y1 * y2 / (y1 + y2)
    weight = known / ((ratio.unit(rate) + _TYPICAL_VARIATION * size) * rate * (y1 + y2))
    sums = float(weight @ (x2 * y1)), float(weight @ (x1 * y2))
    delta = float(np.log(sums[0] / sums[1])) if min(sums) > 0 else 0.0
    # the ratio halfway between the periods, so that their order does not matter
    half = np.exp(delta / 2)
    common = y1 / half + y2 * half
    rate = np.where(known, x1 + x2, 1.0) / common
    size = y1 * y2 / common
    residual = (x2 * y1 / half - x1 * y2 * half) / common
    change = delta + np.where(known, residual / (rate * size), 0.0)
    return change, np.where(known, ratio.unit(rate) / size, np.inf)
