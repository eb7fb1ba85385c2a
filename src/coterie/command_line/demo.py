"""``coterie demo``: spoiled votes, what each method recovers from them, and a page about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coterie.command_line import options
from coterie.command_line.outputs import write_all
from coterie.command_line.pictures import prepare_to_draw
from coterie.command_line.progress import shown_notes, shown_stages
from coterie.errors import OutputError
from coterie.whole_files import whole_file

if TYPE_CHECKING:
    from rich.table import Table

    from coterie.command_line.demonstration import Demonstration

__all__ = ["demo"]

_BAR_WIDTH = 24


def demo(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write index.html, a page to read, and labels.csv, the partitions, here.",
        ),
    ] = None,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Plant a partition, spoil 40% of the votes, and see what each method recovers.

    Example: coterie demo --output demo
    """
    if output is not None:
        _check_folder(output)
        prepare_to_draw()
    with shown_notes() as notes:
        with shown_stages(quiet):
            from coterie.command_line.demonstration import demonstrate

            demonstration = demonstrate(seed)
            notes += [f"{r.method}: {note}" for r in demonstration.recoveries for note in r.notes]
            files = {} if output is None else _files(demonstration, output)
        if output is not None:
            _make_folder(output)
        write_all(files)
    if not quiet:
        _print(demonstration, list(files))


def _check_folder(folder: Path) -> None:
    """Refuse a folder that neither is there nor can be made, before the work is done."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise OutputError(f"cannot write to {folder}: {nearest} is not a folder; name another")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write to {folder}: the folder {nearest} is read-only")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {folder}: {error.strerror or error}") from error


def _files(demonstration: Demonstration, folder: Path) -> dict[Path, Callable[[Path], None]]:
    """How to write each file; the page is complete before the first is begun."""
    from coterie.command_line.demo_page import demo_page
    from coterie.command_line.tables import write_table

    page = demo_page(demonstration)
    columns = {"point": range(demonstration.n_points)} | dict(
        zip(demonstration.names, demonstration.P.T, strict=True)
    )

    def write_page(path: Path) -> None:
        with whole_file(path) as unfinished:
            unfinished.write_text(page, encoding="utf-8")

    return {
        folder / "labels.csv": lambda path: write_table(path, columns),
        folder / "index.html": write_page,
    }


def _print(demonstration: Demonstration, files: list[Path]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    sizes = ", ".join(map(str, demonstration.sizes))
    console.print(
        f"[bold]Planted[/]: {demonstration.n_points} points in {len(demonstration.sizes)} clusters "
        f"({sizes}), and {demonstration.n_partitions} partitions of them; each has "
        f"{demonstration.noise:.0%} of its labels redrawn."
    )
    console.print(
        f"[bold]Spoiled[/]: {demonstration.n_bad} of the {demonstration.n_partitions}; they are "
        "copies of one common wrong partition instead."
    )
    console.print(Padding(_table(demonstration), (1, 0, 1, 2), expand=False))
    console.print(f"[bold]Dissent[/]: {demonstration.verdict}.")
    if files:
        console.print(Text("Wrote " + ", ".join(map(str, files))), soft_wrap=True)
    else:
        console.print("Nothing was written; --output FOLDER writes a page.", style="dim")


def _table(demonstration: Demonstration) -> Table:
    from rich.bar import Bar
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("method", no_wrap=True)
    table.add_column("recovered", width=_BAR_WIDTH)
    table.add_column("accuracy", justify="right")
    table.add_column("ARI", justify="right")
    table.add_column("time", justify="right")
    for recovery in demonstration.recoveries:
        flagship = recovery is demonstration.recoveries[-1]
        table.add_row(
            recovery.method,
            Bar(1.0, 0.0, recovery.accuracy, color="green" if flagship else "blue"),
            f"{recovery.accuracy:.1%}",
            f"{recovery.agreement:.2f}",
            f"{recovery.seconds:.2f} s",
            style="bold" if flagship else "",
        )
    return table
