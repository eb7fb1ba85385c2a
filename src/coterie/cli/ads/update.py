"""``coterie ads update``: add the days of a new log to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.ads.inputs import reading, subjects
from coterie.cli.ads.inputs.reading import LogOptions, with_log_options
from coterie.cli.ads.segment import model_facts, print_segments
from coterie.cli.layout import counted
from coterie.cli.outputs import write_all
from coterie.cli.progress import progress_unless, shown_notes
from coterie.runtime.wording import exact


@with_log_options
def update(
    model: subjects.Model,
    new_log: Annotated[
        list[str],
        typer.Argument(
            metavar="NEWLOG", help="Log of the new days only; see LOGS of coterie ads segment."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Model file to write; by default MODEL is replaced.",
        ),
    ] = None,
    dimension: reading.Dimensions = None,
    allow_faults: reading.AllowFaults = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    *,
    log_options: LogOptions,
) -> None:
    """Add the days of a new log to a model, without the old log.

    The result is that of coterie ads segment on the old and the new log, with
    the options of the first run. A dimension of the model whose column has
    another name is given with --dimension NAME=COLUMN. None of the new days
    may be in the model, and currency and auction type must be the same. The
    model file is replaced completely or not at all.

    Example: coterie ads update market.coterie logs/2026-03-09.parquet
    """
    import numpy as np

    from coterie.ads.fitting.forecaster import load_forecaster
    from coterie.models import save_model

    target = model if output is None else output
    columns = reading.dimensions_in(dimension)
    source = reading.LogInput(new_log, log_options, {"model": target}, dimensions=columns)
    source.check_outputs()
    with shown_notes(quiet) as notes, progress_unless(quiet):
        forecaster = load_forecaster(model)
        unit = forecaster.stored_days_.unit if forecaster.stored_days_ else "advertiser"
        dimensions = forecaster.targets_.dimensions if forecaster.targets_ else []
        log = source.like_model(forecaster.auction_, unit, dimensions).read(allow_faults)
        new = log.histograms
        added = {
            "source": log.logs.source,
            "days": [str(day) for day in new.days],
            "new_advertisers": len(np.setdiff1d(new.advertisers, forecaster.advertisers_)),
            "bids": float(new.bids.count.sum()),
        }
        forecaster.update(new, log.texts, targets=log.targets)
        write_all({target: lambda path: save_model(forecaster, path)})
    facts = model_facts(forecaster) | {
        "source": str(target),
        "added": added,
        "notes": notes,
        "written": [str(target)],
    }
    layout.print_answer(facts, _print_summary, as_json, quiet)


def _print_summary(facts: dict[str, Any]) -> None:
    added, console = facts["added"], layout.stdout_console()
    first, *others = added["days"]
    when = f"{first} to {others[-1]}" if others else first
    layout.print_heading(
        console,
        added["source"],
        f": added {counted(len(added['days']), 'day')} ({when}), {exact(added['bids'])} bids and "
        f"{counted(added['new_advertisers'], 'new advertiser')}",
    )
    console.print()
    print_segments(facts)
