"""Lazy public names: a package imports each of its names when it is first used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from coterie.runtime.missing_extras import missing_extra

__all__ = ["lazy_names"]


def lazy_names(
    package: str, extra: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    ``package`` is the ``__name__`` of the package. Its public names are those in the statements
    ``from package.module import name as name`` under ``if TYPE_CHECKING:``. They are read from
    the source, so that a package lists each name once. ``__getattr__`` imports and returns a
    public name or a module of the package. ``__dir__`` has the public names and those with double
    underscores. ``extra`` installs the packages of other projects that the names need.

    >>> import coterie.multiview
    >>> get_attribute, _, names = lazy_names("coterie.multiview")
    >>> "SpectralView" in names, get_attribute("SpectralView").__name__
    (True, 'SpectralView')
    """
    module = sys.modules[package]
    source = module.__spec__.loader.get_source(package)  # type: ignore[union-attr]
    modules = _modules_by_name(source)

    def get_attribute(name: str) -> Any:
        if name in modules:
            try:
                value = getattr(import_module(modules[name]), name)
            except ModuleNotFoundError as error:
                needed = str(error.name).partition(".")[0]
                if not extra or needed == package.partition(".")[0]:
                    raise
                raise missing_extra(extra, f"{package}.{name} needs", [needed]) from error
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


def _modules_by_name(source: str) -> dict[str, str]:
    """Return the module of each name that the source imports for type checkers."""
    return {
        alias.name: str(statement.module)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname == alias.name  # type checkers export only this form
    }
