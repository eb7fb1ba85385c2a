"""The command ``regret``: what it runs, prints, writes and refuses."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from benchmarks import regret
from benchmarks.program import app
from coterie.consensus.registry import CONSENSUS_METHODS
from coterie.errors import (
    DatasetUnavailableError,
    InvalidParameterError,
    MissingExtraError,
    OutputError,
)
from regret_cells import COLUMNS, replace_suite

ALL = ",".join(COLUMNS)


@pytest.fixture
def asked(monkeypatch):
    """What was fitted, as (method, seed); cells and methods are made up."""
    return replace_suite(monkeypatch)


def run(*arguments: str):
    """What the program does with these arguments, in one process; its errors are raised here."""
    return CliRunner(env={"COTERIE_DATA": None}).invoke(
        app, ["regret", "--jobs", "1", *arguments], catch_exceptions=False
    )


def test_tables_sentences_and_notes_are_shown(asked):
    """All cells, ten draws by default; nothing on standard error off a terminal."""
    found = run("--methods", ALL)
    assert (found.exit_code, found.stderr) == (0, "")
    for part in ("Regret, report half", "Accuracy, planted", "RobustConsensus has mean regret"):
        assert part in found.stdout
    assert "Note: Did not run" in found.stdout
    assert {seed for _, seed in asked} == set(range(10))


def test_quick_is_one_draw_of_quick_cells_by_quick_methods(asked, monkeypatch):
    """One draw, the cells that need no file; methods can be named all the same."""
    found = run("--quick", "--json", "--methods", ALL)
    everything = json.loads(found.stdout)
    names = [cell["name"] for cell in everything["cells"]]
    assert names == ["10,10; a", "10,10; b", "iris, fixed K"]
    assert everything["draws"] == 1
    assert everything["command"] == f"python -m benchmarks regret --draws 1 --quick --methods {ALL}"
    monkeypatch.setattr(regret, "quick_methods", lambda: ["l2", "eac"])
    everything = json.loads(run("--quick", "--json").stdout)
    assert list(everything["methods"]) == ["l2", "eac"]


def test_all_methods_are_run_by_default(asked, monkeypatch):
    """Those of the registry, in its order."""
    calls = []

    def no_draws(cells, n_draws, *, methods, **settings):
        calls.append(methods)
        raise KeyboardInterrupt

    monkeypatch.setattr(regret, "run_regret", no_draws)
    assert run().exit_code != 0
    assert calls == [list(CONSENSUS_METHODS)]


def test_the_report_is_written(asked, tmp_path):
    """JSON as printed, a page and a picture, in a folder made for them."""
    folder = tmp_path / "new"
    found = run("--draws", "2", "--json", "--methods", ALL, "-o", str(folder))
    names = ["regret.json", "regret.md", "regret.png"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / "regret.json").read_text() == found.stdout
    assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert "![" in (folder / "regret.md").read_text()


def test_it_goes_on_from_what_is_kept(asked, tmp_path):
    """A second run fits nothing; --again fits what it names."""
    first = run("--draws", "1", "--methods", ALL, "--keep", str(tmp_path / "kept"), "--json")
    asked.clear()
    again = run("--draws", "1", "--methods", ALL, "--keep", str(tmp_path / "kept"), "--json")
    assert asked == []
    assert json.loads(again.stdout)["summary"] == json.loads(first.stdout)["summary"]
    run("--draws", "1", "--methods", ALL, "--keep", str(tmp_path / "kept"), "--again", "l2, eac")
    assert {key for key, _ in asked} == {"l2", "eac"}


def test_missing_data_are_named_and_no_failure(asked, monkeypatch, tmp_path):
    """In the output and on the page, with exit status 0."""

    def load(name):
        if name == "zoo":
            raise DatasetUnavailableError("nobody has it")

    monkeypatch.setattr(regret, "load_views", load)
    found = run("--draws", "1", "--methods", ALL, "--data", str(tmp_path), "-o", str(tmp_path))
    assert found.exit_code == 0
    told = "Not here: zoo, because nobody has it"
    assert told in found.stdout
    assert told in (tmp_path / "regret.md").read_text()
    assert "--data FOLDER" in json.loads((tmp_path / "regret.json").read_text())["command"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--methods", "robst"), "did you mean 'robust'"),
        (("--methods", ","), "--methods names no method"),
        (("--methods", "l2", "--again", "eac"), "--again names eac, which is not among"),
        (("--again", " "), "--again names no method"),
    ],
)
def test_wrong_names_are_refused_first(asked, arguments, message):
    """Before the work begins, with what to do."""
    with pytest.raises(InvalidParameterError, match=message):
        run(*arguments)
    assert asked == []


@pytest.mark.parametrize("option", ["-o", "--keep"])
def test_a_file_in_place_of_a_folder_is_refused_first(asked, tmp_path, option):
    """A folder that cannot be made is refused before the work begins."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match=r"cannot make the folder .*taken"):
        run(option, str(tmp_path / "taken"))
    assert asked == []


def test_a_missing_matplotlib_is_told_first(asked, monkeypatch, tmp_path):
    """Without matplotlib the report is refused before the work begins."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'coterie\[plots\]'"):
        run("-o", str(tmp_path))
    assert asked == []


def test_a_folder_of_data_that_is_none_is_refused_first(asked, tmp_path):
    """The option is named."""
    with pytest.raises(DatasetUnavailableError, match=r"is not a folder.*--data"):
        run("--data", str(tmp_path / "none"))
    assert asked == []


@pytest.mark.parametrize("option", ["--draws", "--jobs"])
def test_wrong_usage_ends_with_two(asked, option):
    """Numbers below one are wrong usage."""
    assert run(option, "0").exit_code == 2
    assert asked == []
