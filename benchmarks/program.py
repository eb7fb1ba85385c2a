"""The commands ``python -m benchmarks …``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.command_steps import (
    Json,
    Output,
    as_json_text,
    as_notes,
    prepare_folder,
    progress,
    require_matplotlib,
    show,
    text_file,
    write_files,
)
from benchmarks.serve_command import serve

__all__ = ["app"]

app = typer.Typer(
    name="bench",
    help="Measurements anybody can repeat.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.command()(serve)


@app.command()
def peers(
    as_json: Json = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="At most 1,000 points and 3 s a trial; two minutes.")
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, metavar="S", help="Most a trial may take: 60, with --quick 3."),
    ] = None,
    environments: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The peers' environments, made if not there."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep each trial here, and go on from those kept."),
    ] = None,
    output: Output = None,
) -> None:
    """Accuracy, time, memory and largest n, beside the packages one would pick instead.

    Each is installed by pip into an environment of its own, in the user's cache unless told
    otherwise. Run it on a machine that does nothing else.
    Example: python -m benchmarks peers --keep trials -o peers-report
    """
    prepare_folder(output, ("peers.json", "peers.md", "peers.png"))
    prepare_folder(keep, ())
    if output is not None:
        require_matplotlib()
    from benchmarks import peers_report as report
    from benchmarks.environment import environment
    from benchmarks.peers import FULL, QUICK, run_peers

    effort = QUICK if quick else FULL
    if seconds is not None:
        effort = replace(effort, limits=replace(effort.limits, seconds=seconds))
    with progress("comparing", None) as advance:
        results = run_peers(effort, environments=environments, keep=keep, before_step=advance)
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        picture, page = report.as_picture(results), report.as_page(results, described)
        write_files(
            {
                output / "peers.json": text_file(as_json_text(everything)),
                output / "peers.md": text_file(page),
                output / "peers.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    lines = [report.METHOD, *report.summary_lines(results), *as_notes(report.notes(results))]
    show(as_json, everything, report.as_tables(results), lines, output)
