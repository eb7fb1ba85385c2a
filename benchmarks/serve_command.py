"""The command ``python -m benchmarks serve``; :mod:`benchmarks.program` registers it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
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
from coterie.errors import MissingExtraError

__all__ = ["serve"]

_PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "orjson")
# the load of the reloads lasts as long as so many rounds
_RELOAD_ROUNDS = 15


def serve(
    as_json: Json = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Rounds of 1 s, at most 10,000 advertisers.")
    ] = False,
    seconds: Annotated[
        int | None,
        typer.Option(min=1, metavar="S", help="Length of a round: 4, with --quick 1."),
    ] = None,
    output: Output = None,
) -> None:
    """Forecasts a second of coterie ads serve, beside a bare FastAPI service; reloads; memory.

    The load comes from wrk if it is installed. Run it on a machine that does nothing else.
    Example: python -m benchmarks serve -o serve-report
    """
    prepare_folder(output, ("serve.json", "serve.md", "serve.png"))
    if output is not None:
        require_matplotlib()
    _require_service()
    from benchmarks import serve_page as page
    from benchmarks import serve_report as report
    from benchmarks.environment import environment
    from benchmarks.serve import run_serve
    from benchmarks.serve_results import FULL, QUICK

    effort = QUICK if quick else FULL
    if seconds is not None:
        effort = replace(effort, seconds=seconds, reload_seconds=_RELOAD_ROUNDS * seconds)
    with progress("measuring", None) as advance:
        results = run_serve(effort, before_step=advance)
    described = environment()
    described["versions"] |= {package: version(package) for package in _PACKAGES}
    command = f"python -m benchmarks serve{' --quick' if quick else ''} --seconds {effort.seconds}"
    everything = report.as_json(results, described, command)
    if output is not None:
        picture = page.as_picture(results)
        write_files(
            {
                output / "serve.json": text_file(as_json_text(everything)),
                output / "serve.md": text_file(page.as_page(results, described, command)),
                output / "serve.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    lines = [*report.summary_lines(results), *as_notes(report.notes(results))]
    show(as_json, everything, report.as_tables(results)[:-1], lines, output)


def _require_service() -> None:
    """Refuse now what could not be served later."""
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        raise MissingExtraError(
            f"a service needs {', '.join(missing)}: pip install 'coterie[service]'"
        )
