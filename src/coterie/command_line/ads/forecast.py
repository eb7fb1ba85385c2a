"""``coterie ads forecast``: impressions, spend, clicks and conversions at given bids."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.command_line.terminal import layout, options
from coterie.command_line.terminal.progress import shown_notes
from coterie.command_line.terminal.streams import (
    check_table,
    is_stream,
    output_name,
    refuse_json,
    write_output,
)
from coterie.errors import InvalidParameterError, OutputError
from coterie.runtime.wording import count, money, percent

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from coterie.ads.forecasts.forecast_figures import Forecast
    from coterie.ads.forecasts.forecaster import AdForecaster

__all__ = ["bids_in", "forecast", "print_forecasts"]

_MOST_BIDS = 10_000


def forecast(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file from coterie ads segment.")
    ],
    bid: Annotated[
        str,
        typer.Option(
            "--bid",
            metavar="BID",
            help="Bid per thousand impressions (CPM), for example 2.50; several bids as 2,2.5,3; a "
            "range as 1:5:0.5 (from, to, step).",
        ),
    ],
    advertiser: Annotated[
        str | None, typer.Option("--advertiser", metavar="ID", help="Advertiser id in the log.")
    ] = None,
    supply: Annotated[
        float | None,
        typer.Option(
            "--supply",
            metavar="N",
            help="Number of auctions of all days together, for example 1e6; by default the number "
            "to expect.",
        ),
    ] = None,
    day: Annotated[
        str | None,
        typer.Option(
            "--day",
            metavar="DATE",
            help="First day to forecast; prices and the number of auctions depend on the day.",
        ),
    ] = None,
    days: Annotated[
        int,
        typer.Option(
            "--days",
            min=1,
            max=366,
            metavar="N",
            help="Number of days to forecast together, from --day or the end of the log on.",
        ),
    ] = 1,
    level: Annotated[
        Literal["50", "80", "90", "95"],
        typer.Option("--level", help="Level of the intervals, in percent."),
    ] = "90",
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Text of a new advertiser.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a table here: .csv, .tsv, .parquet, .npy, or - for standard output.",
        ),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Forecast impressions, spend, clicks and conversions at a bid.

    The forecast is for an average day, or for --days N days together. Each
    interval should contain the actual value with the probability --level. A
    new advertiser, which is not in the log, needs --supply. Its --text places
    it in segments; without a text, it gets the average of all advertisers.
    The last line of the summary says what the forecast is based on.

    Example: coterie ads forecast market.coterie --advertiser adv-00042 --bid 2.50 --supply 1e6
    """
    # Loading a model takes longest, so everything else is checked before.
    bids = bids_in(bid)
    if output is not None:
        refuse_json(as_json, output)
        check_table(output)
        if output.resolve() == model.resolve():
            raise OutputError(f"cannot write the table to {output}: this path is the model")
    from coterie.ads.forecasts.forecaster import load_forecaster

    with shown_notes(quiet):
        forecaster = load_forecaster(model)
    found = forecaster.forecast(
        advertiser, bids, supply=supply, day=day, days=days, text=text, level=int(level) / 100
    )
    if output is not None:
        write_output(output, _columns(found))

    def print_summary(_: dict[str, Any]) -> None:
        print_forecasts(found, forecaster.currency_, days)
        written = [] if output is None else [output_name(output)]
        layout.print_files(layout.stdout_console(), written)

    facts = _answer(forecaster, found, days, model) if as_json else {}
    layout.print_answer(facts, print_summary, as_json, quiet, is_stream(output))


