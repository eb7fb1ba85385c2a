"""A dictionary of market curves, with weights learned from all advertisers.

The curve F_a of an advertiser (:mod:`coterie.ads.curves.auction_counts`) is taken to be one of J
*atoms*, or near one. Atoms are of two kinds:

- general: G((x − μ)/σ) on a grid of shifts μ and scales σ, where G is a shape that is estimated
  from all advertisers after they were aligned by their own μ and σ;
- of a segment: the curve of the segment's members, aligned and pooled, at a grid of shifts.

With L_aj = log P(auctions of a | atom j), the weights w of the atoms maximise Σ_a log Σ_j w_j
exp(L_aj): the nonparametric maximum-likelihood estimate of the distribution of curves, found by
expectation–maximisation, which is convex and needs no starting values. The advertisers of segment
s have weights w_s, shrunk towards the weights w of all advertisers with a strength of
:data:`GROUP_STRENGTH` advertisers. The posterior P_aj ∝ w_s(a)j exp(L_aj) says which atoms an
advertiser's auctions are like; Σ_j P_aj F_j is its curve as far as the dictionary knows it. Where
the units are campaigns, those of one advertiser have their own weights, shrunk towards their
segments' with a strength of :data:`PARENT_STRENGTH` campaigns.

The work is linear in the number of advertisers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.special import ndtr

from coterie.ads.curves.auction_counts import (
    AuctionCounts,
    log_edges,
    moved_along,
    sums_between_bins,
)
from coterie.ads.curves.landscapes import monotone_rows
from coterie.arrays import Floats, Ints

#: The weights of all advertisers count as so many members of each segment.
GROUP_STRENGTH = 20.0
#: The weights of its segment count as so many further campaigns of an advertiser.
PARENT_STRENGTH = 0.5
#: Advertisers are only near an atom: n auctions count as n / (1 + n / 1000).
_TEMPER = 1000.0
_SHIFT_STEP = 0.12
_SCALES = np.geomspace(0.2, 1.6, 9)
#: Shifts of the curve of a segment.
_SEGMENT_SHIFTS = np.linspace(-0.4, 0.4, 17)
#: The members' curves by general atoms count as so many auctions per bin of their segment.
_SEGMENT_STRENGTH = 40.0
#: No advertiser counts as more than so many auctions in the curve of its segment.
_MOST_AUCTIONS = 2000.0
_ROUNDS, _ITERATIONS, _GROUP_ITERATIONS = 3, 80, 30
_TINY = 1e-7
#: Atoms that all advertisers together use less than this are dropped.
_LEAST_USE = 1e-3
#: The standard axis of the shape G.
_AXIS = np.linspace(-6.0, 6.0, 481)


@dataclass(frozen=True)
class MarketDictionary:
    """Atoms and their weights."""

    # (J, G + 1), c.d.f. of each atom at the lower edge of the first bin and at all upper edges
    atoms: Floats
    # (K + 1, J), of the members of each segment; the last row is of all advertisers
    weights: Floats

    def posterior(
        self, counts: AuctionCounts, segments: Ints, parents: NDArray[np.str_] | None = None
    ) -> Floats:
        """Return P (A, J), the probability of each atom for each advertiser.

        ``segments`` (A,) are from 0 to K − 1; −1 takes those of all advertisers. ``parents`` (A,)
        name the advertiser of each campaign.
        """
        likelihood = _likelihood(log_likelihood(counts, self.atoms), counts.total)
        prior = self.weights[segments]
        posterior = _normalised(likelihood * prior)
        if parents is None:
            return posterior
        _, group, sizes = np.unique(parents, return_inverse=True, return_counts=True)
        of_parent = sp.csr_array((np.ones(len(group)), (group, np.arange(len(group)))))
        for _ in range(_GROUP_ITERATIONS):
            used = (of_parent @ posterior)[group]
            own = (used + PARENT_STRENGTH * prior) / (sizes[group][:, None] + PARENT_STRENGTH)
            posterior = _normalised(likelihood * own)
        return posterior

    def curves(self, posterior: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of the curves under a posterior, both (A, G + 1)."""
        mean = posterior @ self.atoms
        return mean, np.maximum(posterior @ self.atoms**2 - mean**2, 0.0)


