"""AdForecaster: segments, curves and forecasts at any bid."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import coterie
from benchmarks.true_curves import day_shifts, true_win_rates
from coterie.ads.curves.day_levels import fit_levels
from coterie.ads.curves.landscapes import curve_at, evidence_of
from coterie.ads.curves.shrinkage import shrunk_shares
from coterie.ads.curves.supply import fit_supply
from coterie.ads.fitting import forecaster as forecasting
from coterie.ads.fitting.backtest import Backtest
from coterie.ads.fitting.forecaster import AdForecaster, load_forecaster, model_warnings
from coterie.ads.fitting.market_fit import Widening
from coterie.ads.forecasts.calibration import calibrate
from coterie.ads.forecasts.fitted_market import Choice, FittedMarket, load_market
from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.ads.forecasts.model_checks import check_model
from coterie.ads.forecasts.profiles import Profiles
from coterie.ads.histograms.price_grid import on_price_grid
from coterie.ads.histograms.stored_days import unpack_days
from coterie.ads.logs.simulation.simulated_traits import PRICE_BY_WEEKDAY, draw_traits
from coterie.ads.report.contents import report_payload
from coterie.ads.segments.memberships import FEWEST_BIDS, FEWEST_MEMBERS
from coterie.ads.segments.settings import SegmentSettings
from coterie.consensus import L2Consensus
from coterie.errors import CoterieWarning, InvalidParameterError, ModelFileError
from coterie.inspection.scores import adjusted_rand_index
from fitted_models import small_model
from markets import (
    EASY,
    FIRST_DAY,
    MICROS,
    ODD_WITH_SEGMENTS,
    ODD_WITHOUT_SEGMENTS,
    QUICK,
    fitted,
    log_of,
    market,
    odd_model,
    some_of,
    sound,
)

BIDS = [0.05, 0.7, 1.5, 3.0, 20.0]
NAMES = [f"adv-{i:05d}" for i in range(90)]


class Backwards(L2Consensus):
    """The averaged consensus with the largest cluster last."""

    def fit(self, P):
        """Number the clusters from the other end."""
        super().fit(P)
        self.labels_ = self.labels_.max() - self.labels_
        return self


def forecaster(**changed):
    """Unfitted, with the quick settings."""
    return AdForecaster(**{**vars(QUICK), **changed})


def test_the_planted_segments_are_found():
    """On an easy market nearly all of them."""
    model, made = fitted(), market(EASY)
    assert adjusted_rand_index(model.labels_, made.segments) > 0.9
    # one day of errors may prefer one segment more; it is nearly empty then
    assert np.sort(np.bincount(model.labels_))[-3:].min() >= 25
    np.testing.assert_allclose(model.shares_.sum(axis=1), 1)
    assert model.agreement_.names == ["text", "win", "cost", "market"]
    assert model.agreement_.weights.sum() == pytest.approx(1)


def test_curves_are_those_of_the_market():
    """Of a new day; nearer to the true ones than the advertiser's own auctions are."""
    model, made = fitted(), market(EASY)
    traits = draw_traits(EASY)
    rows = [int(name[4:]) for name in made.histograms.advertisers]
    shift = day_shifts(EASY, traits).mean()
    truth = true_win_rates(EASY, traits, shift, model.edges_)[rows]
    known = model.observations_ > 30
    curves = [model.curve(str(name)) for name in model.advertisers_]
    error, own = (
        np.abs(np.array([getattr(one, name) for one in curves]) - truth)[known].mean()
        for name in ("win", "own")
    )
    assert error < 0.03 and error < 0.6 * own


def test_the_largest_segment_comes_first():
    """In any order in which segments were found."""
    made = market(EASY)
    members = [np.flatnonzero(made.segments == s)[:n] for s, n in enumerate((6, 25, 12))]
    rows = np.sort(np.concatenate(members))
    model = forecaster(consensus=Backwards(random_state=0), n_segments=3)
    model.fit(some_of(made.histograms, rows), made.descriptions)
    sizes = np.bincount(model.labels_)
    assert (np.diff(sizes) <= 0).all() and sizes[0] > sizes[-1]
    assert np.bincount(made.segments[rows][model.labels_ == 0]).argmax() == 1
    assert [segment.size for segment in model.segments_] == sizes.tolist()


