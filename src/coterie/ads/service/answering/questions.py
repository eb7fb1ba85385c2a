"""What is asked for: JSON that was parsed, read strictly into questions.

A question has one way to be right and many to be wrong. The right way is read in one pass, with a
few comparisons a question; at the first doubt :mod:`coterie.ads.service.answering.question_faults`
reads
everything again, slowly, and tells all that is wrong and where. Nothing is guessed: a number in
quotes, a null, a member of another name are faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple

from coterie.ads.forecasts.forecast_figures import bids_between
from coterie.ads.protocol import Limits
from coterie.ads.service.problems import Problem

__all__ = [
    "MOST_BID",
    "MOST_FAULTS",
    "MOST_SUPPLY",
    "Question",
    "date_in",
    "faulty",
    "read_questions",
]

#: The highest bid that may be asked about, in units of currency per thousand impressions.
MOST_BID = 1e9
#: The largest supply that may be asked about, in auctions: no figure overflows up to here.
MOST_SUPPLY = 1e15
#: So many faults are told; who has more has made one mistake many times.
MOST_FAULTS = 20

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class Question(NamedTuple):
    """One question: whose forecast, at which bids, in how many auctions.

    Attributes
    ----------
    advertiser, text : str or None
        At least one of them is given.
    bids : list of float
        At least one, each above 0 and at most :data:`MOST_BID`.
    supply : float or None
        From 0 to :data:`MOST_SUPPLY`.
    day : date or None
        None where ``supply`` is given.
    """

    advertiser: str | None
    text: str | None
    bids: list[float]
    supply: float | None
    day: date | None


def read_questions(body: Any, limits: Limits) -> list[Question]:
    """The questions in a request's body.

    Parameters
    ----------
    body : object
        What the JSON parser made of it: one question, or a list of them.
    limits : Limits

    Returns
    -------
    list of Question
        One where the body is one question.

    Raises
    ------
    Problem
        Of status 422, with the first faults and their places.

    Examples
    --------
    >>> read_questions({"advertiser": "adv-7", "bid": {"from": 1, "to": 2, "step": 0.5}}, Limits())
    [Question(advertiser='adv-7', text=None, bids=[1.0, 1.5, 2.0], supply=None, day=None)]
    >>> read_questions([{"advertiser": "adv-7", "bid": "2.50"}], Limits())
    Traceback (most recent call last):
    ...
    coterie.ads.service.problems.Problem: [0].bid: it must be a number, a list of numbers or ...
    """
    items = body if type(body) is list else [body]
    if 0 < len(items) <= limits.questions:
        found = _plain_questions(items, limits)
        if found is None:
            found = _any_questions(items, limits)
        if found is not None:
            return found
    # imported here: most services never meet a fault
    from coterie.ads.service.answering.question_faults import faults_in

    raise faulty(faults_in(body, limits))


def faulty(faults: list[tuple[str, str]]) -> Problem:
    """The problem made of faults: places, and what is wrong there; at least one.

    No more than :data:`MOST_FAULTS` are told, and nobody counts the others.
    """
    faults = faults[:MOST_FAULTS]
    at, what = faults[0]
    least = "at least " if len(faults) == MOST_FAULTS else ""
    more = f" (and {least}{len(faults) - 1} more)" if len(faults) > 1 else ""
    return Problem(
        422,
        "Unprocessable Content",
        f"{at}: {what}{more}" if at else f"{what}{more}",
        errors=[{"at": place, "what": told} for place, told in faults],
    )


def date_in(text: Any) -> date | None:
    """The date in ``2026-03-09``; None where it is written otherwise, or there is no such day.

    >>> date_in("2026-03-09"), date_in("2026-02-30"), date_in("20260309")
    (datetime.date(2026, 3, 9), None, None)
    """
    return _known_date(text) if type(text) is str and len(text) == len("2026-03-09") else None


@lru_cache(maxsize=1024)
def _known_date(text: str) -> date | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _plain_questions(items: list[Any], limits: Limits) -> list[Question] | None:
    """Questions that are all an id and one bid, as those of large batches are; else None."""
    made, most, found = tuple.__new__, limits.id_chars, []
    for item in items:
        if type(item) is not dict or len(item) != 2:
            return None
        try:
            advertiser, bid = item["advertiser"], item["bid"]
        except KeyError:
            return None
        if type(bid) is not float or type(advertiser) is not str:
            return None
        if not 0 < bid <= MOST_BID or len(advertiser) > most or "\0" in advertiser:
            return None
        found.append(made(Question, (advertiser, None, [bid], None, None)))
    return found if len(found) <= limits.bids else None


def _any_questions(items: list[Any], limits: Limits) -> list[Question] | None:
    """Questions of any kind; None where one is not right, or they have too many bids."""
    found, room = [], limits.bids
    for item in items:
        question = _read(item, limits, room)
        if question is None:
            return None
        room -= len(question.bids)
        found.append(question)
    return found


def _read(item: Any, limits: Limits, room: int) -> Question | None:
    """The question in an object; None where it is not right, or has more than ``room`` bids."""
    if type(item) is not dict:
        return None
    get: Callable[[str], Any] = item.get
    advertiser, text, given, day = get("advertiser"), get("text"), get("supply"), get("day")
    bids = _bids(get("bid"), room)
    supply = None if given is None else _supply(given)
    on = None if day is None else date_in(day)
    named, told = advertiser is not None, text is not None
    right = (
        bids is not None
        and (not named or _is_text(advertiser, limits.id_chars))
        and (not told or _is_text(text, limits.text_chars))
        and (named or told)
        and (given is None or (supply is not None and day is None))
        and (day is None or on is not None)
        # fewer than the object has: one is null, or of a name that no question has
        and len(item) == 1 + named + told + (given is not None or day is not None)
    )
    return Question(advertiser, text, bids, supply, on) if right and bids else None


def _is_text(value: Any, most: int) -> bool:
    return type(value) is str and len(value) <= most and "\0" not in value


def _bids(bid: Any, room: int) -> list[float] | None:
    """The bids in a number, a list or a range; None where they are not right, or too many."""
    kind = type(bid)
    if kind is float or kind is int:
        return [float(bid)] if 0 < bid <= MOST_BID and room else None
    if kind is list:
        right = 0 < len(bid) <= room and _are_numbers(bid)
        return [float(b) for b in bid] if right and min(bid) > 0 and max(bid) <= MOST_BID else None
    if kind is not dict or bid.keys() != {"from", "to", "step"} or not _are_numbers(bid.values()):
        return None
    start, stop, step = bid["from"], bid["to"], bid["step"]
    if not (0 < start <= stop <= MOST_BID and 0 < step):
        return None
    # a step may be any number, and the largest are no floats
    return bids_between(float(start), float(stop), float(min(step, 2 * MOST_BID)), room)


def _are_numbers(values: Iterable[Any]) -> bool:
    return {float, int}.issuperset(map(type, values))


def _supply(value: Any) -> float | None:
    if (type(value) is float or type(value) is int) and 0 <= value <= MOST_SUPPLY:
        return float(value) + 0.0  # −0 is 0
    return None
