"""Target effects: what each value of a dimension changes for each advertiser, fitted to a log.

A value v changes four things for an advertiser: the share of its auctions, its log price level by
a shift, and its rates of clicks and of conversions per impression by factors.

**Pooling.** Effects of V values of one dimension on A advertisers follow a hierarchy of two steps:
own evidence, completed by the segments', completed by those of all advertisers. With s_ak the
share of advertiser a in segment k, the last of them "no segment in particular":

===========  ===================================  ========================================
             shift δ of the log price level       factor λ of a rate
===========  ===================================  ========================================
segment      μ_kv ~ N(m_v, ω²)                    ρ_kv ~ gamma of mean 1, variance 1/S
advertiser   δ_av ~ N(Σ_k s_ak μ_kv, τ²)          λ_av ~ gamma of mean λ_v Σ_k s_ak ρ_kv and
                                                  relative variance 1/M
evidence     x_av ~ N(δ_av, 1/h_av)               c_av ~ Poisson(E_av λ_av)
===========  ===================================  ========================================

τ, ω, M and S are common to the values of a dimension. τ and ω are fitted by maximum likelihood, M
and S by moments, with a weak prior, since a few clicks say nothing about them: 1/M = 0.1 ± 0.1. An
advertiser with many auctions counts in its segment as one draw of δ or λ, not by its auctions.

**Shifts of the price level.** With W_a the win curve of advertiser a over all its auctions, those
with value v are taken to have the curve W_a(b·e^{−δ}). The log likelihood of δ is the sum over the
auctions of

=========  =================================================
auction    log likelihood
=========  =================================================
revealed   log [W_a(e_g·e^{−δ}) − W_a(e_{g−1}·e^{−δ})]
won        log W_a(m_g·e^{−δ})
lost       log [1 − W_a(m_g·e^{−δ})]
=========  =================================================

for an auction in a bin g with the upper edge e_g and the middle m_g; see
:mod:`coterie.ads.curves.auction_counts`. A small part of all auctions is taken to be unlike the
curve, so that no single auction decides. The curve of an advertiser rises in steps at the prices
that it has seen itself. Where prices are revealed it is smoothed first: otherwise these steps would
favour the shift 0.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.auction_counts import log_edges
from coterie.ads.histograms.target_counts import StoredTargets, TargetCounts, pack_targets
from coterie.arrays import Floats, Ints
from coterie.errors import InvalidParameterError

Curves = NDArray[np.float32]

#: No effect is larger; the checks of models have the same limits.
_RANGE = (-10.0, 1e3)
_MOST_NAMED = 8

#: The shifts at which likelihoods are computed, (J,).
SHIFTS = np.linspace(-1.2, 1.2, 49)
#: Variance of the prior under which shifts are first looked for.
_WIDE = 0.25
#: Share of the auctions that are unlike the curve.
_UNLIKE = 0.02
#: Standard deviation of the smoothing of curves, in bins of the price grid: 10 of them are a factor
#: of 1.27.
_SMOOTH_BINS = 10.0
_ADVERTISERS_AT_ONCE = 1_000
_PAIRS_AT_ONCE = 100_000

#: Rounds in which means and variances are found from each other.
_ROUNDS = 6
_VARIANCES = (1e-5, 1.0)
_LEAST_FACTOR = 1e-3
_LEAST_SHARE = 1e-6
#: Relative variance of factors that is assumed, within its own size, before any is seen.
_USUAL_VARIANCE = 0.1

_LOG = logging.getLogger("coterie")


class Market(NamedTuple):
    """What is known of the advertisers without their targets."""

    edges: Ints  # (G,), in micros
    win: Curves  # (A, G), win curves at a common price level
    shares: Floats  # (A, K + 1), of the segments; the last is no segment in particular
    click_rate: Floats | None  # (A,), per impression; None if the log has no clicks
    conversion_rate: Floats | None


class EffectsOfOne(NamedTuple):
    """Means and standard deviations of the effects of V values on one advertiser, (2, V) each.

    The deviation of a share or factor is relative: that of its logarithm.
    """

    share: Floats
    shift: Floats
    click: Floats
    conversion: Floats

    def of(self, columns: Ints) -> EffectsOfOne:
        """Return the effects of some values."""
        return EffectsOfOne(*(part[:, columns] for part in self))


@dataclass(frozen=True)
class TargetEffects:
    """Effects of V values on A advertisers, and on new advertisers of K segments, or of none.

    Of each array, [0] are means and [1] standard deviations; those of shares and factors are
    relative to the mean.
    """

    dimensions: list[str]
    values: NDArray[np.str_]  # (V,)
    dimension: Ints  # (V,), indices into dimensions
    share: Curves  # (2, A, V), of the auctions; of each dimension they sum to 1
    shift: Curves  # (2, A, V), of the log price level
    click: Curves  # (2, A, V), factor of the click rate
    conversion: Curves  # (2, A, V), factor of the conversion rate
    segment_share: Curves  # (2, K + 1, V)
    segment_shift: Curves
    segment_click: Curves
    segment_conversion: Curves
    counts: StoredTargets | None  # to which later days are added

    def columns(self, dimension: str) -> Ints:
        """Return the indices of the values of a dimension; refuse one that is not known."""
        if dimension not in self.dimensions:
            known = ", ".join(self.dimensions)
            raise InvalidParameterError(
                f"dimension={dimension!r}: the dimensions of the model are {known}"
            )
        return np.flatnonzero(self.dimension == self.dimensions.index(dimension))

    def chosen(self, where: Mapping[str, str]) -> dict[str, int]:
        """Return, for each dimension of a choice, the place of the value among its values.

        >>> effects = TargetEffects(["device"], np.array(["phone", "tv"]), np.zeros(2, int),
        ...                         *[np.zeros((2, 1, 2), np.float32)] * 8, None)
        >>> effects.chosen({"device": "tv"})
        {'device': 1}
        """
        if not isinstance(where, Mapping):
            raise InvalidParameterError(
                f"where={where!r}: give a value for each dimension, as in "
                f"{{'{self.dimensions[0]}': '{self.values[0]}'}}"
            )
        found = {}
        for dimension, value in where.items():
            names = self.values[self.columns(dimension)].tolist()
            if str(value) not in names:
                some = ", ".join(names[:_MOST_NAMED]) + " …" * (len(names) > _MOST_NAMED)
                raise InvalidParameterError(
                    f"where: {dimension} has no value {str(value)!r}; its values are {some}"
                )
            found[dimension] = names.index(str(value))
        return found

    def of_row(self, row: int) -> EffectsOfOne:
        """Return the effects on an advertiser of the log."""
        parts: list[Any] = [self.share, self.shift, self.click, self.conversion]
        return EffectsOfOne(*(part[:, row].astype(np.float64) for part in parts))

    def of_new(self, shares: Floats) -> EffectsOfOne:
        """Return the effects on a new advertiser with shares (K + 1,) in the segments."""
        share, click, conversion = (
            _mixed_factors(shares, part)
            for part in (self.segment_share, self.segment_click, self.segment_conversion)
        )
        mean = shares @ self.segment_shift[0]
        variance = shares @ (self.segment_shift[1].astype(np.float64) ** 2)
        variance += shares @ (self.segment_shift[0] - mean) ** 2
        return EffectsOfOne(share, np.stack([mean, np.sqrt(variance)]), click, conversion)


def fit_targets(counts: TargetCounts, market: Market) -> TargetEffects:
    """Fit the effects of all values."""
    A, V = len(counts.advertisers), len(counts.values)
    K = market.shares.shape[1]
    own = {name: np.ones((2, A, V), np.float32) for name in EffectsOfOne._fields}
    new = {name: np.ones((2, K, V), np.float32) for name in EffectsOfOne._fields}
    bids, wins, clicks, conversions = (
        counts.totals(name) for name in ("bids", "wins", "clicks", "conversions")
    )
    for number, dimension in enumerate(counts.dimensions):
        _LOG.info("Fitting the effects of %s", dimension)
        columns = np.flatnonzero(counts.dimension == number)
        fitted = {
            "share": _shares(bids[:, columns], market.shares),
            "shift": _shifts(counts, market, columns),
            "click": _rates(clicks, wins, market.click_rate, columns, market.shares),
            "conversion": _rates(conversions, wins, market.conversion_rate, columns, market.shares),
        }
        for name, pooled in fitted.items():
            own[name][:, :, columns] = np.clip([pooled.mean, pooled.sd], *_RANGE)
            new[name][:, :, columns] = np.clip([pooled.segment_mean, pooled.segment_sd], *_RANGE)
    parts: dict[str, Any] = own | {f"segment_{name}": part for name, part in new.items()}
    return TargetEffects(
        dimensions=counts.dimensions,
        values=counts.values,
        dimension=counts.dimension,
        counts=pack_targets(counts),
        **parts,
    )


def _shares(bids: Floats, shares: Floats) -> Pooled:
    """Return the shares of the values of one dimension; rows sum to 1."""
    overall = bids.sum(axis=0) / max(bids.sum(), 1.0)
    total = bids.sum(axis=1, keepdims=True)
    pooled = pool_factors(bids, total * overall, shares)
    mean, of_new = (
        np.maximum(overall * part, _LEAST_SHARE) for part in (pooled.mean, pooled.segment_mean)
    )
    mean /= mean.sum(axis=1, keepdims=True)
    of_new /= of_new.sum(axis=1, keepdims=True)
    # shares sum to 1: a share near 1 is known better than its number alone says
    return pooled._replace(
        mean=mean,
        sd=pooled.sd * np.sqrt(1 - mean),
        segment_mean=of_new,
        segment_sd=pooled.segment_sd * np.sqrt(1 - of_new),
    )


def _shifts(counts: TargetCounts, market: Market, columns: Ints) -> Pooled:
    """Return the shifts of the values of one dimension.

    The likelihood is replaced by a normal one where it matters: first around its own mode, then
    around the mode under the pooled prior.
    """
    found = shift_likelihood(counts, market.win, market.edges, columns)
    shape = len(counts.advertisers), len(columns)
    row, column = found.advertiser, np.searchsorted(columns, found.value)
    mean, variance = np.zeros(len(row)), np.full(len(row), _WIDE)
    for _ in range(2):
        mode, spread = found.mode(mean, variance)
        information = np.maximum(1 / spread - 1 / variance, 0.0)
        x, h = np.zeros(shape), np.zeros(shape)
        h[row, column] = information
        x[row, column] = np.divide(
            mode / spread - mean / variance,
            information,
            out=np.zeros_like(mode),
            where=information > 0,
        )
        # an error of the curve itself moves all values of an advertiser alike
        x -= (h * x).sum(axis=1, keepdims=True) / np.maximum(h.sum(axis=1, keepdims=True), 1e-9)
        pooled = pool_shifts(x, h, market.shares)
        prior_variance = np.maximum(market.shares @ pooled.segment_sd**2, 1e-5)
        mean = (market.shares @ pooled.segment_mean)[row, column]
        variance = prior_variance[row, column]
    return pooled


def _rates(
    events: Floats, wins: Floats, rate: Floats | None, columns: Ints, shares: Floats
) -> Pooled:
    """Return the factors of a rate; 1 if the log has no such events."""
    if rate is None:
        own, new = np.ones((len(wins), len(columns))), np.ones((shares.shape[1], len(columns)))
        return Pooled(own, 0 * own, new, 0 * new, 0.0, 0.0)
    return pool_factors(events[:, columns], wins[:, columns] * rate[:, None], shares)


def _mixed_factors(shares: Floats, segments: Curves) -> Floats:
    """Return mean and relative deviation of a mixture of segments, (2, V)."""
    each, deviation = segments.astype(np.float64)
    mean = shares @ each
    variance = shares @ ((each * deviation) ** 2 + (each - mean) ** 2)
    return np.stack([mean, np.sqrt(variance) / np.maximum(mean, 1e-300)])


class ShiftLikelihood(NamedTuple):
    """Log likelihoods of P pairs of an advertiser and a value, at the J shifts."""

    advertiser: Ints  # (P,)
    value: Ints  # (P,)
    values: Curves  # (P, J)

    def mode(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the most probable shift of each pair and its variance, (P,) each.

        The prior is normal, of these means and variances (P,). The variance is that of a parabola
        through the three best points.
        """
        found = np.empty((2, len(self.values)))
        step = SHIFTS[1] - SHIFTS[0]
        for first in range(0, len(self.values), _PAIRS_AT_ONCE):
            some = slice(first, first + _PAIRS_AT_ONCE)
            centre, spread = mean[some], variance[some]
            total = self.values[some] - (SHIFTS - centre[:, None]) ** 2 / (2 * spread[:, None])
            best = np.clip(total.argmax(axis=1), 1, len(SHIFTS) - 2)
            rows = np.arange(len(best))
            left, middle, right = (total[rows, best + side] for side in (-1, 0, 1))
            # never flatter than the prior alone: rounding and kinks of the curve may suggest it
            curvature = np.maximum((2 * middle - left - right) / step**2, 1 / spread)
            move = (right - left) / (2 * step) / curvature
            found[:, some] = SHIFTS[best] + np.clip(move, -step, step), 1 / curvature
        return found[0], found[1]


