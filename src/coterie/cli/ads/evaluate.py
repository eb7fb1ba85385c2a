"""``coterie ads evaluate``: errors of every source of curves on held-out days."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.ads.report.evaluation_tables import (
    OWN,
    best_other,
    coverage_by_level,
    coverage_by_stratum,
    errors_by_stratum,
    figure_in,
    shown_targets,
)
from coterie.cli import layout, options
from coterie.cli.ads.inputs import reading
from coterie.cli.ads.inputs.reading import LogOptions, with_log_options
from coterie.cli.layout import counted
from coterie.cli.progress import progress_unless, shown_notes
from coterie.runtime.atomic_files import write_text

if TYPE_CHECKING:
    from rich.table import Table

_COMPARED = ("impressions", "spend")

HoldoutDays = Annotated[
    int, typer.Option(min=1, metavar="N", help="Number of days to hold out at the end of the log.")
]


@with_log_options
def evaluate(
    logs: reading.Logs,
    holdout_days: HoldoutDays = 1,
    by: reading.By = "advertiser",
    segments: reading.Segments = "8,12,16",
    consensus: reading.Consensus = "robust",
    allow_faults: reading.AllowFaults = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the results as JSON here."),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    *,
    log_options: LogOptions,
) -> None:
    """Measure the errors and the intervals of forecasts on the last days.

    The last days are held out and forecast from the days before, by the model
    that coterie ads segment would save (dictionary) and by simpler sources of
    curves: the advertiser's own auctions (own), one curve for all (global),
    log-normal prices (lognormal) and gradient boosting (boosting). The days
    before also choose the settings. A section of its own has the tables of
    the paper: segments by text, win rate, cost, averaged consensus and robust
    consensus, each alone and pooled with the advertiser's own auctions.

    Example: coterie ads evaluate market --holdout-days 1
    """
    import json

    from coterie.ads.evaluation.evaluation import evaluate as evaluate_sources
    from coterie.ads.evaluation.paper_tables import paper_tables
    from coterie.ads.segments.segment_profiles import compare_views

    source = reading.LogInput(logs, log_options, {"evaluation": output}, by)
    source.check_outputs()
    settings = reading.segment_settings(segments, consensus, seed)
    with shown_notes(quiet) as notes, progress_unless(quiet):
        log = source.read(allow_faults)
        evaluation = evaluate_sources(
            log.histograms, log.texts, holdout_days=holdout_days, settings=settings
        )
        # As in the paper, views are compared on the training days, with equal weights.
        agreement = compare_views(evaluation.training.views, evaluation.segments, None)
        facts = evaluation.as_dict() | {
            "source": log.logs.source,
            "paper_tables": paper_tables(evaluation, agreement),
            "notes": notes,
        }
        if output is not None:
            write_text(output, json.dumps(facts, indent=2, allow_nan=False) + "\n")
    layout.print_answer(facts, lambda _: print_evaluation(facts, output), as_json, quiet)


def print_evaluation(facts: dict[str, Any], output: Path | None = None) -> None:
    """Print an evaluation for people."""
    from rich.text import Text

    from coterie.ads.evaluation.baselines import BASELINES

    console = layout.stdout_console()
    layout.print_heading(
        console,
        facts["source"],
        f": forecasts of {', '.join(facts['holdout'])} for "
        f"{counted(facts['advertisers'], 'advertiser')} and "
        f"{counted(facts['new_advertisers'], 'new advertiser')}",
    )
    for sentence in verdicts(facts):
        console.print(sentence)
    # the default, the simple sources, and those of the paper that are the best others
    best = (best_other(facts, target) for target in _COMPARED)
    shown = dict.fromkeys((facts["default"], OWN, "global", *BASELINES, *best))
    names = [name for name in shown if name is not None and name in facts["sources"]]
    layout.print_indented(console, _error_table(facts, names))
    placed = ""
    if facts.get("placed"):
        placed = (
            f" The default places {counted(facts['placed']['advertisers'], 'further advertiser')} "
            "that it was not fitted to and that other sources do not forecast; its WAPE of "
            f"impressions for them is {_percent(facts['placed']['impressions']['wape'])}."
        )
    console.print(
        "* the default: what a saved model serves. WAPE: sum of absolute errors / sum of actual "
        "values; the lowest of all sources is bold. MAPE: mean of absolute error / actual value. "
        "Bias: sum of errors / sum of actual values. New advertisers are not included."
        f"{placed}"
    )
    console.print()
    console.print("WAPE of impressions, by the number of bids before", style="bold")
    layout.print_indented(console, _stratum_table(facts, names))
    console.print("Share of actual values inside the intervals, by their level", style="bold")
    layout.print_indented(console, _coverage_table(facts))
    console.print("Inside the 90% intervals, by the number of bids before", style="bold")
    layout.print_indented(console, _coverage_by_stratum(facts))
    console.print(
        "Given: the number of auctions is known. Forecast: it is forecast too, and the intervals "
        "allow for its uncertainty."
    )
    console.print()
    if facts["paper_tables"]:
        layout.print_heading(console, "The paper", ": its tables on this log")
        console.print()
    for contents in facts["paper_tables"]:
        console.print(contents["title"], style="bold")
        layout.print_indented(console, _paper_table(contents))
        console.print(Text(contents["note"], "dim"))
        console.print()
    layout.print_files(console, [] if output is None else [output])


def verdicts(facts: dict[str, Any]) -> list[str]:
    """Compare the default with own curves and the best other source, a sentence per target."""
    if not facts.get("sources"):
        return []
    sentences = []
    for target in _COMPARED:
        errors = facts["sources"][facts["default"]][target]
        best = best_other(facts, target)
        others = {OWN: "own curves", best: f"the best other source, {best}"}
        compared = [
            _compared(facts, target, name, words)
            for name, words in others.items()
            if name is not None and name in facts["sources"]
        ]
        if errors["wape"] is not None and compared:
            sentences.append(
                f"Error of {target} (WAPE): {_percent(errors['wape'])} with the default (bias "
                f"{_signed(errors['bias'])}), {' and '.join(compared)}."
            )
    return sentences


def _compared(facts: dict[str, Any], target: str, name: str, words: str) -> str:
    """Return the error of a source, and the difference of the default's from it."""
    (row,) = (row for row in facts["differences"] if (row["b"], row["target"]) == (name, target))
    wape, difference = facts["sources"][name][target]["wape"], row["difference"]
    if wape is None or difference is None:
        return f"unknown with {words}"
    points = f"{100 * difference:+.1f}".replace("-", "−")
    error = row["standard_error"]
    known = "" if error is None else f" ± {100 * error:.1f}"
    return f"{_percent(wape)} with {words} (difference {points}{known} percentage points)"


