"""Label tables with very many distinct tuples and a known truth, written in chunks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

#: Number of clusters of every table.
N_CLUSTERS = 10
#: Share of the partitions, the last ones, that follow another clustering than the true one.
WRONG_SHARE = 0.4
#: Probability that a label is redrawn.
NOISE = 0.3

_ROWS_A_CHUNK = 500_000
# ends of the clusters' shares: the largest cluster has 19% of the points, the smallest 1%
_SHARE_ENDS = np.cumsum(np.arange(2 * N_CLUSTERS - 1, 0, -2)) / N_CLUSTERS**2


def write_many_tuples(path: Path, n_rows: int, n_partitions: int, repeats: int = 1) -> None:
    """Write a Parquet file of ``id``, ``p0``, ``p1`` … with few rows in memory.

    A tuple is in ``repeats`` rows on average: the first rows of every chunk are new, nearly all
    distinct, and the others are drawn from them. The id of row i in cluster y is i·K + y, so that
    an output can be scored without its table.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_many_tuples(Path(folder) / "t.parquet", 1000, 20, repeats=2)
    ...     table = pq.read_table(Path(folder) / "t.parquet")
    >>> tuples = table.group_by(table.column_names[1:]).aggregate([])
    >>> table.num_rows, tuples.num_rows
    (1000, 500)
    """
    names = [f"p{v}" for v in range(n_partitions)]
    schema = pa.schema([("id", pa.int64()), *((name, pa.uint8()) for name in names)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, _ROWS_A_CHUNK):
            n = min(_ROWS_A_CHUNK, n_rows - start)
            # chunks do not depend on each other, so a longer table begins like a shorter one
            truth, labels = _chunk(n, n_partitions, repeats, np.random.default_rng(start))
            ids = np.arange(start, start + n) * N_CLUSTERS + truth
            arrays = [pa.array(ids), *(pa.array(np.ascontiguousarray(x)) for x in labels)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _chunk(
    n: int, V: int, repeats: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Draw the true clusters (n,) and the labels (V, n) of a chunk."""
    n_new = -(-n // repeats)
    truth = np.searchsorted(_SHARE_ENDS, rng.random(n_new), side="right")
    wrong = rng.integers(N_CLUSTERS, size=n_new)
    labels = np.empty((V, n), dtype=np.uint8)
    below = int(NOISE * 2**16)
    for v in range(V):
        drawn = rng.integers(2**16, size=n_new, dtype=np.uint16)
        cluster = truth if v < round(V * (1 - WRONG_SHARE)) else wrong
        # the number of a redrawn label is uniform below the bound, so its remainder is nearly so
        labels[v, :n_new] = np.where(drawn < below, drawn, cluster + v) % N_CLUSTERS
    again = rng.integers(n_new, size=n - n_new)
    labels[:, n_new:] = labels[:, again]
    return np.concatenate([truth, truth[again]]), labels
