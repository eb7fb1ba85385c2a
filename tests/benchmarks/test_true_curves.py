"""True win rates and price levels agree with the simulated auctions."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.true_curves import day_shifts, draw_outcomes, true_win_rates
from coterie.ads.logs.simulation.simulated_logs import auction_batches
from coterie.ads.logs.simulation.simulated_traits import MarketSettings, draw_traits

# few advertisers with many bids; the last day has all changes of prices
LARGE = MarketSettings(
    advertisers=3,
    segments=3,
    bids_per_day=40_000,
    volume_spread=0,
    price_rise=0.26,
    weekday_effect=2,
)


@pytest.mark.parametrize(
    ("chosen", "day"), [(LARGE, 1), (LARGE, 6), (replace(LARGE, common_floors=0.5), 1)]
)
def test_win_rates_are_the_shares_of_a_simulation(chosen, day):
    """Shares of auctions that an amount or the own bids win are the rates within 4 errors."""
    traits = draw_traits(chosen)
    shift = day_shifts(chosen, traits)[day]
    batches = list(auction_batches(chosen, traits, day))
    who, bid, minimum, won = (
        np.concatenate([batch[name] for batch in batches])
        for name in ("advertiser", "bid", "minimum", "won")
    )
    for a in range(chosen.advertisers):
        own = who == a
        # at half steps, rounding the minimum to steps does not change who wins
        edges = np.quantile(minimum[own], [0.05, 0.2, 0.5, 0.8, 0.95]).astype(int) // 1000 * 1000
        rates = true_win_rates(chosen, traits, shift, edges + 500)[a]
        shares = (minimum[own] <= edges[:, None]).mean(axis=1)
        assert (np.abs(shares - rates) <= 4 * np.sqrt(rates * (1 - rates) / own.sum())).all()
        rates = true_win_rates(chosen, traits, shift, bid[own] + 500)[a]
        assert abs((won[own] - rates).sum()) <= 4 * np.sqrt((rates * (1 - rates)).sum())


@pytest.mark.parametrize("auction", ["first", "second"])
def test_outcomes_are_those_of_the_rates(auction):
    """Also on days after the log, where prices stay risen; a winner pays its bid, or less."""
    settings = replace(LARGE, auction=auction, days=5, newcomers=0.34)
    traits = draw_traits(settings)
    bids = np.exp(traits.bid_level)[:, None] * [0.5, 1.0]
    auctions, (won, paid) = draw_outcomes(settings, traits, range(3, 7), bids)
    assert traits.newcomer.any() and (auctions > 0).all()
    later = day_shifts(replace(settings, days=10, price_rise=0.0), traits)
    for place, day in enumerate(range(3, 7)):
        for a in range(3):
            shift = later[day] + settings.price_rise
            rates = true_win_rates(settings, traits, shift, np.rint(bids[a] * 1e3) * 1e3 + 500)[a]
            n = auctions[a, place]
            assert (np.abs(won[a, :, place] - n * rates) <= 5 * np.sqrt(n * rates) + 1).all()
            most = won[a, :, place] * bids[a] / 1000
            if auction == "first":
                np.testing.assert_allclose(paid[a, :, place], most)
            else:
                assert (paid[a, :, place] < most).all()
