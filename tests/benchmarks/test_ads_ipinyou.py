"""Win curves when lost auctions hide their price: what a bidder sees, and three estimates."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import CensoredData, ecdf
from sklearn.isotonic import IsotonicRegression

from benchmarks.ads_ipinyou import (
    ESTIMATES,
    LAWS,
    BidLaw,
    curve_errors,
    estimates,
    median_price,
    run_ipinyou,
    seen_by_bidder,
)
from coterie.ads.histograms.ipinyou import FEN, price_histograms

P = 8
auctions = st.lists(
    st.tuples(st.integers(0, P - 1), st.integers(1, P - 1)), min_size=1, max_size=40
)


def paired(some):
    """Counts by price and bid, (1, P, P)."""
    pairs = np.zeros((1, P, P), dtype=np.int64)
    for price, bid in some:
        pairs[0, price, bid] += 1
    return pairs


@settings(deadline=None, max_examples=50)
@given(auctions)
def test_a_bidder_sees_the_prices_of_its_wins(some):
    """Bids, wins and costs by bid, and prices of won auctions alone, as counted one by one."""
    counts = seen_by_bidder(paired(some)).dense()
    for b in range(P):
        prices = [price for price, bid in some if bid == b]
        won = [price for price in prices if price <= b]
        assert counts.bids[0, b] == len(prices)
        assert counts.bid[0, b] == b * FEN * len(prices)
        assert counts.wins[0, b] == len(won)
        assert counts.cost[0, b] == sum(won) * FEN
    for p in range(P):
        paid = [price for price, bid in some if price == p <= bid]
        assert counts.prices[0, p] == len(paid)
        assert counts.price[0, p] == p * FEN * len(paid)


@settings(deadline=None, max_examples=50)
@given(auctions)
def test_kaplan_meier_is_scipys(some):
    """Losses are right-censored at the bid; scipy's estimate is the same at every price."""
    prices = [price for price, bid in some if price <= bid]
    # scipy calls for an event at least
    if not prices:
        assert not estimates(seen_by_bidder(paired(some)))["kaplan_meier"].any()
        return
    lost = [bid for price, bid in some if price > bid]
    oracle = ecdf(CensoredData(uncensored=prices, right=lost)).cdf.evaluate(np.arange(P))
    found = estimates(seen_by_bidder(paired(some)))["kaplan_meier"][0]
    assert found == pytest.approx(oracle, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(auctions)
def test_the_naive_estimates_forget_losses_or_prices(some):
    """One is the distribution of prices paid, the other scikit-learn's isotonic regression."""
    found = estimates(seen_by_bidder(paired(some)))
    prices = np.array([price for price, bid in some if price <= bid])
    for p in range(P):
        share = np.mean(prices <= p) if len(prices) else 0.0
        assert found["paid"][0, p] == pytest.approx(share)
    bids, won = np.array([(bid, price <= bid) for price, bid in some]).T
    tried = np.unique(bids)
    oracle = IsotonicRegression().fit(bids, won).predict(tried)
    assert found["isotonic"][0, tried] == pytest.approx(oracle, abs=1e-9)


def test_without_losses_the_three_agree_at_the_bid():
    """A bidder above all prices sees them all; two estimates are the truth."""
    counts = np.array([0, 4, 1, 0, 3])
    pairs = np.zeros((1, 5, 5), dtype=np.int64)
    pairs[0, :, 4] = counts
    found = estimates(seen_by_bidder(pairs))
    truth = np.cumsum(counts) / counts.sum()
    assert found["kaplan_meier"][0] == pytest.approx(truth)
    assert found["paid"][0] == pytest.approx(truth)
    assert found["isotonic"][0, 4] == 1.0


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 9), min_size=3, max_size=30).filter(any))
def test_laws_of_bids_are_distributions(prices):
    """No bid of 0, all chances add up to 1, whatever the prices."""
    for law in LAWS:
        chances = law.probabilities(np.array(prices))
        assert chances[0] == 0
        assert (chances >= 0).all()
        assert chances.sum() == pytest.approx(1)


