"""Compiled loops: figures of forecasts from the curves of a market, and similar advertisers.

A question is a plan of one advertiser: some bids, each with a number of auctions and a price level
of its day. With W(b) the probability to win, C(b) the mean cost of an auction and s the level, one
item of n auctions at a bid b adds

=============  ====================================  ==========================================
               impressions                           spend
=============  ====================================  ==========================================
mean           n·W(b·e^{−s})                         n·e^s·C(b·e^{−s}), or n·W·b in first price
chance         n·W·(1 − W)                           n·(E[price²·won] − C²)
curve          n·sd(W)                               n·√((x − y)² + 2(1 − ρ)·x·y)
level          −n·dW/d log b                         n·(C − b·dW/d log b)
=============  ====================================  ==========================================

where x = b·sd(W), y = x − Σ price·Δsd(W) is what errors of W below the bid take from it, and ρ their
correlation; in first price it is n·b·sd(W). Chance parts are variances of independent auctions and add up. Curve and level parts are common to
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
    the mean price in micros by bin. ``masses``: (M,) int64, increasing; bins that end at a price of
    many auctions. It does not move with the level of the day: no level moves a bid past it.
``curves``
    ``win``, ``spread``: (R, G) float32; W at the edges, and its standard deviation.
``events``
    (R, 4) float64: rate of clicks and its standard deviation, then of conversions; NaN if the log
    has none.
``pays_bid``
    Whether the winner pays its bid.
``interval_factors``
    ``ladder``, (2, 4, 2, 3) float64: z by mode (supply given, or forecast), target (impressions,
    spend, clicks, conversions), side and size; ``tail``, the probability beyond each end, or 0 for
    normal intervals only; and the normal quantile of the tail.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY, exp, fabs, isinf, isnan, log10, log1p, sqrt
from libc.stdint cimport int64_t, uint8_t

cdef enum:
    N_FIGURES = 14
    N_PARTS = 12
    SLOPE_BINS = 4
    MOST_COUNT = 100000
    LANES = 8

#: How many figures a forecast has.
FIGURES = N_FIGURES
#: Logarithms (base 10) of the mean impressions at which factors z are known.
SIZES = (0.5, 1.5, 2.5)

cdef double MICROS = 1e6
#: Of errors of W at a bid with those below it.
cdef double CORRELATION = 0.8
cdef double SMALL_MEAN = 20.0
cdef double ROUNDING = 1e-3  # micros

cdef struct Market:
    const double* edges
    const double* log_edges
    const double* price
    const int64_t* masses
    Py_ssize_t G
    Py_ssize_t M
    bint pays_bid

cdef struct Costs:  # of one auction, in currency units
    double mean  # C
    double square  # E[price²·won]
    double sd  # sd(C)
    double level  # dC/ds

cdef struct IntervalFactors:
    const double* ladder
    double tail
    double normal


cdef Market market_of(tuple market, bint pays_bid) except *:
    cdef const double[::1] edges = market[0], log_edges = market[1], price = market[2]
    cdef const int64_t[::1] masses = market[3]
    return Market(  # without masses theirs is never followed
        &edges[0], &log_edges[0], &price[0], &masses[0], edges.shape[0], masses.shape[0], pays_bid
    )


cdef IntervalFactors factors_of(tuple interval_factors) except *:
    cdef const double[:, :, :, ::1] ladder = interval_factors[0]
    return IntervalFactors(&ladder[0, 0, 0, 0], interval_factors[1], interval_factors[2])


def figures_of_plans(
    tuple plans, const double[:, ::1] uncertainty, tuple market, tuple curves,
    const double[:, ::1] events, bint pays_bid, tuple interval_factors,
):
    """Return the figures of Q plans, (Q, 14).

    ``plans`` are ``rows`` (Q,) and ``starts`` (Q + 1,), int64, and of all items together ``bids``
    in currency units, ``counts`` and ``shifts``, float64. ``uncertainty`` (Q, 3) are the standard
    deviation of the level, the relative one of the supply, and the share of the given supply that
    is asked about: 1 for all of it, 0 if the supply is forecast.
    """
    cdef const int64_t[::1] rows = plans[0], starts = plans[1]
    cdef const double[::1] bids = plans[2], counts = plans[3], shifts = plans[4]
    cdef const float[:, ::1] win = curves[0], spread = curves[1]
    cdef Market m = market_of(market, pays_bid)
    cdef IntervalFactors r = factors_of(interval_factors)
    figures = np.empty((rows.shape[0], N_FIGURES))
    cdef double[:, ::1] out = figures
    cdef double[N_PARTS] parts
    cdef Py_ssize_t q, i
    with nogil:
        for q in range(rows.shape[0]):
            clear(parts)
            for i in range(starts[q], starts[q + 1]):
                add_item(
                    bids[i], counts[i], shifts[i], uncertainty[q, 2] > 0, &m, &win[rows[q], 0],
                    &spread[rows[q], 0], parts,
                )
            fill_figures(parts, &uncertainty[q, 0], &events[rows[q], 0], &r, &out[q, 0])
    return figures


def figures_of_one(
    Py_ssize_t row, double bid, double count, double shift, tuple uncertainty, tuple market,
    tuple curves, const double[:, ::1] events, bint pays_bid, tuple interval_factors,
):
    """Return the figures of a plan of one bid, 14 numbers, as :func:`figures_of_plans` does."""
    cdef const float[:, ::1] win = curves[0], spread = curves[1]
    cdef Market m = market_of(market, pays_bid)
    cdef IntervalFactors r = factors_of(interval_factors)
    cdef double[N_FIGURES] figures
    cdef double[N_PARTS] parts
    cdef double[3] own_uncertainty
    own_uncertainty[0], own_uncertainty[1], own_uncertainty[2] = uncertainty
    clear(parts)
    add_item(bid, count, shift, own_uncertainty[2] > 0, &m, &win[row, 0], &spread[row, 0], parts)
    fill_figures(parts, own_uncertainty, &events[row, 0], &r, figures)
    return <list>figures


def sums_of_plans(tuple plans, bint given, tuple market, tuple curves, bint pays_bid):
    """Return the sums behind the figures of Q plans, (Q, 8): mean, chance, curve and level parts.

    Those of impressions come first, then those of spend, as in the table above.
    """
    cdef const int64_t[::1] rows = plans[0], starts = plans[1]
    cdef const double[::1] bids = plans[2], counts = plans[3], shifts = plans[4]
    cdef const float[:, ::1] win = curves[0], spread = curves[1]
    cdef Market m = market_of(market, pays_bid)
    sums = np.empty((rows.shape[0], 8))
    cdef double[:, ::1] out = sums
    cdef double[N_PARTS] parts
    cdef Py_ssize_t q, i
    with nogil:
        for q in range(rows.shape[0]):
            clear(parts)
            for i in range(starts[q], starts[q + 1]):
                add_item(
                    bids[i], counts[i], shifts[i], given, &m, &win[rows[q], 0],
                    &spread[rows[q], 0], parts,
                )
            for i in range(8):
                out[q, i] = parts[i]
    return sums


cdef inline void clear(double* parts) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(N_PARTS):
        parts[i] = 0.0


cdef void add_item(
    double bid, double count, double shift, bint given, const Market* m, const float* win,
    const float* spread, double* parts,
) noexcept nogil:
    """Add one bid of a plan to the sums ``parts``; their order is that of the assignments."""
    cdef double scale = exp(shift), amount = at_level_0(bid * MICROS, scale, m)
    cdef Py_ssize_t g = min(first_not_below(m.edges, m.G, amount), m.G - 1)
    cdef double lower = m.edges[g - 1] if g > 0 else 0.0
    cdef double part = min((amount - lower) / (m.edges[g] - lower), 1.0)
    cdef double below = win[g - 1] if g > 0 else 0.0
    cdef double rate = below + part * (win[g] - below)
    cdef double before = spread[g - 1] if g > 0 else 0.0
    cdef double sd = before + part * (spread[g] - before)
    cdef Py_ssize_t first = max(g - SLOPE_BINS, 0), last = min(g + SLOPE_BINS - 1, m.G - 1)
    cdef double slope = 0.0, weight
    cdef Costs costs
    if last > first:
        slope = (win[last] - win[first]) / (m.log_edges[last] - m.log_edges[first])
    if g == 0:
        slope *= part  # a straight line from 0 to the first edge
    elif amount > m.edges[m.G - 1]:
        slope = 0.0  # all auctions that can be won are won
    costs = costs_at(bid, scale, g, part, rate, sd, slope, m, win, spread)
    parts[0] += count * rate
    parts[1] += count * (rate * (1.0 - rate) if given else rate)
    parts[2] += count * sd
    parts[3] -= count * slope
    parts[4] += count * costs.mean
    parts[5] += count * max(costs.square - costs.mean * costs.mean if given else costs.square, 0.0)
    parts[6] += count * costs.sd
    parts[7] += count * costs.level
    parts[8] += count
    # rates are known even where there are no auctions
    weight = max(count, 1e-9)
    parts[9] += weight * rate
    parts[10] += weight * costs.mean
    parts[11] += weight


cdef inline double at_level_0(double bid, double scale, const Market* m) noexcept nogil:
    """Return what a bid in micros is at level 0; no mass is passed on the way."""
    cdef double amount = bid / scale
    cdef Py_ssize_t k
    for k in range(m.M):
        # rounding may have made a bid a little less than the mass
        if bid < m.edges[m.masses[k]] - ROUNDING:
            return min(amount, m.edges[m.masses[k] - 1])
        amount = max(amount, m.edges[m.masses[k]])
    return amount


cdef inline Py_ssize_t first_not_below(
    const double* edges, Py_ssize_t G, double amount
) noexcept nogil:
    """Return the first edge that is not below an amount, G if there is none."""
    cdef Py_ssize_t low = 0, high = G, middle
    while low < high:
        middle = (low + high) // 2
        if edges[middle] >= amount:
            high = middle
        else:
            low = middle + 1
    return low


cdef inline Costs costs_at(
    double bid, double scale, Py_ssize_t g, double part, double rate, double sd, double slope,
    const Market* m, const float* win, const float* spread,
) noexcept nogil:
    """Return the costs at a bid in bin g."""
    cdef double each, lower, last, risen, at_bid, unit = scale / 1e9
    cdef double total = 0.0, squares = 0.0, deviation = 0.0, below = 0.0, before = 0.0
    cdef Py_ssize_t h
    if m.pays_bid:
        each = bid / 1000.0
        return Costs(each * rate, each * each * rate, each * sd, -each * slope)
    for h in range(g):
        risen = win[h] - below
        total += m.price[h] * risen
        squares += m.price[h] * m.price[h] * risen
        deviation += m.price[h] * (spread[h] - before)
        below, before = win[h], spread[h]
    # in its own bin only prices up to the bid are paid
    lower = m.edges[g - 1] if g > 0 else 0.0
    last = m.price[g] * (lower + part * (m.edges[g] - lower) + lower) / (m.edges[g] + lower)
    last = min(last, bid * MICROS / scale)
    total += last * (rate - below)
    squares += last * last * (rate - below)
    deviation += last * (sd - before)
    total *= unit
    deviation *= unit
    # what the cost owes to errors of W at the bid, and less it to those below it
    at_bid = last * unit * sd
    below = max(at_bid - deviation, 0.0)
    deviation = sqrt(deviation * deviation + 2.0 * (1.0 - CORRELATION) * at_bid * below)
    return Costs(total, squares * unit * unit, deviation, total - bid / 1000.0 * slope)


cdef void fill_figures(
    const double* parts, const double* uncertainty, const double* events, const IntervalFactors* z,
    double* figures,
) noexcept nogil:
    """Turn sums into win rate, eCPM, and mean and interval of the four targets."""
    cdef double level = uncertainty[0], supply = uncertainty[1]
    cdef bint given = uncertainty[2] > 0
    cdef double impressions = parts[0], spend = parts[4]
    cdef double common = parts[2] ** 2 + (level * parts[3]) ** 2 + (supply * impressions) ** 2
    cdef double of_spend = parts[6] ** 2 + (level * parts[7]) ** 2 + (supply * spend) ** 2
    cdef double size = log10(max(impressions, 1e-9)), variance, rate, sd, mean
    # the ladder is (modes, targets, sides, sizes)
    cdef const double* factors = z.ladder + (0 if given else 4 * 6)
    cdef int event
    figures[0] = parts[9] / parts[11]
    figures[1] = 1000.0 * parts[10] / parts[9] if parts[9] > 0 else 0.0
    variance = common + parts[1]
    fill_interval(impressions, variance, size, factors, z, True, figures + 2)
    if given:
        figures[4] = min(figures[4], parts[8] / uncertainty[2])
    fill_interval(spend, of_spend + parts[5], size, factors + 6, z, False, figures + 5)
    for event in range(2):
        rate, sd = events[2 * event], events[2 * event + 1]
        mean = impressions * rate
        variance = rate * rate * common + mean + (impressions * sd) ** 2
        # events are rarer: their own mean decides how discrete they are
        size = log10(max(mean, 1e-9))
        fill_interval(
            mean, variance, size, factors + 6 * (2 + event), z, True, figures + 8 + 3 * event
        )
        figures[10 + 3 * event] = min(figures[10 + 3 * event], max(figures[4], mean))


cdef void fill_interval(
    double mean, double variance, double size, const double* factors, const IntervalFactors* z,
    bint counts, double* target,
) noexcept nogil:
    """Write mean, lower and upper end; NaN where the mean is NaN. ``factors`` are (2, 3)."""
    cdef double place, part, low, high, deviation, wide
    cdef int step
    target[0] = target[1] = target[2] = mean
    if isnan(mean):
        return
    place = min(max(size - 0.5, 0.0), 2.0)
    step = min(<int>place, 1)
    part = place - step
    low = factors[step] + part * (factors[step + 1] - factors[step])
    high = factors[3 + step] + part * (factors[4 + step] - factors[3 + step])
    if counts and z.tail > 0 and mean < SMALL_MEAN and variance > mean:
        wide = (low + high) / 2 / z.normal
        variance = variance * wide * wide
        # the mean of a rare event is no whole number; it is always shown inside
        target[1] = min(quantile(mean, variance, z.tail, True), mean)
        target[2] = max(quantile(mean, variance, 1.0 - z.tail, False), mean)
    else:
        deviation = sqrt(max(variance, 0.0))
        target[1] = max(mean - low * deviation, 0.0)
        target[2] = mean + high * deviation


cpdef double quantile(double mean, double variance, double share, bint lower) noexcept nogil:
    """Return the end of an interval of a negative binomial number; Poisson if not dispersed.

    With M(k) = P(Y < k) + P(Y = k) / 2, it is the least k with M(k) ≥ share for a lower end, and
    the largest k with M(k) ≤ share for an upper one.
    """
    cdef double excess = variance - mean, shape = INFINITY, chance, ratio, below = 0.0, middle
    cdef int64_t k = 0
    if mean <= 0:
        return 0.0
    if excess > 1e-9 * mean:
        shape = mean * mean / excess
    if isinf(shape):
        chance, ratio = exp(-mean), mean
    else:
        chance, ratio = exp(-shape * log1p(mean / shape)), mean / (shape + mean)
    while k < MOST_COUNT:
        middle = below + chance / 2
        if lower and middle >= share:
            return k
        if not lower and middle > share:
            return max(k - 1, 0)
        below += chance
        chance *= ratio / (k + 1) if isinf(shape) else ratio * (k + shape) / (k + 1)
        k += 1
    return k


# Similar advertisers


def most_alike(
    Py_ssize_t row, Py_ssize_t n, const float[:, ::1] shares, const float[:, ::1] wins,
    const double[:, ::1] texts, const uint8_t[::1] has_text,
):
    """Return rows and likenesses of at most n others, most alike first; of equals the first.

    The likeness is that of :mod:`coterie.ads.forecasts.profiles`: ``shares`` (A, S) are π,
    ``wins`` (A, B) the win curves at some bids, ``texts`` (A, d) vectors of length 1.
    """
    others, values = np.empty(n, np.int64), np.zeros(n)
    cdef int64_t[::1] rows = others
    cdef double[::1] likeness = values
    cdef Py_ssize_t other, place, found = 0
    cdef double least, alike, cosine
    with nogil:
        for other in range(shares.shape[0]):
            least = likeness[n - 1]  # 0 until there are n
            if other == row:
                continue
            alike = lane_sum(&shares[row, 0], &shares[other, 0], shares.shape[1], True)
            alike = min(alike, 1.0)
            if alike <= least:
                continue
            alike *= 1.0 - <double>widest(&wins[row, 0], &wins[other, 0], wins.shape[1])
            if texts.shape[1] > 0 and alike > least:
                cosine = 0.0
                if has_text[row] and has_text[other]:
                    cosine = lane_sum(&texts[row, 0], &texts[other, 0], texts.shape[1], False)
                alike *= (1.0 + min(max(cosine, 0.0), 1.0)) / 2.0
            if alike <= least:
                continue
            place = min(found, n - 1)
            while place > 0 and likeness[place - 1] < alike:
                rows[place], likeness[place] = rows[place - 1], likeness[place - 1]
                place -= 1
            rows[place], likeness[place] = other, alike
            found = min(found + 1, n)
    return others[:found], values[:found]


cdef inline floating lane_sum(
    const floating* a, const floating* b, Py_ssize_t n, bint of_minima
) noexcept nogil:
    """Return Σ min(a, b) or Σ a·b, in lanes that the compiler keeps in vector registers."""
    cdef floating[LANES] lanes
    cdef floating total = 0.0
    cdef Py_ssize_t i, k
    for k in range(LANES):
        lanes[k] = 0.0
    for i in range(n // LANES):
        for k in range(LANES):
            lanes[k] += term(a[i * LANES + k], b[i * LANES + k], of_minima)
    for i in range(n - n % LANES, n):
        total += term(a[i], b[i], of_minima)
    for k in range(LANES):
        total += lanes[k]
    return total


cdef inline floating term(floating a, floating b, bint of_minima) noexcept nogil:
    return min(a, b) if of_minima else a * b


cdef inline float widest(const float* a, const float* b, Py_ssize_t n) noexcept nogil:
    """Return max |a − b|."""
    cdef float found = 0.0, apart
    cdef Py_ssize_t i
    for i in range(n):
        apart = a[i] - b[i]
        found = max(found, max(apart, -apart))
    return found
