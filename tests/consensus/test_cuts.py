"""CSPA, HBGF, HGPA and MCLA, and the wrappers of METIS and mt-KaHyPar."""

import sys
import types
from importlib.machinery import ModuleSpec
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.sparse import csc_array, csr_array
from scipy.spatial.distance import squareform
from sklearn.cluster import KMeans

import coterie as ct
from all_partitions import all_partitions, same_partition
from coterie.consensus import cuts
from coterie.consensus.cuts import cut_graph, cut_hypergraph
from coterie.counts.contingency import all_contingencies, jaccard_similarity
from coterie.errors import MissingExtraError, TooManyPointsError
from coterie.labels.tuples import as_label_tuples
from label_matrices import label_matrices, pair_votes

NEEDED = "the extra 'partitioners' is not installed"
MODULES = {"metis": "pymetis", "kahypar": "mtkahypar"}
#: Every method with each of its partitioners.
CASES = [(m, p) for m in (ct.CSPA, ct.HBGF) for p in ("metis", "spectral")]
CASES += [(ct.HGPA, "kahypar"), (ct.HGPA, "spectral"), (ct.MCLA, "metis"), (ct.MCLA, "linkage")]
BALANCED = [case for case in CASES if case[1] in MODULES and case[0] is not ct.MCLA]


def make(method, partitioner, K=3, **settings):
    """An estimator; the test is skipped if its package is missing."""
    if partitioner in MODULES:
        pytest.importorskip(MODULES[partitioner], reason=NEEDED)
    return method(K, partitioner=partitioner, random_state=0, **settings)


