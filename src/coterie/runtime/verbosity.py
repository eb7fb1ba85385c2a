"""Progress on the standard error stream: the stages of a fit, bars of loops, announcements.

The stages are the log messages of this package at level INFO. The parameter ``verbose`` of the
estimators shows them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from coterie.runtime.wording import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

__all__ = ["announce", "is_terminal", "shown_stages", "shows_stages", "silenced", "track"]

Item = TypeVar("Item")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_log = logging.getLogger(__name__)
_package = logging.getLogger("coterie")

#: A loop without a bar is reported this many times.
_LINES_PER_LOOP = 10


def is_terminal() -> bool:
    """Return whether the standard error stream is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextlib.contextmanager
def shown_stages(verbose: bool = True) -> Iterator[None]:
    """Show the log messages of this package on the standard error stream.

    A terminal shows the last message beside a spinner, which is removed at the end. The spinner
    starts with the first message, so that another display can use the terminal until then.
    Elsewhere, as in a file or a notebook, each message is a line. A block inside another one
    changes nothing.

    >>> with shown_stages(verbose=False):
    ...     logging.getLogger("coterie").info("comparing 10 partitions")
    """
    if not verbose or _active_stages() is not None:
        yield
        return
    stages = _Spinner() if is_terminal() else _Lines()
    level, propagate = _package.level, _package.propagate
    if not _package.isEnabledFor(logging.INFO):
        _package.setLevel(logging.INFO)
        _package.propagate = False  # handlers of the root logger would show the messages too
    _package.addHandler(stages)
    try:
        yield
    finally:
        _package.removeHandler(stages)
        _package.setLevel(level)
        _package.propagate = propagate
        stages.close()


def shows_stages(fit: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a method of an estimator: if its ``verbose`` is true, the stages are shown."""

    @functools.wraps(fit)
    def with_stages(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        estimator: Any = args[0]
        with shown_stages(bool(estimator.verbose)):
            return fit(*args, **kwargs)

    return with_stages


def track(items: Iterable[Item], title: str, total: int, verbose: bool = True) -> Iterator[Item]:
    """Yield the items, and show on the standard error stream how many were used.

    A terminal, or a notebook that has ipywidgets, shows a bar, which is removed at the end.
    Elsewhere some lines are printed. Stages that are logged meanwhile are not shown.

    Parameters
    ----------
    items : iterable
    title : str
        What is counted, for example "partitions".
    total : int
        Number of items.
    verbose : bool
        False only yields the items.

    Examples
    --------
    >>> list(track(range(3), "partitions", 3, verbose=False))
    [0, 1, 2]
    """
    if not verbose:
        yield from items
        return
    from rich.console import Console

    console, stages = Console(stderr=True), _active_stages()
    with stages.paused() if stages else contextlib.nullcontext():
        if _can_draw(console):
            from rich.progress import track as with_bar

            yield from with_bar(items, title, total=total, console=console, transient=True)
        else:
            yield from _with_lines(items, title, total)


def announce(message: str) -> bool:
    """Show a message to a person who watches, and return whether it was shown.

    It is a stage if stages are shown, a log message if these are enabled, else a line on a
    terminal. Nothing is written to a standard error stream that is a file or a pipe.
    """
    if _log.isEnabledFor(logging.INFO):
        _log.info("%s", message)
        return True
    if _silences or not is_terminal():
        return False
    _write_line(f"{message} …")
    return True


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Write no announcements to the terminal."""
    _silences.append(True)
    try:
        yield
    finally:
        _silences.pop()


#: One entry for each :func:`silenced` block that is active.
_silences: list[bool] = []


class _Stages(logging.Handler):
    """Display of log messages."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._is_paused = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._is_paused:
            self.show(" ".join(visible(record.getMessage()).split()))

    def show(self, text: str) -> None:
        """Show one line of text."""
        raise NotImplementedError

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the stream to another display."""
        self.clear()
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def clear(self) -> None:
        """Remove what is shown."""

    def close(self) -> None:
        self.clear()
        super().close()


class _Lines(_Stages):
    """Each message is a line."""

    def show(self, text: str) -> None:
        _write_line(text)


class _Spinner(_Stages):
    """The last message is beside a spinner."""

    def __init__(self) -> None:
        super().__init__()
        self._status: Status | None = None

    def show(self, text: str) -> None:
        from rich.console import Console
        from rich.markup import escape

        if self._status is None:
            self._status = Console(stderr=True).status(escape(text))
            self._status.start()
        else:
            self._status.update(escape(text))

    def clear(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _active_stages() -> _Stages | None:
    return next((one for one in _package.handlers if isinstance(one, _Stages)), None)


def _can_draw(console: Console) -> bool:
    """Return whether a bar can be drawn; in a notebook rich needs ipywidgets, or it warns."""
    if console.is_jupyter:
        return find_spec("ipywidgets") is not None
    return console.is_terminal


def _with_lines(items: Iterable[Item], title: str, total: int) -> Iterator[Item]:
    for number, item in enumerate(items, start=1):
        yield item
        # the whole part grows by one at every tenth of the total
        if number * _LINES_PER_LOOP // total > (number - 1) * _LINES_PER_LOOP // total:
            _write_line(f"{title}: {number:,} of {total:,}")


def _write_line(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"coterie: {text}\n")
        sys.stderr.flush()
