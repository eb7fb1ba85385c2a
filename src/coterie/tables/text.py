"""Delimited text (CSV, TSV): all cells are text, and errors name the line.

Python's csv module defines what a file says. DuckDB reads large files many times faster, and in the
same way if there is no quote and one kind of line end: it strips blanks around quotes, accepts a
delimiter too many at the end of a line, and refuses mixed line ends. A file with quotes is copied
without them if they quote nothing special, and is rewritten by the csv module otherwise.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import shlex
import shutil
import tempfile
import weakref
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.errors import TableError
from coterie.runtime.devices import available_memory, readable_bytes

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DELIMITERS = ",;\t|"
_SAMPLE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 24
_LONGEST_LINE = 1 << 24
_GZIP = b"\x1f\x8b"
#: First bytes of formats that need a file.
_FILE_FORMATS = {b"PAR1": "Parquet", b"\x93NUMPY": "NPY"}
_ROWS_A_WRITE = 1 << 16
# every possible delimiter is quoted, so that the one in use can always be guessed
_NEEDS_QUOTES = re.compile('[,;\t|"\r\n\ufeff]|^$')


class _Record(NamedTuple):
    first_line: int
    last_line: int
    fields: list[str]


class _Copy:
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
    delimiter: str = ","
    copies: tuple[_Copy, ...] = ()  # that are needed as long as this object

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


def open_text(
    connection: DuckDBPyConnection, path: Path, stream: BinaryIO | None = None
) -> tuple[TextFile, list[str], str, int]:
    r"""Return a text file, its header, its rows as a table function of DuckDB, and their number.

    ``stream`` has the content if it is not in a file; messages then use ``path`` as its name.
    The delimiter is a tab if the name says ``.tsv``. Otherwise it is the one of ``,``, ``;``, tab
    and ``|`` with which the first 64 kB look most like a table. The text is UTF-8, with or without
    a byte-order mark, and may be gzipped.
    """
    import duckdb

    text = TextFile(path, path)
    if stream is not None or not path.is_file():
        copy = _Copy()
        with contextlib.nullcontext(stream) if stream else path.open("rb") as source:
            shutil.copyfileobj(source, copy.file)
        copy.file.flush()
        text = TextFile(path, copy.path, copies=(copy,))
    text, marks = _checked(text, is_stream=stream is not None)
    header = next(text.records(), None)
    if header is None:
        raise TableError(f"{path} is empty; a table needs a header and at least one row")
    with text.content.open("rb") as lines:
        head = b"".join(islice(lines, header.last_line))
    has_one_line_end = marks["\r"] == marks["\r\n"] and marks["\r"] in (0, marks["\n"])
    plain, quote, skip, delimiter = None, "", header.last_line, text.delimiter
    if not has_one_line_end or marks['"'] > head.count(b'"'):
        plain, skip = _Copy(), 0
        if not has_one_line_end or not _copy_without_quotes(text, len(head), plain.file):
            _rewrite(text, plain.file)
            quote, delimiter = '"', ","
    types = ", ".join(f"'c{index}': 'VARCHAR'" for index in range(len(header.fields)))
    line_end = "\\r\\n" if marks["\r"] and not quote else "\\n"
    rows = (
        f"read_csv({sql_text(plain.path if plain else text.content)}, "
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
    copies = text.copies if plain is None else (*text.copies, plain)
    return replace(text, copies=copies), header.fields, rows, n_rows


def sql_text(text: object) -> str:
    """Return text as a literal of SQL; a path must not be taken for a pattern of paths."""
    if isinstance(text, Path):
        text = re.sub(r"([*?[])", r"[\1]", str(text.absolute()))
    return "'" + str(text).replace("'", "''") + "'"


def write_text(unfinished: Path, columns: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write columns to ``unfinished`` as the text file ``path``; its suffix decides the format."""
    with contextlib.ExitStack() as files:
        file: Any = files.enter_context(unfinished.open("wb"))
        if path.name.lower().endswith(".gz"):
            # without time stamp and name, equal tables are equal files
            file = files.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        file.writelines(encoded_text(columns, "\t" if _is_tab_separated(path) else ","))


def encoded_text(columns: Mapping[str, NDArray[Any]], delimiter: str) -> Iterator[bytes]:
    """Yield the header and the rows as UTF-8, in parts of many lines; missing cells are blank."""
    # a blank cell in a single column would be a blank line, which many readers skip
    blank = '""' if len(columns) == 1 else ""
    yield (delimiter.join(_cells(np.array(list(columns), object), blank)) + "\n").encode()
    n_rows = len(next(iter(columns.values())))
    for start in range(0, n_rows, _ROWS_A_WRITE):
        part = [_cells(c[start : start + _ROWS_A_WRITE], blank) for c in columns.values()]
        yield ("\n".join(map(delimiter.join, zip(*part, strict=True))) + "\n").encode()


