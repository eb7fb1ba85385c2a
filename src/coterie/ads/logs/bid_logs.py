"""Bid logs: opened where they are, brought to one shape, described.

Nothing is read here but headers and a few facts: a :class:`BidLogs` is an expression that an
engine runs when histograms or checks ask it to.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.ads.logs import log_files
from coterie.ads.logs.advertiser_texts import read_texts, texts_beside
from coterie.ads.logs.log_columns import canonical_table, kind_of
from coterie.engines.backends import connect
from coterie.engines.queries import engine_message, fetch, is_engine_error
from coterie.errors import InvalidParameterError, TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend

__all__ = ["AUCTIONS", "BidLogs", "open_logs", "read_descriptions"]

#: What a winner pays, by ``auction_type``.
AUCTIONS = {1: "first", 2: "second"}
_MOST_DISTINCT = 1000

Source = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class BidLogs:
    """A log in canonical shape, on an engine.

    Attributes
    ----------
    table : ibis table
        See :func:`~coterie.ads.logs.log_columns.canonical_table`. Rows with faults are in it: what
        cannot be read is null.
    kind : {"bids", "ipinyou", "histograms"}
    source : str
        Where it is, for people.
    weighted : bool
        Whether rows have weights other than 1: the log is a sample.
    given_auction : {"first", "second"} or None
        What the user said of the auctions.
    texts : str, ibis table or None
        Where the descriptions of the advertisers are.
    files : tuple of str
        The files of the log; empty for a table of the engine.
    """

    table: ir.Table
    kind: str
    source: str
    weighted: bool = False
    given_auction: str | None = None
    texts: Any = None
    files: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        """The name of the engine, "duckdb" or "pyspark"."""
        return str(self.table.get_backend().name)

    @cached_property
    def auction(self) -> str:
        """What a winner pays: as given, else as ``auction_type`` says, else "second"."""
        if self.given_auction is not None:
            return self.given_auction
        types = self._distinct("auction_type")
        if not types:
            return "second"
        if len(types) > 1 or types[0] not in AUCTIONS:
            raise TableError(
                f"{self.source}: auction_type has {_listed(types)}; it must be 1 (first price) or "
                "2 (second price) throughout: split the log, or say which auction it is"
            )
        return AUCTIONS[types[0]]

    @cached_property
    def currency(self) -> str:
        """The currency of all amounts, empty where the log does not say."""
        currencies = self._distinct("currency")
        if len(currencies) > 1:
            raise TableError(
                f"{self.source}: currency has {_listed(currencies)}; "
                "amounts of several currencies do not add up: split the log"
            )
        return currencies[0] if currencies else ""

    @cached_property
    def logs_minimum(self) -> bool:
        """Whether every bid comes with the minimum that would have won."""
        table = self.table
        if "min_to_win_micros" not in table.columns:
            return False
        known = (table.min_to_win_micros >= 0).fill_null(False)
        without = (~known).sum(where=table.bid_micros > 0).fill_null(0)
        return fetch(table.aggregate(without=without))["without"][0].as_py() == 0

    @cached_property
    def _descriptions(self) -> dict[str, str]:
        """The descriptions, read when first used and only once: checks and models need them."""
        return {} if self.texts is None else read_texts(self.texts)

    def _distinct(self, name: str) -> list[Any]:
        """The distinct values of a column, sorted, as far as they tell that a log is mixed."""
        if name not in self.table.columns:
            return []
        found = fetch(self.table.select(name).distinct().limit(_MOST_DISTINCT))
        return sorted(set(found[name].to_pylist()) - {None, ""})


def open_logs(
    source: Source | Sequence[Source] | ir.Table,
    connection: BaseBackend | None = None,
    *,
    auction: str | None = None,
    advertisers: Source | ir.Table | None = None,
    table: str | None = None,
    kind: str | None = None,
) -> BidLogs:
    """Open bid logs.

    Parameters
    ----------
    source : path, sequence of paths, str or ibis table
        A Parquet, CSV or TSV file, gzipped or not; a folder of them; a glob; a DuckDB database
        file; the name of a table of ``connection``; or a table of any Ibis backend.
    connection : ibis backend, optional
        From :func:`~coterie.ads.connect`; by default embedded DuckDB.
    auction : {"first", "second"}, optional
        What a winner pays; by default what the column ``auction_type`` says (1 or 2), and
        second price where there is none.
    advertisers : path or ibis table, optional
        The table with ``advertiser_id`` and ``description``; by default
        ``advertisers.parquet`` or ``advertisers.csv`` beside the logs or one folder up, and the
        table ``advertisers`` of a database.
    table : str, optional
        Which table of the database file; by default ``bids``, or the only one.
    kind : {"bids", "ipinyou", "histograms"}, optional
        By default what the columns tell.

    Examples
    --------
    >>> import ibis, pyarrow as pa
    >>> rows = pa.table({"advertiser_id": [7], "day": ["2026-03-02"], "bid_micros": [2_500_000],
    ...                  "won": ["true"], "price_micros": [1_900_000]})
    >>> logs = open_logs(ibis.memtable(rows))
    >>> logs.kind, logs.auction, logs.table.columns
    ('bids', 'second', ('advertiser_id', 'day', 'bid_micros', 'won', 'price_micros', 'weight'))
    """
    if auction not in {None, *AUCTIONS.values()}:
        raise InvalidParameterError(f"auction={auction!r}: it may be 'first' or 'second'")
    found = _find(source, connection, table)
    found_kind = kind or kind_of(found.raw.columns)
    return BidLogs(
        table=canonical_table(found.raw, found_kind, found.name, found.lacking),
        kind=found_kind,
        source=found.name,
        weighted=found_kind == "bids" and "weight" in found.raw.columns,
        given_auction=auction,
        texts=found.texts if advertisers is None else _checked_texts(advertisers),
        files=tuple(found.files),
    )


def read_descriptions(logs: BidLogs) -> dict[str, str]:
    """The description of every advertiser in the text table of a log.

    Several descriptions of one advertiser are joined. Bytes that are not UTF-8 become U+FFFD.

    Returns
    -------
    dict of str to str
        Empty where there is no text table; an empty text where there is no description.
    """
    return dict(logs._descriptions)


class _Found(NamedTuple):
    """A raw table, its name, its text table, the first file without each column, its files."""

    raw: ir.Table
    name: str
    texts: Any = None
    lacking: Mapping[str, str] = {}
    files: Sequence[str] = ()


def _find(source: Any, connection: Any, table: str | None) -> _Found:
    if _is_table(source):
        return _Found(source, "the table given")
    connection = connect() if connection is None else connection
    if isinstance(source, str) and not Path(source).exists():
        named = _named_table(connection, source)
        if named is not None:
            return _Found(named, source, _named_table(connection, "advertisers"))
    paths = log_files.find_files(source)
    if len(paths) == 1 and log_files.is_database(paths[0]):
        return _in_database(paths[0], connection, table)
    if table is not None:
        raise InvalidParameterError(f"table={table!r}: {paths[0]} is no database with tables")
    files = log_files.inspect_files(paths)
    raw = log_files.read_files(files, connection)
    is_one = isinstance(source, str | os.PathLike)
    name = os.fspath(source) if is_one else paths[0]
    folder = Path(name).expanduser() if is_one else Path()
    beside = texts_beside(folder if is_one and folder.is_dir() else Path(paths[0]).parent)
    return _Found(raw, name, beside, files.lacking, paths)


def _is_table(source: Any) -> bool:
    return hasattr(source, "get_backend")


def _named_table(connection: Any, name: str) -> ir.Table | None:
    return connection.table(name) if name in _tables(connection) else None


def _tables(connection: Any, catalog: str | None = None) -> list[str]:
    """The tables and views of the current schema, or of the main one of a catalog of ours."""
    if connection.name != "duckdb":
        return list(connection.list_tables())
    # DuckDB is asked itself: what Ibis 12 asks it with, DuckDB 2 has no more
    places = (
        "table_catalog IN (current_database(), 'temp') AND table_schema = current_schema()"
        if catalog is None
        else f"table_catalog = '{catalog}' AND table_schema = 'main'"
    )
    rows = connection.con.sql(
        f"SELECT table_name FROM information_schema.tables WHERE {places}"
    ).fetchall()
    return [name for (name,) in rows]


def _in_database(path: str, connection: Any, table: str | None) -> _Found:
    if connection.name != "duckdb":
        raise TableError(f"{path} is a DuckDB database: open it with DuckDB, not {connection.name}")
    # one name for a file however often it is opened, as DuckDB attaches it but once
    catalog = f"logs_{zlib.crc32(os.fsencode(Path(path).absolute())):08x}"
    try:
        quoted = str(Path(path).absolute()).replace("'", "''")
        connection.con.sql(f"ATTACH IF NOT EXISTS '{quoted}' AS {catalog} (READ_ONLY)")
        names = _tables(connection, catalog)
    except Exception as error:
        if not is_engine_error(error):
            raise
        raise TableError(
            f"{path}: DuckDB cannot open it: {engine_message(error)}; "
            "does another program write to it?"
        ) from error
    logs = [name for name in names if name not in log_files.BESIDE]
    chosen = table or ("bids" if "bids" in logs else logs[0] if len(logs) == 1 else "")
    if chosen not in names:
        raise TableError(
            f"{path}: {f'there is no table {table}' if table else 'which table is the log'}? "
            f"There are {', '.join(sorted(names)) or 'none'}"
        )
    opened = {
        name: connection.table(name, database=(catalog, "main"))
        for name in {chosen, "advertisers"} & set(names)
    }
    name = f"{path}, table {chosen}"
    return _Found(opened[chosen], name, opened.get("advertisers"), files=[path])


def _checked_texts(advertisers: Any) -> Any:
    if _is_table(advertisers):
        return advertisers
    path = os.fspath(advertisers)
    if not Path(path).expanduser().is_file():
        raise TableError(f"{path}: there is no such table of advertisers")
    return str(Path(path).expanduser())


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values[:5])) + " and others" * (len(values) > 5)
