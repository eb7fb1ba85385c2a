"""Curves from counts: Kaplan–Meier, empirical and isotonic curves, cost, interpolation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from sklearn.isotonic import IsotonicRegression

from coterie.ads.curves.landscapes import (
    BidShares,
    Evidence,
    curve_at,
    evidence_of,
    marginal_costs,
    monotone_rows,
    own_curves,
    share_of_cost,
    share_of_wins,
    spend_curves,
    win_curves,
)
from coterie.ads.histograms.stored_days import pack_days, unpack_days
from coterie.ads.segments.similarity import ks_distances
from coterie.errors import InvalidParameterError, ModelFileError
from markets import fitted, log_of

EDGES = np.array([10, 20, 30, 40, 50])
#: (advertiser, bid, minimum to win), amounts on the edges.
AUCTIONS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(EDGES.tolist()), st.sampled_from(EDGES.tolist())),
    min_size=1,
    max_size=40,
)


def log_of_auctions(auctions, **how):
    """A second-price log of (advertiser, bid, minimum to win)."""
    who, bid, minimum = np.array(auctions).T
    won = bid >= minimum
    price = bid if how.get("auction") == "first" else minimum
    how.setdefault("edges", EDGES)
    return log_of(advertiser=who, bid=bid, won=won, price=price, minimum=minimum, **how)


def kaplan_meier(times, is_event, at):
    """1 − S(t), event by event; all with a time of t or later are at risk at t."""
    curve = []
    for t in at:
        alive = 1.0
        for s in sorted({time for time, event in zip(times, is_event, strict=True) if event}):
            if s <= t:
                events = sum(e for time, e in zip(times, is_event, strict=True) if time == s)
                alive *= 1 - events / sum(time >= s for time in times)
        curve.append(1 - alive)
    return curve


@settings(deadline=None, max_examples=20)
@given(AUCTIONS)
def test_second_price_curves_are_kaplan_meier(auctions):
    """A win is an event at the price; a loss is censored at the bid, after the events there."""
    curves = own_curves(evidence_of(log_of_auctions(auctions)))
    for row, who in enumerate(sorted({a for a, _, _ in auctions})):
        mine = [(bid, minimum) for a, bid, minimum in auctions if a == who]
        times = [min(bid, minimum) for bid, minimum in mine]
        events = [bid >= minimum for bid, minimum in mine]
        np.testing.assert_allclose(curves[row], kaplan_meier(times, events, EDGES), atol=1e-12)


@settings(deadline=None, max_examples=20)
@given(AUCTIONS, st.sampled_from(["second", "first"]))
def test_curves_are_empirical_if_the_minimum_to_win_is_logged(auctions, auction):
    """The curve is the share of auctions with a minimum up to the bid."""
    log = log_of_auctions(auctions, revealed="minimum", auction=auction)
    curves = own_curves(evidence_of(log))
    for row, who in enumerate(sorted({a for a, _, _ in auctions})):
        minima = np.array([minimum for a, _, minimum in auctions if a == who])
        expected = (minima[:, None] <= EDGES).mean(axis=0)
        np.testing.assert_allclose(curves[row], expected, atol=1e-12)


def test_kaplan_meier_finds_the_market_behind_the_bids():
    """With prices uniform on (0, 1] and independent bids, W(b) is almost b."""
    rng = np.random.default_rng(3)
    n = 20_000
    bid, minimum = rng.integers(1, 901, n), rng.integers(1, 1001, n)
    edges = np.arange(5, 901, 5)
    log = log_of(bid=bid, won=bid >= minimum, price=minimum, edges=edges)
    assert np.abs(own_curves(evidence_of(log))[0] - edges / 1000).max() < 0.02
    # what was won, over what was bid, is far off: high bids are few among those that saw a price
    naive = share_of_wins(log.dense(), over="bids")[0]
    assert np.abs(naive - edges / 1000).max() > 0.2


@settings(deadline=None, max_examples=20)
@given(AUCTIONS)
def test_first_price_curves_are_isotonic_regressions(auctions):
    """They equal sklearn's regression of won on bid, interpolated to bins without bids."""
    log = log_of_auctions(auctions, auction="first", revealed="none")
    evidence = evidence_of(log)
    assert (evidence.form, evidence.pays) == ("rate", "bid")
    curves, counts = own_curves(evidence), log.dense()
    for row in range(len(curves)):
        tried = np.flatnonzero(counts.bids[row])
        rate = counts.wins[row, tried] / counts.bids[row, tried]
        oracle = IsotonicRegression(out_of_bounds="clip")
        oracle.fit(tried, rate, sample_weight=counts.bids[row, tried])
        np.testing.assert_allclose(curves[row], oracle.predict(np.arange(5)), atol=1e-9)


