"""Coordinates that runs cluster: columns selected, shifted and scaled; or distances embedded.

Distances are embedded by classical scaling with landmarks. L landmarks have the squared distances
S (L, L). With J = I − 1/L, the largest q positive eigenvalues λ and eigenvectors U of −½ J S J
embed a point with squared distances s (L,) to the landmarks as

    z = −½ Λ^−½ Uᵀ (s − mean of the rows of S).

If the distances are Euclidean, of at most q columns, the distances in z are the given ones.
Distances that are not Euclidean have negative eigenvalues, which have no coordinates. If these are
large, the roots of the distances are embedded instead: those of the Manhattan, cosine, Jaccard and
Hamming distances are Euclidean (Gower and Legendre 1986).

V. de Silva and J. B. Tenenbaum, "Sparse multidimensional scaling using landmark points", 2004.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from sklearn.utils.sparsefuncs import mean_variance_axis

from coterie.arrays import AnyArray, Bools, Floats
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import short_repr

_log = logging.getLogger(__name__)

#: A block has at most this many rows and cells, so that what is computed from it stays small.
_MOST_ROWS = 1 << 14
_MOST_CELLS = 1 << 22
_FEWEST_ROWS = 256
#: Ratio of the standard deviations of two columns from which units are taken to differ.
_DIFFERENT_UNITS = 3.0
#: Largest ratio that needs no note if columns are not scaled.
_MOST_UNEQUAL = 30.0
#: With more rows of distances, landmarks are drawn: the eigenvectors take time O(L²q).
MOST_LANDMARKS = 2_000
_MOST_AXES = 50
#: Eigenvalues below this share of the largest one are rounding errors.
_SMALLEST = 1e-9
#: Distances with a negative eigenvalue of more than this share of the largest are not Euclidean.
#: Rounded ones have less; Manhattan, cosine and Chebyshev distances of most tables have more.
_MOST_NEGATIVE = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaling:
    """The transform ``Z = (X[:, features] - shift) / scale`` of (n, p) features."""

    features: AnyArray | None = None  # (q,) increasing; None selects all columns
    shift: AnyArray | None = None  # (q,), None for 0
    scale: AnyArray | None = None  # (q,), None for 1; infinity maps a constant column to 0

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

    def restricted_to(self, features: AnyArray) -> Scaling:
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
    kind, column = np.finfo(X.dtype), int(np.argmax(farthest))
    largest = float(farthest[column])
    if not largest <= largest_coordinate(X):
        problem = "squared distances overflow"
    elif 0 < largest < np.sqrt(float(kind.tiny) / float(kind.eps)):
        problem = "squared distances underflow to 0"
    else:
        return Scaling(shift=shift)
    raise InvalidParameterError(
        f"the largest distance to a column mean of X is {largest:.3g} (column {column}), where "
        f"{problem} in {X.dtype}; rescale the columns of X"
    )


def standard_and_min_max(X: Any) -> tuple[Scaling, Scaling]:
    """Return the standardisation and the min–max scaling of ``X``.

    Constant columns become 0 in both. A sparse ``X`` is not shifted, so that it stays sparse: its
    columns are divided by their standard deviation, and by their largest absolute value.
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


def units_differ(X: Any) -> bool:
    """Return whether a column of X varies more than three times as much as another one."""
    if sp.issparse(X):
        return False
    spread = _deviations(X)
    spread = spread[spread > 0]
    return bool(len(spread) and spread.max() > _DIFFERENT_UNITS * spread.min())


def unequal_spread(X: Any, names: Sequence[str] | None = None) -> str:
    """Say which column varies far more than another, as columns of different units do.

    Constant columns do not count. The text is empty if all columns vary alike, or if X is sparse.
    """
    if sp.issparse(X):
        return ""
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


def notes_on_units(X: Any, names: Any = None, view: str = "") -> list[str]:
    """Return and log a note if a column of X varies far more than another, as unscaled units do."""
    note = unequal_spread(X, names)
    if not note:
        return []
    note = f"{view}{note}; set standardize=True if their units differ"
    _log.info("%s", note)
    return [note]


def largest_coordinate(Z: Any) -> float:
    """Return the largest |z| for which the sum of (z − c)² over all entries of ``Z`` is finite."""
    return float(np.sqrt(float(np.finfo(Z.dtype).max) / (4.0 * Z.shape[0] * Z.shape[1])))


