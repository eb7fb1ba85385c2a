"""The source of labels: files, a table in the database of the engine, or an Ibis table."""

from __future__ import annotations

import contextlib
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

from coterie.errors import InvalidLabelsError, TableError
from coterie.tables.engine_files import (
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
from coterie.tables.engines import LocalTables, computes, engine_errors, in_duckdb, source_tables

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True, eq=False)
class LabelSource:
    """A table in its engine."""

    table: ir.Table
    name: str  # for messages
    is_text: bool = False  # read from delimited text, so that every column is text


def open_source(source: Any, local: LocalTables) -> LabelSource:
    """Open a table: Parquet or CSV files, a folder or a glob of them, or the name of a table.

    Only the names and types of the columns are read. Views of files are temporary, in ``local``.
    """
    connection = local.connection
    if is_ibis_table(source):
        is_copied = not computes(source.get_backend())
        return LabelSource(in_duckdb(source, local) if is_copied else source, "the table given")
    if isinstance(source, str) and not Path(source).exists() and source in _tables(connection):
        return LabelSource(connection.table(source), f"table {source}")
    paths = _files(source)
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else paths[0]
    texts = [path for path in paths if is_text(path)]
    if texts and len(texts) < len(paths):
        other = next(path for path in paths if path not in texts)
        raise TableError(f"{texts[0]} is text and {other} is not: name files of one kind")
    with engine_errors(name):
        table = _read_text(paths, local) if texts else _read_parquet(paths, local)
    return LabelSource(table, name, bool(texts))


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


def refuse_durations(files: Sequence[Path], partitions: Sequence[str]) -> None:
    """Refuse durations, which engines read as integers.

    Arrow stores them in Parquet as integers with a note that engines ignore.
    """
    inside = (path for file in files for path in ([file] if file.is_file() else file.rglob("*")))
    parquet = (path for path in inside if path.suffix == ".parquet" and path.name[0] not in "._")
    types: dict[str, Any] = {}
    # a file that Arrow cannot read was not written by Arrow
    with contextlib.suppress(StopIteration, OSError, pa.ArrowException):
        types = {one.name: one.type for one in pq.read_schema(next(parquet))}
    for name in partitions:
        if name in types and pa.types.is_duration(types[name]):
            raise InvalidLabelsError(
                f"partition '{name}' has labels of type {types[name]}; convert them to integers "
                "or text, or name the columns to use"
            )


def is_ibis_table(source: Any) -> bool:
    """Return whether a source is an Ibis table."""
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
        return _in_folder(path)
    found = sorted(
        str(one)
        for one in local_files(text)
        if one.is_file() and not one.name.startswith((".", "_"))
    )
    if not found:
        problem = "no file matches" if glob.has_magic(text) else "there is no such file or table"
        raise TableError(f"{text}: {problem}; check the name, the folder and the engine")
    return found


def _in_folder(folder: Path) -> list[str]:
    """Return the tables in a folder and its subfolders; names that begin with . or _ are hidden."""
    found = [
        str(path)
        for path in sorted(folder.rglob("*"))
        if path.name.lower().endswith((".parquet", *TEXT_ENDINGS))
        and path.is_file()
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]
    if not found:
        raise TableError(f"{folder}: no Parquet or CSV file is in this folder or its subfolders")
    return found


def _tables(connection: Any) -> list[str]:
    """Return the names of the tables and views in the current schema."""
    if connection.name != "duckdb":
        return list(connection.list_tables())
    if source_tables(connection):
        return source_tables(connection)
    # not list_tables: the query of Ibis 12 does not work with DuckDB 2
    rows = connection.con.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() "
        "AND table_catalog IN (current_database(), 'temp')"
    ).fetchall()
    return [name for (name,) in rows]


def _read_text(paths: list[str], local: LocalTables) -> ir.Table:
    """Read text files; columns are matched by name."""
    if is_remote(paths[0]):
        delimiter = "\t" if ".tsv" in paths[0].lower() else ","
        layouts = {TextLayout(delimiter): paths}
    else:
        layouts = _layouts(paths)
    tables = []
    for layout, group in layouts.items():
        if local.connection.name == "pyspark":
            tables.append(local.view(text_in_spark(group, layout, local.connection._session)))
        else:
            tables.append(text_in_duckdb(group, layout, local.connection, local.new_name()))
    first, *others = tables
    return first.union(*(other.select(first.columns) for other in others)) if others else first


def _layouts(paths: list[str]) -> dict[TextLayout, list[str]]:
    """Group files by delimiter and order of columns; refuse different sets of columns."""
    groups: dict[TextLayout, list[str]] = {}
    for path in paths:
        layout = _layout(path)
        groups.setdefault(layout, []).append(path)
        first = next(iter(groups))
        if sorted(layout.columns) != sorted(first.columns):
            difference = header_difference(layout.columns, first.columns)
            raise TableError(
                f"{path}: its header differs from that of {paths[0]}: {difference}; name files "
                "with the same columns, by a glob"
            )
    return groups


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
            f"{path}: the header names {', '.join(map(repr, repeated))}, which are the same column "
            "for an engine; rename one"
        )
    return TextLayout(delimiter, tuple(names))


def _read_parquet(paths: list[str], local: LocalTables) -> ir.Table:
    """Read Parquet files; refuse different columns or types, which engines would silently cast."""
    local_paths = not any(map(is_remote, paths))
    if local_paths:
        _refuse_different({path: _types(path) for path in paths})
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
        _refuse_different({f: dict(read.parquet(escaped_for_hadoop(f)).dtypes) for f in files})
    return local.view(read.parquet(*found))


def _types(path: str) -> dict[str, str]:
    """Return the columns of a Parquet file and their types, without encodings."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{path} is not a Parquet file, or is damaged or cut short; write or fetch it again "
            f"({' '.join(str(error).split())})"
        ) from error
    types = {
        one.name: one.type.value_type if pa.types.is_dictionary(one.type) else one.type
        for one in schema
    }
    return {
        name: str(kind).removeprefix("large_").removesuffix("_view") for name, kind in types.items()
    }


def _refuse_different(types: dict[str, dict[str, str]]) -> None:
    """Refuse files with other columns than the first, or with columns of other types."""
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
                    "both with the same type"
                )
