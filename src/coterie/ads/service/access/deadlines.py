"""Requests that take too long are ended: one clock for all of them."""

from __future__ import annotations

import asyncio
import time

__all__ = ["Deadline", "Deadlines"]


class Deadline:
    """The moment by which a task must be done with what it is at; it may be moved on.

    ``passed`` tells whether the task was cancelled because of it.
    """

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
    """The deadlines of all requests, looked at together a few times a second.

    A timer for every request would cost more than most requests do.

    Parameters
    ----------
    interval : float
        Seconds between two looks, by which a task may overrun.
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
