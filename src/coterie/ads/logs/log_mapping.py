"""Log mapping: how the user says what the columns of a log mean, in code, options or a file.

A mapping file is TOML::

    time_zone = "Europe/Berlin"

    [columns]
    bid = "bid_price"

    [amounts]
    all = "currency"
    floor = "cents"
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from coterie.ads.logs.amount_units import factor_of
from coterie.ads.logs.column_roles import AMOUNTS, role_of
from coterie.ads.logs.log_formats import format_of
from coterie.ads.logs.time_formats import TimeFormat
from coterie.errors import InvalidParameterError, TableError

__all__ = ["ALL", "LogMapping", "mapping_of", "read_mapping"]

#: The key of the unit of all amounts whose column does not say its unit.
ALL = "all"


@dataclass(frozen=True)
class LogMapping:
    """What the user says about the columns of a log.

    Parameters
    ----------
    columns : mapping of str to str
        Column of the log by role: advertiser, time, day, bid, won, price, min_to_win, floor,
        auction_type, currency, weight, click, conversion, campaign. Canonical names are accepted as
        keys too. An empty column leaves a role out.
    amounts : str or mapping of str to str
        Unit of all amounts, or units by role and for ``all``: micros, cents or currency, per
        thousand impressions, or with ``/impression`` per impression. A column whose name says its
        unit, such as ``bid_micros``, needs none.
    time_zone : str
        Zone of times that do not have one; by default UTC.
    day_zone : str
        Zone in which days begin and end; by default UTC.
    date_format : {"day-first", "month-first"} or empty
        Order of dates that end with the year; by default recognised, if it can be.
    decimal_comma : bool
        Numbers in texts are written as 2,50.
    won_when_priced : bool
        There is no column for won: a bid won if its price is above 0.
    currency : str
        Currency of all amounts, such as EUR, if no column has it.
    format : {"openrtb", "ipinyou", "gam"} or empty
        See :data:`~coterie.ads.logs.log_formats.FORMATS`.
    join_on : str
        Column that identifies a bid in the bids and in their notices, or ``BIDS=NOTICES`` if its
        name differs; by default recognised.
    unnoticed_lost : bool
        A bid without a win notice and without a loss notice lost.

    Examples
    --------
    >>> mapping = LogMapping({"bid_micros": "bid_price"}, "currency")
    >>> mapping.columns, mapping.amounts
    ({'bid': 'bid_price'}, {'all': 'currency'})
    >>> print(" ".join(mapping.options()))
    --column bid=bid_price --amounts currency
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, str] | str = field(default_factory=dict)
    time_zone: str = ""
    day_zone: str = ""
    date_format: str = ""
    currency: str = ""
    decimal_comma: bool = False
    won_when_priced: bool = False
    format: str = ""
    join_on: str = ""
    unnoticed_lost: bool = False

    def __post_init__(self) -> None:
        columns = _by_role(self.columns, "columns")
        _refuse_shared(columns)
        amounts = self.units
        whole = {ALL: amounts[ALL]} if ALL in amounts else {}
        amounts = whole | _by_role({k: v for k, v in amounts.items() if k != ALL}, "amounts")
        for role, unit in amounts.items():
            if role not in {ALL, *AMOUNTS}:
                raise InvalidParameterError(
                    f"amounts: {role} is not an amount; these are: {', '.join(AMOUNTS)}"
                )
            factor_of(unit)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "amounts", amounts)
        if self.currency and not re.fullmatch("[A-Z]{3}", self.currency):
            raise InvalidParameterError(
                f"currency={self.currency!r}: it must be a code of three letters, such as EUR"
            )
        format_of(self.format)
        _ = self.times

    @property
    def times(self) -> TimeFormat:
        """The time zones and the order of dates."""
        return TimeFormat(self.time_zone or "UTC", self.day_zone or "UTC", self.date_format)

    @property
    def units(self) -> Mapping[str, str]:
        """The units of amounts, by role and for ``all``."""
        return {ALL: self.amounts} if isinstance(self.amounts, str) else self.amounts

    def updated(self, other: LogMapping) -> LogMapping:
        """Return this mapping with everything that another one says.

        Parameters
        ----------
        other : LogMapping
            What it says replaces what this mapping says.
        """
        given: dict[str, Any] = {one.name: getattr(other, one.name) for one in fields(other)}
        for name in ("columns", "amounts"):
            given[name] = {**getattr(self, name), **given[name]}
        return replace(self, **{name: value for name, value in given.items() if value})

    def options(self) -> list[str]:
        """Return the options of the command line that say the same."""
        words = []
        for role, column in self.columns.items():
            words += ["--column", f"{role}={column}"]
        for role, unit in self.units.items():
            words += ["--amounts", unit if role == ALL else f"{role}={unit}"]
        for name, value in self._plain().items():
            option = f"--{name.replace('_', '-')}"
            words += [option] if value is True else [option, value]
        return words

    def as_toml(self, guesses: Mapping[str, str] | None = None) -> str:
        """Return the text of a mapping file.

        Parameters
        ----------
        guesses : mapping of str to str, optional
            The reason for each entry that is a guess, by its name, as in ``amounts.all``. These
            entries are comments, for the user to confirm.
        """
        reasons = guesses or {}

        def line(key: str, value: str | bool, table: str = "") -> str:
            # JSON writes texts and truth values as TOML does
            entry = f"{key} = {json.dumps(value, ensure_ascii=False)}"
            reason = reasons.get(f"{table}{key}")
            return entry if reason is None else f"# {entry}  # a guess: {reason}"

        lines = [line(name, value) for name, value in self._plain().items()]
        for name in ("columns", "amounts"):
            entries = getattr(self, name)
            if entries:
                lines += ["", f"[{name}]"]
                lines += [line(key, value, f"{name}.") for key, value in entries.items()]
        return "\n".join(lines).lstrip("\n") + "\n"

    def _plain(self) -> dict[str, Any]:
        """Return the settings that are given, without columns and amounts."""
        names = [one.name for one in fields(self) if one.name not in {"columns", "amounts"}]
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def mapping_of(
    mapping: LogMapping | str | os.PathLike[str] | None,
    columns: Mapping[str, str] | None = None,
    amounts: str | Mapping[str, str] | None = None,
) -> LogMapping:
    """Return a mapping, or that of a file, with some columns and amounts replaced."""
    if not isinstance(mapping, LogMapping):
        mapping = LogMapping() if mapping is None else read_mapping(mapping)
    return mapping.updated(LogMapping(columns or {}, amounts or {}))


