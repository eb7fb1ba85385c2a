"""Linkage into clusters that are not just stray points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from all_partitions import same_partition
from coterie.consensus.linkage import LEAST_SHARE, cut_into, sizable_clusters, weighted_linkage


def block_similarity(sizes, inside=0.9, outside=0.1, seed=0):
    """Return a noisy block similarity and the block of each point."""
    blocks = np.repeat(np.arange(len(sizes)), sizes)
    S = np.where(blocks[:, None] == blocks, inside, outside)
    noise = np.random.default_rng(seed).uniform(-0.05, 0.05, S.shape)
    S = np.clip(S + (noise + noise.T) / 2, 0.0, 1.0)
    np.fill_diagonal(S, 1.0)
    return S, blocks


@pytest.mark.parametrize("sizes", [[20, 20], [30, 10, 12], [5, 40, 8, 20]])
def test_large_separate_clusters_are_those_of_the_plain_cut(sizes):
    """If all clusters are large and no point is nearer to another one, linkage is unchanged."""
    S, blocks = block_similarity(sizes)
    weights = np.ones(len(S))
    labels = sizable_clusters(S, weights, len(sizes))
    plain = cut_into(weighted_linkage(1.0 - S, weights), len(sizes))
    assert same_partition(labels, plain)
    assert same_partition(labels, blocks)


def test_stray_points_form_no_clusters():
    """Points that are similar to none join a cluster, where the plain cut has them alone."""
    S, blocks = block_similarity([40, 40, 1, 1, 1])
    stray = blocks >= 2
    S[stray] *= 0.2
    S[:, stray] *= 0.2
    np.fill_diagonal(S, 1.0)
    weights = np.ones(len(S))
    plain = cut_into(weighted_linkage(1.0 - S, weights), 2)
    assert np.bincount(plain).min() <= 3
    labels = sizable_clusters(S, weights, 2)
    assert same_partition(labels[~stray], blocks[~stray])


def test_a_point_joins_the_cluster_of_the_largest_mean_similarity():
    """A stray point with one more similar cluster is in that cluster."""
    S, blocks = block_similarity([30, 30, 1])
    S[60, :30] = S[:30, 60] = 0.01
    S[60, 30:60] = S[30:60, 60] = 0.03
    labels = sizable_clusters(S, np.ones(61), 2)
    assert labels[60] == labels[30] != labels[0]
    assert same_partition(labels[:60], blocks[:60])


def test_multiplicities_make_a_point_large():
    """A point that counts many times is a cluster; the same point alone is stray."""
    S, blocks = block_similarity([60, 60, 1], outside=0.05)
    S[120, :120] = S[:120, 120] = 0.0
    weights = np.where(blocks == 2, 50.0, 1.0)
    assert (sizable_clusters(S, weights, 3) == sizable_clusters(S, weights, 3)[120]).sum() == 1
    alone = sizable_clusters(S, np.ones(121), 2)
    assert (alone == alone[120]).sum() > 1


def test_weights_are_repeated_points():
    """A point of weight w gives the labels of w equal points."""
    S, _ = block_similarity([6, 9, 4])
    times = np.random.default_rng(1).integers(1, 4, len(S))
    repeated = np.repeat(np.repeat(S, times, axis=0), times, axis=1)
    which = np.repeat(np.arange(len(S)), times)
    repeated[which[:, None] == which] = 1.0
    weighted = sizable_clusters(S, times.astype(float), 3)
    assert same_partition(weighted[which], sizable_clusters(repeated, np.ones(len(which)), 3))


def test_without_k_large_clusters_the_plain_cut_is_returned():
    """If no cut has K clusters of the least size, the result is that of plain linkage."""
    S = block_similarity([30, 1, 1])[0]
    weights = np.where(np.arange(32) == 0, 1e6, 1.0)
    assert LEAST_SHARE * weights.sum() / 3 > 31
    plain = cut_into(weighted_linkage(1.0 - S, weights), 3)
    np.testing.assert_array_equal(sizable_clusters(S, weights, 3), plain)


@settings(max_examples=60)
@given(u=st.integers(1, 25), data=st.data())
def test_labels_are_zero_to_k_without_gaps(u, data):
    """For any similarity and weights there are exactly K clusters, none of them empty."""
    K = data.draw(st.integers(1, u))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    # few different values: many ties
    S = rng.integers(0, data.draw(st.sampled_from([2, 5, 1000])), (u, u)) / 1000.0
    S = np.maximum(S, S.T)
    np.fill_diagonal(S, 1.0)
    weights = rng.integers(1, data.draw(st.sampled_from([2, 50])), u).astype(float)
    labels = sizable_clusters(S, weights, K)
    np.testing.assert_array_equal(np.unique(labels), np.arange(K))
