"""The report leaves nobody out: answers, failures and what could not be installed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from benchmarks import peers, peers_report
from benchmarks.peer_environments import MadeEnvironment
from benchmarks.peer_tasks import growing_task
from benchmarks.peer_trials import Limits, Trial
from benchmarks.peers import FULL, QUICK, Effort, Peer, PeerResults, PeerTrial
from benchmarks.program import app
from coterie.errors import OutputError

OURS = Peer("Robust", "coterie", "coterie.robust", "labels", "as it comes")
SLOW = Peer("slow", "turtle", "turtle", "labels")
ABSENT = Peer("absent", "ghost", "ghost", "labels")
VIEWS = Peer("viewer", "mvlearn", "mvlearn.kmeans", "views")
DESCRIBED = {
    "date": "today",
    "cpu": "abacus",
    "threads": 1,
    "platform": "Linux",
    "versions": {"coterie": "0"},
}


def good(seconds: float, accuracy: float = 0.75) -> Trial:
    """An answer."""
    return Trial("done", "", seconds, 2 * 10**8, 10**8, accuracy, 123.4, 5)


@pytest.fixture
def results() -> PeerResults:
    """Ours goes to 2,000, one runs out of time, one is not installed, one crashes at once."""
    small, large = (growing_task("labels", n) for n in (1000, 2000))
    return PeerResults(
        Effort(Limits(seconds=60.0), 1000, 2000),
        [
            PeerTrial(OURS, small, True, good(0.5, 1.0)),
            PeerTrial(SLOW, small, True, good(20.0)),
            PeerTrial(ABSENT, small, True, Trial("not installed", "ERROR: no wheel")),
            PeerTrial(OURS, large, True, good(1.0)),
            PeerTrial(SLOW, large, True, Trial("time-out", "no answer in 60 s", 60.0)),
            PeerTrial(VIEWS, growing_task("views", 1000), True, Trial("crash", "ValueError: odd")),
        ],
        {
            "coterie": MadeEnvironment("coterie", "/p", {"coterie": "0.1"}),
            "turtle": MadeEnvironment("turtle", "/q", {"turtle": "3", "numpy": "1.26"}, "old"),
            "ghost": MadeEnvironment("ghost", "", error="ERROR: no wheel"),
            "mvlearn": MadeEnvironment("mvlearn", "/r", {"mvlearn": "0.5"}),
        },
        {"numerals": "nowhere to be had"},
    )


def test_json_has_every_trial(results):
    """Each with status and message, and how far each came; it can be written as JSON."""
    everything = peers_report.as_json(results, DESCRIBED)
    assert json.loads(json.dumps(everything, allow_nan=False)) == everything
    assert [trial["status"] for trial in everything["trials"]].count("done") == 3
    assert {reach["method"]: reach["largest_n"] for reach in everything["reach"]} == {
        "Robust": 2000, "slow": 1000, "absent": None, "viewer": None,
    }  # fmt: skip
    assert everything["environments"]["ghost"]["error"] == "ERROR: no wheel"
    assert everything["left_out"] == {"numerals": "nowhere to be had"}


def test_tables_show_failures_in_their_place(results):
    """The first task of each kind, how far they come, and the environments."""
    labels, views, reach, environments = peers_report.as_tables(results)
    assert [row[1:3] for row in labels.rows] == [
        ("Robust", "1.000"), ("slow", "0.750"), ("absent", "not installed"),
    ]  # fmt: skip
    assert labels.stressed == {(0, 2)}
    assert views.rows[0][2] == "crash"
    assert [(row[2], row[3], row[-1]) for row in reach.rows] == [
        ("Robust", "≥ 2,000", "not tried further"),
        ("slow", "1,000", "time-out at 2,000"),
        ("absent", "< 1,000", "not installed"),
        ("viewer", "< 1,000", "crash at 1,000"),
    ]
    assert environments.rows[1] == ("turtle", "3", "numpy 1.26", "old")
    assert environments.rows[2][-1] == "not installed: ERROR: no wheel"


def test_notes_give_the_last_line_of_each_error(results):
    """Time-outs are plain from the tables; the rest is told, and so is what was left out."""
    assert [note.split(": ", 1)[1] for note in peers_report.notes(results)] == [
        "not installed: ERROR: no wheel", "crash: ValueError: odd", "left out: nowhere to be had",
    ]  # fmt: skip


def test_a_busy_machine_is_told(results):
    """Times taken while others ran are not what they could be; the report says so."""
    busy = replace(results, load=7.25)
    assert "the machine was busy: 7.2 processes" in peers_report.notes(busy)[-1]
    assert peers_report.as_json(busy, DESCRIBED)["load"] == 7.25


def test_the_summary_compares_the_farthest(results):
    """Of ours and of theirs; a kind without both has no sentence."""
    (line,) = peers_report.summary_lines(results)
    assert line == ("Labels in, largest n within 60 s: coterie Robust ≥ 2,000; turtle slow 1,000.")


def test_the_page_tells_all(results):
    """Tables, the picture, how methods are called, failures and the machine."""
    page = peers_report.as_page(results, DESCRIBED)
    for part in (
        "![",
        "as it comes",
        "## Notes",
        "ValueError: odd",
        "abacus",
        "## Environments",
    ):
        assert part in page


def test_the_picture_has_a_line_a_peer_and_a_cross_a_failure(results):
    """A panel for each kind; failures are crosses, at the limit where time ran out."""
    figure = peers_report.as_picture(results)
    labels, _ = figure.axes
    named = [line.get_label() for line in labels.lines if not line.get_label().startswith("_")]
    assert named == ["coterie Robust", "turtle slow", "ghost absent"]
    crosses = [tuple(line.get_xydata()[0]) for line in labels.lines if line.get_marker() == "x"]
    assert (2000.0, 60.0) in crosses
    assert len(crosses) == 2


@pytest.mark.parametrize("quick", [True, False])
def test_the_command_writes_its_report(results, monkeypatch, tmp_path, quick):
    """JSON as printed, a page and a picture; --quick is the small effort."""
    asked = []

    def run(effort, *, environments, keep, before_step):
        before_step("trying")
        asked.append((effort, environments, keep))
        return results

    monkeypatch.setattr(peers, "run_peers", run)
    folders = ["--environments", str(tmp_path / "e"), "--keep", str(tmp_path / "k")]
    arguments = ["peers", "--json", "-o", str(tmp_path), *folders, *(["--quick"] * quick)]
    found = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert asked == [(QUICK if quick else FULL, tmp_path / "e", tmp_path / "k")]
    assert (tmp_path / "peers.json").read_text() == found.stdout
    assert "turtle" in (tmp_path / "peers.md").read_text()
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_shows_tables(results, monkeypatch):
    """On standard output, with notes on failures."""
    monkeypatch.setattr(peers, "run_peers", lambda *_, **__: results)
    found = CliRunner().invoke(app, ["peers"], catch_exceptions=False)
    assert "How far they come" in found.stdout
    assert "Note: mvlearn viewer" in found.stdout


def test_a_folder_that_cannot_be_made_is_refused_first(monkeypatch, tmp_path):
    """Before any environment is made or any trial begun."""

    def refuse(*_, **__):
        raise AssertionError("the work began")

    monkeypatch.setattr(peers, "run_peers", refuse)
    (tmp_path / "taken").touch()
    for option in ("--keep", "-o"):
        with pytest.raises(OutputError, match=r"cannot make the folder .*taken"):
            CliRunner().invoke(
                app, ["peers", option, str(tmp_path / "taken")], catch_exceptions=False
            )
