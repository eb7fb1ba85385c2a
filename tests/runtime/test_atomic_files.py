"""Files and folders that are written completely or not at all."""

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coterie.errors import OutputError
from coterie.runtime import atomic_files
from coterie.runtime.atomic_files import (
    atomic_file,
    atomic_folder,
    check_writable,
    hidden_folder,
)

needs_names = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="needs the names of open files"
)


@pytest.fixture
def umask():
    """Set a umask that leaves the group its rights."""
    old = os.umask(0o007)
    yield
    os.umask(old)


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "answer.csv"
    path.write_text("old")
    return path


def test_the_file_appears_complete(tmp_path):
    """The path does not exist, or has the old contents, while the file is written."""
    path = tmp_path / "answer.csv"
    for before, after in ((None, "42"), ("42", "43")):
        with atomic_file(str(path)) as unfinished:
            unfinished.write_text(after)
            assert (path.read_text() if path.exists() else None) == before
            assert unfinished.parent.parent == tmp_path
            assert stat.S_IMODE(unfinished.parent.stat().st_mode) == 0o700
        assert path.read_text() == after
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_changes_nothing(target, error):
    """An error or an interrupt keeps the old file, removes the new one, and is passed on."""
    with pytest.raises(error), atomic_file(target) as unfinished:
        unfinished.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]


def test_a_system_error_becomes_an_output_error(target):
    """A full disk, or a temporary file that is gone, is an OutputError with path and reason."""
    with (
        pytest.raises(OutputError, match=r"cannot write .*answer\.csv: No space left"),
        atomic_file(target),
    ):
        raise OSError(28, "No space left on device")
    with (
        pytest.raises(OutputError, match=r"cannot write .*answer\.csv"),
        atomic_file(target) as unfinished,
    ):
        unfinished.unlink()
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]


def test_permissions_are_those_that_open_would_give(target, umask):
    """A new file has 0666 without the bits of the umask; a replaced one keeps its own."""
    for path, mode in ((target.with_name("new"), 0o660), (target, 0o640)):
        if path.exists():
            path.chmod(mode)
        with atomic_file(path) as unfinished:
            unfinished.write_text("x")
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.umask(0o007) == 0o007


def test_links_are_followed(tmp_path, target):
    """Writing to a link replaces its target; the hidden folder is next to the target."""
    elsewhere = tmp_path / "links"
    elsewhere.mkdir()
    link = elsewhere / "latest.csv"
    link.symlink_to(target)
    with atomic_file(link) as unfinished:
        unfinished.write_text("new")
        assert unfinished.parent.parent == target.parent
    assert link.is_symlink()
    assert target.read_text() == link.read_text() == "new"


def test_a_dangling_link_creates_its_target(tmp_path):
    """A link may point to a file that does not exist, but not into a missing folder."""
    link, astray = tmp_path / "link", tmp_path / "astray"
    link.symlink_to(tmp_path / ("a" * 250 + ".csv"))  # close to the limit of the system
    with atomic_file(link) as unfinished:
        unfinished.write_text("x")
    assert link.read_text() == "x"
    astray.symlink_to(tmp_path / "nowhere" / "new")
    with pytest.raises(OutputError, match="does not exist"):
        check_writable(astray)


def test_paths_that_cannot_be_written_are_refused(tmp_path):
    """The error names the path and the reason; the block does not run and leaves no file."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.rglob("*"))
    for path, message in (
        ("nowhere/answer.csv", "nowhere does not exist"),
        ("file/answer.csv", "is not a folder"),
        ("folder", "it is a folder"),
        ("pipe", "a device or a pipe"),
        ("a" * 300, "File name too long"),
    ):
        with pytest.raises(OutputError, match=f"cannot write .*{message}"):
            check_writable(tmp_path / path)
        with pytest.raises(OutputError, match=message), atomic_file(tmp_path / path):
            raise AssertionError("the body must not run")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["Path.exists", "Path.touch"])
def test_errors_of_the_system_before_the_block_are_output_errors(tmp_path, monkeypatch, name):
    """A folder that cannot be examined, or a full disk, is reported with path and reason."""

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"coterie.runtime.atomic_files.{name}", fail)
    with (
        pytest.raises(OutputError, match=r"cannot write .*answer\.csv: No space left"),
        atomic_file(tmp_path / "answer.csv"),
    ):
        raise AssertionError("the body must not run")


@pytest.mark.parametrize(
    ("forbidden", "message"),
    [("folder", "the folder .* is read-only"), ("answer.csv", "the file is read-only")],
)
def test_read_only_is_refused(tmp_path, monkeypatch, forbidden, message):
    """A folder or a file without write permission is refused."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "answer.csv").write_text("old")
    monkeypatch.setattr(os, "access", lambda path, _: path.name != forbidden)
    with pytest.raises(OutputError, match=f"cannot write .*{message}"):
        check_writable(folder / "answer.csv")


