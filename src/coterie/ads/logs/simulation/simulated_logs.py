"""Simulated bid logs: auctions of a market with known parameters, written to Parquet.

Rows are drawn in blocks of whole advertisers, each with a separate random stream given by seed,
day and block. Batches of any length therefore give the same rows, and the memory needed does not
grow with the number of rows.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.ads.logs.simulation.simulated_traits import (
    COMMON_FLOORS,
    PRICE_BY_WEEKDAY,
    PRICE_DRIFT,
    PRICE_RISE_DAYS,
    SUPPLY_BY_WEEKDAY,
    MarketSettings,
    Traits,
    draw_traits,
    draw_values,
    in_micros,
    theme_names,
)
from coterie.arrays import AnyArray, Floats, Ints
from coterie.errors import InvalidParameterError
from coterie.runtime.atomic_files import atomic_folder
from coterie.runtime.wording import short_repr

#: Columns of a batch: arrays of equal length.
Batch = dict[str, AnyArray]
#: Called with the number of rows written and of all rows.
Progress = Callable[[int, int], None] | None
_Rng = np.random.Generator

_logger = logging.getLogger("coterie")
_DAY_MICROSECONDS = 86_400 * 1_000_000
_BLOCK_ROWS = 65_536
_SUPPLY_SHAPE = 50  # of the gamma factor of a day's bids, whose variance is 1/50


@dataclass(frozen=True)
class SimulatedLogs:
    """Files written by a simulation, and what they hold."""

    folder: Path
    bids: tuple[Path, ...]  # one file per day, in order
    advertisers: Path  # the texts
    truth: Path  # the true parameters
    rows: int
    wins: int
    days: int

    __repr__ = short_repr


@dataclass(frozen=True)
class MarketDay:
    """One day of a market, before its auctions."""

    date: np.datetime64
    counts: Ints  # (A,), number of bids of each advertiser
    level_shift: Floats  # (A,), change of the log price level on this day
    market_level: Floats  # (A, 2), log level of the components of the competing bids
    bid_level: Floats  # (A,), log level of the advertiser's own bids


def simulate_logs(
    settings: MarketSettings, folder: str | os.PathLike[str], *, progress: Progress = None
) -> SimulatedLogs:
    """Simulate a market and write its logs, texts and true parameters.

    The folder appears only when it is complete; after a full disk or an interrupt nothing is
    left. Equal settings give equal tables.

    Parameters
    ----------
    settings : MarketSettings
    folder : path
        A new or empty folder. It gets ``bids/bids-YYYY-MM-DD.parquet``, one file per day;
        ``advertisers.parquet`` (advertiser_id, description); and ``truth.parquet``, one row per
        advertiser, with the settings as JSON under the key ``settings`` of its metadata. With
        dimensions there is also ``true_targets.parquet``, the effects of their values.
    progress : callable, optional
        Called after every batch with the number of rows written and of all rows.

    Returns
    -------
    SimulatedLogs

    Examples
    --------
    >>> import tempfile
    >>> small = MarketSettings(advertisers=20, segments=2, days=2)
    >>> logs = simulate_logs(small, Path(tempfile.mkdtemp()) / "market")
    >>> [path.name for path in logs.bids]
    ['bids-2026-03-02.parquet', 'bids-2026-03-03.parquet']
    """
    with atomic_folder(folder) as unfinished:
        _logger.info("Drawing %d advertisers", settings.advertisers)
        traits = draw_traits(settings)
        width = max(5, len(str(settings.advertisers - 1)))
        names = pa.array([f"adv-{i:0{width}d}" for i in range(settings.advertisers)])
        texts = {"advertiser_id": names, "description": pa.array(traits.text, pa.string())}
        pq.write_table(pa.table(texts), unfinished / "advertisers.parquet")
        pq.write_table(_truth(names, settings, traits), unfinished / "truth.parquet")
        if traits.effects:
            pq.write_table(_effects(names, traits), unfinished / "true_targets.parquet")
        (unfinished / "bids").mkdir()
        days = range(settings.days)
        total = sum(int(draw_day(settings, traits, day).counts.sum()) for day in days)
        files, rows, wins = [], 0, 0
        word = pa.dictionary(pa.int32(), pa.string())
        types = {
            "advertiser_id": word,
            "ts": pa.timestamp("us", tz="UTC"),
            "bid_micros": pa.int64(),
            "won": pa.bool_(),
            "price_micros": pa.int64(),
            "auction_type": pa.int8(),
            "floor_micros": pa.int64() if settings.floors else None,
            "min_to_win_micros": pa.int64() if settings.minimum_logged else None,
            "currency": word,
            "click": pa.bool_(),
            "conversion": pa.bool_(),
            **dict.fromkeys((one.name for one in traits.effects), word),
        }
        schema = pa.schema({name: kind for name, kind in types.items() if kind is not None})
        # amounts and names repeat, so dictionaries store them best; times do not repeat
        encoding: dict[str, Any] = {
            "compression": "snappy",
            "use_dictionary": [name for name in schema.names if name != "ts"],
            "column_encoding": {"ts": "DELTA_BINARY_PACKED"},
        }
        for day in days:
            date = np.datetime64(settings.start, "D") + np.timedelta64(day, "D")
            _logger.info("Simulating the auctions of %s", date)
            files.append(f"bids-{date}.parquet")
            with pq.ParquetWriter(unfinished / "bids" / files[-1], schema, **encoding) as writer:
                for batch in auction_batches(settings, traits, day):
                    table = _bids(settings, traits, names, batch, schema)
                    writer.write_table(table, row_group_size=len(table))
                    rows, wins = rows + len(table), wins + int(batch["won"].sum())
                    if progress:
                        progress(rows, total)
    folder = Path(folder)
    return SimulatedLogs(
        folder=folder,
        bids=tuple(folder / "bids" / name for name in files),
        advertisers=folder / "advertisers.parquet",
        truth=folder / "truth.parquet",
        rows=rows,
        wins=wins,
        days=settings.days,
    )


def auction_batches(
    settings: MarketSettings, traits: Traits, day: int, rows: int = 1_000_000
) -> Iterator[Batch]:
    """Draw the auctions of one day (from 0), in batches of about ``rows`` rows, by advertiser.

    The highest competing bid is log-normal, drawn from one of the advertiser's two components. The
    minimum to win is the larger of it and the floor. The advertiser's bid is an independent
    log-normal variable and wins if it reaches the minimum. An advertiser is never split, so a batch
    may be longer by one advertiser; ``rows`` does not affect the rows or their order.

    A batch has ``advertiser`` (index), ``ts`` (microseconds), ``bid``, ``floor``, ``minimum`` (to
    win), ``price`` (0 if lost; all in micros), ``won``, ``click``, ``conversion``, and for each
    dimension the index of its value.
    """
    if rows < 1:
        raise InvalidParameterError(f"rows={rows}: a batch must have at least 1 row")
    market = draw_day(settings, traits, day)
    blocks = (
        _auctions(settings, traits, market, (start, end), (day, number))
        for number, (start, end) in enumerate(_cuts(market.counts, _BLOCK_ROWS))
    )
    sizes = (int(market.counts[start:end].sum()) for start, end in _cuts(market.counts, rows))
    yield from _in_sizes(blocks, sizes)


def draw_floors(settings: MarketSettings, traits: Traits, who: Ints, rng: _Rng) -> Floats:
    """Draw the reserve price of each auction, given by its advertiser, in currency units."""
    floor = traits.floor[who]
    if not settings.common_floors:
        return floor
    # the place of the floor among the common ones, after the last: the advertiser's own
    upto = np.cumsum(traits.common_floors, axis=1)[who]
    place = (rng.random(len(who))[:, None] >= upto).sum(axis=1)
    return np.append(COMMON_FLOORS, 0.0)[place] + floor * (place == len(COMMON_FLOORS))


def draw_charges(settings: MarketSettings, minimum: Ints, bid: Ints, rng: _Rng) -> Ints:
    """Draw what winners pay, given the minimum to win, all in micros."""
    if settings.auction == "first" or not (settings.markup or settings.price_noise):
        return bid if settings.auction == "first" else minimum
    luck = np.exp(settings.price_noise * rng.standard_normal(len(bid)))
    return np.minimum(in_micros(minimum / 1e6 * (1 + settings.markup) * luck), bid)


def draw_day(settings: MarketSettings, traits: Traits, day: int) -> MarketDay:
    """Draw the number of bids of each advertiser on a day, and the price levels of the day.

    The number of bids is Poisson; its mean is the volume times the weekday's factor, the
    advertiser's own one and a gamma variable of mean 1 and variance 1/50. Log price levels change
    by the logarithm of the weekday's factor and, for each advertiser, by a normal variable of
    standard deviation 0.02. The weekday's factors are raised to the power ``weekday_effect``. On
    the last four days log price levels also change by ``price_rise``. On the last day bid levels
    are moved. Newcomers bid only on that day, young advertisers from their first day on.
    """
    if not 0 <= day < settings.days:
        raise InvalidParameterError(f"day={day}: it must be from 0 to {settings.days - 1}")
    date = np.datetime64(settings.start, "D") + np.timedelta64(day, "D")
    weekday = (date.astype(np.int64) + 3) % 7
    rng = _stream(settings, day)
    is_last = day == settings.days - 1
    luck = rng.gamma(_SUPPLY_SHAPE, 1 / _SUPPLY_SHAPE, len(traits.volume))
    supply = SUPPLY_BY_WEEKDAY[weekday] ** settings.weekday_effect
    counts = rng.poisson(traits.volume * supply * luck * traits.weekday[:, weekday])
    counts[day < traits.first_day] = 0
    if not is_last:
        counts[traits.newcomer] = 0
    drift = PRICE_DRIFT * rng.standard_normal(len(counts))
    shared = settings.weekday_effect * np.log(PRICE_BY_WEEKDAY[weekday])
    if day >= settings.days - PRICE_RISE_DAYS:
        shared += settings.price_rise
    return MarketDay(
        date=date,
        counts=counts,
        level_shift=shared + drift,
        # not level + level_shift: another order of the sum would round to other logs
        market_level=traits.market_level + shared + drift[:, None],
        bid_level=traits.bid_level + (traits.moved if is_last else 0.0),
    )


def _stream(settings: MarketSettings, day: int, *block: int) -> _Rng:
    """Return the random stream of a day, or of a block of its auctions."""
    return np.random.default_rng(np.random.SeedSequence(settings.seed, spawn_key=(day, *block)))


def _cuts(counts: Ints, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of advertisers with at least ``rows`` rows each, except the last."""
    upto = np.cumsum(counts)
    start, done = 0, 0
    while done < upto[-1]:
        end = min(int(np.searchsorted(upto, done + rows)) + 1, len(counts))
        yield start, end
        start, done = end, int(upto[end - 1])


