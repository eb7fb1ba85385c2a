"""KMeansConsensus: k-means on the rows of the co-association matrix M, without storing M."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.consensus.parameters import check_size
from coterie.counts.coassociation import tuple_coassociation
from coterie.counts.contingency import all_contingencies
from coterie.labels.tuples import LabelTuples
from coterie.relaxation.eigenpairs import dense_eigenpairs
from coterie.relaxation.rounding import round_by_kmeans

__all__ = ["KMeansConsensus", "profile_coordinates", "profile_labels"]

Array = NDArray[np.float64]

_NEGLIGIBLE = 1e-12  # eigenvalues below this share of the largest are rounding errors
_DENSE_UP_TO = 2_000


@dataclass(eq=False, repr=False)
class KMeansConsensus(ConsensusFunction):
    """k-means on co-association profiles: min Σ_i ‖M_i − c_{label(i)}‖² (KC).

    M (n, n) is the share of partitions that put two points together. Its row M_i (n,) is the
    profile of point i. Points with similar profiles belong together. k-means finds the centres
    c_k (n,) and the labels. It works in at most min(u, m) coordinates with the same distances
    (u distinct label tuples, m clusters of all partitions), so no n × n matrix is needed.

    Parameters
    ----------
    n_clusters : int or None, default=None
        None: the number that :func:`~coterie.choose_k` recommends.
    max_tuples : int, default=5000
        Limit on u if labels are missing, because then a (u, u) matrix is needed.
    partition_weights : array of shape (V,) or None, default=None
        M is the weighted share of partitions.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.
    loss_ : float
        The minimised sum, over points with a label in a partition of positive weight.

    Notes
    -----
    **Established.** The source paper describes KC as k-means on the rows of M, without details.
    The best of ten k-means++ starts is our choice. The coordinates are exact, see
    :func:`profile_coordinates`.

    **Limits.** A profile has an entry for every point, so large clusters influence it more than
    small ones. Time is O(u·V·m + m³), then O(u·m·K) per step of k-means; memory is O(u·m). Above
    20,000 tuples k-means runs on a sample. With missing labels the cost is O(u²·V).

    **When to use.** As a baseline that is easy to explain. Its results were close to those of
    :class:`~coterie.L2Consensus` on every ensemble we measured. For small clusters, or partitions
    that share errors, use :class:`~coterie.RobustConsensus`.

    References
    ----------
    D. Kong, M. Lu, K. Shmakov, J. Yang: Robust Consensus Clustering and its Applications for
    Advertising Forecasting, arXiv:2301.00717, 2023 (one of the methods compared there).

    Examples
    --------
    >>> from coterie import KMeansConsensus
    >>> KMeansConsensus(2, random_state=0).fit([[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    n_clusters: int | None = None
    _: KW_ONLY
    max_tuples: int = 5_000
    partition_weights: Any = None
    random_state: Any = None

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        voting, group = tuples.restricted_to(weights > 0)
        # only missing labels need a (u, u) matrix
        quadratic = voting.n_tuples if voting.has_missing else 0
        check_size(quadratic, self.max_tuples, "max_tuples", "KMeansConsensus with missing labels")
        rng = check_random_state(self.random_state)
        labels, self.loss_ = profile_labels(voting, weights[weights > 0], K, rng)
        return Labelling(labels[group], weights)


def profile_labels(
    tuples: LabelTuples, partition_weights: Array, n_clusters: int, random_state: Any = None
) -> tuple[NDArray[np.int64], float]:
    """Return labels (u,) of the tuples by k-means on the rows of M, and their sum of squares.

    The weights (V,), all positive, are in the order of the tuples' columns.

    >>> from coterie.labels.tuples import as_label_tuples
    >>> profile_labels(as_label_tuples([[0, 0], [1, 1]]), np.ones(2), 2, 0)[1]
    0.0
    """
    rows = profile_coordinates(tuples, partition_weights)
    labelled = rows.any(axis=1)
    rows, counts = rows[labelled], tuples.weights[labelled]
    found = round_by_kmeans(rows, counts, min(n_clusters, len(rows)), random_state)
    labels = np.zeros(tuples.n_tuples, dtype=np.int64)
    labels[labelled] = found
    return labels, _sum_of_squares(rows, counts, found)


def profile_coordinates(tuples: LabelTuples, partition_weights: Array) -> Array:
    """Return coordinates of the tuples that have the distances between the rows of M.

    The squared distance of two rows is Σ_j w_j (M_aj − M_bj)², with the multiplicities w of the
    tuples. Let Y = Z A^½ (u, m) be the indicator, scaled by the partition weights. Then M = Y Yᵀ,
    and the squared distance is (y_a − y_b)ᵀ G (y_a − y_b) with G = Yᵀ diag(w) Y = Q Λ Qᵀ (m, m).
    So the rows of Y Q Λ^½ have these distances. If labels are missing, or if there are few tuples,
    the coordinates are M diag(w)^½.

    Parameters
    ----------
    tuples : u distinct label tuples
    partition_weights : (V,)
        In the order of the tuples' columns.

    Returns
    -------
    E : (u, r), r = u or r ≤ m
        Zero in the rows of tuples without a weighted label.

    Examples
    --------
    >>> from coterie.labels.tuples import as_label_tuples
    >>> E = profile_coordinates(as_label_tuples([[0, 0], [0, 0], [1, 1]]), np.ones(2))
    >>> float(round(((E[0] - E[1]) ** 2).sum(), 9))  # rows (1, 1, 0) and (0, 0, 1)
    3.0
    """
    few = tuples.n_tuples <= min(tuples.n_columns, _DENSE_UP_TO)
    if few or not tuples.is_complete(partition_weights):
        return labelled_coassociation(tuples, partition_weights) * np.sqrt(tuples.weights)
    alpha = partition_weights / partition_weights.sum()
    root = np.sqrt(np.repeat(alpha, tuples.n_labels))
    gram = root[:, None] * all_contingencies(tuples) * root
    vectors, values = dense_eigenpairs(gram, len(gram))
    kept = values > values[0] * _NEGLIGIBLE
    rotated = root[:, None] * vectors[:, kept] * np.sqrt(values[kept])
    if tuples.memberships is not None:
        return np.asarray(tuples.indicator(np.ones(tuples.n_partitions)) @ rotated)
    rows = np.zeros((tuples.n_tuples, int(kept.sum())))
    # a row of the indicator has one entry per partition: add these rows of the product
    for v in np.flatnonzero(alpha):
        rows += rotated[tuples.codes[:, v]]
    return rows


def labelled_coassociation(tuples: LabelTuples, partition_weights: Array) -> Array:
    """Return M over tuples, dense (u, u), with zeros for tuples without a weighted label."""
    M = tuple_coassociation(tuples, partition_weights).dense()
    # the diagonal is 1, but points of such a tuple are together in no partition
    unlabelled = ~tuples.has_weighted_label(partition_weights)
    M[unlabelled, unlabelled] = 0.0
    return M


def _sum_of_squares(rows: Array, weights: Array, labels: NDArray[np.int64]) -> float:
    """Return the weighted sum of squared distances of the rows (u, r) to their cluster means."""
    member = csr_array((weights, (labels, np.arange(len(rows)))))
    centres = (member @ rows) / member.sum(axis=1)[:, None]
    return float(weights @ ((rows - centres[labels]) ** 2).sum(axis=1))
