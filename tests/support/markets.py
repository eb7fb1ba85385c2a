"""Small markets in memory: bid histograms counted row by row, without an engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from coterie.ads.evaluation.evaluation import Evaluation, evaluate
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.forecast_figures import Forecast
from coterie.ads.histograms.bid_histograms import BidCells, BidHistograms, PriceCells, compact
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.logs.simulation.simulated_logs import auction_batches
from coterie.ads.logs.simulation.simulated_traits import MarketSettings, draw_traits
from coterie.ads.segments.settings import SegmentSettings
from coterie.ads.segments.text_view import TextView, texts_of

MICROS = 1_000_000
FIRST_DAY = np.datetime64("2026-03-02")  # a Monday

#: The fewest settings that still leave something to choose.
QUICK = SegmentSettings(n_segments=(3, 4), alphas=(0.05,), strengths=(2.0, 20.0), origins=1)
#: Segments far apart, right texts, nobody odd, nobody new.
EASY = MarketSettings(
    advertisers=90,
    segments=3,
    days=4,
    bids_per_day=30,
    volume_spread=0.8,
    bid_move=0.3,
    text_error=0.0,
    text_missing=0.05,
    outliers=0.0,
    newcomers=0.05,
    within_segment=0.0,
    seed=11,
)


@dataclass(frozen=True)
class Market:
    """A simulated log and what only the simulation knows.

    ``segments`` are the true ones, in the order of ``histograms.advertisers``.
    """

    histograms: BidHistograms
    descriptions: dict[str, str]
    segments: np.ndarray
    rows: dict[str, np.ndarray]


@cache
def market(settings: MarketSettings = EASY, bins: int | None = None) -> Market:
    """Return the market that ``simulate_logs`` writes, without the files.

    Bins are those of the price grid, or quantiles if a number is given.
    """
    traits = draw_traits(settings)
    days = [list(auction_batches(settings, traits, day)) for day in range(settings.days)]
    rows = {
        name: np.concatenate([batch[name] for batches in days for batch in batches])
        for name in ("advertiser", "bid", "won", "price", "minimum", "click", "conversion")
    }
    rows["day"] = np.repeat(
        np.arange(settings.days), [sum(len(b["bid"]) for b in batches) for batches in days]
    )
    names = np.array([f"adv-{i:05d}" for i in range(settings.advertisers)])
    shown = "minimum" if settings.minimum_logged else "paid"
    revealed = shown if settings.auction == "second" or settings.minimum_logged else "none"
    bidding = np.unique(rows["advertiser"])
    seen = rows["minimum"] if revealed == "minimum" else rows["price"][rows["won"]]
    amounts = np.concatenate([rows["bid"], seen])
    edges = price_grid(amounts[amounts > 0].min(), amounts.max())
    return Market(
        log_of(
            **rows,
            edges=edges if bins is None else grid_of(amounts, bins=bins),
            auction=settings.auction,
            revealed=revealed,
            names=names,
        ),
        {str(name): str(text) for name, text in zip(names, traits.text, strict=True) if text},
        traits.segment[bidding],
        rows,
    )


def description_vectors(histograms: BidHistograms, descriptions: Any) -> np.ndarray | None:
    """The vectors of the advertisers' texts, or None if there is no text."""
    texts = texts_of(histograms.advertisers, descriptions)
    return TextView().fit(texts).transform(texts) if any(texts) else None


@cache
def fitted(settings: MarketSettings = EASY) -> AdForecaster:
    """A shared forecaster of a whole market; do not fit it again."""
    made = market(settings)
    return AdForecaster(**vars(QUICK)).fit(made.histograms, made.descriptions)


@cache
def evaluated(settings: MarketSettings = EASY) -> Evaluation:
    """Every source on the last day of a market."""
    made = market(settings)
    return evaluate(made.histograms, made.descriptions, settings=QUICK)


#: Logs that lack something: those of which segments are found all the same, and those without.
ODD_WITH_SEGMENTS = (
    "one advertiser with a text",
    "five advertisers",
    "no texts",
    "empty texts",
    "no wins but texts",
    "all wins",
    "one day",
    "sampled",
    "first price",
    "minimum logged",
)
ODD_WITHOUT_SEGMENTS = (
    "one advertiser",
    "two advertisers",
    "no wins",
    "one lost bid",
    "one won bid",
)


@cache
def odd_market(name: str) -> tuple[BidHistograms, dict[str, str] | None]:
    """One of the odd logs above, and its texts; all of them have "adv-00000"."""
    kind = {"first price": {"auction": "first"}, "minimum logged": {"minimum_logged": True}}
    made = market(replace(EASY, advertisers=40, days=3, **kind.get(name, {})))
    log, rows, texts = made.histograms, made.rows, made.descriptions
    n = len(rows["bid"])
    grid = {"edges": log.edges, "names": [f"adv-{i:05d}" for i in range(40)]}
    one_bid = {"bid": [MICROS], "price": [MICROS], "edges": [MICROS], "names": ["adv-00000"]}
    never = {**rows, "won": np.zeros(n, bool)}
    enough = rows["bid"] + rows["minimum"].max()
    always = {**rows, "won": np.ones(n, bool), "bid": enough, "price": rows["minimum"]}
    wide = {**grid, "edges": price_grid(rows["minimum"].min(), enough.max())}
    weight = np.random.default_rng(0).choice([0.37, 1.0, 2.9], n)
    return {
        "one advertiser": lambda: (some_of(log, [0]), None),
        "one advertiser with a text": lambda: (some_of(log, [0]), texts),
        "two advertisers": lambda: (some_of(log, [0, 1]), None),
        "five advertisers": lambda: (some_of(log, range(5)), texts),
        "no texts": lambda: (log, None),
        "empty texts": lambda: (log, dict.fromkeys(texts, " ")),
        "no wins": lambda: (log_of(**never, **grid), None),
        "no wins but texts": lambda: (log_of(**never, **grid), texts),
        "all wins": lambda: (log_of(**always, **wide), texts),
        "one day": lambda: (some_of(log, days=[0]), texts),
        "sampled": lambda: (log_of(**rows, **grid, weight=weight), texts),
        "one lost bid": lambda: (log_of(won=[False], **one_bid), None),
        "one won bid": lambda: (log_of(won=[True], **one_bid), None),
        "first price": lambda: (log, texts),
        "minimum logged": lambda: (log, texts),
    }[name]()


