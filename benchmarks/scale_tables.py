"""Large label tables with a known truth, drawn and written to Parquet in chunks.

A truth y and one wrong partition z, both of K clusters, are drawn with V partitions: the first
ones copy y, the last ones copy z. In family ``fixed`` a copy has the same K labels. In family
``diverse`` a copy splits every cluster into 1 to 4 parts, so that it has between K and 4K labels.
Then a share of all labels is redrawn and the labels of each column are renamed. With 40 columns
nearly all rows are distinct.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

N_PARTITIONS, N_CLUSTERS, N_WRONG, NOISE = 40, 10, 16, 0.2
#: Rows drawn from one seed, and rows of a row group in the file.
CHUNK_ROWS = 131_072

_FAMILY_SEED = {"fixed": 0, "diverse": 1}
_MOST_PARTS = {"fixed": 1, "diverse": 4}

Bytes = NDArray[np.uint8]
# how a partition copies K clusters: parts (K,) of each cluster, first label (K,) of each, new names
Copy = tuple[NDArray[np.uint16], Bytes, NDArray[np.int8]]


def write_table(path: Path, family: str, n_points: int) -> Bytes:
    """Write a table with an int64 ``id`` and one byte for each label; return the truth by id."""
    fields = [("id", pa.int64()), *((f"p{v}", pa.int8()) for v in range(N_PARTITIONS))]
    truth: list[Bytes] = []
    first = 0
    with pq.ParquetWriter(path, pa.schema(fields)) as writer:
        for y, columns in label_chunks(family, n_points):
            ids = np.arange(first, first + len(y))
            writer.write_table(pa.table([ids, *columns], schema=writer.schema))
            truth.append(y)
            first += len(y)
    return np.concatenate(truth)


def label_chunks(
    family: str, n_points: int, noise: float = NOISE
) -> Iterator[tuple[Bytes, list[NDArray[np.int8]]]]:
    """Yield the truth and the V columns of each chunk.

    A smaller table of the same family is the beginning of a larger one.

    Examples
    --------
    >>> ((y, columns),) = label_chunks("diverse", 1000)
    >>> y.shape, len(columns), columns[0].dtype.name
    ((1000,), 40, 'int8')
    >>> all(9 < len(np.unique(column)) <= 40 for column in columns)
    True
    """
    seeds = [0, _FAMILY_SEED[family]]
    copies = _draw_copies(_MOST_PARTS[family], np.random.default_rng([*seeds, 0]))
    for number, first in enumerate(range(0, n_points, CHUNK_ROWS)):
        rng = np.random.default_rng([*seeds, 1 + number])
        # a whole chunk is drawn, so that the rows do not depend on n
        n_rows = min(CHUNK_ROWS, n_points - first)
        y = _draw_truth(rng)
        z = rng.integers(N_CLUSTERS, size=CHUNK_ROWS, dtype=np.uint8)
        bases = [y] * (N_PARTITIONS - N_WRONG) + [z] * N_WRONG
        columns = [
            _draw_column(base, copy, noise, rng)[:n_rows]
            for base, copy in zip(bases, copies, strict=True)
        ]
        yield y[:n_rows], columns


def _draw_copies(most_parts: int, rng: np.random.Generator) -> list[Copy]:
    copies = []
    for _ in range(N_PARTITIONS):
        parts = rng.integers(1, most_parts + 1, size=N_CLUSTERS, dtype=np.uint16)
        ends = np.cumsum(parts)
        names = rng.permutation(int(ends[-1])).astype(np.int8)
        copies.append((parts, (ends - parts).astype(np.uint8), names))
    return copies


def _draw_truth(rng: np.random.Generator) -> Bytes:
    """Draw clusters with shares 1/2 : 1/3 : 1/4 …, here from 25% to 4.5%."""
    shares = 1.0 / np.arange(2, N_CLUSTERS + 2)
    ends = np.cumsum(shares / shares.sum())
    ends[-1] = 1.0
    return np.searchsorted(ends, rng.random(CHUNK_ROWS), side="right").astype(np.uint8)


def _draw_column(
    base: Bytes, copy: Copy, noise: float, rng: np.random.Generator
) -> NDArray[np.int8]:
    parts, first, names = copy
    where = rng.integers(256, size=len(base), dtype=np.uint16)
    labels = first[base] + ((where * parts[base]) >> 8).astype(np.uint8)
    fresh = rng.integers(len(names), size=len(base), dtype=np.uint8)
    redrawn = rng.random(len(base), dtype=np.float32) < noise
    return names[np.where(redrawn, fresh, labels)]
