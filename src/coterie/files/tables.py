"""Tables in CSV, Parquet and NPY files; the suffix of the name decides.

CSV files are read as text. :func:`label_columns` and :func:`feature_matrix` interpret the text of
each column. Ids are never interpreted, so ``007`` stays ``007``.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coterie.errors import InvalidParameterError, LabelWarning, OutputError, TableError
from coterie.files.binary_tables import read_npy, read_parquet, write_npy, write_parquet
from coterie.files.delimited_text import encoded_text, line_of_row, read_text, write_text
from coterie.runtime.atomic_files import atomic_file, check_writable
from coterie.runtime.short_reprs import short_repr

__all__ = [
    "INTEGER_PATTERN",
    "MISSING_TEXTS",
    "NUMBER_PATTERN",
    "Table",
    "check_table_output",
    "count_different",
    "csv_text",
    "feature_matrix",
    "holds_only",
    "is_text_or_integer",
    "label_columns",
    "parse_table",
    "read_table",
    "write_table",
]

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
#: First bytes of formats that need a file.
_FILE_FORMATS = {b"PAR1": "Parquet", b"\x93NUMPY": "NPY"}


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of one length n ≥ 1, and the file (or folder) they came from."""

    path: Path
    columns: dict[str, Any]  # pyarrow.ChunkedArray
    raw: bytes | None = None  # the text if it is not in a file; path is then only its name

    __repr__ = short_repr

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def place(self, row: int) -> str:
        """Describe the place of a row, counted from 0: its line, or its number counted from 1."""
        if self.raw is None and _kind(self.path, TableError) != "text":
            return f"row {row + 1}"
        return f"line {line_of_row(self.path, row, self.raw)}"


