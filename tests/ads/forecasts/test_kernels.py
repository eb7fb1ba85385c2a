"""The compiled loops against the table of formulas that they compile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from coterie.ads.forecasts.kernels import FIGURES, figures_of_one, figures_of_plans, quantile
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from coterie.ads.forecasts.calibration import LEVELS, calibrate
from coterie.ads.histograms.price_grid import price_grid

MICROS = 1e6
PRICE, BID = False, True
NO_MASSES = np.empty(0, dtype=np.int64)
#: Mean ± one standard deviation of every target, without quantiles of counts.
ONE_SD = np.ones((2, 4, 2, 3)), 0.0, 1.0


@dataclass
class Market:
    """Curves of some advertisers at random, as the loops take them."""

    pays: bool
    seed: int = 0
    n: int = 3

    def __post_init__(self):
        """Draw curves that rise, deviations, prices within their bins, and rates of clicks."""
        rng = np.random.default_rng(self.seed)
        edges = price_grid(0.5e6, 4e6).astype(float)
        lower = np.append(0.9 * edges[0], edges[:-1])
        price = lower + (edges - lower) * rng.uniform(0.3, 1, len(edges))
        if self.pays == BID:
            price = edges
        win = np.sort(rng.beta(0.8, 0.8, (self.n, len(edges))), axis=1).astype(np.float32)
        spread = (0.1 * rng.random((self.n, len(edges)))).astype(np.float32)
        self.market = edges, np.log(edges), price, NO_MASSES
        self.curves = win, spread
        self.events = np.column_stack(
            [
                rng.uniform(0.01, 0.3, self.n),
                rng.uniform(0, 0.05, self.n),
                np.full((self.n, 2), np.nan),
            ]
        )

    def figures(
        self,
        bids,
        counts,
        shifts=0.0,
        *,
        row=0,
        level=0.0,
        supply=0.0,
        given=True,
        factors=ONE_SD,
    ):
        """The figures of one plan of several bids."""
        bids, counts, shifts = np.broadcast_arrays(
            *(np.atleast_1d(p).astype(float) for p in (bids, counts, shifts))
        )
        plans = (
            np.array([row]),
            np.array([0, len(bids)]),
            *(np.ascontiguousarray(p) for p in (bids, counts, shifts)),
        )
        uncertainty = np.array([[level, supply, 1.0 if given else 0.0]])
        return figures_of_plans(
            plans, uncertainty, self.market, self.curves, self.events, self.pays, factors
        )[0]

    def item(self, bid, shift, row=0):
        """W, sd(W), C, E[price² · won] and sd(C) of one auction, in currency units."""
        edges, _, price, _ = self.market
        win, spread = (curve[row].astype(float) for curve in self.curves)
        amount = bid * MICROS * np.exp(-shift)
        at, bins = np.append(0.0, edges), np.arange(len(edges))
        w, sd = (np.interp(amount, at, np.append(0.0, curve)) for curve in (win, spread))
        each = bid / 1000
        if self.pays != PRICE:
            return w, sd, each * w, each**2 * w, each * sd
        # the part of each bin up to the bid, at the mean price of that part
        up_to = np.clip(amount, at[:-1], at[1:])
        mean = np.minimum(price * (up_to + at[:-1]) / (at[1:] + at[:-1]), amount)
        mean = np.where(up_to >= at[1:], price, mean)
        rises = [
            np.interp(up_to, at, np.append(0.0, c)) - np.append(0.0, c)[bins] for c in (win, spread)
        ]
        unit = np.exp(shift) / 1e9
        cost = unit * (mean @ rises[0])
        # errors of W at the bid and below it, at their prices, have the correlation 0.8
        last = mean[min(np.searchsorted(edges, amount), len(edges) - 1)]
        at_bid = unit * last * sd
        below = max(at_bid - unit * (mean @ rises[1]), 0.0)
        gap = unit * (mean @ rises[1])
        cost_sd = np.sqrt(gap**2 + 2 * (1 - 0.8) * at_bid * below)
        return w, sd, cost, unit**2 * (mean**2 @ rises[0]), cost_sd


plans = st.lists(
    st.tuples(st.floats(0.01, 9), st.just(0.0) | st.floats(0.01, 1000), st.floats(-0.5, 0.5)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60)
@given(plans, st.sampled_from([PRICE, BID]), st.integers(0, 500), st.booleans())
def test_means_and_deviations_are_those_of_the_formulas(items, pays, seed, given):
    """Sums over the bids of a plan; chance adds up, deviations of the curve before the square."""
    drawn = Market(pays, seed)
    bids, counts, shifts = np.array(items).T
    found = drawn.figures(bids, counts, shifts, supply=0.2, given=given)
    w, sd, cost, square, cost_sd = np.array(
        [drawn.item(bid, shift) for bid, shift in zip(bids, shifts, strict=True)]
    ).T
    impressions, spend = counts @ w, counts @ cost
    chance = counts @ (w * (1 - w) if given else w)
    variance = chance + (counts @ sd) ** 2 + (0.2 * impressions) ** 2
    of_spend = counts @ (np.maximum(square - cost**2, 0) if given else square)
    of_spend += (counts @ cost_sd) ** 2 + (0.2 * spend) ** 2
    assert found[2] == pytest.approx(impressions, rel=1e-6, abs=1e-9)
    assert found[5] == pytest.approx(spend, rel=1e-6, abs=1e-12)
    most = counts.sum() if given else np.inf
    high = min(impressions + np.sqrt(variance), most)
    assert found[4] == pytest.approx(high, rel=1e-5, abs=1e-6)
    assert found[3] == pytest.approx(max(impressions - np.sqrt(variance), 0), rel=1e-4, abs=1e-4)
    assert found[7] == pytest.approx(spend + np.sqrt(of_spend), rel=1e-4, abs=1e-9)
    if counts.sum() > 0:
        assert found[0] == pytest.approx(counts @ w / counts.sum(), rel=1e-6, abs=1e-7)
        assert found[1] * impressions == pytest.approx(1000 * spend, rel=1e-6, abs=1e-7)


@settings(max_examples=30)
@given(plans, st.integers(0, 500))
def test_clicks_follow_impressions(items, seed):
    """Their variance is of the impressions', of chance and of the rate; NaN if there are none."""
    drawn = Market(PRICE, seed)
    bids, counts, shifts = np.array(items).T
    found = drawn.figures(bids, counts, shifts)
    w, sd, *_ = np.array([drawn.item(bid, s) for bid, s in zip(bids, shifts, strict=True)]).T
    rate, rate_sd = drawn.events[0, :2]
    mean = counts @ w * rate
    variance = mean + (rate * (counts @ sd)) ** 2 + (counts @ w * rate_sd) ** 2
    assert found[8] == pytest.approx(mean, rel=1e-6, abs=1e-9)
    high = min(mean + np.sqrt(variance), max(found[4], mean))
    assert found[10] == pytest.approx(high, rel=1e-5, abs=1e-6)
    assert np.isnan(found[11:]).all()


