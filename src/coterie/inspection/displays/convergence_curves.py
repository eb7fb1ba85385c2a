"""ConvergenceDisplay: objective and residuals of the robust relaxation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from coterie.errors import InvalidParameterError
from coterie.inspection.displays.figure_panels import panels, without_frame
from coterie.inspection.displays.palette import BLUE, VERMILION
from coterie.runtime.short_reprs import short_repr

__all__ = ["ConvergenceDisplay"]


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

    __repr__ = short_repr

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the convergence of a fitted :class:`~coterie.RobustConsensus`.

        Parameters
        ----------
        estimator : fitted RobustConsensus or RobustSpectral
            Or a clusterer that holds one.
        ax : matplotlib axes, optional
            The panels take its place; by default they get a new figure.

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

    def plot(self, ax: Any = None) -> Self:
        """Draw both panels.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The panels take its place; by default they get a new figure.
        """
        (self.ax_, self.residuals_ax_), self.figure_ = panels(ax, (6.4, 4.8), 2, 1, sharex=True)
        steps = np.arange(1, len(self.history["objective"]) + 1)
        self.ax_.plot(steps, self.history["objective"], color=BLUE, lw=1.8)
        self.ax_.set(ylabel="objective ‖M − HDHᵀ‖₁", title="Convergence of the robust relaxation")
        for name, colour, style in (("primal", BLUE, "-"), ("dual", VERMILION, "--")):
            values, label = self.history[f"{name}_residual"], f"{name} residual"
            self.residuals_ax_.plot(steps, values, style, color=colour, lw=1.8, label=label)
        self.residuals_ax_.set(xlabel="step", ylabel="relative residual", yscale="log")
        self.residuals_ax_.legend(frameon=False)
        without_frame(self.ax_)
        without_frame(self.residuals_ax_)
        return self
