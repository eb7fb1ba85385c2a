"""Which table is meant: files, a table of the engine's database, or an Ibis table."""

from __future__ import annotations

import glob
import gzip
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.engines import engine_message, is_engine_error
from coterie.errors import TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend

__all__ = ["LabelSource", "is_ibis_table", "local_files", "open_source"]

_TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_LONGEST_HEADER = 1 << 20


@dataclass(frozen=True, eq=False)
class LabelSource:
    """A table where it lies.

    Attributes
    ----------
    table : ibis table
    name : str
        What to call it in messages.
    is_text : bool
        Delimited text, of which every column is read as text.
    """

    table: ir.Table
    name: str
    is_text: bool = False


def open_source(source: Any, connection: BaseBackend) -> LabelSource:
    """Find a table; nothing is read yet but what tells the columns.

    Parameters
    ----------
    source : path, sequence of paths, str or ibis table
        A Parquet or CSV file, a folder or a glob of them, or the name of a table.
    connection : ibis backend
        The engine; an Ibis table has its own.
    """
    if is_ibis_table(source):
        return LabelSource(source, "the table given")
    if isinstance(source, str) and not Path(source).exists() and source in _tables(connection):
        return LabelSource(connection.table(source), f"table {source}")
    paths = _files(source)
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else paths[0]
    texts = [path for path in paths if path.lower().endswith(_TEXT)]
    if texts and len(texts) < len(paths):
        other = next(path for path in paths if path not in texts)
        raise TableError(f"{texts[0]} is text and {other} is not: name files of one kind")
    readers = {"duckdb": _read_with_duckdb, "pyspark": _read_with_spark}
    if connection.name not in readers:
        raise TableError(
            f"files are read by DuckDB or Spark, not by {connection.name}: give a table of it"
        )
    try:
        table = readers[connection.name](paths, bool(texts), connection)
    except Exception as error:
        if not is_engine_error(error):
            raise
        raise TableError(f"{name}: {engine_message(error)}") from error
    return LabelSource(table, name, bool(texts))


def is_ibis_table(source: Any) -> bool:
    """Whether a source is a table of some engine already."""
    return hasattr(source, "get_backend")


def local_files(source: Any) -> list[Path]:
    """The files and folders on this machine that a source names, its own path first."""
    if is_ibis_table(source):
        return []
    if isinstance(source, Sequence) and not isinstance(source, str):
        return [path for one in source for path in local_files(one)]
    text = os.fspath(source)
    if _is_remote(text):
        return []
    path = Path(text).expanduser()
    if path.exists():
        return [path]
    return [Path(name) for name in glob.glob(str(path), recursive=True)]  # noqa: PTH207 (may be absolute)


def _files(source: Any) -> list[str]:
    """The files that a path, a folder, a glob or a list of them means, sorted within each."""
    if isinstance(source, Sequence) and not isinstance(source, str):
        if not source:
            raise TableError("no file was named; give a file, a folder, a glob or a table")
        return [path for one in source for path in _files(one)]
    text = os.fspath(source)
    if _is_remote(text):
        return [text]
    path = Path(text).expanduser()
    if path.is_file():
        return [str(path)]
    if path.is_dir():
        return _in_folder(path)
    found = sorted(str(one) for one in local_files(text) if one.is_file())
    if not found:
        what = "no file matches" if glob.has_magic(text) else "there is no such file or table"
        raise TableError(f"{text}: {what}; check the name, the folder and the engine")
    return found


def _in_folder(folder: Path) -> list[str]:
    """Files of a folder and those below it, without what is hidden or begins with _."""
    inside = (
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    )
    found = [str(path) for path in inside if path.name.lower().endswith((".parquet", *_TEXT))]
    if not found:
        raise TableError(f"{folder}: no Parquet or CSV file is in this folder or below")
    return found


def _is_remote(path: str) -> bool:
    return "://" in path


def _tables(connection: Any) -> list[str]:
    """Names of the tables and views of the current schema."""
    if connection.name != "duckdb":
        return list(connection.list_tables())
    # DuckDB is asked itself: what Ibis 12 asks it with, DuckDB 2 has no more
    rows = connection.con.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() "
        "AND table_catalog IN (current_database(), 'temp')"
    ).fetchall()
    return [name for (name,) in rows]


def _read_with_duckdb(paths: list[str], is_text: bool, connection: Any) -> ir.Table:
    # DuckDB takes every path for a glob
    paths = [path if _is_remote(path) else glob.escape(path) for path in paths]
    if not is_text:
        return connection.read_parquet(paths, hive_partitioning=False)
    return connection.read_csv(
        paths, all_varchar=True, header=True, delim=_delimiter(paths[0]), quote='"', escape='"'
    )


def _read_with_spark(paths: list[str], is_text: bool, connection: Any) -> ir.Table:
    paths = [path if _is_remote(path) else _for_hadoop(path) for path in paths]
    reader = connection._session.read
    if is_text:
        frame = reader.csv(
            paths,
            sep=_delimiter(paths[0]),
            header=True,
            quote='"',
            escape='"',
            multiLine=True,
            mode="FAILFAST",
        )
    else:
        frame = reader.parquet(*paths)
    name = f"coterie_{uuid.uuid4().hex}"
    frame.createTempView(name)
    return connection.table(name)


def _delimiter(path: str) -> str:
    """What stands most often in the first line of the comma, the tab, the semicolon and the bar."""
    local = Path(path.removeprefix("file://").replace("\\", ""))
    if not local.is_file():
        return "\t" if ".tsv" in path.lower() else ","
    opened = gzip.open if local.name.lower().endswith(".gz") else open
    with opened(local, "rt", encoding="utf-8-sig", errors="replace") as lines:
        header = lines.readline(_LONGEST_HEADER)
    return max(",\t;|", key=header.count)


def _for_hadoop(path: str) -> str:
    """A path that is neither a glob nor looked for in the default file system."""
    escaped = "".join(f"\\{c}" if c in "*?[]{}\\" else c for c in str(Path(path).absolute()))
    return f"file://{escaped}"
