"""Options that say where a log is and what its columns mean, for all commands that read one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from coterie.errors import TableError

DUCKDB = "duckdb://"
_NOT_OF_LOGS = ("engine", "column")

_option = functools.partial(typer.Option, rich_help_panel="The log")


@dataclass(frozen=True)
class LogOptions:
    """What the options say about a log; each field is the option of its name."""

    advertisers: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Table of texts, with columns advertiser_id and description; by default "
            "advertisers.parquet or .csv beside the logs.",
        ),
    ] = None
    engine: Annotated[
        str,
        _option(
            metavar="URL",
            envvar="COTERIE_ENGINE",
            help="Engine: duckdb:// (embedded), duckdb://FILE, pyspark://local, "
            "pyspark://HOST:PORT or postgres://HOST/DATABASE.",
        ),
    ] = DUCKDB
    table: Annotated[
        str | None, _option(metavar="NAME", help="Table to read, if the log is a DuckDB file.")
    ] = None
    sql: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Query of the engine whose result is the log: it has our columns, and reads LOGS "
            "as the table log.",
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        _option(
            metavar="ROLE=NAME",
            help="Column of the log for a role: advertiser, time, day, bid, won, price, "
            "min_to_win, floor, auction_type, currency, weight, click, conversion or campaign. "
            "Usual names are recognised.",
        ),
    ] = None
    amounts: Annotated[
        str,
        _option(
            metavar="UNIT",
            help="Unit of amounts: micros, cents or currency, for a thousand impressions; with "
            "/impression for one.",
        ),
    ] = ""
    time_zone: Annotated[
        str, _option(metavar="ZONE", help="Zone of times without one; by default UTC.")
    ] = ""
    currency: Annotated[
        str,
        _option(metavar="CODE", help="Currency of amounts, such as EUR, if no column has it."),
    ] = ""
    auction: Annotated[
        Literal["first", "second"] | None,
        _option(
            help="Auction type; by default that in the log, or else that of the model to update."
        ),
    ] = None

    def __post_init__(self) -> None:
        _ = self.columns  # refuses what is badly written

    @property
    def columns(self) -> dict[str, str]:
        """The columns by role, of texts such as ``bid=bid_price``."""
        values: dict[str, str] = {}
        for text in self.column or ():
            name, equals, value = (part.strip() for part in text.partition("="))
            problem = "" if equals else "write ROLE=NAME"
            if problem or name in values:
                message = f"{text!r}: {problem or f'{name} is given twice'}"
                raise typer.BadParameter(message, param_hint="'--column'")
            values[name] = value
        return values

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``open_logs`` that say the same."""
        given = {name: value for name, value in vars(self).items() if name not in _NOT_OF_LOGS}
        try:
            sql = "" if self.sql is None else self.sql.expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TableError(f"{self.sql}: the query cannot be read: {error}") from error
        return given | {"columns": self.columns, "sql": sql}

    def words(self) -> list[str]:
        """Return the options that say the same."""
        words = []
        for name, value in vars(self).items():
            for one in value if isinstance(value, list) else [value]:
                if one and one != DUCKDB:
                    words += [f"--{name.replace('_', '-')}", str(one)]
        return words


def with_log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a log; it gets them as its parameter ``log_options``."""
    shared = inspect.signature(LogOptions).parameters
    own = dict(inspect.signature(command).parameters)
    del own["log_options"]

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        of_log = {name: values.pop(name) for name in shared}
        command(**values, log_options=LogOptions(**of_log))

    hints = get_type_hints(command, include_extras=True) | get_type_hints(
        LogOptions, include_extras=True
    )
    # Typer calls commands by keywords and reads their options here
    ordered = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name])
        for one in (*own.values(), *shared.values())
    ]
    with_options.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: hints[one.name] for one in ordered}
    return with_options
