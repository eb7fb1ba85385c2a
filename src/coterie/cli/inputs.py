"""What a command reads: partitions, features and factors, and which column names the rows."""

from __future__ import annotations

import logging
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from coterie.cli import options
from coterie.cli.layout import counted
from coterie.cli.outputs import RESULT_COLUMNS, index_of, input_name, is_stream
from coterie.errors import (
    CoterieWarning,
    InvalidLabelsError,
    InvalidParameterError,
    LabelWarning,
    TableError,
)

if TYPE_CHECKING:
    from coterie.arrays import Bools, Floats
    from coterie.inspection.factor_tests import FactorTests
    from coterie.labels.encode import LabelMatrix
    from coterie.tables.columns import Table

_log = logging.getLogger(__name__)

# A column of text with this many rows may be an id; numbers need more, because small tables often
# have a partition with a cluster for each row.
_FEWEST_TEXTS = 5
_MANY_ROWS = 1000
_ID_WORDS = {"id", "ids", "key", "name", "uuid", "guid", "no", "nr"}
# pandas writes the index of a table as a column with one of the last two names.
_ID_NAMES = {"index", "idx", "row", "email", "url", "unnamed: 0", ""}


@dataclass(frozen=True)
class Features:
    """A table of features: X (n', p) and the factors of n' of its rows, the ids of all n."""

    ids: dict[str, Any]
    factors: dict[str, Any]
    names: list[str]
    X: Floats
    kept: Bools | None = None  # (n,) rows of X; None: all rows
    views: dict[str, Features] = field(default_factory=dict)  # tables whose columns are those of X


def read_input(path: Path) -> Table:
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
    medians: Floats | None = None,
) -> Features:
    """Return the features of a table (None: all columns but ids and factors).

    ``impute`` fills missing cells by the ``"median"`` of their column, or ``"drop"``s their rows.
    ``medians`` are those of ``columns`` in the fit; without them, those of the table are used.
    Without ids, a column that names the rows is the id; see :func:`find_ids`.
    """
    from coterie.tables.columns import DECIMAL_COMMA_PATTERN, feature_matrix

    table = read_input(path)
    written = table.columns
    if decimal_comma:
        with_point = {
            name: column._replace(
                sql=f"CASE WHEN regexp_matches({column.sql}, '{DECIMAL_COMMA_PATTERN}') "
                f"THEN replace(replace({column.sql}, '.', ''), ',', '.') ELSE {column.sql} END"
            )
            for name, column in written.items()
            if column.kind == "VARCHAR"
        }
        table = replace(table, columns=written | with_point)
    table, tested = without_factors(table, factors)
    ids = find_ids(table, ids, columns, "features")
    read_as = {name: written[name] if name in ids else c for name, c in table.columns.items()}
    table = replace(table, columns=read_as)
    names = columns or [name for name in table.columns if name not in ids]
    are_numbers = all(name in table.columns and table.columns[name].may_be_number for name in names)
    kept = None
    if impute and are_numbers:
        table, kept = _imputed(table, names, impute, medians)
    try:
        id_values, names, X = feature_matrix(table, ids, columns)
    except TableError:
        if are_numbers:
            _explain(table, names)
        raise
    if kept is not None:
        X, tested = X[kept], {name: values[kept] for name, values in tested.items()}
    return Features(id_values, tested, names, X, kept)


