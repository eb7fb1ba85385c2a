"""Tables from CSV, TSV, Parquet and NPY files into DuckDB; the suffix of the name decides.

Python's csv module defines what a text file says. DuckDB reads large files many times faster, and
in the same way if there is no quote and one kind of line end: it strips blanks around quotes,
accepts a delimiter too many at the end of a line, and refuses mixed line ends. Other text is
rewritten by the csv module first. Every column of text stays text here;
:mod:`coterie.tables.columns` interprets it.

Tables that are too large for memory are read by :mod:`coterie.tables.sources`, with the same
delimiter, the same files of a folder and the same comparison of Parquet files.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import os
import shlex
import tempfile
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote

import duckdb
import numpy as np

from coterie.arrays import AnyArray
from coterie.errors import OutputError, TableError
from coterie.runtime.devices import available_memory, n_threads, readable_bytes
from coterie.tables.columns import Column, Table, first_repeated, read_errors, sql_text

FILE_KINDS = {
    ".csv": "text",
    ".csv.gz": "text",
    ".tsv": "text",
    ".tsv.gz": "text",
    ".parquet": "parquet",
    ".npy": "npy",
}
_HEADER_BYTES = 1 << 20
_DELIMITERS = ",;\t|"
_SAMPLE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 24
_LONGEST_LINE = 1 << 24
_GZIP = b"\x1f\x8b"
#: First bytes of formats that need a file.
_FILE_FORMATS = {b"PAR1": "Parquet", b"\x93NUMPY": "NPY"}


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
        return read[file_kind(path, TableError)](path)
    except OSError as error:
        raise TableError(f"cannot read {path}: {error.strerror or error}") from error


def parse_table(stream: BinaryIO, name: str) -> Table:
    """Read CSV or TSV text, also gzipped, from a stream; messages call it ``name``."""
    return _read_text(Path(name), stream)


def array_table(path: Path, columns: Mapping[str, AnyArray]) -> Table:
    """Return arrays in memory as the table of a file."""
    connection, registered = memory_connection(), {}
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


def _table(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    names: list[str],
    rows: str,
    n_rows: int,
    line_of_row: Callable[[int], int] | None = None,
) -> Table:
    """Return a table; refuse repeated names and a table without rows."""
    repeated = first_repeated(names)
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
    return Table(path, columns, rows, n_rows, connection, line_of_row)


def memory_connection() -> duckdb.DuckDBPyConnection:
    """Return a connection that uses the free memory and no disk."""
    return duckdb.connect(
        config={
            # with more, DuckDB 2.0 returns the row groups of Parquet files and arrays in any order
            "threads": 1,
            "memory_limit": f"{available_memory() // 2**20 + 64}MiB",
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "pandas_analyze_sample": 0,  # objects are text
        }
    )


def file_kind(path: Path, error: type[TableError | OutputError]) -> str:
    """Return the format by the suffix; a folder holds Parquet files."""
    if path.is_dir():
        return "parquet"
    name = path.name.lower()
    for suffix, kind in FILE_KINDS.items():
        if name.endswith(suffix):
            return kind
    raise error(f"{path}: the name of a table must end in one of {', '.join(FILE_KINDS)}")


# ---- Parquet and NPY


def files_in_folder(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return the visible files with one of some endings in a folder and below, sorted."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.name.lower().endswith(endings)
        and path.is_file()
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]


def parquet_columns(
    connection: duckdb.DuckDBPyConnection, files: Iterable[Path]
) -> dict[str, list[tuple[str, str]]]:
    """Return for each Parquet file the names of its columns and their types."""

    def fields(some: Sequence[Path]) -> list[tuple[Any, ...]]:
        shown = "name, num_children, type, converted_type, scale, precision, logical_type"
        listed = ", ".join(map(sql_text, some))
        query = f"SELECT file_name, {shown} FROM parquet_schema([{listed}])"
        return connection.execute(query).fetchall()

    files = list(dict.fromkeys(files))
    try:
        found = fields(files)
    except duckdb.Error:
        for file in files:  # one of them is refused by name
            with read_errors(file):
                fields([file])
        raise
    schemas = [tuple(row[1:] for row in rows) for _, rows in groupby(found, itemgetter(0))]
    described: dict[Any, list[tuple[str, str]]] = {}
    for file, schema in zip(files, schemas, strict=True):
        if schema in described:
            continue
        names, n_inside = [], 0  # the schema also has what is inside a column
        for name, n_children, *_ in schema[1:]:
            if n_inside:
                n_inside -= 1
            else:
                names.append(name)
            n_inside += n_children or 0
        with read_errors(file):
            rows = f"read_parquet({sql_text(file)}, hive_partitioning = false)"
            kinds = connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
        # DuckDB describes them with other names if these differ by case only
        described[schema] = list(zip(names, (kind for _, kind, *_ in kinds), strict=True))
    return {str(file): described[one] for file, one in zip(files, schemas, strict=True)}


def refuse_different(
    columns: Mapping[str, Sequence[tuple[str, str]]], *, in_order: bool = False
) -> None:
    """Refuse files whose columns or types are not those of the first; engines would cast them."""
    first, wanted = next(iter(columns.items()))
    types = dict(wanted)
    for file, found in columns.items():
        here, there = ([name for name, _ in one] for one in (found, wanted))
        if here != there if in_order else sorted(here) != sorted(there):
            raise TableError(
                f"{file}: its columns differ from those of {first}: "
                f"{header_difference(here, there)}; files of one table need the same columns"
            )
        for name, kind in found:
            if kind != types[name]:
                raise TableError(
                    f"{file}: column {name!r} is {kind}, and {types[name]} in {first}; write "
                    "both with the same type"
                )


def header_difference(here: Iterable[str], there: Iterable[str]) -> str:
    """Describe the difference between the column names of two files."""
    sides = {"has": set(here) - set(there), "lacks": set(there) - set(here)}
    parts = [f"it {verb} {', '.join(sorted(names))}" for verb, names in sides.items() if names]
    return " and ".join(parts) or "the order of columns"


def _read_parquet(path: Path) -> Table:
    """Read a Parquet file, or all in a folder; subfolders ``key=value`` are columns of text."""
    files = files_in_folder(path, (".parquet",)) if path.is_dir() else [path]
    if not files:
        raise TableError(f"{path} is a folder without Parquet files; name a file")
    for file in files:
        file.open("rb").close()  # a clear error if it may not be read
    connection = memory_connection()
    columns = parquet_columns(connection, files)
    refuse_different(columns, in_order=True)
    names = [name for name, _ in columns[str(files[0])]]
    keys = [
        dict(part.split("=", 1) for part in file.relative_to(path).parts[:-1] if "=" in part)
        for file in files
    ]
    added = dict.fromkeys(key for key in chain(*keys) if key not in names)
    parts = []
    for one, group in groupby(zip(keys, files, strict=True), itemgetter(0)):
        cells = (f", {sql_text(unquote(one[k])) if k in one else 'NULL'}" for k in added)
        listed = ", ".join(sql_text(file) for _, file in group)
        rows = f"read_parquet([{listed}], hive_partitioning = false)"
        parts.append(f"SELECT *{''.join(cells)} FROM {rows}")
    rows = f"({' UNION ALL '.join(parts)})"
    with read_errors(path):
        ((n_rows,),) = connection.execute(f"SELECT count(*) FROM {rows}").fetchall()
        return _table(connection, path, [*names, *added], rows, n_rows)


def _read_npy(path: Path) -> Table:
    """Read the columns of a 2-D array, named p0, p1, …, or the fields of a structured array."""
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


# ---- Delimited text


class _Record(NamedTuple):
    first_line: int
    last_line: int
    fields: list[str]


class TemporaryCopy:
    """A temporary file without a name in any folder, so that even a killed process leaves none."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.path = Path(f"/dev/fd/{self.file.fileno()}")
        weakref.finalize(self, self.file.close)


