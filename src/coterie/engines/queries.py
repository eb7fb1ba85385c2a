"""Queries to an engine: run an expression, bring small tables to the engine, report its errors."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa

from coterie.engines.postgres_dialect import in_postgres
from coterie.errors import CoterieError, TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend
    from pyspark.sql import DataFrame

__all__ = [
    "SECRET_NAME",
    "LocalTables",
    "batches",
    "engine_errors",
    "engine_message",
    "fetch",
    "is_engine_error",
    "is_written_as",
    "masked",
    "stream",
]

#: Matches the name of a URL setting whose value may be secret.
SECRET_NAME = re.compile(
    r"pass(wor|phras)|passwd|pwd|secret|token|credential|api_?key", re.IGNORECASE
)

_LONGEST_MESSAGE = 400
_ROWS_A_COPY = 1 << 16
_MAIN_ENGINES = {"duckdb", "_duckdb", "pyspark", "py4j", "ibis", "pyarrow"}
_OTHER_ENGINES = {"sqlite3", "polars", "datafusion", "psycopg", "MySQLdb", "clickhouse_connect"}
# an exception defined in one of these packages is a failure of an engine
_ENGINE_PACKAGES = _MAIN_ENGINES | _OTHER_ENGINES | {"trino"}


def fetch(expression: ir.Table) -> pa.Table:
    """Run an Ibis expression in its engine and return all rows.

    Raises
    ------
    TableError
        If the engine cannot read or aggregate the tables.
    """
    import ibis

    backend = expression.get_backend()
    with engine_errors(f"{backend.name} cannot read the table"):
        if backend.name == "pyspark":
            return backend._session.sql(ibis.to_sql(expression)).toArrow()
        if backend.name == "postgres":
            return _fetch_from_postgres(expression, backend)
        return expression.to_pyarrow()


def batches(expression: ir.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Run an Ibis expression in its engine and yield batches of at most ``rows`` rows.

    DuckDB computes them one after another, and another query on the connection ends them. Other
    engines return all rows first.
    """
    backend = expression.get_backend()
    if backend.name != "duckdb":
        yield from fetch(expression).to_batches(rows)
        return
    # makes in-memory tables of Python known to DuckDB
    backend._run_pre_execute_hooks(expression)
    yield from stream(expression, rows)


