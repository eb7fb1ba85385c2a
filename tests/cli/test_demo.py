"""Tests of ``coterie demo``: its files, its facts, its summary, and its folder."""

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from answers import assert_fits, unwrapped
from coterie import load_model
from coterie.cli import demo as demo_module
from coterie.cli.demo import fresh_folder
from coterie.errors import OutputError
from table_files import columns_of

DEMO = "coterie demo", ("market", "market.coterie", "segments.csv", "report.html")
REFUSED = "was not written by a demo, and a new demo would replace it"


def test_the_demo_clusters_a_table(run, tmp_path):
    """The folder has table, labels, model and report; the printed commands work; it repeats."""
    folder = tmp_path / "a folder"
    arguments = ("demo", "--shops", 200, "--seed", 3, "-o", folder)
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    facts = json.loads(result.stdout)
    names = ["shops.csv", "clusters.csv", "shops.coterie", "report.html"]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "demo.json"])
    assert sum(facts["planted"].values()) == facts["points"] == sum(facts["sizes"]) == 200
    assert facts["adjusted_rand"] > 0.9
    assert load_model(folder / "shops.coterie").random_state == 3
    assert "<canvas" in (folder / "report.html").read_text(encoding="utf-8")
    program, *predict = shlex.split(facts["commands"][1])
    again = tmp_path / "again.csv"
    assert program == "coterie" and run(*predict, "--id", "shop", "-o", again).exit_code == 0
    assert columns_of(again) == columns_of(folder / "clusters.csv")
    printed = run(*arguments).stdout
    assert_fits("\n".join(line for line in printed.splitlines() if str(folder) not in line))
    assert "planted (adjusted Rand index" in unwrapped(printed)
    assert printed.endswith(f"{folder}/report.html\n")


# ---- The folder


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "new" / "demo"
    with fresh_folder(made, *DEMO):
        write_demo(made)
    return made


def write_demo(folder, content="first"):
    """Write a small version of the files of a demo."""
    (folder / "market" / "bids").mkdir(parents=True)
    for name in ("market/bids/bids-1.parquet", "market/truth.parquet", "report.html"):
        (folder / name).write_text(content)


def linked(path):
    path.rename(path.parents[1] / "elsewhere")
    path.symlink_to(path.parents[1] / "elsewhere")


def contents(folder, *left_out):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in left_out
    }


def test_an_earlier_demo_is_replaced_and_other_files_are_kept(folder):
    """A record names the files that were written; they are removed before the next ones."""
    record = json.loads((folder / "demo.json").read_text())
    assert record["made_by"] == "coterie demo"
    assert set(record["files"]) == set(contents(folder, "demo.json"))
    (folder / "notes.txt").write_text("mine")
    (folder / "mine").mkdir()
    for content in ("second", "third"):
        with fresh_folder(folder, *DEMO):
            assert sorted(path.name for path in folder.iterdir()) == [
                *("demo.json", "mine", "notes.txt")
            ]
            write_demo(folder, content)
        found = contents(folder, "demo.json")
        assert found.pop("notes.txt") == b"mine" and set(found.values()) == {content.encode()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "report.html").write_text("mine now"), REFUSED),
        (lambda folder: (folder / "market/bids/bids-1.parquet").write_text("mine"), REFUSED),
        (lambda folder: (folder / "segments.csv").write_text("mine"), REFUSED),
        (lambda folder: (folder / "market" / "mine").write_text("mine"), REFUSED),
        (lambda folder: (folder / "demo.json").unlink(), "with --output"),
        (lambda folder: linked(folder / "market"), REFUSED),
        (lambda folder: linked(folder / "report.html"), REFUSED),
        *(
            (partial(Path.write_text, data=record), rf"demo\.json {REFUSED}")
            for record in ("", "[]", "{}", '{"made_by": "me", "files": {}}', '"text"')
        ),
    ],
)
def test_files_of_the_user_are_not_replaced(folder, change, message):
    """If a file was changed, added or linked, nothing is started and nothing is removed."""
    change(folder / "demo.json" if isinstance(change, partial) else folder)
    before = contents(folder)
    with pytest.raises(OutputError, match=message), fresh_folder(folder, *DEMO):
        pytest.fail("the work was started")
    assert contents(folder) == before


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


def test_a_failed_demo_can_be_repeated(tmp_path):
    """An interrupt names the paths that were written; without any, no folder is left."""
    folder = tmp_path / "demo"
    with pytest.raises(ValueError, match="no"), fresh_folder(folder, *DEMO):
        raise ValueError("no")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt) as interrupt, fresh_folder(folder, *DEMO):
        write_demo(folder)
        raise KeyboardInterrupt
    assert interrupt.value.args == (folder / "market", folder / "report.html")
    with fresh_folder(folder, *DEMO):
        assert [path.name for path in folder.iterdir()] == ["demo.json"]


def test_full_disk_is_reported_once(tmp_path, monkeypatch):
    """The reported failure is that of the work, not of the record."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OutputError, match="the work"), fresh_folder(tmp_path / "demo", *DEMO):
        write_demo(tmp_path / "demo")
        monkeypatch.setattr(demo_module, "write_text", full)
        raise OutputError("the work has no room")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path, monkeypatch):
    """A folder inside a file, or one without write permission, is refused before the work."""
    (tmp_path / "file").touch()
    for folder, message in (
        (tmp_path / "file" / "demo", "Not a directory"),
        (tmp_path, "read-only"),
    ):
        with pytest.raises(OutputError, match=message), fresh_folder(folder, *DEMO):
            pytest.fail("the work was started")
        monkeypatch.setattr(os, "access", lambda *_: False)


@pytest.mark.parametrize("written", [[], ["market/truth.parquet"], ["report.html"]])
def test_a_killed_demo_can_be_repeated(folder, written):
    """The record says that a demo is writing; so the next one may replace what it finds."""
    code = f"""
import os, pathlib, signal
from coterie.cli.demo import fresh_folder
folder = pathlib.Path({str(folder)!r})
with fresh_folder(folder, *{DEMO!r}):
    for path in {written!r}:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("first")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    with fresh_folder(folder, *DEMO):
        assert [path.name for path in folder.iterdir()] == ["demo.json"]
        write_demo(folder, "second")
    assert set(contents(folder, "demo.json").values()) == {b"second"}
