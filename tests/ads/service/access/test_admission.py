"""Places for requests: how many there are, and whose turn is next."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.protocol import Limits
from coterie.ads.service.access.admission import Admission
from coterie.ads.service.problems import Problem

LIMITS = Limits(in_flight=3, in_flight_per_client=2, waiting=4, waiting_per_client=3)
CLIENTS = st.sampled_from("abc")
STEPS = st.tuples(st.sampled_from(["come", "go", "give up"]), CLIENTS, st.integers(0, 9))


async def _stay(admission, client, free, inside, order):
    """One request: it takes a place, stays until it is let go, and gives it back."""
    if not admission.enter(client):
        await admission.wait(client)
    inside[client] += 1
    order.append(client)
    try:
        await free.wait()
    finally:
        inside[client] -= 1
        admission.leave(client)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_limits_hold_whatever_comes_and_goes(steps):
    """No sequence of requests that come, go and give up exceeds a limit or loses a place."""

    async def scenario():
        admission, inside, requests = Admission(LIMITS), Counter(), []
        for step, client, which in steps:
            if step == "come":
                free = asyncio.Event()
                task = asyncio.create_task(_stay(admission, client, free, inside, []))
                requests.append((task, free))
            elif requests:
                task, free = requests.pop(which % len(requests))
                free.set() if step == "go" else task.cancel()
            if which % 2:
                await asyncio.sleep(0)
            _within_limits(admission, inside)
        for _, free in requests:
            free.set()
        while admission.under_way or admission.waiting:
            await asyncio.sleep(0)
            _within_limits(admission, inside)
        found = await asyncio.gather(*(task for task, _ in requests), return_exceptions=True)
        assert all(one is None or isinstance(one, Problem) for one in found)
        assert admission.enter("a")
        assert admission.enter("b")

    asyncio.run(scenario())


def _within_limits(admission, inside):
    assert inside.total() <= admission.under_way <= LIMITS.in_flight
    assert max(inside.values(), default=0) <= LIMITS.in_flight_per_client
    assert 0 <= admission.waiting <= LIMITS.waiting


def test_clients_take_turns():
    """A client with many requests in the queue lets another have its turn in between."""

    async def scenario():
        limits = Limits(in_flight=1, in_flight_per_client=1)
        admission, free, order = Admission(limits), asyncio.Event(), []
        tasks = [
            asyncio.create_task(_stay(admission, client, free, Counter(), order))
            for client in "aaaabb"
        ]
        await asyncio.sleep(0)
        free.set()
        await asyncio.gather(*tasks)
        return "".join(order)

    assert asyncio.run(scenario()) == "aababa"


def test_one_that_may_have_no_more_does_not_hold_up_others():
    """While the first in the queue has all the places it may have, the next one goes in."""

    async def scenario():
        admission = Admission(Limits(in_flight=2, in_flight_per_client=1))
        assert admission.enter("a")
        waits = asyncio.create_task(admission.wait("a"))
        await asyncio.sleep(0)
        entered = admission.enter("b")
        admission.leave("a")
        await waits
        return entered, admission.under_way, admission.waiting

    assert asyncio.run(scenario()) == (True, 2, 0)


def test_latecomer_does_not_overtake_its_own():
    """A client's request does not pass those of the same client that wait."""

    async def scenario():
        admission = Admission(Limits(in_flight=1))
        assert admission.enter("a")
        waits = asyncio.create_task(admission.wait("a"))
        await asyncio.sleep(0)
        admission.leave("a")
        overtook = admission.enter("a")
        await waits
        return overtook

    assert asyncio.run(scenario()) is False


@pytest.mark.parametrize(("client", "status"), [("a", 429), ("z", 503)])
def test_full_queue_says_whose_fault_it_is(client, status):
    """A client that fills its part of the queue gets 429; where all together do, it is 503."""

    async def scenario():
        limits = Limits(in_flight=1, waiting=3, waiting_per_client=2)
        admission = Admission(limits)
        assert admission.enter("x")
        waiting = [asyncio.create_task(admission.wait(who)) for who in "aab"]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as caught:
            await admission.wait(client)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert admission.waiting == 0
        return caught.value

    problem = asyncio.run(scenario())
    assert problem.status == status
    assert int(problem.headers["Retry-After"]) > 0


def test_turn_that_comes_to_one_that_gave_up_goes_on():
    """A place that falls free for a request cancelled in the same moment is not lost."""

    async def scenario():
        admission = Admission(Limits(in_flight=1))
        assert admission.enter("a")
        first, second = (asyncio.create_task(admission.wait(who)) for who in "bc")
        await asyncio.sleep(0)
        admission.leave("a")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await second
        return first.cancelled(), admission.under_way

    assert asyncio.run(scenario()) == (True, 1)