def stream(expression: ir.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Run an Ibis expression once and yield batches of at most ``rows`` rows.

    Memory is bounded where the engine and Ibis read by a cursor: DuckDB, PostgreSQL, SQLite,
    Snowflake, BigQuery. Polars computes all rows first. In DuckDB, the only in-memory tables that
    the expression may use are those of :class:`LocalTables`. Another query on the same connection
    ends the stream.
    """
    import ibis
    from ibis.backends.sql import SQLBackend

    backend = expression.get_backend()
    with engine_errors(f"{backend.name} cannot read the table"):
        if backend.name == "duckdb":
            result = backend.con.sql(ibis.to_sql(expression))
            # named fetch_arrow_reader in older versions of DuckDB
            reader = getattr(result, "to_arrow_reader", None) or result.fetch_arrow_reader
            yield from reader(rows)
        elif backend.name == "sqlite" and _has_native_types(expression):
            # the method of SQLite itself would read all rows at once
            yield from SQLBackend.to_pyarrow_batches(backend, expression, chunk_size=rows)
        else:
            yield from backend.to_pyarrow_batches(_adapted(expression), chunk_size=rows)


class LocalTables:
    """Temporary tables and views of an engine, dropped at the end of a ``with`` block.

    Parameters
    ----------
    connection : ibis backend

    Examples
    --------
    >>> from coterie.engines.backends import connect
    >>> with LocalTables(connect()) as local:
    ...     fetch(local.add(pa.table({"a": [1, 2]})).order_by("a"))["a"].to_pylist()
    [1, 2]
    """

    def __init__(self, connection: BaseBackend) -> None:
        self.connection: Any = connection
        self._names: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kind, name in self._names:
            # after an interrupt or a failure the engine may no longer respond
            with contextlib.suppress(Exception):
                self._drop(kind, name)

    def new_name(self, kind: Literal["TABLE", "VIEW"] = "VIEW") -> str:
        """Return an unused name and register it to be dropped."""
        name = f"coterie_{uuid.uuid4().hex}"
        self._names.append((kind, name))
        return name

    def view(self, frame: DataFrame) -> ir.Table:
        """Make a Spark frame a table."""
        name = self.new_name()
        frame.createTempView(name)
        return self.connection.table(name)

    def add(self, rows: pa.Table) -> ir.Table:
        """Copy an Arrow table to the engine."""
        import ibis

        connection = self.connection
        if connection.name not in {"duckdb", "pyspark", "postgres"}:
            table = ibis.memtable(rows)
            self._names.append(("TABLE", table.get_name()))
            return table
        if connection.name == "postgres":
            return self._copied_to_postgres(rows)
        with engine_errors(f"{connection.name} cannot create a temporary table"):
            if connection.name == "pyspark":
                return self.view(connection._session.createDataFrame(rows))
            name = self.new_name("TABLE")
            connection.con.register(f"{name}_here", rows)
            # a table, not a view: DuckDB knows its size when it plans a join
            connection.con.execute(f"CREATE TEMP TABLE {name} AS FROM {name}_here")
            connection.con.unregister(f"{name}_here")
            return connection.table(name, database=("temp", "main"))

    @contextlib.contextmanager
    def kept(self, rows: ir.Table) -> Iterator[ir.Table]:
        """Compute a table once and keep it in the engine until the end of the block.

        Spark keeps it on the disks of its workers, other engines in a temporary table.
        """
        import ibis

        connection, frame = self.connection, None
        name = self.new_name("VIEW" if connection.name == "pyspark" else "TABLE")
        try:
            with engine_errors(f"{connection.name} cannot keep a temporary table"):
                if connection.name == "pyspark":
                    from pyspark import StorageLevel

                    frame = connection._session.sql(ibis.to_sql(rows))
                    frame = frame.persist(StorageLevel.DISK_ONLY)
                    frame.createTempView(name)
                    kept = connection.table(name)
                elif connection.name == "duckdb":
                    query = f"CREATE TEMP TABLE {name} AS {ibis.to_sql(rows)}"
                    connection.con.execute(query)
                    kept = connection.table(name, database=("temp", "main"))
                else:
                    kept = connection.create_table(name, _adapted(rows), temp=True)
            yield kept
        finally:
            with contextlib.suppress(Exception):  # __exit__ tries again
                self._drop("VIEW" if frame is not None else "TABLE", name)
                if frame is not None:
                    frame.unpersist()

    def _drop(self, kind: str, name: str) -> None:
        if self.connection.name == "duckdb":
            self.connection.con.execute(f"DROP {kind} IF EXISTS temp.{name}")
        elif self.connection.name == "pyspark":
            self.connection._session.catalog.dropTempView(name)
        elif self.connection.name == "polars":
            self.connection.drop_table(name, force=True)
        else:
            import sqlglot

            # not drop_table: that of Ibis 12 forgets the name with newer versions of SQLGlot
            quoted = sqlglot.to_identifier(name, quoted=True).sql(self.connection.dialect)
            with self.connection._safe_raw_sql(f"DROP TABLE IF EXISTS {quoted}"):
                pass

    def _copied_to_postgres(self, rows: pa.Table) -> ir.Table:
        import ibis

        name = self.new_name("TABLE")
        right = "the account needs the right TEMPORARY, and the server must not be a standby"
        with engine_errors(f"postgres cannot create a temporary table, for which {right}"):
            table = self.connection.create_table(name, schema=ibis.schema(rows.schema), temp=True)
            with self.connection.begin() as cursor:
                with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                    for batch in rows.to_batches(_ROWS_A_COPY):
                        for row in zip(*batch.to_pydict().values(), strict=True):
                            copy.write_row(row)
                # PostgreSQL does not look at temporary tables by itself
                cursor.execute(f"ANALYZE {name}")
        return table


def is_written_as(column: ir.Column, words: Sequence[str]) -> ir.BooleanColumn:
    """Return whether a float prints as one of some lower-case words: "nan", "inf", "-inf".

    DuckDB answers ``isnan`` from the statistics of a Parquet file, which ignore NaN, and so
    always returns false.

    >>> import ibis
    >>> table = ibis.memtable(pa.table({"x": [1.0, float("nan")]}))
    >>> fetch(table.select(y=is_written_as(table.x, ["nan"])))["y"].to_pylist()
    [False, True]
    """
    return column.cast("string").lower().isin(words)


@contextlib.contextmanager
def engine_errors(context: str, kind: type[CoterieError] = TableError) -> Iterator[None]:
    """Turn a failure of an engine into a one-line error that begins with ``context``."""
    try:
        yield
    except Exception as error:
        # DuckDB reports Ctrl-C as a RuntimeError
        if type(error) is RuntimeError and "interrupt" in str(error).lower():
            raise KeyboardInterrupt from error
        if not is_engine_error(error):
            raise
        message = engine_message(error)
        if "out of memory" in message.lower():
            message += "; raise the memory limit or use fewer threads"
        if "No module named" in message:
            message += (
                "; the Python of the executors needs NumPy and PyArrow: name one that has them in "
                "PYSPARK_PYTHON, or in spark.pyspark.python of the URL"
            )
        raise kind(f"{context}: {message}") from error


def is_engine_error(error: Exception) -> bool:
    """Return whether an engine, not this program, raised an exception."""
    return type(error).__module__.partition(".")[0] in _ENGINE_PACKAGES


def engine_message(error: Exception) -> str:
    """Return an engine's message in one line, without its stack trace and without data rows."""
    first, *others = [line.strip() for line in str(error).strip().splitlines()] or [repr(error)]
    if first.startswith("An error occurred while calling"):
        first = _java_message(others) or first
    if first.startswith("An exception was thrown from the Python worker"):
        raised = [line for line in others if re.match(r"[\w.]+(Error|Exception)\b", line)]
        first = raised[-1] if raised else first
    # further down DuckDB says what is wrong with a line of text, and in which file
    kept = ("Expected Number", "Invalid", "file = ")
    details = [line for line in others if line.startswith(kept)]
    text = masked("; ".join([first, *details]))
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


def masked(text: str) -> str:
    """Replace possible secrets in the URLs of a text by stars.

    >>> masked("postgres://me:p@ss@host/db?password=x&sslmode=on")
    'postgres://***@host/db?password=***&sslmode=on'
    """
    without_user = re.sub(r"://[^\s?]*@", "://***@", text)
    return re.sub(
        r"([?&;][^=&\s]*)=([^&\s]*)",
        lambda found: f"{found[1]}={'***' if SECRET_NAME.search(found[1]) else found[2]}",
        without_user,
    )


def _has_native_types(table: ir.Table) -> bool:
    """Return whether SQLite has types for all columns, so that no value needs conversion."""
    kinds = [kind for _, kind in table.schema().items()]
    return all(
        kind.is_integer() or kind.is_floating() or kind.is_string() or kind.is_binary()
        for kind in kinds
    )


def _java_message(stack: Sequence[str]) -> str:
    """Return the first cause in a Java stack trace, and the root cause up to its data."""
    named = r"(?:[\w.$]+(?:Exception|Error|Throwable): )?(.*?)(?:\s+SQLSTATE: \w+)?"
    causes = [found[1] for line in stack if (found := re.fullmatch(f"Caused by: {named}", line))]
    if not causes:
        return next((found[1] for line in stack if (found := re.fullmatch(f": {named}", line))), "")
    root = causes[-1].partition(": ")[0]
    return causes[0] if len(causes) == 1 else f"{causes[0]} {root}"


def _adapted(expression: ir.Table) -> ir.Table:
    return in_postgres(expression) if expression.get_backend().name == "postgres" else expression


def _fetch_from_postgres(expression: ir.Table, backend: Any) -> pa.Table:
    # not to_pyarrow: its cursor on the server keeps PostgreSQL from using several processes
    table = in_postgres(expression)
    with backend.begin() as cursor:
        rows = cursor.execute(str(backend.compile(table))).fetchall()
    return pa.Table.from_struct_array(pa.array(rows, table.schema().as_struct().to_pyarrow()))
