"""L2Consensus."""

import numpy as np
from sklearn.cluster import KMeans

import coterie as ct


def test_it_is_kmeans_on_the_leading_eigenvectors():
    """Labels equal those of k-means on H√D computed from the dense co-association matrix."""
    P, _ = ct.planted_partitions([60, 40, 20], 10, 2, 0.3, random_state=0)
    values, vectors = np.linalg.eigh(ct.coassociation(P))
    embedding = vectors[:, -3:] * np.sqrt(values[-3:])
    dense = KMeans(3, n_init=20, random_state=0).fit_predict(embedding)
    assert ct.clustering_accuracy(dense, ct.L2Consensus(3, random_state=0).fit(P).labels_) == 1
