"""Tasks that take too long are ended, and no others."""

from __future__ import annotations

import asyncio

import pytest

from coterie.ads.service.access.deadlines import Deadlines

INTERVAL = 0.005


def test_task_is_ended_once_its_time_is_up():
    """A task that waits beyond its deadline is cancelled, and can go on to tell of it."""

    async def scenario():
        deadline = Deadlines(INTERVAL).begin(0.01)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()
        assert deadline.passed
        deadline.forgive()
        # a task that was forgiven may wait again
        await asyncio.sleep(3 * INTERVAL)
        return True

    assert asyncio.run(scenario())


def test_deadline_that_was_moved_on_does_not_end():
    """What is left of one part of the work is no limit on the next."""

    async def scenario():
        deadlines = Deadlines(INTERVAL)
        short, other = deadlines.begin(0.01), []

        async def watched():
            other.append(deadlines.begin(0.01))
            await asyncio.Event().wait()

        short.move(60.0)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(watched())
        deadlines.end(short)
        deadlines.end(other[0])
        return short.passed, other[0].passed

    assert asyncio.run(scenario()) == (False, True)


def test_what_has_ended_is_left_alone():
    """A task that was done in time is not cancelled in what it does afterwards."""

    async def scenario():
        deadlines = Deadlines(INTERVAL)
        done = deadlines.begin(0.0)
        deadlines.end(done)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(_wait_under(deadlines))
        return done.passed

    assert asyncio.run(scenario()) is False


async def _wait_under(deadlines):
    deadlines.begin(0.01)
    await asyncio.Event().wait()
