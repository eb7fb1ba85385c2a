"""Answers to questions, as JSON: who is asked about, on what grounds, and the figures.

Questions about advertisers of the model are answered together, those of the same days and level by
one pass through the tables. The others are gathered by text: each text is placed among the
advertisers once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from coterie.ads.forecasts.forecast_figures import FIELDS
from coterie.ads.forecasts.placement import Placement, quoted
from coterie.ads.protocol import Limits
from coterie.ads.service.answering.questions import Question, faulty
from coterie.ads.service.models.served_model import ServedModel, written_supply
from coterie.ads.service.models.written_figures import inside_text

__all__ = ["answer_to_one", "answers_in_turns", "answers_to", "periods_of", "rows_of"]

Turns = Generator[bytes, None, bytes]
Period = tuple[date | None, int]

#: A bid on a day is one item; so many take some ten milliseconds.
_ITEMS_IN_A_TURN = 20_000
_TEXTS_IN_A_TURN = 16
_CHARS_IN_A_TURN = 10_000


def rows_of(served: ServedModel, questions: list[Question]) -> list[int | None]:
    """Return the row of the advertiser in each question; None where the model does not know it."""
    row_of: Callable[[str | None], int | None] = served.tables.row_of.get  # type: ignore[assignment]
    return [row_of(question[0]) for question in questions]


def periods_of(questions: list[Question]) -> set[Period]:
    """Return the days that questions are about, each once: the first, or None, and how many."""
    return {question[4:6] for question in questions}


def answer_to_one(served: ServedModel, question: Question, row: int) -> bytes:
    """Return the answer to a question about one bid of a known advertiser, the quick way."""
    _, _, (bid, *_), given, day, days, level = question
    period = served.period(day, days)
    opening, supply = served.opening(row, given, period, level)
    figures = served.tables.one(row, bid, supply, period.table, given is not None, level)
    return served.writer.written_one(opening, bid, figures, bid > served.highest)


def answers_to(
    served: ServedModel,
    questions: list[Question],
    rows: list[int | None],
    limits: Limits,
    *,
    many: bool = True,
) -> bytes:
    """Return the answers to questions, in their order, as JSON with commas between them.

    Where they came as a list (``many``), faults are told with the number of the question.

    Raises
    ------
    Problem
        Where the supply of an advertiser is neither known nor given, or there are too many texts.
    """
    *_, answers = answers_in_turns(served, questions, rows, limits, many=many)
    return answers


def answers_in_turns(
    served: ServedModel,
    questions: list[Question],
    rows: list[int | None],
    limits: Limits,
    *,
    many: bool = True,
) -> Iterator[bytes]:
    """Yield nothing at pauses, in which others may have their turn, and the answers at the end."""
    by_text = _strangers_by_text(questions, rows, limits, many) if None in rows else {}
    for period in periods_of(questions):
        if not served.has_period(*period):
            served.period(*period)
            yield b""
    if not by_text:
        yield (yield from _about_known(served, questions, rows))  # type: ignore[arg-type]
        return
    answers: list[bytes] = [b""] * len(questions)
    for texts in _turns(list(by_text)):
        for text, placement in zip(texts, served.placed(texts), strict=True):
            for number, question in by_text[text]:
                answers[number] = yield from _about_placed(served, placement, question)
        yield b""
    known = [number for number, row in enumerate(rows) if row is not None]
    for number in known:
        answers[number] = yield from _about_known(served, [questions[number]], [rows[number]])  # type: ignore[list-item]
    yield b",".join(answers)


def _about_known(served: ServedModel, questions: list[Question], rows: list[int]) -> Turns:
    """Return the answers about advertisers that the model knows."""
    opening, period = served.opening, served.period
    begun = [
        opening(row, supply, period(day, days), level)
        for row, (_, _, _, supply, day, days, level) in zip(rows, questions, strict=True)
    ]
    openings, supplies = zip(*begun, strict=True)
    numbers = [len(question[2]) for question in questions]
    bids = [bid for question in questions for bid in question[2]]
    each = np.repeat(np.arange(len(questions)), numbers)
    asked = (
        np.array(rows)[each],
        np.array(bids),
        np.array(supplies)[each],
        np.array([question[3] is not None for question in questions])[each],
    )
    figures = yield from _figures(served, questions, each, asked)
    return served.writer.written(openings, numbers, bids, figures, _remarked(served, bids))


def _figures(
    served: ServedModel,
    questions: list[Question],
    each: NDArray[np.int64],
    asked: tuple[NDArray[Any], ...],
) -> Generator[bytes, None, NDArray[np.float64]]:
    """Return the figures of bids, (Q, 14), with pauses.

    ``each`` (Q,) is the question of a bid; ``asked`` are rows, bids, supplies, and whether these
    were given, (Q,) each.
    """
    kinds: dict[tuple[date | None, int, float], int] = {}
    kind_of = np.array([kinds.setdefault(one[4:], len(kinds)) for one in questions])[each]
    figures = np.empty((len(each), len(FIELDS)))
    done = 0
    for (day, days, level), kind in kinds.items():
        table = served.period(day, days).table
        places = np.flatnonzero(kind_of == kind)
        for part in _parts(len(places), days):
            at = places[part]
            if done + len(at) * days > _ITEMS_IN_A_TURN and done:
                yield b""
                done = 0
            done += len(at) * days
            rows, bids, supplies, given = (column[at] for column in asked)
            figures[at] = served.tables.at(rows, bids, supplies, [table] * len(at), given, level)
    return figures


def _parts(number: int, days: int) -> Iterator[slice]:
    """Divide bids into parts that each take no longer than a turn."""
    size = max(_ITEMS_IN_A_TURN // days, 1)
    return (slice(first, first + size) for first in range(0, number, size))


class _Stranger(NamedTuple):
    """A question about somebody that the model does not know, and its number among all."""

    number: int
    question: Question


def _strangers_by_text(
    questions: list[Question], rows: list[int | None], limits: Limits, many: bool
) -> dict[str, list[_Stranger]]:
    """Return the questions about advertisers that the model does not know, by their texts."""
    by_text: dict[str, list[_Stranger]] = {}
    faults: list[tuple[str, str]] = []
    for number, (question, row) in enumerate(zip(questions, rows, strict=True)):
        if row is not None:
            continue
        if question.supply is None:
            faults.append(_no_supply(question, f"[{number}].supply" if many else "supply"))
        else:
            by_text.setdefault(question.text or "", []).append(_Stranger(number, question))
    if len(by_text) > limits.texts:
        told = (
            f"there are {len(by_text):,} texts to place; ask for at most {limits.texts} at a time"
        )
        faults.insert(0, ("", told))
    size, most = sum(map(len, by_text)), limits.all_text_chars
    if size > most:
        told = (
            f"the texts to place have {size:,} characters in all, and may have {most:,} at a time"
        )
        faults.insert(0, ("", told))
    if faults:
        raise faulty(faults)
    return by_text


def _about_placed(served: ServedModel, placement: Placement, question: Question) -> Turns:
    """Return the answer about somebody who has a place among the advertisers."""
    name, bids, supply = question.advertiser or "", question.bids, question.supply or 0.0
    period, level = served.period(question.day, question.days), question.level
    begun = b'{"advertiser":%b,"known":false,"segment":"%b","curve":"%b","why":"%b' % (
        orjson.dumps(name),
        inside_text(placement.segment),
        placement.curve.encode(),
        inside_text(served.placer.named(placement, name).why),
    )
    opening = begun + period.given + written_supply(supply, level)
    figures = np.empty((len(bids), len(FIELDS)))
    for part in _parts(len(bids), question.days):
        if part.start:
            yield b""
        figures[part] = served.tables.at_placed(
            placement, np.array(bids[part]), supply, period.table, True, level
        )
    return served.writer.written([opening], [len(bids)], bids, figures, _remarked(served, bids))


def _remarked(served: ServedModel, bids: list[float]) -> list[int]:
    """Return the places of bids of which more is to be said."""
    highest = served.highest
    if max(bids) <= highest:
        return []
    return [place for place, bid in enumerate(bids) if bid > highest]


def _turns(texts: list[str]) -> Iterator[list[str]]:
    """Texts in parts of which none takes long; a part has at least one."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and (len(part) == _TEXTS_IN_A_TURN or size + len(text) > _CHARS_IN_A_TURN):
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part


def _no_supply(question: Question, place: str) -> tuple[str, str]:
    who = quoted(question.advertiser) if question.advertiser else "this advertiser"
    return place, (
        f"{who} is not in the log, so its supply is not known; give supply, the number of auctions"
    )