def read_mapping(path: str | os.PathLike[str]) -> LogMapping:
    """Read a mapping file.

    Raises
    ------
    TableError
        The file cannot be read, or says something that a mapping does not have.
    """
    try:
        found = tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: the mapping file is not TOML: {error}") from error
    types = {one.name: bool if one.default is False else str for one in fields(LogMapping)}
    for name, value in found.items():
        is_table = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
        is_right = (
            is_table if name in {"columns", "amounts"} else isinstance(value, types.get(name, ()))
        )
        if not is_right and not (name == "amounts" and isinstance(value, str)):
            raise TableError(
                f"{path}: {name} is unknown or of a wrong type; a mapping file has "
                f"{', '.join(types)}"
            )
    try:
        return LogMapping(**found)
    except InvalidParameterError as error:
        raise TableError(f"{path}: {error}") from error


def _by_role(entries: Mapping[str, str], parameter: str) -> dict[str, str]:
    by_role: dict[str, str] = {}
    for name, value in entries.items():
        role = role_of(name)
        if role in by_role:
            raise InvalidParameterError(f"{parameter}: {role} is given twice")
        by_role[role] = value
    return by_role


def _refuse_shared(columns: Mapping[str, str]) -> None:
    """Refuse a column with two roles; only a time has a day too."""
    for column in filter(None, columns.values()):
        roles = [role for role, name in columns.items() if name == column]
        if len(roles) > 1 and set(roles) != {"time", "day"}:
            raise InvalidParameterError(
                f"columns: {column} is given for {' and '.join(roles)}; a column has one role"
            )