def _cells(values: NDArray[Any], blank: str) -> list[str]:
    """Return values as they are written; only text may need quotes."""
    if values.dtype == bool:
        words = {None: blank, True: "true", False: "false"}
        return [words[value] for value in values.tolist()]
    if values.dtype != object:
        return [blank if text is None else text for text in values.astype(str).tolist()]
    return [blank if value is None else _quoted(str(value)) for value in values.tolist()]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


def _checked(text: TextFile, is_stream: bool) -> tuple[TextFile, Counter[str]]:
    """Return the text, decompressed, and how often delimiters, quotes and line ends occur in it.

    Text that is not UTF-8 is refused, and so is more compressed text than the memory can hold: a
    file of a few megabytes may have gigabytes of text.
    """
    path, free, size, unpacked = text.path, available_memory(), 0, None
    marks: Counter[str] = Counter()
    with text.content.open("rb") as file:
        start = file.peek(_SAMPLE_BYTES)
        for first_bytes, kind in _FILE_FORMATS.items() if is_stream else ():
            if start.startswith(first_bytes):
                raise TableError(
                    f"{path} is in {kind} format, but must be CSV or TSV text; save it as a file "
                    "and give the name of the file"
                )
        source: Any = file
        if path.name.lower().endswith(".gz") or start.startswith(_GZIP):
            source, unpacked = gzip.GzipFile(fileobj=file), _Copy()
        try:
            for block in _blocks(source):
                block.decode()
                if not size:
                    text = replace(text, delimiter=_delimiter(path, block))
                for mark in ('"', "\r", "\n", "\r\n", text.delimiter):
                    marks[mark] += block.count(mark.encode())
                size += len(block)
                if unpacked is not None:
                    unpacked.file.write(block)
                if unpacked is not None and size > free // 4:
                    raise TableError(
                        f"{path} holds more than {readable_bytes(size)} of text, too much for the "
                        f"{readable_bytes(free)} of memory that are free; convert it to Parquet, "
                        "which takes less memory and can stay in an engine"
                    )
        except UnicodeDecodeError as error:
            line = marks["\n"] + len((block[: error.start] + b".").splitlines())
            name = "" if is_stream else f" {shlex.quote(path.name)}"
            raise TableError(
                f"{path}, line {line}: byte 0x{block[error.start]:02x} is not UTF-8; save the file "
                f"as UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8{name}"
            ) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(
                f"{path} is not a complete gzip file ({error}); create or fetch it again"
            ) from error
    if unpacked is not None:
        unpacked.file.flush()
        text = replace(text, content=unpacked.path, copies=(unpacked,))
    return text, marks


def _blocks(file: Any) -> Iterator[bytes]:
    """Yield the content in parts that end at the end of a line."""
    return iter(lambda: file.read(_BLOCK_BYTES) + file.readline(), b"")


def _copy_without_quotes(text: TextFile, start: int, copy: Any) -> bool:
    """Copy the text from a byte on without its quotes; stop if one of them is needed."""
    ends = (text.delimiter + "\r\n").encode()
    special = re.compile(b"[" + re.escape(ends) + b"]")
    with text.content.open("rb") as file:
        file.seek(start)
        for block in _blocks(file):
            # outside and inside a quoted cell in turn
            parts = (b"\n" + block + b"\n").split(b'"')
            if (
                len(parts) % 2 == 0
                or not all(part and part[0] in ends and part[-1] in ends for part in parts[::2])
                or special.search(b"".join(parts[1::2]))
            ):
                return False
            copy.write(b"".join(parts)[1:-1])
    copy.flush()
    return True


def _rewrite(text: TextFile, copy: Any) -> None:
    """Write the rows as the csv module reads them, with quotes around all cells."""
    copy.seek(0)
    copy.truncate()
    lines = codecs.getwriter("utf-8")(copy)
    writer = csv.writer(lines, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(record.fields for record in islice(text.records(), 1, None))
    copy.flush()


def _delimiter(path: Path, start: bytes) -> str:
    """Return the delimiter with which the beginning of the text looks most like a table."""
    if _is_tab_separated(path):
        return "\t"
    return max(_DELIMITERS, key=lambda delimiter: _table_likeness(start, delimiter))


def _table_likeness(start: bytes, delimiter: str) -> tuple[bool, bool, float, int]:
    """Return, by importance: several columns? valid quotes? share of rows of full width, width."""
    # the sample may end in the middle of a character
    sample = start[:_SAMPLE_BYTES].decode("utf-8-sig", errors="replace")
    is_cut = len(start) > _SAMPLE_BYTES
    widths: list[int] = []
    quoted_well = True
    try:
        lines = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=True)
        widths.extend(len(fields) for fields in lines if fields)
    except csv.Error as error:
        quoted_well = is_cut and "end of data" in str(error)
    if not widths:
        return False, quoted_well, 0.0, 0
    header, rows = widths[0], widths[1 : -1 if is_cut else None]
    alike = sum(width == header for width in rows) / len(rows) if rows else 1.0
    return header > 1, quoted_well, alike, header


def _is_tab_separated(path: Path) -> bool:
    return path.name.lower().endswith((".tsv", ".tsv.gz"))
