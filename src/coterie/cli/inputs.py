"""What a command reads: tables of partitions and of features, from files or standard input."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cli.factors import without_factors
from coterie.cli.id_columns import find_ids
from coterie.cli.layout import counted
from coterie.cli.outputs import input_name, is_stream
from coterie.errors import (
    CoterieWarning,
    InvalidLabelsError,
    InvalidParameterError,
    TableError,
)

if TYPE_CHECKING:
    from coterie.arrays import Bools, Floats
    from coterie.labels.encode import LabelMatrix
    from coterie.tables.columns import Column, Table

_log = logging.getLogger(__name__)

_DECIMAL_COMMA = r"^\s*[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?\s*$"


@dataclass(frozen=True)
class Features:
    """A table of features: X (n', p), n' of the n rows, with the ids and factors of all n rows."""

    ids: dict[str, Any]
    factors: dict[str, Any]
    names: list[str]
    X: Floats
    kept: Bools | None = None  # (n,) rows of X; None: all rows

    def kept_rows(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Return columns of n rows without those that are not in X."""
        if self.kept is None:
            return columns
        return {name: values[self.kept] for name, values in columns.items()}


@dataclass(frozen=True)
class Views:
    """Tables (n, p_v) of features of the same n rows, their ids, and the names of all columns."""

    ids: dict[str, Any]
    views: dict[str, Floats]
    names: list[str]


def read_input(path: Path) -> Table:
    """Read a table from a file, or CSV or TSV text from standard input."""
    _log.info("reading %s", input_name(path))
    from coterie.tables.reading import parse_table, read_table

    if not is_stream(path):
        return read_table(path)
    if sys.stdin is None:
        raise TableError("standard input is closed; pipe a table into the program, or name a file")
    return parse_table(sys.stdin.buffer, input_name(path))


def read_labels(
    path: Path, ids: Sequence[str], columns: list[str] | None, factors: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any], LabelMatrix]:
    """Return the id columns of a table, its factors, and its partitions (None: all other columns).

    Without ids, a column that names the rows is the id; see :func:`find_ids`.
    """
    table, tested = without_factors(read_input(path), factors)
    from coterie.labels.encode import as_label_matrix, warn_if_transposed
    from coterie.tables.columns import label_columns

    ids = find_ids(table, ids, columns, "labels")
    id_values, names, labels = label_columns(table, ids, columns)
    try:
        P = as_label_matrix(dict(zip(names, labels, strict=True)), allow_unlabelled_rows=True)
    except InvalidLabelsError as error:
        raise TableError(
            f"{table.path}: {error} (rows are counted from 0, without the header)"
        ) from error
    warn_if_transposed(P)  # find_ids has reported columns that may be ids
    return id_values, tested, P


def read_features(
    path: Path,
    ids: Sequence[str],
    columns: list[str] | None,
    factors: Sequence[str] = (),
    *,
    impute: str | None = None,
    decimal_comma: bool = False,
) -> Features:
    """Return the features of a table (None: all columns but ids and factors).

    ``impute`` fills missing cells by the ``"median"`` of their column, or ``"drop"``s their rows.
    Without ids, a column that names the rows is the id; see :func:`find_ids`.
    """
    table = read_input(path)
    written = table.columns
    if decimal_comma:
        table = replace(table, columns={k: _with_point(c) for k, c in written.items()})
    table, tested = without_factors(table, factors)
    ids = find_ids(table, ids, columns, "features")
    read_as = {name: written[name] if name in ids else c for name, c in table.columns.items()}
    table = replace(table, columns=read_as)
    from coterie.tables.columns import feature_matrix

    names = columns or [name for name in table.columns if name not in ids]
    kept = None
    if impute:
        table, kept = _imputed(table, [name for name in names if name in table.columns], impute)
    try:
        id_values, names, X = feature_matrix(table, ids, columns)
    except TableError as error:
        if set(names) <= set(table.columns):
            _explain(table, names)
        raise error
    return Features(id_values, tested, names, X if kept is None else X[kept], kept)


def read_views(
    paths: Sequence[Path], ids: Sequence[str], *, impute: str | None, decimal_comma: bool
) -> Views:
    """Return the features of several tables about the same rows, in the order of the first one.

    Rows are matched by the ids if both tables have them, and otherwise by their order.
    """
    if impute == "drop":
        raise InvalidParameterError("--impute drop works with one table; use --impute median")
    first = read_features(paths[0], ids, None, impute=impute, decimal_comma=decimal_comma)
    tables = [first.X]
    names = [f"{paths[0].stem}: {name}" for name in first.names]
    rows = list(zip(*(column.tolist() for column in first.ids.values()), strict=True))
    for path in paths[1:]:
        read = read_features(path, ids, None, impute=impute, decimal_comma=decimal_comma)
        keys = list(zip(*(column.tolist() for column in read.ids.values()), strict=True))
        if len(read.X) != len(first.X):
            raise TableError(
                f"{path} has {len(read.X):,} rows, and {paths[0]} has {len(first.X):,}; views "
                "describe the same rows"
            )
        order: Any = slice(None)
        if keys and rows and keys != rows:
            place = {key: row for row, key in enumerate(keys)}
            unknown = [key for key in rows if key not in place]
            if unknown or len(place) < len(keys):
                what = f"no row {', '.join(map(str, unknown[0]))}" if unknown else "equal ids"
                raise TableError(
                    f"{path} has {what}, unlike {paths[0]}; views describe the same rows"
                )
            order = [place[key] for key in rows]
        tables.append(read.X[order])
        names += [f"{path.stem}: {name}" for name in read.names]
    stems = [path.stem for path in paths]
    keys_of_views = stems if len(set(stems)) == len(stems) else list(map(str, paths))
    return Views(first.ids, dict(zip(keys_of_views, tables, strict=True)), names)


