"""The commands ``table2`` and ``table3``: what they run, print, write and refuse."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from benchmarks import paper_tables
from benchmarks.paper_figures import TABLE2, TABLE3
from benchmarks.paper_tables import PATIENCE, MethodResult, Outcome, TableResults
from benchmarks.program import app
from coterie.errors import MissingExtraError, OutputError


@pytest.fixture
def asked(monkeypatch):
    """What the tables were run with; they take no time."""
    calls = []
    found = MethodResult((Outcome("ran", 1.0, 0.75),))

    def table2(settings, *, quick, all_methods, after_cell):
        after_cell("a cell")
        calls.append((settings, quick, all_methods))
        rows = {"mixed, fixed": {"wine": {"robust": found}}}
        return TableResults(TABLE2, rows, {"cstr": "gone"}, settings)

    def table3(settings, *, quick, after_cell):
        calls.append((settings, quick))
        return TableResults(TABLE3, {"": {"msrc_v1": {"rcc": found}}}, {}, settings)

    monkeypatch.setattr(paper_tables, "run_table2", table2)
    monkeypatch.setattr(paper_tables, "run_table3", table3)
    return calls


def run(*arguments: str):
    """What the program does with these arguments; its errors are raised here."""
    return CliRunner(env={"COTERIE_DATA": None}).invoke(
        app, list(arguments), catch_exceptions=False
    )


def test_tables_and_notes_are_shown(asked):
    """Printed and measured tables, sentences, and what is missing; twenty draws."""
    found = run("table2")
    assert found.exit_code == 0
    assert ".750" in found.stdout
    assert "n/a" in found.stdout
    assert "Note: Not here: CSTR, because gone" in found.stdout
    ((settings, quick, all_methods),) = asked
    assert (settings.n_draws, settings.patience, quick, all_methods) == (20, PATIENCE, False, False)
    assert (settings.keep, settings.data, settings.n_jobs) == (None, None, None)


def test_options_reach_the_run(asked, tmp_path):
    """Draws, folders, jobs and patience are passed on; the folder to keep is made."""
    keep = tmp_path / "kept" / "draws"
    found = run(
        "table2", "--quick", "--all-methods", "--keep", str(keep), "--data", str(tmp_path),
        "--jobs", "2", "--patience", "5",
    )  # fmt: skip
    assert found.exit_code == 0
    ((settings, quick, all_methods),) = asked
    assert (settings.n_draws, quick, all_methods) == (2, True, True)
    assert (settings.keep, settings.data) == (keep, tmp_path)
    assert (settings.n_jobs, settings.patience) == (2, 5)
    assert keep.is_dir()


@pytest.mark.parametrize("name", ["table2", "table3"])
def test_the_report_is_written(asked, tmp_path, name):
    """JSON as printed, two pages and a picture."""
    found = run(name, "--draws", "1", "--json", "-o", str(tmp_path))
    files = [f"{name}.{suffix}" for suffix in ("html", "json", "md", "png")]
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert (tmp_path / f"{name}.json").read_text() == found.stdout
    assert json.loads(found.stdout)["table"] == name
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / f"{name}.html").read_text()


@pytest.mark.parametrize("option", ["-o", "--keep"])
def test_a_file_in_place_of_a_folder_is_refused_first(asked, tmp_path, option):
    """A folder that cannot be made is refused before the work begins."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match=r"cannot make the folder .*taken"):
        run("table3", option, str(tmp_path / "taken"))
    assert asked == []


def test_a_missing_matplotlib_is_told_first(asked, monkeypatch, tmp_path):
    """Without matplotlib the report is refused before the work begins."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'coterie\[plots\]'"):
        run("table2", "-o", str(tmp_path))
    assert asked == []


@pytest.mark.parametrize("option", ["--draws", "--jobs", "--patience"])
def test_wrong_usage_ends_with_two(asked, option):
    """Numbers below one are wrong usage."""
    assert run("table2", option, "0").exit_code == 2
    assert asked == []
