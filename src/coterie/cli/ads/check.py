"""``coterie ads check``: all faults of a log, and a lasting change of its prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from coterie.cli import layout, options
from coterie.cli.ads.inputs import reading
from coterie.cli.ads.inputs.reading import LogOptions, with_log_options
from coterie.cli.layout import counted
from coterie.cli.progress import progress_unless, shown_notes
from coterie.runtime.wording import money, percent

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.ads.curves.price_readings import PriceMisfit, WinCeiling
    from coterie.ads.fitting.market_fit import PriceDrift
    from coterie.ads.logs.bid_logs import BidLogs
    from coterie.ads.logs.checks.log_checks import LogCheck, LogOverview

_COLOURS = {"error": "bold red", "warning": "yellow"}
#: With fewer days a change of prices cannot be distinguished from a day that differs.
_FEWEST_DAYS = 4


@with_log_options
def check(
    logs: reading.Logs,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    *,
    log_options: LogOptions,
) -> None:
    """Check a bid log and list all its faults.

    An error would make results wrong; the exit code is then 1. A warning
    limits what results can show, as does a lasting change in all prices.
    LOGS may hold bid logs or ready-made histograms. If the columns of a bid log
    are in doubt, it is refused with a query for --sql that settles it.

    Example: coterie ads check market/bids
    """
    with shown_notes(quiet) as notes, progress_unless(quiet):
        opened, log_check = reading.LogInput(logs, log_options).check()
        drift, misfit = _of_prices(opened, log_check) if as_json or not quiet else (None, None)
    facts = log_check.as_dict() | {
        "drift": drift and drift._asdict() | {"sentence": drift.sentence},
        "prices": misfit and misfit.sentence,
        "notes": notes,
    }
    said = [found.sentence for found in (drift, misfit) if found is not None]

    layout.print_answer(facts, lambda _: _print_summary(log_check, said), as_json, quiet)
    if not log_check.ok:
        raise typer.Exit(1)


def faults_as_notes(log_check: LogCheck) -> list[dict[str, Any]]:
    """Return the faults as quality notes of a report."""
    return [
        {
            "severity": fault.severity,
            "what": fault.what,
            "count": int(fault.count),
            "examples": [_example(row) for row in fault.examples],
        }
        for fault in log_check.faults
    ]


def _of_prices(
    opened: BidLogs, log_check: LogCheck
) -> tuple[PriceDrift | None, PriceMisfit | WinCeiling | None]:
    """Return a lasting change of prices, and wins that they do not explain, if there are any.

    Nothing is looked for in few days, or with errors. Days that lack losses look like days of other
    prices, and other doubts may explain wins.
    """
    lacks_losses = any(fault.code == "days_few_losses" for fault in log_check.faults)
    if not log_check.ok or lacks_losses or log_check.overview.days < _FEWEST_DAYS:
        return None, None
    from coterie.ads.curves.day_levels import price_levels
    from coterie.ads.curves.price_readings import price_misfit, win_ceiling
    from coterie.ads.fitting.market_fit import price_drift
    from coterie.ads.histograms.counting import read_histograms

    histograms = read_histograms(opened)
    misfit = None if log_check.doubts else price_misfit(histograms) or win_ceiling(histograms)
    return price_drift(price_levels(histograms, range(len(histograms.days)))), misfit


def _print_summary(log_check: LogCheck, said: list[str]) -> None:
    console = layout.stdout_console()
    kinds = {"bids": "bid log", "histograms": "ready-made histograms"}
    overview = log_check.overview
    layout.print_heading(
        console, overview.source, f": {kinds[overview.kind]}, read by {overview.engine}"
    )
    layout.print_indented(console, layout.facts_grid(_overview(overview)))
    if log_check.faults or said:
        console.print(_fault_grid(log_check, said))
        console.print()
    errors, warnings = len(log_check.errors), len(log_check.warnings) + len(said)
    verdict = "the log can be used" if log_check.ok else "results would be wrong; correct the log"
    console.print(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}: {verdict}.")


def _overview(overview: LogOverview) -> dict[str, str | None]:
    """Describe the contents of the log; a line with None is not printed."""
    currency = {"": "", "mixed": " of several currencies"}.get(
        overview.currency, f" {overview.currency}"
    )
    auction = "first and second" if overview.auction == "mixed" else overview.auction
    revealed = {
        "paid": "the price paid is the market price",
        "minimum": "the smallest bid that would have won is logged",
        "none": "only won or lost is known, not the market price",
    }
    source = {
        "prices": ", recognised because prices equal bids",
        "default": ", assumed because no auction type is given",
    }.get(overview.auction_source, "")
    counted_rows = "all" if overview.counted_rows == overview.rows else f"{overview.counted_rows:,}"
    missing = counted(len(overview.missing_days), "day")
    gaps = f", {missing} in between missing" if overview.missing_days else ""
    return {
        "rows": f"{overview.rows:,}, {counted_rows} of them usable",
        "advertisers": f"{overview.advertisers:,}, {overview.advertisers_with_text:,} with a text",
        "days": overview.first_day
        and f"{overview.days}, {overview.first_day} to {overview.last_day}{gaps}",
        "bids": f"{overview.bids:,.0f}{', sum of weights' if overview.weighted else ''}"
        + (f", {percent(overview.win_rate)} won" if overview.win_rate is not None else ""),
        "median bid": None
        if overview.median_bid is None
        else f"{money(overview.median_bid)}{currency} CPM",
        "spend": f"{money(overview.spend)}{currency}",
        "auction": f"{auction} price{source}; {revealed[overview.revealed]}",
        "note": "; ".join(overview.notes) or None,
    }


def _fault_grid(log_check: LogCheck, said: list[str]) -> Table:
    """Return each fault with its examples and its remedy, then what is said of all prices."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for fault in log_check.faults:
        share = f", {percent(fault.share)}" if fault.share else ""
        grid.add_row(
            Text(fault.severity, _COLOURS[fault.severity]),
            Text.assemble(
                (layout.one_line(fault.what), "bold"),
                f": {counted(fault.count, fault.unit[:-1])}{share}",
            ),
        )
        for row in fault.examples:
            grid.add_row("", Text(layout.one_line(_example(row)), "dim"))
        if fault.remedy:
            grid.add_row("", Text(layout.one_line(fault.remedy)))
    for sentence in said:
        grid.add_row(Text("warning", _COLOURS["warning"]), Text(sentence, "bold"))
    return grid


def _example(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items())
