"""Bid logs: open files or tables and give them canonical columns.

Opening reads headers only: a :class:`BidLogs` holds an expression that the engine evaluates when
histograms or checks need it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.ads.logs.column_recognition import reading_of
from coterie.ads.logs.log_columns import ColumnReading, StoredRows, canonical_table, with_campaigns
from coterie.ads.logs.raw_logs import Source, is_table, open_raw, read_texts
from coterie.errors import InvalidParameterError, TableError
from coterie.runtime.wording import short_repr
from coterie.tables.engines import fetch
from coterie.tables.sources import RejectedLine, rejected_lines

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend

#: First-price or second-price auction, by ``auction_type``.
AUCTIONS = {1: "first", 2: "second"}
#: Amounts may differ by this share of the bid and one micro: logs round and convert them.
SLACK = 0.001
#: From this many priced wins on, a few prices may differ from the bids of a first-price log.
MANY_WINS = 100
_FEWEST_WINS = 20
_PERCENT_OF_WINS = 99
_MOST_DISTINCT = 1000


@dataclass(frozen=True, eq=False)
class BidLogs:
    """A log with canonical columns, on an engine.

    Attributes
    ----------
    table : ibis table
        See :func:`~coterie.ads.logs.log_columns.canonical_table`. It includes faulty rows; a
        value that cannot be read is null.
    kind : {"bids", "histograms"}
    source : str
        Path or name of the log, for messages.
    weighted : bool
        Whether the log has a column of weights, as a sample has.
    given_auction : {"first", "second"} or None
        The auction type given by the user.
    texts : str, ibis table or None
        Path or table of the advertisers' descriptions.
    files : tuple of str
        The files of the log; empty for a table of the engine.
    unit : {"advertiser", "campaign"}
        What ``advertiser_id`` names; a campaign is ``ADVERTISER/CAMPAIGN``.
    dimensions : tuple of str
        Names of dimensions; dimension ``x`` is the column ``dimension_x``.
    reading : ColumnReading
        Which columns of the log were read, and how.
    rejects : str
        Table of the lines that are not rows; see :meth:`ragged_lines`.
    notes : tuple of str
        What a reader of the check should know about how the log was read.
    store : StoredRows
        Where ``rows`` come from; a changed log shares it.
    """

    table: ir.Table = field(repr=False)
    kind: str
    source: str
    weighted: bool = False
    given_auction: str | None = None
    texts: Any = None
    files: tuple[str, ...] = ()
    unit: str = "advertiser"
    dimensions: tuple[str, ...] = ()
    reading: ColumnReading = field(default_factory=ColumnReading, repr=False)
    rejects: str = ""
    notes: tuple[str, ...] = ()
    store: StoredRows = field(default_factory=StoredRows, repr=False)

    __repr__ = short_repr

    @property
    def rows(self) -> ir.Table:
        """The columns of ``table``, and the original values of those that cannot be read.

        Checks and histograms query these rows: text is converted once, when it is first used.
        """
        return self.store.of(self.table, self.reading.is_json)

    @property
    def engine(self) -> str:
        """Name of the engine, "duckdb" or "pyspark"."""
        return str(self.table.get_backend().name)

    @property
    def auction(self) -> str:
        """The auction type: the one given, else that of ``auction_type``, else by the prices."""
        return self._auction[0]

    @property
    def auction_source(self) -> str:
        """The source of the auction type: "given", "column", "prices" or "default"."""
        return self._auction[1]

    @cached_property
    def currency(self) -> str:
        """Currency of all amounts, empty if the log has none."""
        currencies = self._distinct("currency")
        if len(currencies) > 1:
            raise TableError(
                f"{self.source}: currency has {_listed(currencies)}; "
                "amounts in several currencies cannot be added: split the log"
            )
        return currencies[0] if currencies else ""

    @property
    def logs_minimum(self) -> bool:
        """Whether every bid has its minimum to win."""
        has_minimum = "min_to_win_micros" in self.table.columns
        return has_minimum and not sum(group["without"] or 0 for group in self._groups)

    @cached_property
    def _auction(self) -> tuple[str, str]:
        if self.given_auction is not None:
            return self.given_auction, "given"
        types = self._distinct("auction_type")
        if len(types) > 1 or not AUCTIONS.keys() >= set(types):
            raise TableError(
                f"{self.source}: auction_type has {_listed(types)}; it must be 1 (first price) or "
                "2 (second price) in all rows; split the log, or give the auction type"
            )
        if types:
            return AUCTIONS[types[0]], "column"
        if self.kind == "bids":
            sums = (sum(group[name] or 0 for group in self._groups) for name in ("priced", "equal"))
            if winners_pay_bids(*map(int, sums)):
                return "first", "prices"
        return "second", "default"

    @cached_property
    def _groups(self) -> list[dict[str, Any]]:
        """Counts of the rows of each auction type and currency, in one query."""
        rows = self.rows
        keys = [name for name in ("auction_type", "currency") if name in rows.columns]
        if self.given_auction is not None and "auction_type" in keys:
            keys.remove("auction_type")  # it may hold anything
        counts: dict[str, Any] = {}
        if self.kind == "bids":
            counts["priced"], counts["equal"] = (one.sum() for one in priced_wins(rows))
        if "min_to_win_micros" in rows.columns:
            known = (rows.min_to_win_micros >= 0).fill_null(False)
            counts["without"] = (~known).sum(where=rows.bid_micros > 0)
        if not keys and not counts:
            return []
        groups = (rows.group_by(keys) if keys else rows).aggregate(rows=rows.count(), **counts)
        return fetch(groups.limit(_MOST_DISTINCT)).to_pylist()

    def _distinct(self, name: str) -> list[Any]:
        return sorted({group.get(name) for group in self._groups} - {None, ""})

    @cached_property
    def _descriptions(self) -> dict[str, str]:
        return {} if self.texts is None else read_texts(self.texts)

    @cached_property
    def revealed(self) -> str:
        """Prices that the log reveals: those "paid", the "minimum" to win, or "none"."""
        if self.kind == "histograms":
            return "paid" if "prices" in self.table.columns else "none"
        if self.logs_minimum:
            return "minimum"
        return "paid" if self.auction == "second" else "none"

    def ragged_lines(self) -> list[RejectedLine]:
        """Return the lines of text, so far queried, that are not rows of the log."""
        return rejected_lines(self.rejects, self.table.get_backend()) if self.rejects else []


def open_logs(
    source: Source | Sequence[Source] | ir.Table | None = None,
    connection: BaseBackend | None = None,
    *,
    sql: str = "",
    columns: Mapping[str, str] | None = None,
    amounts: str = "",
    time_zone: str = "",
    currency: str = "",
    auction: str | None = None,
    advertisers: Source | ir.Table | None = None,
    table: str | None = None,
    by: str = "advertiser",
    dimensions: Sequence[str] | Mapping[str, str] = (),
) -> BidLogs:
    """Open bid logs.

    Nothing doubtful about the columns is decided in silence: it is a
    :class:`~coterie.errors.TableError`, whose note is a query for ``sql`` that settles it.

    Parameters
    ----------
    source : path, sequence of paths, str or ibis table, optional
        A Parquet, CSV, TSV or JSON-lines file; a folder of them; a glob; a DuckDB database file;
        the name of a table of ``connection``; or a table of any Ibis backend. Text may be packed by
        gzip or Zstandard. It may be left out if ``sql`` names all that it reads.
    connection : ibis backend, optional
        From :func:`~coterie.ads.connect`; by default embedded DuckDB.
    sql : str, optional
        A query of the engine whose result is the log, for example
        ``"SELECT *, bid / 100 AS bid_micros FROM log"``. The table ``log`` is ``source``, whose
        columns are text if it is; files and tables may be named, too.
    columns : mapping of str to str, optional
        Column of the log by role, for example ``{"bid": "bid_price"}``; the roles are advertiser,
        time, day, bid, won, price, min_to_win, floor, auction_type, currency, weight, click,
        conversion and campaign. Usual names are recognised; an empty column leaves a role out.
    amounts : {"micros", "cents", "currency", "micros/impression", …}, optional
        Unit of all amounts whose column does not say micros in its name, for a thousand impressions
        or, with ``/impression``, for one.
    time_zone : str, optional
        Zone of times that do not have one, such as Europe/Berlin; by default UTC. Days are UTC.
    currency : str, optional
        Currency of all amounts, such as EUR, if no column has it.
    auction : {"first", "second"}, optional
        By default the value of the column ``auction_type`` (1 or 2). Without it, a log of bids
        is first price if nearly all winners paid their bids; all other logs are second price.
    advertisers : path or ibis table, optional
        The table with ``advertiser_id`` and ``description``; by default
        ``advertisers.parquet`` or ``advertisers.csv`` in the folder of the logs or its parent,
        or the table ``advertisers`` of a database.
    table : str, optional
        Table of the database file; by default ``bids``, or the only table.
    by : {"advertiser", "campaign"}
        With "campaign", every pair of ``advertiser_id`` and ``campaign_id`` is a separate unit,
        named ``ADVERTISER/CAMPAIGN``; a forecast of it borrows from its advertiser's others.
    dimensions : sequence of str, or mapping of str to str
        Columns whose values are targets, such as device or country; a mapping gives the column of
        each name. ``hour`` (UTC) comes from the time stamp if there is no such column.

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
        raise InvalidParameterError(f"auction={auction!r}: it must be 'first' or 'second'")
    if by not in {"advertiser", "campaign"}:
        raise InvalidParameterError(f"by={by!r}: it must be 'advertiser' or 'campaign'")
    by_dimension = _dimension_columns(dimensions)
    if advertisers is not None and not is_table(advertisers):
        advertisers = str(Path(advertisers).expanduser())
        if not Path(advertisers).is_file():
            raise TableError(f"{advertisers}: there is no such file with the texts of advertisers")
    if source is None and not sql:
        raise InvalidParameterError("name the files or the table of a log, or give sql")
    named = [name for name in (*(columns or {}).values(), *by_dimension.values()) if name]
    found = open_raw(source, connection, sql, table, named)
    is_counted = {"bin_micros", "bids"} <= set(found.table.columns) and not (columns or amounts)
    kind = "histograms" if is_counted else "bids"
    reading = replace(
        reading_of(found.table, kind, found.name, columns or {}, amounts, time_zone, currency),
        is_json=found.is_json,
    )
    raw = with_campaigns(found.table, found.name, reading) if by == "campaign" else found.table
    return BidLogs(
        table=canonical_table(raw, kind, found.name, found.lacking, by_dimension, reading),
        kind=kind,
        source=found.name,
        weighted=kind == "bids" and reading.column("weight") in found.table.columns,
        given_auction=auction,
        texts=found.texts if advertisers is None else advertisers,
        files=tuple(found.files),
        unit=by,
        dimensions=tuple(by_dimension),
        reading=reading,
        rejects=found.rejects,
        notes=found.notes,
        store=StoredRows(is_query=bool(sql)),
    )