@cache
def odd_model(name: str) -> AdForecaster:
    """A shared forecaster of one of the odd logs; do not fit it again."""
    return AdForecaster(**vars(QUICK)).fit(*odd_market(name))


def grid_of(*amounts: Any, bins: int) -> np.ndarray:
    """Quantiles of all amounts; the last is the largest amount."""
    levels = np.arange(1, bins + 1) / bins
    found = np.quantile(np.concatenate(amounts), levels, method="inverted_cdf")
    return np.unique(np.maximum(found, 1)).astype(np.int64)


def log_of(
    *,
    bid: Any,
    won: Any,
    price: Any,
    edges: Any,
    advertiser: Any = 0,
    day: Any = 0,
    minimum: Any = None,
    click: Any = 0,
    conversion: Any = 0,
    weight: Any = 1.0,
    auction: str = "second",
    revealed: str = "paid",
    names: Any = None,
    first_day: Any = FIRST_DAY,
) -> BidHistograms:
    """The histograms of single bids; advertisers and days by number, those without bids left out.

    ``price`` is looked at where the bid won; ``minimum`` where ``revealed`` is "minimum".
    """
    bid, won, price, who, day, click, conversion, w = np.broadcast_arrays(
        bid, np.asarray(won, dtype=bool), price, advertiser, day, click, conversion, weight
    )
    bidding, who = np.unique(who, return_inverse=True)
    met, day = np.unique(day, return_inverse=True)
    if names is None:
        names = np.array([f"a{i:03d}" for i in range(bidding.max() + 1)])
    edges = np.asarray(edges, dtype=np.int64)
    shape = len(bidding), len(met), len(edges)
    paid = np.where(won, price, 0)
    shown, told = (minimum, w > 0) if revealed == "minimum" else (paid, won)
    told = told & (revealed != "none")
    bids = _cells(
        BidCells,
        shape,
        (who, day, _bins(bid, edges)),
        count=w,
        square=w * w,
        bid=w * bid,
        wins=w * won,
        cost=w * paid,
        clicks=w * (won & (click > 0)),
        conversions=w * (won & (conversion > 0)),
    )
    shown, v = np.asarray(shown)[told], w[told]
    places = (who[told], day[told], _bins(shown, edges))
    prices = _cells(PriceCells, shape, places, count=v, price=v * shown)
    days = (first_day + met).astype("datetime64[D]")
    return BidHistograms(
        np.asarray(names, dtype=str)[bidding], days, edges, auction, revealed, bids, prices, "USD"
    )


def some_of(histograms: BidHistograms, advertisers: Any = None, days: Any = None) -> BidHistograms:
    """Some advertisers and days of a log, in their order, numbered anew."""
    rows, dates = (
        np.arange(n) if given is None else np.asarray(given)
        for n, given in zip(histograms.shape[:2], (advertisers, days), strict=True)
    )

    def kept(cells: Any) -> Any:
        keep = np.isin(cells.advertiser, rows) & np.isin(cells.day, dates)
        parts = {name: part[keep] for name, part in vars(cells).items()}
        parts["advertiser"] = np.searchsorted(rows, parts["advertiser"])
        parts["day"] = np.searchsorted(dates, parts["day"])
        return compact(type(cells)(**parts))

    return replace(
        histograms,
        advertisers=histograms.advertisers[rows],
        days=histograms.days[dates],
        bids=kept(histograms.bids),
        prices=kept(histograms.prices),
    )


def sound(forecasts: list[Forecast], *, given: bool = False) -> bool:
    """Return whether forecasts at rising bids are finite, ordered and monotone.

    With a given supply nobody wins more than that.
    """
    for one in forecasts:
        numbers = [one.win_rate, one.cost, one.impressions, one.spend, one.supply]
        ends = [*one.impressions_interval, *one.spend_interval]
        assert np.isfinite([*numbers, *ends]).all() and min(*numbers, *ends) >= 0
        low, high = one.impressions_interval
        assert low <= one.impressions <= high
        assert one.impressions <= one.supply * (1 + 1e-9)
        assert high <= one.supply * (1 + 1e-9) or not given
        assert one.spend_interval[0] <= one.spend <= one.spend_interval[1]
        assert one.spend <= one.bid * one.impressions / 1000 * (1 + 1e-9)
        assert one.why
    for name in ("win_rate", "impressions", "spend"):
        assert (np.diff([getattr(one, name) for one in forecasts]) >= -1e-9).all()
    return True


def _bins(values: Any, edges: np.ndarray) -> np.ndarray:
    """The number of edges below each value; the last bin has no upper limit."""
    below = (np.asarray(values)[:, None] > edges[:-1]).sum(axis=1)
    return below.astype(np.int64)


def _cells(kind: Any, shape: tuple[int, ...], places: Any, **sums: Any) -> Any:
    at, of_row = np.unique(np.ravel_multi_index(places, shape), return_inverse=True)
    who, day, bins = np.unravel_index(at, shape)
    summed = {
        name: np.bincount(of_row, values, len(at)).astype(np.float64)
        for name, values in sums.items()
    }
    return compact(kind(who, day, bins, **summed))
