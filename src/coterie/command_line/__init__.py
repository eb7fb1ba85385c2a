"""The ``coterie`` program: consensus, cluster, choose-k, methods, ads, demo and warm."""

from __future__ import annotations

import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run the program with the arguments of the command line."""
    from coterie.command_line.program import app, stopped_by_sigterm

    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal cannot show are escaped instead of raising an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with stopped_by_sigterm():
            app(prog_name="coterie")
    except SystemExit as end:
        if service := sys.modules.get("coterie.ads.service.server"):
            service.end_now(end.code)
        raise
