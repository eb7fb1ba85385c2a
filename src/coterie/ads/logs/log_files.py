"""Log files: find the files of a path, folder or glob, and read them with an engine.

Every engine reads the same rows. Columns of text files are named by the header and read as text.
An unreadable file raises an error that names it.
"""

from __future__ import annotations

import glob
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.errors import TableError
from coterie.tables.engines import engine_errors, engine_message
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
    path_for_duckdb,
    path_for_spark,
    text_in_duckdb,
    text_in_spark,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend

#: Names of tables in the folder of the logs that are not logs.
NOT_LOGS = frozenset({"advertisers", "truth", "true_targets"})
#: The columns of an iPinYou log, which has no header.
_IPINYOU = (
    *("bid_id", "timestamp", "log_type", "ipinyou_id", "user_agent", "ip", "region", "city"),
    *("ad_exchange", "domain", "url", "anonymous_url", "slot_id", "slot_width", "slot_height"),
    *("slot_visibility", "slot_format", "slot_floor_price", "creative_id", "bid_price"),
    *("pay_price", "key_page_url", "advertiser_id", "user_tags"),
)

#: The first line that Excel reads and writes to say the delimiter.
_SEPARATOR_LINE = re.compile(r"^sep=(.)$", re.IGNORECASE)
_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".unfinished", ".inprogress")


@dataclass(frozen=True)
class LogFiles:
    """Files with one layout."""

    paths: tuple[str, ...]
    layout: TextLayout | None = None  # of delimited text; None for Parquet and JSON lines
    base: str = ""  # folder above the partition folders named column=value; empty if none
    lacking: Mapping[str, str] = field(default_factory=dict)  # column: first file without it
    retyped: Mapping[str, str] = field(default_factory=dict)  # column: first file of another type
    is_json: bool = False
    note: str = ""  # what the check says about reading them
    # of text in DuckDB: the table of lines with a wrong number of fields
    rejects: str = field(default_factory=lambda: f"coterie_rejects_{uuid.uuid4().hex}")


def find_files(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the files of a path, a folder, a glob or a list of these, sorted within each.

    A folder is searched recursively for Parquet, CSV, TSV and JSON-lines files; texts may be packed
    by gzip or Zstandard. Tables beside the logs and hidden or unfinished files are skipped.
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


def inspect_files(paths: Sequence[str]) -> LogFiles:
    """Read the layout and the columns of files from their first lines or footers.

    Raises
    ------
    TableError
        A file is empty, damaged or has another layout than the others.
    """
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
    if kind == "JSON":
        some = f"at most {SAMPLED_FILES} files" if len(paths) > 1 else "the file"
        note = (
            f"columns were looked for in the first {SAMPLED_LINES:,} lines of {some}; name others "
            "by --column or --dimension"
        )
        return LogFiles(tuple(paths), is_json=True, note=note)
    if is_remote(first):
        layout = TextLayout("\t" if ".tsv" in first.lower() else ",")
        return LogFiles(tuple(paths), layout if kind == "text" else None)
    if kind == "text":
        return LogFiles(tuple(paths), _inspect_text(paths))
    return _inspect_parquet(paths)


def read_files(files: LogFiles, connection: BaseBackend, named: Sequence[str] = ()) -> ir.Table:
    """Return the files as a table of an engine, reading no more than the columns.

    JSON lines are searched for columns that are ``named`` and not in the first lines.
    """
    readers = {"duckdb": _read_with_duckdb, "pyspark": _read_with_spark}
    if connection.name not in readers:
        raise TableError(
            f"log files are read by DuckDB or Spark, not by {connection.name}: "
            "give a table of that engine instead"
        )
    with engine_errors(files.paths[0]):
        return readers[connection.name](files, connection, named)


def is_database(path: str) -> bool:
    """Return whether a file is a DuckDB database."""
    return not is_remote(path) and first_bytes(path, 12)[8:] == b"DUCK"


def is_parquet(path: str) -> bool:
    """Return whether a file is Parquet, by its name or its first bytes."""
    if is_remote(path):
        return not is_text(path)
    return path.lower().endswith(".parquet") or first_bytes(path, 4) == b"PAR1"


def _visible(folder: Path) -> list[Path]:
    inside = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in inside if not _is_skipped(path, folder)]


def _has_log_ending(path: Path) -> bool:
    return path.suffix.lower() == ".parquet" or is_text(path.name) or is_json(path.name)


