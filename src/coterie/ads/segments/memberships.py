"""Memberships: shares of advertisers in segments, from the views and their own auctions.

The consensus of the partitions of all views (:func:`consensus_labels`) is the start.

A vote is the cluster of an advertiser in a view. Its auctions show how well each segment's win
curve fits. With π_as the share of advertiser a in segment s, q_s the segment's rates
(:mod:`coterie.ads.curves.shrinkage`), x and y the advertiser's successes and trials, and c_v its
cluster in view v:

    log π_as = log p_s + w_a Σ_g [x_g log q_sg + (y_g − x_g) log(1 − q_sg)]
               + Σ_v log P_v(c_v | s) + const

The weight w_a falls with the number of observations (``_MOST_OBSERVATIONS``). Rates q, sizes p
and tables P_v are estimated from the shares in turn (expectation–maximisation).
If a view is unrelated to the segments, its P_v is constant and has no effect. The last column of
the shares is an additional segment with the curve of all advertisers.

The paper compares *sources* of curves: the advertiser itself, all advertisers, the segments of one
view, or those of a consensus. A *candidate* is one source with its settings, for example the
segments of the win view at α = .05 and K = 12; :mod:`coterie.ads.fitting.backtest` chooses
among them by forecast errors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from coterie.ads.curves.landscapes import Evidence
from coterie.ads.curves.shrinkage import mixed_rates, overall_rate, segment_rates
from coterie.ads.segments.settings import SegmentSettings
from coterie.arrays import Bools, Floats, Ints
from coterie.errors import InvalidParameterError
from coterie.runtime.messages import ignore_label_warnings

if TYPE_CHECKING:
    from coterie.ads.segments.views import View

#: A segment with fewer advertisers or bids is neither named nor shown.
FEWEST_MEMBERS, FEWEST_BIDS = 3, 100.0

_LEAST_RATE = 1e-9
_LEAST_SHARE = 1e-6
_LEAST_SIZE_OF_LAST = 0.02
#: An advertiser counts as at most so many observations of its segment. Next to a vote, its n prices
#: count as n·m / (n + m): they are so many that they would outvote its text.
_MOST_OBSERVATIONS, _MOST_PRICES = 200.0, 50.0

#: Of curves, in the order of the tables.
SOURCES = ("own", "global", "text", "win", "cost", "l2", "robust")

_LOG = logging.getLogger("coterie")


@dataclass(frozen=True)
class MembershipRule:
    """The right side of the formula: what the shares of any advertiser follow from."""

    rates: Floats  # (K + 1, G), q
    log_sizes: Floats  # (K + 1,), log p
    # for each view and each of its partitions, log P of every cluster, (C, K + 1)
    log_votes: list[list[Floats]]

    def shares(self, evidence: Evidence, votes: Sequence[Ints] = ()) -> Floats:
        """Return the shares π of advertisers, (A, K + 1).

        ``votes`` has a matrix (A, V) of labels for each view that the rule was learned with.
        """
        success = np.log(np.maximum(self.rates, _LEAST_RATE))
        failure = np.log(np.maximum(1 - self.rates, _LEAST_RATE))
        # further auctions hardly help to identify the segment, because advertisers differ a little
        # from theirs
        n = evidence.observations
        scale = np.minimum(1.0, _MOST_OBSERVATIONS / np.maximum(n, 1.0))
        if evidence.form == "hazard" and len(votes):
            voted = np.any(np.hstack(votes) >= 0, axis=1)
            scale[voted] = _MOST_PRICES / (n[voted] + _MOST_PRICES)
        score = self.log_sizes + scale[:, None] * (
            evidence.successes @ success.T + evidence.failures @ failure.T
        )
        for partitions, tables in zip(votes, self.log_votes, strict=True):
            total = np.zeros_like(score)
            for column, table in zip(partitions.T, tables, strict=True):
                voting = column >= 0
                total[voting] += table[column[voting]]
            score += total / max(len(tables), 1)
        shares = np.exp(score - score.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Memberships:
    """Shares of advertisers in segments, and the rates of the segments."""

    shares: Floats  # (A, K + 1), rows sum to 1; the last column is the share in no segment
    rates: Floats  # (K + 1, G), rates of success; the last row is that of all advertisers
    form: str  # "hazard" or "rate", see coterie.ads.curves.landscapes
    rule: MembershipRule | None = None  # that gave the shares; None if they were given

    @property
    def labels(self) -> Ints:
        """Segment of the largest share, (A,); −1 if there are no segments."""
        if self.shares.shape[1] == 1:
            return np.full(len(self.shares), -1, dtype=np.int64)
        return np.argmax(self.shares[:, :-1], axis=1).astype(np.int64)

    @property
    def prior(self) -> Floats:
        """Rates that each advertiser is pooled with, (A, G)."""
        return mixed_rates(self.shares, self.rates, self.form)


def consensus_function(consensus: Any, n_segments: int, random_state: int = 0) -> Any:
    """Return the given consensus function, or a robust one, with ``n_segments`` clusters.

    The default uses the least-squares relaxation, because ADMM takes several times as long.
    """
    from coterie.consensus.robust import RobustConsensus

    if consensus is None:
        return RobustConsensus(n_segments, relaxation="l2", random_state=random_state)
    return clone(consensus).set_params(n_clusters=n_segments)


def consensus_labels(views: Mapping[str, View], consensus: Any) -> tuple[Ints, Floats | None]:
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
    labels: Ints,
    max_observations: float | None,
) -> Memberships:
    """Convert consensus labels to shares, using the text view and each advertiser's auctions."""
    # the other views are computed from the same auctions, which would count twice
    votes = [view.partitions for name, view in views.items() if name == "text"]
    return learn_memberships(evidence, labels, votes, max_observations=max_observations)


