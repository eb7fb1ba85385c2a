"""Simulated dimensions follow their effects and change nothing else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest

from coterie.ads.logs.simulation.simulated_dimensions import DIMENSIONS, draw_effects, draw_values
from coterie.ads.logs.simulation.simulated_logs import auction_batches, simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings, draw_traits
from coterie.errors import InvalidParameterError

SMALL = MarketSettings(advertisers=30, segments=3, days=1, bids_per_day=100)


def rows_of(settings: MarketSettings) -> dict:
    """All auctions of the first day."""
    [batch] = auction_batches(settings, draw_traits(settings), 0, rows=10**9)
    return batch


def test_averages_over_values_stay_as_they_were():
    """Shares sum to 1, shifts have the mean 0 and factors the mean 1 for every advertiser."""
    for one in draw_effects(np.arange(50) % 7, 3, seed=4):
        assert one.values == DIMENSIONS[one.name]
        np.testing.assert_allclose(one.share.sum(axis=1), 1)
        np.testing.assert_allclose((one.share * one.shift).sum(axis=1), 0, atol=1e-12)
        for factor in (one.click, one.conversion):
            np.testing.assert_allclose((one.share * factor).sum(axis=1), 1)


def test_values_are_drawn_by_their_shares():
    """The values of many auctions of an advertiser have its shares, within chance."""
    effects = draw_effects(np.array([0, 1]), 2, seed=0)
    drawn = draw_values(effects, np.ones(40_000, dtype=int), np.random.default_rng(1))
    for one in effects:
        share = np.bincount(drawn.codes[one.name], minlength=len(one.values)) / 40_000
        np.testing.assert_allclose(share, one.share[1], atol=0.01)
    device, country = effects
    expected = device.shift[1, drawn.codes["device"]] + country.shift[1, drawn.codes["country"]]
    np.testing.assert_allclose(drawn.shift, expected)


def test_dimensions_change_prices_and_events_alone():
    """Bids, times and advertisers of a log are the same with dimensions and without."""
    plain, divided = rows_of(SMALL), rows_of(dataclasses.replace(SMALL, dimensions=3))
    for name in ("advertiser", "bid", "ts"):
        np.testing.assert_array_equal(plain[name], divided[name])
    assert (plain["minimum"] != divided["minimum"]).any()
    assert divided.keys() - plain.keys() == set(DIMENSIONS)


def test_the_log_has_columns_and_the_truth_has_effects(tmp_path):
    """The files have the values as text, and one row for each advertiser and value."""
    made = simulate_logs(dataclasses.replace(SMALL, dimensions=2), tmp_path / "market")
    log = pq.read_table(made.bids[0])
    assert set(log["country"].to_pylist()) <= set(DIMENSIONS["country"])
    truth = pq.read_table(tmp_path / "market" / "true_targets.parquet")
    assert truth.num_rows == 30 * (4 + 8)
    assert "slot" not in log.column_names


@pytest.mark.parametrize("number", [-1, 4, 1.5])
def test_a_wrong_number_of_dimensions_is_refused(number):
    """There are 0 to 3 dimensions."""
    with pytest.raises(InvalidParameterError, match="dimensions"):
        MarketSettings(dimensions=number)
