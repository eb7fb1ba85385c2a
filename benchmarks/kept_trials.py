"""Finished trials in a file, a line each, so that a benchmark goes on where it was interrupted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.errors import TableError
from coterie.runtime.atomic_files import atomic_file

__all__ = ["KeptTrials"]


class KeptTrials:
    """Outcomes of trials by what decides them, in a file of JSON lines.

    A line is ``{"trial": …, "found": …}``. The file is replaced as a whole at every addition, so
    an interrupt leaves no part of a line.

    Parameters
    ----------
    path : Path
        The file; it need not exist.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "trials.jsonl"
    >>> KeptTrials(path).add({"n": 100, "method": "l2"}, {"seconds": 0.5})
    >>> KeptTrials(path).find({"method": "l2", "n": 100})
    {'seconds': 0.5}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found = _read(path)

    def find(self, trial: Mapping[str, Any]) -> dict[str, Any] | None:
        """What was found in a trial; None if it was not made yet."""
        return self._found.get(_as_key(trial))

    def add(self, trial: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Keep what was found, in place of what was found in the same trial before."""
        self._found[_as_key(trial)] = dict(found)
        lines = (
            f'{{"trial": {key}, "found": {json.dumps(value, ensure_ascii=False)}}}\n'
            for key, value in self._found.items()
        )
        with atomic_file(self.path) as unfinished:
            unfinished.write_text("".join(lines), encoding="utf-8")


def _read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            kept = json.loads(line)
            found[_as_key(kept["trial"])] = dict(kept["found"])
        except (ValueError, TypeError, KeyError) as error:
            raise TableError(
                f"{path}, line {number} is not a kept trial ({error!r}); remove the file"
            ) from error
    return found


def _as_key(trial: Mapping[str, Any]) -> str:
    return json.dumps(trial, sort_keys=True, ensure_ascii=False)
