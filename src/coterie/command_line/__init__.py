"""The ``coterie`` program: consensus, cluster, choose-k, methods, ads and demo."""

from __future__ import annotations

import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run the program on the command line's arguments and exit with its code."""
    from coterie.command_line.program import app, stopped_by_sigterm

    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show is shown escaped; it is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with stopped_by_sigterm():
        app(prog_name="coterie")
