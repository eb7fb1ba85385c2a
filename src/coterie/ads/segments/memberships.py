"""Memberships: shares of advertisers in segments, from votes of views and their own auctions.

A vote is the cluster of an advertiser in a view. Its auctions show how well each segment's win
curve fits. With π_as the share of advertiser a in segment s, q_s the segment's rates
(:mod:`coterie.ads.curves.pooling`), x and y the advertiser's successes and trials, and c_v its
cluster in view v:

    log π_as = log p_s + Σ_g [x_g log q_sg + (y_g − x_g) log(1 − q_sg)]
               + Σ_v log P_v(c_v | s) + const

Rates q, sizes p and tables P_v are estimated from the shares in turn (expectation–maximisation).
If a view is unrelated to the segments, its P_v is constant and has no effect. The last column of
the shares is an additional segment with the curve of all advertisers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence
from coterie.ads.curves.pooling import mixed_rates, overall_rate, segment_rates

__all__ = [
    "FEWEST_BIDS",
    "FEWEST_MEMBERS",
    "MembershipRule",
    "Memberships",
    "hard_memberships",
    "learn_memberships",
    "sizable_segments",
]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

#: A segment with fewer advertisers or bids is neither named nor shown.
FEWEST_MEMBERS, FEWEST_BIDS = 3, 100.0

_LEAST_RATE = 1e-9
_LEAST_SHARE = 1e-6
_LEAST_SIZE_OF_LAST = 0.02
_MOST_OBSERVATIONS = 200.0


@dataclass(frozen=True)
class MembershipRule:
    """The right side of the formula: what the shares of any advertiser follow from."""

    rates: Floats  # (K + 1, G), q
    log_sizes: Floats  # (K + 1,), log p
    # for each view and each of its partitions, log P of every cluster, (C, K + 1)
    log_votes: list[list[Floats]]

    def shares(self, evidence: Evidence, votes: Sequence[Labels] = ()) -> Floats:
        """Return the shares π of advertisers, (A, K + 1).

        ``votes`` has a matrix (A, V) of labels for each view that the rule was learned with.
        """
        score = self.log_sizes + _log_likelihood(evidence, self.rates)
        for partitions, tables in zip(votes, self.log_votes, strict=True):
            total = np.zeros_like(score)
            for column, table in zip(partitions.T, tables, strict=True):
                voting = column >= 0
                total[voting] += table[column[voting]]
            score += total / max(len(tables), 1)
        return _normalised(score)


@dataclass(frozen=True)
class Memberships:
    """Shares of advertisers in segments, and the rates of the segments."""

    shares: Floats  # (A, K + 1), rows sum to 1; the last column is the share in no segment
    rates: Floats  # (K + 1, G), rates of success; the last row is that of all advertisers
    form: str  # "hazard" or "rate", see coterie.ads.curves.landscapes
    n_iter: int = 0
    rule: MembershipRule | None = None  # that gave the shares; None if they were given

    @property
    def labels(self) -> Labels:
        """Segment of the largest share, (A,); −1 if there are no segments."""
        if self.shares.shape[1] == 1:
            return np.full(len(self.shares), -1, dtype=np.int64)
        return np.argmax(self.shares[:, :-1], axis=1).astype(np.int64)

    @property
    def prior(self) -> Floats:
        """Rates that each advertiser is pooled with, (A, G)."""
        return mixed_rates(self.shares, self.rates, self.form)


def hard_memberships(
    evidence: Evidence, labels: Labels, max_observations: float | None = None
) -> Memberships:
    """Assign every advertiser to the segment of its label, or to no segment if it is −1.

    Examples
    --------
    >>> ones = np.ones((3, 2))
    >>> edges, observed = np.array([1, 2]), np.ones(3)
    >>> evidence = Evidence("hazard", "price", edges, ones, 2 * ones, ones[0], observed)
    >>> hard_memberships(evidence, np.array([0, 1, -1])).shares.tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    n_segments = int(labels.max(initial=-1)) + 1
    shares = np.zeros((len(labels), n_segments + 1))
    shares[np.arange(len(labels)), np.where(labels < 0, n_segments, labels)] = 1.0
    return Memberships(shares, _rates(evidence, shares, max_observations), evidence.form)


