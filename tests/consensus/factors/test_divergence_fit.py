"""KLConsensus."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import coterie as ct
from coterie.consensus import kernels
from coterie.consensus.factors import divergence_fit
from coterie.consensus.factors.divergence_fit import KLConsensus
from coterie.counts.coassociation import tuple_coassociation
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices

PENALTIES = (0.5, 2.0, 30.0, np.inf)


@pytest.fixture(scope="module")
def labels():
    """Eight noisy partitions of 60 points, and the planted one."""
    return ct.planted_partitions([30, 20, 10], 8, 0, 0.2, random_state=0)


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
def test_sweep_equals_the_textbook_over_points_and_partitions(labels, penalty):
    """Pull and loss over tuples are those of explicit n × n error matrices, one a partition."""
    P = labels[0]
    tuples = as_label_tuples(P)
    profile, mass = random_factor(tuples.n_tuples, 3, tuples.weights)
    M = tuple_coassociation(tuples, np.ones(8)).dense()
    pull, loss = divergence_fit._pull_and_loss(M, tuples.weights, profile, mass, penalty)
    W = tuples.expand(profile)
    S = (W * mass) @ W.T + divergence_fit._FLOOR
    mean = np.mean([corrected(c[:, None] == c, S, penalty) for c in P.T], axis=0)
    np.testing.assert_allclose(tuples.expand(pull), (mean / S) @ W, rtol=1e-10)
    assert loss == pytest.approx(textbook_loss(P, S, penalty), rel=1e-10)


@pytest.mark.parametrize("vote", [0.0, 1.0])
@pytest.mark.parametrize("s", [0.01, 0.4, 3.0, 20.0])
def test_closed_form_of_the_errors_is_their_minimum(vote, s):
    """No other entry A has a smaller A log(A/S) − A + S + λ|vote − A|."""

    def price(a):
        return a * np.log(a / s) - a + s + 2.0 * abs(vote - a)

    best = minimize_scalar(price, bounds=(1e-9, 50.0), method="bounded", options={"xatol": 1e-10})
    assert price(corrected(vote, s, 2.0)) <= best.fun + 1e-7


@settings(deadline=None, max_examples=20)
@given(label_matrices(), st.sampled_from(PENALTIES), st.integers(1, 4), st.integers(0, 100))
def test_loss_never_rises_and_is_never_negative(P, penalty, K, seed):
    """Every sweep lowers the loss, from any start and for any penalty."""
    tuples = as_label_tuples(P)
    M = tuple_coassociation(tuples, np.ones(P.shape[1])).dense()
    start = random_factor(len(M), K, tuples.weights, seed)
    first = divergence_fit._pull_and_loss(M, tuples.weights, *start, penalty)[1]
    fit = divergence_fit._fit(M, tuples.weights, *start, penalty, 40, 0.0)
    losses = np.array([first, *fit.losses])
    assert (np.diff(losses) <= 1e-9 * losses[0]).all() and losses[-1] >= -1e-9 * losses[0]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_compression_is_exact(labels, penalty):
    """From the same start, tuples with multiplicities and single points follow the same path."""
    tuples = as_label_tuples(np.vstack([labels[0], labels[0][:25]]))
    profile, mass = random_factor(tuples.n_tuples, 3, tuples.weights)
    fits = []
    for t, W in ((tuples, profile), (tuples.without_compression(), tuples.expand(profile))):
        M = tuple_coassociation(t, np.ones(8)).dense()
        fits.append(divergence_fit._fit(M, t.weights, W, mass, penalty, 30, 0.0))
    np.testing.assert_allclose(fits[0].losses, fits[1].losses, rtol=1e-9)
    np.testing.assert_allclose(tuples.expand(fits[0].profile), fits[1].profile, atol=1e-9)


def test_columns_keep_unit_mass_and_d_the_total(labels):
    """After a sweep Σ_a ω_a W_ak = 1, and at λ = ∞ Σ d is the number of pairs together."""
    tuples = as_label_tuples(labels[0])
    M = tuple_coassociation(tuples, np.ones(8)).dense()
    start = random_factor(len(M), 3, tuples.weights)
    fit = divergence_fit._fit(M, tuples.weights, *start, np.inf, 5, 0.0)
    np.testing.assert_allclose(tuples.weights @ fit.profile, 1.0)
    assert fit.mass.sum() == pytest.approx(tuples.weights @ M @ tuples.weights, rel=1e-6)


def test_one_component_is_the_product_of_the_margins(labels):
    """K = 1 without errors has the closed form S_ij ∝ (Σ_j M_ij)(Σ_i M_ij): independence."""
    M = ct.coassociation(labels[0])
    points = np.ones(len(M))
    start = random_factor(len(M), 1, points)
    fit = divergence_fit._fit(M, points, *start, np.inf, 50, 0.0)
    np.testing.assert_allclose(fit.profile[:, 0], M.sum(axis=1) / M.sum(), rtol=1e-5)
    assert fit.mass[0] == pytest.approx(M.sum(), rel=1e-6)


def test_planted_clusters_are_found_and_reported(labels):
    """The planted partition is found, and the history has the loss of every sweep."""
    P, y = labels
    est = KLConsensus(3, random_state=0).fit(P)
    assert ct.clustering_accuracy(y, est.labels_) == 1
    assert est.history_["loss"][-1] == est.loss_ and len(est.history_["loss"]) == est.n_iter_
    assert est.loss_ <= KLConsensus(3, n_init=1, random_state=0).fit(P).loss_


def test_more_points_than_a_thread_takes_alone():
    """Several threads give the sums of one thread."""
    P, _ = ct.planted_partitions([500, 500], 12, 0, 0.6, random_state=0)
    tuples = as_label_tuples(P)
    M = tuple_coassociation(tuples, np.ones(12)).dense()
    assert len(M) > 2 * divergence_fit._LEAST_ROWS_PER_THREAD
    args = (M, tuples.weights, *random_factor(len(M), 2, tuples.weights), 2.0)
    pull, gains = np.empty((len(M), 2)), np.empty(len(M))
    kernels.visit_rows(*args, divergence_fit._FLOOR, 0, len(M), pull, gains)
    pull += np.exp(-2.0) * (args[1] @ args[2])
    np.testing.assert_array_equal(divergence_fit._pull_and_loss(*args)[0], pull)


def test_as_many_clusters_as_tuples_one_of_them_without_a_vote():
    """A tuple without a weighted label is ignored, also with K = u."""
    P = np.array([[0, 0], [0, 0], [1, 1], [-1, 0]])
    est = KLConsensus(3, partition_weights=[1, 0], random_state=0).fit(P)
    assert est.labels_[0] == est.labels_[1] == est.labels_[3] != est.labels_[2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("error_penalty", 0),
        ("error_penalty", np.nan),
        ("n_init", 0),
        ("max_iter", 0),
        ("tol", -1.0),
    ],
)
def test_bad_parameters_are_named(labels, name, value):
    """The message has the parameter and its value."""
    with pytest.raises(InvalidParameterError, match=f"{name}={value!r}"):
        KLConsensus(3, **{name: value}).fit(labels[0])
