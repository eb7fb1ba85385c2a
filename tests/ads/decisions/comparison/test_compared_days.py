"""Compared days: which days are compared, and which cannot be."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from coterie.ads.decisions.comparison.compared_days import days_of_models, days_of_periods
from coterie.ads.histograms.stored_days import pack_days
from coterie.errors import InvalidParameterError
from markets import EASY, fitted, market


def with_days(days, **other):
    """Return a model that keeps other days."""
    model = copy(fitted())
    log = replace(market(EASY).histograms.for_days(days), **other)
    model.stored_days_ = pack_days(log, {})
    return model


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ([0, 1], [2, 3], ([0, 1], [2, 3])),
        ([0, 1], [0, 1, 2, 3], ([0, 1], [2, 3])),
        ([0, 1, 2], [1, 2, 3], ([0], [3])),
        ([0, 1, 2], [0, 1, 2], ([0, 1, 2], [0, 1, 2])),
    ],
)
def test_common_days_are_left_out_where_others_remain(before, after, kept):
    """A day of both models says nothing about a change; the order of the models does not matter."""
    dates = market(EASY).histograms.days
    expected = [dates[days].tolist() for days in kept]
    found, _ = days_of_models(with_days(before), with_days(after))
    assert [days.tolist() for days in found.dates] == expected
    swapped, _ = days_of_models(with_days(after), with_days(before))
    assert [days.tolist() for days in swapped.dates] == expected[::-1]


def other_log(days):
    """Return a model of other bids on the same days: each advertiser's twice as often."""
    model, log = copy(fitted()), market(EASY).histograms.for_days(days)
    bids = replace(log.bids, count=2 * log.bids.count, square=2 * log.bids.square)
    model.stored_days_ = pack_days(replace(log, bids=bids), {})
    return model


@pytest.mark.parametrize(
    ("before", "after"), [([0, 1, 2], [0, 1, 2]), ([0, 1], [1, 2]), ([1, 2, 3], [0, 1])]
)
def test_days_of_different_logs_are_compared_in_full(before, after):
    """Dates that both models have with other bids stay in both periods, each with its bids."""
    log = market(EASY).histograms
    found, [note] = days_of_models(with_days(before), other_log(after))
    assert "other bids in one model" in note
    assert [side.tolist() for side in found.dates] == [
        log.days[d].tolist() for d in (before, after)
    ]
    counted = found.histograms.daily("count")
    expected = log.daily("count")
    assert counted[:, found.before].sum() == expected[:, before].sum()
    assert counted[:, found.after].sum() == 2 * expected[:, after].sum()


def test_only_days_with_the_same_bids_are_left_out():
    """Of common days, those that agree are dropped and those that do not are compared."""
    model, log = copy(fitted()), market(EASY).histograms
    twice = np.where(log.bids.day == 1, 2.0, 1.0)
    changed = replace(log, bids=replace(log.bids, count=log.bids.count * twice))
    model.stored_days_ = pack_days(changed.for_days([0, 1]), {})
    found, notes = days_of_models(with_days([0, 1]), model)
    assert [side.tolist() for side in found.dates] == [log.days[[1]].tolist()] * 2
    assert notes[0].startswith("1 of the days is in both models and says nothing")
    assert notes[1].startswith("1 day has other bids in one model")


def test_bids_of_the_days_are_those_of_the_logs():
    """Putting days together changes no count."""
    log = market(EASY).histograms
    found, _ = days_of_models(with_days([0, 1]), with_days([2, 3]))
    assert found.histograms.daily("count").sum() == log.daily("count").sum()


def test_days_outside_the_periods_are_not_compared():
    """Periods are first and last days, both included."""
    model = fitted()
    first, second, _, last = (str(day) for day in model.days_)
    found = days_of_periods(model, (first, second), (last, last))
    assert (found.before.tolist(), found.after.tolist()) == ([0, 1], [3])


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (("2026-03-02", "2026-03-03"), ("2026-03-03", "2026-03-05"), "both periods have"),
        (("2026-03-02", "2026-03-03"), ("2027-03-03", "2027-03-05"), "no day in this period"),
        (("2026-03-05", "2026-03-02"), ("2026-03-03", "2026-03-03"), "first day is after the last"),
        (("Monday", "2026-03-03"), ("2026-03-03", "2026-03-05"), "a period has two dates"),
    ],
)
def test_other_periods_are_refused(before, after, message):
    """A period that cannot be compared is an error that says why."""
    with pytest.raises(InvalidParameterError, match=message):
        days_of_periods(fitted(), before, after)


def test_models_of_other_currencies_are_refused():
    """Amounts in different currencies cannot be compared."""
    with pytest.raises(InvalidParameterError, match="currency of the model before is 'USD'"):
        days_of_models(with_days([0, 1]), with_days([2, 3], currency="EUR"))


def test_a_model_without_days_is_refused():
    """A model that keeps no days cannot be compared."""
    model = copy(fitted())
    model.stored_days_ = None
    with pytest.raises(InvalidParameterError, match="keeps no days"):
        days_of_models(fitted(), model)
