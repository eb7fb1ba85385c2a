"""A virtual environment for each peer, made with pip when it is first needed, and kept.

Peers pin versions that exclude each other, so each has its own environment.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import error_line
from coterie.errors import OutputError
from coterie.runtime.atomic_files import atomic_file

_STAMP, _PYTHON = "made.json", "bin/python"
#: For each peer: what is installed with its dependencies, wheels only; and what is installed
#: afterwards without them.
REQUIREMENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # It asks for pymetis 2020.1 and scikit-learn < 1.1, which have no wheels for Python 3.11 and do
    # not build. With SciPy 1.12 its cspa, mcla and hbgf raise an AttributeError.
    "ensembleclustering": (
        ("numpy<2", "scipy<1.11", "scikit-learn<1.3", "pymetis", "kahypar"),
        ("ensembleclustering==1.0.2",),
    ),
    # It asks for NumPy 1.19, pandas 1.2 and scikit-learn 0.24, which do not build on Python 3.11,
    # and needs from_numpy_matrix, which networkx 3 removed.
    "OpenEnsembles": (
        ("numpy<2", "scipy<1.11", "scikit-learn<1.3", "pandas<2", "networkx<3", "matplotlib<3.8",
         "hdbscan"),
        ("OpenEnsembles==2.0.0",),
    ),
    # It imports joblib without asking for it, and clusters with scikit-learn.
    "consensusclustering": (("consensusclustering==0.2.4", "scikit-learn", "joblib"), ()),
    # It has no wheel for Linux: the build needs a C compiler.
    "pyckmeans": (
        ("numpy", "scipy", "scikit-learn", "pandas", "matplotlib", "tqdm"),
        ("pyckmeans==0.9.4",),
    ),
    # It asks for matplotlib ≤ 3.3.4, which does not build on Python 3.11.
    "mvlearn": (
        ("numpy<2", "scipy<1.13", "scikit-learn<1.3", "matplotlib<3.8", "seaborn", "joblib"),
        ("mvlearn==0.5.0",),
    ),
    "scikit-network": (("scikit-network==0.33.5",), ()),
}  # fmt: skip


class Environment(NamedTuple):
    """An interpreter with a package, or the reason why there is none."""

    package: str
    python: str  # path of the interpreter; empty if the environment could not be made
    installed: Mapping[str, str] = {}  # versions by distribution
    error: str = ""  # last error of pip

    @property
    def version(self) -> str:
        """Version of the package; empty if it is unknown."""
        wanted = _canonical(self.package)
        return next((v for name, v in self.installed.items() if _canonical(name) == wanted), "")


def find_or_make(package: str, folder: Path) -> Environment:
    """Return the environment of a package, made in ``folder`` if it is not there yet.

    A package without requirements is used from the present environment. An environment that is
    incomplete, or was made for other requirements or another Python, is made again. If pip fails,
    the error is in the result and the next call tries again.
    """
    if package not in REQUIREMENTS:
        return Environment(package, sys.executable, {package: version(package)})
    # absolute, because trials run in other folders
    home = folder.expanduser().absolute() / _canonical(package)
    wanted = [*map(list, REQUIREMENTS[package]), f"{sys.executable} {platform.python_version()}"]
    installed = _installed_before(home, wanted)
    if installed is None:
        sys.stderr.write(f"installing {package} into {home}\n")
        try:
            _make_room(home)
            installed = _install(home, *REQUIREMENTS[package])
        except subprocess.CalledProcessError as error:
            message = error_line(error.stdout or "") or f"pip ended with status {error.returncode}"
            return Environment(package, "", error=message)
        with atomic_file(home / _STAMP) as unfinished:
            stamp = {"made_for": wanted, "installed": installed}
            unfinished.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    return Environment(package, str(home / _PYTHON), installed)


def _installed_before(home: Path, wanted: Sequence[object]) -> dict[str, str] | None:
    """Return the versions in an environment made for the same requirements, or None."""
    try:
        stamp = json.loads((home / _STAMP).read_text(encoding="utf-8"))
        same = stamp["made_for"] == wanted and (home / _PYTHON).exists()
        return dict(stamp["installed"]) if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _make_room(home: Path) -> None:
    """Remove an old environment; a folder that is no virtual environment is not removed."""
    if home.exists():
        ours = home.is_dir() and ((home / "pyvenv.cfg").is_file() or not any(home.iterdir()))
        if not ours:
            raise OutputError(
                f"{home} exists and is not a virtual environment; move it, or choose another "
                "folder with --set environments=FOLDER"
            )
        shutil.rmtree(home)


def _install(
    home: Path, with_dependencies: tuple[str, ...], alone: tuple[str, ...]
) -> dict[str, str]:
    """Make an environment; return the versions of everything in it."""
    _output([sys.executable, "-m", "venv", str(home)])
    pip = [str(home / _PYTHON), "-m", "pip", "--disable-pip-version-check"]
    # wheels only: builds of old packages take minutes and then fail
    _output([*pip, "install", "--only-binary", ":all:", *with_dependencies])
    if alone:
        _output([*pip, "install", "--no-deps", *alone])
    listed = json.loads(_output([*pip, "list", "--format", "json"]))
    return {entry["name"]: entry["version"] for entry in listed}


def _output(command: list[str]) -> str:
    """Return the output of a command; the exception of a failure has the error output."""
    variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    if done.returncode != 0:
        said = done.stderr or done.stdout
        raise subprocess.CalledProcessError(done.returncode, command, output=said)
    return done.stdout


def _canonical(name: str) -> str:
    """Return the name of a distribution as package indexes compare it."""
    return name.lower().replace("_", "-").replace(".", "-")
