"""ConsensusCDFDisplay: how decided the pairs of points are, for each K (Monti et al. 2003)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from coterie.consensus.diagnostics import fitted_consensus
from coterie.inspection.displays.figure_panels import axes_or_new, panels, without_frame
from coterie.inspection.displays.palette import BLUE, ordered_colours
from coterie.inspection.displays.shown_points import tuples_by_k
from coterie.inspection.stability import area_growth, area_under, consensus_cdf
from coterie.runtime.short_reprs import short_repr

__all__ = ["ConsensusCDFDisplay"]

Array = NDArray[np.float64]

# pairs with a co-association between these limits are ambiguous
_AMBIGUOUS = (0.1, 0.9)


@dataclass(eq=False)
class ConsensusCDFDisplay:
    """Cumulative distribution of the co-association of pairs, one curve for each K.

    A curve that is flat in the middle means that nearly every pair is either always together or
    always apart. If there are several K, a second panel shows how much the area under the curve
    grows with K. The last K with a clear growth is a good choice.

    Parameters
    ----------
    x : (B,)
        Values of the co-association, from 0 to 1.
    cdf : (L, B)
        Share of the pairs with at most this co-association.
    names : sequence of L str
        Names of the curves.
    ks : (L,) int, optional
        K of each curve, in rising order.

    Attributes
    ----------
    delta_area : (L,) array or None
        Relative growth Δ(K) of the area under the curve; the area itself for the first K. None
        with fewer than two K.
    ax_, delta_ax_, figure_ : axes of the curves and of Δ(K) (or None), and the figure
    """

    x: Array
    cdf: Array
    names: list[str]
    ks: NDArray[np.int64] | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        several = self.ks is not None and len(self.ks) > 1
        areas = np.array([area_under(curve) for curve in self.cdf])
        self.delta_area = area_growth(areas) if several else None

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
        tuples = tuples_by_k(ensembles)
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

    def plot(self, ax: Any = None) -> Self:
        """Draw the curves, and Δ(K) beside them.

        Parameters
        ----------
        ax : matplotlib axes, optional
            The panels take its place; by default they get a new figure.
        """
        self.delta_ax_: Any = None
        if self.delta_area is None:
            self.ax_ = axes_or_new(ax, (5.4, 3.8))
            self.figure_ = self.ax_.figure
        else:
            drawn, self.figure_ = panels(ax, (9.0, 3.8), 1, 2, widths=(1.4, 1))
            self.ax_, self.delta_ax_ = drawn
            self._draw_growth()
        self._draw_curves()
        return self

    def _draw_curves(self) -> None:
        ax, colours = self.ax_, ordered_colours(len(self.cdf))
        ax.axvspan(*_AMBIGUOUS, color="0.95", lw=0, zorder=0)
        ax.annotate(
            "ambiguous pairs", (0.5, 0), (0, 4), "data", "offset points", ha="center", color="0.4"
        )
        for curve, name, colour in zip(self.cdf, self.names, colours, strict=True):
            ax.step(self.x, curve, where="post", color=colour, lw=1.8, label=name)
        # a step at 0 or 1 would be half hidden by the frame
        ax.set(xlim=(-0.01, 1.01), ylim=(0, 1.02))
        ax.set_xlabel("share of partitions in which a pair is together")
        ax.set_ylabel("share of pairs with at most this share")
        ax.set_title("How decided the pairs are", loc="left")
        if len(self.names) > 1:  # beside the curves, which can be anywhere inside
            columns = -(-len(self.names) // 16)
            ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), ncols=columns)
        else:
            ax.legend(frameon=False)
        without_frame(ax)

    def _draw_growth(self) -> None:
        ax, ks = self.delta_ax_, np.asarray(self.ks)
        ax.plot(ks, self.delta_area, "o-", color=BLUE, lw=1.8, ms=5)
        ax.axhline(0, color="black", lw=0.8)
        ax.set(xlabel="K", ylabel="relative growth Δ(K)", xticks=ks[:: -(-len(ks) // 12)])
        ax.set_title("Growth of the area with K", loc="left")
        without_frame(ax)
