"""Simulated traits: settings of a market, and the parameters of its advertisers drawn from them."""

from __future__ import annotations

import datetime
import numbers
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.arrays import Bools, Floats, Ints
from coterie.errors import InvalidParameterError

#: Factors of the number of auctions and of the price level, from Monday to Sunday.
SUPPLY_BY_WEEKDAY = np.array([1.0, 1.02, 1.05, 1.03, 1.0, 0.85, 0.8])
PRICE_BY_WEEKDAY = np.array([1.0, 1.01, 1.02, 1.02, 1.0, 0.96, 0.95])
#: Standard deviation of an advertiser's daily change of log price level.
PRICE_DRIFT = 0.02
#: Number of days, the last of the log, on which ``price_rise`` moves prices.
PRICE_RISE_DAYS = 4
#: Days before the last on which young advertisers have bid, from and to: a third each.
YOUNG_DAYS = ((1, 1), (2, 6), (7, 13))
#: Limits of an advertiser's mean number of bids per day.
VOLUME_LIMITS = (5.0, 50_000.0)
#: Amounts are whole multiples of this many micros of the currency.
STEP_MICROS = 1000
#: Floors that many auctions have in common, in currency units.
COMMON_FLOORS = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0])

#: Vocabulary of each segment; further segments reuse a theme with a number appended.
THEMES = {
    "travel": "flights hotel beach holiday cruise resort island ticket trip tour passport suitcase",
    "insurance": "insurance cover policy premium claim quote protect accident liability home life",
    "games": "game play level puzzle quest hero arena multiplayer console free download raid",
    "fashion": "dress shoes style jacket outfit denim collection boutique trend wear leather silk",
    "finance": "loan credit invest bank rate savings mortgage broker fund pension account stocks",
    "grocery": "fresh organic fruit bakery delivery snacks milk coffee recipe vegan cheese basket",
    "education": "course degree learn university online certificate tutor exam campus study class",
    "automotive": "car dealer lease electric suv engine tyres hybrid drive garage motor warranty",
    "fitness": "gym workout protein yoga training muscle coach running diet weights studio sport",
    "software": (
        "cloud software data team platform security crm api automation analytics trial saas"
    ),
    "home": "sofa kitchen garden lamp mattress furniture paint curtain oak bathroom decor tiles",
    "health": (
        "clinic dental doctor vitamin skin care pharmacy therapy hearing vision checkup sleep"
    ),
}
COMMON_WORDS = (
    "new best offer save now today shop official deals discover free quality great easy trusted "
    "top price online get more your choice special limited exclusive sale family simple fast order"
)

#: The values of each dimension.
DIMENSIONS = {
    "device": ("phone", "desktop", "tablet", "tv"),
    "country": ("DE", "ES", "FR", "GB", "IT", "NL", "PL", "SE"),
    "slot": ("banner", "inline", "native", "popup", "side", "video"),
}
#: Standard deviations between segments, and between the advertisers of a segment: of the log share,
#: the log price level, and the logarithms of the factors of clicks and conversions.
_BETWEEN_SEGMENTS = (0.6, 0.25, 0.5, 0.4)
_WITHIN_SEGMENTS = (0.3, 0.08, 0.15, 0.15)
#: Of the log share of a value in general.
_BETWEEN_VALUES = 0.5

#: The least and the largest value of the settings that are whole numbers.
WHOLE_RANGES: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("advertisers", "segments", "days"), (1, None)),
    "dimensions": (0, len(DIMENSIONS)),
    "seed": (0, None),
}
_RANGES = {
    **dict.fromkeys(
        ("text_error", "text_missing", "outliers", "newcomers", "young", "common_floors"), (0, 1)
    ),
    # with wider ranges, amounts in micros could exceed 64 bits
    **dict.fromkeys(("bid_move", "volume_spread"), (0, 5)),
    **dict.fromkeys(("within_segment", "own_weekdays", "value_prices"), (0, 2)),
    "price_rise": (-2, 2),
    "markup": (-0.9, 9),
    "price_noise": (0, 2),
    "weekday_effect": (0, 5),
    "bids_per_day": (0.001, VOLUME_LIMITS[1]),
}