def shift_likelihood(
    counts: TargetCounts, win: Curves, edges: Ints, columns: Ints
) -> ShiftLikelihood:
    """Return the likelihoods of the shifts of some values, given by index.

    ``win`` (A, G) are the curves at ``edges`` (G,). Pairs without auctions are left out.
    """
    # imported here because it is slow and forecasts do not need it
    from scipy.ndimage import gaussian_filter1d

    A, cells = len(counts.advertisers), counts.cells
    # Σw / Σw²: the weights of a sample count as (Σw)²/Σw² bids
    number, square = (
        np.bincount(cells.advertiser, part, A) for part in (cells.bids, cells.squares)
    )
    scale = np.divide(number, square, out=np.zeros(A), where=square > 0)
    kept = np.flatnonzero(np.isin(cells.value, columns))
    pair = cells.advertiser[kept].astype(np.int64) * len(counts.values) + cells.value[kept]
    found, first = np.unique(pair, return_index=True)
    values = np.empty((len(found), len(SHIFTS)), dtype=np.float32)
    for low in range(0, A, _ADVERTISERS_AT_ONCE):
        high = min(low + _ADVERTISERS_AT_ONCE, A)
        start, stop = np.searchsorted(cells.advertiser[kept], [low, high]).tolist()
        if start == stop:
            continue
        chosen, curves = kept[start:stop], win[low:high]
        if counts.revealed != "none":
            curves = gaussian_filter1d(curves, _SMOOTH_BINS, axis=1, mode="nearest")
        revealed, won, lost = _log_tables(curves, edges, counts.edges)
        bids, wins, prices = (part[chosen] for part in (cells.bids, cells.wins, cells.prices))
        kinds = [(wins, won) if counts.revealed == "none" else (prices, revealed)]
        if counts.revealed != "minimum":
            kinds.append((np.maximum(bids - wins, 0.0), lost))
        place = (cells.advertiser[chosen] - low) * len(counts.edges) + cells.bin[chosen]
        sums = np.zeros((len(chosen), len(SHIFTS)), dtype=np.float32)
        for auctions, table in kinds:
            weight = (auctions * scale[cells.advertiser[chosen]]).astype(np.float32)
            sums += weight[:, None] * table[place]
        pairs = slice(*np.searchsorted(first, [start, stop]))
        values[pairs] = np.add.reduceat(sums, first[pairs] - start, axis=0)
    advertiser, value = np.divmod(found, len(counts.values))
    return ShiftLikelihood(advertiser, value, values)


