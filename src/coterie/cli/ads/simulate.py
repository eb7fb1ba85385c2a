"""``coterie ads simulate``: a simulated market with known truth, as Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from coterie.cli import layout, options
from coterie.cli.layout import counted
from coterie.cli.progress import shown_bar

if TYPE_CHECKING:
    from coterie.ads.logs.simulation.simulated_logs import SimulatedLogs
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings


def simulate(
    output: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="New folder for logs, texts and truth.")
    ],
    advertisers: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of advertisers.")
    ] = 1268,
    segments: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of segments of advertisers.")
    ] = 10,
    days: Annotated[int, typer.Option(min=1, metavar="N", help="Number of days.")] = 7,
    bids_per_day: Annotated[
        float, typer.Option(help="Bids per day of the median advertiser.")
    ] = 30.0,
    auction: Annotated[Literal["first", "second"], typer.Option(help="Auction type.")] = "second",
    bid_move: Annotated[
        float, typer.Option(help="Largest change of the logarithm of bids on the last day.")
    ] = 0.5,
    text_error: Annotated[
        float, typer.Option(help="Share of texts that describe another segment.")
    ] = 0.1,
    text_missing: Annotated[
        float, typer.Option(help="Share of advertisers without a text.")
    ] = 0.05,
    outliers: Annotated[
        float, typer.Option(help="Share of advertisers that are unlike their segment.")
    ] = 0.05,
    newcomers: Annotated[
        float, typer.Option(help="Share of advertisers that start on the last day.")
    ] = 0.02,
    price_rise: Annotated[
        float, typer.Option(help="Change of the logarithm of prices on the last four days.")
    ] = 0.0,
    weekday_effect: Annotated[
        float, typer.Option(help="Exponent of the weekdays' factors; 0: no weekdays.")
    ] = 1.0,
    log_minimum: Annotated[
        bool,
        typer.Option("--log-minimum", metavar="", help="Log the smallest bid that would have won."),
    ] = False,
    dimensions: Annotated[
        int,
        typer.Option(
            min=0,
            max=3,
            metavar="N",
            help="Number of dimensions that change prices and clicks: device, country, slot.",
        ),
    ] = 0,
    start: Annotated[str, typer.Option(metavar="DATE", help="First day.")] = "2026-03-02",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Simulate a market and write its bid logs.

    FOLDER receives bids/ (one Parquet file per day), advertisers.parquet
    (texts) and truth.parquet (the true segments, to compare results with).
    With --dimensions it also receives true_targets.parquet (the true effects).
    The memory needed does not grow with the number of rows.

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
        price_rise=price_rise,
        weekday_effect=weekday_effect,
        minimum_logged=log_minimum,
        dimensions=dimensions,
        start=start,
        seed=seed,
    )
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
