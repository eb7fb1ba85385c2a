"""Settings of a market, and the traits that are drawn from them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from coterie.ads.logs.simulation import simulated_traits
from coterie.ads.logs.simulation.simulated_logs import auction_batches, draw_day, simulate_logs
from coterie.ads.logs.simulation.simulated_traits import (
    COMMON_WORDS,
    DIMENSIONS,
    THEMES,
    MarketSettings,
    draw_effects,
    draw_traits,
    draw_values,
    in_micros,
    theme_names,
)
from coterie.errors import InvalidParameterError


@pytest.mark.parametrize("name", ["advertisers", "segments", "days", "seed"])
def test_counts_must_be_whole_numbers(name):
    """Other values of a count are refused, and the message names the setting."""
    for value in (-1, 2.0, "3", True, None, float("nan")):
        with pytest.raises(InvalidParameterError, match=rf"{name}=.*whole number"):
            MarketSettings(**{name: value})


@pytest.mark.parametrize(
    "name",
    [
        *("text_error", "text_missing", "outliers", "newcomers"),
        *("bid_move", "volume_spread", "within_segment", "bids_per_day"),
        *("weekday_effect", "own_weekdays", "young"),
    ],
)
def test_numbers_are_within_their_range(name):
    """NaN, infinities, words and numbers out of range are refused by name."""
    for value in (-0.1, 50_001, float("nan"), float("inf"), "0.5", True, None):
        with pytest.raises(InvalidParameterError, match=rf"{name}=.*from .* to "):
            MarketSettings(**{name: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"auction": "third"}, "auction='third'.*'first' or 'second'"),
        *(({"dimensions": n}, "dimensions=") for n in (-1, 4, 1.5)),
        ({"floors": 1}, "floors=1.*True or False"),
        ({"minimum_logged": "no"}, "minimum_logged='no'.*True or False"),
        ({"advertisers": 3, "segments": 4}, "segments=4.*advertisers, 3"),
        ({"price_rise": -2.1}, "price_rise=-2.1.*from -2 to 2"),
        ({"price_rise": 2.1}, "price_rise=2.1.*from -2 to 2"),
        ({"price_rise": float("nan")}, "price_rise=nan.*from -2 to 2"),
        ({"start": "9999-12-30", "days": 2}, "days=2.*9999"),
        *(
            ({"start": start}, "start=.*2026-03-02")
            for start in ("2026-3-2", "20260302", "2026-02-30", "today", "NaT", "", None, 7)
        ),
    ],
)
def test_other_settings_are_checked(changes, message):
    """Wrong choices, switches and dates are refused with the allowed values."""
    with pytest.raises(InvalidParameterError, match=message):
        MarketSettings(**changes)


def test_numbers_of_numpy_become_plain():
    """NumPy scalars become Python numbers, so that settings can be written as JSON."""
    taken = MarketSettings(advertisers=np.int32(20), outliers=np.float32(0.5), bids_per_day=7)
    types = [type(value) for value in (taken.advertisers, taken.outliers, taken.bids_per_day)]
    assert types == [int, float, float]


@settings(deadline=None, max_examples=20)
@given(median=st.floats(0.001, 50_000), spread=st.floats(0.05, 5))
def test_expected_volume_is_the_integral(median, spread):
    """The closed form of the mean volume equals quadrature of the clipped log-normal density."""
    one = MarketSettings(
        advertisers=1, segments=1, days=1, newcomers=0, bids_per_day=median, volume_spread=spread
    )
    kinks = np.clip(np.log(np.array([5, 50_000]) / median) / spread, -9, 9)
    mean, _ = integrate.quad(
        lambda z: np.clip(median * np.exp(spread * z), 5, 50_000) * stats.norm.pdf(z),
        *(-10, 10),
        points=kinks,
        limit=200,
    )
    assert one.expected_rows == pytest.approx(mean, rel=1e-6, abs=0.51)


def test_expected_rows_follow_weekdays_and_newcomers():
    """With equal volumes, a day has volume × weekday factor × number of bidders rows."""
    # Saturday, Sunday, Monday; 30 of 100 bid on Monday only
    week_end = MarketSettings(
        advertisers=100,
        days=3,
        start="2026-03-07",
        newcomers=0.3,
        bids_per_day=200,
        volume_spread=0,
    )
    assert week_end.expected_rows == round(200 * (70 * 0.85 + 70 * 0.8 + 100 * 1.0))


def test_expected_rows_follow_the_weekday_effect():
    """Factors are raised to the effect: 0 gives equal days, 2 squared factors."""
    for effect in (0, 0.5, 1, 2):
        rows = [
            MarketSettings(
                bids_per_day=1000, days=1, start=f"2026-03-{2 + day:02}", weekday_effect=effect
            ).expected_rows
            for day in range(7)
        ]
        factors = simulated_traits.SUPPLY_BY_WEEKDAY**effect
        np.testing.assert_allclose(rows, rows[0] * factors, atol=1)


def test_young_advertisers_have_days_of_three_kinds():
    """A third each of 1, 2 to 6 and 7 to 13 days before the last; a short log has them from 0."""
    traits = draw_traits(MarketSettings(advertisers=620, days=22, young=0.5, newcomers=0.0))
    seen = 21 - traits.first_day
    young = seen[seen < 21]
    assert len(young) == 310 and (np.bincount(young)[2:7] > 15).all()
    for low, high in ((1, 1), (2, 6), (7, 13)):
        assert ((young >= low) & (young <= high)).sum() in {103, 104}
    short = draw_traits(MarketSettings(advertisers=60, days=4, young=1.0))
    assert short.first_day.min() == 0 and short.first_day[~short.newcomer].max() == 2


def test_own_weekdays_and_young_advertisers_change_no_other_trait():
    """Own factors have the mean 1 and the deviation asked for; rows are as many as expected."""
    plain = MarketSettings(advertisers=400, segments=4, days=9, volume_spread=0.2)
    asked = dataclasses.replace(plain, own_weekdays=0.3, young=0.5)
    one, other = draw_traits(plain), draw_traits(asked)
    for name in (field.name for field in dataclasses.fields(one)):
        if name not in {"weekday", "first_day", "effects"}:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.weekday == 1).all() and not one.first_day.any()
    np.testing.assert_allclose(other.weekday.mean(axis=1), 1.0)
    # less the mean, which is of the same seven
    assert np.log(other.weekday).std(axis=1, ddof=1).mean() == pytest.approx(0.3, rel=0.1)
    days = [draw_day(asked, other, day).counts for day in range(9)]
    assert np.sum(days) == pytest.approx(asked.expected_rows, rel=0.03)
    assert not np.stack(days, axis=1)[np.arange(9) < other.first_day[:, None]].any()


def test_shares_are_exact():
    """The numbers of outliers, newcomers and missing texts are exactly their shares."""
    drawn = draw_traits(
        MarketSettings(advertisers=300, outliers=0.1, newcomers=0.2, text_missing=0.3)
    )
    assert (drawn.outlier.sum(), drawn.newcomer.sum()) == (30, 60)
    assert (drawn.text_is == "missing").sum() == 90
    assert ((drawn.text == "") == (drawn.text_is == "missing")).all()


def test_wrong_texts_are_binomial():
    """The share of wrong texts is the error rate within four standard errors."""
    drawn = draw_traits(MarketSettings(advertisers=4000, text_error=0.3, text_missing=0.25))
    assert abs((drawn.text_is == "wrong").sum() - 900) <= 4 * np.sqrt(3000 * 0.3 * 0.7)


def test_texts_use_words_of_their_theme():
    """A right text has words of its segment's theme, a wrong one those of another theme."""
    drawn = draw_traits(MarketSettings(advertisers=600, segments=14, text_error=0.4))
    common = set(COMMON_WORDS.split())
    words_of = _vocabularies(14)
    for segment, kind, text in zip(drawn.segment, drawn.text_is, drawn.text, strict=True):
        themed = set(text.split()) - common
        own = themed <= words_of[segment]
        other = any(themed <= words for s, words in enumerate(words_of) if s != segment)
        assert {"right": own, "wrong": other, "missing": text == ""}[kind]
        assert 6 <= len(text.split()) <= 14 or kind == "missing"


