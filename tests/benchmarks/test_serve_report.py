"""What is told of the service: figures beside aims, misses as misses, failures by kind."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks import serve_page as page
from benchmarks import serve_report as report
from benchmarks.serve_answers import CheckedAnswers
from benchmarks.serve_load import LoadRun
from benchmarks.serve_processes import Memory
from benchmarks.serve_results import (
    FULL,
    Batches,
    Reloads,
    Rounds,
    ServeResults,
    Singles,
    Size,
)

DESCRIBED = {
    "date": "today",
    "cpu": "abacus",
    "threads": 2,
    "platform": "Linux",
    "versions": {"coterie": "0"},
}
MEMORY = Memory(400_000_000, 300_000_000, 500_000_000)


def rounds(*a_second: float, connections: int = 8, failed: int = 0) -> Rounds:
    """Rounds of one second each, half of it on a processor."""
    runs = tuple(
        LoadRun(connections, round(n), 1.0, 0.001, 0.004, 0.1, {"status": failed, "read": 0})
        for n in a_second
    )
    return Rounds(runs, (0.5,) * len(runs))


@pytest.fixture
def results() -> ServeResults:
    """Everything as it was aimed for."""
    reloaded = LoadRun(8, 60_000, 60.0, 0.001, 0.02, 0.1, {}, {"abc": 30_000, "def": 30_000})
    return ServeResults(
        FULL,
        "wrk with one thread",
        2,
        [Size(n, 1000 * n, (2.0, 2.5, 1.5), 1.9, MEMORY, MEMORY) for n in (10_000, 100_000)],
        [Singles(n, rounds(7100, 8000, 9000), rounds(10_000, 10_000, 9000)) for n in (1, 8, 64)],
        [Batches(n, rounds(120, 130, 90)) for n in (1, 2, 8)],
        Reloads(reloaded, (1.0,) * 5, 0, MEMORY, MEMORY),
        CheckedAnswers(400),
        0.1,
    )


def missed(results: ServeResults) -> list[str]:
    """The aims that were missed."""
    return [verdict.aim for verdict in report.verdicts(results) if verdict.met is False]


def test_the_median_of_rounds_counts():
    """Rates are medians, the ratio is theirs; those of rounds run side by side are kept too."""
    cell = Singles(8, rounds(100, 300, 200), rounds(100, 600, 400))
    assert cell.service.a_second == 200
    assert cell.ratio == 0.5
    assert cell.ratios == [0.5, 0.5, 1.0]
    assert Batches(1, rounds(100, 300, 200)).forecasts_a_second == 200_000


def test_processor_time_is_that_of_a_request():
    """Half a second on a processor for five hundred requests is a millisecond each."""
    assert rounds(500).processor_a_request == pytest.approx(0.001)
    unknown = replace(rounds(500, 400), processor_seconds=(None, None))
    assert unknown.processor_a_request is None


def test_all_met(results):
    """Where every figure is as good as its aim, nothing is called missed or unmeasured."""
    assert {verdict.in_words for verdict in report.verdicts(results)} == {"met"}
    assert report.notes(results) == []


@pytest.mark.parametrize(
    ("changes", "aim"),
    [
        ({"singles": [Singles(8, rounds(69), rounds(100))]}, "Single forecasts, 8 connections"),
        ({"batches": [Batches(1, rounds(99))]}, "Batches, 1 connection"),
        ({"batches": [Batches(1, rounds(200, failed=1))]}, "All other loads"),
        ({"checked": CheckedAnswers(10, 1, ("adv-1: spend is 2",))}, "Answers under load"),
        ({"sizes": [Size(100_000, 9, (2.0, 3.1), 2.0, MEMORY, MEMORY)]}, "Start with 100,000"),
    ],
)
def test_a_miss_is_called_one(results, changes, aim):
    """Each aim is missed by its own figure and by no other."""
    (found,) = missed(replace(results, **changes))
    assert found.startswith(aim)


@pytest.mark.parametrize(
    "changes",
    [
        {"run": LoadRun(8, 9, 60.0, 0, 0, 0, {"read": 1}, {"abc": 4, "def": 4})},
        {"run": LoadRun(8, 9, 60.0, 0, 0, 0, {}, {"abc": 9})},
        {"missed": 1},
    ],
)
def test_reloads_need_no_failure_all_taken_and_two_versions(results, changes):
    """A failed request, answers of one version only, or a reload not taken is a miss."""
    (found,) = missed(replace(results, reloads=replace(results.reloads, **changes)))
    assert "reloads in 60 s of load" in found


def test_a_smaller_model_says_nothing_about_the_start(results):
    """Without the size the aim is for, the start is not measured, neither met nor missed."""
    small = replace(results, sizes=results.sizes[:1])
    (found,) = [v for v in report.verdicts(small) if v.met is None]
    assert found.aim.startswith("Start with 100,000")


def test_no_answer_checked_is_not_a_pass(results):
    """Where nothing was compared, answers are not called right."""
    unchecked = replace(results, checked=CheckedAnswers())
    assert report.verdicts(unchecked)[-1].in_words == "not measured"


def test_notes_tell_failures_faults_and_a_busy_machine(results):
    """Kinds of failures, the answers that were wrong, and who else was at work."""
    told = report.notes(
        replace(
            results,
            batches=[Batches(2, rounds(200, failed=3))],
            checked=CheckedAnswers(10, 1, ("adv-1 at a bid of 2: spend is 2",)),
            load=2.5,
        )
    )
    assert any("batches, 2 connections: 3 × status" in note for note in told)
    assert any("spend is 2" in note for note in told)
    assert any("2.5 processes" in note for note in told)


def test_json_is_complete_and_without_answers(results):
    """All figures go into JSON; the answers that were kept for checking do not."""
    run = replace(results.reloads.run, kept=(b"{}",))
    kept = replace(results, reloads=replace(results.reloads, run=run))
    everything = json.loads(json.dumps(report.as_json(kept, DESCRIBED, "coterie"), allow_nan=False))
    assert [cell["connections"] for cell in everything["singles"]] == [1, 8, 64]
    assert everything["reloads"]["run"]["versions"] == {"abc": 30_000, "def": 30_000}
    assert "kept" not in everything["reloads"]["run"]
    assert len(everything["verdicts"]) == len(report.verdicts(results))


def test_page_has_all_tables_aims_and_the_machine(results):
    """The page says how, where and when, and what is weak; a missed figure is bold."""
    slow = replace(results, singles=[Singles(8, rounds(50), rounds(100))])
    text = page.as_page(slow, DESCRIBED, "python -m benchmarks serve --seconds 4")
    for table in report.as_tables(slow):
        assert table.markdown() in text
    wanted = (
        "wrk with one thread",
        "share 2 cores",
        "serve.png",
        "abacus",
        "`coterie",
    )
    assert all(words in text for words in (*wanted, "## What is weak", "**0.50**", "missed"))


def test_unknown_memory_is_a_dash(results):
    """Where the system tells no memory, the page says so and has no zero."""
    unknown = Memory(None, None, None)
    size = Size(10_000, 9, (1.0,), None, unknown, unknown)
    assert "| – | – | – | – | – |" in report.as_tables(replace(results, sizes=[size]))[3].markdown()


def test_picture_has_both_panels(results):
    """Bars of both services by connections, and batches beside their aim."""
    pytest.importorskip("matplotlib")
    singles, batches = page.as_picture(results).axes
    assert len(singles.patches) == 6
    assert len(batches.patches) == 3
    assert [label.get_text() for label in singles.get_xticklabels()] == ["1", "8", "64"]