def read_views(
    paths: Sequence[Path],
    ids: Sequence[str],
    columns: Iterable[list[str] | None] = (),
    *,
    impute: str | None,
    decimal_comma: bool,
    medians: Iterable[Floats | None] = (),
) -> Features:
    """Return the features of several tables about the same rows, in the order of the first one.

    Rows are matched by the ids if both tables have them, and otherwise by their order. ``columns``
    are those to read of each table; without them, all but the ids. ``medians`` are as for
    :func:`read_features`, for each table.
    """
    if impute == "drop":
        raise InvalidParameterError("--impute drop works with one table; use --impute median")
    import numpy as np

    unknown: list[Any] = [None] * len(paths)
    stems = [path.stem for path in paths]
    keys_of_views = stems if len(set(stems)) == len(stems) else list(map(str, paths))
    reads = [
        read_features(path, ids, used, impute=impute, decimal_comma=decimal_comma, medians=filling)
        for path, used, filling in zip(
            paths, list(columns) or unknown, list(medians) or unknown, strict=True
        )
    ]
    first, views = reads[0], {}
    rows = index_of(first.ids)
    for view, path, read in zip(keys_of_views, paths, reads, strict=True):
        keys = index_of(read.ids)
        if len(read.X) != len(first.X):
            raise TableError(
                f"{path} has {len(read.X):,} rows, and {paths[0]} has {len(first.X):,}; views "
                "describe the same rows"
            )
        if keys and rows and keys != rows:
            place = {key: row for row, key in enumerate(keys)}
            absent = [key for key in rows if key not in place]
            if absent or len(place) < len(keys):
                what = f"no row {', '.join(map(str, absent[0]))}" if absent else "equal ids"
                raise TableError(
                    f"{path} has {what}, unlike {paths[0]}; views describe the same rows"
                )
            read = replace(read, X=read.X[[place[key] for key in rows]])  # noqa: PLW2901
        views[view] = read
    names = [f"{view}: {name}" for view, read in views.items() for name in read.names]
    X = np.hstack([read.X for read in views.values()])
    return Features(first.ids, {}, names, X, views=views)


def warn_of_units(X: Floats, names: Sequence[str]) -> None:
    """Warn if columns vary by very different amounts, as columns of different units do."""
    from coterie.ensembles.scalings import unequal_spread

    if note := unequal_spread(X, names):
        warnings.warn(
            f"{note}; add --standardize if their units differ", CoterieWarning, stacklevel=2
        )


def _imputed(
    table: Table, names: Sequence[str], how: str, medians: Floats | None
) -> tuple[Table, Bools | None]:
    """Return a table whose missing cells have the median of their column, and the rows to keep."""
    from coterie.tables.columns import Column

    missing = [table.columns[name].is_missing for name in names]
    counts = {
        name: count
        for name, (count,) in zip(names, table.ask(missing, "count_if({})"), strict=True)
        if count
    }
    if not counts:
        return table, None
    filled = dict(table.columns)
    if medians is None:
        numbers = [table.columns[name].number for name in counts]
        found = table.ask(numbers, "median({0}) FILTER (isfinite({0}))")
        fillings = {name: median for name, (median,) in zip(counts, found, strict=True)}
    else:
        of_fit = dict(zip(names, medians.tolist(), strict=True))
        fillings = {name: of_fit[name] for name in counts}
    for name, median in fillings.items():
        cell, kind = column = table.columns[name]
        if median is None and counts[name] == table.n_rows:
            raise TableError(
                f"column {name!r} of {table.path} is empty: leave it out with --columns"
            )
        if median is None:
            _explain(table, [name])  # a column of text
        value = f"'{median!r}'" if kind == "VARCHAR" else f"'{median!r}'::DOUBLE"
        sql = f"CASE WHEN {column.is_missing} THEN {value} ELSE {cell} END"
        filled[name] = Column(sql, "VARCHAR" if kind == "VARCHAR" else "DOUBLE")
    any_missing = " OR ".join(table.columns[name].is_missing for name in counts)
    (rows,) = table.fetch([Column(any_missing, "BOOLEAN")])
    n_rows = int(rows.sum())
    if how == "median":
        n_missing = counted(sum(counts.values()), "missing cell")
        of_which = "column" if medians is None else "column in the fit"
        note = f"filled {n_missing} with the median of the {of_which}"
    elif n_rows == table.n_rows:
        raise TableError(f"every row of {table.path} has a missing cell: use --impute median")
    else:
        note = f"left out {counted(n_rows, 'row')} with missing cells: label -1"
    warnings.warn(note, CoterieWarning, stacklevel=4)
    return replace(table, columns=filled), None if how == "median" else ~rows


