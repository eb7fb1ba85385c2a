"""What tests ask of the program's answers."""

from __future__ import annotations

from typer.testing import Result


def assert_one_line(result: Result, *parts: str) -> None:
    """The program ended with 1 and one line that has some parts, and printed nothing else."""
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


def unwrapped(text: str) -> str:
    """A text on one line, wherever the terminal broke it."""
    return " ".join(text.split())


def assert_fits(text: str, width: int = 80) -> None:
    """No line is longer than the terminal is wide, but for those that name files."""
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("wrote ")]
    assert max(map(len, lines)) <= width, max(lines, key=len)
    assert not any("…" in line for line in lines)
