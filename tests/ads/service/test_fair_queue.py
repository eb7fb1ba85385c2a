"""Fair queue: who is served next, what is refused, and that nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.protocol import Limits
from coterie.ads.service import fair_queue
from coterie.ads.service.fair_queue import FairQueue, in_one_slice
from coterie.ads.service.problems import Problem

LARGE = 100


@pytest.fixture(autouse=True, scope="module")
def stopped_clock():
    """Let no slice take any CPU time: a busy machine would change whose turn it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fair_queue.time, "thread_time", lambda: 0.0)
        yield


costs = st.lists(st.integers(1, 300), min_size=1, max_size=6)


class Scene:
    """A queue whose thread is held up until everything waits; ``done`` is what ran, in order."""

    def __init__(self, **limits):
        self.totals = []
        self.queue = FairQueue(Limits(**limits), self.totals.append)
        self.done = []
        self._go = threading.Event()

    def slices(self, name, *costs):
        """Return work that notes each of its slices."""
        for cost in costs:
            self.done.append((name, cost))
            yield cost
        return name

    async def waiting(self, **flows):
        """Start a plug of another client, then the requests of each flow behind it."""
        plug = self._task("plug", in_one_slice(lambda: self._go.wait(60), 1), 1)
        tasks = {
            name: [self._task(name, self.slices(name, *one), sum(one)) for one in requests]
            for name, requests in flows.items()
        }
        await asyncio.sleep(0)
        return plug, tasks

    def _task(self, client, slices, cost):
        return asyncio.create_task(self.queue.run(client, cost, slices))

    def run(self, **flows):
        """Run requests of several clients that all wait at the same time."""

        async def all_of_them():
            plug, tasks = await self.waiting(**flows)
            self.go()
            await plug
            return {name: await asyncio.gather(*some) for name, some in tasks.items()}

        found = asyncio.run(all_of_them())
        self.queue.close()
        return found

    def go(self):
        """Let the thread begin."""
        self._go.set()

    def received(self):
        """Return, after each slice, the work that each flow has received."""
        so_far = Counter()
        for name, cost in self.done:
            so_far[name] += cost
            yield name, dict(so_far)


@settings(max_examples=40)
@given(st.lists(costs, min_size=1, max_size=8), st.lists(costs, min_size=1, max_size=8))
def test_two_busy_clients_get_half_the_work_each(some, others):
    """However large their requests and slices, they differ by one slice of each at most."""
    some, others = ([[LARGE, *one] for one in each] for each in (some, others))
    scene = Scene()
    scene.run(a=some, b=others)
    most = max(cost for one in (*some, *others) for cost in one)
    left = {"a": sum(map(sum, some)), "b": sum(map(sum, others))}
    for _, got in scene.received():
        a, b = got.get("a", 0), got.get("b", 0)
        if a < left["a"] and b < left["b"]:
            assert abs(a - b) <= 2 * most


@settings(max_examples=40)
@given(st.lists(st.lists(costs, min_size=1, max_size=4), min_size=1, max_size=5))
def test_small_request_waits_for_one_slice_of_each_flow(others):
    """A request that comes last is served after one slice of each competing flow at most."""
    scene = Scene()
    busy = {f"busy {n}": [[LARGE, *one] for one in each] for n, each in enumerate(others)}
    scene.run(**busy, single=[[1]])
    before = [name for name, _ in scene.done[: scene.done.index(("single", 1))]]
    assert max(Counter(before).values(), default=0) <= 1


def test_small_requests_do_not_wait_behind_large_ones_of_the_same_client():
    """A single forecast of a client passes its own batches."""
    scene = Scene()
    scene.run(a=[[LARGE] * 50, [1], [LARGE] * 50, [2]])
    assert {("a", 1), ("a", 2)} <= set(scene.done[:4])


