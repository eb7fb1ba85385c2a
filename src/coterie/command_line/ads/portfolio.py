"""``coterie ads portfolio``: divide one budget between several advertisers or campaigns."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.command_line.ads import subjects
from coterie.command_line.terminal import layout, options
from coterie.errors import TableError
from coterie.runtime.wording import count, count_range, money, signed

if TYPE_CHECKING:
    from coterie.ads.decisions.decision_answers import BudgetSplit

__all__ = ["portfolio"]

_MOST_SHOWN = 20


def portfolio(
    model: subjects.Model,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="AMOUNT",
            help="Money for all days together; by default what these advertisers spent in the log.",
        ),
    ] = None,
    advertisers: Annotated[
        str | None,
        typer.Option(
            "--advertisers",
            metavar="IDS",
            help="Ids as a,b,c, or @FILE with one a line; by default all of the log.",
        ),
    ] = None,
    segment: Annotated[
        str | None,
        typer.Option(
            "--segment",
            metavar="NAME",
            help="Only the advertisers of a segment, by its name or index.",
        ),
    ] = None,
    goal: Annotated[
        Literal["impressions", "clicks", "conversions"],
        typer.Option("--goal", help="What they should get most of, together."),
    ] = "impressions",
    day: subjects.Day = None,
    days: subjects.Days = 7,
    level: subjects.Level = "90",
    output: subjects.Output = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Divide a budget between advertisers by marginal cost.

    Bids are chosen so that all advertisers together get most impressions,
    clicks or conversions for the money. The gain is over a division of the
    same budget as in the log. With a model of campaigns, campaigns are
    named ADVERTISER/CAMPAIGN.

    Example: coterie ads portfolio market.coterie --budget 500 --goal clicks -o bids.csv
    """
    from coterie.ads.decisions.portfolios import split_budget

    names = None if advertisers is None else _names(advertisers)
    subjects.check_output(output, model, as_json)
    forecaster = subjects.load_quietly(model, quiet)
    found = split_budget(
        forecaster,
        budget,
        names,
        goal=goal,
        segment=int(segment) if segment and segment.isdecimal() else segment,
        day=day,
        days=days,
        level=int(level) / 100,
    )
    subjects.print_decision(
        found, lambda: _print_split(found), _columns, model, output, as_json, quiet
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


def _print_split(found: BudgetSplit) -> None:
    console = layout.stdout_console()
    unit = f" {found.currency}" if found.currency else ""
    number = layout.counted(len(found.allocations), "advertiser")
    layout.print_heading(
        console, number, f": {money(found.budget, '')}{unit} in {layout.counted(found.days, 'day')}"
    )
    per = {"impressions": "thousand impressions", "clicks": "click", "conversions": "conversion"}
    facts = {
        found.goal: f"{count(found.amount)}   {count_range(*found.amount_interval)}",
        "if divided as in the log": count(found.log_amount),
        "gain": None if found.gain is None else signed(found.gain),
        "spend": f"{money(found.spend, '')}{unit}",
        f"a further {per[found.goal]}": None
        if found.marginal_cost is None
        else f"{money(found.marginal_cost, '')}{unit}",
    }
    layout.print_indented(console, layout.facts_grid(facts))
    table = layout.figures_table(
        ["advertiser"], ["bid", "mean in log", "spend", "in log", found.goal, "in log"]
    )
    for one in found.allocations[:_MOST_SHOWN]:
        table.add_row(
            layout.one_line(one.advertiser),
            "–" if one.bid is None else f"{one.bid:.4g}",
            f"{one.mean_bid:.4g}",
            money(one.spend, ""),
            money(one.log_spend, ""),
            count(one.amount),
            count(one.log_amount),
        )
    layout.print_indented(console, table)
    more = len(found.allocations) - _MOST_SHOWN
    if more > 0:
        console.print(f"… and {more:,} more; -o FILE writes all of them.")
    console.print(
        f"The interval should contain the actual total with a probability of {found.level:.0%}."
    )


def _columns(found: BudgetSplit) -> dict[str, Any]:
    """Return the allocations as columns of a table."""
    import numpy as np

    rows = [asdict(one) for one in found.allocations]
    missing = float("nan")
    return {
        name: np.array([missing if row[name] is None else row[name] for row in rows])
        for name in rows[0]
    }