def fit_dictionary(counts: AuctionCounts, segments: Ints, n_segments: int) -> MarketDictionary:
    """Estimate the atoms and their weights; ``segments`` (A,) are −1 for no segment.

    Two kinds of advertisers see prices around 1 and around 4; an advertiser with three auctions
    is already known to be of the first kind.

    >>> from coterie.ads.histograms.price_grid import price_grid
    >>> edges = price_grid(0.4e6, 9e6)
    >>> centre = np.repeat([1e6, 4e6], 20)[:, None]
    >>> near = np.exp(-0.5 * (np.log(edges / centre) / 0.2) ** 2)
    >>> revealed = 200 * near / near.sum(axis=1, keepdims=True)
    >>> revealed[0] *= 3 / 200
    >>> nothing = np.zeros_like(revealed)
    >>> counts = AuctionCounts(edges, revealed, nothing, nothing)
    >>> one_group = np.zeros(40, dtype=int)
    >>> found = fit_dictionary(counts, one_group, 1)
    >>> curves, _ = found.curves(found.posterior(counts, one_group))
    >>> float(curves[0, np.searchsorted(edges, 2e6) + 1].round(2))
    1.0
    """
    x = log_edges(counts.edges)
    atoms, of_general, posterior = general_posterior(counts)
    use = posterior.sum(axis=0) > _LEAST_USE
    atoms, of_general, posterior = atoms[use], of_general[:, use], posterior[:, use]
    if n_segments:
        curves = posterior @ atoms
        shares = np.eye(n_segments + 1)[segments][:, :-1]
        shifts = np.zeros_like(shares)
        for _ in range(_ROUNDS):
            pooled = _segment_curves(counts, curves, shares, shifts)
            moved = np.concatenate(
                [np.interp(x[None] - _SEGMENT_SHIFTS[:, None], x, one, left=0.0) for one in pooled]
            )
            of_segments = log_likelihood(counts, moved)
            together = _likelihood(np.hstack([of_segments, of_general]), counts.total)
            posterior, weights = _weights(together, segments, n_segments)
            # how far each advertiser is in the atoms of each segment, and its mean shift there
            by_shift = posterior[:, : len(moved)].reshape(-1, n_segments, len(_SEGMENT_SHIFTS))
            shares = by_shift.sum(axis=2)
            total = np.maximum(shares, _TINY)
            shifts = by_shift @ _SEGMENT_SHIFTS / total
            # those of a segment are centred, so that its curve stays in place
            shifts -= (shares * shifts).sum(axis=0) / total.sum(axis=0)
        atoms = np.vstack([moved, atoms])
    else:
        posterior, weights = _weights(_likelihood(of_general, counts.total), segments, 0)
    use = posterior.sum(axis=0) > _LEAST_USE
    weights = weights[:, use] / weights[:, use].sum(axis=1, keepdims=True)
    return MarketDictionary(atoms[use], weights)


def general_posterior(counts: AuctionCounts, rounds: int = 1) -> tuple[Floats, Floats, Floats]:
    """Fit the general atoms alone, all advertisers in one group.

    Return the atoms (J, G + 1), the log-likelihoods and the posterior, both (A, J). The shape is
    normal at first, and estimated again ``rounds`` times.
    """
    x = log_edges(counts.edges)
    # where the evidence is, but for a thousandth at each end
    evidence = np.cumsum((counts.revealed + counts.won + counts.lost).sum(axis=0))
    first, last = np.searchsorted(evidence, np.array([0.001, 0.999]) * evidence[-1])
    shift = np.arange(x[first] - 0.5, x[min(last + 1, len(x) - 1)] + 0.5, _SHIFT_STEP)
    mu, sigma = np.tile(shift, len(_SCALES)), np.repeat(_SCALES, len(shift))
    shape = ndtr(_AXIS)
    no_segments = np.full(len(counts.total), -1)
    for step in range(rounds + 1):
        z = (x[None] - mu[:, None]) / sigma[:, None]
        atoms = np.interp(z, _AXIS, shape, left=0.0, right=1.0)
        found = log_likelihood(counts, atoms)
        posterior, _ = _weights(_likelihood(found, counts.total), no_segments, 0)
        if step == rounds:
            break
        # G from all advertisers moved by their own μ and scaled by their own σ
        own_mu, own_sigma = posterior @ mu, np.exp(posterior @ np.log(sigma))
        z = ((x[1:] + x[:-1])[None] / 2 - own_mu[:, None]) / own_sigma[:, None]
        at = np.clip(np.searchsorted(_AXIS, z) - 1, 0, len(_AXIS) - 2).ravel()
        revealed, won, lost = (
            gaussian_filter1d(np.bincount(at, part.ravel(), len(_AXIS) - 1), 4.0)
            for part in (counts.revealed, counts.won, counts.lost)
        )
        # where there is little evidence it is normal
        normal = ndtr(_AXIS)
        if counts.reveals:
            shape = _kaplan_meier(revealed, lost, normal, 50.0)
            continue
        rate, trust = _isotonic(won, lost, normal, 5.0), np.clip((won + lost) / 2000.0, 0.0, 1.0)
        centre = (normal[1:] + normal[:-1]) / 2
        mixed = trust * gaussian_filter1d(rate, 4.0) + (1.0 - trust) * centre
        at_edges = np.interp(_AXIS, (_AXIS[1:] + _AXIS[:-1]) / 2, mixed)
        shape = np.maximum.accumulate(at_edges)
    return atoms, found, posterior


