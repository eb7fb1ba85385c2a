"""The benchmarks that compare consensus functions: ``table2``, ``table3`` and ``regret``.

Beside them ``divided``, which compares two ways to compute one of them. They are registered in
:mod:`benchmarks.program`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.command_steps import (
    Data,
    Jobs,
    Json,
    Keep,
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

__all__ = ["divided", "table2", "table3"]

Draws = Annotated[
    int | None, typer.Option("--draws", min=1, help="Draws of each cell: 20, with --quick 2.")
]
Patience = Annotated[
    float,
    typer.Option(
        min=1, help="Processor seconds after which a method gets no further draws of a cell."
    ),
]


def table2(
    as_json: Json = False,
    draws: Draws = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sets, one recipe, 2 draws; two minutes.")
    ] = False,
    all_methods: Annotated[
        bool, typer.Option("--all-methods", help="Every consensus function, not only the paper's.")
    ] = False,
    keep: Keep = None,
    data: Data = None,
    jobs: Jobs = None,
    patience: Patience = 60.0,
    output: Output = None,
) -> None:
    """The paper's table 2: accuracy of consensus functions on eight sets, several recipes.

    Example: python -m benchmarks table2 --data FOLDER --keep draws -o table2-report
    """
    from benchmarks.paper_tables import run_table2

    run = partial(run_table2, all_methods=all_methods)
    _paper_table("table2", run, as_json, draws, quick, keep, data, jobs, patience, output)


def table3(
    as_json: Json = False,
    draws: Draws = None,
    quick: Annotated[bool, typer.Option("--quick", help="The small set, 2 draws.")] = False,
    keep: Keep = None,
    data: Data = None,
    jobs: Jobs = None,
    patience: Patience = 60.0,
    output: Output = None,
) -> None:
    """The paper's table 3: accuracy on images seen in several views.

    Example: python -m benchmarks table3 --data FOLDER --keep draws -o table3-report
    """
    from benchmarks.paper_tables import run_table3

    _paper_table("table3", run_table3, as_json, draws, quick, keep, data, jobs, patience, output)


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


def _paper_table(
    name: str,
    run: Callable[..., Any],
    as_json: bool,
    draws: int | None,
    quick: bool,
    keep: Path | None,
    data: Path | None,
    jobs: int | None,
    patience: float,
    output: Path | None,
) -> None:
    """Run one of the paper's tables, and show and write what came out."""
    prepare_folder(output, [f"{name}.{suffix}" for suffix in ("json", "md", "html", "png")])
    prepare_folder(keep, ())
    if output is not None:
        require_matplotlib()
    from benchmarks import paper_tables_page as page
    from benchmarks import paper_tables_report as report
    from benchmarks.environment import environment
    from benchmarks.paper_tables import RunSettings

    settings = RunSettings(draws or (2 if quick else 20), keep, data, patience, jobs)
    with progress("clustering", None) as advance:
        results = run(settings, quick=quick, after_cell=advance)
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        picture = page.as_picture(results)
        write_files(
            {
                output / f"{name}.json": text_file(as_json_text(everything)),
                output / f"{name}.md": text_file(page.as_page(results, described)),
                output / f"{name}.html": text_file(page.as_html(results, described, picture)),
                output / f"{name}.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    tables = [report.printed_table(results.table), *report.as_tables(results)]
    lines = [*report.summary_lines(results), *as_notes(report.notes(results))]
    show(as_json, everything, tables, lines, output)
