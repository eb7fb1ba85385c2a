"""Histogram queries: from a log of any length, by its engine, to the cells of all advertisers.

Every engine gives the same cells, exactly: edges, bins and sums of amounts are whole numbers, and
nothing depends on the order of rows. Sums with weights, which are not whole, agree up to rounding.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from coterie.ads.histograms.bid_histograms import BidHistograms, bin_of
from coterie.ads.histograms.cells import gather_cells
from coterie.ads.logs.amount_codes import (
    MOST_MICROS,
    amounts_of,
    by_bisection,
    code_column,
    codes_of,
)
from coterie.ads.logs.bid_logs import BidLogs
from coterie.engines.queries import fetch
from coterie.errors import InvalidParameterError, TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["bid_grid", "read_histograms"]

log = logging.getLogger("coterie")

_BINS_TO_SPREAD = 64


def bid_grid(
    logs: BidLogs, bins: int = 256, days: Sequence[Any] | None = None
) -> NDArray[np.int64]:
    """A grid of bids on which the bids and the revealed prices of a log spread evenly.

    The engine rounds every amount up to three significant digits and counts equal ones. The grid
    is the least amounts that g/G of all reach at most, g = 1 … G; where there are no more than G
    different ones, it is all of them. From 64 bins up an eighth of them is spread evenly over the
    logarithm of the amounts instead, so that the rare high bids, where bids may move to, are not
    all in the last bin. No amount is above the last edge.

    Parameters
    ----------
    logs : BidLogs
    bins : int
        The most bins there may be, G.
    days : sequence of dates, optional
        The days to count; by default all.

    Returns
    -------
    (≤ G,) int64 array
        Increasing upper edges, in micros.

    Examples
    --------
    >>> import ibis, pyarrow as pa
    >>> from coterie.ads.logs.bid_logs import open_logs
    >>> rows = pa.table({"advertiser_id": ["a"] * 3, "day": ["2026-03-02"] * 3,
    ...                  "bid_micros": [2_500_000, 2_501_000, 2_999_999], "won": [True] * 3,
    ...                  "price_micros": [1_900_000] * 3})
    >>> bid_grid(open_logs(ibis.memtable(rows))).tolist()
    [1900000, 2500000, 2510000, 3000000]
    """
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 1:
        raise InvalidParameterError(f"bins={bins!r}: it must be a whole number, at least 1")
    log.info("Counting amounts")
    found = pa.concat_tables(fetch(_amounts(logs, days, part)) for part in _parts(logs))
    if not found.num_rows:
        raise TableError(_nothing_usable(logs, days))
    amount, of_row = np.unique(found["amount"].to_numpy(), return_inverse=True)
    n = np.bincount(of_row, found["n"].to_numpy().astype(np.float64))
    if logs.kind != "histograms":
        amount = amounts_of(amount)
    return _grid_over(amount.astype(np.int64), n, int(bins))


def read_histograms(
    logs: BidLogs,
    edges: ArrayLike | None = None,
    bins: int = 256,
    days: Sequence[Any] | None = None,
) -> BidHistograms:
    """The histograms of a log, counted where it is.

    A row counts where advertiser and day are known, the bid is above 0 and it is known whether
    it won. A price that is not known or below 0 adds nothing to the cost.

    Parameters
    ----------
    logs : BidLogs
    edges : array-like of int, optional
        Increasing upper edges of the bins, in micros; by default :func:`bid_grid`. The engine
        is fastest where they have three significant digits, as the grid's have.
    bins : int
        The most bins of the default grid.
    days : sequence of dates, optional
        The days to read; by default all.

    Examples
    --------
    >>> import ibis, pyarrow as pa
    >>> from coterie.ads.logs.bid_logs import open_logs
    >>> rows = pa.table({"advertiser_id": ["a", "b", "b"], "day": ["2026-03-02"] * 3,
    ...                  "bid_micros": [2_000_000, 2_500_000, 3_000_000],
    ...                  "won": [True, True, False], "price_micros": [1_900_000, 1_700_000, None]})
    >>> found = read_histograms(open_logs(ibis.memtable(rows)), edges=[2_000_000, 3_000_000])
    >>> found.dense().bids.tolist(), found.dense().prices.tolist()
    ([[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [1.0, 0.0]])
    """
    grid = bid_grid(logs, bins, days) if edges is None else _checked_edges(edges)
    log.info("Counting bids by advertiser, day and bin")
    found = {part: fetch(_cells(logs, grid, days, part)) for part in _parts(logs)}
    cells = gather_cells(found["bids"], found.get("prices"), len(grid), logs.source)
    if not len(cells.advertisers):
        raise TableError(_nothing_usable(logs, days))
    return BidHistograms(
        advertisers=cells.advertisers,
        days=cells.days,
        edges=grid,
        auction=logs.auction,
        revealed=_revealed(logs),
        bids=cells.bids,
        prices=cells.prices,
        currency=logs.currency,
    )


def _parts(logs: BidLogs) -> list[str]:
    return ["bids"] if _revealed(logs) == "none" else ["bids", "prices"]


def _revealed(logs: BidLogs) -> str:
    """What prices tell: "paid" by winners, the "minimum" to win of every bid, or "none"."""
    if logs.kind == "histograms":
        return "paid" if "prices" in logs.table.columns else "none"
    if logs.logs_minimum:
        return "minimum"
    return "paid" if logs.auction == "second" else "none"


def _rows(logs: BidLogs, days: Sequence[Any] | None, part: str) -> ir.Table:
    """The rows that count, with the amount to bin them by; names and days are left to the cells."""
    table = logs.table
    if logs.kind == "histograms":
        kept, amount = [table.bin_micros.between(1, MOST_MICROS)], table.bin_micros
    else:
        kept = [table.bid_micros.between(1, MOST_MICROS), table.won.notnull()]
        amount = table.bid_micros
        if part == "prices":
            is_minimum = _revealed(logs) == "minimum"
            amount = table.min_to_win_micros if is_minimum else table.price_micros
            kept += [amount.between(0, MOST_MICROS)] + [table.won] * (not is_minimum)
    if logs.weighted:
        kept += [table.weight > 0, table.weight < np.inf]
    if days is not None:
        kept += [table.day.isin(_dates(days))]
    return table.filter(kept).mutate(amount=amount)


def _dates(days: Sequence[Any]) -> list[Any]:
    try:
        return np.asarray(days, dtype="datetime64[D]").astype(object).ravel().tolist()
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"days: they must be dates as in 2026-03-02, got {days!r}"
        ) from error


def _amounts(logs: BidLogs, days: Sequence[Any] | None, part: str) -> ir.Table:
    """Amounts, or their codes, and how often each is there."""
    rows = _rows(logs, days, part)
    if logs.kind == "histograms":
        return rows.group_by("amount").agg(n=rows[part].fill_null(0.0).sum())
    rows = rows.filter(rows.amount > 0)
    return rows.group_by(amount=code_column(rows.amount)).agg(n=rows.count())


def _grid_over(amount: NDArray[np.int64], n: NDArray[Any], bins: int) -> NDArray[np.int64]:
    """Edges that hold alike, and between them some that are equally far apart."""
    if len(amount) <= bins or bins < _BINS_TO_SPREAD:
        return _even_edges(amount, n, bins)
    spread = bins // 8
    wanted = np.geomspace(amount[0], amount[-1], spread + 2)[1:-1]
    apart = amount[np.searchsorted(amount, wanted)]
    return np.union1d(_even_edges(amount, n, bins - spread), apart)


def _even_edges(amount: NDArray[np.int64], n: NDArray[Any], bins: int) -> NDArray[np.int64]:
    """At most ``bins`` of the increasing amounts, so that all hold alike; the last is one.

    >>> _even_edges(np.array([1, 2, 3, 9]), np.array([5.0, 1.0, 1.0, 1.0]), 2).tolist()
    [1, 9]
    """
    if len(amount) <= bins:
        return amount
    reached = np.cumsum(n)
    # reached / all ≥ g / G, without a division
    places = np.searchsorted(reached * bins, np.arange(1, bins) * reached[-1])
    return np.unique(amount[np.append(places, len(amount) - 1)])


def _checked_edges(edges: ArrayLike) -> NDArray[np.int64]:
    grid = np.asarray(edges)
    whole = grid.ndim == 1 and grid.size and np.issubdtype(grid.dtype, np.integer)
    if not whole or grid[0] < 1 or grid[-1] > MOST_MICROS or np.any(np.diff(grid) <= 0):
        raise InvalidParameterError(
            "edges: they must be whole numbers of micros, above 0 and increasing"
        )
    return grid.astype(np.int64)


def _bins(rows: ir.Table, edges: NDArray[np.int64]) -> tuple[ir.Table, Any]:
    """Return the rows and the bin of each amount, as ``bid_histograms.bin_of`` gives it."""
    import ibis

    if not np.array_equal(amounts_of(codes_of(edges)), edges):
        numbers = [ibis.literal(g, "int64") for g in range(len(edges))]
        return rows, by_bisection(rows.amount, edges[:-1].tolist(), numbers.__getitem__)
    # no edge is among the amounts of a code, so the bin of an amount is that of its code
    least, most = int(edges[0]), int(edges[-1])
    first, last = codes_of([least, most]).tolist()
    bins = bin_of(amounts_of(np.arange(first, last + 1)), edges)
    # as one text: engines make the array once, and plan with one literal in place of thousands
    table = ibis.literal(",".join(map(str, bins.tolist()))).split(",").cast("array<int16>")
    inside = ibis.least(ibis.greatest(rows.amount, least), most)
    place = code_column(inside, least, most) - first
    # a column of its own: Ibis writes an index twice, and engines would compute it twice
    rows = rows.mutate(place=place.cast("int32"))
    return rows, table[rows.place]


def _cells(
    logs: BidLogs, edges: NDArray[np.int64], days: Sequence[Any] | None, part: str
) -> ir.Table:
    """The sums over the rows of each advertiser, day and bin."""
    rows, bins = _bins(_rows(logs, days, part), edges)
    if logs.kind == "histograms":
        sums = _sums_of_histograms(rows, part)
    elif logs.weighted:
        sums = _weighted_sums(rows, part)
    else:
        sums = _whole_sums(rows, part)
    # floats as the cells have them: exact up to 2^53, and engines sum whole numbers as wider ones
    as_floats = {name: total.cast("float64") for name, total in sums.items()}
    return rows.group_by("advertiser_id", "day", bin=bins).agg(**as_floats)


def _has_paid(rows: ir.Table) -> Any:
    return rows.won & rows.price_micros.between(0, MOST_MICROS)


def _led_to(rows: ir.Table) -> dict[str, Any]:
    columns = {"clicks": "click", "conversions": "conversion"}
    return {
        name: rows.won & rows[column] for name, column in columns.items() if column in rows.columns
    }


def _whole_sums(rows: ir.Table, part: str) -> dict[str, Any]:
    if part == "prices":
        return {"count": rows.count(), "price": rows.amount.sum()}
    return {
        "count": rows.count(),
        "bid": rows.amount.sum(),
        "wins": rows.won.sum(),
        "cost": rows.price_micros.sum(where=_has_paid(rows)).fill_null(0),
        **{name: led.sum().fill_null(0) for name, led in _led_to(rows).items()},
    }


def _weighted_sums(rows: ir.Table, part: str) -> dict[str, Any]:
    weight = rows.weight
    if part == "prices":
        return {"count": weight.sum(), "price": (weight * rows.amount).sum()}
    return {
        "count": weight.sum(),
        "square": (weight * weight).sum(),
        "bid": (weight * rows.amount).sum(),
        "wins": weight.sum(where=rows.won).fill_null(0.0),
        "cost": (weight * rows.price_micros).sum(where=_has_paid(rows)).fill_null(0.0),
        **{name: weight.sum(where=led).fill_null(0.0) for name, led in _led_to(rows).items()},
    }


def _sums_of_histograms(rows: ir.Table, part: str) -> dict[str, Any]:
    """Sums of sums; amounts that are not there are taken to be at the upper edge."""

    def total(name: str) -> Any:
        return rows[name].fill_null(0.0).sum()

    amounts, of = {"prices": ("price_micros", "price"), "bids": ("bid_micros", "bid")}[part]
    amount = total(amounts) if amounts in rows.columns else (rows[part] * rows.amount).sum()
    sums = {"count": total(part), of: amount}
    if part == "prices":
        return sums
    led_to = {name: total(name) for name in ("clicks", "conversions") if name in rows.columns}
    return {**sums, "wins": total("wins"), "cost": total("cost_micros"), **led_to}


def _nothing_usable(logs: BidLogs, days: Sequence[Any] | None) -> str:
    on_days = "" if days is None else " on the days asked for"
    return (
        f"{logs.source}: no row{on_days} has an advertiser, a day, a bid above 0 and says whether "
        "it won; check the log for what is wrong with them"
    )
