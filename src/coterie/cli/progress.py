"""The standard error stream: progress while a command works, notes and errors in its words."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from coterie.cli.layout import print_message
from coterie.runtime import messages

#: What the library writes, and what the program writes instead. ``\1`` is the value.
_VALUE = r"='?([^\s':;,]+)'?"
_REPLACED = {
    rf"\bn_clusters{_VALUE}": r"-k \1",
    r"\bn_clusters\b": "-k",
    rf"\bn_partitions{_VALUE}": r"--partitions \1",
    r"\bn_partitions\b": "--partitions",
    rf"\bn_jobs{_VALUE}": r"--jobs \1",
    r"\bdevice='(auto|cpu|cuda)'": r"--device \1",
    r"\brelaxation='(\w+)'": r"--relaxation \1",
    r"\burl='([^']*)'": r"--engine \1",
    r"\bmemory_limit\b": "--memory-limit",
    r"\bmetric='precomputed'": "--distances",
    r"\bgive supply\b": "give --supply",
    r"\bname them in categories$": "name them in --categories",
    r"\buse ConsensusClusterer\b": "use coterie cluster",
    r"\braise max_iter or tol\b": "in Python, raise max_iter or tol",
    r"\bpass it in ids \(in the program: --id\)": "name it in --id",
    r"\bleave it out \(in the program: --id\)": "name it in --id",
    r"\(in the program: (--[^)]*)\)": r"(\1)",
    r" of X\b": "",
    r"\bX has shape\b": "the table has shape",
}


def is_watched(quiet: bool) -> bool:
    """Return whether progress is visible: a terminal as standard error stream, and not quiet."""
    return not quiet and messages.is_terminal()


@contextlib.contextmanager
def progress_unless(quiet: bool) -> Iterator[None]:
    """Show the library's log messages next to a spinner, if progress is visible."""
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
    """
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
                print_message(f"note: {line}")


def in_options(message: str) -> str:
    """Return a message with the options of the program in place of parameters of Python."""
    for pattern, option in _REPLACED.items():
        message = re.sub(pattern, option, message)
    return message
