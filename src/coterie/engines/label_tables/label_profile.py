"""The profile of label columns from one query: types, bounds, missing labels, and bad values.

Labels mean the same as in :func:`~coterie.labels.encode.as_label_matrix`: −1, NULL, NaN and
empty text are missing, and floats with integer values are allowed. An engine has no row numbers,
so messages name the column and an example.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie.engines.queries import fetch, is_written_as
from coterie.errors import InvalidLabelsError, TableError
from coterie.files.tables import INTEGER_PATTERN, MISSING_TEXTS, NUMBER_PATTERN
from coterie.labels.encode import FEATURES_HINT

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["LabelColumn", "Profile", "profile_labels", "read_text_as_in_csv"]

#: Integers with this number of digits fit in 64 bits.
_LONGEST_INTEGER = 18
_MEASURES = ("present", "low", "high", "odd", "example")
_INFINITE = ("inf", "-inf", "infinity", "-infinity")
_NO_NUMBER = ("nan", *_INFINITE)
#: The smallest number that a float type may confuse with its neighbours.
_FIRST_INEXACT = {"float16": 2.0**11, "float32": 2.0**24, "float64": 2.0**53}


@dataclass(frozen=True)
class LabelColumn:
    """A column of labels in the engine."""

    name: str
    values: ir.Column  # int64, uint64 or text; NULL means missing, and −1 in an int64 column
    bounds: tuple[int, int] | None  # smallest and largest integer label; None for text
    has_missing: bool


@dataclass(frozen=True)
class Profile:
    """The number of rows, and the partitions in the given order."""

    n_rows: int
    columns: tuple[LabelColumn, ...]


def profile_labels(table: ir.Table, names: Sequence[str], source: str) -> Profile:
    """Profile the label columns ``names``; refuse an empty table and values that cannot be labels.

    ``source`` is the name of the table for messages.

    Examples
    --------
    >>> import ibis, pyarrow as pa
    >>> table = ibis.memtable(pa.table({"a": [3, -1, 7], "b": ["x", "x", ""]}))
    >>> profile = profile_labels(table, ["a", "b"], "example")
    >>> profile.n_rows, [(column.bounds, column.has_missing) for column in profile.columns]
    (3, [((0, 7), True), (None, True)])
    """
    values = {name: _labels(table[name], name) for name in names}
    measures: dict[str, Any] = {"n": table.count()}
    for v, name in enumerate(names):
        of_column = _measures(table[name], values[name])
        measures |= {f"{measure}{v}": value for measure, value in of_column.items()}
    (found,) = fetch(table.aggregate(**measures)).to_pylist()
    n_rows = int(found["n"])
    if not n_rows:
        raise TableError(f"{source} has no rows; a table needs at least one")
    columns = []
    for v, name in enumerate(names):
        measured = {
            measure: found[f"{measure}{v}"] for measure in _MEASURES if f"{measure}{v}" in found
        }
        _refuse(name, measured, str(table[name].type()))
        columns.append(_column(name, values[name], measured, n_rows))
    profile = Profile(n_rows, tuple(columns))
    _refuse_unlabelled(table, profile)
    return profile


def read_text_as_in_csv(table: ir.Table, names: Sequence[str], source: str) -> ir.Table:
    """Read text columns as the program reads CSV files.

    A column of integers becomes integer. ``NA``, ``NaN``, ``nan``, ``null`` and blanks are
    missing, and a column of numbers with fractions is refused.
    """
    import ibis

    texts = [name for name in names if table[name].type().is_string()]
    if not texts:
        return table
    present = {
        name: ibis.ifelse(table[name].strip().isin(MISSING_TEXTS), ibis.null("string"), table[name])
        for name in texts
    }
    measures: dict[str, Any] = {}
    for v, name in enumerate(texts):
        trimmed, is_present = present[name].strip(), present[name].notnull()
        # longer integers stay text, which is a valid label, too
        integer = trimmed.re_search(INTEGER_PATTERN) & (trimmed.length() <= _LONGEST_INTEGER)
        number = trimmed.re_search(NUMBER_PATTERN)
        fraction = number & (
            number.ifelse(trimmed, ibis.null("string")).try_cast("float64") % 1 != 0
        )
        measures |= {
            f"other{v}": (~integer & is_present).sum().fill_null(0),
            f"words{v}": (~number & is_present).sum().fill_null(0),
            f"fraction{v}": present[name].max(where=fraction),
        }
    (found,) = fetch(table.aggregate(**measures)).to_pylist()
    read = {}
    for v, name in enumerate(texts):
        if not found[f"words{v}"] and found[f"fraction{v}"] is not None:
            raise InvalidLabelsError(
                f"column {name!r} of {source} holds {found[f'fraction{v}']}: labels are names of "
                "clusters, not measurements; use `coterie cluster` for features"
            )
        only_integers = not found[f"other{v}"]
        read[name] = present[name].strip().cast("int64") if only_integers else present[name]
    return table.mutate(**read)


def _labels(column: ir.Column, name: str) -> ir.Column:
    """Return the column as int64, uint64 or text; NULL for empty text and non-finite numbers."""
    import ibis

    kind = column.type()
    if kind.is_unsigned_integer() and kind.nbytes == 8:
        return column
    if kind.is_integer() or kind.is_boolean():
        return column.cast("int64")
    if kind.is_floating():
        return ibis.ifelse(is_written_as(column, _NO_NUMBER), ibis.null(kind), column).cast("int64")
    if kind.is_string():
        return column.nullif("")
    if _is_null(kind):
        return column.cast("int64")
    raise InvalidLabelsError(
        f"partition '{name}' has labels of type {kind}; convert them to integers or text, or name "
        "the columns to use"
    )


def _is_null(kind: Any) -> bool:
    """Return whether a column holds only NULL; Ibis has no type for such columns of Parquet."""
    return kind.is_null() or (kind.is_unknown() and 'kind="NULL"' in str(kind))


def _measures(column: ir.Column, values: ir.Column) -> dict[str, Any]:
    """Return the aggregates to compute for one column."""
    import ibis

    kind = column.type()
    if kind.is_string():
        return {"present": values.count()}
    if not kind.is_floating():
        # of the raw column: engines answer these from statistics, without reading it
        known = column.cast("int64") if kind.is_boolean() or _is_null(kind) else column
        return {"present": column.count(), "low": known.min(), "high": known.max()}
    number, inexact = ~is_written_as(column, ("nan",)), _FIRST_INEXACT[str(kind).lower()]
    infinite = is_written_as(column, _INFINITE)
    finite = ibis.ifelse(infinite | ~number, 0, column)
    odd = number & (infinite | (finite.abs() >= inexact) | (finite % 1 != 0))
    return {
        "present": number.sum().fill_null(0),
        "low": column.min(where=number),
        "high": column.max(where=number),
        "odd": odd.sum().fill_null(0),
        "example": column.max(where=odd),
    }


def _refuse(name: str, found: Mapping[str, Any], kind: str) -> None:
    """Refuse numbers that cannot be labels, and a column without labels."""
    if found.get("odd"):
        raise InvalidLabelsError(
            f"partition '{name}' has labels of type {kind} such as {found['example']} "
            f"({found['odd']:,} in all) that are not integers, or too large for an exact float; "
            f"{FEATURES_HINT}"
        )
    low, high = found.get("low"), found.get("high")
    if low is not None and low < -1:
        raise InvalidLabelsError(
            f"label {int(low)} in partition '{name}' is negative; labels are at least 0, and -1 "
            "means missing"
        )
    if not found["present"] or (high is not None and high < 0):
        raise InvalidLabelsError(f"partition '{name}' has no label at all; leave it out")


def _column(name: str, values: ir.Column, measured: Mapping[str, Any], n_rows: int) -> LabelColumn:
    missing = measured["present"] < n_rows
    if "low" not in measured:
        return LabelColumn(name, values, None, missing)
    low, high = int(measured["low"]), int(measured["high"])
    return LabelColumn(name, values, (max(low, 0), high), missing or low < 0)


def _is_missing(column: LabelColumn) -> ir.BooleanColumn:
    missing = column.values.isnull()
    signed = column.bounds is not None and not column.values.type().is_unsigned_integer()
    return missing | (column.values == -1).fill_null(False) if signed else missing


def _refuse_unlabelled(table: ir.Table, profile: Profile) -> None:
    """Refuse rows without a label in any partition."""
    if not all(column.has_missing for column in profile.columns):
        return
    unlabelled = functools.reduce(operator.and_, map(_is_missing, profile.columns))
    (measured,) = fetch(table.aggregate(n=unlabelled.sum().fill_null(0))).to_pylist()
    if measured["n"]:
        raise InvalidLabelsError(
            f"rows without a label in any partition: {measured['n']:,}; remove them, or label them"
        )
