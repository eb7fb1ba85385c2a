"""All advertisers: what a model knows of each, found batch by batch by rules of representatives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from coterie.ads.curves.landscapes import Evidence, evidence_of
from coterie.ads.curves.supply import Supply, SupplyRule
from coterie.ads.fitting.market_fit import MarketFit
from coterie.ads.fitting.representatives import histograms_of
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.segments.memberships import MembershipRule, Memberships
from coterie.ads.segments.segment_profiles import distances_from_segments

__all__ = ["KnownAdvertisers", "complete_all_curves", "place_all", "text_votes"]

Floats = NDArray[np.float64]
Curves = NDArray[np.float32]
Indices = NDArray[np.int64]
Labels = NDArray[np.int64]

_LOG = logging.getLogger("coterie")
_SUMS = ("count", "bid", "wins", "cost", "clicks", "conversions")


@dataclass(frozen=True)
class KnownAdvertisers:
    """What is known of A advertisers before their curves."""

    shares: Floats  # (A, K + 1), in the segments
    observations: Floats  # (A,)
    successes: sp.csr_array  # (A, G), float32
    trials_by_bin: sp.csr_array  # (A, G), float32; in the hazard form those that end in a bin
    sums: dict[str, Floats]  # of the cells of bids, (A,) each
    supply: Supply


def place_all(
    histograms: BidHistograms,
    batches: Sequence[Indices],
    price: Floats,
    rule: MembershipRule,
    votes: Callable[[Indices], list[Labels]],
    supply: SupplyRule,
) -> KnownAdvertisers:
    """Place all advertisers in the segments, and count what each has.

    ``price`` (G,) is the mean price in each bin. ``votes`` gives the labels of some advertisers
    by the views that the rule knows.
    """
    A = len(histograms.advertisers)
    shares, observations = np.empty((A, len(rule.rates))), np.empty(A)
    sums = {name: np.empty(A) for name in _SUMS}
    successes, trials_by_bin, supplies = [], [], []
    for number, rows in enumerate(batches):
        _log_progress("Placing", number, batches)
        some = histograms_of(histograms, rows)
        evidence = replace(evidence_of(some), price=price)
        shares[rows] = rule.shares(evidence, votes(rows))
        observations[rows] = evidence.observations
        successes.append(_sparse(evidence.successes))
        trials_by_bin.append(_sparse(_ended(evidence)))
        for name in _SUMS:
            sums[name][rows] = some.daily(name).sum(axis=1)
        supplies.append(supply.supply(some.daily("count")))
    order = np.concatenate(batches)
    return KnownAdvertisers(
        shares,
        observations,
        _joined(successes, order),
        _joined(trials_by_bin, order),
        sums,
        _joined_supply(supplies, order),
    )


def complete_all_curves(
    histograms: BidHistograms,
    batches: Sequence[Indices],
    fit: MarketFit,
    strength: float,
    memberships: Memberships,
    price: Floats,
    segment_curves: Floats,
) -> tuple[Curves, Curves, Floats]:
    """Complete the curves of all advertisers by a dictionary that was fitted to some.

    Return W and its standard deviation, (A, G) each, and the distance of each advertiser's own
    curve from that of its segment, (A,). ``segment_curves`` (K + 1, G) are by own auctions.
    """
    A, _, G = histograms.shape
    win, spread = np.empty((A, G), np.float32), np.empty((A, G), np.float32)
    distances = np.empty(A)
    for number, rows in enumerate(batches):
        _log_progress("Completing the curves of", number, batches)
        some = histograms_of(histograms, rows)
        evidence = replace(evidence_of(some), price=price)
        of_batch = replace(memberships, shares=memberships.shares[rows])
        distances[rows] = distances_from_segments(evidence, of_batch, segment_curves)
        groups = np.where(evidence.observations > 0, of_batch.labels, -1)
        win[rows], spread[rows] = fit.of_others(some, groups).curves(strength)
    return win, spread, distances


def text_votes(
    vectors: Floats, representatives: Indices, partitions: Labels
) -> Callable[[Indices], Labels]:
    """Return a function that gives the text clusters of any advertisers, (n, V).

    A representative has the cluster it got, another the one with the nearest centre.

    Parameters
    ----------
    vectors : (A, d) array
        Of length 1, or zeros for a missing text.
    representatives : (R,) int array
    partitions : (R, V) int array
        Clusters of the representatives; −1 without a text.
    """
    known = np.full(len(vectors), -1, dtype=np.int64)
    known[representatives] = np.arange(len(representatives))
    fitted = vectors[representatives]
    centres = [_centres(fitted, column) for column in partitions.T]

    def votes(rows: Indices) -> Labels:
        labels = np.full((len(rows), partitions.shape[1]), -1, dtype=np.int64)
        is_known = known[rows] >= 0
        labels[is_known] = partitions[known[rows[is_known]]]
        others = np.flatnonzero(~is_known & vectors[rows].any(axis=1))
        for column, middle in enumerate(centres):
            if len(middle) and len(others):
                # the nearest centre c of a vector x has the largest x·c − |c|²/2
                near = vectors[rows[others]] @ middle.T - (middle**2).sum(axis=1) / 2
                labels[others, column] = near.argmax(axis=1)
        return labels

    return votes


def _centres(vectors: Floats, labels: Labels) -> Floats:
    """Return the mean vector of each cluster, (C, d)."""
    inside = np.flatnonzero(labels >= 0)
    n = int(labels.max(initial=-1)) + 1
    member = sp.csr_array((np.ones(len(inside)), (labels[inside], inside)), shape=(n, len(labels)))
    sizes = np.bincount(labels[inside], minlength=n)
    return np.asarray(member @ vectors) / np.maximum(sizes, 1)[:, None]


def _ended(evidence: Evidence) -> Floats:
    """Return trials by bin; in the hazard form those of which it is the last bin."""
    if evidence.form != "hazard":
        return evidence.trials
    return -np.diff(evidence.trials, axis=1, append=0.0)


def _sparse(counts: Floats) -> sp.csr_array:
    return sp.csr_array(counts.astype(np.float32))


def _joined(parts: list[sp.csr_array], order: Indices) -> sp.csr_array:
    """Join the rows of batches, and put them in the order of advertisers."""
    if len(parts) == 1:
        return parts[0]
    together = sp.vstack(parts, format="csr")
    parts.clear()
    is_in_order = bool((np.diff(order) > 0).all())
    return together if is_in_order else together[np.argsort(order)]


def _joined_supply(parts: list[Supply], order: Indices) -> Supply:
    back = np.argsort(order, kind="stable")
    rows: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])[back]
        for name in ("level", "error", "variation", "weekday")
    }
    return replace(parts[0], **rows)


def _log_progress(step: str, number: int, batches: Sequence[Indices]) -> None:
    if len(batches) > 1:
        done, total = (sum(map(len, part)) for part in (batches[:number], batches))
        _LOG.info("%s advertisers, %s of %s done", step, f"{done:,}", f"{total:,}")
