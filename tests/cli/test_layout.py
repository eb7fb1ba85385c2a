"""Tests of the layout of answers: they fit the terminal, and names are never interpreted."""

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answers import assert_fits, unwrapped
from coterie.cli import layout
from terminals import watched


@given(st.text(st.characters(categories=["Cc", "Cs", "L"])))
@settings(deadline=None, max_examples=50)
def test_control_characters_become_visible(text):
    """Every control character becomes a visible one, and the text can be encoded."""
    shown = layout.one_line(text)
    assert len(shown) == len(text)
    assert not any(unicodedata.category(one) in {"Cc", "Cs"} for one in shown)
    shown.encode("utf-8")


def test_errors_do_not_control_the_terminal(run, tmp_path):
    """A file name cannot clear the screen through an error message."""
    result = run("consensus", tmp_path / "a\x1b[2Jb.csv")
    assert result.exit_code == 1
    assert "a␛[2Jb.csv" in result.stderr
    assert "\x1b" not in result.stderr


def test_messages_are_broken_between_words_on_a_terminal(monkeypatch, capsys):
    """Lines fit the terminal unless a path does not; elsewhere a message is one line."""
    path = "folder/" * 20
    message = f"note: {'some words ' * 20}{path} and more\n"
    layout.print_message(message)
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setenv("COLUMNS", "60")
    terminal = watched(monkeypatch)
    layout.print_message(message)
    lines = terminal.getvalue().splitlines()
    assert unwrapped(terminal.getvalue()) == f"{unwrapped(message)}␊"
    assert [line.strip() for line in lines if len(line) > 60] == [path]


@pytest.mark.parametrize("arguments", [("consensus", "-k", 3), ("choose-k", "--to", 3)])
def test_piped_lines_have_no_trailing_blanks(run, labels_csv, arguments):
    """Tables are padded to their width on a terminal only."""
    command, *options = arguments
    lines = run(command, labels_csv, "--id", "name", *options).stdout.split("\n")
    assert len(lines) > 5
    assert lines == [line.rstrip() for line in lines]


def test_markup_is_not_interpreted(capsys):
    """Brackets, colons and escapes in a name are shown literally."""
    console = layout.stdout_console()
    layout.print_heading(console, "[bold]a[/bold] :fox:\x1b[2J", ": a log")
    table = layout.figures_table(["name"], ["n"])
    table.add_row("[red]b[/red]", "1")
    layout.print_indented(console, table)
    printed = capsys.readouterr().out
    assert "[bold]a[/bold] :fox:␛[2J: a log" in printed
    assert "[red]b[/red]" in printed
    assert "\x1b" not in printed


def test_long_names_are_folded(capsys):
    """A cell longer than the terminal takes several lines; no figure is cut."""
    table = layout.figures_table(["name"], ["first", "second"])
    table.add_row("n" * 200, "123,456", "78.9%")
    layout.print_indented(layout.stdout_console(), table)
    printed = capsys.readouterr().out
    assert_fits(printed)
    assert printed.count("n") == 200 + len("n") + len("n")  # the name, "name" and "second"
    assert "123,456" in printed
    assert "78.9%" in printed


def test_facts_without_a_value_are_left_out(capsys):
    """A fact that is None has no line."""
    layout.stdout_console().print(layout.facts_grid({"days": "4", "spend": None, "bids": "9"}))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["days", "4"], ["bids", "9"]]


def test_files_are_on_one_line_each(capsys):
    """A path is never broken, so that it can be copied."""
    path = "folder/" * 30 + "file\n.csv"
    layout.print_files(layout.stdout_console(), [path, "b"])
    shown = path.replace("\n", "␊")
    assert capsys.readouterr().out == f"wrote {shown}\nwrote b\n"


@pytest.mark.parametrize(
    ("as_json", "quiet", "printed"),
    [(True, False, "json"), (True, True, "json"), (False, True, ""), (False, False, "summary")],
)
def test_answer_is_json_or_a_summary(capsys, as_json, quiet, printed):
    """--json always prints the facts; --quiet suppresses only the summary."""
    facts = {"notes": ["a note"], "sizes": [3, 2]}
    summaries = []
    layout.print_answer(facts, summaries.append, as_json, quiet)
    out = capsys.readouterr().out
    assert (json.loads(out) if printed == "json" else out) == (facts if printed == "json" else "")
    assert summaries == ([facts] if printed == "summary" else [])