@pytest.fixture
def disk_calls(monkeypatch):
    """Record what is stored on the disk and when the name changes, in order."""
    calls, synchronise, replace = [], os.fsync, os.replace

    def stored(descriptor):
        calls.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        synchronise(descriptor)

    def renamed(old, new):
        calls.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", stored)
    monkeypatch.setattr(os, "replace", renamed)
    return calls


@needs_names
def test_the_disk_has_the_contents_before_the_name(tmp_path, disk_calls):
    """A power failure leaves the old file or folder or the new one, and never an empty one."""
    with atomic_file(tmp_path / "answer.csv") as unfinished:
        unfinished.write_text("42")
    assert disk_calls == [str(unfinished), "rename", str(tmp_path)]
    disk_calls.clear()
    with atomic_folder(tmp_path / "answers") as unfinished:
        (unfinished / "part").mkdir()
        (unfinished / "part" / "one.csv").write_text("42")
    inner = [str(unfinished / name) for name in ("part", "part/one.csv")]
    assert disk_calls == [*inner, str(unfinished), "rename", str(tmp_path)]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        # some file systems reserve the space only when the disk has to store the contents
        (OSError(errno.ENOSPC, "No space left on device"), "old"),
        # some network file systems cannot synchronise folders
        (OSError(errno.EINVAL, "Invalid argument"), "new"),
    ],
)
def test_errors_of_the_disk(target, monkeypatch, error, text):
    """A full disk that is found late keeps the old file; a disk that cannot synchronise is used."""

    def fail(_descriptor):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    refused = pytest.raises(OutputError, match="No space left")
    with refused if text == "old" else contextlib.nullcontext(), atomic_file(target) as unfinished:
        unfinished.write_text("new")
    assert target.read_text() == text


def test_only_abandoned_paths_are_removed(tmp_path):
    """Folders of ended processes on this machine, and old ones of others, are removed."""
    machine = atomic_files._machine()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {
        f".out.parquet-{machine}-{dead.pid}-0123abcd.unfinished": False,
        f".out.parquet-{machine}-{os.getpid()}-0123abcd.unfinished": True,
        f".out.parquet-elsewhere-{dead.pid}-0123abcd.unfinished": True,
        f".out.parquet-elsewhere-{dead.pid}-00000000.unfinished": False,
        f".out.parquet-elsewhere-{dead.pid}-11111111.unfinished": True,
        f".other.parquet-{machine}-{dead.pid}-0123abcd.unfinished": True,
        f".out.parquet-{machine}-{dead.pid}-0123abcd.other": True,
    }
    for name in names:
        rows = tmp_path / name / "rows.parquet"
        rows.parent.mkdir()
        rows.write_text("half")
        if "0123abcd" not in name:
            days = 8 if "00000000" in name else 6
            os.utime(rows, (time.time() - days * 86400,) * 2)
            # the folder is old; the rows in the second one are less than a week old
            os.utime(rows.parent, (0, 0))
    with hidden_folder(tmp_path / "out.parquet"):
        assert {name: (tmp_path / name).exists() for name in names} == names


def test_a_machine_is_known_by_more_than_its_name(monkeypatch):
    """Another boot or another container has another id."""
    marks = {"boot_id": "a", "pid": "pid:[1]"}
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: marks["boot_id"])
    monkeypatch.setattr(Path, "readlink", lambda _: Path(marks["pid"]))
    machine = atomic_files._machine.__wrapped__
    here = machine()
    assert machine() == here and here.isalnum()
    for mark in marks:
        with monkeypatch.context() as patch:
            patch.setitem(marks, mark, "b")
            assert machine() != here


@pytest.mark.parametrize("writer", [atomic_file, atomic_folder])
def test_the_next_writer_removes_what_a_killed_one_left(writer, tmp_path):
    """The output of a killed writer is absent; then it is whole, and nothing else is there."""
    path = tmp_path / "out.csv"
    code = f"""
import os, signal
from coterie.runtime.atomic_files import {writer.__name__}
with {writer.__name__}({str(path)!r}) as made:
    (made / "part" if made.is_dir() else made).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".out.csv-") and ".unfinished" in left.name
    with writer(path) as made:
        (made / "part" if made.is_dir() else made).write_text("whole")
    assert list(tmp_path.iterdir()) == [path]
