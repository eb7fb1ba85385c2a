"""``coterie ads evaluate``: errors of every source of curves on held-out days."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.command_line.ads import reading
from coterie.command_line.terminal import layout, options
from coterie.command_line.terminal.layout import counted
from coterie.command_line.terminal.progress import shown_notes, shown_stages
from coterie.runtime.atomic_files import atomic_file
from coterie.runtime.wording import cell

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["POOLED", "HoldoutDays", "evaluate", "print_evaluation", "verdicts"]

POOLED = "robust+pooled"
_TARGETS = ("impressions", "spend")

HoldoutDays = Annotated[
    int,
    typer.Option(
        "--holdout-days",
        min=1,
        metavar="N",
        help="Number of days to hold out at the end of the log.",
    ),
]


def evaluate(
    logs: reading.Logs,
    holdout_days: HoldoutDays = 1,
    advertisers: reading.AdvertiserTable = None,
    segments: reading.Segments = "8,12,16",
    consensus: reading.Consensus = "robust",
    engine: reading.Engine = "duckdb://",
    table: reading.LogTable = None,
    auction: reading.Auction = None,
    bins: reading.Bins = 256,
    allow_faults: reading.AllowFaults = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the results as JSON here."),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure forecast errors on the last days, by source of the win-rate curves.

    The last days are held out and forecast from the days before. The sources
    are the advertiser's own curve (own), one curve for all (global), and
    segments by text, win rate (win), cost, averaged consensus (l2) and robust
    consensus (robust). Each is used alone, and pooled with the advertiser's
    own curve. The days before also choose the settings.

    Example: coterie ads evaluate market --holdout-days 1
    """
    import json

    from coterie.ads.forecasts.evaluation import evaluate as evaluate_sources
    from coterie.ads.forecasts.paper_tables import paper_tables
    from coterie.ads.segments.view_agreement import compare_views

    source = reading.LogInput(logs, engine, advertisers, table, auction, {"evaluation": output})
    source.check_outputs()
    settings = reading.segment_settings(segments, consensus, seed)
    with shown_notes(quiet) as notes, shown_stages(quiet):
        log = source.read(bins, allow_faults)
        found = evaluate_sources(
            log.histograms, log.texts, holdout_days=holdout_days, settings=settings
        )
        # As in the paper, views are compared on the training days, with equal weights.
        agreement = compare_views(found.training.views, found.segments, None)
        facts = found.as_dict() | {
            "source": log.logs.source,
            "paper_tables": paper_tables(found, agreement),
            "notes": notes,
        }
        if output is not None:
            with atomic_file(output) as unfinished:
                unfinished.write_text(json.dumps(facts, indent=2, allow_nan=False) + "\n")
    layout.print_answer(facts, lambda _: print_evaluation(facts, output), as_json, quiet)


def print_evaluation(facts: dict[str, Any], output: Path | None = None) -> None:
    """Print an evaluation for people."""
    from rich.text import Text

    console = layout.stdout_console()
    layout.print_heading(
        console,
        facts["source"],
        f": forecasts of {', '.join(facts['holdout'])} for "
        f"{counted(facts['advertisers'], 'advertiser')} and "
        f"{counted(facts['new_advertisers'], 'new advertiser')}",
    )
    layout.print_indented(console, _error_table(facts))
    console.print(
        "WAPE: sum of absolute errors / sum of actual values; the lowest is bold. MAPE: mean of "
        "absolute error / actual value. Inside: share of actual values in the 90% interval. New "
        "advertisers are not included."
    )
    console.print()
    console.print("WAPE of impressions, by the number of bids before", style="bold")
    layout.print_indented(console, _stratum_table(facts))
    for contents in facts["paper_tables"]:
        console.print(contents["title"], style="bold")
        layout.print_indented(console, _paper_table(contents))
        console.print(Text(contents["note"], "dim"))
        console.print()
    for sentence in verdicts(facts):
        console.print(sentence)
    layout.print_files(console, [] if output is None else [output])


def verdicts(facts: dict[str, Any]) -> list[str]:
    """Compare own curves with and without pooling with robust segments, a sentence per target."""
    sources = facts.get("sources", {})
    if not {"own", POOLED} <= set(sources):
        return []
    differences = {
        row["target"]: row
        for row in facts["differences"]
        if (row["a"], row["b"]) == (POOLED, "own")
    }
    sentences = []
    for target, row in differences.items():
        own, pooled = (sources[name][target]["wape"] for name in ("own", POOLED))
        if own is None or pooled is None:
            continue
        signed = f"{100 * row['difference']:+.1f}".replace("-", "−")
        error = f" ± {100 * row['standard_error']:.1f}" if row["standard_error"] is not None else ""
        sentences.append(
            f"Error of {target} (WAPE): {_percent(pooled)} if own curves are pooled with robust "
            f"segments, {_percent(own)} if not (difference {signed}{error} percentage points)."
        )
    return sentences


def _error_table(facts: dict[str, Any]) -> Table:
    """Return a table with a row per source and four measures per target."""
    from rich.table import Table
    from rich.text import Text

    names = layout.figures_table(["source"], [])
    for name in facts["sources"]:
        names.add_row(name)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    columns = {"": names, **{target: _measures(facts, target) for target in _TARGETS}}
    for heading in columns:
        table.add_column(Text(heading))
    table.add_row(*columns.values())
    return table


def _measures(facts: dict[str, Any], target: str) -> Table:
    from rich.text import Text

    table = layout.figures_table([], ["WAPE", "MAPE", "bias", "inside"])
    rows = [source[target] for source in facts["sources"].values()]
    lowest = min((row["wape"] for row in rows if row["wape"] is not None), default=None)
    for row in rows:
        cells = [_percent(row[measure]) for measure in ("mape", "bias", "coverage")]
        is_lowest = lowest is not None and row["wape"] == lowest
        table.add_row(Text(_percent(row["wape"]), "bold" if is_lowest else ""), *cells)
    return table


def _stratum_table(facts: dict[str, Any]) -> Table:
    strata = [stratum for stratum in facts["strata"] if stratum["advertisers"]]
    table = layout.figures_table(["source"], [stratum["name"] for stratum in strata])
    for name in facts["sources"]:
        wapes = [stratum["sources"][name]["impressions"]["wape"] for stratum in strata]
        table.add_row(name, *map(_percent, wapes))
    table.add_row(
        "advertisers", *(f"{stratum['advertisers']:,}" for stratum in strata), style="dim"
    )
    return table


def _paper_table(contents: dict[str, Any]) -> Table:
    """Return a table of the paper, with errors in percent."""
    columns, rows = contents["columns"], contents["rows"]
    is_text = [any(isinstance(row[place], str) for row in rows) for place in range(len(columns))]
    # The text columns come first, and all others are figures.
    n_names = is_text.index(False) if False in is_text else len(columns)
    table = layout.figures_table(columns[:n_names], columns[n_names:])
    for row in rows:
        table.add_row(*map(_cell, row, columns))
    return table


def _cell(value: Any, column: str) -> str:
    if column.startswith(("MAPE", "WAPE")):
        return _percent(value)
    return f"{value:.3f}" if isinstance(value, float) else cell(value)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}".replace("-", "−")
