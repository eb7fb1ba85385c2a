"""PropagatedConsensus: similar base clusters count as partly the same."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coterie.consensus.kernels as kernels
from coterie.consensus.base import ConsensusFunction, Labelling, voting_tuples
from coterie.consensus.linkage.evidence_accumulation import cut_into, weighted_linkage
from coterie.consensus.parameters import check_size
from coterie.counts.contingency import all_contingencies, jaccard_similarity
from coterie.ensembles.input_checks import check_whole
from coterie.labels.tuples import LabelTuples
from coterie.runtime.devices import map_row_blocks

__all__ = ["PropagatedConsensus", "propagated_labels", "propagated_similarity"]

Array = NDArray[np.float64]

_NEGLIGIBLE = 1e-12


@dataclass(eq=False, repr=False)
class PropagatedConsensus(ConsensusFunction):
    """Average linkage on votes that also count similar base clusters (ECPCS).

    Two points that are in different clusters of a partition may still be close: if other
    partitions overlap with both clusters. Let E (m, m) be the Jaccard similarity of all base
    clusters, with zeros on the diagonal, and P = diag(E 1)^−1 E the random walk on them. The
    similarity Z_cd of two clusters is the cosine of their walks (P_c, P²_c, …, P^T_c) and
    (P_d, P²_d, …, P^T_d). The similarity of two points is

        S_ij = (1/V) Σ_v Z[c_v(i), c_v(j)],   Z_cc = 1,   shape (n, n),

    and the clusters are those of average linkage on 1 − S.

    Parameters
    ----------
    n_clusters : int or None, default=8
        Number of clusters, K. None: the number that :func:`~coterie.choose_k` recommends.
    n_steps : int, default=20
        T, the length of the walks.
    max_tuples : int, default=10_000
        Limit on the number of distinct tuples, because memory grows with its square.
    partition_weights : array of shape (V,) or None, default=None
        The mean over the partitions is weighted; for Z all partitions of positive weight count
        equally.
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.

    Notes
    -----
    **Established.** Similarity, walks and linkage are those of the article. Our choices: the walks
    of all lengths are summed in closed form from the eigenvectors of the walk; similarities count
    only points that both partitions label; partition weights.

    **Limits.** Time and memory grow with the square of the number of distinct tuples and with the
    cube of the number m of base clusters. Clusters of very different sizes are found, classes of
    equal size often not: one cluster may take several of them.

    **When to use.** Clusters of unequal sizes, and partitions with more than K clusters.

    References
    ----------
    D. Huang, C.-D. Wang, H. Peng, J. Lai and C.-K. Kwoh, "Enhanced ensemble clustering via fast
    propagation of cluster-wise similarities", IEEE Transactions on Systems, Man, and Cybernetics:
    Systems 51(1), 2021.

    Examples
    --------
    >>> from coterie import PropagatedConsensus
    >>> P = [[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]
    >>> PropagatedConsensus(2).fit(P).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    n_clusters: int | None = 8
    _: KW_ONLY
    n_steps: int = 20
    max_tuples: int = 10_000
    partition_weights: Any = None

    _reason_against_soft = "the Jaccard similarity needs base clusters that are sets"

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        check_whole("n_steps", self.n_steps)
        check_size(tuples.n_tuples, self.max_tuples, "max_tuples", type(self).__name__)
        voting, place = voting_tuples(tuples, weights)
        jaccard = jaccard_similarity(all_contingencies(voting), voting.offsets)
        labels = propagated_labels(voting, weights[weights > 0], K, jaccard, self.n_steps)
        return Labelling(np.append(labels, 0)[place], weights)


def propagated_labels(
    tuples: LabelTuples,
    partition_weights: Array,
    n_clusters: int,
    jaccard: Array,
    n_steps: int = 20,
) -> NDArray[np.int64]:
    """Return labels (u,) by average linkage on 1 − S.

    ``jaccard`` (m, m) is the Jaccard similarity of the base clusters; the weights (V,) are
    positive.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> tuples = as_label_tuples([[0, 0], [0, 1], [1, 2]])
    >>> jaccard = jaccard_similarity(all_contingencies(tuples), tuples.offsets)
    >>> propagated_labels(tuples, np.ones(2), 2, jaccard).tolist()
    [0, 0, 1]
    """
    S = _point_similarity(tuples, partition_weights, propagated_similarity(jaccard, n_steps))
    return cut_into(weighted_linkage(np.subtract(1.0, S, out=S), tuples.weights), n_clusters)


def propagated_similarity(jaccard: Array, n_steps: int = 20) -> Array:
    """Compute the cosines Z (m, m) of the random walks from all base clusters.

    With N = D^−½ E D^−½ = U Λ Uᵀ and D = diag(E 1), the walk is P^t = D^−½ N^t D^½. So the inner
    products of the walks are

        Σ_t P^t (P^t)ᵀ = D^−½ U [ (Uᵀ D U) ∘ Γ ] Uᵀ D^−½,   Γ_ij = Σ_{t=1..T} (λ_i λ_j)^t,

    which needs one eigendecomposition instead of T matrix products.

    >>> E = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0.0]])  # a path: both ends see the same
    >>> propagated_similarity(E).round(6) + 0.0
    array([[1., 0., 1.],
           [0., 1., 0.],
           [1., 0., 1.]])
    """
    E = jaccard.copy()
    np.fill_diagonal(E, 0.0)
    degree = E.sum(axis=1)
    root = np.sqrt(degree)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    # divide and conquer: the default of SciPy fails for some matrices with many equal eigenvalues
    values, U = np.linalg.eigh(inverse[:, None] * E * inverse)
    products = np.clip(np.outer(values, values), -1.0, 1.0)
    gamma, power = products.copy(), products.copy()
    for _ in range(n_steps - 1):
        power *= products
        gamma += power
    left = inverse[:, None] * U
    walks = left @ ((U.T @ (degree[:, None] * U)) * gamma) @ left.T
    length = np.sqrt(np.maximum(walks.diagonal(), 0.0))
    scale = np.outer(length, length)
    Z = np.divide(walks, scale, out=np.zeros_like(walks), where=scale > _NEGLIGIBLE)
    np.clip(Z, 0.0, 1.0, out=Z)
    np.fill_diagonal(Z, 1.0)
    return Z


def _point_similarity(tuples: LabelTuples, weights: Array, Z: Array) -> Array:
    """Return S over tuples, (u, u); pairs that no partition labels get 0."""
    alpha = weights / weights.sum()
    S = np.zeros((tuples.n_tuples, tuples.n_tuples))
    codes = np.ascontiguousarray(tuples.codes.T)
    map_row_blocks(lambda a, b: kernels.add_similar(codes, alpha, Z, a, b, S), tuples.n_tuples)
    if not tuples.has_missing:
        return S
    both = (tuples.mass * alpha) @ tuples.mass.T
    return np.divide(S, both, out=S, where=both > 0)
