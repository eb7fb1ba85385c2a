"""Bad requests: each is refused with the right problem, and the service goes on."""

from __future__ import annotations

import contextlib
import json
import socket

import pytest

from bad_requests import ASK, GOOD, TOKEN, ask, bad_requests, request
from coterie.ads.service.problems import KINDS
from running_service import PATIENCE, running_service, wait_until

BAD = list(bad_requests())

# the service is shared: by one worker, so that it is started once


@pytest.fixture(scope="module")
def service(models, tmp_path_factory):
    """A service that needs a token; afterwards it has failed on nothing."""
    folder = tmp_path_factory.mktemp("bad")
    options = ("--no-watch", "--drain-seconds", "0")
    environment = {"COTERIE_TOKEN": TOKEN}
    with running_service(models[0], folder, *options, environment=environment) as running:
        yield running
        with running.client(headers={"authorization": f"Bearer {TOKEN}"}) as client:
            assert 'status="5' not in client.get("/metrics").text
        assert "ERROR" not in running.logged and "WARNING" not in running.logged


def answers(service, sent, *, ends=False):
    """Return all that comes back until the connection is closed; by this side first if it ends."""
    with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as connection:
        with contextlib.suppress(ConnectionError):  # refused before all was sent
            connection.sendall(sent)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as reading, contextlib.suppress(ConnectionResetError):
            return reading.read()
        return b""


def parsed(answer):
    """Return status, headers and body of one answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return int(first.split(" ")[1]), dict(line.split(": ", 1) for line in lines), body


def test_there_are_many():
    """The table has several hundred different requests."""
    assert len({bad.sent for bad in BAD}) >= 300


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name.encode("unicode_escape").decode())
def test_bad_request_is_refused(service, bad):
    """The status and the type of the problem are right; after it a good question is answered."""
    answer = answers(service, bad.sent, ends=not bad.status)
    if not bad.status:
        assert answer == b""
    elif answer or bad.kind != "body-too-large":  # the answer may be lost if not all is read
        status, headers, body = parsed(answer)
        assert (status, headers["content-type"]) == (bad.status, "application/problem+json"), body
        told = json.loads(body)
        assert told["type"] == f"/problems/{bad.kind}"
        assert (told["status"], told["title"]) == (status, KINDS[bad.kind].title)
        assert told["request_id"] == headers["x-request-id"]
        assert 0 < len(body) < 10_000
        assert headers.get("allow") in ({"GET, HEAD", "POST"} if status == 405 else {None})
        assert (status == 401) == ("www-authenticate" in headers)
        assert bool(told.get("errors")) == (status == 422)
    status, _, body = parsed(answers(service, ask(GOOD)))
    assert (status, json.loads(body)["known"]) == (200, True)


def test_requests_sent_ahead_are_answered_in_order(service):
    """Bad requests between good ones on the same connection cost none its answer."""
    keep = {"Connection": "keep-alive"}
    several = [ask(GOOD, **keep), ask(b"{", **keep), request("/nowhere", **keep), ask(GOOD)]
    found = answers(service, b"".join(several)).split(b"HTTP/1.1 ")[1:]
    assert [one[:3] for one in found] == [b"200", b"400", b"404", b"200"]


def test_client_that_leaves_is_no_failure(service):
    """A client that goes away before its answer is noted as 499."""
    long = {**GOOD, "bid": {"from": 1, "to": 2_000, "step": 1}, "days": 30}
    for sent in (ask(long), ask(GOOD)[:-5]):
        with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as connection:
            connection.sendall(sent)
    wait_until(lambda: f"POST {ASK} 499 " in service.logged, "the line in the log")
