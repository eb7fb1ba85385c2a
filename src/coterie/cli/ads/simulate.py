"""``coterie ads simulate``: a simulated market with known truth, as Parquet files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.ads.logs.simulation.simulated_traits import WHOLE_RANGES, MarketSettings
from coterie.cli import layout, options
from coterie.cli.ads.inputs.reading import with_fields
from coterie.cli.layout import counted
from coterie.cli.progress import shown_bar

if TYPE_CHECKING:
    from coterie.ads.logs.simulation.simulated_logs import SimulatedLogs

_FLAGS = {"minimum_logged": "--log-minimum", "floors": "--floors/--no-floors"}


def _market_options() -> dict[str, Any]:
    """Return the annotation of each setting of a market; its documentation is the help."""
    entries = re.findall(r"^( *)(\w+) : .*\n((?:\1 +.*\n)+)", MarketSettings.__doc__ or "", re.M)
    texts = {name: " ".join(text.replace("``", "").split()) for _, name, text in entries}
    found: dict[str, Any] = {"seed": options.Seed}
    for name, default in vars(MarketSettings()).items():
        kind: Any = Literal["first", "second"] if name == "auction" else type(default)
        least, most = WHOLE_RANGES.get(name, (None, None))
        metavar = {bool: "", int: "N"}.get(kind, "DATE" if name == "start" else None)
        option = typer.Option(
            *([_FLAGS[name]] if name in _FLAGS else []),
            min=least,
            max=most,
            metavar=metavar,
            help=texts.get(name),
            rich_help_panel="The market",
        )
        found.setdefault(name, Annotated[kind, option])
    return found


@with_fields("settings", MarketSettings, _market_options())
def simulate(
    output: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="New folder for logs, texts and truth.")
    ],
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    *,
    settings: MarketSettings,
) -> None:
    """Simulate a market and write its bid logs.

    FOLDER receives bids/ (one Parquet file per day), advertisers.parquet
    (texts) and truth.parquet (the true segments, to compare results with).
    With --dimensions it also receives true_targets.parquet (the true effects).
    The memory needed does not grow with the number of rows.

    Example: coterie ads simulate market --bids-per-day 100
    """
    facts = market_facts(simulate_market(settings, output, quiet), settings)
    layout.print_answer(facts, _print_summary, as_json, quiet)


def simulate_market(settings: MarketSettings, folder: Path, quiet: bool) -> SimulatedLogs:
    """Simulate a market into a new folder, with a progress bar on a terminal."""
    from coterie.ads.logs.simulation.simulated_logs import simulate_logs

    with shown_bar("Simulating auctions", quiet) as report:
        return simulate_logs(settings, folder, progress=report)


def market_facts(made: SimulatedLogs, settings: MarketSettings) -> dict[str, Any]:
    """Return the facts about a simulated market, ready for JSON."""
    return {
        "folder": str(made.folder),
        "logs": [str(path) for path in made.bids],
        "texts": str(made.advertisers),
        "truth": str(made.truth),
        "advertisers": settings.advertisers,
        "segments": settings.segments,
        "days": made.days,
        "rows": made.rows,
        "wins": made.wins,
    }


def _print_summary(facts: dict[str, Any]) -> None:
    console = layout.stdout_console()
    share = facts["wins"] / facts["rows"] if facts["rows"] else 0.0
    layout.print_heading(
        console,
        facts["folder"],
        f": {counted(facts['rows'], 'auction')} of {counted(facts['advertisers'], 'advertiser')} "
        f"on {counted(facts['days'], 'day')}, {share:.1%} won",
    )
    layout.print_files(console, [Path(facts["folder"]) / "bids", facts["texts"], facts["truth"]])
