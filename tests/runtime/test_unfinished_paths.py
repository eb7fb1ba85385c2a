"""Hidden paths of unfinished outputs, and what killed processes leave of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.runtime import atomic_files
from coterie.runtime.atomic_files import atomic_file, atomic_folder, remove_stale


def test_only_abandoned_paths_are_removed(tmp_path):
    """Those of ended processes on this machine, and old ones of others, are removed."""
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
        f".out.parquet-{machine}-{dead.pid}-0123abcd.unfinished.d": False,
        f".out.parquet-{machine}-{dead.pid}-0123abcd.other": True,
    }
    for name in names:
        rows = tmp_path / name / "rows.parquet"
        rows.parent.mkdir()
        rows.write_text("half")
        if "00000000" in name:
            os.utime(rows, (0, 0))
        if "0123abcd" not in name:
            # the folder is old; the rows in the second one are not
            os.utime(rows.parent, (0, 0))
    remove_stale(tmp_path / "out.parquet")
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


@pytest.mark.parametrize("kind", ["atomic_file", "atomic_folder"])
def test_the_next_writer_removes_what_a_killed_one_left(kind, tmp_path):
    """The output of a killed writer is absent; then it is whole, and nothing else is there."""
    path = tmp_path / "out.csv"
    write = "(made / 'part' if made.is_dir() else made).write_text('half')"
    code = f"""
import os, pathlib, signal
from coterie.runtime.atomic_files import {kind}
with {kind}({str(path)!r}) as made:
    {write}
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".out.csv-") and ".unfinished" in left.name
    writer = {"atomic_file": atomic_file, "atomic_folder": atomic_folder}[kind]
    with writer(path) as made:
        (made / "part" if made.is_dir() else made).write_text("whole")
    assert list(tmp_path.iterdir()) == [path]
