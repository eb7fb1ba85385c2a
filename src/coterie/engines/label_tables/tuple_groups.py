"""Distinct label tuples and how often each occurs, counted by the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coterie.engines.label_tables.packed_keys import HASH_RANGE, KeyLayout
from coterie.engines.queries import fetch
from coterie.errors import TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["TupleCounts", "are_repetitive", "check_all_there", "count_tuples", "sample_tuples"]


@dataclass(frozen=True, eq=False)
class TupleCounts:
    """Distinct tuples, in the order of their keys, which is the same whatever the engine.

    Attributes
    ----------
    keys : list of (u,) int64 arrays
    counts : (u,) int64 array
        Rows with each tuple.
    share : float
        Of all possible tuples, how many were looked at: 1 unless it is a sample.
    """

    keys: list[NDArray[np.int64]]
    counts: NDArray[np.int64]
    share: float = 1.0

    @property
    def n_tuples(self) -> int:
        """Number of distinct tuples here, u."""
        return len(self.counts)

    @property
    def estimate(self) -> int:
        """Number of distinct tuples in the table, if these are a sample."""
        return round(self.n_tuples / self.share)


def count_tuples(
    packed: ir.Table, layout: KeyLayout, at_most: int, n_rows: int
) -> TupleCounts | None:
    """All distinct tuples of the ``n_rows`` rows, or None where there are more than ``at_most``."""
    found = _counted(packed, layout).limit(at_most + 1)
    counted = _in_order(fetch(found), layout)
    if counted.n_tuples > at_most:
        return None
    check_all_there(int(counted.counts.sum()), n_rows)
    return counted


def check_all_there(n_found: int, n_rows: int) -> None:
    """Refuse to go on where packing has lost or doubled rows, or the table has changed."""
    if n_found != n_rows:
        raise TableError(
            f"the table had {n_rows:,} rows when its columns were looked at, and {n_found:,} when "
            "their labels were counted; either it is being written to, or the engine takes "
            "different labels for equal: write it to Parquet files and give these"
        )


def are_repetitive(packed: ir.Table, n_rows: int) -> bool:
    """Whether some rows have few distinct tuples among them, so that counting all is worth it."""
    some = packed.limit(n_rows)
    counted = some.group_by(list(some.columns)).agg(coterie_count=some.count())
    found = fetch(counted.aggregate(rows=counted.coterie_count.sum(), tuples=counted.count()))
    (numbers,) = found.to_pylist()
    return bool(numbers["tuples"] <= numbers["rows"] / 2)


def sample_tuples(packed: ir.Table, layout: KeyLayout, share: float) -> TupleCounts:
    """The tuples whose hash falls into a share of its range, each with all of its rows.

    Which tuples those are depends on the labels alone. Their number over ``share`` estimates that
    of all tuples without bias, with a relative error of about 1/√s where the sample has s tuples.
    """
    below = max(1, round(share * HASH_RANGE))
    chosen = packed.filter(layout.key_hash(packed) < below)
    counted = _in_order(fetch(_counted(chosen, layout)), layout)
    return TupleCounts(counted.keys, counted.counts, below / HASH_RANGE)


def _counted(packed: ir.Table, layout: KeyLayout) -> ir.Table:
    return packed.group_by(list(layout.key_names)).agg(coterie_count=packed.count())


def _in_order(found: Any, layout: KeyLayout) -> TupleCounts:
    keys = [found[name].to_numpy() for name in layout.key_names]
    order = np.lexsort(keys)
    return TupleCounts([key[order] for key in keys], found["coterie_count"].to_numpy()[order])
