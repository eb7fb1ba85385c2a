"""Balanced cuts of graphs (METIS) and hypergraphs (mt-KaHyPar), both optional packages.

A partitioner breaks ties by the number of a vertex. Data are often sorted by class, so that the
order of rows would leak into the answer: every call here shuffles the vertices first, by the
caller's random state, and puts the answer back in order.
"""

from __future__ import annotations

import functools
import threading
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csc_array, csr_array
from sklearn.utils import check_random_state

from coterie.errors import InvalidParameterError, MissingExtraError

__all__ = [
    "check_imbalance",
    "choose_partitioner",
    "cut_graph",
    "cut_hypergraph",
    "most_common_parts",
    "whole_number_weights",
]

Labels = NDArray[np.int64]

_MODULES = {"metis": "pymetis", "kahypar": "mtkahypar"}
_LARGEST_WEIGHT = 1000
_LARGEST_SEED = 2**31 - 1
# mt-KaHyPar has one random number generator for the whole process
_KAHYPAR_LOCK = threading.Lock()


def choose_partitioner(wanted: Any, package: str, fallback: str) -> str:
    """The partitioner to use: ``"auto"`` is the package if it is installed, else the fallback.

    Parameters
    ----------
    wanted : str
        ``"auto"``, the package, or the fallback; anything else is refused.
    package : {"metis", "kahypar"}
    fallback : str
        What does without a package.

    >>> choose_partitioner("spectral", "metis", "spectral")
    'spectral'
    """
    choices = ("auto", package, fallback)
    if wanted not in choices:
        raise InvalidParameterError(
            f"partitioner={wanted!r}: it may be {', '.join(map(repr, choices[:-1]))} "
            f"or {choices[-1]!r}"
        )
    installed = find_spec(_MODULES[package]) is not None
    if wanted == "auto":
        return package if installed else fallback
    if wanted == package and not installed:
        raise MissingExtraError(
            f"partitioner={package!r} needs the package {_MODULES[package]}, which is not "
            "installed: pip install 'coterie[partitioners]', or take "
            f"partitioner={fallback!r}, which needs nothing"
        )
    return str(wanted)


def check_imbalance(imbalance: Any) -> float:
    """The share by which a part may exceed n/K, as a float from 0 up.

    >>> check_imbalance(0.05)
    0.05
    """
    number = isinstance(imbalance, Real) and not isinstance(imbalance, bool)
    if not number or not 0 <= float(imbalance) < np.inf:
        raise InvalidParameterError(
            f"imbalance={imbalance!r}: give a number from 0 up, such as 0.05 for parts that "
            "exceed their share by at most a twentieth"
        )
    return float(imbalance)


def whole_number_weights(weights: NDArray[np.float64]) -> Labels:
    """Positive weights as the whole numbers that partitioners want.

    Multiples of the smallest weight up to a thousandfold keep their exact ratios, and so do
    whole numbers up to 1,000. Others are scaled to a largest of 1,000 and rounded, none below 1.

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
    """Parts of the vertices with the least weight of edges cut, by METIS.

        min Σ_{i<j, parts differ} A_ij   s.t.   weight of a part ≤ (1 + imbalance) · total / K

    The better of two K-way cuts. METIS merges vertices before it cuts them, by default also
    those two steps apart; all points of a base cluster are, and unrelated ones may be merged
    for good, so the other cut does without. Where both leave a part empty, which happens when K
    is not small beside n, recursive bisection is tried too; it does so only when K is nearly n.

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
    rows = adjacency[order]
    rows.indices = place[rows.indices]
    weights = np.ones(len(order), int) if vertex_weights is None else vertex_weights[order]
    seed = int(rng.randint(_LARGEST_SEED))
    run = functools.partial(_run_metis, rows, weights, n_parts, imbalance, seed)
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
    """Parts of the vertices that the hyperedges spread over least, by mt-KaHyPar.

        min Σ_e w_e (λ_e − 1)   s.t.   size of a part ≤ (1 + imbalance) · n / K

    λ_e is the number of parts that hyperedge e touches. Equal hyperedges are merged and those
    of one vertex dropped, which changes no cut. If none is left, every cut is as good as any
    other, and the shuffled vertices are dealt out in turn.

    Parameters
    ----------
    incidence : (n, m) sparse
        Vertex i lies in hyperedge e where it is not 0.
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
    """One part for each tuple: that of most of its points, but no part is left empty.

    Points nobody can tell apart must not be told apart, though a balanced cut may have
    done so. Of all ways to give each tuple one part and each part a tuple, the one that
    moves the fewest points: where the largest shares alone leave a part empty, an optimal
    assignment of parts to tuples finds who must yield.

    Parameters
    ----------
    points : (n,)
        Tuple of each point; every tuple has one.
    parts : (n,)
        Part of each point.
    n_tuples, n_parts : int
        No more parts than tuples.

    Returns
    -------
    labels : (n_tuples,)
        The lowest part where several have the most points.

    Examples
    --------
    >>> most_common_parts(np.array([0, 0, 0, 1, 2]), np.array([1, 1, 0, 0, 0]), 3, 2)
    array([1, 0, 0])

    Most points of tuples 1 and 2 are in part 2; tuple 2 keeps one of its own in taking part 1:

    >>> points = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    >>> most_common_parts(points, np.array([0, 0, 1, 2, 2, 2, 2, 2, 1]), 3, 3)
    array([0, 2, 1])
    """
    cells = np.bincount(points * n_parts + parts, minlength=n_tuples * n_parts)
    counts = cells.reshape(n_tuples, n_parts)
    labels = counts.argmax(axis=1)
    if len(np.unique(labels)) < n_parts:
        moved = counts.max(axis=1) - counts.T
        part, tuple_ = linear_sum_assignment(moved)
        labels[tuple_] = part
    return labels


def _shuffled(n: int, rng: Any) -> tuple[Labels, Labels]:
    """A random order of n vertices, and the place of each vertex in it."""
    order = rng.permutation(n)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    return order, place


def _distinct_hyperedges(
    incidence: csc_array, edge_weights: Labels
) -> tuple[list[NDArray[Any]], list[int]]:
    """Vertices and weight of every hyperedge of two vertices or more, equal ones made one."""
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
    """What METIS found: parts of the vertices, the weight cut, parts without any weight."""

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
    slack = max(1, round(1000 * imbalance))
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
    """Parts of n vertices of unit weight; the preset gives the same answer every time."""
    kahypar = import_module(_MODULES["kahypar"])
    with _KAHYPAR_LOCK:
        start = _started_kahypar()
        kahypar.set_seed(seed)
        context = start.context_from_preset(kahypar.PresetType.DETERMINISTIC)
        context.set_partitioning_parameters(n_parts, imbalance, kahypar.Objective.KM1)
        context.logging = False
        hypergraph = start.create_hypergraph(context, n, len(pins), pins, [1] * n, weights)
        return np.asarray(hypergraph.partition(context).get_partition(), dtype=np.int64)


@functools.cache
def _started_kahypar() -> Any:
    """The package, started: it allows that once a process. One thread survives a fork."""
    return import_module(_MODULES["kahypar"]).initialize(1, print_warnings=False)
