"""Advertiser texts: the table that says what each advertiser is, wherever it lies."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.ads.logs.log_files import delimiter_of, is_parquet, is_remote, open_text
from coterie.engines.queries import engine_message, fetch
from coterie.errors import TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["read_texts", "texts_beside"]

_FILES = ("advertisers.parquet", "advertisers.csv", "advertisers.csv.gz", "advertisers.tsv")
_COLUMNS = ("advertiser_id", "description")


def texts_beside(folder: Path) -> str | None:
    """The text table in a folder of logs, or one folder up; None where there is none."""
    if is_remote(str(folder)):
        return None
    near = (folder.absolute(), folder.absolute().parent)
    return next(
        (str(one / name) for one in near for name in _FILES if (one / name).is_file()), None
    )


def read_texts(place: str | ir.Table) -> dict[str, str]:
    """The text of every advertiser in a table; several of one advertiser are joined.

    Parameters
    ----------
    place : str or ibis table
        A Parquet or CSV file, or a table, with ``advertiser_id`` and ``description``.
    """
    texts: dict[str, dict[str, None]] = {}
    for advertiser, text in _rows(place):
        if advertiser:
            # a dictionary keeps the order and drops what comes twice
            texts.setdefault(advertiser, {}).update({text: None} if text else {})
    return {advertiser: " ".join(parts) for advertiser, parts in texts.items()}


def _rows(place: str | ir.Table) -> Iterator[tuple[str, str]]:
    if isinstance(place, str) and not is_parquet(place):
        yield from _rows_of_text(place)
        return
    table = _parquet(place) if isinstance(place, str) else _fetched(place)
    columns = (map(_as_text, table[name]) for name in _COLUMNS)
    yield from zip(*columns, strict=True)


def _fetched(table: ir.Table) -> pa.Table:
    _require_columns(table.columns, "the table of advertisers")
    return fetch(table.select(*_COLUMNS))


def _parquet(path: str) -> pa.Table:
    try:
        _require_columns(pq.read_schema(path).names, path)
        return pq.read_table(path, columns=list(_COLUMNS))
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{path}: not a whole Parquet file ({engine_message(error)}); copy it again"
        ) from error


def _as_text(value: pa.Scalar) -> str:
    if pa.types.is_dictionary(value.type):
        value = value.value
    if not value.is_valid:
        return ""
    if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
        # as bytes, since a file may claim UTF-8 and hold something else
        value = value.cast(pa.binary())
    plain = value.as_py()
    return plain.decode("utf-8", errors="replace") if isinstance(plain, bytes) else str(plain)


def _rows_of_text(path: str) -> Iterator[tuple[str, str]]:
    with open_text(path, errors="replace") as lines:
        header = lines.readline()
        lines.seek(0)
        rows = csv.DictReader(lines, delimiter=delimiter_of(header), skipinitialspace=True)
        _require_columns(rows.fieldnames or (), path)
        try:
            for row in rows:
                yield row["advertiser_id"] or "", row["description"] or ""
        except csv.Error as error:
            raise TableError(f"{path}, line {rows.line_num + 1}: {error}") from error


def _require_columns(columns: Collection[str], named: str) -> None:
    missing = [name for name in _COLUMNS if name not in columns]
    if missing:
        raise TableError(
            f"{named}: column {' and '.join(missing)} missing; a table of advertisers has "
            f"advertiser_id and description, this one {', '.join(columns) or 'nothing'}"
        )
