"""The search compared with the exact optimum of the ℓ1 objective, by integer programming."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

import coterie as ct


def least_objective(P):
    """Solve min Σ_ij |M_ij − X_ij| over equivalence relations X (clique partitioning)."""
    n = len(P)
    number = {pair: i for i, pair in enumerate(combinations(range(n), 2))}
    M = np.array([(P[i] == P[j]).mean() for i, j in number])
    # i ~ j and j ~ k imply i ~ k: x_ij + x_jk − x_ik ≤ 1, and the same for the other two
    triangles = [
        (number[i, j], number[j, k], number[i, k]) for i, j, k in combinations(range(n), 3)
    ]
    places = [(a, b, c) for t in triangles for a, b, c in (t, t[1:] + t[:1], t[2:] + t[:2])]
    rows = csr_array(
        (np.tile([1, 1, -1], len(places)), (np.repeat(np.arange(len(places)), 3), np.ravel(places)))
    )
    found = milp(
        1 - 2 * M,
        constraints=LinearConstraint(rows, -np.inf, 1),
        integrality=np.ones(len(M)),
        bounds=Bounds(0, 1),
    )
    assert found.status == 0
    return 2 * (found.fun + M.sum())


@pytest.mark.filterwarnings("ignore::coterie.errors.CoterieWarning")
def test_the_search_is_near_the_exact_optimum():
    """refine=True is within 0.5% of the optimum on average, and the bound is never above it."""
    excess = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        n, K, V = rng.integers((8, 2, 3), (16, 6, 12))
        y, noise = rng.integers(0, K, n), rng.choice([0.2, 0.4, 0.6, 0.8])
        P = np.column_stack(
            [np.where(rng.random(n) < noise, rng.integers(0, K, n), y) for _ in range(V)]
        )
        best = least_objective(P)
        est = ct.RobustConsensus("free", refine=True, partition_weights=None, random_state=0)
        est.fit(P)
        assert est.lower_bound_ <= best + 1e-9 <= est.objective_ + 2e-9
        excess.append(est.objective_ / best - 1 if best > 0 else est.objective_)
    assert np.mean(excess) < 0.005
