"""Stability under resampling, compared with definitions over all pairs of points."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

import coterie as ct
from coterie.errors import InvalidLabelsError, InvalidParameterError
from coterie.inspection import stability
from coterie.inspection.stability import (
    area_growth,
    check_ks,
    consensus_cdf,
    ensembles_by_k,
    proportion_of_ambiguous_pairs,
    resampled_ensembles,
    stable_ks,
)
from soft_memberships import pair_matrices, random_memberships

# the first row and column have no missing labels, so that every row and column has a label
labels_with_gaps = st.tuples(st.integers(2, 9), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-1, 2)).map(_anchored)
)


def _anchored(P):
    P[0] = np.maximum(P[0], 0)
    P[:, 0] = np.maximum(P[:, 0], 0)
    return P


def _shares(P):
    """Return M of every pair i < j that was drawn together, by definition."""
    shares = []
    for i, j in combinations(range(len(P)), 2):
        both = (P[i] >= 0) & (P[j] >= 0)
        if both.any():
            shares.append((P[i] == P[j])[both].sum() / both.sum())
    return np.array(shares)


@given(P=labels_with_gaps, n_bins=st.sampled_from([1, 4, 10, 100]))
@settings(deadline=None, max_examples=50)
def test_cdf_and_pac_equal_their_definitions(P, n_bins):
    """Both equal a loop over all pairs of points, also at the edges of bins and limits."""
    shares = _shares(P)
    x, cdf = consensus_cdf(P, n_bins)
    np.testing.assert_allclose(cdf, [(shares <= edge).mean() for edge in x])
    expected = ((shares > 0.1) & (shares < 0.9)).mean()
    assert proportion_of_ambiguous_pairs(P) == pytest.approx(expected)
    third = ((shares > 1 / 3) & (shares < 2 / 3)).mean()
    assert proportion_of_ambiguous_pairs(P, 1 / 3, 2 / 3) == pytest.approx(third)


def test_blocks_do_not_change_the_answer(monkeypatch):
    """Small blocks of rows count the same pairs as one block."""
    P, _ = ct.planted_partitions([30, 20], 12, 0, 0.3, random_state=0)
    P[np.random.default_rng(0).random(P.shape) < 0.2] = -1
    whole = consensus_cdf(P)[1], proportion_of_ambiguous_pairs(P)
    monkeypatch.setattr(stability, "_CELLS_A_BLOCK", 120)
    np.testing.assert_allclose(consensus_cdf(P)[1], whole[0], rtol=1e-12)
    assert proportion_of_ambiguous_pairs(P) == pytest.approx(whole[1], rel=1e-12)


def test_pairs_of_soft_partitions_are_those_of_their_coassociation():
    """c.d.f. and PAC are those of M over pairs that some partition labels."""
    P = random_memberships(np.random.default_rng(0), 40, [2, 3, 3])
    M = ct.coassociation(P)[np.triu(pair_matrices(P)[1].sum(axis=0) > 0, 1)]
    x, cdf = consensus_cdf(P, 20)
    assert cdf == pytest.approx([(M <= edge).mean() for edge in x])
    ambiguous = ((M > 0.3) & (M < 0.6)).mean()
    assert proportion_of_ambiguous_pairs(P, 0.3, 0.6) == pytest.approx(ambiguous)


def test_large_inputs_are_sampled_independently_of_their_order():
    """The PAC of a sample is close to that of all points and independent of order and names."""
    P, _ = ct.planted_partitions([500, 400, 300], 15, 0, 0.4, random_state=0)
    whole = proportion_of_ambiguous_pairs(P)
    sample = proportion_of_ambiguous_pairs(P, max_points=300)
    assert sample == pytest.approx(whole, abs=0.05)
    assert sample != whole
    shuffled = 2 - P[np.random.default_rng(0).permutation(len(P))][:, ::-1]
    assert proportion_of_ambiguous_pairs(shuffled, max_points=300) == pytest.approx(sample)


def test_without_pairs_the_result_is_nan():
    """Both are nan if no two points were drawn together."""
    P = np.array([[0, -1], [-1, 0]])
    assert np.isnan(proportion_of_ambiguous_pairs(P))
    assert np.isnan(consensus_cdf(P)[1]).all()


def test_resamples_are_clusterings_of_the_same_shares():
    """Each sample has 80% of the rows in k clusters, the same for every k, of any clusterer."""
    X = np.random.default_rng(0).normal(size=(50, 3))
    ensembles = resampled_ensembles(X, [2, 4], n_resamples=6, random_state=0)
    assert list(ensembles) == [2, 4]
    for k, P in ensembles.items():
        assert P.shape == (50, 6) and (P.max(axis=0) == k - 1).all()
        assert ((P >= 0).sum(axis=0) == 40).all()
    np.testing.assert_array_equal(ensembles[2] < 0, ensembles[4] < 0)
    alone = resampled_ensembles(X, [4], n_resamples=6, random_state=0)
    np.testing.assert_array_equal(alone[4], ensembles[4])
    single = AgglomerativeClustering(3, linkage="single")
    for labels in resampled_ensembles(X, [3], 4, ensemble=single, random_state=0)[3].T:
        drawn = labels >= 0
        assert adjusted_rand_score(labels[drawn], single.fit_predict(X[drawn])) == 1


def test_growth_is_relative_to_the_largest_area_so_far():
    """An area that was reached before is no growth; areas that are unknown are left out."""
    growth = area_growth(np.array([0.3, 0.5, 0.4, np.nan, 0.6]))
    np.testing.assert_allclose(growth, [0.3, 2 / 3, -0.2, np.nan, 0.2])


@pytest.mark.parametrize(
    ("ratio", "stable"),
    [([0.10, 0.19, 0.21], [2, 3]), ([0.26, 0.27, 0.5], []), ([0.24, np.nan, 0.33], [2, 4])],
)
def test_stable_numbers_have_few_ambiguous_pairs_among_those_together(ratio, stable):
    """The share is at most 0.1 above the least one, which is at most 0.25."""
    area, ks = np.array([0.4, 0.5, 0.6]), np.array([2, 3, 4])
    assert stable_ks(ks, np.array(ratio) * (1 - area), area).tolist() == stable


@pytest.mark.parametrize(
    ("ks", "words"),
    [([], "empty"), ([2, 1], "ks=1"), (2.5, "ks=2.5"), ([True], "True"), ([7], "7, more than")],
)
def test_impossible_numbers_of_clusters_are_refused(ks, words):
    """Each K is an integer from 2 to the number of points."""
    with pytest.raises(InvalidParameterError, match=words):
        check_ks(ks, 6)


def test_ensembles_label_the_same_points():
    """Ensembles are in rising order of K; those of other points are refused."""
    P = np.zeros((9, 2), dtype=int)
    assert list(ensembles_by_k({5: P, 2: P})) == [2, 5]
    with pytest.raises(InvalidLabelsError, match=r"\(K=2: 8, K=3: 9\); all must label the same"):
        ensembles_by_k({3: P, 2: P[:8]})
    for other, words in (({}, "ks is empty"), (P, "give a mapping of K"), ({1: P}, "ks=1")):
        with pytest.raises(InvalidParameterError, match=words):
            ensembles_by_k(other)


def test_invalid_settings_are_refused():
    """Bins, limits and sample sizes are checked."""
    P = [[0, 0], [0, 1]]
    with pytest.raises(InvalidParameterError, match="n_bins"):
        consensus_cdf(P, 0)
    with pytest.raises(InvalidParameterError, match=r"low=0\.9, high=0\.1"):
        proportion_of_ambiguous_pairs(P, 0.9, 0.1)
    with pytest.raises(InvalidParameterError, match="max_points"):
        proportion_of_ambiguous_pairs(P, max_points=1)