def test_small_segments_are_not_shown():
    """Segments of one or two advertisers, or of hardly any bids, would show single figures."""
    made = market(EASY)
    # two far-away advertisers and one segment with ten bids in all
    rows = np.flatnonzero(made.segments == 0)[:20]
    model = forecaster(n_segments=10, consensus=L2Consensus(random_state=0))
    model.fit(some_of(made.histograms, rows), made.descriptions)
    for s, segment in enumerate(model.segments_):
        assert segment.size == (model.labels_ == s).sum() >= FEWEST_MEMBERS
        assert segment.observations >= FEWEST_BIDS
    assert model.shares_.shape == (20, len(model.segments_) + 1)
    np.testing.assert_allclose(model.shares_.sum(axis=1), 1)
    assert model.segment_win_.shape == (len(model.segments_) + 1, len(model.edges_))
    if model.segments_:
        assert (model.labels_ >= 0).all()


def test_without_a_sizable_segment_there_is_none():
    """Four advertisers with a few bids each."""
    model = forecaster().fit(some_of(market(EASY).histograms, range(4)).for_days([0]))
    assert model.segments_ == [] and (model.labels_ == -1).all()
    assert model.shares_.tolist() == [[1.0]] * 4 and model.confidence_.tolist() == [0.0] * 4


def test_outliers_have_lower_confidence():
    """By the distance of their curve from that of their segment."""
    chosen = replace(EASY, outliers=0.1, bids_per_day=150, seed=4)
    made = market(chosen)
    model = forecaster(n_segments=3).fit(made.histograms, made.descriptions)
    assert len(model.outliers_)
    share = model.shares_[:, :-1].max(axis=1)
    plain = np.setdiff1d(np.arange(90), model.outliers_)
    np.testing.assert_allclose(model.confidence_[plain], share[plain])
    assert (model.confidence_[model.outliers_] < 0.75 * share[model.outliers_]).all()
    assert (model.confidence_ >= 0).all() and (model.confidence_ <= 1).all()


@settings(max_examples=30)
@given(st.integers(0, 89), st.floats(0.01, 30), st.floats(0, 1e9), st.floats(1.01, 100))
def test_forecasts_are_linear_in_supply_and_rise_with_the_bid(row, bid, supply, factor):
    """For any advertiser and bid."""
    model = fitted()
    name = str(model.advertisers_[row])
    one, more = (model.forecast(name, bid, supply=s) for s in (supply, factor * supply))
    assert more.impressions == pytest.approx(factor * one.impressions)
    assert more.spend == pytest.approx(factor * one.spend)
    assert more.clicks == pytest.approx(factor * one.clicks)
    assert more.win_rate == pytest.approx(one.win_rate)
    assert more.cost == pytest.approx(one.cost)
    assert sound(model.forecast(name, [bid, factor * bid], supply=supply), given=True)


def test_settings_and_choices_reach_the_fit(monkeypatch):
    """What the backtest chose, and settings by their names; nobody without bids is in a group."""
    seen = {}
    for name in ("fit_market", "complete_all_curves", "robust_memberships", "TextView"):
        real = getattr(forecasting, name)

        def spy(*given, name=name, real=real, **named):
            seen[name] = given, named
            return real(*given, **named)

        monkeypatch.setattr(forecasting, name, spy)
    choice = Choice(3, 30.0, 7.0, 0.1, 0.0, 0.01, 1)
    found = Backtest(choice, calibrate([]), Widening(level=0.04), None)
    monkeypatch.setattr(forecasting, "backtest_market", lambda *_: found)
    made = market(EASY)
    log = replace(made.histograms, advertisers=np.append(made.histograms.advertisers, "silent"))
    model = forecaster(max_observations=77.0, random_state=5).fit(log, made.descriptions)
    assert seen["fit_market"][0][2][-1] == -1 < model.labels_[-1]
    assert seen["fit_market"][1] == {"half_life": 7.0}
    assert seen["complete_all_curves"][0][3] == 30.0
    assert seen["complete_all_curves"][0][7] is found[2]
    assert seen["robust_memberships"][0][3] == 77.0
    assert seen["TextView"][1] == {"random_state": 5}
    assert model.choice_ == choice and len(model.segments_) == 3


