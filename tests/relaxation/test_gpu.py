"""The robust relaxation on a GPU equals that on the CPU."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import coterie as ct
from coterie.counts.coassociation import tuple_coassociation
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation.admm import robust_factor
from coterie.relaxation.gpu import (
    GpuSolver,
    gpu_robust_factor,
    required_gpu_bytes,
    strip_table,
)
from coterie.relaxation.spectral import least_squares_factor, round_by_pivoted_qr
from coterie.runtime.devices import gpu_memory, gpu_obstacle

on_gpu = pytest.mark.skipif(bool(gpu_obstacle()), reason=f"no GPU to test on: {gpu_obstacle()}")


def problem(sizes, n_partitions, n_bad, noise, missing=0.0, seed=0):
    """Return planted tuples, partition weights (unequal if labels miss) and the ℓ2 factor."""
    P, _ = ct.planted_partitions(sizes, n_partitions, n_bad, noise, random_state=seed)
    rng = np.random.default_rng(seed)
    P = np.where(rng.random(P.shape) < missing, -1, P)
    tuples = as_label_tuples(P[(P >= 0).any(axis=1)])
    alpha = 1.0 + np.arange(n_partitions) % 3 if missing else np.ones(n_partitions)
    return tuples, alpha, least_squares_factor(tuples, alpha, len(sizes))


@pytest.mark.parametrize("n_tiles", [1, 32, 33])
def test_strips_cover_every_tile_once(n_tiles):
    """Each tile on or above the diagonal is in one strip, with its index."""
    seen = {}
    for i, first, tile, length in strip_table(n_tiles):
        for t in range(length):
            assert (i, first + t) not in seen
            seen[i, first + t] = tile + t
    upper = [(i, j) for i in range(n_tiles) for j in range(i, n_tiles)]
    assert seen == {cell: index for index, cell in enumerate(upper)}


def test_memory_is_three_bytes_a_pair():
    """A hundred thousand tuples take about 30 GB on the device; with floats for M, 45 GB."""
    u = 100_000
    assert required_gpu_bytes(u, 10) == pytest.approx(3.1 * u**2, rel=0.1)
    assert required_gpu_bytes(u, 10, n_partitions=256) == pytest.approx(3.6 * u**2, rel=0.1)
    assert required_gpu_bytes(u, 10, counted=False) == pytest.approx(4.6 * u**2, rel=0.1)


@on_gpu
@pytest.mark.parametrize("n_clusters", [2, 20, 50])
@pytest.mark.parametrize("n_tuples", [70, 1000])
def test_a_step_equals_the_formulas(n_tuples, n_clusters):
    """Objective, residual and product agree with dense float64 matrices."""
    rng = np.random.default_rng(n_tuples + n_clusters)
    codes = (rng.integers(0, 5, (n_tuples, 12)) + 5 * np.arange(12)).astype(np.int16)
    weights = rng.integers(1, 4, n_tuples).astype(float)
    F = rng.random((n_tuples, n_clusters)) * 0.3
    solver = GpuSolver(codes, np.ones(12), weights, F)
    M = (codes[:, None] == codes).mean(axis=2)
    B, W, root = np.zeros_like(M), np.outer(weights, weights), np.sqrt(weights)[:, None]
    assert solver.mean == pytest.approx((W * M).sum() / weights.sum() ** 2)
    assert solver.norm == pytest.approx(np.sqrt((W * M**2).sum()))
    for shrink, bound in [(0.0, 0.2), (0.9, 0.05)]:
        L = F @ F.T
        Y = shrink * (L - B)
        B = L + np.clip(M - L - Y, -bound, bound)
        objective, residual = solver.step(shrink, bound)
        assert objective == pytest.approx((W * np.abs(M - L)).sum(), rel=1e-6)
        assert residual == pytest.approx(np.sqrt((W * (B - L + Y) ** 2).sum()), rel=1e-5)
        block = solver.block.cpu().numpy()
        product = solver._gathered().cpu().numpy()
        expected = root * (B @ (root * block))
        assert np.linalg.norm(product - expected) <= 1e-5 * np.linalg.norm(expected)
    assert solver.objective() == pytest.approx((W * np.abs(M - L)).sum(), rel=1e-6)


@on_gpu
@pytest.mark.parametrize(
    ("sizes", "n_partitions", "n_bad", "noise", "missing"),
    [
        ([300, 200, 100], 12, 4, 0.25, 0.0),
        ([200, 150, 100], 12, 3, 0.2, 0.2),
        ([500, 400, 300, 200, 100], 20, 6, 0.3, 0.0),
        ([300] * 10, 40, 16, 0.2, 0.0),
        ([400] * 3, 300, 100, 0.3, 0.0),
    ],
    ids=["small", "missing", "noisy", "ten clusters", "counts of two bytes"],
)
def test_objective_and_labels_are_those_of_the_cpu(sizes, n_partitions, n_bad, noise, missing):
    """The objective agrees to 1e-4, and the rounded labels are equal."""
    tuples, alpha, start = problem(sizes, n_partitions, n_bad, noise, missing)
    here = robust_factor(tuple_coassociation(tuples, alpha), start)
    there = gpu_robust_factor(tuples.codes, alpha, tuples.weights, start)
    assert there.objective == pytest.approx(here.objective, rel=1e-4)
    assert there.factor.shape == here.factor.shape and there.converged
    labels = [round_by_pivoted_qr(found.factor, tuples.weights) for found in (here, there)]
    assert adjusted_rand_score(*labels) == 1.0


@on_gpu
def test_the_estimator_gives_the_same_labels_on_both_devices():
    """RobustConsensus gives equal labels with device="cpu" and "cuda"."""
    P, _ = ct.planted_partitions([300, 250, 200, 150], 20, 8, 0.25, random_state=1)
    fitted = [
        ct.RobustConsensus(4, relaxation="admm", device=device, random_state=0).fit(P)
        for device in ("cpu", "cuda")
    ]
    assert [est.relaxation_ for est in fitted] == ["cpu", "cuda"]
    np.testing.assert_array_equal(fitted[0].labels_, fitted[1].labels_)


@on_gpu
@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_the_unit_of_partition_weights_does_not_matter(unit):
    """Unequal weights outside the range of single precision give the same objective."""
    tuples, alpha, start = problem([200, 150, 100], 12, 3, 0.2, 0.2)
    plain, scaled = (
        gpu_robust_factor(tuples.codes, alpha * by, tuples.weights, start, max_iter=5)
        for by in (1.0, unit)
    )
    assert scaled.objective == pytest.approx(plain.objective, rel=1e-6)


@on_gpu
def test_runs_are_equal():
    """Sums are in a fixed order, so two runs agree to the last bit."""
    tuples, alpha, start = problem([300, 200, 100], 12, 4, 0.25)
    first, second = (
        gpu_robust_factor(tuples.codes, alpha, tuples.weights, start, max_iter=20) for _ in range(2)
    )
    np.testing.assert_array_equal(first.factor, second.factor)


@on_gpu
def test_the_memory_estimate_holds():
    """The estimate is not below the allocated memory, and not far above."""
    import torch

    rng = np.random.default_rng(0)
    u = 6000
    codes = rng.integers(0, 10, (u, 20)).astype(np.int16)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    gpu_robust_factor(codes, np.ones(20), np.ones(u), rng.random((u, 10)), max_iter=3)
    taken = torch.cuda.max_memory_allocated() - before
    assert 0.7 * required_gpu_bytes(u, 10) <= taken <= required_gpu_bytes(u, 10)
    assert gpu_memory() > 0


@on_gpu
def test_a_singular_block_is_made_orthonormal():
    """If Cholesky fails on dependent columns, Householder reflections are used."""
    tuples, alpha, start = problem([60, 40], 6, 0, 0.3)
    solver = GpuSolver(tuples.codes, alpha, tuples.weights, start)
    same = solver.root.repeat(1, 3)
    basis = solver._orthonormal(same, solver.block)
    np.testing.assert_allclose((basis.T @ basis).cpu().numpy(), np.eye(3), atol=1e-10)
