"""Displays of several numbers of clusters: criteria of K, stability, and where the points go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from coterie.arrays import AnyArray, Floats, Ints
from coterie.consensus.base import voting_tuples
from coterie.consensus.choice_of_k import KChoice
from coterie.consensus.linkage import cluster_weights, cut_into, locally_weighted_tree, vote_linkage
from coterie.consensus.results import fitted_consensus, fitted_rows, k_choice_of
from coterie.inspection.choose_k import choose_k
from coterie.inspection.displays.colours_and_axes import (
    BLUE,
    VERMILION,
    Display,
    cluster_image,
    without_frame,
)
from coterie.inspection.displays.points import sample_points
from coterie.inspection.stability import (
    area_growth,
    check_ks,
    consensus_cdf,
    ensembles_by_k,
)
from coterie.labels.encode import renumber_by_size
from coterie.labels.tuples import LabelTuples

#: Criteria of K that have a panel, in its order.
CRITERIA = {
    "objective": "objective J, low is good",
    "margin": "margin of votes, high is good",
    "relative_eigengap": "relative eigengap, high is good",
    "agreement": "agreement of methods, high is good",
    "stability": "agreement of halves, high is good",
    "pac": "ambiguous pairs (PAC), low is good",
    "silhouette": "silhouette, high is good",
    "calinski_harabasz": "Calinski–Harabasz, high is good",
    "davies_bouldin": "Davies–Bouldin, low is good",
}
_MOST_IN_A_ROW = 5
# pairs with a co-association between these limits are ambiguous
_AMBIGUOUS = (0.1, 0.9)


@dataclass(eq=False, repr=False)
class ChooseKDisplay(Display):
    """Criteria of :func:`~coterie.choose_k` over K, one panel each, with the chosen K marked.

    Attributes
    ----------
    choice : :class:`~coterie.consensus.choice_of_k.KChoice`
    ax_, figure_ : the first axes and the figure
    axes_ : dict of str to axes
        By criterion. A criterion that is unavailable for every K has no panel.
    """

    choice: KChoice

    @classmethod
    def from_choice(cls, choice: KChoice, *, ax: Any = None) -> Self:
        """Draw a choice of K.

        Parameters
        ----------
        choice : KChoice
            The result of :func:`~coterie.choose_k`.
        ax : as in :meth:`plot`

        Examples
        --------
        >>> from coterie import ChooseKDisplay, choose_k, planted_partitions
        >>> P, _ = planted_partitions([40, 30, 20], 8, n_bad=0, noise=0.1, random_state=0)
        >>> list(ChooseKDisplay.from_choice(choose_k(P, range(2, 6))).axes_)
        ['objective', 'margin', 'relative_eigengap', 'agreement']
        """
        return cls(choice).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        ks: Iterable[int] | None = None,
        *,
        random_state: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw the choice of K of the partitions of a fitted consensus.

        Parameters
        ----------
        estimator : fitted consensus function, ConsensusClusterer or MultiViewClusterer
        ks, random_state : as in :func:`~coterie.choose_k`
            If the estimator has chosen K (``k_choice_``) and ``ks`` is not given, its choice is
            drawn. Otherwise its partitions are compared, with its weights.
        ax : as in :meth:`plot`

        Examples
        --------
        >>> from coterie import ChooseKDisplay, RobustConsensus, planted_partitions
        >>> P, _ = planted_partitions([40, 30, 20], 8, n_bad=0, noise=0.1, random_state=0)
        >>> est = RobustConsensus(2, random_state=0).fit(P)
        >>> ChooseKDisplay.from_estimator(est).choice.best_k
        3
        """
        consensus = fitted_consensus(estimator)
        choice = k_choice_of(estimator)
        if choice is None or ks is not None:
            weights = consensus.partition_weights_
            choice = choose_k(
                consensus._tuples, ks, partition_weights=weights, random_state=random_state
            )
        return cls(choice).plot(ax)

    def _draw(self, ax: Any) -> None:
        ks, best = np.asarray(self.choice.ks), self.choice.best_k
        curves = {name: getattr(self.choice, name) for name in CRITERIA}
        curves = {name: curve for name, curve in curves.items() if np.isfinite(curve).any()}
        rows = -(-len(curves) // _MOST_IN_A_ROW)
        columns = -(-len(curves) // rows)
        size, shape = (3.1 * columns, 2.9 * rows), (rows, columns)
        places = self._panels(ax, size, shape, sharex=True, squeeze=False).ravel()
        self.axes_ = dict(zip(curves, places, strict=False))
        for unused in places[len(curves) :]:
            unused.set_axis_off()
        for name, panel in self.axes_.items():
            curve = curves[name]
            panel.plot(ks, curve, "o-", color=BLUE, lw=1.8, ms=4)
            panel.plot(best, curve[ks == best], "o", color=VERMILION, ms=9, label=f"K = {best}")
            panel.axvline(best, color=VERMILION, lw=1, ls=":")
            panel.set(xlabel="K", xticks=ks[:: -(-len(ks) // 10)])
            panel.set_title(CRITERIA[name], loc="left", fontsize="medium")
            without_frame(panel)
        self.ax_.legend(frameon=False)


@dataclass(eq=False, repr=False)
class ConsensusCDFDisplay(Display):
    """Cumulative distribution of the co-association of pairs, one curve for each K.

    A curve that is flat in the middle means that nearly every pair is either always together or
    always apart. If there are several K, a second panel shows how much the area under the curve
    grows with K. The last K with a clear growth is a good choice.

    Attributes
    ----------
    x : (B,)
        Values of the co-association, from 0 to 1.
    cdf : (L, B)
        Share of the pairs with at most this co-association.
    names : sequence of L str
        Names of the curves.
    ks : (L,) int, optional
        K of each curve, in rising order.
    delta_area : (L,) array or None
        Relative growth Δ(K) of the area under the curve; the area itself for the first K. None
        with fewer than two K.
    ax_, delta_ax_, figure_ : axes of the curves and of Δ(K) (or None), and the figure
    """

    x: Floats
    cdf: Floats
    names: list[str]
    ks: Ints | None = None

    def __post_init__(self) -> None:
        several = self.ks is not None and len(self.ks) > 1
        self.delta_area = area_growth(self.cdf[:, 1:].mean(axis=1)) if several else None

    @classmethod
    def from_ensembles(
        cls, ensembles: Mapping[int, Any], *, max_points: int = 5_000, ax: Any = None
    ) -> Self:
        """Draw one curve for each K.

        Parameters
        ----------
        ensembles : mapping of k to (n, V_k) labels
            As made by :func:`~coterie.inspection.stability.resampled_ensembles`.
        max_points : int
            With more points a random sample of this size is used.
        ax : as in :meth:`plot`

        Examples
        --------
        >>> from coterie import ConsensusCDFDisplay
        >>> from coterie.inspection.stability import resampled_ensembles
        >>> X = np.append(np.linspace(0, 1, 12), np.linspace(5, 6, 12))[:, None]
        >>> ensembles = resampled_ensembles(X, [2, 3], n_resamples=20, random_state=0)
        >>> ConsensusCDFDisplay.from_ensembles(ensembles).names
        ['K = 2', 'K = 3']
        """
        tuples = ensembles_by_k(ensembles)
        curves = [consensus_cdf(P, max_points=max_points) for P in tuples.values()]
        x, names = curves[0][0], [f"K = {k}" for k in tuples]
        return cls(x, np.array([cdf for _, cdf in curves]), names, np.array([*tuples])).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, max_points: int = 5_000, ax: Any = None) -> Self:
        """Draw the curve of the partitions that a consensus was fitted on, all with equal votes.

        Parameters
        ----------
        estimator : fitted consensus function, ConsensusClusterer or MultiViewClusterer
        max_points, ax : as in :meth:`from_ensembles`

        Examples
        --------
        >>> from coterie import ConsensusCDFDisplay, RobustConsensus
        >>> est = RobustConsensus(2).fit([[0, 0], [0, 0], [1, 1], [1, 1]])
        >>> ConsensusCDFDisplay.from_estimator(est).cdf[0, [0, -1]].round(2).tolist()
        [0.67, 1.0]
        """
        tuples = fitted_consensus(estimator)._tuples
        x, cdf = consensus_cdf(tuples, max_points=max_points)
        return cls(x, cdf[None], [f"{tuples.n_partitions} partitions"]).plot(ax)

    def _draw(self, ax: Any) -> None:
        if self.delta_area is None:
            curves, self.delta_ax_ = self._axes(ax, (5.4, 3.8)), None
        else:
            curves, growth = self._panels(ax, (9.0, 3.8), (1, 2), width_ratios=(1.4, 1))
            self.delta_ax_, ks = growth, np.asarray(self.ks)
            growth.plot(ks, self.delta_area, "o-", color=BLUE, lw=1.8, ms=5)
            growth.axhline(0, color="black", lw=0.8)
            growth.set(xlabel="K", ylabel="relative growth Δ(K)", xticks=ks[:: -(-len(ks) // 12)])
            growth.set_title("Growth of the area with K", loc="left")
            without_frame(growth)
        curves.axvspan(*_AMBIGUOUS, color="0.95", lw=0, zorder=0)
        curves.annotate(
            "ambiguous pairs", (0.5, 0), (0, 4), "data", "offset points", ha="center", color="0.4"
        )
        if len(self.cdf) == 1:
            colours: Any = [BLUE]
        else:
            from matplotlib import colormaps

            # from dark to light; the lightest tenth of the map is too pale on white
            colours = colormaps["viridis"](np.linspace(0, 0.9, len(self.cdf)))
        for curve, name, colour in zip(self.cdf, self.names, colours, strict=True):
            curves.step(self.x, curve, where="post", color=colour, lw=1.8, label=name)
        # a step at 0 or 1 would be half hidden by the frame
        curves.set(xlim=(-0.01, 1.01), ylim=(0, 1.02))
        curves.set_xlabel("share of partitions in which a pair is together")
        curves.set_ylabel("share of pairs with at most this share")
        curves.set_title("How decided the pairs are", loc="left")
        place: dict[str, Any] = {}
        if len(self.names) > 1:  # next to the curves, which can be anywhere inside
            columns = -(-len(self.names) // 16)
            place = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "ncols": columns}
        curves.legend(frameon=False, **place)
        without_frame(curves)


@dataclass(eq=False, repr=False)
class TrackingDisplay(Display):
    """Tracking plot: a row for each K, a column for each point, and a colour for each cluster.

    A cluster keeps the colour of the cluster of the row above with which it shares most points. A
    column that changes its colour from row to row is a point that belongs nowhere in particular.

    Attributes
    ----------
    tracks : (L, s) int
        Colour number of each point shown for each K.
    ks : (L,) int
        In rising order.
    points : (s,) int
        Rows of the points in P, in the order shown.
    ax_, figure_, image_ : the axes, the figure and the coloured rows
    """

    tracks: Ints
    ks: Ints
    points: Ints

    @classmethod
    def from_ensembles(
        cls,
        ensembles: Mapping[int, Any],
        *,
        max_points: int = 600,
        random_state: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw the clusters of each ensemble: average linkage on 1 − M, cut into K clusters.

        Parameters
        ----------
        ensembles : as in :meth:`ConsensusCDFDisplay.from_ensembles`
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
        by_k = ensembles_by_k(ensembles)
        n = len(next(iter(by_k.values())).inverse)
        points = sample_points(np.zeros(n), max_points, random_state)
        rows = []
        for k, tuples in by_k.items():
            shown, place = _tuples_of(tuples, points)
            rows.append(cut_into(vote_linkage(shown, np.ones(tuples.n_partitions)), k)[place])
        return cls._in_order(carry_colours(rows), np.array([*by_k]), points).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        ks: Iterable[int] | None = None,
        *,
        max_points: int = 600,
        random_state: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw the clusters of the partitions that a consensus was fitted on.

        They come from one tree, that of :class:`~coterie.LocallyWeightedConsensus`, cut into each
        number of clusters. So every row splits clusters of the row above. Colours are those of the
        clusters of the estimator, in the row with as many clusters.

        Parameters
        ----------
        estimator, max_points, random_state : as in :class:`~coterie.CoassociationDisplay`
        ks : iterable of int, optional
            By default 2 to ``max(n_clusters_ + 2, 6)``.
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
        omega = cluster_weights(tuples, alpha)[np.repeat(alpha > 0, tuples.n_labels)]
        shown, place = _tuples_of(tuples, points)
        voting, group = voting_tuples(shown, alpha)
        leaf, tree = group[place], locally_weighted_tree(voting, alpha[alpha > 0], omega)
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
    def _in_order(cls, tracks: Ints, ks: Ints, points: Ints) -> Self:
        """Put the points of each cluster next to each other, those of the first row first."""
        order = np.lexsort(tracks[::-1])
        return cls(tracks[:, order], ks, points[order])

    def _draw(self, ax: Any) -> None:
        n_rows, n_points = self.tracks.shape
        ax = self._axes(ax, (7.6, min(1.2 + 0.36 * n_rows, 9.0)))
        self.image_ = cluster_image(ax, self.tracks)
        for edge in range(1, n_rows):
            ax.axhline(edge - 0.5, color="white", lw=2.5)
        every = -(-n_rows // 30)
        ax.set_yticks(np.arange(n_rows)[::every], self.ks[::every])
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.set(ylabel="K", xlabel=f"{n_points:,} points, by their clusters")
        ax.set_title("Clusters of the points for each K", loc="left")
        ax.spines[:].set_visible(False)


def carry_colours(rows: Sequence[AnyArray]) -> Ints:
    """Give similar clusters of neighbouring rows the same number.

    The clusters of the first row are numbered by falling size. Those of the next row take the
    numbers of the clusters above, so that as many points as possible keep theirs. A cluster that is
    left over takes the smallest number that neither row uses.
    """
    tracks: list[Ints] = []
    for row in rows:
        labels = renumber_by_size(np.unique(row, return_inverse=True)[1], np.ones(len(row)))
        tracks.append(_numbers_like(labels, tracks[-1])[labels] if tracks else labels)
    return np.array(tracks)


def _numbers_like(labels: Ints, given: Ints, n_clusters: int | None = None) -> Ints:
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


def _tuples_of(tuples: LabelTuples, points: Ints) -> tuple[LabelTuples, Ints]:
    """Return the distinct tuples of some points, weighted by their number, and those of each."""
    kept, place, counts = np.unique(tuples.inverse[points], return_inverse=True, return_counts=True)
    return tuples.subset(kept, counts.astype(np.float64)), place
