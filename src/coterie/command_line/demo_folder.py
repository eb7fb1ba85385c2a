"""The folder of ``coterie demo``: made anew each time, and nothing of anybody else's touched.

A demo leaves a record of the files it wrote and their SHA-256. The next one removes exactly
those, and refuses to begin where something else, or a changed file, stands in their places.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from coterie.errors import OutputError
from coterie.runtime.atomic_files import atomic_file

__all__ = ["MARKET", "MODEL", "REPORT", "SEGMENTS", "fresh_folder"]

MARKET, MODEL, SEGMENTS, REPORT = "market", "market.coterie", "segments.csv", "report.html"

_RECORD = "demo.json"
_MADE_BY = "coterie demo"
_PLACES = (MARKET, MODEL, SEGMENTS, REPORT)


@contextlib.contextmanager
def fresh_folder(folder: Path) -> Iterator[None]:
    """Make a folder, or clear it of what an earlier demo wrote; keep a record in the end.

    The record is kept of what is there after a failure too. An interrupt tells, as its
    arguments, what was written.

    Raises
    ------
    OutputError
        Where the folder cannot be had, or holds in the demo's places what no demo wrote; nothing
        is changed then.
    """
    _check_folder(folder)
    earlier = _written_earlier(folder)
    try:
        _remove(folder, earlier)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror or error}") from error
    try:
        yield
    except BaseException as failure:
        # whatever went wrong is told; that there is no record of it, on a full disk, is not
        with contextlib.suppress(OSError):
            _keep_record(folder)
        if isinstance(failure, KeyboardInterrupt):
            there = [folder / place for place in _PLACES if (folder / place).exists()]
            raise KeyboardInterrupt(*there) from None
        raise
    _keep_record(folder)


def _check_folder(folder: Path) -> None:
    """Refuse a folder that neither is there nor can be made."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise OutputError(f"cannot write to {folder}: {nearest} is not a folder; name another")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write to {folder}: the folder {nearest} is read-only")


def _written_earlier(folder: Path) -> list[Path]:
    """What stands in the demo's places, all of it known to be an earlier demo's, unchanged."""
    try:
        recorded = _read_record(folder)
        found = _in_places(folder)
        for path in found:
            name = path.relative_to(folder).as_posix()
            is_ours = not path.is_symlink() and (
                path.is_dir() or (path.is_file() and recorded.get(name) == _digest(path))
            )
            if not is_ours:
                raise OutputError(
                    f"{path} is not what a demo wrote there, and a new one would replace it; "
                    "move it, or name another folder with --output"
                )
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"cannot look into {folder}: {error.strerror or error}") from error
    return found


def _in_places(folder: Path) -> list[Path]:
    """Whatever stands in the demo's places, a folder before what is in it."""
    found = []
    for place in (folder / name for name in _PLACES):
        if place.is_symlink() or place.exists():
            found.append(place)
        if place.is_dir() and not place.is_symlink():
            found += sorted(place.rglob("*"))
    return found


def _remove(folder: Path, earlier: list[Path]) -> None:
    for path in reversed(earlier):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    (folder / _RECORD).unlink(missing_ok=True)


def _read_record(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file an earlier demo wrote, by name; empty where there was none."""
    path = folder / _RECORD
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["made_by"] == _MADE_BY:
            return {str(name): str(digest) for name, digest in record["files"].items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    raise OutputError(
        f"{path} is not the record of a demo, and a new one would replace it; "
        "move it, or name another folder with --output"
    )


def _keep_record(folder: Path) -> None:
    """Write down what is there; leave no trace where nothing is."""
    written = [path for path in _in_places(folder) if path.is_file()]
    if not written:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return
    files = {path.relative_to(folder).as_posix(): _digest(path) for path in written}
    with atomic_file(folder / _RECORD) as unfinished:
        record = {"made_by": _MADE_BY, "files": files}
        unfinished.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
