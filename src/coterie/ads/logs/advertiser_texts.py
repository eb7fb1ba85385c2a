"""Advertiser texts: read the table that describes each advertiser."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.ads.logs.log_files import is_parquet
from coterie.errors import TableError
from coterie.tables.engines import engine_message, fetch
from coterie.tables.reading import guess_delimiter
from coterie.tables.sources import is_remote, open_text

if TYPE_CHECKING:
    import ibis.expr.types as ir

_FILES = ("advertisers.parquet", "advertisers.csv", "advertisers.csv.gz", "advertisers.tsv")
_COLUMNS = ("advertiser_id", "description")


def texts_beside(folder: Path) -> str | None:
    """Return the path of the text table in a folder of logs or its parent, or None."""
    if is_remote(str(folder)):
        return None
    folders = (folder.absolute(), folder.absolute().parent)
    found = (place / name for place in folders for name in _FILES if (place / name).is_file())
    return next(map(str, found), None)


def read_texts(place: str | ir.Table) -> dict[str, str]:
    """Read the texts of advertisers by id; several texts of one advertiser are joined.

    ``place`` is a Parquet or CSV file, or a table, with ``advertiser_id`` and ``description``.
    """
    texts: dict[str, dict[str, None]] = {}
    for written, text in _rows(place):
        advertiser = written.strip()  # as in logs
        if advertiser:
            # a dictionary keeps the order and drops repeated texts
            texts.setdefault(advertiser, {}).update({text: None} if text else {})
    return {advertiser: " ".join(parts) for advertiser, parts in texts.items()}


def _rows(place: str | ir.Table) -> Iterator[tuple[str, str]]:
    """Yield pairs of advertiser and text."""
    if not isinstance(place, str):
        _require_columns(place.columns, "the table of advertisers")
        table = fetch(place.select(*_COLUMNS))
    elif is_parquet(place):
        try:
            _require_columns(pq.read_schema(place).names, place)
            table = pq.read_table(place, columns=list(_COLUMNS))
        except (pa.ArrowException, OSError) as error:
            raise TableError(
                f"{place}: the Parquet file is damaged or incomplete ({engine_message(error)}); "
                "copy it again"
            ) from error
    else:
        yield from _csv_rows(place)
        return
    yield from zip(*(_texts_in(table[name]) for name in _COLUMNS), strict=True)


def _texts_in(column: pa.ChunkedArray) -> Iterable[str]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return map(_as_text, column)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:  # bytes that are not UTF-8
        return map(_as_text, column)
    return column.fill_null("").to_pylist()


def _as_text(value: pa.Scalar) -> str:
    if not value.is_valid:
        return ""
    if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
        # decoded here: a file may declare UTF-8 and contain other bytes
        value = value.cast(pa.binary())
    plain = value.as_py()
    return plain.decode("utf-8", errors="replace") if isinstance(plain, bytes) else str(plain)


def _csv_rows(path: str) -> Iterator[tuple[str, str]]:
    with open_text(path, errors="replace") as lines:
        header = lines.readline()
        every = itertools.chain([header], lines)
        rows = csv.DictReader(every, delimiter=guess_delimiter(header), skipinitialspace=True)
        _require_columns(rows.fieldnames or (), path)
        try:
            for row in rows:
                yield row["advertiser_id"] or "", row["description"] or ""
        except csv.Error as error:
            raise TableError(f"{path}, line {rows.line_num + 1}: {error}") from error


def _require_columns(columns: Collection[str], source: str) -> None:
    missing = [name for name in _COLUMNS if name not in columns]
    if missing:
        raise TableError(
            f"{source}: column {' and '.join(missing)} missing; a table of advertisers needs "
            f"advertiser_id and description, this one has {', '.join(columns) or 'no columns'}"
        )
