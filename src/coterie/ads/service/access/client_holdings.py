"""What clients hold besides requests: connections, and answers that they are slow to read."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["OpenConnections", "UnreadAnswers"]


class OpenConnections:
    """How many connections each client has.

    Examples
    --------
    >>> connections = OpenConnections()
    >>> connections.opened("a"), connections.opened("a"), connections.opened("b")
    (1, 2, 1)
    >>> connections.closed("a")
    >>> connections.opened("a")
    2
    """

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

    Parameters
    ----------
    most : int
        Bytes in all.

    Examples
    --------
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

        Parameters
        ----------
        client : str
        size : int
        cut : callable
            Ends its connection. It may be called at once.
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
