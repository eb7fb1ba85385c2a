"""``coterie ads report``: the whole job, from a log to one HTML file."""

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
from coterie.command_line.ads.layout import (
    counted,
    print_files,
    print_heading,
    stdout_console,
)
from coterie.command_line.ads.segment import forecaster_of, model_facts
from coterie.command_line.terminal import options
from coterie.command_line.terminal.outputs import write_all
from coterie.command_line.terminal.progress import shown_notes, shown_stages
from coterie.command_line.terminal.summary import print_json
from coterie.errors import MissingExtraError

if TYPE_CHECKING:
    from coterie.ads.forecasts.evaluation import Evaluation
    from coterie.ads.forecasts.forecaster import AdForecaster
    from coterie.ads.report.contents import Report
    from coterie.ads.segments.settings import SegmentSettings

__all__ = ["MadeReport", "check_can_render", "made_report", "report"]

TITLE = "Advertising segments and forecasts"


def report(
    logs: reading.Logs,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")
    ],
    holdout_days: HoldoutDays = 1,
    evaluation: Annotated[
        bool, typer.Option(help="Hold out the last days to tell how good forecasts are.")
    ] = True,
    save_model: Annotated[
        Path | None,
        typer.Option("--save-model", metavar="MODEL", help="Keep the model for ads forecast."),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page.")] = TITLE,
    advertisers: reading.AdvertiserTable = None,
    segments: reading.Segments = "8,12,16",
    consensus: reading.Consensus = "robust",
    engine: reading.Engine = "duckdb://",
    table: reading.Log = None,
    auction: reading.Auction = None,
    bins: reading.Bins = 256,
    allow_faults: reading.AllowFaults = False,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Make the report of a log: segments, forecasts at any bid, and how good they are.

    One HTML file that needs nothing but itself. Choose an advertiser
    and a bid in it, and see impressions and spend.

    Example: coterie ads report market -o report.html
    """
    reading.check_outputs({"report": output, "model": save_model}, logs, advertisers, engine)
    check_can_render()
    settings = reading.segment_settings(segments, consensus, seed)
    with shown_notes(quiet) as notes, shown_stages(quiet):
        source = reading.read_source(logs, engine, advertisers, table, auction, bins, allow_faults)
        made = made_report(source, settings, holdout_days if evaluation else 0, title)
        write_all(made.steps(output, save_model))
    facts = model_facts(made.model) | {"source": source.logs.source, "notes": notes}
    facts["written"] = [str(path) for path in (output, save_model) if path is not None]
    if made.evaluation is not None:
        facts["evaluation"] = made.evaluation.as_dict()
    if as_json:
        print_json(facts)
    elif not quiet:
        _print_for_people(facts)


@dataclass(frozen=True)
class MadeReport:
    """A model, its evaluation on days held out where there was one, and the page about them."""

    model: AdForecaster
    evaluation: Evaluation | None
    payload: Report

    def steps(self, output: Path, save_model: Path | None) -> dict[Path, Callable[[Path], None]]:
        """How to write the page, and the model if it is to be kept."""
        from coterie.ads.report.rendering import write_report
        from coterie.files.model_files import save_model as save

        steps: dict[Path, Callable[[Path], None]] = {
            output: lambda path: write_report(self.payload, path)
        }
        if save_model is not None:
            steps[save_model] = lambda path: save(self.model, path)
        return steps


def made_report(
    source: reading.Source,
    settings: SegmentSettings,
    holdout_days: int,
    title: str = TITLE,
) -> MadeReport:
    """Evaluate, fit, and gather what the page shows.

    Parameters
    ----------
    source : Source
    settings : SegmentSettings
    holdout_days : int
        0 is not to evaluate. With too few days to hold any out the evaluation is left out too,
        and the page says so.
    title : str
        Of the page.
    """
    from coterie.ads.forecasts.evaluation import evaluate
    from coterie.ads.report.contents import report_payload

    histograms, found = source.histograms, None
    notes = faults_as_notes(source.check)
    if holdout_days and len(histograms.days) > holdout_days:
        found = evaluate(histograms, source.texts, holdout_days=holdout_days, settings=settings)
    elif holdout_days:
        notes.append(_too_few_days(len(histograms.days)))
    # chosen anew, on all days: one log has one model, whether an evaluation looked at it or not
    model = forecaster_of(settings).fit(histograms, source.texts)
    payload = report_payload(
        model,
        found,
        source=source.logs.source,
        engine=source.logs.engine,
        quality=notes,
        steps=_steps(model, found),
        title=title,
    )
    return MadeReport(model, found, payload)


def check_can_render() -> None:
    """Refuse, before the work, where what reads logs or writes pages is not installed."""
    missing = [name for name in ("ibis", "jinja2") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the report needs {' and '.join(missing)}, not installed here: "
            "pip install 'coterie[ads]'"
        )


def _too_few_days(n_days: int) -> dict[str, Any]:
    return {
        "severity": "note",
        "what": "too few days to hold any out, so the forecasts were not tested",
        "count": n_days,
        "examples": [],
    }


def _steps(model: AdForecaster, found: Evaluation | None) -> list[tuple[str, str]]:
    """How the report was made, in the order it was."""
    choice, agreement = model.choice_, model.agreement_
    grounds = {
        "hazard": "Kaplan–Meier: a win tells the market price, a loss that it is above the bid",
        "rate": "isotonic regression of wins on bids",
    }
    steps = [
        ("Command", shlex.join(["coterie", *sys.argv[1:]])),
        (
            "Histograms",
            f"bids, wins, cost and prices by advertiser, day and {len(model.edges_)} bins of bid",
        ),
        ("Curves", grounds[model.form_]),
        ("Views", f"{', '.join(agreement.names) or 'none'}, each at several settings"),
        (
            "Segments",
            f"{len(model.segments_)}, from the consensus of the views, then by each advertiser's "
            "own auctions and its text",
        ),
        (
            "Pooling",
            f"own evidence completed by that of the segments, strength {choice.strength:g} trials "
            "a bin",
        ),
    ]
    if choice.days:
        steps.append(
            (
                "Choice",
                f"number of segments and strength by forecasting {choice.days} days from those "
                f"before, error {choice.error:.1%}",
            )
        )
    if found is not None:
        steps.append(
            ("Evaluation", f"{', '.join(found.days)} held out, forecast from the bids made then")
        )
    return steps


def _print_for_people(facts: dict[str, Any]) -> None:
    console = stdout_console()
    told = (
        f": {counted(facts['advertisers'], 'advertiser')} in "
        f"{counted(len(facts['segments']), 'segment')}"
    )
    print_heading(console, facts["source"], told)
    for sentence in verdicts(facts.get("evaluation", {})):
        console.print(sentence)
    print_files(console, facts["written"])
