"""Questions to the program, and assertions about its answers."""

from __future__ import annotations

from typing import Any

from typer.testing import Result


def as_options(question: dict[str, Any]) -> list[str]:
    """Return the arguments of a function as the options of the command."""
    given = question | ({"level": f"{question['level']:.0%}"[:-1]} if "level" in question else {})
    return [part for name, value in given.items() for part in (f"--{name}", str(value))]


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
