"""Contingency tables of all pairs of partitions, pair counts and their lower bound."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from all_partitions import all_partitions
from coterie.counts import contingency
from coterie.counts.contingency import (
    agreement_lower_bound,
    all_contingencies,
    count_pairs,
    jaccard_similarity,
)
from coterie.errors import TooManyPointsError
from coterie.inspection.scores import mirkin_objective
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices
from soft_memberships import any_partitions, clustered, pair_matrices, soft_objectives

properties = settings(max_examples=25)


def counts_of(tuples):
    """Return the pair counts of all pairs of partitions."""
    return count_pairs(tuples, all_contingencies(tuples))


@properties
@given(P=any_partitions, seed=st.integers(0, 99))
def test_contingencies_are_the_product_of_indicators(P, seed):
    """C = Zᵀ diag(w) Z, for the weights of the tuples and for other weights."""
    tuples, given_columns = as_label_tuples(P), np.hstack(P)
    Z = given_columns[:, given_columns.any(axis=0)]
    C = all_contingencies(tuples)
    assert_allclose(C[np.ix_(tuples.recode, tuples.recode)], Z.T @ Z)
    w = np.random.default_rng(seed).uniform(0, 9, tuples.n_tuples)
    C = all_contingencies(tuples, w)
    share = tuples.expand(w / tuples.weights)[:, None]
    assert_allclose(C[np.ix_(tuples.recode, tuples.recode)], Z.T @ (share * Z), atol=1e-12)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_contingencies_on_any_number_of_threads(threads, monkeypatch):
    """The blocks of all threads sum to the same tables."""
    monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
    P = np.random.default_rng(0).integers(-1, 40, (45_000, 4))
    P[:, 0] = np.abs(P[:, 0])
    tuples = as_label_tuples(P).without_compression()
    Z = np.hstack([P[:, [v]] == np.arange(40) for v in range(4)]).astype(float)
    C = all_contingencies(tuples)
    assert_array_equal(C[np.ix_(tuples.recode, tuples.recode)], Z.T @ Z)


@properties
@given(P=label_matrices())
def test_jaccard_similarity_is_that_of_sets(P):
    """It is |c ∩ d| / |c ∪ d| over the points that both partitions label; 0 without such points."""
    tuples = as_label_tuples(P)
    rows = tuples.expand(tuples.codes)
    found = jaccard_similarity(all_contingencies(tuples), tuples.offsets)
    for c, v in enumerate(tuples.partition_of):
        for d, w in enumerate(tuples.partition_of):
            both = (rows[:, v] >= 0) & (rows[:, w] >= 0)
            in_c, in_d = rows[both, v] == c, rows[both, w] == d
            assert found[c, d] == (in_c & in_d).sum() / max(1, (in_c | in_d).sum())


@properties
@given(P=label_matrices(missing=False))
def test_the_bound_is_reached_by_two_partitions(P):
    """Each of two equally weighted partitions is a median, and reaches the bound."""
    Q = P[:, [0, -1]]
    bound = agreement_lower_bound(counts_of(as_label_tuples(Q)), np.ones(2))
    assert_allclose(bound, [mirkin_objective(Q, Q[:, v]) for v in range(2)], atol=1e-9)


def test_partitions_without_weight_do_not_bound():
    """A partition of weight 0 has no effect; a single partition gives the bound 0."""
    P = np.array([[0, 0, 0], [0, 1, 1], [1, 1, 0], [1, 0, 2]])
    whole, part = as_label_tuples(P), as_label_tuples(P[:, 1:])
    weights = np.array([0.0, 1.0, 3.0])
    assert agreement_lower_bound(
        counts_of(whole), weights[whole.partition_order]
    ) == agreement_lower_bound(counts_of(part), weights[1:][part.partition_order])
    assert agreement_lower_bound(counts_of(whole), np.array([0.0, 1.0, 0.0])) == 0.0


def test_tables_beyond_the_memory_are_refused(monkeypatch):
    """The message names the partition with the most clusters."""
    monkeypatch.setattr(contingency, "available_memory", lambda: 10**6)
    monkeypatch.setattr(contingency, "_ALWAYS_ALLOWED", 0)
    ids = np.arange(400)
    tuples = as_label_tuples({"parity": ids % 2, "pair": ids // 2, "third": ids % 3})
    with pytest.raises(TooManyPointsError, match=r"205 clusters .* partition 'pair' .*, 200:"):
        all_contingencies(tuples)
    assert all_contingencies(as_label_tuples((ids % 7)[:, None])).shape == (7, 7)


@given(P=any_partitions)
@properties
def test_pairs_are_counted(P):
    """All pair counts are sums over pairs of different points."""
    tuples = as_label_tuples(P)
    counts, order = counts_of(tuples), tuples.partition_order
    a, b = pair_matrices([P[v] for v in order])
    for matrix in (*a, *b):
        np.fill_diagonal(matrix, 0)
    mass = np.array([m.sum(axis=1) for m in P])[order]
    expected = {
        "in_row": np.einsum("vij,wij->vw", a, b),
        "together": np.einsum("vij,wij->vw", a, a),
        "row_cubes": (np.einsum("vij,wij->vwi", a, b) ** 2).sum(axis=-1),
        "degree_products": a.sum(axis=2) @ a.sum(axis=2).T,
        "n_points": mass @ mass.T,
        "n_pairs": np.einsum("vij,wij->vw", b, b),
    }
    if tuples.memberships is not None:
        expected["row_squares"] = np.einsum("vij,wij->vw", a**2, b**2)
    else:
        expected["mirkin"] = ((a[:, None] != a) * b[:, None] * b).sum(axis=(2, 3))
    for name, sums in expected.items():
        assert_allclose(getattr(counts, name), sums, atol=1e-9, err_msg=name)


@given(P=any_partitions, seed=st.integers(0, 99))
@properties
def test_no_objective_is_below_the_bound(P, seed):
    """No partition of the points has a J below the bound by agreement."""
    assume(len(P[0]) < 8)  # there are 4,140 partitions of eight points
    tuples, alpha, _ = clustered(P, seed)
    least = soft_objectives(P, np.array(list(all_partitions(len(P[0])))), alpha).min()
    bound = agreement_lower_bound(counts_of(tuples), alpha[tuples.partition_order])
    assert 0 <= bound <= least + 1e-9