def test_a_log_normal_law_has_its_median():
    """Half of the bids are below the multiple of the median price, and its spread is the log's."""
    prices = np.zeros(400)
    prices[[40, 60, 200]] = 1
    assert median_price(prices) == 60
    chances = BidLaw("low", 0.5, 0.2).probabilities(prices)
    bids = np.arange(400)
    assert abs(np.searchsorted(np.cumsum(chances), 0.5) - 30) <= 1
    mean = np.sum(chances[1:] * np.log(bids[1:]))
    deviation = np.sqrt(np.sum(chances[1:] * (np.log(bids[1:]) - mean) ** 2))
    assert deviation == pytest.approx(0.2, abs=0.01)


def test_errors_end_at_the_largest_bid():
    """What lies beyond counts for nothing."""
    curves = np.array([[0.0, 0.5, 0.0], [0.1, 0.4, 1.0]])
    worst, mean = curve_errors(curves, np.array([0.0, 0.5, 1.0]), np.array([1, 2]))
    assert worst == pytest.approx([0.0, 0.1])
    assert mean == pytest.approx([0.0, 0.2 / 3])


@pytest.fixture(scope="module")
def toy_market():
    """Two advertisers with prices up to 40 fen."""
    rng = np.random.default_rng(0)
    counts = [np.bincount(rng.binomial(40, share, 5000), minlength=41) for share in (0.3, 0.6)]
    return price_histograms(["a", "b"], counts)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Single impressions of two advertisers; prices of one rise with the click rate."""
    rng = np.random.default_rng(1)
    rate = rng.lognormal(size=3000)
    price = np.clip(20 * np.where(np.arange(3000) < 1500, rate, rng.lognormal(size=3000)), 0, 99)
    lines = ["advertiser,part,click,market_price,pctr"]
    lines += [
        f"{'x' if i < 1500 else 'y'},test,0,{int(price[i])},{rate[i]}" for i in range(len(rate))
    ]
    path = tmp_path_factory.mktemp("rows") / "rows.csv.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def test_a_run_has_every_cell_and_repeats_itself(toy_market, rows):
    """A cell for each advertiser, law and size; the same again when run again."""
    steps = []
    run = [
        run_ipinyou(
            toy_market,
            {"a": "Tea"},
            rows,
            seeds=3,
            sizes=(50, 500),
            after_advertiser=lambda: steps.append(1),
        )
        for _ in range(2)
    ]
    assert run[0] == run[1]
    assert len(steps) == 4
    found = run[0]
    keys = [(cell["advertiser"], cell["law"], cell["auctions"]) for cell in found["cells"]]
    assert keys == [(a, law.name, n) for a in "ab" for law in LAWS for n in (50, 500)]
    assert [about["industry"] for about in found["advertisers"]] == ["Tea", ""]
    for cell in found["cells"]:
        assert set(cell["errors"]) == set(ESTIMATES)
        for error in cell["errors"].values():
            assert 0 <= error["mean"]["mean"] <= error["worst"]["mean"] <= 1


def test_kaplan_meier_comes_nearer_and_the_naive_ratio_does_not(toy_market):
    """With a hundred times the auctions one error falls below a third, the other stays a bias."""
    found = run_ipinyou(toy_market, {}, seeds=5, sizes=(100, 10_000))
    low = [cell for cell in found["cells"] if cell["law"] == LAWS[1].name]
    for few, many in zip(low[::2], low[1::2], strict=True):
        before, after = few["errors"], many["errors"]
        assert after["kaplan_meier"]["mean"]["mean"] < before["kaplan_meier"]["mean"]["mean"] / 3
        assert after["paid"]["mean"]["mean"] > 0.5 * before["paid"]["mean"]["mean"]
        assert after["kaplan_meier"]["mean"]["mean"] < after["paid"]["mean"]["mean"] / 5


def test_bids_that_follow_the_price_mislead(toy_market, rows):
    """Dependence is measured by its rank correlation, and costs Kaplan–Meier its accuracy."""
    found = run_ipinyou(toy_market, {}, rows, seeds=3, sizes=(50,))["following"]
    assert [cell["advertiser"] for cell in found] == ["x", "x", "y", "y"]
    together, dealt, apart, _ = (cell["rank_correlation"] for cell in found)
    assert together > 0.9
    assert abs(dealt) < 0.1
    assert abs(apart) < 0.1
    error = [cell["errors"]["kaplan_meier"]["mean"]["mean"] for cell in found]
    assert error[0] > 3 * error[1]
