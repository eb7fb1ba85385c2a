"""Small random soft partitions, and their objective by its definition."""

import numpy as np
from hypothesis import strategies as st

from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices


def random_memberships(rng, n, widths, *, missing=True):
    """Return membership matrices (n, K_v): some rows hard, some equal, some with missing mass."""
    matrices = []
    for K in widths:
        rows = rng.dirichlet(np.full(K, 0.7), size=n)
        hard = rng.random(n) < 0.3
        rows[hard] = np.eye(K)[rng.integers(K, size=int(hard.sum()))]
        if missing:
            rows *= rng.choice([1.0, 1.0, 0.5, 0.0], size=n)[:, None]
        matrices.append(rows)
    matrices[0][~np.any([m.any(axis=1) for m in matrices], axis=0)] = np.eye(widths[0])[0]
    if n > 3:
        for m in matrices:  # two equal points
            m[n - 1] = m[0]
    return [m if m.any() else np.eye(m.shape[1])[np.zeros(n, dtype=int)] for m in matrices]


@st.composite
def soft_partitions(draw, *, most=7, missing=True):
    """Membership matrices of at most ``most`` points."""
    seed = draw(st.integers(0, 10_000))
    n = draw(st.integers(3, most))
    widths = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    return random_memberships(np.random.default_rng(seed), n, widths, missing=missing)


def one_hot(P):
    """Return the memberships (n, K_v) of the partitions in the columns of P, −1 missing."""
    return [(y[:, None] == np.unique(y[y >= 0])).astype(float) for y in P.T]


#: Soft partitions, and labels as membership matrices of zeros and ones, which are read as labels.
any_partitions = st.one_of(soft_partitions(), label_matrices(max_points=8).map(one_hot))


def pair_matrices(P):
    """Return ⟨π_i, π_j⟩ and m_i m_j of every partition, both (V, n, n)."""
    together = np.array([m @ m.T for m in P])
    both = np.array([np.outer(m.sum(axis=1), m.sum(axis=1)) for m in P])
    return together, both


def soft_objectives(P, labellings, alpha=None):
    """Return J of many labellings (c, n), from all pairs."""
    together, both = pair_matrices(P)
    alpha = np.ones(len(P)) if alpha is None else np.asarray(alpha)
    alpha = alpha / alpha.sum()
    a, b = np.tensordot(alpha, together, 1), np.tensordot(alpha, both, 1)
    same = labellings[:, :, None] == labellings[:, None, :]
    losses = np.where(same, b - a, a)
    n = a.shape[0]
    losses[:, np.arange(n), np.arange(n)] = 0.0
    return losses.sum(axis=(1, 2))


def clustered(P, seed, K=3):
    """Return tuples, weights α in the order of P, and random labels of the tuples."""
    rng = np.random.default_rng(seed)
    tuples = as_label_tuples(P)
    return tuples, rng.random(len(P)) + 0.1, rng.integers(K, size=tuples.n_tuples)
