"""The columns of a table in DuckDB, as arrays: labels, features, ids.

A cell of text is an expression of SQL until it is asked for. :func:`label_columns` and
:func:`feature_matrix` interpret text; ids are never interpreted, so ``007`` stays ``007``.
"""

from __future__ import annotations

import contextlib
import glob
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np

from coterie.arrays import AnyArray, Floats
from coterie.errors import InvalidParameterError, LabelWarning, TableError
from coterie.runtime.devices import available_memory, readable_bytes
from coterie.runtime.wording import short_repr


def sql_text(text: object) -> str:
    """Return text as a literal of SQL; a path must not be taken for a pattern of paths."""
    if isinstance(text, Path):
        text = glob.escape(str(text.absolute()))
    return "'" + str(text).replace("'", "''") + "'"


def sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


#: Texts that mean a missing value, and patterns of integers and numbers, in a column of text.
MISSING_TEXTS = ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None")
INTEGER_PATTERN = r"^(0|-?[1-9][0-9]*)$"
NUMBER_PATTERN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
#: 1,5 and 1.234,5; where commas are decimal, 1.234 is a thousand and more.
DECIMAL_COMMA_PATTERN = (
    r"^\s*[+-]?([0-9][0-9]?[0-9]?([.][0-9][0-9][0-9])+(,[0-9]+)?|"
    r"[0-9]*,[0-9]+([eE][+-]?[0-9]+)?)\s*$"
)
#: Of a number with a decimal comma, whether it has a fraction.
COMMA_FRACTION = ",[0-9]*[1-9]"
_MISSING_LABELS = {"i": -1, "f": np.nan}  # by the kind of the array; otherwise None
#: Types of DuckDB that become arrays, and the bytes of a value; a text is an object of Python.
_WIDTHS = {
    **{"TINYINT": 1, "SMALLINT": 2, "INTEGER": 4, "BIGINT": 8},
    **{"UTINYINT": 1, "USMALLINT": 2, "UINTEGER": 4, "UBIGINT": 8},
    **{"FLOAT": 4, "DOUBLE": 8, "BOOLEAN": 1, "VARCHAR": 56},
}
#: Of a cell of text: without blanks around it, whether it is missing, and NULL if it is.
_TRIMMED = r"regexp_replace({0}, '^[\s\pZ]+|[\s\pZ]+$', '', 'g')"
_IS_MISSING = f"{_TRIMMED} IN ({', '.join(map(sql_text, MISSING_TEXTS))})"
_PRESENT = (
    "CASE WHEN TRY_CAST({0} AS BIGINT)::VARCHAR = {0} THEN {0} "  # most labels; trimming is slow
    f"WHEN {_IS_MISSING} THEN NULL ELSE {_TRIMMED} END"
)


class Column(NamedTuple):
    """An expression of SQL, and its type."""

    sql: str
    kind: str

    @property
    def may_be_number(self) -> bool:
        """Whether a feature may have this type."""
        return self.kind in _WIDTHS or self.kind.startswith("DECIMAL")

    @property
    def is_missing(self) -> str:
        """The expression of whether a cell is missing."""
        if self.kind == "VARCHAR":
            return f"({self.sql} IS NULL OR {_IS_MISSING.format(self.sql)})"
        is_nan = f" OR isnan({self.sql})" if self.kind in ("FLOAT", "DOUBLE") else ""
        return f"({self.sql} IS NULL{is_nan})"

    @property
    def present(self) -> str:
        """The expression of text without blanks around it, or NULL if it means a missing value."""
        return _PRESENT.format(self.sql)

    @property
    def number(self) -> str:
        """The expression of the number in a cell, or NULL."""
        if self.kind != "VARCHAR":
            return f"CAST({self.sql} AS DOUBLE)"
        pattern = sql_text(NUMBER_PATTERN)
        matched = (
            f"WHEN regexp_matches({cell}, {pattern}) THEN TRY_CAST({cell} AS DOUBLE)"
            for cell in (self.sql, _TRIMMED.format(self.sql))
        )
        return f"CASE {' '.join(matched)} END"


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of n ≥ 1 rows that DuckDB reads, and the file (or folder) they are in."""

    path: Path
    columns: dict[str, Column]
    rows: str  # what DuckDB selects from
    n_rows: int
    connection: duckdb.DuckDBPyConnection
    line_of_row: Callable[[int], int] | None = None  # of text; holds its temporary files

    __repr__ = short_repr

    def place(self, row: int) -> str:
        """Describe the place of a row, counted from 0: its line, or its number counted from 1."""
        return f"row {row + 1}" if self.line_of_row is None else f"line {self.line_of_row(row)}"

    def values(self, names: Iterable[str]) -> dict[str, AnyArray]:
        """Return columns by name; what is no number, truth value or text becomes text."""
        return _fetched(self, list(names), [])[0]

    def fetch(self, columns: Sequence[Column]) -> list[AnyArray]:
        """Return columns as arrays; missing texts are None, other missing values are masked."""
        needed = self.n_rows * sum(_WIDTHS[column.kind] for column in columns)
        free = available_memory()
        if needed > free // 2:
            raise TableError(
                f"{self.path} has {self.n_rows:,} rows, which take {readable_bytes(needed)} or "
                f"more in memory; {readable_bytes(free)} are free; use fewer columns or rows, or "
                "an engine"
            )
        casts = [f"CAST({sql} AS {kind}) AS v{i}" for i, (sql, kind) in enumerate(columns)]
        found = self._run(casts, self.rows, "fetchnumpy").values() if casts else []
        return [filled(a, None) if a.dtype == object else a for a in found]

    def ask(
        self, cells: Iterable[str], *aggregates: str, first: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Return for each cell (an expression) its aggregates over all rows, or the first ones."""
        rows = self.rows if first is None else f"(SELECT * FROM {self.rows} LIMIT {first})"
        asked = [one.format(cell) for cell in cells for one in aggregates]
        (found,) = self._run(asked, rows, "fetchall") if asked else ((),)
        return list(zip(*[iter(found)] * len(aggregates), strict=True))

    def holds_only(self, name: str, *patterns: str) -> bool:
        """Return whether all values but missing ones, as text, match one of the patterns."""
        cell = _TRIMMED.format(f"{self.columns[name].sql}::VARCHAR")
        pattern = "|".join((*patterns, f"^({'|'.join(MISSING_TEXTS)})$"))
        ((found,),) = self.ask([f"regexp_matches({cell}, '{pattern}')"], "bool_and({})")
        return found is not False

    def cell(self, name: str, row: int) -> Any:
        rows = f"{self.rows} LIMIT 1 OFFSET {row}"
        return self._run([self.columns[name].sql], rows, "fetchall")[0][0]

    def _run(self, selected: Sequence[str], rows: str, fetch: str) -> Any:
        with read_errors(self.path, is_text=self.line_of_row is not None):
            query = self.connection.execute(f"SELECT {', '.join(selected)} FROM {rows}")
            return getattr(query, fetch)()


