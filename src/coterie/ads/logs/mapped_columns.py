"""Mapped columns: decide how the columns of a log are read, from a mapping, names and values.

Nothing doubtful is decided in silence: what names and values leave open is a problem, with the
option that solves it.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from coterie.ads.logs.amount_units import factor_of, unit_in
from coterie.ads.logs.column_roles import (
    AMOUNTS,
    CANONICAL,
    REQUIRED,
    RoleColumn,
    columns_by_role,
)
from coterie.ads.logs.log_columns import ColumnReading
from coterie.ads.logs.log_formats import LogFormat, format_of
from coterie.ads.logs.log_mapping import ALL, LogMapping
from coterie.ads.logs.time_formats import date_order
from coterie.errors import CoterieWarning, InvalidParameterError, TableError
from coterie.tables.engines import fetch

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = [
    "MappedColumns",
    "is_canonical",
    "map_columns",
    "missing_roles",
    "numbers_in_sample",
    "reading_of",
    "sample_values",
]

_SAMPLE = 10_000
_MICROS = 1e6


@dataclass(frozen=True)
class MappedColumns:
    """How the columns of a log are read, and what is not decided."""

    roles: Mapping[str, RoleColumn]
    units: Mapping[str, tuple[str, str]]  # by role: unit and why; both empty if unknown
    mapping: LogMapping  # with the order of dates that was found
    columns: tuple[str, ...]  # all of the log
    problems: tuple[str, ...] = ()

    def reading(self, source: str) -> ColumnReading:
        """Return the reading, or raise TableError with all problems."""
        if self.problems:
            raise TableError(
                f"{source}: {'; '.join(self.problems)}. The columns are {', '.join(self.columns)}; "
                "coterie ads check proposes what they mean, and LogMapping says it in Python"
            )
        for doubt in _doubts(self):
            warnings.warn(f"{source}: {doubt}", CoterieWarning, stacklevel=4)
        return ColumnReading(
            names={CANONICAL[role]: one.column for role, one in self.roles.items()},
            units={CANONICAL[role]: unit for role, (unit, _) in self.units.items()},
            times=self.mapping.times,
            currency=self.mapping.currency,
            decimal_comma=self.mapping.decimal_comma,
            won_when_priced=self.mapping.won_when_priced,
        )


def is_canonical(columns: Sequence[str]) -> bool:
    """Return whether a log of bids has all its required columns under their canonical names."""
    names = {CANONICAL[role] for role in REQUIRED}
    return names <= set(columns) and bool({"ts", "day"} & set(columns))


def map_columns(raw: ir.Table, mapping: LogMapping) -> MappedColumns:
    """Decide how the columns of a raw table of bids are read.

    A few rows are read if a date may be in two orders or a unit is unknown; all rows are read if
    dates with numbers above 12 are rare.
    """
    known = format_of(mapping.format)
    roles = columns_by_role(raw.columns, mapping.columns, known.names)
    if mapping.won_when_priced:
        roles.pop("won", None)
    for one, other in (("time", "day"), ("day", "time")):
        # one of the two is enough
        if one in roles and not roles[one].column and other in roles and roles[other].column:
            del roles[one]
    problems = [*_column_problems(raw, roles, mapping)]
    roles = {role: one for role, one in roles.items() if one.column in raw.columns}
    units = {
        role: _unit(role, one.column, mapping.units, known.amounts)
        for role, one in roles.items()
        if role in AMOUNTS
    }
    problems += _unit_problems(raw, roles, units, mapping)
    complete, time_problems = _with_date_order(raw, roles, mapping, known)
    columns = tuple(raw.columns)
    return MappedColumns(roles, units, complete, columns, (*problems, *time_problems))


def reading_of(raw: ir.Table, kind: str, mapping: LogMapping, source: str) -> ColumnReading:
    """Return how the columns of a raw table are read.

    Raises
    ------
    TableError
        Something is not decided; the message has the options that decide it.
    """
    if kind != "bids":
        if replace(mapping, format="") != LogMapping():
            raise InvalidParameterError(
                f"{source}: a mapping of columns, amounts and times is for logs of bids; this log "
                f"is read as {kind}"
            )
        return ColumnReading(join_clicks=mapping.format == "ipinyou")
    if mapping == LogMapping() and is_canonical(raw.columns):
        return ColumnReading()
    return map_columns(raw, mapping).reading(source)


def missing_roles(roles: Mapping[str, RoleColumn], mapping: LogMapping) -> list[str]:
    """Return the required roles for which no column is known."""
    needed = [role for role in REQUIRED if role != "won" or not mapping.won_when_priced]
    missing = [role for role in needed if role not in roles]
    return missing if {"time", "day"} & set(roles) else [*missing, "time"]


def sample_values(raw: ir.Table, columns: Sequence[str]) -> dict[str, list[Any]]:
    """Return the known values of columns in a few rows."""
    rows = fetch(raw.select(*dict.fromkeys(columns)).limit(_SAMPLE))
    found = {name: rows[name].to_pylist() for name in rows.column_names}
    return {
        name: [value for value in values if value is not None and str(value).strip()]
        for name, values in found.items()
    }


def numbers_in_sample(values: Sequence[Any], decimal_comma: bool = False) -> list[float]:
    """Return the numbers above 0 among values, which may be texts.

    >>> numbers_in_sample(["2,50", "x", 3, 0], decimal_comma=True)
    [2.5, 3.0]
    """
    numbers = []
    for value in values:
        try:
            number = float(str(value).replace(",", ".") if decimal_comma else value)
        except ValueError:
            continue
        if number > 0:
            numbers.append(number)
    return numbers


def _doubts(found: MappedColumns) -> Iterator[str]:
    """Yield which roles rest on doubtful names, and which units contradict a name or an option."""
    for role, one in found.roles.items():
        if one.why == "doubtful name":
            yield (
                f"column {one.column} is read as the {role}, by its name; say --column "
                f"{role}={one.column} if this is right"
            )
        by_name, given = unit_in(one.column), found.mapping.units
        if role not in AMOUNTS or not by_name:
            continue
        unit = found.units[role][0]
        if role in given and _base(unit) != by_name:
            yield f"column {one.column} is read in {unit}, though its name says {by_name}"
        elif role not in given and ALL in given and _base(given[ALL]) != by_name:
            yield (
                f"column {one.column} is read in {unit}, as its name says, and not in "
                f"{given[ALL]}; say --amounts {role}={unit} if this is right"
            )


def _column_problems(
    raw: ir.Table, roles: Mapping[str, RoleColumn], mapping: LogMapping
) -> Iterator[str]:
    for role, one in roles.items():
        if one.why == "given" and one.column not in raw.columns:
            of_notices = one.column.startswith(("notice.", "win.", "loss."))
            hint = "; it is of notices, which --wins and --losses join" if of_notices else ""
            yield f"there is no column {one.column} for the role {role}{hint}"
    for role in missing_roles(roles, mapping):
        other = {
            "won": ", or --won-when-priced if only bids that won have a price",
            "time": " or --column day=NAME",
        }.get(role, "")
        yield f"no column has the role {role}: say --column {role}=NAME{other}"
    if mapping.currency and "currency" in roles:
        named = roles["currency"].column
        yield f"column {named} has the currency: leave out --currency, or say --column currency="
    for role, one in roles.items():
        if one.candidates:
            none = "" if role in REQUIRED else f", or --column {role}= for none of them"
            options = " or ".join(f"--column {role}={name}" for name in one.candidates)
            yield f"the {role} may be column {' or '.join(one.candidates)}: say {options}{none}"


def _unit(role: str, column: str, given: Mapping[str, str], usual: str) -> tuple[str, str]:
    """Return the unit of an amount and why, both empty if unknown."""
    if role in given:
        return given[role], "given"
    by_name = unit_in(column)
    # a name such as bid_usd does not say for how many impressions
    if ALL in given and by_name in {"", _base(given[ALL])}:
        return given[ALL], "given"
    if by_name:
        return by_name, "name"
    return usual, "format" if usual else ""


def _base(unit: str) -> str:
    return unit.partition("/")[0]


def _unit_problems(
    raw: ir.Table,
    roles: Mapping[str, RoleColumn],
    units: Mapping[str, tuple[str, str]],
    mapping: LogMapping,
) -> Iterator[str]:
    unknown = [role for role, (unit, _) in units.items() if not unit]
    if not unknown:
        return
    role, column = unknown[0], roles[unknown[0]].column
    values = sample_values(raw, [column])[column]
    numbers = numbers_in_sample(values, mapping.decimal_comma)
    with_comma = numbers_in_sample(values, decimal_comma=True)
    if len(with_comma) > len(numbers):
        example = next(value for value in values if "," in str(value))
        yield f"numbers in column {column} have a comma, as in {example}: say --decimal-comma"
        numbers = with_comma
    median = statistics.median(numbers) if numbers else 0.0
    options = ", ".join(
        f"--amounts {unit} if this is {_shown(median * factor_of(unit) / _MICROS)} CPM"
        for unit in ("currency", "cents", "micros")
    )
    names = " and ".join(f"{role} (column {roles[role].column})" for role in unknown)
    yield (
        f"the unit of {names} is unknown; the median {role} is {_shown(median)}: say {options}; "
        "add /impression to the unit if amounts are for one impression"
    )


def _shown(number: float) -> str:
    return f"{number:.10f}".rstrip("0").rstrip(".") if number < 0.1 else f"{number:,.6g}"


def _with_date_order(
    raw: ir.Table, roles: Mapping[str, RoleColumn], mapping: LogMapping, known: LogFormat
) -> tuple[LogMapping, list[str]]:
    """Return the mapping with the order of dates, and problems with times."""
    one = roles.get("day") or roles.get("time")
    if one is None:
        return mapping, []
    column, problems = raw[one.column], []
    order = mapping.date_format
    if column.type().is_string() and not order:
        try:
            # values decide, even against the format
            order = date_order(column, one.column)
        except TableError as error:
            order = known.date_format
            problems = [] if order else [str(error)]
    if known.is_local and not mapping.time_zone and _is_local(column):
        problems.append(
            f"the times in column {one.column} are in the time zone of the account: say "
            "--time-zone, for example --time-zone America/New_York"
        )
    return replace(mapping, date_format=order), problems


def _is_local(column: Any) -> bool:
    """Return whether a column may have clock times without a zone."""
    return bool(
        column.type().is_string()
        or (column.type().is_timestamp() and column.type().timezone is None)
    )
