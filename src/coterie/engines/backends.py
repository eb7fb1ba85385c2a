"""Connections to an engine by URL: embedded DuckDB, Spark or PostgreSQL, as Ibis backends.

Credentials never appear in a URL; the engine takes them from the environment.
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
import tempfile
import uuid
import weakref
from collections.abc import Mapping, Sequence
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from coterie.engines.queries import SECRET_NAME, engine_errors, engine_message, masked
from coterie.errors import InvalidParameterError, MissingExtraError, TableError
from coterie.runtime.devices import available_memory
from coterie.runtime.imports import require_extra

if TYPE_CHECKING:
    from ibis.backends import BaseBackend
    from pyspark.sql import SparkSession

__all__ = ["connect"]

log = logging.getLogger("coterie")

_ENGINES = (
    "duckdb://, duckdb:///folder/file.db, pyspark:// (the active session, or a local one), "
    "pyspark://local[2], pyspark://host:7077, pyspark://yarn, postgres://host/database"
)
_DUCKDB_SETTINGS = ("memory_limit", "threads")
_POSTGRES_SETTINGS = ("schema", "service", "sslmode", "sslrootcert", "connect_timeout")
_SECONDS_TO_CONNECT = "30"
_LEAST_MEMORY = 1_000_000_000


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
        ``postgres://host:5432/database`` for PostgreSQL, which takes all that is left out from
        its environment variables and files. Settings follow a question mark:
        ``duckdb://?threads=2``, ``pyspark://host:7077?spark.executor.memory=2g``,
        ``postgres://host/database?schema=ads``.
        To use another engine, pass an Ibis table of it where a table is expected.
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
    _refuse_secrets(url, place, query)
    settings = _settings(url, query)
    if threads is not None and (isinstance(threads, bool) or threads < 1):
        raise InvalidParameterError(f"threads={threads!r}: it must be at least 1")
    if colon and scheme == "duckdb":
        given = {"memory_limit": memory_limit, "threads": threads}
        usual = max(available_memory() // 4, _LEAST_MEMORY)
        settings = {"memory_limit": f"{usual}B", **settings}
        settings |= {name: str(value) for name, value in given.items() if value is not None}
        return _duckdb(url, unquote(place), settings)
    if colon and scheme == "pyspark":
        if memory_limit is not None:
            raise InvalidParameterError(
                "memory_limit is for DuckDB; for Spark add ?spark.executor.memory=2g to the URL"
            )
        return _pyspark(url, place, settings, threads)
    if colon and scheme in {"postgres", "postgresql"}:
        if memory_limit is not None or threads is not None:
            raise InvalidParameterError(
                "memory_limit and threads are for DuckDB; PostgreSQL has the limits of its server"
            )
        return _postgres(url, place, settings)
    raise InvalidParameterError(
        f"url={masked(url)!r}: no engine of that name; these work: {_ENGINES}"
    )


def _refuse_secrets(url: str, place: str, query: str) -> None:
    user, at, _ = place.rpartition("@")
    in_query = any(SECRET_NAME.search(part.partition("=")[0]) for part in re.split("[&;]", query))
    if (at and ":" in user) or in_query:
        raise InvalidParameterError(
            f"url={masked(url)!r}: a URL must not hold a password, token or key; put credentials "
            "into the environment, where the engine reads them"
        )


def _settings(url: str, query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise InvalidParameterError(
            f"url={masked(url)!r}: write settings after the question mark as name=value&name=value"
        ) from error


def _refuse_unknown(
    url: str, settings: Mapping[str, str], known: Sequence[str], engine: str
) -> None:
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise InvalidParameterError(
            f"url={masked(url)!r}: unknown setting {', '.join(unknown)}; "
            f"{engine} takes {', '.join(known[:-1])} and {known[-1]}"
        )


def _duckdb(url: str, place: str, settings: Mapping[str, str]) -> BaseBackend:
    import duckdb
    import ibis

    _refuse_unknown(url, settings, _DUCKDB_SETTINGS, "DuckDB")
    in_memory = place in {"", ":memory:"}
    database = ":memory:" if in_memory else _database_file(place)
    try:
        connection = ibis.duckdb.connect(
            database,
            read_only=not in_memory,
            # DuckDB creates it on demand and removes it when the connection ends
            temp_directory=str(Path(tempfile.gettempdir()) / f"coterie-duckdb-{uuid.uuid4().hex}"),
            **settings,
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
    wrong = sorted(name for name in settings if not name.startswith("spark."))
    if wrong:
        raise InvalidParameterError(
            f"url={masked(url)!r}: unknown setting {', '.join(wrong)}; "
            "Spark settings begin with spark., as in spark.executor.memory=2g"
        )
    session = _active_session()
    if session is None:
        session = _new_session(_master(url, place, threads), settings)
    else:
        _reuse(session, place and _master(url, place, threads), settings)
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
    raise InvalidParameterError(
        f"url={masked(url)!r}: this is not a Spark master; these work: {_ENGINES}"
    )


def _active_session() -> SparkSession | None:
    require_extra("spark", "Spark needs", "pyspark")
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _reuse(session: SparkSession, master: str, settings: Mapping[str, str]) -> None:
    """Apply settings to the active session; refuse what it cannot change."""
    running = session.conf.get("spark.master", "")
    if master and running and master != running:
        raise InvalidParameterError(
            f"a Spark session on {running} is active: stop it before you start one on {master}, "
            "or connect to pyspark:// to use the active one"
        )
    for name, value in settings.items():
        if not session.conf.isModifiable(name):
            raise InvalidParameterError(
                f"{name} cannot change while a Spark session is active; set it when you create "
                "the session, or stop the session"
            )
        session.conf.set(name, value)


def _new_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    home = environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and not shutil.which("java"):
        raise MissingExtraError(
            "Spark needs Java 17 or later: install it, and set JAVA_HOME or put java on the PATH"
        )
    log.info("Starting Spark on %s", master)
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


def _postgres(url: str, place: str, settings: Mapping[str, str]) -> BaseBackend:
    _refuse_unknown(url, settings, _POSTGRES_SETTINGS, "PostgreSQL")
    parts = re.fullmatch(r"(?:([^@]*)@)?(\[[^]]*\]|[^:/]*)(?::(\d+))?(?:/([^/]*))?", place)
    if parts is None:
        raise InvalidParameterError(
            f"url={masked(url)!r}: write it as postgres://host:5432/database; a table is named "
            "apart, and its schema by ?schema=NAME"
        )
    # Ibis needs pandas for PostgreSQL
    require_extra("", "PostgreSQL needs", "psycopg", "pandas")
    import ibis

    user, host, port, database = (unquote(part or "") or None for part in parts.groups())
    wait = environ.get("PGCONNECT_TIMEOUT", _SECONDS_TO_CONNECT)
    where = masked(url).partition("?")[0]
    with engine_errors(f"{where}: cannot connect to PostgreSQL", InvalidParameterError):
        connection = ibis.postgres.connect(
            host=host and host.strip("[]"),
            # without a port libpq looks into its environment, where Ibis has a default
            port=port,
            user=user,
            database=database,
            fallback_application_name="coterie",
            **{"connect_timeout": wait, **settings},
        )
    # Ibis does not close it, and the server would wait for more
    weakref.finalize(connection, connection.con.close)
    if connection.current_database is None:
        raise InvalidParameterError(
            f"url={masked(url)!r}: there is no such schema, or the account may not use it"
        )
    return connection