def _in_sizes(blocks: Iterator[Batch], sizes: Iterator[int]) -> Iterator[Batch]:
    """Regroup the rows of the blocks into batches of the given sizes."""
    held: list[Batch] = []
    for size in sizes:
        while sum(len(part["won"]) for part in held) < size:
            held.append(next(blocks))
        joined = {name: np.concatenate([part[name] for part in held]) for name in held[0]}
        yield {name: column[:size] for name, column in joined.items()}
        held = [{name: column[size:] for name, column in joined.items()}]


def _auctions(
    settings: MarketSettings,
    traits: Traits,
    market: MarketDay,
    block: tuple[int, int],
    stream: tuple[int, int],
) -> Batch:
    """Draw all auctions of a day of a block of advertisers, from the first to the last + 1."""
    rng = _stream(settings, *stream)
    who = np.repeat(np.arange(*block), market.counts[slice(*block)])
    n = len(who)
    # a separate stream, so that dimensions change no other draw
    values = draw_values(traits.effects, who, _stream(settings, *stream, 1))
    component = (rng.random(n) >= traits.market_share[who, 0]).astype(np.int64)
    spread = traits.market_spread[who, component]
    level = market.market_level[who, component] + values.shift
    competing = np.exp(level + spread * rng.standard_normal(n))
    floor = draw_floors(settings, traits, who, _stream(settings, *stream, 2))
    minimum = in_micros(np.maximum(competing, floor))
    noise = traits.bid_spread[who] * rng.standard_normal(n)
    bid = in_micros(np.exp(market.bid_level[who] + noise))
    won = bid >= minimum
    paid = draw_charges(settings, minimum, bid, _stream(settings, *stream, 3))
    click = won & (rng.random(n) < traits.click_rate[who] * values.click)
    midnight = market.date.astype("datetime64[us]").astype(np.int64)
    return {
        "advertiser": who,
        "ts": midnight + rng.integers(0, _DAY_MICROSECONDS, n),
        "bid": bid,
        "floor": in_micros(floor),
        "minimum": minimum,
        "price": np.where(won, paid, 0),
        "won": won,
        "click": click,
        "conversion": click & (rng.random(n) < traits.conversion_rate[who] * values.conversion),
        **values.codes,
    }


