"""Simulated bid logs: a market in which the truth is known, straight to Parquet.

Rows are drawn in blocks of whole advertisers, each from a random stream of its own (the seed,
the day, the block), and leave in batches: what is drawn does not depend on the batches' length,
and memory does not depend on the number of rows.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.ads.logs.simulation.simulated_traits import (
    PRICE_DRIFT,
    MarketSettings,
    Traits,
    draw_traits,
    in_micros,
    theme_names,
)
from coterie.errors import InvalidParameterError, OutputError

__all__ = [
    "MarketDay",
    "SimulatedLogs",
    "auction_batches",
    "draw_day",
    "simulate_logs",
]

#: Columns of a batch: arrays of one length.
Batch = dict[str, NDArray[Any]]

_logger = logging.getLogger("coterie")
_DAY_MICROSECONDS = 86_400 * 1_000_000
_BLOCK_ROWS = 65_536
_SUPPLY_SHAPE = 50


@dataclass(frozen=True)
class SimulatedLogs:
    """What a simulation wrote.

    Attributes
    ----------
    folder : Path
    bids : tuple of Path
        One file a day, in the order of the days.
    advertisers, truth : Path
        The texts, and what only the simulation knows.
    rows, wins, days : int
    """

    folder: Path
    bids: tuple[Path, ...]
    advertisers: Path
    truth: Path
    rows: int
    wins: int
    days: int


@dataclass(frozen=True)
class MarketDay:
    """One day of a market, before its auctions.

    Attributes
    ----------
    date : datetime64[D]
    counts : (A,) int array
        Bids of each advertiser.
    market_level : (A, 2) float array
        Log level of the competing bids' components on this day.
    bid_level : (A,) float array
        Log level of the advertiser's own bids on this day.
    """

    date: np.datetime64
    counts: NDArray[np.int64]
    market_level: NDArray[np.float64]
    bid_level: NDArray[np.float64]


def simulate_logs(
    settings: MarketSettings,
    folder: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> SimulatedLogs:
    """Simulate a market and write its logs, its texts and, apart from them, its truth.

    The folder appears whole or not at all: on a full disk or an interrupt nothing is left. The
    same settings give the same tables.

    Parameters
    ----------
    settings : MarketSettings
    folder : path
        A new or empty folder. It will hold ``bids/bids-YYYY-MM-DD.parquet``, one file a day;
        ``advertisers.parquet`` (advertiser_id, description); and ``truth.parquet``, one row an
        advertiser, with the settings as JSON under the key ``settings`` of its metadata.
    progress : callable, optional
        Called with the number of rows written so far and of all rows, after every batch.

    Returns
    -------
    SimulatedLogs

    Raises
    ------
    OutputError
        The folder holds something, or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> small = MarketSettings(advertisers=20, segments=2, days=2)
    >>> logs = simulate_logs(small, Path(tempfile.mkdtemp()) / "market")
    >>> [path.name for path in logs.bids]
    ['bids-2026-03-02.parquet', 'bids-2026-03-03.parquet']
    """
    with _whole_folder(Path(folder)) as unfinished:
        _logger.info(
            "Drawing %d advertisers of %d segments", settings.advertisers, settings.segments
        )
        traits = draw_traits(settings)
        names = _advertiser_ids(settings.advertisers)
        pq.write_table(_texts(names, traits), unfinished / "advertisers.parquet")
        pq.write_table(_truth(names, settings, traits), unfinished / "truth.parquet")
        (unfinished / "bids").mkdir()
        files, rows, wins = _write_days(settings, traits, names, unfinished / "bids", progress)
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
    """The auctions of one day, in batches of about ``rows`` rows, advertiser by advertiser.

    The highest competing bid is log-normal, of one of the advertiser's two components; the
    minimum to win is the greater of it and the floor; the advertiser's bid is log-normal too,
    independent of it, and wins if it is no less than the minimum.

    Parameters
    ----------
    settings : MarketSettings
    traits : Traits
    day : int
        From 0.
    rows : int
        An advertiser is never split, so a batch may be longer by one advertiser. The rows and
        their order do not depend on it.

    Yields
    ------
    dict of str to (n,) arrays
        ``advertiser`` (index), ``ts`` (microseconds), ``bid``, ``minimum`` (to win), ``price``
        (0 where lost; all in micros), ``won``, ``click``, ``conversion``.

    Examples
    --------
    >>> settings = MarketSettings(advertisers=50, days=1)
    >>> batches = auction_batches(settings, draw_traits(settings), 0, rows=500)
    >>> all((batch["won"] == (batch["bid"] >= batch["minimum"])).all() for batch in batches)
    True
    """
    if rows < 1:
        raise InvalidParameterError(f"rows={rows}: a batch must have at least 1 row")
    market = draw_day(settings, traits, day)
    blocks = (
        _auctions(settings, traits, market, start, end, _stream(settings, day, number))
        for number, (start, end) in enumerate(_cuts(market.counts, _BLOCK_ROWS))
    )
    sizes = (int(market.counts[start:end].sum()) for start, end in _cuts(market.counts, rows))
    yield from _in_sizes(blocks, sizes)


def draw_day(settings: MarketSettings, traits: Traits, day: int) -> MarketDay:
    """Draw how much each advertiser bids on a day, and the day's price levels.

    The number of bids is Poisson, its mean the volume times the weekday's factor times a gamma
    variable of mean 1 and variance 1/50. Log price levels move by the weekday's factor and by a
    normal variable of standard deviation 0.02, one an advertiser. On the last day bids have
    moved; before it newcomers do not bid.

    Examples
    --------
    >>> settings = MarketSettings(advertisers=50)
    >>> draw_day(settings, draw_traits(settings), 6).date
    np.datetime64('2026-03-08')
    """
    if not 0 <= day < settings.days:
        raise InvalidParameterError(f"day={day}: it must be from 0 to {settings.days - 1}")
    date = np.datetime64(settings.start, "D") + day
    weekday = (date.astype(np.int64) + 3) % 7
    rng = _stream(settings, day)
    is_last = day == settings.days - 1
    luck = rng.gamma(_SUPPLY_SHAPE, 1 / _SUPPLY_SHAPE, len(traits.volume))
    counts = rng.poisson(traits.volume * traits.supply_by_weekday[weekday] * luck)
    if not is_last:
        counts[traits.newcomer] = 0
    drift = PRICE_DRIFT * rng.standard_normal((len(counts), 1))
    return MarketDay(
        date=date,
        counts=counts,
        market_level=traits.market_level + np.log(traits.price_by_weekday[weekday]) + drift,
        bid_level=traits.bid_level + (traits.moved if is_last else 0.0),
    )


def _stream(settings: MarketSettings, day: int, *block: int) -> np.random.Generator:
    """The random stream of a day, or of a block of its auctions."""
    return np.random.default_rng(np.random.SeedSequence(settings.seed, spawn_key=(day, *block)))


def _cuts(counts: NDArray[np.int64], rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of advertisers with at least ``rows`` rows each, but for the last; none is empty."""
    upto = np.cumsum(counts)
    start, done = 0, 0
    while done < upto[-1]:
        end = min(int(np.searchsorted(upto, done + rows)) + 1, len(counts))
        yield start, end
        start, done = end, int(upto[end - 1])