def test_rates_are_of_the_clicks_and_conversions_of_each():
    """Shrunk to those of its segments, each event by itself; bids and spend are its own."""
    model, log = fitted(), market(EASY).histograms
    count, bid, wins, cost, clicks, conversions = (
        log.daily(name).sum(axis=1)
        for name in ("count", "bid", "wins", "cost", "clicks", "conversions")
    )
    np.testing.assert_array_equal(model.click_rate_, shrunk_shares(clicks, wins, model.shares_)[0])
    rates, worth = shrunk_shares(conversions, wins, model.shares_)
    np.testing.assert_array_equal(model.conversion_rate_, rates)
    np.testing.assert_array_equal(model.conversion_worth_, worth)
    np.testing.assert_allclose(model.bid_, bid / count)
    np.testing.assert_allclose((model.wins_.sum(), model.cost_.sum()), (wins.sum(), cost.sum()))
    assert model.rows_ == count.sum()


def test_click_intervals_know_how_little_is_known_of_a_rate():
    """Few impressions, a wide interval: far wider than the chance of that many clicks."""
    model = fitted()
    thin = str(model.advertisers_[np.argmin(model.observations_)])
    found = model.forecast(thin, 5.0, supply=1e7)
    low, high = found.clicks_interval
    assert high - low > 4 * 1.645 * np.sqrt(found.clicks)


def test_more_bids_of_ones_own_make_a_curve_more_certain():
    """Of the same log, eight times over; a backtest would notice that they are copies."""
    made = market(EASY)
    log = some_of(made.histograms, advertisers=range(30))

    def more(cells):
        kept = ("advertiser", "day", "bin")
        return type(cells)(**{n: p if n in kept else p * 8 for n, p in vars(cells).items()})

    many = replace(log, bids=more(log.bids), prices=more(log.prices))
    spreads = [forecaster(origins=0).fit(h, made.descriptions).spread_.mean() for h in (log, many)]
    assert spreads[1] < 0.8 * spreads[0]


def test_the_supply_is_that_of_the_day():
    """By default of an average one; of a date, that of its weekday; of several days, their sum."""
    model, made = fitted(), market(EASY)
    supply = fit_supply(made.histograms, [0, 1, 2, 3])
    name = str(model.advertisers_[5])
    usual = model.forecast(name, 1.0)
    level, _ = supply.factors.typical()
    assert usual.supply == pytest.approx(supply.level[5] * np.exp(level))
    assert "; supply and prices of an average day; the log has no Friday" in usual.why
    tuesday = model.forecast(name, 1.0, day="2026-03-10")
    mean, _ = supply.factors.ahead(["2026-03-10"])
    assert tuesday.supply == pytest.approx(supply.level[5] * supply.weekday[5, 1] * np.exp(mean[0]))
    assert tuesday.why.endswith("; supply and prices of 2026-03-10")
    week = model.forecast(name, 1.0, days=7)
    days = [model.forecast(name, 1.0, day=f"2026-03-{6 + i:02d}") for i in range(7)]
    assert week.supply == pytest.approx(sum(one.supply for one in days))
    assert week.impressions == pytest.approx(sum(one.impressions for one in days))
    assert week.spend == pytest.approx(sum(one.spend for one in days))
    given = model.forecast(name, 1.0, supply=77)
    assert given.supply == 77 and "; prices of an average day; the log has no" in given.why


