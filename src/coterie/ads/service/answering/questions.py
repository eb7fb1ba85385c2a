"""What is asked for: JSON that was parsed, read strictly into questions.

A question has one way to be right and many to be wrong. The right way is read in one pass, with a
few comparisons a question; at the first doubt :func:`faults_in` reads everything
again, slowly, and tells all that is wrong and where. Nothing is guessed: a number in
quotes, a null, a member of another name are faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from coterie.ads.forecasts.calibration import LEVELS
from coterie.ads.forecasts.forecast_figures import (
    MOST_DAYS,
    SUPPLY_OR_DAY,
    bids_between,
    number_between,
)
from coterie.ads.protocol import Limits
from coterie.ads.service.problems import Problem

__all__ = [
    "LEVEL",
    "MOST_BID",
    "MOST_FAULTS",
    "MOST_SUPPLY",
    "Question",
    "date_in",
    "faults_in",
    "faulty",
    "read_questions",
]

#: The highest bid that may be asked about, in units of currency per thousand impressions.
MOST_BID = 1e9
#: The largest supply that may be asked about, in auctions: no figure overflows up to here.
MOST_SUPPLY = 1e15
#: The level of intervals where none is asked for.
LEVEL = 0.9
#: So many faults are told; who has more has made one mistake many times.
MOST_FAULTS = 20
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
Fault = tuple[str, str]
_MEMBERS = ("advertiser", "text", "bid", "supply", "day", "days", "level")
_RANGE = ("from", "to", "step")


class Question(NamedTuple):
    """One question: whose forecast, at which bids, in how many auctions, on which days."""

    advertiser: str | None  # this, the text, or both
    text: str | None
    bids: list[float]  # at least one, each above 0 and at most MOST_BID
    supply: float | None  # from 0 to MOST_SUPPLY
    day: date | None  # the first of the days; None where supply is given
    days: int = 1  # from 1 to MOST_DAYS
    level: float = LEVEL  # of the intervals, one of LEVELS


def read_questions(body: Any, limits: Limits) -> list[Question]:
    """Return the questions in a request's body, which is parsed JSON: one question, or a list.

    Raises
    ------
    Problem
        Of status 422, with the first faults and their places.

    Examples
    --------
    >>> [asked] = read_questions({"advertiser": "a", "bid": [1, 2], "days": 7}, Limits())
    >>> asked.bids, asked.day, asked.days, asked.level
    ([1.0, 2.0], None, 7, 0.9)
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
    raise faulty(faults_in(body, limits))


def faulty(faults: list[tuple[str, str]]) -> Problem:
    """Return the problem made of at least one fault: places, and what is wrong there."""
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
    """Return the date in ``2026-03-09``; None if it is no such date.

    >>> date_in("2026-03-09"), date_in("2026-02-30"), date_in("20260309")
    (datetime.date(2026, 3, 9), None, None)
    """
    return _known_date(text) if type(text) is str and len(text) == len("2026-03-09") else None


def faults_in(body: Any, limits: Limits) -> list[Fault]:
    """Return the first faults of a body of questions: the place of each, and what is wrong there.

    A place is written as in ``[3].bid.to``; of a single question as in ``bid.to``; it is empty
    where the fault is that of the whole.

    >>> faults_in({"advertiser": "adv-7", "bid": 0, "bids": 3}, Limits())
    [('bids', 'there is no member of this name; a question has advertiser, text, bid, ...'),
     ('bid', 'it must be above 0')]
    """
    return list(islice(_faults(body, limits), MOST_FAULTS))


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
        found.append(made(Question, (advertiser, None, [bid], None, None, 1, LEVEL)))
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
    """Return the question in an object; None if invalid or with more than ``room`` bids."""
    if type(item) is not dict:
        return None
    get: Callable[..., Any] = item.get
    advertiser, text, given, day = get("advertiser"), get("text"), get("supply"), get("day")
    days, level = get("days", 1), get("level", LEVEL)
    bids = _bids(get("bid"), room)
    supply = None if given is None else _supply(given)
    on = None if day is None else date_in(day)
    named, told = advertiser is not None, text is not None
    has = ("days" in item) + ("level" in item)
    right = (
        bids is not None
        and (not named or _is_text(advertiser, limits.id_chars))
        and (not told or _is_text(text, limits.text_chars))
        and (named or told)
        and (given is None or (supply is not None and day is None))
        and (day is None or on is not None)
        and _is_number_of_days(days)
        and _is_level(level)
        # fewer than the object has: one is null, or of a name that no question has
        and len(item) == 1 + named + told + (given is not None) + (day is not None) + has
    )
    return Question(advertiser, text, bids, supply, on, days, level) if right and bids else None


def _is_text(value: Any, most: int) -> bool:
    return type(value) is str and len(value) <= most and "\0" not in value


