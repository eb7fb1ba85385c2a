"""Optional packages: whether they are installed, and which command installs them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coterie.errors import MissingExtraError
from coterie.runtime.wording import in_words

__all__ = [
    "import_pandas",
    "install_command",
    "missing_extra",
    "missing_packages",
    "require_extra",
]


def require_extra(extra: str, what: str, *packages: str, instead: str = "") -> None:
    """Raise a MissingExtraError unless the packages can be imported; they are not imported here.

    Parameters
    ----------
    extra : str
        The extra of this distribution that installs the packages; empty if none does.
    what : str
        Who needs them, with the verb: "plots need".
    packages : str
        Their names in import statements.
    instead : str
        What works without them.

    >>> require_extra("", "data frames need", "no_such_package")
    Traceback (most recent call last):
    ...
    coterie.errors.MissingExtraError: data frames need no_such_package, which is not installed: pip
    install no_such_package
    """
    missing = missing_packages(packages)
    if missing:
        raise missing_extra(extra, what, missing, instead)


def import_pandas() -> Any:
    """Return the module pandas, or say how to install it."""
    require_extra(
        "", "data frames need", "pandas", instead="or use the attributes of the estimator"
    )
    import pandas

    return pandas


def missing_packages(packages: Sequence[str]) -> list[str]:
    """Return the packages that are not installed.

    >>> missing_packages(["numpy", "no_such_package.module"])
    ['no_such_package.module']
    """
    return [name for name in packages if not _is_installed(name)]


def missing_extra(
    extra: str, what: str, packages: Sequence[str], instead: str = ""
) -> MissingExtraError:
    """Return the error that :func:`require_extra` raises."""
    verb = "is" if len(packages) == 1 else "are"
    command = install_command(extra or packages)
    return MissingExtraError(
        f"{what} {in_words(packages)}, which {verb} not installed: {command}"
        + (f"; {instead}" if instead else "")
    )


def install_command(wanted: str | Sequence[str]) -> str:
    """Return the command that adds an extra to this installation, or installs packages.

    It names the folder, file or repository that coterie was installed from, if it was not an index.
    """
    if isinstance(wanted, str):
        return f"pip install {_requirement(wanted)}"
    return "pip install " + " ".join(
        "'psycopg[binary]'" if name == "psycopg" else name.replace(".", "-") for name in wanted
    )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a package above it
        return False


def _requirement(extra: str) -> str:
    # these imports would make every `import coterie` slower
    import json
    import shlex
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        recorded = metadata.distribution("coterie").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        recorded = None
    source = json.loads(recorded or "{}")
    url = source.get("url", "")
    if "vcs_info" in source:
        return shlex.quote(f"coterie[{extra}] @ {source['vcs_info']['vcs']}+{url}")
    if url.startswith("file:"):
        path = Path(url2pathname(urlsplit(url).path))
        if path.is_file() or (path / "pyproject.toml").is_file():
            option = "-e " if source.get("dir_info", {}).get("editable") else ""
            return option + shlex.quote(f"{path}[{extra}]")
    return f"'coterie[{extra}]'"