def warn_of_units(X: Floats, names: Sequence[str]) -> None:
    """Warn if columns vary by very different amounts, as columns of different units do."""
    from coterie.ensembles.scalings import unequal_spread

    if note := unequal_spread(X, names):
        warnings.warn(
            f"{note}; add --standardize if their units differ", CoterieWarning, stacklevel=2
        )


def _with_point(column: Column) -> Column:
    """Return a column of text whose numbers have a decimal point instead of a comma."""
    if column.kind != "VARCHAR":
        return column
    cell = column.sql
    sql = f"CASE WHEN regexp_matches({cell}, '{_DECIMAL_COMMA}') THEN replace({cell}, ',', '.') "
    return column._replace(sql=f"{sql}ELSE {cell} END")


def _is_missing(column: Column) -> str:
    """Return the expression of whether a cell is missing."""
    from coterie.tables.columns import MISSING_TEXTS

    cell, kind = column
    if kind == "VARCHAR":
        texts = ", ".join(f"'{text}'" for text in MISSING_TEXTS)
        return f"({cell} IS NULL OR trim({cell}) IN ({texts}))"
    is_nan = f" OR isnan({cell})" if kind in ("FLOAT", "DOUBLE") else ""
    return f"({cell} IS NULL{is_nan})"


def _imputed(table: Table, names: Sequence[str], how: str) -> tuple[Table, Bools | None]:
    """Return a table whose missing cells have the median of their column, and the rows to keep."""
    from coterie.tables.columns import Column

    missing = {name: _is_missing(table.columns[name]) for name in names}
    counts = dict(zip(names, table.ask(missing.values(), "count_if({})"), strict=True))
    missing = {name: missing[name] for name, (count,) in counts.items() if count}
    if not missing:
        return table, None
    filled = dict(table.columns)
    cells = [f"TRY_CAST({table.columns[name].sql} AS DOUBLE)" for name in missing]
    pairs = zip(missing.values(), cells, strict=True)
    present = [f"CASE WHEN NOT {is_missing} THEN {cell} END" for is_missing, cell in pairs]
    for name, (median,) in zip(missing, table.ask(present, "median({})"), strict=True):
        if median is None and counts[name][0] == table.n_rows:
            raise TableError(
                f"column {name!r} of {table.path} is empty: leave it out with --columns"
            )
        if median is None:
            _explain(table, [name])  # a column of text
        cell, kind = table.columns[name]
        value = f"'{median!r}'" if kind == "VARCHAR" else repr(median)
        sql = f"CASE WHEN {missing[name]} THEN {value} ELSE {cell} END"
        filled[name] = Column(sql, "VARCHAR" if kind == "VARCHAR" else "DOUBLE")
    any_missing = Column(" OR ".join(missing.values()), "BOOLEAN")
    (rows,) = table.fetch([any_missing])
    n_missing, n_rows = sum(count for (count,) in counts.values()), int(rows.sum())
    if how == "median":
        note = f"filled {counted(n_missing, 'missing cell')} with the median of the column"
    elif n_rows == table.n_rows:
        raise TableError(f"every row of {table.path} has a missing cell: use --impute median")
    else:
        note = f"left out {counted(n_rows, 'row')} with missing cells: label -1"
    warnings.warn(note, CoterieWarning, stacklevel=4)
    return replace(table, columns=filled), None if how == "median" else ~rows


def _explain(table: Table, names: Sequence[str]) -> None:
    """Raise an error with the way out, if the features are text or have missing cells."""
    from coterie.tables.columns import NUMBER_PATTERN, Column

    missing = [_is_missing(table.columns[name]) for name in names]
    counts = [count for (count,) in table.ask(missing, "count_if({})")]
    for name, is_missing, count in zip(names, missing, counts, strict=True):
        cell, kind = table.columns[name]
        if kind != "VARCHAR" or count == table.n_rows:
            continue
        is_number = f"regexp_matches(trim({cell}), '{NUMBER_PATTERN}')"
        ((texts, example),) = table.ask(
            [f"CASE WHEN NOT {is_missing} AND NOT {is_number} THEN {cell} END"],
            "count({})",
            "any_value({})",
        )
        if re.match(_DECIMAL_COMMA, example or ""):
            raise TableError(
                f"column {name!r} of {table.path} holds {example!r}: add --decimal-comma if it is "
                "a number"
            )
        if texts > (table.n_rows - count) / 2:
            raise TableError(
                f"column {name!r} of {table.path} holds text, such as {example!r}: leave it out "
                "with --columns, name it in --id if it names the rows, or encode it as numbers"
            )
    if any(counts):
        empty = [name for name, count in zip(names, counts, strict=True) if count]
        listed = ", ".join(map(repr, empty[:3])) + ", …" * (len(empty) > 3)
        (is_empty,) = table.fetch([Column(_is_missing(table.columns[empty[0]]), "BOOLEAN")])
        raise TableError(
            f"{table.path} has {counted(sum(counts), 'missing cell')} in "
            f"{counted(len(empty), 'column')} ({listed}), the first in "
            f"{table.place(int(is_empty.argmax()))}: add --impute median to fill them, or --impute "
            "drop to leave out their rows"
        )
