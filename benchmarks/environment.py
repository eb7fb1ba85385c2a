"""Which machine, versions and code a result comes from."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import coterie
from coterie.runtime.devices import n_threads, on_one_thread

_PACKAGE = Path(__file__).parents[1] / "src" / "coterie"
_PACKAGES = ("numpy", "scipy", "scikit-learn")


def describe_environment() -> dict[str, Any]:
    """Return commit, versions, processor, cores and date (UTC), ready for JSON.

    >>> sorted(describe_environment())
    ['commit', 'cpu', 'cpu_count', 'date', 'platform', 'threads', 'versions']
    """
    # the version in the source, because the package need not be installed
    versions = {"python": platform.python_version(), "coterie": coterie.__version__}
    versions |= {package: version(package) for package in _PACKAGES}
    return {
        "commit": current_commit(),
        "versions": versions,
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "threads": n_threads(),
        "platform": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def current_commit() -> str:
    """Return the commit of the clone, ``COTERIE_COMMIT`` where there is no clone, or "unknown"."""
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        found = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        found = ""
    return found or os.environ.get("COTERIE_COMMIT", "unknown")


def environment_line(described: dict[str, Any]) -> str:
    """Return a described environment as one line of text."""
    versions = ", ".join(f"{name} {number}" for name, number in described["versions"].items())
    commit = described.get("commit", "unknown")
    at = "" if commit == "unknown" else f" at commit {commit[:8]}"
    return (
        f"on {described['date'][:10]}{at}, on {described['cpu']} with {described['threads']} "
        f"threads; {versions}"
    )


def code_digest(folders: tuple[str, ...]) -> str:
    """Return a digest of the code in folders of the package, without comments and docstrings."""
    found = hashlib.sha256()
    for folder in sorted(folders):
        top = _PACKAGE / folder
        files = [top] if top.is_file() else sorted(top.rglob("*.p*"))
        for path in files:
            if path.suffix in (".py", ".pyx", ".pxd"):
                found.update(f"{path.relative_to(_PACKAGE)}\n{_code_of(path)}".encode())
    return found.hexdigest()[:16]


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


def _code_of(path: Path) -> str:
    """Return the lines of a module that are neither blank nor comment nor docstring."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
                ast.get_docstring(node, clean=False) is not None
            ):
                first = node.body[0]
                for line in range(first.lineno - 1, first.end_lineno or first.lineno):
                    lines[line] = ""
    else:
        lines = re.sub(r'^\s*""".*?"""$', "", text, flags=re.M | re.S).splitlines()
    kept = (line.strip() for line in lines)
    return "\n".join(line for line in kept if line and not line.startswith("#"))