def hard_memberships(
    evidence: Evidence, labels: Ints, max_observations: float | None = None
) -> Memberships:
    """Assign every advertiser to the segment of its label, or to no segment if it is −1.

    >>> ones = np.ones((3, 2))
    >>> edges, observed = np.array([1, 2]), np.ones(3)
    >>> evidence = Evidence("hazard", "price", edges, ones, 2 * ones, ones[0], observed)
    >>> hard_memberships(evidence, np.array([0, 1, -1])).shares.tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    shares = _hard_shares(labels)
    return Memberships(shares, _rates(evidence, shares, max_observations), evidence.form)


def learn_memberships(
    evidence: Evidence,
    labels: Ints,
    votes: Sequence[Ints] = (),
    *,
    max_observations: float | None = None,
    max_iter: int = 30,
    tol: float = 1e-3,
) -> Memberships:
    """Estimate shares by expectation–maximisation, starting from labels (A,), −1 if unknown.

    ``votes`` has a matrix (A, V) of labels per view, one column per partition, −1 for no label. The
    partitions of a view together count as one vote. The iteration stops when the mean change of an
    advertiser's shares is below ``tol``. For ``max_observations`` see
    :func:`~coterie.ads.curves.shrinkage.segment_rates`.
    """
    shares = _hard_shares(labels)
    K, informed = shares.shape[1], evidence.observations > 0
    if K > 1:
        unknown = labels < 0
        start = shares[~unknown, :-1].mean(axis=0) if (~unknown).any() else 1 / (K - 1)
        shares[unknown, :-1], shares[unknown, -1] = start, 0.0
    rule = None
    for _ in range(max_iter):
        sizes = shares[informed].mean(axis=0) if informed.any() else np.full(K, 1 / K)
        sizes[-1] = max(sizes[-1], _LEAST_SIZE_OF_LAST)
        rule = MembershipRule(
            _rates(evidence, shares, max_observations),
            np.log(np.maximum(sizes, _LEAST_SHARE)),
            [[_log_votes(column, shares, informed) for column in view.T] for view in votes],
        )
        updated = rule.shares(evidence, votes)
        change = np.abs(updated - shares).sum(axis=1).mean()
        shares = updated
        if change < tol:
            break
    rates = _rates(evidence, shares, max_observations)
    return Memberships(shares, rates, evidence.form, rule)


def sizable_segments(memberships: Memberships, observations: Floats) -> Memberships:
    """Return the segments with enough members and bids, the largest first.

    The members of others go to the segment of their next largest share. A smaller segment would
    show the figures of single advertisers.
    """
    while True:
        labels = memberships.labels
        K = memberships.shares.shape[1] - 1
        sizes = np.bincount(labels[labels >= 0], minlength=K)
        bids = np.bincount(labels[labels >= 0], observations[labels >= 0], K)
        order = [
            int(s)
            for s in np.argsort(-sizes, kind="stable")
            if sizes[s] >= FEWEST_MEMBERS and bids[s] >= FEWEST_BIDS
        ]
        shares = memberships.shares[:, [*order, K]]
        total = shares.sum(axis=1, keepdims=True)
        shares = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
        shares[total[:, 0] <= 0, -1] = 1.0
        rates = memberships.rates[[*order, K]]
        memberships = Memberships(shares, rates, memberships.form)
        if len(order) == K:
            return memberships


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
    settings: SegmentSettings,
    sources: Sequence[str] = SOURCES,
) -> Iterator[Candidate]:
    """Yield every candidate that the views allow, source by source.

    The sources "l2" and "robust" have one for each number of segments of the settings; other
    sources use those of their view. A source whose view is missing is left out.
    """
    from coterie.consensus import L2Consensus

    unknown = [source for source in sources if source not in SOURCES]
    if unknown or not sources:
        raise InvalidParameterError(
            f"sources={list(sources)}: give at least one of {', '.join(SOURCES)}"
        )
    most, seed = settings.max_observations, settings.random_state
    for source in sources:
        if source in {"own", "global"}:
            unlabelled = np.full(len(evidence.observations), -1, dtype=np.int64)
            yield Candidate(source, (), hard_memberships(evidence, unlabelled))
        elif source in views:
            view = views[source]
            for chosen, labels in zip(view.settings, view.partitions.T, strict=True):
                found = hard_memberships(evidence, labels, most)
                yield Candidate(source, tuple(sorted(chosen.items())), found)
        elif source in {"l2", "robust"} and views:
            for k in settings.possible_numbers(int((evidence.observations > 0).sum())):
                _LOG.info("Finding the %s consensus of the views, %d segments", source, k)
                if source == "l2":
                    labels, _ = consensus_labels(views, L2Consensus(k, random_state=seed))
                    found = hard_memberships(evidence, labels, most)
                else:
                    function = consensus_function(settings.consensus, k, seed)
                    labels, _ = consensus_labels(views, function)
                    found = robust_memberships(views, evidence, labels, most)
                yield Candidate(source, (("k", k),), found)


def _hard_shares(labels: Ints) -> Floats:
    return np.eye(int(labels.max(initial=-1)) + 2)[labels]


def _rates(evidence: Evidence, shares: Floats, max_observations: float | None) -> Floats:
    of_segments = segment_rates(evidence, shares[:, :-1], max_observations)
    return np.vstack([of_segments, overall_rate(evidence)])


def _log_votes(column: Ints, shares: Floats, informed: Bools) -> Floats:
    """Return log P(cluster | segment) of the clusters of a partition, (C, K + 1)."""
    known = (column >= 0) & informed
    table = np.zeros((int(column.max(initial=-1)) + 1, shares.shape[1]))
    np.add.at(table, column[known], shares[known])
    # one is added to each count, so that no probability is 0
    return np.log((table + 1) / (table + 1).sum(axis=0)) if len(table) else table
