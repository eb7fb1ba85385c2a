"""Linkage on a spanning tree, against definitions and other packages."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform

from coterie.ensembles import kernels
from coterie.inspection.scores import adjusted_rand_index

POINTS = arrays(float, st.tuples(st.integers(2, 14), st.just(2)), elements=st.floats(0, 100))


def tree(D, core=None):
    """Return the edges of a spanning tree by rising length."""
    first, second, length = kernels.spanning_tree(D, np.zeros(len(D)) if core is None else core)
    order = np.argsort(length, kind="stable")
    return first[order], second[order], length[order]


def cut(first, second, K, most_uneven):
    """Return the labels after the merges of the kernel until K clusters are left."""
    order = kernels.even_merges(first, second, most_uneven)
    assert sorted(order) == list(range(len(first)))
    labels = np.arange(len(first) + 1)
    for e in order[: len(labels) - K]:
        labels[labels == labels[second[e]]] = labels[first[e]]
    return labels


def gini(sizes):
    """Return the Gini index of cluster sizes, by its definition."""
    if len(sizes) < 2:
        return 0.0
    differences = sum(abs(a - b) for a, b in itertools.combinations(sizes, 2))
    return differences / ((len(sizes) - 1) * sum(sizes))


def merged(first, second, K, most_uneven):
    """Merge the edges one by one as the definition says; return labels."""
    labels, left = np.arange(len(first) + 1), list(zip(first, second, strict=True))
    while len(set(labels)) > K:
        sizes = np.bincount(labels)[labels]
        counts = np.bincount(labels)
        may = left
        if gini(counts[counts > 0].tolist()) > most_uneven:
            may = [edge for edge in left if sizes.min() in (sizes[edge[0]], sizes[edge[1]])]
        a, b = may[0]
        left.remove((a, b))
        labels = np.where(labels == labels[b], labels[a], labels)
    return labels


@given(POINTS, st.integers(1, 14))
def test_without_a_limit_it_is_single_linkage(X, K):
    """Merging the shortest edges first is single linkage, where distances have no ties."""
    D = squareform(pdist(X))
    distances = pdist(X)
    if len(np.unique(distances.round(6))) < len(distances) or K > len(X):
        return
    first, second, _ = tree(D)
    expected = fcluster(linkage(distances, "single"), K, "maxclust")
    assert adjusted_rand_index(cut(first, second, K, 1.0), expected) == 1


@given(POINTS, st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.3, 0.7]))
def test_uneven_clusters_are_merged_first(X, K, most_uneven):
    """While sizes are too uneven, the shortest edge at a smallest cluster is merged."""
    first, second, _ = tree(squareform(pdist(X)))
    K = min(K, len(X))
    found = cut(first, second, K, most_uneven)
    assert adjusted_rand_index(found, merged(first, second, K, most_uneven)) == 1
    assert len(np.unique(found)) == K


@given(POINTS, st.integers(0, 3))
def test_edges_are_a_shortest_tree_of_mutual_reachability(X, neighbour):
    """The edges link all rows, and their lengths are the merges of single linkage."""
    D = squareform(pdist(X))
    core = np.sort(D, axis=1)[:, min(neighbour, len(X) - 1)]
    first, second, length = tree(D, core)
    reach = np.maximum(D, np.maximum(core[:, None], core))
    np.testing.assert_allclose(length, reach[first, second])
    np.fill_diagonal(reach, 0)
    np.testing.assert_allclose(length, linkage(squareform(reach), "single")[:, 2])
    assert len(np.unique(cut(first, second, 1, 1.0))) == 1
