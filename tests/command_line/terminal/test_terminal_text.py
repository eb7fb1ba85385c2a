"""Text from outside on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.command_line.terminal.terminal_text import one_line


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


@pytest.mark.parametrize("arguments", [("consensus", "-k", 3), ("choose-k", "--to", 3)])
def test_what_is_piped_has_no_blanks_at_ends_of_lines(run, labels_csv, arguments):
    """Though tables are padded to their width on a terminal."""
    command, *options = arguments
    lines = run(command, labels_csv, "--id", "name", *options).stdout.split("\n")
    assert len(lines) > 5
    assert lines == [line.rstrip() for line in lines]
