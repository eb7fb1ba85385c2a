"""Text forms of numbers, amounts, dates and records, for reports, errors and the terminal.

The scripts of the report page (``numbers.js``) format numbers in the same way.
"""

from __future__ import annotations

import dataclasses
import math
import unicodedata
from collections.abc import Callable, Sequence, Sized
from datetime import date, datetime
from typing import Any

CURRENCY_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "CNY": "CN¥", "INR": "₹"}
UNKNOWN = "–"

#: Longer containers are shown by length, longer reprs are cut.
_MOST_ENTRIES = 6
_MOST_CHARACTERS = 60


def format_count(number: float) -> str:
    """Return an estimated count, rounded to two to four significant digits."""
    if 0 < number < 0.01:
        return "<0.01"
    if number >= 1e6:
        return exact(number)
    if number >= 1e4:
        return f"{float(f'{number:.4g}'):,.0f}"
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def format_span(interval: tuple[float, float], written: Callable[[float], str]) -> str:
    """Return both ends of an interval as they are written; of counts the whole numbers in it."""
    low, high = interval
    if written is not format_count:
        return f"{written(low)}–{written(high)}"
    # counts are whole numbers, the ends of their interval need not be
    rounding = 1e-9
    first = math.ceil(low - rounding) if low < 10 else low
    last = math.floor(high + rounding) if high < 10 else high
    return format_count(last) if first >= last else f"{format_count(first)}–{format_count(last)}"


def exact(number: float) -> str:
    """Return an exact count; millions and billions are shortened to three digits."""
    for size, letter in ((1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{float(f'{number / size:.3g}'):g}{letter}"
    return f"{number:,.0f}"


def number_of(number: float, name: str) -> str:
    """Return a count and the name of what is counted, in the plural if needed."""
    return f"{exact(number)} {name if number == 1 else name + 's'}"


def currency_symbol(currency: str) -> str:
    """Return the symbol of a currency, or its code and a space if it has no common symbol."""
    return CURRENCY_SYMBOLS.get(currency, f"{currency}\u00a0" if currency else "")


def money(amount: float, symbol: str = "") -> str:
    if 0 < amount < 0.0001:
        return f"<{symbol}0.0001"
    if amount >= 1000:
        return symbol + format_count(amount)
    return symbol + (f"{amount:.2f}" if amount >= 0.1 else f"{amount:.2g}")


def percent(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    size = 100 * abs(share)
    if 0 < size < 0.01:
        return "<0.01%"
    return f"{'−' if share < 0 else ''}{f'{size:.1f}' if size >= 1 else f'{size:.2g}'}%"


def signed(share: float | None) -> str:
    return f"+{percent(share)}" if share is not None and share >= 0.0001 else percent(share)


def format_cell(value: Any) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:,}".replace("-", "−")


def day(iso: str) -> str:
    then = date.fromisoformat(iso)
    return f"{then.day} {then:%B %Y}"


def period(first: str, last: str) -> str:
    """Return a period of days; a common month and year appear once."""
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    if start == end:
        return day(last)
    if (start.year, start.month) == (end.year, end.month):
        return f"{start.day}–{day(last)}"
    return f"{day(first)} – {day(last)}"


def moment(iso: str) -> str:
    then = datetime.fromisoformat(iso)
    return f"{then.day} {then:%B %Y, %H:%M}{f' {then.tzname()}' if then.tzinfo else ''}"


def in_words(items: Sequence[str]) -> str:
    """Join the items with commas and a final "and"."""
    return ", ".join(items[:-1]) + f" and {items[-1]}" if len(items) > 1 else "".join(items)


def capitalised(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def visible(text: str) -> str:
    """Return the text with symbols for control characters other than line breaks and tabs."""
    if text.isprintable():
        return text
    shown = []
    for character in text:
        kind = unicodedata.category(character)
        if kind == "Cs":  # half of a surrogate pair
            shown.append("\ufffd")
        elif kind == "Cc" and character not in "\n\t":
            # U+2400 + c is the picture of the control character c, U+2421 that of DEL
            shown.append(chr(0x2400 + ord(character)) if ord(character) < 0x20 else "\u2421")
        else:
            shown.append(character)
    return "".join(shown)


def short_repr(record: Any) -> str:
    """Return the repr of a dataclass in one line.

    Large arrays are shown by type and shape, long containers by length, and fields that are None
    are left out. In the body of a dataclass: ``__repr__ = short_repr``.
    """
    values = {
        field.name: getattr(record, field.name)
        for field in dataclasses.fields(record)
        if field.repr
    }
    shown = [f"{name}={_short(value)}" for name, value in values.items() if value is not None]
    return f"{type(record).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        import numpy as np  # here, because programs which only write text do not need it

        if isinstance(value, np.generic):
            return repr(value.item())
        if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) <= _MOST_ENTRIES:
            # three digits are enough to recognise a value
            return _cut(np.array2string(value, precision=3, separator=", "))
        kind = "" if isinstance(value, np.ndarray) else f"{type(value).__name__} of "
        return f"{kind}{value.dtype} {tuple(value.shape)}"
    if isinstance(value, Sized) and not isinstance(value, str):
        if len(value) > _MOST_ENTRIES:
            return f"{type(value).__name__} of {len(value):,}"
        if type(value) is dict:
            return f"{{{', '.join(f'{key!r}: {_short(one)}' for key, one in value.items())}}}"
        if type(value) is list or type(value) is tuple:
            inner, comma = ", ".join(map(_short, value)), "," if len(value) == 1 else ""
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{comma})"
    elif hasattr(value, "get_params"):
        return f"{type(value).__name__}(…)"
    return repr(value) if dataclasses.is_dataclass(value) else _cut(repr(value))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
