"""Tests of the program: help, version, exit codes, errors, signals, progress, imports."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from typing import Annotated

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import coterie
from coterie import RobustConsensus
from coterie.cli import main
from coterie.cli.program import Command, Program, ads, app, stopped_by_sigterm
from coterie.errors import InvalidParameterError

COMMANDS = ("consensus", "cluster", "predict", "choose-k", "methods", "demo")
ADS = (
    "simulate",
    "check",
    "segment",
    "update",
    "forecast",
    "budget",
    "portfolio",
    "targets",
    "compare",
    "export",
    "evaluate",
    "report",
    "serve",
    "demo",
)
PROGRAM = [sys.executable, "-c", "from coterie.cli import main; main()"]


def test_help_names_every_command(run):
    """The help lists the commands, those of the group ads in the order of use."""
    program, group = run("--help"), run("ads", "--help")
    assert program.exit_code == group.exit_code == 0
    assert all(f"│ {command} " in program.stdout for command in (*COMMANDS, "ads"))
    places = [group.stdout.index(f"│ {command} ") for command in ADS]
    assert places == sorted(places)
    assert list(get_command(ads).commands) == list(ADS)


def test_flags_read_as_flags():
    """The help shows no value after an option that takes none, with any version of Typer."""
    group = get_command(app)
    commands = [*group.commands.values(), *group.commands["ads"].commands.values()]
    flags = [one for command in commands for one in command.params if getattr(one, "is_flag", 0)]
    assert len(flags) > 10
    assert [flag.name for flag in flags if flag.metavar != ""] == []


@pytest.mark.parametrize("command", [*COMMANDS, *(f"ads {name}" for name in ADS)])
def test_help_of_a_command_has_an_example(run, command):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"Example: coterie {command} " in " ".join(result.stdout.split())
    assert "{" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert ("--json" in result.stdout) == (command != "ads serve")
    assert ("--quiet" in result.stdout) == (command != "methods")


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["nonsense"], ["consensus"], ["consensus", "x.csv", "-k", "0"], ["cluster"]),
        *(["ads"], ["ads", "nonsense"], *(["ads", name] for name in ADS[:-1])),
    ],
)
def test_wrong_usage_ends_with_2(run, arguments):
    assert run(*arguments).exit_code == 2


def test_interrupt_ends_with_130_and_writes_nothing(run, labels_csv, tmp_path, monkeypatch):
    """An interrupt while fitting leaves no file and says so."""

    def interrupted(self, P, y=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(RobustConsensus, "fit", interrupted)
    result = run("consensus", labels_csv, "--id", "name", "-o", tmp_path / "out.csv")
    assert (result.exit_code, result.stderr) == (130, "interrupted; nothing was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]


def test_sigterm_ends_with_143(run, labels_csv, tmp_path, monkeypatch):
    """SIGTERM acts like an interrupt, with another exit code; the handler is restored."""

    def terminated(path, columns):
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("coterie.tables.writing.write_table", terminated)
    model, before = tmp_path / "m.coterie", signal.getsignal(signal.SIGTERM)
    arguments = ("--id", "name", "-o", tmp_path / "out.csv", "--save-model", model)
    with stopped_by_sigterm():
        result = run("consensus", labels_csv, *arguments)
    assert (result.exit_code, result.stderr) == (143, f"terminated after writing {model}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.csv", "m.coterie"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_ignored_sigterm_stays_ignored():
    """If the caller ignores SIGTERM, the program does too."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with stopped_by_sigterm():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_defects_are_not_caught(run, labels_csv, monkeypatch):
    """An unexpected exception is not reported as bad input."""
    defect = RuntimeError("a defect")

    def broken(self, P, y=None):
        raise defect

    monkeypatch.setattr(RobustConsensus, "fit", broken)
    assert run("consensus", labels_csv, "--id", "name").exception is defect


