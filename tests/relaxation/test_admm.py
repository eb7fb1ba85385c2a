"""The robust relaxation: loop, textbook form, steps on tiles, compressed tuples, kernels."""

import numpy as np
import pytest
from coterie.relaxation.kernels import gap_sums, step_tile

from both_builds import assert_same_bits
from coterie import coassociation, planted_partitions
from coterie.counts.coassociation import TupleCoassociation, tuple_coassociation
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation.admm import (
    SymmetricTiles,
    TiledSolver,
    minimise,
    reference_robust_relaxation,
    required_bytes,
    robust_factor,
)
from coterie.relaxation.spectral import least_squares_factor


def problem(P, K, compressed=True):
    """Return tuples, M over tuples, and the ℓ2 start."""
    tuples = as_label_tuples(P)
    if not compressed:
        tuples = tuples.without_compression()
    weights = np.ones(tuples.n_partitions)
    return tuples, tuple_coassociation(tuples, weights), least_squares_factor(tuples, weights, K)


def iterates(M, start, n_iter, rho=1.1, eigen_tolerance=1e-13):
    """Yield L after each of n_iter exact steps; μ grows in every step."""
    solver = TiledSolver(M, start, eigen_tolerance)
    mu, shrink = 1.0 / solver.mean, 0.0
    for _ in range(n_iter):
        solver.step(shrink, 1.0 / mu)
        solver.advance()
        shrink, mu = 1.0 / rho, mu * rho
        yield solver.factor @ solver.factor.T


@pytest.fixture(params=["few tuples", "many tuples"])
def labels(request):
    """Labels with wrong partitions; few tuples use the dense eigensolver, many the Krylov one."""
    if request.param == "few tuples":
        return planted_partitions([60, 30, 20], 8, 3, 0.2, random_state=1)[0], 3
    return planted_partitions([220, 130, 80], 15, 5, 0.4, random_state=2)[0], 3


def test_one_state_equals_the_textbook_form(labels):
    """Every iterate H D Hᵀ equals that of the three-matrix form to 1e-10."""
    P, K = labels
    _, M, start = problem(P, K, compressed=False)
    steps = reference_robust_relaxation(M.dense(), start, n_iter=4, keep_steps=True).steps
    for ours, textbook in zip(iterates(M, start, 4), steps, strict=True):
        assert np.abs(ours - textbook).max() < 1e-10


def test_compressed_equals_full(labels):
    """H D Hᵀ over tuples, expanded to points, equals that over points to 1e-10."""
    P, K = labels
    tuples, M, start = problem(P, K)
    _, full_M, _ = problem(P, K, compressed=False)
    full_start = tuples.expand(start)
    for over_tuples, over_points in zip(
        iterates(M, start, 4), iterates(full_M, full_start, 4), strict=True
    ):
        expanded = over_tuples[np.ix_(tuples.inverse, tuples.inverse)]
        assert np.abs(expanded - over_points).max() < 1e-10


@pytest.mark.parametrize(("sizes", "K", "noise"), [([250, 150, 100], 3, 0.3), ([60] * 8, 8, 0.6)])
def test_approximate_eigenpairs_are_sufficient(sizes, K, noise):
    """Approximate eigenpairs give the objective of exact ones to 1e-4."""
    P, _ = planted_partitions(sizes, 15, 0, noise, random_state=2)
    _, M, start = problem(P, K)
    exact, approximate = (robust_factor(M, start, eigen_tolerance=t) for t in (1e-10, 1e-4))
    assert approximate.objective == pytest.approx(exact.objective, rel=1e-4)


def test_single_precision_state_agrees_with_double(monkeypatch):
    """A float32 state gives an objective within 0.01%, which is itself summed exactly."""
    P, _ = planted_partitions([100, 60, 40], 15, 5, 0.3, random_state=6)
    tuples, M, start = problem(P, 3)
    double = robust_factor(M, start)
    monkeypatch.setattr("coterie.counts.coassociation._SINGLE_PRECISION_ABOVE", 10)
    single = robust_factor(M, start)
    assert single.objective == pytest.approx(double.objective, rel=1e-4)
    F = tuples.expand(single.factor)
    exact = np.abs(coassociation(P) - F @ F.T).sum()
    assert single.objective == pytest.approx(exact, rel=1e-6)


def test_runs_with_equal_threads_are_equal(monkeypatch):
    """Two runs with the same number of threads agree to the last bit."""
    monkeypatch.setenv("COTERIE_NUM_THREADS", "3")
    P, _ = planted_partitions([600, 400, 200], 20, 5, 0.5, random_state=6)
    _, M, start = problem(P, 3)
    first, second = (robust_factor(M, start, max_iter=5) for _ in range(2))
    assert np.array_equal(first.factor, second.factor)
    assert first.objective == second.objective