def _is_skipped(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    return hidden or path.suffix in _UNFINISHED or path.name.partition(".")[0] in NOT_LOGS


def _inspect_parquet(paths: Sequence[str]) -> LogFiles:
    of_each: dict[str, dict[str, pa.DataType]] = {}
    types: dict[str, pa.DataType] = {}
    for path in paths:
        try:
            schema = pq.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise TableError(
                f"{path}: the Parquet file is damaged or incomplete ({engine_message(error)}); "
                "copy it again, or leave it out"
            ) from error
        of_each[path] = {column.name: _stored_type(column.type) for column in schema}
        types = of_each[path] | types  # those of the first file come first
    refuse_wide(len(types), paths[0])
    lacking: dict[str, str] = {}
    retyped: dict[str, str] = {}
    for path, here in of_each.items():
        for name, kind in types.items():
            if name not in here:
                lacking.setdefault(name, path)
            elif here[name] != kind:
                retyped.setdefault(name, path)
    # folders such as day=2026-03-02 are columns if all paths have the same
    partitions = [[part for part in Path(path).parts[:-1] if "=" in part] for path in paths]
    names = [[part.partition("=")[0] for part in parts] for parts in partitions]
    base = ""
    if names[0] and all(one == names[0] for one in names):
        parents = (reversed(Path(path).absolute().parents) for path in paths)
        firsts = (next(one for one in above if "=" in one.name) for above in parents)
        base = os.path.commonpath([first.parent for first in firsts])
    return LogFiles(tuple(paths), base=base, lacking=lacking, retyped=retyped)


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """Return the type without what Parquet does not store: all texts are the same there."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(kind) else kind


def _inspect_text(paths: Sequence[str]) -> TextLayout:
    first = header_line(paths[0])
    separator = _SEPARATOR_LINE.match(first)
    skip = 1 if separator else 0
    first = header_line(paths[0], skip)
    delimiter = separator[1] if separator else guess_delimiter(first)
    fields = _stripped_fields(first, delimiter)
    if delimiter == "\t" and len(fields) == len(_IPINYOU) and fields[1].isdigit():
        return TextLayout(delimiter, _IPINYOU, has_header=False)
    refuse_wide(len(fields), paths[0])
    _refuse_repeated(fields, paths[0])
    for path in paths[1:]:
        others = _stripped_fields(header_line(path, skip), delimiter)
        if others != fields:
            raise TableError(
                f"{path}: its header differs from that of {paths[0]}: "
                f"{header_difference(others, fields)}; give files with the same columns"
            )
    return TextLayout(delimiter, tuple(fields), skip=skip)


def _refuse_repeated(fields: Sequence[str], path: str) -> None:
    in_lower_case = [name.lower() for name in fields]
    repeated = [name for name in fields if in_lower_case.count(name.lower()) > 1]
    if len(set(repeated)) < len(repeated):
        names = ", ".join(sorted({name for name in repeated if repeated.count(name) > 1}))
        raise TableError(f"{path}: the header has {names} more than once; rename one")
    if repeated:
        raise TableError(
            f"{path}: the header has {' and '.join(repeated)}, which differ in case only; engines "
            "do not tell them apart: rename one"
        )


def _stripped_fields(header: str, delimiter: str) -> list[str]:
    """Return the names in a header; an index without a name is ``column_1``."""
    fields = header_fields(header, delimiter)
    return [name.strip() or f"column_{i}" for i, name in enumerate(fields, 1)]


def _read_with_duckdb(files: LogFiles, connection: Any, named: Sequence[str]) -> ir.Table:
    if files.is_json:
        return json_in_duckdb(files.paths, connection, named)
    if files.layout is not None:
        return text_in_duckdb(files.paths, files.layout, connection, rejects=files.rejects)
    return connection.read_parquet(
        [path_for_duckdb(path) for path in files.paths],
        # else DuckDB casts all files to the types of the first, which rounds numbers
        union_by_name=bool(files.lacking or files.retyped),
        hive_partitioning=bool(files.base),
    )


def _read_with_spark(files: LogFiles, connection: Any, named: Sequence[str]) -> ir.Table:
    packed = next((path for path in files.paths if path.lower().endswith(".zst")), None)
    if packed is not None:
        raise TableError(f"{packed}: Spark does not read Zstandard; use gzip or DuckDB")
    for column, path in files.retyped.items():
        raise TableError(
            f"{path}: column {column} has another type than in {files.paths[0]}; Spark does not "
            "read such files together: use DuckDB, or write them with the same types"
        )
    if files.is_json:
        frame = json_in_spark(files.paths, connection._session, named)
    elif files.layout is not None:
        frame = text_in_spark(files.paths, files.layout, connection._session)
    else:
        reader = connection._session.read.option("mergeSchema", bool(files.lacking))
        if files.base:
            reader = reader.option("basePath", f"file://{files.base}")
        frame = reader.parquet(*map(path_for_spark, files.paths))
    name = f"coterie_{uuid.uuid4().hex}"
    frame.createTempView(name)
    return connection.table(name)
