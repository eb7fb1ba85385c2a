"""Wrappers of METIS and mt-KaHyPar."""

import sys
import types
from importlib.machinery import ModuleSpec
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csc_array, csr_array

from all_partitions import all_partitions, same_partition
from coterie.consensus.cuts import partitioners
from coterie.errors import InvalidParameterError, MissingExtraError

NEEDED = "the extra 'partitioners' is not installed"
PACKAGES = [("metis", "pymetis", "spectral"), ("kahypar", "mtkahypar", "linkage")]


def blocks(sizes, inside=5, between=1):
    """Adjacency of a graph of blocks: heavy edges inside, light ones between."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    A = np.where(y[:, None] == y, inside, between)
    np.fill_diagonal(A, 0)
    return A, y


def cut_weight(A, parts):
    """Σ_{i<j, parts differ} A_ij."""
    return A[parts[:, None] != parts].sum() / 2


@pytest.mark.parametrize(("package", "module", "fallback"), PACKAGES)
def test_a_package_is_taken_if_there_is_one(monkeypatch, package, module, fallback):
    """auto is the package if it is installed, else the fallback."""
    made = types.ModuleType(module)
    made.__spec__ = ModuleSpec(module, None)
    monkeypatch.setitem(sys.modules, module, made)
    assert partitioners.choose_partitioner("auto", package, fallback) == package
    assert partitioners.choose_partitioner(package, package, fallback) == package
    monkeypatch.setitem(sys.modules, module, None)
    assert partitioners.choose_partitioner("auto", package, fallback) == fallback
    assert partitioners.choose_partitioner(fallback, package, fallback) == fallback


@pytest.mark.parametrize(("package", "module", "fallback"), PACKAGES)
def test_a_package_asked_for_must_be_there(monkeypatch, package, module, fallback):
    """The message names the package, its extra, and the fallback."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"\[partitioners\]") as caught:
        partitioners.choose_partitioner(package, package, fallback)
    assert module in str(caught.value) and repr(fallback) in str(caught.value)


@pytest.mark.parametrize("wanted", ["kahypar", "METIS", "", None, 3])
def test_other_partitioners_are_refused(wanted):
    """The message names the unknown partitioner and the valid ones."""
    with pytest.raises(InvalidParameterError, match=r"'auto', 'metis' or 'spectral'") as caught:
        partitioners.choose_partitioner(wanted, "metis", "spectral")
    assert f"partitioner={wanted!r}" in str(caught.value)


@given(
    arrays(np.float64, st.integers(1, 8), elements=st.integers(1, 1000).map(float)),
    st.floats(1e-3, 1e3),
)
@settings(deadline=None, max_examples=25)
def test_whole_weights_are_exact(weights, scale):
    """Whole numbers keep their ratios exactly, other weights to a thousandth of the largest."""
    whole = partitioners.whole_number_weights(weights)
    assert whole.dtype == np.int64
    assert whole / whole.max() == pytest.approx(weights / weights.max(), rel=1e-12)
    scaled = partitioners.whole_number_weights(weights * scale)
    assert (scaled >= 1).all() and scaled.max() <= 1000
    assert np.abs(scaled / scaled.max() - weights / weights.max()).max() <= 1e-3


def test_equal_weights_are_ones():
    """Equal weights of any size become ones."""
    assert (partitioners.whole_number_weights(np.full(4, 0.3)) == 1).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_least_balanced_cut_is_found(seed):
    """Of eight vertices in two noisy blocks METIS finds the least of all even bisections."""
    pytest.importorskip("pymetis", reason=NEEDED)
    rng = np.random.default_rng(seed)
    A = blocks([4, 4])[0] + np.triu(rng.integers(3, size=(8, 8)), 1)
    A = np.triu(A, 1) + np.triu(A, 1).T
    even = [z for z in all_partitions(8, 2) if z.sum() == 4]
    parts = partitioners.cut_graph(csr_array(A), 2, random_state=seed)
    assert parts.sum() == 4
    assert cut_weight(A, parts) == min(cut_weight(A, z) for z in even)


@pytest.mark.parametrize("n_parts", [2, 3, 5, 12])
def test_parts_are_balanced(n_parts):
    """No part exceeds its share by more than the imbalance, rounded up."""
    pytest.importorskip("pymetis", reason=NEEDED)
    rng = np.random.default_rng(n_parts)
    A = np.triu(rng.integers(4, size=(120, 120)), 1)
    parts = partitioners.cut_graph(csr_array(A + A.T), n_parts, imbalance=0.05, random_state=0)
    sizes = np.bincount(parts, minlength=n_parts)
    assert sizes.min() > 0 and sizes.max() <= np.ceil(1.05 * np.ceil(120 / n_parts))


def test_vertices_that_weigh_nothing_do_not_count_in_the_balance():
    """Two blocks with different numbers of weightless vertices are not cut."""
    pytest.importorskip("pymetis", reason=NEEDED)
    A, y = blocks([30, 12], inside=5, between=0)
    weights = np.concatenate([np.repeat([1, 0], [10, 20]), np.repeat([1, 0], [10, 2])])
    parts = partitioners.cut_graph(csr_array(A), 2, vertex_weights=weights, random_state=0)
    assert same_partition(parts, y)


