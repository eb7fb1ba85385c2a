"""How many requests are worked on at a time: in all, of one client, and whose turn is next."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from coterie.ads.protocol import Limits
from coterie.ads.service.problems import Problem

__all__ = ["Admission"]

_RETRY = {"Retry-After": "1"}


class Admission:
    """Places for requests; those that find none wait for a short while, in turn.

    A client may take a part of the places and of the queue only, so that others are served
    beside it. When a place falls free, the clients that wait have their turns one after another,
    however many requests each of them has. For the thread of the event loop alone.

    Parameters
    ----------
    limits : Limits
        ``in_flight``, ``in_flight_per_client``, ``waiting`` and ``waiting_per_client``.

    Examples
    --------
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
            raise _too_many_of_one()
        if self.waiting >= self._limits.waiting:
            raise _too_many_in_all()
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


def _too_many_of_one() -> Problem:
    return Problem(
        429,
        "Too Many Requests",
        "this client has too many requests under way; send fewer at a time, or several "
        "questions in one request",
        headers=_RETRY,
    )


def _too_many_in_all() -> Problem:
    return Problem(
        503,
        "Service Unavailable",
        "too many requests wait already; try again after the seconds in Retry-After",
        headers=_RETRY,
    )
