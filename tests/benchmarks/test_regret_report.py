"""The report of regrets: JSON, tables, sentences and notes, on cells whose accuracies are known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.command_steps import as_json_text
from benchmarks.regret import method_regrets
from benchmarks.regret_report import as_json, as_tables, in_digits, notes, summary_lines
from coterie.consensus.registry import Method
from regret_cells import CELLS, COLUMNS, measured, replace_suite

DESCRIBED = {"date": "today"}


@pytest.fixture
def results(monkeypatch):
    """Two draws of the made-up cells."""
    replace_suite(monkeypatch)
    return measured()


def rows_of(table):
    """A table's rows by their first text, as dictionaries of heading to text."""
    return {row[0]: dict(zip(table.headings, row, strict=True)) for row in table.rows}


def bold(table):
    """Texts in bold, as (first text of the row, heading)."""
    return {(table.rows[r][0], table.headings[c]) for r, c in table.stressed}


def test_json_has_a_summary_for_each_half_on_both_bases(results):
    """Mean and worst of every method, as computed; cut methods are not on the second basis."""
    everything = json.loads(as_json_text(as_json(results, DESCRIBED)))
    for part, regrets in (("summary", results.regrets), ("summary_unbalanced", results.unbalanced)):
        assert set(everything[part]) == {"report", "develop", "all"}
        for half, methods in everything[part].items():
            found = method_regrets(regrets, None if half == "all" else half)
            assert list(methods) == [one.method for one in found]
            for one in found:
                told = methods[one.method]
                assert (told["mean"], told["worst"]) == (one.mean, one.worst)
                assert told["worst_cell"] == one.worst_cell
                assert set(told["families"]) == {"planted", "real"}
    assert "cspa" in everything["summary"]["all"]
    assert "cspa" not in everything["summary_unbalanced"]["all"]
    assert everything["methods"]["cspa"] == {"title": "CSPA", "balanced": True}
    assert not everything["methods"]["robust"]["balanced"]


def test_json_has_every_cell(results):
    """Accuracy, error, both regrets and seconds of every method; what is missing; how it ran."""
    everything = as_json(results, DESCRIBED)
    assert [cell["name"] for cell in everything["cells"]] == [cell.name for cell in CELLS]
    iris = everything["cells"][2]
    assert (iris["family"], iris["half"]) == ("real", "develop")
    assert set(iris["methods"]) == set(COLUMNS)
    robust, cspa = iris["methods"]["robust"], iris["methods"]["cspa"]
    assert robust["mean"] == pytest.approx(0.8)
    assert (robust["regret"], cspa["regret"]) == (pytest.approx(0.075), 0)
    assert (robust["regret_unbalanced"], cspa["regret_unbalanced"]) == (0, None)
    assert cspa["se"] == pytest.approx(0.025)
    assert robust["seconds"] >= 0
    assert everything["missing"] == {"cstr": "it is gone"}
    assert everything["failed"] == [
        {"cell": "zoo, fixed K", "method": "eac", "why": "no labels in the column"}
    ]
    assert (everything["draws"], everything["command"]) == (2, "python -m benchmarks regret")
    assert everything["environment"] == DESCRIBED


def test_a_single_draw_has_no_error(monkeypatch):
    """The standard error is null in JSON and a dash in the table, and nothing is NaN."""
    replace_suite(monkeypatch)
    results = measured(1)
    everything = json.loads(as_json_text(as_json(results, DESCRIBED)))
    errors = {m["se"] for cell in everything["cells"] for m in cell["methods"].values()}
    assert errors == {None}
    assert {row[-1] for row in as_tables(results)[-1].rows} == {"–"}


def test_a_half_without_cells_is_left_out(results):
    """No empty table, sentence or summary."""
    half = [one for one in results.regrets if one.cell.half == "report"]
    some = replace(results, regrets=half)
    assert list(as_json(some, DESCRIBED)["summary"]) == ["report", "all"]
    assert [table.title for table in as_tables(some)[:2]] == [
        "Regret, report half (2 cells)",
        "Regret, all 2 cells",
    ]


