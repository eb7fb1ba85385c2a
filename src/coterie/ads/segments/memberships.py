"""Which segment an advertiser belongs to, by two kinds of evidence: votes and its own auctions.

A clustering says where an advertiser was put; its auctions say how well each segment's win
curve explains them. With π_as the share of advertiser a in segment s, q_s the segment's rates
(:mod:`coterie.ads.curves.pooling`), x and y the advertiser's successes and trials, c_v its cluster
in view v:

    log π_as = log p_s + Σ_g [x_g log q_sg + (y_g − x_g) log(1 − q_sg)]
               + Σ_v log P_v(c_v | s) + const

Rates, sizes p and the tables P_v are learned from the shares in turn (expectation–maximisation).
P_v tells how reliable a view is: that of a view that says nothing of the segments is flat, and
counts for nothing. One more column stands for "like all advertisers, like no segment".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence
from coterie.ads.curves.pooling import mixed_rates, overall_rate, segment_rates

__all__ = ["Memberships", "hard_memberships", "learn_memberships"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

_LEAST_RATE = 1e-9
_LEAST_SHARE = 1e-6
_SHARE_OF_NONE = 0.02
_MOST_TELLING = 200.0


@dataclass(frozen=True)
class Memberships:
    """The shares of advertisers in segments, and what the segments are.

    Attributes
    ----------
    shares : (A, K + 1) float64 array
        Rows sum to 1; the last column is "no segment in particular".
    rates : (K + 1, G) float64 array
        The rates of success of each segment; the last row those of all advertisers.
    form : {"hazard", "rate"}
        Of the rates: see :mod:`coterie.ads.curves.landscapes`.
    n_iter : int
    """

    shares: Floats
    rates: Floats
    form: str
    n_iter: int = 0

    @property
    def labels(self) -> Labels:
        """The segment of the largest share, (A,); −1 where there is no segment at all."""
        if self.shares.shape[1] == 1:
            return np.full(len(self.shares), -1, dtype=np.int64)
        return np.argmax(self.shares[:, :-1], axis=1).astype(np.int64)

    @property
    def prior(self) -> Floats:
        """The rates each advertiser is to be pooled with, (A, G)."""
        return mixed_rates(self.shares, self.rates, self.form)


def hard_memberships(
    evidence: Evidence, labels: Labels, max_observations: float | None = None
) -> Memberships:
    """Every advertiser wholly in the segment of its label, and in none where that is −1.

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
    votes: Sequence[NDArray[np.int64]] = (),
    *,
    max_observations: float | None = None,
    max_iter: int = 30,
    tol: float = 1e-3,
) -> Memberships:
    """Start from labels and alternate between shares and what they imply, until shares settle.

    Parameters
    ----------
    evidence : Evidence
        Of A advertisers.
    labels : (A,) int array
        Where to start; −1 for an advertiser whose segment is open.
    votes : sequence of (A, V) int arrays
        One matrix a view, one column a partition, −1 where it is silent. The partitions of a
        view count together as one.
    max_observations : float, optional
        See :func:`~coterie.ads.curves.pooling.segment_rates`.
    max_iter : int
    tol : float
        Stop when no share changed by more than this, on average over the advertisers.
    """
    shares = hard_memberships(evidence, labels, max_observations).shares
    n_segments = shares.shape[1] - 1
    informed = evidence.observations > 0
    if n_segments:
        open_rows = labels < 0
        sizes = shares[~open_rows, :-1].mean(axis=0) if (~open_rows).any() else 1 / n_segments
        shares[open_rows, :-1], shares[open_rows, -1] = sizes, 0.0
    n_iter = 0
    for n_iter in range(1, max_iter + 1):  # noqa: B007 (told in the result)
        rates = _rates(evidence, shares, max_observations)
        score = _log_sizes(shares[informed]) + _log_likelihood(evidence, rates)
        for partitions in votes:
            score += _log_votes(partitions, shares, informed)
        updated = _normalised(score)
        change = np.abs(updated - shares).sum(axis=1).mean()
        shares = updated
        if change < tol:
            break
    return Memberships(shares, _rates(evidence, shares, max_observations), evidence.form, n_iter)


def _rates(evidence: Evidence, shares: Floats, max_observations: float | None) -> Floats:
    of_segments = segment_rates(evidence, shares[:, :-1], max_observations)
    return np.vstack([of_segments, overall_rate(evidence)])


def _log_sizes(shares: Floats) -> Floats:
    sizes = shares.mean(axis=0) if len(shares) else np.full(shares.shape[1], 1 / shares.shape[1])
    sizes[-1] = max(sizes[-1], _SHARE_OF_NONE)
    return np.log(np.maximum(sizes, _LEAST_SHARE))


def _log_likelihood(evidence: Evidence, rates: Floats) -> Floats:
    """Of each advertiser's evidence under each segment's rates, (A, K + 1), up to a constant.

    An advertiser differs a little from its segment: what its thousandth auction tells is about
    itself, not about which segment it is of. So the evidence of many counts as that of some.
    """
    success = np.log(np.maximum(rates, _LEAST_RATE))
    failure = np.log(np.maximum(1 - rates, _LEAST_RATE))
    failures = np.maximum(evidence.trials - evidence.successes, 0)
    counted = np.minimum(1.0, _MOST_TELLING / np.maximum(evidence.observations, 1.0))
    return counted[:, None] * (evidence.successes @ success.T + failures @ failure.T)


def _log_votes(
    partitions: NDArray[np.int64], shares: Floats, informed: NDArray[np.bool_]
) -> Floats:
    """Σ log P(cluster | segment) over the partitions of one view, which together count once."""
    total = np.zeros_like(shares)
    for column in partitions.T:
        voting = column >= 0
        known = voting & informed
        table = np.zeros((int(column.max(initial=-1)) + 1, shares.shape[1]))
        np.add.at(table, column[known], shares[known])
        table = (table + 1) / (table + 1).sum(axis=0) if len(table) else table
        total[voting] += np.log(table[column[voting]])
    return total / max(partitions.shape[1], 1)


def _normalised(score: Floats) -> Floats:
    shares = np.exp(score - score.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
