"""Places for requests and connections, unread answers, and how long all may take."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.ads.protocol import Limits
from coterie.ads.service.access.admission import (
    Admission,
    Deadlines,
    OpenConnections,
    UnreadAnswers,
)
from coterie.ads.service.problems import Problem
from local_server import in_loop

LIMITS = Limits(in_flight=3, in_flight_per_client=2, waiting=4, waiting_per_client=3)
CLIENTS = st.sampled_from("abc")
INTERVAL = 0.005
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


@given(st.lists(STEPS, max_size=40))
@in_loop
async def test_limits_hold_whatever_comes_and_goes(steps):
    """No sequence of requests that come, go and give up exceeds a limit or loses a place."""
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


def _within_limits(admission, inside):
    assert inside.total() <= admission.under_way <= LIMITS.in_flight
    assert max(inside.values(), default=0) <= LIMITS.in_flight_per_client
    assert 0 <= admission.waiting <= LIMITS.waiting


@in_loop
async def test_clients_take_turns():
    """A client with many requests in the queue lets another have its turn in between."""
    limits = Limits(in_flight=1, in_flight_per_client=1)
    admission, free, order = Admission(limits), asyncio.Event(), []
    tasks = [
        asyncio.create_task(_stay(admission, client, free, Counter(), order)) for client in "aaaabb"
    ]
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*tasks)
    found = "".join(order)
    assert found == "aababa"


@in_loop
async def test_one_that_may_have_no_more_does_not_hold_up_others():
    """While the first in the queue has all the places it may have, the next one goes in."""
    admission = Admission(Limits(in_flight=2, in_flight_per_client=1))
    assert admission.enter("a")
    waits = asyncio.create_task(admission.wait("a"))
    await asyncio.sleep(0)
    entered = admission.enter("b")
    admission.leave("a")
    await waits
    found = entered, admission.under_way, admission.waiting
    assert found == (True, 2, 0)


@in_loop
async def test_latecomer_does_not_overtake_its_own():
    """A client's request does not pass those of the same client that wait."""
    admission = Admission(Limits(in_flight=1))
    assert admission.enter("a")
    waits = asyncio.create_task(admission.wait("a"))
    await asyncio.sleep(0)
    admission.leave("a")
    overtook = admission.enter("a")
    await waits
    found = overtook
    assert found is False


@pytest.mark.parametrize(("client", "status"), [("a", 429), ("z", 503)])
@in_loop
async def test_full_queue_says_whose_fault_it_is(client, status):
    """A client that fills its part of the queue gets 429; where all together do, it is 503."""
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
    problem = caught.value
    assert problem.status == status
    assert int(problem.headers["Retry-After"]) > 0


@in_loop
async def test_turn_that_comes_to_one_that_gave_up_goes_on():
    """A place that falls free for a request cancelled in the same moment is not lost."""
    admission = Admission(Limits(in_flight=1))
    assert admission.enter("a")
    first, second = (asyncio.create_task(admission.wait(who)) for who in "bc")
    await asyncio.sleep(0)
    admission.leave("a")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await second
    found = first.cancelled(), admission.under_way
    assert found == (True, 1)


HELD = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60), st.booleans()), max_size=30)


@given(HELD)
def test_unread_answers_never_exceed_their_limit(steps):
    """Whatever is added and removed, the sum is that of those left, and within the limit."""
    unread, held = UnreadAnswers(100), {}
    for number, (client, size, removed) in enumerate(steps):
        if removed and held:
            whose, key, _ = held.pop(next(iter(held)))
            unread.remove(whose, key)
            unread.remove(whose, key)
        held[number] = (client, None, size)
        key = unread.add(client, size, lambda number=number: held.pop(number))
        if number in held:
            held[number] = (client, key, size)
        assert unread.total == sum(size for _, _, size in held.values()) <= 100


@given(st.lists(st.sampled_from("abc"), max_size=20))
def test_connections_are_counted_by_client(clients):
    """Each client has as many as it opened and did not close; none is remembered in the end."""
    counted = OpenConnections()
    for i, client in enumerate(clients, 1):
        assert counted.opened(client) == clients[:i].count(client)
    for client in clients:
        counted.closed(client)
    assert counted._of_client == {}


@in_loop
async def test_task_is_ended_once_its_time_is_up():
    """A task that waits beyond its deadline is cancelled, and can go on to tell of it."""
    deadline = Deadlines(INTERVAL).begin(0.01)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.Event().wait()
    assert deadline.passed
    deadline.forgive()
    # a task that was forgiven may wait again
    await asyncio.sleep(3 * INTERVAL)
    found = True
    assert found


@in_loop
async def test_deadline_that_was_moved_on_does_not_end():
    """What is left of one part of the work is no limit on the next."""
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
    found = short.passed, other[0].passed
    assert found == (False, True)


@in_loop
async def test_what_has_ended_is_left_alone():
    """A task that was done in time is not cancelled in what it does afterwards."""
    deadlines = Deadlines(INTERVAL)
    done = deadlines.begin(0.0)
    deadlines.end(done)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(_wait_under(deadlines))
    found = done.passed
    assert found is False


async def _wait_under(deadlines):
    deadlines.begin(0.01)
    await asyncio.Event().wait()
