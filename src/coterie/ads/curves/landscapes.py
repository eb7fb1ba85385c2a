"""Landscapes: win-rate and cost curves estimated from counts.

For an advertiser and a bid b let W(b) = P(market price ≤ b), the share of auctions that a bid of b
wins, and C(b) = E[price paid · won], the mean cost of an auction at that bid. A log gives evidence
on W in one of two forms, both of them *successes among trials* in every bin g of the grid:

========  =====================================  ==================================  ==========
form      successes x_g                          trials y_g                          curve
========  =====================================  ==================================  ==========
hazard    prices revealed in bin g               auctions whose price is known not   W = 1 −
                                                 to be below bin g                   Π (1 − x/y)
rate      bids in bin g that won                 bids in bin g                       isotonic
========  =====================================  ==================================  ==========

The hazard form is the Kaplan–Meier estimate: a win reveals the market price, and a loss shows that
the price is above the bid (right censoring). If the log has the minimum to win of every auction,
nothing is censored, and the formula gives the empirical distribution. A first-price log without
the minimum to win has the rate form only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.ads.curves.monotone_rows import monotone_rows
from coterie.ads.histograms.bid_histograms import BidHistograms, DenseCounts
from coterie.errors import InvalidParameterError

__all__ = [
    "PER_UNIT",
    "Evidence",
    "curve_at",
    "evidence_of",
    "own_curves",
    "share_of_cost",
    "share_of_wins",
    "spend_curves",
    "win_curves",
]

#: Micros per thousand impressions in one unit of currency per impression.
PER_UNIT = 1e9

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """Successes and trials of each advertiser in each bin, counted on some days."""

    form: str  # "hazard" or "rate", see the table above
    pays: str  # "price" or "bid": whether price is by bin of the price or of the bid
    edges: NDArray[np.int64]  # (G,), upper edges of the bins, in micros
    successes: Floats  # (A, G)
    trials: Floats  # (A, G)
    price: Floats  # (G,), mean price in micros over all advertisers
    observations: Floats  # (A,), effective number of bids of each advertiser

    @cached_property
    def pooled(self) -> Evidence:
        """Evidence of all advertisers added up, one row."""
        return replace(
            self,
            successes=self.successes.sum(axis=0, keepdims=True),
            trials=self.trials.sum(axis=0, keepdims=True),
            observations=self.observations.sum(keepdims=True),
        )

    @cached_property
    def failures(self) -> Floats:
        """Trials without success, (A, G)."""
        return np.maximum(self.trials - self.successes, 0)

    def rows(self, index: ArrayLike) -> Evidence:
        """Return the evidence of some advertisers."""
        at = np.asarray(index)
        return replace(
            self,
            successes=self.successes[at],
            trials=self.trials[at],
            observations=self.observations[at],
        )


def evidence_of(histograms: BidHistograms, days: ArrayLike | None = None) -> Evidence:
    """Compute successes and trials in every bin, in the form that the log allows.

    Parameters
    ----------
    histograms : BidHistograms
    days : array-like of int, optional
        Indices into ``histograms.days``; by default all.

    Examples
    --------
    Two auctions are won at prices of 20 and 30, one is lost with a bid of 20. Only one of them
    is known to have a price above 20, so the third bin has one trial.

    >>> from coterie.ads.histograms.bid_histograms import BidCells, PriceCells
    >>> zero = np.zeros(2)
    >>> cells = BidCells(*np.array([[0, 0], [0, 0], [1, 2]]), np.array([1.0, 2.0]),
    ...     np.array([1.0, 2.0]), np.array([20.0, 60]), np.array([0.0, 2]),
    ...     np.array([0.0, 50]), zero, zero)
    >>> prices = PriceCells(*np.array([[0, 0], [0, 0], [1, 2]]), np.ones(2), np.array([20.0, 30]))
    >>> log = BidHistograms(np.array(["a"]), np.array(["2026-03-02"], "datetime64[D]"),
    ...     np.array([10, 20, 30]), "second", "paid", cells, prices)
    >>> evidence = evidence_of(log)
    >>> evidence.successes.tolist(), evidence.trials.tolist()
    ([[0.0, 1.0, 1.0]], [[3.0, 3.0, 1.0]])
    >>> own_curves(evidence).round(3).tolist()
    [[0.0, 0.333, 1.0]]
    """
    counts = histograms.dense(days)
    # weighted counts are scaled to the effective number of bids, so that a common weight of all
    # rows changes nothing
    total = counts.bids.sum(axis=1)
    scale = np.divide(counts.observations, total, out=np.zeros_like(total), where=total > 0)
    scale = scale[:, None]
    if histograms.revealed == "none":
        return Evidence(
            "rate",
            "bid",
            counts.edges,
            counts.wins * scale,
            counts.bids * scale,
            _price_by_bid(counts, histograms.auction),
            counts.observations,
        )
    # an auction is a trial in all bins up to its price or, if it was lost, up to its bid
    losses = np.maximum(counts.bids - counts.wins, 0)
    censored = losses if histograms.revealed == "paid" else np.zeros_like(losses)
    last_trials = (counts.prices + censored) * scale
    trials = np.cumsum(last_trials[:, ::-1], axis=1)[:, ::-1]
    first = histograms.auction == "first"
    return Evidence(
        "hazard",
        "bid" if first else "price",
        counts.edges,
        counts.prices * scale,
        trials,
        counts.edges.astype(np.float64) if first else _price_by_bin(counts),
        counts.observations,
    )


def win_curves(rates: Floats, trials: Floats, form: str) -> Floats:
    """Compute W at the upper edges of the bins, (A, G), from the rate of success in each bin.

    The result is monotone and in [0, 1]. In the rate form the rates are made monotone by isotonic
    regression, weighted by the trials.

    Examples
    --------
    >>> win_curves(np.array([[0.5, 0.5]]), np.ones((1, 2)), "hazard").tolist()
    [[0.5, 0.75]]
    >>> win_curves(np.array([[0.5, 0.25]]), np.ones((1, 2)), "rate").tolist()
    [[0.375, 0.375]]
    """
    if form == "hazard":
        return np.clip(1.0 - np.cumprod(1.0 - rates, axis=1), 0.0, 1.0)
    if form == "rate":
        return np.clip(monotone_rows(rates, trials), 0.0, 1.0)
    raise InvalidParameterError(f"form={form!r}: it must be 'hazard' or 'rate'")


def own_curves(evidence: Evidence) -> Floats:
    """Compute the win curve of each advertiser from its own auctions; flat in bins without trials.

    Parameters
    ----------
    evidence : Evidence
        Wins and trials by bin, as :func:`evidence_of` returns them.

    Returns
    -------
    (A, G) float64 array
        W at the upper edges of the bins.
    """
    rates = np.divide(
        evidence.successes,
        evidence.trials,
        out=np.zeros_like(evidence.successes),
        where=evidence.trials > 0,
    )
    return win_curves(rates, evidence.trials, evidence.form)


def spend_curves(win: Floats, evidence: Evidence) -> Floats:
    """Compute C at the upper edges of the bins, (A, G), in micros: the mean cost of an auction.

    With prices by bin of the price, C(b) = Σ price · ΔW over the bins up to b; with prices by bin
    of the bid, C(b) = W(b) · price(b). The mean price of a win, the cost curve, is C / W.

    Examples
    --------
    >>> zero = np.zeros((1, 2))
    >>> price = np.array([8.0, 16.0])
    >>> evidence = Evidence("hazard", "price", np.array([10, 20]), zero, zero, price, zero)
    >>> spend_curves(np.array([[0.5, 1.0]]), evidence).tolist()
    [[4.0, 12.0]]
    """
    if evidence.pays == "bid":
        return win * evidence.price
    return np.cumsum(np.diff(win, axis=1, prepend=0.0) * evidence.price, axis=1)


def curve_at(curves: Floats, edges: NDArray[np.int64], bids: ArrayLike) -> Floats:
    """Interpolate curves (A, G) at bids in micros, linear between edges, constant above the last.

    ``bids`` are (A, B), B for each advertiser, or (B,), the same for all. The result is (A, B).

    Examples
    --------
    >>> curve_at(np.array([[0.2, 0.6]]), np.array([10, 20]), [5, 15, 99]).round(2).tolist()
    [[0.1, 0.4, 0.6]]
    """
    at = np.asarray(bids, dtype=np.float64)
    at = np.broadcast_to(np.atleast_2d(at), (len(curves), at.shape[-1]))
    upper = np.minimum(np.searchsorted(edges, at, side="left"), len(edges) - 1)
    lower_edge = np.where(upper > 0, edges[upper - 1], 0)
    share = np.clip((at - lower_edge) / (edges[upper] - lower_edge), 0.0, 1.0)
    high = np.take_along_axis(curves, upper, axis=1)
    low = np.where(upper > 0, np.take_along_axis(curves, np.maximum(upper - 1, 0), axis=1), 0.0)
    # on an edge the value is returned unchanged, without rounding
    return np.where(share < 1, low + share * (high - low), high)


def share_of_wins(counts: DenseCounts, over: str = "wins") -> Floats:
    """Return the paper's win-rate c.d.f., (A, G): wins with a bid ≤ b over all wins or all bids.

    The paper does not say which. Divided by all wins (the default) it is a distribution function,
    as the Kolmogorov–Smirnov test requires. The row of an advertiser without wins, or without
    bids, is 0.
    """
    if over not in {"wins", "bids"}:
        raise InvalidParameterError(f"over={over!r}: it must be 'wins' or 'bids'")
    total = (counts.wins if over == "wins" else counts.bids).sum(axis=1, keepdims=True)
    return _share(counts.wins, total)


def share_of_cost(counts: DenseCounts) -> Floats:
    """Return the paper's eCPM-cost c.d.f., (A, G): cost of wins with a bid ≤ b over all cost."""
    return _share(counts.cost, counts.cost.sum(axis=1, keepdims=True))


def _share(part: Floats, total: Floats) -> Floats:
    summed = np.cumsum(part, axis=1)
    return np.clip(np.divide(summed, total, out=np.zeros_like(summed), where=total > 0), 0, 1)


def _price_by_bin(counts: DenseCounts) -> Floats:
    """Return the mean price in each bin of the price; the middle of a bin without prices."""
    number = counts.prices.sum(axis=0)
    middle = (np.concatenate([[0.0], counts.edges[:-1]]) + counts.edges) / 2
    return np.divide(counts.price.sum(axis=0), number, out=middle, where=number > 0)


def _price_by_bid(counts: DenseCounts, auction: str) -> Floats:
    """Return the mean price in each bin of the bid, made to increase with the bid."""
    edges = counts.edges.astype(np.float64)
    if auction == "first":
        return edges
    wins = counts.wins.sum(axis=0)
    mean = np.divide(counts.cost.sum(axis=0), wins, out=np.zeros_like(edges), where=wins > 0)
    return np.minimum(monotone_rows(mean[None], wins[None])[0], edges)
