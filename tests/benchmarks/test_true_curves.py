"""True win rates and price levels agree with the simulated auctions."""

import dataclasses

import numpy as np
import pytest

from benchmarks.true_curves import day_shifts, true_win_rates
from coterie.ads.logs.simulation.simulated_logs import auction_batches
from coterie.ads.logs.simulation.simulated_traits import (
    PRICE_BY_WEEKDAY,
    MarketSettings,
    draw_traits,
)

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
