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

The paper describes bids by two c.d.f.s instead: the share of all wins, and of their cost, at bids
of at most b (:func:`share_of_wins`, :func:`share_of_cost`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

import coterie.ads.curves.kernels as kernels
from coterie.ads.histograms.bid_histograms import BidHistograms, DenseCounts
from coterie.ads.histograms.stored_days import StoredDays, stored_wins
from coterie.arrays import Floats, Ints
from coterie.errors import InvalidParameterError

#: Micros per thousand impressions in one unit of currency per impression.
PER_UNIT = 1e9
_MICROS = 1_000_000


@dataclass(frozen=True)
class Evidence:
    """Successes and trials of each advertiser in each bin, counted on some days."""

    form: str  # "hazard" or "rate", see the table above
    pays: str  # "price" or "bid": whether price is by bin of the price or of the bid
    edges: Ints  # (G,), upper edges of the bins, in micros
    successes: Floats  # (A, G)
    trials: Floats  # (A, G)
    price: Floats  # (G,), mean price in micros over all advertisers
    observations: Floats  # (A,), effective number of bids of each advertiser

    @cached_property
    def failures(self) -> Floats:
        """Trials without success, (A, G)."""
        return np.maximum(self.trials - self.successes, 0)


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
    is_first, has_prices = histograms.auction == "first", histograms.revealed != "none"
    # weighted counts are scaled to the effective number of bids, so that a common weight of all
    # rows changes nothing
    total = counts.bids.sum(axis=1)
    scale = np.divide(counts.observations, total, out=np.zeros_like(total), where=total > 0)
    scale = scale[:, None]
    if has_prices:
        # an auction is a trial in all bins up to its price or, if it was lost, up to its bid
        losses = np.maximum(counts.bids - counts.wins, 0)
        censored = losses if histograms.revealed == "paid" else np.zeros_like(losses)
        last_trials = (counts.prices + censored) * scale
        trials = np.cumsum(last_trials[:, ::-1], axis=1)[:, ::-1]
    else:
        trials = counts.bids * scale
    edges = counts.edges.astype(np.float64)
    price = edges
    if not is_first:
        # by prices that are not known, a winner pays the smallest bid that wins
        number = counts.prices.sum(axis=0) * has_prices
        middle = (np.concatenate([[0.0], edges[:-1]]) + edges) / 2
        price = np.divide(counts.price.sum(axis=0), number, out=middle, where=number > 0)
    return Evidence(
        "hazard" if has_prices else "rate",
        "bid" if is_first else "price",
        counts.edges,
        (counts.prices if has_prices else counts.wins) * scale,
        trials,
        price,
        counts.observations,
    )


def win_curves(rates: Floats, trials: Floats, form: str) -> Floats:
    """Compute W at the upper edges of the bins, (A, G), from the rate of success in each bin.

    The result is monotone and in [0, 1]. In the rate form the rates are made monotone by isotonic
    regression, weighted by the trials.

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


def monotone_rows(values: Floats, weights: Floats) -> Floats:
    """Return the non-decreasing rows nearest to ``values`` (A, G) in weighted least squares.

    Entries without weight do not count; they lie on a straight line between their neighbours with
    weight, and level beyond them. A row without any weight is 0.

    >>> monotone_rows(np.array([[3.0, 1.0, 9.0, 4.0]]), np.array([[1.0, 1.0, 0.0, 1.0]])).tolist()
    [[2.0, 2.0, 3.0, 4.0]]
    """
    rows, mass = (
        np.ascontiguousarray(part, dtype=np.float64)
        for part in np.broadcast_arrays(values, weights)
    )
    return np.asarray(kernels.pool_violators(rows, mass))


def own_curves(evidence: Evidence) -> Floats:
    """Compute the win curve of each advertiser from its own auctions; flat in bins without trials.

    Parameters
    ----------
    evidence : Evidence
        As :func:`evidence_of` returns it.

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

    >>> zero = np.zeros((1, 2))
    >>> price = np.array([8.0, 16.0])
    >>> evidence = Evidence("hazard", "price", np.array([10, 20]), zero, zero, price, zero)
    >>> spend_curves(np.array([[0.5, 1.0]]), evidence).tolist()
    [[4.0, 12.0]]
    """
    if evidence.pays == "bid":
        return win * evidence.price
    return np.cumsum(np.diff(win, axis=1, prepend=0.0) * evidence.price, axis=1)


def curve_at(curves: Floats, edges: Ints, bids: ArrayLike) -> Floats:
    """Interpolate curves (A, G) at bids in micros, linear between edges, constant above the last.

    ``bids`` are (A, B), B for each advertiser, or (B,), the same for all. The result is (A, B).

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


def marginal_costs(spend: ArrayLike, impressions: ArrayLike) -> Floats:
    """Compute the cost of a thousand further impressions between neighbouring bids, (…, G).

    With spend S and impressions N at G increasing bids, the marginal cost of bid g is

        1000 · (S_g − S_{g−1}) / (N_g − N_{g−1}),

    and S = N = 0 before the first bid. It is NaN where a higher bid brings no further impressions.
    Any common factor may be left out of S and N, so that they may also be the mean cost and the
    share won of one auction.

    The second bid brings 500 impressions more and costs 3 more; the third brings none.

    >>> marginal_costs([2.0, 5.0, 5.0], [1000.0, 1500.0, 1500.0]).tolist()
    [2.0, 6.0, nan]
    """
    paid, won = (
        np.diff(np.asarray(part, dtype=np.float64), axis=-1, prepend=0.0)
        for part in (spend, impressions)
    )
    return np.divide(1000.0 * paid, won, out=np.full(won.shape, np.nan), where=won > 0)


def share_of_wins(counts: DenseCounts, over: str = "wins") -> Floats:
    """Return the paper's win-rate c.d.f., (A, G): wins with a bid ≤ b over all wins or all bids.

    The paper does not say which. Divided by all wins (the default) it is a distribution function,
    as the Kolmogorov–Smirnov test requires. The row of an advertiser without wins, or without
    bids, is 0.
    """
    if over not in {"wins", "bids"}:
        raise InvalidParameterError(f"over={over!r}: it must be 'wins' or 'bids'")
    return _cumulative_share(counts.wins, counts.wins if over == "wins" else counts.bids)


def share_of_cost(counts: DenseCounts) -> Floats:
    """Return the paper's eCPM-cost c.d.f., (A, G): cost of wins with a bid ≤ b over all cost."""
    return _cumulative_share(counts.cost, counts.cost)


def _cumulative_share(part: Floats, whole: Floats) -> Floats:
    summed, total = np.cumsum(part, axis=1), whole.sum(axis=1, keepdims=True)
    return np.clip(np.divide(summed, total, out=np.zeros_like(summed), where=total > 0), 0, 1)


class BidShares:
    """The paper's c.d.f.s of A advertisers and of their segments, and how far they are apart.

    ``labels`` (A,) are −1 for no segment, and then all advertisers take its place. Curves are given
    at the bids of the ``grid`` (P,), in micros; the distance is over all bids.
    """

    def __init__(self, stored: StoredDays, labels: Ints, grid: Ints) -> None:
        self._own = stored_wins(stored, len(labels))
        self._labels, self._edges = labels, stored.edges
        self._shown = np.searchsorted(stored.edges, grid, side="right") - 1
        n_segments = int(labels.max(initial=-1)) + 1
        # a row for each segment, and the last for all advertisers
        member = sp.csr_array(
            (np.ones(len(labels)), (labels % (n_segments + 1), np.arange(len(labels)))),
            shape=(n_segments + 1, len(labels)),
        )
        self._segments = {}
        for name, own in self._own.items():
            by_segment = (member @ own).toarray()
            by_segment[-1] = own.sum(axis=0)
            self._segments[name] = _cumulative_share(by_segment, by_segment)

    def of_segment(self, segment: int) -> dict[str, list[float]]:
        """Return the c.d.f.s of ``wins`` and ``cost`` of a segment, of all advertisers for −1."""
        return {name: self._at_grid(curves[segment]) for name, curves in self._segments.items()}

    def of_advertiser(self, row: int) -> dict[str, dict[str, Any]] | None:
        """Return those of an advertiser; None if it has no wins or no cost.

        For ``wins`` and ``cost`` there are ``own``, (P,), the ``distance`` D = max_b |F(b) − G(b)|
        from the segment, and the ``bid`` where the curves are so far apart.
        """
        found = {}
        for name, own in self._own.items():
            sums = own[[row]].toarray()
            if sums.sum() <= 0:
                return None
            curve = _cumulative_share(sums, sums)[0]
            gaps = np.abs(curve - self._segments[name][self._labels[row]])
            found[name] = {
                "own": self._at_grid(curve),
                "distance": float(gaps.max()),
                "bid": float(self._edges[gaps.argmax()]) / _MICROS,
            }
        return found

    def _at_grid(self, curve: Floats) -> list[float]:
        return np.where(self._shown >= 0, curve[self._shown], 0.0).tolist()
