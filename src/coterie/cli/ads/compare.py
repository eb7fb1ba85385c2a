"""``coterie ads compare``: what changed between two models or two periods, and is it noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.cli import layout, options
from coterie.cli.ads.inputs import subjects
from coterie.cli.layout import counted
from coterie.cli.progress import progress_unless
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import UNKNOWN, format_count, money, percent, period, signed

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.ads.decisions.comparison import Change, ModelComparison

_SUMS = {
    "advertisers": "advertisers",
    "total_impressions": "impressions per day",
    "new_impressions": "of new advertisers",
    "vanished_impressions": "of vanished advertisers",
}
_MEASURES = {
    "impressions": "impressions per day",
    "supply": "auctions per day",
    "own_supply": "auctions, beyond the market",
    "price_level": "price level",
    "own_price_level": "price level, beyond the market",
    "win_rate": "win rate",
    "mean_bid": "mean bid",
    "ecpm": "eCPM",
    "click_rate": "click rate",
}
#: How values are written, where they are no counts.
_WRITTEN: dict[str, Callable[[float], str]] = {
    "mean_bid": money,
    "ecpm": money,
    "win_rate": percent,
    "click_rate": percent,
}
_MOST_SHOWN = 10


def compare(
    before: subjects.Model,
    after: Annotated[
        Path | None,
        typer.Argument(metavar="[AFTER]", help="Second model file, of a later log."),
    ] = None,
    period_before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="FIRST:LAST",
            help="First period of MODEL, for example 2026-03-02:2026-03-05.",
        ),
    ] = None,
    period_after: Annotated[
        str | None, typer.Option("--after", metavar="FIRST:LAST", help="Second period of MODEL.")
    ] = None,
    advertiser: subjects.Advertiser = None,
    rate: Annotated[
        float,
        typer.Option(
            "--fdr",
            metavar="RATE",
            help="False discovery rate: expected share of errors among the changes marked.",
        ),
    ] = 0.1,
    output: subjects.Output = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what changed between two models, or between two periods of one.

    One table has a row for each measure of the market, its segments and its
    advertisers: impressions, auctions, price level, win rate, mean bid, eCPM
    and click rate, before and after, the change and its error. A change is
    marked with * if it is beyond noise, at the false discovery rate --fdr.
    -o writes the whole table, --advertiser ID takes the rows of one advertiser.

    Example: coterie ads compare march.coterie april.coterie

    Example: coterie ads compare market.coterie --before 2026-03-02:2026-03-05
    --after 2026-03-06:2026-03-08
    """
    periods = _periods(after, period_before, period_after)
    for model in (before, after):
        if model is not None:
            subjects.check_output(output, model, as_json)
    import msgspec

    from coterie.ads.decisions.comparison import compare_models, compare_periods
    from coterie.ads.forecasts.fitted_market import load_market

    with progress_unless(quiet):
        first = load_market(before)
        if after is not None:
            comparison = compare_models(first, load_market(after), false_discovery_rate=rate)
        else:
            comparison = compare_periods(first, *periods, false_discovery_rate=rate)
    if advertiser is not None:
        rows = tuple(comparison.of("advertiser", advertiser).values())
        if not rows:
            raise InvalidParameterError(f"--advertiser {advertiser}: it bids in neither period")
        comparison = replace(comparison, rows=rows)
    source = str(before) if after is None else f"{before} and {after}"
    subjects.write_and_print(
        lambda: _print_comparison(comparison, source),
        lambda: msgspec.to_builtins(comparison),
        comparison.columns,
        output,
        as_json,
        quiet,
    )