@dataclass(frozen=True)
class TextFile:
    """Text that is not compressed, in a file that DuckDB can open."""

    path: Path  # its name in messages
    content: Path
    delimiter: str
    copies: list[TemporaryCopy]  # that are needed as long as this object

    def records(self) -> Iterator[_Record]:
        """Yield the records, header first, with as many fields; refuse others by their line.

        Blank lines are skipped unless there is one column only.
        """
        width, first_line = 0, 1
        held: _Record | None = None
        usual_limit = csv.field_size_limit(_LONGEST_LINE)
        with self.content.open(encoding="utf-8-sig", newline="") as lines:
            # If a quote is left open, the last cell also swallows this additional line.
            reader = csv.reader(chain(lines, ["."]), delimiter=self.delimiter)
            try:
                for fields in reader:
                    if held is not None:
                        if len(held.fields) != width:
                            raise TableError(
                                f"{self.path}, line {held.first_line}: {len(held.fields)} fields "
                                f"where the header has {width} (delimiter {self.delimiter!r}); "
                                "correct the row, or quote its text"
                            )
                        yield held
                        held = None
                    width = width or len(fields)
                    if fields or width == 1:
                        held = _Record(first_line, reader.line_num, fields or [""])
                    first_line = reader.line_num + 1
            except csv.Error as error:
                raise TableError(
                    f"{self.path}, line {first_line}: {error}; check for an unclosed quote"
                ) from error
            finally:
                csv.field_size_limit(usual_limit)
        if held is not None and held.first_line < held.last_line:
            raise TableError(
                f"{self.path}: a quote is opened in the row that begins on line {held.first_line}, "
                "and never closed; close it"
            )

    def line_of_row(self, row: int) -> int:
        """Return the line, counted from 1, on which a row, counted from 0, begins."""
        return next(islice(self.records(), row + 1, None)).first_line


