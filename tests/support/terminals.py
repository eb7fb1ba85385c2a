"""A standard error stream that is a terminal."""

from __future__ import annotations

import io
import sys

import pytest


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make the standard error stream a terminal; called in the test, as pytest resets streams."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    return terminal
