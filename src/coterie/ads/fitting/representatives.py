"""Representatives: the advertisers that a model is fitted to, and batches that all are placed in.

What is common to a market — segments, price levels, the dictionary of curves, how supply moves,
how wide intervals must be — is known well enough from some 20,000 advertisers. Everything else is
known of each advertiser by these and its own auctions, so that the work and the memory for all of
them are those of one batch after the other.
"""

from __future__ import annotations

import logging
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from coterie.ads.histograms.bid_histograms import BidHistograms
from coterie.errors import InvalidParameterError
from coterie.runtime.devices import available_memory, readable_bytes

__all__ = [
    "batches_of",
    "choose_representatives",
    "histograms_of",
    "memory_needed",
    "refuse_too_many",
]

Indices = NDArray[np.int64]

#: Number of (A, bins) and of (A, atoms) float64 arrays that a batch needs, and of atoms.
_ROWS_OF_BINS, _ROWS_OF_ATOMS, _ATOMS = 20, 5, 600
#: Bytes of what is kept of an advertiser beside its curves: shares, supply, vectors of texts.
_BYTES_OF_ONE = 800
#: Bytes of a cell in the evidence that a model keeps, twice while it is joined, and stored.
_BYTES_OF_CELL = 2 * 16 + 12

_LOG = logging.getLogger("coterie")


def choose_representatives(histograms: BidHistograms, most: int, random_state: int) -> Indices:
    """Return the rows of at most ``most`` advertisers, in order: all, or a random sample.

    Every advertiser with bids has the same probability, because the weights of the dictionary and
    the calibration are those of advertisers, not of bids. Of campaigns, all of an advertiser are
    chosen or none, because they inform each other; an advertiser with more than there is room for
    is passed over, unless there is no other.

    The order of the draw depends on names alone, so that most of the sample stays the same
    if later days bring some new advertisers.
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
    drawn: list[int] = []
    room = most
    for owner in _drawn_order(owners, random_state).tolist():
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


def memory_needed(histograms: BidHistograms, most: int) -> int:
    """Return about how many bytes a fit needs beside the histograms: the model and one batch."""
    A, _, G = histograms.shape
    n_cells = len(histograms.bids.bin) + len(histograms.prices.bin)
    model = A * (2 * 4 * G + _BYTES_OF_ONE) + _BYTES_OF_CELL * n_cells
    return model + min(A, most) * 8 * (_ROWS_OF_BINS * G + _ROWS_OF_ATOMS * _ATOMS)


def refuse_too_many(histograms: BidHistograms, most: int) -> None:
    """Raise an error if the memory that is free is not enough; say what a large model needs."""
    A = len(histograms.advertisers)
    needed, free = memory_needed(histograms, most), available_memory()
    if needed > free:
        raise InvalidParameterError(
            f"a model of {A:,} advertisers needs about {readable_bytes(needed)} of memory, but "
            f"{readable_bytes(free)} are free; fit fewer advertisers or days, or, in Python, set "
            f"max_representatives below {most:,}"
        )
    if most < A:
        memory = readable_bytes(needed)
        _LOG.info("A model of %s advertisers needs about %s of memory", f"{A:,}", memory)


def batches_of(histograms: BidHistograms, size: int) -> list[Indices]:
    """Divide the advertisers into batches of about ``size``, each in order.

    The campaigns of an advertiser are in one batch.
    """
    family = _families(histograms)
    order = np.argsort(family, kind="stable")
    # a batch ends with the family of its last row
    ends = np.cumsum(np.bincount(family))
    cuts = [0]
    while cuts[-1] < len(order):
        reach = int(np.searchsorted(ends, cuts[-1] + size, side="right"))
        cuts.append(int(max(ends[max(reach - 1, 0)], ends[ends > cuts[-1]][0])))
    return [np.sort(order[first:last]) for first, last in pairwise(cuts)]


def histograms_of(histograms: BidHistograms, rows: Indices) -> BidHistograms:
    """Return the histograms of some advertisers; the same object if they are all."""
    if len(rows) == len(histograms.advertisers):
        return histograms
    return histograms.for_advertisers(rows)


def _drawn_order(names: NDArray[np.str_], random_state: int) -> Indices:
    """Return the indices of names in a random order, that of hashes with the seed as the key."""
    key = int(random_state).to_bytes(8, "little")
    texts = (name.encode(errors="surrogatepass") for name in names.tolist())
    hashes = b"".join(blake2b(text, digest_size=8, key=key).digest() for text in texts)
    return np.argsort(np.frombuffer(hashes, dtype="<u8"), kind="stable")


def _families(histograms: BidHistograms) -> Indices:
    """Return which advertisers stay together: the number of each one's parent, (A,)."""
    parents = histograms.parents
    if parents is None:
        return np.arange(len(histograms.advertisers))
    return np.unique(parents, return_inverse=True)[1].astype(np.int64)
