"""TrackingDisplay: where the points go when the number of clusters grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from coterie.consensus.base import voting_tuples
from coterie.consensus.cluster_consensus import fitted_rows
from coterie.consensus.diagnostics import fitted_consensus
from coterie.consensus.linkage import cluster_weights, cut_into, locally_weighted_tree, vote_linkage
from coterie.inspection.displays.figure_panels import axes_or_new
from coterie.inspection.displays.palette import cluster_colours
from coterie.inspection.displays.shown_points import sample_points, tuples_by_k
from coterie.inspection.stability import check_ks
from coterie.labels.numbering import renumber_by_size
from coterie.labels.tuples import LabelTuples
from coterie.runtime.short_reprs import short_repr

__all__ = ["TrackingDisplay", "carry_colours"]

Labels = NDArray[np.int64]


@dataclass(eq=False)
class TrackingDisplay:
    """Tracking plot: a row for each K, a column for each point, and a colour for each cluster.

    A cluster keeps the colour of the cluster of the row above with which it shares most points. A
    column that changes its colour from row to row is a point that belongs nowhere in particular.

    Parameters
    ----------
    tracks : (L, s) int
        Colour number of each point shown for each K.
    ks : (L,) int
        In rising order.
    points : (s,) int
        Rows of the points in P, in the order shown.

    Attributes
    ----------
    ax_, figure_, image_ : the axes, the figure and the coloured rows
    """

    tracks: Labels
    ks: Labels
    points: Labels

    __repr__ = short_repr

    @classmethod
    def from_ensembles(
        cls,
        ensembles: Mapping[int, Any],
        *,
        max_points: int = 600,
        random_state: Any = 0,
        ax: Any = None,
    ) -> Self:
        """Draw the clusters of each ensemble: average linkage on 1 − M, cut into K clusters.

        Parameters
        ----------
        ensembles : mapping of k to (n, V_k) labels
            As made by :func:`~coterie.inspection.stability.resampled_ensembles`.
        max_points : int
            With more points a random sample of this size is clustered and shown.
        random_state : seed of the sample
        ax : as in :meth:`plot`

        Examples
        --------
        >>> from coterie import TrackingDisplay
        >>> ensembles = {2: [[0, 1], [0, 1], [1, 0]], 3: [[0, 0], [1, 1], [2, 2]]}
        >>> TrackingDisplay.from_ensembles(ensembles).tracks
        array([[0, 0, 1],
               [0, 2, 1]])
        """
        by_k = tuples_by_k(ensembles)
        n = len(next(iter(by_k.values())).inverse)
        points = sample_points(np.zeros(n), max_points, random_state)
        tracks = carry_colours([_linkage_labels(P, points, k) for k, P in by_k.items()])
        return cls._in_order(tracks, np.array([*by_k]), points).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        ks: Iterable[int] | None = None,
        *,
        max_points: int = 600,
        random_state: Any = 0,
        ax: Any = None,
    ) -> Self:
        """Draw the clusters of the partitions that a consensus was fitted on.

        They come from one tree, that of :class:`~coterie.LocallyWeightedConsensus`, cut into each
        number of clusters. So every row splits clusters of the row above. Colours are those of the
        clusters of the estimator, in the row with as many clusters.

        Parameters
        ----------
        estimator : fitted consensus function, ConsensusClusterer or MultiViewClusterer
        ks : iterable of int, optional
            By default 2 to ``max(n_clusters_ + 2, 6)``.
        max_points : int
            With more points a sample is shown: a share of each cluster, at least one point.
        random_state : seed of the sample
        ax : as in :meth:`plot`

        Examples
        --------
        >>> from coterie import EvidenceAccumulation, TrackingDisplay
        >>> est = EvidenceAccumulation(2).fit([[0, 1], [0, 0], [1, 2], [1, 2]])
        >>> TrackingDisplay.from_estimator(est, [2, 3]).tracks
        array([[0, 0, 1, 1],
               [0, 2, 1, 1]])
        """
        consensus = fitted_consensus(estimator)
        tuples = consensus._tuples
        alpha = consensus.partition_weights_[tuples.partition_order]
        fitted = fitted_rows(consensus)
        # a point with labels only in partitions of weight 0 has no place in the tree
        voters = np.flatnonzero(tuples.has_weighted_label(alpha)[tuples.inverse])
        labels = consensus.labels_[fitted[voters]]
        points = voters[sample_points(labels, max_points, random_state)]
        leaf, tree = _locally_weighted_leaves(tuples, points, alpha)
        if ks is None:
            most = min(max(consensus.n_clusters_ + 2, 6), len(tree) + 1)
            ks = range(2, max(most, 2) + 1)
        ks = check_ks(ks, len(fitted))
        tracks = carry_colours([cut_into(tree, k)[leaf] for k in ks.tolist()])
        # colours as in other pictures of the estimator, in the row that is most like it
        nearest = tracks[np.argmin(np.abs(ks - consensus.n_clusters_))]
        shown = consensus.labels_[fitted[points]]
        tracks = _numbers_like(nearest, shown, int(tracks.max()) + 1)[tracks]
        return cls._in_order(tracks, ks, fitted[points]).plot(ax)

    @classmethod
    def _in_order(cls, tracks: Labels, ks: Labels, points: Labels) -> Self:
        """Put the points of each cluster side by side, those of the first row first."""
        order = np.lexsort(tracks[::-1])
        return cls(tracks[:, order], ks, points[order])

    def plot(self, ax: Any = None) -> Self:
        """Draw the rows.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure is made.
        """
        n_rows, n_points = self.tracks.shape
        ax = axes_or_new(ax, (7.6, min(1.2 + 0.36 * n_rows, 9.0)))
        from matplotlib.colors import ListedColormap

        self.ax_, self.figure_ = ax, ax.figure
        colours = cluster_colours(int(self.tracks.max()) + 1)
        limits = {"vmin": -0.5, "vmax": len(colours) - 0.5}
        self.image_ = ax.imshow(
            self.tracks,
            cmap=ListedColormap(colours),
            aspect="auto",
            interpolation="nearest",
            **limits,
        )
        for edge in range(1, n_rows):
            ax.axhline(edge - 0.5, color="white", lw=2.5)
        every = -(-n_rows // 30)
        ax.set_yticks(np.arange(n_rows)[::every], self.ks[::every])
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.set(ylabel="K", xlabel=f"{n_points:,} points, by their clusters")
        ax.set_title("Clusters of the points for each K", loc="left")
        ax.spines[:].set_visible(False)
        return self


def carry_colours(rows: Sequence[NDArray[Any]]) -> Labels:
    """Give similar clusters of neighbouring rows the same number.

    The clusters of the first row are numbered by falling size. Those of the next row take the
    numbers of the clusters above, so that as many points as possible keep theirs. A cluster that is
    left over takes the smallest number that neither row uses.

    Parameters
    ----------
    rows : sequence of (s,) labels

    Returns
    -------
    (L, s) int

    Examples
    --------
    >>> carry_colours([np.array([5, 5, 5, 2, 2]), np.array([0, 1, 1, 2, 2])]).tolist()
    [[0, 0, 0, 1, 1], [2, 0, 0, 1, 1]]
    """
    tracks: list[Labels] = []
    for row in rows:
        labels = renumber_by_size(np.unique(row, return_inverse=True)[1], np.ones(len(row)))
        tracks.append(_numbers_like(labels, tracks[-1])[labels] if tracks else labels)
    return np.array(tracks)


def _numbers_like(labels: Labels, given: Labels, n_clusters: int | None = None) -> Labels:
    """Return a number for each cluster of ``labels``: that of its best partner in ``given``.

    Clusters 0, 1, … without a partner get the smallest numbers that are not in use.
    """
    n = int(labels.max()) + 1 if n_clusters is None else n_clusters
    overlap = np.zeros((n, given.max() + 1))
    np.add.at(overlap, (labels, given), 1)
    numbers = np.full(n, -1)
    own, partner = linear_sum_assignment(overlap, maximize=True)
    shared = overlap[own, partner] > 0
    numbers[own[shared]] = partner[shared]
    unused = np.setdiff1d(np.arange(sum(overlap.shape)), given)
    numbers[numbers < 0] = unused[: np.count_nonzero(numbers < 0)]
    return numbers


def _linkage_labels(tuples: LabelTuples, points: Labels, k: int) -> Labels:
    """Return the labels of some points, from average linkage on 1 − M cut into k clusters."""
    shown, place = _tuples_of(tuples, points)
    return cut_into(vote_linkage(shown, np.ones(tuples.n_partitions)), k)[place]


def _locally_weighted_leaves(
    tuples: LabelTuples, points: Labels, alpha: NDArray[np.float64]
) -> tuple[Labels, NDArray[np.float64]]:
    """Return the leaf of each of some points, and the tree; all have a label of positive weight."""
    omega = cluster_weights(tuples, alpha)[np.repeat(alpha > 0, tuples.n_labels)]
    shown, place = _tuples_of(tuples, points)
    voting, group = voting_tuples(shown, alpha)
    return group[place], locally_weighted_tree(voting, alpha[alpha > 0], omega)


def _tuples_of(tuples: LabelTuples, points: Labels) -> tuple[LabelTuples, Labels]:
    """Return the distinct tuples of some points, weighted by their number, and those of each."""
    kept, place, counts = np.unique(tuples.inverse[points], return_inverse=True, return_counts=True)
    return tuples.subset(kept, counts.astype(np.float64)), place
