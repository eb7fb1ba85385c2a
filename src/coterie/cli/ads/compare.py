"""``coterie ads compare``: what changed between two models or two periods, and is it noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.ads.inputs import subjects
from coterie.cli.layout import counted
from coterie.cli.progress import progress_unless
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import UNKNOWN, format_count, money, percent, period, signed

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.ads.decisions.comparison.comparison_results import (
        AdvertiserChange,
        Change,
        GroupChange,
        ImpressionParts,
        ModelComparison,
    )

__all__ = ["compare", "print_comparison"]

_QUANTITIES = {
    "impressions": "impressions per day",
    "supply": "auctions per day",
    "price_level": "price level",
    "win_rate": "win rate",
    "mean_bid": "mean bid",
    "ecpm": "eCPM",
    "click_rate": "click rate",
}
_PARTS = {
    "market_supply": "auctions, as the market",
    "own_supply": "auctions, own",
    "market_price": "prices, as the market",
    "own_price": "prices, own",
    "own_bid": "own bids",
    "new": "new advertisers",
    "vanished": "vanished advertisers",
    "unexplained": "unexplained",
}
_AMOUNTS = frozenset({"mean_bid", "ecpm"})
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
            help="False discovery rate: expected share of wrong ones among those said to have "
            "changed.",
        ),
    ] = 0.1,
    output: subjects.Output = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what changed between two models, or between two periods of one.

    For the market, its segments and its advertisers: impressions, auctions,
    price level, win rate, mean bid, eCPM and click rate, each with its error.
    A change is marked with * if it is unlikely to be noise, at the false
    discovery rate --fdr. The change of impressions is divided into what more
    or fewer auctions, other prices and other bids of the advertiser explain.
    --advertiser ID shows one advertiser.

    Example: coterie ads compare march.coterie april.coterie

    Example: coterie ads compare market.coterie --before 2026-03-02:2026-03-05
    --after 2026-03-06:2026-03-08
    """
    periods = _periods(after, period_before, period_after)
    subjects.check_output(output, before, as_json)
    if after is not None:
        subjects.check_output(output, after, as_json)
    from coterie.ads.decisions.comparison.model_comparison import compare_models, compare_periods
    from coterie.ads.forecasts.fitted_market import load_market

    with progress_unless(quiet):
        first = load_market(before)
        if after is not None:
            comparison = compare_models(first, load_market(after), false_discovery_rate=rate)
        else:
            comparison = compare_periods(first, *periods, false_discovery_rate=rate)
    one = None if advertiser is None else _only(comparison, advertiser)
    source = str(before) if after is None else f"{before} and {after}"
    subjects.write_and_print(
        lambda: print_comparison(comparison, source, one),
        lambda: _facts(comparison, one),
        comparison.columns,
        output,
        as_json,
        quiet,
    )


def print_comparison(
    comparison: ModelComparison, source: str, one: AdvertiserChange | None = None
) -> None:
    """Print a comparison for people, or the part about one advertiser."""
    console = layout.stdout_console()
    first, last = (
        period(days[0], days[-1]) for days in (comparison.days_before, comparison.days_after)
    )
    layout.print_heading(console, source, f": {first} against {last}")
    if one is not None:
        layout.print_heading(console, one.advertiser, f", {one.segment or 'no segment'}")
        layout.print_indented(console, _change_table(one, comparison.currency))
        layout.print_indented(console, _part_table(one.parts))
    else:
        market = comparison.market
        console.print(
            f"{counted(market.advertisers, 'advertiser')} in both periods, {market.new} new, "
            f"{market.vanished} vanished{_agreement(comparison)}."
        )
        layout.print_indented(console, _change_table(market, comparison.currency))
        layout.print_indented(console, _part_table(market.parts))
        if comparison.segments:
            layout.print_indented(console, _segment_table(comparison))
        _print_advertisers(console, comparison)
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
    options_of = zip(given, ("--before", "--after"), strict=False)
    return [_ends(part, option) for part, option in options_of]


def _ends(written: str, option: str) -> tuple[str, str]:
    """Return the first and the last day of a period; one date is a period of one day.

    >>> _ends("2026-03-02:2026-03-05", "--before"), _ends("2026-03-02", "--before")
    (('2026-03-02', '2026-03-05'), ('2026-03-02', '2026-03-02'))
    """
    first, _, last = written.partition(":")
    if ":" in last:
        raise InvalidParameterError(
            f"{option} {written}: write the first and the last day, as 2026-03-02:2026-03-05"
        )
    return first, last or first


