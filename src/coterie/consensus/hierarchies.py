"""Consensus of hierarchies: one tree from many trees of the same leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import cophenet, is_monotonic, is_valid_linkage, linkage
from scipy.spatial.distance import squareform

from coterie.arrays import Floats, Ints
from coterie.consensus.base import check_size
from coterie.consensus.camps import Dissent, GroupMoments, divide_into_camps, warn_of_dissent
from coterie.counts.coassociation import check_partition_weights
from coterie.errors import InvalidParameterError
from coterie.runtime.wording import short_repr


@dataclass(frozen=True, eq=False)
class LinkageConsensus:
    """The consensus of T hierarchies of n leaves.

    Attributes
    ----------
    linkage : (n − 1, 4)
        The tree in SciPy's format, for ``dendrogram`` and ``fcluster``. Its heights are mean ranks
        in (0, 1).
    agreement : (T,)
        Cophenetic correlation of each hierarchy with the tree: the correlation, over all pairs of
        leaves, of the ranks at which they are joined.
    weights : (T,)
        The weight of each hierarchy in the tree.
    dissent : :class:`~coterie.consensus.camps.Dissent`
        Correlation of every pair of hierarchies, and the camps of those that agree beyond chance.
    """

    linkage: Floats
    agreement: Floats
    weights: Floats
    dissent: Dissent

    __repr__ = short_repr

    @property
    def dissenters(self) -> Ints:
        """Hierarchies outside the deciding camp, even if they have weight."""
        return self.dissent.dissenters

    def __str__(self) -> str:
        words = self.dissent.in_words().replace("partitions", "hierarchies")
        names = self.dissent.names or [""] * len(self.agreement)
        each = ", ".join(
            f"{name} {value:.2f}".strip() for name, value in zip(names, self.agreement, strict=True)
        )
        return f"{words}\ncophenetic correlation with the consensus: {each}"


def consensus_linkage(
    linkages: Sequence[Any] | Mapping[Any, Any],
    *,
    weights: Any = "agreement",
    max_points: int = 5_000,
) -> LinkageConsensus:
    """Find the hierarchy that most of T hierarchies of the same n leaves agree on.

    The heights of different trees are not comparable, but their orders are. With r_t(i, j) in
    (0, 1) the normalised rank of the height at which tree t joins leaves i and j, among all pairs,
    the consensus is average linkage on

        R(i, j) = Σ_t w_t r_t(i, j) / Σ_t w_t.

    1 − r_t(i, j) is the share of pairs that tree t joins later: how closely it holds i and j
    together, as a co-association. So trees are grouped into camps as the partitions of
    :class:`~coterie.RobustConsensus` are, and only the largest camp has weight.

    Parameters
    ----------
    linkages : sequence of T arrays (n − 1, 4), or mapping of names to them
        In SciPy's format, as ``scipy.cluster.hierarchy.linkage`` returns them. Heights must not
        fall towards the root, as those of centroid and median linkage can.
    weights : {"agreement"}, array of shape (T,) or None, default="agreement"
        "agreement": 1 for the largest camp of hierarchies, 0 for the others. None: all equal.
    max_points : int, default=5000
        Limit of n. Memory grows with T n²: about 400 MB for each tree of 5,000 leaves.

    Returns
    -------
    LinkageConsensus

    Raises
    ------
    InvalidParameterError
        If an array is no linkage, or has other leaves than the first one.
    TooManyPointsError
        If n is more than ``max_points``.

    Notes
    -----
    **Established.** Average consensus trees of cophenetic distances are those of Lapointe and
    Cucumel (1997). Our choices are the ranks and the camps.

    **Limits.** One tree of the same leaves is found even if there is none to find: look at
    ``agreement``. Without a majority all trees have weight, with a warning.

    References
    ----------
    F.-J. Lapointe and G. Cucumel. The average consensus procedure: combination of weighted trees
    containing identical or overlapping sets of taxa. Systematic Biology 46(2), 1997.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.cluster.hierarchy import fcluster, linkage
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([0.0, 5.0, 20.0], 10)[:, None] + rng.normal(size=(30, 3))
    >>> trees = [linkage(X, method) for method in ("average", "complete", "ward")]
    >>> trees += [linkage(rng.normal(size=(30, 3)), "average")]
    >>> found = consensus_linkage(trees)
    >>> found.dissenters.tolist(), found.weights.tolist()
    ([3], [1.0, 1.0, 1.0, 0.0])
    >>> len(set(fcluster(found.linkage, 3, "maxclust")[:10]))
    1
    """
    names = tuple(map(str, linkages)) if isinstance(linkages, Mapping) else None
    trees: list[Floats] = []
    for t, given in linkages.items() if isinstance(linkages, Mapping) else enumerate(linkages):
        try:
            tree = np.asarray(given, dtype=np.float64)
            is_valid_linkage(tree, throw=True)
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(
                f"linkages[{t!r}] is not a linkage matrix of SciPy: {error}"
            ) from error
        if not is_monotonic(tree):
            raise InvalidParameterError(
                f"linkages[{t!r}] has heights that fall towards the root, as centroid and median "
                "linkage can have; use another linkage"
            )
        if trees and len(tree) != len(trees[0]):
            raise InvalidParameterError(
                f"linkages[{t!r}] has {len(tree) + 1} leaves, the first has {len(trees[0]) + 1}; "
                "all must have the same leaves in the same order"
            )
        trees.append(tree)
    if not trees:
        raise InvalidParameterError("linkages is empty; give at least one linkage matrix")
    n = len(trees[0]) + 1
    if n < 3:
        raise InvalidParameterError("the trees have two leaves; give trees of three or more")
    check_size(n, max_points, "max_points", "consensus_linkage")

    ranks = np.stack([cophenet(rank_heights(tree)) for tree in trees])
    dissent = replace(_camps_of_hierarchies(1.0 - ranks, n), names=names)
    if isinstance(weights, str):
        if weights != "agreement":
            raise InvalidParameterError(
                f"weights={weights!r}: give 'agreement', None, or one number for each hierarchy"
            )
        warn_of_dissent(dissent)
        used = dissent.weights
    else:
        used = check_partition_weights(weights, len(trees))
    tree = linkage(used @ ranks / used.sum(), "average")
    agreement = np.corrcoef(ranks, cophenet(tree))[-1, :-1]
    return LinkageConsensus(tree, agreement, used, dissent)


def rank_heights(tree: Floats) -> Floats:
    """Return a tree whose heights are the normalised ranks of its cophenetic distances.

    A merge of clusters with a and b leaves joins a·b pairs. Its rank is the mean rank of these
    pairs, and of those joined at the same height, among all pairs.
    """
    n = len(tree) + 1
    sizes = np.append(np.ones(n), tree[:, 3])
    pairs = sizes[tree[:, 0].astype(np.int64)] * sizes[tree[:, 1].astype(np.int64)]
    _, level = np.unique(tree[:, 2], return_inverse=True)
    joined = np.bincount(level, pairs)
    ranks = (np.cumsum(joined) - joined / 2) / joined.sum()
    return np.column_stack([tree[:, :2], ranks[level], tree[:, 3]])


def _camps_of_hierarchies(similarity: Floats, n: int) -> Dissent:
    """Find the camps of trees from their similarities (T, n (n − 1) / 2) of pairs of leaves."""
    T, n2 = len(similarity), float(n * (n - 1))
    # sums over ordered pairs; the degree of a leaf is its mean similarity to the others
    total = np.repeat(2 * similarity.sum(axis=1)[:, None], T, axis=1)
    products = 2 * similarity @ similarity.T
    degrees = np.stack([squareform(row).sum(axis=1) for row in similarity]) / (n - 1)
    moments = GroupMoments(
        pairs=np.full((T, T), n2),
        together=total,
        products=products,
        excess=products - total * total.T / n2,
        degrees=(n - 1) * degrees @ degrees.T,
    )
    every = [np.array([t]) for t in range(T)]
    scores = np.array([[moments.score(a, b) for b in every] for a in every])
    return divide_into_camps(np.atleast_2d(np.corrcoef(similarity)), scores, moments)