def _is_number_of_days(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST_DAYS


def _is_level(value: Any) -> bool:
    return type(value) is float and value in LEVELS


def _bids(bid: Any, room: int) -> list[float] | None:
    """Return the bids in a number, a list or a range; None if invalid or too many."""
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


def _faults(body: Any, limits: Limits) -> Iterator[Fault]:
    many = isinstance(body, list)
    if not many and not isinstance(body, dict):
        yield "", "the body must be a question, which is an object, or a list of questions"
        return
    items = body if many else [body]
    if not items:
        yield "", "the list has no question; ask at least one"
    if len(items) > limits.questions:
        yield (
            "",
            (f"there are {len(items):,} questions; ask at most {limits.questions:,} at a time"),
        )
        return
    total = sum(_number_of_bids(item, limits) for item in items)
    if total > limits.bids:  # and then nobody looks at each of them
        yield "", f"there are {total:,} bids in all; ask for at most {limits.bids:,} at a time"
        return
    for number, item in enumerate(items):
        place = f"[{number}]" if many else ""
        for at, what in _question(item, limits):
            yield f"{place}.{at}".strip(".") if at else place, what


def _question(item: Any, limits: Limits) -> Iterator[Fault]:
    if not isinstance(item, dict):
        yield "", f"a question must be an object, not {_kind(item)}"
        return
    for name in item:
        if name not in _MEMBERS:
            yield (
                _shown(name),
                f"there is no member of this name; a question has {', '.join(_MEMBERS)}",
            )
    if "advertiser" not in item and "text" not in item:
        yield "", "name an advertiser, or give the text of a new one"
    for name, most in (("advertiser", limits.id_chars), ("text", limits.text_chars)):
        if name in item:
            yield from ((name, what) for what in _string(item[name], most))
    if "bid" in item:
        yield from _bid(item["bid"], limits)
    else:
        yield "bid", "it is missing"
    yield from _auctions(item)
    if not _is_level(item.get("level", LEVEL)):
        yield "level", f"it must be one of {', '.join(f'{level:g}' for level in LEVELS)}"


def _auctions(item: dict[str, Any]) -> Iterator[Fault]:
    if "supply" in item and "day" in item:
        yield "day", SUPPLY_OR_DAY
    if "supply" in item:
        yield from (("supply", what) for what in _supply_faults(item["supply"]))
    if "day" in item and date_in(item["day"]) is None:
        yield "day", "it must be a date as in 2026-03-09"
    if not _is_number_of_days(item.get("days", 1)):
        yield "days", f"it must be a whole number from 1 to {MOST_DAYS}"


def _string(value: Any, most: int) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"it must be a text, not {_kind(value)}"
    elif len(value) > most:
        yield f"it has {len(value):,} characters, and may have {most:,}"
    elif "\0" in value:
        yield "it holds the character NUL, which no text may"


def _supply_faults(value: Any) -> Iterator[str]:
    if not _is_number(value):
        yield f"it must be a number, not {_kind(value)}"
    elif not 0 <= value <= MOST_SUPPLY:
        yield f"it must be a number of auctions from 0 to {MOST_SUPPLY:g}"


def _bid(value: Any, limits: Limits) -> Iterator[Fault]:
    if _is_number(value):
        yield from (("bid", what) for what in _amount(value))
    elif isinstance(value, list):
        yield from _listed(value, limits)
    elif isinstance(value, dict):
        yield from _ranged(value, limits)
    else:
        yield (
            "bid",
            "it must be a number, a list of numbers or a range with from, to and step, "
            f"not {_kind(value)}",
        )


def _listed(values: list[Any], limits: Limits) -> Iterator[Fault]:
    if not values:
        yield "bid", "the list has no bid; give at least one"
    if len(values) > limits.bids:
        yield "bid", f"there are {len(values):,} bids; ask for at most {limits.bids:,} at a time"
        return
    for number, value in enumerate(values):
        yield from ((f"bid[{number}]", what) for what in _amount(value))


def _ranged(values: dict[str, Any], limits: Limits) -> Iterator[Fault]:
    faults: list[Fault] = []
    for name in values:
        if name not in _RANGE:
            faults.append((f"bid.{_shown(name)}", "there is no member of this name in a range"))
    for name in _RANGE:
        if name not in values:
            faults.append((f"bid.{name}", "it is missing; a range has from, to and step"))
        else:
            bounded = name != "step"
            faults += [(f"bid.{name}", what) for what in _amount(values[name], bounded)]
    yield from faults
    if faults:
        return
    if values["from"] > values["to"]:
        yield "bid.to", "it must not be below from"
    elif not _number_between(values, limits):
        yield "bid.step", f"it is too small: ask for at most {limits.bids:,} bids at a time"


def _amount(value: Any, bounded: bool = True) -> Iterator[str]:
    if not _is_number(value):
        yield f"it must be a number, not {_kind(value)}"
    elif not value > 0:
        yield "it must be above 0"
    elif bounded and value > MOST_BID:
        yield f"it must be at most {MOST_BID:g}"


def _number_of_bids(item: Any, limits: Limits) -> int:
    """How many bids a question asks for; 0 where they are faulty, or too many by themselves."""
    bid = item.get("bid") if isinstance(item, dict) else None
    if isinstance(bid, list):
        return len(bid) if len(bid) <= limits.bids else 0
    if isinstance(bid, dict):
        return 0 if next(_ranged(bid, limits), None) else _number_between(bid, limits)
    return int(_is_number(bid))


def _number_between(values: dict[str, Any], limits: Limits) -> int:
    step = float(min(values["step"], 2 * MOST_BID))
    return number_between(float(values["from"]), float(values["to"]), step, limits.bids)


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _kind(value: Any) -> str:
    """Return what a value is, as JSON calls it."""
    kinds = {str: "a text", bool: "true or false", dict: "an object", list: "a list"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _shown(name: str) -> str:
    """Return the name of a member that no question has, cut to what fits in a line."""
    return name if len(name) <= 40 else f"{name[:39]}…"
