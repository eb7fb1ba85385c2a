"""Answers that clients do not read are limited in time and in memory."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from coterie.ads.protocol import Limits
from coterie.ads.service.connections import UnreadAnswers


class Transport:
    """A connection whose client reads some bytes each second."""

    def __init__(self, size, speed=0):
        self.size, self.speed, self.aborted = size, speed, False

    def get_write_buffer_size(self):
        """Return what waits."""
        return max(self.size - self.speed * asyncio.get_running_loop().time(), 0)

    def abort(self):
        """Note the end."""
        self.aborted = True


class Clock:
    """The time of a loop, and its timers."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def call_later(self, delay, call, *arguments):
        """Return a timer; it is cancelled by taking it out."""
        entry = (self.now + delay, call, arguments)
        self.timers.append(entry)
        return SimpleNamespace(cancel=lambda: entry in self.timers and self.timers.remove(entry))

    def move(self, until):
        """Let time pass."""
        while due := [entry for entry in self.timers if entry[0] <= until]:
            entry = min(due, key=lambda one: one[0])
            self.timers.remove(entry)
            self.now, call, arguments = entry
            call(*arguments)
        self.now = until


@pytest.fixture
def clock(monkeypatch):
    """A clock in place of that of the loop."""
    made = Clock()
    loop = SimpleNamespace(call_later=made.call_later, time=lambda: made.now)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    return made


@pytest.mark.parametrize(("speed", "ended"), [(0, True), (1, False)])
def test_client_that_does_not_read_is_left(clock, speed, ended):
    """Its connection is ended after a while; one that reads slowly keeps its connection."""
    unread, transport = UnreadAnswers(Limits(write_seconds=20)), Transport(1_000, speed)
    unread.add(transport)
    clock.move(19)
    assert not transport.aborted
    clock.move(70)
    assert transport.aborted == ended


def test_each_answer_has_its_own_time(clock):
    """The seconds count from when an answer began to wait, not one before it."""
    unread, transport = UnreadAnswers(Limits(write_seconds=20)), Transport(1_000)
    unread.add(transport)
    clock.move(10)
    unread.discard(transport)
    clock.move(19)
    unread.add(transport)
    clock.move(38)
    assert not transport.aborted
    clock.move(39)
    assert transport.aborted
    assert clock.timers == []


def test_unread_bytes_are_limited(clock):
    """If too much waits in all, the connections that wait longest are ended."""
    unread, transports = UnreadAnswers(Limits(unread_bytes=12_000)), []
    for number in range(10):
        transports.append(Transport(4_000))
        unread.add(transports[-1])
        assert [one.aborted for one in transports].count(False) == min(number + 1, 3)
    assert [one.aborted for one in transports] == [True] * 7 + [False] * 3
