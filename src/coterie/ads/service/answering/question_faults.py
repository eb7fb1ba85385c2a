"""What is wrong with questions, and where: the slow and thorough reading."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from coterie.ads.forecasts.forecast_figures import SUPPLY_OR_DAY, number_between
from coterie.ads.protocol import Limits
from coterie.ads.service.answering.questions import MOST_BID, MOST_FAULTS, MOST_SUPPLY, date_in

__all__ = ["faults_in"]

Fault = tuple[str, str]

_MEMBERS = ("advertiser", "text", "bid", "supply", "day")
_RANGE = ("from", "to", "step")


def faults_in(body: Any, limits: Limits) -> list[Fault]:
    """The first faults of a body of questions: the place of each, and what is wrong there.

    A place is written as in ``[3].bid.to``; of a single question as in ``bid.to``; it is empty
    where the fault is that of the whole.

    Examples
    --------
    >>> faults_in({"advertiser": "adv-7", "bid": 0, "bids": 3}, Limits())
    [('bids', 'there is no member of this name; a question has advertiser, text, bid, supply, day'),
     ('bid', 'it must be above 0')]
    """
    return list(islice(_faults(body, limits), MOST_FAULTS))


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
    if "supply" in item and "day" in item:
        yield "day", SUPPLY_OR_DAY
    if "supply" in item:
        yield from (("supply", what) for what in _supply(item["supply"]))
    if "day" in item and date_in(item["day"]) is None:
        yield "day", "it must be a date as in 2026-03-09"


def _string(value: Any, most: int) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"it must be a text, not {_kind(value)}"
    elif len(value) > most:
        yield f"it has {len(value):,} characters, and may have {most:,}"
    elif "\0" in value:
        yield "it holds the character NUL, which no text may"


def _supply(value: Any) -> Iterator[str]:
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
    """What a value is, as JSON calls it."""
    kinds = {str: "a text", bool: "true or false", dict: "an object", list: "a list"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _shown(name: str) -> str:
    """The name of a member that no question has, cut to what fits in a line."""
    return name if len(name) <= 40 else f"{name[:39]}…"
