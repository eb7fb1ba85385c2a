"""Hidden paths of unfinished outputs, and what killed processes leave of them.

The name of a hidden path holds an id of the machine and of the process. The next process that
writes the same output removes what a killed process left: immediately if that process is known to
have ended, otherwise after a week.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import socket
import time
import uuid
from pathlib import Path

__all__ = ["remove_stale", "unfinished_path"]

#: Only a part of the output's name, because file names have a maximum length.
_LONGEST_NAME = 40
_WEEK = 7 * 24 * 3600.0


def unfinished_path(path: Path, suffix: str = "") -> Path:
    """Return a new hidden path beside an output.

    >>> unfinished_path(Path("out/a.csv"), ".csv").name
    '.a.csv-...unfinished.csv'
    """
    mark = f"{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    return path.parent / f"{_prefix(path)}{mark}.unfinished{suffix}"


def remove_stale(path: Path) -> None:
    """Remove what ended processes left beside an output."""
    prefix = _prefix(path)
    named = re.compile(re.escape(prefix) + r"(\w+)-(\d+)-[0-9a-f]{8}\.unfinished(\.\w+)?")
    for name in os.listdir(path.parent):  # noqa: PTH208 — the folder may have many files
        match = named.fullmatch(name)
        if match:
            left = path.parent / name
            same_machine = match[1] == _machine()
            if not _is_alive(int(match[2])) if same_machine else _is_old(left):
                _remove(left)


def _prefix(path: Path) -> str:
    return f".{path.name[:_LONGEST_NAME]}-"


def _remove(left: Path) -> None:
    if left.is_dir() and not left.is_symlink():
        shutil.rmtree(left, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            left.unlink()


@functools.cache
def _machine() -> str:
    """Return an id that two processes share only if each can see whether the other is alive.

    Machines that share a disk may have the same name, but not the same boot id. Containers on
    one machine have different namespaces of process numbers.
    """
    marks = [socket.gethostname(), str(uuid.getnode())]
    with contextlib.suppress(OSError):  # without /proc, name and network address have to do
        marks = [
            Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"),
            str(Path("/proc/self/ns/pid").readlink()),
        ]
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]


def _is_old(left: Path) -> bool:
    """Return whether nothing in a file or folder has changed for a week."""
    try:
        latest = max(path.stat().st_mtime for path in (left, *left.rglob("*")))
    except OSError:  # another process is changing it
        return False
    return time.time() - latest > _WEEK


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:  # any other error means a process of another user
        return not isinstance(error, ProcessLookupError)
    return True