def test_the_order_of_vertices_does_not_decide():
    """If all cuts are equal, the seed decides, not the order of the vertices."""
    pytest.importorskip("pymetis", reason=NEEDED)
    A = csr_array(blocks([40], inside=1)[0])
    answers = [partitioners.cut_graph(A, 2, random_state=seed) for seed in (0, 0, 1, 2)]
    assert (answers[0] == answers[1]).all()
    assert not same_partition(answers[0], answers[2])
    assert not same_partition(answers[2], answers[3])
    assert all(5 < np.sum(parts[:20] == parts[0]) < 15 for parts in answers)


def test_a_graph_without_edges_is_cut_evenly():
    """A graph without edges is divided evenly."""
    pytest.importorskip("pymetis", reason=NEEDED)
    parts = partitioners.cut_graph(csr_array((9, 9), dtype=np.int64), 3, random_state=0)
    assert (np.bincount(parts) == 3).all()


@pytest.mark.parametrize(
    ("cuts", "taken", "runs"),
    [
        ({(False, False): (5, 0), (True, False): (3, 0)}, (True, False), 2),
        ({(False, False): (5, 0), (True, False): (3, 1)}, (False, False), 2),
        ({(False, False): (5, 1), (True, False): (3, 2), (True, True): (9, 0)}, (True, True), 3),
        ({(False, False): (5, 1), (True, False): (3, 2), (True, True): (9, 2)}, (False, False), 3),
    ],
)
def test_the_best_of_several_cuts_is_taken(monkeypatch, cuts, taken, runs):
    """Fewest empty parts win, then least weight; bisection runs only if needed."""
    asked = []

    def run(graph, weights, n_parts, imbalance, seed, two_hop, recursive=False):
        asked.append((two_hop, recursive))
        parts = np.full(len(weights), list(cuts).index((two_hop, recursive)))
        return partitioners._Cut(parts, *cuts[two_hop, recursive])

    monkeypatch.setattr(partitioners, "_run_metis", run)
    parts = partitioners.cut_graph(csr_array((6, 6), dtype=np.int64), 3, random_state=0)
    assert (parts == list(cuts).index(taken)).all() and len(asked) == runs


def test_parts_of_weightless_vertices_are_empty():
    """A part of weightless vertices counts as empty."""
    pytest.importorskip("pymetis", reason=NEEDED)
    A = csr_array(blocks([3, 3], between=0)[0])
    cut = partitioners._run_metis(A, np.repeat([1, 0], 3), 2, 0.05, 0, two_hop=False)
    held = {part for part, weight in zip(cut.parts, np.repeat([1, 0], 3), strict=True) if weight}
    assert cut.n_empty == 2 - len(held)
    assert cut.weight == cut_weight(A.toarray(), cut.parts)


def test_base_clusters_are_cut_as_hyperedges():
    """Three blocks of heavy hyperedges are found despite a lighter one across."""
    pytest.importorskip("mtkahypar", reason=NEEDED)
    y = np.tile([0, 1, 2], 20)
    blocks_of = np.tile(np.eye(3, dtype=int)[y], (1, 2))
    across = (np.arange(60) < 30).astype(int)[:, None]
    parts = partitioners.cut_hypergraph(
        csc_array(np.hstack([blocks_of, across])), np.array([3] * 6 + [1]), 3, random_state=0
    )
    assert same_partition(parts, y)


def test_the_hypergraph_partitioner_is_quiet_and_repeatable(capfd):
    """Nothing is printed, and equal seeds give equal parts, also with another call between."""
    pytest.importorskip("mtkahypar", reason=NEEDED)
    B = csc_array(np.random.default_rng(0).integers(2, size=(50, 12)))
    a, _, b = (
        partitioners.cut_hypergraph(B, np.ones(12, int), 4, random_state=s) for s in (0, 1, 0)
    )
    assert (a == b).all() and np.bincount(a).max() <= np.ceil(1.05 * np.ceil(50 / 4))
    assert capfd.readouterr() == ("", "")


def test_equal_hyperedges_are_one_and_single_vertices_none():
    """Copies add their weights; a hyperedge of one vertex cannot be cut and is left out."""
    B = csc_array([[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 1]])
    hyperedges, weights = partitioners._distinct_hyperedges(B, np.array([1, 2, 7, 4]))
    assert [own.tolist() for own in hyperedges] == [[0, 1], [1, 2]]
    assert weights == [3, 4]


@pytest.mark.parametrize("n_parts", [1, 3])
def test_a_hypergraph_without_hyperedges_is_dealt_out(n_parts):
    """Without hyperedges the vertices are divided evenly, without a package."""
    B = csc_array(np.eye(9, dtype=int))
    parts = partitioners.cut_hypergraph(B, np.ones(9, int), n_parts, random_state=0)
    assert (np.bincount(parts) == 9 // n_parts).all()


@given(arrays(np.int64, (5, 3), elements=st.integers(0, 4)))
@settings(deadline=None, max_examples=25)
def test_the_fewest_points_are_moved(counts):
    """The result moves the fewest points of all assignments without an empty part."""
    counts[:, 0] += counts.sum(axis=1) == 0
    points, parts = (np.repeat(x.ravel(), counts.ravel()) for x in np.indices(counts.shape))
    labels = partitioners.most_common_parts(points, parts, 5, 3)
    assert set(labels.tolist()) == {0, 1, 2}
    kept = max(
        counts[np.arange(5), list(z)].sum() for z in product(range(3), repeat=5) if len({*z}) == 3
    )
    assert counts[np.arange(5), labels].sum() == kept