@dataclass(frozen=True)
class MarketSettings:
    """Settings of a simulated market; amounts in currency units, rates as shares.

    Parameters
    ----------
    advertisers : int
        Number of advertisers.
    segments : int
        Number of segments of advertisers.
    days : int
        Number of days.
    auction : {"second", "first"}
        The winner pays the minimum to win, or its bid.
    bids_per_day : float
        Bids per day of the median advertiser; numbers are log-normal, clipped to 5 … 50,000.
    volume_spread : float
        Standard deviation of the logarithm of these numbers.
    bid_move : float
        On the last day every advertiser multiplies its bids by e^u, u uniform on ±``bid_move``.
    text_error : float
        Probability that a text which is not missing is of another segment.
    text_missing : float
        Share of advertisers whose text is empty.
    outliers : float
        Share of advertisers whose market is not that of their segment.
    newcomers : float
        Share of advertisers that first bid on the last day.
    young : float
        Share of the other advertisers that first bid 1 to 13 days before the last.
    within_segment : float
        Standard deviation, within a segment, of an advertiser's log price level.
    price_rise : float
        Change of the log price level of all markets on the last four days: 0.26 raises prices by
        30%.
    weekday_effect : float
        Exponent of the weekdays' factors of supply and price: 0 makes all weekdays equal.
    own_weekdays : float
        Standard deviation of the logarithm of an advertiser's own factors of supply by weekday.
    markup : float
        In second price, the share that winners pay above the minimum to win, such as a fee; at
        most their bid. Below 0 the price is net of a fee.
    price_noise : float
        Standard deviation of the logarithm of what winners pay over that, as if prices were
        averages or estimates.
    floors : bool
        Whether auctions have a reserve price, one for each advertiser.
    common_floors : float
        Share of auctions whose reserve price is instead one of a few round amounts, which all
        advertisers meet: prices with mass.
    minimum_logged : bool
        Whether the log has the minimum to win.
    dimensions : int
        Number of dimensions, from 0 to 3: the log has columns device, country and slot, which
        change shares of auctions, prices, clicks and conversions.
    value_prices : float
        Standard deviation, between values of a dimension, of a log price level common to all.
    start : str
        First day, as in 2026-03-02.
    seed : int

    Examples
    --------
    >>> MarketSettings(outliers=1.5)
    Traceback (most recent call last):
        ...
    coterie.errors.InvalidParameterError: outliers=1.5: it must be a number from 0 to 1
    """

    advertisers: int = 1268
    segments: int = 10
    days: int = 7
    auction: str = "second"
    bids_per_day: float = 30.0
    volume_spread: float = 1.6
    bid_move: float = 0.5
    text_error: float = 0.1
    text_missing: float = 0.05
    outliers: float = 0.05
    newcomers: float = 0.02
    young: float = 0.0
    within_segment: float = 0.05
    price_rise: float = 0.0
    weekday_effect: float = 1.0
    own_weekdays: float = 0.0
    markup: float = 0.0
    price_noise: float = 0.0
    floors: bool = True
    common_floors: float = 0.0
    minimum_logged: bool = False
    dimensions: int = 0
    value_prices: float = 0.0
    start: str = "2026-03-02"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (least, most) in WHOLE_RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
                raise self._refusal(name, f"it must be a whole number, at least {least}")
            if most is not None and int(value) > most:
                raise self._refusal(name, f"it must be at most {most}")
            object.__setattr__(self, name, int(value))
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
            # NaN fails both comparisons
            if not is_number or not low <= value <= high:
                raise self._refusal(name, f"it must be a number from {low:,g} to {high:,g}")
            object.__setattr__(self, name, float(value))
        for name in ("floors", "minimum_logged"):
            if not isinstance(getattr(self, name), bool):
                raise self._refusal(name, "it must be True or False")
        if self.auction not in {"first", "second"}:
            raise self._refusal("auction", "it must be 'first' or 'second'")
        if self.segments > self.advertisers:
            raise self._refusal(
                "segments", f"it must be at most the number of advertisers, {self.advertisers}"
            )
        try:
            first = datetime.date.fromisoformat(self.start)
            is_plain = first.isoformat() == self.start
        except (TypeError, ValueError):
            is_plain = False
        if not is_plain:
            raise self._refusal("start", "it must be a date as in 2026-03-02")
        if self.days > (datetime.date.max - first).days:
            raise self._refusal("days", f"counted from {self.start}, they end after the year 9999")

    def _refusal(self, name: str, reason: str) -> InvalidParameterError:
        return InvalidParameterError(f"{name}={getattr(self, name)!r}: {reason}")

    @property
    def expected_rows(self) -> int:
        """Expected total number of bids.

        It is the sum over days of the number of bidders × E[volume] × the weekday's factor;
        newcomers bid on the last day only, young advertisers from their first day on. With m the
        median, s the spread and l, h the limits,

            E[volume] = l Φ(α) + h (1 − Φ(β)) + m e^{s²/2} (Φ(β − s) − Φ(α − s)),

        α = log(l/m) / s and β = log(h/m) / s.

        Examples
        --------
        >>> MarketSettings(advertisers=100, bids_per_day=20, volume_spread=0, days=1).expected_rows
        2000
        """
        first = datetime.date.fromisoformat(self.start).weekday()
        factors = SUPPLY_BY_WEEKDAY**self.weekday_effect
        supply = factors[(first + np.arange(self.days)) % 7]
        newcomers = round(self.newcomers * self.advertisers)
        young = round(self.young * (self.advertisers - newcomers))
        started = (_first_days(self.days, young)[:, None] <= np.arange(self.days)).sum(axis=0)
        bidders = self.advertisers - newcomers - young + started
        bidders[-1] = self.advertisers
        m, sd, limits = self.bids_per_day, self.volume_spread, np.array(VOLUME_LIMITS)
        if sd == 0:
            volume = np.clip(m, *limits)
        else:
            alpha, beta = np.log(limits / m) / sd
            upto = statistics.NormalDist().cdf  # not SciPy's, which takes long to import
            outside = limits @ np.array([upto(alpha), upto(-beta)])
            volume = outside + m * np.exp(sd**2 / 2) * (upto(beta - sd) - upto(alpha - sd))
        return round(float(volume * (supply @ bidders)))


