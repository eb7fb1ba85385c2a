"""What a waiting person sees on the standard error stream: stages, and notes at the end."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coterie.command_line.terminal.terminal_text import one_line

if TYPE_CHECKING:
    from rich.status import Status

__all__ = ["collected_notes", "is_watched", "shown_notes", "shown_stages"]


def is_watched(quiet: bool) -> bool:
    """Whether anybody sees progress: the standard error stream is a terminal, and not quiet."""
    return not quiet and sys.stderr.isatty()


@contextlib.contextmanager
def shown_stages(quiet: bool) -> Iterator[None]:
    """Show what the library logs as the text beside a spinner, which is gone in the end.

    The spinner starts with the first stage that is logged, so that another display (a
    progress bar) can have the terminal until then.
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
def collected_notes() -> Iterator[list[str]]:
    """Collect the warnings that are meant for the user, each once and on one line.

    Those are the library's and its methods' (failure to converge): every ``UserWarning``.
    Any other tells of a defect and goes its usual way.

    >>> with collected_notes() as notes:
    ...     warnings.warn("odd labels", stacklevel=1)
    >>> notes
    ['odd labels']
    """
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
        yield notes


@contextlib.contextmanager
def shown_notes(quiet: bool = False) -> Iterator[list[str]]:
    """Collect notes, and print them in the end unless quiet, also that of a failure."""
    import typer

    with collected_notes() as notes:
        try:
            yield notes
        finally:
            for note in [] if quiet else notes:
                typer.echo(f"note: {one_line(note)}", err=True)


class _Spinner(logging.Handler):
    """A spinner beside the last message logged."""

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
