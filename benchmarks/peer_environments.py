"""A virtual environment for each peer, made with pip when it is first needed and kept.

Peers pin each other's dependencies out of reach, so each has an environment of its own. What it
takes to install one on a present Python, and why, is written down beside its name.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from coterie.datasets.dataset_files import cache_folder
from coterie.errors import OutputError
from coterie.runtime.atomic_files import atomic_file

__all__ = [
    "ENVIRONMENTS",
    "MadeEnvironment",
    "PeerEnvironment",
    "default_folder",
    "error_line",
    "make_environment",
    "this_environment",
]

_STAMP = "made.json"


@dataclass(frozen=True)
class PeerEnvironment:
    """What is installed to run a package.

    Attributes
    ----------
    package : str
        The peer, by its name on PyPI.
    requirements : tuple of str
        Installed with what they depend on, wheels only.
    alone : tuple of str
        Installed afterwards *without* what they say they depend on.
    why : str
        Why it is not just ``pip install package``.
    """

    package: str
    requirements: tuple[str, ...]
    alone: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class MadeEnvironment:
    """An environment that is there, or why it is not.

    Attributes
    ----------
    package : str
    python : str
        The interpreter; empty where the environment could not be made.
    installed : dict of str to str
        Versions, by distribution.
    why : str
        Why the pins.
    error : str
        What pip said last; empty where all went well.
    """

    package: str
    python: str
    installed: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    error: str = ""

    @property
    def version(self) -> str:
        """Version of the package itself, empty where it is not known."""
        wanted = _canonical(self.package)
        return next((v for name, v in self.installed.items() if _canonical(name) == wanted), "")


ENVIRONMENTS = {
    peer.package: peer
    for peer in (
        PeerEnvironment(
            "ensembleclustering",
            ("numpy<2", "scipy<1.11", "scikit-learn<1.3", "pymetis", "kahypar"),
            ("ensembleclustering==1.0.2",),
            "asks for pymetis 2020.1 and scikit-learn < 1.1, which have no wheels for Python 3.11 "
            "and do not build; installed without its dependencies, beside newer ones. With "
            "SciPy 1.12 its cspa, mcla and hbgf end with an AttributeError.",
        ),
        PeerEnvironment(
            "OpenEnsembles",
            (
                "numpy<2",
                "scipy<1.11",
                "scikit-learn<1.3",
                "pandas<2",
                "networkx<3",
                "matplotlib<3.8",
                "hdbscan",
            ),
            ("OpenEnsembles==2.0.0",),
            "asks for NumPy 1.19, pandas 1.2 and scikit-learn 0.24, which do not build on Python "
            "3.11; installed without its dependencies, beside the oldest that have wheels. It "
            "needs from_numpy_matrix, which networkx 3 dropped.",
        ),
        PeerEnvironment(
            "consensusclustering",
            ("consensusclustering==0.2.4", "scikit-learn", "joblib"),
            why="imports joblib, which it does not ask for, and clusters with scikit-learn.",
        ),
        PeerEnvironment(
            "pyckmeans",
            ("numpy", "scipy", "scikit-learn", "pandas", "matplotlib", "tqdm"),
            ("pyckmeans==0.9.4",),
            "has no wheel for Linux: built from source, which takes a C compiler; the rest are "
            "its dependencies, as wheels.",
        ),
        PeerEnvironment(
            "mvlearn",
            ("numpy<2", "scipy<1.13", "scikit-learn<1.3", "matplotlib<3.8", "seaborn", "joblib"),
            ("mvlearn==0.5.0",),
            "asks for matplotlib ≤ 3.3.4, which does not build on Python 3.11; installed without "
            "its dependencies.",
        ),
        PeerEnvironment("scikit-network", ("scikit-network==0.33.5",)),
    )
}


def default_folder() -> Path:
    """Where environments are kept when nothing else is said.

    >>> default_folder().name
    'peers'
    """
    return cache_folder() / "peers"


def this_environment(package: str) -> MadeEnvironment:
    """The environment we run in, for ourselves and for what we depend on.

    >>> this_environment("scikit-learn").version > "1"
    True
    """
    from importlib.metadata import version

    return MadeEnvironment(package, sys.executable, {package: version(package)})


def make_environment(
    wanted: PeerEnvironment, folder: Path, say: Callable[[str], None] | None = None
) -> MadeEnvironment:
    """Make an environment in ``folder``, or find it there as made before.

    One that was made for other requirements or another Python, or only half, is made anew. A
    failure is no exception: the reason comes back, and the next call tries again.

    Parameters
    ----------
    wanted : PeerEnvironment
    folder : Path
        Holds one folder a package; made if it is not there.
    say : function of a text, optional
        Told what is being installed.
    """
    # absolute: trials run in folders of their own
    home = folder.expanduser().absolute() / _canonical(wanted.package)
    made_for = {**asdict(wanted), "interpreter": f"{sys.executable} {platform.python_version()}"}
    made_for = json.loads(json.dumps(made_for))
    kept = _kept(home, made_for)
    if kept is None:
        if say is not None:
            say(f"installing {wanted.package}")
        try:
            _clear(home)
            kept = _installed(wanted, home)
        except subprocess.CalledProcessError as error:
            said = error_line(error.stdout or "") or f"pip ended with status {error.returncode}"
            return MadeEnvironment(wanted.package, "", why=wanted.why, error=said)
        with atomic_file(home / _STAMP) as unfinished:
            stamp = {"made_for": made_for, "installed": kept}
            unfinished.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    return MadeEnvironment(wanted.package, str(_python(home)), kept, wanted.why)


def error_line(text: str) -> str:
    r"""The last line that says what went wrong; the last line of all where none does.

    >>> error_line("Traceback ...\nERROR: no wheel for x\nhint: see above\n")
    'ERROR: no wheel for x'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("ERROR:") or "Error: " in line]
    return (telling or lines or [""])[-1]


