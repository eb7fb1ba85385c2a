"""Must-link and cannot-link constraints: pairs of points that belong together, or apart.

Points that must be together are one group. A cannot-link pair makes two groups neighbours, which
need different clusters. If a consensus breaks a constraint, the groups that are connected with it
are assigned again: each to the cluster with the largest sum of votes, under the constraints. This
is a list colouring with weights, and is solved by branch and bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from coterie.arrays import Bools, Floats, Ints
from coterie.counts.cluster_tables import ClusterTables
from coterie.errors import InvalidParameterError
from coterie.labels.tuples import LabelTuples

#: Nodes of the search, and cells that they look at, after which the best assignment is taken.
_MOST_NODES, _MOST_CELLS = 20_000, 2e8
_MOST_NAMED = 10
_TIE = 1e-12


@dataclass(frozen=True)
class Links:
    """Checked constraints."""

    points: Ints  # (s,) the rows that have a constraint, in rising order
    must: Ints  # (m, 2) pairs, as places among the points
    cannot: Ints
    groups: Ints  # (s,) the group of each of the points

    def assign(self, labels: Ints, votes: Floats) -> tuple[Ints, bool]:
        """Return labels (s,) that hold all constraints, and whether they are optimal.

        Only connected sets of points with a broken constraint are labelled again; all other labels
        stay. The new labels maximise the sum of ``votes`` (s, K). The search is exhaustive for a
        few dozen connected groups; with more it may stop early, at the best assignment that it
        found.
        """
        edges = np.unique(np.sort(self.groups[self.cannot], axis=1), axis=0)
        n_groups = int(self.groups.max()) + 1
        _, part = _components(edges, n_groups)
        broken = np.concatenate(
            [
                self.must[labels[self.must[:, 0]] != labels[self.must[:, 1]], 0],
                self.cannot[labels[self.cannot[:, 0]] == labels[self.cannot[:, 1]], 0],
            ]
        )
        labels, is_exact = labels.copy(), True
        scores = np.zeros((n_groups, votes.shape[1]))
        np.add.at(scores, self.groups, votes)
        for number in np.unique(part[self.groups[broken]]).tolist():
            members = np.flatnonzero(part == number)
            own = np.searchsorted(members, edges[np.isin(edges[:, 0], members)])
            colours, exact = _colour(scores[members], own)
            if colours is None:
                self._refuse_colours(members, own, votes.shape[1], exact)
            else:
                inside = np.flatnonzero(part[self.groups] == number)
                labels[inside] = colours[np.searchsorted(members, self.groups[inside])]
            is_exact &= exact
        return labels, is_exact

    def among(self, used: Bools) -> Links:
        """Return the constraints with rows numbered among the used ones; refuse other rows."""
        if not used[self.points].all():
            row = int(self.points[~used[self.points]][0])
            raise InvalidParameterError(
                f"row {row} has a must_link or cannot_link pair, but weight 0 or no label in any "
                "partition; leave out the pair or the row"
            )
        place = (np.cumsum(used) - 1)[self.points]
        return Links(place, self.must, self.cannot, self.groups)

    def _refuse_colours(self, members: Ints, edges: Ints, K: int, exact: bool) -> None:
        first = {int(g): int(self.points[np.argmax(self.groups == g)]) for g in members}
        # groups that are all neighbours of each other, those with many neighbours first
        adjacent = np.zeros((len(members), len(members)), dtype=bool)
        adjacent[edges[:, 0], edges[:, 1]] = adjacent[edges[:, 1], edges[:, 0]] = True
        clique: list[int] = []
        for g in np.argsort(-adjacent.sum(axis=1), kind="stable").tolist():
            if adjacent[g, clique].all():
                clique.append(g)
        if len(clique) > K:
            rows = ", ".join(str(first[int(members[g])]) for g in clique[: K + 1])
            problem = f"rows {rows} must all be apart"
        else:
            shown = list(first.values())[:_MOST_NAMED]
            rows = ", ".join(map(str, shown)) + (", …" if len(first) > len(shown) else "")
            problem = f"no assignment of rows {rows} and those linked to them " + (
                "exists" if exact else "was found in time"
            )
        raise InvalidParameterError(
            f"cannot_link: {problem}, but there are {K} clusters; give a larger n_clusters or "
            "leave out pairs"
        )


def check_links(must_link: Any, cannot_link: Any, n: int) -> Links | None:
    """Check pairs (m, 2) of n rows; return None if there are no pairs.

    Rows that must be together and apart are refused, with a chain of must-link pairs that shows it.
    """
    must, cannot = _pairs("must_link", must_link, n), _pairs("cannot_link", cannot_link, n)
    points, places = np.unique(np.concatenate([must, cannot]), return_inverse=True)
    if not len(points):
        return None
    places = places.reshape(-1, 2)
    must, cannot = places[: len(must)], places[len(must) :]
    graph, groups = _components(must, len(points))
    inside = np.flatnonzero(groups[cannot[:, 0]] == groups[cannot[:, 1]])
    if len(inside):
        a, b = cannot[inside[0]]
        # the edges of a shortest path from a to b
        before, end = breadth_first_order(graph, a, directed=False)[1], b
        chain: list[str] = []
        while end != a:
            chain.insert(0, f"{points[before[end]]}–{points[end]}")
            end = before[end]
        together = f"they must be together: {', '.join(chain)}" if chain else "it is one row"
        raise InvalidParameterError(
            f"cannot_link pair ({points[a]}, {points[b]}) contradicts must_link, because {together}"
        )
    return Links(points, must, cannot, groups)


def enforce_links(
    links: Links,
    tuples: LabelTuples,
    labels: Ints,
    partition_weights: Floats,
    row_weights: Floats | None = None,
    rows: Ints | None = None,
) -> tuple[LabelTuples, Ints, dict[str, Any]]:
    """Move points to other clusters so that all constraints hold.

    The votes of a point for a cluster are the mean share of partitions that put it together with
    the points of the cluster, by the weights of the partitions, times the weight of its row.
    ``rows`` (n,) are the numbers of the points in the input. Return tuples and labels (u',), with
    every moved point as a separate tuple at the end, and the report for ``constraints_``.
    """
    tables = ClusterTables.of(tuples, labels, partition_weights)
    at = tuples.inverse[links.points]
    linked = tuples.subset(at)
    votes = tables.vote_shares(linked.codes, linked.memberships)
    if row_weights is not None:
        votes *= row_weights[links.points, None]
    held, is_exact = links.assign(labels[at], votes)
    moved = np.flatnonzero(held != labels[at])
    points = links.points[moved]
    report = {
        "must_link": len(links.must),
        "cannot_link": len(links.cannot),
        "moved": points if rows is None else rows[points],
        "exact": is_exact,
    }
    tuples, kept = tuples.with_points_apart(points, row_weights)
    return tuples, np.append(labels[kept], held[moved]), report


def _pairs(name: str, pairs: Any, n: int) -> Ints:
    """Return pairs of rows as an array (m, 2)."""
    if pairs is None or len(pairs) == 0:
        return np.empty((0, 2), dtype=np.int64)
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise InvalidParameterError(f"{name}: give pairs of row numbers, such as [(0, 4), (2, 3)]")
    wrong = ((array < 0) | (array >= n)).any(axis=1)
    if wrong.any():
        i, j = array[wrong][0]
        raise InvalidParameterError(f"{name} has the pair ({i}, {j}); rows are from 0 to {n - 1}")
    return array.astype(np.int64)


def _components(edges: Ints, n: int) -> tuple[coo_array, Ints]:
    """Return the graph with these edges, and the connected component of each of its n nodes."""
    ones = np.ones(len(edges))
    graph = coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()
    return graph, connected_components(graph, directed=False)[1].astype(np.int64)


def _colour(scores: Floats, edges: Ints) -> tuple[Ints | None, bool]:
    """Give neighbours different colours with the largest sum of scores (G, K).

    Depth first: the group with the fewest free colours is next, and its best colour is tried
    first. A branch ends if the best free colours of its groups cannot beat the best assignment.
    Return the colours, None if there are none, and whether the search was exhaustive.
    """
    G, K = scores.shape
    neighbours = [np.r_[edges[edges[:, 0] == g, 1], edges[edges[:, 1] == g, 0]] for g in range(G)]
    blocked = np.zeros((G, K), dtype=np.int64)  # numbers of neighbours with each colour
    chosen = np.full(G, -1, dtype=np.int64)
    best, best_value, value, nodes = None, -np.inf, 0.0, 0
    branches: list[tuple[int, Iterator[int]]] = []
    while True:
        nodes += 1
        free = np.where(blocked == 0, scores, -np.inf)
        unset = np.flatnonzero(chosen < 0)
        bound = value + float(free[unset].max(axis=1).sum()) if len(unset) else value
        if bound > best_value + _TIE:
            if len(unset):
                g = int(unset[np.argmin((blocked[unset] == 0).sum(axis=1))])
                order = np.argsort(-free[g], kind="stable")
                branches.append((g, iter(order[np.isfinite(free[g, order])].tolist())))
            else:
                best, best_value = chosen.copy(), value
        if best is not None and nodes * G * K > _MOST_CELLS:
            return best, False
        # the next colour of the deepest group that has one
        while branches:
            g, colours = branches[-1]
            if chosen[g] >= 0:
                value -= scores[g, chosen[g]]
                blocked[neighbours[g], chosen[g]] -= 1
            chosen[g] = next(colours, -1)
            if chosen[g] >= 0:
                value += scores[g, chosen[g]]
                blocked[neighbours[g], chosen[g]] += 1
                break
            branches.pop()
        if not branches:
            return best, True
        if nodes >= _MOST_NODES + G:
            return best, False
