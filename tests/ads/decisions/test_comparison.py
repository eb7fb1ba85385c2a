"""Comparison: no change is found where there is none, and a planted one is."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest
from scipy.stats import kstest

from coterie import ads
from coterie.ads.decisions.comparison import (
    ModelComparison,
    PeriodEstimate,
    Ratio,
    day_effects,
    day_variation,
    days_of_models,
    days_of_periods,
    discoveries,
    match_segments,
    own_variances,
    p_values,
    period_estimate,
    ratios_of,
    typical_change,
    unbiased_changes,
)
from coterie.ads.histograms.stored_days import pack_days
from coterie.errors import InvalidParameterError
from markets import (
    EASY,
    ODD_WITH_SEGMENTS,
    ODD_WITHOUT_SEGMENTS,
    fitted,
    log_of,
    market,
    odd_market,
    odd_model,
)

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
KINDS = [{}, {"auction": "first"}, {"minimum_logged": True}]
SUMS = {"advertisers", "total_impressions", "new_impressions", "vanished_impressions"}
MONDAY = np.datetime64("2026-03-02")


def of_days(log, days, **other):
    """A model that keeps some days of a log; its segments are those of another log."""
    model = copy(fitted())
    model.stored_days_ = pack_days(replace(log.for_days(days), **other), {})
    return model


@cache
def compared(settings=STEADY, before=(0, 1, 2), after=(3, 4, 5), rate=0.1):
    """Some days of a market compared, without fitting models to them."""
    log = market(settings).histograms
    models = of_days(log, before), of_days(log, after)
    return ads.compare_models(*models, false_discovery_rate=rate)


def with_errors(found, kind=None):
    """The rows with an error."""
    return [row for row in found.rows if row.p is not None and kind in (None, row.kind)]


# ----------------------------------------------------------------- the table


def test_a_model_does_not_differ_from_itself():
    """Every change is 0 and none is a discovery."""
    found = ads.compare_models(fitted(), fitted())
    assert {row.change for row in found.rows} <= {0.0, None}
    assert not any(row.changed or row.moved for row in found.rows)
    assert found.adjusted_rand == 1.0
    assert found.notes == ("both models have the same days",)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_swapped_models_change_all_signs(kind):
    """What rose falls, as surely as it rose."""
    settings = replace(RISEN, **kind)
    one, other = (
        with_errors(compared(settings, *days))
        for days in (((1, 2, 3), (4, 5, 6, 7)), ((4, 5, 6, 7), (1, 2, 3)))
    )
    for there, back in zip(one, other, strict=True):
        assert (there.subject, there.measure) == (back.subject, back.measure)
        assert (there.before, there.after) == (back.after, back.before)
        if there.change is not None and back.change is not None:
            assert np.log1p(there.change) == pytest.approx(-np.log1p(back.change), abs=1e-6)
        assert there.p == pytest.approx(back.p, rel=1e-4, abs=1e-9)
        assert there.error == pytest.approx(back.error, rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_chance_is_no_change(seed):
    """In a market that does not change, discoveries are as rare as the stated rate allows."""
    found = compared(replace(STEADY, seed=seed))
    changed = [row.measure for row in with_errors(found, "advertiser") if row.changed]
    # with nothing to discover, a discovery of a measure has a probability of 10%
    assert len(set(changed)) <= 3 and len(changed) <= 4
    p = [row.p for row in found.rows if row.measure == "own_price_level"]
    assert np.mean(np.array(p) < 0.05) < 0.15
    assert not found.of("market")["price_level"].changed


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_rise_of_all_prices_is_a_change_of_the_market(kind):
    """A planted rise is found, has the right size, and is not taken for a change of single ones."""
    found = compared(replace(RISEN, **kind), (0, 1, 2, 3), (4, 5, 6, 7))
    level = found.of("market")["price_level"]
    assert level.changed and not found.of("market")["supply"].changed
    assert np.log1p(level.change) == pytest.approx(0.2, abs=3 * level.error)
    share = {
        measure: np.mean([row.changed for row in found.rows if row.measure == measure])
        for measure in ("price_level", "own_price_level")
    }
    assert share["price_level"] > 0.5 and share["own_price_level"] < 0.1


def test_a_change_of_one_advertiser_is_its_own():
    """One that suddenly bids ten times as often is found, and does not move the market."""
    log = market(STEADY).histograms
    row = int(np.argsort(log.daily("count").sum(axis=1))[40])

    def more(cells, names):
        factor = np.where((cells.advertiser == row) & (cells.day >= 3), 10.0, 1.0)
        return replace(cells, **{name: getattr(cells, name) * factor for name in names})

    sums = ("count", "square", "bid", "wins", "cost", "clicks", "conversions")
    altered = replace(log, bids=more(log.bids, sums), prices=more(log.prices, ("count", "price")))
    found = ads.compare_models(of_days(altered, [0, 1, 2]), of_days(altered, [3, 4, 5]))
    one = found.of("advertiser", str(log.advertisers[row]))
    assert one["own_supply"].changed and one["supply"].changed
    assert abs(found.of("market")["supply"].change) < 0.05


def test_discoveries_are_those_of_the_stated_rate():
    """By measure among advertisers and among segments, and among all measures of the market."""
    numbers = []
    for rate in (0.001, 0.1, 0.5):
        found = compared(RISEN, (0, 1, 2, 3), (4, 5, 6, 7), rate)
        assert found.false_discovery_rate == rate
        families = {}
        for row in with_errors(found):
            key = row.kind if row.kind == "market" else (row.kind, row.measure)
            families.setdefault(key, []).append(row)
        for rows in families.values():
            expected = discoveries(np.array([row.p for row in rows]), rate)
            assert [row.changed for row in rows] == expected.tolist()
        numbers.append(sum(row.changed for row in found.rows))
    assert 0 < numbers[0] < numbers[1] < numbers[2]


def test_values_are_those_of_the_log():
    """Before and after are what the rows of the log say; changes are their ratio."""
    rows, found = market(STEADY).rows, compared()
    name = next(row.subject for row in found.rows[::-1] if row.measure == "click_rate")
    one = found.of("advertiser", name)
    mine = rows["advertiser"] == int(name.removeprefix("adv-"))
    for end, days in (("before", rows["day"] < 3), ("after", rows["day"] >= 3)):
        then = mine & days
        won = then & rows["won"]
        expected = {
            "supply": then.sum() / 3,
            "impressions": won.sum() / 3,
            "win_rate": won.sum() / then.sum(),
            "mean_bid": rows["bid"][then].mean() / 1e6,
            "ecpm": rows["price"][won].mean() / 1e6,
            "click_rate": rows["click"][won].mean(),
        }
        for measure, value in expected.items():
            assert getattr(one[measure], end) == pytest.approx(value)
    for row in one.values():
        if row.before:
            assert row.change == pytest.approx(row.after / row.before - 1)
    assert one["price_level"].before is one["own_supply"].before is None


def test_new_and_vanished_advertisers_contribute_to_the_market():
    """Those of one period only are 0 in the other, are not tested, and add up in the market."""
    log = market(replace(EASY, newcomers=0.2)).histograms
    found = ads.compare_models(of_days(log, [0, 1, 2]), of_days(log, [3]))
    early, late = (log.daily("count")[:, days].sum(axis=1) > 0 for days in ([0, 1, 2], [3]))
    supplies = [row for row in found.rows if (row.kind, row.measure) == ("advertiser", "supply")]
    assert [row.subject for row in supplies] == log.advertisers[early | late].tolist()
    alone = {
        "new": {row.subject for row in supplies if row.before == 0},
        "vanished": {row.subject for row in supplies if row.after == 0},
    }
    assert alone["new"] == set(log.advertisers[late & ~early]) != set()
    assert alone["vanished"] == set(log.advertisers[early & ~late])
    sums = found.of("market")
    assert (sums["advertisers"].before, sums["advertisers"].after) == (early.sum(), late.sum())
    wins = log.daily("wins")
    assert sums["total_impressions"].before == pytest.approx(wins[:, :3].sum() / 3)
    assert sums["new_impressions"].after == pytest.approx(wins[late & ~early, 3].sum())
    assert sums["vanished_impressions"].before == pytest.approx(wins[early & ~late, :3].sum() / 3)
    for name in alone["new"] | alone["vanished"]:
        rows = found.of("advertiser", name)
        assert set(rows) == {"impressions", "supply"}
        assert all(row.p is None and not row.changed for row in rows.values())
    for one in SUMS - {"advertisers"}:
        of_segments = [row for row in found.rows if (row.kind, row.measure) == ("segment", one)]
        assert sum(row.after for row in of_segments) <= sums[one].after + 1e-9


def test_periods_of_a_model_are_compared_without_the_log():
    """Two periods of one model are compared as two models of these days."""
    model, log = fitted(), market(EASY).histograms
    days = [str(day) for day in model.days_]
    found = ads.compare_periods(model, (days[0], days[1]), (days[2], days[3]))
    models = ads.compare_models(of_days(log, [0, 1]), of_days(log, [2, 3]))
    assert (found.days_before, found.days_after) == (tuple(days[:2]), tuple(days[2:]))
    assert found.rows == models.rows
    assert found.adjusted_rand is None and models.adjusted_rand == 1.0
    assert any("weekdays" in note for note in found.notes)
    strict = ads.compare_periods(
        model, (days[0], days[1]), (days[2], days[3]), false_discovery_rate=1e-9
    )
    assert strict.false_discovery_rate == 1e-9 and not any(row.changed for row in strict.rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ODD_WITH_SEGMENTS, *ODD_WITHOUT_SEGMENTS])
def test_odd_models_are_compared(name):
    """Models of logs that lack something are compared, and the result is JSON."""
    model = odd_model(name)
    found = ads.compare_models(model, model)
    assert msgspec.json.decode(msgspec.json.encode(found), type=ModelComparison) == found
    if len(model.days_) > 1 and len(model.advertisers_) > 1:
        days = [str(day) for day in model.days_]
        halves = ads.compare_periods(model, (days[0], days[0]), (days[1], days[-1]))
        assert all(np.isfinite([row.error, row.p]).all() for row in with_errors(halves))
        msgspec.json.encode(halves)


def test_the_file_has_the_rows():
    """A column for each field; what is not known is NaN or empty."""
    found = compared()
    table = found.columns()
    assert {len(column) for column in table.values()} == {len(found.rows)}
    for i, row in enumerate(found.rows):
        for name, value in vars(row).items():
            written = table[name][i]
            assert written == value or (value is None and (written == "" or np.isnan(written)))


@pytest.mark.parametrize("rate", [0, 1, -0.1, np.nan, "much"])
def test_other_rates_are_refused(rate):
    """A false discovery rate is between 0 and 1."""
    with pytest.raises(InvalidParameterError, match="false_discovery_rate"):
        ads.compare_models(fitted(), fitted(), false_discovery_rate=rate)


def test_no_common_advertiser_is_refused():
    """Models without a common advertiser cannot be compared."""
    log = market(EASY).histograms
    names = np.array([f"x{name}" for name in log.advertisers])
    with pytest.raises(InvalidParameterError, match="no advertiser bids in both periods"):
        ads.compare_models(of_days(log, [0, 1]), of_days(log, [2, 3], advertisers=names))


# ------------------------------------------------------------ days and segments


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
    """A day of both models says nothing about a change; no bid of the other days is lost."""
    log = market(EASY).histograms
    for order in (1, -1):
        models = [of_days(log, days) for days in (before, after)[::order]]
        found, sides, _ = days_of_models(*models)
        for side, days in zip(sides, kept[::order], strict=True):
            assert found.days[side].tolist() == log.days[days].tolist()
            assert found.daily("count")[:, side].sum() == log.daily("count")[:, days].sum()


@pytest.mark.parametrize(
    ("before", "after"), [([0, 1, 2], [0, 1, 2]), ([0, 1], [1, 2]), ([1, 2, 3], [0, 1])]
)
def test_days_of_different_logs_are_compared_in_full(before, after):
    """Dates that both models have with other bids stay in both periods, each with its bids."""
    log = market(EASY).histograms
    bids = replace(log.bids, count=2 * log.bids.count, square=2 * log.bids.square)
    other = of_days(replace(log, bids=bids), after)
    found, sides, [note] = days_of_models(of_days(log, before), other)
    assert "other bids in one model" in note
    counted, expected = found.daily("count"), log.daily("count")
    for side, days, factor in zip(sides, (before, after), (1, 2), strict=True):
        assert found.days[side].tolist() == log.days[days].tolist()
        assert counted[:, side].sum() == factor * expected[:, days].sum()


def test_only_days_with_the_same_bids_are_left_out():
    """Of common days, those that agree are dropped and those that do not are compared."""
    log = market(EASY).histograms
    twice = np.where(log.bids.day == 1, 2.0, 1.0)
    changed = replace(log, bids=replace(log.bids, count=log.bids.count * twice))
    found, sides, notes = days_of_models(of_days(log, [0, 1]), of_days(changed, [0, 1]))
    assert [found.days[side].tolist() for side in sides] == [log.days[[1]].tolist()] * 2
    assert notes[0].startswith("1 of the days is in both models and says nothing")
    assert notes[1].startswith("1 day has other bids in one model")


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


def test_models_that_cannot_be_compared_are_refused():
    """Those of another kind of log, and those that keep no days."""
    log, without = market(EASY).histograms, copy(fitted())
    with pytest.raises(InvalidParameterError, match="currency of the model before is 'USD'"):
        days_of_models(of_days(log, [0, 1]), of_days(log, [2, 3], currency="EUR"))
    without.stored_days_ = None
    with pytest.raises(InvalidParameterError, match="keeps no days"):
        days_of_models(fitted(), without)


def test_segments_are_matched_whatever_their_numbers():
    """Another order of the same segments moves nobody; one that goes elsewhere has moved."""
    model, other = fitted(), copy(fitted())
    order = np.roll(np.arange(len(model.segments_)), 1)
    place = np.append(np.argsort(order), -1)
    other.segments_ = [model.segments_[s] for s in order]
    other.labels_ = place[model.labels_]
    names = [*(one.name for one in model.segments_), None]
    expected = [(names[s], names[s], False) for s in model.labels_]
    found = match_segments(model, other, model.advertisers_)
    assert (found.columns, found.adjusted_rand) == (expected, 1.0)
    assert found.groups.tolist() == other.labels_.tolist()
    row = int(np.flatnonzero(model.labels_ == 0)[0])
    other.labels_ = np.where(np.arange(len(other.labels_)) == row, place[1], other.labels_)
    found = match_segments(model, other, model.advertisers_)
    assert [i for i, (*_, moved) in enumerate(found.columns) if moved] == [row]
    assert found.columns[row] == (names[1], names[0], True) and found.adjusted_rand < 1


def test_unknown_advertisers_have_no_segment():
    """An advertiser of one model only has not moved, and counts where it was."""
    model, fewer = fitted(), copy(fitted())
    found = match_segments(model, model, np.array(["nobody", *model.advertisers_[:2]]))
    assert found.groups[0] == -1 and found.columns[0] == (None, None, False)
    row = int(np.flatnonzero(model.labels_ >= 0)[0])
    fewer.advertisers_, fewer.labels_ = (
        np.delete(part, row) for part in (model.advertisers_, model.labels_)
    )
    gone = match_segments(model, fewer, model.advertisers_)
    assert gone.groups[row] == model.labels_[row]
    assert gone.columns[row] == (None, model.segments_[model.labels_[row]].name, False)


# -------------------------------------------------------------------- is it noise


def drawn(rng, days, tau, tails=None, n=2000):
    """Estimates of a measure of 0 by days of equal weight, some advertisers varying more."""
    weight = np.repeat(rng.lognormal(4, 1, (n, 1)), days, axis=1)
    scale = 1.0 if tails is None else np.sqrt(tails / rng.chisquare(tails, (n, 1)))
    daily = scale * rng.normal(0, np.sqrt(1 / weight + tau**2))
    value = daily.mean(axis=1)
    return PeriodEstimate(value, np.ones(n), weight, weight * (daily - value[:, None]))


@pytest.mark.parametrize(
    ("tau", "tails", "most"), [(0.0, None, 0.002), (0.2, None, 0.002), (0.2, 5, 0.004)]
)
@pytest.mark.parametrize("days", [(4, 3), (7, 7), (2, 1)])
def test_p_values_are_uniform_if_nothing_changed(days, tau, tails, most):
    """Chance, variation from day to day, and unlike advertisers are no change."""
    rng = np.random.default_rng(1)
    before, after = (drawn(rng, number, tau, tails) for number in days)
    variance, by_day, freedom = own_variances(before, after, 0.05)
    p = p_values(after.value - before.value, variance, freedom)
    assert np.mean(p < 0.001) < 2 * most and np.mean(p < 0.01) < 0.025
    assert (by_day <= variance * 4).all() and freedom > 2
    if tails is None:
        assert kstest(p, "uniform").pvalue > 1e-3


def test_one_day_each_leaves_much_in_doubt():
    """With one day in each period the variation is assumed, and the tails are heavy."""
    rng = np.random.default_rng(3)
    variance, _, freedom = own_variances(drawn(rng, 1, 0.0), drawn(rng, 1, 0.0), 0.05)
    assert freedom == 3.0
    assert (variance > 2 * 0.05).all()


def test_the_variation_of_days_is_in_every_error():
    """An advertiser's change is known no better than that of the market's days."""
    found = compared()
    market_errors = {name: row.error for name, row in found.of("market").items() if row.p}
    for row in with_errors(found, "advertiser"):
        if not row.measure.startswith("own_"):
            assert row.error > 0.5 * market_errors[row.measure]
    one = found.of("advertiser", found.rows[-1].subject)
    assert one["own_supply"].error < one["supply"].error


def test_equal_weekdays_cancel():
    """Two whole weeks with the same pattern vary less than the halves of one week."""
    pattern = np.array([0.0, 0.0, 0.0, 0.0, 0.0, -0.3, -0.4])
    week, none = MONDAY + np.arange(7), np.zeros(7)
    whole = day_variation([pattern] * 2, [none] * 2, [week, week + 7], (0.1, 0.03))
    halves = day_variation(
        [pattern[:4], pattern[4:]], [none[:4], none[4:]], [week[:4], week[4:]], (0.1, 0.03)
    )
    assert whole.variance < 0.02**2 < 0.09**2 < halves.variance
    assert whole.freedom == 9.0


def test_errors_of_measurement_are_no_variation_of_days():
    """Of what days differ by, the part that is an error of their measurement does not count."""
    days, rng = MONDAY + np.arange(420), np.random.default_rng(2)
    measured = rng.normal(0, 0.1, (2, 210)) + rng.normal(0, 0.1, (2, 210))
    found = day_variation(measured, np.full((2, 210), 0.1**2), np.split(days, 2), (0.1, 0.03))
    assert found.variance == pytest.approx(0.1**2 * 2 / 210, rel=0.25)


def test_a_few_advertisers_are_not_the_market():
    """A tenth of the advertisers that change hardly move the typical change."""
    rng = np.random.default_rng(5)
    change = 0.1 + rng.normal(0, 0.05, 500)
    change[:50] += 2.0
    found, variance = typical_change(change, np.full(500, 0.05**2))
    assert abs(found - 0.1) < 0.02 and 0 < variance < 0.01**2
    silent = typical_change(np.append(change, 9.0), np.append(np.full(500, 0.05**2), np.inf))
    assert silent == (found, variance)
    assert typical_change(np.empty(0), np.empty(0)) == (0.0, 0.0)


def test_no_p_value_is_no_discovery():
    """Groups without members are not tested."""
    unknown = p_values(np.array([np.nan, 0.0]), np.array([np.nan, 0.0]), 3.0)
    np.testing.assert_array_equal(unknown, [np.nan, 1.0])
    assert not discoveries(unknown, 0.5).any() and not discoveries(unknown[:1], 0.5).any()


# ------------------------------------------------------------------------ ratios


@pytest.mark.parametrize("name", ["first price", "minimum logged", "sampled"])
def test_dispersions_are_those_of_the_amounts(name):
    """The coefficient of variation comes from the bins, and is right to a few percent."""
    made = market(EASY)
    rows, found = made.rows, ratios_of(made.histograms)
    row = int(made.histograms.daily("count").sum(axis=1).argmax())
    mine = rows["advertiser"] == int(made.histograms.advertisers[row].removeprefix("adv-"))
    bids, prices = rows["bid"][mine], rows["price"][mine & rows["won"]]
    for measure, amounts in (("mean_bid", bids), ("ecpm", prices)):
        expected = amounts.var() / amounts.mean() ** 2
        assert found[measure].dispersion[row] == pytest.approx(expected, rel=0.05)
    odd = ratios_of(odd_market(name)[0])
    assert all(np.isfinite(one.dispersion).all() for one in odd.values())


def test_a_log_without_clicks_has_no_click_rate():
    """What the log does not have is not measured."""
    log = log_of(bid=[10, 20], won=[True, True], price=[5, 5], edges=[10, 20])
    assert "click_rate" not in ratios_of(log)


def test_a_day_with_more_traffic_is_an_effect_of_the_day():
    """If everybody bids twice as often on a day, that is its effect, and no residual is left."""
    who, day = np.tile(np.arange(30), 30), np.repeat([0, 1, 1], 300)
    log = log_of(bid=np.full(900, 10), won=True, price=5, edges=[10, 20], day=day, advertiser=who)
    ratio, days = ratios_of(log)["supply"], np.arange(2)
    effects, errors = day_effects(ratio, days)
    assert effects[1] - effects[0] == pytest.approx(np.log(2))
    assert (errors < 0.01).all()
    found = period_estimate(ratio, days, effects, np.full(30, 0.5))
    # half an event is added, so that residuals are not exactly 0
    assert (np.abs(found.residual) < 0.06 * found.weight).all()


def events(seed, rate, days):
    """A few events of many advertisers on some days."""
    amount = np.random.default_rng(seed).poisson(rate, (20_000, days)).astype(float)
    none = np.zeros(len(amount))
    return Ratio("count", amount, np.ones_like(amount), np.ones(len(amount)), none)


@pytest.mark.parametrize("rate", [0.05, 0.5, 5.0])
def test_means_of_small_numbers_are_right(rate):
    """One day against six, with hardly any events: the mean change is 0 where nothing changed."""
    change, variance = unbiased_changes(events(1, rate, 7), np.array([0]), np.arange(1, 7))
    weight = 1.0 / variance
    mean = weight @ np.where(np.isfinite(variance), change, 0.0) / weight.sum()
    assert abs(mean) < 4 / np.sqrt(weight.sum())
    # nor is the robust mean biased, although small numbers are skewed
    typical, of_typical = typical_change(change, variance)
    assert abs(typical) < 2.5 * np.sqrt(of_typical)


def test_unbiased_changes_of_many_events_and_of_none():
    """They are logarithms of ratios in either order; without events they say nothing."""
    ratio, days = events(2, 1e6, 2), (np.array([0]), np.array([1]))
    change, variance = unbiased_changes(ratio, *days)
    np.testing.assert_allclose(change, np.log(ratio.amount[:, 1] / ratio.amount[:, 0]), atol=1e-5)
    np.testing.assert_allclose(variance, 2e-6, rtol=0.01)
    back, of_back = unbiased_changes(ratio, *days[::-1])
    np.testing.assert_allclose(back, -change, atol=1e-12)
    np.testing.assert_allclose(of_back, variance)
    change, variance = unbiased_changes(events(3, 0.0, 2), *days)
    assert (change == 0).all() and np.isinf(variance).all()


def test_hardly_any_events_say_nothing_of_the_tails():
    """Many advertisers with few events do not make the test of the others surer."""
    rng, sure = np.random.default_rng(1), []
    rates = np.append(np.full(500, 300.0), np.full(5000, 0.05))
    amount = rng.poisson(rates[:, None] * rng.lognormal(-0.02, 0.2, (5500, 8))).astype(float)
    ratio = Ratio("count", amount, np.ones_like(amount), np.ones(5500), np.zeros(5500))
    for some in (np.arange(500), np.arange(5500)):
        days, share = (np.arange(4), np.arange(4, 8)), np.full(len(some), 0.5)
        sides = [period_estimate(ratio.of(some), one, np.zeros(4), share) for one in days]
        sure.append(own_variances(*sides, 0.05)[2])
    assert 8 < sure[1] <= sure[0] < 200