def _log_tables(win: Curves, edges: Ints, wide: Ints) -> tuple[Curves, Curves, Curves]:
    """Return log likelihoods of revealed, won and lost auctions, (A · bins, J) each."""
    x = log_edges(edges)
    upper = np.log(wide.astype(np.float64))
    width = upper[-1] - upper[-2] if len(upper) > 1 else 4 * (x[1] - x[0])
    lower = np.concatenate([[upper[0] - width], upper[:-1]])
    curves = np.concatenate([np.zeros((len(win), 1), np.float32), win], axis=1)

    def at(amount: Floats) -> Curves:
        """Return W of all advertisers at shifted amounts, (A · bins, J)."""
        place = np.interp(amount[:, None] - SHIFTS, x, np.arange(len(x)))
        below = np.minimum(place.astype(np.int64), len(x) - 2)
        part = (place - below).astype(np.float32)
        found = curves[:, below] * (1 - part) + curves[:, below + 1] * part
        return np.asarray(found.reshape(-1, len(SHIFTS)))

    whole = np.float32(1 - _UNLIKE)
    middle = whole * at((lower + upper) / 2) + np.float32(_UNLIKE / 2)
    top, bottom = at(upper), at(lower)
    bottom.reshape(len(win), -1, len(SHIFTS))[:, 0] = 0.0  # the first bin has no lower end
    revealed = whole * np.maximum(top - bottom, 0.0) + np.float32(_UNLIKE / len(wide))
    return np.log(revealed), np.log(middle), np.log1p(-middle)


