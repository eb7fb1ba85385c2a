"""Reading checks: faults that show that a log was mapped, split or joined wrongly.

Examples are lines with too few fields, amounts in cents with decimals, and notices of other bids.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from coterie.ads.logs.amount_units import WHOLE_CURRENCIES, is_whole_unit
from coterie.ads.logs.bid_logs import BidLogs
from coterie.ads.logs.checks.check_queries import EXAMPLES, raw_table
from coterie.ads.logs.checks.faults import Fault, fault_of
from coterie.ads.logs.mapped_columns import numbers_in_sample, sample_values
from coterie.ads.logs.notice_joins import JoinedBids
from coterie.tables.engines import fetch

__all__ = ["reading_faults"]

#: Fewer amounts may all be whole by chance.
_FEWEST_AMOUNTS = 20


def reading_faults(logs: BidLogs, rows: int, currency: str) -> Iterator[Fault]:
    """Yield the faults of reading a log; its ``rows`` have been read at least once."""
    lines = logs.ragged_lines()
    for code, hides_others in (("quote_open", True), ("line_ragged", False)):
        found = [line for line in lines if line.hides_others == hides_others]
        if found:
            examples = [
                {"file": line.path, "line": line.number, "fault": line.fault}
                for line in found[:EXAMPLES]
            ]
            yield fault_of(code, len(found), rows + len(lines), examples)
    yield from _decimals(logs, currency)
    if logs.notices is not None:
        yield from _notices(logs.notices)


def _notices(notices: JoinedBids) -> Iterator[Fault]:
    """Yield the faults of the join of bids and notices."""
    unknown, wins = (_number(table.count()) for table in (notices.unknown_wins, notices.wins))
    if unknown:
        yield fault_of("notices_without_bid", unknown, wins)
    counted = notices.bids
    repeated = counted.filter(counted.n > 1)
    more = _number((repeated.n - 1).sum())
    if more:
        few = fetch(repeated.order_by(repeated.n.desc(), repeated.key).limit(EXAMPLES))
        examples = [{notices.key: row["key"], "bids": row["n"]} for row in few.to_pylist()]
        total = _number(counted.n.sum())
        yield fault_of("bid_ids_repeated", more, total, examples, column=notices.key)


def _number(value: Any) -> int:
    return int(fetch(value.as_table())[0][0].as_py() or 0)


def _decimals(logs: BidLogs, currency: str) -> Iterator[Fault]:
    """Yield the faults of amounts whose decimals contradict the unit they were read in."""
    units = {logs.reading.column(name): unit for name, unit in logs.reading.units.items()}
    if not units:
        return
    values = sample_values(raw_table(logs), list(units))
    found: dict[str, list[dict[str, object]]] = {}
    for column, unit in units.items():
        numbers = numbers_in_sample(values[column], logs.reading.decimal_comma)
        whole = sum(number.is_integer() for number in numbers)
        if len(numbers) < _FEWEST_AMOUNTS:
            continue
        example = {"column": column, "unit": unit, "median": statistics.median(numbers)}
        if is_whole_unit(unit) and 2 * whole < len(numbers):
            found.setdefault("amounts_with_decimals", []).append(example)
        if unit == "currency" and whole == len(numbers) and currency not in WHOLE_CURRENCIES:
            found.setdefault("amounts_whole", []).append(example)
    for code, examples in found.items():
        yield fault_of(code, len(examples), len(units), examples)
