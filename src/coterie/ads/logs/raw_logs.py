"""Raw logs: find the table of a log, in files, a database or an engine, and join its notices."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.ads.logs import log_files
from coterie.ads.logs.advertiser_texts import texts_beside
from coterie.ads.logs.log_columns import kind_of
from coterie.ads.logs.log_formats import format_of
from coterie.ads.logs.log_mapping import LogMapping
from coterie.ads.logs.notice_joins import JoinedBids, join_notices
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

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["RawLog", "Source", "is_table", "open_raw"]

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
    rejects: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what the check says about reading it
    is_json: bool = False
    kind: str = "bids"
    mapping: LogMapping = field(default_factory=LogMapping)  # with the columns of notices
    notices: JoinedBids | None = None


def open_raw(
    source: Any,
    connection: Any,
    mapping: LogMapping,
    *,
    table: str | None = None,
    kind: str | None = None,
    wins: Any = None,
    losses: Any = None,
    dimensions: Sequence[str] = (),
) -> RawLog:
    """Find the table of a log; the parameters are those of :func:`open_logs`."""
    connection = connect() if connection is None and not is_table(source) else connection
    key, _, notice_key = mapping.join_on.partition("=")
    named = [name for name in (*mapping.columns.values(), *dimensions, key) if name]
    found = _find(source, connection, table, named if wins is None else _of_bids(named))
    found = replace(found, kind=kind or _kind(found, mapping), mapping=mapping)
    if wins is None:
        if losses is not None:
            raise InvalidParameterError(
                "loss notices need win notices, which have the prices: give both"
            )
        return found
    won = _find(wins, connection, None, _of_notices(named, "win.", notice_key))
    notices, lost = [won], None
    if losses is not None:
        notices.append(_find(losses, connection, None, _of_notices(named, "loss.", notice_key)))
        lost = notices[1].table
    joined = join_notices(found.table, won.table, lost, mapping, found.name)
    return replace(
        found,
        table=joined.table,
        kind="bids",
        mapping=LogMapping(joined.columns).updated(mapping),
        notices=joined,
        files=[path for one in (found, *notices) for path in one.files],
        rejects=tuple(name for one in (found, *notices) for name in one.rejects),
        notes=tuple(dict.fromkeys(note for one in (found, *notices) for note in one.notes)),
    )


def is_table(source: Any) -> bool:
    """Return whether a source is an Ibis table."""
    return hasattr(source, "get_backend")


def _kind(found: RawLog, mapping: LogMapping) -> str:
    """Return the kind of a log: that of its format, bids if columns are mapped, or by columns."""
    if mapping.format:
        return format_of(mapping.format).kind
    return "bids" if mapping.columns or mapping.amounts else kind_of(found.table.columns)


def _of_bids(named: Sequence[str]) -> list[str]:
    return [name for name in named if not name.startswith(("win.", "loss.", "notice."))]


def _of_notices(named: Sequence[str], prefix: str, key: str) -> list[str]:
    found = [name.removeprefix(prefix) for name in named if name.startswith(prefix)]
    return [*found, key] if key else found


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
    rejects = (files.rejects,) if files.layout and connection.name == "duckdb" else ()
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
