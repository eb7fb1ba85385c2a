"""ClustermapDisplay: the co-association matrix in the order of a dendrogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from coterie.consensus.cluster_consensus import fitted_rows
from coterie.consensus.diagnostics import fitted_consensus
from coterie.consensus.linkage import weighted_linkage
from coterie.inspection.displays.figure_panels import axes_or_new, without_frame
from coterie.inspection.displays.palette import cluster_colours
from coterie.inspection.displays.shown_points import coassociation_of_points, sample_points
from coterie.runtime.short_reprs import short_repr

__all__ = ["ClustermapDisplay"]

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_MIXED = "0.35"
_COLUMNS_OF_LEGEND = 10


@dataclass(eq=False)
class ClustermapDisplay:
    """Heat map of the co-association of points, with the dendrogram of average linkage on 1 − M.

    A strip between them shows the clusters of the consensus. A branch of the tree has the colour
    of a cluster if all its points are in this cluster. If a strip has more than one block of a
    colour, consensus and tree disagree there.

    Parameters
    ----------
    matrix : (s, s)
        M of the points shown, in the order of the leaves of the tree.
    tree : (s − 1, 4)
        The tree in SciPy's format; leaf i is point i of the order shown.
    labels, points : (s,)
        Clusters of the points, and their rows in P.

    Attributes
    ----------
    ax_, tree_ax_, strip_ax_, figure_, image_ : axes of heat map, dendrogram and strip, the figure,
        and the heat map
    """

    matrix: Array
    tree: Array
    labels: Labels
    points: Labels

    __repr__ = short_repr

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        max_points: int = 600,
        random_state: Any = 0,
        ax: Any = None,
        **plot_settings: Any,
    ) -> Self:
        """Draw the partitions that a consensus was fitted on, with its weights.

        Parameters
        ----------
        estimator : fitted consensus function, ConsensusClusterer or MultiViewClusterer
        max_points : int
            With more points a sample is shown: a share of each cluster, at least one point.
        random_state : seed of the sample
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
        ax : matplotlib axes, optional
            By default a new figure is made.
        cmap : str
            Name of the colour map.
        colorbar : bool
            Whether to draw a colour bar.
        """
        ax = axes_or_new(ax, (7.6, 6.0))
        self.ax_, self.figure_ = ax, ax.figure
        self.image_ = ax.imshow(
            self.matrix, cmap=cmap, vmin=0, vmax=1, interpolation="nearest", aspect="auto"
        )
        ax.set(xticks=[], yticks=[], xlabel=f"{len(self.points):,} points in the order of the tree")
        # insets share the place of the heat map, so that the three stay together in any layout
        self.tree_ax_ = ax.inset_axes((-0.27, 0, 0.22, 1), sharey=ax)
        self.strip_ax_ = ax.inset_axes((-0.04, 0, 0.03, 1), sharey=ax)
        self._draw_strip()
        self._draw_tree()
        self.tree_ax_.set_title("Which points the partitions put together", loc="left")
        if colorbar:
            self.figure_.colorbar(self.image_, ax=ax, label="share of partitions", shrink=0.8)
        return self

    def _draw_strip(self) -> None:
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        colours = cluster_colours(int(self.labels.max()) + 1)
        self.strip_ax_.imshow(
            self.labels[:, None],
            cmap=ListedColormap(colours),
            vmin=-0.5,
            vmax=len(colours) - 0.5,
            aspect="auto",
            interpolation="nearest",
        )
        self.strip_ax_.set_axis_off()
        names = np.unique(self.labels).tolist()
        self.ax_.legend(
            handles=[Patch(color=colours[name], label=str(name)) for name in names],
            title="cluster",
            loc="upper center",
            bbox_to_anchor=(0.5, -0.05),
            ncols=min(len(names), _COLUMNS_OF_LEGEND),
            frameon=False,
            handlelength=1,
            columnspacing=1,
        )

    def _draw_tree(self) -> None:
        from matplotlib.collections import LineCollection

        ax, branches = self.tree_ax_, _branches(self.tree)
        colours = [*cluster_colours(int(self.labels.max()) + 1), _MIXED]
        drawn = [colours[label] for label in _common_labels(self.tree, self.labels)]
        ax.add_collection(LineCollection(list(branches), colors=drawn, lw=0.9))
        # the root is at the left; a little more on both sides, so that all lines are inside
        ax.set(xlim=(1.02, -0.02), xticks=[0, 0.5, 1])
        ax.set_xlabel("1 − share")
        ax.tick_params(left=False, labelleft=False)
        without_frame(ax, "top", "right", "left")


def _ordered_tree(M: Array, labels: Labels) -> tuple[Labels, Array]:
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


def _branches(tree: Array) -> Array:
    """Return the lines of a dendrogram, (s − 1, 4, 2): four points (distance, place) a merge.

    A leaf is at distance 0, at its place in the order; a merge is midway between its two parts.
    """
    s = len(tree) + 1
    place, height = np.zeros(2 * s - 1), np.zeros(2 * s - 1)
    place[:s] = np.arange(s)
    lines = np.empty((s - 1, 4, 2))
    for step, (a, b, distance) in enumerate(tree[:, :3]):
        parts = np.array([a, b], dtype=np.int64)
        lines[step, :, 0] = height[parts[0]], distance, distance, height[parts[1]]
        lines[step, :, 1] = np.repeat(place[parts], 2)
        place[s + step], height[s + step] = place[parts].mean(), distance
    return lines


def _common_labels(tree: Array, labels: Labels) -> Labels:
    """Return the cluster of all leaves of each merge, (s − 1,); −1 if they have several."""
    common = np.append(labels, np.full(len(tree), -1))
    for step, parts in enumerate(tree[:, :2].astype(np.int64)):
        a, b = common[parts]
        common[len(labels) + step] = a if a == b else -1
    return common[len(labels) :]
