"""True win rates and price levels agree with the simulated auctions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchmarks.true_curves import day_shifts, true_win_rates
from coterie.ads.logs.simulation.simulated_logs import auction_batches, draw_day
from coterie.ads.logs.simulation.simulated_traits import (
    PRICE_BY_WEEKDAY,
    MarketSettings,
    draw_traits,
)
from coterie.errors import InvalidParameterError

# few advertisers with many bids; the last day has all changes of prices
LARGE = MarketSettings(
    advertisers=3,
    segments=3,
    bids_per_day=40_000,
    volume_spread=0,
    price_rise=0.26,
    weekday_effect=2,
)


@pytest.mark.parametrize("day", [1, 6])
def test_win_rates_are_the_shares_of_a_simulation(day):
    """Shares of auctions that an amount or the own bids win are the rates within 4 errors."""
    traits = draw_traits(LARGE)
    shift = day_shifts(LARGE, traits)[day]
    batches = list(auction_batches(LARGE, traits, day))
    who, bid, minimum, won = (
        np.concatenate([batch[name] for batch in batches])
        for name in ("advertiser", "bid", "minimum", "won")
    )
    for a in range(LARGE.advertisers):
        own = who == a
        # at half steps, rounding the minimum to steps does not change who wins
        edges = np.quantile(minimum[own], [0.05, 0.2, 0.5, 0.8, 0.95]).astype(int) // 1000 * 1000
        rates = true_win_rates(LARGE, traits, shift, edges + 500)[a]
        shares = (minimum[own] <= edges[:, None]).mean(axis=1)
        assert (np.abs(shares - rates) <= 4 * np.sqrt(rates * (1 - rates) / own.sum())).all()
        rates = true_win_rates(LARGE, traits, shift, bid[own] + 500)[a]
        assert abs((won[own] - rates).sum()) <= 4 * np.sqrt((rates * (1 - rates)).sum())


@pytest.mark.parametrize("floors", [True, False])
def test_win_rates_rise_with_the_bid_from_the_floor(floors):
    """Rates rise from 0 to 1 with the bid, and are 0 below the floor and for no bid."""
    chosen = MarketSettings(advertisers=30, floors=floors)
    traits = draw_traits(chosen)
    edges = np.arange(0, 60_000_000, 7_500)
    rates = true_win_rates(chosen, traits, 0.0, edges)
    assert rates.shape == (30, len(edges))
    assert (np.diff(rates) >= 0).all()
    assert (rates[:, 0] == 0).all()
    assert (rates[:, -1] > 0.999).all()
    below = edges / 1e6 < traits.floor[:, None]
    assert (rates[below] == 0).all()
    assert (rates[~below & (edges > 2_000_000)] > 0).all()


def test_shift_scales_the_amounts():
    """Without floors, prices and bids multiplied by the same factor win as often."""
    chosen = MarketSettings(advertisers=30, floors=False)
    traits = draw_traits(chosen)
    edges = np.arange(100_000, 10_000_000, 100_000)
    doubled = true_win_rates(chosen, traits, np.full(30, np.log(2)), 2 * edges)
    np.testing.assert_allclose(doubled, true_win_rates(chosen, traits, 0.0, edges), atol=1e-12)


@pytest.mark.parametrize("days", [1, 3, 9])
def test_day_shifts_are_those_of_the_drawn_days(days):
    """Both components of a market move by the shift of the day."""
    chosen = dataclasses.replace(LARGE, advertisers=40, bids_per_day=10, days=days)
    traits = draw_traits(chosen)
    shifts = day_shifts(chosen, traits)
    assert shifts.shape == (days, 40)
    for day, shift in enumerate(shifts):
        moved = draw_day(chosen, traits, day).market_level - traits.market_level
        np.testing.assert_allclose(moved, np.stack([shift, shift], axis=1), atol=1e-12)


def test_day_shifts_are_weekday_drift_and_rise():
    """The settings add their terms to the same drift; the rise is on the last four days."""
    plain = MarketSettings(advertisers=40, days=9, weekday_effect=0)
    traits = draw_traits(plain)
    drift = day_shifts(plain, traits)
    full = day_shifts(dataclasses.replace(plain, weekday_effect=2, price_rise=-0.5), traits)
    weekday = 2 * np.log(PRICE_BY_WEEKDAY)[np.arange(9) % 7]
    rise = np.repeat([0, -0.5], [5, 4])
    # another number of auctions uses another part of the day's stream
    equal = weekday == 0
    np.testing.assert_allclose((full - drift)[equal], np.tile(rise[equal, None], 40), atol=1e-12)
    assert np.abs(full - (weekday + rise)[:, None]).max() <= 5 * 0.02
    assert np.abs(drift).max() <= 5 * 0.02
    assert 0.015 <= drift.std() <= 0.025


def test_other_shapes_are_refused():
    """Traits of another market, and shifts that are not one per advertiser, are refused."""
    traits = draw_traits(LARGE)
    with pytest.raises(InvalidParameterError, match=r"traits of 3 advertisers.*4"):
        true_win_rates(dataclasses.replace(LARGE, advertisers=4), traits, 0.0, [1000])
    with pytest.raises(InvalidParameterError, match="level_shift of shape"):
        true_win_rates(LARGE, traits, np.zeros((7, 3)), [1000])