@pytest.mark.parametrize("pays", [PRICE, BID])
def test_the_level_part_is_a_derivative(pays):
    """On smooth curves, that of the mean by the price level, for impressions and spend."""
    drawn = Market(pays)
    edges = drawn.market[0]
    smooth = stats.norm.cdf(np.log(edges / 1.5e6) / 0.5)
    drawn.curves = np.tile(smooth, (3, 1)).astype(np.float32), np.zeros((3, len(edges)), np.float32)
    price = edges if pays == BID else 0.98 * edges
    drawn.market = edges, np.log(edges), price, NO_MASSES
    sd, n, step = 0.1, 1e9, 0.02
    for bid in (0.9, 1.4, 2.2):
        found = drawn.figures(bid, n, level=sd)
        up, down = (drawn.figures(bid, n, shift) for shift in (step, -step))
        slopes = (up - down)[[2, 5]] / (2 * step)
        deviations = (found - drawn.figures(bid, n))[[4, 7]] / sd
        if pays != BID:
            np.testing.assert_allclose(deviations, np.abs(slopes), rtol=0.1)
        else:
            assert deviations[0] == pytest.approx(abs(slopes[0]), rel=0.1)


@settings(max_examples=40)
@given(
    st.sampled_from([PRICE, BID]),
    st.floats(0.001, 20),
    st.floats(0, 1e6),
    st.floats(-0.3, 0.3),
    st.floats(0, 0.5),
    st.floats(0, 0.5),
    st.booleans(),
    st.sampled_from(LEVELS),
)
def test_one_is_many_to_the_last_bit(pays, bid, count, shift, level, supply, given, share):
    """A plan of one bid has the same figures alone."""
    drawn, factors = Market(pays), calibrate([]).interval_factors(share)
    together = drawn.figures(
        bid,
        count,
        shift,
        row=1,
        level=level,
        supply=supply,
        given=given,
        factors=factors,
    )
    alone = figures_of_one(
        1,
        bid,
        count,
        shift,
        (level, supply, 1.0 if given else 0.0),
        drawn.market,
        drawn.curves,
        drawn.events,
        drawn.pays,
        factors,
    )
    assert together.shape == (FIGURES,)
    np.testing.assert_array_equal(together, alone)


