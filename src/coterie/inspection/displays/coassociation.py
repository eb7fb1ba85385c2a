"""Displays of the co-association: which points the partitions put together, and how firmly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import leaves_list, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from coterie.arrays import AnyArray, Floats, Ints
from coterie.consensus.base import label_probabilities
from coterie.consensus.linkage import weighted_linkage
from coterie.consensus.results import (
    cluster_consensus,
    fitted_consensus,
    fitted_rows,
    item_consensus,
)
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import check_partition_weights, tuple_coassociation
from coterie.errors import InvalidLabelsError
from coterie.inspection.displays.colours_and_axes import (
    VERMILION,
    Display,
    cluster_colours,
    cluster_image,
    name_blocks,
    without_frame,
)
from coterie.inspection.displays.points import sample_points
from coterie.labels.tuples import LabelTuples, as_label_tuples

_TITLE = "Which points the partitions put together"
# colour of branches with points of several clusters
_MIXED = "0.35"
# with more clusters the numbers above the bars would overlap
_MOST_NUMBERS = 16


@dataclass(eq=False, repr=False)
class CoassociationDisplay(Display):
    """Heat map of the co-association matrix M (n, n), with the points ordered by cluster.

    Dark blocks on the diagonal are clusters. Dark cells outside them and pale cells inside show
    where the partitions disagree.

    Attributes
    ----------
    matrix : (s, s)
        M of the points shown, in the order shown.
    labels, points : (s,)
        Their clusters, and their rows in P.
    ax_, figure_, image_ : the axes, the figure and the heat map
    """

    matrix: Floats
    labels: AnyArray
    points: Ints

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        P: Any = None,
        *,
        ax: Any = None,
        cmap: str = "Blues",
        colorbar: bool = True,
        **settings: Any,
    ) -> Self:
        """Draw the partitions of a fitted consensus, or of a clusterer that holds one.

        Parameters
        ----------
        estimator : fitted consensus function, ConsensusClusterer or MultiViewClusterer
        P : (n, V) labels, optional
            By default the partitions that were fitted. Points without any label, or of weight 0,
            are not among these.
        ax, cmap, colorbar : as in :meth:`plot`
        settings : as in :meth:`from_labels`

        Examples
        --------
        >>> from coterie import CoassociationDisplay, RobustConsensus
        >>> P = [[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]]
        >>> est = RobustConsensus(2, partition_weights=None, random_state=0).fit(P)
        >>> CoassociationDisplay.from_estimator(est).matrix[0].round(2).tolist()
        [1.0, 1.0, 0.0, 0.33]
        """
        consensus = fitted_consensus(estimator)
        rows = fitted_rows(consensus) if P is None else np.arange(len(consensus.labels_))
        settings = {
            "confidence": consensus.confidence_[rows],
            "partition_weights": consensus.partition_weights_,
            **settings,
        }
        P, labels = consensus._tuples if P is None else P, consensus.labels_[rows]
        display = cls.from_labels(P, labels, ax=ax, cmap=cmap, colorbar=colorbar, **settings)
        display.points = rows[display.points]
        return display

    @classmethod
    def from_labels(
        cls,
        P: Any,
        labels: Any,
        *,
        confidence: Any = None,
        partition_weights: Any = None,
        max_points: int = 600,
        random_state: Any = None,
        ax: Any = None,
        **plot_settings: Any,
    ) -> Self:
        """Draw the partitions ``P`` ordered by any clustering of the points.

        Parameters
        ----------
        P : (n, V) labels, or list of V membership matrices
        labels : (n,)
            Clusters, shown in the order of their labels.
        confidence : (n,), optional
            Sorts the points of a cluster; by default that of a consensus with these labels.
        partition_weights : (V,), optional
        max_points : int
            With more points a sample is shown: a share of each cluster, at least one point.
        random_state : seed of the sample
        ax, plot_settings : as in :meth:`plot`
        """
        tuples = as_label_tuples(P)
        n = len(tuples.inverse)
        names, codes = np.unique(_one_per_point("labels", labels, n), return_inverse=True)
        alpha = check_partition_weights(partition_weights, tuples.n_partitions)
        alpha = alpha[tuples.partition_order]
        if confidence is None:
            separate = tuples.without_compression()
            tables = ClusterTables.of(separate, codes, alpha)
            confidence = label_probabilities(tables, separate.codes, separate.memberships, codes)
        confidence = _one_per_point("confidence", confidence, n)
        M, points = ordered_sample(tuples, codes, confidence, alpha, max_points, random_state)
        return cls(M, names[codes[points]], points).plot(ax, **plot_settings)

    def plot(self, ax: Any = None, *, cmap: str = "Blues", colorbar: bool = True) -> Self:
        """Draw the heat map with outlined clusters.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure is made.
        cmap : str
            Name of the colour map.
        colorbar : bool
            Whether to draw a colour bar.
        """
        ax = self._axes(ax, (6.4, 5.6))
        from matplotlib.patches import Rectangle

        self.image_ = _share_map(ax, self.matrix, cmap, colorbar)
        _, starts, sizes = np.unique(self.labels, return_index=True, return_counts=True)
        for start, size in zip(starts, sizes, strict=True):
            corner = (start - 0.5, start - 0.5)
            ax.add_patch(Rectangle(corner, size, size, fill=False, color=VERMILION, lw=1.2))
        name_blocks(ax, self.labels, axes="xy")
        n_shown = f"{len(self.labels):,}"
        ax.set(xlabel=f"{n_shown} points by cluster and falling confidence", ylabel="cluster")
        ax.set_title(_TITLE, loc="left")
        return self


@dataclass(eq=False, repr=False)
class ClustermapDisplay(Display):
    """Heat map of the co-association of points, with the dendrogram of average linkage on 1 − M.

    A strip between them shows the clusters of the consensus. A branch of the tree has the colour
    of a cluster if all its points are in this cluster. If a strip has more than one block of a
    colour, consensus and tree disagree there.

    Attributes
    ----------
    matrix : (s, s)
        M of the points shown, in the order of the leaves of the tree.
    tree : (s − 1, 4)
        The tree in SciPy's format; leaf i is point i of the order shown.
    labels, points : (s,)
        Clusters of the points, and their rows in P.
    ax_, tree_ax_, strip_ax_, figure_, image_ : axes of heat map, dendrogram and strip, the figure,
        and the heat map
    """

    matrix: Floats
    tree: Floats
    labels: Ints
    points: Ints

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        max_points: int = 600,
        random_state: Any = None,
        ax: Any = None,
        **plot_settings: Any,
    ) -> Self:
        """Draw the partitions that a consensus was fitted on, with its weights.

        Parameters
        ----------
        estimator, max_points, random_state : as in :class:`~coterie.CoassociationDisplay`
        ax, plot_settings : as in :meth:`plot`

        Examples
        --------
        >>> from coterie import ClustermapDisplay, EvidenceAccumulation
        >>> est = EvidenceAccumulation(2).fit([[0, 0], [1, 2], [0, 1], [1, 2]])
        >>> ClustermapDisplay.from_estimator(est).matrix
        array([[1. , 0.5, 0. , 0. ],
               [0.5, 1. , 0. , 0. ],
               [0. , 0. , 1. , 1. ],
               [0. , 0. , 1. , 1. ]])
        """
        consensus = fitted_consensus(estimator)
        tuples, fitted = consensus._tuples, fitted_rows(consensus)
        alpha = consensus.partition_weights_[tuples.partition_order]
        points = sample_points(consensus.labels_[fitted], max_points, random_state)
        M = coassociation_of_points(tuples, points, alpha)
        order, tree = _ordered_tree(M, consensus.labels_[fitted[points]])
        points = fitted[points[order]]
        display = cls(M[np.ix_(order, order)], tree, consensus.labels_[points], points)
        return display.plot(ax, **plot_settings)

    def plot(self, ax: Any = None, *, cmap: str = "Blues", colorbar: bool = True) -> Self:
        """Draw the heat map, with tree and strip to the left of it.

        Parameters
        ----------
        ax, cmap, colorbar : as in :meth:`coterie.CoassociationDisplay.plot`
        """
        ax = self._axes(ax, (7.6, 6.0))
        from matplotlib.collections import LineCollection
        from matplotlib.patches import Patch

        self.image_ = _share_map(ax, self.matrix, cmap, colorbar, aspect="auto")
        ax.set(xticks=[], yticks=[], xlabel=f"{len(self.points):,} points in the order of the tree")
        # insets share the place of the heat map, so that the three stay together in any layout
        self.tree_ax_ = tree = ax.inset_axes((-0.27, 0, 0.22, 1), sharey=ax)
        self.strip_ax_ = ax.inset_axes((-0.04, 0, 0.03, 1), sharey=ax)
        cluster_image(self.strip_ax_, self.labels[:, None])
        self.strip_ax_.set_axis_off()
        colours = [*cluster_colours(int(self.labels.max()) + 1), _MIXED]
        names = np.unique(self.labels).tolist()
        handles = [Patch(color=colours[name], label=str(name)) for name in names]
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.05), "frameon": False}
        spacing = {"handlelength": 1, "columnspacing": 1, "ncols": min(len(names), 10)}
        ax.legend(handles=handles, title="cluster", **place, **spacing)
        lines, labels = _branches(self.tree, self.labels)
        drawn = [colours[label] for label in labels]
        tree.add_collection(LineCollection(list(lines), colors=drawn, lw=0.9))
        # the root is at the left; a little more on both sides, so that all lines are inside
        tree.set(xlim=(1.02, -0.02), xticks=[0, 0.5, 1], xlabel="1 − share")
        tree.tick_params(left=False, labelleft=False)
        without_frame(tree, "top", "right", "left")
        tree.set_title(_TITLE, loc="left")
        return self


def _ordered_tree(M: Floats, labels: Ints) -> tuple[Ints, Floats]:
    """Return the order of the leaves, and the tree of average linkage of the ordered points.

    Neighbouring leaves are as close as the tree allows. Of the two directions, the one that starts
    with the smaller cluster number is taken.
    """
    s = len(M)
    if s == 1:
        return np.zeros(1, dtype=np.int64), np.empty((0, 4))
    D = 1.0 - M
    # the diagonal of soft partitions is below 1
    np.fill_diagonal(D, 0.0)
    between = squareform(D, checks=False)
    tree = optimal_leaf_ordering(weighted_linkage(D, np.ones(s)), between)
    order = leaves_list(tree).astype(np.int64)
    if labels[order[0]] > labels[order[-1]]:
        order, tree[:, :2] = order[::-1], tree[:, 1::-1].copy()
    number = np.arange(2 * s - 1)
    number[order] = np.arange(s)
    tree[:, :2] = number[tree[:, :2].astype(np.int64)]
    return order, tree


def _branches(tree: Floats, labels: Ints) -> tuple[Floats, Ints]:
    """Return the lines of a dendrogram, (s − 1, 4, 2), and the cluster of all leaves of each.

    A line has four points (distance, place). A leaf is at distance 0, at its place in the order; a
    merge is midway between its two parts. The cluster is −1 if the leaves have several.
    """
    s = len(labels)
    place, height, common = np.zeros(2 * s - 1), np.zeros(2 * s - 1), np.full(2 * s - 1, -1)
    place[:s], common[:s] = np.arange(s), labels
    lines = np.empty((s - 1, 4, 2))
    for step, (a, b) in enumerate(tree[:, :2].astype(np.int64).tolist()):
        distance = tree[step, 2]
        lines[step, :, 0] = height[a], distance, distance, height[b]
        lines[step, :, 1] = np.repeat(place[[a, b]], 2)
        place[s + step], height[s + step] = place[[a, b]].mean(), distance
        if common[a] == common[b]:
            common[s + step] = common[a]
    return lines, common[s:]


@dataclass(eq=False, repr=False)
class ClusterConsensusDisplay(Display):
    """Bars of cluster consensus, and stacked bars of the item consensus of the points.

    The first panel has a bar for each cluster: the mean co-association of its pairs of points. The
    second panel has a bar for each point, by cluster. Its lowest part is the mean co-association
    with the other points of its cluster; the parts above, in other colours, are those with other
    clusters. Points with tall parts in other colours lie between clusters.

    Attributes
    ----------
    cluster_consensus : (K,)
        As returned by :func:`~coterie.cluster_consensus`.
    item_consensus : (s, K)
        Rows of :func:`~coterie.item_consensus`, by cluster and falling consensus with it.
    labels, points : (s,)
        Clusters of the points shown, and their rows in P.
    ax_, items_ax_, figure_, bars_ : axes of the clusters and of the points, the figure, the bars
    """

    cluster_consensus: Floats
    item_consensus: Floats
    labels: Ints
    points: Ints

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, max_points: int = 600, random_state: Any = None, ax: Any = None
    ) -> Self:
        """Draw the clusters of a fitted consensus.

        Parameters
        ----------
        estimator, max_points, random_state : as in :class:`~coterie.CoassociationDisplay`
        ax : as in :meth:`plot`

        Examples
        --------
        >>> from coterie import ClusterConsensusDisplay, EvidenceAccumulation
        >>> est = EvidenceAccumulation(2).fit([[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]])
        >>> ClusterConsensusDisplay.from_estimator(est).cluster_consensus.round(2)
        array([0.67, 1.  ])
        """
        consensus = fitted_consensus(estimator)
        rows = fitted_rows(consensus)
        points = rows[sample_points(consensus.labels_[rows], max_points, random_state)]
        items, labels = item_consensus(consensus)[points], consensus.labels_[points]
        own = np.nan_to_num(items[np.arange(len(points)), labels])
        order = np.lexsort((points, -own, labels))
        display = cls(cluster_consensus(consensus), items[order], labels[order], points[order])
        return display.plot(ax)

    def _draw(self, ax: Any) -> None:
        bars, items = self._panels(ax, (8.0, 5.4), (2, 1), height_ratios=(1, 1.3))
        self.items_ax_ = items
        values, n = self.cluster_consensus, len(self.labels)
        clusters, colours = np.arange(len(values)), cluster_colours(len(values))
        self.bars_ = bars.bar(clusters, np.nan_to_num(values), width=0.7, color=colours)
        if len(values) <= _MOST_NUMBERS:
            # a single point has no pairs
            texts = ["one point" if np.isnan(value) else f"{value:.2f}" for value in values]
            bars.bar_label(self.bars_, texts, padding=1)
        bars.set_xticks(clusters[:: -(-len(values) // 40)])
        bars.set(ylim=(0, 1.12), yticks=[0, 0.5, 1], xlabel="cluster", ylabel="cluster consensus")
        bars.margins(x=0.01)
        bars.set_title("How often the partitions put pairs of a cluster together", loc="left")
        without_frame(bars)
        # the part of the own cluster begins at 0, the others are stacked on it
        heights, every = np.nan_to_num(self.item_consensus), np.arange(n)
        others = heights.copy()
        others[every, self.labels] = 0.0
        bottoms = heights[every, self.labels][:, None] + np.cumsum(others, axis=1) - others
        bottoms[every, self.labels] = 0.0
        edges = np.repeat(np.arange(n + 1) - 0.5, 2)[1:-1]
        for b, colour in enumerate(colours):
            low, high = np.repeat([bottoms[:, b], bottoms[:, b] + heights[:, b]], 2, axis=1)
            items.fill_between(edges, low, high, color=colour, lw=0)
        for start in np.unique(self.labels, return_index=True)[1][1:]:
            items.axvline(start - 0.5, color="white", lw=1.5)
        name_blocks(items, self.labels)
        items.set(xlim=(-0.5, n - 0.5), ylim=(0, None), ylabel="item consensus, stacked")
        items.set_xlabel(f"{n:,} points by cluster")
        items.set_title(
            "… and a point with the points of each cluster (lowest part: its own)", loc="left"
        )
        without_frame(items)


def ordered_sample(
    tuples: LabelTuples,
    labels: Ints,
    confidence: Floats,
    alpha: Floats,
    max_points: int,
    random_state: Any,
) -> tuple[Floats, Ints]:
    """Return M (s, s) of a sample of points by cluster and falling confidence, and the points."""
    points = sample_points(labels, max_points, random_state)
    points = points[np.lexsort((points, -confidence[points], labels[points]))]
    return coassociation_of_points(tuples, points, alpha), points


def coassociation_of_points(tuples: LabelTuples, points: Ints, alpha: Floats) -> Floats:
    """Return M (s, s) of some points; the weights (V,) are in the order of the tuples' columns."""
    shown = tuples.subset(tuples.inverse[points], np.ones(len(points)))
    return tuple_coassociation(shown, alpha).dense()


def _share_map(ax: Any, matrix: Floats, cmap: str, colorbar: bool, **settings: Any) -> Any:
    """Draw shares of partitions (s, s) as a heat map."""
    image = ax.imshow(matrix, cmap=cmap, vmin=0, vmax=1, interpolation="nearest", **settings)
    if colorbar:
        ax.figure.colorbar(image, ax=ax, label="share of partitions", shrink=0.8)
    return image


def _one_per_point(name: str, values: Any, n_points: int) -> AnyArray:
    array = np.asarray(values)
    if array.shape == (n_points,):
        return array
    raise InvalidLabelsError(
        f"{name} has shape {array.shape}, P has {n_points} points; give one value per point"
    )