@settings(deadline=None, max_examples=20)
@given(
    AUCTIONS,
    st.sampled_from([("second", "paid"), ("second", "minimum"), ("first", "none")]),
    st.sampled_from(["as it was", "never won", "always won"]),
    st.floats(1e-6, 1e6),
)
def test_curves_are_monotone_for_any_log(auctions, kind, luck, weight):
    """They are finite and in [0, 1] for any number of bids, and a common weight has no effect."""
    auction, revealed = kind
    if luck != "as it was":
        price = {"never won": 50, "always won": 10}[luck]
        bid = {"never won": 10, "always won": 50}[luck]
        auctions = [(a, bid, price) for a, _, _ in auctions]
    log = log_of_auctions(auctions, auction=auction, revealed=revealed)
    evidence = evidence_of(log)
    win = own_curves(evidence)
    paid = spend_curves(win, evidence)
    assert np.isfinite(win).all() and np.isfinite(paid).all()
    assert (np.diff(win, axis=1) >= 0).all() and (np.diff(paid, axis=1) >= 0).all()
    assert win.min() >= 0 and win.max() <= 1
    assert (paid <= win * EDGES + 1e-9).all()
    if luck == "never won" and revealed != "minimum":
        assert not win.any() and not paid.any()
    heavy = evidence_of(
        log_of_auctions(auctions, auction=auction, revealed=revealed, weight=weight)
    )
    for name in ("successes", "trials", "observations", "price"):
        one, other = getattr(heavy, name), getattr(evidence, name)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=name)


def test_advertisers_without_bids_have_curves_of_zeros():
    """Only the given days count."""
    log = log_of(bid=[50, 50], won=True, price=20, advertiser=[0, 1], day=[0, 1], edges=EDGES)
    evidence = evidence_of(log, [0])
    assert evidence.observations.tolist() == [1.0, 0.0]
    assert own_curves(evidence).tolist() == [[0, 1, 1, 1, 1], [0] * 5]


def test_spend_is_price_times_what_is_won_there():
    """C(b) = Σ price · ΔW over the bins up to b, with the mean price of each bin."""
    auctions = [(0, 50, 12), (0, 50, 18), (0, 30, 25), (1, 20, 40), (1, 50, 45)]
    evidence = evidence_of(log_of_auctions(auctions))
    # nobody paid a price of the first or of the fourth bin: their middles stand for it
    assert evidence.price.tolist() == [5, 15, 25, 35, 45]
    win = own_curves(evidence)
    for curve, paid in zip(win, spend_curves(win, evidence), strict=True):
        before = [0.0, *curve[:-1]]
        steps = [p * (w - v) for p, w, v in zip(evidence.price, curve, before, strict=True)]
        np.testing.assert_allclose(paid, np.cumsum(steps))


@pytest.mark.parametrize("revealed", ["none", "minimum"])
def test_first_price_spend_is_the_bid_times_what_it_wins(revealed):
    """A winner pays its bid."""
    rng = np.random.default_rng(0)
    auctions = np.stack([np.zeros(99), *rng.integers(1, 51, (2, 99))], axis=1).astype(int)
    evidence = evidence_of(log_of_auctions(auctions, auction="first", revealed=revealed))
    win = own_curves(evidence)
    np.testing.assert_allclose(spend_curves(win, evidence), win * EDGES)


def test_second_price_without_prices_costs_the_smallest_bid_that_wins():
    """It is in the middle of its bin."""
    log = log_of(
        bid=[10, 20, 20, 30, 40],
        won=[1, 1, 1, 1, 0],
        price=[8, 12, 18, 9, 0],
        edges=EDGES,
        revealed="none",
    )
    middles = (np.append(0, EDGES[:-1]) + np.array(EDGES)) / 2
    assert evidence_of(log).price.tolist() == middles.tolist()


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
    st.lists(st.floats(0.001, 80), min_size=1, max_size=8),
)
def test_curves_are_interpolated_from_the_origin(heights, bids):
    """They equal np.interp from (0, 0), constant above the last edge."""
    edges = np.array([5, 17, 40, 41])
    curves = np.array([sorted(heights), sorted(heights, reverse=True)])
    expected = [np.interp(bids, [0, *edges], [0, *curve]) for curve in curves]
    np.testing.assert_allclose(curve_at(curves, edges, bids), expected, atol=1e-12)
    each = np.array([bids, bids[::-1]])
    expected = [np.interp(b, [0, *edges], [0, *c]) for b, c in zip(each, curves, strict=True)]
    np.testing.assert_allclose(curve_at(curves, edges, each), expected, atol=1e-12)


