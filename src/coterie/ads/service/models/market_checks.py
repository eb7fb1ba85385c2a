"""Checks of what forecasts are made from: curves, day levels, supply, calibration, choice.

They look at the attributes of a model that fitting the market gives. All raise a
:class:`~coterie.errors.ModelFileError` that names what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.ads.curves.day_levels import DayLevels
from coterie.ads.curves.supply import Supply
from coterie.ads.forecasts.calibration import LEVELS, TARGETS, Calibration
from coterie.ads.forecasts.fitted_market import Choice, FittedMarket
from coterie.ads.forecasts.forecast_kernels import SIZES
from coterie.ads.histograms.stored_days import StoredDays
from coterie.ads.service.models.value_checks import (
    MOST,
    check_days,
    check_number,
    check_numbers,
    check_text,
    is_number,
    require,
)

__all__ = ["MARKET_CHECKS"]

_MOST_SUPPLY = 1e15
_WEEKDAYS, _MOST_WEEKDAY = 7, 1e3
_MOST_VARIANCE = 1e6
_MOST_STRENGTH = 1e100
#: Curves may fall by what rounding does.
_ROUNDING = 1e-6
_LAST_DIGIT = 1e-12
_ROWS_AT_ONCE = 4_096
_MOST_PARTS = 10_000
_MOST_DAYS = 400
#: Bounds of a log level and of its standard deviations; e^40 is more than any market moves.
_MOST_LEVEL, _MOST_DEVIATION = 40.0, 100.0
_LEAST_ERROR = 1e-9
_MOST_FACTOR = 100.0
_MOST_WARNINGS, _MOST_WARNING = 100, 1_000


def check_curves(model: FittedMarket) -> None:
    """Check the curves of advertisers and segments, and their standard deviations."""
    A, G, K = len(model.advertisers_), len(model.edges_), len(model.segments_)
    for name in ("win_", "spread_"):
        check_numbers(name, getattr(model, name), (A, G), most=1.0, kind=np.float32)
    for name in ("segment_win_", "segment_spread_"):
        check_numbers(name, getattr(model, name), (K + 1, G), most=1.0, slack=_LAST_DIGIT)
    _check_rising("win_", model.win_)
    _check_rising("segment_win_", model.segment_win_)


def check_price_levels(model: FittedMarket) -> None:
    """Check the levels of prices."""
    _check_levels("price_levels_", model.price_levels_)


def check_supply(model: FittedMarket) -> None:
    """Check the auctions to expect, and how uncertain they are."""
    supply, A = model.supply_, (len(model.advertisers_),)
    require(isinstance(supply, Supply), "supply_ must be a supply")
    check_numbers("supply_.level", supply.level, A, most=_MOST_SUPPLY)
    check_numbers("supply_.error", supply.error, A, most=_MOST_VARIANCE)
    check_numbers("supply_.variation", supply.variation, A, most=_MOST_VARIANCE)
    check_numbers("supply_.weekday", supply.weekday, (*A, _WEEKDAYS), most=_MOST_WEEKDAY)
    _check_levels("supply_.factors", supply.factors)
    _check_half_life("supply_.half_life", supply.half_life)


def check_calibration(model: FittedMarket) -> None:
    """Check the factors of intervals."""
    calibration = model.calibration_
    require(isinstance(calibration, Calibration), "calibration_ must be a calibration")
    shape = (len(LEVELS), 2, len(TARGETS), 2, len(SIZES))
    check_numbers("calibration_.factors", calibration.factors, shape, most=_MOST_FACTOR)
    check_number("calibration_.forecasts", calibration.forecasts)


def check_choice(model: FittedMarket) -> None:
    """Check what the backtest chose."""
    choice = model.choice_
    require(isinstance(choice, Choice), "choice_ must be a choice of settings")
    strength = choice.strength
    require(
        is_number(strength) and (0 <= strength <= _MOST_STRENGTH or strength == np.inf),
        f"choice_.strength must be a number from 0 to {_MOST_STRENGTH:g}, or infinite",
    )
    _check_half_life("choice_.half_life", choice.half_life)
    for name in ("error", "bias", "bias_error"):
        value = getattr(choice, name)
        known = is_number(value) and not abs(value) > MOST  # it is NaN without a backtest
        require(known, f"choice_.{name} must be a number, or NaN")
    for name in ("n_segments", "days"):
        check_number(f"choice_.{name}", getattr(choice, name))


def check_warnings(model: FittedMarket) -> None:
    """Check the sentences about the model."""
    said = model.warnings_
    require(
        isinstance(said, list) and len(said) <= _MOST_WARNINGS,
        f"warnings_ must be a list of at most {_MOST_WARNINGS} texts",
    )
    for sentence in said:
        check_text("a text of warnings_", sentence, _MOST_WARNING)


def check_stored_days(model: FittedMarket) -> None:
    """Check the kind of the stored days; the service does not read them."""
    stored = model.stored_days_
    require(stored is None or isinstance(stored, StoredDays), "stored_days_ must be stored days")


#: In the order in which they need each other.
MARKET_CHECKS = (
    check_curves,
    check_choice,
    check_price_levels,
    check_supply,
    check_calibration,
    check_warnings,
    check_stored_days,
)


def _check_rising(name: str, curves: Any) -> None:
    """Refuse curves, (A, G), that fall along the grid; few at a time, which takes little memory."""
    for first in range(0, len(curves), _ROWS_AT_ONCE):
        some = curves[first : first + _ROWS_AT_ONCE]
        rising = bool((some[:, 1:] >= some[:, :-1] - _ROUNDING).all())
        require(rising, f"{name} must not fall along the grid")


def _check_levels(name: str, levels: Any) -> None:
    require(isinstance(levels, DayLevels), f"{name} must be levels of days")
    check_days(f"{name}.days", levels.days)
    n = levels.days.shape
    require(n[0] <= _MOST_DAYS, f"{name}.days must be at most {_MOST_DAYS}")
    check_numbers(f"{name}.values", levels.values, n, -_MOST_LEVEL, _MOST_LEVEL)
    check_numbers(f"{name}.errors", levels.errors, n, _LEAST_ERROR, _MOST_VARIANCE)
    weights = levels.weights
    require(
        isinstance(weights, np.ndarray) and weights.ndim == 1 and 0 < weights.size <= _MOST_PARTS,
        f"{name}.weights must be an array of 1 to {_MOST_PARTS:,} numbers",
    )
    check_numbers(f"{name}.weights", weights, weights.shape, most=1.0, slack=_LAST_DIGIT)
    require(abs(weights.sum() - 1) <= _ROUNDING, f"{name}.weights must sum to 1")
    check_numbers(f"{name}.parts", levels.parts, (weights.size, 3), most=_MOST_DEVIATION)
    mean, covariance = levels.ahead(levels.days[-1] + np.arange(1, _WEEKDAYS + 1))
    within = bool((np.abs(mean) <= 2 * _MOST_LEVEL).all() and np.isfinite(covariance).all())
    require(within, f"{name} must give levels between −{2 * _MOST_LEVEL:g} and {2 * _MOST_LEVEL:g}")


def _check_half_life(name: str, value: Any) -> None:
    # one of numpy's could not be written as JSON
    known = type(value) in (int, float) and value > 0
    require(known, f"{name} must be a plain number above 0, or infinite")
