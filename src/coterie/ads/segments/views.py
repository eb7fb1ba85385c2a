"""Four looks at the same advertisers, each of which gives several partitions of them.

========  =====================================================================================
text      what the advertiser says: clusters of its words
win       the paper's: Kolmogorov–Smirnov similarity of the win-rate c.d.f., normalised cut
cost      the paper's: the same for the eCPM-cost c.d.f.
market    ours: a mixture of win curves fitted to the auctions themselves, so that an advertiser
          with a dozen bids is placed by what they say and not by its bidding habits
========  =====================================================================================

Each look is taken at several numbers of clusters and, where it has one, at several levels α of
the test: which of them is right is nobody's guess here, it is left to the consensus.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence, share_of_cost, share_of_wins
from coterie.ads.histograms.bid_histograms import DenseCounts
from coterie.ads.segments.graph_clusters import leader_clusters, normalised_cuts
from coterie.ads.segments.memberships import learn_memberships
from coterie.ads.segments.similarity import ks_graphs
from coterie.ads.segments.text_view import text_clusters

__all__ = ["VIEWS", "View", "make_views"]

Labels = NDArray[np.int64]

VIEWS = ("text", "win", "cost", "market")
_LOG = logging.getLogger("coterie")


@dataclass(frozen=True)
class View:
    """The partitions one look gives.

    Attributes
    ----------
    name : str
    partitions : (A, V) int64 array
        −1 where the look says nothing of an advertiser: no text, no win, no bid.
    settings : list of V dicts
        ``k``, and ``alpha`` or ``start`` where the view has one.
    edges, leaders : dicts of float to int
        The number of similar pairs at each α, and of leader clusters; empty for text and market.
    """

    name: str
    partitions: Labels
    settings: list[dict[str, object]]
    edges: dict[float, int]
    leaders: dict[float, int]

    def column(self, **wanted: object) -> Labels:
        """The first partition with these settings."""
        for index, settings in enumerate(self.settings):
            if wanted.items() <= settings.items():
                return self.partitions[:, index]
        raise KeyError(f"the view {self.name} has no partition with {wanted}")


def make_views(
    counts: DenseCounts,
    evidence: Evidence,
    vectors: NDArray[np.float64] | None,
    *,
    ks: Sequence[int],
    alphas: Sequence[float] = (0.01, 0.05, 0.1),
    max_observations: float | None = 2000,
    tolerance: float = 0.0,
    wins_over: str = "wins",
    random_state: int = 0,
) -> dict[str, View]:
    """Take every look that the data allow.

    Parameters
    ----------
    counts : DenseCounts
    evidence : Evidence
        Of the same days.
    vectors : (A, d) array or None
        Of the texts, rows of length 1, or 0 where there is none; without them the text view is
        left out.
    ks : sequence of int
        Numbers of clusters.
    alphas : sequence of float
        Levels of the Kolmogorov–Smirnov test.
    max_observations, tolerance
        See :func:`~coterie.ads.segments.similarity.ks_graph`. The paper has neither: with many
        observations the test tells apart what no forecast would.
    wins_over : {"wins", "bids"}
        See :func:`~coterie.ads.curves.landscapes.share_of_wins`.
    random_state : int
    """
    views: dict[str, View] = {}
    if vectors is not None and np.any(vectors):
        _LOG.info("Grouping advertisers by their texts")
        # as many partitions as the other views have, so that each has the same say
        starts = range(random_state, random_state + len(alphas))
        views["text"] = View(
            "text",
            np.hstack([text_clusters(vectors, list(ks), random_state=start) for start in starts]),
            [{"k": k, "start": start} for start in starts for k in ks],
            {},
            {},
        )
    wins = counts.wins.sum(axis=1)
    for name, curves in (
        ("win", share_of_wins(counts, wins_over)),
        ("cost", share_of_cost(counts)),
    ):
        if (wins > 0).sum() < 2:
            continue
        _LOG.info("Comparing the %s curves of all pairs of advertisers", name)
        graphs = ks_graphs(
            curves, wins, list(alphas), max_observations=max_observations, tolerance=tolerance
        )
        views[name] = View(
            name,
            np.hstack([normalised_cuts(g, list(ks), random_state=random_state) for g in graphs]),
            [{"alpha": alpha, "k": k} for alpha in alphas for k in ks],
            {alpha: int(g.nnz // 2) for alpha, g in zip(alphas, graphs, strict=True)},
            {
                alpha: int(leader_clusters(g, wins).max(initial=-1)) + 1
                for alpha, g in zip(alphas, graphs, strict=True)
            },
        )
    if views and (evidence.observations > 0).sum() > 1:
        views["market"] = _market_view(evidence, views, ks, max_observations)
    return views


def _market_view(
    evidence: Evidence,
    starts: dict[str, View],
    ks: Sequence[int],
    max_observations: float | None,
) -> View:
    """Mixtures of win curves, started from one partition of every other view."""
    _LOG.info("Grouping advertisers by the market they meet")
    silent = evidence.observations <= 0
    columns, settings = [], []
    for name, start in starts.items():
        for k in ks:
            labels = start.column(k=k)
            found = learn_memberships(evidence, labels, max_observations=max_observations).labels
            columns.append(np.where(silent, -1, found))
            settings.append({"k": k, "start": name})
    return View("market", np.stack(columns, axis=1), settings, {}, {})
