"""``coterie ads budget``: the bid that uses a budget, what it buys, and when it runs out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.command_line.ads import subjects
from coterie.command_line.terminal import layout, options
from coterie.runtime.wording import count, money, percent, span

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.ads.decisions.decision_answers import BudgetPlan

__all__ = ["budget"]


def budget(
    model: subjects.Model,
    amount: Annotated[
        float,
        typer.Option("--budget", metavar="AMOUNT", help="Money for all days together."),
    ],
    bid: Annotated[
        float | None,
        typer.Option(
            "--bid",
            metavar="BID",
            help="Bid per thousand impressions (CPM); by default the one that uses the budget.",
        ),
    ] = None,
    advertiser: subjects.Advertiser = None,
    supply: subjects.Supply = None,
    day: subjects.Day = None,
    days: subjects.Days = 7,
    level: subjects.Level = "90",
    text: subjects.Text = None,
    output: subjects.Output = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the bid that uses a budget, and what it buys.

    The bid is the one whose expected spend is the budget. At another bid, see
    how long the money lasts and what it buys until then. Intervals come from
    draws of what may happen on each day.

    Example: coterie ads budget market.coterie --advertiser adv-00033 --budget 20 --days 7
    """
    from coterie.ads.decisions.budgets import plan_budget

    subjects.check_output(output, model, as_json)
    forecaster = subjects.load_quietly(model, quiet)
    found = plan_budget(
        forecaster,
        advertiser,
        amount,
        bid=bid,
        supply=supply,
        day=day,
        days=days,
        text=text,
        level=int(level) / 100,
    )
    subjects.print_decision(
        found,
        lambda: _print_plan(found, forecaster.currency_),
        _columns,
        model,
        output,
        as_json,
        quiet,
    )


def _print_plan(found: BudgetPlan, currency: str) -> None:
    console = layout.stdout_console()
    name = found.unlimited.advertiser or "a new advertiser"
    during = f" in {found.days} days" if found.days > 1 else ""
    unit = f" {currency}" if currency else ""
    rest = f": {_money(found.budget)}{unit}{during} at a bid of {found.bid:.4g}{unit}"
    layout.print_heading(console, name, rest)
    layout.print_indented(console, _bought(found, unit))
    if found.using_bid is None:
        why = layout.one_line(found.why)
        console.print(f"{why[:1].upper()}{why[1:]}.")
    elif found.using_bid != found.bid:
        console.print(f"The bid that uses the budget is {found.using_bid:.4g}{unit}.")
    if found.days > 1:
        layout.print_indented(console, _day_table(found))
    counts = (found.impressions_interval, found.clicks_interval, found.conversions_interval)
    layout.print_level(console, found.level, counts)
    why = layout.one_line(found.unlimited.why)
    console.print(f"{why[:1].upper()}{why[1:]}.")


def _bought(found: BudgetPlan, unit: str) -> Table:
    """Return what the money buys, and how long it lasts."""
    facts = {
        f"spend ({unit.strip()})" if unit else "spend": _told(
            found.spend, found.spend_interval, _money
        ),
        "impressions": _told(found.impressions, found.impressions_interval, count),
        "clicks": _told(found.clicks, found.clicks_interval, count),
        "conversions": _told(found.conversions, found.conversions_interval, count),
        "the money lasts": f"with a probability of {percent(found.lasts)}",
        "otherwise for": _told(found.days_until_empty, found.days_until_empty_interval, _days),
        "marginal eCPM": None if found.marginal_cost is None else _money(found.marginal_cost),
    }
    return layout.facts_grid(facts)


def _day_table(found: BudgetPlan) -> Table:
    table = layout.figures_table(["day"], ["auctions", "impressions", "spend", "spent until then"])
    for one in found.by_day:
        table.add_row(
            one.day,
            count(one.auctions),
            count(one.impressions),
            _money(one.spend),
            f"{_money(one.spent)}  {span(one.spent_interval, _money)}",
        )
    return table


def _columns(found: BudgetPlan) -> dict[str, Any]:
    """Return the days as columns of a table."""
    import numpy as np

    columns: dict[str, Any] = {
        name: np.array([getattr(one, name) for one in found.by_day])
        for name in ("day", "auctions", "impressions", "spend", "spent")
    }
    columns["spent_low"], columns["spent_high"] = np.array(
        [one.spent_interval for one in found.by_day]
    ).T
    return columns


def _told(mean: float | None, interval: Any, written: Any) -> str | None:
    if mean is None or interval is None:
        return None
    return f"{written(mean)}   {span(interval, written)}"


def _money(value: float) -> str:
    return money(value, "")


def _days(value: float) -> str:
    return f"{value:.1f} days"
