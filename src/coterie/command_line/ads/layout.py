"""How the answers of ``coterie ads …`` look: at most as wide as the terminal, words kept whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from coterie.command_line.terminal.terminal_text import one_line, summary_console

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

__all__ = [
    "counted",
    "facts_grid",
    "figures_table",
    "print_files",
    "print_heading",
    "print_indented",
    "stdout_console",
]


def stdout_console() -> Console:
    """The standard output stream; nothing that is printed there is taken for markup."""
    return summary_console(markup=False, emoji=False)


def print_heading(console: Console, source: str, told: str) -> None:
    """Print what it is all about: a name, and what it is."""
    from rich.text import Text

    console.print(Text.assemble((one_line(source), "bold"), told))


def print_indented(console: Console, content: RenderableType) -> None:
    """Print a table with air around it."""
    from rich.padding import Padding

    console.print(Padding(content, (1, 0, 1, 2), expand=False))


def print_files(console: Console, paths: Iterable[object]) -> None:
    """Print which files were written, each on one line however long, ready to be copied."""
    from rich.text import Text

    for path in paths:
        console.print(Text(f"wrote {one_line(path)}"), soft_wrap=True)


def figures_table(names: Iterable[str], figures: Iterable[str]) -> Table:
    """An empty table with columns of names, at the left, and then of figures, at the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in names:
        table.add_column(heading, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def facts_grid(facts: Mapping[str, str | None]) -> Table:
    """Names beside what is to be said of each; what is None is left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, told in facts.items():
        if told is not None:
            grid.add_row(name, Text(told))
    return grid


def counted(number: float, name: str) -> str:
    """A number with the name of what is counted.

    >>> counted(1, "day"), counted(1268, "advertiser")
    ('1 day', '1,268 advertisers')
    """
    return f"{number:,.0f} {name}{'' if number == 1 else 's'}"
