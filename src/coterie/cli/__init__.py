"""The ``coterie`` program: consensus, cluster, choose-k, methods, ads and demo."""

from __future__ import annotations

import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run the program with the arguments of the command line."""
    from coterie.cli.program import app, stopped_by_sigterm

    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal cannot show are escaped instead of raising an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with stopped_by_sigterm():
        app(prog_name="coterie")
