"""Advertisers by a part of their id: all ids in one row of bytes, looked through at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["AdvertiserSearch"]

Rows = NDArray[np.int64]

# a byte that no text in UTF-8 has: nothing is found across the end of an id
_END = b"\xff"


class AdvertiserSearch:
    """Finds advertisers by a part of their id, in upper or lower case.

    The id that is the very text comes first, then ids that begin with it, then those that hold
    it elsewhere; within each kind those that spend most come first, and of equals the one that
    comes first in the model. An empty text finds all.

    Parameters
    ----------
    ids : sequence of A str
    spend : (A,) array
    labels : (A,) int array
        The segment of each; −1 is none.
    columns : mapping of str to (A,) array, optional
        Numbers to sort by, beside "id" and "spend".

    Examples
    --------
    >>> search = AdvertiserSearch(["car hire", "Oscar", "cars", "CAR"], [1, 9, 5, 2], [0, 0, 1, 1])
    >>> rows, total = search.page("car", page_size=3)
    >>> rows.tolist(), total
    ([3, 2, 0], 4)
    >>> search.page("car", sort="-spend")[0].tolist()
    [1, 2, 3, 0]
    """

    def __init__(
        self,
        ids: Sequence[str],
        spend: NDArray[np.float64] | Sequence[float],
        labels: NDArray[np.int64] | Sequence[int],
        columns: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        # ids stand in the order they are to be shown in, so that nothing found need be sorted
        self._rows: Rows = np.argsort(-np.asarray(spend, dtype=np.float64), kind="stable")
        self._labels = np.asarray(labels)[self._rows]
        folded = [_folded(ids[row]) for row in self._rows.tolist()]
        ranks = {text: rank for rank, text in enumerate(sorted(set(folded)))}
        given = {"spend": spend, **(columns or {})}
        self._columns = {
            name: np.asarray(one, dtype=np.float64)[self._rows] for name, one in given.items()
        }
        self._columns["id"] = np.array([ranks[text] for text in folded], dtype=np.int64)
        self._bytes = np.frombuffer(_END + _END.join(folded) + _END, dtype=np.uint8)
        lengths = np.array([len(text) for text in folded], dtype=np.int64)
        starts = np.cumsum(lengths + 1) - lengths
        self._starts = starts.astype(np.int32 if self._bytes.size < 2**31 else np.int64)
        # the number of the id that each byte belongs to, with the end before it
        self._owner = np.repeat(np.arange(len(folded), dtype=np.int32), lengths + 1)

    def page(
        self,
        text: str = "",
        *,
        segment: int | None = None,
        sort: str = "",
        page: int = 1,
        page_size: int = 20,
    ) -> tuple[Rows, int]:
        """Return the rows on a page, from 1, and how many advertisers were found in all.

        ``sort`` is the name of a column, with a minus sign for the largest first. Rows with equal
        values stay in the usual order.
        """
        needle = _folded(text)
        found = self._found(needle) if needle else np.arange(len(self._rows))
        if segment is not None:
            found = found[self._labels[found] == segment]
        if sort:
            values = self._columns[sort.removeprefix("-")][found]
            found = found[np.argsort(-values if sort.startswith("-") else values, kind="stable")]
        first = (page - 1) * page_size
        return self._rows[found[first : first + page_size]], len(found)

    def _found(self, needle: bytes) -> Rows:
        """Return the numbers of the ids that hold a text, in the order they are shown in."""
        at = self._places(needle)
        owner = self._owner[at - 1]
        begins = self._starts[owner] == at
        whole = begins & (self._bytes[at + len(needle)] == _END[0])
        first = np.ones(len(at), dtype=bool)
        first[1:] = owner[1:] != owner[:-1]
        # an id that begins with the text is met there first, so its further places are no matter
        kinds = (first & whole, first & begins & ~whole, first & ~begins)
        return np.concatenate([owner[kind] for kind in kinds])

    def _places(self, needle: bytes) -> Rows:
        """Where in all bytes a text begins: places of its first byte, sifted byte by byte."""
        among = self._bytes[: max(self._bytes.size - len(needle), 0)]
        at = np.flatnonzero(among == needle[0])
        for offset in range(1, len(needle)):
            if not at.size:
                break
            at = at[self._bytes[at + offset] == needle[offset]]
        return at


def _folded(text: str) -> bytes:
    """Without case; what UTF-8 has no bytes for is replaced."""
    return text.casefold().encode("utf-8", "replace")
