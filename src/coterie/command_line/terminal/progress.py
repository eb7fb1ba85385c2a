"""Progress on the standard error stream: stages while a command works, notes at the end."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coterie.command_line.terminal.layout import one_line

if TYPE_CHECKING:
    from rich.status import Status

__all__ = ["is_watched", "shown_notes", "shown_stages"]


def is_watched(quiet: bool) -> bool:
    """Return whether progress is visible: a terminal as standard error stream, and not quiet."""
    return not quiet and sys.stderr.isatty()


@contextlib.contextmanager
def shown_stages(quiet: bool) -> Iterator[None]:
    """Show the library's log messages beside a spinner, which is removed at the end.

    The spinner starts with the first message, so that another display (a progress bar) can use
    the terminal until then.
    """
    if not is_watched(quiet):
        yield
        return
    spinner, logger = _Spinner(), logging.getLogger("coterie")
    level = logger.level
    logger.addHandler(spinner)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(spinner)
        spinner.close()


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
        usual = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if not issubclass(category, UserWarning):
                usual(message, category, *place)
            elif (line := " ".join(str(message).split())) not in notes:
                notes.append(line)

        warnings.showwarning = note  # type: ignore[assignment]
        try:
            yield notes
        finally:
            for line in [] if quiet else notes:
                typer.echo(f"note: {one_line(line)}", err=True)


class _Spinner(logging.Handler):
    """A spinner beside the last log message."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._status: Status | None = None

    def emit(self, record: logging.LogRecord) -> None:
        from rich.console import Console
        from rich.markup import escape

        text = escape(one_line(record.getMessage()))
        if self._status is None:
            self._status = Console(stderr=True).status(text)
            self._status.start()
        else:
            self._status.update(text)

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
        super().close()
