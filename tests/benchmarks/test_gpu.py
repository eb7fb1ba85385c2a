"""The GPU benchmark: its result, its tensor code on the CPU, and a run if there is a GPU."""

import numpy as np
import pytest

from benchmarks import gpu
from coterie.counts.coassociation import tuple_coassociation
from coterie.relaxation.admm import minimise, robust_factor
from coterie.relaxation.spectral import least_squares_factor


@pytest.mark.filterwarnings("ignore:.*stopped after:UserWarning")
def test_plain_tensor_code_takes_the_steps_of_the_library():
    """On the CPU both reach the same objective after as many steps."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    tuples, _ = gpu._planted(300)
    alpha = np.ones(gpu.N_PARTITIONS)
    start = least_squares_factor(tuples, alpha, gpu.N_CLUSTERS)
    solver = gpu.PlainTensorSolver(tuples.codes, alpha, tuples.weights, start, device="cpu")
    found = minimise(solver, 1.1, 15, 0.0, None)
    M = tuple_coassociation(tuples, alpha)
    expected = robust_factor(M, start, max_iter=15, tol=0.0)
    assert found.objective == pytest.approx(expected.objective, rel=1e-3)
