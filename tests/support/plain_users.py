"""Processes for which file permissions hold: those of root have none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import coterie

_NOBODY = "65534"


def run_python(
    script: str, *arguments: str, package: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script with a package folder, by default this one, as a user without privileges.

    The user has no home, and so no cache there.
    """
    with started_python(script, *arguments, package=package, **environment) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    return subprocess.CompletedProcess(process.args, 0, out, err)


def started_python(
    script: str, *arguments: str, package: Path | None = None, **environment: str
) -> subprocess.Popen[str]:
    """Start what :func:`run_python` runs."""
    home = package or Path(coterie.__file__).parents[1]
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    command = [sys.executable, "-B", "-c", script, *arguments]
    return subprocess.Popen(
        [*without_privileges(), *command],
        env={**kept, "HOME": "/nonexistent", "PYTHONPATH": str(home), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )


def without_privileges() -> list[str]:
    """Return the beginning of a command that gives up the privileges of root."""
    if os.getuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root ignores permissions, and there is no setpriv")
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]


def set_writable(folder: Path, writable: bool) -> None:
    """Let everybody write to a folder and all that is in it, or nobody; everybody may read."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o777 if writable else 0o555)


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Make a temporary folder that other users reach; pytest closes its own to them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        try:
            yield Path(folder)
        finally:
            set_writable(Path(folder), True)