def log_likelihood(counts: AuctionCounts, atoms: Floats) -> Floats:
    """Return L (A, J), up to a constant of each advertiser."""
    middle = np.clip((atoms[:, 1:] + atoms[:, :-1]) / 2, _TINY, 1 - _TINY)
    found = counts.lost @ np.log1p(-middle).T
    if counts.reveals:
        found += counts.revealed @ np.log(np.maximum(np.diff(atoms, axis=1), _TINY)).T
    if counts.won.any():
        found += counts.won @ np.log(middle).T
    return found


def _likelihood(logarithm: Floats, total: Floats) -> Floats:
    """Return tempered likelihoods (A, J); the largest of each advertiser is 1."""
    tempered = logarithm / (1.0 + total / _TEMPER)[:, None]
    return np.exp(tempered - tempered.max(axis=1, keepdims=True))


def _weights(likelihood: Floats, segments: Ints, n_segments: int) -> tuple[Floats, Floats]:
    """Return the posterior (A, J) and the weights (K + 1, J), by expectation–maximisation.

    One step multiplies w_j by the mean over advertisers of exp(L_aj) / Σ_i w_i exp(L_ai).
    """
    n, J = likelihood.shape
    overall = np.full(J, 1.0 / J)
    for _ in range(_ITERATIONS):
        overall *= likelihood.T @ (1.0 / (likelihood @ overall)) / n
    weights = np.tile(overall, (n_segments + 1, 1))
    for s in range(n_segments):
        of_members = likelihood[segments == s]
        for _ in range(_GROUP_ITERATIONS if len(of_members) else 0):
            used = weights[s] * (of_members.T @ (1.0 / (of_members @ weights[s])))
            weights[s] = (used + GROUP_STRENGTH * overall) / (len(of_members) + GROUP_STRENGTH)
    return _normalised(likelihood * weights[segments]), weights


def _normalised(values: Floats) -> Floats:
    return values / values.sum(axis=1, keepdims=True)


def _segment_curves(
    counts: AuctionCounts, curves: Floats, shares: Floats, shifts: Floats
) -> list[Floats]:
    """Return the curve of each segment, (G + 1,), from its members' auctions moved by −shift.

    ``curves`` (A, G + 1), those by general atoms, are the prior.
    """
    most = np.minimum(1.0, _MOST_AUCTIONS / np.maximum(counts.total, 1.0))
    pooled = []
    for s in range(shares.shape[1]):
        weight = shares[:, s] * most
        members = np.flatnonzero(weight > 1e-3)
        size = (weight * counts.total)[members] + _TINY
        prior = (
            np.average(curves[members], axis=0, weights=size) if len(members) else curves.mean(0)
        )
        parts = (counts.revealed[members], counts.won[members], counts.lost[members])
        places = moved_along(counts.edges, shifts[members, s])
        revealed, won, lost = (
            sums_between_bins(part * weight[members, None], places, len(counts.edges))
            for part in parts
        )
        if revealed.any():
            pooled.append(_kaplan_meier(revealed, lost, prior, _SEGMENT_STRENGTH))
            continue
        # steps of isotonic regression are smoothed over one or two bins
        rate = gaussian_filter1d(_isotonic(won, lost, prior, _SEGMENT_STRENGTH), 1.5)
        at_edges = np.interp(np.arange(len(rate) + 1) - 0.5, np.arange(len(rate)), rate)
        pooled.append(np.maximum.accumulate(at_edges))
    return pooled


def _isotonic(won: Floats, lost: Floats, prior: Floats, auctions: float) -> Floats:
    """Return the win rates of bids (n,); a prior c.d.f. (n + 1,) counts as so many in each bin."""
    trials = won + lost + auctions
    middle = (prior[1:] + prior[:-1]) / 2
    return monotone_rows(((won + auctions * middle) / trials)[None], trials[None])[0]


def _kaplan_meier(revealed: Floats, lost: Floats, prior: Floats, auctions: float) -> Floats:
    """Return the c.d.f. of revealed and lost auctions (n,), at n + 1 edges.

    A prior c.d.f. (n + 1,) counts as so many auctions.
    """
    above = 1.0 - prior
    hazard = np.clip(1.0 - above[1:] / np.maximum(above[:-1], 1e-9), 0.0, 1.0)
    strength = auctions * above[:-1]
    at_risk = np.cumsum((revealed + lost)[::-1])[::-1] - lost / 2
    rate = (revealed + strength * hazard) / np.maximum(at_risk + strength, 1e-12)
    return np.concatenate([[0.0], 1.0 - np.cumprod(1.0 - np.clip(rate, 0.0, 1.0))])
