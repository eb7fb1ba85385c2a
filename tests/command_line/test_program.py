"""The program as a whole: help, version, exit codes, errors, interrupts, imports."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import coterie
from coterie import RobustConsensus
from coterie.command_line import main
from coterie.command_line.program import stopped_by_sigterm

COMMANDS = ("consensus", "cluster", "choose-k", "methods", "ads", "bench", "demo")


def test_version(run):
    """--version prints the version and nothing else."""
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"coterie {coterie.__version__}\n")


def test_help_names_every_command(run):
    """The help of the program lists its commands."""
    result = run("--help")
    assert result.exit_code == 0
    for command in COMMANDS:
        assert command in result.stdout


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in {"ads", "bench"}])
def test_help_of_a_command_has_an_example(run, command):
    """Every command says what it does and how it is called."""
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: coterie {command} " in result.stdout


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["consensus"], ["consensus", "x.csv", "-k", "0"], ["cluster"]]
)
def test_wrong_usage_ends_with_2(run, arguments):
    """A call that cannot be understood ends with 2."""
    assert run(*arguments).exit_code == 2


def test_bad_input_is_one_line_and_ends_with_1(run, tmp_path):
    """A CoterieError is one line on the standard error stream; the other stays empty."""
    result = run("consensus", tmp_path / "none.csv")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: there is no file ")
    assert result.stderr.count("\n") == 1


def test_interrupt_ends_with_130_and_writes_nothing(run, labels_csv, tmp_path, monkeypatch):
    """An interrupt while fitting leaves no file and says so."""

    def interrupted(self, P, y=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(RobustConsensus, "fit", interrupted)
    result = run("consensus", labels_csv, "--id", "name", "-o", tmp_path / "out.csv")
    assert (result.exit_code, result.stderr) == (130, "interrupted; nothing was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]


def test_sigterm_ends_with_143(run, labels_csv, tmp_path, monkeypatch):
    """As an interrupt would, with its own word; the handler is gone afterwards."""

    def terminated(path, columns):
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("coterie.files.tables.write_table", terminated)
    model, before = tmp_path / "m.coterie", signal.getsignal(signal.SIGTERM)
    arguments = ("--id", "name", "-o", tmp_path / "out.csv", "--save-model", model)
    with stopped_by_sigterm():
        result = run("consensus", labels_csv, *arguments)
    assert (result.exit_code, result.stderr) == (143, f"terminated after writing {model}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.csv", "m.coterie"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigterm_that_is_ignored_stays_so():
    """Whoever starts the program decides."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with stopped_by_sigterm():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_interrupt_tells_what_was_written(run, labels_csv, tmp_path, monkeypatch):
    """An interrupt between two files names the one that is complete."""

    def interrupted(path, columns):
        raise KeyboardInterrupt

    monkeypatch.setattr("coterie.files.tables.write_table", interrupted)
    model = tmp_path / "m.coterie"
    result = run(
        "consensus", labels_csv, "--id", "name", "-o", tmp_path / "out.csv", "--save-model", model
    )
    assert (result.exit_code, result.stderr) == (130, f"interrupted after writing {model}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.csv", "m.coterie"]


def test_a_defect_shows_as_what_it_is(run, labels_csv, monkeypatch):
    """An exception nobody raised on purpose is not dressed up as bad input."""
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


def test_help_imports_nothing_heavy():
    """The program's help is quick because numerical packages are imported by commands alone."""
    code = (
        "import sys\n"
        "from coterie.command_line.program import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "heavy = {'numba', 'sklearn', 'scipy', 'pyarrow', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
