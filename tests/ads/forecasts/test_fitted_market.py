"""Forecasts of single values add up to the plain forecast, stay in bounds, and are stored."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from coterie import load_model, save_model
from coterie.ads.decisions.budgets import plan_budget
from coterie.ads.decisions.goals import bid_for
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.fitted_market import DimensionForecasts, chosen_figures, load_market
from coterie.ads.forecasts.model_checks import check_model
from coterie.ads.targets.target_effects import EffectsOfOne
from coterie.errors import InvalidParameterError, ModelFileError
from fitted_models import small_model
from markets import QUICK
from target_markets import counted_market, targets_model

AMOUNTS = ("supply", "impressions", "spend", "clicks", "conversions")


def values_of(model: AdForecaster, dimension: str) -> list[str]:
    """The values of a dimension."""
    return model.targets_.values[model.targets_.columns(dimension)].tolist()


@settings(max_examples=25, deadline=None)
@given(
    auction=st.sampled_from(["second", "first"]),
    row=st.integers(0, 50),
    bid=st.floats(0.05, 80.0),
    asked=st.sampled_from([{}, {"supply": 5e4}, {"days": 3}, {"day": "2026-03-10"}]),
    dimension=st.sampled_from(["device", "country"]),
)
def test_values_of_a_dimension_add_up(auction, row, bid, asked, dimension):
    """Over all values, auctions, impressions, spend and events are those of the plain forecast."""
    model = targets_model(auction)
    name = str(model.advertisers_[row])
    plain = model.forecast(name, bid, **asked)
    each = [
        model.forecast(name, bid, where={dimension: value}, **asked)
        for value in values_of(model, dimension)
    ]
    for amount in AMOUNTS:
        total = sum(getattr(one, amount) for one in each)
        assert total == pytest.approx(getattr(plain, amount), rel=1e-6, abs=1e-9)
    for one in each:
        assert 0 <= one.win_rate <= 1
        assert one.cost <= bid * (1 + 1e-9)
        for amount in AMOUNTS[1:]:
            low, high = getattr(one, f"{amount}_interval")
            assert 0 <= low <= getattr(one, amount) <= high


@settings(max_examples=25, deadline=None)
@given(
    auction=st.sampled_from(["second", "first"]),
    row=st.integers(0, 50),
    where=st.sampled_from([{"device": "tv"}, {"device": "phone"}, {"country": "DE"}]),
    highest=st.sampled_from([5.0, 50.0, 500.0]),
)
def test_a_higher_bid_wins_more_of_a_target(auction, row, where, highest):
    """Impressions and spend of a target do not fall with the bid, also where all is won."""
    model = targets_model(auction)
    bids = np.linspace(highest / 100, highest, 60)
    found = model.forecast(str(model.advertisers_[row]), bids, days=3, where=where)
    for amount in ("impressions", "spend"):
        values = np.array([getattr(one, amount) for one in found])
        assert np.all(np.diff(values) >= -1e-6 * values[1:])


def test_prices_of_a_target_remain_where_all_is_won():
    """A value with higher prices costs more at every bid, however high."""
    model = targets_model()
    effects = model.targets_.of_row(3).of(model.targets_.columns("device"))
    names = values_of(model, "device")
    cheap, dear = (names[int(at)] for at in (effects.score[0].argmin(), effects.score[0].argmax()))
    for bid in (20.0, 60.0, 1e3):
        one, other = (
            model.forecast(str(model.advertisers_[3]), bid, where={"device": value})
            for value in (cheap, dear)
        )
        assert one.cost < other.cost


def test_several_dimensions_multiply_shares():
    """The auctions of two values are the product of their shares, in any order."""
    model = targets_model()
    one, other = {"device": "phone"}, {"country": "DE"}
    shares = [model.forecast("adv-00003", 2.0, supply=1.0, where=w).supply for w in (one, other)]
    both = model.forecast("adv-00003", 2.0, supply=1.0, where=one | other)
    turned = model.forecast("adv-00003", 2.0, supply=1.0, where=other | one)
    assert both.supply == pytest.approx(shares[0] * shares[1])
    assert both.impressions == pytest.approx(turned.impressions)


def test_intervals_are_relatively_wider_than_the_plain_one():
    """Doubts about share and prices widen the interval of a value against its mean."""
    model = targets_model()
    plain = model.forecast("adv-00003", 2.0, supply=1e6)
    part = model.forecast("adv-00003", 2.0, supply=1e6, where={"device": "tv"})
    widths = [np.diff(one.impressions_interval)[0] / one.impressions for one in (plain, part)]
    assert widths[1] > widths[0]


def sure_effects(model, row):
    """Effects of the devices on an advertiser, without doubt."""
    own = model.targets_.of_row(row).of(model.targets_.columns("device"))
    return EffectsOfOne(*(np.stack([part[0], np.zeros_like(part[0])]) for part in own))


def figures_of_device(asked, effects):
    """Means and one standard deviation of the first device at the first bid."""
    one_sd = np.ones((2, 4, 2, 3)), 0.0, 1.0
    return chosen_figures(asked, one_sd, [DimensionForecasts(asked, effects)], [0])[0]


@pytest.mark.parametrize(("effect", "columns"), [("share", (2, 5, 8)), ("click", (8,))])
def test_a_doubt_about_an_effect_adds_to_the_variance(effect, columns):
    """A relative one to the relative variance of what it multiplies, and of nothing else."""
    model = targets_model()
    asked = model.prepare_forecast("adv-00003", supply=1e8).asked(np.array([2.0]))
    sure = sure_effects(model, 3)
    mean = getattr(sure, effect)[0]
    unsure = sure._replace(**{effect: np.stack([mean, np.full(len(mean), 0.2)])})
    before, after = (figures_of_device(asked, effects) for effects in (sure, unsure))
    for column in (2, 5, 8):
        variances = [
            ((one[column + 2] - one[column]) / one[column]) ** 2 for one in (before, after)
        ]
        added = 0.04 if column in columns else 0.0
        assert variances[1] - variances[0] == pytest.approx(added, rel=1e-6, abs=1e-9)


def test_a_doubt_about_a_score_is_one_about_what_is_won():
    """By the slope of the win rate W: φ(score) / W."""
    model = targets_model()
    asked = model.prepare_forecast("adv-00003", supply=1e8).asked(np.array([2.0]))
    sure = sure_effects(model, 3)
    unsure = sure._replace(score=np.stack([sure.score[0], np.full_like(sure.score[0], 0.2)]))
    before, after = (figures_of_device(asked, effects) for effects in (sure, unsure))
    slope = norm.pdf(norm.ppf(before[0])) / before[0]
    for column in (2, 5):
        variances = [
            ((one[column + 2] - one[column]) / one[column]) ** 2 for one in (before, after)
        ]
        assert variances[1] - variances[0] == pytest.approx((0.2 * slope) ** 2, rel=1e-3)


def test_how_many_of_some_auctions_are_in_a_target_is_chance():
    """Where all are won, their number is binomial; a rate is never above 1."""
    model = targets_model()
    asked = model.prepare_forecast("adv-00003", supply=100.0).asked(np.array([1e4]))
    sure = sure_effects(model, 3)
    found, share = figures_of_device(asked, sure), sure.share[0, 0]
    variance = (found[4] - found[2]) ** 2
    assert 0.95 < variance / (100 * share * (1 - share)) < 1.3
    many = sure._replace(
        click=np.stack([sure.click[0] * [1e3, *[1.0] * (len(sure.click[0]) - 1)]] * 2)
    )
    events = asked.events.copy()
    events[:, 0] = 0.9
    assert figures_of_device(asked._replace(events=events), many)[8] == pytest.approx(found[2])


def test_a_new_advertiser_gets_the_effects_of_its_segments():
    """An advertiser that is not in the log has the shares of its segments, which sum to 1."""
    model = targets_model()
    effects = model.targets_.of_new(np.eye(model.shares_.shape[1])[0])
    columns = model.targets_.columns("device")
    assert effects.share[0, columns].sum() == pytest.approx(1, abs=1e-5)
    found = model.forecast(None, 2.0, text="flights hotel", supply=1e4, where={"device": "tv"})
    assert 0 < found.supply < 1e4


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"planet": "Mars"}, "the dimensions of the model are device, country"),
        ("device", "where='device': give a value for each dimension, as in {'device': 'desktop'}"),
        (["device"], "give a value for each dimension"),
        ({"device": "toaster"}, "device has no value 'toaster'; its values are desktop, phone"),
    ],
)
def test_unknown_values_are_refused(where, message):
    """The message says what there is."""
    with pytest.raises(InvalidParameterError, match=message):
        targets_model().forecast("adv-00003", 2.0, where=where)


def test_a_model_without_dimensions_says_how_to_get_them():
    """The message names the option."""
    model = small_model()
    with pytest.raises(InvalidParameterError, match="--dimension device"):
        model.forecast(str(model.advertisers_[0]), 2.0, where={"device": "tv"})


def test_goals_reach_their_amount_in_a_target():
    """The bid for a number of impressions in a target is expected to win them there."""
    where = {"device": "phone"}
    found = bid_for(targets_model(), "adv-00003", impressions=10, days=3, where=where)
    assert found.forecast.impressions == pytest.approx(10, rel=1e-6)


def test_budgets_refuse_targets():
    """A budget is planned for all auctions."""
    with pytest.raises(InvalidParameterError, match="where"):
        plan_budget(targets_model(), "adv-00003", 5.0, where={"device": "phone"})


def test_a_stored_model_gives_the_same_forecasts(tmp_path):
    """The effects come back from a file, whichever way it is loaded."""
    model, path = targets_model(), tmp_path / "model.coterie"
    save_model(model, path)
    asked = {"where": {"device": "phone"}, "supply": 1e4}
    for loaded in (load_model(path), load_market(path)):
        check_model(loaded)
        assert loaded.forecast("adv-00003", 2.0, **asked) == model.forecast(
            "adv-00003", 2.0, **asked
        )


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("share", lambda x: x * 2, "sum to 1 in each dimension"),
        ("score", lambda x: x[:, :-1], "targets_.score must be an array"),
        ("click", lambda x: x - 5, "targets_.click must lie"),
        ("dimension", lambda x: x + 5, "targets_.dimension must lie"),
    ],
)
def test_unsound_effects_are_refused(part, change, message):
    """A file with effects that cannot be is not served."""
    model = AdForecaster()
    vars(model).update(vars(targets_model()))
    effects = model.targets_
    model.targets_ = dataclasses.replace(effects, **{part: change(getattr(effects, part))})
    with pytest.raises(ModelFileError, match=message):
        check_model(model)


def test_updating_equals_fitting_to_all_days():
    """Days added later give the effects of a fit to all days at once."""
    first, second = counted_market(days=(0, 3)), counted_market(days=(3, 5))
    model = AdForecaster(**vars(QUICK)).fit(first.histograms, first.texts, targets=first.targets)
    with pytest.raises(InvalidParameterError, match="the dimensions device, country"):
        model.update(second.histograms, second.texts)
    model.update(second.histograms, second.texts, targets=second.targets)
    expected = targets_model().targets_
    assert model.targets_.values.tolist() == expected.values.tolist()
    for name in ("share", "score", "click", "segment_score"):
        np.testing.assert_allclose(
            getattr(model.targets_, name), getattr(expected, name), rtol=1e-4, atol=1e-5
        )


def test_files_of_earlier_versions_have_no_dimensions(tmp_path):
    """A file that knows nothing of targets is loaded, and forecasts as before."""
    model, path = AdForecaster(), tmp_path / "old.coterie"
    vars(model).update(vars(small_model()))
    del vars(model)["targets_"]
    save_model(model, path)
    name = str(model.advertisers_[0])
    for loaded in (load_model(path), load_market(path)):
        check_model(loaded)
        assert loaded.targets_ is None
        assert loaded.forecast(name, 2.0) == small_model().forecast(name, 2.0)
