"""``coterie ads budget``: the bid that uses a budget, what it buys, and when it runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.ads.inputs import subjects
from coterie.runtime.wording import format_count, format_span, money, percent

if TYPE_CHECKING:
    from coterie.ads.decisions.decision_answers import BudgetPlan


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
    simulated outcomes of each day.

    Example: coterie ads budget market.coterie --advertiser adv-00033 --budget 20 --days 7
    """
    from coterie.ads.decisions.budgets import plan_budget

    asked = subjects.question(
        level, advertiser=advertiser, supply=supply, day=day, days=days, text=text
    )
    subjects.answer(
        model,
        lambda forecaster: plan_budget(forecaster, budget=amount, bid=bid, **asked),
        _print_plan,
        lambda plan: plan.by_day,
        output,
        as_json,
        quiet,
    )


def _print_plan(plan: BudgetPlan) -> None:
    console, currency = layout.stdout_console(), plan.unlimited.currency
    name = plan.unlimited.advertiser or "a new advertiser"
    during = f" in {plan.days} days" if plan.days > 1 else ""
    unit = f" {currency}" if currency else ""
    rest = f": {money(plan.budget)}{unit}{during} at a bid of {plan.bid:.4g}{unit}"
    if plan.using_bid is None:
        layout.print_heading(console, layout.sentence(plan.why), "", "bold red")
    layout.print_heading(console, name, rest)
    counts = (plan.impressions_interval, plan.clicks_interval, plan.conversions_interval)
    facts = {
        f"spend ({currency})" if currency else "spend": _with_span(
            plan.spend, plan.spend_interval, money
        ),
        "impressions": _with_span(plan.impressions, plan.impressions_interval, format_count),
        "clicks": _with_span(plan.clicks, plan.clicks_interval, format_count),
        "conversions": _with_span(plan.conversions, plan.conversions_interval, format_count),
        "the money lasts": None
        if plan.using_bid is None
        else f"with a probability of {percent(plan.lasts)}",
        "otherwise for": _with_span(
            plan.days_until_empty, plan.days_until_empty_interval, lambda days: f"{days:.1f} days"
        ),
        "marginal eCPM": None if plan.marginal_cost is None else money(plan.marginal_cost),
    }
    layout.print_indented(console, layout.facts_grid(facts))
    if plan.using_bid not in (None, plan.bid):
        console.print(f"The bid that uses the budget is {plan.using_bid:.4g}{unit}.")
    if plan.days > 1:
        headings = ["auctions", "impressions", "spend", "spent until then"]
        table = layout.figures_table(["day"], headings)
        for one in plan.by_day:
            table.add_row(
                one.day,
                format_count(one.auctions),
                format_count(one.impressions),
                money(one.spend),
                f"{money(one.spent)}  {format_span(one.spent_interval, money)}",
            )
        layout.print_indented(console, table)
    layout.print_level(console, plan.level, counts)
    console.print(layout.sentence(plan.unlimited.why))


def _with_span(mean: float | None, interval: Any, written: Callable[[float], str]) -> str | None:
    if mean is None or interval is None:
        return None
    return f"{written(mean)}   {format_span(interval, written)}"
