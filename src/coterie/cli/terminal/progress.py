"""Progress on the standard error stream: stages while a command works, notes at the end."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from coterie.cli.terminal.layout import one_line
from coterie.cli.terminal.option_names import in_options
from coterie.runtime import messages

__all__ = ["is_watched", "shown_bar", "shown_notes", "shown_stages"]


def is_watched(quiet: bool) -> bool:
    """Return whether progress is visible: a terminal as standard error stream, and not quiet."""
    return not quiet and messages.is_terminal()


@contextlib.contextmanager
def shown_stages(quiet: bool) -> Iterator[None]:
    """Show the library's log messages beside a spinner, if progress is visible."""
    with contextlib.ExitStack() as displays:
        if quiet:
            displays.enter_context(messages.silenced())
        displays.enter_context(messages.shown_stages(is_watched(quiet)))
        yield


@contextlib.contextmanager
def shown_bar(title: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a bar, if progress is visible; yield what moves it, by what is done and all there is."""
    from rich.console import Console
    from rich.progress import Progress

    # a disabled bar of older versions of Rich prints an empty line, unless its console is quiet
    watched = is_watched(quiet)
    console = Console(stderr=True, quiet=not watched)
    with Progress(console=console, transient=True, disable=not watched) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextlib.contextmanager
def shown_notes(quiet: bool = False) -> Iterator[list[str]]:
    """Collect warnings for the user as notes, and print them at the end unless quiet.

    A note has one line, and equal notes are kept once. Every ``UserWarning`` becomes a note: the
    warnings of the library, and failures to converge. Other warnings indicate a defect and are
    shown as usual. Notes are printed even if the block fails.

    >>> with shown_notes(quiet=True) as notes:
    ...     warnings.warn("odd labels", stacklevel=1)
    >>> notes
    ['odd labels']
    """
    import typer

    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        show_as_before = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if not issubclass(category, UserWarning):
                show_as_before(message, category, *place)
            elif (line := in_options(" ".join(str(message).split()))) not in notes:
                notes.append(line)

        warnings.showwarning = note  # type: ignore[assignment]
        try:
            yield notes
        finally:
            for line in [] if quiet else notes:
                typer.echo(f"note: {one_line(line)}", err=True)
