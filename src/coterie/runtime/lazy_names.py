"""Public names of a package that are imported when first used, so that importing it is quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

__all__ = ["import_name"]


def import_name(name: str, package: str, home: Mapping[str, str], names: dict[str, Any]) -> object:
    """What a package's ``__getattr__`` gives: a public name, or a module of the package.

    Parameters
    ----------
    name : str
    package : str
    home : mapping of str to str
        The module of the package in which each public name lives.
    names : dict
        The package's globals; a public name is kept there.

    Examples
    --------
    >>> import_name("readable_bytes", "coterie", {"readable_bytes": "devices"}, {})(2e6)
    '2.0 MB'
    """
    if name in home:
        names[name] = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        value: object = names[name]
        return value
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{package}.{name}":
            raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
