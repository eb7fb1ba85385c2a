"""NMFConsensus, WeightedConsensus and KLConsensus, compared with dense formulas over points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import coterie as ct
from coterie.consensus import factors, kernels
from coterie.consensus.factors import (
    fit_divergence,
    nonnegative_factor,
    onto_simplex,
    pull_and_loss,
    simplex_quadratic,
)
from coterie.counts.coassociation import tuple_coassociation
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices

PENALTIES = (0.5, 2.0, 30.0, np.inf)


@pytest.fixture(scope="module")
def planted():
    """Eight noisy partitions of 150 points, and the truth."""
    return ct.planted_partitions([80, 40, 30], 8, 0, 0.2, random_state=0)


def random_labels(seed, missing=0.0):
    """Thirty rows of four labels 0..2 at random, repeated rows among them."""
    rng = np.random.default_rng(seed)
    P = rng.integers(0, 3, (30, 4))[rng.integers(0, 30, 30)]
    P[rng.random(P.shape) < missing] = -1
    P[0] = 0
    return P[(P >= 0).any(axis=1)]


def textbook(M, H, sweeps):
    """The two updates as they are printed, over points, with D in both."""
    D = np.diag(np.diag(H.T @ M @ H))
    for _ in range(sweeps):
        H = H * np.sqrt((M @ H @ D) / (H @ H.T @ M @ H @ D + 1e-12))
        D = D * np.sqrt((H.T @ M @ H) / (H.T @ H @ D @ H.T @ H + 1e-12))
    return H, D


def coassociation_of_points(P, weights):
    """M over points, 0 for those that no partition with a weight labels."""
    M = ct.coassociation(P, weights)
    M[~((P >= 0) & (weights > 0)).any(axis=1)] = 0
    return M


@settings(max_examples=20)
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
    product, norm = factors.coassociation_product(tuples, weights[tuples.partition_order])
    found = nonnegative_factor(product, norm, root * start, sweeps, 0.0)

    M = coassociation_of_points(P, weights)
    H, D = textbook(M, tuples.expand(start), sweeps)
    assert tuples.expand(found.H / root) == pytest.approx(H, abs=1e-10)
    assert found.d == pytest.approx(np.diag(D), abs=1e-8)
    assert found.loss == pytest.approx(((M - H @ D @ H.T) ** 2).sum(), abs=1e-8)
    assert found.loss == pytest.approx(factors.factor_loss(product, norm, found.H, found.d))
    assert len(found.history) == sweeps and not found.converged


def test_noise_free_partitions_are_factored_exactly():
    """H becomes the normalised indicator, D the cluster sizes, and the loss vanishes."""
    sizes = np.array([5, 15, 30])
    tuples = as_label_tuples(np.repeat([[0, 2, 1], [1, 0, 0], [2, 1, 2]], sizes, axis=0))
    product, norm = factors.coassociation_product(tuples, np.ones(3))
    starts = ct.NMFConsensus(random_state=0)._factor_starts(tuples, np.ones(3), 3)
    assert all(H.min() > 0 for H in starts)  # a zero would stay zero in every update
    found = factors.best_factor(product, norm, starts, 2_000, 1e-12)
    assert found.converged and found.loss < 1e-6 * norm
    assert found.H.T @ found.H == pytest.approx(np.eye(3), abs=1e-4)
    assert sorted(found.d) == pytest.approx(sizes, rel=1e-3)


def test_one_column_is_the_leading_eigenvector(planted):
    """With K = 1 the loss is what the largest eigenvalue leaves: ‖M‖² − λ²."""
    M = ct.coassociation(planted[0])
    est = ct.NMFConsensus(1, tol=1e-12, random_state=0).fit(planted[0])
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
    est = ct.NMFConsensus(3, init=init, random_state=0).fit(P)
    assert bound <= est.loss_ <= of_truth
    assert ct.clustering_accuracy(y, est.labels_) == 1
    assert est.history_["loss"][-1] == est.loss_ < est.history_["loss"][0]
    assert len(est.history_["loss"]) == est.n_iter_


def test_points_without_neighbours_are_labelled():
    """Rows that become zero after many sweeps still get one of the K clusters."""
    P = np.vstack([np.repeat([[0, 0], [1, 1]], 20, axis=0), [[2, 2], [3, 3]]])
    tuples = as_label_tuples(P)
    product, norm = factors.coassociation_product(tuples, np.ones(2))
    one = ct.NMFConsensus(n_init=1, random_state=0)
    (start,) = one._factor_starts(tuples, np.ones(2), 2)
    H = nonnegative_factor(product, norm, start, 3_000, -1.0).H
    assert (H.max(axis=1) == 0).sum() == 2
    labels = tuples.expand(factors.factor_labels(H, tuples, np.ones(2)))
    assert set(labels) == {0, 1} and len(set(labels[:20])) == len(set(labels[20:40])) == 1
    assert ct.NMFConsensus(2, random_state=0).fit(P).n_clusters_ == 2


def connectivity(P):
    """M_v of every partition, (V, n, n), 0 for pairs of which v leaves one out."""
    columns = P.T
    together = columns[:, :, None] == columns[:, None, :]
    return (together & (columns[:, :, None] >= 0)).astype(float)


@settings(max_examples=25)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8))
def test_projection_is_the_nearest_point_of_the_simplex(values):
    """The way back to x makes an obtuse angle with the way to every corner."""
    x = np.array(values)
    p = onto_simplex(x)
    assert p.min() >= 0 and p.sum() == pytest.approx(1)
    assert ((np.eye(len(x)) - p) @ (x - p)).max() <= 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_quadratic_equals_a_general_solver(seed):
    """The minimum on the simplex is the one SciPy's constrained solver finds."""
    rng = np.random.default_rng(seed)
    root = rng.random((6, 5))
    A, b, start = root.T @ root, rng.random(5), np.full(5, 0.2)

    def value(w):
        return w @ A @ w - 2 * b @ w

    w = simplex_quadratic(A, b, start)
    total = {"type": "eq", "fun": lambda w: w.sum() - 1}
    oracle = minimize(value, start, bounds=[(0, 1)] * 5, constraints=total, tol=1e-12)
    assert w.min() >= 0 and w.sum() == pytest.approx(1)
    assert value(w) == pytest.approx(oracle.fun, abs=1e-7)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    missing=st.sampled_from([0.0, 0.3]),
    ridge=st.sampled_from([0.0, 0.3]),
)
def test_weights_and_loss_follow_the_dense_formulas(seed, missing, ridge):
    """The loss is that of explicit matrices over points, and no other weights lower it."""
    P = random_labels(seed, missing)
    tuples, rng = as_label_tuples(P), np.random.default_rng(seed)
    root = np.sqrt(tuples.weights)[:, None]
    start = root * (0.1 + rng.random((tuples.n_tuples, 2)))
    factor, w, losses = factors.weighted_factor(
        tuples, rng.dirichlet(np.ones(4)), [start], ridge, 3, 50, 0.0
    )
    M = connectivity(P)[tuples.partition_order]
    H = tuples.expand(factor.H / root)
    R, A = H * factor.d @ H.T, np.einsum("aij,bij->ab", M, M)
    scaled = ridge * A.diagonal().mean()
    average = np.einsum("v,vij->ij", w, M)
    assert losses[-1] == pytest.approx(((average - R) ** 2).sum() + scaled * w @ w)
    assert np.diff(losses).max() <= 1e-9 * losses[0] and len(losses) % 2 == 0
    assert w.min() >= 0 and w.sum() == pytest.approx(1)
    # no corner of the simplex is a descent direction
    slope = A @ w + scaled * w - np.einsum("aij,ij->a", M, R)
    assert slope @ w <= slope.min() + 1e-6 * A.max()


