"""Atomic writes: write in a hidden folder next to the output, then rename.

The name of a hidden folder holds an id of the machine and of the process. The next process that
writes the same output removes what a killed process left: immediately if that process is known to
have ended, otherwise after a week.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from coterie.errors import OutputError

#: Only a part of the output's name is in that of the hidden folder: names have a maximum length.
_LONGEST_NAME = 40
_WEEK = 7 * 24 * 3600.0


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a hidden path; rename it to ``path`` on success, else remove it."""
    check_writable(path)
    target = _follow_link(Path(path))
    with output_errors(target), hidden_folder(target) as folder:
        unfinished = folder / f"whole{target.suffix}"
        unfinished.touch()
        if target.exists():
            unfinished.chmod(target.stat().st_mode & 0o777)
        yield unfinished
        rename_durably(unfinished, target)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file of text in UTF-8, with the line ends of the text."""
    with atomic_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a hidden folder; rename it to ``path``, new or empty, on success, else remove it."""
    folder = Path(path)
    with output_errors(folder):
        # links are followed
        target = Path(os.path.realpath(folder))
        parent, is_folder = target.parent, target.is_dir()
        has_content = is_folder and any(target.iterdir())
        in_use = is_folder and (target.is_mount() or target == Path.cwd())
        _refuse(
            folder,
            (not parent.exists(), f"the folder {parent} does not exist; make it"),
            (not parent.is_dir(), f"{parent} is not a folder"),
            (target.exists() and not is_folder, "it is a file; give a new folder"),
            (has_content, "the folder is not empty; give a new one, or empty it"),
            (in_use, "the folder is mounted or the current one; give a new folder in it"),
            (not os.access(parent, os.W_OK | os.X_OK), f"the folder {parent} is read-only"),
        )
        with hidden_folder(target) as hidden:
            unfinished = hidden / "whole"
            unfinished.mkdir()
            if target.exists():
                unfinished.chmod(target.stat().st_mode)
            yield unfinished
            rename_durably(unfinished, target)


@contextlib.contextmanager
def hidden_folder(target: Path, mode: int = 0o700) -> Iterator[Path]:
    """Yield a new hidden folder next to an output, and remove it at the end.

    What ended processes left next to the output is removed first.
    """
    prefix = f".{target.name[:_LONGEST_NAME]}-"
    named = re.compile(re.escape(prefix) + r"(\w+)-(\d+)-[0-9a-f]{8}\.unfinished")
    for name in os.listdir(target.parent):  # noqa: PTH208 — the folder may have many files
        left, match = target.parent / name, named.fullmatch(name)
        if not match:
            continue
        with contextlib.suppress(OSError):  # another process is changing it
            if match[1] == _machine():
                is_in_use = _is_alive(int(match[2]))
            else:
                latest = max(path.stat().st_mtime for path in (left, *left.rglob("*")))
                is_in_use = time.time() - latest <= _WEEK
            if not is_in_use:
                shutil.rmtree(left, ignore_errors=True)
    mark = f"{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    folder = target.parent / f"{prefix}{mark}.unfinished"
    folder.mkdir(mode)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an OutputError if a file cannot be written; callers use it to fail early."""
    target = Path(path)
    with output_errors(target):
        folder, exists = _follow_link(target).parent, target.exists()
        _refuse(
            target,
            (not folder.exists(), f"the folder {folder} does not exist; create it"),
            (not folder.is_dir(), f"{folder} is not a folder"),
            (target.is_dir(), "it is a folder; give the name of a file in it"),
            (exists and not target.is_file(), "it is a device or a pipe; give the name of a file"),
            (not os.access(folder, os.W_OK | os.X_OK), f"the folder {folder} is read-only"),
            (
                exists and not os.access(target, os.W_OK),
                "the file is read-only; choose another name",
            ),
        )


@contextlib.contextmanager
def output_errors(target: Path) -> Iterator[None]:
    """Replace an OSError by an OutputError that names the path."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error


def rename_durably(unfinished: Path, target: Path) -> None:
    """Rename a file or a folder, so that after a power failure the old or the new one is whole.

    Without the first synchronisation a file system may store the new name before the content.
    """
    contents = sorted(unfinished.rglob("*")) if unfinished.is_dir() else []
    for path in (*contents, unfinished):
        _synchronise(path)
    unfinished.replace(target)
    _synchronise(target.parent)


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


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:  # any other error means a process of another user
        return not isinstance(error, ProcessLookupError)
    return True


def _refuse(target: Path, *obstacles: tuple[bool, str]) -> None:
    for applies, reason in obstacles:
        if applies:
            raise OutputError(f"cannot write {target}: {reason}")


def _follow_link(target: Path) -> Path:
    return target.resolve() if target.is_symlink() else target


def _synchronise(path: Path) -> None:
    """Wait until the disk has the content of a file or the names in a folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        # a folder that may be written to but not listed, or a file without the right to read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        # some network file systems cannot synchronise folders
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)
