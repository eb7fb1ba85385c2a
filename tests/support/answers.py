"""Assertions about the answers of the program."""

from __future__ import annotations

from typer.testing import Result


def assert_one_line(result: Result, *parts: str) -> None:
    """Assert that the program ended with 1 and printed one line, with all parts."""
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


def unwrapped(text: str) -> str:
    """Return a text on one line, without the line breaks of the terminal."""
    return " ".join(text.split())


def assert_fits(text: str, width: int = 80) -> None:
    """Assert that no line is wider than the terminal, except those that name files."""
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("wrote ")]
    assert max(map(len, lines)) <= width, max(lines, key=len)
    assert not any("…" in line for line in lines)
