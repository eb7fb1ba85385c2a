"""A small market, fitted once, for tests of what is measured about serving it."""

from __future__ import annotations

from functools import cache

from benchmarks.grown_models import fitted_market
from coterie.ads.forecasts.forecaster import AdForecaster
from coterie.ads.logs.simulation.simulated_traits import MarketSettings

SMALL = MarketSettings(advertisers=50, segments=3, days=4, bids_per_day=20.0, seed=3)


@cache
def small_market() -> AdForecaster:
    """A forecaster of fifty advertisers; shared, so not to be changed."""
    return fitted_market(SMALL)
