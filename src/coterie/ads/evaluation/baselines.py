"""Baselines: simple forecasts that the market model must not lose to.

``lognormal``
    The price of each advertiser is log-normal. Its mean and spread have a normal prior that is
    estimated from all advertisers (empirical Bayes); no segments, and no other shape.
``boosting``
    Gradient boosting of wins and of prices on the bid, on shrunken means of the advertiser, and on
    a cluster of its text.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from coterie.ads.curves.auction_counts import count_auctions, log_edges
from coterie.ads.curves.landscapes import Evidence
from coterie.ads.curves.market_dictionary import log_likelihood
from coterie.ads.forecasts.forecast_tables import Plans, forecast_by_curves
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.arrays import Floats, Ints

Pair = tuple[Floats, Floats]

BASELINES = ("lognormal", "boosting")
_ITERATIONS = 30
_SHRINKAGE = 20.0
_MOST_ROWS = 400_000
_TEXT_CLUSTERS = 10


def lognormal_forecast(histograms: BidHistograms, evidence: Evidence, plans: Plans) -> Pair:
    """Return mean impressions and spend of plans, (A,) each, by log-normal prices.

    The posterior of (μ, log σ) is computed on a grid. The normal prior has the mean and the
    covariance of the posteriors of all advertisers, in turn.
    """
    counts = count_auctions(histograms)
    x = log_edges(counts.edges)
    mu, log_sigma = (
        part.ravel()
        for part in np.meshgrid(
            np.arange(x[0], x[-1] + 0.08, 0.08), np.log(np.geomspace(0.15, 2.0, 14)), indexing="ij"
        )
    )
    atoms = ndtr((x[None] - mu[:, None]) / np.exp(log_sigma)[:, None])
    likelihood = log_likelihood(counts, atoms)
    likelihood -= likelihood.max(axis=1, keepdims=True)
    at = np.stack([mu, log_sigma], axis=1)
    mean, covariance = at.mean(axis=0), np.cov(at.T)
    for _ in range(_ITERATIONS):
        away = at - mean
        prior = -0.5 * np.einsum("ji,ik,jk->j", away, np.linalg.inv(covariance), away)
        posterior = np.exp(likelihood + prior - prior.max())
        posterior /= posterior.sum(axis=1, keepdims=True)
        weight = posterior.mean(axis=0)
        mean = weight @ at
        covariance = (weight[:, None] * (at - mean)).T @ (at - mean) + 1e-4 * np.eye(2)
    return forecast_by_curves((posterior @ atoms)[:, 1:], evidence, plans)


def boosted_forecast(
    histograms: BidHistograms, plans: Plans, vectors: Floats | None, seed: int
) -> Pair:
    """Return mean impressions and spend of plans, (A,) each, by gradient boosting.

    One model is of wins, and one of the logarithm of the price over the bid among wins; in first
    price the price is the bid.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    cells, A = histograms.bids, len(histograms.advertisers)
    bid = cells.bid / cells.count

    def shrunken(values: Floats, weights: Floats) -> Floats:
        overall = values.sum() / max(weights.sum(), 1e-9)
        by_row = np.bincount(cells.advertiser, values, A)
        total = np.bincount(cells.advertiser, weights, A)
        return (by_row + _SHRINKAGE * overall) / (total + _SHRINKAGE)

    log_bid = np.log(bid)
    rate = shrunken(cells.wins, cells.count)
    usual = shrunken(cells.count * log_bid, cells.count)
    spread = np.sqrt(np.maximum(shrunken(cells.count * log_bid**2, cells.count) - usual**2, 0.0))
    price = np.log(np.maximum(shrunken(cells.cost, cells.wins), 1.0))
    size = np.log1p(np.bincount(cells.advertiser, cells.count, A))
    group = np.zeros(A)
    if vectors is not None and np.any(vectors):
        from coterie.ads.segments.views import text_clusters

        n_groups = min(_TEXT_CLUSTERS, max(1, A // 2))
        group = text_clusters(vectors, [n_groups], random_state=seed)[:, 0].astype(np.float64)
    known = np.stack([rate, usual, spread, price, size, group], axis=1)

    def describe(rows: Ints, bids: Floats) -> Floats:
        """Return the features of log bids of some advertisers, (n, 8)."""
        return np.column_stack([bids, bids - known[rows, 1], known[rows]])

    rows = np.arange(len(bid))
    if len(bid) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(len(bid), _MOST_ROWS, replace=False))
    features = describe(cells.advertiser[rows], np.log(bid[rows]))
    won, lost = cells.wins[rows], (cells.count - cells.wins)[rows]
    wins = HistGradientBoostingClassifier(max_iter=150, random_state=seed).fit(
        np.vstack([features, features]),
        np.repeat([1, 0], len(rows)),
        sample_weight=np.concatenate([won, lost]) + 1e-9,
    )
    plan_rows = np.repeat(plans.rows, np.diff(plans.starts))
    described = describe(plan_rows, np.log(plans.bids * 1e6))
    rate = wins.predict_proba(described)[:, 1]
    each = plans.bids / 1000
    paid = won > 0
    if histograms.auction == "second" and paid.any():
        share = np.log(np.maximum(cells.cost[rows][paid] / won[paid], 1.0) / bid[rows][paid])
        prices = HistGradientBoostingRegressor(max_iter=150, random_state=seed).fit(
            features[paid], np.exp(share), sample_weight=won[paid]
        )
        each = each * np.clip(prices.predict(described), 0.0, 1.0)
    impressions = plans.counts * rate
    return (
        np.bincount(plan_rows, impressions, A).astype(np.float64),
        np.bincount(plan_rows, impressions * each, A).astype(np.float64),
    )
