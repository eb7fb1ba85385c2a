"""Answers to questions: the advertiser, the grounds and the figures.

Questions about advertisers of the model are answered together: those with the same days and level
by one call of the kernels.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from coterie.ads.forecasts.forecast_tables import PeriodLevels
from coterie.ads.protocol import Answer, Figures, Limits, Question, answer_of, given_members
from coterie.ads.service.fair_queue import Slices
from coterie.ads.service.request_reading import Batch
from coterie.ads.service.served_model import ServedModel

_ENCODE = msgspec.json.Encoder().encode
#: Smaller answers are not compressed.
_LEAST_COMPRESSED = 2_048


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
    ):
        return None
    if not served.has_period(*question.period):
        return None
    answer, table = _opening(served, question, row)
    given, bids = question.supply is not UNSET, question.bids()
    one, supply, level = served.tables.one, answer.supply, question.level
    answer.forecasts = _figures(
        served, bids, [one(row, bid, supply, table, given, level) for bid in bids]
    )
    return _ENCODE(answer)


def answer_slices(
    batch: Batch, limits: Limits, *, compress: bool = False
) -> Slices[tuple[bytes, bool]]:
    """Answer a batch in slices; return the JSON, and whether it is compressed (gzip)."""
    answers = [msgspec.Raw(one) for one in (yield from _encoded_answers(batch, limits))]
    served = batch.served
    whole = {"model": served.version, "currency": served.currency, "answers": answers}
    body = _ENCODE(whole if batch.many else answers[0])
    if compress and len(body) >= _LEAST_COMPRESSED:
        yield 1
        return compressed(body), True
    return body, False


def compressed(body: bytes) -> bytes:
    """Return a body in gzip, at the fastest level; the lock of the interpreter is released."""
    return zlib.compress(body, 1, wbits=31)


def _encoded_answers(batch: Batch, limits: Limits) -> Slices[list[bytes]]:
    """Answer a batch in slices; return the JSON of each answer.

    Each is written in its slice: writing all of them at the end could take long.
    """
    encoded: list[bytes] = []
    for part, cost in _parts(batch, limits):
        done = 0
        if _is_plain(batch, part, limits):
            encoded += map(_ENCODE, _known(batch, part))
        else:
            for number in part:
                answer, own = yield from _in_pieces(batch, number, limits)
                encoded.append(_ENCODE(answer))
                done += own
        yield max(cost - done, 1)
    return encoded


def _parts(batch: Batch, limits: Limits) -> Iterator[tuple[list[int], int]]:
    """Divide questions into parts of about one slice each; yield their numbers and their cost."""
    part: list[int] = []
    cost = 0
    for number, own in enumerate(batch.works(limits)):
        if part and cost + own > limits.slice_work:
            yield part, cost
            part, cost = [], 0
        part.append(number)
        cost += own
    yield part, cost


def _is_plain(batch: Batch, part: list[int], limits: Limits) -> bool:
    """Whether all are about all auctions of known advertisers, and none is long."""
    if any(
        batch.rows[number] is None or batch.questions[number].where is not UNSET for number in part
    ):
        return False
    first = part[0]
    return len(part) > 1 or batch.n_bids[first] * batch.questions[first].days <= limits.slice_work


def _in_pieces(batch: Batch, number: int, limits: Limits) -> Slices[tuple[Answer, int]]:
    """Answer one question, in slices if it has many bids or days; return the cost of these, too."""
    question, bids = batch.questions[number], batch.bids[number]
    size = max(limits.slice_work // question.days, 1)
    if len(bids) <= size:
        return _answer(batch, number, bids), 0
    batch.served.period(*question.period)  # making it may take as long as a slice
    yield 1
    answer = _answer(batch, number, bids[:size])
    yield size * question.days
    for first in range(size, len(bids), size):
        piece = bids[first : first + size]
        answer.forecasts += _answer(batch, number, piece).forecasts
        yield len(piece) * question.days
    return answer, 1 + len(bids) * question.days


def _answer(batch: Batch, number: int, bids: list[float]) -> Answer:
    """Return the answer to a question, at some of its bids."""
    if batch.questions[number].where is not UNSET:
        return _of_target(batch, number, bids)
    if batch.rows[number] is None:
        return _unknown(batch, number, bids)
    return _known(batch, [number], [bids])[0]


def _opening(served: ServedModel, question: Question, row: int) -> tuple[Answer, PeriodLevels]:
    """Return an answer about an advertiser of the model, without forecasts; and its days."""
    # most questions are about an average day
    is_average = question.day is UNSET and question.days == 1
    period = served.average_day if is_average else served.period(*question.period)
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
        entry = (answer, row, answer.supply, given, bids)
        groups.setdefault((id(table), question.level), [table]).append(entry)
    for (_, level), (table, *together) in groups.items():
        _fill(served, together, table, level)
    return answers


def _fill(served: ServedModel, entries: list[Any], table: PeriodLevels, level: float) -> None:
    """Compute the figures of answers with the same days and level, all at once."""
    numbers = [len(bids) for *_, bids in entries]
    bids = [bid for *_, some in entries for bid in some]
    rows, supplies, given = (
        np.repeat(np.array([one[column] for one in entries]), numbers) for column in (1, 2, 3)
    )
    each = [table] * len(bids)
    figures = served.tables.at(rows, np.array(bids), supplies, each, given, level)
    made, at = _figures(served, bids, figures.tolist()), 0
    for (answer, *_), number in zip(entries, numbers, strict=True):
        answer.forecasts = made[at : at + number]
        at += number


def _unknown(batch: Batch, number: int, bids: list[float]) -> Answer:
    """Return the answer about an advertiser that is not in the model."""
    served, question = batch.served, batch.questions[number]
    [placement] = served.places([question.text or ""])
    placement = served.placer.named(placement, question.advertiser or "")
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


def _of_target(batch: Batch, number: int, bids: list[float]) -> Answer:
    """Return the answer about auctions with some values of dimensions."""
    served, question = batch.served, batch.questions[number]
    details = given_members(question)
    del details["bid"]
    forecasts = served.model.prepare_forecast(**details).forecasts(bids)
    known = batch.rows[number] is not None
    return answer_of(forecasts, known=known, days=question.days, version=served.version.version)


def _figures(served: ServedModel, bids: list[float], rows: list[list[float]]) -> list[Figures]:
    """Return figures from rows in the order of ``forecast_figures.FIELDS``."""
    highest, above = served.tables.highest, served.tables.above
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
