"""Tables on the standard streams: ``-`` in the place of a file name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from coterie.errors import OutputError, TableError

if TYPE_CHECKING:
    from coterie.files.tables import Table

__all__ = [
    "check_table",
    "input_name",
    "is_stream",
    "output_name",
    "read_input",
    "refuse_json",
    "write_output",
]


def is_stream(path: Path | str | None) -> bool:
    """Return whether a path is ``-``, for standard input or standard output."""
    return str(path) == "-"


def input_name(path: Path | str) -> str:
    """Return the name of an input for people."""
    return "standard input" if is_stream(path) else str(path)


def output_name(path: Path | str) -> str:
    """Return what the summary says was written."""
    return "the table to standard output" if is_stream(path) else str(path)


def read_input(path: Path) -> Table:
    """Read a table from a file, or CSV or TSV text from standard input."""
    from coterie.files.tables import parse_table, read_table

    if not is_stream(path):
        return read_table(path)
    if sys.stdin is None:
        raise TableError("standard input is closed; pipe a table into the program, or name a file")
    return parse_table(sys.stdin.buffer, input_name(path))


def check_table(path: Path) -> None:
    """Refuse a path that no table can be written to."""
    from coterie.files.tables import check_table_output

    if not is_stream(path):
        check_table_output(path)
    elif sys.stdout is None:
        raise OutputError("cannot write the table: standard output is closed; name a file")


def write_output(path: Path, columns: Mapping[str, Any]) -> None:
    """Write a table to a file, or as CSV to standard output; nothing before it is complete."""
    from coterie.files.tables import csv_text, write_table

    if not is_stream(path):
        write_table(path, columns)
        return
    text = csv_text(columns)
    try:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # the reader has read enough; the program ends without a message
        raise
    except OSError as error:
        raise OutputError(f"cannot write standard output: {error.strerror or error}") from error


def refuse_json(as_json: bool, table: Path | None, option: str = "-o -") -> None:
    """Refuse to print a JSON object and a table to the same stream."""
    if as_json and is_stream(table):
        raise typer.BadParameter(
            f"it prints to standard output, as {option} does; leave out one of them, or write the "
            "table to a file",
            param_hint="'--json'",
        )
