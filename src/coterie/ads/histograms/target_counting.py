"""Target counting: let the engine that holds a log count it by the values of its dimensions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.histograms.counting import count_cells, counted_parts, counted_rows
from coterie.ads.histograms.price_grid import price_grid
from coterie.ads.histograms.target_counts import (
    BINS_TOGETHER,
    MOST_VALUES,
    NO_VALUE,
    OTHER_VALUES,
    TargetCounts,
    sum_cells,
)
from coterie.ads.logs.bid_logs import BidLogs
from coterie.errors import InvalidParameterError
from coterie.tables.engines import fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["read_targets"]

log = logging.getLogger("coterie")

#: A value that fewer advertisers have is not kept: it may name a person.
_FEWEST_ADVERTISERS = 3
_LONGEST_VALUE = 200
#: Names of the sums of count_cells in target cells, by part of a log.
_SUMS = {
    "bids": {
        "count": "bids",
        "square": "squares",
        **{name: name for name in ("bid", "wins", "cost", "clicks", "conversions")},
    },
    "prices": {"count": "prices"},
}


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
    >>> from coterie.ads.histograms.counting import read_histograms
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
    names, columns = histograms.advertisers, []
    values: list[str] = []
    numbers: list[int] = []
    for number, dimension in enumerate(logs.dimensions):
        log.info("Counting bids by %s", dimension)
        kept = _frequent_values(logs, days, dimension, len(names))
        parts = {
            part: fetch(
                count_cells(_valued(logs, days, part, dimension, kept), logs, edges, part, "value")
            )
            for part in counted_parts(logs)
        }
        found = sorted(set(parts["bids"]["value"].unique().to_pylist()))
        columns += [
            _columns(cells, names, found, len(values), _SUMS[part]) for part, cells in parts.items()
        ]
        values += found
        numbers += [number] * len(found)
    joined = {
        name: np.concatenate([one.get(name, np.zeros(len(one["bin"]))) for one in columns])
        for name in {name for one in columns for name in one}
    }
    for name in ("advertiser", "value", "bin"):
        joined[name] = joined[name].astype(np.int64)
    cells = sum_cells(joined, (len(names), len(values), len(edges)))
    return TargetCounts(
        names,
        edges,
        list(logs.dimensions),
        np.array(values, dtype=str),
        np.array(numbers, dtype=np.int64),
        cells,
        histograms.revealed,
    )


def _frequent_values(
    logs: BidLogs, days: Sequence[Any] | None, dimension: str, n_advertisers: int
) -> list[str]:
    """Return the values of a dimension that are kept, the most frequent first."""
    rows = counted_rows(logs, days, "bids")
    value = rows[f"dimension_{dimension}"]
    rows = rows.mutate(value=value).filter((value != "") & (value.length() <= _LONGEST_VALUE))
    number = rows.bids.sum() if logs.kind == "histograms" else rows.count()
    found = rows.group_by("value").agg(
        number=number.cast("float64"), advertisers=rows.advertiser_id.nunique()
    )
    found = found.filter(found.advertisers >= min(_FEWEST_ADVERTISERS, n_advertisers))
    order = [found.number.desc(), found.value]
    return fetch(found.order_by(order).limit(MOST_VALUES))["value"].to_pylist()


def _valued(
    logs: BidLogs, days: Sequence[Any] | None, part: str, dimension: str, kept: list[str]
) -> ir.Table:
    """Return the counted rows with the stored value of a dimension."""
    import ibis

    rows = counted_rows(logs, days, part)
    value = rows[f"dimension_{dimension}"]
    written = ibis.cases(
        (value.isnull() | (value == ""), NO_VALUE),
        (value.isin(kept) if kept else ibis.literal(False), value),
        else_=OTHER_VALUES,
    )
    return rows.filter(rows.day.notnull(), rows.advertiser_id != "").mutate(value=written)


def _columns(
    cells: pa.Table,
    advertisers: NDArray[np.str_],
    values: list[str],
    first: int,
    sums: dict[str, str],
) -> dict[str, Any]:
    """Return the cells of one dimension with numbers for names; its values start at ``first``."""
    row = pc.index_in(cells["advertiser_id"], pa.array(advertisers.tolist(), pa.string()))
    cells = cells.filter(row.is_valid())
    columns: dict[str, Any] = {
        "advertiser": row.drop_null().to_numpy(),
        "value": first + pc.index_in(cells["value"], pa.array(values, pa.string())).to_numpy(),
        "bin": cells["bin"].to_numpy(),
    }
    for name, target in sums.items():
        # without weights, w² is w
        found = "count" if name == "square" and name not in cells.column_names else name
        if found in cells.column_names:
            columns[target] = cells[found].to_numpy()
    return columns
