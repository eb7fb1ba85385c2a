"""Loads, from wrk and from sockets of our own: what is asked, counted, looked at and kept."""

from __future__ import annotations

import shutil
import socket
from typing import Any

import pytest

from benchmarks import serve_load
from benchmarks.serve_load import LoadRun, generator_in_words, run_load
from canned_service import CannedService, canned
from coterie.errors import CoterieError

BODIES = [b'{"advertiser":"a","bid":1.5}', b'{"advertiser":"b","bid":2.5}']


def loaded(service: CannedService, connections: int, **more: Any) -> LoadRun:
    """A second of load; on a machine that was busy with other things, another one."""
    for _ in range(30):
        run = run_load(service.server_port, BODIES, connections, 1, **more)
        if run.requests >= 20:
            break
    return run


@pytest.fixture(params=["wrk", "sockets"])
def generator(request, monkeypatch):
    """Both generators in turn; the first only where it is installed."""
    if request.param == "sockets":
        monkeypatch.setattr(serve_load.shutil, "which", lambda _name: None)
    elif shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    return request.param


def test_every_body_is_asked_and_every_answer_counted(generator):
    """All bodies arrive unchanged, nothing fails, times are in order; others work meanwhile."""
    done = []
    with canned(lambda _number, _body: (200, b"{}")) as service:
        run = loaded(service, 2, meanwhile=lambda: done.append(True))
        assert service.bodies == set(BODIES)
        assert 0 < run.requests <= next(service.numbers)
    assert run.failed == 0
    assert 0 < run.p50 <= run.p99 <= run.slowest
    assert run.a_second == run.requests / run.seconds
    assert (run.versions, run.kept) == ({}, ())
    assert done


def test_refusals_are_failures(generator):
    """Answers of 400 and above are counted as failed, each of them."""
    with canned(lambda number, _body: (503 if number % 2 else 200, b"{}")) as service:
        run = loaded(service, 1)
    assert abs(run.failures["status"] - run.requests / 2) <= 1
    assert run.failed == run.failures["status"]


def test_answers_are_told_apart_by_version_and_some_are_kept(generator):
    """Good answers are counted by the version they name, and the first of every ten is kept."""

    def answer(number: int, body: bytes) -> tuple[int, bytes]:
        version = b"abc" if number % 3 else b"def"
        return 200, b'{"model": {"version":"%s"},"asked":%s}' % (version, body)

    with canned(answer) as service:
        run = loaded(service, 1, keep_every=10)
    assert set(run.versions) == {"abc", "def"}
    answered = sum(run.versions.values())
    assert abs(answered - run.requests) <= 1
    assert len(run.kept) == -(-answered // 10)
    assert all(kept.startswith(b'{"model"') and kept.endswith(b"}}") for kept in run.kept)


def test_a_service_that_is_not_there_is_told(generator):
    """Where nobody listens, wrk gives up, and our sockets count every attempt as failed."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # but it does not listen
        port = taken.getsockname()[1]
        if generator == "wrk":
            with pytest.raises(CoterieError, match="could not be made"):
                run_load(port, BODIES, 1, 1)
        else:
            run = run_load(port, BODIES, 1, 1)
            assert run.requests == 0
            assert run.failed == run.failures["connect"] > 0


def test_what_fails_meanwhile_ends_the_load(generator):
    """An error in the meantime is passed on, and no load is left behind."""

    def fail() -> None:
        raise RuntimeError("in the meantime")

    with (
        canned(lambda _number, _body: (200, b"{}")) as service,
        pytest.raises(RuntimeError, match="in the meantime"),
    ):
        run_load(service.server_port, BODIES, 1, 600, meanwhile=fail)


def test_the_generator_is_named(generator):
    """The page can say where the load came from."""
    assert ("wrk is not installed" in generator_in_words()) == (generator == "sockets")


def test_failures_of_all_kinds_add_up():
    """A request fails in whatever way; ways are kept apart."""
    assert LoadRun(1, 9, 1.0, 0, 0, 0, {"status": 2, "read": 1, "connect": 0}).failed == 3