def _in_sizes(blocks: Iterator[Batch], sizes: Iterator[int]) -> Iterator[Batch]:
    """The rows of the blocks, in their order, in batches of the given sizes."""
    held: list[Batch] = []
    for size in sizes:
        while sum(len(part["won"]) for part in held) < size:
            held.append(next(blocks))
        joined = held[0] if len(held) == 1 else _joined(held)
        yield {name: column[:size] for name, column in joined.items()}
        held = [{name: column[size:] for name, column in joined.items()}]


def _joined(parts: list[Batch]) -> Batch:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _auctions(
    settings: MarketSettings,
    traits: Traits,
    market: MarketDay,
    start: int,
    end: int,
    rng: np.random.Generator,
) -> Batch:
    """All auctions of one day of the advertisers from ``start`` to before ``end``."""
    who = np.repeat(np.arange(start, end), market.counts[start:end])
    n = len(who)
    component = (rng.random(n) >= traits.market_share[who, 0]).astype(np.int64)
    spread = traits.market_spread[who, component]
    competing = np.exp(market.market_level[who, component] + spread * rng.standard_normal(n))
    minimum = in_micros(np.maximum(competing, traits.floor[who]))
    noise = traits.bid_spread[who] * rng.standard_normal(n)
    bid = in_micros(np.exp(market.bid_level[who] + noise))
    won = bid >= minimum
    click = won & (rng.random(n) < traits.click_rate[who])
    midnight = market.date.astype("datetime64[us]").astype(np.int64)
    return {
        "advertiser": who,
        "ts": midnight + rng.integers(0, _DAY_MICROSECONDS, n),
        "bid": bid,
        "minimum": minimum,
        "price": np.where(won, minimum if settings.auction == "second" else bid, 0),
        "won": won,
        "click": click,
        "conversion": click & (rng.random(n) < traits.conversion_rate[who]),
    }


