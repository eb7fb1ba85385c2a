"""Counting: let the engine that holds a log count its histograms, and put its cells together.

Every engine gives exactly the same cells, because edges, bins and sums of amounts are integers and
do not depend on the order of rows. Weighted sums are floats and agree up to rounding. The engine
sorts the cells, so that a batch has long runs of one advertiser, and only the name of each run is
looked at. Every batch is stored in the types of :mod:`~coterie.ads.histograms.bid_histograms`,
without a second copy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from coterie.ads.histograms.bid_histograms import (
    COUNTS,
    BidCells,
    BidHistograms,
    PriceCells,
    bin_of,
    columns_of,
    index_type,
    keys_in_order,
    looked_up,
    narrow_counts,
    refuse_many_days,
    with_columns,
)
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.histograms.target_counts import (
    BINS_TOGETHER,
    MOST_VALUES,
    NO_VALUE,
    OTHER_VALUES,
    TargetCounts,
    sum_cells,
)
from coterie.ads.logs.amount_codes import (
    MOST_MICROS,
    amounts_of,
    by_bisection,
    code_column,
    codes_of,
)
from coterie.ads.logs.bid_logs import BidLogs
from coterie.arrays import AnyArray, Ints
from coterie.errors import CoterieWarning, InvalidParameterError, TableError
from coterie.tables.engines import batches, fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir

Batches = Iterable[pa.RecordBatch]

log = logging.getLogger("coterie")

#: Cells of a batch that the engine returns, and of a block whose order is checked.
_BATCH, _BLOCK = 500_000, 2_000_000
_LONGEST_NAME = 1000
#: A value that fewer advertisers have is not kept: it may name a person.
_FEWEST_ADVERTISERS = 3
_LONGEST_VALUE = 200
#: Names of the sums of count_cells in target cells, by part of a log.
_TARGET_SUMS = {
    "bids": {
        **{"count": "bids", "square": "squares"},
        **{name: name for name in ("bid", "wins", "cost", "clicks", "conversions")},
    },
    "prices": {"count": "prices"},
}


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
    cells = {}
    for part in counted_parts(logs):
        counted = count_cells(counted_rows(logs, days, part), logs, grid, part)
        # the engine can sort more than fits into memory, and it takes hardly longer
        cells[part] = batches(counted.order_by("advertiser_id", "day", "bin"), _BATCH)
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
    conditions, amount = _conditions(logs, days, part)
    return logs.rows.filter(conditions).mutate(amount=amount)


def _conditions(logs: BidLogs, days: Sequence[Any] | None, part: str) -> tuple[list[Any], Any]:
    """Return the conditions of the counted rows, and the amount to bin."""
    table = logs.rows
    if logs.kind == "histograms":
        amount = table.bin_micros
        conditions = [amount.between(1, MOST_MICROS)]
    else:
        amount = table.bid_micros
        conditions = [amount.between(1, MOST_MICROS), table.won.notnull()]
        if part == "prices":
            is_minimum = logs.revealed == "minimum"
            amount = table.min_to_win_micros if is_minimum else table.price_micros
            conditions += [amount.between(0, MOST_MICROS)] + [table.won] * (not is_minimum)
    if logs.weighted:
        conditions += [table.weight > 0, table.weight < np.inf]
    if days is not None:
        try:
            dates = np.asarray(days, dtype="datetime64[D]").astype(object).ravel().tolist()
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(
                f"days={days!r}: they must be dates such as 2026-03-02"
            ) from error
        conditions.append(table.day.isin(dates))
    return conditions, amount


def count_cells(rows: ir.Table, logs: BidLogs, edges: Ints, part: str, by: str = "day") -> ir.Table:
    """Return the query of the sums over :func:`counted_rows` by advertiser, ``by`` and bin."""
    rows, bins = _bins(rows, edges)
    if logs.kind == "histograms":
        sums = _sums_of_histograms(rows, part)
    else:
        sums = _sums_of_bids(rows, part, logs.weighted)
    # floats are exact up to 2^53; engines differ in the type of integer sums
    as_floats = {name: total.cast("float64").fill_null(0.0) for name, total in sums.items()}
    return rows.group_by("advertiser_id", by, bin=bins).agg(**as_floats)


def _sums_of_bids(rows: ir.Table, part: str, weighted: bool) -> dict[str, Any]:
    def total(value: Any = None, where: Any = None) -> Any:
        """Return the sum of a value, or the number of rows, each by its weight."""
        if weighted:
            value = rows.weight if value is None else rows.weight * value
        elif value is None:
            return rows.count(where=where)
        return value.sum(where=where)

    if part == "prices":
        return {"count": total(), "price": total(rows.amount)}
    has_paid = rows.won & rows.price_micros.between(0, MOST_MICROS)
    events = {"clicks": "click", "conversions": "conversion"}
    return {
        "count": total(),
        # without weights, w² is w
        **({"square": total(rows.weight)} if weighted else {}),
        "bid": total(rows.amount),
        "wins": total(where=rows.won),
        "cost": total(rows.price_micros, has_paid),
        **{
            name: total(where=rows.won & rows[column])
            for name, column in events.items()
            if column in rows.columns
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
    if part == "bids":
        sums |= {"wins": total("wins"), "cost": total("cost_micros")}
        sums |= {name: total(name) for name in ("clicks", "conversions") if name in rows.columns}
    return sums


def _bins(rows: ir.Table, edges: Ints) -> tuple[ir.Table, Any]:
    """Return the rows and the bin of each amount, equal to ``bin_of``."""
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


def _default_grid(logs: BidLogs, days: Sequence[Any] | None) -> Ints:
    """Return the bins of the price grid from the smallest to the largest amount of a log."""
    log.info("Finding the range of amounts")
    ends: dict[str, Any] = {}
    for part in counted_parts(logs):
        conditions, amount = _conditions(logs, days, part)
        # a price of 0 is counted in the first bin
        conditions.append(amount > 0)
        if logs.kind == "histograms":
            conditions.append(logs.rows[part] > 0)
        where = ibis.and_(*conditions)
        ends |= {f"least_{part}": amount.min(where=where), f"most_{part}": amount.max(where=where)}
    found = fetch(logs.rows.aggregate(**ends)).to_pylist()[0]
    amounts = [amount for amount in found.values() if amount is not None]
    if not amounts:
        raise TableError(_nothing_usable(logs, days))
    return price_grid(min(amounts), max(amounts))


def _checked_edges(edges: ArrayLike) -> Ints:
    grid = np.asarray(edges)
    is_whole = grid.ndim == 1 and grid.size and np.issubdtype(grid.dtype, np.integer)
    if not is_whole or grid[0] < 1 or grid[-1] > MOST_MICROS or np.any(np.diff(grid) <= 0):
        raise InvalidParameterError(
            "edges: they must be whole numbers of micros, above 0 and increasing"
        )
    return grid.astype(np.int64)


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


def _nothing_usable(logs: BidLogs, days: Sequence[Any] | None) -> str:
    on_days = "" if days is None else " on the given days"
    return (
        f"{logs.source}: no row{on_days} has an advertiser, a day, a bid above 0 and a value of "
        "won; check_logs, or coterie ads check, shows why"
    )


# ---- Counts by the values of dimensions


def read_targets(
    logs: BidLogs, histograms: BidHistograms, days: Sequence[Any] | None = None
) -> TargetCounts:
    """Count a log by the values of its dimensions, in its engine.

    Each dimension keeps its 200 most frequent values. Others, and those of fewer than three
    advertisers, are counted as ``(other)``; missing ones as ``(none)``.

    Parameters
    ----------
    logs : BidLogs
        Opened with ``dimensions``.
    histograms : BidHistograms
        Of the same log; only its advertisers are counted.
    days : sequence of dates, optional
        The days to read; by default all.

    Examples
    --------
    >>> import ibis, pyarrow as pa
    >>> from coterie.ads.logs.bid_logs import open_logs
    >>> rows = pa.table({"advertiser_id": ["a", "a", "b"], "day": ["2026-03-02"] * 3,
    ...                  "bid_micros": [2_000_000] * 3, "won": [True, False, False],
    ...                  "price_micros": [1_900_000, None, None], "device": ["tv", None, "tv"]})
    >>> logs = open_logs(ibis.memtable(rows), dimensions=["device"])
    >>> found = read_targets(logs, read_histograms(logs))
    >>> found.values.tolist(), found.totals("bids").tolist(), found.totals("wins").tolist()
    (['(none)', 'tv'], [[1.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]])
    """
    if not logs.dimensions:
        raise InvalidParameterError(
            f"{logs.source}: no dimension is named; open the log with dimensions, such as device"
        )
    edges = price_grid(histograms.edges[0], histograms.edges[-1], BINS_TOGETHER)
    names = histograms.advertisers
    known = pa.array(names.tolist(), pa.string())
    values: list[str] = []
    dimension_of: list[int] = []
    columns: list[dict[str, Any]] = []
    for number, dimension in enumerate(logs.dimensions):
        log.info("Counting bids by %s", dimension)
        rows_of = {part: counted_rows(logs, days, part) for part in counted_parts(logs)}
        bids, value = rows_of["bids"], rows_of["bids"][f"dimension_{dimension}"]
        bids = bids.mutate(value=value).filter((value != "") & (value.length() <= _LONGEST_VALUE))
        n = bids.bids.sum() if logs.kind == "histograms" else bids.count()
        by_value = bids.group_by("value").agg(
            number=n.cast("float64"), advertisers=bids.advertiser_id.nunique()
        )
        by_value = by_value.filter(by_value.advertisers >= min(_FEWEST_ADVERTISERS, len(names)))
        by_value = by_value.order_by([by_value.number.desc(), by_value.value])
        kept = fetch(by_value.limit(MOST_VALUES))["value"].to_pylist()
        parts = {}
        for part, rows in rows_of.items():
            value = rows[f"dimension_{dimension}"]
            stored = ibis.cases(
                (value.isnull() | (value == ""), NO_VALUE),
                (value.isin(kept) if kept else ibis.literal(False), value),
                else_=OTHER_VALUES,
            )
            valued = rows.filter(rows.day.notnull(), rows.advertiser_id != "").mutate(value=stored)
            parts[part] = fetch(count_cells(valued, logs, edges, part, "value"))
        found = sorted(set(parts["bids"]["value"].unique().to_pylist()))
        for part, cells in parts.items():
            row = pc.index_in(cells["advertiser_id"], known)
            cells = cells.filter(row.is_valid())  # noqa: PLW2901
            place = pc.index_in(cells["value"], pa.array(found, pa.string()))
            sums = {
                target: cells[name].to_numpy()
                for name, target in _TARGET_SUMS[part].items()
                if name in cells.column_names
            }
            if part == "bids":
                sums.setdefault("squares", sums["bids"])
            columns.append(
                {
                    "advertiser": row.drop_null().to_numpy().astype(np.int64),
                    "value": len(values) + place.to_numpy().astype(np.int64),
                    "bin": cells["bin"].to_numpy().astype(np.int64),
                    **sums,
                }
            )
        values += found
        dimension_of += [number] * len(found)
    joined = {
        name: np.concatenate([one.get(name, np.zeros(len(one["bin"]))) for one in columns])
        for name in {name for one in columns for name in one}
    }
    return TargetCounts(
        names,
        edges,
        list(logs.dimensions),
        np.array(values, dtype=str),
        np.array(dimension_of, dtype=np.int64),
        sum_cells(joined, (len(names), len(values), len(edges))),
        histograms.revealed,
    )


# ---- Cells from batches


def gather_cells(
    bids: Batches, prices: Batches, n_bins: int, source: str
) -> tuple[NDArray[np.str_], NDArray[np.datetime64], BidCells, PriceCells]:
    """Index advertisers and days, and sort the cells by advertiser, day and bin.

    ``bids`` and ``prices`` have the columns ``advertiser_id``, ``day``, ``bin`` and the sums of the
    cells. They may be in any order; cells in the order of the result need the least memory. A
    missing sum is 0, and a missing Σ w² is Σ w. Rows without an advertiser or a day do not count.
    The advertisers and days of prices must be among those of bids.
    """
    names: dict[str, int] = {}  # numbers of names and of days, in the order of appearance
    days: dict[int, int] = {}
    columns = {
        BidCells: _columns(bids, BidCells, names, days, n_bins),
        PriceCells: _columns(prices, PriceCells, names, days, n_bins),
    }
    refuse_many_days(len(days), source)
    longest = max(map(len, names), default=0)
    if longest > _LONGEST_NAME:
        raise TableError(
            f"{source}: an advertiser_id has {longest} characters; the limit is {_LONGEST_NAME}"
        )
    advertisers = np.array(list(names), dtype=str)
    dates = np.array(list(days), dtype="datetime64[D]")
    orders = {"advertiser": np.argsort(advertisers), "day": np.argsort(dates)}
    shape = len(advertisers), len(dates), n_bins

    def cells_of(kind: Any) -> Any:
        of_kind = columns[kind]
        for key, order in orders.items():
            rank = np.empty(len(order), dtype=of_kind[key].dtype)
            rank[order] = np.arange(len(order))
            if np.any(np.diff(order) != 1):
                of_kind[key] = looked_up(rank, of_kind[key])
        cells = kind(**of_kind)
        if _is_sorted(cells, shape):  # then nothing is copied
            return cells
        order = np.argsort(keys_in_order(cells, shape))
        return with_columns(cells, lambda values: values[order])

    return (
        advertisers[orders["advertiser"]],
        dates[orders["day"]],
        cells_of(BidCells),
        cells_of(PriceCells),
    )


class _Column:
    """An array that grows at its end; what is not yet used takes no memory.

    Pieces that are joined at the end would take as much again, because the allocator keeps small
    arrays that are freed.
    """

    def __init__(self, kind: Any) -> None:
        self._held, self._n = np.empty(0, dtype=kind), 0

    def append(self, values: AnyArray) -> None:
        end = self._n + len(values)
        kind = np.promote_types(self._held.dtype, values.dtype)
        if end > len(self._held) or kind != self._held.dtype:
            grown = np.empty(max(end, 3 * len(self._held) // 2), dtype=kind)
            grown[: self._n] = self._held[: self._n]
            self._held = grown
        self._held[self._n : end] = values
        self._n = end

    def array(self, n: int) -> AnyArray:
        """Return the array; zeros if nothing was appended."""
        return self._held[:n] if self._n else np.zeros(n, dtype=self._held.dtype)


def _columns(
    batches: Batches, kind: type[Any], names: dict[str, int], days: dict[int, int], n_bins: int
) -> dict[str, AnyArray]:
    """Return the columns of the cells, with numbers of names and days in order of appearance."""
    sums = columns_of(kind)
    types: dict[str, Any] = {"advertiser": np.int32, "day": np.int16, "bin": index_type(n_bins)}
    types |= {name: np.int32 if name in COUNTS else np.float64 for name in sums}
    columns = {name: _Column(dtype) for name, dtype in types.items()}
    n, is_weighted = 0, False
    for batch in batches:
        has_both = pc.and_(pc.not_equal(batch["advertiser_id"], ""), pc.is_valid(batch["day"]))
        # usually all have an advertiser and a day, and filtering would copy them
        all_have = pc.all(has_both, skip_nulls=False, min_count=0).as_py()
        rows = batch if all_have else batch.filter(has_both)
        if not len(rows):
            continue
        n += len(rows)
        runs = pc.run_end_encode(rows["advertiser_id"], run_end_type=pa.int64())
        numbers = [names.setdefault(name, len(names)) for name in runs.values.to_pylist()]
        lengths = np.diff(runs.run_ends.to_numpy(), prepend=0)
        columns["advertiser"].append(np.repeat(np.array(numbers, dtype=np.int32), lengths))
        since = rows["day"].cast(pa.date32()).cast(pa.int32()).to_numpy().astype(np.int64)
        first = int(since.min())
        since -= first
        met = np.flatnonzero(np.bincount(since))
        numbers = [days.setdefault(day, len(days)) for day in (met + first).tolist()]
        number = np.empty(int(met[-1]) + 1, dtype=index_type(len(days)))
        number[met] = numbers
        columns["day"].append(number[since])
        columns["bin"].append(rows["bin"].to_numpy().astype(types["bin"], copy=False))
        for name in sums:
            if name in rows.schema.names:
                values = rows[name].to_numpy(zero_copy_only=False)
                columns[name].append(narrow_counts(values) if name in COUNTS else values)
                is_weighted |= name == "square"
    arrays = {name: column.array(n) for name, column in columns.items()}
    if "square" in arrays and not is_weighted:
        arrays["square"] = arrays["count"]
    return arrays


def _is_sorted(cells: Any, shape: tuple[int, int, int]) -> bool:
    for start in range(0, len(cells.bin), _BLOCK):
        # with the first cell of the next block
        part = slice(start, start + _BLOCK + 1)
        columns = {name: values[part] for name, values in vars(cells).items()}
        key = keys_in_order(type(cells)(**columns), shape)
        if not np.all(key[1:] > key[:-1]):
            return False
    return True
