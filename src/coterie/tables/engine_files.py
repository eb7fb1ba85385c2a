"""Text files for an engine: DuckDB and Spark read the same rows.

The header is read here, so that no engine guesses the dialect, takes a line for a comment or
matches columns by position.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from coterie.errors import TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pyspark.sql import DataFrame, SparkSession

TEXT_ENDINGS = tuple(kind + packed for kind in (".csv", ".tsv") for packed in ("", ".gz", ".zst"))

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"

_LONGEST_HEADER = 1 << 20


@dataclass(frozen=True)
class TextLayout:
    """The format of delimited text."""

    delimiter: str = ","
    columns: tuple[str, ...] = ()  # empty if only the engine can open the files
    has_header: bool = True  # without a header, quotes are ordinary characters
    skip: int = 0  # lines before the header


class RejectedLine(NamedTuple):
    """A line of a text file that is not a row."""

    path: str
    number: int
    fault: str
    hides_others: bool  # an open quote makes the lines after it a part of its field


def is_remote(path: str) -> bool:
    """Return whether only an engine can open a path, for example s3://bucket/bids."""
    return "://" in path


def is_text(name: str) -> bool:
    """Return whether the name is that of delimited text."""
    return name.lower().endswith(TEXT_ENDINGS)


def first_bytes(path: str, n: int) -> bytes:
    """Return the first n bytes of a file, or all if it is shorter."""
    try:
        with Path(path).open("rb") as file:
            return file.read(n)
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror or error}") from error


def open_text(path: str, errors: str = "strict") -> io.TextIOBase:
    """Open delimited text, packed by gzip or Zstandard or not; skip a byte-order mark."""
    if first_bytes(path, 2) == _GZIP:
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors, newline="")
    if first_bytes(path, 4) == _ZSTD:
        unpacked: Any = pa.input_stream(path, compression="zstd")
        return io.TextIOWrapper(unpacked, encoding="utf-8-sig", errors=errors, newline="")
    return Path(path).open(encoding="utf-8-sig", errors=errors, newline="")


def header_line(path: str, skip: int = 0) -> str:
    """Return the first line of a text file after those to skip."""
    try:
        with open_text(path) as lines:
            for _ in range(skip + 1):
                line = lines.readline(_LONGEST_HEADER)
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: the first lines are not UTF-8; save it as UTF-8") from error
    except (OSError, EOFError) as error:
        raise TableError(f"{path}: cannot be read: {error}") from error
    if not line.strip():
        raise TableError(f"{path}: the file is empty, or begins with an empty line")
    if "\0" in line:
        raise TableError(f"{path}: the header has NUL characters, as UTF-16 has; save it as UTF-8")
    return line.rstrip("\r\n")


def header_fields(header: str, delimiter: str) -> list[str]:
    """Return the names in a header line.

    >>> header_fields('a,"b,c"', ",")
    ['a', 'b,c']
    """
    try:
        return next(csv.reader([header], delimiter=delimiter))
    except csv.Error as error:
        raise TableError(f"a header that begins {header[:40]!r} cannot be read: {error}") from error


def delimiter_of(header: str) -> str:
    """Return the one of comma, tab, semicolon and bar that gives a header line the most names.

    >>> delimiter_of('"a;b;c",d')
    ','
    """

    def n_names(delimiter: str) -> int:
        try:
            return len(next(csv.reader([header], delimiter=delimiter, strict=True)))
        except csv.Error:  # quotes inside a name, or a name that is too long
            return 0

    return max(",\t;|", key=n_names)


def header_difference(here: Iterable[str], there: Iterable[str]) -> str:
    """Describe the difference between the column names of two files."""
    sides = {"has": set(here) - set(there), "lacks": set(there) - set(here)}
    parts = [f"it {verb} {', '.join(sorted(names))}" for verb, names in sides.items() if names]
    return " and ".join(parts) or "the order of columns"


def path_for_duckdb(path: str) -> str:
    """Escape a path for DuckDB, which reads every path as a glob."""
    return path if is_remote(path) else glob.escape(path)