def blocks(sizes, inside=5, between=1):
    """Adjacency of a graph of blocks: heavy edges inside, light ones between."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    A = np.where(y[:, None] == y, inside, between)
    np.fill_diagonal(A, 0)
    return A, y


def dense_graph(P, weights):
    """A (n, n): the total weight times the share of it that puts two points together."""
    together, both = (np.tensordot(weights, x, axes=1) for x in pair_votes(P))
    return weights.sum() * np.divide(together, both, out=np.zeros_like(together), where=both > 0)


def incidence(P):
    """B (n, m) of all base clusters, dense, and the partition of each."""
    columns = [(v, c) for v in range(P.shape[1]) for c in np.unique(P[:, v]) if c >= 0]
    B = np.column_stack([P[:, v] == c for v, c in columns]).astype(float)
    return B, np.array([v for v, _ in columns])


# The methods


@pytest.mark.parametrize(("method", "partitioner"), BALANCED)
def test_packages_balance_and_relaxations_do_not(method, partitioner):
    """Unequal clusters are cut to the same size by packages, and found without balance."""
    P, y = ct.planted_partitions([200, 60, 40], 20, 0, 0.2, random_state=0)
    cut = make(method, partitioner).fit(P)
    assert np.bincount(cut.labels_).max() < 1.1 * 100
    relaxed = make(method, "spectral").fit(P)
    assert ct.clustering_accuracy(y, relaxed.labels_) > 0.99
    assert make(method, partitioner, imbalance=2).fit(P).loss_ < cut.loss_


@pytest.mark.parametrize(("method", "partitioner"), BALANCED)
def test_points_alike_stay_together(method, partitioner):
    """Points with equal labels stay together, even if too many for a balanced part."""
    kinds = np.array([[0, 0], [0, 1], [1, 2], [2, 2]])
    tuple_of_point = np.repeat([0, 1, 2, 3], [60, 3, 2, 2])
    est = make(method, partitioner).fit(kinds[tuple_of_point])
    assert est.n_clusters_ == 3
    assert all(len(set(est.labels_[tuple_of_point == a])) == 1 for a in range(4))


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_spectral_cspa_is_spectral_clustering_of_the_coassociation(holes):
    """Labels are those of the leading eigenvectors of D^−½ A D^−½ over all points."""
    P, _ = ct.planted_partitions([60, 30, 20], 8, 2, 0.2, random_state=0)
    P[:, 1:] = np.where(np.random.default_rng(4).random((110, 7)) < holes, -1, P[:, 1:])
    weights = np.array([1, 1, 2, 1, 0.5, 1, 1, 1])
    A = ct.coassociation(P, weights)
    root = 1 / np.sqrt(A.sum(axis=1))
    rows = np.linalg.eigh(root[:, None] * A * root)[1][:, -3:]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    dense = KMeans(3, n_init=20, random_state=0).fit_predict(rows)
    est = make(ct.CSPA, "spectral", partition_weights=weights).fit(P)
    assert same_partition(est.labels_, dense)


def test_spectral_hgpa_is_that_of_zhou_huang_and_scholkopf():
    """Labels are those of H√Λ of Θ = D_v^−½ B W D_e^−1 Bᵀ D_v^−½ over all points."""
    P, _ = ct.planted_partitions([60, 30, 20], 8, 2, 0.2, random_state=0)
    weights = np.array([1, 1, 2, 1, 0.5, 1, 1, 1])
    B, partition = incidence(P)
    W = weights[partition]
    root = 1 / np.sqrt(B @ W)
    theta = root[:, None] * (B * (W / B.sum(axis=0))) @ B.T * root
    values, vectors = np.linalg.eigh(theta)
    rows = vectors[:, -3:] * np.sqrt(values[-3:])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    dense = KMeans(3, n_init=20, random_state=0).fit_predict(rows)
    hgpa, hbgf = (
        make(m, "spectral", partition_weights=weights).fit(P).labels_ for m in (ct.HGPA, ct.HBGF)
    )
    assert same_partition(hgpa, dense) and (hgpa == hbgf).all()


@given(label_matrices(max_points=9), st.integers(1, 3), st.sampled_from(["auto", "spectral"]))
@settings(max_examples=25)
def test_losses_are_what_is_cut(P, n_clusters, partitioner):
    """CSPA counts edges, HBGF links with base clusters placed best, HGPA pieces of these."""
    weights = np.arange(1.0, P.shape[1] + 1)
    K = min(n_clusters, len(np.unique(P, axis=0)))
    cspa, hbgf, hgpa = (
        m(K, partitioner=partitioner, partition_weights=weights, random_state=0).fit(P)
        for m in (ct.CSPA, ct.HBGF, ct.HGPA)
    )
    A = dense_graph(P, weights)
    assert cspa.loss_ == pytest.approx(A[cspa.labels_[:, None] != cspa.labels_].sum() / 2)
    B, partition = incidence(P)
    inside = [(B[hbgf.labels_ == b]).sum(axis=0) for b in range(K)]
    assert hbgf.loss_ == pytest.approx(
        weights[partition] @ (B.sum(axis=0) - np.max(inside, axis=0))
    )
    pieces = np.array([len(set(hgpa.labels_[column > 0])) for column in B.T])
    assert hgpa.loss_ == pytest.approx(weights[partition] @ (pieces - 1))
    assert max(cspa.n_clusters_, hbgf.n_clusters_, hgpa.n_clusters_) <= K


@pytest.mark.parametrize("holes", [False, True])
def test_edges_are_counts_or_shares(holes, monkeypatch):
    """METIS gets the sum of weights of a pair, or thousandths if a label is missing."""
    rng = np.random.default_rng(0)
    P, weights = rng.integers(3, size=(20, 4)), rng.integers(1, 5, size=4).astype(float)
    P[:, 1:][rng.random((20, 3)) < 0.3 * holes] = -1
    seen = []
    monkeypatch.setattr(cuts, "missing_packages", lambda _: [])
    monkeypatch.setattr(
        cuts, "cut_graph", lambda A, K, **_: seen.append(A.toarray()) or np.arange(len(P)) % K
    )
    ct.CSPA(2, partition_weights=weights, random_state=0).fit(P)
    expected = dense_graph(P, weights) * (1000 / weights.sum() if holes else 1)
    order = np.argsort(as_label_tuples(P).inverse, kind="stable")
    expected = np.rint(expected[np.ix_(order, order)])
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(seen[0], expected)


@pytest.mark.parametrize("partitioner", ["kahypar", "spectral"])
def test_base_clusters_of_one_point_say_nothing(partitioner):
    """If every base cluster has one point, there are still K clusters."""
    P = np.column_stack([np.arange(12), np.arange(12)[::-1]])
    est = make(ct.HGPA, partitioner).fit(P)
    assert est.n_clusters_ == 3 and est.loss_ == 0


@pytest.mark.parametrize("partitioner", ["metis", "spectral"])
def test_too_large_a_graph_is_refused(partitioner):
    """CSPA limits points with METIS and tuples without it; the other limit is ignored."""
    P = np.repeat(np.arange(4), 5)[:, None]
    limit, other = ("max_points", "max_tuples")[:: 1 if partitioner == "metis" else -1]
    with pytest.raises(TooManyPointsError, match=f"{limit}=3"):
        make(ct.CSPA, partitioner, 2, **{limit: 3}).fit(P)
    assert make(ct.CSPA, partitioner, 2, **{other: 3}).fit(P).n_clusters_ == 2


@pytest.mark.parametrize("method", [ct.CSPA, ct.HBGF, ct.MCLA])
def test_a_few_points_need_not_be_cut_into_equal_parts(method):
    """Seven points in parts of 3, 2 and 2: the example of Strehl and Ghosh comes out right."""
    P = [
        [1, 1, 1, 2, 2, 3, 3],
        [2, 2, 2, 3, 3, 1, 1],
        [1, 1, 2, 2, 3, 3, 3],
        [1, 2, -1, 1, 2, -1, -1],
    ]
    for seed in range(3):
        labels = method(3, random_state=seed).fit(np.transpose(P)).labels_
        assert same_partition(labels, np.array([0, 0, 0, 1, 1, 2, 2]))


@given(label_matrices(), st.integers(1, 4))
@settings(max_examples=25)
def test_meta_clusters_are_voted_by_the_mean_of_their_members(P, K):
    """Groups are those of SciPy's average linkage; the share is that of members with the point."""
    tuples = as_label_tuples(P)
    similarity = jaccard_similarity(all_contingencies(tuples), tuples.offsets)
    alpha, m = np.arange(1.0, P.shape[1] + 1), tuples.n_columns
    labels, largest = cuts.meta_cluster_labels(
        tuples, alpha, K, similarity, np.random.RandomState(0)
    )
    codes = tuples.codes
    if 1 < K < m:
        tree = linkage(squareform(1 - similarity, checks=False), "average")
        if np.diff(tree[:, 2]).min(initial=1) < 1e-9:
            return  # ties: the groups are not unique
        meta = cut_tree(tree, K).ravel()
    else:
        meta = np.arange(m) % K
    for a, row in enumerate(codes):
        shares = []
        for b in range(meta.max() + 1):
            possible = [c for c in np.flatnonzero(meta == b) if row[tuples.partition_of[c]] >= 0]
            votes = alpha[tuples.partition_of[possible]]
            shares.append(votes[np.isin(possible, row)].sum() / max(votes.sum(), 1e-300))
        assert largest[a] == pytest.approx(max(shares))
        if sum(share > max(shares) - 1e-9 for share in shares) == 1:
            others = [i for i in range(len(codes)) if labels[i] == labels[a]]
            assert a in others


