"""The folder of a demo, replaced without touching files of the user.

A demo records the files it wrote and their SHA-256, and before it writes a path, that it does. The
next demo removes exactly those files, also after a demo that was killed. It refuses to start if one
of its paths holds another file or a changed one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from coterie.errors import OutputError
from coterie.runtime.atomic_files import atomic_file

_RECORD = "demo.json"


@contextlib.contextmanager
def fresh_folder(
    folder: Path, made_by: str, names: Sequence[str]
) -> Iterator[Callable[[Path], None]]:
    """Make a folder, or remove the files of an earlier demo from it; write a record at the end.

    The demo is the command ``made_by``, and writes files and folders of these ``names``. Yield a
    function to call with each path before it is written. The record is also written after
    a failure. The arguments of a KeyboardInterrupt are the paths that were written.

    Raises
    ------
    OutputError
        If the folder cannot be used, or a path of the demo holds a file of the user. Nothing is
        changed in that case.
    """
    _check_folder(folder)
    earlier = _written_earlier(folder, made_by, names)
    try:
        _remove(folder, earlier)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}") from error
    try:
        yield lambda path: _write_record(folder, made_by, names, path.name)
    except BaseException as failure:
        # If the record cannot be written either, the first failure is the one to report.
        with contextlib.suppress(OSError):
            _write_record(folder, made_by, names)
        if isinstance(failure, KeyboardInterrupt):
            complete = [folder / name for name in names if (folder / name).exists()]
            raise KeyboardInterrupt(*complete) from None
        raise
    _write_record(folder, made_by, names)


def _check_folder(folder: Path) -> None:
    """Refuse a folder that does not exist and cannot be made."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise OutputError(f"cannot write to {folder}: {nearest} is not a folder; name another")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write to {folder}: the folder {nearest} is read-only")


def _written_earlier(folder: Path, made_by: str, names: Sequence[str]) -> list[Path]:
    """Return the existing paths of the demo; refuse any that an earlier demo did not write."""
    try:
        recorded, writing = _read_record(folder, made_by)
        existing = _demo_paths(folder, names)
        for path in existing:
            place = path.relative_to(folder)
            is_ours = not path.is_symlink() and (
                path.is_dir()
                or place.parts[0] == writing
                or (path.is_file() and recorded.get(place.as_posix()) == _digest(path))
            )
            if not is_ours:
                raise OutputError(
                    f"{path} was not written by a demo, and a new demo would replace it; "
                    "move it, or name another folder with --output"
                )
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"cannot read {folder}: {error.strerror or error}") from error
    return existing


def _demo_paths(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the existing paths of the demo, each folder before its contents."""
    existing = []
    for place in (folder / name for name in names):
        if place.is_symlink() or place.exists():
            existing.append(place)
        if place.is_dir() and not place.is_symlink():
            existing += sorted(place.rglob("*"))
    return existing


def _remove(folder: Path, earlier: list[Path]) -> None:
    # Folders come before their contents, so the reverse order empties a folder first.
    for path in reversed(earlier):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    (folder / _RECORD).unlink(missing_ok=True)


def _read_record(folder: Path, made_by: str) -> tuple[dict[str, str], str]:
    """Return the SHA-256 of each file of an earlier demo by name, and what it was writing.

    Both are empty without a record; the second also after a demo that ended by itself.
    """
    path = folder / _RECORD
    if not path.exists():
        return {}, ""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["made_by"] == made_by:
            files = {str(name): str(digest) for name, digest in record["files"].items()}
            return files, str(record.get("writing", ""))
    except (ValueError, LookupError, TypeError, AttributeError):
        pass  # not JSON, or JSON of another form
    raise OutputError(
        f"{path} is not the record of a demo, and a new demo would replace it; "
        "move it, or name another folder with --output"
    )


def _write_record(folder: Path, made_by: str, names: Sequence[str], writing: str = "") -> None:
    """Record the files of the demo and what it writes next; without any, remove the folder."""
    written = [path for path in _demo_paths(folder, names) if path.is_file()]
    if not written and not writing:
        with contextlib.suppress(OSError):
            (folder / _RECORD).unlink(missing_ok=True)
            folder.rmdir()
        return
    files = {path.relative_to(folder).as_posix(): _digest(path) for path in written}
    with atomic_file(folder / _RECORD) as unfinished:
        record = {"made_by": made_by, "files": files, **({"writing": writing} if writing else {})}
        unfinished.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
