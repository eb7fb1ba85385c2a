"""The commands ``python -m benchmarks …`` about size and speed on one machine."""

from __future__ import annotations

import shutil
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

__all__ = ["gpu", "relaxation", "scale", "tables"]

_MOST_RELAXED_QUICKLY = 5_000
_SIZES, _QUICK_SIZES = (2_000, 5_000, 10_000, 30_000, 100_000, 200_000), (2_000, 10_000)


def gpu(
    as_json: Json = False,
    steps: Annotated[int, typer.Option(min=5, help="Steps of the relaxation.")] = 60,
    quick: Annotated[bool, typer.Option("--quick", help="Up to 10,000 points.")] = False,
    output: Output = None,
) -> None:
    """Milliseconds a step of the robust relaxation on a GPU, beside plain tensor code and the CPU.

    Example: python -m benchmarks gpu -o gpu-report
    """
    prepare_folder(output, ("gpu.json", "gpu.md", "gpu.png"))
    if output is not None:
        require_matplotlib()
    from benchmarks import gpu_report as report
    from benchmarks.environment import environment
    from benchmarks.gpu import run_gpu

    with progress("measuring", None) as advance:
        results = run_gpu(_QUICK_SIZES if quick else _SIZES, steps, before_step=advance)
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        picture, page = report.as_picture(results), report.as_page(results, described)
        write_files(
            {
                output / "gpu.json": text_file(as_json_text(everything)),
                output / "gpu.md": text_file(page),
                output / "gpu.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    lines = [report.METHOD, *report.verdicts(results)]
    show(as_json, everything, [report.as_table(results)], lines, output)


def relaxation(
    as_json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="2,000 and 5,000 tuples only.")] = False,
    most: Annotated[
        int, typer.Option(min=2_000, help="Most tuples, to 40,000, which take 6 GB.")
    ] = 20_000,
    steps: Annotated[int, typer.Option(min=5, help="Steps of a run that count.")] = 10,
    repeats: Annotated[
        int, typer.Option(min=1, help="Runs of each size; the quietest counts.")
    ] = 2,
    output: Output = None,
) -> None:
    """Time and memory of a step of the robust relaxation, beside what no step can do without.

    Run it on a machine that does nothing else. Example: python -m benchmarks relaxation -o report
    """
    prepare_folder(output, ("relaxation.json", "relaxation.md"))
    from benchmarks import relaxation_speed_report as report
    from benchmarks.environment import environment
    from benchmarks.relaxation_speed import SIZES, run_relaxation_speed

    sizes = [size for size in SIZES if size <= (_MOST_RELAXED_QUICKLY if quick else most)]
    with progress("measuring", None) as advance:
        results = run_relaxation_speed(sizes, steps, repeats, before_step=advance)
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        page = report.as_page(results, described)
        write_files(
            {
                output / "relaxation.json": text_file(as_json_text(everything)),
                output / "relaxation.md": text_file(page),
            }
        )
    lines = [report.METHOD, *report.summary_lines(results)]
    show(as_json, everything, [report.as_table(results)], lines, output)


def scale(
    as_json: Json = False,
    most: Annotated[
        float | None,
        typer.Option(min=1e4, metavar="N", help="The largest n: 1e7, with --quick 1e5."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1, metavar="S", help="Most a trial may take, and be expected to.")
    ] = 600.0,
    quick: Annotated[bool, typer.Option("--quick", help="Up to 100,000 points.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where to work: some GB; the user's cache if not said."
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep tables and trials for the next time.")
    ] = False,
    output: Output = None,
) -> None:
    """Time and memory of coterie consensus on tables of ten thousand to ten million rows.

    Interrupted, it goes on from the trials that were finished. Curves of other packages are
    drawn from peers.json, if that is in the output folder. Run it on a machine that does nothing
    else. Example: python -m benchmarks scale --folder big-disk -o scale-report
    """
    prepare_folder(output, ("scale.json", "scale.md", "scale.png"))
    prepare_folder(folder, ())
    if output is not None:
        require_matplotlib()
    from benchmarks import scale_page as page
    from benchmarks import scale_report as report
    from benchmarks.environment import environment
    from benchmarks.scale import Effort, run_scale, working_folder
    from benchmarks.scale_peers import read_peers

    others = None if output is None else read_peers(output / "peers.json")
    effort = Effort(round(most or (1e5 if quick else 1e7)), seconds)
    room = working_folder(folder)
    with progress("measuring", None) as advance:
        results = run_scale(effort, room, before_step=advance)
    described = environment()
    everything = report.as_json(results, others, described)
    if output is not None:
        command = f"python -m benchmarks scale --most {effort.most} --seconds {effort.seconds:g}"
        picture = page.as_picture(results, others)
        write_files(
            {
                output / "scale.json": text_file(as_json_text(everything)),
                output / "scale.md": text_file(page.as_page(results, others, described, command)),
                output / "scale.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    if not keep:
        shutil.rmtree(room)
    lines = [*report.summary_lines(results), *as_notes(report.notes(results))]
    show(as_json, everything, report.as_tables(results), lines, output)


def tables(
    as_json: Json = False,
    rows: Annotated[
        float | None,
        typer.Option(min=1e4, max=1e9, metavar="N", help="Of the largest table: 1e8."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A million rows.")] = False,
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Compare with pyspark://host:port, which must see FOLDER; local starts one.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where to work: some GB; the user's cache if not said."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep tables for the next time.")] = False,
    output: Output = None,
) -> None:
    """Label tables that stay in DuckDB or Spark: a hundred million rows, and runs that are killed.

    Run it on a machine that does nothing else.
    Example: python -m benchmarks tables --folder big-disk --spark local -o tables-report
    """
    prepare_folder(output, ("tables.json", "tables.md"))
    prepare_folder(folder, ())
    from benchmarks import table_engines_report as report
    from benchmarks.environment import environment
    from benchmarks.local_spark import check_spark
    from benchmarks.table_engines import Effort, run_table_engines, working_folder

    check_spark(spark)
    effort, room = Effort(round(rows or (1e6 if quick else 1e8))), working_folder(folder)
    try:
        with progress("measuring", None) as advance:
            results = run_table_engines(effort, room, spark, before_step=advance)
    finally:
        if not keep:
            shutil.rmtree(room, ignore_errors=True)
    described = environment()
    # the address of a cluster is nobody's concern
    asked = "" if spark is None else f" --spark {'local' if spark == 'local' else 'URL'}"
    command = f"python -m benchmarks tables --rows {effort.rows}{asked}"
    everything = report.as_json(results, described, command)
    if output is not None:
        write_files(
            {
                output / "tables.json": text_file(as_json_text(everything)),
                output / "tables.md": text_file(report.as_page(results, described, command)),
            }
        )
    lines = [*report.summary_lines(results), *as_notes(report.notes(results))]
    show(as_json, everything, report.as_tables(results), lines, output)
