"""Small tables in embedded engines."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa

from coterie import planted_partitions
from coterie.tables.engines import connect


def engine_with_table(engine: str, rows: pa.Table, folder: Path) -> Any:
    """Return a connection to DuckDB, SQLite or Polars with the table ``t``."""
    if engine == "polars":
        connection = ibis.polars.connect()
        connection.create_table("t", rows)
    elif engine == "sqlite":
        # not create_table: that of Ibis 12 fails for tables in memory
        with contextlib.closing(sqlite3.connect(folder / "t.db")) as database:
            rows.to_pandas().to_sql("t", database, index=False)
        connection = ibis.sqlite.connect(folder / "t.db")
    else:
        connection = connect(threads=1)
        connection.con.register("rows_here", rows)
        connection.con.execute("CREATE TABLE t AS FROM rows_here")
        connection.con.unregister("rows_here")
    return connection


def mixed_labels() -> dict[str, Any]:
    """Return an id and eight partitions: integers, text, floats, distant integers; some missing."""
    rng = np.random.default_rng(0)
    P, _ = planted_partitions([300, 200, 100], 8, 2, 0.15, random_state=0)
    P = np.where(rng.random(P.shape) < 0.1, -1, P)
    P[(P < 0).all(axis=1), 0] = 0
    columns: dict[str, Any] = {"id": np.arange(600)} | {f"p{v}": P[:, v] for v in range(8)}
    columns["p1"] = ["" if x < 0 else f"it's {x}" for x in P[:, 1]]
    columns["p3"] = np.where(P[:, 3] < 0, np.nan, P[:, 3]).astype(np.float32)
    columns["p4"] = np.where(P[:, 4] < 0, -1, P[:, 4].astype(np.int64) * 10**15)
    return columns
