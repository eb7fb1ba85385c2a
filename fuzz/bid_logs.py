"""Bid logs in CSV and JSON lines: from the file to checks and histograms."""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from bad_logs import good_rows
from coterie.ads.histograms.counting import read_histograms
from coterie.ads.logs.bid_logs import open_logs
from coterie.ads.logs.checks.log_checks import check_logs
from coterie.errors import InvalidParameterError, TableError
from fuzz.contract import Target, own_folder

__all__ = ["make"]

_ROWS = [
    {name: str(value) if name == "ts" else value for name, value in row.items()}
    for row in good_rows()[::7]
]
_VALUES: tuple[Any, ...] = (
    *(None, "", "NA", "nan", "null", 0, -1, 1, 2, 1.5, 2**63, 1e300, -1e300, 10**18, True, False),
    *("true", "yes", "2026-03-02", "2026-03-02T25:00", "1772400000", "9" * 40, "0x10", "1,5"),
    *("€ 1.20", "USD", "'; DROP TABLE x; --", '"', "\n", "\0", "\u202e", "é" * 50, [], [1], {}),
    *({"a": 1}, [{"a": None}]),
)


class LogText(NamedTuple):
    """The content of a log file and the ending of its name."""

    ending: str
    content: bytes


def make() -> Target:
    """Return the target."""
    names = st.sampled_from([*_ROWS[0], "bid", "x", "", "Advertiser_ID"])
    values = st.sampled_from(_VALUES) | st.text(max_size=5)
    changes = st.lists(st.tuples(st.integers(0, len(_ROWS) - 1), names, values), max_size=6)
    lost = st.sets(st.sampled_from(list(_ROWS[0])), max_size=2)
    damage = st.lists(st.tuples(st.integers(0, 5_000), st.binary(max_size=4)), max_size=2)
    inputs = st.builds(_log, st.booleans(), changes, lost, damage)
    refusals = (TableError, InvalidParameterError)
    return Target("logs", check, inputs, seeds, from_bytes, refusals, prepare=own_folder)


def check(log: LogText) -> str:
    """Open, check and count a log; counts are finite, not negative, and wins are bids."""
    path = own_folder() / f"bids{log.ending}"
    path.write_bytes(log.content)
    logs = open_logs(path)
    if zlib.crc32(log.content) % 4 == 0:  # the checks take much longer than the rest
        json.dumps(check_logs(logs).as_dict(), allow_nan=False)
    histograms = read_histograms(logs)
    counts, wins = histograms.bids.count, histograms.bids.wins
    assert np.isfinite(counts).all() and (counts >= 0).all() and (wins <= counts).all()
    return "counted"


def from_bytes(data: bytes) -> LogText:
    """Return CSV or JSON lines, by the first byte."""
    return LogText(".jsonl" if data[:1] == b"j" else ".csv", data[1:])


def seeds() -> Iterator[bytes]:
    """Yield good logs, and one with a column less."""
    yield b"c" + _csv(_ROWS)
    yield b"j" + _json_lines(_ROWS)
    fewer = [{k: v for k, v in row.items() if k != "currency"} for row in _ROWS[:3]]
    yield b"c" + _csv(fewer)
    yield b"j" + _json_lines(fewer)


def _log(
    as_json: bool,
    changes: list[tuple[int, str, Any]],
    lost: set[str],
    damage: list[tuple[int, bytes]],
) -> LogText:
    rows = [{k: v for k, v in row.items() if k not in lost} for row in _ROWS]
    for place, name, value in changes:
        rows[place] = {**rows[place], name: value}
    content = _json_lines(rows) if as_json else _csv(rows)
    for start, replacement in damage:
        content = content[:start] + replacement + content[start + len(replacement) :]
    return LogText(".jsonl" if as_json else ".csv", content)


def _csv(rows: list[dict[str, Any]]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, names, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode(errors="replace")


def _json_lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
