"""What is wrong with a question: the place, what is expected there, and what came."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from coterie.ads.protocol import Fault
from coterie.runtime.wording import in_words

#: A step of a path: a member, an item of a list, or any value of a mapping.
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_MEMBER = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
#: A rule of a type about one of its members.
_OF_MEMBER = re.compile(r"`(\w+)` ([^`]*)")
_MOST_SHOWN = 60
#: What a type is called, which types of JSON values it takes, and what its length counts.
_NAMES: dict[type[inspect.Type], tuple[str, tuple[type, ...], str]] = {
    inspect.IntType: ("a whole number", (int,), ""),
    inspect.FloatType: ("a number", (int, float), ""),
    inspect.StrType: ("a text", (str,), "characters"),
    inspect.DateType: ("a date such as 2026-03-09", (str,), ""),
    inspect.LiteralType: ("", (str,), ""),
    inspect.ListType: ("a list", (list,), "items"),
    inspect.DictType: ("an object", (dict,), "members"),
    inspect.StructType: ("an object", (dict,), ""),
}
_type_info = cache(inspect.type_info)


def fault_of(error: msgspec.ValidationError, kind: Any, given: Any = msgspec.UNSET) -> Fault:
    """Return the place where a value does not fit a type, what is expected there, and what came.

    ``given`` is the whole value, in types of JSON; UNSET if it could not be read.
    """
    try:
        at, what = _place_and_words(error, kind, given)
    except LookupError:  # the message quotes an unknown name that looks like a path
        at, what = "", "unknown name"
    return Fault(printable(at.lstrip(".")), printable(what))


def printable(text: str, most: int = 300) -> str:
    """Return a text on one line, without control characters, cut to a length."""
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in text[: most + 1]
    )
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _place_and_words(error: msgspec.ValidationError, kind: Any, given: Any) -> tuple[str, str]:
    message, _, path = str(error).partition(" - at `$")
    types, place = _alternatives(_type_info(kind)), ""
    for step in _STEP.finditer(path):
        key, types = _inside(types, step, given)
        try:
            given = given[key]
        except (TypeError, LookupError):  # not known, or a member that came twice
            given = msgspec.UNSET
        place += step[0] if step[2] else f".{key}"
    if error.__cause__ is not None:  # a rule of the type itself, in its own words
        own = _OF_MEMBER.fullmatch(message)
        return (f"{place}.{own[1]}", f"it {own[2]}") if own else (place, message)
    if member := _MEMBER.fullmatch(message):
        fields = {one.encode_name: one.type for one in _first(types, inspect.StructType).fields}
        at = f"{place}.{member[2]}"
        if member[2] in fields:
            return at, f"it is missing; it must be {_described(_alternatives(fields[member[2]]))}"
        known = f"known are {in_words([*fields])}" if fields else "none is known here"
        return at, f"unknown name; {known}"
    came = "" if given is msgspec.UNSET else f", not {_shown(given)}"
    fitting = [one for one in types if _is_of(given, one)]
    return place, f"it must be {_described(fitting or types)}{came}"


def _inside(
    types: Sequence[inspect.Type], step: re.Match[str], given: Any
) -> tuple[Any, list[inspect.Type]]:
    """Return the key of a step, and the types that are expected there."""
    if step[1]:
        fields = _first(types, inspect.StructType).fields
        return step[1], _alternatives({one.encode_name: one.type for one in fields}[step[1]])
    if step[2]:
        return int(step[2]), _alternatives(_first(types, inspect.ListType).item_type)
    expected = _alternatives(_first(types, inspect.DictType).value_type)
    if not isinstance(given, dict) or not given:
        return "*", expected
    # the path does not name the key; a text can only be too long
    wrong = [key for key, value in given.items() if not _is_of(value, expected[0])]
    return (wrong or [max(given, key=lambda key: len(given[key]))])[0], expected


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        return _alternatives(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [one for part in kind.types for one in _alternatives(part)]
    return [kind]


def _first(types: Sequence[inspect.Type], wanted: type[Any]) -> Any:
    return [one for one in types if isinstance(one, wanted)][0]  # noqa: RUF015 (an IndexError)


def _is_of(value: Any, kind: inspect.Type) -> bool:
    return not isinstance(value, bool) and isinstance(value, _NAMES[type(kind)][1])


def _described(types: Sequence[inspect.Type]) -> str:
    """Return what is expected: a single type with its limits, several by their names."""
    if len(types) == 1:
        return _with_limits(types[0])
    *others, last = [_name(one) for one in types]
    return f"{', '.join(others)} or {last}"


def _name(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        *others, last = [json.dumps(value) for value in kind.values]
        return f"{', '.join(others)} or {last}"
    if isinstance(kind, inspect.StructType):
        required = [one.encode_name for one in kind.fields if one.required]
        return f"an object with {in_words(required)}" if required else "an object"
    return _NAMES[type(kind)][0]


def _with_limits(kind: inspect.Type) -> str:
    ends = {"gt": "above", "ge": "from", "lt": "below", "le": "up to"}
    limits = [
        f"{word} {limit:,.17g}"
        for end, word in ends.items()
        if (limit := getattr(kind, end, None)) is not None
    ]
    lengths = [getattr(kind, end, None) for end in ("min_length", "max_length")]
    if lengths[1] is not None:
        least = f"{lengths[0]:,} to" if lengths[0] else "up to"
        limits.append(f"of {least} {lengths[1]:,} {_NAMES[type(kind)][2]}")
    described = " ".join([_name(kind), " and ".join(limits)]).rstrip()
    return re.sub(r"(from \S+) and up to", r"\1 to", described)


def _shown(value: Any) -> str:
    """Return a value as JSON; of what is long, its type and length."""
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    if isinstance(value, dict):
        return f"an object of {len(value):,}"
    if isinstance(value, str) and len(value) > _MOST_SHOWN:
        return f"a text of {len(value):,} characters"
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"
