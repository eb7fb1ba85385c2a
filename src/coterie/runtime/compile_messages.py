"""A message while kernels are compiled, which takes long at the first use after installation."""

from __future__ import annotations

import functools

from numba.core import event

from coterie.runtime.verbosity import announce

__all__ = ["CompileListener", "announce_compilation"]


@functools.cache
def announce_compilation() -> None:
    """Announce, once in a process, that kernels of this package are compiled.

    :func:`~coterie.runtime.compiled_code.njit` calls it. Kernels that numba loads from its cache
    are not compiled, so there is no message.
    """
    event.register("numba:compile", CompileListener())  # type: ignore[no-untyped-call]


class CompileListener(event.Listener):
    """Listener of numba that announces the first compilation of a kernel of this package."""

    def __init__(self) -> None:
        self._announced = False

    def on_start(self, compilation: event.Event) -> None:
        """Announce the compilation if it is the first one."""
        kernel = compilation.data["dispatcher"]
        if not self._announced and kernel.py_func.__module__.startswith("coterie."):
            # without a cache, the next process compiles them again
            once = ", once" if kernel.stats.cache_path else ""
            self._announced = announce(
                f"compiling kernels for this machine{once} (10 to 30 seconds)"
            )

    def on_end(self, compilation: event.Event) -> None:
        """Do nothing."""
