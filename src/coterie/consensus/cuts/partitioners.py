"""Balanced cuts of graphs (METIS) and hypergraphs (mt-KaHyPar), both optional packages.

A partitioner breaks ties by the index of a vertex. Data are often sorted by class, so the order of
rows would leak the classes into the result. Therefore every call shuffles the vertices.
"""

from __future__ import annotations

import functools
import threading
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csc_array, csr_array
from sklearn.utils import check_random_state

from coterie.consensus.parameters import check_choice
from coterie.runtime.imports import missing_packages, require_extra

__all__ = [
    "choose_partitioner",
    "cut_graph",
    "cut_hypergraph",
    "most_common_parts",
    "whole_number_weights",
]

Labels = NDArray[np.int64]

_MODULES = {"metis": "pymetis", "kahypar": "mtkahypar"}
_LARGEST_WEIGHT = 1000
_LARGEST_SEED = 2**31 - 1  # a signed 32-bit integer
_KAHYPAR_LOCK = threading.Lock()  # its random number generator is shared by the process


def choose_partitioner(wanted: Any, package: str, fallback: str) -> str:
    """Return the partitioner; ``"auto"`` is the package if it is installed, else the fallback.

    ``wanted`` is "auto", the package ("metis" or "kahypar"), or the fallback, which needs no
    package.

    >>> choose_partitioner("spectral", "metis", "spectral")
    'spectral'
    """
    check_choice("partitioner", wanted, ("auto", package, fallback))
    if wanted == "auto":
        return fallback if missing_packages([_MODULES[package]]) else package
    if wanted == package:
        require_extra(
            "partitioners",
            f"partitioner={package!r} needs",
            _MODULES[package],
            instead=f"or use partitioner={fallback!r}, which needs no package",
        )
    return str(wanted)


def whole_number_weights(weights: NDArray[np.float64]) -> Labels:
    """Convert positive weights to the whole numbers that partitioners need.

    Ratios stay exact if all weights are multiples of the smallest, at most 1,000 times as large, or
    whole numbers up to 1,000. Others are scaled to a maximum of 1,000 and rounded, to at least 1.

    >>> whole_number_weights(np.array([0.5, 0.5, 1.5]))
    array([1, 1, 3])
    >>> whole_number_weights(np.array([2.0, 3.0])), whole_number_weights(np.array([0.2, 0.3]))
    (array([2, 3]), array([ 667, 1000]))
    """
    for scaled in (weights / weights.min(), weights):
        whole = np.rint(scaled)
        if whole.max() <= _LARGEST_WEIGHT and np.allclose(scaled, whole, rtol=1e-9, atol=0):
            return whole.astype(np.int64)
    scaled = weights * (_LARGEST_WEIGHT / weights.max())
    return np.maximum(np.rint(scaled), 1).astype(np.int64)