def _read_text(path: Path, stream: BinaryIO | None = None) -> Table:
    """Read a text file, or a stream with ``path`` as its name in messages."""
    connection = memory_connection()
    connection.execute(f"SET threads = {n_threads()}")
    text, marks = _checked(path, stream)
    header = next(text.records(), None)
    if header is None:
        raise TableError(f"{path} is empty; a table needs a header and at least one row")
    with text.content.open("rb") as lines:
        head = b"".join(islice(lines, header.last_line))
    has_one_line_end = marks["\r"] == marks["\r\n"] and marks["\r"] in (0, marks["\n"])
    content, quote, skip, delimiter = text.content, "", header.last_line, text.delimiter
    if not has_one_line_end or marks['"'] > head.count(b'"'):
        plain = TemporaryCopy()
        writer = csv.writer(
            codecs.getwriter("utf-8")(plain.file), quoting=csv.QUOTE_ALL, lineterminator="\n"
        )
        writer.writerows(record.fields for record in islice(text.records(), 1, None))
        plain.file.flush()
        text.copies.append(plain)
        content, quote, skip, delimiter = plain.path, '"', 0, ","
    types = ", ".join(f"'c{index}': 'VARCHAR'" for index in range(len(header.fields)))
    line_end = "\\r\\n" if marks["\r"] and not quote else "\\n"
    rows = (
        f"read_csv({sql_text(content)}, "
        f"columns = {{{types}}}, auto_detect = false, header = false, skip = {skip}, "
        f"delim = '{delimiter}', quote = '{quote}', escape = '{quote}', new_line = '{line_end}', "
        "comment = '', nullstr = '', null_padding = false, "
        f"max_line_size = {_LONGEST_LINE}, parallel = {not quote})"
    )
    try:
        ((n_rows,),) = connection.execute(f"SELECT count(*) FROM {rows}").fetchall()
        n_delimiters = marks[delimiter] - head.count(delimiter.encode())
        is_exact = bool(quote) or n_delimiters == n_rows * (len(header.fields) - 1)
        fault = "its rows are of different lengths"
    except duckdb.Error as error:
        is_exact, fault = False, str(error)
    if not is_exact:
        for _ in text.records():  # one of them is refused by its line
            pass
        raise TableError(f"{path} cannot be read: {' '.join(fault.split())}")
    return _table(connection, path, header.fields, rows, n_rows, text.line_of_row)