class DimensionEffects(NamedTuple):
    """Effects of the V values of a dimension on A advertisers, (A, V) each."""

    name: str
    values: tuple[str, ...]
    share: Floats  # of auctions; rows sum to 1
    shift: Floats  # of the log price level
    click: Floats  # factor of the click rate
    conversion: Floats  # factor of the conversion rate


class DrawnValues(NamedTuple):
    """Values of n auctions, and what all dimensions together change there; (n,) each."""

    codes: dict[str, NDArray[np.int32]]  # by dimension, indices into its values
    shift: Floats
    click: Floats
    conversion: Floats


@dataclass(frozen=True)
class Traits:
    """Parameters of each advertiser, (A,) arrays, and of each market component, (A, 2)."""

    segment: Ints
    outlier: Bools
    newcomer: Bools
    first_day: Ints  # from 0
    text_is: NDArray[np.str_]  # "right", "wrong" or "missing"
    text: NDArray[np.object_]
    volume: Floats  # mean bids per day
    weekday: Floats  # its own factors from Monday, (A, 7)
    # the two log-normal components of the highest competing bid, (A, 2)
    market_level: Floats
    market_spread: Floats
    market_share: Floats
    # log bid: mean, standard deviation, and change on the last day
    bid_level: Floats
    bid_spread: Floats
    moved: Floats
    floor: Floats  # reserve price, 0 if there is none
    common_floors: Floats  # (A, F), share of auctions that have each of COMMON_FLOORS instead
    click_rate: Floats
    conversion_rate: Floats
    effects: tuple[DimensionEffects, ...] = ()  # of the values of each dimension


