"""Environments are made once, remade when they must be, and failures come back as words."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks import peer_environments
from benchmarks.peer_environments import (
    ENVIRONMENTS,
    MadeEnvironment,
    PeerEnvironment,
    error_line,
    make_environment,
    this_environment,
)
from coterie.errors import OutputError

WANTED = PeerEnvironment("Some.Peer", ("numpy<2",), ("some-peer==1.0",), "it is old")


class FakePip:
    """Stands in for every command: makes what venv makes, lists what pip lists."""

    def __init__(self, fails_at: str = "", said: str = "") -> None:
        self.commands: list[list[str]] = []
        self.fails_at, self.said = fails_at, said

    def __call__(self, command: list[str]) -> str:
        """Record the command, and do the little of it that is looked at later."""
        self.commands.append(command)
        if self.fails_at and self.fails_at in command:
            raise subprocess.CalledProcessError(1, command, output=self.said)
        if "venv" in command:
            home = Path(command[-1])
            (home / "bin").mkdir(parents=True)
            (home / "bin" / "python").touch()
            (home / "pyvenv.cfg").touch()
        return json.dumps([{"name": "some_peer", "version": "1.0"}])


@pytest.fixture
def pip(monkeypatch):
    """No command is run; what would be is recorded."""
    fake = FakePip()
    monkeypatch.setattr(peer_environments, "_say_or_fail", fake)
    return fake


def test_an_environment_is_made_once(pip, tmp_path):
    """Wheels with dependencies first, the package alone last; the second call finds it made."""
    told: list[str] = []
    made = make_environment(WANTED, tmp_path / "new", told.append)
    assert made.version == "1.0"
    assert made.python == str(tmp_path / "new" / "some-peer" / "bin" / "python")
    assert made.error == ""
    venv, wheels, alone, listed = pip.commands
    assert venv[1:3] == ["-m", "venv"]
    assert wheels[-3:] == ["--only-binary", ":all:", "numpy<2"]
    assert alone[-2:] == ["--no-deps", "some-peer==1.0"]
    assert "list" in listed
    assert make_environment(WANTED, tmp_path / "new", told.append) == made
    assert len(pip.commands) == 4
    assert told == ["installing Some.Peer"]


@pytest.mark.parametrize("spoil", ["requirements", "stamp", "python"])
def test_an_environment_that_is_not_the_one_is_made_anew(pip, tmp_path, spoil):
    """Other requirements, a stamp that is none, or an interpreter that is gone: made again."""
    make_environment(WANTED, tmp_path)
    wanted, home = WANTED, tmp_path / "some-peer"
    if spoil == "requirements":
        wanted = PeerEnvironment("Some.Peer", ("numpy<3",))
    elif spoil == "stamp":
        (home / "made.json").write_text("{")
    else:
        (home / "bin" / "python").unlink()
    (home / "left").touch()
    assert make_environment(wanted, tmp_path).version == "1.0"
    assert len(pip.commands) > 4
    assert not (home / "left").exists()


def test_a_failure_comes_back_as_its_last_error_and_is_tried_again(pip, tmp_path):
    """What pip said is in the result; nothing is kept, so the next call tries again."""
    pip.fails_at, pip.said = "--no-deps", "long\nERROR: No matching distribution\nhint: see above"
    made = make_environment(WANTED, tmp_path)
    assert made == MadeEnvironment(
        "Some.Peer", "", why="it is old", error="ERROR: No matching distribution"
    )
    pip.fails_at = ""
    assert make_environment(WANTED, tmp_path).error == ""


def test_a_folder_in_the_way_is_not_removed(pip, tmp_path):
    """A folder that is no virtual environment, or a file, is refused and stays."""
    precious = tmp_path / "some-peer" / "thesis.tex"
    precious.parent.mkdir()
    precious.touch()
    with pytest.raises(OutputError, match=r"not a virtual environment .* --environments"):
        make_environment(WANTED, tmp_path)
    assert precious.exists()
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot make the folder"):
        make_environment(WANTED, tmp_path / "file")


def test_relative_folders_give_absolute_interpreters(pip, tmp_path, monkeypatch):
    """Trials run elsewhere, so the interpreter is named from the root."""
    monkeypatch.chdir(tmp_path)
    made = make_environment(WANTED, Path("here"))
    assert made.python.startswith(str(tmp_path))


def test_commands_that_fail_tell_what_they_said():
    """The output of the failure is standard error; that of success standard output."""
    python = this_environment("coterie").python
    assert peer_environments._say_or_fail([python, "-c", "print(1)"]) == "1\n"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        peer_environments._say_or_fail([python, "-c", "import sys; sys.exit('no')"])
    assert failed.value.stdout.strip() == "no"


def test_error_line_of_nothing_is_nothing():
    """Where no line tells an error the last line does; of no lines, none."""
    assert error_line("one\ntwo\n\n") == "two"
    assert error_line("") == ""


def test_pins_are_explained():
    """Whatever is not a plain installation of the package says why."""
    for package, wanted in ENVIRONMENTS.items():
        plain = len(wanted.requirements) == 1 and not wanted.alone
        assert wanted.package == package
        assert plain or len(wanted.why) > 30
