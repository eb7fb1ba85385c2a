"""Raw logs: find the table of a log, and the texts of its advertisers.

A log is in files, in a database or in an engine, or the result of a query over these. Every engine
reads the same rows of files; columns of text files are named by the header and read as text.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import itertools
import os
import re
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.errors import InvalidParameterError, TableError
from coterie.tables.columns import sql_text
from coterie.tables.engines import (
    LocalTables,
    computes,
    connect,
    engine_errors,
    engine_message,
    fetch,
    in_duckdb,
    source_tables,
    table_names,
)
from coterie.tables.json_lines import (
    SAMPLED_FILES,
    SAMPLED_LINES,
    is_json,
    json_in_duckdb,
    json_in_spark,
    refuse_wide,
)
from coterie.tables.reading import guess_delimiter, header_difference
from coterie.tables.sources import (
    TextLayout,
    first_bytes,
    header_fields,
    header_line,
    is_remote,
    is_text,
    open_text,
    path_for_duckdb,
    path_for_spark,
    text_in_duckdb,
    text_in_spark,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

Source = str | os.PathLike[str]

#: Names of tables in the folder of the logs that are not logs.
_NOT_LOGS = frozenset({"advertisers", "truth", "true_targets"})
_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".unfinished", ".inprogress")
_SHOWN_FILES = 3
#: The first line that Excel reads and writes to say the delimiter.
_SEPARATOR_LINE = re.compile(r"^sep=(.)$", re.IGNORECASE)
#: The columns of an iPinYou log, which has no header.
_IPINYOU = (
    *("bid_id", "timestamp", "log_type", "ipinyou_id", "user_agent", "ip", "region", "city"),
    *("ad_exchange", "domain", "url", "anonymous_url", "slot_id", "slot_width", "slot_height"),
    *("slot_visibility", "slot_format", "slot_floor_price", "creative_id", "bid_price"),
    *("pay_price", "key_page_url", "advertiser_id", "user_tags"),
)
_TEXT_FILES = ("advertisers.parquet", "advertisers.csv", "advertisers.csv.gz", "advertisers.tsv")
_TEXT_COLUMNS = ("advertiser_id", "description")


@dataclass(frozen=True, eq=False)
class RawLog:
    """The table of a log with its own columns, and what is known about it."""

    table: ir.Table
    name: str = ""  # of the log, for messages
    texts: Any = None  # path or table of the advertisers' descriptions
    files: Sequence[str] = ()
    lacking: Mapping[str, str] = field(default_factory=dict)  # column: first file without it
    rejects: str = ""  # of text in DuckDB: the table of lines with a wrong number of fields
    notes: tuple[str, ...] = ()  # what the check says about reading it
    is_json: bool = False


def open_raw(
    source: Any, connection: Any, sql: str = "", table: str | None = None, named: Sequence[str] = ()
) -> RawLog:
    """Find the table of a log.

    ``named`` are columns that are looked for in all JSON lines; the other parameters are those of
    :func:`open_logs`.
    """
    if connection is None and not is_table(source):
        connection = connect()
    if sql and is_table(source):
        raise InvalidParameterError(
            "sql is for files and named tables; a table of Ibis has its own method sql"
        )
    if sql and source is None:
        found = RawLog(None, "the query", _named_table(connection, "advertisers"))
    else:
        # a column of a query's result is in all rows
        found = _find(source, connection, table, () if sql else named)
        refuse_wide(len(found.table.columns), found.name)
    if not sql:
        return found
    with engine_errors("the query of the log fails"):
        result = _result_of(sql, found.table, connection)
    refuse_wide(len(result.columns), found.name)
    return replace(found, table=result, lacking={}, is_json=False)


def is_table(source: Any) -> bool:
    """Return whether a source is an Ibis table."""
    return hasattr(source, "get_backend")


def _result_of(sql: str, log: ir.Table | None, connection: Any) -> ir.Table:
    """Return the result of a query as a view, in which ``log`` is the table of a log.

    The engine gets the query as it is written. Statements before the last one, such as ATTACH in
    DuckDB, are run first.
    """
    import ibis

    query, is_duckdb = sql.strip().rstrip(";"), connection.name == "duckdb"
    if is_duckdb:
        *before, last = connection.con.extract_statements(sql) or [None]
        if last is None:
            raise TableError("the query of the log is empty; it must be a SELECT")
        for statement in before:
            connection.con.execute(statement)
        query = last.query.strip().rstrip(";")
        for name in source_tables(connection):
            if re.search(rf"\b{re.escape(name)}\b", query):
                connection.table(name)  # copies it
    name = f"coterie_{uuid.uuid4().hex}"
    # the line break ends a comment of the last line
    query = f"SELECT * FROM (\n{query}\n)"
    if log is not None:
        query = f"WITH log AS (\n{ibis.to_sql(log)}\n) {query}"
    if not is_duckdb:
        return _spark_view(connection, connection._session.sql(query))
    connection.con.execute(f"CREATE TEMP VIEW {name} AS {query}")
    return connection.table(name, database=("temp", "main"))


def _spark_view(connection: Any, frame: Any) -> ir.Table:
    name = f"coterie_{uuid.uuid4().hex}"
    frame.createTempView(name)
    return connection.table(name)


def _find(source: Any, connection: Any, table: str | None, named: Sequence[str]) -> RawLog:
    """Find a log that is a table, the name of one, a database or files."""
    if is_table(source):
        is_copied = not computes(source.get_backend())
        table = in_duckdb(source, LocalTables(connect())) if is_copied else source
        return RawLog(table, "the given table")
    if isinstance(source, str) and not Path(source).exists():
        known = _named_table(connection, source)
        if known is not None:
            return RawLog(known, source, _named_table(connection, "advertisers"))
        if source_tables(connection):
            raise TableError(
                f"{source}: there is no such table; those of the schema are "
                f"{', '.join(sorted(table_names(connection))) or 'none'}"
            )
    paths = find_files(source)
    is_one = isinstance(source, str | os.PathLike)
    if len(paths) == 1 and not is_remote(paths[0]) and first_bytes(paths[0], 12)[8:] == b"DUCK":
        return _in_database(paths[0], connection, table)
    if table is not None:
        raise InvalidParameterError(f"table={table!r}: {paths[0]} is not a database")
    found = read_files(paths, connection, named)
    name = os.fspath(source) if is_one else paths[0]
    folder = Path(name).expanduser()
    texts = texts_near(folder if is_one and folder.is_dir() else Path(paths[0]).parent)
    unread = [Path(path).name for path in files_not_read(source)]
    if unread:
        shown = ", ".join(unread[:_SHOWN_FILES]) + ", …" * (len(unread) > _SHOWN_FILES)
        count = "1 file was" if len(unread) == 1 else f"{len(unread):,} files were"
        note = f"{count} not read, because of the ending: {shown}"
        found = replace(found, notes=(*found.notes, note))
    return replace(found, name=name, texts=texts, files=paths)


def _named_table(connection: Any, name: str) -> ir.Table | None:
    return connection.table(name) if name in table_names(connection) else None


def _in_database(path: str, connection: Any, table: str | None) -> RawLog:
    if connection.name != "duckdb":
        raise TableError(f"{path} is a DuckDB database: open it with DuckDB, not {connection.name}")
    # the name depends on the path alone, because DuckDB attaches a file only once
    catalog = f"logs_{zlib.crc32(os.fsencode(Path(path).absolute())):08x}"
    with engine_errors(f"{path}: DuckDB cannot open it; another program may be writing to it"):
        quoted = sql_text(str(Path(path).absolute()))
        connection.con.sql(f"ATTACH IF NOT EXISTS {quoted} AS {catalog} (READ_ONLY)")
        names = table_names(connection, catalog)
    logs = [name for name in names if name not in _NOT_LOGS]
    chosen = table or ("bids" if "bids" in logs else logs[0] if len(logs) == 1 else "")
    if chosen not in names:
        raise TableError(
            f"{path}: {f'there is no table {table}' if table else 'name the table of the log'}; "
            f"its tables are {', '.join(sorted(names)) or 'none'}"
        )
    opened = {
        name: connection.table(name, database=(catalog, "main"))
        for name in {chosen, "advertisers"} & set(names)
    }
    name = f"{path}, table {chosen}"
    return RawLog(opened[chosen], name, opened.get("advertisers"), files=[path])


# ---- Files


def find_files(source: Source | Sequence[Source]) -> list[str]:
    """Return the files of a path, a folder, a glob or a list of these, sorted within each.

    A folder is searched recursively for Parquet, CSV, TSV and JSON-lines files; texts may be packed
    by gzip or Zstandard. Tables next to the logs and hidden or unfinished files are skipped.
    """
    if isinstance(source, Sequence) and not isinstance(source, str):
        if not source:
            raise TableError("the list of log files is empty; give a file, a folder or a glob")
        return [path for one in source for path in find_files(one)]
    text = os.fspath(source)
    path = Path(text).expanduser()
    if is_remote(text) or path.is_file():
        return [text if is_remote(text) else str(path)]
    if path.is_dir():
        inside = [str(one) for one in _visible(path) if _has_log_ending(one)]
        if not inside:
            raise TableError(
                f"{path}: there is no Parquet, CSV, TSV or JSON-lines file in this folder or "
                "below; give a glob if the files have other endings"
            )
        return inside
    if not glob.has_magic(text):
        raise TableError(f"{text}: there is no such file or folder")
    names = glob.glob(str(path), recursive=True)  # noqa: PTH207 — Path.glob refuses a root
    matches = [Path(name) for name in sorted(names)]
    found = [match for match in matches if match.is_file() and not _is_skipped(match, match.parent)]
    if not found:
        raise TableError(
            f"{text}: no file matches; put a glob in quotes, so that the shell does not expand it"
        )
    return [str(match) for match in found]


def files_not_read(source: Any) -> list[str]:
    """Return the files in the folders of a source that have no ending of a log, sorted in each."""
    sources = [source] if isinstance(source, str | os.PathLike) else source
    folders = [Path(one).expanduser() for one in sources if not is_remote(os.fspath(one))]
    return [
        str(path)
        for folder in folders
        if folder.is_dir()
        for path in _visible(folder)
        if not _has_log_ending(path)
    ]


def _visible(folder: Path) -> list[Path]:
    inside = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in inside if not _is_skipped(path, folder)]


def _has_log_ending(path: Path) -> bool:
    return path.suffix.lower() == ".parquet" or is_text(path.name) or is_json(path.name)


def _is_skipped(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    return hidden or path.suffix in _UNFINISHED or path.name.partition(".")[0] in _NOT_LOGS


def read_files(paths: Sequence[str], connection: Any, named: Sequence[str] = ()) -> RawLog:
    """Return files of one layout as a table of an engine, reading no more than the columns.

    JSON lines are searched for columns that are ``named`` and not in the first lines.
    """
    if connection.name not in {"duckdb", "pyspark"}:
        raise TableError(
            f"log files are read by DuckDB or Spark, not by {connection.name}: "
            "give a table of that engine instead"
        )
    is_spark = connection.name == "pyspark"
    kinds = {
        path: "JSON" if is_json(path) else "Parquet" if is_parquet(path) else "text"
        for path in paths
    }
    first, kind = next(iter(kinds.items()))
    other = next((path for path in paths if kinds[path] != kind), None)
    if other is not None:
        raise TableError(
            f"{first} is {kind} and {other} is {kinds[other]}; give files of one kind only"
        )
    packed = next((path for path in paths if path.lower().endswith(".zst")), None)
    if is_spark and packed is not None:
        raise TableError(f"{packed}: Spark does not read Zstandard; use gzip or DuckDB")
    with engine_errors(first):
        if kind == "Parquet":
            return _read_parquet(paths, connection)
        if kind == "JSON":
            some = f"at most {SAMPLED_FILES} files" if len(paths) > 1 else "the file"
            note = (
                f"columns were looked for in the first {SAMPLED_LINES:,} lines of {some}; name "
                "others by --column or --dimension"
            )
            table = (
                _spark_view(connection, json_in_spark(paths, connection._session, named))
                if is_spark
                else json_in_duckdb(paths, connection, named)
            )
            return RawLog(table, notes=(note,), is_json=True)
        layout = _text_layout(paths)
        if is_spark:
            frame = text_in_spark(paths, layout, connection._session)
            return RawLog(_spark_view(connection, frame))
        rejects = f"coterie_rejects_{uuid.uuid4().hex}"
        table = text_in_duckdb(paths, layout, connection, rejects=rejects)
        return RawLog(table, rejects=rejects)


def is_parquet(path: str) -> bool:
    """Return whether a file is Parquet, by its name or its first bytes."""
    if is_remote(path):
        return not is_text(path)
    return path.lower().endswith(".parquet") or first_bytes(path, 4) == b"PAR1"


def _read_parquet(paths: Sequence[str], connection: Any) -> RawLog:
    """Read Parquet files, whose columns are those of all files together."""
    of_each: dict[str, dict[str, pa.DataType]] = {}
    types: dict[str, pa.DataType] = {}
    for path in [] if is_remote(paths[0]) else paths:
        with _parquet_errors(path):
            schema = pq.read_schema(path)
        of_each[path] = {column.name: _stored_type(column.type) for column in schema}
        types = of_each[path] | types  # those of the first file come first
    refuse_wide(len(types), paths[0])
    lacking: dict[str, str] = {}
    retyped: dict[str, str] = {}  # column: first file of another type
    for path, here in of_each.items():
        for name, kind in types.items():
            if name not in here:
                lacking.setdefault(name, path)
            elif here[name] != kind:
                retyped.setdefault(name, path)
    # folders such as day=2026-03-02 are columns if all paths have the same
    partitions = [[part for part in Path(path).parts[:-1] if "=" in part] for path in of_each]
    names = [[part.partition("=")[0] for part in parts] for parts in partitions]
    is_partitioned = bool(names and names[0]) and all(one == names[0] for one in names)
    if connection.name == "duckdb":
        table = connection.read_parquet(
            [path_for_duckdb(path) for path in paths],
            # else DuckDB casts all files to the types of the first, which rounds numbers
            union_by_name=bool(lacking or retyped),
            hive_partitioning=is_partitioned,
        )
        return RawLog(table, lacking=lacking)
    for column, path in retyped.items():
        raise TableError(
            f"{path}: column {column} has another type than in {paths[0]}; Spark does not "
            "read such files together: use DuckDB, or write them with the same types"
        )
    reader = connection._session.read.option("mergeSchema", bool(lacking))
    if is_partitioned:
        parents = (reversed(Path(path).absolute().parents) for path in paths)
        firsts = (next(one for one in above if "=" in one.name) for above in parents)
        base = os.path.commonpath([first.parent for first in firsts])
        reader = reader.option("basePath", f"file://{base}")
    frame = reader.parquet(*map(path_for_spark, paths))
    return RawLog(_spark_view(connection, frame), lacking=lacking)


@contextlib.contextmanager
def _parquet_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{path}: the Parquet file is damaged or incomplete ({engine_message(error)}); "
            "copy it again, or leave it out"
        ) from error


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type without what Parquet does not store: all texts are the same there."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(kind) else kind


def _text_layout(paths: Sequence[str]) -> TextLayout:
    """Return the layout of text files from their first lines."""
    if is_remote(paths[0]):
        return TextLayout("\t" if ".tsv" in paths[0].lower() else ",")
    first = header_line(paths[0])
    separator = _SEPARATOR_LINE.match(first)
    skip = 1 if separator else 0
    first = header_line(paths[0], skip)
    delimiter = separator[1] if separator else guess_delimiter(first)
    fields = _stripped_fields(first, delimiter)
    if delimiter == "\t" and len(fields) == len(_IPINYOU) and fields[1].isdigit():
        return TextLayout(delimiter, _IPINYOU, has_header=False)
    refuse_wide(len(fields), paths[0])
    in_lower_case = [name.lower() for name in fields]
    repeated = [name for name in fields if in_lower_case.count(name.lower()) > 1]
    if len(set(repeated)) < len(repeated):
        names = ", ".join(sorted({name for name in repeated if repeated.count(name) > 1}))
        raise TableError(f"{paths[0]}: the header has {names} more than once; rename one")
    if repeated:
        raise TableError(
            f"{paths[0]}: the header has {' and '.join(repeated)}, which differ in case only; "
            "engines do not tell them apart: rename one"
        )
    for path in paths[1:]:
        others = _stripped_fields(header_line(path, skip), delimiter)
        if others != fields:
            raise TableError(
                f"{path}: its header differs from that of {paths[0]}: "
                f"{header_difference(others, fields)}; give files with the same columns"
            )
    return TextLayout(delimiter, tuple(fields), skip=skip)


def _stripped_fields(header: str, delimiter: str) -> list[str]:
    """Return the names in a header; an index without a name is ``column_1``."""
    fields = header_fields(header, delimiter)
    return [name.strip() or f"column_{i}" for i, name in enumerate(fields, 1)]


# ---- Texts of advertisers


def texts_near(folder: Path) -> str | None:
    """Return the path of the text table in a folder of logs or its parent, or None."""
    if is_remote(str(folder)):
        return None
    folders = (folder.absolute(), folder.absolute().parent)
    found = (place / name for place in folders for name in _TEXT_FILES)
    return next((str(path) for path in found if path.is_file()), None)


def read_texts(place: str | ir.Table) -> dict[str, str]:
    """Read the texts of advertisers by id; several texts of one advertiser are joined.

    ``place`` is a Parquet or CSV file, or a table, with ``advertiser_id`` and ``description``.
    """
    texts: dict[str, dict[str, None]] = {}
    for written, text in _text_rows(place):
        advertiser = written.strip()  # as in logs
        if advertiser:
            # a dictionary keeps the order and drops repeated texts
            texts.setdefault(advertiser, {}).update({text: None} if text else {})
    return {advertiser: " ".join(parts) for advertiser, parts in texts.items()}


def _text_rows(place: str | ir.Table) -> Iterator[tuple[str, str]]:
    """Yield pairs of advertiser and text."""
    if not isinstance(place, str):
        _require_text_columns(place.columns, "the table of advertisers")
        table = fetch(place.select(*_TEXT_COLUMNS))
    elif is_parquet(place):
        with _parquet_errors(place):
            _require_text_columns(pq.read_schema(place).names, place)
            table = pq.read_table(place, columns=list(_TEXT_COLUMNS))
    else:
        with open_text(place, errors="replace") as lines:
            header = lines.readline()
            every = itertools.chain([header], lines)
            rows = csv.DictReader(every, delimiter=guess_delimiter(header), skipinitialspace=True)
            _require_text_columns(rows.fieldnames or (), place)
            try:
                for row in rows:
                    yield row["advertiser_id"] or "", row["description"] or ""
            except csv.Error as error:
                raise TableError(f"{place}, line {rows.line_num + 1}: {error}") from error
        return
    yield from zip(*(_texts_in(table[name]) for name in _TEXT_COLUMNS), strict=True)


def _texts_in(column: pa.ChunkedArray) -> Iterable[str]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        # decoded here: a file may declare UTF-8 and contain other bytes
        column = column.cast(pa.large_binary())
    for value in column.to_pylist():
        is_binary = isinstance(value, bytes)
        text = value.decode("utf-8", errors="replace") if is_binary else str(value)
        yield "" if value is None else text


def _require_text_columns(columns: Collection[str], source: str) -> None:
    missing = [name for name in _TEXT_COLUMNS if name not in columns]
    if missing:
        raise TableError(
            f"{source}: column {' and '.join(missing)} missing; a table of advertisers needs "
            f"advertiser_id and description, this one has {', '.join(columns) or 'no columns'}"
        )
