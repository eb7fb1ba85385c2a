"""Which table is meant: files, a table of the engine's database, or an Ibis table."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.engines.engine_files import (
    TEXT_ENDINGS,
    TextLayout,
    delimiter_of,
    escaped_for_hadoop,
    header_difference,
    header_fields,
    header_line,
    is_remote,
    is_text,
    path_for_duckdb,
    path_for_spark,
    text_in_duckdb,
    text_in_spark,
)
from coterie.engines.queries import LocalTables, engine_message, is_engine_error
from coterie.errors import TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["LabelSource", "is_ibis_table", "local_files", "open_source"]


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


def open_source(source: Any, local: LocalTables) -> LabelSource:
    """Find a table; nothing is read yet but what tells the columns.

    Parameters
    ----------
    source : path, sequence of paths, str or ibis table
        A Parquet or CSV file, a folder or a glob of them, or the name of a table.
    local : :class:`~coterie.engines.queries.LocalTables`
        Of the engine, which an Ibis table has of its own; the views of files lie in it.
    """
    connection = local.connection
    if is_ibis_table(source):
        return LabelSource(source, "the table given")
    if isinstance(source, str) and not Path(source).exists() and source in _tables(connection):
        return LabelSource(connection.table(source), f"table {source}")
    paths = _files(source)
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else paths[0]
    texts = [path for path in paths if is_text(path)]
    if texts and len(texts) < len(paths):
        other = next(path for path in paths if path not in texts)
        raise TableError(f"{texts[0]} is text and {other} is not: name files of one kind")
    if connection.name not in {"duckdb", "pyspark"}:
        raise TableError(
            f"files are read by DuckDB or Spark, not by {connection.name}: give a table of it"
        )
    try:
        table = _read_text(paths, local) if texts else _read_parquet(paths, local)
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
    if is_remote(text):
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
    if is_remote(text):
        return [text]
    path = Path(text).expanduser()
    if path.is_file():
        return [str(path)]
    if path.is_dir():
        return _in_folder(path)
    found = sorted(
        str(one)
        for one in local_files(text)
        if one.is_file() and not one.name.startswith((".", "_"))
    )
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
    found = [
        str(path) for path in inside if path.name.lower().endswith((".parquet", *TEXT_ENDINGS))
    ]
    if not found:
        raise TableError(f"{folder}: no Parquet or CSV file is in this folder or below")
    return found


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


def _read_text(paths: list[str], local: LocalTables) -> ir.Table:
    """Text files, their columns matched by name."""
    if is_remote(paths[0]):
        delimiter = "\t" if ".tsv" in paths[0].lower() else ","
        layouts = {TextLayout(delimiter): paths}
    else:
        layouts = _layouts(paths)
    tables = []
    for layout, alike in layouts.items():
        if local.connection.name == "pyspark":
            tables.append(local.view(text_in_spark(alike, layout, local.connection._session)))
        else:
            view = local.new_name()
            tables.append(text_in_duckdb(alike, layout, local.connection, view))
    first, *others = tables
    return first.union(*(other.select(first.columns) for other in others)) if others else first


def _layouts(paths: list[str]) -> dict[TextLayout, list[str]]:
    """The files of each delimiter and order of columns; the columns must be the same in all."""
    alike: dict[TextLayout, list[str]] = {}
    for path in paths:
        layout = _layout(path)
        alike.setdefault(layout, []).append(path)
        first = next(iter(alike))
        if sorted(layout.columns) != sorted(first.columns):
            difference = header_difference(layout.columns, first.columns)
            raise TableError(
                f"{path}: its header differs from that of {paths[0]}: {difference}; name files "
                "with the same columns, by a glob"
            )
    return alike


def _layout(path: str) -> TextLayout:
    if is_remote(path):
        raise TableError(f"{path} is remote and other files are not: name files of one place")
    header = header_line(path)
    delimiter = "\t" if ".tsv" in Path(path).name.lower() else delimiter_of(header)
    names = [name or f"column{i}" for i, name in enumerate(header_fields(header, delimiter))]
    times = Counter(name.casefold() for name in names)
    repeated = [name for name in names if times[name.casefold()] > 1]
    if repeated:
        raise TableError(
            f"{path}: the header names {', '.join(map(repr, repeated))}, which engines do not tell "
            "apart; rename one"
        )
    return TextLayout(delimiter, tuple(names))


def _read_parquet(paths: list[str], local: LocalTables) -> ir.Table:
    """Parquet files, which must have the same columns of the same types.

    An engine would take the columns of one file, and turn what others have into their types.
    """
    local_paths = not any(map(is_remote, paths))
    if local_paths:
        _refuse_different({path: _types(path) for path in paths})
    if local.connection.name != "pyspark":
        found = [path_for_duckdb(path) for path in paths]
        view = local.new_name()
        return local.connection.read_parquet(found, table_name=view, hive_partitioning=False)
    read = local.connection._session.read
    found = [path_for_spark(path) for path in paths]
    if not local_paths:
        _refuse_different(_spark_types(found, read))
    return local.view(read.parquet(*found))


def _types(path: str) -> dict[str, str]:
    """Columns of a Parquet file and their types; whether a text is long or short is no matter."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{path} is not a Parquet file, or is damaged or cut short; write or fetch it again "
            f"({' '.join(str(error).split())})"
        ) from error
    return {one.name: _type_in_words(one.type) for one in schema}


def _type_in_words(kind: Any) -> str:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return str(kind).removeprefix("large_").removesuffix("_view")


def _spark_types(paths: Sequence[str], read: Any) -> dict[str, dict[str, str]]:
    """Columns and types of each Parquet file that Spark finds in files and folders."""
    # they are listed as URLs
    files = [unquote(file) for file in read.parquet(*paths).inputFiles()]
    return {file: dict(read.parquet(escaped_for_hadoop(file)).dtypes) for file in sorted(files)}


def _refuse_different(types: dict[str, dict[str, str]]) -> None:
    """Refuse files that have other columns than the first, or columns of other types."""
    first, wanted = next(iter(types.items()))
    for file, found in types.items():
        if found.keys() != wanted.keys():
            difference = header_difference(found, wanted)
            raise TableError(
                f"{file}: its columns differ from those of {first}: {difference}; name files with "
                "the same columns, by a glob"
            )
        for name, kind in found.items():
            if kind != wanted[name]:
                raise TableError(
                    f"{file}: column {name!r} is {kind}, and {wanted[name]} in {first}; write "
                    "both with one type"
                )
