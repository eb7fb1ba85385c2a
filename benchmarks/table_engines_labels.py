"""Label tables with a known answer, generated, compared and judged by DuckDB."""

from __future__ import annotations

import glob
import hashlib
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from coterie.engines.backends import connect
from coterie.engines.queries import engine_errors
from coterie.errors import OutputError, TableError
from coterie.runtime.atomic_files import atomic_file

__all__ = [
    "MEMORY_LIMIT",
    "NOISE_PERCENT",
    "N_CLUSTERS",
    "N_PARTITIONS",
    "N_TUPLES",
    "N_WRONG",
    "SAME_CONFIDENCE",
    "PlantedTables",
]

N_PARTITIONS, N_WRONG, N_CLUSTERS, NOISE_PERCENT = 20, 8, 5, 20
#: Distinct tuples of every table, which has at least so many rows.
N_TUPLES = 5_000
#: Of DuckDB, here and in the program.
MEMORY_LIMIT = "2GB"
#: Confidences that differ by no more are the same.
SAME_CONFIDENCE = 1e-12

_PRIME = 2**31 - 1
_ROW_GROUP = 250_000
# the largest cluster has 35 rows of 100
_SHARE_ENDS = (35, 60, 78, 91)


class PlantedTables:
    """Label tables with a known answer, generated and judged by DuckDB.

    There are :data:`N_TUPLES` prototypes, distinct tuples of V labels, drawn by arithmetic modulo
    2³¹ − 1. Prototype j has a true cluster y_j and a wrong one z_j; its label in column v is y_j,
    in the last :data:`N_WRONG` columns z_j, or with a chance of :data:`NOISE_PERCENT` in 100
    drawn anew, and each column numbers clusters in its own way. Row i is a copy of prototype
    ⌊N u_i²⌋, u_i a hash of i, so that some are far more frequent; the first N rows are one of each.

    Parameters
    ----------
    folder : Path
        Where tables are written.

    Attributes
    ----------
    seconds : dict of int to float
        How long each table took that was written, by its rows.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, PlantedTables(Path(folder)) as tables:
    ...     table = tables.file(6000)
    ...     tables.count("SELECT count(*) FROM (SELECT DISTINCT * EXCLUDE id FROM {})", table)
    5000
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds: dict[int, float] = {}
        self._backend: Any = connect("duckdb://", memory_limit=MEMORY_LIMIT)
        self._duckdb = self._backend.con
        self._recipe = f"{_MACROS}{_prototypes_sql()}{_rows_sql(0)}"
        # statistics of Parquet files leave NaN out, and would decide comparisons without reading
        self._duckdb.execute("SET disabled_optimizers = 'statistics_propagation'")
        self._duckdb.execute(_MACROS)
        self._duckdb.execute(_prototypes_sql())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._backend.disconnect()

    def file(self, n_rows: int) -> Path:
        """A Parquet file of ``id`` and ``p0``, ``p1`` …, written unless it is there already."""
        digest = hashlib.sha256(self._recipe.encode()).hexdigest()[:8]
        path = self.folder / f"labels-{n_rows}-{digest}.parquet"
        if not path.exists():
            started = time.perf_counter()
            with (
                atomic_file(path) as unfinished,
                engine_errors(f"cannot write {path}", OutputError),
            ):
                self._duckdb.execute(
                    f"COPY ({_rows_sql(n_rows)}) TO {_quoted(unfinished)} "
                    f"(FORMAT parquet, ROW_GROUP_SIZE {_ROW_GROUP})"
                )
            self.seconds[n_rows] = time.perf_counter() - started
        return path

    def accuracy(self, out: Path, n_rows: int) -> float:
        """Share of rows in the right cluster, clusters matched best; every id must be there once.

        Whether it is, their number, bounds and three sums tell: no table of ids is made.
        """
        ids = "SELECT count(*), min(id), max(id), sum(id), bit_xor(id), sum(mixed(id)) FROM "
        every = self._duckdb.execute(f"{ids} (SELECT range AS id FROM range({n_rows}))").fetchone()
        with engine_errors("the table written cannot be read"):
            found = self._duckdb.execute(f"{ids} {_parquet(out)}").fetchone()
            if found != every:
                raise TableError(f"{found[0]:,} rows, which are not the {n_rows:,} ids, each once")
            cells = self._duckdb.execute(
                f"SELECT truth, label, count(*) AS n FROM {_parquet(out)} "
                "JOIN prototypes ON prototype = prototype_of(id) GROUP BY truth, label"
            ).fetchnumpy()
        labels, columns = np.unique(cells["label"], return_inverse=True)
        table = np.zeros((N_CLUSTERS, len(labels)), dtype=np.int64)
        table[cells["truth"], columns] = cells["n"]
        return float(table[linear_sum_assignment(table, maximize=True)].sum() / n_rows)

    def n_different(self, one: Path, other: Path) -> int:
        """Ids whose label or confidence differs, or that one of the two tables lacks."""
        return self.count(
            "SELECT count(*) FROM {} a FULL JOIN {} b ON a.id = b.id WHERE a.label IS DISTINCT "
            "FROM b.label OR NOT coalesce("
            f"abs(a.confidence - b.confidence) <= {SAME_CONFIDENCE}, false)",
            one,
            other,
        )

    def count(self, sql: str, *paths: Path) -> int:
        """The one number a query gives; braces stand for tables in files or folders."""
        with engine_errors("a table cannot be read"):
            row = self._duckdb.execute(sql.format(*map(_parquet, paths))).fetchone()
        return int(row[0])


# no product of two numbers below the prime exceeds 62 bits
_MACROS = f"""
    CREATE MACRO squared(x) AS (x) * (x) % {_PRIME};
    CREATE MACRO mixed(x) AS squared(((x) * 48271 + 11) % {_PRIME}) * 1000003 % {_PRIME};
    CREATE MACRO drawn(x) AS mixed(mixed(x) + 7);
    CREATE MACRO prototype_of(id) AS CASE WHEN id < {N_TUPLES} THEN id ELSE
        mixed(id) * mixed(id) // {_PRIME} * {N_TUPLES} // {_PRIME} END;