def draw_traits(settings: MarketSettings) -> Traits:
    """Draw the segments and the advertisers of a market.

    Every segment has a mixture of two log-normal distributions of the highest competing bid, a
    bid level, a click rate and a vocabulary. An outlier has a mixture drawn for it alone, from
    the same distribution.
    """
    rng = np.random.default_rng(settings.seed)
    a, k = settings.advertisers, settings.segments
    markets = _draw_markets(k, rng)
    habits = {
        "level": 0.3 * rng.standard_normal(k),
        "spread": rng.uniform(0.15, 0.4, k),
        "floor": rng.uniform(0.1, 0.4, k),
        "click": 0.004 * np.exp(0.5 * rng.standard_normal(k)),
        "conversion": 0.05 * np.exp(0.5 * rng.standard_normal(k)),
    }
    segment = rng.permutation(np.arange(a) % k)
    outlier = _random_mask(a, settings.outliers, rng)
    newcomer = _random_mask(a, settings.newcomers, rng)
    own_markets = _draw_markets(int(outlier.sum()), rng)
    level, spread, share = (part[segment] for part in markets)
    for of_all, of_outliers in zip((level, spread, share), own_markets, strict=True):
        of_all[outlier] = of_outliers
    level = level + settings.within_segment * rng.standard_normal((a, 1))
    # the typical log price in the advertiser's market; bid levels are relative to it
    typical = (level * share).sum(axis=1)
    bid_level = typical + habits["level"][segment] + 0.15 * rng.standard_normal(a)
    is_missing = _random_mask(a, settings.text_missing, rng)
    # with one segment none is wrong
    is_wrong = (rng.random(a) < settings.text_error) & (settings.segments > 1)
    text_is = np.where(is_missing, "missing", np.where(is_wrong, "wrong", "right"))
    volume = settings.bids_per_day * np.exp(settings.volume_spread * rng.standard_normal(a))
    others = _stream_of(settings, 1)
    weekday = np.exp(settings.own_weekdays * others.standard_normal((a, 7)))
    known = others.permutation(np.flatnonzero(~newcomer))
    young = known[: round(settings.young * len(known))]
    first_day = np.zeros(a, dtype=np.int64)
    first_day[young] = _first_days(settings.days, len(young))
    # how the auctions of a segment that have common floors share them, (K, F)
    floors = _stream_of(settings, 2).dirichlet(np.ones(len(COMMON_FLOORS)), k)
    return Traits(
        segment=segment,
        outlier=outlier,
        newcomer=newcomer,
        first_day=first_day,
        text_is=text_is,
        text=_draw_texts(segment, text_is, k, rng),
        volume=np.clip(volume, *VOLUME_LIMITS),
        weekday=weekday / weekday.mean(axis=1, keepdims=True),
        market_level=level,
        market_spread=spread,
        market_share=share,
        bid_level=bid_level,
        bid_spread=habits["spread"][segment],
        moved=rng.uniform(-settings.bid_move, settings.bid_move, a),
        floor=habits["floor"][segment] * np.exp(typical) if settings.floors else np.zeros(a),
        common_floors=settings.common_floors * floors[segment],
        click_rate=habits["click"][segment] * np.exp(0.2 * rng.standard_normal(a)),
        conversion_rate=habits["conversion"][segment],
        effects=draw_effects(segment, settings),
    )


