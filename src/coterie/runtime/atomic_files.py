"""Files that appear whole or not at all: written beside their place, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from coterie.errors import OutputError

__all__ = ["atomic_file", "check_writable"]


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; rename it to ``path`` when all went well.

    The temporary file lies in the same folder, so the rename is atomic: a reader sees
    the old file or the new one, never a part. On any failure, an interrupt included,
    the temporary file is removed and ``path`` is as it was.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with atomic_file(folder / "answer.txt") as unfinished:
    ...     _ = unfinished.write_text("42")
    >>> (folder / "answer.txt").read_text()
    '42'
    """
    check_writable(path)
    target = _followed(Path(path))
    try:
        unfinished = _beside(target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    try:
        yield unfinished
        unfinished.chmod(_mode_for(target))
        unfinished.replace(target)
    except OutputError:
        raise
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        unfinished.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot be written, before the work that leads to it is done."""
    target = Path(path)
    try:
        obstacle = _obstacle(target, _followed(target).parent)
    except OSError as error:
        raise _cannot_write(target, error) from error
    if obstacle:
        raise OutputError(f"cannot write {target}: {obstacle}")


def _obstacle(target: Path, folder: Path) -> str:
    """What keeps a file from being written to a folder, empty if nothing is known to."""
    there = target.exists()
    obstacles = (
        (not folder.exists(), f"the folder {folder} does not exist; make it"),
        (not folder.is_dir(), f"{folder} is not a folder"),
        (target.is_dir(), "it is a folder; name a file in it"),
        (there and not target.is_file(), "it is a device or a pipe; name a file"),
        (not os.access(folder, os.W_OK | os.X_OK), f"the folder {folder} is read-only"),
        (there and not os.access(target, os.W_OK), "the file is read-only; name another"),
    )
    return next((reason for met, reason in obstacles if met), "")


def _followed(target: Path) -> Path:
    """The file to be replaced: where the path is a link, the file it leads to, not the link."""
    return target.resolve() if target.is_symlink() else target


def _beside(target: Path) -> Path:
    """A new empty file in the same folder, with the same suffix."""
    handle, name = tempfile.mkstemp(
        # a part of the name: the whole of a long one and what is added would be too long
        prefix=f".{target.stem[:40]}-",
        suffix=f".unfinished{target.suffix}",
        dir=target.parent,
    )
    os.close(handle)
    return Path(name)


def _cannot_write(target: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write {target}: {error.strerror or error}")


def _mode_for(target: Path) -> int:
    """The permissions a plain ``open`` would have given: the old file's, or 0666 less the umask."""
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
