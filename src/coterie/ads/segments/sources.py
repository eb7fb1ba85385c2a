"""Sources of curves: the advertiser itself, all advertisers, or segments.

A *candidate* is one source with its settings, for example the segments of the win view at α = .05
and K = 12. :mod:`coterie.ads.fitting.backtest` chooses among them by forecast errors.
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
from coterie.runtime.messages import ignore_label_warnings

__all__ = [
    "SOURCES",
    "Candidate",
    "candidates",
    "consensus_function",
    "consensus_labels",
    "robust_memberships",
]

Labels = NDArray[np.int64]

#: In the order of the tables.
SOURCES = ("own", "global", "text", "win", "cost", "l2", "robust")
_LOG = logging.getLogger("coterie")


@dataclass(frozen=True)
class Candidate:
    """One source of curves with its settings."""

    source: str  # one of SOURCES
    settings: tuple[tuple[str, Any], ...]  # sorted; identifies the candidate on other days
    memberships: Memberships  # for "own", advertisers are pooled with the curve of all

    @property
    def key(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """Key that is equal for the same candidate on other days."""
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
    """Yield every candidate that the views allow, source by source.

    ``n_segments`` are the numbers of segments of "l2" and "robust"; other sources use those of
    their view. A source whose view is missing is left out. ``consensus`` replaces
    :class:`~coterie.RobustConsensus` in "robust". For ``max_observations`` see
    :func:`~coterie.ads.curves.pooling.segment_rates`.
    """
    unknown = [source for source in sources if source not in SOURCES]
    if unknown or not sources:
        raise InvalidParameterError(
            f"sources={list(sources)}: give at least one of {', '.join(SOURCES)}"
        )
    unlabelled = np.full(len(evidence.observations), -1, dtype=np.int64)
    for source in sources:
        if source in {"own", "global"}:
            yield Candidate(source, (), hard_memberships(evidence, unlabelled))
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
    """Compute the consensus of all partitions of all views, and the weight of each partition.

    Advertisers without a label in any partition get −1, and partitions without a label get the
    weight 0; the consensus is fitted on the others. Weights are None if the consensus function
    has no ``partition_weights_``.
    """
    partitions = np.hstack([view.partitions for view in views.values()])
    placed, nonempty = np.any(partitions >= 0, axis=1), np.any(partitions >= 0, axis=0)
    labels = np.full(len(partitions), -1, dtype=np.int64)
    if not placed.any():
        return labels, None
    with ignore_label_warnings():
        fitted = clone(consensus).fit(partitions[np.ix_(placed, nonempty)])
    labels[placed] = fitted.labels_
    given = getattr(fitted, "partition_weights_", None)
    if given is None:
        return labels, None
    weights = np.zeros(partitions.shape[1])
    weights[nonempty] = given
    return labels, weights


def robust_memberships(
    views: Mapping[str, View],
    evidence: Evidence,
    labels: Labels,
    max_observations: float | None = 2000,
) -> Memberships:
    """Convert consensus labels to shares, using the text view and each advertiser's auctions."""
    # the other views are computed from the same auctions, which would count twice
    votes = [view.partitions for name, view in views.items() if name == "text"]
    return learn_memberships(evidence, labels, votes, max_observations=max_observations)


def consensus_function(consensus: Any, n_segments: int, random_state: int = 0) -> Any:
    """Return the given consensus function, or a robust one, with ``n_segments`` clusters.

    The default uses the least-squares relaxation, because ADMM takes several times as long.
    """
    from coterie.consensus.robust import RobustConsensus

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
