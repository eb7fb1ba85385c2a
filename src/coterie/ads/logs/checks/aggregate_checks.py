"""Aggregate checks: faults of a log as a whole, found on sums over its cells.

Examples are mixed currencies, bids in other units, missing days and advertisers without a text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.ads.logs.bid_logs import MANY_WINS, BidLogs, winners_pay_bids
from coterie.ads.logs.checks.check_queries import EXAMPLES, UNIT_FACTOR, AmountCells, RowCells
from coterie.ads.logs.checks.check_rules import FIRST_DAY, LAST_DAY
from coterie.ads.logs.checks.faults import Fault, fault_of
from coterie.ads.logs.log_columns import MISSING_TEXTS
from coterie.errors import TableError

#: Currencies of small units, whose amounts are whole numbers and often above 1000.
WHOLE_CURRENCIES = frozenset(
    {"CLP", "COP", "CRC", "HUF", "IDR", "IQD", "IRR", "ISK", "JPY", "KRW", "LAK", "LBP", "MMK"}
    | {"MNT", "NGN", "PYG", "RWF", "TZS", "UGX", "UZS", "VND", "XAF", "XOF"}
)
#: Median bids in micros per thousand impressions; others suggest another unit.
_LEAST_MEDIAN, _MOST_MEDIAN, _MOST_WHOLE = 10**4, 10**9, 10**11
#: An average price below this share of the median bid suggests another unit.
_LEAST_PRICE = 1 / 50
#: A day with no win is a fault if this many are expected.
_FEWEST_WINS = 20
_FEWEST_BIDS = 10
#: Fewer bids may all win by chance.
_FEWEST_WITHOUT_LOSS = 50
_THIN_DAY = 1 / 3


@dataclass(frozen=True)
class LogSums:
    """Sums over the cells of a log by advertiser and by day."""

    cells: RowCells
    counts: NDArray[np.bool_]  # (N,), whether histograms count the rows of each cell
    amounts: AmountCells
    median_of: Callable[[str], int]  # the median bid of an advertiser, as in median_bid

    @property
    def rows(self) -> int:
        """Number of all rows."""
        return int(self.cells.rows.sum())

    def total(self, name: str) -> float:
        """Return the sum of ``rows``, ``bids``, ``wins`` or ``cost`` over the counted rows."""
        return float(getattr(self.cells, name)[self.counts].sum())

    @cached_property
    def median_bid(self) -> int:
        """Median bid in micros, to two significant digits; 0 if no row counts."""
        return median_amount(self.amounts)

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

    def by_advertiser(self, name: str) -> NDArray[np.float64]:
        """Return one sum over the counted rows of each advertiser, (A,)."""
        advertiser, n = self.cells.advertiser[self.counts], len(self.cells.advertisers)
        return _sums(advertiser, getattr(self.cells, name)[self.counts], n)

    def by_day(self, name: str) -> NDArray[np.float64]:
        """Return one sum over the counted rows of each day, (D,)."""
        day = self._day_index()
        return _sums(day[day >= 0], getattr(self.cells, name)[day >= 0], len(self.days))

    def in_other_units(self) -> list[str]:
        """Return the advertisers whose median bid is far from that of the log, by UNIT_FACTOR.

        The lower median is at most x if half of the bids are, and at least y if more than half are.
        """
        total, low, high = (self.by_advertiser(name) for name in ("bids", "low", "high"))
        is_far = (total > 0) & ((2 * low >= total) | (2 * high > total))
        return [self.cells.advertisers[i] for i in np.flatnonzero(is_far)]

    def medians_by_day(self) -> NDArray[np.int64]:
        """Return the median bid of each day in micros, (D,)."""
        medians = [median_amount(self.amounts.of_day(day)) for day in self.days]
        return np.array(medians, dtype=np.int64)

    def _day_index(self) -> NDArray[np.int64]:
        """Return the index into ``days`` of each cell, −1 if its rows or its day do not count."""
        is_counted = self.counts & np.isin(self.cells.day, self.days)
        return np.where(is_counted, np.searchsorted(self.days, self.cells.day), -1)


def median_amount(cells: AmountCells) -> int:
    """Return the lower median amount, weighted by bids; 0 if there are none."""
    if not len(cells.amount):
        return 0
    order = np.argsort(cells.amount, kind="stable")
    upto = np.cumsum(cells.bids[order])
    place = min(int(np.searchsorted(upto, upto[-1] / 2)), len(order) - 1)
    return int(cells.amount[order[place]])


def aggregate_faults(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    """Yield the faults of a whole log, which has at least one row."""
    yield from _mixtures(sums, logs)
    yield from _recognition(sums, logs)
    yield from _units(sums, logs)
    yield from _days(sums)
    yield from _outcomes(sums, logs)
    yield from _advertisers(sums)
    if logs.kind == "histograms":
        yield from _repeated_cells(sums)


def text_faults(sums: LogSums, texts: Mapping[str, str], has_table: bool) -> Iterator[Fault]:
    """Yield the faults of the texts, given by advertiser."""
    advertisers = sums.cells.advertisers
    if not has_table:
        yield fault_of("no_texts", len(advertisers), len(advertisers))
        return
    without = [name for name in advertisers if not texts.get(name, "").strip()]
    unknown = set(texts).difference(advertisers)
    damaged = [name for name, text in texts.items() if "\ufffd" in text]
    yield from _named("advertisers_without_text", without, len(advertisers))
    yield from _named("texts_without_bids", unknown, len(texts))
    yield from _named("texts_damaged", damaged, len(texts))


def _mixtures(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    cells = sums.cells
    rows_of = _rows_by_value(cells.currency, cells.currency != "", cells)
    if len(rows_of) > 1:
        most, *others = rows_of
        examples = [{"currency": name, "rows": n} for name, n in rows_of.items()][:EXAMPLES]
        count = sum(rows_of[name] for name in others)
        yield fault_of("currencies_mixed", count, sums.rows, examples, currency=most)
    rows_of = _rows_by_value(cells.auction_type, cells.auction_type > 0, cells)
    if len(rows_of) > 1 and logs.given_auction is None:
        examples = [{"auction_type": name, "rows": n} for name, n in rows_of.items()]
        yield fault_of("auctions_mixed", min(rows_of.values()), sums.rows, examples)
    is_blank = [name.strip().lower() in MISSING_TEXTS for name in cells.advertisers]
    blank = np.flatnonzero(is_blank)
    if len(blank):
        count = int(cells.rows[np.isin(cells.advertiser, blank)].sum())
        examples = [{"advertiser_id": cells.advertisers[i]} for i in blank[:EXAMPLES]]
        yield fault_of("advertiser_blank", count, sums.rows, examples)


def _recognition(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    """Yield the fault of an auction type that was recognised, or that prices contradict."""
    priced, equal = int(sums.cells.priced.sum()), int(sums.cells.equal.sum())
    if not winners_pay_bids(priced, equal):
        return
    try:
        auction, source = logs.auction, logs.auction_source
    except TableError:  # mixed or unknown types, which are faults already
        return
    # rounded down, because 100% means all
    share, wins = f"{1000 * equal // priced / 10:g}%", f"{priced:,}"
    if source == "prices":
        yield fault_of("auction_recognised", equal, sums.rows, share=share, wins=wins)
    elif auction == "second" and priced >= MANY_WINS:
        yield fault_of("prices_equal_bids", equal, sums.rows, share=share, wins=wins)


def _units(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    if not sums.median_bid:
        return
    medians = sums.medians_by_day()
    ratio = medians / sums.median_bid
    far = (medians > 0) & ((ratio >= UNIT_FACTOR) | (ratio * UNIT_FACTOR <= 1))
    names = sums.in_other_units()
    # only the medians of advertisers in examples are read
    of_names = {name: sums.median_of(name) for name in names[:EXAMPLES]}
    of_days = dict(zip(sums.days[far].astype(str).tolist(), medians[far].tolist(), strict=True))
    for code, column, count, total, median_of in (
        ("units_mixed", "advertiser_id", len(names), len(sums.cells.advertisers), of_names),
        ("units_change", "day", len(of_days), len(sums.days), of_days),
    ):
        if count:
            of_all = {"median_bid_micros_of_all": sums.median_bid}
            examples = [
                {column: name, "median_bid_micros": median, **of_all}
                for name, median in [*median_of.items()][:EXAMPLES]
            ]
            yield fault_of(code, count, total, examples, factor=str(UNIT_FACTOR))
    rows, median = int(sums.total("rows")), f"{sums.median_bid / 1e6:g}"
    is_small = bool(np.isin(sums.cells.currency, list(WHOLE_CURRENCIES)).any())
    if not _LEAST_MEDIAN <= sums.median_bid <= (_MOST_WHOLE if is_small else _MOST_MEDIAN):
        yield fault_of("bids_implausible", rows, sums.rows, median=median)
    cost, wins = sums.total("cost"), sums.total("wins")
    if logs.kind == "bids" and 0 < cost < _LEAST_PRICE * wins * sums.median_bid:
        price = f"{cost / wins / 1e6:.3g}"
        yield fault_of("prices_implausible", rows, sums.rows, price=price, bid=median)


def _days(sums: LogSums) -> Iterator[Fault]:
    days, missing, rows = sums.days, sums.missing_days, sums.by_day("rows")
    if len(days) == 1:
        yield fault_of("one_day", 1, 1, [{"day": str(days[0])}])
    if len(missing):
        absent = [{"day": str(day)} for day in missing[:EXAMPLES]]
        yield fault_of("days_missing", len(missing), len(days) + len(missing), absent)
    # the median of two days is not typical of either
    thin = np.flatnonzero(rows < _THIN_DAY * np.median(rows)) if len(days) > 2 else ()
    if len(thin):
        examples = [{"day": str(days[i]), "rows": int(rows[i])} for i in thin[:EXAMPLES]]
        yield fault_of("days_thin", len(thin), len(days), examples)


def _outcomes(sums: LogSums, logs: BidLogs) -> Iterator[Fault]:
    """Yield the faults of a log without wins, or without the losses of some advertisers.

    A log with the minimum to win is not censored: its curves need no losses.
    """
    rows, bids, wins = int(sums.total("rows")), sums.total("bids"), sums.total("wins")
    # weights are not evidence, so rows are counted; a row of histograms has many bids
    seen = "bids" if logs.kind == "histograms" else "rows"
    if rows and wins <= 0:
        yield fault_of("no_wins", rows, sums.rows)
    elif rows and math.isclose(wins, bids):
        is_long = sums.total(seen) >= _FEWEST_WITHOUT_LOSS and not logs.logs_minimum
        yield fault_of("no_losses_at_all" if is_long else "all_wins", rows, sums.rows)
    else:
        yield from _without_loss(sums, sums.by_advertiser(seen), logs)
    seen_by_day, wins_by_day = sums.by_day(seen), sums.by_day("wins")
    expected = seen_by_day * (wins / bids if bids > 0 else 0.0)
    lost = np.flatnonzero((wins_by_day <= 0) & (expected >= _FEWEST_WINS))
    if len(lost):
        examples = [{"day": str(sums.days[i]), "rows": int(seen_by_day[i])} for i in lost]
        yield fault_of("days_without_win", len(lost), len(sums.days), examples[:EXAMPLES])


def _without_loss(sums: LogSums, seen: NDArray[np.float64], logs: BidLogs) -> Iterator[Fault]:
    """Yield the fault of advertisers without a loss; ``seen``, (A,), are their bids."""
    names = sums.cells.advertisers
    bids, wins = sums.by_advertiser("bids"), sums.by_advertiser("wins")
    winners = np.flatnonzero((seen >= _FEWEST_WITHOUT_LOSS) & np.isclose(wins, bids, rtol=1e-9))
    if len(winners) and not logs.logs_minimum:
        # those with the most bids first
        largest = winners[np.argsort(-bids[winners], kind="stable")][:EXAMPLES]
        examples = [{"advertiser_id": names[i], "bids": round(bids[i])} for i in largest]
        fewest = str(_FEWEST_WITHOUT_LOSS)
        yield fault_of("no_losses", len(winners), len(names), examples, fewest=fewest)


def _advertisers(sums: LogSums) -> Iterator[Fault]:
    names = sums.cells.advertisers
    bids, wins = sums.by_advertiser("bids"), sums.by_advertiser("wins")
    active = bids > 0
    if len(names) == 1:
        yield fault_of("one_advertiser", 1, 1, [{"advertiser_id": names[0]}])
    if wins.sum() > 0:
        never = [names[i] for i in np.flatnonzero(active & (wins <= 0))]
        yield from _named("never_won", never, len(names))
    few = [names[i] for i in np.flatnonzero(active & (bids < _FEWEST_BIDS))]
    yield from _named("few_bids", few, len(names), fewest=str(_FEWEST_BIDS))


def _repeated_cells(sums: LogSums) -> Iterator[Fault]:
    """Yield the fault of rows of one advertiser, day and bin, if any.

    Such rows may be in different cells, because cells also differ in faults.
    """
    cells = sums.cells
    keys = np.stack([cells.advertiser, cells.day.astype(np.int64), cells.amount], axis=1)
    distinct, which = np.unique(keys[sums.counts], axis=0, return_inverse=True)
    rows = _sums(which.ravel(), cells.rows[sums.counts], len(distinct))
    repeated = np.flatnonzero(rows > 1)
    if len(repeated):
        examples = [
            {
                "advertiser_id": cells.advertisers[advertiser],
                "day": str(np.datetime64(int(day), "D")),
                "bin_micros": int(amount),
            }
            for advertiser, day, amount in distinct[repeated[:EXAMPLES]]
        ]
        copies = int(rows[repeated].sum()) - len(repeated)
        yield fault_of("duplicate_cells", copies, sums.rows, examples)


def _sums(group: NDArray[np.int64], values: NDArray[Any], n: int) -> NDArray[np.float64]:
    return np.asarray(np.bincount(group, values, n), dtype=np.float64)


def _named(code: str, names: Iterable[str], total: int, **words: str) -> Iterator[Fault]:
    """Yield the fault of the advertisers of these names, if there are any."""
    found = sorted(names)
    if found:
        examples = [{"advertiser_id": name} for name in found[:EXAMPLES]]
        yield fault_of(code, len(found), total, examples, **words)


def _rows_by_value(
    values: NDArray[Any], known: NDArray[np.bool_], cells: RowCells
) -> dict[Any, int]:
    """Return the number of rows with each known value, the most common first."""
    distinct, which = np.unique(values[known], return_inverse=True)
    n = _sums(which, cells.rows[known], len(distinct))
    return {distinct[i].item(): int(n[i]) for i in np.argsort(-n, kind="stable")}
