"""Day levels: walk, weekdays and noise; the days to come; planted price levels are found again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.true_curves import day_shifts
from coterie.ads.curves.auction_counts import log_edges
from coterie.ads.curves.day_levels import (
    DayLevels,
    day_weights,
    fit_levels,
    level_curves,
    measured_levels,
    own_levels,
    price_levels,
    weekday_of,
)
from coterie.ads.logs.simulation.simulated_traits import draw_traits
from markets import EASY, FIRST_DAY, log_of, market

START_VARIANCE = 4.0


def levels_of(values, errors=1e-4, part=(0.02, 0.05, 0.03, 0.04), gaps=None):
    """Measured levels with one set of standard deviations, on consecutive days or others."""
    n = len(values)
    days = FIRST_DAY + (np.arange(n) if gaps is None else np.cumsum(gaps))
    return DayLevels(
        days.astype("datetime64[D]"),
        np.asarray(values, dtype=float),
        np.broadcast_to(np.asarray(errors, dtype=float), n),
        np.array([part]),
        np.ones(1),
    )


def by_regression(levels, wanted):
    """Mean and covariance of later days, from the parts as unknowns of a linear model.

    The unknowns are the level of the first day, the steps of the walk, the seven weekdays and the
    two kinds of days, all normal with known variances. Their posterior is that of a ridge
    regression.
    """
    walk, week, noise, kind = levels.parts[0]
    days = np.concatenate([levels.days, np.asarray(wanted, "datetime64[D]")])
    at = (days - days[0]).astype(int)
    # the walk goes from the first day both ways
    walked = [side >= np.arange(1, side.max() + 1) for side in (at[:, None], -at[:, None])]
    weekday = weekday_of(days)
    effects = np.eye(7)[weekday], np.eye(2)[(weekday >= 5).astype(int)]
    design = np.hstack([np.ones((len(at), 1)), *walked, *effects])
    n_steps = sum(side.shape[1] for side in walked)
    variance = np.repeat([START_VARIANCE, walk**2, week**2, kind**2], [1, n_steps, 7, 2])
    n = len(levels.days)
    seen, later = design[:n], design[n:]
    precision = seen.T @ np.diag(1 / (noise**2 + levels.errors)) @ seen + np.diag(1 / variance)
    centre = levels.values.mean()
    posterior = np.linalg.inv(precision)
    gap = (levels.values - centre) / (noise**2 + levels.errors)
    mean = centre + later @ posterior @ (seen.T @ gap)
    return mean, later @ posterior @ later.T + noise**2 * np.eye(len(later))


@settings(max_examples=40)
@given(
    st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=16),
    st.lists(st.integers(1, 3), min_size=16, max_size=16),
    st.tuples(*[st.floats(0.005, 0.3)] * 4),
    st.floats(1e-6, 0.1),
    st.lists(st.integers(1, 30), min_size=1, max_size=5, unique=True),
    st.integers(0, 3),
)
def test_other_days_are_conditioned_on_the_log(values, gaps, part, error, ahead, n_before):
    """Mean and covariance are those of a linear model with the parts as unknowns.

    Some of the days are before the log.
    """
    levels = levels_of(values, error, part, gaps[: len(values)])
    days = np.array(ahead)
    wanted = np.append(levels.days[0] - days[:n_before], levels.days[-1] + days[n_before:])
    mean, covariance = levels.ahead(wanted)
    expected, expected_covariance = by_regression(levels, wanted)
    np.testing.assert_allclose(mean, expected, atol=1e-7)
    np.testing.assert_allclose(covariance, expected_covariance, atol=1e-7)


def test_a_measured_level_varies_by_its_error_too():
    """One day ahead, the variance is that of the day's level plus the error of measuring it."""
    errors = np.array([0.01, 0.02, 0.03, 0.04])
    levels = levels_of([0.1, -0.2, 0.3, 0.0], errors)
    mean, variance = levels.one_day_ahead()
    assert np.isnan(mean[0]) and np.isnan(variance[0])
    for d in range(1, 4):
        before = levels_of([0.1, -0.2, 0.3, 0.0][:d], errors[:d])
        expected, covariance = by_regression(before, levels.days[d : d + 1])
        assert mean[d] == pytest.approx(expected[0])
        assert variance[d] == pytest.approx(covariance[0, 0] + errors[d])


