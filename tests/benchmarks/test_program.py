"""The commands: what is printed, what is written, and what is refused before the work."""

from __future__ import annotations

import json
import sys
import threading

import pytest
from typer.testing import CliRunner

from benchmarks import noise, noise_report, speed
from benchmarks.first_use import FirstUse
from benchmarks.measuring import Measurement
from benchmarks.noise import NoiseCell
from benchmarks.program import app
from benchmarks.speed import CellTimes, Check, SpeedResults
from coterie.errors import MissingExtraError, OutputError

CORE = (NoiseCell((12, 8), 4, 1, 0.1), NoiseCell((9, 9, 9), 5, 2, 0.1, correlated=False))


@pytest.fixture
def small_cells(monkeypatch):
    """Two small core cells and one other in place of the many."""
    for module in (noise, noise_report):
        monkeypatch.setattr(module, "CORE_CELLS", CORE)
    monkeypatch.setattr(noise, "MORE_CELLS", (NoiseCell((10, 5), 3, 1, 0.2),))


@pytest.fixture
def no_work(monkeypatch):
    """A benchmark that must not begin."""

    def refuse(*args, **settings):
        raise AssertionError("the work began")

    monkeypatch.setattr(noise, "run_noise", refuse)
    monkeypatch.setattr(speed, "run_speed", refuse)


@pytest.fixture
def measured(monkeypatch):
    """The scales at which speed is measured; it takes no time."""
    scales = []

    def run(scale, repeats, before_step):
        before_step("measuring")
        scales.append((scale, repeats))
        use = FirstUse(0.1, 2.0, 9.0, 0.1)
        cell = CellTimes(
            "c", "ten rows", {"coterie": Measurement(1, 2, 3, "m")}, [Check("r", 1, 2)]
        )
        return SpeedResults(scale, [cell], {"cold": use, "warm": use}, [])

    monkeypatch.setattr(speed, "run_speed", run)
    return scales


def run(*arguments: str):
    """What the program does with these arguments; its errors are raised here."""
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_noise_shows_a_table_and_the_summary(small_cells):
    """All cells by default, on standard output; nothing on standard error off a terminal."""
    found = run("noise", "--draws", "1")
    assert found.exit_code == 0
    assert found.stderr == ""
    assert "RobustConsensus" in found.stdout
    assert all(sizes in found.stdout for sizes in ("12, 8", "3×9", "10, 5"))
    assert "Core cells (2)" in found.stdout
    assert "All cells (3)" in found.stdout


def test_noise_json_is_pure_and_quick_is_core_only(small_cells):
    """With --json the output is one object; --quick means two draws of the core cells."""
    found = run("noise", "--json", "--quick")
    everything = json.loads(found.stdout)
    assert [cell["sizes"] for cell in everything["cells"]] == [[12, 8], [9, 9, 9]]
    methods = everything["cells"][0]["methods"]
    assert all(len(scores["accuracies"]) == 2 for scores in methods.values())
    assert list(everything["summary"]) == ["core"]


def test_noise_writes_its_report(small_cells, tmp_path):
    """JSON as printed, a page and a picture, in a folder made for them."""
    folder = tmp_path / "new" / "report"
    found = run("noise", "--quick", "--draws", "1", "--json", "-o", str(folder))
    assert sorted(path.name for path in folder.iterdir()) == ["noise.json", "noise.md", "noise.png"]
    assert (folder / "noise.json").read_text() == found.stdout
    assert (folder / "noise.png").read_bytes().startswith(b"\x89PNG")
    assert "![" in (folder / "noise.md").read_text()


def test_speed_writes_its_report(measured, tmp_path):
    """JSON as printed and a page; full scale and three runs by default."""
    found = run("speed", "--json", "-o", str(tmp_path))
    assert measured == [(speed.FULL, 3)]
    assert (tmp_path / "speed.json").read_text() == found.stdout
    assert json.loads(found.stdout)["cells"][0]["name"] == "c"
    assert "ten rows" in (tmp_path / "speed.md").read_text()


def test_speed_shows_tables(measured):
    """Tables on standard output; --quick is the small scale, --repeats the number of runs."""
    found = run("speed", "--quick", "--repeats", "2")
    assert measured == [(speed.QUICK, 2)]
    assert "ten rows" in found.stdout
    assert "First use" in found.stdout


@pytest.mark.parametrize("command", ["noise", "speed"])
def test_a_file_in_place_of_the_folder_is_refused_first(no_work, tmp_path, command):
    """An output that cannot be written is refused before the work begins."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match=r"cannot make the folder .*taken"):
        run(command, "-o", str(tmp_path / "taken"))


def test_a_missing_matplotlib_is_told_first(no_work, monkeypatch, tmp_path):
    """Without matplotlib the report, which has a picture, is refused before the work begins."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'coterie\[plots\]'"):
        run("noise", "-o", str(tmp_path))


@pytest.mark.parametrize("arguments", [("noise", "--draws", "0"), ("speed", "--repeats", "0")])
def test_wrong_usage_ends_with_two(no_work, arguments):
    """Numbers below one are wrong usage."""
    assert run(*arguments).exit_code == 2


def test_an_interrupt_leaves_no_files(small_cells, monkeypatch, tmp_path):
    """An interrupt in the middle of the work is passed on, and nothing is written."""
    done = threading.Event()
    clustering_accuracy = noise.clustering_accuracy

    def interrupt(y, labels):
        if done.is_set():
            raise KeyboardInterrupt
        done.set()
        return clustering_accuracy(y, labels)

    monkeypatch.setattr(noise, "clustering_accuracy", interrupt)
    assert run("noise", "--quick", "-o", str(tmp_path)).exit_code != 0
    assert list(tmp_path.iterdir()) == []