"""


def _prototypes_sql() -> str:
    """The prototypes: twice as many are drawn, and the first of those that differ are kept."""
    columns = ", ".join(f"p{v}" for v in range(N_PARTITIONS))
    votes = ", ".join(f"{_vote_sql(v)}::UTINYINT AS p{v}" for v in range(N_PARTITIONS))
    share = " ".join(f"WHEN share < {end} THEN {k}" for k, end in enumerate(_SHARE_ENDS))
    return f"""
        CREATE TABLE prototypes AS
        WITH shares AS (
            SELECT range AS number, drawn(range * 64) % 100 AS share,
                drawn(range * 64 + 1) % {N_CLUSTERS} AS wrong FROM range({2 * N_TUPLES})
        ), clusters AS (
            SELECT *, CASE {share} ELSE {N_CLUSTERS - 1} END AS truth FROM shares
        ), votes AS (
            SELECT number, truth, {votes} FROM clusters
        )
        SELECT row_number() OVER (ORDER BY min(number)) - 1 AS prototype,
            arg_min(truth, number) AS truth, {columns}
        FROM votes GROUP BY {columns} QUALIFY prototype < {N_TUPLES}"""


def _vote_sql(v: int) -> str:
    cluster = "truth" if v < N_PARTITIONS - N_WRONG else "wrong"
    chance, other = (f"drawn(number * 64 + {place + v})" for place in (2, 2 + N_PARTITIONS))
    vote = f"CASE WHEN {chance} % 100 < {NOISE_PERCENT} THEN {other} ELSE {cluster} END"
    return f"(({vote} + {v}) % {N_CLUSTERS})"


def _rows_sql(n_rows: int) -> str:
    columns = ", ".join(f"p{v}" for v in range(N_PARTITIONS))
    return (
        f"SELECT id, {columns} FROM (SELECT range AS id FROM range({n_rows})) "
        "JOIN prototypes ON prototype = prototype_of(id)"
    )


def _parquet(path: Path) -> str:
    """A file, or the files of a folder, as a table of DuckDB."""
    escaped = glob.escape(str(path))
    return f"read_parquet({_quoted(f'{escaped}/*.parquet' if path.is_dir() else escaped)})"


def _quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"
