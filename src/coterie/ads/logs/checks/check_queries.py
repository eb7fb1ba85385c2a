"""Check queries: count the rows of a log, and those that break rules, in the engine that holds it.

One pass counts the bids of each day by amount, which gives the median bids. A second pass groups
rows into cells by advertiser, day and faults, and all counts are sums over these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.ads.logs.amount_codes import MOST_MICROS, by_bisection
from coterie.ads.logs.bid_logs import AUCTIONS, BidLogs, priced_wins
from coterie.ads.logs.checks.faults import FIRST_DAY, LAST_DAY, RowRule
from coterie.arrays import AnyArray, Bools, Floats, Ints
from coterie.tables.engines import fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: The largest number of examples of one fault.
EXAMPLES = 3
#: Median bids that differ by this factor are in different units; real markets differ by less.
UNIT_FACTOR = 300
#: The share of the bid from which on a price is close to it.
CLOSE = 0.9

#: Logarithm of the odds against chance from which on a common factor of bids is none.
_SURE = 18.0
_ENDS = ("lost_least", "lost_most", "won_least", "won_most")
_LARGEST = [10 ** (d + 2) - 1 for d in range(14)]  # the largest amount that drops d digits


@dataclass(frozen=True)
class RowCells:
    """Groups of rows with equal advertiser, day and faults; arrays of N cells."""

    advertisers: list[str]  # sorted
    advertiser: Ints  # index into advertisers, −1 if missing
    day: NDArray[np.datetime64]  # NaT if missing
    amount: Ints  # bin of ready-made histograms; 0 in other logs
    faults: Ints  # bit k is set if the rows break rule k
    auction_type: Ints  # 0 if the log has none
    currency: NDArray[np.str_]  # empty if the log has none
    rows: Ints
    with_bid: Ints  # rows with a usable bid
    bids: Floats  # as histograms count them, like wins and cost
    wins: Floats
    cost: Floats  # in micros
    low: Floats  # bids far below the median bid of the log, by UNIT_FACTOR
    high: Floats  # bids far above it
    # of rows that won with a known price; 0 in ready-made histograms, like what follows
    priced: Ints
    equal: Ints  # those whose price equals the bid
    close: Ints  # others whose price is at least CLOSE of the bid
    share: Floats  # Σ price / bid
    # the least and the largest bid that lost, and that won; 0 if there are none
    lost_least: Ints
    lost_most: Ints
    won_least: Ints
    won_most: Ints


def read_medians(
    rows: ir.Table, rules: Sequence[RowRule], logs: BidLogs, advertiser: str | None = None
) -> tuple[int, dict[str, int]]:
    """Return the median bid of the rows that histograms count, and that of each day.

    With ``advertiser`` they are of this one alone. See :func:`lower_median`.
    """
    left_out = [rule.broken.fill_null(False) for rule in rules if rule.leaves_out]
    counted = rows.filter(*(~broken for broken in left_out)) if left_out else rows
    if advertiser is not None:
        counted = counted.filter(counted.advertiser_id == advertiser)
    values = _values(counted, logs)
    marked = counted.select("day", amount=values["amount"], bids=values["bids"])
    cells = marked.group_by("day", "amount").agg(bids=marked.bids.sum().cast("float64"))
    found = fetch(cells.filter(cells.bids > 0).drop_null())
    day = found["day"].cast(pa.date32()).to_numpy()
    amount, bids = found["amount"].to_numpy().astype(np.int64), found["bids"].to_numpy()
    on_days = ((str(one), day == one) for one in np.unique(day))
    of_days = {name: lower_median(amount[used], bids[used]) for name, used in on_days}
    return lower_median(amount, bids), of_days


def lower_median(amount: Ints, bids: Floats) -> int:
    """Return the lower median of amounts, weighted by bids; 0 if there are none.

    Amounts are micros to two significant digits, or bins.
    """
    if not len(amount):
        return 0
    order = np.argsort(amount, kind="stable")
    upto = np.cumsum(bids[order])
    place = min(int(np.searchsorted(upto, upto[-1] / 2)), len(order) - 1)
    return int(amount[order[place]])


def read_cells(
    rows: ir.Table, rules: Sequence[RowRule], logs: BidLogs, median_bid: int = 0
) -> RowCells:
    """Return the cells of a log, from one pass of its engine."""
    import ibis

    zero = ibis.literal(0, type="int64")
    faults = zero
    for k, rule in enumerate(rules):
        faults += rule.broken.fill_null(False).ifelse(ibis.literal(1 << k, type="int64"), zero)
    keys = {"advertiser_id": rows.advertiser_id, "day": rows.day, "faults": faults}
    # unexpected values are merged, which bounds the number of cells
    if "auction_type" in rows.columns:
        known = rows.auction_type.isin(list(AUCTIONS)).fill_null(False)
        keys["auction_type"] = known.ifelse(rows.auction_type, 0)
    if "currency" in rows.columns:
        keys["currency"] = (rows.currency.length() <= 3).ifelse(rows.currency, "other")
    values = _values(rows, logs)
    amount, bids = values.pop("amount"), values["bids"]
    values["with_bid"] = (amount > 0).ifelse(1, 0)
    # amounts are whole; a product with one that is far too large would overflow
    values["low"] = (amount <= median_bid // UNIT_FACTOR).ifelse(bids, 0)
    values["high"] = (amount >= median_bid * UNIT_FACTOR).ifelse(bids, 0)
    if logs.kind == "histograms":
        keys["amount"] = amount
    if logs.kind == "bids":
        lost, won = (bids.ifelse(rows.bid_micros, None) for bids in (~rows.won, rows.won))
        values |= dict(zip(_ENDS, (lost, lost, won, won), strict=True))
    ends = dict(zip(_ENDS, ("min", "max") * 2, strict=True))
    marked = rows.select(**keys, **values)
    cells = marked.group_by(*keys).agg(
        rows=marked.count(),
        **{name: getattr(marked[name], ends.get(name, "sum"))() for name in values},
    )
    found = fetch(cells)
    n = found.num_rows
    names = found["advertiser_id"].unique().drop_null()
    names = names.take(pc.sort_indices(names))

    def column(name: str, dtype: Any) -> AnyArray:
        if name not in found.column_names:
            return np.zeros(n, dtype=dtype)
        return found[name].fill_null(0).to_numpy().astype(dtype)

    whole = ("amount", "faults", "auction_type", "rows", "with_bid", "priced", "equal", "close")
    sums = ("bids", "wins", "cost", "low", "high", "share")
    currencies = [""] * n
    if "currency" in found.column_names:
        currencies = found["currency"].fill_null("").to_pylist()
    return RowCells(
        advertisers=names.to_pylist(),
        advertiser=pc.index_in(found["advertiser_id"], names).fill_null(-1).to_numpy(),
        day=found["day"].cast(pa.date32()).to_numpy(),
        currency=np.array(currencies, dtype=str),
        **{name: column(name, np.int64) for name in (*whole, *_ENDS)},
        **{name: column(name, np.float64) for name in sums},
    )


def _values(rows: ir.Table, logs: BidLogs) -> dict[str, Any]:
    """Return the amount of each row, and what is summed."""
    import ibis

    if logs.kind == "histograms":
        sums = {"bids": rows.bids, "wins": rows.wins, "cost": rows.cost_micros}
        return {"amount": rows.bin_micros, **{k: v.fill_null(0.0) for k, v in sums.items()}}
    bid, price = rows.bid_micros, rows.price_micros
    # an integer literal, because Spark reads the constant column 1.0 as a decimal
    weight = rows.weight if logs.weighted else ibis.literal(1, type="int64")
    # a float sum cannot overflow, and whole numbers are exact up to 9·10^15
    cost = price.cast("float64") * weight
    return {
        "amount": bid.between(1, MOST_MICROS).ifelse(_two_digits(bid), ibis.null("int64")),
        "bids": weight,
        "wins": rows.won.ifelse(weight, 0),
        "cost": (rows.won & price.between(0, MOST_MICROS)).ifelse(cost, 0.0),
        **shares(rows),
    }


def shares(rows: ir.Table) -> dict[str, Any]:
    """Return what prices are as shares of bids, as in :class:`RowCells`."""
    priced, equal = priced_wins(rows)
    share = rows.price_micros.cast("float64") / rows.bid_micros
    close = priced & ~equal & share.between(CLOSE, 1)
    share = priced.ifelse(share, 0.0)
    return {"priced": priced, "equal": equal, "close": close, "share": share}


def _two_digits(amount: Any) -> Any:
    """Round an amount from 1 to 10^15 to two significant digits, in integer arithmetic."""

    def rounded(dropped: int) -> Any:
        step = 10**dropped
        above = amount + step // 2
        return above - above % step

    return by_bisection(amount, _LARGEST, rounded)


# ---- Sums over cells


@dataclass(frozen=True)
class LogSums:
    """Sums over the cells of a log by advertiser and by day."""

    cells: RowCells
    counts: Bools  # (N,), whether histograms count the rows of each cell
    median_bid: int  # in micros, to two significant digits; 0 if no row counts
    medians: Mapping[str, int]  # by day
    median_of: Callable[[str], int]  # of an advertiser

    @property
    def rows(self) -> int:
        """Number of all rows."""
        return int(self.cells.rows.sum())

    def total(self, name: str) -> float:
        """Return the sum of ``rows``, ``bids``, ``wins`` or ``cost`` over the counted rows."""
        return float(getattr(self.cells, name)[self.counts].sum())

    @cached_property
    def days(self) -> NDArray[np.datetime64]:
        """Sorted plausible days with counted rows."""
        day = self.cells.day[self.counts]
        return np.unique(day[(day >= np.datetime64(FIRST_DAY)) & (day <= np.datetime64(LAST_DAY))])

    @property
    def missing_days(self) -> NDArray[np.datetime64]:
        """Days without counted rows between the first and the last."""
        if not len(self.days):
            return self.days
        return np.setdiff1d(np.arange(self.days[0], self.days[-1]), self.days)

    def by_advertiser(self, name: str) -> Floats:
        """Return one sum over the counted rows of each advertiser, (A,)."""
        advertiser, n = self.cells.advertiser[self.counts], len(self.cells.advertisers)
        return sum_groups(advertiser, getattr(self.cells, name)[self.counts], n)

    def by_day(self, name: str) -> Floats:
        """Return one sum over the counted rows of each day, (D,)."""
        used = self.counts & np.isin(self.cells.day, self.days)
        day = np.searchsorted(self.days, self.cells.day[used])
        return sum_groups(day, getattr(self.cells, name)[used], len(self.days))

    def in_other_units(self) -> list[str]:
        """Return the advertisers whose median bid is far from that of the log, by UNIT_FACTOR.

        The lower median is at most x if half of the bids are, and at least y if more than half are.
        """
        total, low, high = (self.by_advertiser(name) for name in ("bids", "low", "high"))
        is_far = (total > 0) & ((2 * low >= total) | (2 * high > total))
        return [self.cells.advertisers[i] for i in np.flatnonzero(is_far)]

    def ends(self) -> list[Ints]:
        """Return the least and the largest bid of each advertiser that lost, and that won, (A,)."""
        found = []
        for name in _ENDS:
            bids = getattr(self.cells, name)
            used = self.counts & (bids > 0)
            end = np.full(len(self.cells.advertisers), MOST_MICROS if "least" in name else 0)
            join = np.minimum if "least" in name else np.maximum
            join.at(end, self.cells.advertiser[used], bids[used])
            found.append(end)
        return found

    def in_multiples(self) -> list[str]:
        """Return advertisers whose bids all have a factor that those of most do not have.

        Amounts that were converted from another currency have. The factors 2 and 5 are those of
        round amounts. By chance, n further bids have a factor f with the probability f^−n.
        """
        bids = np.concatenate([getattr(self.cells, name)[self.counts] for name in _ENDS])
        who = np.tile(self.cells.advertiser[self.counts], len(_ENDS))
        who, bids = np.unique(np.stack([who, bids])[:, bids > 0], axis=1)
        if not len(who):
            return []
        starts = np.flatnonzero(np.diff(who, prepend=-1))
        factor = np.gcd.reduceat(bids, starts)
        for round_one in (2, 5):
            while (divides := factor % round_one == 0).any():
                factor[divides] //= round_one
        further = np.diff(starts, append=len(who)) - 1
        odd = who[starts[further * np.log(factor) > _SURE]]
        return [self.cells.advertisers[i] for i in odd] if 2 * len(odd) < len(starts) else []


def sum_groups(group: Ints, values: AnyArray, n: int) -> Floats:
    """Return the sum of the values of each of n groups."""
    return np.asarray(np.bincount(group, values, n), dtype=np.float64)
