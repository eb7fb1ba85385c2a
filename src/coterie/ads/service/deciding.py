"""Decisions about goals, budgets, targets and portfolios, and the table of all curves."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import UNSET
from numpy.typing import NDArray

from coterie.ads.decisions.budgets import plan_budget
from coterie.ads.decisions.bulk_tables import curve_table
from coterie.ads.decisions.decision_answers import (
    BudgetPlan,
    BudgetSplit,
    GoalBid,
    TargetRanking,
    of_version,
)
from coterie.ads.decisions.goals import bid_for
from coterie.ads.decisions.portfolios import split_in_steps
from coterie.ads.decisions.target_ranking import rank_targets
from coterie.ads.forecasts.profiles import shown_grid
from coterie.ads.protocol import (
    BudgetQuestion,
    Fault,
    GoalQuestion,
    Limits,
    PortfolioQuestion,
    Subject,
    TargetsQuestion,
    given_members,
)
from coterie.ads.service.fair_queue import Slices, in_one_slice
from coterie.ads.service.problems import invalid
from coterie.ads.service.served_model import ServedModel
from coterie.errors import InvalidParameterError

__all__ = ["CURVE_MEDIA", "DECISIONS", "CurveParts", "Decision", "curve_parts", "decide"]

_ENCODE = msgspec.json.Encoder().encode
#: So many bids times days of a decision take as long as one of a forecast with its JSON.
_ITEMS_PER_WORK = 40
#: Figures of single values of dimensions take so many times as long.
_WORK_OF_VALUES = 20
_MOST_SPLIT = Limits().questions
#: Media types by the name of the format.
CURVE_MEDIA = {
    "arrow": "application/vnd.apache.arrow.stream",
    "parquet": "application/vnd.apache.parquet",
}
#: The cost of each part, and what makes it.
CurveParts = Iterator[tuple[int, Callable[[], bytes]]]
_ADVERTISERS_TOGETHER = 8
#: So many advertisers make a record batch, or a row group.
_ADVERTISERS_WRITTEN = 1_024


@dataclass(frozen=True)
class Decision:
    """A kind of question: its types, what it costs, and how it is answered."""

    question: Any
    answer: Any
    cost: Callable[[Any], int]  # an estimate, in bids times days of a forecast
    steps: Callable[[ServedModel, Any, int], Slices[Any]]

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[Any]:
        """Of the question."""
        return msgspec.json.Decoder(self.question)


def decide(
    decision: Decision, served: ServedModel, question: Any, limits: Limits
) -> tuple[int, Slices[bytes]]:
    """Return what the answer to a question costs, and the slices that make its JSON."""
    cost = decision.cost(question)
    if isinstance(question, Subject):
        cost *= 1 if question.where is UNSET else _WORK_OF_VALUES
        cost += 0 if question.advertiser in served.tables.row_of else limits.text_work
    return cost, _encoded(decision, served, question, cost)


def _encoded(decision: Decision, served: ServedModel, question: Any, cost: int) -> Slices[bytes]:
    try:
        answer = yield from decision.steps(served, question, cost)
    except InvalidParameterError as error:
        raise invalid("invalid-question", [Fault("", str(error))]) from None
    return _ENCODE(of_version(answer, served.version.version))


def _goal(served: ServedModel, question: GoalQuestion, cost: int) -> Slices[GoalBid]:
    arguments: dict[str, Any] = {**question.goal(), **question.details()}
    return in_one_slice(lambda: bid_for(served.model, **arguments), cost)


def _budget(served: ServedModel, question: BudgetQuestion, cost: int) -> Slices[BudgetPlan]:
    bid = question.bid or None
    return in_one_slice(
        lambda: plan_budget(served.model, budget=question.budget, bid=bid, **question.details()),
        cost,
    )


def _targets(served: ServedModel, question: TargetsQuestion, cost: int) -> Slices[TargetRanking]:
    arguments = {**given_members(question, ("bid", "dimension", "by")), **question.details()}
    return in_one_slice(lambda: rank_targets(served.model, **arguments), cost)


def _portfolio(served: ServedModel, question: PortfolioQuestion, cost: int) -> Slices[BudgetSplit]:  # noqa: ARG001
    if (
        question.advertisers is UNSET
        and question.segment is UNSET
        and len(served.names) > _MOST_SPLIT
    ):
        raise InvalidParameterError(
            f"the model has {len(served.names):,} advertisers; name up to {_MOST_SPLIT:,} of them, "
            "or a segment"
        )
    steps = split_in_steps(served.model, **question.details())
    while True:
        try:
            items = next(steps)
        except StopIteration as end:
            return end.value
        yield max(items // _ITEMS_PER_WORK, 1)


def _portfolio_cost(question: PortfolioQuestion) -> int:
    number = len(question.advertisers or ()) or 100
    return 10 * number * question.days


#: By the path of their route.
DECISIONS = {
    "/v1/bids": Decision(GoalQuestion, GoalBid, lambda question: 300 + 20 * question.days, _goal),
    "/v1/budgets": Decision(
        BudgetQuestion, BudgetPlan, lambda question: 1_000 + 150 * question.days, _budget
    ),
    "/v1/targets": Decision(
        TargetsQuestion, TargetRanking, lambda question: 2_000 + 50 * question.days, _targets
    ),
    "/v1/portfolios": Decision(PortfolioQuestion, BudgetSplit, _portfolio_cost, _portfolio),
}


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
    table = curve_table(model, bins, {"model_version": served.version.version})
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
