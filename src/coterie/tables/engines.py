"""Engines: connect to DuckDB or Spark by URL, run queries there, report their errors.

DuckDB and Spark compute; PostgreSQL, SQLite and tables of other engines that Ibis knows are read by
DuckDB. Credentials never appear in a URL; engines and servers take them from the environment.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import shutil
import sys
import tempfile
import uuid
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import parse_qsl, quote, unquote, urlencode

from coterie.errors import CoterieError, InvalidParameterError, MissingExtraError, TableError
from coterie.runtime.devices import available_memory
from coterie.runtime.imports import require_extra
from coterie.tables.columns import sql_name

require_extra("tables", "engines need", "pyarrow")

import pyarrow as pa  # noqa: E402 (after its check)

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend
    from pyspark.sql import DataFrame, SparkSession

#: Matches the name of a URL setting whose value may be secret.
SECRET_NAME = re.compile(
    r"pass(wor|phras)|passwd|pwd|secret|token|credential|api_?key", re.IGNORECASE
)

_log = logging.getLogger("coterie")

_ENGINES = (
    "duckdb://, duckdb:///folder/file.db, pyspark:// (the active session, or a local one), "
    "pyspark://local[2], pyspark://host:7077, pyspark://yarn, postgres://host/database, "
    "sqlite:///folder/file.db"
)
#: By scheme, the name of an engine and the settings that its URL may have.
_SETTINGS = {
    "duckdb": ("DuckDB", ("memory_limit", "threads")),
    "postgres": (
        "PostgreSQL",
        ("schema", "service", "sslmode", "sslrootcert", "connect_timeout"),
    ),
    "sqlite": ("SQLite", ()),
}
_SECONDS_TO_CONNECT = "30"
#: Types of PostgreSQL that the driver gives as types of Arrow.
_NATIVE_TO_ARROW = (
    "(boolean|smallint|integer|bigint|real|double precision|text|character|date|timestamp|bytea)"
)
_LEAST_MEMORY = 1_000_000_000
_LONGEST_MESSAGE = 400
# an exception defined in one of these packages is a failure of an engine
_ENGINE_PACKAGES = {
    *("duckdb", "_duckdb", "pyspark", "py4j", "ibis", "pyarrow", "adbc_driver_manager"),
    *("sqlite3", "polars", "datafusion", "psycopg", "MySQLdb", "clickhouse_connect", "trino"),
}


def connect(
    url: str = "duckdb://", *, memory_limit: str | None = None, threads: int | None = None
) -> BaseBackend:
    """Connect to an engine.

    Parameters
    ----------
    url : str
        ``duckdb://`` for embedded DuckDB; ``duckdb:///folder/file.db`` or ``duckdb://file.db``
        for an existing database file, which is opened read-only;
        ``pyspark://`` for the active Spark session or else a local one, ``pyspark://local[2]``,
        ``pyspark://host:7077`` for a standalone cluster, ``pyspark://yarn``;
        ``postgres://host:5432/database`` or ``sqlite:///folder/file.db`` for DuckDB with the
        tables of a server or file, each of which is copied when it is first used. PostgreSQL
        takes all that is left out from its environment variables and files. Settings follow a
        question mark: ``duckdb://?threads=2``, ``pyspark://host:7077?spark.executor.memory=2g``,
        ``postgres://host/database?schema=ads``.
    memory_limit : str, optional
        DuckDB memory limit, for example "1GB"; data beyond it goes to temporary files. By
        default a quarter of the free memory, at least 1 GB: the rest is for the results.
    threads : int, optional
        Threads of DuckDB or of a local Spark session; by default one per core.

    Returns
    -------
    ibis backend
        Its time zone is UTC; the time zone of an active Spark session is changed, too.

    Examples
    --------
    >>> connect("duckdb://", threads=2).name
    'duckdb'
    """
    if not isinstance(url, str):
        raise InvalidParameterError(f"url must be a string, got {type(url).__name__}")
    scheme, colon, rest = url.partition("://")
    place, _, query = rest.partition("?")
    user, at, _ = place.rpartition("@")
    in_query = any(SECRET_NAME.search(part.partition("=")[0]) for part in re.split("[&;]", query))
    if (at and ":" in user) or in_query:
        raise _url_error(
            url,
            "a URL must not hold a password, token or key; put credentials into the environment, "
            "where the engine reads them",
        )
    try:
        settings = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise _url_error(
            url, "write settings after the question mark as name=value&name=value"
        ) from error
    if threads is not None and (isinstance(threads, bool) or threads < 1):
        raise InvalidParameterError(f"threads={threads!r}: it must be at least 1")
    scheme = "postgres" if scheme == "postgresql" else scheme
    if scheme == "pyspark" and colon:
        unknown = {name for name in settings if not name.startswith("spark.")}
        hint = "Spark settings begin with spark., as in spark.executor.memory=2g"
    elif scheme in _SETTINGS and colon:
        engine, known = _SETTINGS[scheme]
        unknown = {*settings} - {*known}
        hint = f"{engine} takes {', '.join(known) or 'none'}"
    else:
        raise _url_error(url, f"no engine of that name; these work: {_ENGINES}")
    if unknown:
        raise _url_error(url, f"unknown setting {', '.join(sorted(unknown))}; {hint}")
    if scheme == "pyspark":
        if memory_limit is not None:
            raise InvalidParameterError(
                "memory_limit is for DuckDB; for Spark add ?spark.executor.memory=2g to the URL"
            )
        return _pyspark(url, place, settings, threads)
    given = {"memory_limit": memory_limit, "threads": threads}
    for_duckdb = {name: str(value) for name, value in given.items() if value is not None}
    if scheme == "postgres":
        return _postgres(url, place, settings, for_duckdb)
    if scheme == "sqlite":
        return _sqlite(unquote(place), for_duckdb)
    return _duckdb(unquote(place), {**settings, **for_duckdb})


def _url_error(url: str, why: str) -> InvalidParameterError:
    return InvalidParameterError(f"url={masked(url)!r}: {why}")


def _duckdb(place: str, settings: Mapping[str, str]) -> Any:
    require_extra("tables", "engines need", "pyarrow", "ibis")
    import duckdb

    in_memory = place in {"", ":memory:"}
    database = ":memory:" if in_memory else _database_file(place)
    usual = max(available_memory() // 4, _LEAST_MEMORY)
    try:
        connection = _backend_class()().connect(
            database,
            read_only=not in_memory,
            # DuckDB creates it on demand and removes it when the connection ends
            temp_directory=str(Path(tempfile.gettempdir()) / f"coterie-duckdb-{uuid.uuid4().hex}"),
            # nothing is downloaded without being asked
            autoinstall_known_extensions=False,
            **{"memory_limit": f"{usual}B", **settings},
        )
        # in a notebook without ipywidgets there is none, and DuckDB refuses to change that
        if connection.settings["enable_progress_bar"] == "true":
            connection.settings["enable_progress_bar"] = "false"
        # no result depends on the order of rows, and keeping it costs memory
        connection.settings["preserve_insertion_order"] = "false"
    except duckdb.Error as error:
        message = engine_message(error)
        if in_memory:
            hint = "; give memory_limit a size such as 2GB" if "emory" in message else ""
            raise InvalidParameterError(f"DuckDB refuses a setting: {message}{hint}") from error
        raise TableError(
            f"{place}: DuckDB cannot open it: {message}; check that it is a DuckDB database and "
            "that no other program writes to it"
        ) from error
    return connection


@functools.cache
def _backend_class() -> Any:
    from ibis.backends.duckdb import Backend

    class DuckDB(Backend):
        """DuckDB that installs nothing, and copies the tables of a source when they are named."""

        source_tables: Collection[str] = ()
        copy_table: Callable[[str], None]

        def _load_extensions(self, extensions: Sequence[str], **_: Any) -> None:
            for extension in extensions:  # Ibis would download those that are not installed
                self.con.execute(f"LOAD {extension}")

        def table(self, name: str, /, *, database: Any = None) -> Any:
            if database is None and name in self.source_tables:
                self.copy_table(name)
                database = ("temp", "main")
            return super().table(name, database=database)

    return DuckDB


def _database_file(place: str) -> Path:
    path = Path(place).expanduser()
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidParameterError(
            f"the database {path} {problem}; name a DuckDB file, or connect to duckdb:// and name "
            "files"
        )
    return path


def _pyspark(url: str, place: str, settings: Mapping[str, str], threads: int | None) -> BaseBackend:
    session = _active_session()
    if session is None:
        session = _new_session(_master(url, place, threads), settings)
    else:
        master, running = "", session.conf.get("spark.master", "")
        if place:
            master = _master(url, place, threads)
        if master and running and master != running:
            raise InvalidParameterError(
                f"a Spark session on {running} is active: stop it before you start one on "
                f"{master}, or connect to pyspark:// to use the active one"
            )
        for name, value in settings.items():
            if not session.conf.isModifiable(name):
                raise InvalidParameterError(
                    f"{name} cannot change while a Spark session is active; set it when you create "
                    "the session, or stop the session"
                )
            session.conf.set(name, value)
    import ibis

    # errors are raised as exceptions; this logger would print each a second time
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return ibis.pyspark.connect(session)


def _master(url: str, place: str, threads: int | None) -> str:
    if place in {"", "local"}:
        return f"local[{threads or '*'}]"
    if re.fullmatch(r"local\[(\d+|\*)(,\s*\d+)?\]|yarn", place):
        return place
    if re.fullmatch(r"[\w.-]+:\d+(,[\w.-]+:\d+)*", place):
        return f"spark://{place}"
    raise _url_error(url, f"this is not a Spark master; these work: {_ENGINES}")


def _active_session() -> SparkSession | None:
    require_extra("spark", "Spark needs", "pyspark", "ibis")
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _new_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    home = environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and not shutil.which("java"):
        raise MissingExtraError(
            "Spark needs Java 17 or later: install it, and set JAVA_HOME or put java on the PATH"
        )
    _log.info("Starting Spark on %s", master)
    builder = SparkSession.builder.master(master).appName("coterie")
    defaults = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if master.startswith("local"):
        # Spark's default of 200 is meant for a cluster
        defaults["spark.sql.shuffle.partitions"] = "8"
    for name, value in {**defaults, **settings}.items():
        builder = builder.config(name, value)
    with engine_errors(f"Spark does not start on {master}", InvalidParameterError):
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    # PySpark reads this setting only when a program is submitted
    context = session.sparkContext
    context.pythonExec = _executor_python(master, settings) or context.pythonExec
    return session


def _executor_python(master: str, settings: Mapping[str, str]) -> str | None:
    """Return the Python of the executors, or None for that of PySpark."""
    python = settings.get("spark.pyspark.python")
    if python is None and master.startswith("local") and "PYSPARK_PYTHON" not in environ:
        return sys.executable  # PySpark would use any python3 on the PATH
    return python


# ---- Sources: tables of servers and files that DuckDB reads


def _postgres(
    url: str, place: str, settings: Mapping[str, str], for_duckdb: Mapping[str, str]
) -> BaseBackend:
    parts = re.fullmatch(r"(?:[^@]*@)?(?:\[[^]]*\]|[^:/]*)(?::\d+)?(?:/[^/]*)?", place)
    if parts is None:
        raise _url_error(
            url,
            "write it as postgres://host:5432/database; a table is named apart, and its schema by "
            "?schema=NAME",
        )
    require_extra("", "PostgreSQL needs", "adbc_driver_postgresql", "ibis")
    import adbc_driver_postgresql.dbapi

    schema = settings.get("schema", "public")
    wait = environ.get("PGCONNECT_TIMEOUT", _SECONDS_TO_CONNECT)
    named = {"fallback_application_name": "coterie", "connect_timeout": wait, **settings}
    named.pop("schema", None)
    where = masked(url).partition("?")[0]
    with engine_errors(f"{where}: cannot connect to PostgreSQL", InvalidParameterError):
        uri = f"postgresql://{place}?{urlencode(named, quote_via=quote)}"
        source = adbc_driver_postgresql.dbapi.connect(uri, autocommit=True)
    with contextlib.ExitStack() as closing, engine_errors(where):
        closing.callback(source.close)
        cursor = closing.enter_context(source.cursor())
        cursor.execute(
            "SELECT coalesce(has_schema_privilege(to_regnamespace(quote_ident($1)), 'USAGE'), "
            "false)",
            (schema,),
        )
        if not cursor.fetchall()[0][0]:
            raise _url_error(url, "there is no such schema, or the account may not use it")
        cursor.execute(
            "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) "
            "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
            "WHERE c.relnamespace = to_regnamespace(quote_ident($1)) AND c.relkind IN "
            "('r', 'v', 'm', 'f', 'p') AND a.attnum > 0 AND NOT a.attisdropped "
            "AND has_table_privilege(c.oid, 'SELECT') ORDER BY a.attnum",
            (schema,),
        )
        columns: dict[str, dict[str, str]] = {}
        for table, column, kind in cursor.fetchall():
            columns.setdefault(table, {})[column] = kind
        cursor.close()
        closing.pop_all()

    # the columns that Arrow has types for as they are, and others as text
    queries = {}
    for table, kinds in columns.items():
        selected, casts = [], dict[str, str]()
        for column, kind in kinds.items():
            name = sql_name(column)
            if decimal := re.fullmatch(r"numeric(\(\d+,\d+\))?", kind):
                casts[column] = f"DECIMAL{decimal[1]}" if decimal[1] else "DOUBLE"
            native = re.match(_NATIVE_TO_ARROW, kind) and not kind.endswith("[]")
            selected.append(name if native else f"{name}::text AS {name}")
        rows = f"{sql_name(schema)}.{sql_name(table)}"
        queries[table] = f"SELECT {', '.join(selected)} FROM {rows}", casts
    return _with_source(source, queries, for_duckdb)


def _sqlite(place: str, for_duckdb: Mapping[str, str]) -> BaseBackend:
    require_extra("", "SQLite needs", "adbc_driver_sqlite", "ibis")
    import adbc_driver_sqlite.dbapi

    path = _database_file(place)
    with engine_errors(f"{path}: cannot open it", InvalidParameterError):
        source = adbc_driver_sqlite.dbapi.connect(
            f"file:{quote(str(path))}?mode=ro", autocommit=True
        )
    with engine_errors(f"{path}: cannot read it"), source.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        names = [name for (name,) in cursor.fetchall()]
    queries = {name: (f"SELECT * FROM {sql_name(name)}", dict[str, str]()) for name in names}
    return _with_source(source, queries, for_duckdb)


def _with_source(
    source: Any,
    queries: Mapping[str, tuple[str, Mapping[str, str]]],
    settings: Mapping[str, str],
) -> Any:
    """Return DuckDB with the tables of a source, each of which is copied when it is first used.

    The query of a table comes with the types of DuckDB that some of its columns are cast to.
    """
    connection = _duckdb("", settings)

    @functools.cache
    def copy(table: str) -> None:
        _log.info("copying table %s", table)
        query, casts = queries[table]
        with engine_errors(f"table {table} cannot be read"), source.cursor() as cursor:
            cursor.execute(query)
            reader = cursor.fetch_record_batch()
            cast = (f"{sql_name(name)}::{kind} AS {sql_name(name)}" for name, kind in casts.items())
            replaced = f" REPLACE ({', '.join(cast)})" if casts else ""
            connection.con.register("coterie_source", reader)
            connection.con.execute(
                f"CREATE TEMP TABLE {sql_name(table)} AS SELECT *{replaced} FROM coterie_source"
            )
            connection.con.unregister("coterie_source")

    connection.source_tables, connection.copy_table = queries.keys(), copy
    weakref.finalize(connection, source.close)
    return connection


def source_tables(connection: Any) -> list[str]:
    """Return the tables of the server or file that a connection reads, if it does."""
    return sorted(getattr(connection, "source_tables", ()))


def table_names(connection: Any, catalog: str | None = None) -> list[str]:
    """List the tables and views of the current schema, or of the main schema of a catalog."""
    if connection.name != "duckdb":
        return list(connection.list_tables())
    if catalog is None and source_tables(connection):
        return source_tables(connection)
    # not list_tables(): the query of Ibis 12 fails on DuckDB 2
    places = (
        "table_catalog IN (current_database(), 'temp') AND table_schema = current_schema()"
        if catalog is None
        else f"table_catalog = '{catalog}' AND table_schema = 'main'"
    )
    rows = connection.con.sql(
        f"SELECT table_name FROM information_schema.tables WHERE {places}"
    ).fetchall()
    return [name for (name,) in rows]


def in_duckdb(table: ir.Table, local: LocalTables) -> ir.Table:
    """Copy a table of an engine that does not compute here, such as SQLite or Polars, to DuckDB."""
    backend: Any = table.get_backend()
    if computes(backend):
        return table
    with engine_errors(f"{backend.name} cannot read the table"):
        return local.add(backend.to_pyarrow_batches(table))


def computes(connection: Any) -> bool:
    return connection.name in {"duckdb", "pyspark"}


# ---- Queries


def fetch(expression: ir.Table) -> pa.Table:
    """Run an Ibis expression in its engine and return all rows."""
    backend = expression.get_backend()
    with engine_errors(f"{backend.name} cannot read the table"):
        if backend.name == "pyspark":
            return spark_frame(expression).toArrow()
        return expression.to_pyarrow()


def spark_frame(expression: ir.Table) -> DataFrame:
    import ibis

    backend: Any = expression.get_backend()
    frame: DataFrame = backend._session.sql(ibis.to_sql(expression))
    return frame


def batches(expression: ir.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Run an Ibis expression in its engine and yield batches of at most ``rows`` rows.

    DuckDB computes them one after another, and another query on the connection ends them. Other
    engines return all rows first.
    """
    import ibis

    backend: Any = expression.get_backend()
    if backend.name != "duckdb":
        yield from fetch(expression).to_batches(rows)
        return
    # makes in-memory tables of Python known to DuckDB
    backend._run_pre_execute_hooks(expression)
    with engine_errors("duckdb cannot read the table"):
        result = backend.con.sql(ibis.to_sql(expression))
        # named fetch_arrow_reader in older versions of DuckDB
        reader = getattr(result, "to_arrow_reader", None) or result.fetch_arrow_reader
        yield from reader(rows)


