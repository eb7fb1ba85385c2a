"""Displays of a fitted consensus: the agreement of its partitions, and how the solver converged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from coterie.arrays import Bools, Floats, Ints
from coterie.consensus.results import dissent_of, fitted_consensus, partition_names
from coterie.errors import InvalidParameterError
from coterie.inspection.displays.colours_and_axes import BLUE, VERMILION, Display, without_frame

# inches: height of a new figure, of a row of the heat map, and of titles and axis labels
_LEAST_HEIGHT, _MOST_HEIGHT, _ROW_HEIGHT, _MARGINS = 4.8, 10.0, 0.19, 1.35
# points: sizes of the names of partitions; a line of text is higher than its size
_LEAST_SIZE, _MOST_SIZE, _LINE_SPACING = 7.0, 10.0, 1.25


@dataclass(eq=False, repr=False)
class PartitionAgreementDisplay(Display):
    """Heat map of the agreement of partitions, next to their agreement with the consensus.

    Attributes
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
    ax_, bars_ax_, figure_, image_, bars_ : axes of heat map and bars, the figure, and both plots
    """

    agreement: Floats
    with_consensus: Floats
    camps: Ints
    decides: Bools
    names: Sequence[str]
    order: Ints

    @classmethod
    def from_estimator(
        cls, estimator: Any, names: Sequence[str] | None = None, *, ax: Any = None, **settings: Any
    ) -> Self:
        """Draw the partitions that a consensus, or a clusterer with a consensus, was fitted on.

        Parameters
        ----------
        estimator : fitted consensus function, ConsensusClusterer or MultiViewClusterer
        names : sequence of str, optional
            Names of the partitions; by default those of the columns of P.
        ax, **settings : as in :meth:`plot`

        Examples
        --------
        >>> from coterie import PartitionAgreementDisplay, RobustConsensus, planted_partitions
        >>> P, _ = planted_partitions([60, 40], 5, n_bad=2, noise=0.1, random_state=0)
        >>> est = RobustConsensus(2, random_state=0).fit(P)
        >>> PartitionAgreementDisplay.from_estimator(est).camps.tolist()
        [0, 0, 0, 1, 1]
        """
        return cls._of_estimator(estimator, names).plot(ax, **settings)

    @classmethod
    def _of_estimator(cls, estimator: Any, names: Sequence[str] | None = None) -> Self:
        consensus = fitted_consensus(estimator)
        dissent, agreement = dissent_of(consensus), consensus.partition_agreement_
        names = partition_names(consensus, names)
        order = np.lexsort((np.arange(len(names)), -agreement, dissent.groups))
        return cls(
            dissent.agreement[np.ix_(order, order)],
            with_consensus=agreement[order],
            camps=dissent.groups[order],
            decides=dissent.weights[order] > 0,
            names=[names[v] for v in order],
            order=order,
        )

    def plot(self, ax: Any = None, *, cmap: str = "Blues") -> Self:
        """Draw both panels; of names that do not fit, only every second or third one is shown.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The panels take its place. By default a new figure is made, which grows with the number
            of partitions up to a limit.
        cmap : str
            Name of the colour map.
        """
        V = len(self.names)
        height = float(np.clip(_MARGINS + _ROW_HEIGHT * V, _LEAST_HEIGHT, _MOST_HEIGHT))
        size = (6.4 + 0.42 * height, height)
        heat, bars = self._panels(ax, size, (1, 2), width_ratios=(1.3, 1), sharey=True)
        self.bars_ax_ = bars
        from matplotlib.patches import Patch
        from matplotlib.transforms import offset_copy

        self.image_ = heat.imshow(self.agreement, cmap=cmap, vmin=0, vmax=1, aspect="auto")
        heat.set_xticks([])
        heat.tick_params(length=0)
        heat.set_title("Agreement between partitions", loc="left", pad=26)
        self.figure_.colorbar(self.image_, ax=heat, label="adjusted Rand index", aspect=30)
        colours = np.where(self.decides, BLUE, VERMILION)
        self.bars_ = bars.barh(np.arange(V), self.with_consensus, height=0.75, color=colours)
        bars.axvline(0, color="black", lw=0.8)
        lowest = min(0.0, 1.1 * float(self.with_consensus.min()))
        bars.set(xlim=(lowest, 1), xlabel="adjusted Rand index")
        bars.tick_params(left=False, labelleft=False)
        without_frame(bars, "top", "right", "left")
        bars.set_title("and with the consensus", loc="left", pad=26)
        # as many names as fit, those of dissenters in their colour
        inches = heat.get_position().height * self.figure_.get_figheight()
        spacing = 72 * max(inches, 1.0) / V
        font = float(np.clip(spacing / _LINE_SPACING, _LEAST_SIZE, _MOST_SIZE))
        every = int(np.ceil(_LEAST_SIZE * _LINE_SPACING / spacing - 1e-9))
        heat.set_yticks(np.arange(V)[::every], self.names[::every], fontsize=font)
        for label, decides in zip(heat.get_yticklabels(), self.decides[::every], strict=True):
            label.set_color("black" if decides else VERMILION)
        # a bracket above each camp, and one above all camps of a single partition
        across = heat.get_xaxis_transform()
        above = offset_copy(across, self.figure_, y=5, units="points")
        for name, members in self.blocks:
            ends, middle = [members[0] - 0.4, members[-1] + 0.4], members.mean()
            heat.plot(ends, [1, 1], "|-", color="black", ms=6, transform=above, clip_on=False)
            if len(members) > 0.1 * V:
                heat.annotate(name, (middle, 1), (0, 9), across, "offset points", ha="center")
        if not self.decides.all():
            # the names of the colours are above the bars, where the title leaves room
            handles = [Patch(color=BLUE, label="decides"), Patch(color=VERMILION, label="dissents")]
            place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2, "borderpad": 0.2}
            spacing = {"columnspacing": 1.2, "handlelength": 1.2}
            legend = bars.legend(handles=handles, frameon=False, **place, **spacing)
            legend.set_in_layout(False)  # a wide legend must not narrow the panel
        return self

    @property
    def blocks(self) -> list[tuple[str, Ints]]:
        """The rows of each camp, and those of all camps of a single partition, by their names."""
        # camps are numbered by falling size, so those of size one are last and next to each other
        kinds = np.where(np.bincount(self.camps)[self.camps] == 1, -1, self.camps)
        return [
            (f"camp {kind}" if kind >= 0 else "alone", np.flatnonzero(kinds == kind))
            for kind in dict.fromkeys(kinds.tolist())
        ]


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """Objective and residuals of every ADMM step.

    Attributes
    ----------
    history : mapping of str to sequence of float
        ``history_`` of a fitted :class:`~coterie.RobustConsensus`.
    ax_, residuals_ax_, figure_ : the axes of the objective and of the residuals, the figure
    """

    history: Mapping[str, Sequence[float]]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the convergence of a fitted :class:`~coterie.RobustConsensus`.

        Parameters
        ----------
        estimator : fitted RobustConsensus or RobustSpectral, or clusterer that holds one
        ax : as in :meth:`plot`

        Examples
        --------
        >>> from coterie import ConvergenceDisplay, RobustConsensus, planted_partitions
        >>> P, _ = planted_partitions([60, 40], 5, n_bad=0, noise=0.1, random_state=0)
        >>> est = RobustConsensus(2, random_state=0).fit(P)
        >>> len(ConvergenceDisplay.from_estimator(est).history["objective"]) == est.n_iter_
        True
        """
        check_is_fitted(estimator)
        solver = getattr(estimator, "consensus_", estimator)
        history = getattr(solver, "history_", {})
        if not history.get("primal_residual"):
            raise InvalidParameterError(
                f"there is no history to draw: no ADMM ran in this {type(solver).__name__}; fit "
                "a RobustConsensus with relaxation='admm', on few enough distinct label tuples"
            )
        return cls(history).plot(ax)

    def _draw(self, ax: Any) -> None:
        objective, residuals = self._panels(ax, (6.4, 4.8), (2, 1), sharex=True)
        self.residuals_ax_ = residuals
        steps = np.arange(1, len(self.history["objective"]) + 1)
        objective.plot(steps, self.history["objective"], color=BLUE, lw=1.8)
        objective.set(ylabel="objective ‖M − HDHᵀ‖₁", title="Convergence of the robust relaxation")
        for name, colour, style in (("primal", BLUE, "-"), ("dual", VERMILION, "--")):
            values, label = self.history[f"{name}_residual"], f"{name} residual"
            residuals.plot(steps, values, style, color=colour, lw=1.8, label=label)
        residuals.set(xlabel="step", ylabel="relative residual", yscale="log")
        residuals.legend(frameon=False)
        without_frame(objective)
        without_frame(residuals)
