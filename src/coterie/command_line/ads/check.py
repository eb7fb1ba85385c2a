"""``coterie ads check``: all faults of a log, and a lasting change of its prices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.command_line.ads import reading
from coterie.command_line.ads.log_options import LogOptions, with_log_options
from coterie.command_line.ads.mapping_summary import mapping_facts, print_mapping
from coterie.command_line.terminal import layout, options
from coterie.command_line.terminal.layout import counted
from coterie.command_line.terminal.progress import shown_notes, shown_stages
from coterie.runtime.atomic_files import atomic_file
from coterie.runtime.wording import money, percent

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.ads.fitting.model_warnings import PriceDrift
    from coterie.ads.logs.bid_logs import BidLogs
    from coterie.ads.logs.checks.log_checks import LogCheck
    from coterie.ads.logs.mapping_proposals import MappingProposal

__all__ = ["check", "faults_as_notes"]

_COLOURS = {"error": "bold red", "warning": "yellow"}
#: With fewer days a change of prices cannot be told from a day that differs.
_FEWEST_DAYS = 4


@with_log_options
def check(
    logs: reading.Logs,
    write_mapping: Annotated[
        Path | None,
        typer.Option(
            "--write-mapping",
            metavar="FILE",
            help="Write the mapping of the columns here, for --mapping.",
        ),
    ] = None,
    advertisers: reading.AdvertiserTable = None,
    engine: reading.Engine = "duckdb://",
    table: reading.LogTable = None,
    auction: reading.Auction = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    *,
    how: LogOptions,
) -> None:
    """Check a bid log and list all its faults.

    An error would make results wrong, and the exit code is then 1. A warning
    limits what results can show; a lasting change of all prices is one too.
    LOGS may hold bid logs, logs with the 24 columns of iPinYou, or ready-made
    histograms. If a bid log has other columns than the usual ones, the check
    shows what they seem to mean, and the options that say so.

    Example: coterie ads check market/bids
    """
    outputs = {"mapping": write_mapping}
    source = reading.LogInput(logs, engine, advertisers, table, auction, outputs, how=how)
    source.check_outputs()
    with shown_notes(quiet) as notes, shown_stages(quiet):
        proposal = source.propose()
        if write_mapping is not None:
            _write_mapping(proposal, how, write_mapping)
        if proposal is not None and proposal.problems:
            facts = {"ok": False, "mapping": mapping_facts(source, proposal), "notes": notes}
            shown: Callable[[Any], None] = lambda _: print_mapping(source, proposal)  # noqa: E731
            layout.print_answer(facts, shown, as_json, quiet)
            raise typer.Exit(1)
        opened, found = source.check()
        is_shown = as_json or not quiet
        drift = _drift(opened, found) if is_shown else None
    facts = found.as_dict() | {"drift": None if drift is None else _drift_facts(drift)}
    facts["mapping"] = None if proposal is None else mapping_facts(source, proposal)
    facts["notes"] = notes
    layout.print_answer(
        facts, lambda _: _print_check(source, proposal, found, drift), as_json, quiet
    )
    if not found.ok:
        raise typer.Exit(1)


def faults_as_notes(found: LogCheck) -> list[dict[str, Any]]:
    """Return the faults as quality notes of a report."""
    return [
        {
            "severity": fault.severity,
            "what": fault.what,
            "count": int(fault.count),
            "examples": [_example(row) for row in fault.examples],
        }
        for fault in found.faults
    ]


def _write_mapping(proposal: MappingProposal | None, how: LogOptions, path: Path) -> None:
    """Write a mapping file; what is not decided is a comment."""
    known = how.mapping if proposal is None else proposal
    with atomic_file(path) as unfinished:
        unfinished.write_text("" if known is None else known.as_toml(), encoding="utf-8")


def _drift(opened: BidLogs, found: LogCheck) -> PriceDrift | None:
    """Return a lasting change of prices; None without one, with few days, or with errors."""
    if not found.ok or found.overview.days < _FEWEST_DAYS:
        return None
    from coterie.ads.curves.price_levels import price_levels
    from coterie.ads.fitting.model_warnings import price_drift

    histograms = reading.counted_histograms(opened)
    return price_drift(price_levels(histograms, range(len(histograms.days))))


def _drift_facts(drift: PriceDrift) -> dict[str, Any]:
    return {"since": drift.since, "change": drift.change, "sentence": drift.sentence}


def _print_check(
    source: reading.LogInput,
    proposal: MappingProposal | None,
    found: LogCheck,
    drift: PriceDrift | None,
) -> None:
    if proposal is not None:
        print_mapping(source, proposal)
    _print_summary(found, drift)


def _print_summary(found: LogCheck, drift: PriceDrift | None) -> None:
    console = layout.stdout_console()
    kinds = {"bids": "bid log", "ipinyou": "iPinYou log", "histograms": "ready-made histograms"}
    overview = found.overview
    layout.print_heading(
        console, overview.source, f": {kinds[overview.kind]}, read by {overview.engine}"
    )
    layout.print_indented(console, layout.facts_grid(_overview(found)))
    if found.faults or drift is not None:
        console.print(_fault_grid(found, drift))
        console.print()
    errors, warnings = len(found.errors), len(found.warnings) + (drift is not None)
    verdict = "the log can be used" if found.ok else "results would be wrong; correct the log"
    console.print(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}: {verdict}.")


def _overview(found: LogCheck) -> dict[str, str | None]:
    """Describe the contents of the log; a line with None is not printed."""
    seen = found.overview
    currency = {"": "", "mixed": " of several currencies"}.get(seen.currency, f" {seen.currency}")
    auction = "first and second" if seen.auction == "mixed" else seen.auction
    revealed = {
        "paid": "the price paid is the market price",
        "minimum": "the smallest bid that would have won is logged",
        "none": "only won or lost is known, not the market price",
    }
    source = {
        "prices": ", recognised because prices equal bids",
        "default": ", assumed because no auction type is given",
    }.get(seen.auction_source, "")
    counted_rows = "all" if seen.counted_rows == seen.rows else f"{seen.counted_rows:,}"
    gaps = f", {counted(len(seen.missing_days), 'day')} in between missing"
    return {
        "rows": f"{seen.rows:,}, {counted_rows} of them usable",
        "advertisers": f"{seen.advertisers:,}, {seen.advertisers_with_text:,} with a text",
        "days": seen.first_day
        and f"{seen.days}, {seen.first_day} to {seen.last_day}{gaps if seen.missing_days else ''}",
        "bids": f"{seen.bids:,.0f}{', sum of weights' if seen.weighted else ''}"
        + (f", {percent(seen.win_rate)} won" if seen.win_rate is not None else ""),
        "median bid": None
        if seen.median_bid is None
        else f"{money(seen.median_bid, '')}{currency} CPM",
        "spend": f"{money(seen.spend, '')}{currency}",
        "auction": f"{auction} price{source}; {revealed[seen.revealed]}",
        "note": "; ".join(seen.notes) or None,
    }


def _fault_grid(found: LogCheck, drift: PriceDrift | None) -> Table:
    """Return each fault with its examples and its remedy, then the change of prices."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for fault in found.faults:
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
    if drift is not None:
        grid.add_row(Text("warning", _COLOURS["warning"]), Text(drift.sentence, "bold"))
    return grid


def _example(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items())
