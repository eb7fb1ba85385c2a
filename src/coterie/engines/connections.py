"""Connections to the engine that reads the tables: embedded DuckDB by default, or Spark.

An engine is named by a URL and reached through Ibis, so that one expression serves all of them.
Credentials never stand in a URL: an engine takes them from the environment.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import parse_qsl, unquote

import pyarrow as pa

from coterie.errors import CoterieError, InvalidParameterError, MissingExtraError, TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "LocalTables",
    "connect",
    "engine_errors",
    "engine_message",
    "fetch",
    "is_engine_error",
    "is_written_as",
    "masked",
    "stream",
]

log = logging.getLogger("coterie")

_ENGINES = (
    "duckdb://, duckdb:///folder/file.db, pyspark:// (the active session, or a local one), "
    "pyspark://local[2], pyspark://host:7077, pyspark://yarn"
)

_SECRET = re.compile(r"pass(wor|phras)|passwd|pwd|secret|token|credential|api_?key", re.IGNORECASE)
_LONGEST_MESSAGE = 400
_DUCKDB_SETTINGS = ("memory_limit", "threads")
_OURS = {"duckdb", "_duckdb", "pyspark", "py4j", "ibis", "pyarrow"}
_OTHERS = {"sqlite3", "polars", "datafusion", "psycopg", "MySQLdb", "clickhouse_connect", "trino"}
_ENGINE_PACKAGES = frozenset(_OURS | _OTHERS)


def connect(
    url: str = "duckdb://", *, memory_limit: str | None = None, threads: int | None = None
) -> BaseBackend:
    """Connect to an engine.

    Parameters
    ----------
    url : str
        ``duckdb://`` for embedded DuckDB, ``duckdb:///folder/file.db`` or ``duckdb://file.db``
        for a database file, which is opened for reading only and must be there;
        ``pyspark://`` for the active Spark session or else a local one, ``pyspark://local[2]``,
        ``pyspark://host:7077`` for a standalone cluster, ``pyspark://yarn``. Settings follow a
        question mark: ``duckdb://?threads=2``, ``pyspark://host:7077?spark.executor.memory=2g``.
        For other engines make an Ibis table and give that where a table is asked for.
    memory_limit : str, optional
        Of DuckDB, as in "1GB"; what is beyond goes to the folder for temporary files.
        By default DuckDB's own, four fifths of the memory.
    threads : int, optional
        Of DuckDB, or of a Spark session that is local; by default one a core.

    Returns
    -------
    ibis backend
        Times are in UTC, those of an active Spark session from now on too.

    Examples
    --------
    >>> connect("duckdb://", threads=2).name
    'duckdb'
    """
    if not isinstance(url, str):
        raise InvalidParameterError(f"url: it must be a string, got {type(url).__name__}")
    scheme, colon, rest = url.partition("://")
    _refuse_secrets(url, rest)
    place, _, query = rest.partition("?")
    settings = _settings(url, query)
    if threads is not None and (isinstance(threads, bool) or threads < 1):
        raise InvalidParameterError(f"threads={threads!r}: it must be at least 1")
    _require_ibis()
    if colon and scheme == "duckdb":
        given = {"memory_limit": memory_limit, "threads": threads}
        settings |= {name: str(value) for name, value in given.items() if value is not None}
        return _duckdb(url, unquote(place), settings)
    if colon and scheme == "pyspark":
        if memory_limit is not None:
            raise InvalidParameterError(
                "memory_limit: it is for DuckDB; for Spark add ?spark.executor.memory=2g to the URL"
            )
        return _pyspark(url, place, settings, threads)
    raise InvalidParameterError(
        f"url={masked(url)!r}: no engine of that name; these work: {_ENGINES}"
    )


def fetch(expression: ir.Table) -> pa.Table:
    """Run an Ibis expression where its tables are and bring the rows here.

    Raises
    ------
    TableError
        Where the engine cannot read the tables or add them up.
    """
    import ibis

    backend = expression.get_backend()
    with engine_errors(f"{backend.name} cannot read the table"):
        if backend.name == "pyspark":
            return backend._session.sql(ibis.to_sql(expression)).toArrow()
        return expression.to_pyarrow()


def stream(expression: ir.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Run an Ibis expression in DuckDB and bring its rows here, some at a time.

    It may hold no table in memory but those of :class:`LocalTables`. One stream at a time: another
    query on the connection ends it.
    """
    import ibis

    backend = expression.get_backend()
    with engine_errors(f"{backend.name} cannot read the table"):
        result = backend.con.sql(ibis.to_sql(expression))
        reader = getattr(result, "to_arrow_reader", None) or result.fetch_record_batch
        yield from reader(rows)


