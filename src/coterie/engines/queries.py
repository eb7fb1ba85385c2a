"""Queries to an engine: run an expression, bring small tables to the engine, report its errors."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa

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
    """Run an Ibis expression in DuckDB and yield batches of at most ``rows`` rows.

    The only in-memory tables it may use are those of :class:`LocalTables`. Another query on the
    same connection ends the stream.
    """
    import ibis

    backend = expression.get_backend()
    with engine_errors(f"{backend.name} cannot read the table"):
        result = backend.con.sql(ibis.to_sql(expression))
        # older versions of DuckDB have only fetch_record_batch
        reader = getattr(result, "to_arrow_reader", None) or result.fetch_record_batch
        yield from reader(rows)


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
                if self.connection.name == "duckdb":
                    self.connection.con.execute(f"DROP {kind} IF EXISTS temp.{name}")
                else:
                    self.connection._session.catalog.dropTempView(name)

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
        if connection.name not in {"duckdb", "pyspark"}:
            return ibis.memtable(rows)
        with engine_errors(f"{connection.name} cannot create a temporary table"):
            if connection.name == "pyspark":
                return self.view(connection._session.createDataFrame(rows))
            name = self.new_name("TABLE")
            connection.con.register(f"{name}_here", rows)
            # a table, not a view: DuckDB knows its size when it plans a join
            connection.con.execute(f"CREATE TEMP TABLE {name} AS FROM {name}_here")
            connection.con.unregister(f"{name}_here")
            return connection.table(name, database=("temp", "main"))


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
def engine_errors(what: str, kind: type[CoterieError] = TableError) -> Iterator[None]:
    """Turn a failure of an engine into a one-line error that begins with ``what``."""
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
        raise kind(f"{what}: {message}") from error


def is_engine_error(error: Exception) -> bool:
    """Return whether an engine, not this program, raised an exception."""
    return type(error).__module__.partition(".")[0] in _ENGINE_PACKAGES


def engine_message(error: Exception) -> str:
    """Return an engine's message in one line, without its stack trace and without data rows."""
    first, *others = [line.strip() for line in str(error).strip().splitlines()] or [repr(error)]
    if first.startswith("An error occurred while calling"):
        first = _java_message(others) or first
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


def _java_message(stack: Sequence[str]) -> str:
    """Return the first cause in a Java stack trace, and the root cause up to its data."""
    named = r"(?:[\w.$]+(?:Exception|Error|Throwable): )?(.*?)(?:\s+SQLSTATE: \w+)?"
    causes = [found[1] for line in stack if (found := re.fullmatch(f"Caused by: {named}", line))]
    if not causes:
        return next((found[1] for line in stack if (found := re.fullmatch(f": {named}", line))), "")
    root = causes[-1].partition(": ")[0]
    return causes[0] if len(causes) == 1 else f"{causes[0]} {root}"
