"""Tests of the message while kernels are compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import numba as nb
import pytest
from numba.core import event

from coterie.runtime import compile_messages
from coterie.runtime.compile_messages import CompileListener
from terminals import watched

COMPILE_ONE_KERNEL = """
import logging, sys
import numpy as np
import coterie.labels.tuple_kernels
from coterie.counts.cluster_kernels import first_largest

if "logged" in sys.argv:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
first_largest(np.zeros(3))
"""


def kernel_of(module: str):
    """Return a function of a module that numba has not compiled."""

    def plus_one(number):
        return number + 1

    plus_one.__module__ = module
    return nb.njit(plus_one)


def compile_with(listener: CompileListener, *modules: str) -> None:
    """Compile a kernel of each module while the listener is registered."""
    with event.install_listener("numba:compile", listener):
        for module in modules:
            kernel_of(module)(1)


def test_the_first_compilation_is_announced_on_a_terminal(monkeypatch):
    """Several kernels give one message; a kernel of another package gives none."""
    watched(monkeypatch)
    compile_with(CompileListener(), "coterie.first_kernels")  # the listener of this process too
    terminal, listener = watched(monkeypatch), CompileListener()
    compile_with(listener, "users.module")
    assert terminal.getvalue() == ""
    compile_with(listener, "coterie.some_kernels", "coterie.other_kernels")
    assert terminal.getvalue().count("compiling kernels for this machine (10 to 30 seconds)") == 1


def test_nothing_is_written_to_a_file(capfd):
    """A script whose standard error stream is no terminal gets no message."""
    compile_with(CompileListener(), "coterie.some_kernels")
    assert capfd.readouterr() == ("", "")


def test_the_message_waits_for_a_watcher(monkeypatch):
    """A compilation that nobody sees does not use up the message."""
    listener = CompileListener()
    compile_with(listener, "coterie.some_kernels")
    terminal = watched(monkeypatch)
    compile_with(listener, "coterie.other_kernels")
    assert "compiling kernels" in terminal.getvalue()


def test_the_listener_is_registered_once(monkeypatch):
    """Several modules with kernels register one listener."""
    registered = []
    monkeypatch.setattr(event, "register", lambda *listener: registered.append(listener))
    compile_messages.announce_compilation.cache_clear()
    for _ in range(2):
        compile_messages.announce_compilation()
    assert len(registered) == 1


@pytest.mark.parametrize("arguments", [["logged"], []], ids=["logged", "captured"])
def test_kernels_of_the_cache_give_no_message(tmp_path, arguments):
    """A new installation compiles and says so if the log is on; the next process is silent."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    printed = [
        subprocess.run(
            [sys.executable, "-c", COMPILE_ONE_KERNEL, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    ]
    first = "compiling kernels for this machine, once (10 to 30 seconds)\n" if arguments else ""
    assert [run.stderr for run in printed] == [first, ""]
    assert [run.stdout for run in printed] == ["", ""]
