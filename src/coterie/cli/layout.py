"""Layout of what commands print: consoles, tables, counts, and text safe for a terminal."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coterie.runtime.messages import is_terminal
from coterie.runtime.wording import capitalised, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_BREAKS = str.maketrans({"\n": "␊", "\t": "␉"})
_GAP = 2  # between the columns of a table, and before an indented one
_LEAST_NAME = 12


def print_answer(
    facts: dict[str, Any],
    print_summary: Callable[[dict[str, Any]], None],
    as_json: bool,
    quiet: bool,
    stdout_is_taken: bool = False,
) -> None:
    """Print the facts as one JSON object, or as a summary unless quiet.

    The summary goes to the standard error stream if a table was written to standard output.
    """
    import typer

    if as_json:
        typer.echo(json.dumps(facts, indent=2, allow_nan=False))
    elif not quiet:
        stream = sys.stderr if stdout_is_taken else sys.stdout
        with contextlib.redirect_stdout(stream):
            print_summary(facts)


def print_message(text: str) -> None:
    """Print a note or an error as one line; on a terminal it is broken between words."""
    import typer

    line = one_line(text)
    if is_terminal():
        width = max(shutil.get_terminal_size().columns, 2 * _LEAST_NAME)
        # a path or a command is never broken, so that it can be copied
        line = textwrap.fill(
            line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    typer.echo(line, err=True)


def stdout_console() -> Console:
    """Return a console on the standard output stream that interprets no markup."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the program handles it; rich would exit with 1

    # A terminal needs the padding of tables for styles; a file or pipe does not.
    file: Any = None if sys.stdout.isatty() else _TrimmedLines()
    return Plain(file=file, highlight=False, markup=False, emoji=False)


def print_heading(console: Console, name: object, rest: str, style: str = "bold") -> None:
    _print_unbroken(console, (one_line(name), style), rest)


def print_indented(console: Console, content: RenderableType, *, above: int = 1) -> None:
    """Print a table indented, with an empty line after it and ``above`` lines before it.

    If it is too wide, its headings and names are broken, never its figures. Lines are longer than
    the terminal if this is not enough.
    """
    from rich.padding import Padding
    from rich.table import Table

    before = console.width
    if isinstance(content, Table) and _GAP + _width(content, broken=False) > before:
        for column in content.columns:
            if column.justify == "right":  # the figures stay in one line, their heading need not
                column.no_wrap = True
                column.header = str(column.header).replace(" ", "\n")
        console.width = max(before, _GAP + _width(content, broken=True))
    console.print(Padding(content, (above, 0, 1, _GAP), expand=False), crop=False)
    console.width = before


def fits(console: Console, table: Table) -> bool:
    """Whether :func:`print_indented` prints the table within the width of the terminal."""
    return _GAP + _width(table, broken=True) <= console.width


def print_level(
    console: Console, level: float, counts: Iterable[tuple[float, float] | None]
) -> None:
    """Print what intervals of a level mean; some are intervals of ``counts``."""
    console.print(
        f"Intervals: each should contain the actual value with a probability of {level:.0%}."
    )
    if any(interval is not None and 0 < interval[1] < 1 for interval in counts):
        console.print("Where the mean is far below 1, the interval holds only the count 0.")


def print_files(console: Console, paths: Iterable[object]) -> None:
    """Print which files were written, each on one unbroken line, ready to be copied."""
    for path in paths:
        console.print(f"wrote {one_line(path)}", soft_wrap=True)


def print_written(console: Console, written: Mapping[str, str]) -> None:
    if written:
        _print_unbroken(console, "Wrote " + ", ".join(map(one_line, written.values())))
    else:
        console.print("Nothing was written; add -o FILE to keep the labels.", style="dim")


def figures_table(names: Iterable[str], figures: Iterable[str]) -> Table:
    """Return an empty table with left-aligned columns of names, then right-aligned figures."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for heading in names:
        table.add_column(heading, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def facts_grid(facts: Mapping[str, str | None]) -> Table:
    """Return a grid of names and their values; a value of None is left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None:
            grid.add_row(name, Text(value))
    return grid


def counted(number: float, name: str) -> str:
    return f"{number:,.0f} {name}{'' if number == 1 else 's'}"


def sentence(reason: str) -> str:
    return f"{capitalised(one_line(reason))}."


def one_line(text: object) -> str:
    r"""Return the text on one line, with control characters made visible."""
    return visible(str(text)).translate(_BREAKS)


def _print_unbroken(console: Console, *parts: str | tuple[str, str]) -> None:
    """Print a text, on one line if it has a path too long for a line, which can then be copied."""
    from rich.text import Text

    text = Text.assemble(*parts)
    console.print(text, soft_wrap=max(map(len, text.plain.split())) > console.width)


def _width(table: Table, *, broken: bool) -> int:
    """Return the width of a table, whole or with broken headings and names."""
    from rich.cells import cell_len

    widths = []
    for column in table.columns:
        lines = [line for cell in column.cells for line in str(cell).split("\n")]
        widest = max(map(cell_len, lines), default=0)
        if broken and column.justify != "right" and not column.no_wrap:
            widest = min(widest, _LEAST_NAME)
        headings = str(column.header).split(None if broken else "\n")
        widths.append(max([widest, *map(cell_len, headings)]))
    return sum(widths) + table.padding[1] * len(widths)


class _TrimmedLines:
    """The standard output stream, without blanks at the ends of lines."""

    def write(self, text: str) -> int:
        return sys.stdout.write(re.sub(r"[ ]+$", "", text, flags=re.MULTILINE))

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)
