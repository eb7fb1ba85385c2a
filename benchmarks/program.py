"""The commands ``python -m benchmarks …``."""

from __future__ import annotations

from typing import Annotated

import typer

from benchmarks.command_steps import (
    Json,
    Output,
    as_json_text,
    as_notes,
    prepare_folder,
    progress,
    show,
    text_file,
    write_files,
)
from benchmarks.consensus_commands import divided
from benchmarks.incremental import growing
from benchmarks.scale_commands import gpu, relaxation, scale, tables

__all__ = ["app"]

app = typer.Typer(
    name="bench",
    help="Measurements anybody can repeat.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def speed(
    as_json: Json = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the rows or fewer; some minutes.")
    ] = False,
    repeats: Annotated[
        int, typer.Option(min=1, help="Most runs of each contender; the median counts.")
    ] = 3,
    output: Output = None,
) -> None:
    """Time and peak memory, side by side with other ways to the same answer.

    Run it on a machine that does nothing else. Example: python -m benchmarks speed -o speed-report
    """
    prepare_folder(output, ("speed.json", "speed.md"))
    from benchmarks import speed_report as report
    from benchmarks.environment import environment
    from benchmarks.speed import FULL, QUICK, run_speed

    with progress("measuring", None) as advance:
        results = run_speed(QUICK if quick else FULL, repeats, before_step=advance)
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        page = report.as_page(results, described)
        write_files(
            {
                output / "speed.json": text_file(as_json_text(everything)),
                output / "speed.md": text_file(page),
            }
        )
    lines = [report.METHOD, *as_notes(report.notes(results))]
    show(as_json, everything, report.as_tables(results), lines, output)


app.command()(divided)
app.command()(growing)
app.command()(relaxation)
app.command()(gpu)
app.command()(scale)
app.command()(tables)
