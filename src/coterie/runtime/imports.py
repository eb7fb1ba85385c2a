"""Imports on demand: public names when they are first used, and optional packages."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coterie.errors import MissingExtraError
from coterie.runtime.wording import in_words


def lazy_names(
    package: str, extra: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Its public names are those in indented statements ``from module import name as name``, which
    type checkers export. They are read from the source, so that a package lists each name once.
    ``extra`` installs the packages of other projects that the names need.
    """
    module = sys.modules[package]
    source = module.__spec__.loader.get_source(package)  # type: ignore[union-attr]
    exported = re.findall(r"(?m)^ +from (\S+) import \(?\s*(\w+) as \2\b", source)
    modules = {name: home for home, name in exported}

    def get_attribute(name: str) -> Any:
        if name in modules:
            try:
                value = getattr(import_module(modules[name]), name)
            except ModuleNotFoundError as error:
                needed = str(error.name).partition(".")[0]
                if not extra or needed == package.partition(".")[0]:
                    raise
                raise _missing_extra(extra, f"{package}.{name} needs", [needed]) from error
            setattr(module, name, value)  # later uses do not call this function
            return value
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    def names() -> list[str]:
        return sorted({*modules, *(name for name in vars(module) if name.startswith("__"))})

    return get_attribute, names, list(modules)


def require_extra(extra: str, what: str, *packages: str, instead: str = "") -> None:
    """Raise a MissingExtraError unless the packages can be imported; they are not imported here.

    ``extra`` of this distribution installs them; it is empty if none does. ``what`` says who needs
    them, with the verb: "plots need". ``instead`` says what works without them.
    """
    if missing := missing_packages(packages):
        raise _missing_extra(extra, what, missing, instead)


def import_pandas() -> Any:
    require_extra(
        "", "data frames need", "pandas", instead="or use the attributes of the estimator"
    )
    import pandas

    return pandas


def missing_packages(packages: Sequence[str]) -> list[str]:
    def is_installed(name: str) -> bool:
        try:
            return find_spec(name) is not None
        except ModuleNotFoundError:  # a package above it
            return False

    return [name for name in packages if not is_installed(name)]


def install_command(wanted: str | Sequence[str]) -> str:
    """Return the command that adds an extra to this installation, or installs packages."""
    if not isinstance(wanted, str):
        return "pip install " + " ".join(re.sub("[._]", "-", name) for name in wanted)
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
    # the folder, file or repository that coterie was installed from, if it was not an index
    source = json.loads(recorded or "{}")
    url = source.get("url", "")
    if "vcs_info" in source:
        requirement = f"coterie[{wanted}] @ {source['vcs_info']['vcs']}+{url}"
        return f"pip install {shlex.quote(requirement)}"
    if url.startswith("file:"):
        path = Path(url2pathname(urlsplit(url).path))
        if path.is_file() or (path / "pyproject.toml").is_file():
            option = "-e " if source.get("dir_info", {}).get("editable") else ""
            return f"pip install {option}{shlex.quote(f'{path}[{wanted}]')}"
    return f"pip install 'coterie[{wanted}]'"


def _missing_extra(
    extra: str, what: str, packages: Sequence[str], instead: str = ""
) -> MissingExtraError:
    verb = "is" if len(packages) == 1 else "are"
    return MissingExtraError(
        f"{what} {in_words(packages)}, which {verb} not installed: "
        f"{install_command(extra or packages)}" + (f"; {instead}" if instead else "")
    )
