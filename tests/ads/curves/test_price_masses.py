"""Prices that many auctions have are points of the grid, and a bid below one wins none of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coterie.ads import bid_for, split_budget
from coterie.ads.curves.price_masses import censored_at_masses, with_masses
from coterie.ads.histograms.price_grid import on_price_grid
from coterie.ads.logs.simulation.simulated_traits import COMMON_FLOORS
from markets import EASY, fitted, market

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
