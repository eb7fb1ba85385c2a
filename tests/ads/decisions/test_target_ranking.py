"""Rankings are in order, equal the forecasts of single values, and find planted effects."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from scipy.stats import spearmanr

from coterie.ads.decisions.decision_answers import TargetRanking
from coterie.ads.decisions.target_ranking import RANKED_BY, rank_targets
from coterie.ads.forecasts.fitted_market import DimensionForecasts
from coterie.ads.histograms.target_counts import NO_VALUE, OTHER_VALUES
from coterie.ads.logs.simulation.simulated_traits import draw_traits
from coterie.errors import InvalidParameterError
from fitted_models import small_model
from target_markets import DIVIDED, targets_model


@pytest.mark.slow
@pytest.mark.parametrize("by", RANKED_BY)
@pytest.mark.parametrize("auction", ["second", "first"])
def test_values_are_in_order(by, auction):
    """Numbers fall and costs rise; chances of a dimension sum to 1, weights are shares."""
    found = rank_targets(targets_model(auction), "adv-00003", by=by)
    sign = -1 if by in ("impressions", "clicks", "conversions") else 1
    for dimension in ("device", "country"):
        rows = [row for row in found.targets if row.dimension == dimension]
        assert np.all(np.diff([sign * getattr(row, by) for row in rows]) >= 0)
        assert sum(row.chance_best for row in rows) == pytest.approx(1)
        assert sum(row.share for row in rows) == pytest.approx(1, abs=1e-5)
        assert all(0 <= row.own_weight <= 1 for row in rows)


def test_figures_are_those_of_forecasts():
    """A row has the figures of the forecast with its value, and costs within their intervals."""
    model = targets_model()
    found = rank_targets(model, "adv-00003", 2.0, dimension="device", days=2, level=0.8)
    for row in found.targets:
        one = model.forecast("adv-00003", 2.0, days=2, level=0.8, where={"device": row.value})
        assert row.impressions == pytest.approx(one.impressions)
        assert row.spend_interval == pytest.approx(one.spend_interval)
        assert row.cost == pytest.approx(one.cost)
        assert row.cost_per_click == pytest.approx(one.spend / one.clicks)
        for name in ("cost", "cost_per_click", "cost_per_conversion"):
            low, high = getattr(row, f"{name}_interval")
            assert low <= getattr(row, name) <= high


@pytest.mark.parametrize(
    ("by", "column", "others"),
    [
        ("impressions", 0, ["share"]),
        ("clicks", 0, ["share", "click"]),
        ("cost_per_click", 1, ["click"]),
    ],
)
def test_own_weights_are_shares_of_the_variance(by, column, others):
    """They are what own evidence took from the variance of the logarithm of the ranked figure.

    A shift of the normal score moves the win rate and the price paid.
    """
    model, step = targets_model(), 0.05
    prepared = model.prepare_forecast("adv-00003")
    columns = model.targets_.columns("device")
    after = model.target_effects(prepared.placement).of(columns)
    before = model.targets_.of_new(prepared.placement.shares).of(columns)
    found = rank_targets(model, "adv-00003", 2.0, dimension="device", by=by).targets
    weights = {row.value: row.own_weight for row in found}
    part = DimensionForecasts(prepared.asked(np.array([2.0])), after)
    factors = prepared.tables.interval_factors(0.9)
    for v, value in enumerate(model.targets_.values[columns].tolist()):
        of_row = part.asked.plans[0][0]
        here, moved = (
            part.asked._replace(
                plans=(np.zeros(1, dtype=int), *part.asked.plans[1:]),
                curves=part.asked.moved_curves(part.moves[v : v + 1] - shift),
                events=part.asked.events[of_row : of_row + 1],
            ).figures(factors)[0, column]
            for shift in (0.0, step)
        )
        slope = np.log(moved / here) / step
        left, whole = (
            slope**2 * one.score[1, v] ** 2 + sum(getattr(one, name)[1, v] ** 2 for name in others)
            for one in (after, before)
        )
        assert weights[value] == pytest.approx(1 - left / whole, abs=1e-6)


def test_values_that_cannot_be_chosen_are_last():
    """Missing values and many together have no chance to be the best."""
    model = copy(targets_model())
    values = model.targets_.values.astype(object)
    values[1:3] = NO_VALUE, OTHER_VALUES
    model.targets_ = replace(model.targets_, values=values.astype(str))
    *chosen, first, second = rank_targets(model, "adv-00003", 2.0, dimension="device").targets
    assert {first.value, second.value} == {NO_VALUE, OTHER_VALUES}
    assert first.chance_best is second.chance_best is None
    assert sum(row.chance_best for row in chosen) == pytest.approx(1)


def test_the_bid_is_that_of_the_log_by_default():
    """Without a bid, it is the mean bid of the advertiser."""
    model = targets_model()
    row = list(model.advertisers_).index("adv-00003")
    assert rank_targets(model, "adv-00003").bid == pytest.approx(model.bid_[row] / 1e6)


def test_planted_prices_are_found():
    """Over advertisers, ranks by cost agree with the planted shifts of prices."""
    model, effects = targets_model(), draw_traits(DIVIDED).effects
    agreement = []
    for name in model.advertisers_[:30]:
        found = rank_targets(model, str(name), dimension="country", by="cost")
        ranks = [row.value for row in found.targets]
        planted = effects[1].shift[int(name.removeprefix("adv-"))]
        order = [planted[effects[1].values.index(value)] for value in ranks]
        agreement.append(spearmanr(np.arange(len(order)), order)[0])
    assert np.mean(agreement) > 0.7


def test_a_new_advertiser_has_no_evidence_of_its_own():
    """By its text it gets the values of its segments, and its own weight is 0."""
    found = rank_targets(targets_model(), bid=2.0, text="flights hotel", supply=1e4)
    assert {row.own_weight for row in found.targets} == {0.0}
    assert found.advertiser == ""


@pytest.mark.parametrize("bid", [2.0, 1e-6])
def test_a_ranking_survives_json(bid):
    """It is the same after it was written and read, with finite numbers even if nothing is won."""
    found = rank_targets(targets_model(), "adv-00003", bid, by="cost_per_conversion")
    text = msgspec.json.encode(found)
    assert msgspec.json.decode(text, type=TargetRanking) == found
    json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize("by", ["impressions", "clicks"])
def test_values_without_auctions_are_equally_good(by):
    """Where nothing can be won, each value of a dimension has the same chance to be the best."""
    found = rank_targets(targets_model(), "adv-00003", 2.0, supply=0, dimension="device", by=by)
    chances = [row.chance_best for row in found.targets]
    assert chances == pytest.approx([1 / len(chances)] * len(chances))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"by": "beauty"}, "by='beauty': it must be one of impressions"),
        ({"dimension": "planet"}, "the dimensions of the model are device, country"),
        ({"dimension": 5}, "dimension=5: the dimensions of the model are device, country"),
        ({"dimension": 0}, "dimension=0: the dimensions of the model are device, country"),
        ({"dimension": [["device"]]}, "the dimensions of the model are device, country"),
        ({"bid": -1.0}, "bids must be numbers above 0"),
        ({"bid": "abc"}, "bid='abc': bids must be numbers above 0"),
        ({"bid": [1, 2]}, "targets are ranked at one bid"),
        ({"where": {"device": "tv"}}, "where"),
    ],
)
def test_what_cannot_be_ranked_is_refused(asked, message):
    """The message says what can be."""
    with pytest.raises(InvalidParameterError, match=message):
        rank_targets(targets_model(), "adv-00003", **asked)


def test_a_new_advertiser_needs_a_bid():
    """There is no mean bid of one that is not in the log."""
    with pytest.raises(InvalidParameterError, match="bid is missing"):
        rank_targets(targets_model(), text="flights", supply=1e4)


def test_a_model_without_dimensions_is_refused():
    """The message says how to make one with dimensions."""
    model = small_model()
    with pytest.raises(InvalidParameterError, match="--dimension device"):
        rank_targets(model, str(model.advertisers_[0]))