def test_days_have_their_own_prices():
    """On a log of three weeks whose weekends are cheaper, the same bid wins more on Sundays."""
    made = market(replace(EASY, advertisers=60, days=21, weekday_effect=3.0, newcomers=0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoterieWarning)
        model = forecaster().fit(made.histograms, made.descriptions)
    name = str(model.advertisers_[1])
    dear, cheap = np.argsort(-PRICE_BY_WEEKDAY)[[0, -1]]
    won = [
        model.forecast(
            name, 2.0, day=str(np.datetime64("2026-03-23") + np.timedelta64(weekday, "D"))
        ).win_rate
        for weekday in (dear, cheap)
    ]
    assert won[1] > won[0]
    levels, _ = model.price_levels_.ahead(model.price_levels_.next_week())  # from Monday
    planted = 3.0 * np.log(PRICE_BY_WEEKDAY)
    np.testing.assert_allclose(levels - levels.mean(), planted - planted.mean(), atol=0.06)


@pytest.mark.parametrize("day", ["1900-01-01", "2026-03-04", "9999-12-31"])
def test_any_date_may_be_asked_for(day):
    """Also before and in the log, and far after it."""
    model = fitted()
    assert sound(model.forecast("adv-00000", BIDS, day=day))
    assert sound(model.forecast("adv-00000", BIDS, day=day, days=14))


def test_days_further_ahead_are_less_certain():
    """Intervals of impressions grow with the distance from the log, on the same weekday."""
    model = fitted()
    widths = [
        np.ptp(model.forecast("adv-00000", 1.5, day=day, level=0.8).spend_interval)
        for day in ("2026-03-09", "2026-04-06", "2026-08-03")
    ]
    assert widths[0] < widths[1] < widths[2]


def test_new_advertisers_are_placed_by_their_texts():
    """Beside those with similar ones, whose segment they get."""
    model, made = fitted(), market(EASY)
    known = next(name for name in model.advertisers_ if str(name) in made.descriptions)
    text = made.descriptions[str(known)]
    segment = model.labels_[model.advertisers_.tolist().index(str(known))]
    one = model.forecast("unknown", 2.0, supply=1000, text=text)
    assert (one.curve, one.advertiser) == ("text", "unknown")
    assert one.segment == model.segments_[segment].name
    assert one.why.startswith("'unknown' is not in the log: placed by its text, beside ")
    at = 2 * MICROS * np.exp(-model.price_levels_.typical()[0])
    of_segment = curve_at(model.curve(text=text).segment[None], model.edges_, [at])[0, 0]
    assert one.win_rate == pytest.approx(of_segment, rel=1e-5)
    unnamed = model.forecast(bid=2.0, supply=1000, text=text)
    assert unnamed.advertiser == "" and unnamed.why.startswith("no advertiser was named: placed")
    assert unnamed.impressions == one.impressions
    # less is known of a new one
    width, other = (
        np.ptp(model.forecast(name, 2.0, supply=1e6, text=text).impressions_interval)
        for name in ("unknown", str(known))
    )
    assert width > other


def test_a_new_advertiser_needs_a_supply():
    """Nothing is known of it."""
    with pytest.raises(
        InvalidParameterError,
        match=r"'unknown' is not in the log.*or give supply, its number of auctions",
    ):
        fitted().forecast("unknown", 1.0)
    with pytest.raises(InvalidParameterError, match=r"'adv-20' .*\(similar: 'adv-00020'\)"):
        fitted().forecast("adv-20", 1.0)
    with pytest.raises(InvalidParameterError, match="give the supply or the day, not both"):
        fitted().forecast("adv-00000", 1.0, supply=5, day="2026-03-09")


@pytest.mark.parametrize("given", [{}, {"bid": None}])
def test_a_bid_is_required(given):
    """There is no default: whoever forgets the bid would get the forecast of another."""
    with pytest.raises(InvalidParameterError, match="bid is missing"):
        fitted().forecast("adv-00000", **given)


def test_one_bid_gives_one_forecast_and_a_list_gives_a_list():
    """In the order of the bids."""
    model = fitted()
    several = model.forecast("adv-00000", [3.0, 1.0])
    assert [one.bid for one in several] == [3.0, 1.0]
    assert model.currency_ and {one.currency for one in several} == {model.currency_}
    assert several[1] == model.forecast("adv-00000", 1.0)
    assert model.forecast("adv-00000", np.array([1.0])) == [several[1]]


def assert_same_model(one, other):
    """Require equal curves, segments, choices and calibrations, to the last bit."""
    for name in ("advertisers_", "days_", "edges_", "labels_", "shares_", "win_", "spread_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("segment_win_", "price_", "observations_", "click_rate_", "confidence_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_array_equal(one.calibration_.factors, other.calibration_.factors)
    np.testing.assert_array_equal(one.price_levels_.values, other.price_levels_.values)
    np.testing.assert_array_equal(one.supply_.level, other.supply_.level)
    assert one.choice_ == other.choice_ and one.segments_ == other.segments_
    assert one.warnings_ == other.warnings_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "cut"), [({}, 3), ({"auction": "first"}, 1), ({"minimum_logged": True}, 3)]
)
def test_a_model_with_days_added_is_that_of_all_days(kind, cut):
    """Also with new advertisers on the new days."""
    made = market(replace(EASY, advertisers=40, **kind))
    log, texts = made.histograms, made.descriptions
    before, after = log.for_days(list(range(cut))), log.for_days(list(range(cut, 4)))
    whole = forecaster().fit(log, texts)
    known = {name: text for name, text in texts.items() if name in before.advertisers.tolist()}
    model = forecaster().fit(before, known)
    assert model.update(after, texts) is model
    assert_same_model(model, whole)
    for name in model.advertisers_[::17]:
        assert model.forecast(str(name), BIDS) == whole.forecast(str(name), BIDS)


