"""Which machine and which versions a result comes from, and what it is computed under."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from coterie.runtime.devices import n_threads, on_one_thread

__all__ = ["computing_alone", "environment", "in_words", "variables_set"]

_PACKAGES = ("coterie", "numpy", "scipy", "scikit-learn", "numba")


def environment() -> dict[str, Any]:
    """Versions, processor, cores and date (UTC), ready for JSON.

    >>> sorted(environment())
    ['cpu', 'cpu_count', 'date', 'platform', 'threads', 'versions']
    """
    versions = {"python": platform.python_version()}
    versions |= {package: version(package) for package in _PACKAGES}
    return {
        "versions": versions,
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "threads": n_threads(),
        "platform": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def in_words(described: dict[str, Any]) -> str:
    """One line for a person, of what :func:`environment` gives."""
    versions = ", ".join(f"{name} {number}" for name, number in described["versions"].items())
    return (
        f"{described['date']}; {described['cpu']}, {described['threads']} threads, "
        f"{described['platform']}; {versions}"
    )


@contextlib.contextmanager
def computing_alone(data: Path | None) -> Iterator[None]:
    """One thread for everything, as there is a process for each core; data from this folder."""
    with variables_set(COTERIE_DATA=data, COTERIE_NUM_THREADS=1), on_one_thread():
        yield


@contextlib.contextmanager
def variables_set(**variables: object) -> Iterator[None]:
    """Set these environment variables for a while; None leaves one as it is."""
    given = {name: str(value) for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _cpu_name() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
