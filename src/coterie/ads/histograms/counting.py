"""Counting: let the engine that holds a log count its histograms.

Every engine gives exactly the same cells, because edges, bins and sums of amounts are integers and
do not depend on the order of rows. Weighted sums are floats and agree up to rounding.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coterie.ads.histograms.bid_histograms import BidHistograms, bin_of
from coterie.ads.histograms.gathering import gather_cells
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.logs.amount_codes import (
    MOST_MICROS,
    amounts_of,
    by_bisection,
    code_column,
    codes_of,
)
from coterie.ads.logs.bid_logs import BidLogs
from coterie.errors import CoterieWarning, InvalidParameterError, TableError
from coterie.tables.engines import batches, fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["count_cells", "counted_parts", "counted_rows", "read_histograms"]

log = logging.getLogger("coterie")

_KEYS = ("advertiser_id", "day", "bin")
#: Cells of a batch that the engine returns.
_BATCH = 500_000


def read_histograms(
    logs: BidLogs,
    edges: ArrayLike | None = None,
    days: Sequence[Any] | None = None,
) -> BidHistograms:
    """Count the histograms of a log in its engine.

    A row counts if it has an advertiser, a day, a bid above 0 and a result, won or lost. A price
    that is missing or below 0 adds nothing to the cost.

    Parameters
    ----------
    logs : BidLogs
    edges : array-like of int, optional
        Increasing upper edges of the bins, in micros; by default those of
        :func:`~coterie.ads.histograms.price_grid.price_grid`. The engine is fastest if they have
        three significant digits.
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
    grid = _default_grid(logs, days) if edges is None else _checked_edges(edges)
    log.info("Counting bids by advertiser, day and bin")
    cells = {
        part: batches(_sorted_cells(logs, days, grid, part), _BATCH) for part in counted_parts(logs)
    }
    advertisers, dates, bids, prices = gather_cells(
        cells["bids"], cells.get("prices", ()), len(grid), logs.source
    )
    if not len(advertisers):
        raise TableError(_nothing_usable(logs, days))
    _warn_of_ragged_lines(logs)
    return BidHistograms(
        advertisers,
        dates,
        grid,
        logs.auction,
        logs.revealed,
        bids,
        prices,
        logs.currency,
        logs.unit,
    )


def counted_parts(logs: BidLogs) -> list[str]:
    """Return what a log is counted by: bids, and prices if it reveals any."""
    return ["bids"] if logs.revealed == "none" else ["bids", "prices"]


def counted_rows(logs: BidLogs, days: Sequence[Any] | None, part: str) -> ir.Table:
    """Return the counted rows with the amount to bin; keys may be missing."""
    table = logs.rows
    if logs.kind == "histograms":
        conditions, amount = [table.bin_micros.between(1, MOST_MICROS)], table.bin_micros
    else:
        conditions = [table.bid_micros.between(1, MOST_MICROS), table.won.notnull()]
        amount = table.bid_micros
        if part == "prices":
            is_minimum = logs.revealed == "minimum"
            amount = table.min_to_win_micros if is_minimum else table.price_micros
            conditions += [amount.between(0, MOST_MICROS)] + [table.won] * (not is_minimum)
    if logs.weighted:
        conditions += [table.weight > 0, table.weight < np.inf]
    if days is not None:
        conditions += [table.day.isin(_dates(days))]
    return table.filter(conditions).mutate(amount=amount)


def count_cells(
    rows: ir.Table, logs: BidLogs, edges: NDArray[np.int64], part: str, by: str = "day"
) -> ir.Table:
    """Return the query of the sums over :func:`counted_rows` by advertiser, ``by`` and bin."""
    rows, bins = _bins(rows, edges)
    if logs.kind == "histograms":
        sums = _sums_of_histograms(rows, part)
    elif logs.weighted:
        sums = _weighted_sums(rows, part)
    else:
        sums = _whole_sums(rows, part)
    # floats are exact up to 2^53; engines differ in the type of integer sums
    as_floats = {name: total.cast("float64") for name, total in sums.items()}
    return rows.group_by("advertiser_id", by, bin=bins).agg(**as_floats)


def _sorted_cells(
    logs: BidLogs, days: Sequence[Any] | None, edges: NDArray[np.int64], part: str
) -> ir.Table:
    """Return the query of the cells by advertiser, day and bin, in this order."""
    # the engine can sort more than fits into memory, and it takes hardly longer
    return count_cells(counted_rows(logs, days, part), logs, edges, part).order_by(_KEYS)