def test_errors_of_measurement_are_no_variation_of_the_days():
    """Levels that vary as much as they are uncertain say that the days hardly differ."""
    values = 0.2 * np.random.default_rng(6).standard_normal(40)
    exact, uncertain = (
        fit_levels(FIRST_DAY + np.arange(40), values, np.full(40, error)) for error in (1e-6, 0.04)
    )
    noise = [float(levels.weights @ levels.parts[:, 2]) for levels in (exact, uncertain)]
    assert noise[0] == pytest.approx(0.2, abs=0.06) and noise[1] < 0.08


def test_several_sets_of_parts_are_a_mixture():
    """The mean of their means; the variance between them is added to that within them."""
    one, other = (
        levels_of([0.0, 0.3, -0.1], part=part) for part in ((0.1, 0, 0, 0), (0, 0.1, 0.2, 0))
    )
    parts = np.vstack([one.parts, other.parts])
    both = DayLevels(one.days, one.values, one.errors, parts, np.array([0.3, 0.7]))
    wanted = one.days[-1] + np.array([1, 4])
    (a, cov_a), (b, cov_b), (mean, covariance) = (
        levels.ahead(wanted) for levels in (one, other, both)
    )
    np.testing.assert_allclose(mean, 0.3 * a + 0.7 * b)
    between = 0.3 * np.outer(a - mean, a - mean) + 0.7 * np.outer(b - mean, b - mean)
    np.testing.assert_allclose(covariance, 0.3 * cov_a + 0.7 * cov_b + between)


@pytest.mark.parametrize("n", [1, 2, 5, 9, 30])
def test_covariances_are_valid_on_any_day(n):
    """Symmetric and positive, also of days before and in the log, and of days far away."""
    rng = np.random.default_rng(n)
    days = FIRST_DAY + np.arange(n)
    levels = fit_levels(days, 0.1 * rng.standard_normal(n), np.full(n, 1e-4))
    asked = [-40_000, -400, -1, 0, n - 1, n, n + 400, 3_000_000]
    mean, covariance = levels.ahead(FIRST_DAY + np.array(asked))
    assert np.isfinite(mean).all() and np.abs(mean).max() < 1
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-9)
    assert (covariance.diagonal() > 0).all()
    assert np.linalg.eigvalsh(covariance).min() > -1e-6 * covariance.max()


def test_a_weekday_that_was_not_seen_is_less_certain():
    """Of a log from Monday to Friday, the next Saturday less than the next Monday."""
    levels = fit_levels(FIRST_DAY + np.arange(5), [0.0, 0.02, -0.03, 0.01, 0.0], [1e-4] * 5)
    assert levels.has_weekday.tolist() == [True] * 5 + [False] * 2
    assert levels.weights.sum() == pytest.approx(1)
    _, covariance = levels.ahead(["2026-03-07", "2026-03-09"])
    assert covariance[0, 0] > covariance[1, 1]


def test_a_sunday_that_was_not_seen_is_like_the_saturday():
    """A log from Monday to Saturday; without Saturday nothing is known of the weekend."""
    days, values = FIRST_DAY + np.arange(6), np.array([0.01, 0.0, -0.01, 0.0, 0.01, -0.2])
    levels = fit_levels(days, values, np.full(6, 1e-5))
    [mean], [[variance]] = levels.ahead(["2026-03-08"])
    assert -0.21 < mean < -0.1 and variance > levels.ahead(["2026-03-14"])[1][0, 0]
    weekdays = fit_levels(days[:5], values[:5], np.full(5, 1e-5))
    assert weekdays.ahead(["2026-03-08"])[0][0] == pytest.approx(0.0, abs=0.02)


def test_four_weeks_of_a_pattern_are_found():
    """Each weekday is expected at its level."""
    pattern = np.array([0.1, 0.0, -0.05, 0.0, 0.1, -0.2, 0.05])
    days = FIRST_DAY + np.arange(3, 31)  # from a Thursday on
    rng = np.random.default_rng(0)
    values = pattern[weekday_of(days)] + 0.01 * rng.standard_normal(28)
    levels = fit_levels(days, values, np.full(28, 1e-4))
    mean, covariance = levels.ahead(levels.next_week())
    np.testing.assert_allclose(mean, pattern[weekday_of(levels.next_week())], atol=0.025)
    assert np.sqrt(covariance.diagonal()).max() < 0.04


def test_a_lasting_change_is_followed():
    """Levels that move and stay are a walk, which the last days decide."""
    values = np.repeat([0.0, 0.4], [14, 14])
    levels = fit_levels(FIRST_DAY + np.arange(28), values, np.full(28, 1e-4))
    mean, _ = levels.ahead(levels.days[-1] + np.arange(1, 8))
    np.testing.assert_allclose(mean, 0.4, atol=0.05)


