"""Plots of a consensus, in the style of the displays of scikit-learn.

A display holds the numbers that it draws: ``from_…`` computes and draws them, ``plot`` draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from coterie.consensus.diagnostics import dissent_of, fitted_consensus, partition_names
from coterie.counts.cluster_tables import ClusterTables
from coterie.counts.coassociation import check_partition_weights, coassociation
from coterie.errors import InvalidLabelsError, InvalidParameterError, MissingExtraError
from coterie.labels.label_matrix import LabelMatrix, as_label_matrix
from coterie.labels.tuples import compress_labels
from coterie.runtime.sampling import stratified_sample

if TYPE_CHECKING:
    from coterie.inspection.choosing_k import KChoice

__all__ = [
    "ChooseKDisplay",
    "CoassociationDisplay",
    "ConvergenceDisplay",
    "PartitionAgreementDisplay",
]

Array = NDArray[np.float64]

# blue and vermilion of the palette of Okabe and Ito, which is safe for colour-blind readers
_BLUE, _VERMILION = "#0072B2", "#D55E00"
_MOST_NAMES = 40
_CRITERIA = {
    "objective": "objective J, low is good",
    "confidence": "confidence, high is good",
    "relative_eigengap": "relative eigengap, high is good",
    "agreement": "agreement of methods, high is good",
    "pac": "ambiguous pairs (PAC), low is good",
}


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

    matrix: Array
    labels: NDArray[Any]
    points: NDArray[np.int64]

    @classmethod
    def from_estimator(cls, estimator: Any, P: Any, **settings: Any) -> Self:
        """Draw the partitions ``P`` of a fitted consensus; settings as in :meth:`from_labels`.

        Examples
        --------
        >>> from coterie import RobustConsensus
        >>> P = [[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]]
        >>> est = RobustConsensus(2, partition_weights=None, random_state=0).fit(P)
        >>> CoassociationDisplay.from_estimator(est, P).matrix[0].round(2).tolist()
        [1.0, 1.0, 0.0, 0.33]
        """
        consensus = fitted_consensus(estimator)
        settings.setdefault("confidence", consensus.confidence_)
        settings.setdefault("partition_weights", consensus.partition_weights_)
        return cls.from_labels(P, consensus.labels_, **settings)

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
        P : (n, V) labels
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
        if max_points < 1:
            raise InvalidParameterError(f"max_points={max_points}: give at least 1")
        matrix = as_label_matrix(P)
        labels = _check_length("labels", labels, matrix.n_points)
        names, codes = np.unique(labels, return_inverse=True)
        alpha = check_partition_weights(partition_weights, matrix.n_partitions)
        if confidence is None:
            tuples = compress_labels(matrix).without_compression()
            tables = ClusterTables.of(tuples, codes, alpha[tuples.partition_order])
            confidence = tables.assign(tuples.codes, 0.5, codes, tuples.memberships)[1]
        confidence = _check_length("confidence", confidence, matrix.n_points)
        points = stratified_sample(codes, max_points, np.random.default_rng(random_state))
        points = points[np.lexsort((points, -confidence[points], codes[points]))]
        shown = LabelMatrix(matrix.codes[points], matrix.categories, matrix.names)
        display = cls(coassociation(shown, alpha), names[codes[points]], points)
        return display.plot(ax, **plot_settings)

    def plot(self, ax: Any = None, *, cmap: str = "Blues", colorbar: bool = True) -> Self:
        """Draw the heat map with outlined clusters on ``ax`` or a new figure."""
        ax = _axes(ax, (6.4, 5.6))
        from matplotlib.patches import Rectangle

        self.ax_, self.figure_ = ax, ax.figure
        self.image_ = ax.imshow(self.matrix, cmap=cmap, vmin=0, vmax=1, interpolation="nearest")
        names, starts, sizes = np.unique(self.labels, return_index=True, return_counts=True)
        for start, size in zip(starts, sizes, strict=True):
            corner = (start - 0.5, start - 0.5)
            ax.add_patch(Rectangle(corner, size, size, fill=False, color=_VERMILION, lw=1.2))
        # the names of small clusters would overlap
        large = sizes >= 0.025 * len(self.labels)
        middles = (starts + (sizes - 1) / 2)[large]
        ax.set_xticks(middles, names[large])
        ax.set_yticks(middles, names[large])
        ax.tick_params(length=0)
        n_shown = f"{len(self.labels):,}"
        ax.set(xlabel=f"{n_shown} points by cluster and falling confidence", ylabel="cluster")
        ax.set_title("Which points the partitions put together", loc="left")
        if colorbar:
            self.figure_.colorbar(self.image_, ax=ax, label="share of partitions", shrink=0.8)
        return self


@dataclass(eq=False)
class PartitionAgreementDisplay:
    """Heat map of the agreement of partitions, beside their agreement with the consensus.

    Parameters
    ----------
    agreement : (V, V)
        Adjusted Rand index of every pair of partitions, in the order shown: by camps.
    with_consensus : (V,)
        Adjusted Rand index of each partition with the consensus.
    camps : (V,) int
    decides : (V,) bool
        Whether the camp of the partition decides; otherwise the partition dissents.
    names : sequence of V str
    order : (V,) int
        The column of P of each partition.

    Attributes
    ----------
    ax_, bars_ax_, figure_, image_, bars_ : axes of heat map and bars, the figure, and both plots
    """

    agreement: Array
    with_consensus: Array
    camps: NDArray[np.int64]
    decides: NDArray[np.bool_]
    names: Sequence[str]
    order: NDArray[np.int64]

    @classmethod
    def from_estimator(
        cls, estimator: Any, names: Sequence[str] | None = None, *, ax: Any = None, **settings: Any
    ) -> Self:
        """Draw the partitions that a consensus, or a clusterer with a consensus, was fitted on.

        ``names`` are by default those of the columns of P; ``settings`` as in :meth:`plot`.

        Examples
        --------
        >>> from coterie import RobustConsensus, planted_partitions
        >>> P, _ = planted_partitions([60, 40], 5, n_bad=2, noise=0.1, random_state=0)
        >>> est = RobustConsensus(2, random_state=0).fit(P)
        >>> PartitionAgreementDisplay.from_estimator(est).camps.tolist()
        [0, 0, 0, 1, 1]
        """
        consensus = fitted_consensus(estimator)
        dissent, agreement = dissent_of(consensus), consensus.partition_agreement_
        names = partition_names(consensus, names)
        order = np.lexsort((np.arange(len(names)), -agreement, dissent.groups))
        display = cls(
            dissent.agreement[np.ix_(order, order)],
            with_consensus=agreement[order],
            camps=dissent.groups[order],
            decides=dissent.weights[order] > 0,
            names=[names[v] for v in order],
            order=order,
        )
        return display.plot(ax, **settings)

    def plot(self, ax: Any = None, *, cmap: str = "Blues") -> Self:
        """Draw both panels in place of ``ax`` or on a new figure."""
        V = len(self.names)
        (heat, bars), self.figure_ = _panels(ax, (8.4, 4.8), 1, 2, (1.3, 1), sharey=True)
        self.ax_, self.bars_ax_ = heat, bars
        self.image_ = heat.imshow(self.agreement, cmap=cmap, vmin=0, vmax=1, aspect="auto")
        every = -(-V // _MOST_NAMES)
        heat.set_yticks(np.arange(V)[::every], self.names[::every])
        heat.set_xticks([])
        heat.tick_params(length=0)
        heat.set_title("Agreement between partitions", loc="left", pad=26)
        self.figure_.colorbar(self.image_, ax=heat, label="adjusted Rand index", aspect=30)
        colours = np.where(self.decides, _BLUE, _VERMILION)
        self.bars_ = bars.barh(np.arange(V), self.with_consensus, height=0.75, color=colours)
        bars.axvline(0, color="black", lw=0.8)
        lowest = min(0.0, 1.1 * float(self.with_consensus.min()))
        bars.set(xlim=(lowest, 1), xlabel="adjusted Rand index")
        bars.tick_params(left=False, labelleft=False)
        bars.spines[["top", "right", "left"]].set_visible(False)
        bars.set_title("and with the consensus", loc="left", pad=26)
        self._draw_brackets()
        if not self.decides.all():
            self._mark_dissenters(every)
        return self

    def _draw_brackets(self) -> None:
        """Draw a bracket above each camp, and one above all camps of a single partition."""
        from matplotlib.transforms import offset_copy

        heat, size = self.ax_, np.bincount(self.camps)[self.camps]
        # camps are numbered by falling size, so those of size one are last and side by side
        kinds = np.where(size == 1, -1, self.camps)
        across = heat.get_xaxis_transform()
        above = offset_copy(across, self.figure_, y=5, units="points")
        for kind in dict.fromkeys(kinds.tolist()):
            members = np.flatnonzero(kinds == kind)
            ends, middle = [members[0] - 0.4, members[-1] + 0.4], members.mean()
            heat.plot(ends, [1, 1], "|-", color="black", ms=6, transform=above, clip_on=False)
            if len(members) > 0.1 * len(kinds):
                text = f"camp {kind}" if kind >= 0 else "alone"
                heat.annotate(text, (middle, 1), (0, 9), across, "offset points", ha="center")

    def _mark_dissenters(self, every: int) -> None:
        from matplotlib.patches import Patch

        for label, decides in zip(self.ax_.get_yticklabels(), self.decides[::every], strict=True):
            label.set_color("black" if decides else _VERMILION)
        kinds = [Patch(color=_BLUE, label="decides"), Patch(color=_VERMILION, label="dissents")]
        self.bars_ax_.legend(handles=kinds, loc="lower right", frameon=False)


@dataclass(eq=False)
class ConvergenceDisplay:
    """Objective and residuals of every ADMM step.

    Parameters
    ----------
    history : mapping of str to sequence of float
        ``history_`` of a fitted :class:`~coterie.RobustConsensus`.

    Attributes
    ----------
    ax_, residuals_ax_, figure_ : the axes of the objective and of the residuals, the figure
    """

    history: Mapping[str, Sequence[float]]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the convergence of a fitted :class:`~coterie.RobustConsensus`.

        Examples
        --------
        >>> from coterie import RobustConsensus, planted_partitions
        >>> P, _ = planted_partitions([60, 40], 5, n_bad=0, noise=0.1, random_state=0)
        >>> est = RobustConsensus(2, random_state=0).fit(P)
        >>> len(ConvergenceDisplay.from_estimator(est).history["objective"]) == est.n_iter_
        True
        """
        check_is_fitted(estimator)
        history = getattr(getattr(estimator, "consensus_", estimator), "history_", {})
        if not history.get("primal_residual"):
            raise InvalidParameterError(
                "there is no history to draw: the least-squares relaxation has no steps; fit a "
                "RobustConsensus with relaxation='admm', on few enough distinct label tuples"
            )
        return cls(history).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw both panels in place of ``ax`` or on a new figure."""
        (self.ax_, self.residuals_ax_), self.figure_ = _panels(ax, (6.4, 4.8), 2, 1, sharex=True)
        steps = np.arange(1, len(self.history["objective"]) + 1)
        self.ax_.plot(steps, self.history["objective"], color=_BLUE, lw=1.8)
        self.ax_.set(ylabel="objective ‖M − HDHᵀ‖₁", title="Convergence of the robust relaxation")
        for name, colour, style in (("primal", _BLUE, "-"), ("dual", _VERMILION, "--")):
            values, label = self.history[f"{name}_residual"], f"{name} residual"
            self.residuals_ax_.plot(steps, values, style, color=colour, lw=1.8, label=label)
        self.residuals_ax_.set(xlabel="step", ylabel="relative residual", yscale="log")
        self.residuals_ax_.legend(frameon=False)
        self.ax_.spines[["top", "right"]].set_visible(False)
        self.residuals_ax_.spines[["top", "right"]].set_visible(False)
        return self


@dataclass(eq=False)
class ChooseKDisplay:
    """Criteria of :func:`~coterie.choose_k` over K, one panel each, with the chosen K marked.

    Parameters
    ----------
    choice : :class:`~coterie.inspection.choosing_k.KChoice`

    Attributes
    ----------
    ax_, figure_ : the first axes and the figure
    axes_ : dict of str to axes
        By criterion. A criterion that is unavailable for every K has no panel.
    """

    choice: KChoice

    @classmethod
    def from_choice(cls, choice: KChoice, *, ax: Any = None) -> Self:
        """Draw a choice of K.

        Examples
        --------
        >>> from coterie import choose_k, planted_partitions
        >>> P, _ = planted_partitions([40, 30, 20], 8, n_bad=0, noise=0.1, random_state=0)
        >>> list(ChooseKDisplay.from_choice(choose_k(P, range(2, 6))).axes_)
        ['objective', 'confidence', 'relative_eigengap', 'agreement']
        """
        return cls(choice).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the panels in place of ``ax`` or on a new figure."""
        ks, best = np.asarray(self.choice.ks), self.choice.best_k
        curves = {name: getattr(self.choice, name) for name in _CRITERIA}
        curves = {name: curve for name, curve in curves.items() if np.isfinite(curve).any()}
        panels, self.figure_ = _panels(ax, (3.1 * len(curves), 2.9), 1, len(curves), sharex=True)
        self.axes_ = dict(zip(curves, np.atleast_1d(panels), strict=True))
        self.ax_ = np.atleast_1d(panels)[0]
        for (name, curve), panel in zip(curves.items(), self.axes_.values(), strict=True):
            panel.plot(ks, curve, "o-", color=_BLUE, lw=1.8, ms=4)
            panel.plot(best, curve[ks == best], "o", color=_VERMILION, ms=9, label=f"K = {best}")
            panel.axvline(best, color=_VERMILION, lw=1, ls=":")
            panel.set(xlabel="K", xticks=ks[:: -(-len(ks) // 10)])
            panel.set_title(_CRITERIA[name], loc="left", fontsize="medium")
            panel.spines[["top", "right"]].set_visible(False)
        self.ax_.legend(frameon=False)
        return self


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return ``ax``, or the axes of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib: pip install 'coterie[plots]'") from error
    return plt.subplots(figsize=size, layout="constrained")[1]


def _panels(
    ax: Any, size: tuple[float, float], rows: int, columns: int, ratios: Any = None, **shared: bool
) -> tuple[Any, Any]:
    """Return a grid of panels in place of ``ax`` or on a new figure, and the figure."""
    ax = _axes(ax, size)
    place = ax.get_subplotspec()
    if place is None:
        raise InvalidParameterError("ax is no subplot; create it with plt.subplots()")
    ax.set_axis_off()
    grid = place.subgridspec(rows, columns, width_ratios=ratios)
    return grid.subplots(**shared), ax.figure


def _check_length(name: str, values: Any, n_points: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape == (n_points,):
        return array
    raise InvalidLabelsError(
        f"{name} has shape {array.shape}, P has {n_points} points; give one value per point"
    )
