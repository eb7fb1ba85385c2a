"""Files that appear whole or not at all: written beside their place, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from coterie.errors import OutputError

__all__ = ["check_writable", "whole_file"]


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; rename it to ``path`` when all went well.

    The temporary file lies in the same folder, so the rename is atomic: a reader sees
    the old file or the new one, never a part. On any failure, an interrupt included,
    the temporary file is removed and ``path`` is as it was.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with whole_file(folder / "answer.txt") as unfinished:
    ...     _ = unfinished.write_text("42")
    >>> (folder / "answer.txt").read_text()
    '42'
    """
    target = Path(path)
    check_writable(target)
    handle, name = tempfile.mkstemp(
        prefix=f".{target.stem}-", suffix=f".unfinished{target.suffix}", dir=target.parent
    )
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.chmod(_mode_for(target))
        unfinished.replace(target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot be written, before the work that leads to it is done."""
    target = Path(path)
    folder = target.parent
    if not folder.exists():
        raise OutputError(f"cannot write {target}: the folder {folder} does not exist; make it")
    if not folder.is_dir():
        raise OutputError(f"cannot write {target}: {folder} is not a folder")
    if target.is_dir():
        raise OutputError(f"cannot write {target}: it is a folder; name a file in it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {target}: the folder {folder} is read-only")


def _mode_for(target: Path) -> int:
    """The permissions a plain ``open`` would have given: the old file's, or 0666 less the umask."""
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
