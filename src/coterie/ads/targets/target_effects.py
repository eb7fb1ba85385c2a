"""Target effects: what each value of a dimension changes for each advertiser, fitted to a log.

A value v changes four things for an advertiser: the share of its auctions, its win curve by a
shift, and its rates of clicks and of conversions per impression by factors.

**Pooling.** Effects of V values of one dimension on A advertisers follow a hierarchy of two steps:
own evidence, completed by the segments', completed by those of all advertisers. With s_ak the
share of advertiser a in segment k, the last of them "no segment in particular":

===========  ===================================  ========================================
             shift δ of the normal score          factor λ of a rate
===========  ===================================  ========================================
segment      μ_kv ~ N(m_v, ω²)                    ρ_kv ~ gamma of mean 1, variance 1/S
advertiser   δ_av ~ N(Σ_k s_ak μ_kv, τ²)          λ_av ~ gamma of mean λ_v Σ_k s_ak ρ_kv and
                                                  relative variance 1/M
evidence     y_av ~ N(δ_av, 1/h_av)               c_av ~ Poisson(E_av λ_av)
===========  ===================================  ========================================

τ, ω, M and S are common to the values of a dimension. τ and ω are fitted by maximum likelihood, M
and S by moments, with a weak prior, since a few clicks say nothing about them: 1/M = 0.1 ± 0.1. An
advertiser with many auctions counts in its segment as one draw of δ or λ, not by its auctions.

**Shifts.** With W_a the win curve of advertiser a over all its auctions and π_av the shares of the
values, auctions with value v are won at a bid b with probability

    W_av(b) = Φ(x_a(b) − δ_av),   Σ_v π_av W_av(b) = W_a(b),

where Φ is the normal distribution. The second equation defines x, which takes the place of the bid.
So only the order of prices matters: floors and the form of the curve do not. Where prices with one
value are log-normal, δ is the shift of their logarithm over its standard deviation. The log
likelihood of δ is the sum over the auctions of

=========  =================================================
auction    log likelihood
=========  =================================================
revealed   log [Φ(x(e_g) − δ) − Φ(x(e_{g−1}) − δ)]
won        log Φ(x(m_g) − δ)
lost       log [1 − Φ(x(m_g) − δ)]
=========  =================================================

for an auction in a bin g with the upper edge e_g and the middle m_g; see
:mod:`coterie.ads.curves.auction_counts`. A small part of all auctions is taken to be unlike the
curve, so that no single auction decides. y and h are those of a step of Newton's method from the
pooled δ; the steps, x and the pooling alternate.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from coterie.ads.curves.auction_counts import log_edges
from coterie.ads.histograms.target_counts import StoredTargets, TargetCounts, pack_targets
from coterie.arrays import Floats, Ints
from coterie.errors import InvalidParameterError

Curves = NDArray[np.float32]

#: No effect is larger; the checks of models have the same limits.
_RANGE = (-10.0, 1e3)
_MOST_NAMED = 8

#: Share of the auctions that are unlike the curve.
_UNLIKE = 0.02
#: Normal scores at which x is computed; between them it is nearly straight.
_NODES = np.linspace(-2.4, 2.4, 17)
#: Steps of Newton's method: of x, and of shifts.
_STEPS, _SHIFT_STEPS = 4, 10
#: The least width in x of the bin of a price.
_LEAST_WIDTH = 1e-3
_ADVERTISERS_AT_ONCE = 1_000

#: Rounds in which means and variances are found from each other.
_ROUNDS = 6
_VARIANCES = (1e-5, 1.0)
_ROOT_2PI = float(np.sqrt(2 * np.pi))
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
    score: Floats
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
    score: Curves  # (2, A, V), shifts of the normal score of the win rate
    click: Curves  # (2, A, V), factor of the click rate
    conversion: Curves  # (2, A, V), factor of the conversion rate
    segment_share: Curves  # (2, K + 1, V)
    segment_score: Curves
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
        parts: list[Any] = [self.share, self.score, self.click, self.conversion]
        return EffectsOfOne(*(part[:, row].astype(np.float64) for part in parts))

    def of_new(self, shares: Floats) -> EffectsOfOne:
        """Return the effects on a new advertiser with shares (K + 1,) in the segments."""
        share, click, conversion = (
            _mixed_factors(shares, part)
            for part in (self.segment_share, self.segment_click, self.segment_conversion)
        )
        mean = shares @ self.segment_score[0]
        variance = shares @ (self.segment_score[1].astype(np.float64) ** 2)
        variance += shares @ (self.segment_score[0] - mean) ** 2
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
        share = _shares(bids[:, columns], market.shares)
        fitted = {
            "share": share,
            "score": _shifts(counts, market, columns, share.mean),
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


def _shifts(counts: TargetCounts, market: Market, columns: Ints, share: Floats) -> Pooled:
    """Return the shifts of the values of one dimension, of which the advertisers have the shares.

    The likelihood is replaced by a normal one around the pooled shifts of the round before.
    """
    A, shape = len(counts.advertisers), share.shape
    cells = counts.cells
    row = cells.advertiser
    # normal scores of W at the lower edges, middles and upper edges of the bins of the cells
    edges, ends = log_edges(market.edges), np.log(counts.edges.astype(np.float64))
    width = ends[-1] - ends[-2] if len(ends) > 1 else 4 * (edges[1] - edges[0])
    starts = np.concatenate([[ends[0] - width], ends[:-1]])
    curves = np.pad(market.win, ((0, 0), (1, 0)))
    scores = []
    for amounts in (starts, (starts + ends) / 2, ends):
        at = np.interp(amounts, edges, np.arange(len(edges)))[cells.bin]
        won = _interpolated(curves, row, at)
        scores.append(ndtri((1 - _UNLIKE) * won + _UNLIKE / 2))
    lower, middle, upper = scores
    lower[cells.bin == 0] = -np.inf  # the first bin has no lower end
    # Σw / Σw²: the weights of a sample count as (Σw)²/Σw² bids
    number, square = (np.bincount(row, part, A) for part in (cells.bids, cells.squares))
    scale = np.divide(number, square, out=np.zeros(A), where=square > 0)[row]
    place = np.full(len(counts.values), -1)
    place[columns] = np.arange(len(columns))
    no_end = np.full(len(row), np.inf)
    kinds = [(cells.wins, -no_end, middle)]
    if counts.revealed != "none":
        kinds = [(cells.prices, lower, upper)]
    if counts.revealed != "minimum":
        kinds.append((np.maximum(cells.bids - cells.wins, 0.0), middle, no_end))
    auctions = []
    for amounts, low, high in kinds:
        kept = np.flatnonzero((place[cells.value] >= 0) & (amounts > 0))
        at = row[kept] * shape[1] + place[cells.value[kept]]
        auctions.append((at, row[kept], low[kept], high[kept], (amounts * scale)[kept]))
    shift, prior, variance = np.zeros(shape), np.zeros(shape), np.ones(shape)
    places = np.arange(len(_NODES))
    for _ in range(_SHIFT_STEPS):
        blocks = (slice(a, a + _ADVERTISERS_AT_ONCE) for a in range(0, A, _ADVERTISERS_AT_ONCE))
        x = np.concatenate([thresholds(_NODES[None], share[some], shift[some]) for some in blocks])
        slope, h = np.zeros(shape), np.zeros(shape)
        for at, who, low, high, weight in auctions:
            around = [
                np.where(
                    np.isfinite(z),
                    _interpolated(x, who, np.interp(z, _NODES, places)) - shift.ravel()[at],
                    z,
                )
                for z in (low, high)
            ]
            first, second = interval_derivatives(*around)
            slope += np.bincount(at, weight * first, shift.size).reshape(shape)
            h += np.bincount(at, weight * second, shift.size).reshape(shape)
        y = shift + np.divide(slope, h, out=np.zeros(shape), where=h > 0)
        # an error of the curve itself moves all values of an advertiser alike
        trust = h / (1 + h * variance)
        total = trust.sum(axis=1, keepdims=True)
        y -= (trust * (y - prior)).sum(axis=1, keepdims=True) / np.maximum(total, 1e-9)
        pooled = pool_shifts(y, h, market.shares)
        shift, prior = pooled.mean, market.shares @ pooled.segment_mean
        variance = market.shares @ pooled.segment_sd**2
    return pooled


def thresholds(z: Floats, share: Floats, shift: Floats) -> Floats:
    """Return x with Σ_v π_v Φ(x − δ_v) = Φ(z) Σ_v π_v, (A, U); infinite where z (A or 1, U) is."""
    share = (share / share.sum(axis=1, keepdims=True))[:, None]
    shift = shift[:, None]
    finite = np.isfinite(z)
    inside = np.where(finite, z, 0.0)
    mean = (share * shift).sum(axis=2)
    # exact if the shifts are normal
    x = mean + inside * np.sqrt(1 + (share * shift**2).sum(axis=2) - mean**2)
    for _ in range(_STEPS):
        t = x[:, :, None] - shift
        reached = ndtri(np.clip((share * ndtr(t)).sum(axis=2), 1e-15, 1 - 1e-15))
        density = (share * np.exp(-(t**2) / 2)).sum(axis=2)
        x -= (reached - inside) * np.exp(-(reached**2) / 2) / np.maximum(density, 1e-30)
    return np.where(finite, x, z)


def score_slope(won: Floats) -> Floats:
    """Return d log W / d score, φ(score) / W, at win rates W (N,); 0 where W is 0 or 1."""
    density = np.exp(-(ndtri(won) ** 2) / 2) / _ROOT_2PI
    return np.divide(density, won, out=np.zeros_like(won), where=won > 0)


def interval_derivatives(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return d/dδ and −d²/dδ² of log [Φ(high − δ) − Φ(low − δ)] at δ = 0, (N,) each."""
    high = np.maximum(high, low + _LEAST_WIDTH)
    # from the side on which the probabilities are small
    flipped = low > 0
    low, high = np.where(flipped, -high, low), np.where(flipped, -low, high)
    # where an end is infinite, both products are 0
    density = [np.exp(-(end**2) / 2) / _ROOT_2PI for end in (low, high)]
    products = [
        np.where(np.isfinite(end), end, 0.0) * part
        for end, part in zip((low, high), density, strict=True)
    ]
    mass = np.maximum(ndtr(high) - ndtr(low), 1e-300)
    first = (density[0] - density[1]) / mass
    second = first**2 + (products[1] - products[0]) / mass
    return np.where(flipped, -first, first), np.maximum(second, 0.0)


def _interpolated(table: Any, rows: Ints, place: Floats) -> Floats:
    """Return the values of some rows (N,) of a table (A, U) at fractional columns (N,)."""
    below = np.minimum(place.astype(np.int64), table.shape[1] - 2)
    part = place - below
    return np.asarray(table[rows, below] * (1 - part) + table[rows, below + 1] * part)


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
        likeliest = ((weight * excess).sum() + 1 / _USUAL_VARIANCE) / information
        # its mean given that it is above 0: where little is known, the likeliest may be 0
        sd = 1 / np.sqrt(information)
        t = max(likeliest / sd, -6.0)
        v = float(sd * (t + np.exp(-(t**2) / 2) / _ROOT_2PI / ndtr(t)))
        v = min(max(v, _VARIANCES[0]), _VARIANCES[1])
    return v
