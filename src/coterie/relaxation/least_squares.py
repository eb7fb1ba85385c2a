"""The ℓ2 twin of the robust relaxation, from contingency tables alone.

    min ‖M − H D Hᵀ‖²_F   s.t.  HᵀH = I_K,  D ≥ 0 diagonal

is solved by the K largest eigenpairs of M. With α the partition weights and Z the (n, m) cluster
indicator, M = Z A Zᵀ where A repeats α_v over the clusters of v, so the eigenpairs of the n × n
matrix M are those of the m × m matrix A^½ C A^½, C = Zᵀ Z the contingency tables of all pairs
of partitions: if (λ, x) is one, so is (λ, Z A^½ x / √λ). No matrix over points is made.

Where labels are missing, row i of Z is scaled by 1/p_i, p_i the weight of the partitions that
label i. That is M itself when nothing is missing, and M up to chance when labels are
missing at random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.contingency import all_contingencies
from coterie.label_tuples import LabelTuples
from coterie.relaxation.eigenpairs import dense_eigenpairs, lanczos_eigenpairs

__all__ = ["least_squares_factor", "least_squares_spectrum"]

_DENSE_UP_TO = 1500


def least_squares_factor(
    tuples: LabelTuples,
    partition_weights: NDArray[np.float64],
    n_clusters: int,
    contingencies: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Rows of H√D of the ℓ2 relaxation for every tuple.

    Parameters
    ----------
    tuples : u distinct label tuples
    partition_weights : (V,)
    n_clusters : int
        K, the rank. Where the tuples have a lower rank, the last columns are zero.
    contingencies : (m, m), optional
        C of :func:`~coterie.contingency.all_contingencies`, if the caller has it already.

    Returns
    -------
    F : (u, K)
        F Fᵀ is the best approximation of M of rank K; columns by falling eigenvalue.

    Examples
    --------
    >>> from coterie.label_tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 1], [0, 1], [1, 0]])
    >>> F = least_squares_factor(tuples, np.ones(2), 2)
    >>> np.round(F @ F.T, 6)
    array([[1., 0.],
           [0., 1.]])
    """
    vectors, values = least_squares_spectrum(tuples, partition_weights, n_clusters, contingencies)
    root, row_scale = (
        _column_roots(tuples, partition_weights),
        _row_scale(tuples, partition_weights),
    )
    # Z A^½ x / √λ, times √λ for the D^½: the √λ cancel
    padded = np.vstack([root[:, None] * vectors, np.zeros(vectors.shape[1])])
    factor = np.zeros((tuples.n_tuples, n_clusters))
    used = values > values[0] * 1e-12
    for v in range(tuples.n_partitions):
        if partition_weights[v] > 0:
            factor[:, : len(values)] += padded[tuples.codes[:, v]]
    factor[:, : len(values)] *= used
    return factor * row_scale[:, None]


def least_squares_spectrum(
    tuples: LabelTuples,
    partition_weights: NDArray[np.float64],
    k: int,
    contingencies: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Top eigenvectors (m, k') and eigenvalues (k',) of A^½ C A^½: the eigenvalues are M's.

    k' = min(k, m).
    """
    row_scale = _row_scale(tuples, partition_weights)
    if contingencies is None or tuples.has_missing:
        contingencies = all_contingencies(tuples, tuples.weights * row_scale**2)
    root = _column_roots(tuples, partition_weights)
    C = root[:, None] * contingencies * root
    m = len(C)
    k = min(k, m)
    if m <= _DENSE_UP_TO or 4 * k > m:
        return dense_eigenpairs(C, k)
    return lanczos_eigenpairs(lambda x: C @ x, m, k, C.sum(axis=1))


def _column_roots(tuples: LabelTuples, partition_weights: NDArray[np.float64]) -> NDArray[Any]:
    """√α_v for every cluster of v, α summing to one: shape (m,)."""
    return np.repeat(np.sqrt(partition_weights / partition_weights.sum()), tuples.n_labels)


def _row_scale(tuples: LabelTuples, partition_weights: NDArray[np.float64]) -> NDArray[Any]:
    """1/p_a with p_a the share of the weight that labels tuple a; 1 where nothing is missing."""
    if not tuples.has_missing:
        return np.ones(tuples.n_tuples)
    alpha = partition_weights / partition_weights.sum()
    present = (tuples.codes >= 0) @ alpha
    return np.divide(1.0, present, out=np.zeros_like(present), where=present > 0)
