"""Where an advertiser's curve may come from: itself, everyone, or a segment found in some way.

A *candidate* is one such way with its settings: the segments of the win view at α = .05 and
K = 12, say. Forecasts have a referee, so which settings are right is settled by
:mod:`coterie.ads.forecasts.backtest`, for every source alike.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from coterie.ads.curves.landscapes import Evidence
from coterie.ads.segments.memberships import Memberships, hard_memberships, learn_memberships
from coterie.ads.segments.views import View
from coterie.errors import InvalidParameterError

__all__ = [
    "SOURCES",
    "Candidate",
    "candidates",
    "consensus_function",
    "consensus_labels",
    "robust_memberships",
]

Labels = NDArray[np.int64]

#: In the order in which tables show them.
SOURCES = ("own", "global", "text", "win", "cost", "l2", "robust")
_LOG = logging.getLogger("coterie")


@dataclass(frozen=True)
class Candidate:
    """One source of curves with its settings.

    Attributes
    ----------
    source : str
        One of :data:`SOURCES`.
    settings : tuple of (str, value) pairs
        Sorted; names the same candidate on other days.
    memberships : Memberships
        Of "own" too: what it is pooled with is the curve of all.
    """

    source: str
    settings: tuple[tuple[str, Any], ...]
    memberships: Memberships

    @property
    def key(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """What is equal for the same candidate on other days."""
        return self.source, self.settings


def candidates(
    views: Mapping[str, View],
    evidence: Evidence,
    n_segments: Sequence[int],
    *,
    sources: Sequence[str] = SOURCES,
    consensus: Any = None,
    max_observations: float | None = 2000,
    random_state: int = 0,
) -> Iterator[Candidate]:
    """Every candidate the views allow, source by source.

    Parameters
    ----------
    views : mapping of str to View
    evidence : Evidence
    n_segments : sequence of int
        Numbers of segments of the two consensus sources; the others take those of their view.
    sources : sequence of str
        Of :data:`SOURCES`; the views a source needs and that are not there leave it out.
    consensus : consensus function, optional
        In place of :class:`~coterie.RobustConsensus` in the source "robust".
    max_observations : float, optional
        See :func:`~coterie.ads.curves.pooling.segment_rates`.
    random_state : int
    """
    unknown = [source for source in sources if source not in SOURCES]
    if unknown or not sources:
        raise InvalidParameterError(
            f"sources={list(sources)}: they may be {', '.join(SOURCES)}, and there must be one"
        )
    nobody = np.full(len(evidence.observations), -1, dtype=np.int64)
    for source in sources:
        if source in {"own", "global"}:
            yield Candidate(source, (), hard_memberships(evidence, nobody))
        elif source in views:
            view = views[source]
            for settings, labels in zip(view.settings, view.partitions.T, strict=True):
                yield Candidate(
                    source,
                    tuple(sorted(settings.items())),
                    hard_memberships(evidence, labels, max_observations),
                )
        elif source in {"l2", "robust"} and views:
            for k in n_segments:
                yield Candidate(
                    source,
                    (("k", k),),
                    _consensus_memberships(
                        source, views, evidence, k, consensus, max_observations, random_state
                    ),
                )


def consensus_labels(
    views: Mapping[str, View], consensus: Any
) -> tuple[Labels, NDArray[np.float64] | None]:
    """The consensus of all partitions of all views, and the weight it gave to each of them.

    Advertisers of whom no partition says anything get −1, and partitions that say nothing of
    anyone the weight 0; the function is fitted on the others. Without weights of its own it
    weighs all alike: None.
    """
    partitions = np.hstack([view.partitions for view in views.values()])
    placed, telling = np.any(partitions >= 0, axis=1), np.any(partitions >= 0, axis=0)
    labels = np.full(len(partitions), -1, dtype=np.int64)
    if not placed.any():
        return labels, None
    fitted = clone(consensus).fit(partitions[np.ix_(placed, telling)])
    labels[placed] = fitted.labels_
    given = getattr(fitted, "partition_weights_", None)
    if given is None:
        return labels, None
    weights = np.zeros(partitions.shape[1])
    weights[telling] = given
    return labels, weights


def robust_memberships(
    views: Mapping[str, View],
    evidence: Evidence,
    labels: Labels,
    max_observations: float | None = 2000,
) -> Memberships:
    """Consensus labels made into shares by the votes of the views and each one's own auctions."""
    # the market view is made of the same auctions: its vote would count them twice
    votes = [view.partitions for name, view in views.items() if name == "text"]
    return learn_memberships(evidence, labels, votes, max_observations=max_observations)


def consensus_function(consensus: Any, n_segments: int, random_state: int = 0) -> Any:
    """The consensus function to fit: the one given, or the robust one, with so many segments.

    The default has least squares in place of the ADMM relaxation, which takes several times as
    long.
    """
    from coterie.consensus.robust.estimator import RobustConsensus

    if consensus is None:
        return RobustConsensus(n_segments, relaxation="l2", random_state=random_state)
    return clone(consensus).set_params(n_clusters=n_segments)


def _consensus_memberships(
    source: str,
    views: Mapping[str, View],
    evidence: Evidence,
    n_segments: int,
    consensus: Any,
    max_observations: float | None,
    random_state: int,
) -> Memberships:
    from coterie.consensus import L2Consensus

    _LOG.info("Finding the %s consensus of the views, %d segments", source, n_segments)
    if source == "l2":
        averaged = L2Consensus(n_segments, random_state=random_state)
        labels, _ = consensus_labels(views, averaged)
        return hard_memberships(evidence, labels, max_observations)
    function = consensus_function(consensus, n_segments, random_state)
    labels, _ = consensus_labels(views, function)
    return robust_memberships(views, evidence, labels, max_observations)
