"""``coterie ads simulate``: a market in which the truth is known, as Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.command_line.ads.layout import (
    counted,
    print_files,
    print_heading,
    stdout_console,
)
from coterie.command_line.terminal import options
from coterie.command_line.terminal.progress import is_watched
from coterie.command_line.terminal.summary import print_json

if TYPE_CHECKING:
    from coterie.ads.logs.simulation.simulated_logs import SimulatedLogs
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings

__all__ = ["market_facts", "simulate", "simulated_market"]


def simulate(
    output: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A new folder for logs, texts and truth.")
    ],
    advertisers: Annotated[int, typer.Option(min=1, help="How many.")] = 1268,
    segments: Annotated[int, typer.Option(min=1, help="How many kinds of advertisers.")] = 10,
    days: Annotated[int, typer.Option(min=1, help="How many days.")] = 7,
    bids_per_day: Annotated[float, typer.Option(help="Of the median advertiser.")] = 30.0,
    auction: Annotated[Literal["first", "second"], typer.Option(help="What a winner pays.")] = (
        "second"
    ),
    bid_move: Annotated[
        float, typer.Option(help="How far bids move on the last day, in the logarithm.")
    ] = 0.5,
    text_error: Annotated[float, typer.Option(help="Share of wrong texts.")] = 0.1,
    text_missing: Annotated[float, typer.Option(help="Share of missing texts.")] = 0.05,
    outliers: Annotated[float, typer.Option(help="Share with a market of their own.")] = 0.05,
    newcomers: Annotated[float, typer.Option(help="Share that start on the last day.")] = 0.02,
    log_minimum: Annotated[
        bool, typer.Option("--log-minimum", help="Log the minimum that would have won.")
    ] = False,
    start: Annotated[str, typer.Option(metavar="DATE", help="The first day.")] = "2026-03-02",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Simulate a market and write its bid logs.

    FOLDER gets bids/ (one Parquet file a day), advertisers.parquet (the
    texts) and truth.parquet (what no forecast may look at). Memory does
    not grow with the number of rows.

    Example: coterie ads simulate market --bids-per-day 100
    """
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings

    settings = MarketSettings(
        advertisers=advertisers,
        segments=segments,
        days=days,
        auction=auction,
        bids_per_day=bids_per_day,
        bid_move=bid_move,
        text_error=text_error,
        text_missing=text_missing,
        outliers=outliers,
        newcomers=newcomers,
        minimum_logged=log_minimum,
        start=start,
        seed=seed,
    )
    facts = market_facts(simulated_market(settings, output, quiet), settings)
    if as_json:
        print_json(facts)
    elif not quiet:
        _print_for_people(facts)


def simulated_market(settings: MarketSettings, folder: Path, quiet: bool) -> SimulatedLogs:
    """Simulate a market into a new folder, with a bar for whoever waits at a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    from coterie.ads.logs.simulation.simulated_logs import simulate_logs

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not is_watched(quiet)) as bar:
        task = bar.add_task("Simulating auctions", total=None)
        return simulate_logs(
            settings,
            folder,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def market_facts(made: SimulatedLogs, settings: MarketSettings) -> dict[str, Any]:
    """What is told of a simulated market, ready for JSON."""
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


def _print_for_people(facts: dict[str, Any]) -> None:
    console = stdout_console()
    share = facts["wins"] / facts["rows"] if facts["rows"] else 0.0
    told = (
        f": {counted(facts['rows'], 'auction')} of {counted(facts['advertisers'], 'advertiser')} "
        f"on {counted(facts['days'], 'day')}, {share:.1%} won"
    )
    print_heading(console, facts["folder"], told)
    print_files(console, [Path(facts["folder"]) / "bids", facts["texts"], facts["truth"]])
