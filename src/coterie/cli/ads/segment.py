"""``coterie ads segment``: segments and a forecasting model from a log."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.ads.inputs import reading
from coterie.cli.ads.inputs.reading import LogOptions, with_log_options
from coterie.cli.layout import counted
from coterie.cli.outputs import (
    check_table,
    is_stream,
    output_name,
    refuse_json,
    write_all,
    write_output,
)
from coterie.cli.progress import progress_unless, shown_notes
from coterie.runtime.wording import exact, money, percent, signed

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.ads.fitting.forecaster import AdForecaster
    from coterie.ads.forecasts.fitted_market import Choice
    from coterie.ads.segments.settings import SegmentSettings

#: A larger error of the backtest is one of days that had hardly a win.
_MOST_ERROR = 10.0


@with_log_options
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
    by: reading.By = "advertiser",
    dimension: reading.Dimensions = None,
    segments: reading.Segments = "8,12,16",
    consensus: reading.Consensus = "robust",
    allow_faults: reading.AllowFaults = False,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    *,
    log_options: LogOptions,
) -> None:
    """Find segments of the advertisers in a log, and write a model for forecasts.

    Four views (text, win rate, cost, market) cluster the advertisers, each
    with several settings. The segments are the consensus of these clusterings.
    A backtest, which forecasts the last days from the days before, chooses the
    number of segments, how much the auctions of similar advertisers count, and
    how fast old days lose weight. It also calibrates the intervals. The model
    keeps the counts of its days: coterie ads update adds later days. With
    --dimension, coterie ads targets ranks devices, countries and the like.

    Example: coterie ads segment market -o market.coterie --members segments.csv
    """
    from coterie.models import save_model

    refuse_json(as_json, members, "--members -")
    outputs = {"model": output, "table": members}
    source = reading.LogInput(logs, log_options, outputs, by, reading.dimensions_in(dimension))
    source.check_outputs()
    if members is not None:
        check_table(members)
    settings = reading.segment_settings(segments, consensus, seed)
    with shown_notes(quiet) as notes, progress_unless(quiet):
        log = source.read(allow_faults)
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
    from coterie.ads.fitting.forecaster import AdForecaster

    return AdForecaster(**vars(settings)).fit(log.histograms, log.texts, targets=log.targets)


def segment_columns(model: AdForecaster) -> dict[str, Any]:
    """Return the segment of each advertiser, as columns of a table."""
    import numpy as np

    # The label −1, of no segment, takes the last name.
    names = np.array([*(profile.name for profile in model.segments_), ""], dtype=object)
    rows = np.arange(len(model.labels_))
    return {
        "advertiser_id": model.advertisers_,
        "segment": model.labels_,
        "segment_name": names[model.labels_].astype(str),
        "confidence": model.confidence_,
        "bids": model.observations_,
        "outlier": np.isin(rows, model.outliers_),
    }


def model_facts(model: AdForecaster) -> dict[str, Any]:
    """Return the facts about a fitted model, ready for JSON."""
    from dataclasses import asdict

    dimensions = {}
    if (targets := model.targets_) is not None:
        dimensions = {
            name: targets.values[targets.columns(name)].tolist() for name in targets.dimensions
        }
    return {
        "advertisers": len(model.advertisers_),
        "days": [str(day) for day in model.days_],
        "auction": model.auction_,
        "currency": model.currency_,
        "dimensions": dimensions,
        "segments": [
            asdict(profile)
            | {"median_price": profile.median_price / 1e6, "mixture": profile.mixture}
            for profile in model.segments_
        ],
        "choice": choice_facts(model.choice_),
        "warnings": list(model.warnings_),
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


def choice_facts(choice: Choice) -> dict[str, Any]:
    """Return what the backtest chose; null is infinite, or not measured."""
    facts = {
        "segments": choice.n_segments,
        "strength": choice.strength,
        "half_life": choice.half_life,
        "error": choice.error,
        "bias": choice.bias,
        "bias_standard_error": choice.bias_error,
        "days": choice.days,
    }
    known = {name: value if math.isfinite(value) else None for name, value in facts.items()}
    return known | {"prices": choice.prices}


def day_weights_in_words(half_life: float | None) -> str:
    """Describe the weights of older days; an infinite half-life may be None, as in JSON."""
    if half_life is None or math.isinf(half_life):
        return "equal weights of all days"
    return f"a half-life of {half_life:g} days"


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
        for row in facts["segments"]:
            if row["mixture"]:
                console.print(layout.one_line(row["mixture"]))
    console.print(facts["views"]["sentence"])
    if facts["segments"]:
        console.print(
            f"Outliers, unlike their segment: {counted(len(facts['outliers']), 'advertiser')}. "
            f"Without a clear segment: {counted(len(facts['low_confidence']), 'advertiser')}."
        )
    else:
        console.print("There are no segments: all advertisers share the curves of the market.")
    console.print(_choice_sentence(facts["choice"], len(facts["segments"])))
    if facts["dimensions"]:
        names = [f"{name} ({counted(len(v), 'value')})" for name, v in facts["dimensions"].items()]
        console.print(f"Dimensions: {layout.one_line(', '.join(names))}.")
    layout.print_files(console, facts["written"])


def _choice_sentence(choice: dict[str, Any], n_segments: int) -> str:
    if not choice["days"]:
        return (
            "There are too few days for a backtest: the settings are the defaults, and the "
            "intervals assume that errors are normal."
        )
    strength, weights = choice["strength"], day_weights_in_words(choice["half_life"])
    market = (
        "the curves of the market alone"
        if strength is None
        else f"curves of the market that count as much as {strength:g} own auctions"
    )
    segments = f"{counted(choice['segments'], 'segment')}, " if n_segments else ""
    if 0 < n_segments < choice["segments"]:
        segments = segments.replace(",", " at most (empty and very small ones are left out),")
    return (
        f"A backtest of {counted(choice['days'], 'day')} chose {segments}{market}, and {weights}. "
        f"{_error_sentence(choice['error'], choice['bias'])}"
    )


def _error_sentence(error: float | None, bias: float | None) -> str:
    """Say how large the error of a backtest is; of days almost without wins it says nothing."""
    if error is None or error > _MOST_ERROR:
        return (
            f"Its error (WAPE) is above {_MOST_ERROR:.0%}, because the days it forecast have "
            "hardly a win; check the log of these days."
        )
    return f"Its error (WAPE) is {percent(error)}, its bias {signed(bias)}."


def _segment_table(facts: dict[str, Any]) -> Table:
    unit = f" ({facts['currency']})" if facts["currency"] else ""
    table = layout.figures_table(
        ["segment"], ["members", "purity", "bids", f"bid that wins half{unit}"]
    )
    for row in facts["segments"]:
        price, purity = money(row["median_price"]), row["purity"]
        table.add_row(
            layout.one_line(row["name"]),
            f"{row['size']:,}",
            "–" if purity is None else percent(purity),
            exact(row["observations"]),
            price,
        )
    return table
