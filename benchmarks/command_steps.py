"""What the commands ``python -m benchmarks …`` share: options, and the steps from run to report."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.errors import MissingExtraError, OutputError
from coterie.runtime.atomic_files import atomic_file, check_writable

if TYPE_CHECKING:
    from benchmarks.result_tables import ResultTable

__all__ = [
    "Data",
    "Jobs",
    "Json",
    "Keep",
    "Output",
    "as_json_text",
    "as_notes",
    "prepare_folder",
    "progress",
    "require_matplotlib",
    "show",
    "text_file",
    "write_files",
]

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Folder for the report; made if it is not there."),
]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep", metavar="FOLDER", help="Keep each draw here, and go on from those kept."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", envvar="COTERIE_DATA", help="Where the datasets are."),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Cells at a time: one a core.")
]


def prepare_folder(folder: Path | None, names: Sequence[str]) -> None:
    """Make the folder, and refuse it now if the files could not be written into it later."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from error
    for name in names:
        check_writable(folder / name)


def require_matplotlib() -> None:
    """Refuse now a report whose picture could not be drawn later."""
    try:
        import matplotlib  # noqa: F401 (whether it is there)
    except ImportError as error:
        raise MissingExtraError(
            "the report has a picture, which needs matplotlib: pip install 'coterie[plots]', "
            "or leave --output away"
        ) from error


@contextlib.contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[[str | None], None]]:
    """A bar on standard error, if that is a terminal; call what is given at each step.

    With a text, the text is shown in place of the title.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)

        def advance(now: str | None) -> None:
            bar.update(task, advance=1, description=title if now is None else now)

        yield advance


def show(
    as_json: bool,
    everything: dict[str, Any],
    tables: Sequence[ResultTable],
    lines: Sequence[str],
    output: Path | None,
) -> None:
    """The results on standard output: JSON and nothing else, or tables and sentences."""
    if as_json:
        typer.echo(as_json_text(everything), nl=False)
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200
    for table in tables:
        console.print(table.drawn())
    for line in lines:
        console.print(line)
    if output is not None:
        console.print(f"Report in {output}")


def as_notes(notes: Sequence[str]) -> list[str]:
    """Notes as lines for the terminal."""
    return [f"Note: {note}" for note in notes]


def write_files(steps: Mapping[Path, Callable[[Path], object]]) -> None:
    """Write each file whole; an interrupt tells, as its arguments, which are complete."""
    written: list[Path] = []
    try:
        for path, write in steps.items():
            with atomic_file(path) as unfinished:
                write(unfinished)
            written.append(path)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*written) from None


def text_file(text: str) -> Callable[[Path], object]:
    """A step of :func:`write_files` that writes this text."""
    return lambda path: path.write_text(text, encoding="utf-8")


def as_json_text(everything: dict[str, Any]) -> str:
    r"""One JSON object as it is printed and written.

    >>> as_json_text({"ℓ1": None})
    '{\n  "ℓ1": null\n}\n'
    """
    return json.dumps(everything, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
