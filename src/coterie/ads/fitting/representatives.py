"""Representatives: the advertisers that a model is fitted to, and batches that all are placed in.

What is common to a market — segments, price levels, the dictionary of curves, how supply moves,
how wide intervals must be — is known well enough from some 20,000 advertisers. Everything else is
known of each advertiser by these and its own auctions, so that the work and the memory for all of
them are those of one batch after the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from coterie.ads.curves.landscapes import evidence_of
from coterie.ads.curves.supply import Supply, SupplyRule
from coterie.ads.fitting.market_fit import Curves, MarketFit, Widening
from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.ads.segments.memberships import MembershipRule, Memberships
from coterie.ads.segments.segment_profiles import distances_from_segments
from coterie.arrays import Floats, Ints
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import available_memory, readable_bytes

#: Number of (A, bins) and of (A, atoms) float64 arrays that a batch needs, and of atoms.
_ROWS_OF_BINS, _ROWS_OF_ATOMS, _ATOMS = 20, 5, 600
#: Bytes of what is kept of an advertiser besides its curves: shares, supply, vectors of texts.
_BYTES_OF_ONE = 800
#: Bytes of a cell in the evidence that a model keeps, twice while it is joined, and stored.
_BYTES_OF_CELL = 2 * 16 + 12
_SUMS = ("count", "bid", "wins", "cost", "clicks", "conversions")

_LOG = logging.getLogger("coterie")


def refuse_too_many(histograms: BidHistograms, most: int) -> None:
    """Raise an error if the memory that is free is not enough for a model and one batch."""
    A, _, G = histograms.shape
    n_cells = len(histograms.bids.bin) + len(histograms.prices.bin)
    needed = A * (2 * 4 * G + _BYTES_OF_ONE) + _BYTES_OF_CELL * n_cells
    needed += min(A, most) * 8 * (_ROWS_OF_BINS * G + _ROWS_OF_ATOMS * _ATOMS)
    free = available_memory()
    if needed > free:
        raise InvalidParameterError(
            f"a model of {A:,} advertisers needs about {readable_bytes(needed)} of memory, but "
            f"{readable_bytes(free)} are free; fit fewer advertisers or days, or, in Python, set "
            f"max_representatives below {most:,}"
        )
    if most < A:
        memory = readable_bytes(needed)
        _LOG.info("A model of %s advertisers needs about %s of memory", f"{A:,}", memory)


def choose_representatives(histograms: BidHistograms, most: int, random_state: int) -> Ints:
    """Return the rows of at most ``most`` advertisers, in order: all, or a random sample.

    Every advertiser with bids has the same probability, because the weights of the dictionary and
    the calibration are those of advertisers, not of bids. Of campaigns, all of an advertiser are
    chosen or none, because they inform each other; an advertiser with more than there is room for
    is passed over, unless there is no other.
    """
    A = len(histograms.advertisers)
    if most >= A:
        return np.arange(A)
    bidding = np.zeros(A, dtype=bool)
    bidding[histograms.bids.advertiser] = True
    rows = np.flatnonzero(bidding)
    parents = histograms.parents
    names = histograms.advertisers[rows] if parents is None else parents[rows]
    owners, family, sizes = np.unique(names, return_inverse=True, return_counts=True)
    # the order is that of hashes of names, with the seed as the key, so that most of the sample
    # stays the same if later days bring some new advertisers
    key = int(random_state).to_bytes(8, "little")
    texts = (name.encode(errors="surrogatepass") for name in owners.tolist())
    hashes = b"".join(blake2b(text, digest_size=8, key=key).digest() for text in texts)
    drawn: list[int] = []
    room = most
    for owner in np.argsort(np.frombuffer(hashes, dtype="<u8"), kind="stable").tolist():
        if sizes[owner] <= room or (not drawn and (sizes > most).all()):
            drawn.append(owner)
            room -= int(sizes[owner])
        if room <= 0:
            break
    chosen = rows[np.isin(family, drawn)]
    _LOG.info(
        "Fitting on %s of %s advertisers; the others are placed", f"{len(chosen):,}", f"{A:,}"
    )
    return chosen


def batches_of(histograms: BidHistograms, size: int) -> list[Ints]:
    """Divide the advertisers into batches of about ``size``, each in order.

    The campaigns of an advertiser are in one batch.
    """
    family = np.arange(len(histograms.advertisers))
    if histograms.parents is not None:
        family = np.unique(histograms.parents, return_inverse=True)[1].astype(np.int64)
    order = np.argsort(family, kind="stable")
    # a batch ends with the family of its last row
    ends = np.cumsum(np.bincount(family))
    cuts = [0]
    while cuts[-1] < len(order):
        reach = int(np.searchsorted(ends, cuts[-1] + size, side="right"))
        cuts.append(int(max(ends[max(reach - 1, 0)], ends[ends > cuts[-1]][0])))
    return [np.sort(order[first:last]) for first, last in pairwise(cuts)]


def histograms_of(histograms: BidHistograms, rows: Ints) -> BidHistograms:
    """Return the histograms of some advertisers; the same object if they are all."""
    if len(rows) == len(histograms.advertisers):
        return histograms
    return histograms.for_advertisers(rows)


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
    batches: Sequence[Ints],
    price: Floats,
    rule: MembershipRule,
    votes: Sequence[Callable[[Ints], Ints]],
    supply: SupplyRule,
) -> KnownAdvertisers:
    """Place all advertisers in the segments, and count what each has.

    For each view that the rule knows, ``votes`` has a function that labels some advertisers.
    """
    A = len(histograms.advertisers)
    shares, observations = np.empty((A, len(rule.rates))), np.empty(A)
    sums = {name: np.empty(A) for name in _SUMS}
    successes, trials_by_bin, supplies = [], [], []
    for number, rows in enumerate(batches):
        _log_progress("Placing", number, batches)
        some = histograms_of(histograms, rows)
        evidence = replace(evidence_of(some), price=price)
        shares[rows] = rule.shares(evidence, [vote(rows) for vote in votes])
        observations[rows] = evidence.observations
        ended = evidence.trials
        if evidence.form == "hazard":  # those of which a bin is the last
            ended = -np.diff(evidence.trials, axis=1, append=0.0)
        successes.append(sp.csr_array(evidence.successes.astype(np.float32)))
        trials_by_bin.append(sp.csr_array(ended.astype(np.float32)))
        for name in _SUMS:
            sums[name][rows] = some.daily(name).sum(axis=1)
        supplies.append(supply.supply(some.daily("count")))
    back = np.argsort(np.concatenate(batches))
    of_rows: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in supplies])[back]
        for name in ("level", "error", "variation", "weekday", "unseen", "weekday_variance")
    }
    return KnownAdvertisers(
        shares,
        observations,
        _joined(successes, back),
        _joined(trials_by_bin, back),
        sums,
        replace(supplies[0], **of_rows),
    )


def complete_all_curves(
    histograms: BidHistograms,
    batches: Sequence[Ints],
    fit: MarketFit,
    strength: float,
    memberships: Memberships,
    price: Floats,
    segment_curves: Floats,
    widening: Widening,
    bid: Floats,
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
        win[rows], own = fit.of_others(some, groups).curves(strength)
        spread[rows] = widening.of(win[rows], own, some, bid[rows])
    return win, spread, distances


def text_votes(vectors: Floats, representatives: Ints, partitions: Ints) -> Callable[[Ints], Ints]:
    """Return a function that gives the text clusters of any advertisers, (n, V); −1 without a text.

    A representative has the cluster it got, another the one with the nearest centre. ``vectors``
    (A, d) have length 1, or 0 for a missing text; ``partitions`` are (R, V).
    """
    known = np.full(len(vectors), -1, dtype=np.int64)
    known[representatives] = np.arange(len(representatives))
    centres = []
    for labels in partitions.T:
        inside = np.flatnonzero(labels >= 0)
        sizes = np.bincount(labels[inside])
        shape = len(sizes), len(labels)
        member = sp.csr_array((np.ones(len(inside)), (labels[inside], inside)), shape=shape)
        sums = np.asarray(member @ vectors[representatives])
        centres.append(sums / np.maximum(sizes, 1)[:, None])

    def votes(rows: Ints) -> Ints:
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


def _joined(parts: list[sp.csr_array], back: Ints) -> sp.csr_array:
    """Join the rows of batches, and put them in the order of advertisers; empty the list."""
    if len(parts) == 1:
        return parts[0]
    together = sp.vstack(parts, format="csr")
    parts.clear()
    is_in_order = bool((np.diff(back) > 0).all())
    return together if is_in_order else together[back]


def _log_progress(step: str, number: int, batches: Sequence[Ints]) -> None:
    if len(batches) > 1:
        done, total = (sum(map(len, part)) for part in (batches[:number], batches))
        _LOG.info("%s advertisers, %s of %s done", step, f"{done:,}", f"{total:,}")
