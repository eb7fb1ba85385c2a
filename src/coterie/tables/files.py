"""Tables in CSV, Parquet and NPY files; the suffix of the name decides.

DuckDB reads the columns when they are asked for, as NumPy arrays. CSV files are read as text;
:func:`label_columns` and :func:`feature_matrix` interpret the text of each column. Ids are never
interpreted, so ``007`` stays ``007``.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote

import duckdb
import numpy as np
from numpy.typing import NDArray

from coterie.errors import InvalidParameterError, LabelWarning, OutputError, TableError
from coterie.runtime.atomic_files import atomic_file, check_writable
from coterie.runtime.devices import available_memory, n_threads, readable_bytes
from coterie.runtime.wording import short_repr
from coterie.tables.text import TextFile, encoded_text, open_text, sql_text, write_text

_KINDS = {
    ".csv": "text",
    ".csv.gz": "text",
    ".tsv": "text",
    ".tsv.gz": "text",
    ".parquet": "parquet",
    ".npy": "npy",
}
#: Texts that mean a missing value, and patterns of integers and numbers, in a column of text.
MISSING_TEXTS = ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None")
INTEGER_PATTERN = r"^(0|-?[1-9][0-9]*)$"
NUMBER_PATTERN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_HEADER_BYTES = 1 << 20
_MISSING_LABELS = {"i": -1, "f": np.nan}  # by the kind of the array; otherwise None
#: Types of DuckDB that become arrays, and the bytes of a value; a text is an object of Python.
_WIDTHS = {
    **{"TINYINT": 1, "SMALLINT": 2, "INTEGER": 4, "BIGINT": 8},
    **{"UTINYINT": 1, "USMALLINT": 2, "UINTEGER": 4, "UBIGINT": 8},
    **{"FLOAT": 4, "DOUBLE": 8, "BOOLEAN": 1, "VARCHAR": 56},
}
#: Expressions of a cell of text: without blanks around it; the same, and NULL if it is missing.
_TRIMMED = r"regexp_replace({0}, '^[\s\pZ]+|[\s\pZ]+$', '', 'g')"
_PRESENT = (
    "CASE WHEN TRY_CAST({0} AS BIGINT)::VARCHAR = {0} THEN {0} "  # most labels; trimming is slow
    f"WHEN {_TRIMMED} IN ({', '.join(map(sql_text, MISSING_TEXTS))}) THEN NULL ELSE {_TRIMMED} END"
)


class Column(NamedTuple):
    """An expression of SQL, and its type."""

    sql: str
    kind: str


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of n ≥ 1 rows that DuckDB reads, and the file (or folder) they are in."""

    path: Path
    columns: dict[str, Column]
    rows: str  # what DuckDB selects from
    n_rows: int
    connection: duckdb.DuckDBPyConnection
    text: TextFile | None = None  # to find the line of a row

    __repr__ = short_repr

    def place(self, row: int) -> str:
        """Describe the place of a row, counted from 0: its line, or its number counted from 1."""
        return f"row {row + 1}" if self.text is None else f"line {self.text.line_of_row(row)}"

    def values(self, names: Iterable[str]) -> dict[str, NDArray[Any]]:
        """Return columns by name; what is no number, truth value or text becomes text."""
        return _fetched(self, list(names), [])[0]

    def fetch(self, columns: Sequence[Column]) -> list[NDArray[Any]]:
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
        return [_filled(a, None) if a.dtype == object else a for a in found]

    def ask(
        self, cells: Iterable[str], *aggregates: str, first: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Return for each cell (an expression) its aggregates over all rows, or the first ones."""
        rows = self.rows if first is None else f"(SELECT * FROM {self.rows} LIMIT {first})"
        asked = [one.format(cell) for cell in cells for one in aggregates]
        (found,) = self._run(asked, rows, "fetchall") if asked else ((),)
        return list(zip(*[iter(found)] * len(aggregates), strict=True))

    def holds_only(self, name: str, pattern: str) -> bool:
        """Return whether all values of a column, written as text, match a regular expression."""
        cell = _TRIMMED.format(f"{self.columns[name].sql}::VARCHAR")
        ((found,),) = self.ask([f"regexp_matches({cell}, '{pattern}')"], "bool_and({})")
        return found is not False

    def cell(self, name: str, row: int) -> Any:
        """Return one value."""
        rows = f"{self.rows} LIMIT 1 OFFSET {row}"
        return self._run([self.columns[name].sql], rows, "fetchall")[0][0]

    def _run(self, selected: Sequence[str], rows: str, fetch: str) -> Any:
        with _read_errors(self.path, self.text):
            query = self.connection.execute(f"SELECT {', '.join(selected)} FROM {rows}")
            return getattr(query, fetch)()


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a ``.csv``, ``.tsv`` (both also with ``.gz``), ``.parquet`` or ``.npy`` file.

    Text is UTF-8 with a header. The delimiter (comma, semicolon, tab or ``|``) is guessed from
    the first 64 kB. Every column is text, and a blank cell is missing. A ``.parquet`` may be a
    folder of such files. The columns of a 2-D array are named p0, p1, … A file that cannot be
    read raises a TableError that says where and why.
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"there is no file {path}; check the name and the folder")
    read = {"text": _read_text, "parquet": _read_parquet, "npy": _read_npy}
    try:
        return read[_kind(path, TableError)](path)
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror or error}") from error


def parse_table(stream: BinaryIO, name: str) -> Table:
    """Read CSV or TSV text, also gzipped, from a stream; messages call it ``name``."""
    return _read_text(Path(name), stream)


def array_table(path: Path, columns: Mapping[str, NDArray[Any]]) -> Table:
    """Return arrays in memory as the table of a file."""
    connection, registered = _connection(), {}
    for index, (name, column) in enumerate(columns.items()):
        try:
            # a copy, so that the file can be closed
            values = column.astype(column.dtype.newbyteorder("="))
            if column.dtype.kind == "U":
                values = values.astype(object)
                values[values == ""] = None
            connection.register("one", {"c": values}).execute("SELECT c FROM one LIMIT 0")
        except (duckdb.Error, ValueError, SystemError) as error:  # the last one for damaged text
            raise TableError(
                f"column {name!r} of {path} holds {column.dtype} values, not one number or text "
                f"per row; convert it ({' '.join(str(error).split())})"
            ) from error
        registered[f"c{index}"] = values
    connection.register("arrays", registered)
    return _table(connection, path, list(columns), "arrays", len(next(iter(columns.values()), ())))


def label_columns(
    table: Table, ids: Sequence[str] = (), columns: Sequence[str] | None = None
) -> tuple[dict[str, NDArray[Any]], list[str], list[NDArray[Any]]]:
    """Return the id columns, the names of the partitions, and their columns of labels.

    A column of text whose values are all integers (``3``, ``-1``; not ``03``, which would become
    equal to ``3``) is one of integers; other text stays text. ``MISSING_TEXTS`` are missing, which
    is −1 among integers, NaN among other numbers, and otherwise None.

    By default all columns but ``ids`` are partitions. A column with a −1 that does not mean missing
    gives a LabelWarning.
    """
    names = _choose(table, ids, columns)
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
    _check_texts(table, list(texts))
    carried, labels = _fetched(table, ids, list(chosen.values()))
    return carried, names, [_filled(a, _MISSING_LABELS.get(a.dtype.kind)) for a in labels]


def feature_matrix(
    table: Table, ids: Sequence[str] = (), columns: Sequence[str] | None = None
) -> tuple[dict[str, NDArray[Any]], list[str], NDArray[np.float64]]:
    """Return the id columns, the names of the d features, and the features as an (n, d) array.

    ``ids`` and ``columns`` are those of :func:`label_columns`. Missing and non-finite cells are
    refused.
    """
    names = _choose(table, ids, columns)
    numbers = []
    for name in names:
        cell, kind = table.columns[name]
        if kind == "VARCHAR":
            is_number = f"regexp_matches({{}}, {sql_text(NUMBER_PATTERN)})"
            trimmed = _TRIMMED.format(cell)
            cell = (
                f"CASE WHEN {is_number.format(cell)} THEN TRY_CAST({cell} AS DOUBLE) "
                f"WHEN {is_number.format(trimmed)} THEN TRY_CAST({trimmed} AS DOUBLE) END"
            )
        elif kind not in _WIDTHS and not kind.startswith("DECIMAL"):
            raise TableError(
                f"column {name!r} of {table.path} holds {kind} values; features are numbers: "
                "convert it, name it as an id, or name the columns to use"
            )
        numbers.append(Column(cell, "DOUBLE"))
    carried, features = _fetched(table, ids, numbers)
    X = np.column_stack([_filled(column, np.nan) for column in features])
    for name, is_finite in zip(names, np.isfinite(X).T, strict=True):
        if not is_finite.all():
            raise _not_finite(table, name, int(np.argmin(is_finite)))
    return carried, names, X


def check_table_output(path: str | os.PathLike[str]) -> None:
    """Refuse a path that no table can be written to, so that callers can fail early."""
    check_writable(path)
    _kind(Path(path), OutputError)


def write_table(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> None:
    """Write columns to a file, completely or not at all.

    The suffix decides the format: text with a header, Parquet, or a NumPy structured array
    (fixed-width text, with missing text as blank). Columns are arrays, which may be masked, or
    lists, all of the same length. Missing values are masked or None.
    """
    path = Path(path)
    write = {"text": write_text, "parquet": _write_parquet, "npy": _write_npy}
    write_to = write[_kind(path, OutputError)]
    with atomic_file(path) as unfinished, _write_errors(str(path)):
        write_to(unfinished, _as_arrays(columns), path)


def csv_text(columns: Mapping[str, Any]) -> bytes:
    """Return columns as the content of a CSV file."""
    with _write_errors("the table"):
        return b"".join(encoded_text(_as_arrays(columns), ","))


def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(
        config={
            "threads": n_threads(),
            "memory_limit": f"{available_memory() // 2**20 + 64}MiB",
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "pandas_analyze_sample": 0,  # objects are text
        }
    )


@contextlib.contextmanager
def _read_errors(path: Path, text: TextFile | None = None) -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise TableError(
            f"{path} needs more memory than is free; use fewer columns or rows, or an engine"
        ) from error
    except duckdb.Error as error:
        problem = "cannot be read" if text else "is not a Parquet file, or is damaged or cut short"
        raise TableError(
            f"{path} {problem}; write or fetch it again ({' '.join(str(error).split())})"
        ) from error


def _table(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    names: list[str],
    rows: str,
    n_rows: int,
    text: TextFile | None = None,
) -> Table:
    """Return a table; refuse repeated names and a table without rows."""
    repeated = _repeated(names)
    if repeated is not None:
        raise TableError(
            f"{path} has more than one column named {repeated!r}; rename one, or add a header if "
            "the first line is data"
        )
    if not names or not n_rows:
        raise TableError(f"{path} has no rows; a table needs at least one")
    # names of DuckDB differ by more than upper and lower case, and are not empty
    rows = f"{rows} AS t({', '.join(f'c{index}' for index in range(len(names)))})"
    described = connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
    columns = {
        name: Column(sql, "INTEGER" if kind.strip('"') == "NULL" else kind)
        for name, (sql, kind, *_) in zip(names, described, strict=True)
    }
    return Table(path, columns, rows, n_rows, connection, text)


def _read_text(path: Path, stream: BinaryIO | None = None) -> Table:
    connection = _connection()
    text, names, rows, n_rows = open_text(connection, path, stream)
    return _table(connection, path, names, rows, n_rows, text)


def _read_parquet(path: Path) -> Table:
    """Read a Parquet file, or all such files in a folder in the order of their names.

    The files of a folder must have the same columns. Subfolders named ``key=value`` become columns
    of text.
    """
    files = [path]
    if path.is_dir():
        files = [
            file
            for file in sorted(path.rglob("*.parquet"))
            if not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
        ]
        if not files:
            raise TableError(f"{path} is a folder without Parquet files; name a file")
    for file in files:
        file.open("rb").close()  # a clear error if it may not be read
    keys = [
        dict(part.split("=", 1) for part in file.relative_to(path).parts[:-1] if "=" in part)
        for file in files
    ]
    connection = _connection()
    with _read_errors(path):
        names = _common_names(connection, files)
        added = dict.fromkeys(key for key in chain(*keys) if key not in names)
        parts = []
        for one, group in groupby(zip(keys, files, strict=True), itemgetter(0)):
            cells = (f", {sql_text(unquote(one[k])) if k in one else 'NULL'}" for k in added)
            listed = ", ".join(sql_text(file) for _, file in group)
            rows = f"read_parquet([{listed}], hive_partitioning = false)"
            parts.append(f"SELECT *{''.join(cells)} FROM {rows}")
        rows = f"({' UNION ALL '.join(parts)})"
        ((n_rows,),) = connection.execute(f"SELECT count(*) FROM {rows}").fetchall()
        return _table(connection, path, [*names, *added], rows, n_rows)


def _common_names(connection: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> list[str]:
    """Return the names of the columns of Parquet files, which must have the same schema."""
    listed = ", ".join(map(sql_text, files))
    query = f"SELECT name, num_children, * FROM parquet_schema([{listed}])"
    by_file = groupby(connection.execute(query).fetchall(), itemgetter(2))
    schemas = {file: [(*row[:2], *row[4:]) for row in rows][1:] for file, rows in by_file}
    first = next(iter(schemas))
    for file, schema in schemas.items():
        if schema != schemas[first]:
            raise TableError(
                f"{first} and {file} have different columns; all files of a folder must have the "
                "same"
            )
    names, n_inside = [], 0
    for name, n_children, *_ in schemas[first]:
        if n_inside:
            n_inside -= 1
        else:
            names.append(name)
        n_inside += n_children or 0
    return names


def _read_npy(path: Path) -> Table:
    """Read the columns of a 2-D array, named p0, p1, …, or the fields of a structured array.

    Pickled objects are refused. Blank text is missing.
    """
    try:
        # mapped, so that a forged header that claims a huge array takes no memory
        array = np.lib.format.open_memmap(path, mode="r", max_header_size=_HEADER_BYTES)
    except OSError:
        raise
    except Exception as error:  # a damaged header raises many kinds of exceptions
        raise TableError(
            f"{path} is not a .npy file of numbers or text, or is cut short; write it with "
            f"numpy.save ({' '.join(str(error).split())})"
        ) from error
    if array.dtype.names is not None and array.ndim == 1:
        return array_table(path, {name: array[name] for name in array.dtype.names})
    if array.dtype.names is None and array.ndim == 2:
        return array_table(path, {f"p{index}": column for index, column in enumerate(array.T)})
    raise TableError(
        f"{path} is an array of shape {array.shape}; a table is 2-D (rows × columns), or 1-D "
        "with named fields"
    )


def _write_parquet(unfinished: Path, columns: Mapping[str, NDArray[Any]], path: Path) -> None:
    names = [name.lower() for name in columns]
    if "" in names or _repeated(names) is not None:
        raise OutputError(
            f"cannot write {path}: columns of .parquet need names that differ by more than upper "
            "and lower case; write .csv instead"
        )
    with _connection() as connection:
        connection.register("arrays", {f"c{i}": a for i, a in enumerate(columns.values())})
        # DuckDB takes NaN in an array for NULL
        cells = (
            f"coalesce(c{i}, 'nan') AS {_identifier(name)}"
            if array.dtype.kind == "f" and not np.ma.isMaskedArray(array)
            else f"c{i} AS {_identifier(name)}"
            for i, (name, array) in enumerate(columns.items())
        )
        target = sql_text(str(unfinished))
        connection.execute(
            f"COPY (SELECT {', '.join(cells)} FROM arrays) TO {target} (FORMAT parquet)"
        )


def _write_npy(unfinished: Path, columns: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write the structured array of ``path``.

    Text is fixed-width unicode, and blank if missing; a missing float is NaN. Other missing
    values are refused.
    """
    if "" in columns:
        raise OutputError(f"cannot write {path}: .npy fields need names, and one column has none")
    fields = {name: _field(path, name, array) for name, array in columns.items()}
    rows = np.empty(
        len(next(iter(fields.values()))), [(name, array.dtype) for name, array in fields.items()]
    )
    for name, array in fields.items():
        rows[name] = array
    with unfinished.open("wb") as file:
        # only version 3 allows field names outside Latin-1
        np.lib.format.write_array(file, rows, version=(3, 0), allow_pickle=False)


def _field(path: Path, name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind == "f":
        return _filled(array, np.nan)
    if array.dtype == object:
        texts = ["" if text is None else text for text in array.tolist()]
        field = np.array(texts, dtype=np.str_)
        if field.tolist() == texts:  # numpy drops NULs at the end of text
            return field
    elif not np.ma.is_masked(array):
        return np.ma.getdata(array)
    raise OutputError(
        f"cannot write {path}: column {name!r} ({array.dtype}) has values a .npy field cannot "
        "hold; write .parquet instead"
    )


def _as_arrays(columns: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return columns as arrays of numbers, truth values or objects, of one length."""
    arrays = {name: np.asanyarray(values) for name, values in columns.items()}
    if len({len(array) for array in arrays.values()}) != 1:
        lengths = ", ".join(f"{name!r}: {len(array)}" for name, array in arrays.items())
        raise InvalidParameterError(f"columns must be of one length; got {lengths or 'none'}")
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(f"column {name!r} has cells that are no numbers and no texts")
        if array.dtype.kind in "UO":  # text in an array of U has lost NULs at its end
            arrays[name] = _text_or_masked(name, np.array(columns[name], object))
    return arrays


def _text_or_masked(name: str, cells: NDArray[Any]) -> NDArray[Any]:
    """Return text, or numbers and truth values that are masked where they are None."""
    present = [cell for cell in cells if cell is not None]
    if all(isinstance(cell, str) for cell in present):
        return cells
    if not all(isinstance(cell, int | float | np.number | np.bool_) for cell in present):
        raise ValueError(f"column {name!r} has cells that are no numbers and no texts")
    numbers = np.array([present[0] if cell is None else cell for cell in cells])
    return np.ma.masked_array(numbers, [cell is None for cell in cells])


@contextlib.contextmanager
def _write_errors(output: str) -> Iterator[None]:
    """Report values that the format of an output cannot hold."""
    try:
        yield
    except InvalidParameterError:
        raise
    except (duckdb.Error, ValueError) as error:
        raise OutputError(f"cannot write {output}: {' '.join(str(error).split())}") from error


def _kind(path: Path, error: type[TableError | OutputError]) -> str:
    """Return the format by the suffix; a folder holds Parquet files."""
    if path.is_dir():
        return "parquet"
    name = path.name.lower()
    for suffix, kind in _KINDS.items():
        if name.endswith(suffix):
            return kind
    raise error(f"{path}: the name of a table must end in one of {', '.join(_KINDS)}")


def _choose(table: Table, ids: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Return the names of the chosen columns; refuse unknown and repeated names."""
    default = (name for name in table.columns if name not in ids)
    names = list(default if columns is None else columns)
    for name in [*ids, *names]:
        if name not in table.columns:
            known = ", ".join(map(repr, table.columns))
            raise TableError(f"{table.path} has no column {name!r}; it has {known}")
    repeated = _repeated([*ids, *names])
    if repeated is not None:
        raise TableError(f"column {repeated!r} of {table.path} is asked for twice; name it once")
    if not names:
        raise TableError(f"{table.path} has no column to use; it needs one besides the ids")
    return names


def _repeated(names: list[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _fetched(
    table: Table, names: Sequence[str], others: Sequence[Column]
) -> tuple[dict[str, NDArray[Any]], list[NDArray[Any]]]:
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


def _filled(values: NDArray[Any], filling: Any) -> NDArray[Any]:
    """Return values with the filling where they are masked."""
    if not np.ma.isMaskedArray(values):
        return values
    filled = values.data.astype(object if filling is None else values.dtype)
    filled[np.ma.getmaskarray(values)] = filling
    return filled


def _check_texts(table: Table, names: Sequence[str]) -> None:
    """Refuse columns of numbers with fractions, which are no names of clusters; warn of −1."""
    cells = [_PRESENT.format(table.columns[name].sql) for name in names]
    number = "TRY_CAST({0} AS DOUBLE)"
    facts = table.ask(
        cells,
        f"bool_and(regexp_matches({{0}}, {sql_text(NUMBER_PATTERN)}))",
        f"bool_or({number} != floor({number}))",
        "bool_or({0} IN ('-1', '-1.0'))",
    )
    for name, cell, (are_numbers, has_fraction, has_minus) in zip(names, cells, facts, strict=True):
        if are_numbers and has_fraction:
            (values,) = table.fetch([Column(number.format(cell), "DOUBLE")])
            row = int(np.argmax(np.ma.filled(values != np.floor(values), False)))
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


def _not_finite(table: Table, name: str, row: int) -> TableError:
    value = table.cell(name, row)
    where = f"{table.path}, {table.place(row)}, column {name!r}"
    if value is None or str(value).strip() in MISSING_TEXTS:
        return TableError(f"{where}: the value is missing; fill it in or leave the row out")
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:60] + "…"
    return TableError(
        f"{where}: {shown} is not a finite number; correct it, or leave the column out "
        "(in the program: --id or --columns)"
    )
