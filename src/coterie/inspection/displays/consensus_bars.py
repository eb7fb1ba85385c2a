"""ClusterConsensusDisplay: how firmly clusters hold together, and which points belong where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.cluster_consensus import cluster_consensus, fitted_rows, item_consensus
from coterie.consensus.diagnostics import fitted_consensus
from coterie.inspection.displays.figure_panels import name_blocks, panels, without_frame
from coterie.inspection.displays.palette import cluster_colours
from coterie.inspection.displays.shown_points import sample_points
from coterie.runtime.short_reprs import short_repr

__all__ = ["ClusterConsensusDisplay"]

Array = NDArray[np.float64]

# with more clusters the numbers above the bars would overlap
_MOST_NUMBERS = 16


@dataclass(eq=False)
class ClusterConsensusDisplay:
    """Bars of cluster consensus, and stacked bars of the item consensus of the points.

    The first panel has a bar for each cluster: the mean co-association of its pairs of points. The
    second panel has a bar for each point, by cluster. Its lowest part is the mean co-association
    with the other points of its cluster; the parts above, in other colours, are those with other
    clusters. Points with tall parts in other colours lie between clusters.

    Parameters
    ----------
    cluster_consensus : (K,)
        As returned by :func:`~coterie.consensus.cluster_consensus.cluster_consensus`.
    item_consensus : (s, K)
        Rows of :func:`~coterie.consensus.cluster_consensus.item_consensus`, for the points shown:
        by cluster and falling consensus with the cluster.
    labels, points : (s,)
        Clusters of the points shown, and their rows in P.

    Attributes
    ----------
    ax_, items_ax_, figure_, bars_ : axes of the clusters and of the points, the figure, the bars
    """

    cluster_consensus: Array
    item_consensus: Array
    labels: NDArray[np.int64]
    points: NDArray[np.int64]

    __repr__ = short_repr

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, max_points: int = 600, random_state: Any = 0, ax: Any = None
    ) -> Self:
        """Draw the clusters of a fitted consensus.

        Parameters
        ----------
        estimator : fitted consensus function, ConsensusClusterer or MultiViewClusterer
        max_points : int
            With more points a sample is shown: a share of each cluster, at least one point.
        random_state : seed of the sample
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

    def plot(self, ax: Any = None) -> Self:
        """Draw both panels.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The panels take its place; by default they get a new figure.
        """
        drawn, self.figure_ = panels(ax, (8.0, 5.4), 2, 1, heights=(1, 1.3))
        self.ax_, self.items_ax_ = drawn
        self._draw_clusters()
        self._draw_points()
        return self

    def _draw_clusters(self) -> None:
        ax, values = self.ax_, self.cluster_consensus
        clusters = np.arange(len(values))
        colours = cluster_colours(len(values))
        self.bars_ = ax.bar(clusters, np.nan_to_num(values), width=0.7, color=colours)
        if len(values) <= _MOST_NUMBERS:
            # a single point has no pairs
            texts = ["one point" if np.isnan(value) else f"{value:.2f}" for value in values]
            ax.bar_label(self.bars_, texts, padding=1)
        every = -(-len(values) // 40)
        ax.set_xticks(clusters[::every])
        ax.set(ylim=(0, 1.12), yticks=[0, 0.5, 1], xlabel="cluster", ylabel="cluster consensus")
        ax.margins(x=0.01)
        ax.set_title("How often the partitions put pairs of a cluster together", loc="left")
        without_frame(ax)

    def _draw_points(self) -> None:
        ax, n = self.items_ax_, len(self.labels)
        heights = np.nan_to_num(self.item_consensus)
        bottoms = _bottoms(heights, self.labels)
        edges = np.repeat(np.arange(n + 1) - 0.5, 2)[1:-1]
        for b, colour in enumerate(cluster_colours(heights.shape[1])):
            low = np.repeat(bottoms[:, b], 2)
            high = low + np.repeat(heights[:, b], 2)
            ax.fill_between(edges, low, high, color=colour, lw=0)
        for start in np.unique(self.labels, return_index=True)[1][1:]:
            ax.axvline(start - 0.5, color="white", lw=1.5)
        name_blocks(ax, self.labels)
        ax.set(xlim=(-0.5, n - 0.5), ylim=(0, None), ylabel="item consensus, stacked")
        ax.set_xlabel(f"{n:,} points by cluster")
        ax.set_title(
            "… and a point with the points of each cluster (lowest part: its own)", loc="left"
        )
        without_frame(ax)


def _bottoms(heights: Array, labels: NDArray[np.int64]) -> Array:
    """Return where the parts of stacked bars (s, K) begin, from 0 for the labels."""
    every = np.arange(len(labels))
    own = heights[every, labels][:, None]
    others = heights.copy()
    others[every, labels] = 0.0
    bottoms = own + np.cumsum(others, axis=1) - others
    bottoms[every, labels] = 0.0
    return bottoms
