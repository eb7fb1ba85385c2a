"""Fair queue: one thread does the long work of all requests, and clients take turns by cost.

Work is done in slices. After each slice, the flow that has received least work is served next
(start-time fair queueing). A flow is a client, or rather its small or its large requests: a single
forecast does not wait behind the batches of the same client. So a small request waits for one slice
of each competing flow at most.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from coterie.ads.protocol import Limits
from coterie.ads.service.problems import Problem

T = TypeVar("T")
#: Work in slices: yields the cost of each slice that was done, and returns the result.
Slices = Generator[int, None, T]
#: A request above this cost belongs to the flow of large requests of its client.
_LARGE = 64
#: Work per second that is assumed before any was measured.
_FIRST_RATE = 50_000.0
_MOST_IDLE_FLOWS = 1_000
#: CPU seconds that a slice should take at most, and what each second beyond counts for.
_SLICE_SECONDS, _WORK_PER_SECOND = 0.005, 100_000.0


def in_one_slice(work: Callable[[], T], cost: int) -> Slices[T]:
    """Return work that is done in one slice."""
    result = work()
    yield cost
    return result


@dataclass
class _Job:
    slices: Slices[Any]
    cost: int  # as estimated when it was admitted
    outcome: Future[Any] = field(default_factory=Future)


@dataclass
class _Flow:
    key: tuple[str, bool]
    received: float  # virtual time: the work it has received, counted from when it became busy
    jobs: deque[_Job] = field(default_factory=deque)


class FairQueue:
    """Runs the work of clients in one thread.

    ``on_change`` is called with the total work that waits or runs, whenever it changes; from any
    thread.
    """

    def __init__(self, limits: Limits, on_change: Callable[[int], object] = lambda _: None) -> None:
        self._limits = limits
        self._on_change = on_change
        self._flows: dict[tuple[str, bool], _Flow] = {}
        self._busy: list[tuple[float, int, _Flow]] = []  # a heap by received work
        self._numbers = itertools.count()
        self._now = 0.0  # virtual time: received work of the flow served last
        self._waiting: dict[str, int] = {}
        self._total = 0
        self._rate = _FIRST_RATE
        self._condition = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="fair-queue", daemon=True)
        self._thread.start()

    async def run(self, client: str, cost: int, slices: Slices[T], *, waits: bool = False) -> T:
        """Do some work when it is this client's turn, and return its result.

        ``cost`` is an estimate of all the work, in bids times days. The work is dropped when the
        caller is cancelled. If too much waits, of this client (429) or of all (503), it is a
        Problem, unless this work ``waits`` anyway, as the parts of a stream do: there is only one
        of them at a time.
        """
        job = _Job(slices, cost)
        self._admit(client, job, waits)
        # to cancel the caller cancels the outcome, too
        return await asyncio.wrap_future(job.outcome)

    def close(self) -> None:
        """End the thread after its current slice; work that waits is dropped."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join()

    def _admit(self, client: str, job: _Job, waits: bool) -> None:
        with self._condition:
            waiting = self._waiting.get(client, 0)
            if not waits and waiting and waiting + job.cost > self._limits.queued_work_per_client:
                raise self._refusal("too-much-work", waiting, "of yours")
            if not waits and self._total and self._total + job.cost > self._limits.queued_work:
                raise self._refusal("busy", self._total, "of all clients")
            self._waiting[client] = waiting + job.cost
            self._total += job.cost
            key = (client, job.cost > _LARGE)
            flow = self._flows.get(key)
            if flow is None:
                flow = self._flows[key] = _Flow(key, self._now)
            if not flow.jobs:
                # what an idle flow did not use is not saved up
                flow.received = max(flow.received, self._now)
                self._push(flow)
            flow.jobs.append(job)
            self._on_change(self._total)
            self._condition.notify()

    def _refusal(self, kind: str, waiting: int, whose: str) -> Problem:
        seconds = max(math.ceil(waiting / self._rate), 1)
        return Problem(
            kind,
            f"{waiting:,} bids times days {whose} are waiting; ask again after {seconds} s",
            headers={"Retry-After": str(seconds)},
        )

    def _push(self, flow: _Flow) -> None:
        heapq.heappush(self._busy, (flow.received, next(self._numbers), flow))

    def _serve(self) -> None:
        while (flow := self._next_flow()) is not None:
            job = flow.jobs[0]
            cost, deliver = self._do_slice(job)
            with self._condition:
                flow.received += cost
                if deliver is not None:
                    flow.jobs.popleft()
                    self._forget(flow.key[0], job.cost)
                if flow.jobs:
                    self._push(flow)
            # not before it is forgotten: the caller may ask for more immediately
            if deliver is not None and job.outcome.set_running_or_notify_cancel():
                deliver()
            del job, deliver  # a model that was replaced must not wait here for the next work

    def _next_flow(self) -> _Flow | None:
        """Return the busy flow that has received least; wait for one; None at the end."""
        with self._condition:
            while not self._busy and not self._closed:
                self._condition.wait()
            if self._closed:
                return None
            received, _, flow = heapq.heappop(self._busy)
            self._now = max(self._now, received)
            return flow

    def _do_slice(self, job: _Job) -> tuple[int, Callable[[], None] | None]:
        """Return the cost of the slice that was done, and what delivers the outcome at the end."""
        if job.outcome.cancelled():
            job.slices.close()
            return 1, lambda: None
        began, cpu = time.perf_counter(), time.thread_time()
        try:
            cost = next(job.slices)
        except StopIteration as end:
            return 0, partial(job.outcome.set_result, end.value)
        except BaseException as error:
            return 1, partial(job.outcome.set_exception, error)
        seconds = max(time.perf_counter() - began, 1e-6)
        # a moving average over some hundred slices, for Retry-After
        self._rate += 0.01 * (min(cost / seconds, 1e7) - self._rate)
        # a slice may take longer than its cost says, such as the days of a whole year
        beyond = time.thread_time() - cpu - _SLICE_SECONDS
        return cost + max(int(beyond * _WORK_PER_SECOND), 0), None

    def _forget(self, client: str, cost: int) -> None:
        """Count finished work no longer; called with the lock held."""
        self._total -= cost
        left = self._waiting[client] - cost
        if left:
            self._waiting[client] = left
        else:
            del self._waiting[client]
        if len(self._flows) > _MOST_IDLE_FLOWS:
            self._flows = {
                key: flow
                for key, flow in self._flows.items()
                if flow.jobs or flow.received > self._now
            }
        self._on_change(self._total)
