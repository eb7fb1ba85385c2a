"""Files that appear whole or not at all."""

import os
import stat
import sys

import numpy as np
import pytest

from coterie.errors import OutputError
from coterie.runtime.atomic_files import atomic_file, check_writable

as_a_user = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0,
    reason="the superuser may write anywhere, so no permission can be missing",
)


def mode_of(path):
    """Permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    """A umask that leaves the group its rights, for the time of a test."""
    old = os.umask(0o007)
    yield
    os.umask(old)


@pytest.fixture
def target(tmp_path):
    """A file that is already there."""
    path = tmp_path / "answer.csv"
    path.write_text("old")
    return path


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_the_file_appears_whole(tmp_path, kind):
    """Nothing is at the path while the file is written; all of it is once it is done."""
    path = tmp_path / "answer.csv"
    with atomic_file(kind(path)) as unfinished:
        unfinished.write_text("4")
        assert not path.exists()
        assert unfinished.parent == tmp_path
        unfinished.write_text("42")
    assert path.read_text() == "42"
    assert list(tmp_path.iterdir()) == [path]


def test_the_suffix_is_kept(tmp_path):
    """Writers that go by the suffix, or add one, find what they want."""
    with atomic_file(tmp_path / "labels.npy") as unfinished:
        np.save(unfinished, np.arange(3))
    assert np.load(tmp_path / "labels.npy").tolist() == [0, 1, 2]


def test_an_old_file_is_replaced(target):
    """A reader sees the old file up to the end, then the new one."""
    with atomic_file(target) as unfinished:
        unfinished.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_on_failure_nothing_changes(target, error):
    """An error or an interrupt leaves the old file, removes the new one, and is passed on."""
    with pytest.raises(error), atomic_file(target) as unfinished:
        unfinished.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]


def test_on_failure_nothing_appears(tmp_path):
    """Where there was no file there is none afterwards."""
    with pytest.raises(ZeroDivisionError), atomic_file(tmp_path / "answer.csv") as unfinished:
        unfinished.write_text("half")
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_failures_of_the_system_are_told_as_such(target):
    """A full disk becomes an OutputError with the path and the system's reason."""
    with (
        pytest.raises(OutputError, match=r"cannot write .*answer\.csv: No space left"),
        atomic_file(target),
    ):
        raise OSError(28, "No space left on device")
    assert target.read_text() == "old"
    assert list(target.parent.iterdir()) == [target]


def test_errors_that_say_it_all_are_passed_on(target):
    """An OutputError from within is not wrapped in another."""
    with pytest.raises(OutputError, match=r"^the picture cannot be drawn$"), atomic_file(target):
        raise OutputError("the picture cannot be drawn")


def test_a_lost_file_is_an_error(target):
    """If the unfinished file is gone at the end, the old one stays and it is said."""
    with (
        pytest.raises(OutputError, match=r"cannot write .*answer\.csv"),
        atomic_file(target) as unfinished,
    ):
        unfinished.unlink()
    assert target.read_text() == "old"


def test_a_new_file_has_the_usual_permissions(tmp_path, umask):
    """Like any file of this user: 0666 less the umask."""
    with atomic_file(tmp_path / "new") as unfinished:
        unfinished.write_text("x")
    assert mode_of(tmp_path / "new") == 0o660


def test_a_replaced_file_keeps_its_permissions(target, umask):
    """The old file's permissions are the new one's, whatever the umask is."""
    target.chmod(0o640)
    with atomic_file(target) as unfinished:
        unfinished.write_text("new")
    assert mode_of(target) == 0o640


def test_the_umask_is_left_as_it_was(tmp_path, umask):
    """Asking for the umask does not change it."""
    with atomic_file(tmp_path / "new") as unfinished:
        unfinished.write_text("x")
    assert os.umask(0o007) == 0o007


def test_links_are_followed(tmp_path, target):
    """Writing to a link replaces the file it leads to, beside that file; the link stays one."""
    elsewhere = tmp_path / "links"
    elsewhere.mkdir()
    link = elsewhere / "latest.csv"
    link.symlink_to(target)
    with atomic_file(link) as unfinished:
        unfinished.write_text("new")
        assert unfinished.parent == target.parent
    assert link.is_symlink()
    assert target.read_text() == link.read_text() == "new"


def test_a_link_to_nothing_makes_the_file(tmp_path):
    """A link may lead to a file yet to be written, but not to a folder that is not there."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "new")
    with atomic_file(link) as unfinished:
        unfinished.write_text("x")
    assert (tmp_path / "new").read_text() == "x"
    astray = tmp_path / "astray"
    astray.symlink_to(tmp_path / "nowhere" / "new")
    with pytest.raises(OutputError, match="does not exist"):
        check_writable(astray)


@pytest.mark.parametrize("length", [100, 250])
def test_long_names(tmp_path, length):
    """A name as long as the system allows can be written, though more is added on the way."""
    path = tmp_path / ("a" * length + ".csv")
    with atomic_file(path) as unfinished:
        unfinished.write_text("x")
    assert path.read_text() == "x"


def _in_a_missing_folder(tmp_path):
    return tmp_path / "nowhere" / "answer.csv"


def _in_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    return tmp_path / "file" / "answer.csv"


def _a_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def _a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def _a_link_to_a_device(tmp_path):
    (tmp_path / "out").symlink_to("/dev/null")
    return tmp_path / "out"


def _too_long(tmp_path):
    return tmp_path / ("a" * 300)


REFUSED = [
    (_in_a_missing_folder, "nowhere does not exist; make it"),
    (_in_a_file, "is not a folder"),
    (_a_folder, "it is a folder; name a file in it"),
    (_a_pipe, "a device or a pipe"),
    (_a_link_to_a_device, "a device or a pipe"),
    (_too_long, "File name too long"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_paths_that_cannot_be_written_are_refused(tmp_path, make, message):
    """Before any work is done, with the path and the reason; nothing is left behind."""
    path = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OutputError, match=f"cannot write .*{message}"):
        check_writable(path)
    with pytest.raises(OutputError, match=message), atomic_file(path):
        raise AssertionError("the body must not run")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_cannot_be_seen_is_refused(tmp_path, monkeypatch):
    """What the system does not let us look at is an OutputError too, not a traceback."""

    def forbidden(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("coterie.runtime.atomic_files.Path.exists", forbidden)
    with pytest.raises(OutputError, match=r"cannot write .*answer\.csv: Permission denied"):
        check_writable(tmp_path / "answer.csv")


def test_a_folder_that_fills_up_is_refused(tmp_path, monkeypatch):
    """If the unfinished file cannot even be begun, it is said in the same way."""

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("coterie.runtime.atomic_files.tempfile.mkstemp", full)
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
    """A folder or a file without the right to write is refused, as the system tells it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "answer.csv").write_text("old")
    monkeypatch.setattr(os, "access", lambda path, _: path.name != forbidden)
    with pytest.raises(OutputError, match=f"cannot write .*{message}"):
        check_writable(folder / "answer.csv")


@as_a_user
def test_a_read_only_folder_is_refused(tmp_path):
    """The same with permissions the system keeps."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="is read-only"):
            check_writable(tmp_path / "answer.csv")
    finally:
        tmp_path.chmod(0o700)


def test_a_writable_path_is_left_alone(target):
    """Checking a good path says nothing and touches nothing."""
    before = target.stat()
    check_writable(target)
    check_writable(target.parent / "new")
    assert target.stat() == before
    assert list(target.parent.iterdir()) == [target]
