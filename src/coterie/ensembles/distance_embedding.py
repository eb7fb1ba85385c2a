"""Coordinates from distances: classical scaling by landmarks.

L landmarks have the squared distances S (L, L). With J = I − 1/L, the largest q positive
eigenvalues λ and eigenvectors U of −½ J S J embed a point with squared distances s (L,) to the
landmarks as

    z = −½ Λ^−½ Uᵀ (s − mean of the rows of S).

If the distances are Euclidean, of at most q columns, the distances in z are the given ones.
Distances that are not Euclidean have negative eigenvalues, which have no coordinates. If these are
large, the roots of the distances are embedded instead: those of the Manhattan, cosine, Jaccard and
Hamming distances are Euclidean (Gower and Legendre 1986).

V. de Silva and J. B. Tenenbaum, "Sparse multidimensional scaling using landmark points", 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from coterie.errors import InvalidParameterError
from coterie.runtime.wording import short_repr

__all__ = ["DistanceEmbedding", "check_distances"]

Floats = npt.NDArray[np.float64]

#: With more rows, landmarks are drawn: the eigenvectors take time O(L²q).
MOST_LANDMARKS = 2_000
_MOST_AXES = 50
#: Eigenvalues below this share of the largest one are rounding errors.
_SMALLEST = 1e-9
#: Distances with a negative eigenvalue of more than this share of the largest are not Euclidean.
#: Rounded ones have less; Manhattan, cosine and Chebyshev distances of most tables have more.
_MOST_NEGATIVE = 0.01
_CONDENSED = (
    "; if these are the distances of pdist, scipy.spatial.distance.squareform(X) makes the matrix"
)


@dataclass(frozen=True, eq=False)
class DistanceEmbedding:
    """The fitted embedding of distances to n rows, with L landmarks and q axes.

    >>> D = np.array([[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]])
    >>> Z = DistanceEmbedding.fit(D, np.random.RandomState(0)).transform(D)
    >>> np.linalg.norm(Z[0] - Z[2]).round(9)
    np.float64(5.0)
    """

    landmarks: npt.NDArray[np.intp]  # (L,) rows, increasing
    means: Floats  # (L,) means of the rows of S
    axes: Floats  # (L, q): −½ U Λ^−½
    is_rooted: bool = False  # whether the roots of the distances are embedded

    __repr__ = short_repr

    @classmethod
    def fit(
        cls,
        D: Floats,
        rng: np.random.RandomState,
        allowed: npt.NDArray[np.bool_] | None = None,
    ) -> Self:
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
    """Refuse negative distances and, if ``square``, matrices that are not symmetric.

    >>> check_distances(np.array([[0.0, 1.0], [1.0, 0.0]]))
    """
    if square and (D.ndim != 2 or D.shape[0] != D.shape[1]):
        raise InvalidParameterError(
            f"metric='precomputed' needs the distances of all pairs of rows, (n, n), but X has "
            f"shape {D.shape}" + (_CONDENSED if 1 in (D.ndim, *D.shape) else "")
        )
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