def learn_memberships(
    evidence: Evidence,
    labels: Labels,
    votes: Sequence[Labels] = (),
    *,
    max_observations: float | None = None,
    max_iter: int = 30,
    tol: float = 1e-3,
) -> Memberships:
    """Estimate shares by expectation–maximisation, starting from labels (A,), −1 if unknown.

    ``votes`` has a matrix (A, V) of labels per view, one column per partition, −1 for no label. The
    partitions of a view together count as one vote. The iteration stops when the mean change of an
    advertiser's shares is below ``tol``. For ``max_observations`` see
    :func:`~coterie.ads.curves.pooling.segment_rates`.
    """
    shares = hard_memberships(evidence, labels, max_observations).shares
    n_segments = shares.shape[1] - 1
    informed = evidence.observations > 0
    if n_segments:
        unknown = labels < 0
        sizes = shares[~unknown, :-1].mean(axis=0) if (~unknown).any() else 1 / n_segments
        shares[unknown, :-1], shares[unknown, -1] = sizes, 0.0
    n_iter, rule = 0, None
    for n_iter in range(1, max_iter + 1):  # noqa: B007 (part of the result)
        rule = MembershipRule(
            _rates(evidence, shares, max_observations),
            _log_sizes(shares[informed]),
            [[_log_votes(column, shares, informed) for column in view.T] for view in votes],
        )
        updated = rule.shares(evidence, votes)
        change = np.abs(updated - shares).sum(axis=1).mean()
        shares = updated
        if change < tol:
            break
    rates = _rates(evidence, shares, max_observations)
    return Memberships(shares, rates, evidence.form, n_iter, rule)


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
        memberships = Memberships(shares, rates, memberships.form, memberships.n_iter)
        if len(order) == K:
            return memberships


def _rates(evidence: Evidence, shares: Floats, max_observations: float | None) -> Floats:
    of_segments = segment_rates(evidence, shares[:, :-1], max_observations)
    return np.vstack([of_segments, overall_rate(evidence)])


def _log_sizes(shares: Floats) -> Floats:
    sizes = shares.mean(axis=0) if len(shares) else np.full(shares.shape[1], 1 / shares.shape[1])
    sizes[-1] = max(sizes[-1], _LEAST_SIZE_OF_LAST)
    return np.log(np.maximum(sizes, _LEAST_SHARE))


def _log_likelihood(evidence: Evidence, rates: Floats) -> Floats:
    """Return log P(evidence | segment) of each advertiser, (A, K + 1), up to a constant.

    The evidence of an advertiser counts as at most 200 observations: advertisers differ a little
    from their segments, so further auctions do not help to identify the segment.
    """
    success = np.log(np.maximum(rates, _LEAST_RATE))
    failure = np.log(np.maximum(1 - rates, _LEAST_RATE))
    scale = np.minimum(1.0, _MOST_OBSERVATIONS / np.maximum(evidence.observations, 1.0))
    return scale[:, None] * (evidence.successes @ success.T + evidence.failures @ failure.T)


def _log_votes(column: Labels, shares: Floats, informed: NDArray[np.bool_]) -> Floats:
    """Return log P(cluster | segment) of the clusters of a partition, (C, K + 1)."""
    known = (column >= 0) & informed
    table = np.zeros((int(column.max(initial=-1)) + 1, shares.shape[1]))
    np.add.at(table, column[known], shares[known])
    # one is added to each count, so that no probability is 0
    return np.log((table + 1) / (table + 1).sum(axis=0)) if len(table) else table


def _normalised(score: Floats) -> Floats:
    shares = np.exp(score - score.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
