"""A model file that is replaced while a service answers from it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.serve_processes import RunningService
from coterie.errors import CoterieError

__all__ = ["Replacements", "version_of"]

_DEADLINE = 30.0
_PAUSE = 0.05


class Replacements:
    """Replacements of a model file, evenly over some time.

    Each is a file that was there before, linked beside the served one and renamed over it: at no
    moment is there half a model.

    Parameters
    ----------
    service : RunningService
        It watches ``served``.
    served : Path
    files : sequence of Path
        What takes its place, one after the other, over and over; on the same file system.
    times : int
    seconds : float
        They are evenly spread over these.

    Attributes
    ----------
    waits : list of float
        Seconds from each until the service said it had taken it.
    missed : int
        Those it had not taken in half a minute.
    """

    def __init__(
        self,
        service: RunningService,
        served: Path,
        files: Sequence[Path],
        times: int,
        seconds: float,
    ) -> None:
        self.service, self.served, self.files = service, served, files
        self.times, self.seconds = times, seconds
        self.waits: list[float] = []
        self.missed = 0

    def make(self) -> None:
        """Replace the file, wait until the service has taken it, and again."""
        versions = {file: version_of(file) for file in self.files}
        start, gap = time.perf_counter(), self.seconds / (self.times + 1)
        for number in range(self.times):
            time.sleep(max(0.0, start + (number + 1) * gap - time.perf_counter()))
            file = self.files[number % len(self.files)]
            next_one = self.served.with_suffix(".next")
            os.link(file, next_one)
            replaced = time.perf_counter()
            next_one.replace(self.served)
            if self._is_served(versions[file], replaced + _DEADLINE):
                self.waits.append(time.perf_counter() - replaced)
            else:
                self.missed += 1

    def _is_served(self, version: str, deadline: float) -> bool:
        while time.perf_counter() < deadline:
            try:
                told: Mapping[str, Mapping[str, str]] = self.service.get("/health")
            except CoterieError:
                return False
            if told["model"]["version"] == version:
                return True
            time.sleep(_PAUSE)
        return False


def version_of(file: Path) -> str:
    """What the service calls a model file: the beginning of the checksum of its content."""
    from coterie.ads.service.models.served_model import file_version

    return file_version(file)
