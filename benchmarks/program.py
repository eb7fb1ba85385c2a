"""The commands ``python -m benchmarks …``."""

from __future__ import annotations

import typer

from benchmarks.serve_command import serve

__all__ = ["app"]

app = typer.Typer(
    name="bench",
    help="Measurements anybody can repeat.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


app.command()(serve)
