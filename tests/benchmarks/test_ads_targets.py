"""Regret of choices of targets: a small run, and the truth it is measured against."""

from __future__ import annotations

import numpy as np

from benchmarks.ads_targets import GOALS, RULES, STRATA, _auction, _columns, _held_out, _truth, run
from benchmarks.harness import Context
from coterie.ads import MarketSettings
from coterie.ads.logs.simulation.simulated_traits import draw_traits

SMALL = MarketSettings(advertisers=12, segments=3, days=4, bids_per_day=3000, volume_spread=0.1,
                       weekday_effect=0.0, dimensions=3, newcomers=0.0, bid_move=0.0)  # fmt: skip


def test_a_small_run_has_all_figures(tmp_path):
    """Every rule has a regret that is not negative, and kept trials give the same result."""
    context = Context(quick=True, keep=tmp_path)
    result = run(context)
    assert all(len(row) == len(table.headings) for table in result.tables for row in table.rows)
    for found in result.data["summary"].values():
        for goal in GOALS:
            for stratum in STRATA:
                means = [found["regret"][goal][stratum][rule]["mean"] for rule in RULES]
                assert min(means) >= -1e-9
    assert run(context).data == result.data


def test_the_truth_agrees_with_held_out_auctions():
    """Win rates and costs over many held-out auctions are those computed, within chance."""
    traits = draw_traits(SMALL)
    truth, outcome = _truth(SMALL, traits), _held_out(SMALL, traits)
    device = _columns()["device"]
    won, spend = outcome.impressions[:, device], outcome.cost[:, device]
    enough = won > 300
    cost = truth.cost[:, device] / truth.impressions[:, device]
    np.testing.assert_allclose((1000 * spend / won)[enough], cost[enough], rtol=0.05)


def test_a_bid_below_the_floor_wins_nothing():
    """The floor is a reserve price."""
    traits = draw_traits(SMALL)
    won, cost = _auction(SMALL, traits, 0.5 * traits.floor, np.zeros((12, 1)))
    assert not won.any()
    assert not cost.any()