def test_idle_client_saves_nothing_up():
    """Who asked for nothing for a while does not then have all the work for itself."""
    scene, half_way, all_wait = Scene(), threading.Event(), threading.Event()

    def busy():
        yield from [LARGE] * 39
        half_way.set()
        all_wait.wait(60)
        yield LARGE

    async def late():
        await scene.queue.run("b", LARGE, in_one_slice(lambda: None, LARGE))
        first = asyncio.create_task(scene.queue.run("a", 40 * LARGE, busy()))
        await asyncio.to_thread(half_way.wait)
        both = [scene._task(name, scene.slices(name, *[LARGE] * 10), 1_000) for name in "ab"]
        await asyncio.sleep(0)
        all_wait.set()
        await asyncio.gather(first, *both)

    asyncio.run(late())
    scene.queue.close()
    names = [name for name, _ in scene.done]
    assert Counter(names) == {"a": 10, "b": 10}
    assert not any(len(set(names[at : at + 3])) == 1 for at in range(15))


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(costs, max_size=5)))
def test_each_slice_runs_once_and_each_caller_gets_its_result(flows):
    """Nothing is lost or done twice; a client's requests of a kind are done in order."""
    scene = Scene()
    named = {name: [[LARGE, *one] for one in each] for name, each in flows.items()}
    found = scene.run(**named)
    assert found == {name: [name] * len(each) for name, each in named.items()}
    for name, each in named.items():
        asked = [cost for one in each for cost in one]
        assert [cost for who, cost in scene.done if who == name] == asked
    assert scene.totals[-1] == 0


