"""Baselines: log-normal prices and gradient boosting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from coterie.ads.curves.landscapes import evidence_of
from coterie.ads.evaluation.baselines import boosted_forecast, lognormal_forecast
from coterie.ads.evaluation.evaluation import measure
from coterie.ads.forecasts.forecast_tables import Plans, forecast_by_curves, outcome_of, plans_of
from coterie.ads.histograms.price_grid import price_grid
from coterie.runtime.devices import on_one_thread
from markets import EASY, log_of, market

EDGES = price_grid(0.2e6, 20e6)
N = 60
KINDS = {
    "second price": {},
    "first price": {"auction": "first"},
    "minimum logged": {"minimum_logged": True},
}


def lognormal_market(auction, n_auctions=150, seed=0):
    """Advertisers with log-normal prices around 0.3 to 1 log units: the log and the true curves."""
    rng = np.random.default_rng(seed)
    mu, sigma = rng.normal(0.6, 0.3, N), rng.uniform(0.3, 0.5, N)
    who = np.repeat(np.arange(N), n_auctions)
    draws = rng.standard_normal((2, len(who)))
    price = (1e6 * np.exp(mu[who] + sigma[who] * draws[0])).astype(int)
    bid = (1e6 * np.exp(0.6 + 0.5 * draws[1])).astype(int)
    log = log_of(
        advertiser=who,
        bid=bid,
        won=bid >= price,
        price=price if auction == "second" else bid,
        edges=EDGES,
        auction=auction,
        revealed="paid" if auction == "second" else "none",
    )
    return log, ndtr((np.log(EDGES / 1e6) - mu[:, None]) / sigma[:, None])


def plans_at(bid, n=1000.0):
    """The same bid of everybody."""
    days = np.array(["2026-03-03"], "datetime64[D]")
    zero = np.zeros(N, dtype=np.int64)
    return Plans(np.arange(N), np.arange(N + 1), np.full(N, bid), np.full(N, n), zero, days)


@pytest.mark.parametrize("auction", ["second", "first"])
def test_log_normal_prices_are_found(auction):
    """Impressions and spend of everybody are near those of the true curves."""
    log, truth = lognormal_market(auction)
    evidence = evidence_of(log)
    for plans in map(plans_at, (1.2, 3.5)):
        for found, expected in zip(
            lognormal_forecast(log, evidence, plans),
            forecast_by_curves(truth, evidence, plans),
            strict=True,
        ):
            # of 150 auctions each; if only wins are known, low bids that seldom win say little
            assert measure(found, expected).wape < (0.15 if auction == "first" else 0.11)
            assert abs(measure(found, expected).bias) < 0.05


def test_advertisers_with_few_auctions_are_drawn_to_the_others():
    """Five auctions, all lost: more is expected than nothing, and less than of the others."""
    log, _ = lognormal_market("second")
    cells = log.bids
    first = np.flatnonzero(cells.advertiser == 7)
    keep = np.ones(len(cells.bin), dtype=bool)
    keep[first[5:]] = False
    parts = {name: part[keep] for name, part in vars(cells).items()}
    few = parts["advertiser"] == 7
    parts["wins"][few] = parts["cost"][few] = 0.0
    parts["count"][few] = parts["square"][few] = 1.0
    prices = {name: part[log.prices.advertiser != 7] for name, part in vars(log.prices).items()}
    thin = replace(log, bids=type(cells)(**parts), prices=type(log.prices)(**prices))
    found, _ = lognormal_forecast(thin, evidence_of(thin), plans_at(2.0))
    others = np.delete(found, 7)
    assert 0.3 * np.median(others) < found[7] < np.quantile(others, 0.9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@on_one_thread()  # as evaluations are made
def test_both_forecast_the_next_day(kind):
    """Finite, not negative, no more than was bid for, and better than a guess."""
    made = market(replace(EASY, days=3, **KINDS[kind]))
    log = made.histograms
    before, plans = log.for_days([0, 1]), plans_of(log, [2])
    plans = plans.of_rows(np.isin(log.advertisers, before.advertisers))
    row = np.searchsorted(before.advertisers, log.advertisers)
    asked = replace(plans, rows=row[plans.rows])
    truth = outcome_of(log, [2])
    vectors = np.eye(3)[made.segments][np.isin(log.advertisers, before.advertisers)]
    evidence = evidence_of(before)
    boosted = boosted_forecast(before, asked, vectors, 0)
    forecasts = [lognormal_forecast(before, evidence, asked), boosted]
    if kind == "second price":
        forecasts.append(boosted_forecast(before, asked, None, 0))
        np.testing.assert_array_equal(boosted, boosted_forecast(before, asked, vectors, 0))
    for impressions, spend in forecasts:
        for values in (impressions, spend):
            assert values.shape == (len(before.advertisers),)
            assert np.isfinite(values).all() and (values >= 0).all()
        assert (impressions[asked.rows] <= plans.supplies * (1 + 1e-9)).all()
        cost = np.add.reduceat(plans.bids * plans.counts, plans.starts[:-1]) / 1000
        assert (spend[asked.rows] <= cost * (1 + 1e-9)).all()
        assert measure(impressions[asked.rows], truth.impressions[plans.rows]).wape < 0.35
        assert measure(spend[asked.rows], truth.spend[plans.rows]).wape < 0.35


@pytest.mark.parametrize("won", [True, False])
@on_one_thread()
def test_logs_without_wins_or_losses(won):
    """Little, or nearly everything, is won at the same bids; prices need no wins."""
    log = log_of(
        advertiser=np.arange(80) % 4,
        bid=np.tile([1_000_000, 2_000_000], 40),
        won=won,
        price=900_000,
        edges=price_grid(0.9e6, 2e6),
    )
    plans = plans_of(log, [0])
    for impressions, spend in (
        boosted_forecast(log, plans, None, 0),
        lognormal_forecast(log, evidence_of(log), plans),
    ):
        share = impressions / plans.supplies
        assert (share > 0.75).all() if won else (share < 0.4).all()
        assert np.isfinite(spend).all() and (spend >= 0).all()
