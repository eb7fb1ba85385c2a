"""The consensus of a label table that stays in its engine: profile, group, fit, join back."""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.consensus.registry import FLAGSHIP, consensus_method
from coterie.engines.backends import connect
from coterie.engines.label_tables.label_profile import profile_labels, read_text_as_in_csv
from coterie.engines.label_tables.label_sources import (
    LabelSource,
    is_ibis_table,
    local_files,
    open_source,
)
from coterie.engines.label_tables.packed_keys import lay_out
from coterie.engines.label_tables.table_outputs import check_carried, plan_output
from coterie.engines.label_tables.table_result import TableConsensus, peak_memory
from coterie.engines.label_tables.table_run import PackedTable, TableRun
from coterie.engines.queries import LocalTables
from coterie.errors import InvalidLabelsError, InvalidParameterError, OutputError, TableError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.backends import BaseBackend

__all__ = ["consensus_table"]


def consensus_table(
    source: Any,
    columns: str | Sequence[str] | None = None,
    n_clusters: int | None = None,
    *,
    engine: str | BaseBackend = "duckdb://",
    ids: str | Sequence[str] | None = None,
    out: Any = None,
    method: str = FLAGSHIP,
    random_state: Any = 0,
    max_tuples: int = 2_000_000,
    sample_size: int = 200_000,
    max_sweeps: int = 3,
    memory_limit: str | None = None,
    threads: int | None = None,
    parse_text: bool | None = None,
    **settings: Any,
) -> TableConsensus:
    """The consensus of the label columns of a table that need not fit in memory.

    The engine counts the u distinct label tuples of the n rows (``GROUP BY``), the consensus is
    that of the tuples with their counts as weights, which is that of all rows, and a join writes
    label and confidence beside every row. Only tuples come here: O(uV) memory. Where u exceeds
    ``max_tuples``, the consensus of a sample of tuples is improved by sweeps over all rows,
    streamed in batches: the memory of a batch.

    Parameters
    ----------
    source : path, sequence of paths, str or ibis table
        A Parquet or CSV file, a folder or a glob of them, the name of a table of the engine's
        database, or an Ibis table.
    columns : str or sequence of V str, optional
        The partitions; by default all columns but the ids. Labels are integers ≥ 0 or texts; −1,
        NULL, NaN and empty text are missing.
    n_clusters : int, optional
        K; by default the method finds it, where it can.
    engine : str or ibis backend
        A URL as :func:`coterie.engines.backends.connect` takes it; an Ibis table has its own.
    ids : str or sequence of str, optional
        Columns carried through to the output, in which rows are in no particular order; by
        default the label columns are.
    out : path-like, optional
        A ``.parquet`` file, or a folder of them: where it ends in / or has no suffix, and always on
        Spark. It appears whole or not at all.
    method : str
        Key of the consensus function; see :mod:`coterie.consensus.registry`.
    random_state : int, RandomState or None
    max_tuples : int
        The most distinct tuples that are fitted as they are.
    sample_size : int
        About how many tuples are fitted where there are more; at least K, and 2.
    max_sweeps : int
        The most sweeps over all rows then; one that gains less than 1e-4 of its cost is the last.
    memory_limit : str, optional
        Of DuckDB, as in "2GB"; what is beyond goes to temporary files.
    threads : int, optional
        Of DuckDB or a local Spark session.
    parse_text : bool, optional
        Read text as the program reads CSV files: ``NA``, ``NaN``, ``nan`` and ``null`` missing,
        integers where all of it is. By default for CSV files only.
    **settings
        Of the consensus function.

    Returns
    -------
    TableConsensus

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rows = {"user": ["a", "b", "c", "d"], "p": [0, 0, 1, 1], "q": ["x", "x", "y", ""]}
    >>> pq.write_table(pa.table(rows), folder / "labels.parquet")
    >>> out = folder / "consensus.parquet"
    >>> found = consensus_table(folder / "labels.parquet", n_clusters=2, ids="user", out=out)
    >>> found.path, found.n_tuples, found.sizes.tolist()
    ('tuples', 3, [2, 2])
    >>> pq.read_table(out).column_names
    ['user', 'label', 'confidence']
    """
    _refuse_in_memory(source)
    _check_counts(max_tuples=max_tuples, sample_size=sample_size, max_sweeps=max_sweeps)
    estimator = _estimator(method, n_clusters, random_state, settings)
    _check_sample_size(sample_size, n_clusters)
    run = TableRun(estimator, max_tuples, sample_size, max_sweeps)
    carried = [ids] if isinstance(ids, str) else list(ids or [])
    columns = [columns] if isinstance(columns, str) else columns
    check_carried(carried, are_ids=True)
    with (
        _ibis_as_it_is(),
        _connected(source, engine, memory_limit, threads) as connection,
        LocalTables(connection) as local,
    ):
        if out is not None:
            _refuse_no_place(out)
            run.output = plan_output(out, connection.name, local_files(source))
        with run.stage("profile", "looking at the columns"):
            found = open_source(source, local)
            table, partitions = _chosen(found, columns, carried)
            _refuse_durations(local_files(source), partitions)
            if found.is_text if parse_text is None else parse_text:
                table = read_text_as_in_csv(table, partitions, found.name)
            profile = profile_labels(table, partitions, found.name)
            layout = lay_out(profile, table)
        check_carried([] if out is None or carried else partitions, are_ids=False)
        carried = carried or partitions
        rows = layout.packed(table, carried, local.add)
        packed = PackedTable(rows, layout, profile.n_rows, tuple(carried), local.add)
        ours = isinstance(engine, str) and not is_ibis_table(source)
        result = run.consensus(packed, engine_is_ours=ours)
    return replace(result, source=found.name, peak_memory=peak_memory())


