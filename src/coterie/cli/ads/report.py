"""``coterie ads report``: from a log to one HTML file."""

from __future__ import annotations

import math
import shlex
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.ads.check import faults_as_notes
from coterie.cli.ads.evaluate import HoldoutDays, verdicts
from coterie.cli.ads.inputs import reading, subjects
from coterie.cli.ads.inputs.reading import LogOptions, with_log_options
from coterie.cli.ads.segment import day_weights_in_words, fit_model, model_facts
from coterie.cli.layout import counted
from coterie.cli.outputs import write_all
from coterie.cli.progress import progress_unless, shown_notes
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import percent, signed

if TYPE_CHECKING:
    from coterie.ads.evaluation.evaluation import Evaluation
    from coterie.ads.fitting.forecaster import AdForecaster
    from coterie.ads.report.contents import Report
    from coterie.ads.segments.settings import SegmentSettings

TITLE = "Advertising segments and forecasts"


@with_log_options
def report(
    logs: reading.Logs,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write.")
    ],
    holdout_days: HoldoutDays = 1,
    evaluation: Annotated[
        bool, options.flag("Measure the forecast error on the last days.")
    ] = True,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Use this model of the log instead of fitting one; its settings replace -k, "
            "--consensus and --seed.",
        ),
    ] = None,
    save_model: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL", help="Write the fitted model here, for coterie ads forecast."
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = TITLE,
    by: reading.By = "advertiser",
    segments: reading.Segments = "8,12,16",
    consensus: reading.Consensus = "robust",
    allow_faults: reading.AllowFaults = False,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    *,
    log_options: LogOptions,
) -> None:
    """Make a report of a log: segments, forecasts at any bid, and their errors.

    The report is one HTML file that needs no network. The reader chooses an
    advertiser and a bid, and sees the forecast of impressions and spend.

    The command fits two models: one to all days, as coterie ads segment does,
    and one to the days before the last, to measure the error. --model takes
    the place of the first, and --no-evaluation leaves out the second.

    Example: coterie ads report market -o report.html
    """
    if model is not None and save_model is not None:
        raise InvalidParameterError("--model and --save-model exclude each other; give one")
    outputs = {"report": output, "model": save_model}
    source = reading.LogInput(logs, log_options, outputs, by)
    source.check_outputs()
    settings = reading.segment_settings(segments, consensus, seed)
    with shown_notes(quiet) as notes, progress_unless(quiet):
        fitted = None
        if model is not None:
            from coterie.ads.fitting.forecaster import load_forecaster

            subjects.refuse_model(output, model, "the report")
            fitted = load_forecaster(model)
        log = source.read(allow_faults)
        made = make_report(log, settings, holdout_days if evaluation else 0, title, fitted)
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
        from coterie.models import save_model as save

        steps: dict[Path, Callable[[Path], None]] = {
            output: lambda path: write_report(self.payload, path)
        }
        if save_model is not None:
            steps[save_model] = lambda path: save(self.model, path)
        return steps


def make_report(
    log: reading.CountedLog,
    settings: SegmentSettings,
    holdout_days: int,
    title: str = TITLE,
    fitted: AdForecaster | None = None,
) -> MadeReport:
    """Evaluate, fit, and collect the contents of the page.

    A model that was ``fitted`` to the log is used with its settings instead. With 0 holdout days
    there is no evaluation. With too few days there is none either, and the page says so.
    """
    from coterie.ads.report.contents import report_payload

    if fitted is not None:
        settings = _settings_of(fitted, log)
    evaluation, n_days = None, len(log.histograms.days)
    notes = faults_as_notes(log.check)
    if holdout_days and n_days > holdout_days:
        evaluation = _evaluated(log, settings, holdout_days)
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
    model = fit_model(log, settings) if fitted is None else fitted
    payload = report_payload(
        model,
        evaluation,
        source=log.logs.source,
        engine=log.logs.engine,
        quality=notes,
        steps=_steps(model, evaluation),
        title=title,
    )
    return MadeReport(model, evaluation, payload)


def _settings_of(model: AdForecaster, log: reading.CountedLog) -> SegmentSettings:
    """Return the settings of a model; refuse a model of other days or advertisers than the log."""
    import numpy as np

    from coterie.ads.segments.settings import SegmentSettings

    counted_log = log.histograms
    for name, of_model, of_log in (
        ("days", model.days_, counted_log.days),
        ("advertisers", model.advertisers_, counted_log.advertisers),
    ):
        if not np.array_equal(of_model, of_log):
            raise InvalidParameterError(
                f"--model: it was fitted to {len(of_model):,} {name}, and the log has "
                f"{len(of_log):,}, not the same ones; give the model of this log, or none"
            )
    return SegmentSettings(
        **{one.name: getattr(model, one.name) for one in fields(SegmentSettings)}
    )


def _evaluated(log: reading.CountedLog, settings: SegmentSettings, holdout_days: int) -> Evaluation:
    """Evaluate without the warnings about its model; those of the final model are shown."""
    from coterie.ads.evaluation.evaluation import evaluate

    with warnings.catch_warnings(record=True) as raised:
        evaluation = evaluate(
            log.histograms, log.texts, holdout_days=holdout_days, settings=settings
        )
    for one in raised:
        if str(one.message) not in evaluation.model.warnings_:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return evaluation


def _steps(model: AdForecaster, evaluation: Evaluation | None) -> list[tuple[str, str]]:
    """Describe how the report was made, step by step."""
    choice, agreement = model.choice_, model.agreement_
    share = (
        "an advertiser's own auctions are not used next to them"
        if math.isinf(choice.strength)
        else f"they count as much as {choice.strength:g} of its own auctions"
    )
    width = "too few days to calibrate them, so errors are taken as normal"
    if choice.days:
        n = counted(model.calibration_.forecasts, "forecast")
        width = f"calibrated by the errors of {n} of the last days from the days before"
    steps = {
        "Command": shlex.join(["coterie", *sys.argv[1:]]),
        "Histograms": "bids, wins, cost and prices by advertiser, day and bin of the price; the "
        f"log uses {len(model.edges_)} bins, each about 2.4% wide",
        "Views": f"{', '.join(agreement.names) or 'none'}, each at several settings",
        "Segments": f"{len(model.segments_)}, from the consensus of the views, then adjusted by "
        "each advertiser's own auctions and text",
        "Levels": "prices of each day relative to other days, and the number of auctions of each "
        "day; both are continued by their weekdays, trend and variation",
        "Market curves": "a dictionary of curves, the share of auctions won by bid, fitted to all "
        "advertisers at a common price level; each advertiser has a mixture of them, which its "
        "segment and its own auctions decide",
        "Completion": "where an advertiser has bids, its own auctions correct these curves; "
        + share,
        "Intervals": "from chance, the uncertainty of curves and price levels, and that of the "
        f"number of auctions if it is forecast; {width}",
    }
    if choice.days:
        steps["Choice"] = (
            f"{counted(choice.n_segments, 'segment')} and "
            f"{day_weights_in_words(choice.half_life)}, with the smallest error when each of the "
            f"last {counted(choice.days, 'day')} was forecast from those before: "
            f"{percent(choice.error)}, bias {signed(choice.bias)}"
        )
    if evaluation is not None:
        steps["Evaluation"] = (
            f"{', '.join(evaluation.days)} held out; a model of the days before forecast the bids "
            "of that time, through the same tables as this page and the service"
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
