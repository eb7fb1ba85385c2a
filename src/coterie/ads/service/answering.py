"""Answers to questions: forecasts, decisions, and the table of all curves, in slices by their cost.

Costs are counted in bids times days of a forecast.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
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
from coterie.ads.forecasts.forecast_tables import PeriodLevels
from coterie.ads.forecasts.profiles import shown_grid
from coterie.ads.protocol import (
    Answer,
    Fault,
    Figures,
    Limits,
    Question,
    Subject,
    answer_of,
    given_members,
)
from coterie.ads.service.fair_queue import Slices
from coterie.ads.service.problems import invalid
from coterie.ads.service.served_model import ServedModel, compressed
from coterie.errors import InvalidParameterError

_ENCODE = msgspec.json.Encoder().encode
#: Smaller answers are not compressed.
_LEAST_COMPRESSED = 2_048
#: So many bids times days of a decision take as long as one of a forecast with its JSON.
_ITEMS_PER_WORK = 40
#: Figures of single values of dimensions take so many times as long.
_WORK_OF_VALUES = 20
#: So many advertisers of the table of curves are made together, and so many written.
_ADVERTISERS_TOGETHER, _ADVERTISERS_WRITTEN = 8, 1_024
#: The cost of each part, and what makes it.
CurveParts = Iterator[tuple[int, Callable[[], bytes]]]


class Batch:
    """Questions of one request, checked, and what they cost.

    ``rows`` has the row of each advertiser in the model, None if it is not there. ``many`` says
    whether the questions came as a list. Too many questions, or one that cannot be answered, are a
    Problem.
    """

    def __init__(
        self, served: ServedModel, given: Question | list[Question], limits: Limits
    ) -> None:
        self.many = isinstance(given, list)
        self.questions = questions = given if isinstance(given, list) else [given]
        self.served, self.limits = served, limits
        if not questions:
            what = "the list has no question; ask at least one"
            raise invalid("invalid-question", [Fault("", what)])
        self._refuse_more(len(questions), "questions", limits.questions)
        row_of: Any = served.tables.row_of.get
        self.rows: list[int | None] = [row_of(question.advertiser) for question in questions]
        self.n_bids = [question.n_bids for question in questions]
        self._refuse_more(sum(self.n_bids), "bids in all", limits.bids)
        faults: list[Fault] = []
        if None in self.rows:
            faults += self._faults_of_unknown()
        for number, question in enumerate(questions):
            if question.where is not UNSET:
                try:
                    served.model.chosen_values(question.where)
                except InvalidParameterError as error:
                    faults.append(self._fault(number, "where", error))
        if faults:
            raise invalid("invalid-question", faults)

        #: What placing an unknown advertiser, or values of dimensions, cost for each question.
        self.extra = [
            0 if row is not None and question.where is UNSET else limits.text_work
            for row, question in zip(self.rows, questions, strict=True)
        ]
        by_days = [n * one.days for n, one in zip(self.n_bids, questions, strict=True)]
        self.cost = sum(by_days) + sum(self.extra)

    @cached_property
    def bids(self) -> list[list[float]]:
        """The bids of each question; many ranges take a while, so they are not made before."""
        return [question.bids() for question in self.questions]

    def _faults_of_unknown(self) -> Iterator[Fault]:
        """Yield a fault for each question that lacks the supply of an unknown advertiser."""
        unknown = [number for number, row in enumerate(self.rows) if row is None]
        texts = {self.questions[number].text or "" for number in unknown}
        self._refuse_more(len(texts), "texts", self.limits.texts)
        n_chars = sum(map(len, texts))
        self._refuse_more(n_chars, "characters in all texts", self.limits.all_text_chars)
        for number in unknown:
            name = self.questions[number].advertiser or ""
            try:
                self.served.placer.refuse_whole_advertiser(name)
            except InvalidParameterError as error:
                yield self._fault(number, "advertiser", error)
                continue
            if self.questions[number].supply is UNSET:
                yield self._fault(number, "supply", self.served.placer.needs_supply(name))

    def _fault(self, number: int, member: str, words: object) -> Fault:
        return Fault(f"[{number}].{member}" if self.many else member, str(words))

    @staticmethod
    def _refuse_more(number: int, things: str, limit: int) -> None:
        if number > limit:
            what = f"there are {number:,} {things}; the limit is {limit:,}"
            raise invalid("invalid-question", [Fault("", what)])


def quick_answer(
    served: ServedModel, question: Question | list[Question], limits: Limits
) -> bytes | None:
    """Return the JSON of the answer to one small question about a known advertiser; else None."""
    if not isinstance(question, Question):
        return None
    row = served.tables.row_of.get(question.advertiser)  # type: ignore[arg-type]
    if (
        row is None
        or question.n_bids * question.days > limits.small_work
        or question.where is not UNSET
        or not served.has_period(*question.period)
    ):
        return None
    answer, table, given = _opening(served, question, row)
    one, supply, level = served.tables.one, answer.supply, question.level
    bids = question.bids()
    figures = [one(row, bid, supply, table, given, level) for bid in bids]
    answer.forecasts = _figures(served, bids, figures)
    return _ENCODE(answer)


def answer_slices(batch: Batch, *, compress: bool = False) -> Slices[tuple[bytes, bool]]:
    """Answer a batch in slices; return the JSON, and whether it is compressed (gzip).

    A slice has several short questions, or some bids of a long one. Each answer is written as soon
    as it is complete: writing all of them at the end could take long.
    """
    served, written = batch.served, list[msgspec.Raw]()
    answer: Answer | None = None
    of_number = -1
    for part, cost in _parts(batch):
        for number, _ in part:
            period = batch.questions[number].period
            if not served.has_period(*period):  # making it may take as long as a slice
                served.period(*period)
                yield 1
        for (number, _), found in zip(part, _answers(batch, part), strict=True):
            if number == of_number and answer is not None:
                answer.forecasts += found.forecasts
                continue
            if answer is not None:
                written.append(msgspec.Raw(_ENCODE(answer)))
            answer, of_number = found, number
        yield cost
    written.append(msgspec.Raw(_ENCODE(answer)))
    whole = {"model": served.version, "currency": served.currency, "answers": written}
    body = _ENCODE(whole) if batch.many else bytes(written[0])
    if compress and len(body) >= _LEAST_COMPRESSED:
        yield 1
        return compressed(body), True
    return body, False


def _parts(batch: Batch) -> Iterator[tuple[list[tuple[int, list[float]]], int]]:
    """Divide questions into slices of about equal cost; yield numbers with bids, and the cost."""
    most = batch.limits.slice_work
    part: list[tuple[int, list[float]]] = []
    cost = 0
    for number, (question, bids) in enumerate(zip(batch.questions, batch.bids, strict=True)):
        size, extra = max(most // question.days, 1), batch.extra[number]
        for first in range(0, len(bids), size):
            some = bids[first : first + size]
            own = len(some) * question.days + extra
            if part and cost + own > most:
                yield part, cost
                part, cost = [], 0
            part.append((number, some))
            cost += own
    yield part, cost


def _answers(batch: Batch, part: list[tuple[int, list[float]]]) -> list[Answer]:
    """Return the answers at some bids of some questions.

    Those about advertisers of the model that have the same days and level are computed by one call
    of the kernels.
    """
    served = batch.served
    answers: list[Answer] = []
    groups: dict[tuple[int, float], list[Any]] = {}
    for number, bids in part:
        question, row = batch.questions[number], batch.rows[number]
        if question.where is not UNSET:
            answers.append(_of_values(served, question, bids, known=row is not None))
        elif row is None:
            answers.append(_unknown(served, question, bids))
        else:
            answer, table, is_given = _opening(served, question, row)
            answers.append(answer)
            entry = answer, bids, table, row, answer.supply, is_given
            groups.setdefault((id(table), question.level), []).append(entry)
    for (_, level), entries in groups.items():
        numbers = [len(one[1]) for one in entries]
        bids = [bid for one in entries for bid in one[1]]
        rows, supplies, given = (
            np.repeat(np.array([one[column] for one in entries]), numbers) for column in (3, 4, 5)
        )
        tables = [entries[0][2]] * len(bids)
        figures = served.tables.at(rows, np.array(bids), supplies, tables, given, level)
        made, at = _figures(served, bids, figures.tolist()), 0
        for (answer, *_), n in zip(entries, numbers, strict=True):
            answer.forecasts = made[at : at + n]
            at += n
    return answers


def _opening(
    served: ServedModel, question: Question, row: int
) -> tuple[Answer, PeriodLevels, bool]:
    """Return an answer about an advertiser of the model, without forecasts.

    Also return its days, and whether the supply is given.
    """
    # most questions are about an average day
    is_average = question.day is UNSET and question.days == 1
    period = served.average_day if is_average else served.period(*question.period)
    given = question.supply is not UNSET
    if question.supply is UNSET:
        supply, how = served.tables.supply(row, period.table), period.expected
    else:
        supply, how = question.supply + 0.0, period.given  # −0 is 0
    answer = Answer(
        served.version,
        served.currency,
        served.names[row],
        True,
        served.segment_names[row],
        "pooled",
        served.tables.why(row) + how,
        question.days,
        question.level,
        supply,
        [],
    )
    return answer, period.table, given


def _unknown(served: ServedModel, question: Question, bids: list[float]) -> Answer:
    """Return the answer about an advertiser that is not in the model."""
    placement = served.placer.named(served.place(question.text or ""), question.advertiser or "")
    period = served.period(*question.period)
    supply: Any = question.supply
    figures = served.tables.at_placed(
        placement, np.array(bids), supply, period.table, True, question.level
    ).tolist()
    return Answer(
        served.version,
        served.currency,
        placement.name,
        False,
        placement.segment,
        placement.curve,  # type: ignore[arg-type]
        placement.why + period.given,
        question.days,
        question.level,
        supply + 0.0,
        _figures(served, bids, figures),
    )


def _of_values(
    served: ServedModel, question: Question, bids: list[float], *, known: bool
) -> Answer:
    """Return the answer about auctions with some values of dimensions."""
    details = given_members(question)
    del details["bid"]
    forecasts = served.model.prepare_forecast(**details).forecasts(bids)
    return answer_of(forecasts, known=known, days=question.days, version=served.version.version)


def _figures(served: ServedModel, bids: list[float], rows: Sequence[list[float]]) -> list[Figures]:
    """Return figures from rows in the order of ``forecast_figures.FIELDS``."""
    highest, above = served.tables.highest, served.tables.above.removeprefix("; ")
    clicks, conversions = served.has_clicks, served.has_conversions
    return [
        Figures(
            bid,
            row[0],
            row[1],
            row[2],
            (row[3], row[4]),
            row[5],
            (row[6], row[7]),
            row[8] if clicks else None,
            (row[9], row[10]) if clicks else None,
            row[11] if conversions else None,
            (row[12], row[13]) if conversions else None,
            UNSET if bid <= highest else above,
        )
        for bid, row in zip(bids, rows, strict=True)
    ]


class Decision(NamedTuple):
    """The steps of an answer, and an estimate of its cost."""

    steps: Callable[..., Steps[Any]]
    cost: Callable[[Any], int]


#: By the name of the operation.
DECISIONS = {
    "bid": Decision(bid_for.steps, lambda asked: 300 + 20 * asked.days),
    "budget": Decision(plan_budget.steps, lambda asked: 1_000 + 40 * asked.days),
    "targets": Decision(rank_targets.steps, lambda asked: 2_000 + 30 * asked.days),
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
    grid = shown_grid(model.edges_, model.masses_)
    bins = np.searchsorted(model.edges_, grid[grid > 0])
    table = curve_table(model, bins, served.version.version)
    writer: Any = (
        pa.ipc.new_stream(sink, table.schema)
        if kind == "arrow"
        else pq.ParquetWriter(sink, table.schema)
    )
    gathered: list[pa.RecordBatch] = []

    def add(some: NDArray[np.int64], last: bool) -> bytes:
        if len(some):
            gathered.append(table.batch(some))
        if gathered and (last or len(gathered) * _ADVERTISERS_TOGETHER >= _ADVERTISERS_WRITTEN):
            writer.write_table(pa.Table.from_batches(gathered).combine_chunks())
            gathered.clear()
        if last:
            writer.close()
        return sink.taken()

    for first in range(0, len(rows), _ADVERTISERS_TOGETHER):
        some = rows[first : first + _ADVERTISERS_TOGETHER]
        yield len(some) * table.width, partial(add, some, False)
    yield 1, partial(add, rows[:0], True)


class _Sink(io.BytesIO):
    """A file whose content is taken away while it is written; Parquet needs its true position."""

    _taken = 0

    def tell(self) -> int:
        return self._taken + super().tell()

    def taken(self) -> bytes:
        content = self.getvalue()
        self._taken += len(content)
        self.seek(0)
        self.truncate()
        return content
