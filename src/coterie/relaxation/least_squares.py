"""The ℓ2 relaxation, computed from contingency tables.

    min ‖M − H D Hᵀ‖²_F   s.t.  HᵀH = I_K,  D ≥ 0 diagonal

is solved by the K largest eigenpairs of M. Let Z (n, m) be the cluster indicator and A (m, m) the
diagonal matrix of the partition weight α_v of each cluster of v; then M = Z A Zᵀ. An eigenpair
(λ, x) of A^½ C A^½ (m, m), where C = Zᵀ Z has the contingency tables of all pairs of partitions,
gives the eigenpair (λ, Z A^½ x / √λ) of M. No matrix over points is needed.

For soft partitions, Z holds memberships. If labels are missing, row i of Z is divided by p_i, the
weight of the partitions that label i; the result approximates M if labels are missing at random.
"""

from __future__ import annotations

import numpy as np

import coterie.counts.kernels as kernels
from coterie.arrays import Floats
from coterie.counts.contingency import all_contingencies
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.eigenpairs import dense_eigenpairs, lanczos_eigenpairs
from coterie.runtime.devices import map_row_blocks

_DENSE_UP_TO = 1500
_ROWS_PER_THREAD = 4_096


def least_squares_factor(
    tuples: LabelTuples,
    partition_weights: Floats,
    n_clusters: int,
    contingencies: Floats | None = None,
) -> Floats:
    """Return the factor F (u, K) of the ℓ2 relaxation: the rows of H√D, one for each tuple.

    F Fᵀ is the best approximation of M of rank K = ``n_clusters``. The columns are sorted by
    decreasing eigenvalue; if M has a lower rank, the last columns are zero. ``contingencies``
    (m, m) are those of :func:`~coterie.counts.contingency.all_contingencies` if known.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 1], [0, 1], [1, 0]])
    >>> F = least_squares_factor(tuples, np.ones(2), 2)
    >>> np.round(F @ F.T, 6)
    array([[1., 0.],
           [0., 1.]])
    """
    vectors, values = least_squares_spectrum(tuples, partition_weights, n_clusters, contingencies)
    positive = values > values[0] * 1e-12
    # The rows of H√D are Z A^½ x / √λ, times √λ: the roots cancel.
    of_clusters = np.zeros((tuples.n_columns, n_clusters))
    roots = _column_roots(tuples, partition_weights)[:, None]
    of_clusters[:, : len(values)] = roots * vectors * positive
    factor = _sums_over_clusters(tuples, of_clusters)
    if tuples.has_missing:
        factor *= _row_scale(tuples, partition_weights)[:, None]
    return factor


def least_squares_spectrum(
    tuples: LabelTuples,
    partition_weights: Floats,
    k: int,
    contingencies: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Return the top eigenvectors (m, k') and eigenvalues (k',) of A^½ C A^½, k' = min(k, m).

    The eigenvalues are those of M.
    """
    if contingencies is None or tuples.has_missing:
        row_scale = _row_scale(tuples, partition_weights)
        contingencies = all_contingencies(tuples, tuples.weights * row_scale**2)
    root = _column_roots(tuples, partition_weights)
    C = root[:, None] * contingencies * root
    m = len(C)
    k = min(k, m)
    if m <= _DENSE_UP_TO or 4 * k > m:
        return dense_eigenpairs(C, k)
    return lanczos_eigenpairs(lambda x: C @ x, m, k, C.sum(axis=1))


def _column_roots(tuples: LabelTuples, partition_weights: Floats) -> Floats:
    """Return √α_v for every cluster of v, (m,), with weights that sum to one."""
    return np.repeat(np.sqrt(partition_weights / partition_weights.sum()), tuples.n_labels)


def _row_scale(tuples: LabelTuples, partition_weights: Floats) -> Floats:
    """Return 1/p_a, (u,), with p_a the weight of the partitions that label tuple a; 0 for 1/0."""
    if not tuples.has_missing:
        return np.ones(tuples.n_tuples)
    alpha = partition_weights / partition_weights.sum()
    present = _sums_over_clusters(tuples, np.repeat(alpha, tuples.n_labels)[:, None])[:, 0]
    return np.divide(1.0, present, out=np.zeros_like(present), where=present > 0)


def _sums_over_clusters(tuples: LabelTuples, values: Floats) -> Floats:
    """Return Z·values, (u, k): the sum of the values (m, k) of the clusters of each tuple."""
    sums = np.empty((tuples.n_tuples, values.shape[1]))

    def add(start: int, stop: int) -> None:
        kernels.sum_over_clusters(tuples.codes, tuples.memberships, values, start, stop, sums)

    map_row_blocks(add, tuples.n_tuples, at_least=_ROWS_PER_THREAD)
    return sums
