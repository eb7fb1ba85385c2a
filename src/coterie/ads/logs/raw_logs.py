"""Raw logs: the table of a log before its columns have a meaning.

It is in files, in a database or in an engine, or the result of a query over these.
"""

from __future__ import annotations

import os
import re
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.ads.logs import log_files
from coterie.ads.logs.advertiser_texts import texts_beside
from coterie.errors import InvalidParameterError, TableError
from coterie.tables.engines import (
    LocalTables,
    computes,
    connect,
    engine_errors,
    in_duckdb,
    source_tables,
    table_names,
)
from coterie.tables.json_lines import refuse_wide

if TYPE_CHECKING:
    import ibis.expr.types as ir

_SHOWN_FILES = 3

Source = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class RawLog:
    """The table of a log with its own columns, and what is known about it."""

    table: ir.Table
    name: str  # of the log, for messages
    texts: Any = None  # path or table of the advertisers' descriptions
    lacking: Mapping[str, str] = field(default_factory=dict)  # as in LogFiles
    files: Sequence[str] = ()
    rejects: str = ""  # as in LogFiles
    notes: tuple[str, ...] = ()  # what the check says about reading it
    is_json: bool = False


def open_raw(
    source: Any, connection: Any, sql: str = "", table: str | None = None, named: Sequence[str] = ()
) -> RawLog:
    """Find the table of a log.

    ``named`` are columns that are looked for in all JSON lines; the other parameters are those of
    :func:`open_logs`.
    """
    connection = connect() if connection is None and not is_table(source) else connection
    if not sql:
        return _limited(_find(source, connection, table, named))
    if is_table(source):
        raise InvalidParameterError(
            "sql is for files and named tables; a table of Ibis has its own method sql"
        )
    if source is None:
        found = RawLog(None, "the query", _named_table(connection, "advertisers"))
    else:
        found = _limited(_find(source, connection, table, ()))
    with engine_errors("the query of the log fails"):
        result = _result_of(sql, found.table, connection)
    # a column of the result is in all rows
    return _limited(replace(found, table=result, lacking={}, is_json=False))


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
        connection._session.sql(query).createTempView(name)
        return connection.table(name)
    connection.con.execute(f"CREATE TEMP VIEW {name} AS {query}")
    return connection.table(name, database=("temp", "main"))


def _limited(found: RawLog) -> RawLog:
    refuse_wide(len(found.table.columns), found.name)
    return found


def is_table(source: Any) -> bool:
    """Return whether a source is an Ibis table."""
    return hasattr(source, "get_backend")


def _find(source: Any, connection: Any, table: str | None, named: Sequence[str]) -> RawLog:
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
    paths = log_files.find_files(source)
    if len(paths) == 1 and log_files.is_database(paths[0]):
        return _in_database(paths[0], connection, table)
    if table is not None:
        raise InvalidParameterError(f"table={table!r}: {paths[0]} is not a database")
    files = log_files.inspect_files(paths)
    raw = log_files.read_files(files, connection, named)
    is_one = isinstance(source, str | os.PathLike)
    name = os.fspath(source) if is_one else paths[0]
    folder = Path(name).expanduser() if is_one else Path()
    beside = texts_beside(folder if is_one and folder.is_dir() else Path(paths[0]).parent)
    rejects = files.rejects if files.layout and connection.name == "duckdb" else ""
    notes = tuple(note for note in (files.note, _not_read(source)) if note)
    return RawLog(
        raw, name, beside, files.lacking, paths, rejects, notes=notes, is_json=files.is_json
    )


def _not_read(source: Any) -> str:
    """Return a note on the files of a folder that have no ending of a log; empty without any."""
    names = [Path(path).name for path in log_files.files_not_read(source)]
    if not names:
        return ""
    shown = ", ".join(names[:_SHOWN_FILES]) + ", …" * (len(names) > _SHOWN_FILES)
    count = "1 file was" if len(names) == 1 else f"{len(names):,} files were"
    return f"{count} not read, because of the ending: {shown}"


def _named_table(connection: Any, name: str) -> ir.Table | None:
    return connection.table(name) if name in table_names(connection) else None


def _in_database(path: str, connection: Any, table: str | None) -> RawLog:
    if connection.name != "duckdb":
        raise TableError(f"{path} is a DuckDB database: open it with DuckDB, not {connection.name}")
    # the name depends on the path alone, because DuckDB attaches a file only once
    catalog = f"logs_{zlib.crc32(os.fsencode(Path(path).absolute())):08x}"
    with engine_errors(f"{path}: DuckDB cannot open it; another program may be writing to it"):
        quoted = str(Path(path).absolute()).replace("'", "''")
        connection.con.sql(f"ATTACH IF NOT EXISTS '{quoted}' AS {catalog} (READ_ONLY)")
        names = table_names(connection, catalog)
    logs = [name for name in names if name not in log_files.NOT_LOGS]
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
