"""Tests of the folder of a demo: replaced without touching files of the user."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from coterie.cli import demo_folder
from coterie.cli.demo_folder import fresh_folder
from coterie.errors import OutputError

DEMO = "coterie demo", ("market", "market.coterie", "segments.csv", "report.html")
REFUSED = "was not written by a demo, and a new demo would replace it"


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a finished demo."""
    made = tmp_path / "new" / "demo"
    with fresh_folder(made, *DEMO):
        write_demo(made)
    return made


def write_demo(folder, content="first"):
    """Write a small version of the files of a demo."""
    (folder / "market" / "bids").mkdir(parents=True)
    for name in ("market/bids/bids-1.parquet", "market/truth.parquet", "report.html"):
        (folder / name).write_text(content)


def contents(folder):
    """Return the files in a folder and their contents, without the record."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "demo.json"
    }


def test_the_folder_and_those_above_are_made(folder):
    """A record names the files that were written."""
    record = json.loads((folder / "demo.json").read_text())
    assert record["made_by"] == "coterie demo"
    assert set(record["files"]) == set(contents(folder))


def test_an_earlier_demo_is_replaced(folder):
    """The files of the last demo are removed before the next one."""
    with fresh_folder(folder, *DEMO):
        assert list(folder.iterdir()) == []
        write_demo(folder, "second")
    assert set(contents(folder).values()) == {b"second"}
    with fresh_folder(folder, *DEMO):
        write_demo(folder, "third")


def test_other_files_are_kept(folder):
    """Other files and folders are kept."""
    (folder / "notes.txt").write_text("mine")
    (folder / "mine").mkdir()
    with fresh_folder(folder, *DEMO):
        write_demo(folder)
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "mine").is_dir()


@pytest.mark.parametrize("name", ["report.html", "market/bids/bids-1.parquet"])
def test_a_changed_file_is_not_replaced(folder, name):
    """If a file was changed, nothing is started and nothing is removed."""
    (folder / name).write_text("mine now")
    before = contents(folder)
    with pytest.raises(OutputError, match=REFUSED), fresh_folder(folder, *DEMO):
        pytest.fail("the work was started")
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["segments.csv", "market/x/y"])
def test_an_added_file_is_not_replaced(folder, name):
    """A file of the user at a path of the demo is kept."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    before = contents(folder)
    with pytest.raises(OutputError, match=REFUSED), fresh_folder(folder, *DEMO):
        pytest.fail("the work was started")
    assert contents(folder) == before


def test_folder_without_a_record_is_not_cleared(tmp_path):
    """Without a record, a market is not treated as that of a demo."""
    write_demo(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(OutputError, match="with --output"), fresh_folder(tmp_path, *DEMO):
        pytest.fail("the work was started")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["market", "report.html"])
def test_links_are_not_followed(folder, tmp_path, name):
    """A link at a path of the demo is refused, and its target is kept."""
    target = tmp_path / "elsewhere"
    (folder / name).rename(target)
    (folder / name).symlink_to(target)
    with pytest.raises(OutputError, match=REFUSED), fresh_folder(folder, *DEMO):
        pytest.fail("the work was started")
    assert target.exists()
    assert (folder / name).is_symlink()


@pytest.mark.parametrize("record", ["", "[]", "{}", '{"made_by": "me", "files": {}}', '"text"'])
def test_a_record_of_something_else_is_not_replaced(tmp_path, record):
    """A demo.json of the user is kept."""
    (tmp_path / "demo.json").write_text(record)
    with (
        pytest.raises(OutputError, match="is not the record of a demo"),
        fresh_folder(tmp_path, *DEMO),
    ):
        pytest.fail("the work was started")
    assert (tmp_path / "demo.json").read_text() == record


def test_a_record_cannot_point_elsewhere(tmp_path):
    """Only paths of the demo are removed, even if the record names others."""
    folder = tmp_path / "demo"
    with fresh_folder(folder, *DEMO):
        write_demo(folder)
    (tmp_path / "mine.txt").write_text("first")
    record = json.loads((folder / "demo.json").read_text())
    record["files"]["../mine.txt"] = record["files"]["report.html"]
    (folder / "demo.json").write_text(json.dumps(record))
    with fresh_folder(folder, *DEMO):
        pass
    assert (tmp_path / "mine.txt").read_text() == "first"


def test_a_failure_is_recorded_too(tmp_path):
    """Files of a failed demo can be replaced by the next."""
    folder = tmp_path / "demo"
    with pytest.raises(ValueError, match="no"), fresh_folder(folder, *DEMO):
        write_demo(folder)
        raise ValueError("no")
    with fresh_folder(folder, *DEMO):
        assert list(folder.iterdir()) == []


def test_interrupt_names_written_paths(tmp_path):
    """The arguments of the interrupt are the written paths."""
    with pytest.raises(KeyboardInterrupt) as interrupt, fresh_folder(tmp_path / "demo", *DEMO):
        write_demo(tmp_path / "demo")
        raise KeyboardInterrupt
    expected = (tmp_path / "demo" / "market", tmp_path / "demo" / "report.html")
    assert interrupt.value.args == expected


def test_nothing_written_leaves_no_folder(tmp_path):
    """If the work fails before the first file, no folder is left."""
    with pytest.raises(ValueError, match="no"), fresh_folder(tmp_path / "demo", *DEMO):
        raise ValueError("no")
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_reported_once(tmp_path, monkeypatch):
    """The reported failure is that of the work, not of the record."""

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(demo_folder, "atomic_file", full)
    with pytest.raises(OutputError, match="the work"), fresh_folder(tmp_path / "demo", *DEMO):
        write_demo(tmp_path / "demo")
        raise OutputError("the work has no room")


def test_file_in_the_path_is_refused(tmp_path):
    """A folder cannot be made inside a file."""
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "demo"
    with (
        pytest.raises(OutputError, match="is not a folder; name another"),
        fresh_folder(folder, *DEMO),
    ):
        pytest.fail("the work was started")


def test_read_only_folder_is_refused(tmp_path, monkeypatch):
    """A folder without write permission is refused."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OutputError, match="read-only"), fresh_folder(tmp_path / "demo", *DEMO):
        pytest.fail("the work was started")


def kill_after(folder, paths):
    """Begin a demo in a new process that writes some paths and is killed."""
    code = f"""
import os, pathlib, signal
from coterie.cli.demo_folder import fresh_folder
folder = pathlib.Path({str(folder)!r})
with fresh_folder(folder, *{DEMO!r}) as record:
    for path in {paths!r}:
        record(folder / path.partition("/")[0])
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("first")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize("n_written", [0, 1, 2])
def test_a_killed_demo_can_be_repeated(folder, n_written):
    """The record says before each path that it is written; so the next demo may replace it."""
    kill_after(folder, ["market/truth.parquet", "report.html"][:n_written])
    with fresh_folder(folder, *DEMO):
        assert list(folder.iterdir()) == []
        write_demo(folder, "second")
    assert set(contents(folder).values()) == {b"second"}


def test_a_killed_demo_leaves_files_of_the_user_alone(folder):
    """Only the path that was being written is taken for the demo's without a checksum."""
    kill_after(folder, ["market/truth.parquet"])
    (folder / "report.html").write_text("mine")
    with pytest.raises(OutputError, match=REFUSED), fresh_folder(folder, *DEMO):
        pytest.fail("the work was started")
    assert (folder / "report.html").read_text() == "mine"