class Pooled(NamedTuple):
    """Means and standard deviations; of factors, the deviation over the mean."""

    mean: Floats  # (A, V)
    sd: Floats
    segment_mean: Floats  # (K + 1, V), of a new advertiser of each segment, or of any
    segment_sd: Floats
    within: float  # τ², or 1/M
    between: float  # ω², or 1/S


def pool_shifts(x: Floats, information: Floats, shares: Floats) -> Pooled:
    """Pool shifts x (A, V) with information h (A, V), 0 where nothing is known.

    ``shares`` are (A, K + 1).

    Examples
    --------
    Without evidence, an advertiser gets the shift of its segment.

    >>> x = np.array([[0.2], [0.2], [0.2], [0.0]])
    >>> found = pool_shifts(x, np.array([[1e4], [1e4], [1e4], [0.0]]), np.ones((4, 1)))
    >>> found.mean.round(3).ravel().tolist()
    [0.2, 0.2, 0.2, 0.2]
    """
    within, between = 0.01, 0.04
    for _ in range(_ROUNDS):
        weight = information / (1 + information * within)
        segment, variance, raw, effective = _segments(x, weight, shares, between, None)
        prior = shares @ segment
        known = information > 0
        noise, residual = 1 / information[known], (x - prior)[known]
        within = _best_variance(residual, noise)
        if len(effective):
            seen = effective > 0
            far = (raw - segment[-1])[seen]
            between = _best_variance(far, 1 / effective[seen])
    prior, doubt = _mixed(shares, segment, variance)
    total = doubt + within
    precision = information + 1 / total
    mean = (information * x + prior / total) / precision
    return Pooled(
        mean, np.sqrt(1 / precision), segment, np.sqrt(variance + within), within, between
    )