def test_curves_on_their_edges_are_unchanged():
    """At a bid of 0 they are 0."""
    curves = np.array([[0.1, 0.4, 0.9]])
    edges = np.array([10, 20, 30])
    assert curve_at(curves, edges, edges).tolist() == curves.tolist()
    assert curve_at(curves, edges, [0.0]).tolist() == [[0.0]]
    assert curve_at(curves[:0], edges, [5, 6]).shape == (0, 2)


@pytest.mark.parametrize("over", ["wins", "bids"])
def test_the_papers_distribution_functions(over):
    """Wins up to b over all wins or all bids, and cost up to b over all cost."""
    rng = np.random.default_rng(1)
    n = 200
    who, bid = rng.integers(0, 3, n), rng.integers(1, 51, n)
    won = rng.random(n) < 0.4
    won[who == 2] = False
    price = (bid * rng.random(n)).astype(int)
    counts = log_of(advertiser=who, bid=bid, won=won, price=price, edges=EDGES).dense()
    wins, cost = share_of_wins(counts, over), share_of_cost(counts)
    for a in range(3):
        for g, edge in enumerate(EDGES):
            below = won & (who == a) & (bid <= edge)
            total = (won if over == "wins" else np.ones(n, bool)) & (who == a)
            assert wins[a, g] == pytest.approx(below.sum() / max(total.sum(), 1))
            spent = price[won & (who == a)].sum()
            assert cost[a, g] == pytest.approx(price[below].sum() / max(spent, 1))
    assert not wins[2].any() and not cost[2].any()


def test_unknown_forms_and_readings_are_refused():
    """The message names the parameter."""
    one = np.ones((1, 1))
    with pytest.raises(InvalidParameterError, match="form='odds'"):
        win_curves(one, one, "odds")
    counts = log_of(bid=[1], won=[True], price=[1], edges=[1]).dense()
    with pytest.raises(InvalidParameterError, match="over='all'"):
        share_of_wins(counts, "all")


def test_no_rate_takes_a_curve_out_of_its_range():
    """Rates slightly above 1, as rounding of weights gives, are clipped."""
    rates = np.array([[0.5, 1 + 1e-12, 0.3]])
    for form in ("hazard", "rate"):
        win = win_curves(rates, np.ones((1, 3)), form)
        assert win.max() <= 1 and (np.diff(win) >= 0).all()


def test_no_advertisers_have_no_curves():
    """In both forms."""
    nothing = np.zeros((0, 3))
    for form in ("hazard", "rate"):
        evidence = Evidence(
            form, "price", np.array([1, 2, 3]), nothing, nothing, np.ones(3), np.zeros(0)
        )
        assert own_curves(evidence).shape == (0, 3)
        assert spend_curves(own_curves(evidence), evidence).shape == (0, 3)


ENTRIES = st.lists(
    st.tuples(st.floats(-10, 10), st.sampled_from([0.0, 0.5, 1.0, 7.0])), min_size=1, max_size=20
)


