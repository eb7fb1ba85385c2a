"""Answers to questions: whom they are about, on what grounds, and the figures.

Questions about advertisers of the model are answered together: those with the same days and level
by one call of the kernels.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from coterie.ads.forecasts.placement import Placement, quoted
from coterie.ads.forecasts.plan_forecasts import DayTable
from coterie.ads.protocol import Answer, Fault, Figures, Limits, Question
from coterie.ads.service.fair_queue import Slices
from coterie.ads.service.problems import MOST_FAULTS, Problem, invalid
from coterie.ads.service.served_model import ServedModel, printable

__all__ = [
    "Batch",
    "answer_lines",
    "answer_slices",
    "compressed",
    "make_batch",
    "quick_answer",
    "read_questions",
]

_DECODER = msgspec.json.Decoder(Question | list[Question])
_PARTS = msgspec.json.Decoder(list[msgspec.Raw])
_ONE = msgspec.json.Decoder(Question)
_ENCODE = msgspec.json.Encoder().encode
#: What msgspec raises for bytes that are not JSON; the last for text that is not UTF-8.
_NO_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
#: Smaller answers are not compressed.
_LEAST_COMPRESSED = 2_048


class Batch:
    """Questions of one request, and what they cost.

    ``rows`` has the row of each advertiser in the model, None if it is not there. ``many`` says
    whether the questions came as a list.
    """

    def __init__(self, served: ServedModel, questions: list[Question], *, many: bool) -> None:
        self.served = served
        self.questions = questions
        self.many = many
        row_of: Any = served.tables.row_of.get
        self.rows: list[int | None] = [row_of(question.advertiser) for question in questions]
        self.n_bids = [question.n_bids for question in questions]

    @cached_property
    def bids(self) -> list[list[float]]:
        """The bids of each question; many ranges take a while, so they are not made before."""
        return [question.bids() for question in self.questions]

    def cost(self, limits: Limits) -> int:
        """Return the work: bids times days, and the placing of texts."""
        work = sum([n * one.days for n, one in zip(self.n_bids, self.questions, strict=True)])
        return work + limits.text_work * self.rows.count(None)

    def check(self, limits: Limits) -> Batch:
        """Refuse a batch that is too large, or that lacks the supply of unknown advertisers."""
        faults, n_bids = [], sum(self.n_bids)
        if n_bids > limits.bids:
            faults = [_whole(f"there are {n_bids:,} bids in all; the limit is {limits.bids:,}")]
        if None in self.rows:
            faults += self._faults_of_unknown(limits)
        if faults:
            raise invalid("invalid-question", faults)
        return self

    def _faults_of_unknown(self, limits: Limits) -> list[Fault]:
        unknown = [number for number, row in enumerate(self.rows) if row is None]
        texts = {self.questions[number].text or "" for number in unknown}
        size = sum(map(len, texts))
        faults = []
        if len(texts) > limits.texts:
            faults.append(_whole(f"there are {len(texts):,} texts; the limit is {limits.texts}"))
        if size > limits.all_text_chars:
            most = limits.all_text_chars
            faults.append(_whole(f"the texts have {size:,} characters; the limit is {most:,}"))
        for number in unknown:
            if self.questions[number].supply is UNSET:
                name = self.questions[number].advertiser or ""
                place = f"[{number}].supply" if self.many else "supply"
                faults.append(
                    Fault(
                        place,
                        f"{quoted(name) if name else 'this advertiser'} is not in the log, so its "
                        "supply is not known; give supply, the number of auctions",
                    )
                )
        return faults


def read_questions(body: bytes) -> Question | list[Question]:
    """Return the questions in a body: one question, or a list of at least one.

    Raises
    ------
    Problem
        If the body is not JSON, or a question is invalid.
    """
    try:
        asked = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise invalid("invalid-question", _faults_in(body, error)) from None
    except _NO_JSON as error:
        what = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise Problem("malformed-body", f"the body is not JSON: {what}") from None
    if asked == []:
        raise invalid("invalid-question", [_whole("the list has no question; ask at least one")])
    return asked


def make_batch(served: ServedModel, asked: Question | list[Question], limits: Limits) -> Batch:
    """Return questions as a batch; a Problem if there are too many, or a supply is missing."""
    many = isinstance(asked, list)
    questions = asked if isinstance(asked, list) else [asked]
    if len(questions) > limits.questions:
        what = f"there are {len(questions):,} questions; the limit is {limits.questions:,}"
        raise invalid("invalid-question", [_whole(what)])
    return Batch(served, questions, many=many).check(limits)


def quick_answer(
    served: ServedModel, asked: Question | list[Question], limits: Limits
) -> bytes | None:
    """Return the JSON of the answer to one small question about a known advertiser; else None."""
    if not isinstance(asked, Question):
        return None
    row = served.tables.row_of.get(asked.advertiser)  # type: ignore[arg-type]
    if row is None or asked.n_bids * asked.days > limits.small_work:
        return None
    if not served.has_period(*asked.period):
        return None
    answer, table = _opening(served, asked, row)
    given, bids = asked.supply is not UNSET, asked.bids()
    one, supply, level = served.tables.one, answer.supply, asked.level
    answer.forecasts = _figures(
        served, bids, [one(row, bid, supply, table, given, level) for bid in bids]
    )
    return _ENCODE(answer)


def answer_slices(
    batch: Batch, limits: Limits, *, compress: bool = False
) -> Slices[tuple[bytes, bool]]:
    """Answer a batch in slices; return the JSON, and whether it is compressed (gzip)."""
    answers = yield from _encoded_answers(batch, limits)
    body = _ENCODE(_enveloped(batch, [msgspec.Raw(answer) for answer in answers]))
    if compress and len(body) >= _LEAST_COMPRESSED:
        yield 1
        return compressed(body), True
    return body, False


def answer_lines(
    served: ServedModel, lines: Sequence[bytes], limits: Limits
) -> Slices[tuple[bytes, int, int]]:
    """Answer lines of a stream, one question each, by lines: an answer, or a problem.

    Return the answers, the number of forecasts in them, and how many lines were answered: the first
    ones, with as many bids as a request may have.
    """
    found: list[bytes | None] = []
    asked: list[Question] = []
    n_bids = 0
    for line in lines:
        try:
            question = read_questions(line)
            if isinstance(question, list):
                raise invalid("invalid-question", [_whole("a line of a stream is one question")])
            make_batch(served, question, limits)
        except Problem as problem:
            found.append(_ENCODE(problem.document()))
        else:
            if asked and n_bids + question.n_bids > limits.bids:
                break
            n_bids += question.n_bids
            found.append(None)
            asked.append(question)
    yield len(found)
    answers: Iterator[bytes] = iter(())
    if asked:
        batch = Batch(served, asked, many=True)
        answers = iter((yield from _encoded_answers(batch, limits)))
    body = b"".join([(next(answers) if one is None else one) + b"\n" for one in found])
    return body, n_bids, len(found)


def compressed(body: bytes) -> bytes:
    """Return a body in gzip, at the fastest level; the lock of the interpreter is released."""
    return zlib.compress(body, 1, wbits=31)


def _encoded_answers(batch: Batch, limits: Limits) -> Slices[list[bytes]]:
    """Answer a batch in slices; return the JSON of each answer.

    Each is written in its slice: writing all of them at the end could take long.
    """
    found = []
    for part, cost in _parts(batch, limits):
        done = 0  # of the cost, as a long question reports it
        for answer in _answers(batch, part, limits):
            if isinstance(answer, int):
                done += answer
                yield answer
            else:
                found.append(_ENCODE(answer))
        yield max(cost - done, 1)
    return found


def _parts(batch: Batch, limits: Limits) -> Iterator[tuple[list[int], int]]:
    """Divide questions into parts of about one slice each; yield their numbers and their cost."""
    part: list[int] = []
    cost = 0
    for number, (question, n) in enumerate(zip(batch.questions, batch.n_bids, strict=True)):
        own = n * question.days
        own += limits.text_work if batch.rows[number] is None else 0
        if part and cost + own > limits.slice_work:
            yield part, cost
            part, cost = [], 0
        part.append(number)
        cost += own
    yield part, cost


def _answers(batch: Batch, part: list[int], limits: Limits) -> Iterator[Answer | int]:
    """Yield the answers to some questions in order, and the cost of work between them."""
    if len(part) == 1 and _is_long(batch, part[0], limits):
        yield from _long_answer(batch, part[0], limits)
    elif all(batch.rows[number] is not None for number in part):
        _make_periods(batch, part)
        yield from _known(batch, part)
    else:
        _make_periods(batch, part)
        for number in part:
            if batch.rows[number] is not None:
                yield from _known(batch, [number])
            else:
                placement = _placed(batch, number)
                yield _unknown(batch, number, placement, batch.bids[number])


def _is_long(batch: Batch, number: int, limits: Limits) -> bool:
    return batch.n_bids[number] * batch.questions[number].days > limits.slice_work


def _long_answer(batch: Batch, number: int, limits: Limits) -> Iterator[Answer | int]:
    """Yield the costs of the slices of one question with many bids or days, then its answer."""
    question, bids = batch.questions[number], batch.bids[number]
    batch.served.period(*question.period)
    yield 1
    size = max(limits.slice_work // question.days, 1)
    placement = None if batch.rows[number] is not None else _placed(batch, number)
    whole: Answer | None = None
    for first in range(0, len(bids), size):
        some = bids[first : first + size]
        if placement is None:
            [answer] = _known(batch, [number], [some])
        else:
            answer = _unknown(batch, number, placement, some)
        if whole is None:
            whole = answer
        else:
            whole.forecasts += answer.forecasts
        yield len(some) * question.days
    assert whole is not None
    yield whole


def _make_periods(batch: Batch, part: list[int]) -> None:
    for period in {batch.questions[number].period for number in part}:
        batch.served.period(*period)


def _placed(batch: Batch, number: int) -> Placement:
    question = batch.questions[number]
    [placement] = batch.served.places([question.text or ""])
    return batch.served.placer.named(placement, question.advertiser or "")


def _opening(served: ServedModel, question: Question, row: int) -> tuple[Answer, DayTable]:
    """Return an answer about an advertiser of the model, without forecasts; and its days."""
    period = served.period(*question.period)
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
    return answer, period.table


def _known(
    batch: Batch, part: Sequence[int], some_bids: Sequence[list[float]] | None = None
) -> list[Answer]:
    """Return the answers about advertisers of the model; of those of ``some_bids`` alone."""
    served, answers = batch.served, []
    groups: dict[Any, list[Any]] = {}
    for place, number in enumerate(part):
        question, row = batch.questions[number], batch.rows[number]
        bids = batch.bids[number] if some_bids is None else some_bids[place]
        assert row is not None
        answer, table = _opening(served, question, row)
        answers.append(answer)
        given = question.supply is not UNSET
        asked = (answer, row, answer.supply, given, bids)
        groups.setdefault((id(table), question.level), [table]).append(asked)
    for (_, level), (table, *together) in groups.items():
        _fill(served, together, table, level)
    return answers


def _fill(served: ServedModel, asked: list[Any], table: DayTable, level: float) -> None:
    """Compute the figures of answers with the same days and level, all at once."""
    numbers = [len(bids) for *_, bids in asked]
    bids = [bid for *_, some in asked for bid in some]
    rows, supplies, given = (
        np.repeat(np.array([one[column] for one in asked]), numbers) for column in (1, 2, 3)
    )
    each = [table] * len(bids)
    figures = served.tables.at(rows, np.array(bids), supplies, each, given, level)
    made, at = _figures(served, bids, figures.tolist()), 0
    for (answer, *_), number in zip(asked, numbers, strict=True):
        answer.forecasts = made[at : at + number]
        at += number


def _unknown(batch: Batch, number: int, placement: Placement, bids: list[float]) -> Answer:
    """Return the answer about an advertiser that is not in the model."""
    served, question = batch.served, batch.questions[number]
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


def _figures(served: ServedModel, bids: list[float], rows: list[list[float]]) -> list[Figures]:
    """Return figures from rows in the order of ``forecast_figures.FIELDS``."""
    highest, above = served.highest, served.tables.above
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


def _enveloped(batch: Batch, answers: Sequence[Answer | msgspec.Raw]) -> Any:
    if not batch.many:
        return answers[0]
    served = batch.served
    return {"model": served.version, "currency": served.currency, "answers": answers}


def _faults_in(body: bytes, error: msgspec.ValidationError) -> list[Fault]:
    """Return the first fault of each invalid question, with its place."""
    if not body.lstrip().startswith(b"["):
        return [_fault(error, "")]
    faults: list[Fault] = []
    # what follows the first fault may not even be JSON
    with contextlib.suppress(*_NO_JSON):
        for number, part in enumerate(_PARTS.decode(body)):
            try:
                _ONE.decode(part)
            except msgspec.ValidationError as of_part:
                faults.append(_fault(of_part, f"[{number}]"))
                if len(faults) == MOST_FAULTS:
                    break
    return faults or [_fault(error, "")]


def _fault(error: msgspec.ValidationError, place: str) -> Fault:
    """Return a fault from a message such as "Expected `float` > 0.0 - at `$.bid[1]`"."""
    what, _, at = str(error).partition(" - at `$")
    inner = at.rstrip("`")
    return Fault((place + inner).lstrip("."), printable(what))  # it may quote the question


def _whole(what: str) -> Fault:
    return Fault("", what)
