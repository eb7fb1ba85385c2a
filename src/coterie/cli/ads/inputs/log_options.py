"""Options that say where a log is and what its columns mean, for all commands that read one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

if TYPE_CHECKING:
    from coterie.ads.logs.log_mapping import LogMapping

__all__ = ["DUCKDB", "LogOptions", "with_log_options"]

DUCKDB = "duckdb://"
_PANEL = "The log"


@dataclass(frozen=True)
class LogOptions:
    """What the options say about a log."""

    engine: str = DUCKDB
    advertisers: Path | None = None
    table: str | None = None
    auction: str | None = None
    mapping: LogMapping | None = None
    wins: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    mapping_file: Path | None = None  # from which some of the mapping was read

    def words(self) -> list[str]:
        """Return the options that say the same, without a mapping file."""
        values = [
            ("--engine", None if self.engine == DUCKDB else self.engine),
            ("--advertisers", self.advertisers),
            ("--table", self.table),
            ("--auction", self.auction),
        ]
        given = [(option, str(value)) for option, value in values if value is not None]
        notices = [("--wins", path) for path in self.wins]
        notices += [("--losses", path) for path in self.losses]
        mapping = [] if self.mapping is None else self.mapping.options()
        return [*_flat(given), *mapping, *_flat(notices)]


def with_log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a log; it gets them as its parameter ``log_options``."""
    shared = inspect.signature(_log_options).parameters
    own = inspect.signature(command).parameters

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        of_log = {name: values.pop(name) for name in shared}
        command(**values, log_options=_log_options(**of_log))

    hints = get_type_hints(command, include_extras=True) | get_type_hints(
        _log_options, include_extras=True
    )
    parameters = [*(one for one in own.values() if one.name != "log_options"), *shared.values()]
    # Typer calls commands by keywords and reads their options here
    ordered = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name])
        for one in parameters
    ]
    with_options.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: hints[one.name] for one in ordered}
    return with_options


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_PANEL, **settings)


def _log_options(
    advertisers: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Table of texts, with columns advertiser_id and description; by default "
            "advertisers.parquet or .csv beside the logs.",
        ),
    ] = None,
    engine: Annotated[
        str,
        _option(
            metavar="URL",
            envvar="COTERIE_ENGINE",
            help="Engine: duckdb:// (embedded), duckdb://FILE, pyspark://local, "
            "pyspark://HOST:PORT or postgres://HOST/DATABASE.",
        ),
    ] = DUCKDB,
    table: Annotated[
        str | None, _option(metavar="NAME", help="Table to read, if the log is a DuckDB file.")
    ] = None,
    auction: Annotated[
        Literal["first", "second"] | None,
        _option(
            help="Auction type; by default that in the log, or else that of the model to update."
        ),
    ] = None,
    mapping: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Mapping file with what the options below say; coterie ads check "
            "--write-mapping writes one. Options come first.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        _option(
            metavar="ROLE=NAME",
            help="Column of the log for a role: advertiser, time, day, bid, won, price, "
            "min_to_win, floor, auction_type, currency, weight, click, conversion or campaign. "
            "Usual names are recognised.",
        ),
    ] = None,
    amounts: Annotated[
        list[str] | None,
        _option(
            metavar="[ROLE=]UNIT",
            help="Unit of amounts: micros, cents or currency, for a thousand impressions; with "
            "/impression for one.",
        ),
    ] = None,
    time_zone: Annotated[
        str,
        _option(metavar="ZONE", help="Zone of times without one; by default UTC."),
    ] = "",
    day_zone: Annotated[
        str,
        _option(metavar="ZONE", help="Zone in which days begin and end; by default UTC."),
    ] = "",
    date_format: Annotated[
        Literal["day-first", "month-first"] | None,
        _option(help="Order of dates that end with the year."),
    ] = None,
    currency: Annotated[
        str,
        _option(
            metavar="CODE",
            help="Currency of amounts, such as EUR, if no column has it.",
        ),
    ] = "",
    decimal_comma: Annotated[
        bool, _option("--decimal-comma", metavar="", help="Numbers are written as 2,50.")
    ] = False,
    won_when_priced: Annotated[
        bool,
        _option(
            "--won-when-priced",
            metavar="",
            help="There is no column for won: a bid won if its price is above 0.",
        ),
    ] = False,
    format_: Annotated[
        Literal["openrtb", "ipinyou", "gam"] | None,
        _option("--format", help="Known format of the log."),
    ] = None,
    wins: Annotated[
        list[str] | None,
        _option(metavar="FILE", help="Win notices to join to the bids."),
    ] = None,
    losses: Annotated[
        list[str] | None,
        _option(metavar="FILE", help="Loss notices to join to the bids."),
    ] = None,
    join_on: Annotated[
        str,
        _option(
            metavar="NAME[=NAME]",
            help="Column that identifies a bid, and its name in the notices if it differs.",
        ),
    ] = "",
    unnoticed_lost: Annotated[
        bool,
        _option("--unnoticed-lost", metavar="", help="A bid without a notice lost."),
    ] = False,
) -> LogOptions:
    """Return what the options say."""
    from coterie.ads.logs.log_mapping import LogMapping, mapping_of

    of_options = LogMapping(
        columns=_pairs(column or [], "--column"),
        amounts=_pairs(amounts or [], "--amounts", otherwise="all"),
        time_zone=time_zone,
        day_zone=day_zone,
        date_format=date_format or "",
        currency=currency,
        decimal_comma=decimal_comma,
        won_when_priced=won_when_priced,
        format=format_ or "",
        join_on=join_on,
        unnoticed_lost=unnoticed_lost,
    )
    complete = mapping_of(mapping).updated(of_options)
    notices = tuple(wins or ()), tuple(losses or ())
    return LogOptions(engine, advertisers, table, auction, complete, *notices, mapping)


def _pairs(texts: Sequence[str], option: str, otherwise: str = "") -> dict[str, str]:
    """Return the values by name in texts such as ``bid=bid_price``."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals and otherwise:
            name, value = otherwise, text
        elif not equals:
            raise typer.BadParameter(f"{text!r}: write ROLE=NAME", param_hint=f"'{option}'")
        if name.strip() in values:
            raise typer.BadParameter(f"{name.strip()} is given twice", param_hint=f"'{option}'")
        values[name.strip()] = value.strip()
    return values


def _flat(pairs: Sequence[tuple[str, str]]) -> list[str]:
    return [word for pair in pairs for word in pair]