def _warn_of_ragged_lines(logs: BidLogs) -> None:
    """Warn of lines that are left out; raise TableError if they hide other lines."""
    lines = logs.ragged_lines()
    for line in lines:
        if line.hides_others:
            raise TableError(
                f"{line.path}: line {line.number} has a quote that does not close, and everything "
                "after it may be lost; close the quote, or remove it"
            )
    if lines:
        from coterie.runtime.messages import warn_user  # imports scikit-learn

        warn_user(
            f"{logs.source}: lines with another number of fields than the header were left out: "
            f"{len(lines):,}, the first is line {lines[0].number} of {lines[0].path}; check_logs "
            "lists them",
            CoterieWarning,
        )


def _dates(days: Sequence[Any]) -> list[Any]:
    try:
        return np.asarray(days, dtype="datetime64[D]").astype(object).ravel().tolist()
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"days={days!r}: they must be dates such as 2026-03-02"
        ) from error


def _default_grid(logs: BidLogs, days: Sequence[Any] | None) -> NDArray[np.int64]:
    """Return the bins of the price grid from the smallest to the largest amount of a log."""
    log.info("Finding the range of amounts")
    amounts: list[int] = []
    for part in counted_parts(logs):
        rows = counted_rows(logs, days, part)
        # a price of 0 is counted in the first bin
        rows = rows.filter(rows.amount > 0)
        if logs.kind == "histograms":
            rows = rows.filter(rows[part] > 0)
        [ends] = fetch(rows.aggregate(least=rows.amount.min(), most=rows.amount.max())).to_pylist()
        if ends["least"] is not None:
            amounts += [ends["least"], ends["most"]]
    if not amounts:
        raise TableError(_nothing_usable(logs, days))
    return price_grid(min(amounts), max(amounts))


def _checked_edges(edges: ArrayLike) -> NDArray[np.int64]:
    grid = np.asarray(edges)
    is_whole = grid.ndim == 1 and grid.size and np.issubdtype(grid.dtype, np.integer)
    if not is_whole or grid[0] < 1 or grid[-1] > MOST_MICROS or np.any(np.diff(grid) <= 0):
        raise InvalidParameterError(
            "edges: they must be whole numbers of micros, above 0 and increasing"
        )
    return grid.astype(np.int64)


def _bins(rows: ir.Table, edges: NDArray[np.int64]) -> tuple[ir.Table, Any]:
    """Return the rows and the bin of each amount, equal to ``bid_histograms.bin_of``."""
    import ibis

    if not np.array_equal(amounts_of(codes_of(edges)), edges):
        numbers = [ibis.literal(g, "int64") for g in range(len(edges))]
        return rows, by_bisection(rows.amount, edges[:-1].tolist(), numbers.__getitem__)
    # every edge is the largest amount of a code, so all amounts of a code have one bin
    least, most = int(edges[0]), int(edges[-1])
    first, last = codes_of([least, most]).tolist()
    bins = bin_of(amounts_of(np.arange(first, last + 1)), edges)
    # one text literal, because plans with thousands of literals are slow
    table = ibis.literal(",".join(map(str, bins.tolist()))).split(",").cast("array<int16>")
    inside = ibis.least(ibis.greatest(rows.amount, least), most)
    place = code_column(inside, least, most) - first
    # a separate column, because Ibis writes an array index twice in SQL
    rows = rows.mutate(place=place.cast("int32"))
    return rows, table[rows.place]


def _has_paid(rows: ir.Table) -> Any:
    return rows.won & rows.price_micros.between(0, MOST_MICROS)


def _clicks_and_conversions(rows: ir.Table) -> dict[str, Any]:
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
        **{name: event.sum().fill_null(0) for name, event in _clicks_and_conversions(rows).items()},
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
        **{
            name: weight.sum(where=event).fill_null(0.0)
            for name, event in _clicks_and_conversions(rows).items()
        },
    }


def _sums_of_histograms(rows: ir.Table, part: str) -> dict[str, Any]:
    """Return sums of sums; missing sums of amounts are taken from the upper edges."""

    def total(name: str) -> Any:
        return rows[name].fill_null(0.0).sum()

    column, name = {"prices": ("price_micros", "price"), "bids": ("bid_micros", "bid")}[part]
    has_sums = column in rows.columns
    amount = total(column) if has_sums else (rows[part].fill_null(0.0) * rows.amount).sum()
    sums = {"count": total(part), name: amount}
    if part == "prices":
        return sums
    events = {name: total(name) for name in ("clicks", "conversions") if name in rows.columns}
    return {**sums, "wins": total("wins"), "cost": total("cost_micros"), **events}


def _nothing_usable(logs: BidLogs, days: Sequence[Any] | None) -> str:
    on_days = "" if days is None else " on the given days"
    return (
        f"{logs.source}: no row{on_days} has an advertiser, a day, a bid above 0 and a value of "
        "won; check_logs, or coterie ads check, shows why"
    )
