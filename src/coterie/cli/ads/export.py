"""``coterie ads export``: curves and forecasts of all advertisers as Parquet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from coterie.cli import layout, options
from coterie.cli.ads.forecast import bids_in
from coterie.cli.ads.inputs import subjects
from coterie.cli.layout import counted
from coterie.cli.progress import shown_bar
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from coterie.ads.decisions.model_export import ExportedTable

T = TypeVar("T", int, float)


def export(
    model: subjects.Model,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="New or empty folder for the tables; with one table also a .parquet file.",
        ),
    ],
    tables: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Tables to write: advertisers, segments, curves, forecasts.",
        ),
    ] = "advertisers,segments,curves,forecasts",
    bid: Annotated[
        str | None,
        typer.Option(
            "--bid",
            metavar="BID",
            help="Bids of the forecasts (CPM), for example 2.50; several as 2,2.5,3; a range as "
            "1:5:0.5. By default --factors of each advertiser's mean bid.",
        ),
    ] = None,
    factors: Annotated[
        str | None,
        typer.Option(
            "--factors",
            metavar="FACTORS",
            help="Bids of the forecasts, as multiples of each advertiser's mean bid in the log; by "
            "default 0.5,0.75,1,1.25,1.5,2. Not with --bid.",
        ),
    ] = None,
    day: subjects.Day = None,
    days: Annotated[
        str,
        typer.Option(
            metavar="N,N",
            help="Numbers of days to forecast together, from --day or the end of the log on.",
        ),
    ] = "1,7",
    level: subjects.Level = "90",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write curves and forecasts of all advertisers as Parquet tables.

    FOLDER receives advertisers.parquet, segments.parquet, curves.parquet (win
    rate, cost and marginal cost at every bid of the grid) and
    forecasts.parquet. The metadata of each column says what it means and in
    which unit. The folder appears only when it is complete, and the memory
    needed does not grow with the number of advertisers.

    Example: coterie ads export market.coterie -o tables --days 1,7,30
    """
    from coterie.ads.decisions.model_export import FACTORS, export_model
    from coterie.ads.service.served_model import file_version

    # loading a model takes longest, so everything else is read before
    if bid is not None and factors is not None:
        raise InvalidParameterError("--bid and --factors exclude each other; give one of them")
    how = f"--days {days}: write numbers of days, for example 1,7,30"
    numbers = _numbers(days, int, -math.inf, how)
    how = f"--factors {factors}: write numbers above 0, for example 0.5,1,2"
    multiples = FACTORS if factors is None else _numbers(factors, float, 0.0, how)
    bids = None if bid is None else bids_in(bid)
    subjects.refuse_model(output, model, "the tables")
    forecaster = subjects.load_quietly(model, quiet)
    with shown_bar("Writing tables", quiet) as report:
        exported = export_model(
            forecaster,
            output,
            tables=[name.strip() for name in tables.split(",")],
            bids=bids,
            factors=multiples,
            days=numbers,
            day=day,
            level=int(level) / 100,
            model_version=file_version(model),
            progress=report,
        )
    facts = {
        "source": str(model),
        "tables": [{"name": one.name, "path": str(one.path), "rows": one.rows} for one in exported],
    }
    layout.print_answer(facts, lambda _: _print_summary(str(model), exported), as_json, quiet)


def _numbers(written: str, kind: type[T], above: float, refusal: str) -> list[T]:
    """Return the numbers in ``1,7,30``, each above a number."""
    try:
        numbers = [kind(part) for part in written.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(above < number < math.inf for number in numbers):
        raise InvalidParameterError(refusal)
    return numbers


def _print_summary(source: str, exported: list[ExportedTable]) -> None:
    console = layout.stdout_console()
    rows = sum(one.rows for one in exported)
    layout.print_heading(
        console, source, f": {counted(rows, 'row')} in {counted(len(exported), 'table')}"
    )
    table = layout.figures_table(["table"], ["rows"])
    for one in exported:
        table.add_row(one.name, f"{one.rows:,}")
    layout.print_indented(console, table)
    layout.print_files(console, [one.path for one in exported])
