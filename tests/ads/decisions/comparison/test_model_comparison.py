"""Model comparison: no change is found where there is none, and a planted one is."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, replace
from functools import cache

import msgspec
import numpy as np
import pytest

from coterie import ads
from coterie.ads.decisions.comparison.comparison_results import (
    AdvertiserChange,
    Change,
    GroupChange,
    ModelComparison,
)
from coterie.ads.histograms.stored_days import pack_days
from coterie.errors import InvalidParameterError
from markets import EASY, ODD_WITH_SEGMENTS, ODD_WITHOUT_SEGMENTS, fitted, market, odd_model

STEADY = replace(
    EASY,
    advertisers=80,
    days=6,
    bids_per_day=60,
    volume_spread=1.0,
    bid_move=0.0,
    newcomers=0.0,
    weekday_effect=0.0,
)
RISEN = replace(STEADY, days=8, price_rise=0.2)
QUANTITIES = [field.name for field in fields(AdvertiserChange) if "Change" in str(field.type)]


def of_days(log, days):
    """Return a model that keeps some days of a log; its segments are those of another log."""
    model = copy(fitted())
    model.stored_days_ = pack_days(log.for_days(days), {})
    return model


@cache
def compared(settings=STEADY, before=(0, 1, 2), after=(3, 4, 5)):
    """Compare some days of a market, without fitting models to them."""
    log = market(settings).histograms
    return ads.compare_models(of_days(log, before), of_days(log, after))


def changes(found):
    """Yield all changes of a comparison."""
    for one in (found.market, *found.segments, *found.advertisers):
        for field in fields(one):
            value = getattr(one, field.name)
            if isinstance(value, Change):
                yield f"{field.name}", value


def test_a_model_does_not_differ_from_itself():
    """Every change is 0 and none is a discovery."""
    found = ads.compare_models(fitted(), fitted())
    assert {change.change for _, change in changes(found)} <= {0.0, None}
    assert not any(change.changed for _, change in changes(found))
    assert not any(one.moved for one in found.advertisers)
    assert (found.new, found.vanished, found.adjusted_rand) == ((), (), 1.0)


@pytest.mark.parametrize("kind", [{}, {"auction": "first"}, {"minimum_logged": True}], ids=str)
def test_swapped_models_change_all_signs(kind):
    """What rose falls, as surely as it rose."""
    settings = replace(RISEN, **kind)
    one, other = (
        compared(settings, *days) for days in (((1, 2, 3), (4, 5, 6, 7)), ((4, 5, 6, 7), (1, 2, 3)))
    )
    for (name, there), (_, back) in zip(changes(one), changes(other), strict=True):
        if there.change is not None and back.change is not None:
            assert np.log1p(there.change) == pytest.approx(-np.log1p(back.change), abs=1e-6), name
        assert there.p == pytest.approx(back.p, rel=1e-4, abs=1e-9)
        assert there.error == pytest.approx(back.error, rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_chance_is_no_change(seed):
    """In a market that does not change, discoveries are as rare as the stated rate allows."""
    found = compared(replace(STEADY, seed=seed))
    discovered = {
        name: sum(name in one.changed for one in found.advertisers) for name in QUANTITIES
    }
    # with nothing to discover, a discovery of a quantity has a probability of 10%
    assert sum(number > 0 for number in discovered.values()) <= 3
    assert sum(discovered.values()) <= 4
    p = [one.own_price_level.p for one in found.advertisers]
    assert np.mean(np.array(p) < 0.05) < 0.15
    assert not found.market.price_level.changed


@pytest.mark.parametrize("kind", [{}, {"auction": "first"}, {"minimum_logged": True}], ids=str)
def test_a_rise_of_all_prices_is_a_change_of_the_market(kind):
    """A planted rise is found, has the right size, and is not taken for a change of single ones."""
    found = compared(replace(RISEN, **kind), (0, 1, 2, 3), (4, 5, 6, 7))
    level = found.market.price_level
    assert level.changed
    assert np.log1p(level.change) == pytest.approx(0.2, abs=3 * level.error)
    assert np.mean([one.price_level.changed for one in found.advertisers]) > 0.5
    assert np.mean([one.own_price_level.changed for one in found.advertisers]) < 0.1
    assert not found.market.supply.changed
    parts = found.market.parts
    assert parts.market_price < -5 * abs(parts.market_supply)


def test_a_change_of_one_advertiser_is_its_own():
    """One that suddenly bids ten times as often is found, and does not move the market."""
    log = market(STEADY).histograms
    row = int(np.argsort(log.daily("count").sum(axis=1))[40])
    cells = log.bids
    more = (cells.advertiser == row) & (cells.day >= 3)
    names = ("count", "square", "bid", "wins", "cost", "clicks", "conversions")
    scaled = {name: getattr(cells, name) * np.where(more, 10.0, 1.0) for name in names}
    priced = (log.prices.advertiser == row) & (log.prices.day >= 3)
    prices = {
        name: getattr(log.prices, name) * np.where(priced, 10.0, 1.0) for name in ("count", "price")
    }
    altered = replace(log, bids=replace(cells, **scaled), prices=replace(log.prices, **prices))
    found = ads.compare_models(of_days(altered, [0, 1, 2]), of_days(altered, [3, 4, 5]))
    one = next(a for a in found.advertisers if a.advertiser == str(log.advertisers[row]))
    assert one.own_supply.changed and "supply" in one.changed
    assert one.parts.own_supply > 0.9 * (one.parts.after - one.parts.before)
    assert abs(found.market.supply.change) < 0.05


@pytest.mark.parametrize("settings", [STEADY, RISEN], ids=["steady", "risen"])
def test_parts_add_up(settings):
    """Parts are the whole change: of advertisers, of segments, and of the market."""
    found = compared(settings)
    for one in (found.market, *found.segments, *found.advertisers):
        parts = msgspec.to_builtins(one.parts)
        before, after = parts.pop("before"), parts.pop("after")
        assert sum(parts.values()) == pytest.approx(after - before, abs=1e-6 * (1 + after))
    total = sum(one.parts.after for one in found.advertisers)
    assert found.market.parts.after == pytest.approx(total + found.market.parts.new)


def test_new_and_vanished_advertisers_are_named():
    """Advertisers of one period only have no changes, but count for the market."""
    settings = replace(EASY, newcomers=0.2)
    log = market(settings).histograms
    found = ads.compare_models(of_days(log, [0, 1, 2]), of_days(log, [3]))
    early, late = (log.daily("count")[:, days].sum(axis=1) > 0 for days in ([0, 1, 2], [3]))
    assert found.new == tuple(log.advertisers[late & ~early])
    assert found.vanished == tuple(log.advertisers[early & ~late])
    assert found.market.new == len(found.new) > 0
    assert found.market.parts.new > 0
    assert len(found.advertisers) == (early & late).sum()


def test_values_are_those_of_the_log():
    """Before and after are what the rows of the log say."""
    made, found = market(STEADY), compared()
    rows = made.rows
    one = found.advertisers[7]
    mine = rows["advertiser"] == int(one.advertiser.removeprefix("adv-"))
    for name, days in (("before", rows["day"] < 3), ("after", rows["day"] >= 3)):
        then = mine & days
        won = then & rows["won"]
        assert getattr(one.supply, name) == pytest.approx(then.sum() / 3)
        assert getattr(one.impressions, name) == pytest.approx(won.sum() / 3)
        assert getattr(one.mean_bid, name) == pytest.approx(rows["bid"][then].mean() / 1e6)
        assert getattr(one.ecpm, name) == pytest.approx(rows["price"][won].mean() / 1e6)
    assert one.supply.change == pytest.approx(one.supply.after / one.supply.before - 1)


def test_periods_of_a_model_are_compared_without_the_log():
    """Two periods of one model are compared as two models of these days."""
    model = fitted()
    days = [str(day) for day in model.days_]
    found = ads.compare_periods(model, (days[0], days[1]), (days[2], days[3]))
    log = market(EASY).histograms
    models = ads.compare_models(of_days(log, [0, 1]), of_days(log, [2, 3]))
    assert (found.days_before, found.days_after) == (tuple(days[:2]), tuple(days[2:]))
    assert [one.supply for one in found.advertisers] == [one.supply for one in models.advertisers]
    assert found.adjusted_rand is None
    assert any("weekdays" in note for note in found.notes)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ODD_WITH_SEGMENTS, *ODD_WITHOUT_SEGMENTS])
def test_odd_models_are_compared(name):
    """Models of logs that lack something are compared, and the result is JSON."""
    model = odd_model(name)
    found = ads.compare_models(model, model)
    again = msgspec.json.decode(msgspec.json.encode(found), type=ModelComparison)
    assert again == found
    if len(model.days_) > 1 and len(found.advertisers) > 1:
        days = [str(day) for day in model.days_]
        halves = ads.compare_periods(model, (days[0], days[0]), (days[1], days[-1]))
        assert all(np.isfinite([one.error, one.p]).all() for _, one in changes(halves))
        msgspec.json.encode(halves)


def test_result_is_a_table():
    """The table has a row for each advertiser, and the figures of the result."""
    found = compared()
    table = found.columns()
    assert {len(column) for column in table.values()} == {len(found.advertisers)}
    assert table["advertiser"].tolist() == [one.advertiser for one in found.advertisers]
    assert table["supply_before"].tolist() == [one.supply.before for one in found.advertisers]
    assert table["impressions_by_own_bid"][3] == found.advertisers[3].parts.own_bid


@pytest.mark.parametrize("rate", [0, 1, -0.1, np.nan, "much"])
def test_other_rates_are_refused(rate):
    """A false discovery rate is between 0 and 1."""
    with pytest.raises(InvalidParameterError, match="false_discovery_rate"):
        ads.compare_models(fitted(), fitted(), false_discovery_rate=rate)


def test_no_common_advertiser_is_refused():
    """Models without a common advertiser cannot be compared."""
    log = market(EASY).histograms
    other = replace(log, advertisers=np.array([f"x{name}" for name in log.advertisers]))
    with pytest.raises(InvalidParameterError, match="no advertiser bids in both periods"):
        ads.compare_models(of_days(log, [0, 1]), of_days(other, [2, 3]))


def test_groups_have_the_quantities_of_advertisers():
    """What is said of a group is said of its advertisers, too."""
    of_groups = {field.name for field in fields(GroupChange) if "Change" in str(field.type)}
    assert of_groups < set(QUANTITIES)
