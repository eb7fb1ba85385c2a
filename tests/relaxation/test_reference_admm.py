"""The textbook form converges; with the printed signs it diverges."""

import numpy as np
import pytest

from coterie import coassociation, planted_partitions
from coterie.relaxation.reference_admm import reference_robust_relaxation


@pytest.fixture(scope="module")
def case():
    """A co-association matrix and its ℓ2 start."""
    P, _ = planted_partitions([30, 15, 10], 10, 2, 0.3, random_state=0)
    M = coassociation(P)
    values, vectors = np.linalg.eigh(M)
    return M, vectors[:, -3:] * np.sqrt(values[-3:])


def test_derived_signs_converge(case):
    """With the derived signs the residual of M = E + L and ‖M − L‖₁ fall."""
    M, start = case
    result = reference_robust_relaxation(M, start, n_iter=80)
    assert result.residual[-1] < 1e-3 * np.linalg.norm(M)
    assert result.objective[-1] < np.abs(M - start @ start.T).sum()


def test_printed_signs_diverge(case):
    """With the signs as printed in the paper the residual grows without bound."""
    M, start = case
    result = reference_robust_relaxation(M, start, n_iter=80, signs="printed")
    assert result.residual[-1] > 1e6 * result.residual[0]
    assert all(
        later > earlier
        for earlier, later in zip(result.residual[::10], result.residual[10::10], strict=False)
    )


def test_low_rank_part_is_positive_and_of_rank_k(case):
    """L has at most K eigenvalues above zero and none below."""
    M, start = case
    values = np.linalg.eigvalsh(reference_robust_relaxation(M, start, n_iter=5).low_rank)
    assert (values > 1e-8).sum() <= 3 and values.min() > -1e-8
