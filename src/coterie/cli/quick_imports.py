"""Scikit-learn, imported in half of the time.

It imports pandas, which the program does not use, and scipy.stats, which the program rarely uses:
modules under ``sklearn.metrics``, which even k-means needs, import four functions of it by name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_STATS = "scipy.stats"
_NAMES = ("chi2", "gmean", "rankdata", "spearmanr")


class _Later:
    """Stands for a function or a distribution of scipy.stats."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *given: Any, **named: Any) -> Any:
        return getattr(_stats(), self._name)(*given, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(_stats(), self._name), name)


class _LaterModule(ModuleType):
    """Stands for scipy.stats until another name than the four is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Later(name) if name in _NAMES else getattr(_stats(), name)


def import_scikit_learn() -> None:
    """Import scikit-learn, and leave out what it does not need now."""
    if "sklearn" in sys.modules or _STATS in sys.modules:
        return
    blocked: dict[str, Any] = {} if "pandas" in sys.modules else {"pandas": None}
    sys.modules |= {_STATS: _LaterModule(_STATS), **blocked}
    try:
        import sklearn.base  # noqa: F401
    finally:
        for name in blocked:
            del sys.modules[name]


def _stats() -> ModuleType:
    if isinstance(sys.modules[_STATS], _LaterModule):
        del sys.modules[_STATS]
    return import_module(_STATS)
