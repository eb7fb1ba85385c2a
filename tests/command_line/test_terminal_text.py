"""Text from outside on a terminal."""

from __future__ import annotations

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.command_line.terminal_text import one_line


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
@settings(deadline=None, max_examples=50)
def test_plain_text_is_as_it_is(text):
    """Letters of any script, emoji and brackets are not changed."""
    assert one_line(text) == text


@given(st.text(st.characters(categories=["Cc", "Cs", "L"])))
@settings(deadline=None, max_examples=50)
def test_nothing_is_left_to_obey(text):
    """Every control character becomes one that is shown, and all of it can be written."""
    shown = one_line(text)
    assert len(shown) == len(text)
    assert not any(unicodedata.category(one) in {"Cc", "Cs"} for one in shown)
    shown.encode("utf-8")


def test_errors_are_shown_not_obeyed(run, tmp_path):
    """A file's name cannot clear the screen through an error message."""
    result = run("consensus", tmp_path / "a\x1b[2Jb.csv")
    assert result.exit_code == 1
    assert "a␛[2Jb.csv" in result.stderr
    assert "\x1b" not in result.stderr