def read_descriptions(logs: BidLogs) -> dict[str, str]:
    """Read the description of every advertiser in the text table of a log.

    Several descriptions of one advertiser are joined. Bytes that are not UTF-8 become U+FFFD.

    Parameters
    ----------
    logs : BidLogs

    Returns
    -------
    dict of str to str
        Empty if there is no text table. An advertiser without a description has an empty text.
    """
    return dict(logs._descriptions)


def priced_wins(rows: ir.Table) -> tuple[Any, Any]:
    """Return which bids won with a known price, and which of those paid their bid.

    Both are columns of truth values or nulls. A price may differ from the bid by ``SLACK``.
    """
    bid, price = rows.bid_micros, rows.price_micros
    priced = rows.won & (bid > 0) & (price >= 0)
    # floats, because the product may overflow integers
    return priced, priced & price.between(bid * (1 - SLACK) - 1, bid * (1 + SLACK) + 1)


def winners_pay_bids(priced: int, equal: int) -> bool:
    """Return whether prices show a first-price auction.

    ``equal`` of the ``priced`` wins paid their bid. These must be 99 % of at least 100 wins, or all
    of at least 20.

    >>> winners_pay_bids(200, 198), winners_pay_bids(99, 98), winners_pay_bids(20, 20)
    (True, False, True)
    """
    if priced < MANY_WINS:
        return priced >= _FEWEST_WINS and equal == priced
    return 100 * equal >= _PERCENT_OF_WINS * priced


def _dimension_columns(dimensions: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Return the column of each dimension."""
    if isinstance(dimensions, str):
        raise InvalidParameterError(f"dimensions={dimensions!r}: give a list of names")
    if not isinstance(dimensions, Mapping):
        pairs = [(name, name) for name in dimensions]
    else:
        pairs = [*dimensions.items()]
    for name, column in pairs:
        if not all(isinstance(one, str) and one.strip() for one in (name, column)) or "=" in name:
            raise InvalidParameterError(
                f"dimensions: {name!r} from the column {column!r}; both must be texts, the name "
                "without ="
            )
    columns = dict(pairs)
    if len(columns) < len(pairs):
        raise InvalidParameterError("dimensions: a name is given twice")
    return columns


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values[:5])) + " and others" * (len(values) > 5)
