"""Delimited text (CSV, TSV): all cells are text, and errors name the line."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import shlex
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from coterie.errors import TableError
from coterie.runtime.devices import available_memory, readable_bytes

__all__ = ["encoded_text", "line_of_row", "read_text", "write_text"]

_DELIMITERS = ",;\t|"
_SAMPLE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 24
#: Memory for reading text, in multiples of its size: parts, whole, copy for the parser, columns.
_COPIES = 5
_GZIP = b"\x1f\x8b"
_ROWS_A_WRITE = 1 << 16
# every possible delimiter is quoted, so that the one in use can always be guessed
_NEEDS_QUOTES = r'[,;\t|"\r\n\x{feff}]|^$'


def read_text(path: Path, raw: bytes | None = None) -> tuple[list[str], list[Any]]:
    r"""Return the header and the columns of a text file; blank cells are missing.

    ``raw`` is the content if it does not come from a file; messages then use ``path`` as its name.

    The delimiter is a tab if the name says ``.tsv``. Otherwise it is the one of ``,``, ``;``, tab
    and ``|`` with which the first 64 kB look most like a table. The file is UTF-8, with or
    without a byte-order mark, and may be gzipped. Names may be repeated, and columns may have no
    rows.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> _ = file.write_text('id|run\n007|"1\n2"\n')
    >>> names, columns = read_text(file)
    >>> names, [column.to_pylist() for column in columns]
    (['id', 'run'], [['007'], ['1\n2']])
    """
    data = _content(path, raw)
    delimiter = _delimiter(path, data)
    header = next(_records(path, data, delimiter))
    width = len(header.fields)
    # An unclosed quote would silently turn the rest of the file into one cell. An extra last
    # row detects this, because it would become part of that cell, too.
    last_row = delimiter.join("." * width)
    data += (b"" if data.endswith((b"\n", b"\r")) else b"\n") + last_row.encode()
    try:
        columns = _parse(data, delimiter, width, header.last_line)
    except pa.ArrowInvalid as error:
        raise _explanation(path, data, delimiter, str(error)) from error
    swallowed = any(column[-1].as_py() != "." for column in columns)
    if swallowed or next(_records(path, data, delimiter)) != header:
        raise _explanation(path, data, delimiter, "a quote is left open")
    return header.fields, [column.slice(0, len(column) - 1) for column in columns]


def line_of_row(path: Path, row: int, raw: bytes | None = None) -> int:
    """Return the line, counted from 1, on which a row, counted from 0, begins."""
    data = _content(path, raw)
    records = _records(path, data, _delimiter(path, data))
    return next(islice(records, row + 1, None)).first_line


def write_text(unfinished: Path, columns: Mapping[str, Any], path: Path) -> None:
    """Write columns to ``unfinished`` as the text file ``path``; its suffix decides the format."""
    parts = encoded_text(columns, "\t" if _is_tab_separated(path) else ",")
    with _opened(unfinished, path.name.lower().endswith(".gz")) as file:
        file.writelines(parts)


def encoded_text(columns: Mapping[str, Any], delimiter: str) -> Iterator[bytes]:
    """Yield the header and the rows as UTF-8, in parts of many lines.

    Missing cells are blank. A column that cannot be text raises a pyarrow.ArrowException.
    """
    # a blank cell in a single column would be a blank line, which many readers skip
    blank = '""' if len(columns) == 1 else ""
    cells = [_cells(column, blank) for column in columns.values()]
    lines = pc.binary_join_element_wise(*cells, pa.scalar(delimiter, pa.large_string()))
    names = _cells(pa.chunked_array([list(columns)], pa.string()), blank).to_pylist()
    yield (delimiter.join(names) + "\n").encode()
    for start in range(0, len(lines), _ROWS_A_WRITE):
        part = lines.slice(start, _ROWS_A_WRITE).to_pylist()
        yield ("\n".join(part) + "\n").encode()


class _Record(NamedTuple):
    first_line: int
    last_line: int
    fields: list[str]


def _content(path: Path, raw: bytes | None) -> bytes:
    """Return the bytes of the text, decompressed and without the byte-order mark."""
    data = path.read_bytes() if raw is None else raw
    if path.name.lower().endswith(".gz") or data.startswith(_GZIP):
        try:
            data = _decompressed(path, data)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(
                f"{path} is not a complete gzip file ({error}); create or fetch it again"
            ) from error
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.strip(b"\r\n"):
        raise TableError(f"{path} is empty; a table needs a header and at least one row")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = len((data[: error.start] + b".").splitlines())
        name = f" {shlex.quote(path.name)}" if raw is None else ""
        raise TableError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as "
            f"UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8{name}"
        ) from error
    return data


def _decompressed(path: Path, data: bytes) -> bytes:
    """Return the text of a gzip file; refuse more than the free memory allows.

    A file of a few megabytes may hold gigabytes, so its size says nothing.
    """
    free, parts, size = available_memory(), [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        while part := file.read(_BLOCK_BYTES):
            parts.append(part)
            size += len(part)
            if size > free // _COPIES:
                raise TableError(
                    f"{path} holds more than {readable_bytes(size)} of text, too much for the "
                    f"{readable_bytes(free)} of memory that are free; convert it to Parquet, which "
                    "takes less memory and can stay in an engine"
                )
    return b"".join(parts)


def _lines(data: bytes) -> io.TextIOWrapper:
    # the data is valid UTF-8, but a sample may end in the middle of a character
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace", newline="")


def _records(path: Path, data: bytes, delimiter: str) -> Iterator[_Record]:
    """Yield the records, header first. Blank lines are skipped unless there is one column only."""
    reader = csv.reader(_lines(data), delimiter=delimiter)
    width = 0
    first_line = 1
    try:
        for fields in reader:
            width = width or len(fields)
            if fields or width == 1:
                yield _Record(first_line, reader.line_num, fields or [""])
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise TableError(
            f"{path}, line {first_line}: {error}; check for an unclosed quote"
        ) from error


def _delimiter(path: Path, data: bytes) -> str:
    """Return the delimiter with which the beginning of the text looks most like a table."""
    if _is_tab_separated(path):
        return "\t"
    return max(_DELIMITERS, key=lambda delimiter: _table_likeness(data, delimiter))


def _table_likeness(data: bytes, delimiter: str) -> tuple[bool, bool, float, int]:
    """Return, by importance: several columns? valid quotes? share of rows of full width, width."""
    sample = data[:_SAMPLE_BYTES]
    cut = len(sample) < len(data)
    reader = csv.reader(_lines(sample), delimiter=delimiter, strict=True)
    widths: list[int] = []
    quoted_well = True
    try:
        widths.extend(len(fields) for fields in reader if fields)
    except csv.Error as error:
        quoted_well = cut and "end of data" in str(error)
    if not widths:
        return False, quoted_well, 0.0, 0
    header, rows = widths[0], widths[1 : -1 if cut else None]
    alike = sum(width == header for width in rows) / len(rows) if rows else 1.0
    return header > 1, quoted_well, alike, header


def _is_tab_separated(path: Path) -> bool:
    return path.name.lower().endswith((".tsv", ".tsv.gz"))


def _parse(data: bytes, delimiter: str, width: int, header_lines: int) -> list[Any]:
    # the names of the header may be repeated
    names = [str(index) for index in range(width)]
    return pyarrow.csv.read_csv(
        pa.BufferReader(_copy_outside_python(data)),
        read_options=pyarrow.csv.ReadOptions(
            column_names=names, skip_rows=header_lines, block_size=_BLOCK_BYTES
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=width > 1
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,
        ),
    ).columns


def _copy_outside_python(data: bytes) -> pa.Buffer:
    """Copy bytes into memory that a thread can release without Python's lock.

    A thread of pyarrow may release the input only when the program exits. If it has to wait for
    Python's lock then, the process is aborted (apache/arrow issue 34314).
    """
    stream = pa.BufferOutputStream()
    stream.write(data)
    return stream.getvalue()


def _explanation(path: Path, data: bytes, delimiter: str, otherwise: str) -> TableError:
    """Explain why text, with the extra last row, could not be parsed, and where."""
    records = _records(path, data, delimiter)
    record = header = next(records)
    ragged = None
    for record in records:
        if ragged is None and len(record.fields) != len(header.fields):
            ragged = record
    if record.fields != ["."] * len(header.fields):
        return TableError(
            f"{path}: a quote is opened in the row that begins on line {record.first_line}, "
            "and never closed; close it"
        )
    if ragged is None:
        return TableError(f"{path} cannot be read: {' '.join(otherwise.split())}")
    return TableError(
        f"{path}, line {ragged.first_line}: {len(ragged.fields)} fields where the header has "
        f"{len(header.fields)} (delimiter {delimiter!r}); correct the row, or quote its text"
    )


def _cells(column: Any, blank: str) -> Any:
    text = column.cast(pa.large_string())
    quote = pa.scalar('"', pa.large_string())
    nothing = pa.scalar("", pa.large_string())
    doubled = pc.replace_substring(text, '"', '""')
    quoted = pc.binary_join_element_wise(quote, doubled, quote, nothing)
    needed = pc.match_substring_regex(text, _NEEDS_QUOTES)
    return pc.fill_null(pc.if_else(needed, quoted, text), blank)


@contextlib.contextmanager
def _opened(unfinished: Path, compressed: bool) -> Iterator[io.BufferedIOBase]:
    with unfinished.open("wb") as plain:
        if not compressed:
            yield plain
            return
        # without time stamp and name, equal tables are equal files
        with gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0) as packed:
            yield packed
