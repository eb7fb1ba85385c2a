"""``coterie demo`` on the terminal and in its folder."""

from __future__ import annotations

import dataclasses
import os

import pytest

from coterie.command_line.tables import read_table


@pytest.fixture(autouse=True)
def small(monkeypatch, demonstration):
    """The experiment on few points, made once."""
    monkeypatch.setattr("coterie.command_line.demonstration.demonstrate", lambda _: demonstration)


def test_terminal_shows_every_method_and_the_verdict(run, demonstration):
    """The table has a row a method; who was set aside is told; nothing is written unasked."""
    result = run("demo")
    assert result.exit_code == 0, result.stderr
    for recovery in demonstration.recoveries:
        assert f"{recovery.method} " in result.stdout
        assert f"{recovery.accuracy:.1%}" in result.stdout
    assert demonstration.verdict in " ".join(result.stdout.split())
    assert "Nothing was written" in result.stdout


def test_folder_is_made_and_filled(run, tmp_path, demonstration):
    """A folder that is not there is made; the page and the partitions lie in it."""
    folder = tmp_path / "new" / "demo"
    result = run("demo", "--output", folder)
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "labels.csv"]
    columns = read_table(folder / "labels.csv").columns
    assert list(columns) == ["point", *demonstration.names]
    assert [int(x) for x in columns["p3"].to_pylist()] == demonstration.P[:, 3].tolist()


def test_the_next_command_of_the_page_works(run, tmp_path, demonstration):
    """What the page says to do next can be done."""
    run("demo", "--output", tmp_path, "--quiet")
    page = (tmp_path / "index.html").read_text()
    command = f"consensus labels.csv --id point -k {len(demonstration.sizes)} -o consensus.csv"
    assert f"coterie {command}" in page
    arguments = [tmp_path / word if word.endswith(".csv") else word for word in command.split()]
    assert run(*arguments).exit_code == 0
    labels = [int(x) for x in read_table(tmp_path / "consensus.csv").columns["label"].to_pylist()]
    assert labels == demonstration.flagship.labels_.tolist()


def test_what_a_method_warned_of_is_a_note(run, monkeypatch, demonstration):
    """A method's notes are told on the standard error stream, under its name."""
    first, *others = demonstration.recoveries
    warned = dataclasses.replace(
        demonstration, recoveries=(dataclasses.replace(first, notes=("it stopped",)), *others)
    )
    monkeypatch.setattr("coterie.command_line.demonstration.demonstrate", lambda _: warned)
    assert run("demo", "--quiet").stderr == f"note: {first.method}: it stopped\n"


def test_quiet_says_nothing(run, tmp_path):
    """--quiet writes the files and says nothing."""
    result = run("demo", "-o", tmp_path, "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / "index.html").exists()


def test_a_folder_that_cannot_be_is_told_before_the_work(run, tmp_path, monkeypatch):
    """A file in the way ends with 1 and a message."""
    monkeypatch.setattr(
        "coterie.command_line.demonstration.demonstrate", lambda _: pytest.fail("work was done")
    )
    (tmp_path / "file").touch()
    result = run("demo", "-o", tmp_path / "file" / "demo")
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: cannot write to {tmp_path / 'file' / 'demo'}: {tmp_path / 'file'} is not a "
        "folder; name another\n"
    )


def test_a_read_only_folder_is_told(run, tmp_path):
    """A folder that cannot be made ends with 1 and a message."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    if os.access(locked, os.W_OK):
        pytest.skip("this user may write to read-only folders")
    result = run("demo", "-o", locked / "demo")
    assert result.exit_code == 1
    assert "read-only" in result.stderr
