"""The benchmarks that compare consensus functions: ``table2``, ``table3`` and ``regret``.

Beside them ``divided``, which compares two ways to compute one of them. They are registered in
:mod:`benchmarks.program`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from coterie.errors import InvalidParameterError

if TYPE_CHECKING:
    from benchmarks.regret import RegretResults

__all__ = ["divided", "regret", "table2", "table3"]

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


def regret(
    as_json: Json = False,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws of each cell: 10, with --quick 1.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small cells that need no file, fast methods.")
    ] = False,
    keep: Keep = None,
    methods: Annotated[
        str | None, typer.Option(metavar="KEY,…", help="These methods only, by their keys.")
    ] = None,
    again: Annotated[
        str | None,
        typer.Option(metavar="KEY,…", help="Compute these anew though they are among the kept."),
    ] = None,
    data: Data = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Draws at a time.")] = 2,
    output: Output = None,
) -> None:
    """How far each consensus function stays behind the best one, over cells of four families.

    Example: python -m benchmarks regret --data FOLDER --keep draws -o regret-report
    """
    prepare_folder(output, ("regret.json", "regret.md", "regret.png"))
    prepare_folder(keep, ())
    if output is not None:
        require_matplotlib()
    from benchmarks import regret_page as page
    from benchmarks import regret_report as report
    from benchmarks.environment import environment

    n_draws = draws or (1 if quick else 10)
    results = _measured_regrets(n_draws, quick, keep, methods, again, data, jobs)
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        picture = page.as_picture(results)
        write_files(
            {
                output / "regret.json": text_file(as_json_text(everything)),
                output / "regret.md": text_file(page.as_page(results, described)),
                output / "regret.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    lines = [*report.summary_lines(results), *as_notes(report.notes(results))]
    show(as_json, everything, report.as_tables(results), lines, output)


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


def _measured_regrets(
    n_draws: int,
    quick: bool,
    keep: Path | None,
    methods: str | None,
    again: str | None,
    data: Path | None,
    jobs: int,
) -> RegretResults:
    from benchmarks.regret import RegretResults, available_cells, cell_regrets, run_regret

    chosen, anew = _chosen_methods(methods, again, quick)
    cells, missing = available_cells(data=data, quick=quick)
    with progress("drawing and clustering", len(cells) * n_draws) as advance:
        found = run_regret(
            cells,
            n_draws,
            methods=chosen,
            again=anew,
            keep=keep,
            data=data,
            n_jobs=jobs,
            after_draw=lambda: advance(None),
        )
    command = _regret_command(n_draws, quick, methods, data)
    return RegretResults(cell_regrets(cells, found), n_draws, missing, command)


def _chosen_methods(
    methods: str | None, again: str | None, quick: bool
) -> tuple[list[str], list[str]]:
    """Keys of the methods to run, and of those to compute anew; unknown ones are refused."""
    from benchmarks.regret import quick_methods
    from coterie.consensus.registry import CONSENSUS_METHODS

    if methods is not None:
        chosen = _keys(methods, "--methods")
    else:
        chosen = quick_methods() if quick else list(CONSENSUS_METHODS)
    anew = [] if again is None else _keys(again, "--again")
    for key in anew:
        if key not in chosen:
            raise InvalidParameterError(
                f"--again names {key}, which is not among the methods to be run "
                f"({', '.join(chosen)}); add it to --methods"
            )
    return chosen, anew


def _keys(text: str, option: str) -> list[str]:
    """Keys of methods, separated by commas, each once."""
    from coterie.consensus.registry import consensus_method

    keys = [key.strip() for key in text.split(",") if key.strip()]
    if not keys:
        raise InvalidParameterError(f"{option} names no method: give keys separated by commas")
    return list(dict.fromkeys(consensus_method(key).key for key in keys))


def _regret_command(n_draws: int, quick: bool, methods: str | None, data: Path | None) -> str:
    """The command with what decides the figures; where folders are does not."""
    parts = ["python -m benchmarks regret", f"--draws {n_draws}"]
    parts += ["--quick"] if quick else []
    parts += [f"--methods {methods}"] if methods is not None else []
    parts += ["--data FOLDER"] if data is not None else []
    return " ".join(parts)


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