def test_plans_do_not_affect_each_other():
    """Several plans at once are the same plans one by one."""
    drawn, rng = Market(PRICE), np.random.default_rng(0)
    rows, starts = np.array([2, 0, 1, 2]), np.array([0, 3, 4, 8, 9])
    bids, counts, shifts = rng.uniform(0.2, 5, 9), rng.uniform(0, 99, 9), rng.normal(0, 0.1, 9)
    uncertainty = np.column_stack([rng.random((4, 2)), [1.0, 0.0, 1.0, 0.0]])
    found = figures_of_plans(
        (rows, starts, bids, counts, shifts),
        uncertainty,
        drawn.market,
        drawn.curves,
        drawn.events,
        PRICE,
        ONE_SD,
    )
    for q, row in enumerate(rows):
        part = slice(starts[q], starts[q + 1])
        level, supply, given = uncertainty[q]
        alone = drawn.figures(
            bids[part],
            counts[part],
            shifts[part],
            row=row,
            level=level,
            supply=supply,
            given=given > 0,
        )
        np.testing.assert_array_equal(found[q], alone)


@settings(max_examples=40)
@given(
    st.sampled_from([PRICE, BID]),
    st.lists(st.floats(0.001, 20), min_size=2, max_size=2),
    st.integers(0, 99),
)
def test_nobody_pays_more_than_the_bid_and_higher_bids_win_more(pays, bids, seed):
    """Impressions and spend rise with the bid, up to the last edge."""
    drawn = Market(pays, seed)
    low, high = (drawn.figures(bid, 100) for bid in sorted(bids))
    for bid, one in zip(sorted(bids), (low, high), strict=True):
        assert one[1] <= bid * (1 + 1e-9) and 0 <= one[0] <= 1
    assert high[2] >= low[2] - 1e-6
    assert high[5] >= low[5] - 1e-9 or pays == BID