def row_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Return consecutive blocks of rows, each small enough to compute with."""
    size = min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_CELLS // max(n_columns, 1)))
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def _column_range(X: Any) -> tuple[AnyArray, AnyArray]:
    lowest, highest = X.min(axis=0), X.max(axis=0)
    if sp.issparse(X):
        return lowest.toarray().ravel(), highest.toarray().ravel()
    return lowest, highest


def _deviations(X: Any) -> Floats:
    """Return the standard deviations of columns in double precision, without a copy of ``X``."""
    with np.errstate(over="ignore", invalid="ignore"):  # a fit refuses such values
        mean, squares = X.mean(axis=0, dtype=np.float64), np.zeros(X.shape[1])
        for rows in row_blocks(*X.shape):
            squares += np.square(X[rows] - mean).sum(axis=0)
        return np.sqrt(squares / X.shape[0])


@dataclass(frozen=True, eq=False)
class DistanceEmbedding:
    """The fitted embedding of distances to n rows, with L landmarks and q axes."""

    landmarks: AnyArray  # (L,) rows, increasing
    means: Floats  # (L,) means of the rows of S
    axes: Floats  # (L, q): −½ U Λ^−½
    is_rooted: bool = False  # whether the roots of the distances are embedded

    __repr__ = short_repr

    @classmethod
    def fit(cls, D: Floats, rng: np.random.RandomState, allowed: Bools | None = None) -> Self:
        """Embed the rows of distances D (n, n), with landmarks among the ``allowed`` rows."""
        rows = np.arange(len(D)) if allowed is None else np.flatnonzero(allowed)
        if len(rows) > MOST_LANDMARKS:
            rows = np.sort(rng.choice(rows, MOST_LANDMARKS, replace=False))
        S = D[np.ix_(rows, rows)]
        means, axes, is_euclidean = _scale(S**2)
        if not is_euclidean:
            means, axes, _ = _scale(S)
        return cls(rows, means, axes, not is_euclidean)

    def transform(self, D: Floats) -> Floats:
        """Return coordinates (m, q) of points with distances (m, n) to the fitted rows."""
        S = D[:, self.landmarks]
        coordinates: Floats = ((S if self.is_rooted else S**2) - self.means) @ self.axes
        return coordinates


def _scale(S: Floats) -> tuple[Floats, Floats, bool]:
    """Return means and axes for squared distances (L, L), and whether they are Euclidean."""
    means, L = S.mean(axis=1), len(S)
    B = -0.5 * (S - means - means[:, None] + means.mean())
    (least,) = eigh(B, eigvals_only=True, subset_by_index=(0, 0))
    values, vectors = eigh(B, subset_by_index=(max(L - _MOST_AXES, 0), L - 1))
    kept = np.flatnonzero(values > max(_SMALLEST * values[-1], 0.0))[::-1]
    axes = -0.5 * vectors[:, kept] / np.sqrt(values[kept])
    if not len(kept):  # equal rows are all at one place
        axes = np.zeros((L, 1))
    return means, axes, bool(-least <= _MOST_NEGATIVE * values[-1] or values[-1] <= 0)


def check_distances(D: Floats, *, square: bool = True) -> None:
    """Refuse negative distances and, if ``square``, matrices that are not symmetric."""
    if square and (D.ndim != 2 or D.shape[0] != D.shape[1]):
        message = (
            f"metric='precomputed' needs the distances of all pairs of rows, (n, n), but X has "
            f"shape {D.shape}"
        )
        if 1 in (D.ndim, *D.shape):
            message += "; scipy.spatial.distance.squareform(X) makes the matrix of those of pdist"
        raise InvalidParameterError(message)
    if (D < 0).any():
        row, column = np.argwhere(D < 0)[0]
        raise InvalidParameterError(
            f"Negative values in data: {D[row, column]:g} at row {row}, column {column}; "
            "similarities become distances by, for example, 1 − S"
        )
    if not square:
        return
    scale = float(D.max(initial=0.0))
    if np.abs(D.diagonal()).max(initial=0.0) > 1e-6 * scale:
        row = int(np.argmax(D.diagonal()))
        raise InvalidParameterError(
            f"row {row} has the distance {D[row, row]:g} to itself; are these similarities?"
        )
    gap = np.abs(D - D.T)
    if gap.max(initial=0.0) > 1e-6 * scale:
        row, column = np.unravel_index(np.argmax(gap), gap.shape)
        raise InvalidParameterError(
            f"the distances are not symmetric: {D[row, column]:g} at row {row}, column {column}, "
            f"but {D[column, row]:g} the other way; use (D + D.T) / 2"
        )