def test_many_threads_and_tasks_lose_nothing():
    """Event loops in several threads share a queue: each job runs once, for its caller."""
    queue, ran, results = FairQueue(Limits()), Counter(), []

    def job(name):
        def work():
            ran[name] += 1
            return name

        return work

    async def ask(number):
        names = [f"{number}-{i}" for i in range(200)]
        found = await asyncio.gather(
            *(
                queue.run(f"client {i % 7}", 1 + i, in_one_slice(job(name), 1))
                for i, name in enumerate(names)
            )
        )
        results.append(found == names)

    threads = [threading.Thread(target=lambda n=n: asyncio.run(ask(n))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.close()
    assert results == [True] * 4
    assert len(ran) == 800 and set(ran.values()) == {1}


def test_cancelled_request_is_dropped():
    """Work of a caller that left is not done, also when it is half done; others go on."""
    scene = Scene()
    half_done, closed = threading.Event(), []

    def half():
        try:
            half_done.set()
            while True:
                yield LARGE
        finally:
            closed.append(True)

    async def scenario():
        _, tasks = await scene.waiting(a=[[LARGE]], b=[[LARGE]])
        running = asyncio.create_task(scene.queue.run("c", LARGE, half()))
        await asyncio.sleep(0)
        tasks["a"][0].cancel()
        await asyncio.sleep(0)
        scene.go()
        await asyncio.to_thread(half_done.wait)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        while not closed:  # when it would have been its turn again
            await asyncio.sleep(0)
        return await tasks["b"][0], await scene.queue.run("d", 1, scene.slices("d", 1))

    assert asyncio.run(scenario()) == ("b", "d")
    scene.queue.close()
    assert ("a", LARGE) not in scene.done
    assert closed == [True]
    assert scene.totals[-1] == 0


def test_errors_reach_the_caller():
    """A failure of some work is its caller's alone, and the queue goes on."""
    queue = FairQueue(Limits())

    def failing():
        yield 1
        raise KeyError("odd")

    async def scenario():
        with pytest.raises(KeyError):
            await queue.run("a", 1, failing())
        with pytest.raises(ZeroDivisionError):
            await queue.run("a", 1, in_one_slice(lambda: 1 // 0, 1))
        return await queue.run("a", 1, in_one_slice(lambda: 42, 1))

    assert asyncio.run(scenario()) == 42
    queue.close()


@pytest.mark.parametrize(
    ("client", "limits", "kind", "status"),
    [
        ("a", {"queued_work_per_client": 499_990}, "too-much-work", 429),
        ("b", {"queued_work": 499_990}, "busy", 503),
    ],
)
def test_too_much_work_is_refused(client, limits, kind, status):
    """Beyond the limit of one client it is told 429, beyond that of all 503, and when to come back.

    Parts of a stream wait all the same; and what is done no longer counts.
    """
    scene = Scene(**limits)

    async def scenario():
        plug, tasks = await scene.waiting(a=[[499_980]])
        with pytest.raises(Problem) as caught:
            await scene.queue.run(client, 51, scene.slices("refused", 51))
        part = asyncio.create_task(
            scene.queue.run(client, 51, scene.slices("part", 51), waits=True)
        )
        scene.go()
        await asyncio.gather(plug, part, *tasks["a"])
        while scene.totals[-1]:
            await asyncio.sleep(0)
        await scene.queue.run(client, 51, scene.slices("later", 51))
        return caught.value

    problem = asyncio.run(scenario())
    scene.queue.close()
    assert (problem.kind, problem.status) == (kind, status)
    # at the rate that is assumed before any was measured
    assert problem.headers["Retry-After"] == "10"
    assert "refused" not in dict(scene.done) and "later" in dict(scene.done)


def test_one_request_is_taken_however_large():
    """A client that has nothing waiting may ask for anything: limits are about what waits."""
    scene = Scene(queued_work=10, queued_work_per_client=5)

    async def scenario():
        return await scene.queue.run("a", 1_000, scene.slices("a", 1_000))

    assert asyncio.run(scenario()) == "a"
    scene.queue.close()


def test_others_are_served_while_one_client_is_at_its_limit():
    """The limit of one client is not a limit of the others."""
    scene = Scene(queued_work_per_client=100)
    assert scene.run(a=[[100]], b=[[100]], c=[[100]]) == {"a": ["a"], "b": ["b"], "c": ["c"]}


def test_waiting_work_is_reported():
    """Whoever watches the queue learns of all the work that waits or runs."""
    scene = Scene()
    scene.run(a=[[10], [20]])
    assert scene.totals[:3] == [1, 11, 31]
    assert all(later < sooner for sooner, later in pairwise(scene.totals[2:]))
    assert scene.totals[-1] == 0


def test_close_ends_the_thread_and_drops_what_waits():
    """After the current slice nothing runs any more."""
    scene = Scene()

    async def scenario():
        _, tasks = await scene.waiting(a=[[LARGE]])
        closing = asyncio.to_thread(scene.queue.close)
        closer = asyncio.create_task(closing)
        while not scene.queue._closed:
            await asyncio.sleep(0)
        scene.go()
        await closer
        return tasks["a"][0].done()

    assert asyncio.run(scenario()) is False
    assert scene.done == []
    assert not scene.queue._thread.is_alive()


def test_memory_does_not_grow_with_the_number_of_clients():
    """Clients that went away are forgotten."""
    queue = FairQueue(Limits())

    async def scenario():
        for number in range(3_000):
            await queue.run(f"client {number}", 1, in_one_slice(lambda: None, 1))

    asyncio.run(scenario())
    queue.close()
    assert len(queue._flows) <= 1_001
    assert queue._waiting == {}


def test_slice_that_takes_long_is_charged_for_its_time(monkeypatch):
    """A flow whose slices cost more CPU time than they say waits longer for its next turn."""
    # twice for the plug; then the first slice takes a tenth of a second
    clock = iter([0.0, 0.0, 0.0, 0.105, *[0.105] * 100])
    scene = Scene()
    asked = {"slow": [[1, 1]], "quick": [[1]] * 20}

    async def all_of_them():
        plug, tasks = await scene.waiting(**asked)
        monkeypatch.setattr(fair_queue.time, "thread_time", lambda: next(clock))
        scene.go()
        await plug
        await asyncio.gather(*(task for some in tasks.values() for task in some))

    asyncio.run(all_of_them())
    scene.queue.close()
    names = [name for name, _ in scene.done]
    assert names[0] == "slow"
    assert names.index("slow", 1) == len(names) - 1
