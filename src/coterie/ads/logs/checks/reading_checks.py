"""Reading checks: lines that are not rows, and amounts whose decimals contradict their unit."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from coterie.ads.logs.bid_logs import BidLogs
from coterie.ads.logs.checks.aggregate_checks import WHOLE_CURRENCIES
from coterie.ads.logs.checks.check_queries import EXAMPLES, raw_table
from coterie.ads.logs.checks.faults import Fault, fault_of
from coterie.ads.logs.column_recognition import numbers_in_sample, sample_values

#: Units of whole numbers.
_WHOLE_UNITS = ("micros", "cents", "micros/impression")
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


def _decimals(logs: BidLogs, currency: str) -> Iterator[Fault]:
    """Yield the faults of amounts whose decimals contradict the unit they were read in."""
    units = {logs.reading.column(name): unit for name, unit in logs.reading.units.items()}
    if not units:
        return
    values = sample_values(raw_table(logs), list(units))
    found: dict[str, list[dict[str, object]]] = {}
    for column, unit in units.items():
        numbers = numbers_in_sample(values[column])
        whole = sum(number.is_integer() for number in numbers)
        if len(numbers) < _FEWEST_AMOUNTS:
            continue
        example = {"column": column, "unit": unit, "median": statistics.median(numbers)}
        if unit in _WHOLE_UNITS and 2 * whole < len(numbers):
            found.setdefault("amounts_with_decimals", []).append(example)
        if unit == "currency" and whole == len(numbers) and currency not in WHOLE_CURRENCIES:
            found.setdefault("amounts_whole", []).append(example)
    for code, examples in found.items():
        yield fault_of(code, len(examples), len(units), examples)