def test_days_are_added_to_a_model_from_a_file(tmp_path):
    """Which keeps its histograms and texts."""
    made = market(EASY)
    log = made.histograms
    model = forecaster().fit(log.for_days([0, 1, 2]), made.descriptions)
    coterie.save_model(model, tmp_path / "model.coterie")
    loaded = load_forecaster(tmp_path / "model.coterie")
    kept, texts = unpack_days(loaded.stored_days_)
    np.testing.assert_array_equal(kept.days, log.days[:3])
    assert texts["adv-00000"] == made.descriptions.get("adv-00000", "")
    loaded.update(log.for_days([3]), made.descriptions)
    assert_same_model(loaded, fitted())
    # an advertiser may change its text; others keep theirs
    few = some_of(log, range(12))
    model = forecaster().fit(few.for_days([0]), made.descriptions)
    model.update(few.for_days([1]), {"adv-00000": "🦊 foxes"})
    _, texts = unpack_days(model.stored_days_)
    assert texts["adv-00000"] == "🦊 foxes"
    assert texts["adv-00001"] == made.descriptions["adv-00001"]


def test_models_that_cannot_be_added_to_say_why():
    """Days that it has, days it did not keep, and embeddings that nobody gave."""
    whole = some_of(market(EASY).histograms, range(12))
    log = whole.for_days([0, 1])
    model = forecaster().fit(log)
    with pytest.raises(InvalidParameterError, match="already has 2026-03-02"):
        model.update(whole.for_days([0, 2]))
    embedded = forecaster().fit(log, embeddings=np.ones((len(log.advertisers), 2)))
    with pytest.raises(InvalidParameterError, match="fitted with embeddings"):
        embedded.update(whole.for_days([2]))
    model.stored_days_ = None
    with pytest.raises(InvalidParameterError, match="keeps no days"):
        model.update(whole.for_days([2]))
    with pytest.raises(NotFittedError):
        forecaster().update(log)


def test_saved_models_forecast_the_same(tmp_path):
    """Bit for bit, of known and of new advertisers; and their profiles are the same."""
    model = fitted()
    coterie.save_model(model, tmp_path / "model.coterie")
    for loaded in (
        coterie.load_model(tmp_path / "model.coterie"),
        load_market(tmp_path / "model.coterie"),
    ):
        for name in model.advertisers_[::13]:
            for how in ({}, {"day": "2026-03-11", "days": 3, "level": 0.5}, {"supply": 9}):
                asked = loaded.forecast(str(name), BIDS, **how)
                assert asked == model.forecast(str(name), BIDS, **how)
        new = {"supply": 1000, "text": "flights and hotels at the beach"}
        assert loaded.forecast("new", BIDS, **new) == model.forecast("new", BIDS, **new)
        assert loaded.segments_ == model.segments_ and loaded.choice_ == model.choice_
        assert loaded.agreement_.sentence == model.agreement_.sentence
        assert loaded.warnings_ == model.warnings_
        np.testing.assert_array_equal(loaded.calibration_.factors, model.calibration_.factors)
    assert type(loaded) is FittedMarket


