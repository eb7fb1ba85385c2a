"""``coterie ads check``: all faults of a log, and a lasting change of its prices."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.ads.inputs import reading
from coterie.cli.ads.inputs.log_options import LogOptions, with_log_options
from coterie.cli.layout import counted
from coterie.cli.progress import progress_unless, shown_notes
from coterie.runtime.atomic_files import atomic_file
from coterie.runtime.wording import money, percent

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.ads.fitting.model_warnings import PriceDrift
    from coterie.ads.logs.bid_logs import BidLogs
    from coterie.ads.logs.checks.log_checks import LogCheck, LogOverview
    from coterie.ads.logs.mapping_proposals import MappingProposal

__all__ = ["check", "faults_as_notes"]

_COLOURS = {"error": "bold red", "warning": "yellow"}
_MOST_UNUSED = 20
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
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    *,
    log_options: LogOptions,
) -> None:
    """Check a bid log and list all its faults.

    An error would make results wrong, and the exit code is then 1. A warning
    limits what results can show; a lasting change of all prices is one too.
    LOGS may hold bid logs, logs with the 24 columns of iPinYou, or ready-made
    histograms. If a bid log has other columns than the usual ones, the check
    shows what they seem to mean, and the options that say so.

    Example: coterie ads check market/bids
    """
    source = reading.LogInput(logs, log_options, {"mapping": write_mapping})
    source.check_outputs()
    with shown_notes(quiet) as notes, progress_unless(quiet):
        proposal = source.propose()
        if write_mapping is not None:
            _write_mapping(proposal, log_options, write_mapping)
        if proposal is not None and proposal.problems:
            facts = {"ok": False, "mapping": _mapping_facts(source, proposal), "notes": notes}
            layout.print_answer(facts, lambda _: _print_mapping(source, proposal), as_json, quiet)
            raise typer.Exit(1)
        opened, log_check = source.check()
        drift = _drift(opened, log_check) if as_json or not quiet else None
    facts = log_check.as_dict() | {"drift": None if drift is None else _drift_facts(drift)}
    facts["mapping"] = None if proposal is None else _mapping_facts(source, proposal)
    facts["notes"] = notes

    def print_summary(_: dict[str, Any]) -> None:
        if proposal is not None:
            _print_mapping(source, proposal)
        _print_summary(log_check, drift)

    layout.print_answer(facts, print_summary, as_json, quiet)
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


def _write_mapping(proposal: MappingProposal | None, options: LogOptions, path: Path) -> None:
    """Write a mapping file; what is not decided is a comment."""
    known = options.mapping if proposal is None else proposal
    with atomic_file(path) as unfinished:
        unfinished.write_text("" if known is None else known.as_toml(), encoding="utf-8")


def _drift(opened: BidLogs, log_check: LogCheck) -> PriceDrift | None:
    """Return a lasting change of prices; None without one, with few days, or with errors."""
    if not log_check.ok or log_check.overview.days < _FEWEST_DAYS:
        return None
    from coterie.ads.curves.price_levels import price_levels
    from coterie.ads.fitting.model_warnings import price_drift

    histograms = reading.counted_histograms(opened)
    return price_drift(price_levels(histograms, range(len(histograms.days))))


def _drift_facts(drift: PriceDrift) -> dict[str, Any]:
    return {"since": drift.since, "change": drift.change, "sentence": drift.sentence}


def _mapping_facts(source: reading.LogInput, proposal: MappingProposal) -> dict[str, Any]:
    """Return a proposal and its command, ready for JSON."""
    return proposal.as_dict() | {"command": _segment_command(source, proposal)}


def _print_mapping(source: reading.LogInput, proposal: MappingProposal) -> None:
    """Print the column of each role, what is not decided, and the command to copy."""
    console = layout.stdout_console()
    layout.print_heading(console, ", ".join(source.sources), ": what its columns seem to mean")
    layout.print_indented(console, _role_table(proposal))
    if proposal.unused:
        unused = [*proposal.unused[:_MOST_UNUSED], *["…"][: len(proposal.unused) > _MOST_UNUSED]]
        console.print(f"Columns without a role: {layout.one_line(', '.join(unused))}.\n")
    for problem in proposal.problems:
        console.print(f"Not decided: {layout.one_line(problem)}.\n")
    if proposal.problems:
        console.print("Complete and correct the options, and copy the command:")
    else:
        console.print("The command with all of it as options, or --write-mapping for a file:")
    # one unbroken line, ready to be copied
    console.print(f"  {_segment_command(source, proposal)}\n", soft_wrap=True)


def _segment_command(source: reading.LogInput, proposal: MappingProposal) -> str:
    options = replace(source.options, mapping=proposal.mapping).words()
    to_fill_in = [word for role in proposal.missing for word in ("--column", f"{role}=NAME")]
    words = ["segment", *source.sources, *options, *to_fill_in, "-o", "market.coterie"]
    return shlex.join(["coterie", "ads", *words])


def _role_table(proposal: MappingProposal) -> Table:
    table = layout.figures_table(["role", "column", "by", "unit", "examples"], [])
    for one in proposal.roles:
        unit = f"{one.unit} ({one.unit_why})" if one.unit else ""
        examples = ", ".join(one.examples)
        table.add_row(one.role, *map(layout.one_line, (one.column, one.why, unit, examples)))
    return table


def _print_summary(log_check: LogCheck, drift: PriceDrift | None) -> None:
    console = layout.stdout_console()
    kinds = {"bids": "bid log", "ipinyou": "iPinYou log", "histograms": "ready-made histograms"}
    overview = log_check.overview
    layout.print_heading(
        console, overview.source, f": {kinds[overview.kind]}, read by {overview.engine}"
    )
    layout.print_indented(console, layout.facts_grid(_overview(overview)))
    if log_check.faults or drift is not None:
        console.print(_fault_grid(log_check, drift))
        console.print()
    errors, warnings = len(log_check.errors), len(log_check.warnings) + (drift is not None)
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


def _fault_grid(log_check: LogCheck, drift: PriceDrift | None) -> Table:
    """Return each fault with its examples and its remedy, then the change of prices."""
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
    if drift is not None:
        grid.add_row(Text("warning", _COLOURS["warning"]), Text(drift.sentence, "bold"))
    return grid


def _example(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items())
