"""How an engine is to read files: the same rows from DuckDB and from Spark, and nothing guessed.

The header of text is read here, so that no engine sniffs a dialect, takes a line for a comment or
matches columns by their position.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "TEXT_ENDINGS",
    "TextLayout",
    "delimiter_of",
    "escaped_for_hadoop",
    "first_bytes",
    "header_difference",
    "header_fields",
    "header_line",
    "is_remote",
    "is_text",
    "open_text",
    "path_for_duckdb",
    "path_for_spark",
    "text_in_duckdb",
    "text_in_spark",
]

TEXT_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

_LONGEST_HEADER = 1 << 20


@dataclass(frozen=True)
class TextLayout:
    """How delimited text is read.

    Attributes
    ----------
    delimiter : str
    columns : tuple of str
        Their names; empty where an engine alone can open the files, and reads the header.
    has_header : bool
        Without one, quotes are characters like any other.
    """

    delimiter: str = ","
    columns: tuple[str, ...] = ()
    has_header: bool = True


def is_remote(path: str) -> bool:
    """Whether a path is for an engine alone to open, as s3://bucket/bids is."""
    return "://" in path


def is_text(name: str) -> bool:
    """Whether a file is delimited text, by its name."""
    return name.lower().endswith(TEXT_ENDINGS)


def first_bytes(path: str, n: int) -> bytes:
    """The first bytes of a file, fewer where it has no more."""
    try:
        with Path(path).open("rb") as file:
            return file.read(n)
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror or error}") from error


def open_text(path: str, errors: str = "strict") -> io.TextIOBase:
    """Open delimited text, gzipped or not; a byte-order mark is left out."""
    if first_bytes(path, 2) == b"\x1f\x8b":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors, newline="")
    return Path(path).open(encoding="utf-8-sig", errors=errors, newline="")


def header_line(path: str) -> str:
    """The first line of a text file."""
    try:
        with open_text(path) as lines:
            line = lines.readline(_LONGEST_HEADER)
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: the first lines are not UTF-8; save it as UTF-8") from error
    except (OSError, EOFError) as error:
        raise TableError(f"{path}: cannot be read: {error}") from error
    if not line.strip():
        raise TableError(f"{path}: the file is empty, or begins with an empty line")
    return line.rstrip("\r\n")


def header_fields(header: str, delimiter: str) -> list[str]:
    """The names in a header line.

    >>> header_fields('a,"b,c"', ",")
    ['a', 'b,c']
    """
    try:
        return next(csv.reader([header], delimiter=delimiter))
    except csv.Error as error:
        raise TableError(f"a header that begins {header[:40]!r} cannot be read: {error}") from error


def delimiter_of(header: str) -> str:
    """Which of comma, tab, semicolon and bar divides a header line into the most names.

    >>> delimiter_of('"a;b;c",d')
    ','
    """

    def n_names(delimiter: str) -> int:
        try:
            return len(next(csv.reader([header], delimiter=delimiter, strict=True)))
        except csv.Error:  # quotes within a name, or a name that is too long to be one
            return 0

    return max(",\t;|", key=n_names)


def header_difference(here: Iterable[str], there: Iterable[str]) -> str:
    """What the names of one file have and lack beside those of another, in words."""
    sides = {"has": set(here) - set(there), "lacks": set(there) - set(here)}
    told = [f"it {verb} {', '.join(sorted(names))}" for verb, names in sides.items() if names]
    return " and ".join(told) or "the order of columns"


def path_for_duckdb(path: str) -> str:
    """A path that DuckDB, which takes every one for a glob, takes for what it is."""
    return path if is_remote(path) else glob.escape(path)


def path_for_spark(path: str) -> str:
    """A path that is neither a glob nor looked for in the default file system."""
    if is_remote(path):
        return path
    return f"file://{escaped_for_hadoop(str(Path(path).absolute()))}"


def escaped_for_hadoop(path: str) -> str:
    r"""A path in which nothing is a pattern.

    >>> print(escaped_for_hadoop("a[1]*.csv"))
    a\[1\]\*.csv
    """
    return "".join(f"\\{c}" if c in "*?[]{}\\" else c for c in path)


def text_in_duckdb(
    paths: Sequence[str], layout: TextLayout, connection: Any, view: str | None = None
) -> ir.Table:
    """Text files as a table of DuckDB, every column text; ``view`` is the name of its view."""
    quote = '"' if layout.has_header else ""
    columns = dict.fromkeys(layout.columns, "VARCHAR")
    return connection.read_csv(
        [path_for_duckdb(path) for path in paths],
        table_name=view,
        header=layout.has_header,
        delim=layout.delimiter,
        quote=quote,
        escape=quote,
        comment="",
        skip=0,
        # DuckDB looks for a dialect only where the columns are not known
        **({"columns": columns} if columns else {"all_varchar": True}),
    )


def text_in_spark(paths: Sequence[str], layout: TextLayout, session: SparkSession) -> DataFrame:
    """Text files as a Spark frame, every column text."""
    return session.read.csv(
        [path_for_spark(path) for path in paths],
        schema=_text_schema(layout.columns) if layout.columns else None,
        sep=layout.delimiter,
        header=layout.has_header,
        quote='"' if layout.has_header else "",
        escape='"',
        multiLine=True,
        mode="FAILFAST",
        # headers that were not compared here are to be compared there
        enforceSchema=bool(layout.columns),
    )


def _text_schema(columns: Iterable[str]) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType()) for name in columns])