def test_regret_tables_show_both_bases_and_families(results):
    """Best first; the flagship and the least of each column in bold; a dash for cut methods."""
    tables = as_tables(results)
    table = next(table for table in tables if table.title == "Regret, all 4 cells")
    rows = rows_of(table)
    own = rows["RobustConsensus (robust)"]
    assert (own["mean"], own["worst"]) == (".0500", ".125")
    free = method_regrets(results.unbalanced)[0]
    assert (own["mean*"], own["worst*"]) == (in_digits(free.mean, 4), in_digits(free.worst))
    families = method_regrets(results.regrets)[0].by_family
    for family, (mean, worst) in families.items():
        assert own[family] == f"{in_digits(mean)} / {in_digits(worst)}"
    assert own["worst cell"] == "2×10; b"
    assert (rows["CSPA (cspa)"]["mean*"], rows["CSPA (cspa)"]["worst*"]) == ("–", "–")
    first = table.rows[0][0]
    assert first == "RobustConsensus (robust)"
    assert {(first, heading) for heading in ("method (key)", "mean", "worst", "mean*")} <= bold(
        table
    )


def test_accuracy_tables_stress_the_best_with_and_without_balance(results):
    """Real cells first, planted ones apart; the best of all and the best of the others in bold."""
    real, planted = as_tables(results)[-2:]
    assert real.title == "Accuracy, cells of real"
    assert [row[0] for row in planted.rows] == ["2×10; a", "2×10; b"]
    iris = rows_of(real)["iris, fixed K"]
    assert (iris["half"], iris["robust"], iris["cspa"]) == ("develop", ".800", ".875")
    assert iris["se ≤"] == ".025"
    assert {heading for row, heading in bold(real) if row == "iris, fixed K"} == {"robust", "cspa"}
    assert {heading for row, heading in bold(planted)} == {"robust", "eac"}


def test_sentences_tell_which_targets_are_missed_and_where(results):
    """By how much, in which cells, and whether the mean is the lowest."""
    lines = summary_lines(results)
    assert lines[0] == (
        "Report half (2 cells), against the best of all 4 methods: RobustConsensus has mean regret "
        ".0625 (target .01 missed by .0525) and worst regret .125 (target .04 missed by .085); its "
        "mean is the lowest. Above the target in 1 of 2 cells: 2×10; b (.125)."
    )
    assert lines[3] == (
        "Develop half (2 cells), against the best of the 3 without a balanced cut: RobustConsensus "
        "has mean regret .0000 (target .01 reached) and worst regret .000 (target .04 reached); "
        "its mean is the lowest."
    )
    assert lines[-1] == (
        "A method with a balanced cut is ahead of all others in 1 of 4 cells: iris, fixed K (.075)."
    )


def test_a_flagship_that_is_not_lowest_is_told_its_place(results):
    """The place, and who is lowest."""
    only = replace(results, regrets=[results.regrets[1]])
    assert "its mean is number 2 of 4 (lowest: EAC, .0000)" in summary_lines(only)[0]
    assert summary_lines(only)[-1].startswith("No method with a balanced cut is ahead")


def test_without_the_flagship_the_lowest_is_named(monkeypatch):
    """Targets are the flagship's; there are no two bases where no method cuts."""
    replace_suite(monkeypatch)
    lines = summary_lines(measured(1, ("l2", "eac")))
    assert len(lines) == 3
    assert lines[-1] == (
        "All 4 cells, against the best of all 2 methods: lowest mean regret: EAC, .0750."
    )


@pytest.mark.parametrize("methods", [("cspa",), ("l2",)])
def test_one_method_alone_regrets_nothing(monkeypatch, methods):
    """It is the best of all there are; without others there is no second basis."""
    replace_suite(monkeypatch)
    results = measured(1, methods)
    assert all("lowest mean regret" in line and ".0000" in line for line in summary_lines(results))
    assert {row[1] for table in as_tables(results)[:3] for row in table.rows} == {"none"}


def test_notes_tell_what_is_missing_refused_or_fell_back(results, monkeypatch):
    """Data sets, methods that could not run and where, packages that are not installed."""
    assert notes(results) == [
        "Not here: cstr, because it is gone",
        "Did not run, and counts as one cluster of all points: EAC, no labels in the column "
        "[zoo, fixed K]",
    ]
    monkeypatch.setattr(Method, "missing_packages", lambda self: list(self.packages))
    assert notes(results)[-1] == (
        "CSPA fell back to what knows no balance: pymetis is not installed"
    )
    assert len(summary_lines(results)) == 3