@settings(max_examples=60)
@given(
    plans,
    st.sampled_from([PRICE, BID]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
    st.integers(0, 99),
)
def test_intervals_contain_the_mean_and_each_other(items, pays, level, supply, given, seed):
    """A higher level contains the lower ones; none is negative or, with given supply, above it."""
    drawn = Market(pays, seed)
    bids, counts, shifts = np.array(items).T
    calibration = calibrate([])
    found = np.array(
        [
            drawn.figures(
                bids,
                counts,
                shifts,
                level=level,
                supply=supply,
                given=given,
                factors=calibration.interval_factors(share),
            )
            for share in LEVELS
        ]
    )
    assert (found[1:, [0, 1, 2, 5, 8]] == found[:1, [0, 1, 2, 5, 8]]).all()
    for column in (2, 5, 8):
        mean, low, high = found[:, column], found[:, column + 1], found[:, column + 2]
        assert (low >= 0).all() and (low <= mean).all() and (mean <= high).all()
        assert (np.diff(low) <= 1e-9).all() and (np.diff(high) >= -1e-9).all()
    if given:
        assert (found[:, 4] <= counts.sum() * (1 + 1e-6)).all()


def ends(mean, variance, tail):
    """Both ends by scipy: with M(k) = P(Y < k) + P(Y = k)/2, the outermost k inside the tails."""
    if variance > mean * (1 + 1e-9):
        shape = mean**2 / (variance - mean)
        number = stats.nbinom(shape, shape / (shape + mean))
    else:
        number = stats.poisson(mean)
    k = np.arange(5000)
    middle = number.cdf(k - 1) + number.pmf(k) / 2
    return int(k[middle >= tail][0]), int(max(k[middle <= 1 - tail], default=0))


@settings(max_examples=80)
@given(st.floats(1e-3, 20), st.floats(0.3, 30), st.sampled_from([0.25, 0.1, 0.05, 0.025]))
def test_ends_of_small_counts_are_quantiles_of_a_negative_binomial(mean, dispersion, tail):
    """Of this mean and variance, half of the probability at an end counted; Poisson at least."""
    low, high = ends(mean, mean * dispersion, tail)
    assert quantile(mean, mean * dispersion, tail, True) == low
    assert quantile(mean, mean * dispersion, 1 - tail, False) == high


def test_the_ends_of_a_small_forecast_are_these_quantiles():
    """Of a forecast whose standard deviation has a common part, at every level."""
    drawn, calibration = Market(PRICE), calibrate([])
    w, sd, *_ = drawn.item(1.2, 0.0)
    n = 8 / w
    for share in LEVELS:
        found = drawn.figures(
            1.2, n, supply=0.6, given=False, factors=calibration.interval_factors(share)
        )
        variance = n * w + (n * sd) ** 2 + (0.6 * n * w) ** 2
        low, high = ends(n * w, variance, (1 - share) / 2)
        assert found[3:5].tolist() == [min(low, found[2]), max(high, found[2])]


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("pays", [PRICE, BID])
def test_nothing_to_win_is_nothing_won(pays, given):
    """Without auctions everything is 0 but for the rates; without a chance to win, rates too."""
    drawn, factors = Market(pays), calibrate([]).interval_factors(0.9)
    how = {"level": 0.2, "supply": 0.3, "given": given, "factors": factors}
    found, some = drawn.figures(1.2, 0, **how), drawn.figures(1.2, 5, **how)
    np.testing.assert_allclose(found[:2], some[:2])
    assert not found[2:11].any()
    # the curve is 0 up to a bid, and rises above it
    drawn.curves[0][:, :20] = 0.0
    drawn.curves[1][:, :20] = 0.0
    bid = drawn.market[0][18] / MICROS
    found = drawn.figures(bid, 1000, **how)
    assert not found[[0, 1, 2, 3, 5, 6, 8, 9]].any()
    assert found[[4, 10]].max() <= 0 and 0 <= found[7] < np.inf


def test_one_edge_is_enough():
    """A log in which everybody bids the same."""
    drawn = Market(PRICE)
    drawn.market = np.array([2e6]), np.log([2e6]), np.array([1.5e6]), NO_MASSES
    drawn.curves = np.full((3, 1), 0.5, np.float32), np.full((3, 1), 0.1, np.float32)
    for bid, rate in ((1.0, 0.25), (2.0, 0.5), (9.0, 0.5)):
        found = drawn.figures(bid, 100, level=0.2)
        assert found[0] == pytest.approx(rate) and np.isfinite(found[:11]).all()