def _checked(path: Path, stream: BinaryIO | None) -> tuple[TextFile, Counter[str]]:
    """Return the text, and how often delimiters, quotes and line ends occur in it.

    A stream, a pipe and compressed text are copied to a file. Text that is not UTF-8 is refused,
    and so is more compressed text than the memory can hold.
    """
    free, size, marks = available_memory(), 0, Counter[str]()
    delimiter = "\t" if is_tab_separated(path.name) else ""
    with contextlib.ExitStack() as files:
        if stream is None:
            file = files.enter_context(path.open("rb"))
        else:
            file = io.BufferedReader(stream)  # type: ignore[arg-type]
            files.callback(file.detach)
        start = file.peek(_SAMPLE_BYTES)
        for first_bytes, kind in _FILE_FORMATS.items() if stream else ():
            if start.startswith(first_bytes):
                raise TableError(
                    f"{path} is in {kind} format, but must be CSV or TSV text; save it as a file "
                    "and give the name of the file"
                )
        is_packed = path.name.lower().endswith(".gz") or start.startswith(_GZIP)
        source: Any = gzip.GzipFile(fileobj=file) if is_packed else file
        copies = [TemporaryCopy()] if stream or is_packed or not path.is_file() else []
        try:
            # blocks end at the end of a line
            for block in iter(lambda: source.read(_BLOCK_BYTES) + source.readline(), b""):
                block.decode()
                if not delimiter:
                    # the sample may end in the middle of a character
                    sample = block[:_SAMPLE_BYTES].decode("utf-8-sig", errors="replace")
                    delimiter = guess_delimiter(sample, is_cut=len(block) > _SAMPLE_BYTES)
                for mark in ('"', "\r", "\n", "\r\n", delimiter):
                    marks[mark] += block.count(mark.encode())
                size += len(block)
                for copy in copies:
                    copy.file.write(block)
                if is_packed and size > free // 4:
                    raise TableError(
                        f"{path} holds more than {readable_bytes(size)} of text, too much for the "
                        f"{readable_bytes(free)} of memory that are free; convert it to Parquet, "
                        "which takes less memory and can stay in an engine"
                    )
        except UnicodeDecodeError as error:
            line = marks["\n"] + len((block[: error.start] + b".").splitlines())
            name = "" if stream else f" {shlex.quote(path.name)}"
            raise TableError(
                f"{path}, line {line}: byte 0x{block[error.start]:02x} is not UTF-8; save the file "
                f"as UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8{name}"
            ) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(
                f"{path} is not a complete gzip file ({error}); create or fetch it again"
            ) from error
    for copy in copies:
        copy.file.flush()
    content = copies[0].path if copies else path
    return TextFile(path, content, delimiter or ",", copies), marks


def is_tab_separated(name: str) -> bool:
    """Return whether the name of a text file says that its delimiter is a tab."""
    return name.lower().endswith((".tsv", ".tsv.gz", ".tsv.zst"))


def guess_delimiter(start: str, *, is_cut: bool = False) -> str:
    r"""Return the one of ``,;\t|`` with which the beginning of a text looks most like a table.

    ``is_cut`` says that the beginning ends anywhere, not at the end of a line.
    """

    def likeness(delimiter: str) -> tuple[bool, bool, float, int]:
        """Several columns? Valid quotes? The share of rows of full width, and the width."""
        widths: list[int] = []
        quoted_well = True
        try:
            lines = csv.reader(io.StringIO(start, newline=""), delimiter=delimiter, strict=True)
            widths.extend(len(fields) for fields in lines if fields)
        except csv.Error as error:
            quoted_well = is_cut and "end of data" in str(error)
        if not widths:
            return False, quoted_well, 0.0, 0
        header, rows = widths[0], widths[1 : -1 if is_cut else None]
        alike = sum(width == header for width in rows) / len(rows) if rows else 1.0
        return header > 1, quoted_well, alike, header

    return max(_DELIMITERS, key=likeness)
