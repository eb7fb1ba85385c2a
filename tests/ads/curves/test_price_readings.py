"""Prices that are not the smallest bids that win are noticed, and read in another way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.ads.curves.landscapes import evidence_of, spend_curves
from coterie.ads.curves.price_readings import (
    PriceReading,
    paid_prices,
    price_misfit,
    readings_of,
)
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.ads.forecasts.model_checks import check_model
from coterie.ads.histograms.stored_days import unpack_days
from coterie.errors import CoterieWarning
from markets import EASY, QUICK, evaluated, market, sound

BUSY = replace(EASY, bids_per_day=60, days=5)
#: What winners pay, and what the wins then say.
CHARGED = {
    "net of a fee": ({"markup": -0.15}, "less often", "net of a fee"),
    "with a fee": ({"markup": 0.2}, "more often", "above the smallest bids"),
    "noisy": ({"price_noise": 0.4}, "often", "perhaps"),
}


@pytest.mark.parametrize(
    "kind", [{}, {"auction": "first"}, {"minimum_logged": True}, {"seed": 4, "bid_move": 0.8}]
)
def test_prices_of_the_auction_fit_the_wins(kind):
    """There is nothing to say, and one reading."""
    histograms = market(replace(BUSY, **kind)).histograms
    assert price_misfit(histograms) is None
    assert readings_of(histograms) == [PriceReading()]


@pytest.mark.parametrize("name", CHARGED)
def test_other_prices_do_not_fit_the_wins(name):
    """The sentence says which bids won more or less often, and what may be the cause."""
    kind, *words = CHARGED[name]
    misfit = price_misfit(market(replace(BUSY, **kind)).histograms)
    assert misfit is not None
    assert all(word in misfit.sentence for word in words)


def test_sampled_losses_do_not_fit_the_prices():
    """Low bids win more often than the prices of high bids let expect."""
    histograms = market(BUSY).histograms
    cells = histograms.bids
    few = cells.wins + np.round(0.2 * (cells.count - cells.wins)).astype(cells.count.dtype)
    sampled = replace(histograms, bids=replace(cells, count=few, square=few))
    misfit = price_misfit(sampled)
    assert misfit is not None and misfit.share > 0.1
    assert "lost bids are missing" in misfit.sentence


def test_scaled_prices_are_those_of_the_auction_again():
    """The factor is that of the fee, to its bins; sums of prices stay those paid."""
    plain, net = (market(replace(BUSY, markup=m)).histograms for m in (0.0, -0.15))
    _, scaled, _ = readings_of(net)
    assert scaled.factor == pytest.approx(0.85, abs=0.04)
    read = PriceReading("scaled", 0.85).of(net)
    amount = [np.log(h.edges[h.prices.bin]) for h in (plain, read)]
    means = [
        np.average(a, weights=h.prices.count) for a, h in zip(amount, (plain, read), strict=True)
    ]
    assert means[1] == pytest.approx(means[0], abs=0.015)
    assert read.prices.price.sum() == net.prices.price.sum()


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_prices_are_a_power_of_the_smallest_bid_that_wins(power):
    """The power is found from costs by bin of the bid, whatever factor an advertiser has."""
    evidence = evidence_of(PriceReading("outcomes").of(market(EASY).histograms))
    G, rng = len(evidence.edges), np.random.default_rng(0)
    win = np.sort(rng.random((6, G)), axis=1)
    wins = rng.integers(1, 50, (6, G)).astype(float)
    paid = replace(evidence, price=evidence.price**power)
    cost = wins * spend_curves(win, paid) / win * rng.uniform(0.5, 2, (6, 1))
    assert paid_prices(win, evidence, wins, cost).tolist() == paid.price.tolist()


@pytest.fixture(scope="module")
def charged():
    """A forecaster of a market with noisy prices."""
    made = market(replace(BUSY, price_noise=0.4))
    with pytest.warns(CoterieWarning, match="let expect"):
        return AdForecaster(**vars(QUICK)).fit(made.histograms, made.descriptions)


def test_forecasts_of_charged_prices_are_sound(charged):
    """One forecast and many are the same, at most the bid is paid, and prices stay in the file."""
    model = charged
    assert model.choice_.prices == "outcomes"
    assert any("learnt from wins and losses alone" in said for said in model.warnings_)
    check_model(model)
    bids = np.geomspace(0.2, 12, 9)
    for name in ("adv-00003", "adv-00060"):
        assert sound([model.forecast(name, bid, supply=1e5) for bid in bids], given=True)
    assert sound([model.forecast("new", bid, supply=1e5) for bid in bids], given=True)
    tables = tables_of(model)
    one = tables.one(3, 2.0, 1e5, tables.days(), True)
    of_many = tables.at(
        np.array([3]), np.array([2.0]), np.array([1e5]), [tables.days()], np.array([True])
    )
    assert one == pytest.approx(of_many[0].tolist(), nan_ok=True)
    assert model.paid_.std() > 0.01
    assert unpack_days(model.stored_days_)[0].revealed == "paid"


@pytest.mark.slow
@pytest.mark.parametrize("name", CHARGED)
def test_the_default_is_not_behind_others_where_prices_are_charged(name):
    """By at most a paired standard error of the best other source, on another seed."""
    with pytest.warns(CoterieWarning, match="let expect"):
        found = evaluated(replace(BUSY, advertisers=200, seed=77, **CHARGED[name][0]))
    for target in ("impressions", "spend"):
        others = [one for one in found.forecasts if one != "dictionary"]
        best = min(others, key=lambda one: found.measures(one, target).wape)
        behind = found.difference("dictionary", best, target)
        assert behind.difference <= behind.standard_error