def bids_in(text: str) -> list[float]:
    """Return the bids in ``2.50``, ``2,2.5,3`` or ``1:5:0.5`` (from, to, step); all above 0.

    >>> bids_in("1:2:0.5"), bids_in("2.50"), bids_in("2,3")
    ([1.0, 1.5, 2.0], [2.5], [2.0, 3.0])
    """
    try:
        numbers = [float(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError:
        numbers = []
    bids = _range(numbers) if ":" in text else numbers
    if not bids or not all(0 < bid < math.inf for bid in bids):
        raise InvalidParameterError(
            f"--bid {text}: write a number above 0, several as 2,2.5,3, or a range as 1:5:0.5"
        )
    return bids


def print_forecasts(found: list[Forecast], currency: str, days: int = 1) -> None:
    """Print the forecasts of one advertiser, at one bid or several, for some days together."""
    console = layout.stdout_console()
    first, unit = found[0], f" ({currency})" if currency else ""
    at = f" at a bid of {_bid(first.bid)} {currency}".rstrip() if len(found) == 1 else ""
    name = first.advertiser or "a new advertiser"
    during = f" in {days} days" if days > 1 else ""
    layout.print_heading(console, name, f"{at}, {count(first.supply)} auctions{during}")
    layout.print_indented(console, _block(first, unit) if len(found) == 1 else _table(found, unit))
    console.print(
        f"Intervals: each should contain the actual value with a probability of {first.level:.0%}."
    )
    for grounds in _grounds(found):
        console.print(f"{grounds}.")


def _answer(
    forecaster: AdForecaster, found: list[Forecast], days: int, model: Path
) -> dict[str, Any]:
    """Return what a service with this model file answers."""
    import msgspec

    from coterie.ads.forecasts.forecast_tables import tables_of
    from coterie.ads.protocol import answer_of
    from coterie.ads.service.served_model import file_version

    known = found[0].advertiser in tables_of(forecaster).row_of
    answer = answer_of(found, known=known, days=days, version=file_version(model))
    return msgspec.to_builtins(answer)


def _range(numbers: list[float]) -> list[float]:
    """Return the bids of a range given as from, to and step; empty if it is not a range."""
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        return []
    start, stop, step = numbers
    if step <= 0 or not 0 < start <= stop:
        return []
    from coterie.ads.forecasts.forecast_figures import bids_between

    bids = bids_between(start, stop, step, _MOST_BIDS)
    if not bids:
        raise InvalidParameterError(
            f"--bid {start:g}:{stop:g}:{step:g}: a range may have at most {_MOST_BIDS:,} bids"
        )
    return bids


def _columns(found: list[Forecast]) -> dict[str, Any]:
    """Return the forecasts as columns of a table, with two columns for each interval."""
    import numpy as np

    rows: list[dict[str, Any]] = []
    for one in found:
        row: dict[str, Any] = {}
        for name, value in one.as_dict().items():
            if name == "model_version":  # the model is a file here, without a version
                continue
            if name.endswith("_interval"):
                stem = name.removesuffix("_interval")
                row[f"{stem}_low"], row[f"{stem}_high"] = value or (math.nan, math.nan)
            else:
                row[name] = math.nan if value is None else value
        rows.append(row)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _block(one: Forecast, unit: str) -> Table:
    """Return the forecast at one bid: means and their intervals."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(style="dim", overflow="fold")
    grid.add_row("win rate", percent(one.win_rate))
    grid.add_row("impressions", count(one.impressions), _span(one.impressions_interval, count))
    grid.add_row(f"spend{unit}", _money(one.spend), _span(one.spend_interval, _money))
    grid.add_row(f"eCPM{unit}", _money(one.cost))
    for name, mean, interval in _events(one):
        grid.add_row(name, count(mean), _span(interval, count))
    return grid


def _table(found: list[Forecast], unit: str) -> Table:
    """Return a table with a row per bid; intervals are below the means to save width."""
    events = [name for name, *_ in _events(found[0])]
    headings = ["bid", "win rate", "impressions", f"spend{unit}", f"eCPM{unit}", *events]
    table = layout.figures_table([], headings)
    for one in found:
        cells: list[RenderableType] = [
            _bid(one.bid),
            percent(one.win_rate),
            _with_span(count(one.impressions), _span(one.impressions_interval, count)),
            _with_span(_money(one.spend), _span(one.spend_interval, _money)),
            _money(one.cost),
        ]
        rare = [_with_span(count(mean), _span(ends, count)) for _, mean, ends in _events(one)]
        table.add_row(*cells, *rare)
    return table


def _events(one: Forecast) -> list[tuple[str, float, tuple[float, float]]]:
    """Return name, mean and interval of clicks and conversions, as far as the log has them."""
    events = {
        "clicks": (one.clicks, one.clicks_interval),
        "conversions": (one.conversions, one.conversions_interval),
    }
    return [
        (name, mean, ends)
        for name, (mean, ends) in events.items()
        if mean is not None and ends is not None
    ]


def _grounds(found: list[Forecast]) -> list[str]:
    """Return what the forecasts are based on; with the bids, if it differs between them."""
    bids: dict[str, list[float]] = {}
    for one in found:
        why = layout.one_line(one.why)
        bids.setdefault(why[:1].upper() + why[1:], []).append(one.bid)
    if len(bids) == 1:
        return list(bids)
    return [f"{_from_to(of)}: {why}" for why, of in bids.items()]


def _from_to(bids: list[float]) -> str:
    if len(bids) == 1:
        return f"A bid of {_bid(bids[0])}"
    return f"Bids from {_bid(min(bids))} to {_bid(max(bids))}"


def _with_span(mean: str, span: str) -> Text:
    from rich.text import Text

    return Text.assemble(mean, "\n", (span, "dim"))


def _span(interval: tuple[float, float], written: Callable[[float], str]) -> str:
    return f"{written(interval[0])}–{written(interval[1])}"


def _money(value: float) -> str:
    return money(value, "")


def _bid(value: float) -> str:
    return f"{value:.2f}" if value == round(value, 2) else f"{value:.4g}"