def _write_days(
    settings: MarketSettings,
    traits: Traits,
    names: pa.Array,
    folder: Path,
    progress: Callable[[int, int], None] | None,
) -> tuple[list[str], int, int]:
    """Write one file a day; the files' names, the number of rows, and of wins."""
    market_days = range(settings.days)
    in_all = sum(int(draw_day(settings, traits, day).counts.sum()) for day in market_days)
    schema, files, rows, wins = _schema(settings), [], 0, 0
    for day in market_days:
        date = np.datetime64(settings.start, "D") + day
        _logger.info("Simulating the auctions of %s", date)
        files.append(f"bids-{date}.parquet")
        with pq.ParquetWriter(folder / files[-1], schema, **_encoding(schema)) as writer:
            for batch in auction_batches(settings, traits, day):
                table = _bids(settings, traits, names, batch)
                writer.write_table(table, row_group_size=len(table))
                rows, wins = rows + len(table), wins + int(batch["won"].sum())
                if progress:
                    progress(rows, in_all)
    return files, rows, wins


def _schema(settings: MarketSettings) -> pa.Schema:
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
    }
    return pa.schema({name: kind for name, kind in types.items() if kind is not None})


def _encoding(schema: pa.Schema) -> dict[str, Any]:
    """Amounts and names repeat, so they are kept in dictionaries; times do not."""
    return {
        "compression": "snappy",
        "use_dictionary": [name for name in schema.names if name != "ts"],
        "column_encoding": {"ts": "DELTA_BINARY_PACKED"},
    }


def _bids(settings: MarketSettings, traits: Traits, names: pa.Array, batch: Batch) -> pa.Table:
    """A batch in the columns of the log."""
    who, n = batch["advertiser"], len(batch["advertiser"])
    # only the names met here: every row group has a dictionary of its own
    first, last = int(who[0]), int(who[-1])
    met = names.slice(first, last + 1 - first)
    schema = _schema(settings)
    columns = {
        "advertiser_id": pa.DictionaryArray.from_arrays((who - first).astype(np.int32), met),
        "ts": pa.array(batch["ts"]).cast(schema.field("ts").type),
        "bid_micros": batch["bid"],
        "won": batch["won"],
        "price_micros": pa.array(batch["price"], mask=~batch["won"]),
        "auction_type": np.full(n, 2 if settings.auction == "second" else 1, np.int8),
        "floor_micros": in_micros(traits.floor)[who],
        "min_to_win_micros": batch["minimum"],
        "currency": pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["USD"]),
        "click": batch["click"],
        "conversion": batch["conversion"],
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _advertiser_ids(n: int) -> pa.Array:
    width = max(5, len(str(n - 1)))
    return pa.array([f"adv-{i:0{width}d}" for i in range(n)])


def _texts(names: pa.Array, traits: Traits) -> pa.Table:
    return pa.table({"advertiser_id": names, "description": pa.array(traits.text, pa.string())})


def _truth(names: pa.Array, settings: MarketSettings, traits: Traits) -> pa.Table:
    """What is true of every advertiser; the two components of a market side by side."""
    themes = np.array(theme_names(settings.segments))
    columns = {"advertiser_id": names, "segment": traits.segment, "theme": themes[traits.segment]}
    for name in (
        *("outlier", "newcomer", "text_is", "volume", "bid_level", "bid_spread", "moved"),
        *("floor", "click_rate", "conversion_rate"),
    ):
        columns[name] = getattr(traits, name)
    for name in ("market_level", "market_spread", "market_share"):
        for component in (0, 1):
            columns[f"{name}_{component + 1}"] = getattr(traits, name)[:, component]
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    return table.replace_schema_metadata({"settings": json.dumps(asdict(settings))})


@contextlib.contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    """Give a hidden folder beside ``folder`` to fill; put it in place when all went well."""
    hidden = None
    try:
        # a link is followed, and the folder it leads to is written
        target = Path(os.path.realpath(folder))
        _refuse_obstacles(folder, target)
        prefix = f".{target.name[:40]}-"
        hidden = tempfile.mkdtemp(prefix=prefix, suffix=".unfinished", dir=target.parent)
        # one within: the hidden one is closed to all others, whatever the permissions usual here
        unfinished = Path(hidden) / "whole"
        unfinished.mkdir()
        if target.exists():
            unfinished.chmod(target.stat().st_mode)
        yield unfinished
        unfinished.rename(target)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        if hidden is not None:
            shutil.rmtree(hidden, ignore_errors=True)


def _refuse_obstacles(folder: Path, target: Path) -> None:
    parent, is_folder = target.parent, target.is_dir()
    in_use = is_folder and (target.is_mount() or target == Path.cwd())
    obstacles = (
        (not parent.exists(), f"the folder {parent} does not exist; make it"),
        (not parent.is_dir(), f"{parent} is not a folder"),
        (target.exists() and not is_folder, "it is a file; name a new folder"),
        (
            is_folder and any(target.iterdir()),
            "the folder is not empty; name a new one, or empty it",
        ),
        (in_use, "the folder is mounted, or the current one; name a new folder in it"),
        (not os.access(parent, os.W_OK | os.X_OK), f"the folder {parent} is read-only"),
    )
    reason = next((reason for met, reason in obstacles if met), "")
    if reason:
        raise OutputError(f"cannot write {folder}: {reason}")