def test_one_segment_has_no_wrong_texts():
    """With one segment no text can be of another."""
    drawn = draw_traits(MarketSettings(advertisers=40, segments=1, text_error=1))
    assert set(drawn.text_is) == {"right", "missing"}


def test_segments_have_equal_size_and_one_market():
    """Sizes differ by at most one; members share a market, and each outlier has another."""
    drawn = draw_traits(MarketSettings(advertisers=203, within_segment=0, outliers=0.1))
    assert np.ptp(np.bincount(drawn.segment)) <= 1
    for segment in range(10):
        level = drawn.market_level[(drawn.segment == segment) & ~drawn.outlier]
        assert (level == level[0]).all()
    assert len(np.unique(drawn.market_level, axis=0)) == 10 + drawn.outlier.sum()


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 2**64),
    spread=st.floats(0, 5),
    move=st.floats(0, 5),
    within=st.floats(0, 2),
    floors=st.booleans(),
)
def test_traits_keep_their_limits(seed, spread, move, within, floors):
    """Volumes, moves, shares and floors are within their limits for any settings."""
    drawn = draw_traits(
        MarketSettings(
            advertisers=60,
            seed=seed,
            volume_spread=spread,
            bid_move=move,
            within_segment=within,
            floors=floors,
        )
    )
    assert drawn.volume.min() >= 5
    assert drawn.volume.max() <= 50_000
    assert np.abs(drawn.moved).max() <= move
    np.testing.assert_allclose(drawn.market_share.sum(axis=1), 1)
    assert (drawn.floor > 0).all() if floors else (drawn.floor == 0).all()
    assert (drawn.click_rate < 1).all()


