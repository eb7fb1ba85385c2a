"""Answers that clients do not read are limited in time and in memory."""

from __future__ import annotations

import asyncio

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


def after(seconds, transports, **limits):
    """Return which connections were ended so many seconds after answers began to wait on them."""

    async def waited():
        loop, timers = asyncio.get_running_loop(), []
        clock = [0.0]
        loop.time = lambda: clock[0]
        loop.call_later = lambda delay, call: timers.append((clock[0] + delay, call))
        unread = UnreadAnswers(Limits(**limits))
        for one in transports:
            unread.add(one)
        while timers and timers[0][0] <= seconds:
            clock[0], look = timers.pop(0)
            look()
        del loop.time, loop.call_later
        return [one.aborted for one in transports]

    return asyncio.run(waited())


@pytest.mark.parametrize(("speed", "ended"), [(0, True), (1, False)])
def test_client_that_does_not_read_is_left(speed, ended):
    """Its connection is ended after a while; one that reads slowly keeps its connection."""
    assert after(19, [Transport(1_000, speed)], write_seconds=20) == [False]
    assert after(70, [Transport(1_000, speed)], write_seconds=20) == [ended]


def test_unread_bytes_are_limited():
    """If too much waits in all, the connections that wait longest are ended."""
    transports = [Transport(4_000) for _ in range(10)]
    assert after(0, transports, unread_bytes=12_000) == [True] * 7 + [False] * 3
    assert not any(after(0, [Transport(4_000) for _ in range(3)], unread_bytes=12_000))
