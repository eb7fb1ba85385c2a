"""Answers to questions, as JSON: who is asked about, on what grounds, and the figures.

Questions about advertisers of the model are answered together, by one pass through the tables.
The others are gathered by text: each text is placed among the advertisers once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import orjson

from coterie.ads.placement import Placement
from coterie.ads.service.limits import Limits
from coterie.ads.service.questions import Question, faulty
from coterie.ads.service.served_model import ServedModel
from coterie.ads.service.written_figures import inside_text

__all__ = ["answer_to_one", "answers_to", "rows_of"]

_MOST_FAULTS = 20


def rows_of(served: ServedModel, questions: list[Question]) -> list[int | None]:
    """The row of the advertiser in each question; None where the model does not know it."""
    row_of: Callable[[str | None], int | None] = served.tables.row_of.get  # type: ignore[assignment]
    return [row_of(question[0]) for question in questions]


def answer_to_one(served: ServedModel, question: Question, row: int) -> bytes:
    """The answer to a question about one bid of a known advertiser, the quick way."""
    bid = question.bids[0]
    opening, supply = served.opening(row, question.supply, question.day)
    figures = served.tables.one(row, bid, supply)
    why = ""
    if bid > served.highest:
        why = _grounds(served, question, row) + served.tables.remark(bid)
    return served.writer.written_one(opening, bid, figures, why)


def answers_to(
    served: ServedModel,
    questions: list[Question],
    rows: list[int | None],
    limits: Limits,
    *,
    many: bool = True,
    stopped: Callable[[], bool] = lambda: False,
) -> bytes:
    """The answers to questions, in their order, as JSON with commas between them.

    Parameters
    ----------
    served : ServedModel
    questions : list of Question
    rows : list
        From :func:`rows_of`.
    limits : Limits
    many : bool
        Whether they came as a list: places of faults are told accordingly.
    stopped : callable
        Asked now and then whether anyone still waits for the answers; if nobody does, what is
        there is given back early.

    Raises
    ------
    Problem
        Where the supply of an advertiser is neither known nor given, or there are too many texts.
    """
    if None not in rows:
        return _about_known(served, questions, rows)  # type: ignore[arg-type]
    answers: list[bytes] = [b""] * len(questions)
    by_text = _strangers_by_text(questions, rows, limits.texts, many)
    for text, asked in by_text.items():
        if stopped():
            break
        placement = served.placed(text)
        for number, question in asked:
            answers[number] = _about_placed(served, placement, question)
    for number, (question, row) in enumerate(zip(questions, rows, strict=True)):
        if row is not None:
            answers[number] = _about_known(served, [question], [row])
    return b",".join([answer for answer in answers if answer])


def _about_known(served: ServedModel, questions: list[Question], rows: list[int]) -> bytes:
    """The answers about advertisers that the model knows."""
    opening = served.opening
    begun = [
        opening(row, supply, day)
        for row, (_, _, _, supply, day) in zip(rows, questions, strict=True)
    ]
    openings, supplies = zip(*begun, strict=True)
    numbers = [len(question[2]) for question in questions]
    if max(numbers) == 1:
        bids = [question[2][0] for question in questions]
        figures = served.tables.at(np.array(rows), np.array(bids), np.array(supplies))
    else:
        bids = [bid for question in questions for bid in question[2]]
        figures = served.tables.at(
            np.repeat(rows, numbers), np.array(bids), np.repeat(supplies, numbers)
        )
    remarks = _remarks(served, bids, numbers, lambda i: _grounds(served, questions[i], rows[i]))
    return served.writer.written(openings, numbers, bids, figures, remarks)


class _Stranger(NamedTuple):
    """A question about somebody that the model does not know, and its number among all."""

    number: int
    question: Question


def _strangers_by_text(
    questions: list[Question], rows: list[int | None], most: int, many: bool
) -> dict[str, list[_Stranger]]:
    """The questions about advertisers that the model does not know, by their texts."""
    by_text: dict[str, list[_Stranger]] = {}
    faults: list[tuple[str, str]] = []
    for number, (question, row) in enumerate(zip(questions, rows, strict=True)):
        if row is not None:
            continue
        if question.supply is None:
            faults.append(_no_supply(question, f"[{number}].supply" if many else "supply"))
        else:
            by_text.setdefault(question.text or "", []).append(_Stranger(number, question))
    if len(by_text) > most:
        told = f"there are {len(by_text):,} texts to place; ask for at most {most} at a time"
        faults.insert(0, ("", told))
    if faults:
        raise faulty(faults[:_MOST_FAULTS])
    return by_text


def _about_placed(served: ServedModel, placement: Placement, question: Question) -> bytes:
    """The answer about somebody who has a place among the advertisers."""
    name, bids, supply = question.advertiser or "", question.bids, question.supply or 0.0
    why = served.placer.named(placement, name).why
    opening = (
        b'{"advertiser":%b,"known":false,"segment":"%b","curve":"%b","why":"%b","supply":%b'
    ) % (
        orjson.dumps(name),
        inside_text(placement.segment),
        placement.curve.encode(),
        inside_text(why + served.always),
        orjson.dumps(supply),
    )
    figures = served.tables.at_placed(placement, np.array(bids), supply)
    remarks = _remarks(served, bids, [len(bids)], lambda _: why)
    return served.writer.written([opening], [len(bids)], bids, figures, remarks)


def _remarks(
    served: ServedModel, bids: list[float], numbers: list[int], grounds: Callable[[int], str]
) -> dict[int, str]:
    """The grounds of forecasts at bids of which more is to be said, by the forecasts' places."""
    if max(bids) <= served.highest:
        return {}
    asked = np.repeat(np.arange(len(numbers)), numbers)
    return {
        place: grounds(int(asked[place])) + served.tables.remark(bid)
        for place, bid in enumerate(bids)
        if bid > served.highest
    }


def _grounds(served: ServedModel, question: Question, row: int) -> str:
    told = "" if question.supply is not None else served.weekday(question.day).told
    return served.tables.why(row) + told


def _no_supply(question: Question, place: str) -> tuple[str, str]:
    who = repr(question.advertiser) if question.advertiser else "this advertiser"
    return place, (
        f"{who} is not in the log, so its supply is not known; give supply, the number of auctions"
    )