def test_gross_errors_in_a_similarity_are_ignored():
    """The ℓ1 fit recovers a low-rank similarity with a few gross errors."""
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


@pytest.mark.parametrize(("u", "dtype"), [(600, np.float64), (4001, np.float32)])
def test_required_bytes_are_those_of_state_and_counts(u, dtype):
    """The estimate is the bytes of half of B, and of M as floats or counts."""
    state = SymmetricTiles(u, np.dtype(dtype)).numbers
    assert required_bytes(u) == state.nbytes + u**2
    assert required_bytes(u, counted=False) == state.nbytes + u**2 * state.itemsize


@pytest.fixture(scope="module")
def case():
    """A co-association matrix and its ℓ2 start."""
    P, _ = planted_partitions([30, 15, 10], 10, 2, 0.3, random_state=0)
    M = coassociation(P)
    values, vectors = np.linalg.eigh(M)
    return M, vectors[:, -3:] * np.sqrt(values[-3:])


def test_derived_signs_converge(case):
    """With the derived signs the residual of M = E + L and ‖M − L‖₁ fall; L is ≥ 0 of rank K."""
    M, start = case
    result = reference_robust_relaxation(M, start, n_iter=80)
    assert result.residual[-1] < 1e-3 * np.linalg.norm(M)
    assert result.objective[-1] < np.abs(M - start @ start.T).sum()
    values = np.linalg.eigvalsh(result.low_rank)
    assert (values > 1e-8).sum() <= 3 and values.min() > -1e-8


def test_printed_signs_diverge(case):
    """With the signs as printed in the paper the residual grows without bound."""
    M, start = case
    residual = np.array(reference_robust_relaxation(M, start, n_iter=80, signs="printed").residual)
    assert residual[-1] > 1e6 * residual[0] and (np.diff(residual[::10]) > 0).all()


class ScriptedSolver:
    """A solver with given objectives (the last one repeats) and constant residuals."""

    mean, norm, n_points = 0.5, 1.0, 1.0

    def __init__(self, objectives=(1.0,), primal=1.0, moved=1.0, final=np.inf):
        self.objectives, self.primal, self.moved, self.final = objectives, primal, moved, final
        self.factor = np.array([[0.0]])
        self.calls = []

    def step(self, shrink, bound):
        """Record the arguments."""
        self.calls.append((shrink, bound))
        n = len(self.calls) - 1
        return self.objectives[min(n, len(self.objectives) - 1)], self.primal

    def advance(self):
        """Set the factor to the number of steps."""
        self.factor = self.factor + 1.0
        return self.moved

    def objective(self):
        """Return the objective of the last factor."""
        return self.final


def test_the_penalty_grows_while_the_primal_residual_is_large():
    """μ starts at 1/mean and grows by ρ; a step gets 1/μ and the ratio of the last two μ."""
    solver, seen = ScriptedSolver(primal=1.0, moved=1e-9), []
    found = minimise(solver, 1.25, 4, 1e-3, lambda *step: seen.append(step))
    assert seen == [(i, 1.0) for i in range(4)]
    assert found.history["mu"] == pytest.approx([2.0 * 1.25**i for i in range(4)])
    assert [bound for _, bound in solver.calls] == pytest.approx(1 / np.array(found.history["mu"]))
    assert [shrink for shrink, _ in solver.calls] == pytest.approx([0.0, 0.8, 0.8, 0.8])


def test_the_penalty_is_held_twenty_steps_at_most():
    """A primal residual that is relatively small holds μ, except every 21st step."""
    solver = ScriptedSolver(primal=1e-3, moved=10.0)
    mu = np.array(minimise(solver, 1.1, 60, 1e-6, None).history["mu"])
    grown = np.flatnonzero(np.diff(mu)) + 1
    assert grown.tolist() == [21, 42]
    assert [shrink for shrink, _ in solver.calls][1] == 1.0


def test_both_residuals_must_be_small():
    """The loop stops if primal ≤ tol and dual ≤ 10 tol."""
    assert minimise(ScriptedSolver(primal=0.01, moved=0.04), 1.1, 50, 0.01, None).n_iter == 1
    for primal, moved in ((0.02, 0.04), (0.01, 0.06)):
        solver = ScriptedSolver(primal=primal, moved=moved)
        assert not minimise(solver, 1.0, 5, 0.01, None).converged


