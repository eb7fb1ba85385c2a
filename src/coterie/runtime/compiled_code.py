"""Compiled code: the decorator of all kernels, and the cache of what numba compiled.

Kernels are decorated with :func:`njit` instead of ``numba.njit(cache=True)``, which needs a folder
that it can write to. The folder is one of these, the first that can be used:

1. a folder that numba would use and that is writable: ``NUMBA_CACHE_DIR``, ``__pycache__`` of the
   package, or the cache of the user;
2. a private temporary folder with links to one of those that is read-only and holds compiled code,
   as in an image that ``coterie warm`` prepared; it is removed at exit;
3. none: kernels are compiled in memory, and a warning says so.

A full disk is a warning too. Hooks of numba that are not public are used in this module only; in a
version of numba without them, kernels are compiled where they could have been loaded.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numba as nb

from coterie.errors import CoterieWarning
from coterie.runtime.compile_messages import announce_compilation

__all__ = ["CompiledFunctions", "compiled_functions", "njit", "prepare_cache"]

#: The settings of numba; it gives them no types.
_config: Any = nb.config
_log = logging.getLogger("coterie")
_lock = threading.RLock()
_package = Path(__file__).parents[1]
_kernels: list[Any] = []
_problems: list[str] = []
#: Where the links in the folders of a private cache lead.
_originals: dict[str | None, str | None] = {}
_PREFIX = "coterie-compiled-"


class CompiledFunctions(NamedTuple):
    """What became of the kernels that this process has called, one per type of arguments."""

    compiled: int
    loaded: int
    folders: list[str]  # where the cache is
    problem: str  # why compiled code was not kept; empty if it was


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel: ``numba.njit``, with a cache where there can be one.

    Examples
    --------
    >>> @njit(nogil=True)
    ... def twice(number):
    ...     return 2 * number
    >>> twice(21)
    42
    """

    def decorate(function: Callable[..., Any]) -> Any:
        with _lock:
            announce_compilation()
            kernel = _cached_kernel(function, options)
            if hasattr(kernel, "stats"):  # NUMBA_DISABLE_JIT leaves the function as it is
                _kernels.append(kernel)
        return kernel

    return decorate


@functools.cache
def prepare_cache() -> str:
    """Return the folder to use instead of that of ``NUMBA_CACHE_DIR``; empty if none is needed.

    It is called when the first kernel is decorated. A process does it once.
    """
    if getattr(_config, "CACHE_LOCATOR_CLASSES", ""):  # the user has decided
        return ""
    try:
        for locate in _locators():
            folders = {folder: locate(folder) for folder in _package_folders()}
            if _is_writable(folders[_package]):
                return ""
            warmed = {folder: path for folder, path in folders.items() if _holds_code(path)}
            if warmed:
                return _linked(warmed)
    except (ImportError, AttributeError, OSError) as error:  # another numba, or a full disk
        _log.info("Not looking for compiled code: %s", error)
    return ""


def compiled_functions() -> CompiledFunctions:
    """Count the kernels that were compiled, and those that were loaded from the cache."""
    stats = [kernel.stats for kernel in _kernels]
    return CompiledFunctions(
        sum(sum(one.cache_misses.values()) for one in stats),
        sum(sum(one.cache_hits.values()) for one in stats),
        sorted({_originals.get(one.cache_path, one.cache_path) for one in stats} - {None}),
        _problems[0] if _problems else "",
    )


def _cached_kernel(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    with _cache_dir(prepare_cache()):
        try:
            kernel = nb.njit(cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            if Path(function.__code__.co_filename).exists():  # else it was typed, and has no cache
                _warn_without_cache()
            return nb.njit(**options)(function)
    _guard(kernel)
    return kernel


@contextlib.contextmanager
def _cache_dir(folder: str) -> Iterator[None]:
    """Let numba use a folder for the kernels of this package only."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = folder or before
    try:
        yield
    finally:
        _config.CACHE_DIR = before


def _locators() -> list[Callable[[Path], Path]]:
    """Return functions from folders of the package to those of numba's cache, in its order."""
    given = ["UserProvidedCacheLocator"] if _config.CACHE_DIR else []
    names = [*given, "InTreeCacheLocator", "UserWideCacheLocator"]
    return [_locator(name) for name in names]


def _locator(name: str) -> Callable[[Path], Path]:
    from numba.core import caching

    # earlier versions have the same classes under private names
    kind: Any = getattr(caching, name, None) or getattr(caching, f"_{name}")

    def locate(folder: Path) -> Path:
        # the path depends on the folder of the file alone
        return Path(kind(_locator, str(folder / "__init__.py")).get_cache_path())

    return locate


def _package_folders() -> list[Path]:
    return [Path(folder) for folder, _, files in os.walk(_package) if "__init__.py" in files]


def _is_writable(folder: Path) -> bool:
    """Return whether files can be written, in the way in which numba finds out."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _holds_code(folder: Path) -> bool:
    try:
        return any(folder.glob("*.nbi"))
    except OSError:  # it may not be looked into
        return False


def _linked(warmed: dict[Path, Path]) -> str:
    """Return a private folder with links to compiled code, laid out as numba expects it."""
    private = _private_folder()
    if private is None:
        return ""
    first, locate = next(iter(warmed.values())), _locator("UserProvidedCacheLocator")
    with _cache_dir(private):
        for folder, path in warmed.items():
            home = locate(folder)
            home.mkdir(parents=True)
            _originals[str(home)] = str(path)
            for file in path.glob("*.nb[ic]"):
                # numba replaces files and never changes them, so the originals stay as they are
                (home / file.name).symlink_to(file.resolve())
    _log.info("Using the compiled code in %s, which is read-only", first)
    return private


def _private_folder() -> str | None:
    for parent in (None, "/dev/shm"):
        with contextlib.suppress(OSError):
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
            atexit.register(_remove, folder, os.getpid())
            return folder
    return None


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)


def _guard(kernel: Any) -> None:
    """Turn a failure to load or to save compiled code into a message."""
    cache: Any = getattr(kernel, "_cache", None)
    if not hasattr(cache, "load_overload") or not hasattr(cache, "save_overload"):
        return
    load, save = cache.load_overload, cache.save_overload

    def load_or_none(*signature: Any) -> Any:
        try:
            return load(*signature)
        except Exception as error:  # a damaged file can raise anything
            _log.info("Compiling %s again: %s", kernel.__name__, error)
            with contextlib.suppress(OSError):
                cache.flush()
            return None

    def save_or_warn(*compiled: Any) -> None:
        try:
            save(*compiled)
        except OSError as error:
            with contextlib.suppress(OSError):
                cache.flush()  # the index may refer to code of an earlier version
            _warn_unsaved(str(cache.cache_path), error.strerror or str(error))

    cache.load_overload, cache.save_overload = load_or_none, save_or_warn


def _warn_without_cache() -> None:
    _warn_once(
        "compiled code cannot be kept: neither NUMBA_CACHE_DIR nor the folder of the package nor "
        "the cache of the user is writable. The kernels are compiled at every start, which takes "
        "10 to 30 seconds. Set NUMBA_CACHE_DIR to a writable folder, or run coterie warm where the "
        "package is installed"
    )


def _warn_unsaved(folder: str, reason: str) -> None:
    _warn_once(
        f"compiled code could not be saved in {folder}: {reason}. It works, and is compiled again "
        "at the next start"
    )


def _warn_once(problem: str) -> None:
    """Give one warning in a process; what follows is of the same kind."""
    _problems.append(problem)
    if len(_problems) == 1:
        warnings.warn(problem, CoterieWarning, stacklevel=2)
