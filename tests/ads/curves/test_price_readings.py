"""Prices that are not the smallest bids that win are noticed, and read in another way.

Prices that many auctions have are points of the grid, and a bid below one wins none of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.ads import bid_for, split_budget
from coterie.ads.curves.landscapes import evidence_of, spend_curves
from coterie.ads.curves.price_readings import (
    PriceReading,
    censored_at_masses,
    paid_prices,
    price_misfit,
    readings_of,
    with_masses,
)
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.ads.forecasts.model_checks import check_model
from coterie.ads.histograms.price_grid import on_price_grid
from coterie.ads.histograms.stored_days import unpack_days
from coterie.ads.logs.simulation.simulated_traits import COMMON_FLOORS
from coterie.errors import CoterieWarning
from markets import EASY, QUICK, evaluated, fitted, market, sound

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


#: Half of the auctions have one of seven common floors.
FLOORS = replace(EASY, floors=False, common_floors=0.5, bids_per_day=60, newcomers=0.0)
KINDS = {"paid": FLOORS, "minimum": replace(FLOORS, minimum_logged=True)}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def floors(request):
    """A log, plain and with its masses, and the prices that it reveals."""
    made = market(request.param)
    seen = made.rows["minimum"]
    if not request.param.minimum_logged:
        seen = np.where(made.rows["won"], seen, 0)
    return made.histograms, with_masses(made.histograms), seen


def test_masses_are_the_common_floors_in_use(floors):
    """Those that many prices have are found to the micro, and nothing else is."""
    _, found, seen = floors
    share = {int(f): np.mean(seen[seen > 0] == f) for f in COMMON_FLOORS * 1e6}
    assert {f for f, size in share.items() if size > 0.02} <= set(found.masses.tolist())
    assert set(found.masses.tolist()) <= {f for f, size in share.items() if size > 0.002}


def test_a_log_without_masses_is_not_changed():
    """The same object, so that its model stays as it was."""
    plain = market(replace(EASY, floors=False)).histograms
    assert with_masses(plain) is plain
    assert censored_at_masses(plain) is plain


def test_a_common_weight_changes_no_mass(floors):
    """Auctions of a sample of weight 50 are as few as they are."""
    plain, found, _ = floors
    bids, prices = plain.bids, plain.prices
    bids = replace(bids, count=50 * bids.count, square=2500 * bids.count, wins=50 * bids.wins)
    prices = replace(prices, count=50 * prices.count, price=50 * prices.price)
    weighted = with_masses(replace(plain, bids=replace(bids, bid=50 * bids.bid), prices=prices))
    assert weighted.masses.tolist() == found.masses.tolist()
    assert weighted.dense().prices == pytest.approx(50 * found.dense().prices)


def test_the_bin_of_a_mass_holds_its_auctions(floors):
    """Their number is right to a fourth, and all other sums stay as they are."""
    plain, found, seen = floors
    at = found.dense().prices[:, np.searchsorted(found.edges, found.masses)]
    true = np.array([(seen == f).sum() for f in found.masses])
    assert at.sum(axis=0) == pytest.approx(true, rel=0.25)
    assert found.dense().prices.sum(axis=1) == pytest.approx(plain.dense().prices.sum(axis=1))
    assert found.dense().price.sum() == pytest.approx(plain.dense().price.sum(), rel=1e-3)
    for name in ("count", "wins", "cost"):
        assert found.daily(name).tolist() == plain.daily(name).tolist()


def test_the_price_grid_has_no_masses(floors):
    """Days go back to the grid that all logs share, to be added to others."""
    plain, found, _ = floors
    back = on_price_grid(found)
    assert len(back.masses) == 0 and back.edges.tolist() == plain.edges.tolist()
    assert back.dense().prices == pytest.approx(plain.dense().prices)


def test_censored_auctions_stay_at_risk(floors):
    """Prices at masses become losses at these bids; every auction counts once, as before."""
    _, found, _ = floors
    censored = censored_at_masses(found)
    bins = np.searchsorted(found.edges, found.masses)
    prices, lost = censored.dense().prices, censored.dense().bids - censored.dense().wins
    assert not prices[:, bins].any()
    if found.revealed == "minimum":
        assert (prices + lost).sum(axis=1) == pytest.approx(found.dense().prices.sum(axis=1))


@pytest.mark.slow
def test_goals_that_only_a_floor_reaches_are_bid_for_at_the_floor():
    """In truth W jumps at a floor: an amount within the jump needs the floor, as the why says."""
    model, made = fitted(FLOORS), market(FLOORS)
    minimum, who = made.rows["minimum"], made.rows["advertiser"]
    reached, below, n = 0, 0, 0
    for row in np.argsort(-model.observations_)[:40].tolist():
        name = str(model.advertisers_[row])
        for f in (model.masses_ / 1e6).tolist():
            lower, upper = model.forecast(name, [0.998 * f, f], supply=1000.0)
            if upper.impressions - lower.impressions < 20:
                continue
            goal = (lower.impressions + upper.impressions) / 2
            found = bid_for(model, name, impressions=goal, supply=1000.0)
            assert found.bid == f and found.safe_bid >= f
            assert "many auctions cost exactly this bid" in found.forecast.why
            own = minimum[who == int(name.removeprefix("adv-"))] / 1e6
            reached, n = reached + (np.mean(own <= f) > goal / 1000), n + 1
            below += np.mean(own <= 0.999 * f) > goal / 1000
    assert n > 50
    assert reached > 0.75 * n > 0.3 * n > below


@pytest.mark.slow
def test_no_level_of_a_day_moves_a_bid_past_a_mass():
    """A bid at a floor wins all of its auctions on every day; one just below wins none."""
    model = fitted(FLOORS)
    row = int(np.argmax(model.observations_))
    name, f = str(model.advertisers_[row]), float(model.masses_[len(model.masses_) // 2]) / 1e6
    g = int(np.searchsorted(model.edges_, f * 1e6))
    least, most = (float(model.win_[row, at]) for at in (g - 1, g))
    for day in ("2026-03-09", "2026-03-14", "2026-03-15"):
        below, at = model.forecast(name, [0.999 * f, f], day=day)
        assert below.win_rate <= least + 1e-6 < most - 1e-6 <= at.win_rate


@pytest.mark.slow
def test_portfolios_say_which_bids_are_at_floors_and_stay_within_the_budget():
    """No bid is inside the bin of a mass, and the last one bought spends what is left at most."""
    model = fitted(FLOORS)
    masses, edges = model.masses_ / 1e6, model.edges_ / 1e6
    below, numbers = edges[np.searchsorted(edges, masses) - 1], []
    for part in (0.2, 0.5, 1.0, 1.3, 1.6):
        found = split_budget(model, part * split_budget(model).budget)
        bids = np.array([one.bid for one in found.allocations if one.bid is not None])
        assert not ((bids[:, None] > below * (1 + 1e-9)) & (bids[:, None] < masses)).any()
        assert found.spend <= found.budget * (1 + 1e-9)
        numbers.append(int(np.isin(bids, masses).sum()))
        assert found.why.startswith(f"{numbers[-1]} bid" if numbers[-1] else "")
        assert bool(found.why) == bool(numbers[-1])
    assert max(numbers) > 5
