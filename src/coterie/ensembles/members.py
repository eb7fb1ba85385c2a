"""Members of an ensemble: fitted clusterings that label blocks of rows.

What several members compute from a block is computed only once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from coterie.ensembles.scalings import Labels, Scaling, largest_coordinate, row_blocks
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import short_repr

__all__ = ["Member", "RowBlock", "label_rows"]

#: Number of results that a block remembers. Runs on different columns share none of them.
_MOST_KEPT = 6


class RowBlock:
    """Some rows of the features X, with a memory of what was computed from them.

    >>> block = RowBlock(np.ones((2, 3)))
    >>> total = block.once(lambda X, times: X.sum() * times, 2.0)
    >>> float(total)
    12.0
    """

    def __init__(self, X: Any) -> None:
        self.X = X
        self._kept: list[tuple[Any, tuple[Any, ...], Any]] = []

    def once(self, compute: Callable[..., Any], *parts: Any) -> Any:
        """Return ``compute(X, *parts)``, or the result of an earlier call with equal parts.

        The results that were used last are kept. Parts are compared by value: members that were
        fitted in other processes hold equal copies of what they share.
        """
        for place, (known, arguments, result) in enumerate(self._kept):
            if known is compute and all(map(_equal, arguments, parts)):
                self._kept.append(self._kept.pop(place))
                return result
        result = compute(self.X, *parts)
        self._kept = [*self._kept[1 - _MOST_KEPT :], (compute, parts, result)]
        return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Member(Scaling):
    """A fitted clustering, with the scaling that is applied before it."""

    __repr__ = short_repr

    def predict(self, X: Any) -> Labels:
        """Return labels of the rows of ``X``, from 0 to K_v − 1; −1 is noise."""
        return label_rows([self], X)[:, 0]

    @abstractmethod
    def labels_of(self, block: RowBlock) -> Labels:
        """Return labels of the rows of a block, as :meth:`predict` does."""

    def coordinates(self, block: RowBlock, dtype: Any) -> Any:
        """Return Z of a block in a float type; refuse rows whose squared distances overflow."""
        return block.once(_coordinates, self.features, self.shift, self.scale, np.dtype(dtype))


def label_rows(members: Sequence[Member], X: Any, dtype: Any = np.int32) -> npt.NDArray[Any]:
    """Return the labels (n, V) of rows by V members, computed by blocks of rows.

    What members share, such as landmarks or principal axes, is computed once for each block.
    """
    labels = np.empty((X.shape[0], len(members)), dtype=dtype)
    for rows in row_blocks(*X.shape):
        block = RowBlock(X[rows])
        for column, member in enumerate(members):
            labels[rows, column] = member.labels_of(block)
    return labels


def _coordinates(X: Any, features: Any, shift: Any, scale: Any, dtype: Any) -> Any:
    with np.errstate(over="ignore"):  # such rows are refused below
        Z = Scaling(features=features, shift=shift, scale=scale).transform(
            X.astype(dtype, copy=False)
        )
    _refuse_overflowing_rows(Z)
    return Z


def _refuse_overflowing_rows(Z: Any) -> None:
    """Raise an error if squared distances of a row of ``Z`` to the centres would overflow."""
    values = Z.data if sp.issparse(Z) else Z
    limit = largest_coordinate(Z)
    if values.size == 0 or (-limit <= values.min() and values.max() <= limit):
        return
    first = int(np.argmax(~(abs(values) <= limit)))
    row = np.searchsorted(Z.indptr, first, "right") - 1 if sp.issparse(Z) else first // Z.shape[1]
    raise InvalidParameterError(
        f"row {row} of X has values so large that squared distances overflow in {Z.dtype}; "
        "correct that row, or rescale the columns of X before fitting"
    )


def _equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    # sparse landmarks are compared only by identity
    simple = (int, float, np.dtype)
    return isinstance(one, simple) and isinstance(other, simple) and bool(one == other)
