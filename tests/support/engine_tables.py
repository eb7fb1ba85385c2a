"""Small tables in embedded engines."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa

from coterie.engines.backends import connect


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
