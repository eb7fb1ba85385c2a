"""The demo's folder: made anew, and nothing of anybody else's touched."""

from __future__ import annotations

import errno
import json
import os

import pytest

from coterie.command_line import demo_folder
from coterie.command_line.demo_folder import fresh_folder
from coterie.errors import OutputError

REFUSED = r"is not what a demo wrote there, and a new one would replace it"


@pytest.fixture
def folder(tmp_path):
    """The folder of a demo that has run."""
    made = tmp_path / "new" / "demo"
    with fresh_folder(made):
        write_demo(made)
    return made


def write_demo(folder, content="first"):
    """What a demo writes, in small."""
    (folder / "market" / "bids").mkdir(parents=True)
    for name in ("market/bids/bids-1.parquet", "market/truth.parquet", "report.html"):
        (folder / name).write_text(content)


def contents(folder):
    """Every file there, with what is in it, but for the record."""
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
    """Nothing of the last demo is left, and the places are free for the next."""
    with fresh_folder(folder):
        assert list(folder.iterdir()) == []
        write_demo(folder, "second")
    assert set(contents(folder).values()) == {b"second"}
    with fresh_folder(folder):
        write_demo(folder, "third")


def test_other_files_are_left_alone(folder):
    """What lies beside the demo's files stays."""
    (folder / "notes.txt").write_text("mine")
    (folder / "mine").mkdir()
    with fresh_folder(folder):
        write_demo(folder)
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "mine").is_dir()


@pytest.mark.parametrize("name", ["report.html", "market/bids/bids-1.parquet"])
def test_a_changed_file_is_not_replaced(folder, name):
    """A file that was changed since is somebody's work: nothing is begun, nothing removed."""
    (folder / name).write_text("mine now")
    before = contents(folder)
    with pytest.raises(OutputError, match=REFUSED), fresh_folder(folder):
        pytest.fail("the work was begun")
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["segments.csv", "market/bids/more.parquet", "market/x/y"])
def test_an_added_file_is_not_replaced(folder, name):
    """A file that no demo wrote, in a place that a demo writes to, is left alone."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    before = contents(folder)
    with pytest.raises(OutputError, match=REFUSED), fresh_folder(folder):
        pytest.fail("the work was begun")
    assert contents(folder) == before


def test_a_folder_of_ones_own_is_not_cleared(tmp_path):
    """Without a record, a market is not taken for a demo's."""
    write_demo(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(OutputError, match="with --output"), fresh_folder(tmp_path):
        pytest.fail("the work was begun")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["market", "report.html"])
def test_links_are_not_followed(folder, tmp_path, name):
    """A link in a demo's place leads to something else, which stays."""
    target = tmp_path / "elsewhere"
    (folder / name).rename(target)
    (folder / name).symlink_to(target)
    with pytest.raises(OutputError, match=REFUSED), fresh_folder(folder):
        pytest.fail("the work was begun")
    assert target.exists()
    assert (folder / name).is_symlink()


@pytest.mark.parametrize("record", ["", "[]", "{}", '{"made_by": "me", "files": {}}', '"text"'])
def test_a_record_of_something_else_is_not_replaced(tmp_path, record):
    """A demo.json that no demo wrote is left alone."""
    (tmp_path / "demo.json").write_text(record)
    with pytest.raises(OutputError, match="is not the record of a demo"), fresh_folder(tmp_path):
        pytest.fail("the work was begun")
    assert (tmp_path / "demo.json").read_text() == record


def test_a_record_cannot_point_elsewhere(tmp_path):
    """Only the demo's own places are ever removed, whatever a record names."""
    folder = tmp_path / "demo"
    with fresh_folder(folder):
        write_demo(folder)
    (tmp_path / "mine.txt").write_text("first")
    record = json.loads((folder / "demo.json").read_text())
    record["files"]["../mine.txt"] = record["files"]["report.html"]
    (folder / "demo.json").write_text(json.dumps(record))
    with fresh_folder(folder):
        pass
    assert (tmp_path / "mine.txt").read_text() == "first"


def test_a_failure_is_recorded_too(tmp_path):
    """What a demo wrote before it failed can be replaced by the next."""
    folder = tmp_path / "demo"
    with pytest.raises(ValueError, match="no"), fresh_folder(folder):
        write_demo(folder)
        raise ValueError("no")
    with fresh_folder(folder):
        assert list(folder.iterdir()) == []


def test_an_interrupt_tells_what_was_written(tmp_path):
    """Its arguments are the places that hold something."""
    with pytest.raises(KeyboardInterrupt) as interrupt, fresh_folder(tmp_path / "demo"):
        write_demo(tmp_path / "demo")
        raise KeyboardInterrupt
    expected = (tmp_path / "demo" / "market", tmp_path / "demo" / "report.html")
    assert interrupt.value.args == expected


def test_nothing_written_leaves_no_folder(tmp_path):
    """Where the work fails before the first file there is no trace of it."""
    with pytest.raises(ValueError, match="no"), fresh_folder(tmp_path / "demo"):
        raise ValueError("no")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_once(tmp_path, monkeypatch):
    """The failure that is told is that of the work, not that its record has no room either."""

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(demo_folder, "atomic_file", full)
    with pytest.raises(OutputError, match="the work"), fresh_folder(tmp_path / "demo"):
        write_demo(tmp_path / "demo")
        raise OutputError("the work has no room")


def test_a_file_in_the_way_is_told(tmp_path):
    """A folder cannot be made in a file."""
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "demo"
    with pytest.raises(OutputError, match="is not a folder; name another"), fresh_folder(folder):
        pytest.fail("the work was begun")


def test_a_read_only_folder_is_told(tmp_path, monkeypatch):
    """A folder that cannot be written to is refused."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OutputError, match="read-only"), fresh_folder(tmp_path / "demo"):
        pytest.fail("the work was begun")
