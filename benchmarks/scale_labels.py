"""Large label tables with a known answer, written to Parquet in chunks: memory stays bounded.

A truth y (n,) and one wrong partition z (n,), K clusters each, are drawn together with V
partitions: most copy y, a share copies z. In family ``fixed`` a copy has the K labels of what it
copies; in ``diverse`` each copy splits every cluster into 1 to 4 parts of its own, so that it has
between K and 4K labels. Then a share of all labels is replaced at random and the labels of each
column are renamed. Forty such columns make nearly every row a tuple of its own: u ≈ n.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from coterie.runtime.atomic_files import atomic_file

__all__ = ["CHUNK_ROWS", "Chunk", "Family", "LabelFiles", "Recipe", "label_chunks", "write_labels"]

Family = Literal["fixed", "diverse"]

#: Rows drawn at a time, from a seed of their own, and rows of a row group in the file.
CHUNK_ROWS = 131_072
_MOST_PARTS = 4
_FAMILY_SEED = {"fixed": 0, "diverse": 1}
_METADATA = b"coterie-scale"


@dataclass(frozen=True)
class Recipe:
    """What decides a table.

    Attributes
    ----------
    family : {"fixed", "diverse"}
        Whether all partitions have K labels, or each between K and 4K.
    n_points, n_partitions, n_clusters : int
        n, V and K; at most 31 clusters, since a label is one byte.
    wrong_share : float
        Share of the partitions that copy the wrong partition.
    noise : float
        Share of the labels that is redrawn.
    seed : int
    """

    family: Family
    n_points: int
    n_partitions: int = 40
    n_clusters: int = 10
    wrong_share: float = 0.4
    noise: float = 0.2
    seed: int = 0

    @property
    def n_wrong(self) -> int:
        """How many partitions, the last ones, are wrong together."""
        return round(self.wrong_share * self.n_partitions)


@dataclass(frozen=True)
class Chunk:
    """Some rows: the number of the first, the truth y (m,) and the V columns of labels (m,)."""

    first: int
    y: NDArray[np.uint8]
    columns: list[NDArray[np.int8]]


@dataclass(frozen=True)
class LabelFiles:
    """A table (column ``id``, then ``p0``, ``p1`` …) and beside it the truth, by id."""

    table: Path
    truth: Path


def label_chunks(recipe: Recipe) -> Iterator[Chunk]:
    """The rows of a table, :data:`CHUNK_ROWS` at a time.

    A smaller table of the same family is the beginning of a larger one.

    Examples
    --------
    >>> (chunk,) = label_chunks(Recipe("diverse", 1000))
    >>> chunk.y.shape, len(chunk.columns), chunk.columns[0].dtype.name
    ((1000,), 40, 'int8')
    >>> all(9 < len(np.unique(column)) <= 40 for column in chunk.columns)
    True
    """
    seeds = [recipe.seed, _FAMILY_SEED[recipe.family]]
    copies = _copies(recipe, np.random.default_rng([*seeds, 0]))
    for number, first in enumerate(range(0, recipe.n_points, CHUNK_ROWS)):
        rng = np.random.default_rng([*seeds, 1 + number])
        n_rows = min(CHUNK_ROWS, recipe.n_points - first)
        yield _drawn_chunk(recipe, copies, first, n_rows, rng)


def write_labels(recipe: Recipe, folder: Path) -> LabelFiles:
    """Write a table and its truth to a folder, unless they are there already.

    The table has an int64 ``id``, the number of the row, and one byte a label. The truth is an
    array of bytes in NumPy's format: element i is the cluster of id i.
    """
    name = f"{recipe.family}-{recipe.n_points}"
    files = LabelFiles(folder / f"{name}.parquet", folder / f"{name}-truth.npy")
    if files.truth.exists() and _written_recipe(files.table) == asdict(recipe):
        return files
    names = [f"p{v}" for v in range(recipe.n_partitions)]
    fields = [("id", pa.int64()), *((name, pa.int8()) for name in names)]
    metadata = {_METADATA: json.dumps(asdict(recipe)).encode()}
    truth = []
    with atomic_file(files.table) as unfinished:
        with pq.ParquetWriter(unfinished, pa.schema(fields, metadata)) as writer:
            for chunk in label_chunks(recipe):
                ids = np.arange(chunk.first, chunk.first + len(chunk.y))
                writer.write_table(pa.table([ids, *chunk.columns], schema=writer.schema))
                truth.append(chunk.y)
        # a table that is there has its truth beside it, so the truth comes first
        with atomic_file(files.truth) as array:
            np.save(array, np.concatenate(truth))
    return files


@dataclass(frozen=True)
class _Copy:
    """How one partition copies another of K clusters.

    ``parts`` (K,) says into how many parts it splits each, ``first`` (K,) the first label of each,
    and ``names`` what its labels are called.
    """

    parts: NDArray[np.uint16]
    first: NDArray[np.uint8]
    names: NDArray[np.int8]


def _copies(recipe: Recipe, rng: np.random.Generator) -> list[_Copy]:
    most = _MOST_PARTS if recipe.family == "diverse" else 1
    copies = []
    for _ in range(recipe.n_partitions):
        parts = rng.integers(1, most + 1, size=recipe.n_clusters, dtype=np.uint16)
        ends = np.cumsum(parts)
        names = rng.permutation(int(ends[-1])).astype(np.int8)
        copies.append(_Copy(parts, (ends - parts).astype(np.uint8), names))
    return copies


def _drawn_chunk(
    recipe: Recipe, copies: list[_Copy], first: int, n_rows: int, rng: np.random.Generator
) -> Chunk:
    """Draw a whole chunk and keep ``n_rows``: what is drawn does not depend on n."""
    y = _unequal_clusters(recipe.n_clusters, rng)
    z = rng.integers(recipe.n_clusters, size=CHUNK_ROWS, dtype=np.uint8)
    n_right = recipe.n_partitions - recipe.n_wrong
    columns = [
        _drawn_copy(y if v < n_right else z, copy, recipe.noise, rng)[:n_rows]
        for v, copy in enumerate(copies)
    ]
    return Chunk(first, y[:n_rows], columns)


def _unequal_clusters(n_clusters: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Clusters with shares as 1/2 : 1/3 : 1/4 …; of ten the largest has 25%, the least 4.5%."""
    shares = 1.0 / np.arange(2, n_clusters + 2)
    ends = np.cumsum(shares / shares.sum())
    ends[-1] = 1.0
    return np.searchsorted(ends, rng.random(CHUNK_ROWS), side="right").astype(np.uint8)


def _drawn_copy(
    base: NDArray[np.uint8], copy: _Copy, noise: float, rng: np.random.Generator
) -> NDArray[np.int8]:
    where = rng.integers(256, size=len(base), dtype=np.uint16)
    part = (where * copy.parts[base]) >> 8
    labels = copy.first[base] + part.astype(np.uint8)
    fresh = rng.integers(len(copy.names), size=len(base), dtype=np.uint8)
    redrawn = rng.random(len(base), dtype=np.float32) < noise
    return copy.names[np.where(redrawn, fresh, labels)]


def _written_recipe(table: Path) -> dict[str, Any] | None:
    """The recipe of a table that was written before; None where there is none of ours."""
    try:
        metadata = pq.read_schema(table).metadata or {}
        found: dict[str, Any] = json.loads(metadata.get(_METADATA, b"null"))
    except (OSError, ValueError):
        return None
    return found
