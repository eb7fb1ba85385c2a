"""``coterie ads portfolio``: divide one budget between several advertisers or campaigns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from coterie.cli import layout, options
from coterie.cli.ads.inputs import subjects
from coterie.errors import TableError
from coterie.runtime.wording import format_count, format_span, money, signed

if TYPE_CHECKING:
    from coterie.ads.decisions.decision_answers import BudgetSplit

_MOST_SHOWN = 20


def portfolio(
    model: subjects.Model,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="AMOUNT",
            help="Money for all days together; by default what these advertisers spent in the log.",
        ),
    ] = None,
    advertisers: Annotated[
        str | None,
        typer.Option(
            metavar="IDS",
            help="Ids as a,b,c, or @FILE with one id per line; by default all in the log.",
        ),
    ] = None,
    segment: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only the advertisers of a segment, by its name or index.",
        ),
    ] = None,
    goal: Annotated[
        Literal["impressions", "clicks", "conversions"],
        typer.Option(help="What they should get the most of, together."),
    ] = "impressions",
    day: subjects.Day = None,
    days: subjects.Days = 7,
    level: subjects.Level = "90",
    output: subjects.Output = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Divide a budget between advertisers by marginal cost.

    Bids are chosen so that all advertisers together get the most impressions,
    clicks or conversions for the money. The gain is over the same budget
    divided as in the log. With a model of campaigns, campaigns are
    named ADVERTISER/CAMPAIGN.

    Example: coterie ads portfolio market.coterie --budget 500 --goal clicks -o bids.csv
    """
    from coterie.ads.decisions.portfolios import split_budget

    names = None if advertisers is None else _names(advertisers)
    part = int(segment) if segment and segment.isdecimal() else segment
    asked = subjects.question(level, advertisers=names, segment=part, goal=goal, day=day, days=days)
    subjects.answer(
        model,
        lambda forecaster: split_budget(forecaster, budget, **asked),
        _print_split,
        lambda split: split.allocations,
        output,
        as_json,
        quiet,
    )


def _names(text: str) -> list[str]:
    if not text.startswith("@"):
        return [name.strip() for name in text.split(",") if name.strip()]
    path = Path(text[1:])
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: the ids cannot be read ({error})") from error
    return [line.strip() for line in lines if line.strip()]


def _print_split(split: BudgetSplit) -> None:
    console = layout.stdout_console()
    unit = f" {split.currency}" if split.currency else ""
    if split.why and split.marginal_cost is None:
        layout.print_heading(console, layout.sentence(split.why), "", "bold red")
    number = layout.counted(len(split.allocations), "advertiser")
    layout.print_heading(
        console, number, f": {money(split.budget)}{unit} in {layout.counted(split.days, 'day')}"
    )
    per = {"impressions": "thousand impressions", "clicks": "click", "conversions": "conversion"}
    interval = format_span(split.amount_interval, format_count)
    facts = {
        split.goal: f"{format_count(split.amount)}   {interval}",
        "if divided as in the log": format_count(split.log_amount),
        "gain": None if split.gain is None else signed(split.gain),
        "spend": f"{money(split.spend)}{unit}",
        f"a further {per[split.goal]}": "none: higher bids buy hardly any"
        if split.marginal_cost is None
        else f"{money(split.marginal_cost)}{unit}",
    }
    layout.print_indented(console, layout.facts_grid(facts))
    table = layout.figures_table(
        ["advertiser"], ["bid", "mean in log", "spend", "as in log", split.goal, "as in log"]
    )
    for one in split.allocations[:_MOST_SHOWN]:
        table.add_row(
            layout.one_line(one.advertiser),
            "–" if one.bid is None else f"{one.bid:.4g}",
            f"{one.mean_bid:.4g}",
            money(one.spend),
            money(one.log_spend),
            format_count(one.amount),
            format_count(one.log_amount),
        )
    layout.print_indented(console, table)
    more = len(split.allocations) - _MOST_SHOWN
    if more > 0:
        console.print(f"… and {more:,} more; -o FILE writes all of them.")
    if split.why and split.marginal_cost is not None:
        console.print(layout.sentence(split.why))
    console.print(
        f"The interval should contain the actual total with a probability of {split.level:.0%}."
    )