def _installed(wanted: PeerEnvironment, home: Path) -> dict[str, str]:
    """Make the environment and give the versions of all that is in it."""
    _say_or_fail([sys.executable, "-m", "venv", str(home)])
    pip = [str(_python(home)), "-m", "pip", "--disable-pip-version-check"]
    # nothing that has to be built: it takes minutes, and with old packages fails in the end
    _say_or_fail([*pip, "install", "--only-binary", ":all:", *wanted.requirements])
    if wanted.alone:
        _say_or_fail([*pip, "install", "--no-deps", *wanted.alone])
    listed: list[dict[str, Any]] = json.loads(_say_or_fail([*pip, "list", "--format", "json"]))
    return {entry["name"]: entry["version"] for entry in listed}


def _say_or_fail(command: list[str]) -> str:
    """Standard output of a command; a failure carries standard error as its output."""
    surroundings = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(
            done.returncode, command, output=done.stderr or done.stdout
        )
    return done.stdout


def _kept(home: Path, made_for: dict[str, Any]) -> dict[str, str] | None:
    """Versions in an environment made for the same; None where there is none such."""
    try:
        stamp = json.loads((home / _STAMP).read_text(encoding="utf-8"))
        versions: dict[str, str] = stamp["installed"]
        same = stamp["made_for"] == made_for
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return versions if same and _python(home).exists() else None


def _clear(home: Path) -> None:
    """Make room; a folder that is no virtual environment is not ours to remove."""
    if home.exists():
        ours = home.is_dir() and ((home / "pyvenv.cfg").is_file() or not any(home.iterdir()))
        if not ours:
            raise OutputError(
                f"{home} is not a virtual environment and is in the way; move it, or name "
                "another folder with --environments"
            )
        shutil.rmtree(home)
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {home.parent}: {error.strerror}") from error


def _python(home: Path) -> Path:
    return home / "bin" / "python"


def _canonical(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return name.lower().replace("_", "-").replace(".", "-")
