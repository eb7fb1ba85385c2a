"""``coterie ads targets``: rank devices, countries and other values for an advertiser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.command_line.ads import subjects
from coterie.command_line.terminal import layout, options
from coterie.runtime.wording import count, money, percent, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table
    from rich.text import Text

    from coterie.ads.decisions.decision_answers import RankedTarget, TargetRanking

__all__ = ["targets"]

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
            "--dimension",
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
            "--by",
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

    subjects.check_output(output, model, as_json)
    forecaster = subjects.load_quietly(model, quiet)
    found = rank_targets(
        forecaster,
        advertiser,
        bid,
        dimension=dimension or None,
        by=by,
        supply=supply,
        day=day,
        days=days,
        text=text,
        level=int(level) / 100,
    )
    subjects.print_decision(
        found, lambda: _print_ranking(found), _columns, model, output, as_json, quiet
    )


def _columns(found: TargetRanking) -> dict[str, Any]:
    """Return the targets as columns of a table, with two columns for each interval."""
    from dataclasses import asdict
    from math import nan

    import numpy as np

    columns: dict[str, list[Any]] = {}
    for row in map(asdict, found.targets):
        for name, value in row.items():
            if name.endswith("_interval"):
                stem = name.removesuffix("_interval")
                for end, number in zip(("low", "high"), value or (nan, nan), strict=True):
                    columns.setdefault(f"{stem}_{end}", []).append(number)
            else:
                columns.setdefault(name, []).append(nan if value is None else value)
    return {name: np.array(values) for name, values in columns.items()}


def _print_ranking(found: TargetRanking) -> None:
    console = layout.stdout_console()
    name = found.advertiser or "a new advertiser"
    during = f" in {found.days} days" if found.days > 1 else ""
    at = f" at a bid of {found.bid:.4g} {found.currency}".rstrip()
    rest = f"{at}, {count(found.supply)} auctions{during}, by {found.by.replace('_', ' ')}"
    layout.print_heading(console, name, rest)
    names = dict.fromkeys(row.dimension for row in found.targets)
    for dimension in names:
        rows = [row for row in found.targets if row.dimension == dimension]
        layout.print_indented(console, _table(dimension, rows, found))
        if len(rows) > _MOST_ROWS:
            console.print(f"… and {len(rows) - _MOST_ROWS} more; --json and -o give all.")
    console.print(
        f"Intervals have a probability of {found.level:.0%}; those of costs are of the expected "
        "cost."
    )
    why = layout.one_line(found.why)
    console.print(f"{why[:1].upper()}{why[1:]}.")


def _table(dimension: str, rows: list[RankedTarget], found: TargetRanking) -> Table:
    """Return the best values of one dimension; the ranked figure has its interval below it."""
    unit = f" ({found.currency})" if found.currency else ""
    shown: dict[str, tuple[str, Callable[[float], str]]] = {
        "impressions": ("impressions", count),
        "spend": (f"spend{unit}", _money),
        "clicks": ("clicks", count),
        "conversions": ("conversions", count),
        "cost": (f"eCPM{unit}", _money),
        "cost_per_click": (f"CPC{unit}", _money),
        "cost_per_conversion": (f"CPA{unit}", _money),
    }
    hidden = {"cost", "cost_per_conversion", "conversions"}
    if rows[0].clicks is None:
        hidden = {"clicks", "cost_per_click", "conversions", "cost_per_conversion"}
    elif found.by in hidden:
        hidden.add("cost_per_click")  # to fit in the width of a terminal
    kept = [name for name in shown if name not in hidden or name == found.by]
    table = layout.figures_table(
        [dimension], ["auctions", *(shown[name][0] for name in kept), "own", "best"]
    )
    for row in rows[:_MOST_ROWS]:
        figures = [_cell(row, name, shown[name][1], name == found.by) for name in kept]
        best = "–" if row.chance_best is None else f"{row.chance_best:.0%}"
        table.add_row(
            layout.one_line(row.value), percent(row.share), *figures, f"{row.own_weight:.0%}", best
        )
    return table


def _cell(row: RankedTarget, name: str, written: Callable[[float], str], with_span: bool) -> Text:
    from rich.text import Text

    value, ends = getattr(row, name), getattr(row, f"{name}_interval")
    if value is None:
        return Text("–")
    if not with_span or ends is None:
        return Text(written(value))
    return Text.assemble(written(value), "\n", (span(ends, written), "dim"))


def _money(value: float) -> str:
    return money(value, "")