def _only(comparison: ModelComparison, advertiser: str) -> AdvertiserChange:
    for one in comparison.advertisers:
        if one.advertiser == advertiser:
            return one
    where = {
        **dict.fromkeys(comparison.new, "after"),
        **dict.fromkeys(comparison.vanished, "before"),
    }
    known = f"it bids only {where[advertiser]}" if advertiser in where else "it is in no log"
    raise InvalidParameterError(
        f"--advertiser {advertiser}: {known}; only advertisers of both periods can be compared"
    )


def _facts(comparison: ModelComparison, one: AdvertiserChange | None) -> dict[str, Any]:
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(comparison)
    if one is not None:
        facts |= {"segments": [], "advertisers": [msgspec.to_builtins(one)]}
    return facts


def _agreement(comparison: ModelComparison) -> str:
    if comparison.adjusted_rand is None:
        return ""
    moved = sum(one.moved for one in comparison.advertisers)
    return (
        f"; {moved} moved to another segment (adjusted Rand index {comparison.adjusted_rand:.2f})"
    )


def _change_table(of: GroupChange | AdvertiserChange, currency: str) -> Table:
    """Return a table of the quantities of a group or an advertiser."""
    changes = {name: getattr(of, name) for name in _QUANTITIES}
    has_values = any(change and change.before is not None for change in changes.values())
    values = ["before", "after"] if has_values else []
    table = layout.figures_table(
        ["" if has_values else "a typical advertiser"], [*values, "change", "±", "p"]
    )
    for name, change in changes.items():
        if change is None:
            continue
        unit = f" ({currency})" if currency and values and name in _AMOUNTS else ""
        table.add_row(
            _QUANTITIES[name] + unit,
            *(_value(name, getattr(change, value)) for value in values),
            _marked(change),
            percent(change.error),
            _p(change.p),
        )
    return table


def _part_table(parts: ImpressionParts) -> Table:
    """Return a table of why impressions changed."""
    table = layout.figures_table(["why impressions changed"], ["per day", "share"])
    base = parts.before
    for name, shown in _PARTS.items():
        part = getattr(parts, name)
        if part or name not in {"new", "vanished"}:
            table.add_row(shown, _signed_count(part), signed(part / base) if base else UNKNOWN)
    total = parts.after - base
    table.add_row("all", _signed_count(total), signed(total / base) if base else UNKNOWN)
    return table


def _segment_table(comparison: ModelComparison) -> Table:
    headings = ["advertisers", "impressions", "auctions", "price level", "mean bid"]
    table = layout.figures_table(["segment"], headings)
    for one in comparison.segments:
        changes = (one.impressions, one.supply, one.price_level, one.mean_bid)
        table.add_row(
            layout.one_line(one.name), f"{one.advertisers:,}", *(_marked(part) for part in changes)
        )
    return table


def _print_advertisers(console: Any, comparison: ModelComparison) -> None:
    """Print the advertisers with a change, those with the largest change of impressions first."""
    changed = [one for one in comparison.advertisers if one.changed]
    if not changed:
        console.print("No advertiser changed by more than noise.")
        return
    changed.sort(key=lambda one: -abs(one.parts.after - one.parts.before))
    headings = ["impressions", "auctions", "price level", "mean bid", "eCPM"]
    table = layout.figures_table(["advertiser"], headings)
    for one in changed[:_MOST_SHOWN]:
        changes = (one.impressions, one.supply, one.price_level, one.mean_bid, one.ecpm)
        table.add_row(layout.one_line(one.advertiser), *(_marked(part) for part in changes))
    console.print(
        f"{counted(len(changed), 'advertiser')} changed"
        + (
            f"; the {_MOST_SHOWN} with the most impressions gained or lost:"
            if len(changed) > _MOST_SHOWN
            else ":"
        )
    )
    layout.print_indented(console, table)


def _marked(change: Change | None) -> str:
    """Return a change with its sign, and a star if it is a discovery."""
    if change is None:
        return UNKNOWN
    return f"{signed(change.change)}{'*' if change.changed else ' '}"


def _value(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name in {"win_rate", "click_rate"}:
        return percent(value)
    return money(value) if name in _AMOUNTS else format_count(value)


def _signed_count(number: float) -> str:
    return f"{'−' if number < 0 else '+' if number > 0 else ''}{format_count(abs(number))}"


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"
