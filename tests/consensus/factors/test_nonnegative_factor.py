"""NMFConsensus and the steps of its factorisation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coterie as ct
from coterie.consensus.factors import nonnegative_factor as steps
from coterie.consensus.factors.nonnegative_factor import NMFConsensus
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import as_label_tuples


def random_labels(seed: int, missing: float = 0.0) -> np.ndarray:
    """Thirty rows of four labels 0..2 at random, repeated rows among them."""
    rng = np.random.default_rng(seed)
    P = rng.integers(0, 3, (30, 4))[rng.integers(0, 30, 30)]
    P[rng.random(P.shape) < missing] = -1
    P[0] = 0
    return P[(P >= 0).any(axis=1)]


def textbook(M: np.ndarray, H: np.ndarray, sweeps: int) -> tuple[np.ndarray, np.ndarray]:
    """The two updates as they are printed, over points, with D in both."""
    D = np.diag(np.diag(H.T @ M @ H))
    for _ in range(sweeps):
        H = H * np.sqrt((M @ H @ D) / (H @ H.T @ M @ H @ D + 1e-12))
        D = D * np.sqrt((H.T @ M @ H) / (H.T @ H @ D @ H.T @ H + 1e-12))
    return H, D


def coassociation_of_points(P: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """M over points, 0 for those that no partition with a weight labels."""
    M = ct.coassociation(P, weights)
    M[~((P >= 0) & (weights > 0)).any(axis=1)] = 0
    return M


@pytest.fixture(scope="module")
def planted():
    """Eight noisy partitions of 150 points, and the truth."""
    return ct.planted_partitions([80, 40, 30], 8, 0, 0.2, random_state=0)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000), missing=st.sampled_from([0.0, 0.3]), sweeps=st.integers(1, 12))
def test_updates_over_tuples_are_those_over_points(seed, missing, sweeps):
    """Sweeps on the compressed, implicit matrix equal the printed ones on all points."""
    P, rng = random_labels(seed, missing), np.random.default_rng(seed)
    weights = rng.choice([0.0, 1.0, 2.5], 4)
    weights[0] += 1
    tuples = as_label_tuples(P)
    start = 0.1 + rng.random((tuples.n_tuples, 3))
    start /= np.linalg.norm(tuples.expand(start), axis=0)
    root = np.sqrt(tuples.weights)[:, None]
    product, norm = steps._coassociation_product(tuples, weights[tuples.partition_order])
    found = steps.nonnegative_factor(product, norm, root * start, sweeps, 0.0)

    M = coassociation_of_points(P, weights)
    H, D = textbook(M, tuples.expand(start), sweeps)
    assert tuples.expand(found.H / root) == pytest.approx(H, abs=1e-10)
    assert found.d == pytest.approx(np.diag(D), abs=1e-8)
    assert found.loss == pytest.approx(((M - H @ D @ H.T) ** 2).sum(), abs=1e-8)
    assert found.loss == pytest.approx(steps.factor_loss(product, norm, found.H, found.d))
    assert len(found.history) == sweeps and not found.converged


def test_noise_free_partitions_are_factored_exactly():
    """H becomes the normalised indicator, D the cluster sizes, and the loss vanishes."""
    sizes = np.array([5, 15, 30])
    tuples = as_label_tuples(np.repeat([[0, 2, 1], [1, 0, 0], [2, 1, 2]], sizes, axis=0))
    product, norm = steps._coassociation_product(tuples, np.ones(3))
    rng = np.random.RandomState(0)
    starts = steps.factor_starts(tuples, np.ones(3), 3, "kmeans", 5, rng)
    found = steps.best_factor(product, norm, starts, 2_000, 1e-12)
    assert found.converged and found.loss < 1e-6 * norm
    assert found.H.T @ found.H == pytest.approx(np.eye(3), abs=1e-4)
    assert sorted(found.d) == pytest.approx(sizes, rel=1e-3)


def test_one_column_is_the_leading_eigenvector(planted):
    """With K = 1 the loss is what the largest eigenvalue leaves: ‖M‖² − λ²."""
    M = ct.coassociation(planted[0])
    est = NMFConsensus(1, tol=1e-12, random_state=0).fit(planted[0])
    assert est.loss_ == pytest.approx((M**2).sum() - np.linalg.eigvalsh(M)[-1] ** 2)
    assert est.n_clusters_ == 1


@pytest.mark.parametrize("init", ["kmeans", "random"])
def test_loss_falls_between_the_truth_and_the_eigenvalue_bound(planted, init):
    """The end is no worse than the planted indicator, and no rank-K factor beats K eigenpairs."""
    P, y = planted
    M = ct.coassociation(P)
    indicator = np.eye(3)[y] / np.sqrt(np.bincount(y))
    of_truth = (M**2).sum() - (np.diag(indicator.T @ M @ indicator) ** 2).sum()
    bound = (np.linalg.eigvalsh(M)[:-3] ** 2).sum()
    est = NMFConsensus(3, init=init, random_state=0).fit(P)
    assert bound <= est.loss_ <= of_truth
    assert ct.clustering_accuracy(y, est.labels_) == 1
    assert est.history_["loss"][-1] == est.loss_ < est.history_["loss"][0]
    assert len(est.history_["loss"]) == est.n_iter_


def test_best_of_several_starts_is_kept():
    """best_factor returns the least loss that any of its starts leads to."""
    tuples = as_label_tuples(random_labels(3))
    product, norm = steps._coassociation_product(tuples, np.ones(4))
    starts = steps.factor_starts(tuples, np.ones(4), 3, "random", 6, np.random.RandomState(0))
    losses = [steps.nonnegative_factor(product, norm, H, 50, 0.0).loss for H in starts]
    assert steps.best_factor(product, norm, starts, 50, 0.0).loss == min(losses) < max(losses)


@pytest.mark.parametrize("init", ["kmeans", "random"])
def test_starts_are_positive_of_unit_length_and_different(planted, init):
    """Every start has positive entries and unit columns; duplicates are removed."""
    tuples = as_label_tuples(planted[0])
    starts = steps.factor_starts(tuples, np.ones(8), 4, init, 7, np.random.RandomState(0))
    assert 1 <= len(starts) <= 7 and len({H.tobytes() for H in starts}) == len(starts)
    for H in starts:
        assert H.min() > 0 and np.linalg.norm(H, axis=0) == pytest.approx(np.ones(4))


def test_a_faded_row_joins_by_votes():
    """A tuple whose row of H is all zero goes where most partitions put it."""
    tuples = as_label_tuples([[0, 0, 0]] * 3 + [[1, 1, 1]] * 3 + [[0, 0, 2]])
    single = int(tuples.inverse[-1])
    H = np.zeros((3, 4))
    H[tuples.inverse[0], 3] = H[tuples.inverse[3], 1] = 1.0
    labels = steps.factor_labels(H, tuples, np.ones(3))
    assert labels[single] == labels[tuples.inverse[0]] != labels[tuples.inverse[3]]
    assert sorted(set(labels.tolist())) == [0, 1]


def test_points_without_neighbours_are_labelled():
    """Rows that become zero after many sweeps still get one of the K clusters."""
    P = np.vstack([np.repeat([[0, 0], [1, 1]], 20, axis=0), [[2, 2], [3, 3]]])
    tuples = as_label_tuples(P)
    product, norm = steps._coassociation_product(tuples, np.ones(2))
    (start,) = steps.factor_starts(tuples, np.ones(2), 2, "kmeans", 1, np.random.RandomState(0))
    H = steps.nonnegative_factor(product, norm, start, 3_000, -1.0).H
    assert (H.max(axis=1) == 0).sum() == 2
    labels = tuples.expand(steps.factor_labels(H, tuples, np.ones(2)))
    assert set(labels) == {0, 1} and len(set(labels[:20])) == len(set(labels[20:40])) == 1
    assert NMFConsensus(2, random_state=0).fit(P).n_clusters_ == 2


@pytest.mark.parametrize(
    ("parameter", "value"), [("init", "ones"), ("n_init", 0), ("max_iter", 2.5), ("tol", -1.0)]
)
def test_bad_parameters_are_named(planted, parameter, value):
    """The message names the parameter and its value."""
    with pytest.raises(InvalidParameterError, match=f"{parameter}={value!r}"):
        NMFConsensus(3).set_params(**{parameter: value}).fit(planted[0])