def path_for_spark(path: str) -> str:
    """Return a path as a URL of the local file system without glob characters."""
    if is_remote(path):
        return path
    return f"file://{escaped_for_hadoop(str(Path(path).absolute()))}"


def escaped_for_hadoop(path: str) -> str:
    r"""Escape the glob characters of Hadoop in a path.

    >>> print(escaped_for_hadoop("a[1]*.csv"))
    a\[1\]\*.csv
    """
    return "".join(f"\\{c}" if c in "*?[]{}\\" else c for c in path)


def text_in_duckdb(
    paths: Sequence[str],
    layout: TextLayout,
    connection: Any,
    view: str | None = None,
    rejects: str = "",
) -> ir.Table:
    """Read text files as a table of DuckDB with text columns; ``view`` names its view.

    A line with another number of fields than the header is an error. With ``rejects``, it is left
    out instead, and every query adds it to the temporary tables that :func:`rejected_lines` reads.
    """
    quote = '"' if layout.has_header else ""
    columns = dict.fromkeys(layout.columns, "VARCHAR")
    kept = {"rejects_table": rejects, "rejects_scan": f"{rejects}_scans"}
    return connection.read_csv(
        [path_for_duckdb(path) for path in paths],
        table_name=view,
        header=layout.has_header,
        delim=layout.delimiter,
        quote=quote,
        escape=quote,
        comment="",
        skip=layout.skip,
        compression=_packing_of(paths),
        **({"store_rejects": True, **kept} if rejects else {}),
        # DuckDB guesses a dialect only if the columns are not given
        **({"columns": columns} if columns else {"all_varchar": True}),
    )


def _packing_of(paths: Sequence[str]) -> str:
    """Return how files are packed, by their first bytes; "auto" if their names say it."""
    if any(is_remote(path) for path in paths):
        return "auto"
    packings = {path: _packing(path) for path in paths}
    if len(set(packings.values())) == 1:
        return packings[paths[0]]
    for path, packing in packings.items():
        if packing != _packing_by_name(path):
            raise TableError(
                f"{path}: its ending does not say how it is packed ({packing}), and other files "
                "are packed otherwise; rename it"
            )
    return "auto"


def _packing(path: str) -> str:
    start = first_bytes(path, 4)
    return "gzip" if start[:2] == _GZIP else "zstd" if start == _ZSTD else "none"


def _packing_by_name(path: str) -> str:
    return {".gz": "gzip", ".zst": "zstd"}.get(Path(path).suffix.lower(), "none")


def rejected_lines(rejects: str, connection: Any) -> list[RejectedLine]:
    """Return the lines left out so far, by file and number."""
    rejected = connection.con.sql(
        # every query repeats the lines, and one line may have several messages
        "SELECT file_path, line, min(error_message), "
        "max(error_type::VARCHAR = 'LINE SIZE OVER MAXIMUM' OR (error_type::VARCHAR = "
        "'UNQUOTED VALUE' AND contains(rtrim(csv_line, chr(10)), chr(10)))) "
        f"FROM {rejects} JOIN {rejects}_scans USING (scan_id, file_id) "
        "GROUP BY file_path, line ORDER BY ALL"
    )
    return [RejectedLine(*row) for row in rejected.fetchall()]


def text_in_spark(paths: Sequence[str], layout: TextLayout, session: SparkSession) -> DataFrame:
    """Read text files as a Spark frame with text columns."""
    from pyspark.sql.types import StringType, StructField, StructType

    if layout.skip:
        raise TableError(f"{paths[0]}: Spark does not skip the line before the header: remove it")
    for path in paths:
        if not is_remote(path) and _packing(path) != _packing_by_name(path):
            raise TableError(
                f"{path}: its ending does not say how it is packed ({_packing(path)}), which Spark "
                "needs; rename it"
            )
    schema = StructType([StructField(name, StringType()) for name in layout.columns])
    return session.read.csv(
        [path_for_spark(path) for path in paths],
        schema=schema if layout.columns else None,
        sep=layout.delimiter,
        header=layout.has_header,
        quote='"' if layout.has_header else "",
        escape='"',
        multiLine=True,
        mode="FAILFAST",
        # if headers were not compared here, Spark compares them
        enforceSchema=bool(layout.columns),
    )
