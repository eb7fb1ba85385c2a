"""Decisions about goals, budgets, targets and portfolios, and the table of all curves."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import UNSET
from numpy.typing import NDArray

from coterie.ads.decisions.budgets import plan_budget
from coterie.ads.decisions.decision_answers import of_version
from coterie.ads.decisions.goals import bid_for
from coterie.ads.decisions.model_export import curve_table
from coterie.ads.decisions.portfolios import split_budget
from coterie.ads.decisions.steps import Steps
from coterie.ads.decisions.target_ranking import rank_targets
from coterie.ads.forecasts.profiles import shown_grid
from coterie.ads.protocol import Fault, Limits, Subject, given_members
from coterie.ads.service.fair_queue import Slices
from coterie.ads.service.problems import invalid
from coterie.ads.service.served_model import ServedModel
from coterie.errors import InvalidParameterError

_ENCODE = msgspec.json.Encoder().encode
#: So many bids times days of a decision take as long as one of a forecast with its JSON.
_ITEMS_PER_WORK = 40
#: Figures of single values of dimensions take so many times as long.
_WORK_OF_VALUES = 20
#: The cost of each part, and what makes it.
CurveParts = Iterator[tuple[int, Callable[[], bytes]]]
_ADVERTISERS_TOGETHER = 8
#: So many advertisers make a record batch, or a row group.
_ADVERTISERS_WRITTEN = 1_024


class Decision(NamedTuple):
    """The steps of an answer, and their cost: an estimate, in bids times days of a forecast."""

    steps: Callable[..., Steps[Any]]
    cost: Callable[[Any], int]


#: By the name of the operation.
DECISIONS = {
    "bid": Decision(bid_for.steps, lambda asked: 300 + 20 * asked.days),
    "budget": Decision(plan_budget.steps, lambda asked: 1_000 + 40 * asked.days),
    "targets": Decision(rank_targets.steps, lambda asked: 2_000 + 150 * asked.days),
    "portfolio": Decision(
        split_budget.steps, lambda asked: 10 * (len(asked.advertisers or ()) or 100) * asked.days
    ),
}


def decide(
    name: str, served: ServedModel, question: Any, limits: Limits
) -> tuple[int, Slices[bytes]]:
    """Return what the answer to a question costs, and the slices that make its JSON."""
    cost, per_item = DECISIONS[name].cost(question), 1
    if isinstance(question, Subject):
        per_item = 1 if getattr(question, "where", UNSET) is UNSET else _WORK_OF_VALUES
        cost *= per_item
        cost += 0 if question.advertiser in served.tables.row_of else limits.text_work
    elif (
        question.advertisers is UNSET
        and question.segment is UNSET
        and len(served.names) > limits.questions
    ):
        what = (
            f"the model has {len(served.names):,} advertisers; name up to {limits.questions:,} of "
            "them, or a segment"
        )
        raise invalid("invalid-question", [Fault("", what)])
    steps = DECISIONS[name].steps(served.model, **given_members(question))
    return cost, _encoded(steps, per_item, served.version.version)


def _encoded(steps: Steps[Any], per_item: int, version: str) -> Slices[bytes]:
    while True:
        try:
            items = next(steps)
        except StopIteration as end:
            return _ENCODE(of_version(end.value, version))
        except InvalidParameterError as error:
            raise invalid("invalid-question", [Fault("", str(error))]) from None
        yield max(items * per_item // _ITEMS_PER_WORK, 1)


def curve_parts(
    served: ServedModel, kind: Literal["arrow", "parquet"], segment: int | None = None
) -> CurveParts:
    """Yield the parts of the table of curves, of all advertisers or of one segment.

    Each is to be made before the next is taken.
    """
    model, sink = served.model, _Sink()
    rows = np.arange(len(served.names))
    if segment is not None:
        rows = np.flatnonzero(model.labels_ == segment)
    # the bids of the charts
    grid = shown_grid(model.edges_)
    bins = np.searchsorted(model.edges_, grid[grid > 0])
    table = curve_table(model, bins, served.version.version)
    writer: Any = (
        pa.ipc.new_stream(sink, table.schema)
        if kind == "arrow"
        else pq.ParquetWriter(sink, table.schema)
    )
    gathered: list[pa.RecordBatch] = []

    def write(last: bool) -> bytes:
        if gathered:
            writer.write_table(pa.Table.from_batches(gathered).combine_chunks())
            gathered.clear()
        if last:
            writer.close()
        return sink.taken()

    def add(some: NDArray[np.int64]) -> bytes:
        gathered.append(table.batch(some))
        enough = len(gathered) * _ADVERTISERS_TOGETHER >= _ADVERTISERS_WRITTEN
        return write(last=False) if enough else b""

    for first in range(0, len(rows), _ADVERTISERS_TOGETHER):
        some = rows[first : first + _ADVERTISERS_TOGETHER]
        yield len(some) * table.width, partial(add, some)
    yield 1, partial(write, last=True)


class _Sink(io.RawIOBase):
    """A file whose content is taken away while it is written; Parquet needs its true position."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        self._position += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._position

    def taken(self) -> bytes:
        content = b"".join(self._parts)
        self._parts.clear()
        return content