def test_theme_names_do_not_repeat():
    """Beyond the list of themes, names are numbered, and so are the words."""
    assert len(set(theme_names(30))) == 30
    assert theme_names(3) == list(THEMES)[:3]


@given(amount=st.floats(0, 1e6))
@settings(deadline=None, max_examples=20)
def test_micros_are_the_nearest_step(amount):
    """Rounding changes an amount by at most half a step; the least amount is one step."""
    micros = in_micros(np.array([amount]))[0]
    assert micros % simulated_traits.STEP_MICROS == 0
    assert micros >= 1000
    assert abs(micros - amount * 1e6) <= 500 * (1 + 1e-6) or micros == 1000


def _vocabularies(segments: int) -> list[set[str]]:
    themes = [text.split() for text in THEMES.values()]
    rounds = [divmod(segment, len(themes)) for segment in range(segments)]
    return [{f"{word}{turn or ''}" for word in themes[theme]} for turn, theme in rounds]


SMALL = MarketSettings(advertisers=30, segments=3, days=1, bids_per_day=100)


def rows_of(settings: MarketSettings) -> dict:
    """All auctions of the first day."""
    [batch] = auction_batches(settings, draw_traits(settings), 0, rows=10**9)
    return batch


def test_averages_over_values_stay_as_they_were():
    """Shares sum to 1, shifts have the mean 0 and factors the mean 1 for every advertiser."""
    for one in draw_effects(np.arange(50) % 7, MarketSettings(dimensions=3, seed=4)):
        assert one.values == DIMENSIONS[one.name]
        np.testing.assert_allclose(one.share.sum(axis=1), 1)
        np.testing.assert_allclose((one.share * one.shift).sum(axis=1), 0, atol=1e-12)
        for factor in (one.click, one.conversion):
            np.testing.assert_allclose((one.share * factor).sum(axis=1), 1)


def test_common_prices_of_values_change_prices_alone():
    """They differ by value more than segments and advertisers do, and shares stay as they were."""
    plain, far = (
        draw_effects(np.arange(90) % 3, MarketSettings(dimensions=3, value_prices=sd))
        for sd in (0.0, 2.0)
    )
    for one, other in zip(plain, far, strict=True):
        np.testing.assert_array_equal(one.share, other.share)
        np.testing.assert_array_equal(one.click, other.click)
        moved = other.shift - one.shift
        assert moved.mean(axis=0).std() > 0.5
        # of each advertiser the mean is 0 again
        np.testing.assert_allclose(np.diff(moved, axis=1), np.diff(moved, axis=1)[[0] * 90])


def test_values_are_drawn_by_their_shares():
    """The values of many auctions of an advertiser have its shares, within chance."""
    effects = draw_effects(np.array([0, 1]), MarketSettings(dimensions=2))
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
