"""Public names of a package that are imported when first used, so that importing it is quick."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    The public names are those that the package imports for type checkers, each in a statement
    ``from package.module import name as name`` under ``if TYPE_CHECKING:``. They are read from
    the source, so that a package lists each name once.

    Parameters
    ----------
    package : str
        The name of the package: its ``__name__``.

    Returns
    -------
    get_attribute : callable
        Import a public name, or a module of the package, and return it.
    list_names : callable
        Return all names, used or not.
    names : list of str
        The public names, in the order of the source.

    Examples
    --------
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
            value = getattr(import_module(modules[name]), name)
            setattr(module, name, value)  # the next use finds it without this function
            return value
        try:
            return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return get_attribute, lambda: sorted({*vars(module), *modules}), list(modules)


def _modules_by_name(source: str) -> dict[str, str]:
    """Return the module of each name that the source imports for type checkers."""
    return {
        alias.name: str(statement.module)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname == alias.name  # type checkers take no other form for an export
    }
