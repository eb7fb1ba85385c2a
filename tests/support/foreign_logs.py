"""The same auctions written as logs of many shapes, none of them canonical.

Each writer stores a log in a folder and returns the words of the command line that read it. Queries
are the recipes of the documentation, which name files of the current folder.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["BERLIN", "SHAPES", "Auction", "auctions", "recipe", "write_canonical"]

PAGE = Path(__file__).parents[2] / "docs" / "user_guide" / "bid_logs.md"

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
FIRST = datetime(2026, 3, 2, tzinfo=UTC)


@dataclass(frozen=True)
class Auction:
    """An auction; amounts are whole cents for a thousand impressions."""

    id: str
    advertiser: str
    time: datetime
    bid: int
    price: int | None  # paid; None if lost

    @property
    def won(self) -> bool:
        """Whether the bid won."""
        return self.price is not None


def auctions(n: int = 2400) -> list[Auction]:
    """Auctions of six advertisers, evenly over 24 days from 2 March 2026 on."""
    rng = np.random.default_rng(0)
    bids = rng.integers(80, 400, n)
    markets = rng.integers(60, 380, n)
    step = timedelta(days=24) / n
    return [
        Auction(
            id=f"b{i}",
            advertiser=f"shop {i % 6}",
            time=(FIRST + i * step).replace(microsecond=0),
            bid=int(bids[i]),
            price=int(markets[i]) if markets[i] <= bids[i] else None,
        )
        for i in range(n)
    ]


def write_canonical(folder: Path, rows: Iterable[Auction]) -> Path:
    """Write the auctions as a canonical log."""
    rows = list(rows)
    table = {
        "advertiser_id": [row.advertiser for row in rows],
        "ts": [row.time for row in rows],
        "bid_micros": [row.bid * 10_000 for row in rows],
        "won": [row.won for row in rows],
        "price_micros": [row.price and row.price * 10_000 for row in rows],
    }
    pq.write_table(pa.table(table), folder / "canonical.parquet")
    return folder / "canonical.parquet"


def recipe(title: str) -> str:
    """The query below a heading of the page on foreign logs."""
    found = re.search(
        rf"^### {re.escape(title)}.*?^```sql\n(.*?)^```", PAGE.read_text(), re.M | re.S
    )
    assert found is not None, title
    return found[1]


def _with_recipe(folder: Path, title: str) -> list[str]:
    (folder / "recipe.sql").write_text(recipe(title))
    return ["--sql", str(folder / "recipe.sql")]


def _text(rows: Iterable[dict[str, Any]], delimiter: str = ",") -> str:
    rows, file = list(rows), io.StringIO()
    writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _currency(cents: int | None) -> str:
    return "" if cents is None else f"{cents / 100:.2f}"


def usual_names(folder: Path, rows: list[Auction]) -> list[str]:
    """CSV with usual names, ISO times and amounts in the currency."""
    log = (
        {
            "Advertiser": row.advertiser,
            "timestamp": row.time.isoformat(),
            "bid_price": _currency(row.bid),
            "is_win": int(row.won),
            "clearing_price": _currency(row.price),
        }
        for row in rows
    )
    (folder / "log.csv").write_text(_text(log))
    return [str(folder / "log.csv"), "--amounts", "currency"]


def german(folder: Path, rows: list[Auction]) -> list[str]:
    """Semicolons, decimal commas, day-first Berlin times, foreign names."""
    log = (
        {
            "Kunde": row.advertiser,
            "Zeitpunkt": row.time.astimezone(BERLIN).strftime("%d.%m.%Y %H:%M:%S"),
            "Gebot": _currency(row.bid).replace(".", ","),
            "Gewonnen": "J" if row.won else "N",
            "Preis": _currency(row.price).replace(".", ","),
        }
        for row in rows
    )
    (folder / "log.csv").write_text(_text(log, ";"))
    query = _with_recipe(folder, "Day-first dates, decimal commas, own words")
    return [str(folder / "log.csv"), *query, "--time-zone", "Europe/Berlin"]


def ad_manager(folder: Path, rows: list[Auction]) -> list[str]:
    """An export with spaces in names, US dates with AM and PM, and micros."""
    log = (
        {
            "Advertiser ID": row.advertiser,
            "Time": row.time.astimezone(NEW_YORK).strftime("%m/%d/%Y %I:%M:%S %p"),
            "Bid price (micros)": row.bid * 10_000,
            "Won": str(row.won).lower(),
            "Price paid (micros)": (row.price or 0) * 10_000,
        }
        for row in rows
    )
    (folder / "export.csv").write_text(_text(log, "|"))
    query = _with_recipe(folder, "Exports of Google Ad Manager")
    return [str(folder / "export.csv"), *query, "--time-zone", "America/New_York"]


def epoch_cents(folder: Path, rows: list[Auction]) -> list[str]:
    """Gzipped TSV with seconds since 1970 and cents."""
    log = (
        {
            "adv_id": row.advertiser,
            "unix_time": int(row.time.timestamp()),
            "bid_cents": row.bid,
            "win": "win" if row.won else "loss",
            "win_price_cents": "" if row.price is None else row.price,
        }
        for row in rows
    )
    (folder / "log.tsv.gz").write_bytes(gzip.compress(_text(log, "\t").encode()))
    return [str(folder / "log.tsv.gz"), "--amounts", "cents"]


def nested_json(folder: Path, rows: list[Auction]) -> list[str]:
    """Nested JSON lines with milliseconds and dollars for one impression."""
    with (folder / "log.jsonl").open("w") as file:
        for row in rows:
            line = {
                "at_ms": round(row.time.timestamp() * 1000),
                "imp": [{"bid": {"usd": row.bid / 100_000}, "buyer": {"name": row.advertiser}}],
                "outcome": {"won": row.won},
            }
            if row.won:
                line["outcome"]["paid_usd"] = row.price / 100_000
            file.write(json.dumps(line) + "\n")
    names = {"advertiser": "imp.0.buyer.name", "time": "at_ms", "bid": "imp.0.bid.usd"}
    names |= {"won": "outcome.won", "price": "outcome.paid_usd"}
    columns = [word for role, name in names.items() for word in ("--column", f"{role}={name}")]
    return [str(folder / "log.jsonl"), *columns, "--amounts", "currency/impression"]


def json_folder(folder: Path, rows: list[Auction]) -> list[str]:
    """A folder of gzipped JSON lines with offsets in the times and micros in the names."""
    (folder / "log").mkdir()
    for i in range(3):
        lines = [
            {
                "advertiserId": row.advertiser,
                "eventTime": row.time.astimezone(BERLIN).isoformat(),
                "bidMicros": row.bid * 10_000,
                "won": "yes" if row.won else "no",
                "payPriceMicros": row.price and row.price * 10_000,
            }
            for row in rows[i::3]
        ]
        text = "\n".join(map(json.dumps, lines))
        (folder / "log" / f"{i}.ndjson.gz").write_bytes(gzip.compress(text.encode()))
    return [str(folder / "log")]


def local_times(folder: Path, rows: list[Auction]) -> list[str]:
    """Zstandard CSV with Berlin times without a zone."""
    log = (
        {
            "advertiser": row.advertiser,
            "event_time": row.time.astimezone(BERLIN).strftime("%Y-%m-%d %H:%M:%S"),
            "bid": _currency(row.bid),
            "won": "won" if row.won else "lost",
            "price": _currency(row.price),
        }
        for row in rows
    )
    packed = pa.compress(_text(log).encode(), codec="zstd", asbytes=True)
    (folder / "log.csv.zst").write_bytes(packed)
    options = ["--column", "price=price", "--amounts", "currency", "--time-zone", "Europe/Berlin"]
    return [str(folder / "log.csv.zst"), *options]


def typed_parquet(folder: Path, rows: list[Auction]) -> list[str]:
    """Two Parquet files of a glob, with decimals, time stamps of a zone and truth values."""
    for i in range(2):
        part = rows[i::2]
        table = {
            "account_id": [int(row.advertiser.split()[1]) for row in part],
            "auction_time": pa.array([row.time for row in part], pa.timestamp("us", "US/Pacific")),
            "submitted_bid": [Decimal(row.bid) / 100 for row in part],
            "bid_won": [row.won for row in part],
            "auction_price": [row.price and Decimal(row.price) / 100 for row in part],
        }
        pq.write_table(pa.table(table), folder / f"part{i}.parquet")
    return [str(folder / "part*.parquet"), "--amounts", "currency"]


def warehouse(folder: Path, rows: list[Auction]) -> list[str]:
    """A table of a DuckDB database with days as numbers and amounts in two units."""
    table = pa.table(
        {
            "advertiser": [row.advertiser for row in rows],
            "event_date": [int(row.time.strftime("%Y%m%d")) for row in rows],
            "bid_cpm": [row.bid / 100 for row in rows],
            "won": [int(row.won) for row in rows],
            "paid_price": [row.price and row.price * 10 for row in rows],
        }
    )
    with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
        connection.register("rows", table)
        connection.execute("CREATE TABLE auctions AS FROM rows")
        connection.execute("CREATE TABLE other AS SELECT 1 AS x")
    query = _with_recipe(folder, "Amounts in two units")
    options = ["--table", "auctions", "--amounts", "micros"]
    return [str(folder / "warehouse.duckdb"), *query, *options]


def openrtb(folder: Path, rows: list[Auction]) -> list[str]:
    """OpenRTB bids, win notices and loss notices in separate files."""
    lines: dict[str, list[dict[str, Any]]] = {"bids": [], "wins": [], "losses": []}
    for row in rows:
        at = round(row.time.timestamp() * 1000)
        bid = {"id": row.id, "price": row.bid / 100, "seat": row.advertiser}
        lines["bids"].append({"timestamp": at, "at": 2, "bid": bid})
        if row.won:
            lines["wins"].append({"bid_id": row.id, "price": row.price / 100, "timestamp": at + 50})
        else:
            lines["losses"].append({"bid_id": row.id, "loss": 102})
    # a repeated notice, and a loss notice that says that the bid won
    lines["wins"].append(dict(lines["wins"][0]))
    lines["losses"].append({"bid_id": lines["wins"][0]["bid_id"], "loss": 0})
    for name, objects in lines.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, objects)) + "\n")
    return [str(folder / "bids.jsonl"), *_with_recipe(folder, "OpenRTB")]


def prices_only(folder: Path, rows: list[Auction]) -> list[str]:
    """CSV without a column for won: the price is 0 if the bid lost."""
    log = (
        {
            "advertiser": row.advertiser,
            "datetime": row.time.strftime("%Y%m%d%H%M%S"),
            "bid": _currency(row.bid),
            "pay_price": _currency(row.price or 0),
        }
        for row in rows
    )
    (folder / "log.csv").write_text(_text(log))
    return [str(folder / "log.csv"), *_with_recipe(folder, "Only bids that won have a price")]


def wins_only(folder: Path, rows: list[Auction]) -> list[str]:
    """Two files of bids and one of win notices, as CSV."""
    for i in range(2):
        log = (
            {
                "auction_id": row.id,
                "client": row.advertiser,
                "ts": round(row.time.timestamp() * 10**6),
                "offer": _currency(row.bid),
            }
            for row in rows[i::2]
        )
        (folder / f"bids{i}.csv").write_text(_text(log))
    notices = ({"auction_id": r.id, "paid": _currency(r.price)} for r in rows if r.won)
    (folder / "wins.csv").write_text(_text(notices))
    files = [str(folder / f"bids{i}.csv") for i in range(2)]
    return [*files, *_with_recipe(folder, "Win notices only")]


SHAPES: dict[str, Callable[[Path, list[Auction]], list[str]]] = {
    shape.__name__: shape
    for shape in (
        *(usual_names, german, ad_manager, epoch_cents, nested_json, json_folder, local_times),
        *(typed_parquet, warehouse, openrtb, prices_only, wins_only),
    )
}