def test_noise_alone_is_averaged():
    """Independent daily levels tell little of tomorrow's: the mean, with the noise's variance."""
    rng = np.random.default_rng(1)
    values = 0.05 * rng.standard_normal(60)
    levels = fit_levels(FIRST_DAY + np.arange(60), values, np.full(60, 1e-6))
    mean, covariance = levels.ahead(levels.days[-1] + np.arange(1, 8))
    assert np.abs(mean - values.mean()).max() < 0.03
    assert 0.04 < np.sqrt(covariance.diagonal()).min() < np.sqrt(covariance.diagonal()).max() < 0.08


def test_most_of_the_levels_to_come_lie_in_their_intervals():
    """Drawn from the model itself: about nine in ten standardised errors are below 1.645."""
    rng = np.random.default_rng(2)
    inside = []
    for _ in range(60):
        n = 12
        days = FIRST_DAY + np.arange(n + 1)
        parts = 0.015 * abs(rng.standard_normal()), 0.04 * abs(rng.standard_normal()), 0.03
        walk = np.cumsum(parts[0] * rng.standard_normal(n + 1))
        week = parts[1] * rng.standard_normal(7)
        values = walk + week[weekday_of(days)] + parts[2] * rng.standard_normal(n + 1)
        levels = fit_levels(days[:n], values[:n] + 0.01 * rng.standard_normal(n), [1e-4] * n)
        mean, covariance = levels.ahead(days[n:])
        inside.append(abs(values[n] - mean[0]) < 1.645 * np.sqrt(covariance[0, 0]))
    assert 0.82 < np.mean(inside) < 0.97


def test_a_typical_day_is_any_of_the_next_week():
    """Its mean is that of seven days, its variance that of a day whose weekday is unknown."""
    rng = np.random.default_rng(3)
    levels = fit_levels(FIRST_DAY + np.arange(20), 0.1 * rng.standard_normal(20), [1e-4] * 20)
    mean, covariance = levels.ahead(levels.days[-1] + np.arange(1, 8))
    typical, variance = levels.typical()
    assert typical == pytest.approx(mean.mean())
    draws = rng.multivariate_normal(mean, covariance, 40_000)
    one = draws[np.arange(40_000), rng.integers(0, 7, 40_000)]
    assert variance == pytest.approx(one.var(), rel=0.05)


def test_one_day_has_its_level_and_wide_intervals():
    """The walk, the weekdays and the noise are those of the priors."""
    levels = fit_levels([FIRST_DAY], [0.3], [1e-4], scales=(0.02, 0.15, 0.05))
    mean, covariance = levels.ahead(levels.days[-1] + np.arange(1, 8))
    np.testing.assert_allclose(mean, 0.3, atol=1e-6)
    assert 0.05 < np.sqrt(covariance[0, 0]) < 0.4


def test_only_the_last_days_of_a_long_log_are_used():
    """Twelve weeks; a level of the distant past changes nothing."""
    days = FIRST_DAY + np.arange(100)
    rng = np.random.default_rng(5)
    values = 0.05 * rng.standard_normal(100)
    levels = fit_levels(days, values, np.full(100, 1e-4))
    assert len(levels.days) == len(levels.values) == 84 and levels.days[-1] == days[-1]
    values[:16] += 9.0
    again = fit_levels(days, values, np.full(100, 1e-4))
    np.testing.assert_array_equal(again.weights, levels.weights)


@settings(max_examples=20)
@given(st.dates())
def test_weekdays_are_those_of_the_calendar(day):
    """Monday is 0."""
    assert weekday_of([day.isoformat()]).tolist() == [day.weekday()]


@given(st.integers(1, 40), st.floats(0.1, 50))
def test_a_day_loses_half_its_weight_in_a_half_life(n_days, half_life):
    """The last day has weight 1, and so has every day if the half-life is infinite."""
    days = FIRST_DAY + np.arange(n_days)
    found = day_weights(days, half_life)
    assert found[-1] == 1.0
    np.testing.assert_allclose(found[:-1] / found[1:], 0.5 ** (1 / half_life))
    assert day_weights(days, np.inf).tolist() == [1.0] * n_days


def test_ages_are_in_days_of_the_calendar():
    """A gap in the log counts."""
    days = np.array(["2026-03-02", "2026-03-05", "2026-03-06"], "datetime64[D]")
    np.testing.assert_allclose(day_weights(days, 1.0), [2.0**-4, 2.0**-1, 1.0])


