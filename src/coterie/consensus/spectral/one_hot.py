"""OneHotKMeans: what a user of scikit-learn would try first, on compressed tuples."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.labels.tuples import LabelTuples
from coterie.runtime.ignored_warnings import ignore_duplicate_points_warning

__all__ = ["OneHotKMeans"]


class OneHotKMeans(ConsensusFunction):
    """k-means on the one-hot encoded labels: min Σ_i ‖z_i − c_{label(i)}‖².

    z_i (m,) has a one for each cluster that point i lies in, 0 for a missing label. Run on the
    distinct tuples with their multiplicities as sample weights, which is the same objective.

    Parameters
    ----------
    n_clusters : int
    n_init : int, default=10
        Starts by k-means++.
    partition_weights : array of shape (V,) or None, default=None
        Squared distances in partition v count w_v times.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.
    inertia_ : float
        The minimised sum of squares.

    Notes
    -----
    **Established.** Textbook: k-means of indicator vectors, whose objective is the quadratic mutual
    information of the article below. Starts by k-means++ and their number are our choice.

    **Limits.** Linear in tuples, partitions and clusters. A missing label is half as far from any
    label as two labels are from each other. Partitions that are wrong together pull the centres
    to their side.

    **When to use.** As a reference: it is what comes to mind first, and it is quick.

    References
    ----------
    A. Topchy, A. K. Jain and W. Punch. Clustering ensembles: models of consensus and weak
    partitions. IEEE Transactions on Pattern Analysis and Machine Intelligence 27, 2005.

    Examples
    --------
    >>> from coterie import OneHotKMeans
    >>> OneHotKMeans(2, random_state=0).fit([[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]).labels_
    array([0, 0, 0, 1, 1], dtype=int32)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_init: int = 10,
        partition_weights: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.partition_weights = partition_weights
        self.random_state = random_state

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        model = KMeans(K, n_init=self.n_init, random_state=check_random_state(self.random_state))
        with ignore_duplicate_points_warning():
            model.fit(_indicator(tuples, weights), sample_weight=tuples.weights)
        self.inertia_ = float(model.inertia_)
        return Labelling(model.labels_.astype(np.int64), weights)


def _indicator(tuples: LabelTuples, weights: Any) -> csr_array:
    """Z (u, m) with √w_v in place of the ones of partition v."""
    Z = tuples.indicator(np.sqrt(weights))
    # scikit-learn's k-means takes no wider ones
    Z.indices, Z.indptr = Z.indices.astype(np.int32), Z.indptr.astype(np.int32)
    return Z
