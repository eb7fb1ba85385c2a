"""OneHotKMeans: k-means on the one-hot encoded labels."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from coterie.consensus.base import ConsensusFunction, Labelling
from coterie.labels.tuples import LabelTuples
from coterie.runtime.messages import ignore_duplicate_points_warning

__all__ = ["OneHotKMeans"]


@dataclass(eq=False, repr=False)
class OneHotKMeans(ConsensusFunction):
    """k-means on the one-hot encoded labels: min Σ_i ‖z_i − c_{label(i)}‖².

    z_i (m,) has a one for each base cluster that contains point i. k-means runs on the distinct
    tuples, weighted by their number of points, which has the same objective.

    Parameters
    ----------
    n_clusters : int or None, default=None
        None: the number that :func:`~coterie.choose_k` recommends.
    n_init : int, default=10
        Number of k-means++ starts.
    partition_weights : array of shape (V,) or None, default=None
        Squared distances in partition v are multiplied by w_v.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show the stages of ``fit`` on the standard error stream.

    Attributes
    ----------
    labels_, n_clusters_, confidence_, objective_, n_tuples_, partition_weights_
        As in :class:`~coterie.RobustConsensus`.
    inertia_ : float
        The minimised sum of squares.

    Notes
    -----
    **Established.** Textbook: k-means on indicator vectors, whose objective is the quadratic mutual
    information of the article below. The k-means++ starts are our choice.

    **Limits.** A missing label has half the squared distance to a label that two different labels
    have. Partitions that share an error move the centres. Time is linear in tuples, partitions and
    clusters.

    **When to use.** As a fast and simple reference.

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

    n_clusters: int | None = None
    _: KW_ONLY
    n_init: int = 10
    partition_weights: Any = None
    random_state: Any = None

    def _label_tuples(self, tuples: LabelTuples) -> Labelling:
        K, weights = self._check_settings(tuples)
        model = KMeans(K, n_init=self.n_init, random_state=check_random_state(self.random_state))
        Z = tuples.indicator(np.sqrt(weights))
        # scikit-learn's k-means needs 32-bit indices
        Z.indices, Z.indptr = Z.indices.astype(np.int32), Z.indptr.astype(np.int32)
        with ignore_duplicate_points_warning():
            model.fit(Z, sample_weight=tuples.weights)
        self.inertia_ = float(model.inertia_)
        return Labelling(model.labels_.astype(np.int64), weights)