def _error_table(facts: dict[str, Any], names: list[str]) -> Table:
    """Return a table with a row per source and three measures per target."""
    from rich.table import Table
    from rich.text import Text

    rows = layout.figures_table(["source"], [])
    for name in names:
        rows.add_row(_marked(name, facts))
    parts = {"": rows}
    for target in shown_targets(facts):
        parts[target] = table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.header_style = "dim"
        for heading in ("WAPE", "MAPE", "bias"):
            table.add_column(heading, justify="right", no_wrap=True)
        wapes = [source[target]["wape"] for source in facts["sources"].values()]
        lowest = min((wape for wape in wapes if wape is not None), default=None)
        for row in (facts["sources"][name][target] for name in names):
            is_lowest = lowest is not None and row["wape"] == lowest
            wape = Text(_percent(row["wape"]), "bold" if is_lowest else "")
            table.add_row(wape, _percent(row["mape"]), _signed(row["bias"]))
    return _side_by_side(parts)


def _side_by_side(parts: dict[str, Table]) -> Table:
    """Return tables with as many rows side by side, each below its heading."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading in parts:
        table.add_column(Text(heading))
    table.add_row(*parts.values())
    return table


def _marked(name: str, facts: dict[str, Any]) -> str:
    return f"{name} *" if name == facts["default"] else name


def _coverage_table(facts: dict[str, Any]) -> Table:
    """Return the coverage of each target at each level, for both kinds of supply."""
    coverage = coverage_by_level(facts)
    names = layout.figures_table(["interval of"], [])
    levels = [f"{level:.0%}" for level in coverage["levels"]]
    parts = {mode: layout.figures_table([], levels) for mode in ("given", "forecast")}
    for row in coverage["rows"]:
        names.add_row(row["target"])
        for mode, part in parts.items():
            part.add_row(*map(_percent, row[mode]))
    titled = {f"number of auctions {mode}": part for mode, part in parts.items()}
    return _side_by_side({"": names, **titled})


def _coverage_by_stratum(facts: dict[str, Any]) -> Table:
    """Return the coverage of impressions and spend at 90%, by number of bids before."""
    names = layout.figures_table(["bids before"], ["advertisers"])
    modes = ("given", "forecast")
    parts = {target: layout.figures_table([], modes) for target in _COMPARED}
    for row in coverage_by_stratum(facts):
        names.add_row(row["name"], f"{row['advertisers']:,}")
        for target, part in parts.items():
            part.add_row(*(_percent(row[target][mode]) for mode in modes))
    return _side_by_side({"": names, **parts})


def _stratum_table(facts: dict[str, Any], names: list[str]) -> Table:
    strata = errors_by_stratum(facts)
    table = layout.figures_table(["source"], [stratum["name"] for stratum in strata])
    for name in names:
        wapes = [stratum["sources"][name]["impressions"]["wape"] for stratum in strata]
        table.add_row(_marked(name, facts), *map(_percent, wapes))
    table.add_row(
        "advertisers", *(f"{stratum['advertisers']:,}" for stratum in strata), style="dim"
    )
    return table


def _paper_table(contents: dict[str, Any]) -> Table:
    """Return a table of the paper, with errors and shares of pairs in percent."""
    columns, rows = contents["columns"], contents["rows"]
    is_text = [any(isinstance(row[place], str) for row in rows) for place in range(len(columns))]
    # The text columns come first, and all others are figures.
    n_names = is_text.index(False) if False in is_text else len(columns)
    table = layout.figures_table(columns[:n_names], columns[n_names:])
    for row in rows:
        table.add_row(*map(figure_in, row, columns))
    return table


def _percent(value: float | None) -> str:
    """Return a share in percent, without decimals from 100% on, to save width."""
    if value is None:
        return "–"
    if abs(value) < 0.0005:
        return "0.0%"  # never −0.0%
    return f"{value:{'.0%' if abs(value) >= 0.9995 else '.1%'}}".replace("-", "−")


def _signed(value: float | None) -> str:
    return f"+{_percent(value)}" if value is not None and value >= 0.0005 else _percent(value)
