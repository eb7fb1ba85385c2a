"""ChooseKDisplay: the criteria of a choice of K."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from coterie.consensus.diagnostics import fitted_consensus, k_choice_of
from coterie.consensus.robust.k_choice import KChoice
from coterie.inspection.choosing_k import choose_k
from coterie.inspection.displays.figure_panels import panels, without_frame
from coterie.inspection.displays.palette import BLUE, VERMILION
from coterie.runtime.short_reprs import short_repr

__all__ = ["CRITERIA", "ChooseKDisplay"]

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


@dataclass(eq=False)
class ChooseKDisplay:
    """Criteria of :func:`~coterie.choose_k` over K, one panel each, with the chosen K marked.

    Parameters
    ----------
    choice : :class:`~coterie.consensus.robust.k_choice.KChoice`

    Attributes
    ----------
    ax_, figure_ : the first axes and the figure
    axes_ : dict of str to axes
        By criterion. A criterion that is unavailable for every K has no panel.
    """

    choice: KChoice

    __repr__ = short_repr

    @classmethod
    def from_choice(cls, choice: KChoice, *, ax: Any = None) -> Self:
        """Draw a choice of K.

        Parameters
        ----------
        choice : KChoice
            The result of :func:`~coterie.choose_k`.
        ax : matplotlib axes, optional
            The panels take its place; by default they get a new figure.

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
        random_state: Any = 0,
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

    def plot(self, ax: Any = None) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The panels take its place; by default they get a new figure.
        """
        ks, best = np.asarray(self.choice.ks), self.choice.best_k
        curves = {name: getattr(self.choice, name) for name in CRITERIA}
        curves = {name: curve for name, curve in curves.items() if np.isfinite(curve).any()}
        rows = -(-len(curves) // _MOST_IN_A_ROW)
        columns = -(-len(curves) // rows)
        drawn, self.figure_ = panels(
            ax, (3.1 * columns, 2.9 * rows), rows, columns, sharex=True, squeeze=False
        )
        places = drawn.ravel()
        self.axes_ = dict(zip(curves, places, strict=False))
        self.ax_ = places[0]
        for unused in places[len(curves) :]:
            unused.set_axis_off()
        for (name, curve), panel in zip(curves.items(), places, strict=False):
            panel.plot(ks, curve, "o-", color=BLUE, lw=1.8, ms=4)
            panel.plot(best, curve[ks == best], "o", color=VERMILION, ms=9, label=f"K = {best}")
            panel.axvline(best, color=VERMILION, lw=1, ls=":")
            panel.set(xlabel="K", xticks=ks[:: -(-len(ks) // 10)])
            panel.set_title(CRITERIA[name], loc="left", fontsize="medium")
            without_frame(panel)
        self.ax_.legend(frameon=False)
        return self
