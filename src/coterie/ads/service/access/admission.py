"""What clients may have at a time, and for how long: requests, connections, unread answers."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from coterie.ads.protocol import Limits
from coterie.ads.service.problems import busy

__all__ = ["Admission", "Deadline", "Deadlines", "OpenConnections", "UnreadAnswers"]


class Admission:
    """Places for requests; those that find none wait for a short while, in turn.

    A client may take a part of the places and of the queue only, so that others are served
    beside it. When a place falls free, the clients that wait have their turns one after another,
    however many requests each of them has. For the thread of the event loop alone.

    >>> admission = Admission(Limits(in_flight=1))
    >>> admission.enter("a"), admission.enter("b"), admission.under_way
    (True, False, 1)
    >>> admission.leave("a")
    >>> admission.enter("b")
    True
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held: dict[str, int] = {}
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.under_way = 0
        self.waiting = 0

    def enter(self, client: str) -> bool:
        """Take a place if there is one; where not, :meth:`wait` for it. End with :meth:`leave`."""
        held = self._held.get(client, 0)
        if (
            self.under_way >= self._limits.in_flight
            or held >= self._limits.in_flight_per_client
            or client in self._queues
        ):
            return False
        self.under_way += 1
        self._held[client] = held + 1
        return True

    async def wait(self, client: str) -> None:
        """Wait for a place and take it; a :class:`Problem` where the queue is full."""
        queue = self._queues.get(client)
        if queue is not None and len(queue) >= self._limits.waiting_per_client:
            raise busy(
                "this client has too many requests under way; send fewer at a time, or several "
                "questions in one request",
                status=429,
            )
        if self.waiting >= self._limits.waiting:
            raise busy("too many requests wait already; try again after the seconds in Retry-After")
        if queue is None:
            queue = self._queues[client] = deque()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            # the turn may have come in the same moment: the place goes on to the next
            if turn.done() and not turn.cancelled():
                self.leave(client)
            else:
                self._forget(client, turn)
            raise

    def leave(self, client: str) -> None:
        """Give a place back; it goes to whoever waits for it."""
        self.under_way -= 1
        held = self._held[client] - 1
        if held:
            self._held[client] = held
        else:
            del self._held[client]
        if self._queues:
            self._call_next()

    def _call_next(self) -> None:
        """Give free places to those that wait, one client after another."""
        while self.under_way < self._limits.in_flight:
            client = self._next_client()
            if client is None:
                return
            queue = self._queues[client]
            turn = queue.popleft()
            self.waiting -= 1
            self._queues.move_to_end(client)
            if not queue:
                del self._queues[client]
            if not turn.cancelled():
                self.under_way += 1
                self._held[client] = self._held.get(client, 0) + 1
                turn.set_result(None)

    def _next_client(self) -> str | None:
        """Return the first in the order of turns that may have one more place."""
        most = self._limits.in_flight_per_client
        return next((c for c in self._queues if self._held.get(c, 0) < most), None)

    def _forget(self, client: str, turn: asyncio.Future[None]) -> None:
        """Take a request that was given up out of the queue, if its turn has not come since."""
        queue = self._queues.get(client)
        if queue is None or turn not in queue:
            return
        queue.remove(turn)
        self.waiting -= 1
        if not queue:
            del self._queues[client]


class OpenConnections:
    """How many connections each client has."""

    def __init__(self) -> None:
        self._of_client: dict[str, int] = {}

    def opened(self, client: str) -> int:
        """Count one more; how many the client has now."""
        number = self._of_client.get(client, 0) + 1
        self._of_client[client] = number
        return number

    def closed(self, client: str) -> None:
        """Count one less; a client that has none is forgotten."""
        number = self._of_client[client] - 1
        if number:
            self._of_client[client] = number
        else:
            del self._of_client[client]


class UnreadAnswers:
    """How much waits in memory for clients that are slow to read, and who must go if too much does.

    Refusing others would let a few that never read keep everybody out. So the one that gives way
    is of the client that leaves most unread: its connection that has waited longest is cut.

    >>> unread, cut = UnreadAnswers(100), []
    >>> unread.add("a", 40, lambda: cut.append("first of a"))
    1
    >>> unread.add("a", 40, lambda: cut.append("second of a"))
    2
    >>> unread.add("b", 30, lambda: cut.append("b"))
    3
    >>> cut, unread.total
    (['first of a'], 70)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._number = 0
        self._of_client: dict[str, dict[int, tuple[int, Callable[[], object]]]] = {}
        self._sums: dict[str, int] = {}
        self.total = 0

    def add(self, client: str, size: int, cut: Callable[[], object]) -> int:
        """Count an answer of which ``size`` bytes wait; its number, for :meth:`remove`.

        ``cut`` ends its connection. It may be called at once.
        """
        self._number += 1
        self._of_client.setdefault(client, {})[self._number] = (size, cut)
        self._sums[client] = self._sums.get(client, 0) + size
        self.total += size
        number = self._number
        while self.total > self._most:
            self._cut_one()
        return number

    def remove(self, client: str, number: int) -> None:
        """Count an answer no longer: it was read, or its connection is gone."""
        held = self._of_client.get(client, {})
        if number not in held:
            return
        size, _ = held.pop(number)
        self.total -= size
        self._sums[client] -= size
        if not held:
            del self._of_client[client], self._sums[client]

    def _cut_one(self) -> None:
        client = max(self._sums, key=self._sums.__getitem__)
        number, (_, cut) = next(iter(self._of_client[client].items()))
        self.remove(client, number)
        cut()


class Deadline:
    """The moment by which a task must be done with what it is at; it may be moved on."""

    __slots__ = ("_task", "at", "passed")

    def __init__(self, task: asyncio.Task[object], at: float) -> None:
        self._task = task
        self.at = at
        self.passed = False

    def move(self, seconds: float) -> None:
        """Allow so many seconds from now, for the next part of the work."""
        self.at = time.perf_counter() + seconds

    def end_if_passed(self, now: float) -> None:
        """Cancel the task, once, if its time is up."""
        if now >= self.at and not self.passed:
            self.passed = True
            self._task.cancel()

    def forgive(self) -> None:
        """Let the task go on although it was cancelled, to tell its client what happened."""
        self._task.uncancel()


class Deadlines:
    """The deadlines of all requests, looked at together every ``interval`` seconds.

    A timer for every request would cost more than most requests do.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._watched: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seconds: float) -> Deadline:
        """Watch the current task from now on, until :meth:`end`."""
        task = asyncio.current_task()
        assert task is not None
        deadline = Deadline(task, time.perf_counter() + seconds)
        self._watched.add(deadline)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._look)
        return deadline

    def end(self, deadline: Deadline) -> None:
        """Watch a task no longer."""
        self._watched.discard(deadline)

    def _look(self) -> None:
        now = time.perf_counter()
        for deadline in self._watched:
            deadline.end_if_passed(now)
        self._timer = (
            asyncio.get_running_loop().call_later(self._interval, self._look)
            if self._watched
            else None
        )
