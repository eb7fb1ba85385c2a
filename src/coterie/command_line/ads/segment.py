"""``coterie ads segment``: segments and a forecasting model from a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.command_line.ads import reading
from coterie.command_line.terminal import layout, options
from coterie.command_line.terminal.layout import counted
from coterie.command_line.terminal.outputs import write_all
from coterie.command_line.terminal.progress import shown_notes, shown_stages
from coterie.command_line.terminal.streams import (
    check_table,
    is_stream,
    output_name,
    refuse_json,
    write_output,
)
from coterie.runtime.wording import exact, money, percent

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.ads.forecasts.forecaster import AdForecaster
    from coterie.ads.segments.settings import SegmentSettings

__all__ = ["fit_model", "model_facts", "print_segments", "segment", "segment_columns"]


def segment(
    logs: reading.Logs,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="Model file to write.")
    ],
    members: Annotated[
        Path | None,
        typer.Option(
            "--members",
            metavar="FILE",
            help="Write the segment of each advertiser here: .csv, .tsv, .parquet, or - for "
            "standard output.",
        ),
    ] = None,
    advertisers: reading.AdvertiserTable = None,
    segments: reading.Segments = "8,12,16",
    consensus: reading.Consensus = "robust",
    engine: reading.Engine = "duckdb://",
    table: reading.LogTable = None,
    auction: reading.Auction = None,
    bins: reading.Bins = 256,
    allow_faults: reading.AllowFaults = False,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Find segments of the advertisers in a log, and write a model for forecasts.

    Four views (text, win rate, cost, market) cluster the advertisers, each
    with several settings. The segments are the consensus of these clusterings.
    A backtest, which forecasts the last days from the days before, chooses the
    number of segments and the strength of pooling.

    Example: coterie ads segment market -o market.coterie --members segments.csv
    """
    from coterie.files.model_files import save_model

    refuse_json(as_json, members, "--members -")
    source = reading.LogInput(
        logs, engine, advertisers, table, auction, {"model": output, "table": members}
    )
    source.check_outputs()
    if members is not None:
        check_table(members)
    settings = reading.segment_settings(segments, consensus, seed)
    with shown_notes(quiet) as notes, shown_stages(quiet):
        log = source.read(bins, allow_faults)
        model = fit_model(log, settings)
        steps: dict[Path, Any] = {output: lambda path: save_model(model, path)}
        if members is not None:
            table_step = {members: lambda path: write_output(path, segment_columns(model))}
            # The model is the last file: if it exists, the table does too. A stream comes after it.
            steps = steps | table_step if is_stream(members) else table_step | steps
        write_all(steps)
    facts = model_facts(model) | {"source": log.logs.source, "notes": notes}
    facts["written"] = [output_name(path) for path in steps]
    layout.print_answer(facts, print_segments, as_json, quiet, is_stream(members))


def fit_model(log: reading.CountedLog, settings: SegmentSettings) -> AdForecaster:
    """Fit a forecaster with these settings to all days of a log."""
    from coterie.ads.forecasts.forecaster import AdForecaster

    return AdForecaster(**vars(settings)).fit(log.histograms, log.texts)


def segment_columns(model: AdForecaster) -> dict[str, Any]:
    """Return the segment of each advertiser, as columns of a table."""
    import numpy as np

    # A model without segments has one unnamed segment 0 in the table.
    names = np.array([profile.name for profile in model.segments_] or [""], dtype=object)
    labels = model.labels_ if model.segments_ else np.zeros(len(model.advertisers_), dtype=int)
    rows = np.arange(len(labels))
    return {
        "advertiser_id": model.advertisers_,
        "segment": labels,
        "segment_name": names[labels].astype(str),
        "confidence": model.confidence_,
        "bids": model.observations_,
        "outlier": np.isin(rows, model.outliers_),
    }


def model_facts(model: AdForecaster) -> dict[str, Any]:
    """Return the facts about a fitted model, ready for JSON."""
    import math
    from dataclasses import asdict

    choice = model.choice_
    return {
        "advertisers": len(model.advertisers_),
        "days": [str(day) for day in model.days_],
        "auction": model.auction_,
        "currency": model.currency_,
        "segments": [
            {**asdict(profile), "median_price": profile.median_price / 1e6}
            for profile in model.segments_
        ],
        "pooling_strength": choice.strength,
        "backtest_error": None if math.isnan(choice.error) else choice.error,
        "backtest_days": choice.days,
        "outliers": [str(model.advertisers_[a]) for a in model.outliers_],
        "low_confidence": [str(model.advertisers_[a]) for a in model.doubtful_],
        "views": {
            "names": model.agreement_.names,
            "adjusted_rand_with_segments": model.agreement_.with_segments.tolist(),
            "say": model.agreement_.weights.tolist(),
            "dissenting": model.agreement_.dissenting or None,
            "sentence": model.agreement_.sentence,
            "pairs": model.agreement_.pairs,
        },
    }


def print_segments(facts: dict[str, Any]) -> None:
    """Print the facts about a fitted model for people."""
    console = layout.stdout_console()
    layout.print_heading(
        console,
        facts["source"],
        f": {counted(facts['advertisers'], 'advertiser')}, {counted(len(facts['days']), 'day')}, "
        f"{facts['auction']} price, {counted(len(facts['segments']), 'segment')}",
    )
    if facts["segments"]:
        layout.print_indented(console, _segment_table(facts))
    console.print(facts["views"]["sentence"])
    if facts["segments"]:
        console.print(
            f"Outliers, unlike their segment: {counted(len(facts['outliers']), 'advertiser')}. "
            f"Without a clear segment: {counted(len(facts['low_confidence']), 'advertiser')}."
        )
    if facts["backtest_error"] is not None:
        console.print(
            f"A backtest of {counted(facts['backtest_days'], 'day')} chose the number of segments "
            f"and the pooling strength, {facts['pooling_strength']:g}; its error is "
            f"{percent(facts['backtest_error'])}."
        )
    layout.print_files(console, facts["written"])


def _segment_table(facts: dict[str, Any]) -> Table:
    unit = f" ({facts['currency']})" if facts["currency"] else ""
    table = layout.figures_table(["segment"], ["members", "bids", f"bid that wins half{unit}"])
    for row in facts["segments"]:
        price = money(row["median_price"], "")
        table.add_row(
            layout.one_line(row["name"]), f"{row['size']:,}", exact(row["observations"]), price
        )
    return table
