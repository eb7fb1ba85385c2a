"""Compiled loops: figures of forecasts from the curves of a market.

A question is a plan of one advertiser: some bids, each with a number of auctions and a price level
of its day. With W(b) the probability to win, C(b) the mean cost of an auction and s the level, one
item of n auctions at a bid b adds

=============  ====================================  ==========================================
               impressions                           spend
=============  ====================================  ==========================================
mean           n·W(b·e^{−s})                         n·e^s·C(b·e^{−s}), or n·W·b in first price
chance         n·W·(1 − W)                           n·(E[price²·won] − C²)
curve          n·sd(W)                               n·max(|Σ price·Δsd(W)|, sd(W)·C/W)
level          −n·dW/d log b                         n·(C − b·dW/d log b)
=============  ====================================  ==========================================

Chance parts are variances of independent auctions and add up. Curve and level parts are common to
all items of a plan: they add up before they are squared. If the number of auctions is forecast, it
is a Poisson number, and the chance parts have no term −W² or −C².

The interval of a target is mean − z·sd … mean + z·sd. The factors z come from a backtest
(:mod:`coterie.ads.forecasts.calibration`), for three sizes of a forecast, between which they are
interpolated in the logarithm of its mean impressions. Counts of a small mean are whole numbers
with a long upper tail: their intervals are quantiles of a negative binomial distribution of this
mean and of the variance widened by the same factors.

Arguments come in groups:

``market``
    ``edges``, ``log_edges``, ``price``: (G,) float64; upper edges in micros, their logarithms, and
    the mean price in micros by bin of the price (or of the bid, see ``pays``).
``curves``
    ``win``, ``spread``: (R, G) float32; W at the edges, and its standard deviation.
``events``
    (R, 4) float64: rate of clicks and its standard deviation, then of conversions; NaN if the log
    has none.
``pays``
    0: ``price`` is by bin of the price; 1: the winner pays its bid; 2: ``price`` is by bin of the
    bid.
``rungs``
    ``ladder``, (2, 4, 2, 3) float64: z by mode (supply given, or forecast), target (impressions,
    spend, clicks, conversions), side and size; ``tail``, the probability beyond each end, or 0 for
    normal intervals only; and the normal quantile of the tail.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coterie.runtime.compiled_code import njit

__all__ = ["FIGURES", "SIZES", "chances_at", "figures_of_one", "figures_of_plans", "sums_of_plans"]

#: How many figures a forecast has.
FIGURES = 14
#: Logarithms (base 10) of the mean impressions at which factors z are known.
SIZES = (0.5, 1.5, 2.5)

_MICROS = 1e6
_SLOPE_BINS = 4
_PARTS = 12
_SMALL_MEAN = 20.0
_MOST_COUNT = 100_000


@njit(nogil=True, error_model="numpy")
def figures_of_plans(
    plans: Any, doubts: Any, market: Any, curves: Any, events: Any, pays: Any, rungs: Any
) -> Any:
    """Return the figures of Q plans, (Q, 14).

    ``plans`` are ``rows`` (Q,) and ``starts`` (Q + 1,), int64, and of all items together ``bids``
    in currency units, ``counts`` and ``shifts``, float64. ``doubts`` (Q, 3) are the standard
    deviation of the level, the relative one of the supply, and the share of the given supply that
    is asked about: 1 for all of it, 0 if the supply is forecast.
    """
    rows, starts, bids, counts, shifts = plans
    figures = np.empty((len(rows), FIGURES))
    parts = np.empty(_PARTS)
    for q in range(len(rows)):
        parts[:] = 0.0
        row, given = rows[q], doubts[q, 2] > 0
        for i in range(starts[q], starts[q + 1]):
            _add_item(bids[i], counts[i], shifts[i], given, row, market, curves, pays, parts)
        _fill_figures(parts, doubts[q], events[row], rungs, figures[q])
    return figures


@njit(error_model="numpy")
def figures_of_one(
    row: Any,
    bid: Any,
    count: Any,
    shift: Any,
    doubts: Any,
    market: Any,
    curves: Any,
    events: Any,
    pays: Any,
    rungs: Any,
) -> Any:
    """Return the figures of a plan of one bid, (14,), as :func:`figures_of_plans` gives them."""
    figures, parts = np.empty(FIGURES), np.zeros(_PARTS)
    given = doubts[2] > 0
    _add_item(bid, count, shift, given, row, market, curves, pays, parts)
    _fill_figures(parts, doubts, events[row], rungs, figures)
    return figures


@njit(nogil=True, error_model="numpy")
def sums_of_plans(plans: Any, given: Any, market: Any, curves: Any, pays: Any) -> Any:
    """Return the sums behind the figures of Q plans, (Q, 8): mean, chance, curve and level parts.

    Those of impressions come first, then those of spend, as in the table above.
    """
    rows, starts, bids, counts, shifts = plans
    sums = np.empty((len(rows), 8))
    parts = np.empty(_PARTS)
    for q in range(len(rows)):
        parts[:] = 0.0
        for i in range(starts[q], starts[q + 1]):
            _add_item(bids[i], counts[i], shifts[i], given, rows[q], market, curves, pays, parts)
        sums[q] = parts[:8]
    return sums


@njit(nogil=True, error_model="numpy")
def chances_at(bid: Any, shifts: Any, row: Any, market: Any, curves: Any, pays: Any) -> Any:
    """Return W, sd(W), C, E[price²·won] and sd(C) of one auction at n price levels, (n, 5)."""
    found = np.empty((len(shifts), 5))
    parts = np.empty(_PARTS)
    for i in range(len(shifts)):
        parts[:] = 0.0
        _add_item(bid, 1.0, shifts[i], False, row, market, curves, pays, parts)
        found[i, 0], found[i, 1] = parts[0], parts[2]
        found[i, 2], found[i, 3], found[i, 4] = parts[4], parts[5], parts[6]
    return found


@njit(nogil=True, error_model="numpy")
def _add_item(
    bid: Any,
    count: Any,
    shift: Any,
    given: Any,
    row: Any,
    market: Any,
    curves: Any,
    pays: Any,
    parts: Any,
) -> None:
    """Add one bid of a plan to the sums ``parts``; their order is that of the assignments."""
    edges, log_edges = market[0], market[1]
    win, spread = curves[0][row], curves[1][row]
    scale = math.exp(shift)
    amount = bid * _MICROS / scale
    g = min(np.searchsorted(edges, amount), len(edges) - 1)
    lower = edges[g - 1] if g > 0 else 0.0
    part = min((amount - lower) / (edges[g] - lower), 1.0)
    below = win[g - 1] if g > 0 else 0.0
    rate = below + part * (win[g] - below)
    before = spread[g - 1] if g > 0 else 0.0
    doubt = before + part * (spread[g] - before)
    first, last = max(g - _SLOPE_BINS, 0), min(g + _SLOPE_BINS - 1, len(edges) - 1)
    slope = (win[last] - win[first]) / (log_edges[last] - log_edges[first]) if last > first else 0.0
    if g == 0:
        slope *= part  # a straight line from 0 to the first edge
    elif amount > edges[-1]:
        slope = 0.0  # all auctions that can be won are won
    cost, square, cost_doubt, cost_level = _costs(
        bid, scale, g, part, rate, doubt, slope, market, win, spread, pays
    )
    parts[0] += count * rate
    parts[1] += count * (rate * (1.0 - rate) if given else rate)
    parts[2] += count * doubt
    parts[3] -= count * slope
    parts[4] += count * cost
    parts[5] += count * max(square - cost * cost if given else square, 0.0)
    parts[6] += count * cost_doubt
    parts[7] += count * cost_level
    parts[8] += count
    # rates are known also where there are no auctions
    weight = max(count, 1e-9)
    parts[9] += weight * rate
    parts[10] += weight * cost
    parts[11] += weight


@njit(nogil=True, error_model="numpy")
def _costs(
    bid: Any,
    scale: Any,
    g: Any,
    part: Any,
    rate: Any,
    doubt: Any,
    slope: Any,
    market: Any,
    win: Any,
    spread: Any,
    pays: Any,
) -> Any:
    """Return C, E[price²·won], sd(C) and dC/ds at a bid in bin g, in currency units."""
    if pays != 0:
        each = bid / 1000.0
        if pays == 2:
            price = market[2]
            low = price[g - 1] if g > 0 else 0.0
            each = min((low + part * (price[g] - low)) * scale / 1e9, each)
        return each * rate, each * each * rate, each * doubt, -each * slope
    edges, price = market[0], market[2]
    cost, square, cost_doubt, below, before = 0.0, 0.0, 0.0, 0.0, 0.0
    for h in range(g):
        risen = win[h] - below
        cost += price[h] * risen
        square += price[h] * price[h] * risen
        cost_doubt += price[h] * (spread[h] - before)
        below, before = win[h], spread[h]
    # in its own bin only prices up to the bid are paid
    lower = edges[g - 1] if g > 0 else 0.0
    last = price[g] * (lower + part * (edges[g] - lower) + lower) / (edges[g] + lower)
    last = min(last, bid * _MICROS / scale)
    cost += last * (rate - below)
    square += last * last * (rate - below)
    cost_doubt += last * (doubt - before)
    unit = scale / 1e9
    cost, square = cost * unit, square * unit * unit
    # rises and falls of the deviation cancel in the sum, though curves differ in both ways
    spread_cost = max(abs(cost_doubt) * unit, cost / rate * doubt if rate > 0 else 0.0)
    return cost, square, spread_cost, cost - bid / 1000.0 * slope


@njit(nogil=True, error_model="numpy")
def _fill_figures(parts: Any, doubts: Any, events: Any, rungs: Any, figures: Any) -> None:
    """Turn sums into win rate, eCPM, and mean and interval of the four targets."""
    level, supply, given = doubts[0], doubts[1], doubts[2] > 0
    impressions, spend = parts[0], parts[4]
    common = parts[2] ** 2 + (level * parts[3]) ** 2 + (supply * impressions) ** 2
    of_spend = parts[6] ** 2 + (level * parts[7]) ** 2 + (supply * spend) ** 2
    figures[0] = parts[9] / parts[11]
    figures[1] = 1000.0 * parts[10] / parts[9] if parts[9] > 0 else 0.0
    mode, ladder = 0 if given else 1, rungs[0]
    size = math.log10(max(impressions, 1e-9))
    most = parts[8] / doubts[2] if given else np.inf
    variance = common + parts[1]
    _fill_interval(impressions, variance, size, ladder[mode, 0], rungs, True, figures[2:5])
    figures[4] = min(figures[4], most)
    _fill_interval(spend, of_spend + parts[5], size, ladder[mode, 1], rungs, False, figures[5:8])
    for event in range(2):
        rate, doubt = events[2 * event], events[2 * event + 1]
        mean = impressions * rate
        variance = rate * rate * common + mean + (impressions * doubt) ** 2
        target = figures[8 + 3 * event : 11 + 3 * event]
        # events are rarer: their own mean decides how discrete they are
        size = math.log10(max(mean, 1e-9))
        _fill_interval(mean, variance, size, ladder[mode, 2 + event], rungs, True, target)
        target[2] = min(target[2], max(figures[4], mean))


@njit(nogil=True, error_model="numpy")
def _fill_interval(
    mean: Any, variance: Any, size: Any, factors: Any, rungs: Any, counts: Any, target: Any
) -> None:
    """Write mean, lower and upper end; NaN where the mean is NaN."""
    place = min(max(size - 0.5, 0.0), 2.0)
    step = min(int(place), 1)
    part = place - step
    low = factors[0, step] + part * (factors[0, step + 1] - factors[0, step])
    high = factors[1, step] + part * (factors[1, step + 1] - factors[1, step])
    deviation = math.sqrt(max(variance, 0.0))
    tail, normal = rungs[1], rungs[2]
    target[0] = mean
    if math.isnan(mean):
        target[1] = target[2] = np.nan
    elif counts and tail > 0 and mean < _SMALL_MEAN and variance > mean:
        wide = (low + high) / 2 / normal
        least = _quantile(mean, variance * wide * wide, tail, True)
        most = _quantile(mean, variance * wide * wide, 1.0 - tail, False)
        # the mean of a rare event is no whole number; it is always shown inside
        target[1], target[2] = min(least, mean), max(most, mean)
    else:
        target[1] = max(mean - low * deviation, 0.0)
        target[2] = mean + high * deviation


@njit(nogil=True, error_model="numpy")
def _quantile(mean: Any, variance: Any, share: Any, lower: Any) -> Any:
    """Return the end of an interval of a negative binomial number; Poisson if not dispersed.

    With M(k) = P(Y < k) + P(Y = k) / 2, it is the least k with M(k) ≥ share for a lower end, and
    the largest k with M(k) ≤ share for an upper one.
    """
    if mean <= 0:
        return 0.0
    excess = variance - mean
    shape = mean * mean / excess if excess > 1e-9 * mean else np.inf
    if math.isinf(shape):
        chance, ratio = math.exp(-mean), mean
    else:
        ratio = mean / (shape + mean)
        chance = math.exp(-shape * math.log1p(mean / shape))
    below, k = 0.0, 0
    while k < _MOST_COUNT:
        middle = below + chance / 2
        if lower and middle >= share:
            return float(k)
        if not lower and middle > share:
            return float(max(k - 1, 0))
        below += chance
        chance *= ratio / (k + 1) if math.isinf(shape) else ratio * (k + shape) / (k + 1)
        k += 1
    return float(k)