@settings(max_examples=10)
@given(st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=8), st.floats(-5, 5))
def test_a_common_change_of_all_levels_moves_the_forecast(values, change):
    """Levels are relative: nothing else changes."""
    days, error = FIRST_DAY + np.arange(len(values)), np.full(len(values), 1e-3)
    one = fit_levels(days, values, error)
    other = fit_levels(days, np.array(values) + change, error)
    wanted = days[-1] + np.arange(1, 4)
    np.testing.assert_allclose(other.ahead(wanted)[0], one.ahead(wanted)[0] + change, atol=1e-6)
    np.testing.assert_allclose(other.ahead(wanted)[1], one.ahead(wanted)[1], atol=1e-6)


KINDS = {
    "second price": {},
    "first price": {"auction": "first"},
    "minimum logged": {"minimum_logged": True},
}
MOVING = replace(EASY, advertisers=120, bids_per_day=40, days=9, price_rise=0.26, newcomers=0.0)


def true_levels(settings):
    """The planted level of each day, relative to their mean."""
    shifts = day_shifts(settings, draw_traits(settings)).mean(axis=1)
    return shifts - shifts.mean()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rise", [0.26, -0.4])
def test_planted_levels_are_found(kind, rise):
    """A rise or fall of all prices on the last days, and weekdays, within a few errors."""
    chosen = replace(MOVING, price_rise=rise, **KINDS[kind])
    found = price_levels(market(chosen).histograms, list(range(9)))
    truth = true_levels(chosen)
    gap = found.values - found.values.mean() - truth
    error = np.sqrt(found.errors)
    assert np.ptp(truth) > abs(rise) and error.max() < 0.03
    # besides chance, advertisers' own drifts and the shape of the curves
    assert (np.abs(gap) < 4 * error + 0.015).all()
    assert np.abs(gap).mean() < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_levels_are_those_of_the_likelihood(kind):
    """The inverse of its curvature, from the definition, cell by cell."""
    log = market(replace(MOVING, days=3, **KINDS[kind])).histograms
    levels, errors = measured_levels(log, [0, 1, 2])
    curves, x = level_curves(log, [0, 1, 2], levels), log_edges(log.edges)

    def log_likelihood(day, level):
        def curve(cells, side):
            used = cells.day == day
            at = zip(cells.advertiser[used], cells.bin[used], strict=True)
            return np.array([np.interp(x[g + side] - level, x, curves[a]) for a, g in at])

        bids, prices = (cells.day == day for cells in (log.bids, log.prices))
        middle = np.clip((curve(log.bids, 0) + curve(log.bids, 1)) / 2, 1e-7, 1 - 1e-7)
        wins, total = log.bids.wins[bids], 0.0
        if log.revealed != "minimum":
            total += (log.bids.count[bids] - wins) @ np.log1p(-middle)
        if log.revealed == "none":
            return total + wins @ np.log(middle)
        mass = np.maximum(curve(log.prices, 1) - curve(log.prices, 0), 1e-7)
        return total + log.prices.count[prices] @ np.log(mass)

    for day in range(3):
        below, here, above = (log_likelihood(day, levels[day] + step) for step in (-0.03, 0, 0.03))
        assert errors[day] == pytest.approx(0.03**2 / (2 * here - below - above), rel=0.1)


def test_levels_are_relative_to_their_mean():
    """Days count by what is known of them."""
    found = price_levels(market(MOVING).histograms, [1, 3, 6])
    assert len(found.values) == 3
    np.testing.assert_array_equal(found.days, market(MOVING).histograms.days[[1, 3, 6]])
    assert np.average(found.values, weights=1 / found.errors) == pytest.approx(0, abs=1e-3)


def test_later_days_change_nothing():
    """The levels of some days are those of a log of these days alone."""
    log = market(MOVING).histograms
    of_some, alone = price_levels(log, [0, 1, 2]), price_levels(log.for_days([0, 1, 2]), [0, 1, 2])
    np.testing.assert_allclose(of_some.values, alone.values, atol=1e-12)
    np.testing.assert_allclose(of_some.errors, alone.errors, rtol=1e-9)


def test_one_day_has_level_zero():
    """There is nothing to compare it with."""
    found = price_levels(market(MOVING).histograms, [4])
    assert found.values.tolist() == [0.0]


def test_a_day_with_hardly_any_auctions_has_a_large_error():
    """It is at most that of an unknown level, and it does not move the other days."""
    log = market(replace(MOVING, days=3, price_rise=0.0)).histograms

    def thinned(cells):
        kept = (cells.day != 1) | (cells.advertiser == 0)
        return type(cells)(**{name: part[kept] for name, part in vars(cells).items()})

    thin = replace(log, bids=thinned(log.bids), prices=thinned(log.prices))
    found, full = price_levels(thin, [0, 1, 2]), price_levels(log, [0, 1, 2])
    assert found.errors[1] > 20 * full.errors[1] and found.errors[1] <= 0.26
    np.testing.assert_allclose(
        np.diff(found.values[[0, 2]]), np.diff(full.values[[0, 2]]), atol=0.01
    )


