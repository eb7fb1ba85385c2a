"""The robust relaxation: one state, compressed tuples, residual-based stopping."""

import logging

import numpy as np
import pytest

from coterie import coassociation, planted_partitions
from coterie.counts.coassociation import TupleCoassociation, tuple_coassociation
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation import admm as robust_admm
from coterie.relaxation.admm import TiledSolver, required_bytes, robust_factor
from coterie.relaxation.least_squares import least_squares_factor
from coterie.relaxation.reference_admm import reference_robust_relaxation
from coterie.relaxation.symmetric_tiles import SymmetricTiles


def problem(P, K, compressed=True):
    """M over tuples and the ℓ2 start."""
    tuples = as_label_tuples(P)
    if not compressed:
        tuples = tuples.without_compression()
    weights = np.ones(tuples.n_partitions)
    return tuples, tuple_coassociation(tuples, weights), least_squares_factor(tuples, weights, K)


def iterates(M, start, n_iter, rho=1.1, eigen_tolerance=1e-13):
    """L after each of n_iter steps, exact, μ growing every step."""
    solver = TiledSolver(M, start, eigen_tolerance)
    mu, shrink = 1.0 / solver.mean, 0.0
    for _ in range(n_iter):
        solver.step(shrink, 1.0 / mu)
        solver.advance()
        shrink, mu = 1.0 / rho, mu * rho
        yield solver.factor @ solver.factor.T


@pytest.fixture(params=["few tuples", "many tuples"])
def labels(request):
    """Spoiled votes; few tuples take the dense eigensolver, many the block iteration."""
    if request.param == "few tuples":
        return planted_partitions([60, 30, 20], 8, 3, 0.2, random_state=1)[0], 3
    return planted_partitions([250, 150, 100], 15, 5, 0.3, random_state=2)[0], 3


def test_one_state_equals_the_textbook_form(labels):
    """Every iterate H D Hᵀ equals that of the three-matrix form to 1e-10."""
    P, K = labels
    _, M, start = problem(P, K, compressed=False)
    steps = reference_robust_relaxation(M.dense(), start, n_iter=12, keep_steps=True).steps
    for ours, textbook in zip(iterates(M, start, 12), steps, strict=True):
        assert np.abs(ours - textbook).max() < 1e-10


def test_compressed_equals_full(labels):
    """H D Hᵀ over tuples, expanded to points, equals that over points to 1e-10."""
    P, K = labels
    tuples, M, start = problem(P, K)
    _, full_M, _ = problem(P, K, compressed=False)
    full_start = tuples.expand(start)
    for over_tuples, over_points in zip(
        iterates(M, start, 12), iterates(full_M, full_start, 12), strict=True
    ):
        expanded = over_tuples[np.ix_(tuples.inverse, tuples.inverse)]
        assert np.abs(expanded - over_points).max() < 1e-10


def test_objective_is_the_l1_distance_over_points():
    """The reported objective is ‖M − F Fᵀ‖₁ over all pairs of points."""
    P, _ = planted_partitions([40, 20], 6, 2, 0.2, random_state=3)
    tuples, M, start = problem(P, 2)
    result = robust_factor(M, start)
    F = tuples.expand(result.factor)
    assert result.objective == pytest.approx(np.abs(coassociation(P) - F @ F.T).sum())


def test_it_ends_below_the_l2_solution():
    """The ℓ1 error at the end is below that of the least-squares start."""
    P, _ = planted_partitions([120, 60, 40], 12, 0, 0.3, random_state=4)
    _, M, start = problem(P, 3)
    L2 = start @ start.T
    l2_error = M.weights @ np.abs(M.dense() - L2) @ M.weights
    assert robust_factor(M, start).objective < 0.99 * l2_error


def test_convergence_means_small_residuals():
    """A converged run ends with both residuals below their tolerance, and not a step before."""
    P, _ = planted_partitions([120, 60, 40], 12, 2, 0.2, random_state=5)
    _, M, start = problem(P, 3)
    result = robust_factor(M, start, tol=1e-3)
    primal, dual = result.history["primal_residual"], result.history["dual_residual"]
    small = (np.array(primal) <= 1e-3) & (np.array(dual) <= 1e-2)
    assert result.converged and small[-1] and not small[:-1].any()
    assert len(primal) == len(result.history["objective"]) == result.n_iter


def test_a_tighter_tolerance_lowers_the_residuals():
    """With μ held when the residuals are balanced, both go on falling: L is not frozen."""
    P, _ = planted_partitions([120, 60, 40], 12, 0, 0.2, random_state=5)
    _, M, start = problem(P, 3)
    result = robust_factor(M, start, tol=2e-4, max_iter=2000)
    assert result.converged
    assert result.history["dual_residual"][-1] <= 2e-3
    assert max(result.history["mu"]) < 1e4


def test_no_convergence_is_said():
    """Too few steps are reported as not converged."""
    P, _ = planted_partitions([60, 30], 8, 3, 0.2, random_state=1)
    _, M, start = problem(P, 2)
    result = robust_factor(M, start, max_iter=3)
    assert not result.converged and result.n_iter == 3


