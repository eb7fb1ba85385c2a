"""Which machine and which versions a result comes from."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from coterie.devices import n_threads

__all__ = ["environment", "in_words"]

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


def _cpu_name() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
