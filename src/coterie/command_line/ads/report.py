"""``coterie ads report``: from a log to one HTML file."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.command_line.ads import reading
from coterie.command_line.ads.check import faults_as_notes
from coterie.command_line.ads.evaluate import HoldoutDays, verdicts
from coterie.command_line.ads.segment import fit_model, model_facts
from coterie.command_line.terminal import layout, options
from coterie.command_line.terminal.layout import counted
from coterie.command_line.terminal.outputs import write_all
from coterie.command_line.terminal.progress import shown_notes, shown_stages
from coterie.errors import MissingExtraError

if TYPE_CHECKING:
    from coterie.ads.forecasts.evaluation import Evaluation
    from coterie.ads.forecasts.forecaster import AdForecaster
    from coterie.ads.report.contents import Report
    from coterie.ads.segments.settings import SegmentSettings

__all__ = ["MadeReport", "check_can_render", "make_report", "report"]

TITLE = "Advertising segments and forecasts"


def report(
    logs: reading.Logs,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write.")
    ],
    holdout_days: HoldoutDays = 1,
    evaluation: Annotated[
        bool, typer.Option(metavar="", help="Measure the forecast error on the last days.")
    ] = True,
    save_model: Annotated[
        Path | None,
        typer.Option(
            "--save-model",
            metavar="MODEL",
            help="Write the model here, for coterie ads forecast.",
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = TITLE,
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
    """Make a report of a log: segments, forecasts at any bid, and their errors.

    The report is one HTML file that needs no network. The reader chooses an
    advertiser and a bid, and sees the forecast of impressions and spend.

    Example: coterie ads report market -o report.html
    """
    source = reading.LogInput(
        logs, engine, advertisers, table, auction, {"report": output, "model": save_model}
    )
    source.check_outputs()
    check_can_render()
    settings = reading.segment_settings(segments, consensus, seed)
    with shown_notes(quiet) as notes, shown_stages(quiet):
        log = source.read(bins, allow_faults)
        made = make_report(log, settings, holdout_days if evaluation else 0, title)
        write_all(made.steps(output, save_model))
    facts = model_facts(made.model) | {"source": log.logs.source, "notes": notes}
    facts["written"] = [str(path) for path in (output, save_model) if path is not None]
    if made.evaluation is not None:
        facts["evaluation"] = made.evaluation.as_dict()
    layout.print_answer(facts, _print_summary, as_json, quiet)


@dataclass(frozen=True)
class MadeReport:
    """A model, its evaluation on held-out days if there was one, and the contents of the page."""

    model: AdForecaster
    evaluation: Evaluation | None
    payload: Report

    def steps(self, output: Path, save_model: Path | None) -> dict[Path, Callable[[Path], None]]:
        """Return the functions that write the page, and the model if requested."""
        from coterie.ads.report.rendering import write_report
        from coterie.files.model_files import save_model as save

        steps: dict[Path, Callable[[Path], None]] = {
            output: lambda path: write_report(self.payload, path)
        }
        if save_model is not None:
            steps[save_model] = lambda path: save(self.model, path)
        return steps


def make_report(
    log: reading.CountedLog, settings: SegmentSettings, holdout_days: int, title: str = TITLE
) -> MadeReport:
    """Evaluate, fit, and collect the contents of the page.

    With 0 holdout days there is no evaluation. With too few days there is none either, and the
    page says so.
    """
    from coterie.ads.forecasts.evaluation import evaluate
    from coterie.ads.report.contents import report_payload

    found, n_days = None, len(log.histograms.days)
    notes = faults_as_notes(log.check)
    if holdout_days and n_days > holdout_days:
        found = evaluate(log.histograms, log.texts, holdout_days=holdout_days, settings=settings)
    elif holdout_days:
        notes.append(
            {
                "severity": "note",
                "what": "the log has too few days to hold out, so the forecasts were not tested",
                "count": n_days,
                "examples": [],
            }
        )
    # Fitted to all days, so that the model is the same with and without an evaluation.
    model = fit_model(log, settings)
    payload = report_payload(
        model,
        found,
        source=log.logs.source,
        engine=log.logs.engine,
        quality=notes,
        steps=_steps(model, found),
        title=title,
    )
    return MadeReport(model, found, payload)


def check_can_render() -> None:
    """Refuse, before the work, if a package for logs or pages is not installed."""
    missing = [name for name in ("ibis", "jinja2") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the report needs {' and '.join(missing)}: pip install 'coterie[ads]'"
        )


def _steps(model: AdForecaster, found: Evaluation | None) -> list[tuple[str, str]]:
    """Describe how the report was made, step by step."""
    choice, agreement = model.choice_, model.agreement_
    estimates = {
        "hazard": "Kaplan–Meier: a win gives the market price, a loss a lower bound of it",
        "rate": "isotonic regression of wins on bids",
    }
    bins = f"{len(model.edges_)} bins of bid"
    steps = {
        "Command": shlex.join(["coterie", *sys.argv[1:]]),
        "Histograms": f"bids, wins, cost and prices by advertiser, day and {bins}",
        "Curves": estimates[model.form_],
        "Views": f"{', '.join(agreement.names) or 'none'}, each at several settings",
        "Segments": f"{len(model.segments_)}, from the consensus of the views, then adjusted by "
        "each advertiser's own auctions and text",
        "Pooling": "each advertiser's auctions combined with those of its segments, strength "
        f"{choice.strength:g} trials per bin",
    }
    if choice.days:
        steps["Choice"] = (
            "number of segments and strength with the lowest error in a backtest of "
            f"{counted(choice.days, 'day')} ({choice.error:.1%})"
        )
    if found is not None:
        steps["Evaluation"] = (
            f"{', '.join(found.days)} held out; forecast for the bids of that time"
        )
    return list(steps.items())


def _print_summary(facts: dict[str, Any]) -> None:
    console = layout.stdout_console()
    layout.print_heading(
        console,
        facts["source"],
        f": {counted(facts['advertisers'], 'advertiser')} in "
        f"{counted(len(facts['segments']), 'segment')}",
    )
    for sentence in verdicts(facts.get("evaluation", {})):
        console.print(sentence)
    layout.print_files(console, facts["written"])