def theme_names(segments: int) -> list[str]:
    """Return the names of the segments' themes, in order."""
    names = list(THEMES)
    return [_numbered(names[s % len(names)], s // len(names)) for s in range(segments)]


def in_micros(amount: Floats) -> Ints:
    """Convert currency units to micros, rounded to whole steps, at least one."""
    steps = np.maximum(np.rint(amount * (1e6 / STEP_MICROS)), 1)
    return steps.astype(np.int64) * STEP_MICROS


def _draw_markets(n: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Draw level, spread and share of the two components of n markets, each (n, 2)."""
    centre = np.log(2.0) + 0.6 * rng.standard_normal(n)
    distance = rng.uniform(0.2, 1.0, n)
    first = rng.uniform(0.3, 0.7, n)
    level = np.stack([centre - distance / 2, centre + distance / 2], axis=1)
    return level, rng.uniform(0.15, 0.5, (n, 2)), np.stack([first, 1 - first], axis=1)


def _first_days(days: int, number: int) -> Ints:
    """Return the first days of so many young advertisers, (number,)."""
    turn, kind = np.divmod(np.arange(number), len(YOUNG_DAYS))
    low, high = np.array(YOUNG_DAYS).T[:, kind]
    return np.asarray(np.maximum(days - 1 - (low + turn % (high - low + 1)), 0))


def _stream_of(settings: MarketSettings, number: int) -> np.random.Generator:
    """Return a separate random stream, so that what it draws changes no other draw."""
    sequence = np.random.SeedSequence(settings.seed, spawn_key=(1_000_000 + number,))
    return np.random.default_rng(sequence)


def _random_mask(n: int, share: float, rng: np.random.Generator) -> Bools:
    """Draw a mask of n entries with exactly round(share · n) true ones."""
    mask = np.zeros(n, dtype=bool)
    mask[rng.permutation(n)[: round(share * n)]] = True
    return mask


def _draw_texts(
    segment: Ints, text_is: NDArray[np.str_], k: int, rng: np.random.Generator
) -> NDArray[np.object_]:
    """Draw texts of six to fourteen words, about half of them from the segment's theme."""
    words = [text.split() for text in THEMES.values()]
    themes = [
        [_numbered(word, s // len(words)) for word in words[s % len(words)]] for s in range(k)
    ]
    common = COMMON_WORDS.split()
    texts = np.empty(len(segment), dtype=object)
    for i, (own, kind) in enumerate(zip(segment, text_is, strict=True)):
        if kind == "missing":
            texts[i] = ""
            continue
        theme = (own + rng.integers(1, k)) % k if kind == "wrong" else own
        sources = [
            themes[theme] if is_themed else common
            for is_themed in rng.random(rng.integers(6, 15)) < 0.5
        ]
        texts[i] = " ".join(source[rng.integers(len(source))] for source in sources)
    return texts


def _numbered(word: str, number: int) -> str:
    """Append the number of the round through the themes to a word, except in the first."""
    return f"{word}{number}" if number else word


# ---- Dimensions
#
# A value of a dimension changes, for each advertiser, the share of its auctions, the log price
# level, the click rate and the conversion rate. The effects are those of the advertiser's segment
# with a separate variation. Averages over an advertiser's auctions stay as they are without
# dimensions: shifts have the mean 0, factors the mean 1.


def draw_effects(segment: Ints, settings: MarketSettings) -> tuple[DimensionEffects, ...]:
    """Draw the effects of the first dimensions of :data:`DIMENSIONS`."""
    rng, of_prices = _stream_of(settings, 0), _stream_of(settings, 3)
    a, k = len(segment), int(segment.max(initial=0)) + 1
    found = []
    for name, values in list(DIMENSIONS.items())[: settings.dimensions]:
        v = len(values)
        popular = _BETWEEN_VALUES * rng.standard_normal(v)
        share, shift, click, conversion = (
            between * rng.standard_normal((k, v))[segment] + within * rng.standard_normal((a, v))
            for between, within in zip(_BETWEEN_SEGMENTS, _WITHIN_SEGMENTS, strict=True)
        )
        share = np.exp(popular + share)
        share /= share.sum(axis=1, keepdims=True)
        shift += settings.value_prices * of_prices.standard_normal(v)
        shift -= (share * shift).sum(axis=1, keepdims=True)
        click, conversion = (
            factor / (share * factor).sum(axis=1, keepdims=True)
            for factor in (np.exp(click), np.exp(conversion))
        )
        found.append(DimensionEffects(name, values, share, shift, click, conversion))
    return tuple(found)


def draw_values(
    effects: Sequence[DimensionEffects], who: Ints, rng: np.random.Generator
) -> DrawnValues:
    """Draw the values of the auctions of advertisers ``who`` (n,), independent by dimension."""
    n = len(who)
    drawn = DrawnValues({}, np.zeros(n), np.ones(n), np.ones(n))
    for one in effects:
        upto = np.cumsum(one.share, axis=1)[:, :-1]
        value = (rng.random(n)[:, None] > upto[who]).sum(axis=1)
        drawn.codes[one.name] = value.astype(np.int32)
        drawn.shift[:] += one.shift[who, value]
        drawn.click[:] *= one.click[who, value]
        drawn.conversion[:] *= one.conversion[who, value]
    return drawn