class LocalTables:
    """Tables and views that an engine has until the end of a ``with`` block.

    Parameters
    ----------
    connection : ibis backend

    Examples
    --------
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
            # after an interrupt or a failure the engine may not listen any more
            with contextlib.suppress(Exception):
                if self.connection.name == "duckdb":
                    self.connection.con.execute(f"DROP {kind} IF EXISTS temp.{name}")
                else:
                    self.connection._session.catalog.dropTempView(name)

    def new_name(self, kind: Literal["TABLE", "VIEW"] = "VIEW") -> str:
        """A name for a temporary table or view, which is dropped in the end."""
        name = f"coterie_{uuid.uuid4().hex}"
        self._names.append((kind, name))
        return name

    def view(self, frame: DataFrame) -> ir.Table:
        """A Spark frame as a table."""
        name = self.new_name()
        frame.createTempView(name)
        return self.connection.table(name)

    def add(self, rows: pa.Table) -> ir.Table:
        """Rows that are here as a table of the engine."""
        import ibis

        connection = self.connection
        if connection.name not in {"duckdb", "pyspark"}:
            return ibis.memtable(rows)
        with engine_errors(f"{connection.name} does not take a table"):
            if connection.name == "pyspark":
                return self.view(connection._session.createDataFrame(rows))
            name = self.new_name("TABLE")
            connection.con.register(f"{name}_here", rows)
            # a table, not a view: its size is known when a join is planned
            connection.con.execute(f"CREATE TEMP TABLE {name} AS FROM {name}_here")
            connection.con.unregister(f"{name}_here")
            return connection.table(name, database=("temp", "main"))


@contextlib.contextmanager
def engine_errors(what: str, kind: type[CoterieError] = TableError) -> Iterator[None]:
    """Tell an engine's failure in one line that begins with ``what``; an interrupt stays one."""
    try:
        yield
    except Exception as error:
        if type(error) is RuntimeError and "interrupt" in str(error).lower():
            raise KeyboardInterrupt from error
        if not is_engine_error(error):
            raise
        message = engine_message(error)
        if "out of memory" in message.lower():
            message += "; raise the memory limit, or take fewer threads"
        raise kind(f"{what}: {message}") from error


def is_engine_error(error: Exception) -> bool:
    """Whether an engine, not this program, gave up."""
    return type(error).__module__.partition(".")[0] in _ENGINE_PACKAGES


def is_written_as(column: ir.Column, words: Sequence[str]) -> ir.BooleanColumn:
    """Whether a float is written as one of some words in lower case: "nan", "inf", "-inf".

    DuckDB answers ``isnan`` from a Parquet file's statistics, which leave NaN out: always no.

    >>> import ibis
    >>> table = ibis.memtable(pa.table({"x": [1.0, float("nan")]}))
    >>> fetch(table.select(y=is_written_as(table.x, ["nan"])))["y"].to_pylist()
    [False, True]
    """
    return column.cast("string").lower().isin(words)


def engine_message(error: Exception) -> str:
    """What an engine says, in one line, without its stack and without the data it stumbled on."""
    first, *others = [line.strip() for line in str(error).strip().splitlines()] or [repr(error)]
    if first.startswith("An error occurred while calling"):
        first = _java_message(others) or first
    # DuckDB says further down what a damaged line of text has, and in which file
    told = [line for line in others if line.startswith(("Expected Number", "Invalid", "file = "))]
    text = masked("; ".join([first, *told]))
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


def _java_message(stack: Sequence[str]) -> str:
    """Why Java gave up, by its stack: the first cause, and of the last what comes before data."""
    named = r"(?:[\w.$]+(?:Exception|Error|Throwable): )?(.*?)(?:\s+SQLSTATE: \w+)?"
    causes = [found[1] for line in stack if (found := re.fullmatch(f"Caused by: {named}", line))]
    if not causes:
        return next((found[1] for line in stack if (found := re.fullmatch(f": {named}", line))), "")
    root = causes[-1].partition(": ")[0]
    return causes[0] if len(causes) == 1 else f"{causes[0]} {root}"


def masked(url: str) -> str:
    """A text that may hold a URL with what may be secret in it replaced by stars.

    >>> masked("postgres://me:p@ss@host/db?password=x&sslmode=on")
    'postgres://***@host/db?password=***&sslmode=on'
    """
    without_user = re.sub(r"://[^\s?]*@", "://***@", url)
    return re.sub(
        r"([?&;][^=&\s]*)=([^&\s]*)",
        lambda found: f"{found[1]}={'***' if _SECRET.search(found[1]) else found[2]}",
        without_user,
    )


def _refuse_secrets(url: str, rest: str) -> None:
    place, _, query = rest.partition("?")
    user, at, _ = place.rpartition("@")
    in_query = any(_SECRET.search(part.partition("=")[0]) for part in re.split("[&;]", query))
    if (at and ":" in user) or in_query:
        raise InvalidParameterError(
            f"url={masked(url)!r}: a URL must hold no password, token or key; "
            "put credentials into the environment, where the engine finds them"
        )


