"""Settings, advertisers and the closed form of a simulated market."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from coterie.ads.logs.simulation import simulated_traits
from coterie.ads.logs.simulation.simulated_traits import (
    COMMON_WORDS,
    THEMES,
    MarketSettings,
    draw_traits,
    in_micros,
    theme_names,
    true_win_rate,
)
from coterie.errors import InvalidParameterError


@pytest.mark.parametrize("name", ["advertisers", "segments", "days", "seed"])
@pytest.mark.parametrize("value", [-1, 2.0, "3", True, None, float("nan")])
def test_whole_numbers_are_whole(name, value):
    """A setting that counts takes whole numbers only, and the message names it."""
    with pytest.raises(InvalidParameterError, match=rf"{name}=.*whole number"):
        MarketSettings(**{name: value})


@pytest.mark.parametrize(
    "name",
    [
        *("text_error", "text_missing", "outliers", "newcomers"),
        *("bid_move", "volume_spread", "within_segment", "bids_per_day"),
    ],
)
@pytest.mark.parametrize("value", [-0.1, 50_001, float("nan"), float("inf"), "0.5", True, None])
def test_numbers_are_within_their_range(name, value):
    """NaN, infinities, words and numbers out of range are refused by name."""
    with pytest.raises(InvalidParameterError, match=rf"{name}=.*from .* to "):
        MarketSettings(**{name: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"auction": "third"}, "auction='third'.*'first' or 'second'"),
        ({"floors": 1}, "floors=1.*True or False"),
        ({"minimum_logged": "no"}, "minimum_logged='no'.*True or False"),
        ({"advertisers": 3, "segments": 4}, "segments=4.*number of advertisers, 3"),
        ({"start": "9999-12-30", "days": 2}, "days=2.*9999"),
        *(
            ({"start": start}, "start=.*2026-03-02")
            for start in ("2026-3-2", "20260302", "2026-02-30", "today", "NaT", "", None, 7)
        ),
    ],
)
def test_other_settings_are_checked(changes, message):
    """Choices, switches and dates are refused with what they may be."""
    with pytest.raises(InvalidParameterError, match=message):
        MarketSettings(**changes)


def test_numbers_of_numpy_become_plain():
    """NumPy scalars are taken and kept as Python's numbers, so that settings can be written."""
    taken = MarketSettings(advertisers=np.int32(20), outliers=np.float32(0.5), bids_per_day=7)
    assert [type(value) for value in (taken.advertisers, taken.outliers, taken.bids_per_day)] == [
        int,
        float,
        float,
    ]


@settings(deadline=None, max_examples=40)
@given(median=st.floats(0.001, 50_000), spread=st.floats(0.05, 5))
def test_expected_volume_is_the_integral(median, spread):
    """The closed form of the mean volume is the clipped log-normal law's mean by quadrature."""
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
    """With equal volumes, the rows are volume × factor × those who bid, day by day."""
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


def test_shares_are_exact():
    """Outliers, newcomers and missing texts are as many as their shares say, to the advertiser."""
    drawn = draw_traits(
        MarketSettings(advertisers=300, outliers=0.1, newcomers=0.2, text_missing=0.3)
    )
    assert (drawn.outlier.sum(), drawn.newcomer.sum()) == (30, 60)
    assert (drawn.text_is == "missing").sum() == 90
    assert ((drawn.text == "") == (drawn.text_is == "missing")).all()


def test_wrong_texts_are_binomial():
    """Of the texts there are, the share of wrong ones is the error rate up to chance."""
    drawn = draw_traits(MarketSettings(advertisers=4000, text_error=0.3, text_missing=0.25))
    assert abs((drawn.text_is == "wrong").sum() - 900) <= 4 * np.sqrt(3000 * 0.3 * 0.7)


def test_texts_speak_of_their_segment_or_of_another():
    """A right text has its own theme's words, a wrong one another's, besides common words."""
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
    """Where there is no other segment, no text can be of another one."""
    drawn = draw_traits(MarketSettings(advertisers=40, segments=1, text_error=1))
    assert set(drawn.text_is) == {"right", "missing"}


def test_segments_are_of_one_size_and_one_market():
    """Sizes differ by at most one; members have one market, outliers one of their own."""
    drawn = draw_traits(MarketSettings(advertisers=203, within_segment=0, outliers=0.1))
    assert np.ptp(np.bincount(drawn.segment)) <= 1
    for segment in range(10):
        level = drawn.market_level[(drawn.segment == segment) & ~drawn.outlier]
        assert (level == level[0]).all()
    assert len(np.unique(drawn.market_level, axis=0)) == 10 + drawn.outlier.sum()


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**64),
    spread=st.floats(0, 5),
    move=st.floats(0, 5),
    within=st.floats(0, 2),
    floors=st.booleans(),
)
def test_traits_keep_their_limits(seed, spread, move, within, floors):
    """Whatever the settings: volumes, moves, shares and floors are where they are said to be."""
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