def read_table(path: str | os.PathLike[str]) -> Table:
    r"""Read a ``.csv``, ``.tsv`` (both also with ``.gz``), ``.parquet`` or ``.npy`` file.

    Text is UTF-8 with a header. The delimiter (comma, semicolon, tab or ``|``) is guessed from
    the first 64 kB. Every column is text, and a blank cell is missing. A ``.parquet`` may be a
    folder of such files. The columns of a 2-D array are named p0, p1, … A file that cannot be
    read raises a TableError that says where and why.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "labels.csv"
    >>> _ = file.write_text("id;run\n007;1\n008;\n")
    >>> {name: column.to_pylist() for name, column in read_table(file).columns.items()}
    {'id': ['007', '008'], 'run': ['1', None]}
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"there is no file {path}; check the name and the folder")
    read = {"text": read_text, "parquet": read_parquet, "npy": read_npy}
    try:
        names, columns = read[_kind(path, TableError)](path)
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror or error}") from error
    return _table(path, names, columns)


def parse_table(raw: bytes, name: str) -> Table:
    r"""Read CSV or TSV text, also gzipped, that is in memory; messages call it ``name``.

    Examples
    --------
    >>> table = parse_table(b"id\trun\n007\t1\n", "standard input")
    >>> {name: column.to_pylist() for name, column in table.columns.items()}
    {'id': ['007'], 'run': ['1']}
    """
    for first_bytes, kind in _FILE_FORMATS.items():
        if raw.startswith(first_bytes):
            raise TableError(
                f"{name} is in {kind} format, but must be CSV or TSV text; save it as a file and "
                "give the name of the file"
            )
    path = Path(name)
    return _table(path, *read_text(path, raw), raw)


def label_columns(
    table: Table, ids: Sequence[str] = (), columns: Sequence[str] | None = None
) -> tuple[dict[str, Any], list[str], list[Any]]:
    """Return the id columns, the names of the partitions, and their columns of labels.

    A column of text whose values are all integers (``3``, ``-1``; not ``03``, which would become
    equal to ``3``) is int64, and −1 means missing; other text stays text. ``MISSING_TEXTS`` are
    missing. Columns of numbers are unchanged.

    By default all columns but ``ids`` are partitions. A column with a −1 that does not mean missing
    gives a LabelWarning.

    Examples
    --------
    >>> table = Table(Path("labels.csv"), {
    ...     "id": pa.chunked_array([["007", "008"]]), "run": pa.chunked_array([["1", "NA"]])})
    >>> carried, names, labels = label_columns(table, ids=["id"])
    >>> carried["id"].to_pylist(), names, labels[0].to_pylist()
    (['007', '008'], ['run'], [1, None])
    """
    carried, names = _choose(table, ids, columns)
    return carried, names, [_labels(table, name) for name in names]


def feature_matrix(
    table: Table, ids: Sequence[str] = (), columns: Sequence[str] | None = None
) -> tuple[dict[str, Any], list[str], NDArray[np.float64]]:
    """Return the id columns, the names of the d features, and the features as an (n, d) array.

    ``ids`` and ``columns`` are those of :func:`label_columns`. Missing and non-finite cells are
    refused.

    Examples
    --------
    >>> table = Table(Path("x.csv"), {"a": pa.chunked_array([["1", "2.5"]])})
    >>> feature_matrix(table)[2].tolist()
    [[1.0], [2.5]]
    """
    carried, names = _choose(table, ids, columns)
    return carried, names, np.column_stack([_numbers(table, name) for name in names])


def count_different(column: Any) -> int:
    """Return the number of different values in a column; missing values are not counted."""
    return int(pc.count_distinct(_plain(column)).as_py())


def is_text_or_integer(column: Any) -> bool:
    """Return whether a column has a type of text or of integers."""
    plain = _plain(column)
    return _is_text(plain) or pa.types.is_integer(plain.type)


def holds_only(column: Any, pattern: str) -> bool:
    """Return whether all values of a column, written as text, match a regular expression.

    >>> holds_only(pa.chunked_array([["1", " 2", None]]), INTEGER_PATTERN)
    True
    """
    present = pc.utf8_trim_whitespace(_plain(column).cast(pa.large_string()))
    return bool(pc.all(pc.match_substring_regex(present, pattern), min_count=0).as_py())


def check_table_output(path: str | os.PathLike[str]) -> None:
    """Refuse a path that no table can be written to, so that callers can fail early."""
    check_writable(path)
    _kind(Path(path), OutputError)


def write_table(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> None:
    """Write columns to a file, completely or not at all.

    The suffix decides the format: text with a header, Parquet (which keeps every type), or a
    NumPy structured array (fixed-width text, with missing text as blank). Columns are NumPy
    arrays, pyarrow arrays or lists, all of the same length.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "consensus.csv"
    >>> write_table(file, {"id": ["007", "a,b"], "cluster": np.array([0, 1])})
    >>> print(file.read_text().strip())
    id,cluster
    007,0
    "a,b",1
    """
    path = Path(path)
    write = {"text": write_text, "parquet": write_parquet, "npy": write_npy}
    write_to = write[_kind(path, OutputError)]
    with atomic_file(path) as unfinished, _format_errors(str(path)):
        write_to(unfinished, _as_columns(columns), path)


def csv_text(columns: Mapping[str, Any]) -> bytes:
    r"""Return columns as the content of a CSV file.

    >>> csv_text({"id": ["007", "a,b"], "cluster": np.array([0, 1])})
    b'id,cluster\n007,0\n"a,b",1\n'
    """
    with _format_errors("the table"):
        return b"".join(encoded_text(_as_columns(columns), ","))


@contextlib.contextmanager
def _format_errors(output: str) -> Iterator[None]:
    """Report values that the format of an output cannot hold."""
    try:
        yield
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise OutputError(f"cannot write {output}: {' '.join(str(error).split())}") from error


def _table(path: Path, names: list[str], columns: list[Any], raw: bytes | None = None) -> Table:
    """Return the columns as a table; refuse repeated names and a table without rows."""
    repeated = _repeated(names)
    if repeated is not None:
        raise TableError(
            f"{path} has more than one column named {repeated!r}; rename one, or add a header if "
            "the first line is data"
        )
    if not names or not len(columns[0]):
        raise TableError(f"{path} has no rows; a table needs at least one")
    return Table(path, dict(zip(names, columns, strict=True)), raw)


def _kind(path: Path, error: type[TableError | OutputError]) -> str:
    """Return the format by the suffix; a folder holds Parquet files."""
    if path.is_dir():
        return "parquet"
    name = path.name.lower()
    for suffix, kind in _KINDS.items():
        if name.endswith(suffix):
            return kind
    raise error(f"{path}: the name of a table must end in one of {', '.join(_KINDS)}")


def _choose(
    table: Table, ids: Sequence[str], columns: Sequence[str] | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the id columns and the names of the chosen ones; refuse unknown and repeated names."""
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
    return {name: table.columns[name] for name in ids}, names


