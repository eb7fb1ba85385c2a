"""Label tables with a known truth that DuckDB generates, compares and scores."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from coterie.errors import TableError
from coterie.tables.engines import connect, engine_errors

N_PARTITIONS, N_WRONG, N_CLUSTERS, NOISE_PERCENT = 20, 8, 5, 20
#: Distinct tuples of every table; a table has at least as many rows.
N_TUPLES = 5_000
#: Memory limit of DuckDB, here and in the program.
MEMORY_LIMIT = "2GB"
#: Confidences that differ by at most this are equal.
SAME_MARGIN = 1e-12

_PRIME = 2**31 - 1
_ROW_GROUP = 250_000
# ends of the clusters' shares in percent: the largest cluster has 35% of the prototypes
_SHARE_ENDS = (35, 60, 78, 91)


class PlantedTables:
    """Label tables with a known truth, generated and scored by DuckDB.

    There are N = :data:`N_TUPLES` prototypes, distinct tuples of V labels, drawn by arithmetic
    modulo 2³¹ − 1. Prototype j has a true cluster y_j and a wrong one z_j. Its label in column v is
    y_j, in the last :data:`N_WRONG` columns z_j, and with probability :data:`NOISE_PERCENT` % a
    random one; each column numbers the clusters differently. The first N rows are one copy of each
    prototype. A later row i copies prototype ⌊N u_i²⌋, where u_i is a hash of i, so that some
    prototypes are far more frequent. The tables are files in ``folder``.

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
        self._backend: Any = connect("duckdb://", memory_limit=MEMORY_LIMIT)
        self._duckdb = self._backend.con
        # Parquet statistics ignore NaN, and would decide comparisons without reading the rows
        self._duckdb.execute("SET disabled_optimizers = 'statistics_propagation'")
        self._duckdb.execute(_MACROS)
        self._duckdb.execute(_prototypes_sql())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._backend.disconnect()

    def file(self, n_rows: int) -> Path:
        """Return a Parquet file of ``id``, ``p0``, ``p1`` …; write it if it does not exist."""
        path = self.folder / f"labels-{n_rows}.parquet"
        if not path.exists():
            columns = ", ".join(f"p{v}" for v in range(N_PARTITIONS))
            self._duckdb.execute(
                f"COPY (SELECT id, {columns} FROM (SELECT range AS id FROM range({n_rows})) "
                f"JOIN prototypes ON prototype = prototype_of(id)) TO {_quoted(path)} "
                f"(FORMAT parquet, ROW_GROUP_SIZE {_ROW_GROUP})"
            )
        return path

    def accuracy(self, out: Path, n_rows: int) -> float:
        """Return the share of rows in the right cluster, clusters matched best."""
        return self._accuracy(out, n_rows, "id", "truth", _OF_PROTOTYPES)

    def accuracy_by_id(self, out: Path, n_rows: int, n_clusters: int) -> float:
        """Return the same for a table of :mod:`benchmarks.many_tuples`."""
        return self._accuracy(out, n_rows, f"id // {n_clusters}", f"id % {n_clusters}")

    def _accuracy(self, out: Path, n_rows: int, row: str, truth: str, join: str = "") -> float:
        """Compare labels with the truth, after a check that every row occurs once.

        Count, bounds and three sums are compared, which needs no table of ids.
        """
        ids = "SELECT count(*), min(i), max(i), sum(i), bit_xor(i), sum(mixed(i)) FROM "
        every = self._duckdb.execute(f"{ids} (SELECT range AS i FROM range({n_rows}))").fetchone()
        with engine_errors("the written table cannot be read"):
            rows = f"(SELECT {row} AS i FROM {_parquet(out)})"
            found = self._duckdb.execute(f"{ids} {rows}").fetchone()
            if found != every:
                raise TableError(f"{found[0]:,} rows, which are not the {n_rows:,} ids, each once")
            cells = self._duckdb.execute(
                f"SELECT {truth} AS truth, label, count(*) AS n FROM {_parquet(out)} {join} "
                "GROUP BY ALL"
            ).fetchnumpy()
        labels, columns = np.unique(cells["label"], return_inverse=True)
        table = np.zeros((int(cells["truth"].max()) + 1, len(labels)), dtype=np.int64)
        table[cells["truth"], columns] = cells["n"]
        return float(table[linear_sum_assignment(table, maximize=True)].sum() / n_rows)

    def n_different(self, one: Path, other: Path) -> int:
        """Return how many ids differ in label or margin, or are in one table only."""
        return self.count(
            "SELECT count(*) FROM {} a FULL JOIN {} b ON a.id = b.id WHERE a.label IS DISTINCT "
            "FROM b.label OR NOT coalesce("
            f"abs(a.margin - b.margin) <= {SAME_MARGIN}, false)",
            one,
            other,
        )

    def count(self, sql: str, *paths: Path) -> int:
        """Return the number that a query gives; each {} is replaced by the table at a path."""
        with engine_errors("a table cannot be read"):
            row = self._duckdb.execute(sql.format(*map(_parquet, paths))).fetchone()
        return int(row[0])


_OF_PROTOTYPES = "JOIN prototypes ON prototype = prototype_of(id)"

# no product of two numbers below the prime exceeds 62 bits
_MACROS = f"""
    CREATE MACRO squared(x) AS (x) * (x) % {_PRIME};
    CREATE MACRO mixed(x) AS squared(((x) * 48271 + 11) % {_PRIME}) * 1000003 % {_PRIME};
    CREATE MACRO drawn(x) AS mixed(mixed(x) + 7);
    CREATE MACRO prototype_of(id) AS CASE WHEN id < {N_TUPLES} THEN id ELSE
        mixed(id) * mixed(id) // {_PRIME} * {N_TUPLES} // {_PRIME} END;
"""


def _prototypes_sql() -> str:
    """Draw twice as many prototypes as needed, and keep the first distinct ones."""
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


def _parquet(path: Path) -> str:
    """Return the SQL of a Parquet file, or of all Parquet files in a folder."""
    escaped = glob.escape(str(path))
    return f"read_parquet({_quoted(f'{escaped}/*.parquet' if path.is_dir() else escaped)})"


def _quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"
