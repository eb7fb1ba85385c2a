"""``coterie ads targets``: rank devices, countries and other values for an advertiser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from coterie.cli import layout, options
from coterie.cli.ads.inputs import subjects
from coterie.runtime.wording import format_count, format_span, money, percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table
    from rich.text import Text

    from coterie.ads.decisions.decision_answers import RankedTarget, TargetRanking

_MOST_ROWS = 20


def targets(
    model: subjects.Model,
    bid: Annotated[
        float | None,
        typer.Option(
            "--bid",
            metavar="BID",
            help="Bid per thousand impressions (CPM); by default the advertiser's mean bid.",
        ),
    ] = None,
    dimension: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Dimension to rank, such as device; repeat for several; by default all.",
        ),
    ] = None,
    by: Annotated[
        Literal[
            "impressions", "clicks", "conversions", "cost", "cost_per_click", "cost_per_conversion"
        ]
        | None,
        typer.Option(
            help="Numbers rank the largest first, costs the smallest; by default clicks, or "
            "impressions if the log has no clicks.",
        ),
    ] = None,
    advertiser: subjects.Advertiser = None,
    supply: subjects.Supply = None,
    day: subjects.Day = None,
    days: subjects.Days = 1,
    level: subjects.Level = "90",
    text: subjects.Text = None,
    output: subjects.Output = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Rank the values of dimensions, such as devices and countries, at a bid.

    The model must have been made with --dimension. The figures of a value
    combine the advertiser's own auctions with those of its segment. "own" is
    the weight of its own evidence, and "best" the probability that the value
    is the best of its dimension. A new advertiser needs --text, --supply and
    --bid.

    Example: coterie ads targets market.coterie --advertiser adv-00033 --by cost_per_click
    """
    from coterie.ads.decisions.target_ranking import rank_targets

    asked = subjects.question(
        level, advertiser=advertiser, supply=supply, day=day, days=days, text=text
    )
    values = dimension or None
    subjects.answer(
        model,
        lambda forecaster: rank_targets(forecaster, bid=bid, dimension=values, by=by, **asked),
        _print_ranking,
        lambda ranking: ranking.targets,
        output,
        as_json,
        quiet,
    )


def _print_ranking(ranking: TargetRanking) -> None:
    console = layout.stdout_console()
    name = ranking.advertiser or "a new advertiser"
    during = f" in {ranking.days} days" if ranking.days > 1 else ""
    at = f" at a bid of {ranking.bid:.4g} {ranking.currency}".rstrip()
    rest = (
        f"{at}, {format_count(ranking.supply)} auctions{during}, by {ranking.by.replace('_', ' ')}"
    )
    layout.print_heading(console, name, rest)
    names = dict.fromkeys(row.dimension for row in ranking.targets)
    for dimension in names:
        rows = [row for row in ranking.targets if row.dimension == dimension]
        layout.print_indented(console, _table(dimension, rows, ranking))
        if len(rows) > _MOST_ROWS:
            console.print(f"… and {len(rows) - _MOST_ROWS} more; --json and -o show all.")
    of_cost = " of the expected cost" if ranking.by.startswith("cost") else ""
    console.print(
        f"Below the ranked figure: its {ranking.level:.0%} interval{of_cost}. own: the weight of "
        "the advertiser's own record. best: the probability that no other value is better."
    )
    if "hour" in names:
        console.print("Hours that come from time stamps are in UTC.")
    console.print(layout.sentence(ranking.why))


def _table(dimension: str, rows: list[RankedTarget], ranking: TargetRanking) -> Table:
    """Return the best values of one dimension; the ranked figure has its interval below it."""
    unit = f" ({ranking.currency})" if ranking.currency else ""
    shown: dict[str, tuple[str, Callable[[float], str]]] = {
        "impressions": ("impressions", format_count),
        "spend": (f"spend{unit}", money),
        "clicks": ("clicks", format_count),
        "conversions": ("conversions", format_count),
        "cost": (f"eCPM{unit}", money),
        "cost_per_click": (f"CPC{unit}", money),
        "cost_per_conversion": (f"CPA{unit}", money),
    }
    hidden = {"cost", "cost_per_conversion", "conversions"}
    if rows[0].clicks is None:
        hidden = {"clicks", "cost_per_click", "conversions", "cost_per_conversion"}
    elif ranking.by in hidden:
        hidden.add("cost_per_click")  # to fit in the width of a terminal
    figures = [name for name in shown if name not in hidden or name == ranking.by]
    table = layout.figures_table(
        [dimension], ["auctions", *(shown[name][0] for name in figures), "own", "best"]
    )
    for row in rows[:_MOST_ROWS]:
        cells = [_cell(row, name, shown[name][1], name == ranking.by) for name in figures]
        best = "–" if row.chance_best is None else f"{row.chance_best:.0%}"
        table.add_row(
            layout.one_line(row.value), percent(row.share), *cells, f"{row.own_weight:.0%}", best
        )
    return table


def _cell(row: RankedTarget, name: str, written: Callable[[float], str], with_span: bool) -> Text:
    from rich.text import Text

    value, ends = getattr(row, name), getattr(row, f"{name}_interval")
    if value is None:
        return Text("–")
    if not with_span or ends is None:
        return Text(written(value))
    return Text.assemble(written(value), "\n", (format_span(ends, written), "dim"))