def test_poor_partitions_lose_weight():
    """Partitions drawn at random weigh less, on average, than those of the planted truth."""
    rng = np.random.default_rng(0)
    P, y = ct.planted_partitions([80, 40, 30], 8, 0, 0.1, random_state=0)
    noise = rng.integers(0, 3, (150, 3))
    est = ct.WeightedConsensus(3, random_state=0).fit(np.hstack([P, noise]))
    assert est.partition_weights_[8:].max() < est.partition_weights_[:8].mean()
    assert ct.clustering_accuracy(y, est.labels_) == 1


def test_many_rounds_run_into_the_degenerate_optimum():
    """With many rounds nearly all weight is on copies of one partition, fitted without error."""
    y = np.repeat([0, 1, 2], 20)
    other = np.where(np.arange(60) % 10 == 0, (y + 1) % 3, y)
    P = np.column_stack([y, 2 - y, y, other])
    est = ct.WeightedConsensus(3, max_outer=20, random_state=0).fit(P)
    assert est.partition_weights_[:3] == pytest.approx(np.full(3, 1 / 3), abs=0.01)
    assert est.loss_ < 0.01 * est.history_["loss"][0]
    even = ct.WeightedConsensus(3, ridge=1e6, random_state=0).fit(P)
    assert even.partition_weights_ == pytest.approx(np.full(4, 0.25), abs=1e-3)


