"""The group ``coterie ads`` as a whole: help, usage, and who sees progress."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from coterie.command_line.ads.program import app

COMMANDS = ("simulate", "check", "segment", "forecast", "evaluate", "report", "serve")
PROGRAM = [sys.executable, "-c", "from coterie.command_line import main; main()", "ads"]


def test_help_names_every_command(run):
    """The help of the group lists its commands, in the order of the work."""
    result = run("ads", "--help")
    assert result.exit_code == 0
    places = [result.stdout.index(f"│ {command} ") for command in COMMANDS]
    assert places == sorted(places)
    assert [command.name for command in app.registered_commands] == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example(run, command):
    """Every command says what it does and how it is called."""
    result = run("ads", command, "--help")
    assert result.exit_code == 0
    assert f"Example: coterie ads {command} " in " ".join(result.stdout.split())
    assert ("--json" in result.stdout) == (command != "serve")
    assert "--quiet" in result.stdout


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], *([command] for command in COMMANDS), ["check", "a", "b"]]
)
def test_wrong_usage_ends_with_2(run, arguments):
    """A call that cannot be understood ends with 2."""
    assert run("ads", *arguments).exit_code == 2


def test_help_imports_nothing_heavy():
    """Help is quick because engines and numerical packages are imported by commands alone."""
    code = (
        "import sys\n"
        "from coterie.command_line.program import app\n"
        "try:\n    app(['ads', 'segment', '--help'])\n"
        "except SystemExit as stop:\n    assert stop.code == 0\n"
        "heavy = {'numba', 'sklearn', 'scipy', 'pyarrow', 'ibis', 'duckdb', 'jinja2', 'pyspark'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_progress_is_for_a_terminal_alone(market):
    """Stages are shown on a standard error stream that is a terminal; the other stays clean."""
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal:  # noqa: PTH123 — a number, not a path
        process = subprocess.Popen(
            [*PROGRAM, "check", str(market), "--json"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm"},
        )
        os.close(theirs)
        shown = b"".join(_read(terminal))
        printed, _ = process.communicate()
    assert process.returncode == 0
    assert "Checking every row" in shown.decode()
    assert json.loads(printed)["ok"] is True
    assert b"\x1b" not in printed


def test_nothing_is_shown_to_a_pipe(market):
    """Where the standard error stream is no terminal, it stays empty."""
    done = subprocess.run(
        [*PROGRAM, "check", str(market)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def _read(terminal):
    """What a terminal gets until the other end is closed, which Linux tells by an error."""
    while True:
        try:
            part = terminal.read(65536)
        except OSError:
            return
        if not part:
            return
        yield part
