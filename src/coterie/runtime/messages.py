"""Messages while something runs: stages of a fit, bars of loops, announcements, warnings.

Progress goes to the standard error stream. The stages are the log messages of this package at
level INFO; the parameter ``verbose`` of the estimators shows them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from coterie.errors import LabelWarning
from coterie.runtime.wording import visible

if TYPE_CHECKING:
    from rich.status import Status

Item = TypeVar("Item")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_log = logging.getLogger(__name__)
_package = logging.getLogger("coterie")
_PACKAGE_FOLDER = f"{Path(__file__).parents[1]}{os.sep}"

#: A loop without a bar is reported this many times.
_LINES_PER_LOOP = 10

#: One entry for each :func:`silenced` block that is active.
_silences: list[bool] = []


def is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


@contextlib.contextmanager
def shown_stages(verbose: bool = True) -> Iterator[None]:
    """Show the log messages of this package; a block inside another one changes nothing."""
    if not verbose or _active_stages() is not None:
        yield
        return
    stages = _Stages()
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
        stages.stop()
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
    """Yield the items; if ``verbose``, show how many of the ``total`` were used.

    A terminal, or a notebook that has ipywidgets, shows a bar, which is removed at the end.
    Elsewhere some lines are printed. Stages that are logged meanwhile are not shown.
    """
    if not verbose:
        yield from items
        return
    from rich.console import Console
    from rich.progress import track as with_bar

    console, stages = Console(stderr=True), _active_stages()
    # without ipywidgets rich would warn in a notebook
    draws = find_spec("ipywidgets") if console.is_jupyter else console.is_terminal
    with stages.paused() if stages else contextlib.nullcontext():
        if draws:
            yield from with_bar(items, title, total=total, console=console, transient=True)
            return
        for number, item in enumerate(items, start=1):
            yield item
            # the whole part grows by one at every tenth of the total
            if number * _LINES_PER_LOOP // total > (number - 1) * _LINES_PER_LOOP // total:
                _write_line(f"{title}: {number:,} of {total:,}")


def announce(message: str) -> bool:
    """Show a message as a stage, a log message or a line on a terminal; return if it was shown."""
    if _log.isEnabledFor(logging.INFO):
        _log.info("%s", message)
        return True
    if _silences or not is_terminal():
        return False
    _write_line(f"{message} …")
    return True


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    _silences.append(True)
    try:
        yield
    finally:
        _silences.pop()


def warn_user(message: str, category: type[Warning]) -> None:
    """Give a warning that points at the code that called this package."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE_FOLDER):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


@contextlib.contextmanager
def _ignored(message: str = "", category: type[Warning] = Warning) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message, category)
        yield


#: Of k-means: it has fewer distinct points than clusters; callers drop the empty clusters.
ignore_duplicate_points_warning = functools.partial(_ignored, "Number of distinct clusters")
#: About label matrices that this package made: many columns are no mistake.
ignore_label_warnings = functools.partial(_ignored, category=LabelWarning)
#: Of joblib, after an error or an interrupt.
ignore_unfinished_tasks_warning = functools.partial(_ignored, r"\d+ tasks (have been|which were)")


class _Stages(logging.Handler):
    """Show the last message next to a spinner on a terminal, elsewhere each on a line."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._spins = is_terminal()
        self._is_paused = False
        self._status: Status | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_paused:
            return
        text = " ".join(visible(record.getMessage()).split())
        if not self._spins:
            _write_line(text)
            return
        from rich.console import Console
        from rich.markup import escape

        if self._status is None:  # only now, because another display may use the terminal before
            self._status = Console(stderr=True).status(escape(text))
            self._status.start()
        else:
            self._status.update(escape(text))

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self.stop()
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False


def _active_stages() -> _Stages | None:
    return next((one for one in _package.handlers if isinstance(one, _Stages)), None)


def _write_line(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"coterie: {text}\n")
        sys.stderr.flush()
