"""Experiments on real data: their pieces against oracles, and results from kept figures."""

import gzip
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import CensoredData, ecdf
from sklearn.linear_model import LinearRegression

from benchmarks.ads_real import publisher, snap
from benchmarks.ads_real.ipinyou import estimates, seen_by_bidder
from benchmarks.ads_real.order_forecasts import (
    HALF_LIVES,
    SOURCES,
    Candidate,
    History,
    forecasts,
)

P = 8
auctions = st.lists(
    st.tuples(st.integers(0, P - 1), st.integers(1, P - 1)), min_size=1, max_size=40
)
labelled = st.lists(st.tuples(st.integers(0, 3), st.floats(-5, 5)), min_size=3, max_size=20)


@settings(deadline=None, max_examples=50)
@given(auctions)
def test_kaplan_meier_is_scipys(some):
    """Losses are right-censored at the bid; scipy's estimate is the same at every price."""
    pairs = np.zeros((1, P, P), dtype=np.int64)
    np.add.at(pairs[0], tuple(np.transpose(some)), 1)
    prices = [price for price, bid in some if price <= bid]
    assume(prices)  # scipy calls for an event at least
    lost = [bid for price, bid in some if price > bid]
    oracle = ecdf(CensoredData(uncensored=prices, right=lost)).cdf.evaluate(np.arange(P))
    seen = seen_by_bidder(pairs)
    assert seen.dense().wins.sum() == len(prices)
    found = estimates(seen)
    assert found["kaplan_meier"][0] == pytest.approx(oracle, abs=1e-12)
    assert found["paid"][0] == pytest.approx([np.mean(np.array(prices) <= p) for p in range(P)])


COLUMNS = (
    "date", "site_id", "ad_type_id", "geo_id", "device_category_id", "advertiser_id", "order_id",
    "line_item_type_id", "os_id", "monetization_channel_id", "ad_unit_id", "total_impressions",
    "total_revenue", "viewable_impressions", "measurable_impressions",
)  # fmt: skip


def weekly_rows(n_orders=12, n_days=30, noise=0.1):
    """Yield rows of orders of two kinds: half sell on Sundays, half on Wednesdays elsewhere."""
    rng = np.random.default_rng(0)
    for order in range(n_orders):
        kind = order % 2
        level, price = 200 * (1 + order), 0.001 * (1 + kind)
        for date in np.datetime64("2019-06-01") + np.arange(n_days):
            weekday = (date.astype(int) + 3) % 7
            shape = 4.0 if weekday == (6, 2)[kind] else 0.5
            for unit in (1, 2):
                n = int(level * shape * rng.lognormal(0, noise))
                money = round(n * price * rng.lognormal(0, noise), 5)
                yield [date, kind, 1, kind, 1 + kind, 1, order, 1, 1, 1, unit, n, money, 0, 0]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Twelve orders of two kinds over thirty days."""
    path = tmp_path_factory.mktemp("log") / "rows.csv.gz"
    lines = [",".join(map(str, row)) for row in (COLUMNS, *weekly_rows())]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return publisher.read_orders(path)


def test_an_exact_week_is_forecast_exactly():
    """Level times weekday factor, eCPM times weekday factor: own finds both."""
    shape, price = np.array([1, 2, 3, 4, 5, 6, 7.0]), np.array([7, 6, 5, 4, 3, 2, 1.0])
    days = np.arange(26) % 7
    impressions = np.outer([10.0, 300.0], shape[days])
    revenue = impressions * price[days]
    history = History(impressions[:, :21], revenue[:, :21], days)
    found = dict(forecasts(history, {2: np.array([0, 1])}))
    for candidate in (Candidate("own"), Candidate("global"), Candidate("global+pooled", None, 1.0)):
        amounts, _ = found[candidate._replace(half_life=HALF_LIVES[0])]
        assert amounts == pytest.approx(impressions[:, 21:], rel=1e-6)
    _, money = found[Candidate("own", half_life=HALF_LIVES[0])]
    assert money == pytest.approx(revenue[:, 21:], rel=1e-6)


def test_segments_that_matter_are_found_and_used_without_the_holdout(log):
    """Two kinds of week: a segment's shape beats that of all orders, and random segments'.

    Another holdout changes errors, not settings; and one half-life serves all sources.
    """
    found = publisher.errors_of(log, 2, (2,))
    errors = {name: source["impressions"]["wape"] for name, source in found["sources"].items()}
    assert errors["segment"] < 0.15
    assert errors["global"] > 2 * errors["segment"]
    assert errors["flat"] > errors["global"]
    assert found["random_segments"]["segment"]["impressions"]["mean"] > 2 * errors["segment"]
    difference = found["sources"]["segment"]["impressions"]["difference_from"]["global"]
    assert difference["mean"] == pytest.approx(errors["segment"] - errors["global"])
    half_lives = {source["settings"]["half_life"] for source in found["sources"].values()}
    assert len(half_lives - {None}) == 1

    spoiled = replace(log, impressions=np.where(log.day >= 25, 5.0, log.impressions))
    after = publisher.errors_of(spoiled, 2, (2,))
    for source in SOURCES:
        one, other = found["sources"][source], after["sources"][source]
        assert (one["settings"], one["backtest"]) == (other["settings"], other["backtest"])
        assert one["impressions"]["wape"] < other["impressions"]["wape"]


@settings(deadline=None, max_examples=50)
@given(labelled)
def test_explained_share_is_that_of_a_regression_on_segments(some):
    """η² is the R² of scikit-learn's regression on indicators of the segments."""
    labels, values = (np.array(column) for column in zip(*some, strict=True))
    assume(np.ptp(values) > 1e-6)
    indicators = np.eye(4)[labels]
    found = snap.explained_share(labels, values[:, None])[0]
    oracle = LinearRegression().fit(indicators, values).score(indicators, values)
    assert found == pytest.approx(oracle, abs=1e-6)


@settings(deadline=None, max_examples=50)
@given(labelled)
def test_the_strength_is_that_of_the_least_error_left_out(some):
    """Leaving members out one at a time, by brute force, finds no better strength."""
    labels, values = (np.array(column) for column in zip(*some, strict=True))
    tried = [0.5, 2.0, 10.0, np.inf]

    def brute_force(strength):
        total = 0.0
        for i, value in enumerate(values):
            rest = np.arange(len(values)) != i
            mates, mean = values[rest & (labels == labels[i])], values[rest].mean()
            pooled = mean
            if np.isfinite(strength):
                pooled = (mates.sum() + strength * mean) / (len(mates) + strength)
            total += (value - pooled) ** 2
        return total

    chosen = snap.leave_one_out_strength(labels, values, tried)
    assert brute_force(chosen) == pytest.approx(min(map(brute_force, tried)), abs=1e-9)
