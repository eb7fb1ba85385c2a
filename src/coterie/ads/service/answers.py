"""Answers to questions: figures as dictionaries that are ready to be written as JSON.

Questions about advertisers of the model are answered together, by one pass through the tables.
The others are gathered by text: each text is placed among the advertisers once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np

from coterie.ads.placement import Placement
from coterie.ads.service.questions import Question, faulty
from coterie.ads.service.served_model import ServedModel

__all__ = ["MOST_TEXTS", "answer_to_one", "answers_to", "rows_of"]

#: Texts in one request that are new to the model: each is compared with all of its advertisers.
MOST_TEXTS = 100

_MOST_FAULTS = 20

Answer = dict[str, Any]


def rows_of(served: ServedModel, questions: list[Question]) -> list[int | None]:
    """The row of the advertiser in each question; None where the model does not know it."""
    row_of: Callable[[str | None], int | None] = served.tables.row_of.get  # type: ignore[assignment]
    return [row_of(question.advertiser) for question in questions]


def answer_to_one(served: ServedModel, question: Question, row: int) -> Answer:
    """The answer to a question about one bid of a known advertiser, the quick way."""
    answer = _head(served, question, row)
    figures = served.tables.one(row, question.bids[0], answer["supply"])
    _share_out(served, question.bids, [figures], [answer], [1])
    return answer


def answers_to(
    served: ServedModel,
    questions: list[Question],
    rows: list[int | None],
    *,
    many: bool = True,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Answer]:
    """The answers to questions, in their order.

    Parameters
    ----------
    served : ServedModel
    questions : list of Question
    rows : list
        From :func:`rows_of`.
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
    answers = [
        {} if row is None else _head(served, question, row)
        for question, row in zip(questions, rows, strict=True)
    ]
    if None in rows:
        _answer_strangers(served, questions, answers, many, stopped)
    _answer_known(served, questions, rows, answers)
    return answers


def _answer_known(
    served: ServedModel, questions: list[Question], rows: list[int | None], answers: list[Answer]
) -> None:
    """Fill in the forecasts of advertisers that the model knows."""
    known = [
        (row, question.bids, answer)
        for row, question, answer in zip(rows, questions, answers, strict=True)
        if row is not None
    ]
    if not known:
        return
    numbers = [len(bids) for _, bids, _ in known]
    asked = [bid for _, bids, _ in known for bid in bids]
    figures = served.tables.at(
        np.repeat([row for row, _, _ in known], numbers),
        np.array(asked),
        np.repeat([answer["supply"] for _, _, answer in known], numbers),
    )
    _share_out(served, asked, figures.tolist(), [answer for _, _, answer in known], numbers)


def _answer_strangers(
    served: ServedModel,
    questions: list[Question],
    answers: list[Answer],
    many: bool,
    stopped: Callable[[], bool],
) -> None:
    """Fill in the answers about advertisers that the model does not know: those still empty."""
    by_text: dict[str, list[tuple[Question, Answer]]] = {}
    faults: list[tuple[str, str]] = []
    for number, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        if answer:
            continue
        if question.supply is None:
            faults.append(_no_supply(question, f"[{number}].supply" if many else "supply"))
        else:
            by_text.setdefault(question.text or "", []).append((question, answer))
    if len(by_text) > MOST_TEXTS:
        told = f"there are {len(by_text):,} texts to place; ask for at most {MOST_TEXTS} at a time"
        faults.insert(0, ("", told))
    if faults:
        raise faulty(faults[:_MOST_FAULTS])
    for text, asked in by_text.items():
        if stopped():
            return
        _answer_placed(served, served.placed(text), asked)


def _answer_placed(
    served: ServedModel, placement: Placement, asked: list[tuple[Question, Answer]]
) -> None:
    """Fill in the answers of all who have the same place."""
    numbers = [len(question.bids) for question, _ in asked]
    bids = [bid for question, _ in asked for bid in question.bids]
    supplies = np.repeat([question.supply or 0.0 for question, _ in asked], numbers)
    figures = served.tables.at_placed(placement, np.array(bids), supplies)
    for question, answer in asked:
        name = question.advertiser or ""
        answer |= {
            "advertiser": name,
            "known": False,
            "segment": placement.segment,
            "curve": placement.curve,
            "why": served.placer.named(placement, name).why + served.always,
            "supply": question.supply,
            "forecasts": None,
        }
    _share_out(served, bids, figures.tolist(), [answer for _, answer in asked], numbers)


def _head(served: ServedModel, question: Question, row: int) -> Answer:
    """All but the forecasts of an advertiser that the model knows."""
    advertiser, _, _, supply, day = question
    segment, why, level = served.head(row)
    if supply is None:
        factor, told = served.weekday(day)
        supply = level * factor
        why += told
    return {
        "advertiser": advertiser,
        "known": True,
        "segment": segment,
        "curve": "pooled",
        "why": why + served.always,
        "supply": supply,
        "forecasts": None,
    }


def _share_out(
    served: ServedModel,
    bids: list[float],
    figures: list[list[float]],
    answers: list[Answer],
    numbers: list[int],
) -> None:
    """Give each answer its forecasts: so many of all, in their order."""
    forecasts = _forecasts(bids, figures)
    if len(forecasts) == len(answers):
        for answer, forecast in zip(answers, forecasts, strict=True):
            answer["forecasts"] = [forecast]
    else:
        first = 0
        for answer, number in zip(answers, numbers, strict=True):
            answer["forecasts"] = forecasts[first : first + number]
            first += number
    if max(bids) > served.highest:
        for answer in answers:
            _add_remarks(served, answer)


def _forecasts(bids: list[float], figures: list[list[float]]) -> list[dict[str, Any]]:
    """One dictionary for every bid."""
    return [
        {
            "bid": bid,
            "win_rate": win,
            "cost": cost,
            "impressions": shown,
            "impressions_interval": (low, high),
            "spend": spend,
            "spend_interval": (least, most),
            "clicks": clicks,
            # where the log has no clicks they are NaN, which is written as null
            "clicks_interval": None if isnan(clicks) else (few, many),
            "conversions": conversions,
        }
        for bid, (
            win,
            cost,
            shown,
            low,
            high,
            spend,
            least,
            most,
            clicks,
            few,
            many,
            conversions,
        ) in zip(bids, figures, strict=True)
    ]


def _add_remarks(served: ServedModel, answer: Answer) -> None:
    """Give forecasts grounds of their own where more is to be said of their bid."""
    for forecast in answer["forecasts"]:
        told = served.tables.remark(forecast["bid"])
        if told != served.always:
            forecast["why"] = answer["why"].removesuffix(served.always) + told


def _no_supply(question: Question, place: str) -> tuple[str, str]:
    who = repr(question.advertiser) if question.advertiser else "this advertiser"
    return place, (
        f"{who} is not in the log, so its supply is not known; give supply, the number of auctions"
    )