def _print_comparison(comparison: ModelComparison, source: str) -> None:
    """Print the market, its segments, and advertisers that changed; or one advertiser alone."""
    console, currency = layout.stdout_console(), comparison.currency
    days = (comparison.days_before, comparison.days_after)
    first, last = (period(of_side[0], of_side[-1]) for of_side in days)
    layout.print_heading(console, source, f": {first} against {last}")
    found: dict[str, dict[str, dict[str, Change]]] = {"market": {}, "segment": {}, "advertiser": {}}
    for row in comparison.rows:
        found[row.kind].setdefault(row.subject, {})[row.measure] = row
    segments, advertisers = found["segment"], found["advertiser"]
    if not found["market"]:
        [(name, rows)] = advertisers.items()
        layout.print_heading(console, name, f", {rows['supply'].segment or 'no segment'}")
        layout.print_indented(console, _measures_table(rows, currency))
    else:
        supplies = [rows["supply"] for rows in advertisers.values()]
        new = sum(one.before == 0 for one in supplies)
        vanished = sum(one.after == 0 for one in supplies)
        both = counted(len(supplies) - new - vanished, "advertiser")
        moved = ""
        if comparison.adjusted_rand is not None:
            moved = (
                f"; {sum(one.moved for one in supplies)} moved to another segment (adjusted Rand "
                f"index {comparison.adjusted_rand:.2f})"
            )
        console.print(f"{both} in both periods, {new} new, {vanished} vanished{moved}.")
        layout.print_indented(console, _measures_table(found["market"]["market"], currency))
        shown = ["impressions", "supply", "price_level", "mean_bid"]
        if segments:
            layout.print_indented(console, _subjects_table("segment", segments, shown))
        gained = {
            name: abs((rows["impressions"].after or 0.0) - (rows["impressions"].before or 0.0))
            for name, rows in advertisers.items()
            if any(row.changed for row in rows.values())
        }
        if gained:
            most = sorted(gained, key=gained.__getitem__, reverse=True)[:_MOST_SHOWN]
            rest = ""
            if len(gained) > _MOST_SHOWN:
                rest = f"; the {_MOST_SHOWN} with the most impressions gained or lost"
            console.print(f"{counted(len(gained), 'advertiser')} changed{rest}:")
            listed = {name: advertisers[name] for name in most}
            table = _subjects_table("advertiser", listed, [*shown, "ecpm"])
            layout.print_indented(console, table)
        else:
            console.print("No advertiser changed by more than noise.")
    console.print(
        f"* changed: about {comparison.false_discovery_rate:.0%} of the changes marked in a column "
        "may be noise. ± is the standard error."
    )
    for note in comparison.notes:
        console.print(layout.sentence(note))


def _periods(after: Path | None, *written: str | None) -> list[tuple[str, str]]:
    """Return the periods as first and last days, two without a second model, otherwise none."""
    given = [part for part in written if part is not None]
    if len(given) != (2 if after is None else 0):
        raise typer.BadParameter(
            "give either a second model, or two periods of the first by --before and --after",
            param_hint="'AFTER'",
        )
    periods = []
    for part, option in zip(given, ("--before", "--after"), strict=False):
        first, _, last = part.partition(":")
        if ":" in last:
            raise InvalidParameterError(
                f"{option} {part}: write the first and the last day, as 2026-03-02:2026-03-05"
            )
        periods.append((first, last or first))
    return periods


def _measures_table(rows: dict[str, Change], currency: str) -> Table:
    """Return a table with a row for each measure of one subject."""
    table = layout.figures_table([""], ["before", "after", "change", "±", "p"])
    for name, title in (_SUMS | _MEASURES).items():
        if name == "impressions" and "advertisers" in rows:
            table.add_row("a typical advertiser", style="dim")
        if row := rows.get(name):
            written = _WRITTEN.get(name, format_count)
            ends = ["" if end is None else written(end) for end in (row.before, row.after)]
            tested = ["", ""]
            if row.p is not None:
                tested = [percent(row.error), "<0.001" if row.p < 0.001 else f"{row.p:.3f}"]
            is_amount = written is money and row.before is not None
            unit = f" ({currency})" if currency and is_amount else ""
            table.add_row(title + unit, *ends, _marked(row), *tested)
    return table


def _subjects_table(
    kind: str, subjects_: dict[str, dict[str, Change]], measures: list[str]
) -> Table:
    """Return a table with a row for each subject and a column for each measure."""
    headings = [_MEASURES[name].removesuffix(" per day") for name in measures]
    counts = ["advertisers"] if kind == "segment" else []
    table = layout.figures_table([kind], [*counts, *headings])
    for name, rows in subjects_.items():
        number = [format_count(rows["advertisers"].after or 0.0)] if counts else []
        cells = [_marked(rows[one]) if one in rows else UNKNOWN for one in measures]
        table.add_row(layout.one_line(name), *number, *cells)
    return table


def _marked(row: Change) -> str:
    """Return a change with its sign, and a star if it is beyond noise."""
    return f"{signed(row.change)}{'*' if row.changed else ' '}"