def random_factor(u, K, points, seed=0):
    """W with Σ_a ω_a W_ak = 1, and d."""
    rng = np.random.default_rng(seed)
    profile = rng.random((u, K)) + 0.01
    return profile / (points @ profile), rng.random(K) * points.sum() ** 2


def corrected(votes, S, penalty):
    """The textbook error step for one partition: A = clip(M_v, S e^−λ, S e^λ)."""
    return np.clip(votes, S * np.exp(-penalty), S * np.exp(penalty))


def textbook_loss(P, S, penalty):
    """Mean over partitions of KL(A_v ‖ S) + λ‖M_v − A_v‖₁, partition by partition."""
    total = 0.0
    for column in P.T:
        votes = (column[:, None] == column).astype(float)
        A = corrected(votes, S, penalty)
        logs = np.where(A > 0, A * np.log(np.where(A > 0, A, 1.0) / S), 0.0)
        errors = 0.0 if np.isinf(penalty) else penalty * np.abs(votes - A).sum()
        total += (logs - A + S).sum() + errors
    return total / P.shape[1]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_sweep_equals_the_textbook_over_points_and_partitions(planted, penalty):
    """Pull and loss over tuples are those of explicit n × n error matrices, one a partition."""
    P = planted[0]
    tuples = as_label_tuples(P)
    profile, mass = random_factor(tuples.n_tuples, 3, tuples.weights)
    M = tuple_coassociation(tuples, np.ones(8)).dense()
    pull, loss = pull_and_loss(M, tuples.weights, profile, mass, penalty)
    W = tuples.expand(profile)
    S = (W * mass) @ W.T + factors._FLOOR
    mean = np.mean([corrected(c[:, None] == c, S, penalty) for c in P.T], axis=0)
    np.testing.assert_allclose(tuples.expand(pull), (mean / S) @ W, rtol=1e-10)
    assert loss == pytest.approx(textbook_loss(P, S, penalty), rel=1e-10)


@settings(max_examples=20)
@given(label_matrices(), st.sampled_from(PENALTIES), st.integers(1, 4), st.integers(0, 100))
def test_loss_never_rises_and_is_never_negative(P, penalty, K, seed):
    """Every sweep lowers the loss, from any start and for any penalty."""
    tuples = as_label_tuples(P)
    M = tuple_coassociation(tuples, np.ones(P.shape[1])).dense()
    start = random_factor(len(M), K, tuples.weights, seed)
    first = pull_and_loss(M, tuples.weights, *start, penalty)[1]
    fit = fit_divergence(M, tuples.weights, *start, penalty, 40, 0.0)
    losses = np.array([first, *fit.history])
    assert (np.diff(losses) <= 1e-9 * losses[0]).all() and losses[-1] >= -1e-9 * losses[0]


def test_one_component_is_the_product_of_the_margins(planted):
    """K = 1 without errors has the closed form S_ij ∝ (Σ_j M_ij)(Σ_i M_ij): independence."""
    M = ct.coassociation(planted[0])
    points = np.ones(len(M))
    start = random_factor(len(M), 1, points)
    fit = fit_divergence(M, points, *start, np.inf, 50, 0.0)
    np.testing.assert_allclose(fit.H[:, 0], M.sum(axis=1) / M.sum(), rtol=1e-5)
    assert fit.d[0] == pytest.approx(M.sum(), rel=1e-6)


def test_more_points_than_a_thread_takes_alone():
    """Several threads give the sums of one thread."""
    P, _ = ct.planted_partitions([500, 500], 12, 0, 0.6, random_state=0)
    tuples = as_label_tuples(P)
    M = tuple_coassociation(tuples, np.ones(12)).dense()
    assert len(M) > 2 * factors._LEAST_ROWS_PER_THREAD
    args = (M, tuples.weights, *random_factor(len(M), 2, tuples.weights), 2.0)
    pull, gains = np.empty((len(M), 2)), np.empty(len(M))
    kernels.visit_rows(*args, factors._FLOOR, 0, len(M), pull, gains)
    pull += np.exp(-2.0) * (args[1] @ args[2])
    np.testing.assert_array_equal(pull_and_loss(*args)[0], pull)


@pytest.mark.parametrize("method", [ct.NMFConsensus, ct.KLConsensus])
def test_the_best_start_is_reported(planted, method):
    """The planted partition is found, and the history has the loss of every sweep."""
    P, y = planted
    est = method(3, random_state=0).fit(P)
    assert ct.clustering_accuracy(y, est.labels_) == 1
    assert est.history_["loss"][-1] == est.loss_ and len(est.history_["loss"]) == est.n_iter_
    assert est.loss_ <= method(3, n_init=1, random_state=0).fit(P).loss_