def label_columns(
    table: Table, ids: Sequence[str] = (), columns: Sequence[str] | None = None
) -> tuple[dict[str, AnyArray], list[str], list[AnyArray]]:
    """Return the id columns, the names of the partitions, and their columns of labels.

    A column of text whose values are all integers (``3``, ``-1``; not ``03``, which would become
    equal to ``3``) is one of integers; other text stays text. ``MISSING_TEXTS`` are missing, which
    is −1 among integers, NaN among other numbers, and otherwise None.

    By default all columns but ``ids`` are partitions. A column with a −1 that does not mean missing
    gives a LabelWarning.
    """
    names = chosen_columns(table.path, table.columns, ids, columns)
    chosen = {name: table.columns[name] for name in names}
    for name, column in chosen.items():
        if column.kind not in _WIDTHS:
            raise TableError(
                f"column {name!r} of {table.path} holds {column.kind} values; labels are integers "
                "or text: convert it, or name the columns to use"
            )
    texts = {name: column.sql for name, column in chosen.items() if column.kind == "VARCHAR"}
    # most columns of text hold integers as they are written, or else after a closer look
    for look in ("{0}", _PRESENT):
        cells = {name: look.format(cell) for name, cell in texts.items()}
        for name, kind in zip(cells, _integer_types(table, cells.values()), strict=True):
            if kind:
                chosen[name] = Column(f"coalesce(TRY_CAST({cells[name]} AS BIGINT), -1)", kind)
                del texts[name]
    for name, cell in texts.items():
        text = f"CASE WHEN {_PRESENT.format(cell)} IS NOT NULL THEN {cell} END"
        chosen[name] = Column(text, "VARCHAR")
    _check_texts(table, list(texts), len(names))
    carried, labels = _fetched(table, ids, list(chosen.values()))
    return carried, names, [filled(a, _MISSING_LABELS.get(a.dtype.kind)) for a in labels]


def feature_matrix(
    table: Table, ids: Sequence[str] = (), columns: Sequence[str] | None = None
) -> tuple[dict[str, AnyArray], list[str], Floats]:
    """Return the id columns, the names of the d features, and the features as an (n, d) array.

    ``ids`` and ``columns`` are as for :func:`label_columns`; no cell may be missing or infinite.
    """
    names = chosen_columns(table.path, table.columns, ids, columns)
    numbers = []
    for name in names:
        column = table.columns[name]
        if not column.may_be_number:
            raise TableError(
                f"column {name!r} of {table.path} holds {column.kind} values; features are "
                "numbers: convert it, name it as an id, or name the columns to use"
            )
        numbers.append(Column(column.number, "DOUBLE"))
    carried, features = _fetched(table, ids, numbers)
    X = np.column_stack([filled(column, np.nan) for column in features])
    for name, is_finite in zip(names, np.isfinite(X).T, strict=True):
        if not is_finite.all():
            row = int(np.argmin(is_finite))
            cell = table.cell(name, row)
            value = "a missing value" if cell is None else repr(cell)
            shown = value if len(value) <= 60 else value[:60] + "…"
            raise TableError(
                f"{table.path}, {table.place(row)}, column {name!r}: {shown} is not a finite "
                "number; correct it, or leave the column out (in the program: --id or --columns)"
            )
    return carried, names, X