def test_ties_between_meta_clusters_are_drawn():
    """Equal shares are drawn by the seed, tuple by tuple; a tuple without a label gets −1."""
    column = np.arange(200)
    tuples = as_label_tuples(np.column_stack([column, column + 200, np.full(200, -1)])[:, :2])
    similarity = np.eye(400)
    draws = [
        cuts.meta_cluster_labels(tuples, np.ones(2), 400, similarity, np.random.RandomState(seed))[
            0
        ]
        for seed in (0, 0, 1)
    ]
    first = (draws[0] == tuples.codes[:, 0]).sum()
    assert 60 < first < 140 and np.isin(draws[0][:, None], tuples.codes).all()
    assert (draws[0] == draws[1]).all() and (draws[0] != draws[2]).any()
    some = as_label_tuples([[0, 0], [1, -1]]).restricted_to(np.array([False, True]))[0]
    similarity = jaccard_similarity(all_contingencies(some), some.offsets)
    found, shares = cuts.meta_cluster_labels(
        some, np.ones(1), 2, similarity, np.random.RandomState(0)
    )
    assert (found == -1).tolist() == (shares == 0).tolist() == (some.codes[:, 0] < 0).tolist()


@pytest.mark.parametrize("partitioner", ["metis", "linkage"])
def test_matched_labels_give_the_majority(partitioner):
    """If base clusters match one to one, a point gets its most common label."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], [30, 25, 20])
    P = np.where(rng.random((75, 7)) < 0.3, rng.integers(3, size=(75, 7)), y[:, None])
    est = make(ct.MCLA, partitioner).fit(P)
    votes = np.array([(P == c).sum(axis=1) for c in range(3)])
    decided = (votes == votes.max(axis=0)).sum(axis=0) == 1
    assert decided.mean() > 0.9
    assert same_partition(est.labels_[decided], votes.argmax(axis=0)[decided])
    assert est.loss_ == pytest.approx(1 - votes.max(axis=0).mean() / 7)


@pytest.mark.parametrize("partitioner", ["metis", "linkage"])
def test_unequal_clusters_are_found_by_balanced_meta_clusters(partitioner):
    """Base clusters are balanced, not points; there are at most as many as base clusters."""
    P, y = ct.planted_partitions([200, 60, 40], 12, 0, 0.2, random_state=0)
    est = make(ct.MCLA, partitioner).fit(P)
    assert est.partitioner_ == partitioner and ct.clustering_accuracy(y, est.labels_) > 0.99
    corners = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    assert 2 <= make(ct.MCLA, partitioner, 8).fit(corners).n_clusters_ <= 6


# The packages


@pytest.mark.parametrize("method", [ct.CSPA, ct.HBGF, ct.HGPA, ct.MCLA])
def test_a_package_is_used_if_it_is_installed(method, monkeypatch):
    """auto is the package or the fallback; a package asked for is refused with its command."""
    package = "kahypar" if method is ct.HGPA else "metis"
    fallback = "linkage" if method is ct.MCLA else "spectral"
    made = types.ModuleType(MODULES[package])
    made.__spec__ = ModuleSpec(made.__name__, None)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    assert cuts.choose_partitioner("auto", package, fallback) == package
    assert cuts.choose_partitioner(package, package, fallback) == package
    monkeypatch.setitem(sys.modules, made.__name__, None)
    P, y = ct.planted_partitions([30, 20, 10], 8, 0, 0.1, random_state=0)
    est = method(3, random_state=0).fit(P)
    assert est.partitioner_ == fallback and ct.clustering_accuracy(y, est.labels_) == 1
    message = rf"{made.__name__}.*pip install .*\[partitioners\]'.*partitioner='{fallback}'"
    with pytest.raises(MissingExtraError, match=message):
        method(3, partitioner=package).fit(P)


@given(
    arrays(np.float64, st.integers(1, 8), elements=st.integers(1, 1000).map(float)),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=25)
def test_whole_weights_are_exact(weights, scale):
    """Whole numbers keep their ratios exactly, other weights to a thousandth of the largest."""
    whole = cuts.whole_number_weights(weights)
    assert whole.dtype == np.int64
    assert whole / whole.max() == pytest.approx(weights / weights.max(), rel=1e-12)
    scaled = cuts.whole_number_weights(weights * scale)
    assert (scaled >= 1).all() and scaled.max() <= 1000
    assert np.abs(scaled / scaled.max() - weights / weights.max()).max() <= 1e-3
    assert (cuts.whole_number_weights(np.full(4, scale)) == 1).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_least_balanced_cut_is_found(seed):
    """Of eight vertices in two noisy blocks METIS finds the least of all even bisections."""
    pytest.importorskip("pymetis", reason=NEEDED)
    rng = np.random.default_rng(seed)
    A = blocks([4, 4])[0] + np.triu(rng.integers(3, size=(8, 8)), 1)
    A = np.triu(A, 1) + np.triu(A, 1).T

    def weight(z):
        return A[z[:, None] != z].sum() / 2

    even = [z for z in all_partitions(8, 2) if z.sum() == 4]
    parts = cut_graph(csr_array(A), 2, random_state=seed)
    assert parts.sum() == 4 and weight(parts) == min(map(weight, even))


@pytest.mark.parametrize("n_parts", [2, 3, 5, 12])
def test_parts_are_balanced(n_parts):
    """No part exceeds its share by more than the imbalance, rounded up."""
    pytest.importorskip("pymetis", reason=NEEDED)
    A = np.triu(np.random.default_rng(n_parts).integers(4, size=(120, 120)), 1)
    for graph in (csr_array(A + A.T), csr_array((120, 120), dtype=np.int64)):
        parts = cut_graph(graph, n_parts, imbalance=0.05, random_state=0)
        sizes = np.bincount(parts, minlength=n_parts)
        assert sizes.min() > 0 and sizes.max() <= np.ceil(1.05 * np.ceil(120 / n_parts))


def test_the_order_of_vertices_does_not_decide():
    """If all cuts are equal, the seed decides, not the order of the vertices."""
    pytest.importorskip("pymetis", reason=NEEDED)
    A = csr_array(blocks([40], inside=1)[0])
    answers = [cut_graph(A, 2, random_state=seed) for seed in (0, 0, 1, 2)]
    assert (answers[0] == answers[1]).all()
    assert not same_partition(answers[0], answers[2])
    assert not same_partition(answers[2], answers[3])
    assert all(5 < np.sum(parts[:20] == parts[0]) < 15 for parts in answers)


@pytest.mark.parametrize(
    ("results", "taken", "runs"),
    [
        ({(False, False): (5, 3), (True, False): (3, 3)}, (True, False), 2),
        ({(False, False): (5, 3), (True, False): (3, 2)}, (False, False), 2),
        ({(False, False): (5, 2), (True, False): (3, 1), (True, True): (9, 3)}, (True, True), 3),
        ({(False, False): (5, 2), (True, False): (3, 1), (True, True): (9, 1)}, (False, False), 3),
    ],
)
def test_the_best_of_several_cuts_is_taken(monkeypatch, results, taken, runs):
    """Fewest empty parts win, then least weight; bisection runs only if needed."""
    asked = []

    def part_graph(n_parts, graph, vweights, eweights, options, recursive):
        asked.append((not options["no2hop"], recursive))
        assert options["ufactor"] == 111  # a part of 3 may have one vertex more
        weight, n_filled = results[asked[-1]]
        return weight, np.minimum(np.arange(9) // len(asked), n_filled - 1)  # sizes tell the call

    metis = types.SimpleNamespace(part_graph=part_graph, CSRAdjacency=lambda *_: None, Options=dict)
    monkeypatch.setitem(sys.modules, "pymetis", metis)
    parts = cut_graph(csr_array((9, 9), dtype=np.int64), 3, random_state=0)
    call = asked.index(taken) + 1
    expected = np.bincount(np.minimum(np.arange(9) // call, results[taken][1] - 1))
    assert np.bincount(parts).tolist() == expected.tolist() and len(asked) == runs


def test_weightless_vertices_do_not_count():
    """Two blocks with different numbers of weightless vertices are not cut."""
    pytest.importorskip("pymetis", reason=NEEDED)
    A, y = blocks([30, 12], inside=5, between=0)
    weights = np.concatenate([np.repeat([1, 0], [10, 20]), np.repeat([1, 0], [10, 2])])
    assert same_partition(cut_graph(csr_array(A), 2, vertex_weights=weights, random_state=0), y)


def test_base_clusters_are_cut_as_hyperedges():
    """Three blocks of heavy hyperedges are found despite a lighter one across."""
    pytest.importorskip("mtkahypar", reason=NEEDED)
    y = np.tile([0, 1, 2], 20)
    across = (np.arange(60) < 30).astype(int)[:, None]
    B = csc_array(np.hstack([np.tile(np.eye(3, dtype=int)[y], (1, 2)), across]))
    parts = cut_hypergraph(B, np.array([3] * 6 + [1]), 3, random_state=0)
    assert same_partition(parts, y)


def test_the_hypergraph_partitioner_is_quiet_and_repeatable(capfd):
    """Nothing is printed, and equal seeds give equal parts, even with another call between."""
    pytest.importorskip("mtkahypar", reason=NEEDED)
    B = csc_array(np.random.default_rng(0).integers(2, size=(50, 12)))
    a, _, b = (cut_hypergraph(B, np.ones(12, int), 4, random_state=s) for s in (0, 1, 0))
    assert (a == b).all() and np.bincount(a).max() <= np.ceil(1.05 * np.ceil(50 / 4))
    assert capfd.readouterr() == ("", "")


def test_equal_hyperedges_are_one_and_single_vertices_none():
    """Copies add their weights; without hyperedges of several vertices, parts are even."""
    pytest.importorskip("mtkahypar", reason=NEEDED)
    B = np.array([[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]])
    # the pair (0, 1) weighs 3 in two copies, the other hyperedge 2
    for weights, kept in (([1, 2, 7, 2], (0, 1)), ([1, 1, 7, 9], (1, 2))):
        parts = cut_hypergraph(csc_array(B), np.array(weights), 2, imbalance=0.6, random_state=0)
        assert len({parts[i] for i in kept}) == 1
    for n_parts in (1, 3):
        parts = cut_hypergraph(csc_array(np.eye(9, dtype=int)), np.ones(9, int), n_parts)
        assert (np.bincount(parts) == 9 // n_parts).all()


@given(arrays(np.int64, (5, 3), elements=st.integers(0, 4)))
@settings(max_examples=25)
def test_the_fewest_points_are_moved(counts):
    """The result moves the fewest points of all assignments without an empty part."""
    counts[:, 0] += counts.sum(axis=1) == 0
    points, parts = (np.repeat(x.ravel(), counts.ravel()) for x in np.indices(counts.shape))
    labels = cuts.most_common_parts(points, parts, 5, 3)
    assert set(labels.tolist()) == {0, 1, 2}
    kept = max(
        counts[np.arange(5), list(z)].sum() for z in product(range(3), repeat=5) if len({*z}) == 3
    )
    assert counts[np.arange(5), labels].sum() == kept
