"""Views: four descriptions of the same advertisers, each clustered several times.

========  =====================================================================================
text      clusters of the words of the advertiser's text
win       as in the paper: Kolmogorov–Smirnov similarity of the win-rate c.d.f., normalised cut
cost      as in the paper: the same for the eCPM-cost c.d.f.
market    not in the paper: a mixture of win curves fitted to the auctions; it also places
          advertisers with a dozen bids, and does not depend on how they bid
========  =====================================================================================

Each view has a partition for every number of clusters and, for win and cost, for every level α of
the test. The consensus decides which of them to trust.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence, share_of_cost, share_of_wins
from coterie.ads.histograms.bid_histograms import DenseCounts
from coterie.ads.segments.graph_clusters import normalised_cuts
from coterie.ads.segments.memberships import learn_memberships
from coterie.ads.segments.similarity import compare_curves
from coterie.ads.segments.text_view import text_clusters

__all__ = ["View", "make_views"]

Labels = NDArray[np.int64]

#: Up to so many advertisers all similar pairs are kept, of more the nearest of each.
_MOST_IN_ALL_PAIRS, _NEAREST = 5000, 50
_LOG = logging.getLogger("coterie")


@dataclass(frozen=True)
class View:
    """Partitions of the advertisers by one view."""

    name: str
    partitions: Labels  # (A, V), −1 for an advertiser without text, win or bid
    settings: list[dict[str, object]]  # of each partition: k, and alpha or start
    # similar pairs at each alpha, and leader clusters of all of them
    edges: dict[float, int] = field(default_factory=dict)
    leaders: dict[float, int] = field(default_factory=dict)

    def column(self, **wanted: object) -> Labels:
        """Return the first partition with these settings."""
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
    n_neighbors: int | str | None = "auto",
    wins_over: str = "wins",
    random_state: int = 0,
) -> dict[str, View]:
    """Make every view that the data allow.

    ``counts`` and ``evidence`` are of the same days. ``vectors`` (A, d) of the texts have rows of
    length 1, or zeros for a missing text; without them there is no text view. ``ks`` are the
    numbers of clusters, ``alphas`` the levels of the test. For ``max_observations``,
    ``tolerance`` and ``n_neighbors`` see
    :func:`~coterie.ads.segments.similarity.compare_curves`; "auto" is None for up to 5,000
    advertisers, and 50 for more. The paper has none of them, but with many observations the test
    separates advertisers whose forecasts are equal, and with few it joins all. For ``wins_over``
    see :func:`~coterie.ads.curves.landscapes.share_of_wins`.
    """
    views: dict[str, View] = {}
    if vectors is not None and np.any(vectors):
        _LOG.info("Grouping advertisers by their texts")
        # as many partitions as the other views have, so that views have equal weight
        starts = range(random_state, random_state + len(alphas))
        views["text"] = View(
            "text",
            np.hstack([text_clusters(vectors, list(ks), random_state=start) for start in starts]),
            [{"k": k, "start": start} for start in starts for k in ks],
        )
    wins = counts.wins.sum(axis=1)
    both = {"win": share_of_wins(counts, wins_over), "cost": share_of_cost(counts)}
    for name, curves in both.items() if (wins > 0).sum() > 1 else ():
        _LOG.info("Comparing the %s curves of all pairs of advertisers", name)
        found = compare_curves(
            curves,
            wins,
            list(alphas),
            max_observations=max_observations,
            tolerance=tolerance,
            n_neighbors=_neighbors(n_neighbors, int((wins > 0).sum())),
        )
        cuts = [normalised_cuts(g, list(ks), random_state=random_state) for g in found.graphs]
        views[name] = View(
            name,
            np.hstack(cuts),
            [{"alpha": alpha, "k": k} for alpha in alphas for k in ks],
            dict(zip(alphas, found.pairs, strict=True)),
            dict(zip(alphas, found.leaders(), strict=True)),
        )
    if views and (evidence.observations > 0).sum() > 1:
        views["market"] = _market_view(evidence, views, ks, max_observations)
    return views


def _neighbors(wanted: int | str | None, n_advertisers: int) -> int | None:
    if isinstance(wanted, str):
        return _NEAREST if n_advertisers > _MOST_IN_ALL_PAIRS else None
    return wanted


def _market_view(
    evidence: Evidence,
    starts: dict[str, View],
    ks: Sequence[int],
    max_observations: float | None,
) -> View:
    """Fit mixtures of win curves, started from one partition of every other view."""
    _LOG.info("Grouping advertisers by their markets")
    without_bids = evidence.observations <= 0
    columns, settings = [], []
    for name, start in starts.items():
        for k in ks:
            labels = start.column(k=k)
            found = learn_memberships(evidence, labels, max_observations=max_observations).labels
            columns.append(np.where(without_bids, -1, found))
            settings.append({"k": k, "start": name})
    return View("market", np.stack(columns, axis=1), settings)