def pool_factors(events: Floats, expected: Floats, shares: Floats) -> Pooled:
    """Pool the factors of events c (A, V) over the expected numbers E (A, V).

    Examples
    --------
    >>> found = pool_factors(np.array([[0.0, 0.0], [90.0, 10.0]]),
    ...                      np.array([[0.0, 0.0], [50.0, 50.0]]), np.ones((2, 1)))
    >>> bool((np.diff(found.mean) < -0.2).all())
    True
    """
    seen = expected > 0
    ratio = np.divide(events, expected, out=np.zeros_like(events), where=seen)
    overall = np.ones(events.shape[1])
    prior = np.ones(events.shape)
    within, between = 0.1, 0.1
    for _ in range(_ROUNDS):
        # the variation within segments bounds what an advertiser with many events counts
        weight = expected / (1 + within * prior * expected)
        total, found = weight.sum(axis=0), (weight * ratio).sum(axis=0)
        of_values = _relative_variance(found[None], total[None])
        overall = (found + 1 / of_values) / (total + 1 / of_values)
        segment, variance, raw, effective = _segments(
            ratio / overall, weight * overall, shares, between, 1.0
        )
        segment = np.maximum(segment, _LEAST_FACTOR)
        variance *= segment  # of a gamma variable, chance being Poisson; that of the last is S
        prior = overall * (shares @ segment)
        within = _relative_variance(events, prior * expected)
        if len(effective):
            between = _relative_variance(effective * raw, effective)
    mixed, doubt = _mixed(shares, segment, variance)
    shape = 1 / (within + doubt / mixed**2)
    mean = (events + shape) / (expected + shape / (overall * mixed))
    of_new = np.sqrt(within + variance / segment**2)
    return Pooled(mean, 1 / np.sqrt(events + shape), overall * segment, of_new, within, between)


