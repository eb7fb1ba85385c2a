"""Tests of stages on a terminal, and of notes made from warnings."""

from __future__ import annotations

import logging
import warnings

import pytest

from coterie.cli.progress import is_watched, progress_unless, shown_notes
from coterie.errors import DissentWarning
from coterie.runtime.messages import announce
from terminals import watched

LIBRARY = logging.getLogger("coterie.some_module")


def test_stages_are_shown_on_a_terminal(monkeypatch):
    """A terminal shows log messages of the library."""
    terminal = watched(monkeypatch)
    with progress_unless(quiet=False):
        LIBRARY.info("searching")
    assert "searching" in terminal.getvalue()


def test_nothing_is_shown_when_quiet(monkeypatch):
    """--quiet shows no progress, and no announcement."""
    terminal = watched(monkeypatch)
    assert is_watched(quiet=False)
    with progress_unless(quiet=True):
        LIBRARY.info("searching")
        announce("compiling")
    assert terminal.getvalue() == ""


def test_nothing_is_shown_to_a_file(capsys):
    """Without a terminal as standard error stream there is no progress."""
    assert not is_watched(quiet=False)
    with progress_unless(quiet=False):
        LIBRARY.info("searching")
    assert capsys.readouterr() == ("", "")


def test_warnings_for_the_user_become_notes(capsys):
    """A repeated warning becomes one note on one line."""
    with shown_notes(quiet=True) as notes:
        for _ in range(2):
            warnings.warn("two\n camps", DissentWarning, stacklevel=1)
    assert notes == ["two camps"]
    assert capsys.readouterr() == ("", "")


def test_other_warnings_are_not_notes():
    """A warning that points to a defect is shown as usual."""
    with pytest.warns(RuntimeWarning, match="overflow"), shown_notes(quiet=True) as notes:
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
    assert notes == []


def test_notes_are_shown_even_on_failure(capsys):
    """Notes before a failure are printed, as one line each."""
    with pytest.raises(ValueError, match="no"), shown_notes():
        warnings.warn("two camps", DissentWarning, stacklevel=1)
        raise ValueError("no")
    assert capsys.readouterr().err == "note: two camps\n"
