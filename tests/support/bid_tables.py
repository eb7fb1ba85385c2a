"""Small bid logs with many faults, and a brute-force count of their histograms."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.logs.bid_logs import BidLogs
from coterie.tables.engines import fetch

MICROS = 1_000_000

#: Names that break what pastes text together.
HOSTILE = (
    "'; DROP TABLE bids; --",
    "<script>alert(1)</script>",
    "🦊 fox, inc.",
    'say "hi"',
    "two  spaces",
    "back\\slash",
    "two\nlines",
    "NULL",
    "007",
    "{glob}*[x]?",
)


def bid_frame(n: int = 400, seed: int = 0, *, faults: bool = True) -> pd.DataFrame:
    """A log of n bids of a dozen advertisers on three days, as rows of Python values."""
    rng = np.random.default_rng(seed)
    names = [*HOSTILE, "adv-1", "adv-2"]
    bid = rng.integers(1, 9 * MICROS, n)
    won = rng.random(n) < 0.5
    click = won & (rng.random(n) < 0.3)
    frame = pd.DataFrame(
        {
            "advertiser_id": [names[i] for i in rng.integers(0, len(names), n)],
            "day": [f"2026-03-0{d}" for d in rng.integers(1, 4, n)],
            "bid_micros": pd.array(bid, dtype="Int64"),
            "won": pd.array(won, dtype="boolean"),
            "price_micros": pd.array((bid * rng.random(n)).astype(np.int64), dtype="Int64"),
            "click": pd.array(click, dtype="boolean"),
            "conversion": pd.array(click & (rng.random(n) < 0.5), dtype="boolean"),
            "weight": rng.choice([0.5, 1.0, 2.25], n),
            "min_to_win_micros": pd.array(rng.integers(1, 9 * MICROS, n), dtype="Int64"),
            "user_id": [f"person-{i}" for i in range(n)],
        }
    )
    frame.loc[~frame.won, "price_micros"] = pd.NA
    if faults:
        for column, value in [
            ("advertiser_id", None),
            ("day", None),
            ("bid_micros", pd.NA),
            ("bid_micros", 0),
            ("bid_micros", -5),
            ("won", pd.NA),
            ("price_micros", pd.NA),
            ("price_micros", -1),
            ("click", pd.NA),
        ]:
            frame.loc[rng.choice(n, max(1, n // 40), replace=False), column] = value
    return frame


def as_arrow(frame: pd.DataFrame) -> pa.Table:
    """The frame as read from Parquet, with days as dates."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    days = pa.array(pd.to_datetime(frame["day"]).dt.date, pa.date32())
    return table.set_column(table.column_names.index("day"), "day", days)


def write_csv(frame: pd.DataFrame, path: Path, **how: Any) -> Path:
    """The frame as delimited text."""
    frame.to_csv(path, index=False, lineterminator="\n", **how)
    return path


def count_by_hand(
    frame: pd.DataFrame, edges: Any, *, revealed: str = "paid", weighted: bool = False
) -> dict[str, dict[tuple[str, str, int], tuple[float, ...]]]:
    """The cells of a log, row by row in plain Python.

    Bids: Σw, Σw², Σw·bid, wins, cost, clicks, conversions; prices: Σw, Σw·price.
    """
    bids: Any = defaultdict(lambda: np.zeros(7))
    prices: Any = defaultdict(lambda: np.zeros(2))
    for row in frame.to_dict("records"):
        known = {name: None if pd.isna(value) else value for name, value in row.items()}
        bid, won, price = known["bid_micros"], known["won"], known["price_micros"]
        name, day = known["advertiser_id"], known["day"]
        if name is None or day is None or bid is None or bid <= 0 or won is None:
            continue
        w = row["weight"] if weighted else 1.0
        paid = price if won and price is not None and price >= 0 else 0
        click, conversion = (won and known[column] for column in ("click", "conversion"))
        bids[name, day, _bin(bid, edges)] += w * np.array(
            [1, w, bid, won, paid, bool(click), bool(conversion)], dtype=float
        )
        shown = known["min_to_win_micros"] if revealed == "minimum" else price
        is_shown = revealed == "minimum" or (revealed == "paid" and won)
        if is_shown and shown is not None and shown >= 0:
            prices[name, day, _bin(shown, edges)] += w * np.array([1, shown], dtype=float)
    return {
        "bids": {place: tuple(sums) for place, sums in bids.items()},
        "prices": {place: tuple(sums) for place, sums in prices.items()},
    }


def cells_of(found: BidHistograms) -> dict[str, dict[tuple[str, str, int], tuple[float, ...]]]:
    """The cells of histograms in the form of :func:`count_by_hand`."""
    sums = {
        "bids": ("count", "square", "bid", "wins", "cost", "clicks", "conversions"),
        "prices": ("count", "price"),
    }
    return {
        part: {
            (str(found.advertisers[a]), str(found.days[d]), int(g)): tuple(map(float, values))
            for a, d, g, *values in zip(
                cells.advertiser,
                cells.day,
                cells.bin,
                *(getattr(cells, name) for name in sums[part]),
                strict=True,
            )
        }
        for part, cells in (("bids", found.bids), ("prices", found.prices))
    }


def assert_equal_histograms(one: BidHistograms, other: BidHistograms, rtol: float = 0.0) -> None:
    """Require equal histograms; weighted sums may be added in another order, and so differ."""
    for name in ("advertisers", "days", "edges"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in ("auction", "revealed", "currency"):
        assert getattr(one, name) == getattr(other, name), name
    for part in ("bids", "prices"):
        for name, values in vars(getattr(one, part)).items():
            there = getattr(getattr(other, part), name)
            np.testing.assert_allclose(values, there, rtol=rtol, err_msg=f"{part} {name}")


def sorted_rows(logs: BidLogs) -> list[tuple[str, ...]]:
    """The rows of a canonical table as texts, in one order."""
    return sorted(tuple(map(str, row.values())) for row in fetch(logs.table).to_pylist())


def _bin(value: int, edges: Any) -> int:
    return next((g for g, edge in enumerate(edges) if value <= edge), len(edges) - 1)
