"""The soak of the service: the trend of memory."""

import numpy as np
import pytest

from benchmarks.soak import memory_trend


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
