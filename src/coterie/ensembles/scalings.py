"""Transforms of features: select columns, then shift and scale them, by blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

from coterie.errors import InvalidParameterError
from coterie.runtime.wording import short_repr

__all__ = [
    "Scaling",
    "centring",
    "largest_coordinate",
    "row_blocks",
    "standard_and_min_max",
    "unequal_spread",
]

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.int32]

#: A block has at most this many rows and cells, so that what is computed from it stays small.
_MOST_ROWS = 1 << 14
_MOST_CELLS = 1 << 22
_FEWEST_ROWS = 256
#: Largest ratio of the standard deviations of two columns that needs no note.
_MOST_UNEQUAL = 30.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaling:
    """The transform ``Z = (X[:, features] - shift) / scale`` of (n, p) features.

    >>> import numpy as np
    >>> Scaling(features=np.array([1]), shift=np.array([2.0])).transform(np.array([[0.0, 5.0]]))
    array([[3.]])
    """

    features: npt.NDArray[np.intp] | None = None  # (q,) increasing; None selects all columns
    shift: Floats | None = None  # (q,), None for 0
    scale: Floats | None = None  # (q,), None for 1; infinity maps a constant column to 0

    __repr__ = short_repr

    def transform(self, X: Any) -> Any:
        """Return Z for the rows of ``X``. A sparse ``X`` stays sparse unless it is shifted."""
        Z = X
        if self.features is not None:
            Z = X[:, self.features] if sp.issparse(X) else np.take(X, self.features, axis=1)
        if sp.issparse(Z) and self.shift is None:
            if self.scale is None:
                return Z
            parts = (Z.data / self.scale[Z.indices], Z.indices, Z.indptr)
            return type(Z)(parts, shape=Z.shape)
        if sp.issparse(Z):
            Z = Z.toarray()
        if self.shift is not None:
            Z = Z - self.shift
        return Z if self.scale is None else Z / self.scale

    def restricted_to(self, features: npt.NDArray[np.intp]) -> Scaling:
        """Return the same transform of some columns only."""
        return Scaling(
            features=features,
            shift=None if self.shift is None else self.shift[features],
            scale=None if self.scale is None else self.scale[features],
        )


def centring(X: Any) -> Scaling:
    """Return the transform that subtracts column means; a sparse ``X`` is not shifted.

    scikit-learn computes squared distances as |z|² − 2 z·c + |c|². For a large and nearly constant
    column, such as a time stamp, the subtraction would cancel all digits without the shift.

    >>> import numpy as np
    >>> centring(np.array([[1.0, 7.0], [3.0, 7.0]])).shift
    array([2., 7.])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lowest, highest = _column_range(X)
        if sp.issparse(X):
            shift = None
            farthest = np.maximum(highest, -lowest)
        else:
            # Without the clip, rounding could move the mean of a constant column out of its range.
            shift = np.clip(X.mean(axis=0, dtype=np.float64), lowest, highest).astype(X.dtype)
            farthest = np.maximum(highest - shift, shift - lowest)
    _refuse_bad_range(X, farthest)
    return Scaling(shift=shift)


def standard_and_min_max(X: Any) -> tuple[Scaling, Scaling]:
    """Return the standardisation and the min–max scaling of ``X``.

    Constant columns become 0 in both. A sparse ``X`` is not shifted, so that it stays sparse: its
    columns are divided by their standard deviation, and by their largest absolute value.

    >>> import numpy as np
    >>> standard, min_max = standard_and_min_max(np.array([[1.0, 7.0], [3.0, 7.0]]))
    >>> min_max.transform(np.array([[3.0, 7.0]]))
    array([[1., 0.]])
    """
    mean = centring(X).shift
    lowest, highest = _column_range(X)
    largest = np.maximum(abs(lowest), abs(highest))
    if sp.issparse(X):
        deviation, spread = np.sqrt(mean_variance_axis(X, axis=0)[1]), largest
    else:
        deviation, spread = _deviations(X), highest - lowest
    # A column counts as constant if its values differ only by rounding, or if they are so small
    # that the variance underflows to 0.
    constant = (highest - lowest <= 4 * np.finfo(X.dtype).eps * largest) | (deviation == 0)
    deviation, spread = (
        np.where(constant, np.inf, scale).astype(X.dtype) for scale in (deviation, spread)
    )
    minimum = None if sp.issparse(X) else lowest
    return Scaling(shift=mean, scale=deviation), Scaling(shift=minimum, scale=spread)


def unequal_spread(X: Any, names: Sequence[str] | None = None) -> str:
    """Say which column varies far more than another, as columns of different units do.

    Constant columns do not count. The text is empty if all columns vary alike, or if X is sparse.

    >>> import numpy as np
    >>> unequal_spread(np.array([[20.0, 0.0], [30.0, 9000.0]]), ["age", "income"])
    "column 'income' varies 900 times as much as 'age' and will decide"
    """
    if sp.issparse(X):
        return ""
    with np.errstate(over="ignore", invalid="ignore"):  # a fit refuses such values
        spread = _deviations(X)
    if not spread.any() or not np.isfinite(spread).all():
        return ""
    most, least = int(spread.argmax()), int(np.where(spread > 0, spread, np.inf).argmin())
    times = spread[most] / spread[least]
    if times <= _MOST_UNEQUAL:
        return ""
    one, other = str(most), f"column {least}"
    if names is not None:
        one, other = repr(names[most]), repr(names[least])
    return f"column {one} varies {times:,.0f} times as much as {other} and will decide"


def largest_coordinate(Z: Any) -> float:
    """Return the largest |z| for which the sum of (z − c)² over all entries of ``Z`` is finite."""
    return float(np.sqrt(float(np.finfo(Z.dtype).max) / (4.0 * Z.shape[0] * Z.shape[1])))


def row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Return consecutive blocks of rows, each small enough to compute with.

    >>> row_blocks(20_000, 10)
    [slice(0, 16384, None), slice(16384, 20000, None)]
    """
    size = min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_CELLS // max(n_columns, 1)))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def _column_range(X: Any) -> tuple[Floats, Floats]:
    lowest, highest = X.min(axis=0), X.max(axis=0)
    if sp.issparse(X):
        return lowest.toarray().ravel(), highest.toarray().ravel()
    return lowest, highest


def _deviations(X: Any) -> Floats:
    """Return the standard deviations of columns in double precision, without a copy of ``X``."""
    mean, squares = X.mean(axis=0, dtype=np.float64), np.zeros(X.shape[1])
    for rows in row_blocks(*X.shape):
        squares += np.square(X[rows] - mean).sum(axis=0)
    return np.sqrt(squares / X.shape[0])


def _refuse_bad_range(X: Any, farthest: Floats) -> None:
    """Raise an error if squared distances overflow in a column or underflow in all columns.

    ``farthest`` (p,) is the largest distance to the mean in each column.
    """
    kind = np.finfo(X.dtype)
    column = int(np.argmax(farthest))
    largest = float(farthest[column])
    if not largest <= largest_coordinate(X):
        problem = "squared distances overflow"
    elif 0 < largest < np.sqrt(float(kind.tiny) / float(kind.eps)):
        problem = "squared distances underflow to 0"
    else:
        return
    raise InvalidParameterError(
        f"the largest distance to a column mean of X is {largest:.3g} (column {column}), where "
        f"{problem} in {X.dtype}; rescale the columns of X"
    )
