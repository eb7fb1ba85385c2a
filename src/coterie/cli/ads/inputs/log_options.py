"""Options that say where a log is and what its columns mean, for all commands that read one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

DUCKDB = "duckdb://"


@dataclass(frozen=True)
class LogOptions:
    """What the options say about a log."""

    engine: str = DUCKDB
    advertisers: Path | None = None
    table: str | None = None
    sql: Path | None = None
    columns: dict[str, str] = field(default_factory=dict)
    amounts: str = ""
    time_zone: str = ""
    currency: str = ""
    auction: str | None = None

    def words(self) -> list[str]:
        """Return the options that say the same."""
        words = [word for pair in self.columns.items() for word in ("--column", "=".join(pair))]
        for name, value in vars(self).items():
            if name != "columns" and value and value != DUCKDB:
                words += [f"--{name.replace('_', '-')}", str(value)]
        return words


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


_option = functools.partial(typer.Option, rich_help_panel="The log")


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
    sql: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Query of the engine whose result is the log: it has our columns, and reads LOGS "
            "as the table log.",
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
        str,
        _option(
            metavar="UNIT",
            help="Unit of amounts: micros, cents or currency, for a thousand impressions; with "
            "/impression for one.",
        ),
    ] = "",
    time_zone: Annotated[
        str, _option(metavar="ZONE", help="Zone of times without one; by default UTC.")
    ] = "",
    currency: Annotated[
        str,
        _option(metavar="CODE", help="Currency of amounts, such as EUR, if no column has it."),
    ] = "",
    auction: Annotated[
        Literal["first", "second"] | None,
        _option(
            help="Auction type; by default that in the log, or else that of the model to update."
        ),
    ] = None,
) -> LogOptions:
    """Return what the options say."""
    columns = _pairs(column or [])
    return LogOptions(
        engine, advertisers, table, sql, columns, amounts, time_zone, currency, auction
    )


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """Return the values by name in texts such as ``bid=bid_price``."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r}: write ROLE=NAME", param_hint="'--column'")
        if name.strip() in values:
            raise typer.BadParameter(f"{name.strip()} is given twice", param_hint="'--column'")
        values[name.strip()] = value.strip()
    return values
