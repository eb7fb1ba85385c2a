"""``coterie ads forecast``: impressions, spend, clicks and conversions at given bids."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.ads.inputs import subjects
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import format_count, format_span, money, percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from coterie.ads.decisions.decision_answers import GoalBid
    from coterie.ads.fitting.forecaster import AdForecaster
    from coterie.ads.forecasts.forecast_figures import Forecast

_MOST_BIDS = 10_000
#: Where a comma separates decimals, 2,50 is one bid; elsewhere it is two.
_DECIMAL_COMMA = re.compile(r"\d+,\d\d")


def forecast(
    model: subjects.Model,
    bid: Annotated[
        list[str] | None,
        typer.Option(
            "--bid",
            metavar="BID",
            help="Bid per thousand impressions (CPM), for example 2.50; several bids as 2,2.5,3; a "
            "range as 1:5:0.5 (from, to, step). Repeatable.",
        ),
    ] = None,
    impressions: Annotated[
        float | None, typer.Option(metavar="N", help="Find the bid for this many impressions.")
    ] = None,
    clicks: Annotated[
        float | None, typer.Option(metavar="N", help="Find the bid for this many clicks.")
    ] = None,
    conversions: Annotated[
        float | None, typer.Option(metavar="N", help="Find the bid for this many conversions.")
    ] = None,
    spend: Annotated[
        float | None, typer.Option(metavar="AMOUNT", help="Find the bid that spends this much.")
    ] = None,
    advertiser: subjects.Advertiser = None,
    supply: subjects.Supply = None,
    day: subjects.Day = None,
    days: subjects.Days = 1,
    level: subjects.Level = "90",
    text: subjects.Text = None,
    where: subjects.Where = None,
    output: subjects.Output = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Forecast at a bid, or find the bid for a goal.

    With --bid, forecast impressions, spend, clicks and conversions at that
    bid. With --impressions, --clicks, --conversions or --spend, find the
    lowest bid that is expected to reach the amount, or say why none does. If
    the amount is reached only on average, or not at all, the first line says it.

    The forecast is for an average day, or for --days N days together. Each
    interval should contain the actual value with the probability --level. A
    new advertiser, which is not in the log, needs --supply. Its --text places
    it in segments; without a text, it gets the average of all advertisers.
    With --where, only auctions with some values of the model's dimensions are
    forecast. The last line of the summary says what the forecast is based on.

    Example: coterie ads forecast market.coterie --advertiser adv-00033 --bid 2.50 --supply 1e6
    """
    # Loading a model takes longest, so everything else is checked before.
    amounts = {"impressions": impressions, "clicks": clicks}
    amounts |= {"conversions": conversions, "spend": spend}
    goal = {name: amount for name, amount in amounts.items() if amount is not None}
    if bool(bid) + len(goal) != 1:
        raise InvalidParameterError(
            "give one of --bid, --impressions, --clicks, --conversions and --spend"
        )
    bids = [amount for text in bid or () for amount in bids_in(text)]
    values = subjects.values_in(where)
    subjects.check_output(output, model, as_json)
    forecaster = subjects.load_quietly(model, quiet)
    question: dict[str, Any] = {"supply": supply, "day": day, "days": days, "text": text}
    question |= {"level": int(level) / 100, "where": values}
    if goal:
        from coterie.ads.decisions.goals import bid_for

        goal_bid = bid_for(forecaster, advertiser, **goal, **question)
        forecasts = [goal_bid.forecast]
    else:
        goal_bid, forecasts = None, forecaster.forecast(advertiser, bids, **question)

    def print_summary() -> None:
        if goal_bid is not None:
            _print_goal(goal_bid)
        print_forecasts(forecasts, forecaster.currency_, days)

    def facts() -> dict[str, Any]:
        if goal_bid is not None:
            return subjects.answer_facts(goal_bid, model)
        return _answer(forecaster, forecasts, days, model)

    subjects.write_and_print(
        print_summary, facts, lambda: _columns(forecasts), output, as_json, quiet
    )


def bids_in(text: str) -> list[float]:
    """Return the bids in ``2.50``, ``2,2.5,3`` or ``1:5:0.5`` (from, to, step); all above 0."""
    if _DECIMAL_COMMA.fullmatch(text):
        first, last = text.split(",")
        raise InvalidParameterError(
            f"--bid {text}: write {first}.{last} for one bid, or --bid {first} --bid {last} for two"
        )
    is_range = ":" in text
    try:
        numbers = [float(part) for part in text.split(":" if is_range else ",")]
    except ValueError:
        numbers = []
    good = bool(numbers) and all(0 < number < math.inf for number in numbers)
    if not good or (is_range and (len(numbers) != 3 or numbers[0] > numbers[1])):
        raise InvalidParameterError(
            f"--bid {text}: write a number above 0, several as 2,2.5,3, or a range as 1:5:0.5"
        )
    if not is_range:
        return numbers
    from coterie.ads.forecasts.forecast_figures import bids_between

    start, stop, step = numbers
    bids = bids_between(start, stop, step, _MOST_BIDS)
    if not bids:
        raise InvalidParameterError(
            f"--bid {start:g}:{stop:g}:{step:g}: a range may have at most {_MOST_BIDS:,} bids"
        )
    return bids