def _settings(url: str, query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise InvalidParameterError(
            f"url={masked(url)!r}: after the question mark it must read name=value&name=value"
        ) from error


def _require_ibis() -> None:
    try:
        import ibis  # noqa: F401 — only whether it is there
    except ImportError as error:
        raise MissingExtraError(
            "an engine is reached through Ibis: install it with pip install 'coterie[engines]'"
        ) from error


def _duckdb(url: str, place: str, settings: Mapping[str, str]) -> BaseBackend:
    import duckdb
    import ibis

    unknown = sorted(set(settings) - set(_DUCKDB_SETTINGS))
    if unknown:
        raise InvalidParameterError(
            f"url={masked(url)!r}: unknown setting {', '.join(unknown)}; "
            f"DuckDB takes {' and '.join(_DUCKDB_SETTINGS)}"
        )
    in_memory = place in {"", ":memory:"}
    database = ":memory:" if in_memory else _database_file(place)
    try:
        connection = ibis.duckdb.connect(
            database,
            read_only=not in_memory,
            # made when it is needed, removed when the connection ends
            temp_directory=str(Path(tempfile.gettempdir()) / f"coterie-duckdb-{uuid.uuid4().hex}"),
            **settings,
        )
        connection.settings["enable_progress_bar"] = "false"
        # the order of rows in the files says nothing, and keeping it costs memory
        connection.settings["preserve_insertion_order"] = "false"
    except duckdb.Error as error:
        if in_memory:
            message = engine_message(error)
            hint = "; give memory_limit a size such as 2GB" if "emory" in message else ""
            raise InvalidParameterError(f"DuckDB refuses a setting: {message}{hint}") from error
        raise TableError(
            f"{place}: DuckDB cannot open it: {engine_message(error)}; "
            "is it a DuckDB database, and does no other program write to it?"
        ) from error
    return connection


def _database_file(place: str) -> Path:
    path = Path(place).expanduser()
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise InvalidParameterError(
            f"the database {path} {what}; name a DuckDB file, "
            "or connect to duckdb:// and name files"
        )
    return path


def _pyspark(url: str, place: str, settings: Mapping[str, str], threads: int | None) -> BaseBackend:
    wrong = sorted(name for name in settings if not name.startswith("spark."))
    if wrong:
        raise InvalidParameterError(
            f"url={masked(url)!r}: unknown setting {', '.join(wrong)}; "
            "Spark's begin with spark., as in spark.executor.memory=2g"
        )
    session = _active_session()
    if session is not None:
        _require_same_master(session, place and _master(url, place, threads))
        for name, value in settings.items():
            _set_on_running(session, name, value)
    else:
        session = _new_session(_master(url, place, threads), settings)
    import ibis

    # errors come as exceptions; this logger would print each a second time
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return ibis.pyspark.connect(session)


def _master(url: str, place: str, threads: int | None) -> str:
    if place in {"", "local"}:
        return f"local[{threads or '*'}]"
    if re.fullmatch(r"local\[(\d+|\*)(,\s*\d+)?\]|yarn", place):
        return place
    if re.fullmatch(r"[\w.-]+:\d+(,[\w.-]+:\d+)*", place):
        return f"spark://{place}"
    raise InvalidParameterError(
        f"url={masked(url)!r}: it names no Spark master; these work: {_ENGINES}"
    )


def _active_session() -> SparkSession | None:
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtraError(
            "Spark is reached through PySpark: install it with pip install 'coterie[spark]'"
        ) from error
    return SparkSession.getActiveSession()


def _require_same_master(session: SparkSession, master: str) -> None:
    running = session.conf.get("spark.master", "")
    if master and running and master != running:
        raise InvalidParameterError(
            f"a Spark session on {running} is active: stop it before one on {master} starts, "
            "or connect to pyspark:// to use the one that is active"
        )


def _set_on_running(session: SparkSession, name: str, value: str) -> None:
    if not session.conf.isModifiable(name):
        raise InvalidParameterError(
            f"{name}: it cannot change while a Spark session is active; "
            "set it where the session is made, or stop the session"
        )
    session.conf.set(name, value)


def _new_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    _require_java()
    log.info("Starting Spark on %s", master)
    builder = SparkSession.builder.master(master).appName("coterie")
    defaults = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if master.startswith("local"):
        # Spark's 200 are for a cluster
        defaults["spark.sql.shuffle.partitions"] = "8"
    for name, value in {**defaults, **settings}.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    except Exception as error:
        if not is_engine_error(error):
            raise
        raise InvalidParameterError(
            f"Spark does not start on {master}: {engine_message(error)}"
        ) from error
    return session


def _require_java() -> None:
    home = environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and not shutil.which("java"):
        raise MissingExtraError(
            "Spark needs Java 17 or later: install it, and set JAVA_HOME or put java on the PATH"
        )
