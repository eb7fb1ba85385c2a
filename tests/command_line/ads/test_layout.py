"""Answers fit the terminal, and what comes from outside is shown as it is."""

from __future__ import annotations

import pytest

from answers import assert_fits
from coterie.command_line.ads import layout


def test_nothing_is_taken_for_markup(capsys):
    """Brackets, colons and escapes of a name are shown, not obeyed."""
    console = layout.stdout_console()
    layout.print_heading(console, "[bold]a[/bold] :fox:\x1b[2J", ": a log")
    table = layout.figures_table(["name"], ["n"])
    table.add_row("[red]b[/red]", "1")
    layout.print_indented(console, table)
    printed = capsys.readouterr().out
    assert "[bold]a[/bold] :fox:␛[2J: a log" in printed
    assert "[red]b[/red]" in printed
    assert "\x1b" not in printed


def test_long_names_are_folded_and_lose_nothing(capsys):
    """A cell longer than the terminal takes several lines; no figure is cut for it."""
    name = "n" * 200
    table = layout.figures_table(["name"], ["first", "second"])
    table.add_row(name, "123,456", "78.9%")
    layout.print_indented(layout.stdout_console(), table)
    printed = capsys.readouterr().out
    assert_fits(printed)
    assert printed.count("n") == 200 + len("n") + len("n")  # the name, "name" and "second"
    assert "123,456" in printed
    assert "78.9%" in printed


def test_facts_without_a_value_are_left_out(capsys):
    """None is nothing to say; the rest stands side by side."""
    layout.stdout_console().print(layout.facts_grid({"days": "4", "spend": None, "bids": "9"}))
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["days", "4"],
        ["bids", "9"],
    ]


def test_files_are_on_one_line_each(capsys):
    """A path is never broken, so that it can be copied."""
    path = "folder/" * 30 + "file\n.csv"
    layout.print_files(layout.stdout_console(), [path, "b"])
    shown = path.replace("\n", "␊")
    assert capsys.readouterr().out == f"wrote {shown}\nwrote b\n"


@pytest.mark.parametrize(("n", "told"), [(0, "0 days"), (1, "1 day"), (1234, "1,234 days")])
def test_one_is_singular(n, told):
    """Only one of a thing has no s."""
    assert layout.counted(n, "day") == told
