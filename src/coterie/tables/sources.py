"""Tables in their engine: files, tables of a database, and Ibis tables; no row is read.

DuckDB and Spark read the same rows of text files: their header is read here, so that no engine
guesses the dialect, takes a line for a comment or matches columns by position.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import gzip
import io
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.errors import InvalidLabelsError, TableError
from coterie.tables.engines import LocalTables, engine_errors, in_duckdb, table_names
from coterie.tables.reading import (
    files_in_folder,
    guess_delimiter,
    header_difference,
    is_tab_separated,
    memory_connection,
    parquet_columns,
    refuse_different,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pyspark.sql import DataFrame, SparkSession

TEXT_ENDINGS = tuple(kind + packed for kind in (".csv", ".tsv") for packed in ("", ".gz", ".zst"))
#: Packed files begin with these bytes, and have these endings if they are named well.
_PACKINGS = {b"\x1f\x8b": ("gzip", ".gz"), b"\x28\xb5\x2f\xfd": ("zstd", ".zst")}
_LONGEST_HEADER = 1 << 20


class LabelSource(NamedTuple):
    table: ir.Table
    name: str  # for messages
    is_text: bool = False  # read from delimited text, so that every column is text
    parquet: str = ""  # the first of the files that were read, if it is Parquet and on this machine


def open_source(source: Any, local: LocalTables) -> LabelSource:
    """Open a table: Parquet or CSV files, a folder or a glob of them, or the name of a table.

    Only the names and types of the columns are read. Views of files are temporary, in ``local``.
    """
    connection = local.connection
    if is_ibis_table(source):
        return LabelSource(in_duckdb(source, local), "the table given")
    if isinstance(source, str) and not Path(source).exists() and source in table_names(connection):
        return LabelSource(connection.table(source), f"table {source}")
    paths = _files(source)
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else paths[0]
    texts = [path for path in paths if is_text(path)]
    if texts and len(texts) < len(paths):
        other = next(path for path in paths if path not in texts)
        raise TableError(f"{texts[0]} is text and {other} is not: name files of one kind")
    with engine_errors(name):
        if texts:
            return LabelSource(_read_text(paths, local), name, is_text=True)
        parquet = "" if is_remote(paths[0]) else paths[0]
        return LabelSource(_read_parquet(paths, local), name, parquet=parquet)


def check_source(source: Any) -> None:
    """Refuse data in memory: only paths, names and Ibis tables can be opened."""
    if is_ibis_table(source) or isinstance(source, str | os.PathLike):
        return
    given = f"a {type(source).__name__}"
    if isinstance(source, list | tuple):
        wrong = [type(one).__name__ for one in source if not isinstance(one, str | os.PathLike)]
        if not wrong:
            return
        given += f" with a {wrong[0]} in it"
    raise TableError(
        f"source is {given}: consensus_table takes files, the name of a table or an Ibis table; "
        "for labels in memory use RobustConsensus().fit(P), or pass ibis.memtable(frame)"
    )


def refuse_durations(parquet: str, partitions: Sequence[str]) -> None:
    """Refuse durations, which Arrow stores in Parquet as integers with a note for Arrow alone."""
    # a file that Arrow cannot read was not written by Arrow
    with contextlib.suppress(OSError, pa.ArrowException):
        for column in pq.read_schema(parquet):
            if column.name in partitions and pa.types.is_duration(column.type):
                raise InvalidLabelsError(
                    f"partition '{column.name}' has labels of type {column.type}; convert them to "
                    "integers or text, or name the columns to use"
                )


def is_ibis_table(source: Any) -> bool:
    return hasattr(source, "get_backend")


def local_files(source: Any) -> list[Path]:
    """Return the files and folders on this machine that a source names."""
    if is_ibis_table(source):
        return []
    if isinstance(source, Sequence) and not isinstance(source, str):
        return [path for one in source for path in local_files(one)]
    text = os.fspath(source)
    if is_remote(text):
        return []
    path = Path(text).expanduser()
    if path.exists():
        return [path]
    return [Path(name) for name in glob.glob(str(path), recursive=True)]  # noqa: PTH207 (may be absolute)


def _files(source: Any) -> list[str]:
    """Return the files that a path, a folder, a glob or a list of them names, sorted in each."""
    if isinstance(source, Sequence) and not isinstance(source, str):
        if not source:
            raise TableError("no file was named; give a file, a folder, a glob or a table")
        return [path for one in source for path in _files(one)]
    text = os.fspath(source)
    if is_remote(text):
        return [text]
    path = Path(text).expanduser()
    if path.is_file():
        return [str(path)]
    if path.is_dir():
        inside = [str(one) for one in files_in_folder(path, (".parquet", *TEXT_ENDINGS))]
        if not inside:
            raise TableError(f"{path}: no Parquet or CSV file is in this folder or its subfolders")
        return inside
    found = sorted(
        str(one)
        for one in local_files(text)
        if one.is_file() and not one.name.startswith((".", "_"))
    )
    if not found:
        problem = "no file matches" if glob.has_magic(text) else "there is no such file or table"
        raise TableError(f"{text}: {problem}; check the name, the folder and the engine")
    return found


def _read_text(paths: list[str], local: LocalTables) -> ir.Table:
    """Read text files; columns are matched by name."""
    if is_remote(paths[0]):
        delimiter = "\t" if ".tsv" in paths[0].lower() else ","
        layouts = {TextLayout(delimiter): paths}
    else:
        layouts = _layouts(paths)
    connection, tables = local.connection, []
    for layout, group in layouts.items():
        if connection.name == "pyspark":
            tables.append(local.view(text_in_spark(group, layout, connection._session)))
        else:
            tables.append(text_in_duckdb(group, layout, connection, local.new_name()))
    first, *others = tables
    return first.union(*(other.select(first.columns) for other in others)) if others else first


def _layouts(paths: list[str]) -> dict[TextLayout, list[str]]:
    """Group files by delimiter and order of columns; refuse different sets of columns."""
    groups: dict[TextLayout, list[str]] = {}
    for path in paths:
        if is_remote(path):
            raise TableError(f"{path} is remote and other files are not: name files of one place")
        header = header_line(path)
        delimiter = "\t" if is_tab_separated(path) else guess_delimiter(header)
        fields = header_fields(header, delimiter)
        names = [name or f"column{i}" for i, name in enumerate(fields)]
        times = Counter(name.casefold() for name in names)
        repeated = [name for name in names if times[name.casefold()] > 1]
        if repeated:
            raise TableError(
                f"{path}: the header names {', '.join(map(repr, repeated))}, which are the same "
                "column for an engine; rename one"
            )
        layout = TextLayout(delimiter, tuple(names))
        groups.setdefault(layout, []).append(path)
        first = next(iter(groups))
        if sorted(layout.columns) != sorted(first.columns):
            difference = header_difference(layout.columns, first.columns)
            raise TableError(
                f"{path}: its header differs from that of {paths[0]}: {difference}; name files "
                "with the same columns, by a glob"
            )
    return groups


def _read_parquet(paths: list[str], local: LocalTables) -> ir.Table:
    """Read Parquet files; refuse different columns or types, which engines would silently cast."""
    local_paths = not any(map(is_remote, paths))
    if local_paths:
        with memory_connection() as connection:
            refuse_different(parquet_columns(connection, map(Path, paths)))
    if local.connection.name != "pyspark":
        found = [path_for_duckdb(path) for path in paths]
        return local.connection.read_parquet(
            found, table_name=local.new_name(), hive_partitioning=False
        )
    read = local.connection._session.read
    found = [path_for_spark(path) for path in paths]
    if not local_paths:
        # Spark lists the files it finds as URLs
        files = sorted(unquote(file) for file in read.parquet(*found).inputFiles())
        refuse_different({f: read.parquet(escaped_for_hadoop(f)).dtypes for f in files})
    return local.view(read.parquet(*found))


# ---- Delimited text


@dataclass(frozen=True)
class TextLayout:
    """The format of delimited text."""

    delimiter: str = ","
    columns: tuple[str, ...] = ()  # empty if only the engine can open the files
    has_header: bool = True  # without a header, quotes are ordinary characters
    skip: int = 0  # lines before the header


class RejectedLine(NamedTuple):
    path: str
    number: int
    fault: str
    hides_others: bool  # an open quote makes the lines after it a part of its field


def is_remote(path: str) -> bool:
    """Return whether only an engine can open a path, for example s3://bucket/bids."""
    return "://" in path