@pytest.mark.parametrize("won", [True, False])
def test_logs_that_tell_nothing_of_levels(won):
    """If all bids won or all were lost at one amount, all levels are 0."""
    log = log_of(
        bid=np.full(12, 2_000_000),
        won=won,
        price=2_000_000,
        advertiser=np.arange(12) % 3,
        day=np.arange(12) // 4,
        edges=[2_000_000],
    )
    found = price_levels(log, [0, 1, 2])
    np.testing.assert_allclose(found.values, 0, atol=1e-9)
    assert np.isfinite(found.errors).all() and (found.errors > 0).all()


def test_advertisers_that_come_and_go_do_not_move_levels():
    """An expensive advertiser that bids on the last day only does not change prices."""
    log = market(replace(MOVING, days=4, price_rise=0.0, weekday_effect=0.0)).histograms
    expensive = np.argsort(
        log.dense().price.sum(axis=1) / np.maximum(log.dense().prices.sum(axis=1), 1)
    )
    late = expensive[-40:]

    def without(cells):
        kept = (cells.day == 3) | ~np.isin(cells.advertiser, late)
        return type(cells)(**{name: part[kept] for name, part in vars(cells).items()})

    changed = replace(log, bids=without(log.bids), prices=without(log.prices))
    found = price_levels(changed, [0, 1, 2, 3])
    assert abs(found.values[3] - found.values[:3].mean()) < 0.04


def test_a_common_weight_of_all_rows_changes_nothing():
    """A sample of one row in ten tells as much as it has rows."""
    made = market(replace(MOVING, days=3))
    names = [f"adv-{i:05d}" for i in range(120)]
    plain, weighted = (
        price_levels(
            log_of(**made.rows, edges=made.histograms.edges, names=names, weight=weight), [0, 1, 2]
        )
        for weight in (1.0, 10.0)
    )
    np.testing.assert_allclose(weighted.values, plain.values, atol=1e-9)
    np.testing.assert_allclose(weighted.errors, plain.errors, rtol=1e-9)


STEADY = replace(
    EASY,
    advertisers=40,
    days=6,
    bids_per_day=400,
    volume_spread=0.3,
    bid_move=0.0,
    newcomers=0.0,
    weekday_effect=0.0,
)


@pytest.mark.parametrize("kind", KINDS)
def test_own_levels_of_periods_find_a_planted_rise(kind):
    """Prices that rise by 20% on the last four days raise every own level by about 0.18.

    At the highest likelihood, the scores of the days and of the prior cancel.
    """
    log = market(replace(STEADY, price_rise=0.18, **KINDS[kind])).histograms
    curves = level_curves(log, list(range(6)), np.zeros(6))
    found = [
        own_levels(log, curves, np.zeros(6), np.array(days)) for days in ([0, 1], [2, 3, 4, 5])
    ]
    (before, known, _), (after, known_later, _) = found
    error = np.sqrt(1 / known + 1 / known_later)
    assert np.median(after - before) == pytest.approx(0.18, abs=0.02)
    assert np.median(np.abs(after - before - 0.18) / error) < 1.5
    for level, information, score in found:
        slope = score.sum(axis=1) - level / 0.25
        assert (np.abs(slope) < 0.2 * np.sqrt(information)).all()


def test_own_levels_are_beyond_the_common_ones():
    """A common level of the days takes its part; without auctions the prior decides."""
    log = market(replace(STEADY, price_rise=0.18)).histograms
    curves, days = level_curves(log, list(range(6)), np.zeros(6)), np.array([2, 3, 4, 5])
    (level, *_), (rest, *_) = (
        own_levels(log, curves, np.full(6, common), days) for common in (0.0, 0.18)
    )
    np.testing.assert_allclose(level - rest, 0.18, atol=0.02)
    absent = replace(log, bids=none_of(log.bids), prices=none_of(log.prices))
    level, information, _ = own_levels(absent, curves, np.zeros(6), days)
    np.testing.assert_allclose(level, 0.0, atol=1e-12)
    np.testing.assert_allclose(information, 4.0)


def none_of(cells):
    """No cells."""
    return type(cells)(**{name: part[:0] for name, part in vars(cells).items()})
