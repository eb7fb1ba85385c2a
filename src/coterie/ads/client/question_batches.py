"""Questions of any number and size, packed into requests that a forecast service takes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from coterie.ads.forecasts.forecast_figures import (
    SUPPLY_OR_DAY,
    checked_bids,
    checked_day,
    checked_supply,
    number_between,
)
from coterie.ads.protocol import Limits
from coterie.errors import InvalidParameterError

__all__ = ["Batch", "Piece", "batches_of"]

_LIMITS = Limits()
_BRACKETS = 2
# a text is compared with every advertiser's: so many are answered well within a request's time
_MOST_TEXTS = 50
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_MEMBERS = ("advertiser", "bid", "supply", "day", "days", "text", "level")
# what need not be sent
_DEFAULTS = {"days": 1, "level": 0.9}


@dataclass(frozen=True)
class Piece:
    """A question, or a part of its bids where it has more than a request may have."""

    question: int  # its number among all
    first_bid: int  # which of the question's bids it begins with
    bids: int  # how many it has
    texts: int  # 1 where it has a text
    text_chars: int
    body: bytes  # as JSON
    last: bool  # whether the question ends with it


@dataclass
class Batch:
    """The pieces of one request; ``many`` where they come from a list of questions."""

    many: bool = True
    pieces: list[Piece] = field(default_factory=list)
    bids: int = 0
    texts: int = 0
    text_chars: int = 0
    size: int = _BRACKETS

    @property
    def body(self) -> bytes:
        """The request's: a list, or a lone question without one around it."""
        joined = b",".join(piece.body for piece in self.pieces)
        return joined if len(self.pieces) == 1 else b"[" + joined + b"]"

    def has_room_for(self, piece: Piece) -> bool:
        """Whether the request may have this piece too."""
        return not self.pieces or (
            len(self.pieces) < _LIMITS.questions
            and self.bids + piece.bids <= _LIMITS.bids
            and self.texts + piece.texts <= _MOST_TEXTS
            and self.text_chars + piece.text_chars <= _LIMITS.all_text_chars
            and self.size + len(piece.body) + 1 <= _LIMITS.body_bytes
        )

    def add(self, piece: Piece) -> None:
        """Take it in."""
        self.pieces.append(piece)
        self.bids += piece.bids
        self.texts += piece.texts
        self.text_chars += piece.text_chars
        self.size += len(piece.body) + 1

    def placed(self, place: str) -> str:
        """Return the place of a fault in the request as a place in what the caller asked.

        >>> pieces = [Piece(number, 0, 1, 0, 0, b"", True) for number in (1000, 1001)]
        >>> Batch(pieces=pieces).placed("[1].bid.to")
        '[1001].bid.to'
        """
        found = re.fullmatch(r"(?:\[(\d{1,9})\])?\.?(?:bid\[(\d{1,9})\])?(.*)", place, re.DOTALL)
        alone = len(self.pieces) == 1
        if found is None or (found[1] is None) is not alone:
            return place  # that of the whole request
        number = int(found[1] or 0)
        if number >= len(self.pieces):
            return place
        piece = self.pieces[number]
        bid = "" if found[2] is None else f"bid[{int(found[2]) + piece.first_bid}]"
        rest = bid + found[3]
        return f"[{piece.question}].{rest}".rstrip(".") if self.many else rest


def batches_of(questions: Iterable[Mapping[str, Any]], *, many: bool = True) -> Iterator[Batch]:
    """Yield all questions in their order, as many to a request as it may have.

    Questions are taken as they are needed. Messages count them from 0 where they are ``many``.

    >>> [batch] = batches_of([{"advertiser": "adv-7", "bid": 2, "supply": None}])
    >>> batch.body
    b'{"advertiser":"adv-7","bid":[2.0]}'
    """
    batch = Batch(many)
    for number, question in enumerate(questions):
        place = f"[{number}]" if many else ""
        for piece in _pieces(number, question, place):
            if not batch.has_room_for(piece):
                yield batch
                batch = Batch(many)
            batch.add(piece)
    if batch.pieces:
        yield batch


def _pieces(number: int, question: Mapping[str, Any], place: str) -> Iterator[Piece]:
    """One question as JSON, in parts where it has more bids than a request may have."""
    members = _checked_members(question, place)
    texts = int("text" in members), len(members.get("text", ""))
    bids = members["bid"]
    if isinstance(bids, dict):
        yield Piece(number, 0, _number_in_range(bids), *texts, _written(members, place), True)
        return
    for first in range(0, len(bids), _LIMITS.bids):
        part = bids[first : first + _LIMITS.bids]
        body = _written(members | {"bid": part}, place)
        yield Piece(number, first, len(part), *texts, body, first + len(part) == len(bids))


def _checked_members(question: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the members of a question that say something, as JSON has them."""
    where = f"{place}." if place else ""
    if not isinstance(question, Mapping):
        raise InvalidParameterError(
            f"{place}: a question is a dict as in {{'advertiser': 'adv-00042', 'bid': 2.5}}, not "
            f"a {type(question).__name__}"
        )
    if unknown := [name for name in question if name not in _MEMBERS]:
        raise InvalidParameterError(
            f"{where}{unknown[0]}: there is no member of this name; a question has "
            f"{', '.join(_MEMBERS)}"
        )
    if question.get("bid") is None:
        raise InvalidParameterError(f"{where}bid: it is missing")
    members = {name: value for name, value in question.items() if value is not None}
    for name in members.keys() & {"advertiser", "day", "text"}:
        members[name] = str(members[name])  # ids may be numbers, and days dates
    try:
        members["bid"] = _bids(members["bid"])
        if "supply" in members:
            members["supply"] = checked_supply(members["supply"])
        if "days" in members:
            checked_day(None, members["days"])
            members["days"] = int(members["days"])
        if "level" in members:
            members["level"] = _level(members["level"])
        if {"supply", "day"} <= members.keys():
            raise InvalidParameterError(f"day: {SUPPLY_OR_DAY}")
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{where}{error}") from None
    for name, value in _DEFAULTS.items():
        if members.get(name) == value:
            del members[name]
    return members


def _level(level: Any) -> float:
    """Return a number; which levels there are is for the service to tell."""
    if isinstance(level, Real):
        return float(level)
    raise InvalidParameterError(f"level={level!r}: it must be a number between 0 and 1")


def _bids(bid: Any) -> list[float] | dict[str, Any]:
    """Return a list of numbers, or a range, whose faults are for the service to tell."""
    if type(bid) is float and 0 < bid < math.inf:
        return [bid]  # most are this, and an array would take ten times as long
    if not isinstance(bid, Mapping):
        return checked_bids(bid).tolist()
    return {
        str(name): value.item() if hasattr(value, "item") else value for name, value in bid.items()
    }


def _number_in_range(bid: Mapping[str, Any]) -> int:
    """How many bids a range has; where that cannot be told, the service will say why."""
    try:
        start, stop, step = (float(bid[name]) for name in ("from", "to", "step"))
        return max(number_between(start, stop, step, _LIMITS.bids), 1)
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return 1


def _written(members: Mapping[str, Any], place: str) -> bytes:
    try:
        return _JSON.encode(members).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(
            f"{place or 'the question'} cannot be written as JSON: {error}"
        ) from error
