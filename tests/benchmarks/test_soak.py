"""The soak of the service: a run of seconds, the mix of requests, and the trend of memory."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmark_results import check_result
from benchmarks.harness import Context
from benchmarks.soak import memory_trend, run
from benchmarks.soak.clients import quantiles
from coterie.ads.logs.simulation.simulated_traits import MarketSettings

SMALL = MarketSettings(
    advertisers=50, segments=3, days=4, bids_per_day=20.0, dimensions=2, newcomers=0.0, seed=3
)


def test_a_run_of_seconds_measures_everything():
    """Every sample is taken, all answers are right, and the service answers at the end."""
    result = run(
        Context(),
        seconds=8,
        requests_per_minute=600,
        reload_seconds=2.0,
        sample_seconds=1.0,
        market=SMALL,
    )
    check_result(result)
    found = json.loads(result.json_text())
    assert found["answers_at_the_end"]
    assert len(found["samples"]) == 8
    assert found["checked"]["faults"] == []


def test_trend_of_memory_is_the_planted_one():
    """The slope after the warm-up is found, with an interval that holds it."""
    rng = np.random.default_rng(0)
    times = np.arange(0, 3_600, 10)
    warm = np.where(times < 300, 50e6 * (1 - times / 300), 0.0)
    rows = [
        {"seconds": s, "resident": 3e8 + 2e6 * s / 3_600 - w + e}
        for s, w, e in zip(times, warm, rng.normal(0, 1e5, len(times)), strict=True)
    ]
    found = memory_trend(rows, 300.0)
    assert found["periods"] == 10
    assert found["slope"] == pytest.approx(2e6, rel=0.1)
    assert found["low"] < 2e6 < found["high"]
    assert memory_trend(rows[:5], 300.0)["slope"] is None


def test_quantiles_of_nothing_are_none():
    """A window without requests has no latency."""
    assert quantiles([]) == {"requests": 0, "p50": None, "p99": None, "slowest": None}