@pytest.mark.parametrize(
    ("sizes", "K", "noise"), [([250, 150, 100], 3, 0.3), ([60] * 8, 8, 0.6), ([20] * 30, 30, 0.3)]
)
def test_eigenpairs_that_follow_the_iteration_lose_nothing(sizes, K, noise):
    """Eigenpairs no more exact than the steps need end where exact ones do, to 1e-4."""
    P, _ = planted_partitions(sizes, 15, 0, noise, random_state=2)
    _, M, start = problem(P, K)
    exact, following = (robust_factor(M, start, eigen_tolerance=t) for t in (1e-10, 1e-4))
    assert following.objective == pytest.approx(exact.objective, rel=1e-4)


def test_single_precision_state_agrees_with_double(monkeypatch):
    """Above the switch the state is float32, at an objective within 0.01%, itself exact."""
    P, _ = planted_partitions([200, 120, 80], 15, 5, 0.3, random_state=6)
    tuples, M, start = problem(P, 3)
    double = robust_factor(M, start)
    monkeypatch.setattr(robust_admm, "_SINGLE_PRECISION_ABOVE", 10)
    single = robust_factor(M, start)
    assert single.objective == pytest.approx(double.objective, rel=1e-4)
    F = tuples.expand(single.factor)
    exact = np.abs(coassociation(P) - F @ F.T).sum()
    assert single.objective == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("threads", ["1", "2", "3"])
def test_a_number_of_threads_gives_one_answer(threads, monkeypatch):
    """Two runs on as many threads agree to the last bit; tiles are dealt out the same way."""
    monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
    P, _ = planted_partitions([800, 400, 200], 20, 5, 0.5, random_state=6)
    _, M, start = problem(P, 3)
    first, second = (robust_factor(M, start, max_iter=5) for _ in range(2))
    assert np.array_equal(first.factor, second.factor)
    assert first.objective == second.objective


def test_memory_and_time_are_said_before_it_starts(caplog):
    """The first message has the sizes of state and M, the later ones the objective."""
    P, _ = planted_partitions([60, 30], 8, 3, 0.2, random_state=1)
    _, M, start = problem(P, 2)
    with caplog.at_level(logging.INFO, "coterie"):
        robust_factor(M, start, max_iter=20, tol=0.0)
    first, *later = [record.getMessage() for record in caplog.records]
    assert first.startswith(f"robust relaxation of {M.n_tuples} tuples: ")
    assert "kB for the state and" in first and first.endswith("s a step")
    assert [message.split(",")[0][-7:] for message in later] == ["step 10", "step 20"]


def test_an_interrupt_ends_it():
    """What the callback raises comes out of the relaxation as it is."""

    def interrupt(step, objective):
        raise KeyboardInterrupt

    P, _ = planted_partitions([30, 20], 5, 1, 0.1, random_state=0)
    _, M, start = problem(P, 2)
    with pytest.raises(KeyboardInterrupt):
        robust_factor(M, start, callback=interrupt)


def test_callback_sees_every_step():
    """The callback gets the step number and the objective of each step."""
    P, _ = planted_partitions([30, 20], 5, 1, 0.1, random_state=0)
    _, M, start = problem(P, 2)
    seen = []
    result = robust_factor(M, start, callback=lambda step, value: seen.append((step, value)))
    assert seen == list(enumerate(result.history["objective"]))


def test_gross_errors_in_a_similarity_are_ignored():
    """Of any low-rank similarity with a few gross errors, the ℓ1 fit returns the rest exactly."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(60, 2))
    S, clean = G @ G.T, np.ones((60, 60), dtype=bool)
    for i, j in rng.integers(0, 60, (20, 2)):
        S[i, j] = S[j, i] = S[i, j] + 6.0
        clean[i, j] = clean[j, i] = False
    values, vectors = np.linalg.eigh(S)
    start = vectors[:, -2:] * np.sqrt(values[-2:])
    result = robust_factor(
        TupleCoassociation(S, 1.0, np.ones(60)), start, rho=1.05, tol=1e-5, max_iter=5000
    )
    error = np.abs(result.factor @ result.factor.T - G @ G.T)[clean].max()
    assert error < 0.01 < np.abs(start @ start.T - G @ G.T)[clean].max()


@pytest.mark.parametrize("u", [1, 255, 600, 4001])
def test_required_bytes_are_those_of_state_and_counts(u):
    """The estimate is the bytes of half the state and of M, floats or counts."""
    state = SymmetricTiles(u, np.dtype(np.float32 if u > 4000 else np.float64))
    assert required_bytes(u) == state.nbytes + u**2
    assert required_bytes(u, counted=False) == state.nbytes + u**2 * state.dtype.itemsize


def test_forty_thousand_tuples_fit():
    """Half of the state in single precision and counts in bytes are below 5 GB."""
    assert 4.8e9 < required_bytes(40_000) < 4.9e9