@settings(max_examples=60)
@given(ENTRIES, ENTRIES)
def test_monotone_rows_are_isotonic_regressions_of_their_weighted_entries(first, second):
    """Equal to SciPy's over the entries with weight, on straight lines between them."""
    size = min(len(first), len(second))
    values, weights = np.array([first[:size], second[:size]]).transpose(2, 0, 1)
    for row, found in enumerate(monotone_rows(values, weights)):
        counted = np.flatnonzero(weights[row] > 0)
        if not len(counted):
            assert not found.any()
            continue
        expected = isotonic_regression(values[row, counted], weights=weights[row, counted]).x
        expected = np.interp(np.arange(size), counted, expected)
        np.testing.assert_allclose(found, expected, atol=1e-9)
    common = monotone_rows(values, weights[:1])
    np.testing.assert_array_equal(common, monotone_rows(values, np.tile(weights[0], (2, 1))))


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=30).map(
        lambda pairs: np.array(pairs, dtype=np.float64)
    )
)
def test_marginal_costs_add_up_to_the_spend(steps):
    """Costs of all further impressions add up to the spend at the highest bid, row by row."""
    impressions, price = np.cumsum(steps[:, 0]), steps[:, 1]
    spend = np.cumsum(steps[:, 0] * price / 1000)
    found, doubled = marginal_costs([spend, 2 * spend], [impressions, impressions])
    bought = steps[:, 0] > 0
    assert np.array_equal(np.isnan(found), ~bought)
    np.testing.assert_allclose(found[bought], price[bought], atol=1e-6)
    np.testing.assert_allclose(doubled, 2 * found)
    assert np.nansum(found * steps[:, 0]) / 1000 == pytest.approx(spend[-1], abs=1e-6)


@pytest.fixture(scope="module")
def market():
    """The stored days of a model, its histograms and its segments."""
    model = fitted()
    return model.stored_days_, unpack_days(model.stored_days_)[0], model.labels_


@pytest.mark.parametrize(
    ("name", "c_d_f"), [("wins", share_of_wins), ("cost", share_of_cost)], ids=["wins", "cost"]
)
def test_curves_are_those_of_the_dense_counts(market, name, c_d_f):
    """Curves and distances are those of all cells added up, of an advertiser and of a segment."""
    stored, histograms, labels = market
    counts = histograms.dense()
    shares = BidShares(stored, labels, stored.edges)
    summed = {
        field: np.stack([getattr(counts, field)[labels == s].sum(axis=0) for s in range(3)])
        for field in ("wins", "cost")
    }
    own, of_segments = c_d_f(counts), c_d_f(replace(counts, **summed))
    for row in range(0, len(labels), 7):
        found = shares.of_advertiser(row)[name]
        assert found["own"] == pytest.approx(own[row])
        if labels[row] >= 3:
            continue
        segment = of_segments[labels[row]]
        assert shares.of_segment(labels[row])[name] == pytest.approx(segment)
        assert found["distance"] == pytest.approx(ks_distances([own[row], segment])[0, 1], abs=1e-6)
        at = np.searchsorted(stored.edges, round(found["bid"] * 1_000_000))
        assert abs(own[row][at] - segment[at]) == pytest.approx(found["distance"])


def test_without_segments_the_others_are_all(market):
    """An advertiser of no segment is compared with all advertisers."""
    stored, histograms, labels = market
    shares = BidShares(stored, np.full_like(labels, -1), stored.edges)
    wins = histograms.dense().wins.sum(axis=0)
    assert shares.of_segment(-1)["wins"] == pytest.approx(np.cumsum(wins) / wins.sum())


def test_bids_of_the_grid_alone_are_given(market):
    """On a coarser grid the curves have the same values, and the distance does not change."""
    stored, _, labels = market
    fine, coarse = (BidShares(stored, labels, grid) for grid in (stored.edges, stored.edges[::5]))
    one, other = fine.of_advertiser(3)["wins"], coarse.of_advertiser(3)["wins"]
    assert other["own"] == one["own"][::5]
    assert (other["distance"], other["bid"]) == (one["distance"], one["bid"])


def test_an_advertiser_without_wins_has_none(market):
    """Without wins there is no distribution to show."""
    _, histograms, labels = market
    lost = histograms.bids.advertiser == 0
    wins, cost = (np.where(lost, 0.0, one) for one in (histograms.bids.wins, histograms.bids.cost))
    stored = pack_days(replace(histograms, bids=replace(histograms.bids, wins=wins, cost=cost)), {})
    assert BidShares(stored, labels, stored.edges).of_advertiser(0) is None


def test_days_that_do_not_fit_are_refused(market):
    """Cells of other advertisers, too many of them, or bytes that are no table are an error."""
    stored, _, labels = market
    with pytest.raises(ModelFileError, match="do not fit"):
        BidShares(stored, labels[:-1], stored.edges)
    with pytest.raises(ModelFileError, match="more cells"):
        BidShares(replace(stored, days=stored.days[:0]), labels, stored.edges)
    with pytest.raises(ModelFileError, match="cannot be read"):
        BidShares(replace(stored, bids=stored.bids[:-9]), labels, stored.edges)
