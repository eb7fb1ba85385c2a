"""Which machine and versions a result comes from."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import coterie
from coterie.runtime.devices import n_threads, on_one_thread

__all__ = [
    "describe_environment",
    "environment_line",
    "one_thread_each",
    "set_variables",
]

_PACKAGES = ("numpy", "scipy", "scikit-learn")


def describe_environment() -> dict[str, Any]:
    """Return versions, processor, cores and date (UTC), ready for JSON.

    >>> sorted(describe_environment())
    ['cpu', 'cpu_count', 'date', 'platform', 'threads', 'versions']
    """
    # the version in the source, because the package need not be installed
    versions = {"python": platform.python_version(), "coterie": coterie.__version__}
    versions |= {package: version(package) for package in _PACKAGES}
    return {
        "versions": versions,
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "threads": n_threads(),
        "platform": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def environment_line(described: dict[str, Any]) -> str:
    """Return a described environment as one line of text."""
    versions = ", ".join(f"{name} {number}" for name, number in described["versions"].items())
    return (
        f"{described['date']}; {described['cpu']}, {described['threads']} threads, "
        f"{described['platform']}; {versions}"
    )


@contextlib.contextmanager
def one_thread_each(data: Path | None) -> Iterator[None]:
    """Compute on one thread: there is a process for each core. Read datasets from ``data``."""
    with set_variables(COTERIE_DATA=data, COTERIE_NUM_THREADS=1), on_one_thread():
        yield


@contextlib.contextmanager
def set_variables(**variables: object) -> Iterator[None]:
    """Set environment variables for the duration of a block; None leaves one unchanged."""
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
