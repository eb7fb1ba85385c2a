"""Model warnings: what a user should know before trusting forecasts."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ads.curves.day_levels import fit_levels, weekday_of
from coterie.ads.fitting.model_warnings import model_warnings, price_drift
from coterie.ads.forecasts.calibration import calibrate, normal_calibration
from coterie.ads.forecasts.fitted_market import Choice
from markets import FIRST_DAY

NAN = float("nan")
WEEK = np.array([0.0, 0.01, 0.02, 0.01, 0.0, -0.05, -0.06])


def levels_of(values):
    """Measured levels of consecutive days."""
    return fit_levels(FIRST_DAY + np.arange(len(values)), values, np.full(len(values), 1e-5))


def choice_with(bias=0.0, bias_error=0.01):
    """A choice whose backtest had this bias."""
    return Choice(8, 100.0, np.inf, 0.2, bias, bias_error, 2)


def steady(n):
    """Levels that only weekdays and a little noise move."""
    rng = np.random.default_rng(n)
    return WEEK[weekday_of(FIRST_DAY + np.arange(n))] + 0.01 * rng.standard_normal(n)


@pytest.mark.parametrize(("change", "at"), [(0.26, 3), (-0.35, 7), (0.8, 11)])
def test_a_lasting_change_is_found_with_its_day_and_size(change, at):
    """Of two weeks, over the weekdays; the sentence tells both."""
    found = price_drift(levels_of(steady(14) + np.where(np.arange(14) < at, 0, change)))
    assert found.since == str(FIRST_DAY + np.timedelta64(at, "D"))
    assert np.log1p(found.change) == pytest.approx(change, abs=0.06)
    assert f"{'rose' if change > 0 else 'fell'} by" in found.sentence
    assert found.since in found.sentence


@pytest.mark.parametrize("n", [1, 4, 7, 28])
def test_weekdays_and_noise_are_no_change(n):
    """However many days there are."""
    assert price_drift(levels_of(steady(n))) is None


@pytest.mark.parametrize("at", [5, 13])
def test_a_single_day_is_no_lasting_change(at):
    """Not in the middle, nor at the end, where it may yet last."""
    values = steady(14)
    values[at] += 0.5
    assert price_drift(levels_of(values)) is None


def test_small_changes_are_not_worth_a_warning():
    """Below a tenth."""
    assert price_drift(levels_of(np.repeat([0.0, 0.08], 7))) is None
    assert price_drift(levels_of(np.repeat([0.0, 0.12], 7))) is not None


def test_a_good_model_has_no_warnings():
    """Nor has one without a backtest."""
    assert model_warnings(levels_of(steady(9)), choice_with(), normal_calibration()) == []
    untried = Choice(8, 100.0, np.inf, NAN, NAN, NAN, 0)
    assert model_warnings(levels_of([0.0]), untried, normal_calibration()) == []


@pytest.mark.parametrize(
    ("bias", "error", "said"),
    [
        (0.2, 0.01, "20.0% above"),
        (-0.2, 0.01, "20.0% below"),
        (0.2, 0.08, None),
        (0.05, 0.001, None),
        (-0.05, 0.001, None),
    ],
)
def test_a_large_bias_gives_a_warning(bias, error, said):
    """If it is above a tenth and above three standard errors."""
    found = model_warnings(levels_of(steady(9)), choice_with(bias, error), normal_calibration())
    if said is None:
        assert found == []
    else:
        [sentence] = found
        assert said.replace(".0%", "") in sentence.replace(".0%", "")


def test_a_drift_explains_a_bias():
    """One sentence, of the drift."""
    levels = levels_of(np.repeat([0.0, 0.4], 7))
    [sentence] = model_warnings(levels, choice_with(0.3), normal_calibration())
    assert sentence.startswith("prices rose by 49")


def test_intervals_that_had_to_be_widened_give_a_warning():
    """With the factor."""
    wide = 3 * np.random.default_rng(0).standard_normal(3000)
    calibration = calibrate([(np.geomspace(1, 1e4, 3000), wide)] * 8)
    [sentence] = model_warnings(levels_of(steady(9)), choice_with(), calibration)
    assert f"a factor of {calibration.inflation:.1f}" in sentence and calibration.inflation > 2