def _explain(table: Table, names: Sequence[str]) -> None:
    """Raise an error with the way out, if the features are text or have missing cells."""
    from coterie.tables.columns import DECIMAL_COMMA_PATTERN, Column

    columns = [table.columns[name] for name in names]
    counts = [n for (n,) in table.ask([one.is_missing for one in columns], "count_if({})")]
    for name, column, count in zip(names, columns, counts, strict=True):
        if column.kind != "VARCHAR" or count == table.n_rows:
            continue
        is_text = f"NOT {column.is_missing} AND {column.number} IS NULL"
        ((texts, example),) = table.ask(
            [f"CASE WHEN {is_text} THEN {column.sql} END"], "count({})", "any_value({})"
        )
        if re.match(DECIMAL_COMMA_PATTERN, example or ""):
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
        (is_empty,) = table.fetch([Column(table.columns[empty[0]].is_missing, "BOOLEAN")])
        raise TableError(
            f"{table.path} has {counted(sum(counts), 'missing cell')} in "
            f"{counted(len(empty), 'column')} ({listed}), the first in "
            f"{table.place(int(is_empty.argmax()))}: add --impute median to fill them, or --impute "
            "drop to leave out their rows"
        )


# ---- Columns that name the rows


def find_ids(
    table: Table,
    ids: Sequence[str],
    columns: Sequence[str] | None,
    use: Literal["labels", "features"],
) -> list[str]:
    """Return the id columns: the given ones, or the one column that names the rows.

    A column looks like an id if it has a different value in (nearly) every row. The only such
    column is the id if it is text or has the name of an id; otherwise it stays in use. A
    LabelWarning says which. ``columns`` are the columns to use, None for all but the ids; columns
    that the user lists are never taken as ids, but the only other one that looks like an id is.
    """
    from coterie.labels.encode import FEWEST_ROWS, fewest_values_of_ids
    from coterie.tables.columns import DECIMAL_COMMA_PATTERN, INTEGER_PATTERN, NUMBER_PATTERN

    n = table.n_rows

    def is_text(name: str) -> bool:
        """Return whether a column is text: labels such as 007 are, features such as 007 are not."""
        return not table.holds_only(name, INTEGER_PATTERN if use == "labels" else NUMBER_PATTERN)

    def may_be_id(name: str) -> bool:
        """Return whether different values are an id rather than labels or a feature."""
        is_number = table.holds_only(name, NUMBER_PATTERN, DECIMAL_COMMA_PATTERN)
        if is_number and not table.holds_only(name, r"^[+-]?[0-9]+$"):
            return False  # a measurement: numbers, some with a fraction or an exponent
        if _is_named_like_id(name):
            return True
        if is_text(name):
            return n >= _FEWEST_TEXTS
        if n < FEWEST_ROWS or use == "labels":
            return n >= FEWEST_ROWS
        # Features often have a different number in every row, but rarely without a gap.
        if not table.holds_only(name, r"^-?[0-9]{1,18}$"):
            return False
        number = f"TRY_CAST({table.columns[name].sql} AS BIGINT)"
        ((least, most),) = table.ask([number], "min({})", "max({})")
        return bool(most - least == n - 1)

    def candidates_in(names: Sequence[str]) -> dict[str, int]:
        """Count the values of columns that may be ids: text or integers, (nearly) all different."""
        kinds = ("CHAR", "INT", "INTEGER")
        counts = {name: 0 for name in names if n > 1 and table.columns[name].kind.endswith(kinds)}
        # The other rows add at most one value each, so the first ones often decide.
        for n_first in [n // 8, n] if n >= _MANY_ROWS else [n]:
            cells = [table.columns[name].sql for name in counts]
            found = zip(counts, table.ask(cells, "count(DISTINCT {})", first=n_first), strict=True)
            fewest = fewest_values_of_ids(n) - (n - n_first)
            counts = {name: count for name, (count,) in found if count >= fewest}
        return {name: count for name, count in counts.items() if may_be_id(name)}

    if columns is not None and not ids and set(columns) <= set(table.columns):
        others = [name for name in table.columns if name not in (*columns, *RESULT_COLUMNS)]
        ids = [name for name in candidates_in(others) if is_text(name) or _is_named_like_id(name)]
        ids = ids if len(ids) == 1 else []
    used = [name for name in columns or table.columns if name not in ids]
    names = [*ids, *used]
    if len(set(names)) < len(names) or not set(names) <= set(table.columns):
        return list(ids)  # wrong names: the error comes later, without a note
    candidates = candidates_in(used)
    role = "a feature" if use == "features" else "labels"
    for name, different in candidates.items():
        # The name is quoted for the shell.
        quoted = f'"{name}"' if "," in name or not name else name
        option = f"--id {shlex.quote(quoted)}"
        values = "a different value in every row"
        if different < n:
            values = f"{different:,} different values in {n:,} rows"
        what = f"column {name!r} has {values}"
        is_only = len(candidates) == 1 and not ids and columns is None and len(used) > 1
        if is_only and (is_text(name) or _is_named_like_id(name)) and name not in RESULT_COLUMNS:
            other = f", or list it in --columns to use it as {role}"
            if use == "features" and is_text(name):
                other = ""  # text cannot be a feature
            note = f"{what} and is used as the id; write {option} to avoid this note{other}"
            warnings.warn(note, LabelWarning, stacklevel=2)
            return [name]
        note = f"{what} and is used as {role}; if it names the rows, add {option}"
        warnings.warn(note, LabelWarning, stacklevel=2)
    return list(ids)


def _is_named_like_id(name: str) -> bool:
    """Return whether a name is that of an id, such as user_id, userId or Name."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    is_word = bool(_ID_WORDS & {word.lower() for word in words})
    return is_word or name.strip().lower() in _ID_NAMES


# ---- Columns that are tested against the clusters, and not clustered


def factors_in(factors: str | None, categories: str | None) -> tuple[list[str], list[str] | None]:
    """Return the names in ``--factors``, and in ``--categories``, which must be among them."""
    tested = options.names_in(factors, "--factors") or []
    coded = options.names_in(categories, "--categories")
    for name in coded or ():
        if name not in tested:
            raise typer.BadParameter(
                f"{name!r} is not in --factors; name it there too", param_hint="'--categories'"
            )
    return tested, coded


def without_factors(table: Table, factors: Sequence[str]) -> tuple[Table, dict[str, Any]]:
    """Return a table without the columns of factors, and these columns, as numbers if they are."""
    import numpy as np

    from coterie.tables.columns import DECIMAL_COMMA_PATTERN, NUMBER_PATTERN, Column, filled

    for name in factors:
        if name not in table.columns:
            known = ", ".join(map(repr, table.columns))
            raise TableError(f"{table.path} has no column {name!r} for --factors; it has {known}")
    rest = {name: column for name, column in table.columns.items() if name not in factors}
    if not rest:
        raise TableError(f"{table.path} has only factors; leave columns to cluster")
    read_as = {name: table.columns[name] for name in factors}
    for name, column in read_as.items():
        is_text = column.kind == "VARCHAR"
        if column.kind.startswith("DECIMAL") or (
            is_text and table.holds_only(name, NUMBER_PATTERN)
        ):
            read_as[name] = Column(column.number, "DOUBLE")
        elif is_text and table.holds_only(name, NUMBER_PATTERN, DECIMAL_COMMA_PATTERN):
            raise TableError(
                f"column {name!r} of {table.path} holds numbers with a decimal comma: write them "
                "with a point to test it as a factor; `coterie cluster` has --decimal-comma"
            )
        elif is_text:
            read_as[name] = Column(column.present, "VARCHAR")
    values = replace(table, columns=read_as).values(factors)
    for name, found in values.items():
        if np.ma.isMaskedArray(found):
            values[name] = filled(found.astype(float), np.nan)
    return replace(table, columns=rest), values


def run_factor_tests(
    labels: Any, factors: Mapping[str, Any], seed: int, categories: Sequence[str] | None = None
) -> FactorTests | None:
    """Return the tests of columns; None without factors."""
    if not factors:
        return None
    from coterie.inspection.factor_tests import factor_tests

    return factor_tests(labels, factors, categories=categories, random_state=seed)
