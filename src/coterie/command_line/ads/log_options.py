"""Options that say what the columns of a log mean, shared by all commands that read one."""

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

__all__ = ["LogOptions", "with_log_options"]

_PANEL = "The format of the log"


@dataclass(frozen=True)
class LogOptions:
    """What the options say about a log."""

    mapping: LogMapping | None = None
    wins: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    mapping_file: Path | None = None  # from which some of the mapping was read

    def words(self) -> list[str]:
        """Return the options that say the same, without a mapping file."""
        notices = [("--wins", path) for path in self.wins]
        notices += [("--losses", path) for path in self.losses]
        said = [] if self.mapping is None else self.mapping.options()
        return [*said, *(word for pair in notices for word in pair)]


def with_log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a log; it gets them as its parameter ``how``."""
    shared = inspect.signature(_log_options).parameters
    own = inspect.signature(command).parameters

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        said = {name: given.pop(name) for name in shared}
        command(**given, how=_log_options(**said))

    hints = get_type_hints(command, include_extras=True) | get_type_hints(
        _log_options, include_extras=True
    )
    parameters = [*(one for one in own.values() if one.name != "how"), *shared.values()]
    # Typer calls commands by keywords and reads their options here
    ordered = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name])
        for one in parameters
    ]
    with_options.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: hints[one.name] for one in ordered}
    return with_options


def _option(*names: str, **how: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_PANEL, **how)


def _log_options(
    mapping: Annotated[
        Path | None,
        _option(
            "--mapping",
            metavar="FILE",
            help="Mapping file with what the options below say; coterie ads check "
            "--write-mapping writes one. Options come first.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        _option(
            "--column",
            metavar="ROLE=NAME",
            help="Column of the log for a role: advertiser, time, day, bid, won, price, "
            "min_to_win, floor, auction_type, currency, weight, click, conversion or campaign. "
            "Usual names are recognised.",
        ),
    ] = None,
    amounts: Annotated[
        list[str] | None,
        _option(
            "--amounts",
            metavar="[ROLE=]UNIT",
            help="Unit of amounts: micros, cents or currency, for a thousand impressions; with "
            "/impression for one.",
        ),
    ] = None,
    time_zone: Annotated[
        str,
        _option("--time-zone", metavar="ZONE", help="Zone of times without one; by default UTC."),
    ] = "",
    day_zone: Annotated[
        str,
        _option(
            "--day-zone", metavar="ZONE", help="Zone in which days begin and end; by default UTC."
        ),
    ] = "",
    date_format: Annotated[
        Literal["day-first", "month-first"] | None,
        _option("--date-format", help="Order of dates that end with the year."),
    ] = None,
    currency: Annotated[
        str,
        _option(
            "--currency",
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
        _option("--wins", metavar="FILE", help="Win notices to join to the bids."),
    ] = None,
    losses: Annotated[
        list[str] | None,
        _option("--losses", metavar="FILE", help="Loss notices to join to the bids."),
    ] = None,
    join_on: Annotated[
        str,
        _option(
            "--join-on",
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

    said = LogMapping(
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
    complete = mapping_of(mapping).updated(said)
    return LogOptions(complete, tuple(wins or ()), tuple(losses or ()), mapping)


def _pairs(texts: Sequence[str], option: str, otherwise: str = "") -> dict[str, str]:
    """Return the values by name in texts such as ``bid=bid_price``."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals and otherwise:
            name, value = otherwise, text
        elif not equals:
            raise typer.BadParameter(f"{text!r}: write ROLE=NAME", param_hint=f"'{option}'")
        if name.strip() in found:
            raise typer.BadParameter(f"{name.strip()} is given twice", param_hint=f"'{option}'")
        found[name.strip()] = value.strip()
    return found
