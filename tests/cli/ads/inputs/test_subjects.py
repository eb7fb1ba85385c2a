"""Tests of what all commands share that ask a model: options and tables of answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np

from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.forecasts.forecast_figures import MOST_DAYS
from coterie.cli.ads.inputs import subjects
from coterie.cli.ads.inputs.subjects import columns_of


def test_intervals_are_two_columns_and_none_is_nan():
    """Columns are in the order of the fields; a missing interval has no ends."""

    @dataclass
    class Row:
        name: str
        clicks: float | None
        clicks_interval: tuple[float, float] | None

    columns = columns_of([Row("a", 1.0, (0.0, 2.0)), Row("b", None, None)])
    assert list(columns) == ["name", "clicks", "clicks_low", "clicks_high"]
    assert columns["name"].tolist() == ["a", "b"]
    expected = [[1.0, np.nan], [0.0, np.nan], [2.0, np.nan]]
    np.testing.assert_array_equal([columns[name] for name in list(columns)[1:]], expected)


def test_options_have_the_limits_of_questions():
    """The number of days and the levels are those of every forecast."""
    assert get_args(subjects.Days)[1].max == MOST_DAYS
    levels = get_args(get_args(subjects.Level)[0])
    assert levels == tuple(f"{100 * level:.0f}" for level in LEVELS)