def cut_graph(
    adjacency: csr_array,
    n_parts: int,
    *,
    vertex_weights: Labels | None = None,
    imbalance: float = 0.05,
    random_state: Any = None,
) -> Labels:
    """Cut a graph into K parts by METIS, with the least weight of cut edges.

        min Σ_{i<j, parts differ} A_ij   s.t.   weight of a part ≤ (1 + imbalance) · total / K

    A part may always have ⌈total / K⌉ and one more: with few vertices no cut is nearer to balance.

    The result is the better of two cuts. METIS merges vertices before it cuts; by default also
    vertices two steps apart, such as all points of a base cluster, which may be unrelated. The
    other cut does not merge these. If both cuts leave a part empty, recursive bisection is tried
    too. It leaves parts empty only if K is nearly n.

    Parameters
    ----------
    adjacency : (n, n) sparse, symmetric, whole numbers, no diagonal
    n_parts : int
        K, between 1 and n.
    vertex_weights : (n,) whole numbers from 0 up, optional
    imbalance : float
    random_state : int, RandomState or None

    Returns
    -------
    parts : (n,)
    """
    rng = check_random_state(random_state)
    order, place = _shuffled(adjacency.shape[0], rng)
    # shuffle rows and columns alike
    rows = adjacency[order]
    rows.indices = place[rows.indices]
    weights = np.ones(len(order), int) if vertex_weights is None else vertex_weights[order]
    seed = int(rng.randint(_LARGEST_SEED))
    total = int(weights.sum())
    feasible = (-(-total // n_parts) * n_parts + 1) / max(total, 1) - 1
    run = functools.partial(_run_metis, rows, weights, n_parts, max(imbalance, feasible), seed)
    cuts = [run(two_hop=False), run(two_hop=True)]
    if all(cut.n_empty for cut in cuts):
        cuts.append(run(two_hop=True, recursive=True))
    return min(cuts, key=lambda cut: (cut.n_empty, cut.weight)).parts[place]


def cut_hypergraph(
    incidence: csc_array,
    edge_weights: Labels,
    n_parts: int,
    *,
    imbalance: float = 0.05,
    random_state: Any = None,
) -> Labels:
    """Cut a hypergraph into K parts by mt-KaHyPar, splitting few hyperedges.

        min Σ_e w_e (λ_e − 1)   s.t.   size of a part ≤ (1 + imbalance) · n / K

    λ_e is the number of parts with vertices of hyperedge e. Equal hyperedges are merged, and those
    of one vertex dropped; the cost stays the same. If none is left, every cut has cost 0, and the
    shuffled vertices are distributed evenly.

    Parameters
    ----------
    incidence : (n, m) sparse
        Vertex i is in hyperedge e if the entry is not 0.
    edge_weights : (m,) whole numbers from 1 up
    n_parts : int
        K, between 1 and n.
    imbalance : float
    random_state : int, RandomState or None

    Returns
    -------
    parts : (n,)
    """
    rng = check_random_state(random_state)
    n = incidence.shape[0]
    _, place = _shuffled(n, rng)
    hyperedges, weights = _distinct_hyperedges(incidence, edge_weights)
    if n_parts == 1 or not hyperedges:
        return place % n_parts
    pins = [place[vertices].tolist() for vertices in hyperedges]
    parts = _run_kahypar(n, pins, weights, n_parts, imbalance, int(rng.randint(_LARGEST_SEED)))
    return parts[place]


def most_common_parts(points: Labels, parts: Labels, n_tuples: int, n_parts: int) -> Labels:
    """Return one part for each tuple, that of most of its points, without empty parts.

    A balanced cut may separate points with equal labels; here they are put together again. If this
    empties a part, the assignment of parts to tuples that moves the fewest points is used.

    Parameters
    ----------
    points : (n,)
        Tuple of each point; every tuple has a point.
    parts : (n,)
        Part of each point.
    n_tuples, n_parts : int
        No more parts than tuples.

    Returns
    -------
    labels : (n_tuples,)
        The lowest part if several have the most points.

    Examples
    --------
    >>> most_common_parts(np.array([0, 0, 0, 1, 2]), np.array([1, 1, 0, 0, 0]), 3, 2)
    array([1, 0, 0])

    Most points of tuples 1 and 2 are in part 2. Part 1 must not be empty, so tuple 2 gets it:

    >>> points = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    >>> most_common_parts(points, np.array([0, 0, 1, 2, 2, 2, 2, 2, 1]), 3, 3)
    array([0, 2, 1])
    """
    cells = np.bincount(points * n_parts + parts, minlength=n_tuples * n_parts)
    counts = cells.reshape(n_tuples, n_parts)
    labels = counts.argmax(axis=1)
    if len(np.unique(labels)) < n_parts:
        # moved[p, a]: number of points that move if tuple a gets part p
        moved = counts.max(axis=1) - counts.T
        part, tuple_ = linear_sum_assignment(moved)
        labels[tuple_] = part
    return labels


def _shuffled(n: int, rng: Any) -> tuple[Labels, Labels]:
    """Return a random order of n vertices, and the position of each vertex in it."""
    order = rng.permutation(n)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    return order, place


def _distinct_hyperedges(
    incidence: csc_array, edge_weights: Labels
) -> tuple[list[NDArray[Any]], list[int]]:
    """Return vertices and weight of every hyperedge with several vertices; merge equal ones."""
    incidence.sort_indices()
    members: dict[bytes, NDArray[Any]] = {}
    total: dict[bytes, int] = {}
    for e, weight in enumerate(edge_weights.tolist()):
        vertices = incidence.indices[incidence.indptr[e] : incidence.indptr[e + 1]]
        if len(vertices) > 1:
            key = vertices.tobytes()
            members[key] = vertices
            total[key] = total.get(key, 0) + weight
    return list(members.values()), list(total.values())


class _Cut(NamedTuple):
    """A METIS result: parts of the vertices, weight of the cut edges, number of empty parts."""

    parts: Labels
    weight: int
    n_empty: int


def _run_metis(
    graph: csr_array,
    weights: Labels,
    n_parts: int,
    imbalance: float,
    seed: int,
    two_hop: bool,
    recursive: bool = False,
) -> _Cut:
    metis = import_module(_MODULES["metis"])
    slack = max(1, round(1000 * imbalance))  # METIS: load imbalance in thousandths
    weight, found = metis.part_graph(
        n_parts,
        metis.CSRAdjacency(graph.indptr.astype(np.int64), graph.indices.astype(np.int64)),
        vweights=weights.astype(np.int64),
        eweights=graph.data.astype(np.int64) if graph.nnz else None,
        options=metis.Options(seed=seed, ufactor=slack, no2hop=int(not two_hop)),
        recursive=recursive,
    )
    parts = np.asarray(found, dtype=np.int64)
    filled = np.bincount(parts, weights, minlength=n_parts) > 0
    return _Cut(parts, int(weight), int(n_parts - filled.sum()))


def _run_kahypar(
    n: int, pins: list[list[int]], weights: list[int], n_parts: int, imbalance: float, seed: int
) -> Labels:
    """Cut n vertices of unit weight; ``pins`` are the vertices of each hyperedge."""
    kahypar = import_module(_MODULES["kahypar"])
    with _KAHYPAR_LOCK:
        start = _initialised_kahypar()
        kahypar.set_seed(seed)
        context = start.context_from_preset(kahypar.PresetType.DETERMINISTIC)
        context.set_partitioning_parameters(n_parts, imbalance, kahypar.Objective.KM1)
        context.logging = False
        hypergraph = start.create_hypergraph(context, n, len(pins), pins, [1] * n, weights)
        return np.asarray(hypergraph.partition(context).get_partition(), dtype=np.int64)


@functools.cache
def _initialised_kahypar() -> Any:
    """Initialise mt-KaHyPar, which may be done only once per process."""
    # one thread: a pool of threads would not survive a fork
    return import_module(_MODULES["kahypar"]).initialize(1, print_warnings=False)
