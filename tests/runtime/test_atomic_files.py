"""Files that are written completely or not at all."""

import errno
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from coterie.errors import OutputError
from coterie.runtime.atomic_files import atomic_file, atomic_folder, check_writable

needs_names = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="needs the names of open files"
)


def mode_of(path):
    """Permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    """Set a umask that leaves the group its rights."""
    old = os.umask(0o007)
    yield
    os.umask(old)


@pytest.fixture
def target(tmp_path):
    """A file that exists already."""
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
            assert unfinished.parent == tmp_path
        assert path.read_text() == after
        assert list(tmp_path.iterdir()) == [path]


def test_the_suffix_is_kept(tmp_path):
    """Writers that depend on the suffix, or add one, work."""
    with atomic_file(tmp_path / "labels.npy") as unfinished:
        np.save(unfinished, np.arange(3))
    assert np.load(tmp_path / "labels.npy").tolist() == [0, 1, 2]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_changes_nothing(target, error):
    """An error or an interrupt keeps the old file, removes the new one, and is passed on."""
    with pytest.raises(error), atomic_file(target) as unfinished:
        unfinished.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]


def test_a_system_error_becomes_an_output_error(target):
    """A full disk becomes an OutputError with the path and the reason."""
    with (
        pytest.raises(OutputError, match=r"cannot write .*answer\.csv: No space left"),
        atomic_file(target),
    ):
        raise OSError(28, "No space left on device")
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]


def test_an_output_error_is_passed_on_unchanged(target):
    """An OutputError from within the block is not wrapped in another."""
    with pytest.raises(OutputError, match=r"^the picture cannot be drawn$"), atomic_file(target):
        raise OutputError("the picture cannot be drawn")


def test_a_lost_temporary_file_is_an_error(target):
    """If the temporary file is missing at the end, the old file stays and an error is raised."""
    with (
        pytest.raises(OutputError, match=r"cannot write .*answer\.csv"),
        atomic_file(target) as unfinished,
    ):
        unfinished.unlink()
    assert target.read_text() == "old"


def test_a_new_file_has_the_default_permissions(tmp_path, umask):
    """They are 0666 without the bits of the umask, which is not changed."""
    with atomic_file(tmp_path / "new") as unfinished:
        unfinished.write_text("x")
    assert mode_of(tmp_path / "new") == 0o660
    assert os.umask(0o007) == 0o007


def test_a_replaced_file_keeps_its_permissions(target, umask):
    """The new file has the permissions of the old one, for every umask."""
    target.chmod(0o640)
    with atomic_file(target) as unfinished:
        unfinished.write_text("new")
    assert mode_of(target) == 0o640


def test_links_are_followed(tmp_path, target):
    """Writing to a link replaces its target; the temporary file is beside the target."""
    elsewhere = tmp_path / "links"
    elsewhere.mkdir()
    link = elsewhere / "latest.csv"
    link.symlink_to(target)
    with atomic_file(link) as unfinished:
        unfinished.write_text("new")
        assert unfinished.parent == target.parent
    assert link.is_symlink()
    assert target.read_text() == link.read_text() == "new"


def test_a_dangling_link_creates_its_target(tmp_path):
    """A link may point to a file that does not exist, but not into a missing folder."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "new")
    with atomic_file(link) as unfinished:
        unfinished.write_text("x")
    assert (tmp_path / "new").read_text() == "x"
    astray = tmp_path / "astray"
    astray.symlink_to(tmp_path / "nowhere" / "new")
    with pytest.raises(OutputError, match="does not exist"):
        check_writable(astray)


def test_long_names_are_allowed(tmp_path):
    """A name close to the limit of the system works, although the temporary name adds to it."""
    path = tmp_path / ("a" * 250 + ".csv")
    with atomic_file(path) as unfinished:
        unfinished.write_text("x")
    assert path.read_text() == "x"


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
    """A power failure leaves the old file or the new one, and never an empty one."""
    with atomic_file(tmp_path / "answer.csv") as unfinished:
        unfinished.write_text("42")
    assert disk_calls == [str(unfinished), "rename", str(tmp_path)]


@needs_names
def test_the_disk_has_all_files_of_a_folder_before_its_name(tmp_path, disk_calls):
    """Files, folders and the folder itself are stored before the rename."""
    with atomic_folder(tmp_path / "answers") as unfinished:
        (unfinished / "part").mkdir()
        (unfinished / "part" / "one.csv").write_text("42")
    inner = [str(unfinished / name) for name in ("part", "part/one.csv")]
    assert disk_calls == [*inner, str(unfinished), "rename", str(tmp_path)]


def test_a_full_disk_found_late_keeps_the_old_file(target, monkeypatch):
    """Some file systems reserve the space only when the disk has to store the contents."""

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"), atomic_file(target) as unfinished:
        unfinished.write_text("new")
    assert target.read_text() == "old"


def test_a_file_system_that_cannot_synchronise_folders_is_accepted(target, monkeypatch):
    """Some network file systems refuse it."""

    def refused(_descriptor):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refused)
    with atomic_file(target) as unfinished:
        unfinished.write_text("new")
    assert target.read_text() == "new"