def test_only_forecasters_are_loaded_to_forecast(tmp_path):
    """A file of another model is refused by what it holds, and one that is not there by name."""
    file = tmp_path / "model.coterie"
    coterie.save_model(fitted(), file)
    assert load_forecaster(str(file)).forecast("adv-00000", 2.0) == fitted().forecast(
        "adv-00000", 2.0
    )
    coterie.save_model(L2Consensus(2, random_state=0).fit([[0, 0], [0, 1], [1, 1]]), file)
    for load in (load_forecaster, load_market):
        with pytest.raises(ModelFileError, match="holds a L2Consensus, which does not forecast"):
            load(file)
        with pytest.raises(ModelFileError, match=r"there is no file .*none\.coterie"):
            load(tmp_path / "none.coterie")


def test_models_of_an_earlier_version_are_refused(tmp_path):
    """They have no curves to forecast by."""
    former = clone(fitted())
    former.advertisers_ = fitted().advertisers_
    coterie.save_model(former, tmp_path / "former.coterie")
    for load in (load_forecaster, load_market):
        with pytest.raises(ModelFileError, match="earlier version of coterie; make it again"):
            load(tmp_path / "former.coterie")


def test_evidence_is_kept_without_loss():
    """From sparse parts, as it was read from the log; of all or of some."""
    for kind in ({}, {"auction": "first"}):
        made = market(replace(EASY, advertisers=30, days=2, **kind))
        model = forecaster().fit(made.histograms, made.descriptions)
        expected = evidence_of(made.histograms)
        for found, rows in ((model.evidence(), slice(None)), (model.evidence(4), [4])):
            for name in ("successes", "trials", "observations"):
                np.testing.assert_array_equal(getattr(found, name), getattr(expected, name)[rows])
            for name in ("price", "edges"):
                np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
            assert (found.form, found.pays) == (expected.form, expected.pays)


def test_a_drift_of_prices_is_warned_of():
    """With its first day and its size; the model follows the new level."""
    chosen = replace(
        EASY, advertisers=60, days=14, price_rise=0.26, weekday_effect=0.5, newcomers=0.0
    )
    made = market(chosen)
    with pytest.warns(CoterieWarning, match="prices rose by .* from 2026-03-12 on"):
        model = forecaster().fit(made.histograms, made.descriptions)
    assert len([one for one in model.warnings_ if "prices rose" in one]) == 1
    level = model.price_levels_.typical()[0]
    assert level == pytest.approx(model.price_levels_.values[-4:].mean(), abs=0.05)


def test_a_steady_market_has_no_warnings():
    """Any warning would be an error here."""
    chosen = replace(EASY, advertisers=60, days=14, weekday_effect=0.5, newcomers=0.0)
    made = market(chosen)
    model = forecaster(origins=2).fit(made.histograms, made.descriptions)
    assert model.warnings_ == []


# with next to no advertisers the views may fall into camps, which the consensus warns of
@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
@pytest.mark.parametrize("name", [*ODD_WITH_SEGMENTS, *ODD_WITHOUT_SEGMENTS])
def test_odd_markets_are_forecast_and_say_what_they_rest_on(name):
    """Finite and sound, of a known advertiser and of a new one."""
    model = odd_model(name)
    found = model.forecast("adv-00000", BIDS)
    assert sound(found)
    assert sound(model.forecast("adv-00000", BIDS, days=7))
    n = f"{model.observations_[0]:,.0f}"
    own = f"its {n} bid{'' if n == '1' else 's'}, completed by "
    if model.segments_:
        assert found[0].why.startswith(f"{own}the segment {found[0].segment!r} (share")
        assert found[0].segment == model.segments_[model.labels_[0]].name
    else:
        assert found[0].why.startswith(f"{own}all advertisers")
        assert found[0].segment == ""
        assert (model.labels_ == -1).all() and model.shares_.shape[1] == 1
    assert all(one.curve == "pooled" for one in found)
    new = model.forecast("new", BIDS, supply=100, text="beach hotel")
    assert sound(new, given=True)
    if name in ODD_WITHOUT_SEGMENTS:
        assert not model.segments_
    if name in {"no wins", "no wins but texts"}:
        highest = model.edges_[-1] / MICROS
        assert model.forecast("adv-00000", highest / 3).win_rate < 0.1
    if name == "all wins":
        assert found[-1].win_rate > 0.95