@contextlib.contextmanager
def _ibis_as_it_is() -> Iterator[None]:
    """Without the warning that Ibis calls DuckDB by a name that DuckDB has replaced."""
    with warnings.catch_warnings():
        old = r"fetch_arrow_table\(\) is deprecated"
        warnings.filterwarnings("ignore", old, DeprecationWarning)
        yield


@contextlib.contextmanager
def _connected(
    source: Any, engine: str | BaseBackend, memory_limit: str | None, threads: int | None
) -> Iterator[BaseBackend]:
    """The engine: the one that has the table, the one given, or one of our own for this run."""
    if is_ibis_table(source) or not isinstance(engine, str):
        if memory_limit is not None or threads is not None:
            raise InvalidParameterError(
                "memory_limit and threads are for an engine named by a URL; set them where the "
                "connection is made"
            )
        yield source.get_backend() if is_ibis_table(source) else engine
        return
    connection = connect(engine, memory_limit=memory_limit, threads=threads)
    if connection.name != "duckdb":
        # Spark's session may be shared, and is not ours to stop
        yield connection
        return
    try:
        yield connection
    finally:
        connection.disconnect()


def _chosen(
    found: LabelSource, columns: Sequence[str] | None, carried: Sequence[str]
) -> tuple[ir.Table, list[str]]:
    """The table, and the names of its partitions."""
    there = list(found.table.columns)
    partitions = [name for name in there if name not in carried] if columns is None else [*columns]
    wanted = [*carried, *partitions]
    for name in wanted:
        if name not in there:
            raise TableError(
                f"{found.name} has no column {name!r}; it has {', '.join(map(repr, there))}"
            )
        if wanted.count(name) > 1:
            raise InvalidParameterError(f"column {name!r} is asked for twice; name it once")
    if not partitions:
        raise TableError(f"{found.name} has no column to use; it needs one besides the ids")
    return found.table, partitions


def _estimator(
    method: str, n_clusters: int | None, random_state: Any, settings: Mapping[str, Any]
) -> Any:
    chosen = consensus_method(method)
    known = inspect.signature(chosen.estimator_class()).parameters
    for name in settings:
        if name not in known:
            raise InvalidParameterError(
                f"{name}: neither consensus_table nor method {method!r} has this parameter; the "
                f"method has {', '.join(known)}"
            )
    return chosen.make(n_clusters, random_state, **settings)


def _refuse_in_memory(source: Any) -> None:
    """Refuse what is neither a name nor an Ibis table: frames, matrices, and lists of them."""
    if is_ibis_table(source) or isinstance(source, str | os.PathLike):
        return
    if isinstance(source, list | tuple) and all(isinstance(o, str | os.PathLike) for o in source):
        return
    what = f"a {type(source).__name__}"
    if isinstance(source, list | tuple):
        odd = next(o for o in source if not isinstance(o, str | os.PathLike))
        what += f" with a {type(odd).__name__} in it"
    raise TableError(
        f"source is {what}: consensus_table takes files, a table's name or an Ibis table; for "
        "labels in memory there is RobustConsensus().fit(P), or ibis.memtable(frame) to give here"
    )


def _refuse_durations(files: Sequence[Path], partitions: Sequence[str]) -> None:
    """Refuse durations, which Arrow keeps in Parquet as integers with a note that engines miss."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    inside = (path for file in files for path in ([file] if file.is_file() else file.rglob("*")))
    parquet = (path for path in inside if path.suffix == ".parquet" and path.name[0] not in "._")
    kinds: dict[str, Any] = {}
    # what Arrow cannot read, Arrow has not written
    with contextlib.suppress(StopIteration, OSError, pa.ArrowException):
        kinds = {one.name: one.type for one in pq.read_schema(next(parquet))}
    for name in partitions:
        if name in kinds and pa.types.is_duration(kinds[name]):
            raise InvalidLabelsError(
                f"partition '{name}' has labels of type {kinds[name]}; turn them into whole "
                "numbers or texts, or name the columns to use"
            )


def _refuse_no_place(out: Any) -> None:
    """Refuse an output without a name, and a device, which nothing can take the place of."""
    if not os.fspath(out):
        raise InvalidParameterError(
            "out='' names no place; give a .parquet file or a folder, or None to write nothing"
        )
    place = Path(out).expanduser()
    if place.exists() and not (place.is_file() or place.is_dir()):
        raise OutputError(
            f"cannot write {out}: it is a device or a pipe; name a .parquet file or a folder, or "
            "no output to write nothing"
        )


def _check_sample_size(sample_size: int, n_clusters: int | None) -> None:
    fewest = max(2, n_clusters or 0)
    if sample_size < fewest:
        why = f"n_clusters={n_clusters}" if fewest > 2 else "a consensus"
        raise InvalidParameterError(
            f"sample_size={sample_size}: {why} needs a sample of at least {fewest} tuples"
        )


def _check_counts(**counts: Any) -> None:
    for name, value in counts.items():
        if type(value) is bool or not isinstance(value, Integral) or int(value) < 1:
            raise InvalidParameterError(f"{name}={value!r}: give a whole number from 1 up")