def test_the_best_factor_is_returned():
    """The factor with the least objective is returned, from any step."""
    on_the_way = minimise(ScriptedSolver([5.0, 3.0, 4.0], final=6.0), 1.1, 3, 0.0, None)
    assert (on_the_way.objective, on_the_way.factor.item()) == (3.0, 1.0)
    at_the_end = minimise(ScriptedSolver([5.0, 3.0, 4.0], final=2.0), 1.1, 3, 0.0, None)
    assert (at_the_end.objective, at_the_end.factor.item()) == (2.0, 3.0)


def filled(n):
    """Return a random symmetric matrix, in tiles and dense."""
    A = np.random.default_rng(n).normal(size=(n, n))
    A = A + A.T
    tiles = SymmetricTiles(n, np.dtype(np.float64))
    for share in tiles.shares:
        for tile in share:
            tile.values[:] = A[tile.rows, tile.columns]
    return tiles, A


@pytest.mark.parametrize("n", [1, 257, 1500])
@pytest.mark.parametrize("threads", ["1", "5"])
def test_tiles_form_a_symmetric_matrix(n, threads, monkeypatch):
    """Tiles and their transposes are the matrix, each entry stored once; products are right."""
    monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
    tiles, A = filled(n)
    np.testing.assert_array_equal(tiles.dense(), A)
    held = [tile for share in tiles.shares for tile in share]
    assert sum(tile.copies * tile.values.size for tile in held) == n * n
    assert sum(tile.values.size for tile in held) == tiles.numbers.size
    X = np.random.default_rng(0).normal(size=(n, 4))
    np.testing.assert_allclose(tiles @ X, A @ X, rtol=0, atol=1e-12 * n)


SHAPES = [(1, 1), (256, 300)]


def tile(shape, seed=0):
    """Return counts, L, B, and the weights of rows and columns."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, shape).astype(np.uint8)
    weights = [rng.integers(1, 5, n).astype(float) for n in shape]
    return counts, rng.normal(size=shape), rng.normal(size=shape), weights


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_equals_the_formulas(dtype, shape):
    """B, objective and residual equal the formulas with full matrices."""
    counts, L, state, (rows, columns) = tile(shape)
    scale, shrink, bound = 1 / 8, 0.9, 0.3
    Y = (L - state) * shrink
    clipped = np.clip(counts * scale - L - Y, -bound, bound)

    ours, low, sums = state.astype(dtype), L.astype(dtype), np.empty(2)
    numbers = [np.dtype(dtype).type(number) for number in (scale, shrink, bound)]
    step_tile(ours, low, counts, *numbers, rows.astype(dtype), columns.astype(dtype), sums)
    tolerance = 10 * float(np.finfo(dtype).eps)
    assert np.allclose(ours, L + clipped, rtol=0, atol=10 * tolerance)
    assert sums[0] == pytest.approx(rows @ np.abs(counts * scale - L) @ columns, rel=tolerance)
    assert sums[1] == pytest.approx(rows @ (clipped + Y) ** 2 @ columns, rel=tolerance)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("values", [np.uint8, np.float32, np.float64])
def test_gap_sums(shape, values):
    """The sums of |M − L| and (M − L)² are exact for every type of M."""
    counts, L, _, (rows, columns) = tile(shape)
    sums = np.empty(2)
    gap_sums(L, counts.astype(values), 1 / 8, rows, columns, sums)
    gap = counts / 8 - L
    expected = rows @ np.abs(gap) @ columns, rows @ gap**2 @ columns
    assert np.allclose(sums, expected, rtol=1e-13, atol=0)


#: Yields the results of both kernels, in single and in double precision.
RUN = """
def run(kernels):
    rng = np.random.default_rng(0)
    for kind, n in (("f4", 37), ("f8", 256)):
        state, low = rng.normal(size=(2, n, n)).astype(kind)
        values, weights = rng.integers(0, 40, (n, n)).astype("u1"), rng.random(n).astype(kind)
        sums, gaps = np.zeros(2), np.zeros(2)
        kernels.step_tile(state, low, values, 0.025, 0.9, 0.1, weights, weights, sums)
        doubles = weights.astype("f8")
        kernels.gap_sums(low.astype("f8"), values, 0.025, doubles, doubles, gaps)
        yield from (state, sums, gaps)
"""


def test_wide_vectors_give_the_same_bits():
    """The build for AVX2 adds in the same order, and contracts no product with a sum."""
    assert_same_bits("coterie.relaxation", "step_tile", RUN)