@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
@pytest.mark.parametrize("name", [*ODD_WITH_SEGMENTS, *ODD_WITHOUT_SEGMENTS])
def test_models_of_odd_markets_can_be_served(name):
    """They pass the checks; figures at any bid are finite, and profiles can be written."""
    model = odd_model(name)
    check_model(model)
    tables, edges = tables_of(model), model.edges_ / MICROS
    bids = np.concatenate([[1e-7, edges[0] / 2], edges[::7], edges[-1:], [99.0]])
    for place in (tables.placer.placed("adv-00000"), tables.placer.placed("new", "beach hotel")):
        for days in (tables.days(), tables.days(None, 7)):
            figures = tables.at_placed(place, bids, 1000.0, days)
            assert np.isfinite(figures[:, :8]).all() and (figures[:, :8] >= 0).all()
            assert (figures[:, 4] <= 1000 * (1 + 1e-9)).all()
            assert np.isfinite(figures[:, 8:11]).all() == (model.click_rate_ is not None)
    book = Profiles(model)
    known = book.advertiser(0)
    shown = [known, book.segments(), book.summary()]
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert len(book.segments()) == len(model.segments_)
    if name in ODD_WITHOUT_SEGMENTS:
        assert known["segment"] is None and known["segment_name"] == ""
        assert known["shares"] == [{"segment": None, "name": "all advertisers", "share": 1.0}]
        everyone = report_payload(model, source="logs", engine="duckdb").as_dict()["segments"][0]
        assert known["curves"]["segment"]["win"] == everyone["win"]


def test_ready_made_histograms_on_other_edges_are_forecast():
    """They are moved to the price grid, and give nearly the same forecasts."""
    made = market(EASY)
    coarse = market(EASY, bins=60).histograms
    assert len(coarse.edges) <= 60
    model = forecaster().fit(coarse, made.descriptions)
    np.testing.assert_array_equal(model.edges_, on_price_grid(coarse).edges)
    for name in NAMES[:20:4]:
        one, other = (m.forecast(name, 2.0, supply=1000) for m in (model, fitted()))
        assert one.impressions == pytest.approx(other.impressions, rel=0.3, abs=30)


@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:forecasts of the last days:coterie.errors.CoterieWarning")
@pytest.mark.filterwarnings("ignore:prices :coterie.errors.CoterieWarning")
@pytest.mark.filterwarnings("ignore:intervals had to be:coterie.errors.CoterieWarning")
@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(1, 9), st.integers(1, 9)),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from(
        [
            ("second", "paid"),
            ("second", "minimum"),
            ("second", "none"),
            ("first", "none"),
            ("first", "minimum"),
        ]
    ),
    st.lists(st.sampled_from(["beach hotel", "car dealer", "🦊", ""]), min_size=6, max_size=6),
)
def test_any_small_log_is_forecast(auctions, kind, texts):
    """Of any bids, wins and texts."""
    who, day, bid, minimum = np.array(auctions).T
    bid, minimum = bid * MICROS, minimum * MICROS
    auction, revealed = kind
    log = log_of(
        advertiser=who,
        day=day,
        bid=bid,
        won=bid >= minimum,
        price=bid if auction == "first" else minimum,
        minimum=minimum,
        edges=np.array([2, 5, 9]) * MICROS,
        auction=auction,
        revealed=revealed,
    )
    model = forecaster(n_segments=2).fit(log, {f"a{i:03d}": text for i, text in enumerate(texts)})
    for name in log.advertisers:
        assert sound(model.forecast(str(name), [0.5, 2, 3.5, 9, 12]))
    new = model.forecast("new", [0.5, 2, 3.5, 9, 12], supply=9, text="hotel")
    assert sound(new, given=True)


def test_numbers_as_names_are_found():
    """Where the log has numbers for advertisers, they are text in the model."""
    log = log_of(bid=[5, 6], won=True, price=3, advertiser=[0, 1], edges=[10], names=["7", "8"])
    model = forecaster().fit(log)
    assert model.forecast(7, 1.0) == model.forecast("7", 1.0)