def _bids(
    settings: MarketSettings, traits: Traits, names: pa.Array, batch: Batch, schema: pa.Schema
) -> pa.Table:
    """Convert a batch to the columns of the log."""
    who, n = batch["advertiser"], len(batch["advertiser"])
    # only the names of this batch, because every row group stores its dictionary
    first, last = int(who[0]), int(who[-1])
    used = names.slice(first, last + 1 - first)
    columns = {
        "advertiser_id": pa.DictionaryArray.from_arrays((who - first).astype(np.int32), used),
        "ts": pa.array(batch["ts"]).cast(schema.field("ts").type),
        "bid_micros": batch["bid"],
        "won": batch["won"],
        "price_micros": pa.array(batch["price"], mask=~batch["won"]),
        "auction_type": np.full(n, 2 if settings.auction == "second" else 1, np.int8),
        "floor_micros": batch["floor"],
        "min_to_win_micros": batch["minimum"],
        "currency": pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["USD"]),
        "click": batch["click"],
        "conversion": batch["conversion"],
        **{
            one.name: pa.DictionaryArray.from_arrays(batch[one.name], list(one.values))
            for one in traits.effects
        },
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _truth(names: pa.Array, settings: MarketSettings, traits: Traits) -> pa.Table:
    """Return the true parameters of every advertiser, each market component in a column."""
    themes = np.array(theme_names(settings.segments))
    columns = {"advertiser_id": names, "segment": traits.segment, "theme": themes[traits.segment]}
    for name in (
        *("outlier", "newcomer", "first_day", "text_is", "volume", "bid_level", "bid_spread"),
        *("moved", "floor", "click_rate", "conversion_rate"),
    ):
        columns[name] = getattr(traits, name)
    for name in ("market_level", "market_spread", "market_share"):
        for component in (0, 1):
            columns[f"{name}_{component + 1}"] = getattr(traits, name)[:, component]
    columns["weekday"] = list(traits.weekday)
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    return table.replace_schema_metadata({"settings": json.dumps(asdict(settings))})


def _effects(names: pa.Array, traits: Traits) -> pa.Table:
    """Return the effects, one row for each advertiser, dimension and value."""
    tables = []
    for one in traits.effects:
        a, v = one.share.shape
        columns: dict[str, Any] = {
            "advertiser_id": names.take(pa.array(np.repeat(np.arange(a), v))),
            "dimension": np.repeat(one.name, a * v),
            "value": np.tile(one.values, a),
            "share": one.share.ravel(),
            "price_shift": one.shift.ravel(),
            "click_factor": one.click.ravel(),
            "conversion_factor": one.conversion.ravel(),
        }
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)