def _segments(
    x: Floats, weight: Floats, shares: Floats, between: float, centre: float | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return means and variances of the segments, (K + 1, V) each, pooled with that of all.

    Also return the means of the segments alone and their weights, (K, V) each: what the variation
    between segments is fitted to. ``centre`` is the mean of all advertisers, found from the
    segments unless given.
    """
    members = shares[:, :-1] if shares.shape[1] > 1 else shares
    total = members.T @ weight
    mean = np.divide(members.T @ (weight * x), total, out=np.zeros_like(total), where=total > 0)
    if centre is None:
        trust = total / (1 + total * between)
        trust = np.where(trust.sum(axis=0) > 0, trust, 1.0)
        centres = (trust * mean).sum(axis=0) / trust.sum(axis=0)
    else:
        centres = np.full(x.shape[1], centre)
    precision = total + 1 / between
    segment = (total * mean + centres / between) / precision
    if shares.shape[1] == 1:  # no segments: all advertisers are one
        return segment, 1 / precision, mean[:0], total[:0]
    return (
        np.vstack([segment, centres]),
        np.vstack([1 / precision, np.full((1, x.shape[1]), between)]),
        mean,
        total,
    )


def _mixed(shares: Floats, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of mixtures of segments, (A, V) each."""
    mixed = shares @ mean
    return mixed, np.maximum(shares @ (variance + mean**2) - mixed**2, 0.0)


def _best_variance(residual: Floats, noise: Floats) -> float:
    """Return the variance v that makes residuals ~ N(0, v + noise) most likely."""
    # imported here because it is slow and forecasts do not need it
    from scipy.optimize import minimize_scalar

    def cost(log_variance: float) -> float:
        total = np.exp(log_variance) + noise
        return float((np.log(total) + residual**2 / total).sum())

    limits = np.log(_VARIANCES).tolist()
    return float(np.exp(minimize_scalar(cost, bounds=limits, method="bounded").x))


def _relative_variance(counts: Floats, mean: Floats) -> float:
    """Return the relative variance v of the factors of counts, given the totals of rows.

    With q the share of a mean m in its row, counts given their total have the variance

        m (1 − q) + v m² (1 − 2q + Σ q²)

    v is the weighted mean of what squares exceed the first term by, over the second. The condition
    matters: rates that were fitted to the same row make its counts agree better with their means.
    """
    total, expected = (part.sum(axis=1, keepdims=True) for part in (counts, mean))
    usable = (total > 0)[:, 0] & (expected > 0)[:, 0]
    total, counts = total[usable], counts[usable]
    q = mean[usable] / expected[usable]
    m = q * total
    noise, signal = m * (1 - q), m**2 * (1 - 2 * q + (q**2).sum(axis=1, keepdims=True))
    excess, v = (counts - m) ** 2 - noise, _USUAL_VARIANCE
    for _ in range(_ROUNDS):
        # the variance of a square of a Poisson number, at the current v
        weight = signal / np.maximum(2 * (noise + v * signal) ** 2 + noise, 1e-300)
        information = (weight * signal).sum() + 1 / _USUAL_VARIANCE**2
        v = float(((weight * excess).sum() + 1 / _USUAL_VARIANCE) / information)
        v = min(max(v, _VARIANCES[0]), _VARIANCES[1])
    return v
