"""The benchmarks that compare consensus functions: ``table2``, ``table3`` and ``regret``.

Beside them ``divided``, which compares two ways to compute one of them. They are registered in
:mod:`benchmarks.program`.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from benchmarks.command_steps import (
    Json,
    Output,
    as_json_text,
    prepare_folder,
    progress,
    require_matplotlib,
    show,
    text_file,
    write_files,
)

__all__ = ["divided"]


def divided(
    as_json: Json = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A quarter of the points, planted cells only.")
    ] = False,
    output: Output = None,
) -> None:
    """The robust relaxation in parts beside the undivided one: objective, accuracy, time.

    Example: python -m benchmarks divided -o divided-report
    """
    prepare_folder(output, ("divided.json", "divided.md", "divided.png"))
    if output is not None:
        require_matplotlib()
    from benchmarks import divided_report as report
    from benchmarks.divided import CELLS, QUICK_CELLS, run_divided
    from benchmarks.environment import environment

    with progress("dividing", None) as advance:
        results = run_divided(QUICK_CELLS if quick else CELLS, before_step=advance)
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        picture, page = report.as_picture(results), report.as_page(results, described)
        write_files(
            {
                output / "divided.json": text_file(as_json_text(everything)),
                output / "divided.md": text_file(page),
                output / "divided.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    show(as_json, everything, [report.as_table(results)], report.summary_lines(results), output)