def test_main_is_the_program(monkeypatch, capsys):
    """The entry point runs the program on the arguments of the process."""
    monkeypatch.setattr(sys, "argv", ["coterie", "--version"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"coterie {coterie.__version__}\n"


def test_completion_script():
    """--show-completion prints a script for the shell, which calls the program by its name."""
    command = [*PROGRAM, "--show-completion", "bash"]
    # otherwise typer prints the script of the shell that runs the tests, if there is one
    variables = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "_COTERIE_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("coterie consensus --method l", {"l2", "lwea", "lwgp"}),
        ("coterie cho", {"choose-k"}),
    ],
)
def test_completion_of_methods_and_commands(words, expected):
    """The program answers the completion of bash with the methods, values and commands."""
    asked = {
        "_COTERIE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        PROGRAM, env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert set(done.stdout.split()) == expected, done.stderr


def test_help_and_lists_import_nothing_heavy():
    """They are quick because only the commands import methods, engines and numerical packages."""
    code = """
import sys
from coterie.cli.program import app
for command in ("--help", "ads segment --help", "methods"):
    try:
        app(command.split())
    except SystemExit as stop:
        assert not stop.code
heavy = {"sklearn", "scipy", "pyarrow", "matplotlib", "ibis", "duckdb"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pandas_and_statistics_are_imported_when_they_are_used():
    """Functions and distributions that scikit-learn imported by name are the real ones."""
    code = """
import sys
from coterie.cli.program import import_scikit_learn
import_scikit_learn()
from sklearn.cluster import KMeans
from sklearn.covariance import _robust_covariance
from sklearn.metrics import _ranking
assert "pandas" not in sys.modules and "scipy.stats._stats_py" not in sys.modules
assert _ranking.rankdata([3, 1]).tolist() == [2, 1]
assert round(_robust_covariance.chi2.isf(0.5, 1), 3) == 0.455
from scipy import stats
assert stats.norm.cdf(0) == 0.5
import pandas
KMeans(2, n_init=1).fit(pandas.DataFrame({"a": [0.0, 1.0, 9.0]}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal(labels_csv):
    """Stages are shown if the standard error stream is a terminal; the output stays clean."""
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal:  # noqa: PTH123 — a number, not a path
        process = subprocess.Popen(
            [*PROGRAM, "consensus", str(labels_csv), "--id", "name", "-k", "3", "--json"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm"},
        )
        os.close(theirs)
        shown = b"".join(_read(terminal))
        printed, _ = process.communicate()
    assert process.returncode == 0
    assert "reading" in shown.decode()  # the first stage; later ones may be too short to be drawn
    assert json.loads(printed)["points"] == 100
    assert b"\x1b" not in printed


def _read(terminal):
    """Yield what a terminal receives; on Linux the end is an OSError."""
    while True:
        try:
            part = terminal.read(65536)
        except OSError:
            return
        if not part:
            return
        yield part


@pytest.fixture
def shop():
    """Return a program with options of all kinds, which refuses every price."""
    app = typer.Typer(cls=Program)

    @app.command(cls=Command)
    def sell(
        unit_price: Annotated[str, typer.Option("--unit-price", "-p")],
        colour: Annotated[list[str] | None, typer.Option("--colour")] = None,
        quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
    ) -> None:
        what = "size" if colour else "unit_price"
        raise InvalidParameterError(f"{what}={unit_price!r}: it is too high")

    @app.callback()
    def _shop():
        """Sell."""

    return app


@pytest.mark.parametrize("repeated", [["--unit-price", "2"], ["-p", "2"]])
def test_an_option_with_one_value_is_given_once(shop, repeated):
    """A second value is wrong usage, also by the short name: the first would be ignored."""
    result = CliRunner().invoke(shop, ["sell", "--unit-price", "1", *repeated])
    assert result.exit_code == 2
    assert "--unit-price" in result.stderr
    assert "more than once" in result.stderr
    # options of several values, and flags
    asked = ["sell", "-p", "1", "-q", "-q", "--colour", "red", "--colour", "blue"]
    assert CliRunner().invoke(shop, asked).exit_code == 1


def test_errors_name_the_option(shop):
    """An error about a parameter has the option and its value as the user writes them."""
    result = CliRunner().invoke(shop, ["sell", "-p", "9"])
    assert result.stderr == "error: --unit-price 9: it is too high\n"
    # a parameter without an option is named as it is
    result = CliRunner().invoke(shop, ["sell", "-p", "9", "--colour", "red"])
    assert result.stderr == "error: size='9': it is too high\n"