def test_embeddings_take_the_place_of_texts():
    """Any vectors of one row an advertiser; words still name the segments."""
    made = market(EASY)
    vectors = np.eye(3)[made.segments] * 7.0
    model = forecaster(n_segments=3).fit(made.histograms, made.descriptions, embeddings=vectors)
    assert adjusted_rand_index(model.labels_, made.segments) > 0.95
    assert model.text_view_ is None and model.segments_[0].words
    with pytest.raises(InvalidParameterError, match="90 rows"):
        forecaster().fit(made.histograms, embeddings=vectors[:5])
    log = made.histograms
    before = log.for_days([0, 1, 2])
    known = vectors[np.isin(log.advertisers, before.advertisers)]
    updated = forecaster(n_segments=3).fit(before, made.descriptions, embeddings=known)
    updated.update(log.for_days([3]), made.descriptions, embeddings=vectors)
    np.testing.assert_array_equal(updated.win_, model.win_)


def test_scikit_learn_conventions():
    """Parameters as given, clones unfitted, settings checked at fit and not before."""
    model = forecaster(n_segments=5)
    assert clone(model).get_params() == model.get_params()
    assert AdForecaster().get_params() == vars(SegmentSettings())
    with pytest.raises(NotFittedError):
        model.forecast("a", 1.0)
    with pytest.raises(NotFittedError):
        model.curve("a")
    bad = AdForecaster(alphas=(2.0,))
    with pytest.raises(InvalidParameterError, match="alphas"):
        bad.fit(market(EASY).histograms)


def test_spend_of_a_new_advertiser_is_as_uncertain_as_its_impressions():
    """Its interval contains the spend of most advertisers of the log."""
    model = small_model()
    for bid in np.quantile(model.bid_[model.bid_ > 0], [0.3, 0.5, 0.7]) / 1e6:
        new = model.forecast("somebody", bid, supply=1e4)
        known = [model.forecast(str(name), bid, supply=1e4).spend for name in model.advertisers_]
        low, high = new.spend_interval
        assert np.mean([low <= spend <= high for spend in known]) > 0.8


def test_far_above_the_log_intervals_stay_as_at_its_highest_bid():
    """In a second-price auction a bid that wins everything pays what the highest one pays."""
    model = small_model()
    highest = float(model.edges_[-1]) / 1e6
    at, above = model.forecast("adv-00020", [highest * 1.001, 1e6], days=7)
    assert above.spend_interval == pytest.approx(at.spend_interval, rel=1e-3)


def warnings_of(bias=0.0, bias_error=0.01, levels=(0.0,) * 9, errors=()):
    """The warnings of a model whose backtest had this bias and these standardised errors."""
    measured = fit_levels(FIRST_DAY + np.arange(len(levels)), levels, np.full(len(levels), 1e-5))
    choice = Choice(8, 100.0, np.inf, 0.2, bias, bias_error, 2)
    return model_warnings(measured, choice, calibrate(errors))


@pytest.mark.parametrize(
    ("bias", "error", "said"),
    [
        (0.2, 0.01, "20% above"),
        (-0.2, 0.01, "20% below"),
        (0.2, 0.08, None),
        (-0.14, 0.001, None),
        (float("nan"), float("nan"), None),
    ],
)
def test_a_large_bias_gives_a_warning(bias, error, said):
    """If it is above 15% and above three standard errors; not if there was no backtest."""
    found = warnings_of(bias, error)
    assert found == [] if said is None else said in found[0].replace(".0%", "%")


def test_a_drift_explains_a_bias():
    """One sentence, of the drift."""
    [sentence] = warnings_of(0.3, levels=np.repeat([0.0, 0.4], 7))
    assert sentence.startswith("prices rose by 49")


def test_intervals_that_had_to_be_widened_give_a_warning():
    """With the factor."""
    wide = 3 * np.random.default_rng(0).standard_normal(3000)
    [sentence] = warnings_of(errors=[(np.geomspace(1, 1e4, 3000), wide)] * 8)
    factor = float(re.search(r"a factor of ([\d.]+) to", sentence)[1])
    assert 2 < factor < 5
