"""Orchestration: who is tried on what, when it stops, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks import peers
from benchmarks.peer_environments import MadeEnvironment
from benchmarks.peer_trials import Limits, Trial
from benchmarks.peers import PEERS, Effort, Peer, reaches, run_peers
from coterie.errors import DatasetUnavailableError

GOOD = Trial("done", seconds=0.1, peak_bytes=10**8, bytes_before=10**8, accuracy=0.9, n_clusters=5)
A, B = Peer("a", "coterie", "coterie.l2", "labels"), Peer("b", "other", "other.b", "labels")
EFFORT = Effort(Limits(seconds=1.0), first_n=100, largest_n=800, fixed=False)


class Play:
    """Trials that cost nothing: ``outcome(method, n)`` decides; all are recorded."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.made = MadeEnvironment("other", "/there/python", {"other": "1.0"})
        self.outcome: Callable[[str, int], Trial] = lambda *_: GOOD


@pytest.fixture
def played(monkeypatch):
    """A play in place of processes and environments."""
    play = Play()

    def run_trial(python, method, task, material, limits):
        assert task.is_dir()
        assert python
        play.seen.append((method, len(material.y)))
        return play.outcome(method, len(material.y))

    monkeypatch.setattr(peers, "run_trial", run_trial)
    monkeypatch.setattr(peers, "ENVIRONMENTS", {"other": "other"})
    monkeypatch.setattr(peers, "make_environment", lambda *_: play.made)
    return play


def test_n_doubles_until_a_peer_fails(played):
    """Peers take turns at each n; one that failed is not tried again, the others go on."""
    slow = Trial("time-out", "no answer in 1 s", 1.0)
    played.outcome = lambda method, n: slow if method == B.method and n >= 200 else GOOD
    results = run_peers(EFFORT, peers=[A, B])
    assert played.seen == [
        (A.method, 100), (B.method, 100), (A.method, 200), (B.method, 200), (A.method, 400),
        (A.method, 800),
    ]  # fmt: skip
    ours, theirs = reaches(results)
    assert (ours.last.task.n_points, ours.stopped) == (800, None)
    assert (theirs.last.task.n_points, theirs.stopped.task.n_points) == (100, 200)
    assert theirs.stopped.trial == slow


def test_a_peer_that_never_succeeds_has_no_last(played):
    """Its reach is below the first n."""
    played.outcome = lambda *_: Trial("crash", "ended by signal SIGSEGV")
    (reach,) = reaches(run_peers(EFFORT, peers=[B]))
    assert reach.last is None
    assert reach.stopped.task.n_points == 100


def test_a_peer_that_cannot_be_installed_is_reported(played):
    """It has a trial that says so with pip's words, and nothing is run for it."""
    played.made = MadeEnvironment("other", "", error="ERROR: no wheel")
    results = run_peers(EFFORT, peers=[B])
    (one,) = results.trials
    assert one.trial == Trial("not installed", "ERROR: no wheel")
    assert played.seen == []


def test_trials_are_kept(played, tmp_path):
    """A second run with the same folder tries nothing, and finds the same, failures included."""
    played.outcome = lambda _, n: GOOD if n < 400 else Trial("memory", "MemoryError", 0.5)
    first = run_peers(EFFORT, peers=[A, B], keep=tmp_path / "kept")
    played.seen.clear()
    second = run_peers(EFFORT, peers=[A, B], keep=tmp_path / "kept")
    assert played.seen == []
    assert [one.trial for one in first.trials] == [one.trial for one in second.trials]


def test_crashes_are_tried_again(played, tmp_path):
    """What broke may have been mended since."""
    played.outcome = lambda *_: Trial("crash", "ImportError: half an edit")
    run_peers(EFFORT, peers=[B], keep=tmp_path)
    played.outcome = lambda *_: GOOD
    results = run_peers(EFFORT, peers=[B], keep=tmp_path)
    assert {one.trial.status for one in results.trials} == {"done"}


def test_a_kept_file_that_is_none_is_tried_again(played, tmp_path):
    """So are trials under other limits, or of another version."""
    run_peers(EFFORT, peers=[B], keep=tmp_path)
    for path in tmp_path.iterdir():
        path.write_text('{"statue": ')
    played.seen.clear()
    run_peers(EFFORT, peers=[B], keep=tmp_path)
    assert len(played.seen) == 4
    run_peers(replace(EFFORT, limits=Limits(seconds=2.0)), peers=[B], keep=tmp_path)
    assert len(played.seen) == 8
    played.made = MadeEnvironment("other", "/there/python", {"other": "2.0"})
    run_peers(EFFORT, peers=[B], keep=tmp_path)
    assert len(played.seen) == 12


def test_inputs_are_removed(played, monkeypatch, tmp_path):
    """No more than one input lies on the disk at a time, and none is left."""
    monkeypatch.setattr(peers.tempfile, "tempdir", str(tmp_path))
    lying: list[int] = []
    played.outcome = lambda *_: (lying.append(len(list(tmp_path.glob("*/*")))), GOOD)[1]
    run_peers(EFFORT, peers=[A])
    assert lying == [1, 1, 1, 1]
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_that_is_nowhere_is_told(played, monkeypatch):
    """The task is left out with the reason; the others are measured."""

    def unavailable(name):
        raise DatasetUnavailableError("uci_mfeat is nowhere")

    monkeypatch.setattr("coterie.datasets.loading.load_views", unavailable)
    C = Peer("c", "coterie", "coterie.views", "views")
    results = run_peers(replace(EFFORT, fixed=True, largest_n=100), peers=[C])
    assert list(results.left_out.values()) == ["uci_mfeat is nowhere"]
    assert [one.task.n_points for one in results.trials] == [100]


def test_steps_are_told(played):
    """Before each trial, what is tried on what."""
    told: list[str] = []
    run_peers(replace(EFFORT, largest_n=100), peers=[B], before_step=told.append)
    assert told == ["100 × 40 planted labels, 16 of 40 votes wrong together, 20% noise: other b"]


def test_a_real_trial_of_ours_goes_all_the_way():
    """The script, the process and the scores together, for the method closest at hand."""
    (one,) = run_peers(
        Effort(Limits(seconds=60.0), first_n=100, largest_n=100, fixed=False), peers=[A]
    ).trials
    assert one.trial.status == "done", one.trial.message
    assert one.trial.accuracy > 0.5
    assert one.trial.objective > 0


def test_every_package_is_ours_or_has_an_environment():
    """No peer is left without a Python."""
    there = {"coterie", "scikit-learn", *peers.ENVIRONMENTS}
    assert {peer.package for peer in PEERS} == there
    assert len({peer.name for peer in PEERS}) == len(PEERS)