def chosen_columns(
    source: object, known: Iterable[str], ids: Sequence[str], columns: Sequence[str] | None
) -> list[str]:
    """Return the names of the chosen columns; refuse unknown and repeated names."""
    known = list(known)
    names = [name for name in known if name not in ids] if columns is None else list(columns)
    for name in [*ids, *names]:
        if name not in known:
            raise TableError(
                f"{source} has no column {name!r}; it has {', '.join(map(repr, known))}"
            )
    repeated = first_repeated([*ids, *names])
    if repeated is not None:
        raise InvalidParameterError(
            f"column {repeated!r} of {source} is asked for twice; name it once"
        )
    if not names:
        raise TableError(f"{source} has no column to use; it needs one besides the ids")
    return names


def first_repeated(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _fetched(
    table: Table, names: Sequence[str], others: Sequence[Column]
) -> tuple[dict[str, AnyArray], list[AnyArray]]:
    """Return named columns and others, by one pass over the rows."""
    named = (table.columns[name] for name in names)
    known = [one if one.kind in _WIDTHS else Column(one.sql, "VARCHAR") for one in named]
    arrays = table.fetch([*known, *others])
    return dict(zip(names, arrays, strict=False)), arrays[len(known) :]


def _integer_types(table: Table, cells: Iterable[str]) -> list[str]:
    """Return for each cell of text its type, if all texts are equal to integers written as text."""
    integer = "TRY_CAST({0} AS BIGINT)"
    facts = table.ask(
        cells,
        f"count({{0}}) = count(*) FILTER ({integer}::VARCHAR = {{0}})",
        f"coalesce(max({integer}) < 2147483648 AND min({integer}) >= -2147483648, true)",
    )
    return [
        ("INTEGER" if is_small else "BIGINT") if is_integer else ""
        for is_integer, is_small in facts
    ]


def filled(values: AnyArray, filling: Any) -> AnyArray:
    """Return values with the filling where they are masked."""
    if not np.ma.isMaskedArray(values):
        return values
    filled = values.data.astype(object if filling is None else values.dtype)
    filled[np.ma.getmaskarray(values)] = filling
    return filled


def _check_texts(table: Table, names: Sequence[str], n_columns: int) -> None:
    """Refuse columns of numbers with fractions, which are no names of clusters.

    Warn of −1, and of a sign such as ``?`` next to words in most of the ``n_columns``.
    """
    cells = [_PRESENT.format(table.columns[name].sql) for name in names]
    number = "TRY_CAST({0} AS DOUBLE)"
    is_number = sql_text(f"{NUMBER_PATTERN}|{DECIMAL_COMMA_PATTERN}")
    is_fraction = (
        f"coalesce({number} != floor({number}), regexp_matches({{0}}, '{COMMA_FRACTION}'), false)"
    )
    is_word = r"regexp_matches({0}, '[\pL\pN]')"
    facts = table.ask(
        cells,
        f"bool_and(regexp_matches({{0}}, {is_number}))",
        f"bool_or({is_fraction})",
        "bool_or({0} IN ('-1', '-1.0'))",
        f"list(DISTINCT {{0}}) FILTER (length({{0}}) = 1 AND NOT {is_word})",
        f"bool_or({is_word})",
    )
    signs = Counter(sign for *_, found, has_words in facts if has_words for sign in found or ())
    for sign, count in signs.items():
        if 2 * count > n_columns:
            warnings.warn(
                f"{sign!r} is a label in {count} of {n_columns} columns of {table.path}; if it "
                "means a missing label, leave these cells blank",
                LabelWarning,
                stacklevel=4,
            )
    for name, cell, (are_numbers, has_fraction, has_minus, *_) in zip(
        names, cells, facts, strict=True
    ):
        if are_numbers and has_fraction:
            (values,) = table.fetch([Column(is_fraction.format(cell), "BOOLEAN")])
            row = int(np.argmax(values))
            raise TableError(
                f"column {name!r} of {table.path} holds {table.cell(name, row).strip()} "
                f"({table.place(row)}): labels are names of clusters, not measurements; for "
                "features use `coterie cluster` or `coterie choose-k --features`"
            )
        if has_minus:
            warnings.warn(
                f"column {name!r} of {table.path} is text, in which -1 is a label like any other; "
                "leave the cell blank if the label is missing",
                LabelWarning,
                stacklevel=4,
            )


@contextlib.contextmanager
def read_errors(path: Path, *, is_text: bool = False) -> Iterator[None]:
    """Turn errors of DuckDB into an error that names the file."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise TableError(
            f"{path} needs more memory than is free; use fewer columns or rows, or an engine"
        ) from error
    except duckdb.Error as error:
        problem = (
            "cannot be read" if is_text else "is not a Parquet file, or is damaged or cut short"
        )
        raise TableError(
            f"{path} {problem}; write or fetch it again ({' '.join(str(error).split())})"
        ) from error
