"""Regret of choices of targets: a small run, and the truth it is measured against."""

import numpy as np

from benchmarks.ads_targets import _columns, _held_out, _truth
from coterie.ads import MarketSettings
from coterie.ads.logs.simulation.simulated_traits import draw_traits

SMALL = MarketSettings(advertisers=12, segments=3, days=4, bids_per_day=3000, volume_spread=0.1,
                       weekday_effect=0.0, dimensions=3, newcomers=0.0, bid_move=0.0)  # fmt: skip


def test_the_truth_agrees_with_held_out_auctions():
    """Win rates and costs over many held-out auctions are those computed, within chance."""
    traits = draw_traits(SMALL)
    truth, outcome = _truth(SMALL, traits), _held_out(SMALL, traits)
    device = _columns()["device"]
    won, spend = outcome.impressions[:, device], outcome.cost[:, device]
    enough = won > 300
    cost = truth.cost[:, device] / truth.impressions[:, device]
    np.testing.assert_allclose((1000 * spend / won)[enough], cost[enough], rtol=0.05)