def print_forecasts(forecasts: list[Forecast], currency: str, days: int = 1) -> None:
    """Print the forecasts of one advertiser, at one bid or several, for some days together."""
    console = layout.stdout_console()
    first, unit = forecasts[0], f" ({currency})" if currency else ""
    at = f" at a bid of {_bid(first.bid)} {currency}".rstrip() if len(forecasts) == 1 else ""
    name = first.advertiser or "a new advertiser"
    during = f" in {days} days" if days > 1 else ""
    layout.print_heading(console, name, f"{at}, {format_count(first.supply)} auctions{during}")
    layout.print_indented(console, _figures(console, forecasts, unit))
    counts = [
        ends
        for one in forecasts
        for ends in (one.impressions_interval, one.clicks_interval, one.conversions_interval)
    ]
    layout.print_level(console, first.level, counts)
    for grounds in _grounds(forecasts):
        console.print(grounds)


def _print_goal(goal_bid: GoalBid) -> None:
    """Print the bid for a goal; first of all that no bid is safe, or that none reaches the goal."""
    console = layout.stdout_console()

    def with_currency(amount: str) -> str:
        return f"{amount} {goal_bid.forecast.currency}".rstrip()

    if goal_bid.goal == "spend":
        goal = f"{with_currency(money(goal_bid.amount))} of spend"
    else:
        goal = f"{format_count(goal_bid.amount)} {goal_bid.goal}"
    if goal_bid.bid is None:
        layout.print_heading(console, "The goal cannot be reached.", "", "bold red")
        console.print(f"{layout.sentence(goal_bid.why)} The forecast at the highest bid:\n")
        return
    if goal_bid.safe_bid is None:
        only = f" {goal} can be reached only on average."
        layout.print_heading(console, "No bid is safe:", only, "bold yellow")
    layout.print_heading(console, with_currency(_bid(goal_bid.bid)), f" is the bid for {goal}.")
    if goal_bid.marginal_cost is not None:
        cost = with_currency(money(goal_bid.marginal_cost))
        console.print(f"At this bid, a further thousand impressions cost {cost}.")
    sure = f"{50 * (1 + goal_bid.forecast.level):.3g}%"
    if goal_bid.safe_bid is None:
        console.print(
            "About half of the time the result is lower. Even at the highest bid in the log, the "
            f"probability of reaching the goal is below {sure}."
        )
    else:
        bid = with_currency(_bid(goal_bid.safe_bid))
        console.print(f"At {bid} or more, {goal_bid.safe_why}.")
    console.print()


def _answer(
    forecaster: AdForecaster, forecasts: list[Forecast], days: int, model: Path
) -> dict[str, Any]:
    """Return what a service with this model file answers."""
    import msgspec

    from coterie.ads.forecasts.forecast_tables import tables_of
    from coterie.ads.protocol import answer_of
    from coterie.ads.service.served_model import file_version

    known = forecasts[0].advertiser in tables_of(forecaster).row_of
    answer = answer_of(forecasts, known=known, days=days, version=file_version(model))
    return msgspec.to_builtins(answer)


def _columns(forecasts: list[Forecast]) -> dict[str, Any]:
    columns = subjects.columns_of(forecasts)
    del columns["model_version"]  # the model is a file here, without a version
    return columns


def _figures(console: Console, forecasts: list[Forecast], unit: str) -> Table:
    """Return a table with a row per bid if it fits in the terminal, otherwise a block per bid."""
    # the dash between the ends of an interval may end a line
    for dash in ("–", "–\n") if len(forecasts) > 1 else ():
        table = _table(forecasts, unit, dash)
        if layout.fits(console, table):
            return table
    return _blocks(forecasts, unit)


def _cells(one: Forecast, unit: str) -> Iterator[tuple[str, str, str]]:
    """Yield heading, mean and interval of what a forecast has; no clicks if the log has none."""
    yield "win rate", percent(one.win_rate), ""
    for name, mean, interval in (
        ("impressions", one.impressions, one.impressions_interval),
        ("spend", one.spend, one.spend_interval),
        ("clicks", one.clicks, one.clicks_interval),
        ("conversions", one.conversions, one.conversions_interval),
    ):
        if mean is None or interval is None:
            continue
        if name == "spend":
            yield f"spend{unit}", money(mean), format_span(interval, money)
            yield f"eCPM{unit}", money(one.cost), ""
        else:
            yield name, format_count(mean), format_span(interval, format_count)


def _blocks(forecasts: list[Forecast], unit: str) -> Table:
    """Return means and their intervals, one below the other; with the bid if there are several."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(style="dim", no_wrap=True)
    for one in forecasts:
        if one is not forecasts[0]:
            grid.add_row()
        if len(forecasts) > 1:
            grid.add_row(f"bid{unit}", _bid(one.bid))
        for cells in _cells(one, unit):
            grid.add_row(*cells)
    return grid


def _table(forecasts: list[Forecast], unit: str, dash: str) -> Table:
    """Return a table with a row per bid; intervals are below the means to save width."""
    from rich.text import Text

    table = layout.figures_table([], ["bid", *(name for name, *_ in _cells(forecasts[0], unit))])
    for one in forecasts:
        cells = [
            Text.assemble(mean, "\n", (ends.replace("–", dash), "dim")) if ends else mean
            for _, mean, ends in _cells(one, unit)
        ]
        table.add_row(_bid(one.bid), *cells)
    return table


def _grounds(forecasts: list[Forecast]) -> list[str]:
    """Return what the forecasts are based on; with the bids, if it differs between them."""
    bids: dict[str, list[float]] = {}
    for one in forecasts:
        bids.setdefault(layout.sentence(one.why), []).append(one.bid)
    if len(bids) == 1:
        return list(bids)
    return [
        f"A bid of {_bid(of[0])}: {grounds}"
        if len(of) == 1
        else f"Bids from {_bid(min(of))} to {_bid(max(of))}: {grounds}"
        for grounds, of in bids.items()
    ]


def _bid(value: float) -> str:
    return f"{value:.2f}" if value == round(value, 2) else f"{value:.4g}"