def _repeated(names: list[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _plain(column: Any) -> Any:
    """Decode types that the functions of pyarrow do not accept."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_null(kind):
        return column.cast(pa.int64())
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    return column


def _is_text(column: Any) -> bool:
    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def _is_number(column: Any) -> bool:
    kind = column.type
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _labels(table: Table, name: str) -> Any:
    labels = _plain(table.columns[name])
    if _is_text(labels):
        labels = _text_labels(table, name, labels)
    elif not _is_number(labels):
        raise TableError(
            f"column {name!r} of {table.path} holds {labels.type} values; labels are integers "
            "or text: convert it, or name the columns to use"
        )
    return labels


def _text_labels(table: Table, name: str, text: Any) -> Any:
    """Return text with missing values as null, or integers if all values are integers."""
    trimmed = pc.utf8_trim_whitespace(text)
    missing = pc.is_in(trimmed, pa.array(MISSING_TEXTS, text.type))
    present = pc.if_else(missing, pa.scalar(None, text.type), trimmed)
    if pc.all(pc.match_substring_regex(present, INTEGER_PATTERN), min_count=0).as_py():
        # integers beyond 64 bits stay text, which is a valid label, too
        with contextlib.suppress(pa.ArrowInvalid):
            return present.cast(pa.int64())
    _refuse_measurements(table, name, present)
    if pc.any(pc.is_in(trimmed, pa.array(["-1", "-1.0"], text.type))).as_py():
        warnings.warn(
            f"column {name!r} of {table.path} is text, in which -1 is a label like any other; "
            "leave the cell blank if the label is missing",
            LabelWarning,
            stacklevel=5,
        )
    return pc.if_else(missing, pa.scalar(None, text.type), text)


def _refuse_measurements(table: Table, name: str, present: Any) -> None:
    """Refuse a column of numbers with fractions, which are not names of clusters."""
    if not pc.all(pc.match_substring_regex(present, NUMBER_PATTERN), min_count=1).as_py():
        return
    values = present.cast(pa.float64())
    fractions = pc.fill_null(pc.not_equal(values, pc.floor(values)), False).to_numpy()
    if fractions.any():
        row = int(np.argmax(fractions))
        raise TableError(
            f"column {name!r} of {table.path} holds {present[row].as_py()} ({table.place(row)}): "
            "labels are names of clusters, not measurements; for features use `coterie cluster` or "
            "`coterie choose-k --features`"
        )


def _numbers(table: Table, name: str) -> NDArray[np.float64]:
    column = _plain(table.columns[name])
    if _is_text(column):
        column = pc.utf8_trim_whitespace(column)
        _refuse_first(table, name, pc.match_substring_regex(column, NUMBER_PATTERN))
    elif not _is_number(column) and not pa.types.is_decimal(column.type):
        raise TableError(
            f"column {name!r} of {table.path} holds {column.type} values; features are numbers: "
            "convert it, name it as an id, or name the columns to use"
        )
    numbers = column.cast(pa.float64(), safe=False)
    _refuse_first(table, name, pc.is_finite(numbers))
    return np.asarray(numbers.to_numpy(), dtype=np.float64)


def _refuse_first(table: Table, name: str, valid: Any) -> None:
    """Refuse the first cell of a column that is not valid; null means a missing value."""
    row = pc.index(pc.fill_null(valid, False), False).as_py()
    if row < 0:
        return
    value = table.columns[name][row].as_py()
    where = f"{table.path}, {table.place(row)}, column {name!r}"
    if value is None or str(value).strip() in MISSING_TEXTS:
        raise TableError(f"{where}: the value is missing; fill it in or leave the row out")
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:60] + "…"
    raise TableError(
        f"{where}: {shown} is not a finite number; correct it, or leave the column out "
        "(in the program: --id or --columns)"
    )


def _as_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    chunked = {
        name: values
        if isinstance(values, pa.ChunkedArray)
        else pa.chunked_array([pa.array(values)])
        for name, values in columns.items()
    }
    if len({len(column) for column in chunked.values()}) != 1:
        lengths = ", ".join(f"{name!r}: {len(column)}" for name, column in chunked.items())
        raise InvalidParameterError(f"columns must be of one length; got {lengths or 'none'}")
    return chunked
