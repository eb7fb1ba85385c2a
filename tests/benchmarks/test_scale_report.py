"""Growth, targets and pictures say what the trials found, and nothing more."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import scale_page, scale_report
from benchmarks.scale import Effort, NotRun, ScaleResults, ScaleTrial
from benchmarks.scale_peers import MeasuredPeers, PeerCurve, read_peers

DESCRIBED = {
    "date": "today",
    "cpu": "abacus",
    "threads": 1,
    "platform": "Linux",
    "versions": {"coterie": "0"},
}


def trial(family: str, n: int, seconds: float, peak_bytes: float, **more) -> ScaleTrial:
    """A trial with an answer."""
    facts = {"accuracy": 0.999, "n_clusters": 10, "n_tuples": n, "date": "2026-01-02T03:04:05"}
    return ScaleTrial(
        family, n, "done", seconds=seconds, peak_bytes=round(peak_bytes), **(facts | more)
    )


@pytest.fixture
def results() -> ScaleResults:
    """Fixed K goes all the way, too slowly at the end; diverse K stops after a million."""
    return ScaleResults(
        Effort(),
        [
            trial("fixed", 10**4, 2.0, 3e8, first_seconds=9.0),
            trial("fixed", 10**5, 3.0, 4e8),
            trial("fixed", 10**6, 30.0, 1e9),
            trial("fixed", 10**7, 207.0, 5e9, path="streamed"),
            trial("diverse", 10**5, 5.0, 5e8),
            trial("diverse", 10**6, 45.0, 4e9),
            ScaleTrial("diverse", 3_162_278, "memory", "killed by the system"),
        ],
        [NotRun("diverse", 10**7, "memory at 3,162,278")],
    )


@pytest.fixture
def peers() -> MeasuredPeers:
    """Out of time, out of memory, never an answer, and one that was not tried further."""
    return MeasuredPeers(
        (
            PeerCurve(
                "turtle", "slow",
                ((1000, 1.0, 10**8), (2000, 6.0, 10**8)),
                (4000, 8.0, "time-out"),
            ),
            PeerCurve("whale", "large", ((1000, 1.0, 10**9),), (2000, 2.0, "memory")),
            PeerCurve("ghost", "never", (), (1000, None, "crash")),
            PeerCurve("hare", "fast", ((1000, 0.1, 10**7), (2000, 0.2, 10**7)), None),
        ),
        8.0, 6 * 10**9, "2025-12-24T00:00:00", "abacus, 1 threads",
    )  # fmt: skip


@settings(deadline=None, max_examples=30)
@given(exponent=st.floats(-1, 2), scale_=st.floats(1e-3, 1e3))
def test_growth_is_the_power_of_a_power_law(exponent, scale_):
    """q = c·n^e gives e, whatever happens below 100,000 points."""
    done = [
        ScaleTrial("fixed", n, "done", seconds=scale_ * n**exponent if n >= 10**5 else 77.0)
        for n in Effort().sizes
    ]
    found = scale_report.growth(done, lambda trial: trial.seconds)
    assert found.exponent == pytest.approx(exponent, abs=1e-9)
    assert [n for n, _ in found.points] == Effort().sizes[2:]


def test_growth_of_too_few_tables_is_none():
    """One table of 100,000 points tells no growth."""
    done = [trial("fixed", 10**4, 1.0, 1e8), trial("fixed", 10**5, 2.0, 1e8)]
    assert scale_report.growth(done, lambda trial: trial.seconds) is None


def test_targets_are_met_missed_or_not_measured(results):
    """Both limits of each target, by how much it was missed."""
    found = [(v.target.family, v.what, v.in_words) for v in scale_report.verdicts(results)]
    assert found == [
        ("fixed", "seconds", "missed by 15%"),
        ("fixed", "peak memory", "met"),
        ("diverse", "seconds", "not measured"),
        ("diverse", "peak memory", "not measured"),
        ("diverse", "seconds", "met"),
        ("diverse", "peak memory", "missed by 33%"),
    ]


def test_tables_show_trials_growth_and_targets(results):
    """Failures in their place; points beside the exponent; what was missed stands out."""
    trials, growth, targets = scale_report.as_tables(results)
    assert trials.rows[3][:5] == ("fixed K", "streamed", "10,000,000", "10,000,000", "207")
    assert trials.rows[0][-1] == "9.00"
    assert trials.rows[-1][4] == "memory"
    assert growth.rows[2][2:] == (
        "5.00 at 100,000, 45.0 at 1,000,000", f"{np.log10(9):.2f}",
    )  # fmt: skip
    assert targets.stressed == {(0, 4), (5, 4)}


def test_stages_have_a_table_where_the_program_told_them(results):
    """A column a stage, whoever has it; estimated tuples are marked as such."""
    told = [
        trial("fixed", 10**6, 9.0, 1e9, path="tuples", stages={"group": 2.0, "fit": 3.0}),
        trial("fixed", 10**7, 90.0, 1e9, stages={"fit": 4.0, "sweeps": 5.0}, tuples_exact=False),
    ]
    trials, stages, *_ = scale_report.as_tables(replace(results, trials=told))
    assert [row[3] for row in trials.rows] == ["1,000,000", "≈ 10,000,000"]
    assert stages.headings == ("family", "path", "n", "group", "fit", "sweeps")
    assert stages.rows == [
        ("fixed K", "tuples", "1,000,000", "2.00", "3.00", ""),
        ("fixed K", "in memory", "10,000,000", "", "4.00", "5.00"),
    ]


def test_json_has_all_that_was_found(results, peers):
    """Trials, what was left out, growth, targets, peers; it can be written as JSON."""
    everything = scale_report.as_json(results, peers, DESCRIBED)
    again = json.loads(json.dumps(everything, allow_nan=False))
    assert len(again["trials"]) == 7
    assert again["not_run"][0]["why"] == "memory at 3,162,278"
    assert again["growth"]["diverse"]["seconds"]["exponent"] == pytest.approx(np.log10(9))
    assert again["targets"][0]["verdict"] == "missed by 15%"
    assert again["peers"]["curves"][1]["stopped"] == [2000, 2.0, "memory"]
    assert scale_report.as_json(results, None, DESCRIBED)["peers"] is None


def test_notes_tell_failures_and_what_was_not_run(results):
    """And a run that did not go all the way, growth that cannot be told, and a busy machine."""
    assert scale_report.notes(results) == [
        "diverse K, 3,162,278 points: memory: killed by the system",
        "diverse K, 10,000,000 points: not run: memory at 3,162,278",
    ]
    short = ScaleResults(Effort(most=10_000), [trial("fixed", 10**4, 1.0, 1e8, load=3.0)], [])
    bounded, growth, busy = scale_report.notes(short)
    assert bounded == "larger tables than 10,000 points were not asked for"
    assert growth == "growth needs two tables of 100,000 points or more"
    assert "the machine was busy: 3.0 processes" in busy


def test_the_summary_has_a_line_a_family(results):
    """How far, how long, how much, how well, and how it grows."""
    fixed, diverse = scale_report.summary_lines(results)
    assert fixed.startswith("Fixed K: 10,000,000 points in 207 s and 5.0 GB, accuracy 0.999; ")
    assert diverse.endswith("time grows as n^0.95, memory as n^0.90.")
    short = replace(results, trials=results.trials[:1])
    assert scale_report.summary_lines(short) == [
        "Fixed K: 10,000 points in 2.00 s and 300.0 MB, accuracy 0.999."
    ]


def test_the_page_tells_all(results, peers):
    """Command, picture, tables, targets, notes, what is weak, and the machine."""
    page = scale_page.as_page(results, peers, DESCRIBED, "python -m benchmarks scale --most 1e7")
    for part in (
        "`python -m benchmarks scale --most 1e7`", "![", "## Targets", "**missed by 15%**",
        "## Notes",
        "## What is weak", "They were allowed 8 s, the program 600 s", "2025-12-24", "2026-01-02",
        "abacus",
    ):  # fmt: skip
        assert part in page
    alone = scale_page.as_page(results, None, DESCRIBED, "python -m benchmarks scale")
    assert "No measurement of other packages was at hand" in alone
    assert "They were allowed" not in alone


def test_the_picture_has_ours_theirs_and_the_targets(results, peers):
    """Lines of both families over n; a cross and a name where others stop; limits in words."""
    seconds, memory = scale_page.as_picture(results, peers).axes
    for axes in (seconds, memory):
        assert [text.get_text() for text in axes.get_legend().get_texts()] == [
            "coterie, fixed K", "coterie, diverse K",
        ]  # fmt: skip
    lines = {line.get_label(): line for line in memory.lines}
    np.testing.assert_allclose(lines["coterie, fixed K"].get_ydata(), [0.3, 0.4, 1.0, 5.0])
    crosses = [
        (*line.get_xdata(), *line.get_ydata()) for line in seconds.lines if line.get_marker() == "x"
    ]
    assert crosses == [(4000, 8.0), (2000, 2.0), (1000, 8.0)]
    crosses = [
        (*line.get_xdata(), *line.get_ydata()) for line in memory.lines if line.get_marker() == "x"
    ]
    assert crosses == [(2000, 0.1), (2000, 6.0)]
    words = [text.get_text() for text in seconds.texts]
    assert words == [
        "slow: time", "large: memory", "never: crash", "target: 180 s", "target, diverse K: 60 s",
    ]  # fmt: skip


def test_peers_are_read_from_their_report(tmp_path):
    """Growing labels of other packages alone; what could not be installed is left out."""
    own = {"kind": "labels", "growing": True, "peak_bytes": 5, "seconds": 1.0}
    trials = [
        own | {"package": "turtle", "method": "slow", "n": 1, "status": "done"},
        own | {"package": "turtle", "method": "slow", "n": 2, "status": "time-out"},
        own | {"package": "ghost", "method": "gone", "n": 1, "status": "not installed"},
        own | {"package": "coterie", "method": "ours", "n": 1, "status": "done"},
        own
        | {"package": "other", "method": "features", "n": 1, "status": "done", "kind": "features"},
        own | {"package": "turtle", "method": "slow", "n": 9, "status": "done", "growing": False},
    ]
    path = tmp_path / "peers.json"
    assert read_peers(path) is None
    path.write_text(
        json.dumps(
            {
                "trials": trials,
                "limits": {"seconds": 8, "memory": 100},
                "environment": {"date": "then", "cpu": "abacus", "threads": 3},
            }
        )
    )
    assert read_peers(path) == MeasuredPeers(
        (PeerCurve("turtle", "slow", ((1, 1.0, 5),), (2, 1.0, "time-out")),),
        8.0,
        100,
        "then",
        "abacus, 3 threads",
    )


def test_tables_of_nothing_are_left_out(results):
    """Of small tables neither growth nor a target can be told; the notes say so."""
    few = replace(results, trials=results.trials[:1], not_run=[], effort=Effort(most=10**4))
    (trials,) = scale_report.as_tables(few)
    assert len(trials.rows) == 1
    assert any("growth needs two tables" in note for note in scale_report.notes(few))
    assert any("larger tables than 10,000" in note for note in scale_report.notes(few))
