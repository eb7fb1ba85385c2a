"""Compiled loops: the figures of many (advertiser, bid, supply), each as far as its bid goes.

The formulas are those of :mod:`coterie.ads.curves.pooling` and
:mod:`coterie.ads.forecasts.pooled_curves`, in the same
order. No step may be reordered by the compiler, so that a question has the same answer to the
last bit alone, among others, and whatever was asked before it.

Arguments come in groups:

``market``
    ``edges``, ``price``: (G,) float64, in micros; ``rates``, ``before``, ``falling``: (K + 1, G)
    float64, the rates of the segments, S(g − 1) and S(g − 1)·h(g) of
    :func:`~coterie.ads.curves.pooling.mixed_rates`.
``counts``
    Successes and then what was told in each bin, each as the row pointers (A + 1,) int64, bins
    int32 and values float64 of a sparse matrix.
``rules``
    ``strength``, ``noise``: float; whether curves are of hazards, whether what is paid goes by
    the bin of the price, whether winners pay their bid: bool.
``events``
    Rate and doubt of clicks, then of conversions: float64, NaN where the log has none.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np

from coterie.runtime.compile_messages import announce_compilation

__all__ = ["FIGURES", "figures_of_one", "figures_of_placed", "figures_of_rows", "pooled_wins"]

announce_compilation()

#: How many figures a forecast has.
FIGURES = 12

_NINE_IN_TEN = 1.6448536269514722
_MICROS = 1e6
_PER_UNIT = 1e9
_MOST_CERTAIN = 1e-9
_AS_GOOD_AS_INFINITE = 1e6
# of a mixture in which less than 1e-9 is at risk the rates are taken another way: a share below
# this moves no hazard by more than what rounding does
_NO_SHARE = 1e-26
_TINY = 1e-300
_SAME_HEIGHT = 1e-12


@nb.njit(cache=True, nogil=True, error_model="numpy")
def figures_of_rows(
    rows: Any,
    bids: Any,
    supplies: Any,
    market: Any,
    counts: Any,
    shares: Any,
    events: Any,
    rules: Any,
) -> Any:
    """Return the figures of Q questions, (Q, 12); one curve serves all questions of a row.

    ``rows`` are (Q,) int64, ``bids`` and ``supplies`` (Q,) float64, in units of currency and in
    auctions; ``shares`` is (A, K + 1) and ``events`` (A, 4).
    """
    n_questions, first, touched = len(rows), 0, np.zeros(1)
    figures = np.empty((n_questions, FIGURES))
    curve = np.empty((6, len(market[0])))
    while first < n_questions:
        row = rows[first]
        last = first + 1
        highest = bids[first]
        while last < n_questions and rows[last] == row:
            highest = max(highest, bids[last])
            last += 1
        if last < n_questions:
            touched[0] += _touch(rows[last], counts, shares)
        _pooled(row, shares[row], highest, market, counts, rules, curve)
        for i in range(first, last):
            _answer(bids[i], supplies[i], market[0], curve, events[row], rules, figures[i])
        first = last
    return figures


@nb.njit(cache=True, nogil=True, error_model="numpy")
def figures_of_one(
    row: Any,
    bid: Any,
    supply: Any,
    market: Any,
    counts: Any,
    shares: Any,
    events: Any,
    rules: Any,
) -> Any:
    """Return the figures of one question, (12,), as :func:`figures_of_rows` gives them."""
    figures = np.empty(FIGURES)
    curve = np.empty((6, len(market[0])))
    _pooled(row, shares[row], bid, market, counts, rules, curve)
    _answer(bid, supply, market[0], curve, events[row], rules, figures)
    return figures


@nb.njit(cache=True, nogil=True, error_model="numpy")
def figures_of_placed(
    bids: Any, supplies: Any, market: Any, counts: Any, shares: Any, events: Any, rules: Any
) -> Any:
    """Return the figures of somebody who is not in the log, (B, 12).

    ``shares`` is (K + 1,) and ``events`` (4,); of ``counts`` nothing is read.
    """
    figures = np.empty((len(bids), FIGURES))
    curve = np.empty((6, len(market[0])))
    _pooled(-1, shares, bids.max(), market, counts, rules, curve)
    for i in range(len(bids)):
        _answer(bids[i], supplies[i], market[0], curve, events, rules, figures[i])
    return figures


@nb.njit(cache=True, nogil=True, error_model="numpy")
def pooled_wins(at: Any, market: Any, counts: Any, shares: Any, rules: Any) -> Any:
    """Return the pooled win rate of all advertisers at ascending bins, (A, len(at)) float32."""
    wins = np.empty((len(shares), len(at)), np.float32)
    curve = np.empty((6, len(market[0])))
    highest = market[0][at[-1]] / _MICROS
    for row in range(len(shares)):
        _pooled(row, shares[row], highest, market, counts, rules, curve)
        for i in range(len(at)):
            wins[row, i] = curve[0, at[i]]
    return wins


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _pooled(
    row: Any, shares: Any, highest: Any, market: Any, counts: Any, rules: Any, curve: Any
) -> None:
    """Fill win rates, their variances and what is paid, ``curve[:3]``, up to a bid's bin."""
    edges, price = market[0], market[1]
    strength, hazard, by_price = rules[0], rules[2], rules[3]
    win, variance, paid = curve[0], curve[1], curve[2]
    prior, successes, trials = curve[3], curve[4], curve[5]
    n = _bin_of(highest * _MICROS, edges) + 1
    _fill_counts(row, counts, hazard, successes, trials)
    if hazard:
        _mix_hazards(shares, market, n, prior, win)
        _pool_hazards(strength, n, curve)
        _multiply_up(n, price, win, variance, paid)
    else:
        _add_up(shares, market[2], len(edges), prior)
        _pool_rates(strength, prior, successes, trials, paid)
        _rise(strength, n, prior, paid, trials, win, variance)
    if not (hazard and by_price):
        for g in range(n):
            paid[g] = win[g] * price[g]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _bin_of(amount: Any, edges: Any) -> Any:
    return min(np.searchsorted(edges, amount), len(edges) - 1)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _touch(row: Any, counts: Any, shares: Any) -> Any:
    """Read a little of all that a row has: it is on its way from memory before it is needed."""
    x_start, x_bin, x, t_start, t_bin, t = counts
    total = shares[row, 0] + shares[row, -1]
    for i in range(x_start[row], x_start[row + 1], 8):
        total += x[i] + x_bin[i]
    for i in range(t_start[row], t_start[row + 1], 8):
        total += t[i] + t_bin[i]
    return total


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill_counts(row: Any, counts: Any, hazard: Any, successes: Any, trials: Any) -> None:
    """Of all bins; in the hazard form whatever was told at or above a bin is a trial."""
    successes[:] = 0.0
    trials[:] = 0.0
    if row < 0:
        return
    x_start, x_bin, x, t_start, t_bin, t = counts
    for i in range(x_start[row], x_start[row + 1]):
        successes[x_bin[i]] = x[i]
    for i in range(t_start[row], t_start[row + 1]):
        trials[t_bin[i]] = t[i]
    if hazard:
        _add_through(trials[::-1])


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _mix_hazards(shares: Any, market: Any, n: Any, mixed: Any, at_risk: Any) -> None:
    _add_up(shares, market[4], n, mixed)
    _add_up(shares, market[3], n, at_risk)
    for g in range(n):
        mixed[g] /= at_risk[g]
    for g in range(n - 1, -1, -1):  # what is at risk falls from bin to bin
        if at_risk[g] > _MOST_CERTAIN:
            break
        mixed[g] = 0.0
        for s in range(len(shares)):
            mixed[g] += shares[s] * market[2][s, g]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _add_up(shares: Any, parts: Any, n: Any, total: Any) -> None:
    """Σ_s π_s · parts_s in the first n bins; four segments a pass, which is the fastest."""
    total[:n] = 0.0
    some, s = np.zeros(4, np.int64), 0
    while s < len(shares):
        weights, found = np.zeros(4), 0
        while s < len(shares) and found < 4:
            if shares[s] > _NO_SHARE:
                some[found], weights[found] = s, shares[s]
                found += 1
            s += 1
        if found:
            a, b, c, d = weights[0], weights[1], weights[2], weights[3]
            of_a, of_b, of_c, of_d = parts[some[0]], parts[some[1]], parts[some[2]], parts[some[3]]
            for g in range(n):
                total[g] = total[g] + a * of_a[g] + b * of_b[g] + c * of_c[g] + d * of_d[g]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _pool_hazards(strength: Any, n: Any, curve: Any) -> None:
    """1 − h as it is estimated, and two moments of its distribution: E[(1−h)²] and E[1−h]."""
    # conditions rather than max: the compiler makes vectors of them
    stays, square, mean = curve[0], curve[1], curve[2]
    prior, successes, trials = curve[3], curve[4], curve[5]
    m = min(strength, _AS_GOOD_AS_INFINITE)
    for g in range(n):
        total = trials[g] + m
        total = total if total > _MOST_CERTAIN else _MOST_CERTAIN
        beta = total - (successes[g] + m * prior[g])
        beta = beta if beta > 0.0 else 0.0
        stays[g] = mean[g] = beta / total
        square[g] = mean[g] * (beta + 1.0) / (total + 1.0)
    if strength > _AS_GOOD_AS_INFINITE:
        share = 0.0 if math.isinf(strength) else 1.0 / strength
        for g in range(n):
            pulled = (successes[g] * share + prior[g]) / (trials[g] * share + 1.0)
            stays[g] = 1.0 - pulled


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _multiply_up(n: Any, price: Any, win: Any, variance: Any, paid: Any) -> None:
    """From what :func:`_pool_hazards` left to W, its variance and Σ price · ΔW, in place."""
    for values in (win, paid, variance):
        _multiply_through(values[:n])
    for g in range(n):
        varies, won = variance[g] - paid[g] * paid[g], 1.0 - win[g]
        variance[g] = varies if varies > 0.0 else 0.0
        won = won if won > 0.0 else 0.0
        win[g] = won if won < 1.0 else 1.0
    paid[0] = win[0] * price[0]
    for g in range(1, n):
        paid[g] = (win[g] - win[g - 1]) * price[g]
    _add_through(paid[:n])


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _multiply_through(values: Any) -> None:
    """Compute running products in place, by fours; prefixes do not depend on the length."""
    through, fours = 1.0, len(values) - len(values) % 4
    for g in range(0, fours, 4):
        a, ab = values[g], values[g] * values[g + 1]
        abc, abcd = ab * values[g + 2], ab * (values[g + 2] * values[g + 3])
        values[g], values[g + 1], values[g + 2] = through * a, through * ab, through * abc
        through *= abcd
        values[g + 3] = through
    part = 1.0
    for g in range(fours, len(values)):
        part *= values[g]
        values[g] = through * part


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _add_through(values: Any) -> None:
    """Compute running sums, in place, by fours as well."""
    through, fours = 0.0, len(values) - len(values) % 4
    for g in range(0, fours, 4):
        a, ab = values[g], values[g] + values[g + 1]
        abc, abcd = ab + values[g + 2], ab + (values[g + 2] + values[g + 3])
        values[g], values[g + 1], values[g + 2] = through + a, through + ab, through + abc
        through += abcd
        values[g + 3] = through
    part = 0.0
    for g in range(fours, len(values)):
        part += values[g]
        values[g] = through + part


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _pool_rates(strength: Any, prior: Any, successes: Any, trials: Any, weights: Any) -> None:
    """Turn prior rates into pooled ones, in place, and say what each weighs."""
    for g in range(len(prior)):
        weights[g] = trials[g] + min(strength, _AS_GOOD_AS_INFINITE)
    if not math.isinf(strength):
        for g in range(len(prior)):
            total = trials[g] + strength
            total = total if total > _TINY else _TINY
            prior[g] = (successes[g] + strength * prior[g]) / total


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _rise(strength: Any, n: Any, rates: Any, weights: Any, trials: Any, win: Any, var: Any) -> None:
    """Isotonic regression over the bins with weight, carried on in a straight line to others.

    All bins are looked at, and the first n filled with W and W(1 − W)/(own trials + m + 1): see
    :func:`coterie.ads.curves.pooling.win_variance`.
    """
    sums, masses = np.empty(len(rates)), np.empty(len(rates))
    starts, ends = np.empty(len(rates), np.int32), np.empty(len(rates), np.int32)
    n_blocks = _blocks(rates, weights, sums, masses, starts, ends)
    known, height = -1, 0.0
    for block in range(n_blocks):
        below, height = height, min(max(sums[block] / masses[block], 0.0), 1.0)
        below = height if block == 0 else below
        for g in range(known + 1, starts[block]):
            win[g] = below + (height - below) * (g - known) / (starts[block] - known)
            var[g] = 0.0
        known = ends[block]
        win[starts[block] : known + 1] = height
        _together(trials[starts[block] : known + 1], var[starts[block] : known + 1])
        if known >= n - 1:
            break
    for g in range(known + 1, n):
        win[g], var[g] = height, 0.0
    m = min(strength, _AS_GOOD_AS_INFINITE)
    for g in range(n):
        var[g] = win[g] * (1.0 - win[g]) / (var[g] + m + 1.0)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _blocks(rates: Any, weights: Any, sums: Any, masses: Any, starts: Any, ends: Any) -> Any:
    """Return the blocks of bins that isotonic regression takes together; how many there are."""
    top = -1
    for g in range(len(rates)):
        if weights[g] <= 0:
            continue
        total, mass, start = rates[g] * weights[g], weights[g], g
        while top >= 0 and (sums[top] + _SAME_HEIGHT * masses[top]) * mass >= total * masses[top]:
            total += sums[top]
            mass += masses[top]
            start = starts[top]
            top -= 1
        top += 1
        sums[top], masses[top], starts[top], ends[top] = total, mass, start, g
    return top + 1


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _together(trials: Any, summed: Any) -> None:
    """Return the trials of a block, for its bins between the first and the last tried; else 0."""
    total, first, last = 0.0, len(trials), -1
    for g in range(len(trials)):
        if trials[g] > 0:
            total += trials[g]
            first, last = min(first, g), g
    summed[:] = 0.0
    summed[first : last + 1] = total


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _answer(
    bid: Any, supply: Any, edges: Any, curve: Any, events: Any, rules: Any, figures: Any
) -> None:
    """Return the twelve figures at one bid; see ``pooled_curves.forecast_at``."""
    amount = bid * _MICROS
    g = _bin_of(amount, edges)
    lower = edges[g - 1] if g > 0 else 0.0
    part = min((amount - lower) / (edges[g] - lower), 1.0)
    win = _between(curve[0, g - 1] if g > 0 else 0.0, curve[0, g], part)
    spread = _between(math.sqrt(curve[1, g - 1]) if g > 0 else 0.0, math.sqrt(curve[1, g]), part)
    paid = _between(curve[2, g - 1] if g > 0 else 0.0, curve[2, g], part)
    mean = supply * win
    doubt = math.sqrt((supply * spread) ** 2 + supply * win * (1 - win) + (rules[1] * mean) ** 2)
    low = max(mean - _NINE_IN_TEN * doubt, 0.0)
    high = min(mean + _NINE_IN_TEN * doubt, supply)
    each = 0.0
    if win > 0:
        each = bid / 1000 if rules[4] else min(paid / win / _PER_UNIT, bid / 1000)
    figures[0], figures[1], figures[2] = win, each * 1000, mean
    figures[3], figures[4] = low, high
    figures[5], figures[6], figures[7] = mean * each, low * each, high * each
    clicks = mean * events[0]
    variance = clicks + (doubt * events[0]) ** 2 + (mean * events[1]) ** 2
    figures[8] = clicks
    figures[9] = max(clicks - _NINE_IN_TEN * math.sqrt(variance), 0.0)
    figures[10] = clicks + _NINE_IN_TEN * math.sqrt(variance)
    if math.isnan(clicks):
        figures[9] = np.nan
    figures[11] = mean * events[2]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _between(low: Any, high: Any, part: Any) -> Any:
    return low + part * (high - low) if part < 1 else high