def test_same_seed_same_traits():
    """The settings decide everything; another seed draws another market."""
    first, again, other = (draw_traits(MarketSettings(seed=seed)) for seed in (1, 1, 2))
    for name in (field.name for field in dataclasses.fields(first)):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert not np.array_equal(first.market_level, other.market_level)


def test_theme_names_do_not_repeat():
    """Beyond the list of themes, names are numbered, and so are the words."""
    assert len(set(theme_names(30))) == 30
    assert theme_names(3) == list(THEMES)[:3]


@settings(deadline=None, max_examples=50)
@given(
    advertiser=st.integers(0, 39),
    weekday=st.integers(0, 6),
    bid=st.integers(0, 20_000_000),
    floors=st.booleans(),
)
def test_win_rate_is_the_mixture_over_the_drift(advertiser, weekday, bid, floors):
    """The closed form is scipy's log-normal mixture averaged over the day's drift by quadrature."""
    drawn = draw_traits(MarketSettings(advertisers=40, floors=floors))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    steps = bid // 1000
    rate = 0.0
    for component in (0, 1):
        level = drawn.market_level[advertiser, component] + 0.02 * nodes
        scale = np.exp(level) * drawn.price_by_weekday[weekday]
        law = stats.lognorm(drawn.market_spread[advertiser, component], scale=scale)
        below = law.cdf(steps / 1000 + 0.0005) @ weights / weights.sum()
        rate += drawn.market_share[advertiser, component] * below
    # an amount is at least one step
    reaches = steps >= max(1, np.rint(drawn.floor[advertiser] * 1000))
    assert true_win_rate(drawn, advertiser, bid, weekday) == pytest.approx(
        rate if reaches else 0.0, abs=1e-9
    )


def test_win_rate_is_a_distribution_function():
    """It rises from 0 to 1 with the bid, is 0 below the floor, and falls as prices rise."""
    drawn = draw_traits(MarketSettings(advertisers=30))
    bids = np.arange(0, 60_000_000, 7_500)
    rates = true_win_rate(drawn, np.arange(30)[:, None], bids, 2)
    assert (np.diff(rates) >= 0).all()
    assert rates.min() == 0
    assert rates.max() <= 1
    assert (rates[:, -1] > 0.999).all()
    assert (rates[bids < in_micros(drawn.floor)[:, None]] == 0).all()
    assert (true_win_rate(drawn, np.arange(30)[:, None], bids, 6) >= rates).all()


def test_win_rate_broadcasts():
    """Arrays give what their elements give one by one, in the broadcast shape."""
    drawn = draw_traits(MarketSettings(advertisers=10))
    who, bids = np.array([[1], [7]]), np.array([900_000, 2_000_000, 5_000_000])
    rates = true_win_rate(drawn, who, bids, 4)
    assert rates.shape == (2, 3)
    assert rates[1, 2] == true_win_rate(drawn, 7, 5_000_000, 4)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((10, 1000, 0), "advertiser"),
        ((-1, 1000, 0), "advertiser"),
        ((0, -5, 0), "bids"),
        ((0, float("nan"), 0), "bids"),
        ((0, float("inf"), 0), "bids"),
        ((0, 1000, 7), "weekday"),
    ],
)
def test_win_rate_refuses_what_is_not_there(arguments, name):
    """An advertiser, a bid or a weekday that does not exist is an error, not a number."""
    with pytest.raises(InvalidParameterError, match=f"{name}: values must be"):
        true_win_rate(draw_traits(MarketSettings(advertisers=10)), *arguments)


@given(amount=st.floats(0, 1e6))
@settings(deadline=None, max_examples=50)
def test_micros_are_the_nearest_step(amount):
    """Rounding moves an amount by half a step at most, up to one step where it is nearly 0."""
    micros = in_micros(np.array([amount]))[0]
    assert micros % simulated_traits.STEP_MICROS == 0
    assert micros >= 1000
    assert abs(micros - amount * 1e6) <= 500 * (1 + 1e-6) or micros == 1000


def _vocabularies(segments: int) -> list[set[str]]:
    themes = [text.split() for text in THEMES.values()]
    rounds = [divmod(segment, len(themes)) for segment in range(segments)]
    return [{f"{word}{turn or ''}" for word in themes[theme]} for turn, theme in rounds]
