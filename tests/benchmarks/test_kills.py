"""The benchmark of killed commands: a small run, and faults that it would find."""

import pytest
from typer.main import get_command

from benchmarks.kills import _is_whole, _problems
from benchmarks.kills.commands import Writing, commands
from coterie.cli.program import ads, app


def test_every_command_that_writes_is_killed():
    """The others print or serve."""
    named = {word for one in commands() for word in (one.words[0], " ".join(one.words[:2]))}
    known = set(get_command(app).commands) - {"ads"}
    known |= {f"ads {name}" for name in get_command(ads).commands}
    assert known - named == {"methods", "ads check", "ads serve"}


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("c.csv", b"id,label\n1,", "c.csv is not whole"),
        ("m.html", b"<html><p>", "m.html is not whole"),
        ("c.parquet", b"PAR1....", "c.parquet is not whole"),
        ("other.csv", b"x\n", "other.csv is visible"),
    ],
)
def test_parts_and_strange_files_are_faults(name, content, fault, tmp_path):
    """A part of an output, and a visible file that is none, are found."""
    writing = Writing("some command", (), ("c.csv", "m.html", "c.parquet"))
    for place in ("place", "whole"):
        (tmp_path / place).mkdir()
        (tmp_path / place / name).write_bytes(content)
    place, whole = tmp_path / "place", tmp_path / "whole"
    assert _problems(writing, place, whole, {name: ""}) == [fault]
    assert _is_whole(place / name) == (name == "other.csv")
