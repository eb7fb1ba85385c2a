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
    """Return an estimated count, rounded to two to four significant digits.

    >>> [format_count(number) for number in (1234567, 123456, 98.7, 3.14159, 0.0001)]
    ['1.23M', '123,500', '99', '3.1', '<0.01']
    """
    if 0 < number < 0.01:
        return "<0.01"
    if number >= 1e6:
        return exact(number)
    if number >= 1e4:
        return f"{float(f'{number:.4g}'):,.0f}"
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def format_span(interval: tuple[float, float], written: Callable[[float], str]) -> str:
    """Return both ends of an interval as they are written; of counts the whole numbers in it.

    >>> format_span((0.25, 0.5), percent)
    '25.0%–50.0%'
    >>> [format_span(ends, format_count) for ends in ((12.6, 25000), (0.4, 3.7), (0, 0.09))]
    ['13–25,000', '1–3', '0']
    """
    low, high = interval
    if written is not format_count:
        return f"{written(low)}–{written(high)}"
    # counts are whole numbers, the ends of their interval need not be
    rounding = 1e-9
    first = math.ceil(low - rounding) if low < 10 else low
    last = math.floor(high + rounding) if high < 10 else high
    return format_count(last) if first >= last else f"{format_count(first)}–{format_count(last)}"


def exact(number: float) -> str:
    """Return an exact count; millions and billions are shortened to three digits.

    >>> exact(123456), exact(1234567), exact(20e9)
    ('123,456', '1.23M', '20B')
    """
    for size, letter in ((1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{float(f'{number / size:.3g}'):g}{letter}"
    return f"{number:,.0f}"


def number_of(number: float, name: str) -> str:
    """Return a count and the name of what is counted, in the plural if needed.

    >>> number_of(1, "day"), number_of(1268, "advertiser")
    ('1 day', '1,268 advertisers')
    """
    return f"{exact(number)} {name if number == 1 else name + 's'}"


def currency_symbol(currency: str) -> str:
    """Return the symbol of a currency, or its code and a space if it has no common symbol."""
    return CURRENCY_SYMBOLS.get(currency, f"{currency}\u00a0" if currency else "")


def money(amount: float, symbol: str = "") -> str:
    """Return an amount of money with a symbol in front.

    >>> money(12346, "$"), money(12.3, "$"), money(0.0123, "$"), money(0, "$")
    ('$12,350', '$12.30', '$0.012', '$0')
    """
    if 0 < amount < 0.0001:
        return f"<{symbol}0.0001"
    if amount >= 1000:
        return symbol + format_count(amount)
    return symbol + (f"{amount:.2f}" if amount >= 0.1 else f"{amount:.2g}")


def percent(share: float | None) -> str:
    """Return a fraction as a percentage.

    >>> percent(0.1234), percent(-0.002), percent(0.00001), percent(None)
    ('12.3%', '−0.2%', '<0.01%', '–')
    """
    if share is None:
        return UNKNOWN
    size = 100 * abs(share)
    if 0 < size < 0.01:
        return "<0.01%"
    return f"{'−' if share < 0 else ''}{f'{size:.1f}' if size >= 1 else f'{size:.2g}'}%"


def signed(share: float | None) -> str:
    """Return a fraction as a percentage with its sign."""
    return f"+{percent(share)}" if share is not None and share >= 0.0001 else percent(share)


def format_cell(value: Any) -> str:
    """Return the text of a table cell.

    >>> format_cell(None), format_cell(True), format_cell(-1234.5), format_cell("text")
    ('–', 'yes', '−1,234.5', 'text')
    """
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:,}".replace("-", "−")


def day(iso: str) -> str:
    """Return an ISO date in words.

    >>> day("2026-03-02")
    '2 March 2026'
    """
    then = date.fromisoformat(iso)
    return f"{then.day} {then:%B %Y}"


def period(first: str, last: str) -> str:
    """Return a period of days; a common month and year appear once.

    >>> period("2026-03-02", "2026-03-08"), period("2025-12-29", "2026-01-04")
    ('2–8 March 2026', '29 December 2025 – 4 January 2026')
    """
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    if start == end:
        return day(last)
    if (start.year, start.month) == (end.year, end.month):
        return f"{start.day}–{day(last)}"
    return f"{day(first)} – {day(last)}"


def moment(iso: str) -> str:
    """Return an ISO date and time in words.

    >>> moment("2026-03-09T08:30:00+00:00")
    '9 March 2026, 08:30 UTC'
    """
    then = datetime.fromisoformat(iso)
    return f"{then.day} {then:%B %Y, %H:%M}{f' {then.tzname()}' if then.tzinfo else ''}"


def in_words(items: Sequence[str]) -> str:
    """Join the items with commas and a final "and".

    >>> in_words(["text", "win", "cost"])
    'text, win and cost'
    """
    return ", ".join(items[:-1]) + f" and {items[-1]}" if len(items) > 1 else "".join(items)


def capitalised(text: str) -> str:
    """Return a text that begins with a capital letter; the rest is unchanged.

    >>> capitalised("its 7 bids in USD")
    'Its 7 bids in USD'
    """
    return f"{text[:1].upper()}{text[1:]}"


def visible(text: str) -> str:
    r"""Return the text with visible symbols in place of control characters.

    Half of a surrogate pair becomes the replacement character; line breaks and tabs stay.

    >>> visible("a\x00b") == "a\u2400b", visible("a\ud800b") == "a\ufffdb"
    (True, True)
    """
    if text.isprintable():
        return text
    shown = []
    for character in text:
        kind = unicodedata.category(character)
        if kind == "Cs":
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

    >>> import numpy as np
    >>> @dataclasses.dataclass
    ... class Counts:
    ...     table: np.ndarray
    ...     size: np.ndarray
    ...     history: dict
    ...     __repr__ = short_repr
    >>> Counts(np.zeros((40, 2)), np.array([30, 10]), {"objective": [0.5] * 300})
    Counts(table=float64 (40, 2), size=[30, 10], history={'objective': list of 300})
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
        return _short_array(value)
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


def _short_array(array: Any) -> str:
    import numpy as np  # here, because programs which only write text do not need it

    if isinstance(array, np.generic):
        return repr(array.item())
    if isinstance(array, np.ndarray) and array.ndim == 1 and len(array) <= _MOST_ENTRIES:
        # three digits are enough to recognise a value
        return _cut(np.array2string(array, precision=3, separator=", "))
    kind = "" if isinstance(array, np.ndarray) else f"{type(array).__name__} of "
    return f"{kind}{array.dtype} {tuple(array.shape)}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
