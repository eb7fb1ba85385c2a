"""``coterie demo``: a simulated week of auctions, and the whole advertising job done on it."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.command_line import demo_facts
from coterie.command_line.ads import reading
from coterie.command_line.ads.layout import (
    counted,
    figures_table,
    print_indented,
    stdout_console,
)
from coterie.command_line.ads.report import check_can_render, made_report
from coterie.command_line.ads.segment import segment_columns
from coterie.command_line.ads.simulate import market_facts, simulated_market
from coterie.command_line.demo_folder import MARKET, MODEL, REPORT, SEGMENTS, fresh_folder
from coterie.command_line.terminal import options
from coterie.command_line.terminal.outputs import write_all
from coterie.command_line.terminal.progress import shown_notes, shown_stages
from coterie.command_line.terminal.summary import print_json
from coterie.command_line.terminal.terminal_text import one_line
from coterie.runtime.wording import count, money, percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from coterie.ads.forecasts.forecast_figures import Forecast

__all__ = ["demo"]

_BINS = 256
_NAMES = {
    "own": "its own curve",
    "global": "one curve for all",
    "robust+pooled": "its own pooled with its segments'",
}


def demo(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="Where everything is written."),
    ] = Path("demo-output"),
    advertisers: Annotated[int, typer.Option("--advertisers", min=20, help="How many.")] = 1268,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Simulate a week of auctions, find segments, forecast, and write a report to open.

    FOLDER gets market/ (bid logs, texts, and the truth), market.coterie
    (the model), segments.csv and report.html. What an earlier demo wrote
    there is replaced; anything else is left alone.

    Example: coterie demo --output demo-output
    """
    from coterie.ads.logs.simulation.simulated_traits import MarketSettings
    from coterie.ads.segments.settings import SegmentSettings
    from coterie.files.tables import write_table

    check_can_render()
    started = time.perf_counter()
    market = MarketSettings(advertisers=advertisers, seed=seed)
    report, model_file, table = (output / name for name in (REPORT, MODEL, SEGMENTS))
    with shown_notes(quiet) as notes, fresh_folder(output):
        simulated = simulated_market(market, output / MARKET, quiet)
        with shown_stages(quiet):
            source = reading.read_source(str(output / MARKET), "duckdb://", None, None, None, _BINS)
            made = made_report(source, SegmentSettings(random_state=seed), holdout_days=1)
            steps = made.steps(report, model_file)
            steps[table] = lambda path: write_table(path, segment_columns(made.model))
            write_all(steps)
    truth = demo_facts.read_truth(simulated.truth, made.model.advertisers_)
    example = demo_facts.example_forecast(made.model)
    facts = {
        "market": market_facts(simulated, market),
        "faults": {"errors": len(source.check.errors), "warnings": len(source.check.warnings)},
        "segments": demo_facts.recovery_facts(made.model, truth),
        "holdout": [] if made.evaluation is None else made.evaluation.days,
        "wape": {} if made.evaluation is None else demo_facts.error_facts(made.evaluation),
        "currency": made.model.currency_,
        "forecast": {"command": _forecast_command(example, model_file), **example.as_dict()},
        "serve": shlex.join(["coterie", "ads", "serve", str(model_file)]),
        "written": [str(path) for path in (output / MARKET, model_file, table, report)],
        "seconds": round(time.perf_counter() - started, 1),
        "notes": notes,
    }
    if as_json:
        print_json(facts)
    elif not quiet:
        _print_for_people(facts, report)


def _forecast_command(example: Forecast, model: Path) -> str:
    asked = {
        "--advertiser": example.advertiser,
        "--bid": f"{example.bid:.2f}",
        "--supply": f"{example.supply:.0f}",
    }
    words = [word for pair in asked.items() for word in pair]
    return shlex.join(["coterie", "ads", "forecast", str(model), *words])


def _print_for_people(facts: dict[str, Any], report: Path) -> None:
    console = stdout_console()
    market, segments, faults = facts["market"], facts["segments"], facts["faults"]
    console.print(
        f"Simulated {counted(market['days'], 'day')} of auctions: {market['rows']:,} bids of "
        f"{market['advertisers']:,} advertisers of {market['segments']} kinds. The check of the "
        f"log found {counted(faults['errors'], 'error')} and "
        f"{counted(faults['warnings'], 'warning')}."
    )
    console.print()
    console.print(
        f"Found {counted(segments['found'], 'segment')}; {segments['planted']} were planted "
        f"(adjusted Rand index {segments['adjusted_rand']:.2f}). Of "
        f"{counted(segments['outliers_found'], 'advertiser')} called unlike their segment, "
        f"{segments['outliers_right']:,} do have a market of their own "
        f"({segments['outliers_planted']:,} were planted)."
    )
    print_indented(console, _recovery_table(segments))
    if facts["wape"]:
        console.print(
            f"Forecast {', '.join(facts['holdout'])}, when everybody changed its bids, from the "
            f"days before. The error (WAPE) by where an advertiser's curve is taken from; thin: of "
            f"impressions, over the advertisers with {demo_facts.THIN} until then:"
        )
        print_indented(console, _error_table(facts["wape"]))
    _print_example(console, facts)
    console.print(
        f"Written in {facts['seconds']:.0f} s; the report shows all of it, for any advertiser and "
        "any bid. Open it in a browser:"
    )
    console.print(f"  {one_line(report)}", style="bold", soft_wrap=True)
    console.print("To ask the same of a service, on its page or as JSON:")
    console.print(f"  {one_line(facts['serve'])}", style="bold", soft_wrap=True)


def _recovery_table(segments: dict[str, Any]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("planted")
    table.add_column("advertisers", justify="right")
    table.add_column("found as", overflow="fold")
    table.add_column("of them", justify="right")
    for row in segments["segments"]:
        share = f"{row['share']:.0%}"
        table.add_row(row["planted"], f"{row['advertisers']:,}", row["found_as"], share)
    return table


def _error_table(wape: dict[str, Any]) -> Table:
    table = figures_table(["curve"], ["impressions", "spend", "thin"])
    for name, errors in wape.items():
        figures = (percent(errors[k]) for k in ("impressions", "spend", "impressions_of_thin"))
        table.add_row(_NAMES[name], *figures, style="bold" if name == "robust+pooled" else "")
    return table


def _print_example(console: Console, facts: dict[str, Any]) -> None:
    """One forecast, and how to ask for it."""
    one, currency = facts["forecast"], facts["currency"]
    spans = {
        name: " to ".join(written(end) for end in one[f"{name}_interval"])
        for name, written in (("impressions", count), ("spend", lambda amount: money(amount, "")))
    }
    console.print("One forecast of many:")
    console.print(f"  {one_line(one['command'])}", style="bold", soft_wrap=True)
    console.print(
        f"{count(one['supply'])} auctions, {percent(one['win_rate'])} of them won: "
        f"{count(one['impressions'])} impressions ({spans['impressions']}) for "
        f"{money(one['spend'], '')} {currency} ({spans['spend']})."
    )
    console.print()