def is_text(name: str) -> bool:
    return name.lower().endswith(TEXT_ENDINGS)


def first_bytes(path: str, n: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(n)
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror or error}") from error


def open_text(path: str, errors: str = "strict") -> io.TextIOBase:
    """Open delimited text, packed by gzip or Zstandard or not; skip a byte-order mark."""
    packing = _packing(path)
    text: Any = {"encoding": "utf-8-sig", "errors": errors, "newline": ""}
    if packing == "gzip":
        return gzip.open(path, "rt", **text)
    if packing == "zstd":
        unpacked: Any = pa.input_stream(path, compression="zstd")
        return io.TextIOWrapper(unpacked, **text)
    return Path(path).open(**text)


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
    try:
        return next(csv.reader([header], delimiter=delimiter))
    except csv.Error as error:
        raise TableError(f"a header that begins {header[:40]!r} cannot be read: {error}") from error


def path_for_duckdb(path: str) -> str:
    """Escape a path for DuckDB, which reads every path as a glob."""
    return path if is_remote(path) else glob.escape(path)


def path_for_spark(path: str) -> str:
    """Return a path as a URL of the local file system without glob characters."""
    if is_remote(path):
        return path
    return f"file://{escaped_for_hadoop(str(Path(path).absolute()))}"


def escaped_for_hadoop(path: str) -> str:
    return "".join(f"\\{c}" if c in "*?[]{}\\" else c for c in path)


def text_in_duckdb(
    paths: Sequence[str],
    layout: TextLayout,
    connection: Any,
    view: str | None = None,
    rejects: str = "",
) -> ir.Table:
    """Read text files as a table of DuckDB with text columns; ``view`` names its view.

    A line with another number of fields than the header is an error, or with ``rejects`` left out,
    and every query adds it to the temporary tables that :func:`rejected_lines` reads.
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
    if any(map(is_remote, paths)):
        return "auto"
    packings = set(map(_packing, paths))
    if len(packings) == 1:
        return packings.pop()
    _refuse_misnamed(paths, "and other files are packed otherwise")
    return "auto"


def _refuse_misnamed(paths: Sequence[str], why: str) -> None:
    """Refuse local files whose endings do not say how they are packed."""
    endings = {ending: kind for kind, ending in _PACKINGS.values()}
    for path in paths:
        by_name = endings.get(Path(path).suffix.lower(), "none")
        if not is_remote(path) and _packing(path) != by_name:
            raise TableError(
                f"{path}: its ending does not say how it is packed ({_packing(path)}), {why}; "
                "rename it"
            )


def _packing(path: str) -> str:
    start = first_bytes(path, 4)
    return next((kind for magic, (kind, _) in _PACKINGS.items() if start.startswith(magic)), "none")


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
    from pyspark.sql.types import StringType, StructField, StructType

    if layout.skip:
        raise TableError(f"{paths[0]}: Spark does not skip the line before the header: remove it")
    _refuse_misnamed(paths, "which Spark needs")
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
