"""Amount units: micros, cents or whole units of the currency, for one or a thousand impressions.

A canonical amount is in micros per thousand impressions (CPM). The factor of a unit is the number
of canonical micros that 1 in this unit is: 10⁶ for ``currency``, 10⁹ for ``currency/impression``.
"""

from __future__ import annotations

import re

from coterie.errors import InvalidParameterError

__all__ = [
    "UNITS",
    "WHOLE_CURRENCIES",
    "factor_of",
    "is_whole_unit",
    "plausible_unit",
    "unit_in",
    "without_units",
]

#: Currencies of small units, whose amounts are whole numbers and often above 1000.
WHOLE_CURRENCIES = frozenset(
    {"CLP", "COP", "CRC", "HUF", "IDR", "IQD", "IRR", "ISK", "JPY", "KRW", "LAK", "LBP", "MMK"}
    | {"MNT", "NGN", "PYG", "RWF", "TZS", "UGX", "UZS", "VND", "XAF", "XOF"}
)

_FACTORS = {"micros": 1, "cents": 10**4, "currency": 10**6}
_PER_IMPRESSION = "/impression"
#: All units, by their names.
UNITS = (*_FACTORS, *(unit + _PER_IMPRESSION for unit in _FACTORS))

#: Words of column names that say the unit.
_WORDS = {
    **dict.fromkeys(("micros", "micro"), "micros"),
    **dict.fromkeys(("cents", "cent", "fen", "pence"), "cents"),
    **dict.fromkeys(("usd", "eur", "gbp", "chf", "cny", "jpy", "inr", "aud", "cad"), "currency"),
    **dict.fromkeys(("dollars", "euros"), "currency"),
}
#: Words that say that amounts are for a thousand impressions, which is the default.
_CPM = ("cpm", "ecpm")
#: Typical median bids, in micros per thousand impressions.
_TYPICAL = (50_000, 200_000_000)


def factor_of(unit: str) -> int:
    """Return the number of micros per thousand impressions that 1 in a unit is.

    >>> factor_of("currency"), factor_of("cents"), factor_of("micros/impression")
    (1000000, 10000, 1000)
    """
    name, slash, _ = unit.partition("/")
    if unit not in UNITS:
        raise InvalidParameterError(
            f"{unit!r} is no unit of amounts; the units are {', '.join(UNITS)}; without "
            "/impression they are for a thousand impressions"
        )
    return _FACTORS[name] * (1000 if slash else 1)


def is_whole_unit(unit: str) -> bool:
    """Return whether amounts in a unit are usually whole numbers."""
    return unit in {"micros", "cents", "micros/impression"}


def unit_in(name: str) -> str:
    """Return the unit that a column name says, or an empty text.

    >>> unit_in("bid_micros"), unit_in("Price (USD)"), unit_in("bid_price"), unit_in("bidFen")
    ('micros', 'currency', '', 'cents')
    """
    found = {_WORDS[word] for word in _words(name) if word in _WORDS}
    return found.pop() if len(found) == 1 else ""


def without_units(name: str) -> str:
    """Return a column name without the words that say a unit, unless nothing is left.

    >>> without_units("bid_cpm_usd"), without_units("CPM")
    ('bid', 'cpm')
    """
    words = _words(name)
    rest = [word for word in words if word not in _WORDS and word not in _CPM]
    return "_".join(rest or words)


def plausible_unit(median: float, are_whole: bool) -> str:
    """Return the unit in which a median bid is typical, or an empty text if there is not just one.

    >>> plausible_unit(2.53, False), plausible_unit(2_530_000, True), plausible_unit(0.0025, False)
    ('currency', 'micros', 'currency/impression')
    >>> plausible_unit(120, True)
    ''
    """
    least, most = _TYPICAL
    fitting = [
        unit
        for unit in UNITS
        if least <= median * factor_of(unit) <= most and is_whole_unit(unit) == are_whole
    ]
    # whole numbers may be in the currency too, as yen are
    if are_whole and least <= median * factor_of("currency") <= most:
        fitting.append("currency")
    if not are_whole and "cents/impression" in fitting and len(fitting) > 1:
        fitting.remove("cents/impression")  # hardly ever used
    return fitting[0] if len(fitting) == 1 else ""


def _words(name: str) -> list[str]:
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word for word in re.split(r"[\W_]+", parted.lower()) if word]
