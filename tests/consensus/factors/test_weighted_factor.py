"""WeightedConsensus and its quadratic problem on the simplex."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import coterie as ct
from coterie.consensus.factors.nonnegative_factor import NonnegativeFactor
from coterie.consensus.factors.weighted_factor import (
    WeightedConsensus,
    _Problem,
    onto_simplex,
    simplex_quadratic,
)
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import as_label_tuples


def connectivity(P: np.ndarray) -> np.ndarray:
    """M_v of every partition, (V, n, n), 0 for pairs of which v leaves one out."""
    columns = P.T
    together = columns[:, :, None] == columns[:, None, :]
    return (together & (columns[:, :, None] >= 0)).astype(float)


@pytest.fixture(scope="module")
def planted():
    """Eight noisy partitions of 150 points, and the truth."""
    return ct.planted_partitions([80, 40, 30], 8, 0, 0.2, random_state=0)


@settings(deadline=None, max_examples=25)
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


def test_quadratic_treats_copies_alike():
    """Where A is singular because of copies, each copy gets the same weight."""
    A = np.array([[4.0, 4, 1], [4, 4, 1], [1, 1, 3]])
    w = simplex_quadratic(A, np.array([3.0, 3, 2]), np.full(3, 1 / 3))
    assert w[0] == pytest.approx(w[1]) and w[0] > 0


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000), missing=st.sampled_from([0.0, 0.3]))
def test_loss_and_its_parts_equal_the_dense_formulas(seed, missing):
    """A, b, the product and the loss are those of explicit matrices over points."""
    rng = np.random.default_rng(seed)
    P = rng.integers(0, 3, (25, 4))[rng.integers(0, 25, 25)]
    P[rng.random(P.shape) < missing] = -1
    P[0] = 0
    P = P[(P >= 0).any(axis=1)]
    tuples = as_label_tuples(P)
    H, d, w = rng.random((tuples.n_tuples, 2)), rng.random(2), rng.dirichlet(np.ones(4))
    scaled = np.sqrt(tuples.weights)[:, None] * H
    problem = _Problem.of(tuples, ridge=0.3)
    factor = NonnegativeFactor(scaled, d, [0.0], True)

    M = connectivity(P)[tuples.partition_order]
    R = tuples.expand(H) * d @ tuples.expand(H).T
    A = np.einsum("aij,bij->ab", M, M)
    ridge = 0.3 * A.diagonal().mean()
    assert problem.inner == pytest.approx(A)
    assert problem.products(factor) == pytest.approx(np.einsum("aij,ij->a", M, R))
    average = np.einsum("v,vij->ij", w, M)
    assert problem.loss(factor, w) == pytest.approx(((average - R) ** 2).sum() + ridge * w @ w)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_loss_never_rises_over_half_rounds(ridge):
    """Neither half of a round makes the loss larger, with and without a ridge."""
    P, _ = ct.planted_partitions([80, 40, 30], 10, 3, 0.3, random_state=2)
    est = WeightedConsensus(3, max_outer=8, ridge=ridge, random_state=0).fit(P)
    loss = np.array(est.history_["loss"])
    assert len(loss) == 2 * est.n_iter_ and loss[-1] == est.loss_ < loss[0]
    assert np.diff(loss).max() <= 1e-9 * loss[0]


def test_weights_are_optimal_for_the_factor():
    """After the half round for w no corner of the simplex is a descent direction."""
    P, _ = ct.planted_partitions([30, 20, 10], 6, 1, 0.2, random_state=0)
    rng = np.random.default_rng(0)
    tuples = as_label_tuples(P)
    factor = NonnegativeFactor(rng.random((tuples.n_tuples, 3)), rng.random(3), [0.0], True)
    problem = _Problem.of(tuples, ridge=0.0)
    w = problem.better_weights(factor, np.full(6, 1 / 6))
    slope = problem.inner @ w - problem.products(factor)
    assert w.min() >= 0 and w.sum() == pytest.approx(1)
    assert slope @ w <= slope.min() + 1e-6 * problem.inner.max()


def test_poor_partitions_lose_weight():
    """Partitions drawn at random weigh less, on average, than those of the planted truth."""
    rng = np.random.default_rng(0)
    P, y = ct.planted_partitions([80, 40, 30], 8, 0, 0.1, random_state=0)
    noise = rng.integers(0, 3, (150, 3))
    est = WeightedConsensus(3, random_state=0).fit(np.hstack([P, noise]))
    assert est.partition_weights_[8:].max() < est.partition_weights_[:8].mean()
    assert ct.clustering_accuracy(y, est.labels_) == 1


def test_many_rounds_run_into_the_degenerate_optimum():
    """With many rounds nearly all weight is on copies of one partition, fitted without error."""
    y = np.repeat([0, 1, 2], 20)
    other = np.where(np.arange(60) % 10 == 0, (y + 1) % 3, y)
    P = np.column_stack([y, 2 - y, y, other])
    est = WeightedConsensus(3, max_outer=20, random_state=0).fit(P)
    assert est.partition_weights_[:3] == pytest.approx(np.full(3, 1 / 3), abs=0.01)
    assert est.loss_ < 0.01 * est.history_["loss"][0]
    even = WeightedConsensus(3, ridge=1e6, random_state=0).fit(P)
    assert even.partition_weights_ == pytest.approx(np.full(4, 0.25), abs=1e-3)


def test_leaving_points_out_costs_weight():
    """Of equal partitions the one that labels half the points has the least weight."""
    y = np.repeat([0, 1], 20)
    half = np.where(np.arange(40) % 2 == 0, y, -1)
    w = WeightedConsensus(2, random_state=0).fit(np.column_stack([y, y, half])).partition_weights_
    assert w[2] < w[0] and w[0] == pytest.approx(w[1])


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("max_outer", 0), ("max_outer", 1.5), ("ridge", -0.1), ("ridge", "much"), ("init", "ones")],
)
def test_bad_parameters_are_named(planted, parameter, value):
    """The message names the parameter and its value."""
    with pytest.raises(InvalidParameterError, match=f"{parameter}={value!r}"):
        WeightedConsensus(3).set_params(**{parameter: value}).fit(planted[0])
