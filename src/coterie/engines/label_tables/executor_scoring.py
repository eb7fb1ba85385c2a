"""Hashes and clusters of packed rows by NumPy, for the executors of Spark.

Spark sends the functions of this module to the executors by value, so coterie need not be installed
there: the module imports NumPy and PyArrow only. Labels and margins equal those of the
compiled kernels in :mod:`coterie.counts.kernels` bit by bit, because every sum has the same
order of terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = [
    "COUNT_COLUMN",
    "PLACE_COLUMN",
    "VALUE_COLUMN",
    "RowScorer",
    "batches_of_low_hash",
    "count_batches",
    "label_batches",
    "n_counts",
]

#: Column with the number of rows with a tuple.
COUNT_COLUMN = "coterie_count"
#: Columns of what :func:`count_batches` returns.
PLACE_COLUMN, VALUE_COLUMN = "place", "value"

_CELLS_AT_ONCE = 1 << 15
_ROWS_A_BATCH = 1 << 16

Array = Any  # of NumPy; names of array types are not needed on the executors


@dataclass(frozen=True, eq=False, repr=False)
class RowScorer:
    """The placing rule of packed rows, as arrays.

    For a base cluster c of partition v, ``votes[c]`` is α_v N[c, ·] and ``pairs[c]`` is
    α_v present_v. The last row of both is 0, for a missing label.
    """

    keys: tuple[tuple[str, tuple[tuple[int, int, int], ...]], ...]
    """Name of each key, and (radix, first entry in ``lookup``, place) of its digits, lowest first;
    the place is the position of the partition in sums."""
    lookup: Array  # (Σ radices,), the base cluster c of each digit; m if it is missing
    offsets: Array  # (V + 1,), base clusters of the partition at each place
    votes: Array  # (m + 1, K)
    pairs: Array  # (m + 1, K)
    alpha: Array  # (V,)
    size: Array  # (K,)
    complete: bool  # no counted row has a missing label, so that every present_v is size
    threshold: float
    unweighted: RowScorer | None = None  # places rows that only partitions of weight 0 label

    def codes(self, batch: pa.RecordBatch) -> Array:
        """Return the base clusters (V, n) of a batch of packed rows."""
        codes = np.empty((len(self.alpha), batch.num_rows), dtype=np.intp)
        for name, digits in self.keys:
            rest = batch[name].to_numpy(zero_copy_only=False).astype(np.int64)
            for radix, first, place in digits:
                higher = rest // radix
                np.take(self.lookup, rest - higher * radix + first, out=codes[place], mode="clip")
                rest = higher
        return codes

    def place(self, codes: Array) -> tuple[Array, Array]:
        """Return labels (n,) and margins (n,) of rows; −1 and 0 without any vote."""
        n = codes.shape[1]
        labels, margin = np.full(n, -1, dtype=np.int64), np.zeros(n)
        step = max(64, _CELLS_AT_ONCE // len(self.size))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            labels[rows], margin[rows] = self._place(codes[:, rows])
        if self.unweighted is not None:
            rest = np.flatnonzero((labels < 0) & (codes < len(self.votes) - 1).any(axis=0))
            if len(rest):
                labels[rest] = self.unweighted.place(codes[:, rest])[0]
        return labels, margin

    def _place(self, codes: Array) -> tuple[Array, Array]:
        if not self.complete:
            return self._best(*self._sums(codes))
        has_gaps = (codes == len(self.votes) - 1).any(axis=0)
        if not has_gaps.any():
            return self._best(*self._sums_without_gaps(codes))
        labels, margin = np.empty(len(has_gaps), dtype=np.int64), np.empty(len(has_gaps))
        parts = ((has_gaps, self._sums), (~has_gaps, self._sums_without_gaps))
        for rows, sums in parts:
            labels[rows], margin[rows] = self._best(*sums(codes[:, rows]))
        return labels, margin

    def _sums(self, codes: Array) -> tuple[Array, Array, Array]:
        """Return votes together (n, K), all votes on pairs (n, K), and the weight of each row."""
        weights = np.append(np.repeat(self.alpha, np.diff(self.offsets)), 0.0)
        n, K = codes.shape[1], len(self.size)
        same, both, total, term = np.zeros((n, K)), np.zeros((n, K)), np.zeros(n), np.empty((n, K))
        for column in codes:
            same += np.take(self.votes, column, axis=0, out=term, mode="clip")
            both += np.take(self.pairs, column, axis=0, out=term, mode="clip")
            total += weights[column]
        return same, both, total

    def _sums_without_gaps(self, codes: Array) -> tuple[Array, Array, Array]:
        """Add four partitions at a time, as the compiled kernel does."""
        V, (n, K), total = len(codes), (codes.shape[1], len(self.size)), 0.0
        same, terms = np.zeros((n, K)), [np.empty((n, K)) for _ in range(4)]
        for v in range(0, V - 3, 4):
            for term, column in zip(terms, codes[v : v + 4], strict=True):
                np.take(self.votes, column, axis=0, out=term, mode="clip")
            terms[0] += terms[1]
            terms[2] += terms[3]
            terms[0] += terms[2]
            same += terms[0]
            x = self.alpha[v : v + 4]
            total += (x[0] + x[1]) + (x[2] + x[3])
        for v in range(V - V % 4, V):
            same += np.take(self.votes, codes[v], axis=0, out=terms[0], mode="clip")
            total += self.alpha[v]
        return same, np.broadcast_to(total * self.size, (n, K)), np.full(n, total)

    def _best(self, same: Array, both: Array, total: Array) -> tuple[Array, Array]:
        """Return the cluster of largest gain, and its share of votes minus the next largest."""
        labels = (same - self.threshold * both).argmax(axis=1)
        shares = np.divide(same, both, out=np.zeros_like(same), where=both > 0)
        np.minimum(shares, 1.0, out=shares)
        rows = np.arange(len(labels))
        share = shares[rows, labels]
        shares[rows, labels] = 0.0
        margin = np.maximum(share - shares.max(axis=1), 0.0)
        voted = total != 0.0
        return np.where(voted, labels, -1), np.where(voted, margin, 0.0)


def n_counts(scorer: RowScorer) -> int:
    """Return the number of places in the result of :func:`count_batches`: m·K + K + 2.

    They are the table N (m, K), the sizes (K,), the number of rows and the sum of margins.
    """
    return scorer.votes.size + 2


def count_batches(scorer: RowScorer, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Place all rows of some batches and yield what they add to each count, as (place, value)."""
    K = len(scorer.size)
    counts = np.zeros(n_counts(scorer))
    for batch in batches:
        codes = scorer.codes(batch)
        labels, margin = scorer.place(codes)
        weights = None
        if COUNT_COLUMN in batch.schema.names:
            weights = batch[COUNT_COLUMN].to_numpy(zero_copy_only=False).astype(np.float64)
        counts[-2] += len(labels) if weights is None else weights.sum()
        counts[-1] += margin.sum() if weights is None else margin @ weights
        if (labels < 0).any():
            placed = np.flatnonzero(labels >= 0)
            codes, labels = codes[:, placed], labels[placed]
            weights = None if weights is None else weights[placed]
        _add(counts[-2 - K : -2], labels, weights)
        for v, column in enumerate(codes):
            first, last = int(scorer.offsets[v]), int(scorer.offsets[v + 1])
            cells, some = (column - first) * K + labels, weights
            has_gap = column == len(scorer.votes) - 1
            if has_gap.any():
                cells, some = cells[~has_gap], None if weights is None else weights[~has_gap]
            _add(counts[first * K : last * K], cells, some)
    places = np.flatnonzero(counts)
    columns = {PLACE_COLUMN: places.astype(np.int64), VALUE_COLUMN: counts[places]}
    yield from pa.table(columns).to_batches(_ROWS_A_BATCH)