class LocalTables:
    """Temporary tables and views of DuckDB or Spark, dropped at the end of a ``with`` block."""

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
        name = f"coterie_{uuid.uuid4().hex}"
        self._names.append((kind, name))
        return name

    def view(self, frame: DataFrame) -> ir.Table:
        name = self.new_name()
        frame.createTempView(name)
        return self.connection.table(name)

    def add(self, rows: pa.Table | pa.RecordBatchReader) -> ir.Table:
        """Copy an Arrow table, or batches to DuckDB, to the engine."""
        connection = self.connection
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

        Spark keeps it on the disks of its workers, DuckDB in a temporary table.
        """
        import ibis

        connection, frame = self.connection, None
        name = self.new_name("VIEW" if connection.name == "pyspark" else "TABLE")
        try:
            with engine_errors(f"{connection.name} cannot keep a temporary table"):
                if connection.name == "pyspark":
                    from pyspark import StorageLevel

                    frame = spark_frame(rows).persist(StorageLevel.DISK_ONLY)
                    frame.createTempView(name)
                    kept = connection.table(name)
                else:
                    connection.con.execute(f"CREATE TEMP TABLE {name} AS {ibis.to_sql(rows)}")
                    kept = connection.table(name, database=("temp", "main"))
            yield kept
        finally:
            with contextlib.suppress(Exception):  # __exit__ tries again
                self._drop("TABLE", name)
                if frame is not None:
                    frame.unpersist()

    def _drop(self, kind: str, name: str) -> None:
        if self.connection.name == "pyspark":
            self.connection._session.catalog.dropTempView(name)
        else:
            self.connection.con.execute(f"DROP {kind} IF EXISTS temp.{name}")


def is_written_as(column: ir.Column, words: Sequence[str]) -> ir.BooleanColumn:
    """Return whether a float prints as one of some lower-case words: "nan", "inf", "-inf".

    DuckDB answers ``isnan`` from the statistics of a Parquet file, which ignore NaN.
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
        if type(error).__module__.partition(".")[0] not in _ENGINE_PACKAGES:
            raise
        message = engine_message(error)
        if "out of memory" in message.lower():
            message += "; raise the memory limit or use fewer threads"
        if "No module named" in message:
            message += (
                "; the Python of Spark's executors needs coterie and PyArrow: run pip install "
                "'coterie[tables]' there, or name a Python that has them in PYSPARK_PYTHON or in "
                "spark.pyspark.python of the URL"
            )
        missing = re.search(r"""extension ['"](?:[^'"]*/)?(\w+)""", message, re.IGNORECASE)
        if missing and re.search("not found|install", message):
            message = (
                f"this needs DuckDB's extension {missing[1]}, and nothing is downloaded without "
                "being asked: copy the data to this machine, or install the extension once by "
                f"python -c \"import duckdb; duckdb.sql('INSTALL {missing[1]}')\""
            )
        raise kind(f"{context}: {message}") from error


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


def _java_message(stack: Sequence[str]) -> str:
    """Return the first cause in a Java stack trace, and the root cause up to its data."""
    named = r"(?:[\w.$]+(?:Exception|Error|Throwable): )?(.*?)(?:\s+SQLSTATE: \w+)?"
    causes = [found[1] for line in stack if (found := re.fullmatch(f"Caused by: {named}", line))]
    if not causes:
        return next((found[1] for line in stack if (found := re.fullmatch(f": {named}", line))), "")
    root = causes[-1].partition(": ")[0]
    return causes[0] if len(causes) == 1 else f"{causes[0]} {root}"
