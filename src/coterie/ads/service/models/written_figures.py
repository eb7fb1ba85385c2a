"""Figures of forecasts as JSON: numbers written all at once, then laid between names.

A dictionary for every forecast would take longer to make and to write than the forecast itself.
The names are the same for all, so that only the numbers between them are written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

__all__ = ["AnswerWriter", "inside_text"]

_NAMES = (
    b',"win_rate":',
    b',"cost":',
    b',"impressions":',
    b',"impressions_interval":[',
    b",",
    b'],"spend":',
    b',"spend_interval":[',
    b",",
    b'],"clicks":',
)
_CLICKS = (b',"clicks_interval":[', b",", b'],"conversions":')
_CONVERSIONS = (b',"conversions_interval":[', b",")
# events that the log has none of are NaN, which is written as null, and there is no interval
_NO_CLICKS = (b',"clicks_interval":null,"conversions":',)
_END_OF_INTERVAL, _NO_CONVERSIONS = b"]", b',"conversions_interval":null'
_FIRST, _FURTHER = b',"forecasts":[{"bid":', b'{"bid":'
_NEXT, _LAST = b"},", b"}]},"


class AnswerWriter:
    """Writes answers: how each begins, then its forecasts.

    Without clicks or conversions, they and their intervals are null. The remark is what is said of
    a forecast of which more is to be said than of its answer.

    >>> writer = AnswerWriter(has_clicks=False, has_conversions=False)
    >>> figures = np.array([[0.5, 2, 50, 40, 60, 0.1, 0.08, 0.12, *[np.nan] * 6]])
    >>> written = writer.written([b'{"supply":100.0'], [1], [2.5], figures)
    >>> orjson.loads(written)["forecasts"][0]["impressions_interval"]
    [40.0, 60.0]
    """

    def __init__(self, *, has_clicks: bool, has_conversions: bool, remark: str = "") -> None:
        names = [*_NAMES, *(_CLICKS if has_clicks else _NO_CLICKS)]
        names += _CONVERSIONS if has_conversions else ()
        end = _END_OF_INTERVAL if has_conversions else _NO_CONVERSIONS
        clicks, conversions = (9, 10) if has_clicks else (), (12, 13) if has_conversions else ()
        self._columns = [*range(9), *clicks, 11, *conversions]
        self._has_all = has_clicks and has_conversions
        self._width = len(names)
        self._remark = b',"remark":' + orjson.dumps(remark)
        # how a forecast begins, its bid, names and numbers by turns, how it ends
        between = chain.from_iterable((name, b"") for name in names)
        self._pattern = [_FURTHER, b"", *between, end, _NEXT]
        named = b"".join(b"%b" + name for name in names)
        self._one = b"%b" + _FIRST + named + b"%b" + end + b"%b}]}"

    def written_one(
        self, opening: bytes, bid: float, figures: list[float], remarked: bool = False
    ) -> bytes:
        """Return the JSON of an answer with one forecast, like :meth:`written` but faster."""
        told = figures if self._has_all else [figures[i] for i in self._columns]
        remark = self._remark if remarked else b""
        return self._one % (opening, *_numbers([bid, *told]), remark)

    def written(
        self,
        openings: Sequence[bytes],
        numbers: list[int],
        bids: list[float],
        figures: NDArray[np.float64],
        remarked: Sequence[int] = (),
    ) -> bytes:
        """Return the JSON of answers, with commas between them.

        Parameters
        ----------
        openings : sequence of bytes
            How each answer begins, without its forecasts.
        numbers : list of int
            How many forecasts each has; at least one.
        bids : list of Q float
        figures : (Q, 14) array
            See :data:`~coterie.ads.forecasts.forecast_figures.FIELDS`.
        remarked : sequence of int
            The places of forecasts that the remark is added to.
        """
        pattern = self._pattern
        stride = len(pattern)
        pieces = pattern * len(bids)
        if len(openings) == len(bids):
            pieces[::stride] = [opening + _FIRST for opening in openings]
            pieces[stride - 1 :: stride] = [_LAST] * len(bids)
        else:
            at = 0
            for opening, number in zip(openings, numbers, strict=True):
                pieces[at] = opening + _FIRST
                at += number * stride
                pieces[at - 1] = _LAST
        pieces[1::stride] = _numbers(bids)
        wanted = figures if self._has_all else figures[:, self._columns]
        told = _numbers(wanted.ravel())
        for column in range(self._width):
            pieces[3 + 2 * column :: stride] = told[column :: self._width]
        for place in remarked:
            end = (place + 1) * stride - 1
            pieces[end] = self._remark + pieces[end]
        pieces[-1] = pieces[-1][:-1]
        return b"".join(pieces)


def inside_text(text: str) -> bytes:
    r"""Return a text as it stands between the quotation marks of JSON.

    >>> print(inside_text('say "no"').decode())
    say \"no\"
    """
    return orjson.dumps(text)[1:-1]


def _numbers(values: Any) -> list[bytes]:
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
