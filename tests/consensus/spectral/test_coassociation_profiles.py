"""KMeansConsensus."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

import coterie as ct
from all_partitions import all_partitions
from coterie.consensus.spectral import coassociation_profiles as profiles
from coterie.consensus.spectral.coassociation_profiles import KMeansConsensus, profile_coordinates
from coterie.labels.tuples import as_label_tuples


def random_labels(seed: int, n: int = 30, V: int = 4, missing: float = 0.0) -> np.ndarray:
    """Labels 0..2 at random, repeated rows among them, no row or column wholly missing."""
    rng = np.random.default_rng(seed)
    P = rng.integers(0, 3, (n, V))[rng.integers(0, n, n)]
    P[rng.random(P.shape) < missing] = -1
    P[0] = 0
    return P[(P >= 0).any(axis=1)]


def sum_of_squares(rows: np.ndarray, labels: np.ndarray) -> float:
    """Squared distances to the cluster means, from the definition."""
    clusters = [rows[labels == k] for k in np.unique(labels)]
    return float(sum(((own - own.mean(axis=0)) ** 2).sum() for own in clusters))


@pytest.fixture(scope="module")
def planted():
    """Eight noisy partitions of 150 points, and the truth."""
    return ct.planted_partitions([80, 40, 30], 8, 0, 0.2, random_state=0)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), missing=st.sampled_from([0.0, 0.3]), dense=st.booleans())
def test_coordinates_have_the_distances_of_the_rows(seed, missing, dense):
    """Distances between tuples are those between their points' rows of the dense matrix."""
    P = random_labels(seed, missing=missing)
    weights = np.random.default_rng(seed).choice([0.0, 1.0, 2.5], 4)
    weights[0] += 1
    tuples = as_label_tuples(P)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profiles, "_DENSE_UP_TO", 10_000 if dense else 0)
        E = profile_coordinates(tuples, weights[tuples.partition_order])[tuples.inverse]
    labelled = ((P >= 0) & (weights > 0)).any(axis=1)
    M = ct.coassociation(P, weights)[labelled]
    assert cdist(E[labelled], E[labelled], "sqeuclidean") == pytest.approx(
        cdist(M, M, "sqeuclidean"), abs=1e-9
    )
    assert not E[~labelled].any()


def test_it_is_kmeans_on_the_rows_of_the_matrix(planted):
    """Loss and labels equal those of scikit-learn's k-means on the dense rows."""
    P, _ = planted
    M = ct.coassociation(P)
    est = KMeansConsensus(3, random_state=0).fit(P)
    full = KMeans(3, n_init=20, random_state=0).fit(M)
    assert est.loss_ == pytest.approx(sum_of_squares(M, est.labels_))
    assert est.loss_ == pytest.approx(full.inertia_)
    assert ct.clustering_accuracy(full.labels_, est.labels_) == 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_least_over_all_partitions_of_few_points(seed, missing):
    """On eight points no partition into at most three clusters has a smaller loss."""
    P = random_labels(seed, n=8, missing=missing)
    M = ct.coassociation(P)
    K = min(3, len(np.unique(P, axis=0)))
    least = min(sum_of_squares(M, z) for z in all_partitions(len(P), K))
    assert KMeansConsensus(K, random_state=0).fit(P).loss_ == pytest.approx(least, abs=1e-9)