def label_batches(
    scorer: RowScorer, carried: tuple[str, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the carried columns, label and margin of every row."""
    for batch in batches:
        labels, margin = scorer.place(scorer.codes(batch))
        columns = [batch[name] for name in carried]
        columns += [pa.array(labels.astype(np.int32)), pa.array(margin)]
        yield pa.RecordBatch.from_arrays(columns, [*carried, "label", "margin"])


def batches_of_low_hash(
    factors: dict[str, tuple[tuple[int, int], ...]],
    prime: int,
    below: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose hash is below a bound; ``KeyLayout.key_hash`` defines the hash."""
    for batch in batches:
        total = np.zeros(batch.num_rows, dtype=np.int64)
        for name, of_key in factors.items():
            key = batch[name].to_numpy(zero_copy_only=False)
            total += sum(key % modulus * factor for modulus, factor in of_key) % prime
        mixed = total % prime
        square = mixed * mixed % prime
        hashed = square * square % prime * mixed % prime
        yield batch.filter(pa.array(hashed < below))


def _add(counts: Array, cells: Array, weights: Array | None) -> None:
    """Add the weight of every cell to its count; without weights, 1."""
    if len(counts) <= 4 * len(cells):
        counts += np.bincount(cells, weights, minlength=len(counts))
    else:  # most counts stay what they are
        np.add.at(counts, cells, 1.0 if weights is None else weights)
