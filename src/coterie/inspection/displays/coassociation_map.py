"""CoassociationDisplay: the co-association matrix, with the points ordered by cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.cluster_consensus import fitted_rows
from coterie.consensus.diagnostics import fitted_consensus
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import check_partition_weights
from coterie.inspection.displays.figure_panels import axes_or_new, name_blocks
from coterie.inspection.displays.palette import VERMILION
from coterie.inspection.displays.shown_points import (
    check_length,
    coassociation_of_points,
    sample_points,
)
from coterie.labels.tuples import as_label_tuples
from coterie.runtime.short_reprs import short_repr

__all__ = ["CoassociationDisplay"]


@dataclass(eq=False)
class CoassociationDisplay:
    """Heat map of the co-association matrix M (n, n), with the points ordered by cluster.

    Dark blocks on the diagonal are clusters. Dark cells outside them and pale cells inside show
    where the partitions disagree.

    Parameters
    ----------
    matrix : (s, s)
        M of the points shown, in the order shown.
    labels, points : (s,)
        Their clusters, and their rows in P.

    Attributes
    ----------
    ax_, figure_, image_ : the axes, the figure and the heat map
    """

    matrix: NDArray[np.float64]
    labels: NDArray[Any]
    points: NDArray[np.int64]

    __repr__ = short_repr

    @classmethod
    def from_estimator(cls, estimator: Any, P: Any = None, **settings: Any) -> Self:
        """Draw the partitions of a fitted consensus, or of a clusterer that holds one.

        Parameters
        ----------
        estimator : fitted consensus function, ConsensusClusterer or MultiViewClusterer
        P : (n, V) labels, optional
            By default the partitions that were fitted. Points without any label, or of weight 0,
            are not among these.
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
        settings.setdefault("confidence", consensus.confidence_[rows])
        settings.setdefault("partition_weights", consensus.partition_weights_)
        P = consensus._tuples if P is None else P
        display = cls.from_labels(P, consensus.labels_[rows], **settings)
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
        random_state: Any = 0,
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
        labels = check_length("labels", labels, n)
        names, codes = np.unique(labels, return_inverse=True)
        alpha = check_partition_weights(partition_weights, tuples.n_partitions)
        alpha = alpha[tuples.partition_order]
        if confidence is None:
            separate = tuples.without_compression()
            tables = ClusterTables.of(separate, codes, alpha)
            confidence = tables.assign(separate.codes, 0.5, codes, separate.memberships)[1]
        confidence = check_length("confidence", confidence, n)
        points = sample_points(codes, max_points, random_state)
        points = points[np.lexsort((points, -confidence[points], codes[points]))]
        matrix = coassociation_of_points(tuples, points, alpha)
        return cls(matrix, names[codes[points]], points).plot(ax, **plot_settings)

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
        ax = axes_or_new(ax, (6.4, 5.6))
        from matplotlib.patches import Rectangle

        self.ax_, self.figure_ = ax, ax.figure
        self.image_ = ax.imshow(self.matrix, cmap=cmap, vmin=0, vmax=1, interpolation="nearest")
        _, starts, sizes = np.unique(self.labels, return_index=True, return_counts=True)
        for start, size in zip(starts, sizes, strict=True):
            corner = (start - 0.5, start - 0.5)
            ax.add_patch(Rectangle(corner, size, size, fill=False, color=VERMILION, lw=1.2))
        name_blocks(ax, self.labels, axes="xy")
        n_shown = f"{len(self.labels):,}"
        ax.set(xlabel=f"{n_shown} points by cluster and falling confidence", ylabel="cluster")
        ax.set_title("Which points the partitions put together", loc="left")
        if colorbar:
            self.figure_.colorbar(self.image_, ax=ax, label="share of partitions", shrink=0.8)
        return self
