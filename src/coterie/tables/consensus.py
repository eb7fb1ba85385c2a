"""The consensus of a label table that stays in its engine: profile, count, fit, sweep, write."""

from __future__ import annotations

import contextlib
import inspect
import logging
import resource
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coterie.arrays import AnyArray, Floats, Ints
from coterie.consensus.registry import DEFAULT_METHOD, consensus_method
from coterie.ensembles.input_checks import check_whole
from coterie.errors import InvalidParameterError, TableError
from coterie.labels.encode import warn_of_ids
from coterie.runtime.devices import readable_bytes
from coterie.runtime.wording import short_repr
from coterie.tables.engines import LocalTables, computes, connect
from coterie.tables.keys import (
    PackedTable,
    TupleCounts,
    lay_out,
    profile_labels,
    read_text_as_in_csv,
)
from coterie.tables.outputs import TableOutput, check_carried, plan_output
from coterie.tables.sources import (
    LabelSource,
    check_source,
    is_ibis_table,
    local_files,
    open_source,
    refuse_durations,
)
from coterie.tables.sweeps import AssignmentRule, fit_tuples, sweep, write_labels

if TYPE_CHECKING:
    from ibis.backends import BaseBackend

_log = logging.getLogger(__name__)

# Up to this number of tuples per row, tuples are kept in the engine: writing them must pay off.
_FEW_TUPLES = 0.25


TablePath = Literal["tuples", "grouped", "streamed"]


def consensus_table(
    source: Any,
    columns: str | Sequence[str] | None = None,
    n_clusters: int | str | None = None,
    *,
    engine: str | BaseBackend = "duckdb://",
    ids: str | Sequence[str] | None = None,
    out: Any = None,
    method: str = DEFAULT_METHOD,
    random_state: Any = None,
    max_tuples: int = 2_000_000,
    sample_size: int = 200_000,
    max_sweeps: int = 3,
    memory_limit: str | None = None,
    threads: int | None = None,
    parse_text: bool | None = None,
    **settings: Any,
) -> TableConsensus:
    """Compute the consensus of the label columns of a table that need not fit in memory.

    The engine counts the u distinct label tuples of the n rows (``GROUP BY``). The consensus of
    the tuples, weighted by their counts, equals that of all rows. A join writes label and
    margin of every row. Only the tuples are held in memory: O(uV). If u exceeds
    ``max_tuples``, a sample of tuples is fitted instead and improved by sweeps over all rows.
    These run on the executors of Spark; from other engines rows are streamed in batches. If
    u ≤ n/4, the sweeps read the distinct tuples, kept in the engine, instead of the rows.

    Parameters
    ----------
    source : path, sequence of paths, str or ibis table
        A Parquet or CSV file, a folder or a glob of them, the name of a table in the database of
        the engine, or an Ibis table.
    columns : str or sequence of V str, optional
        The partitions; by default all columns but the ids. Labels are integers ≥ 0 or text; −1,
        NULL, NaN and empty text are missing.
    n_clusters : int or "free", optional
        K; by default the method chooses it, if it can. "free" is as in
        :class:`~coterie.RobustConsensus`.
    engine : str or ibis backend
        A URL as for :func:`coterie.tables.engines.connect`; ignored for an Ibis table, which
        has its own engine.
    ids : str or sequence of str, optional
        Columns to copy to the output, whose rows have no particular order; by default the label
        columns.
    out : path-like, optional
        A ``.parquet`` file, or a folder of such files: a name that ends in / or has no suffix,
        and always on Spark. It is written completely or not at all.
    method : str
        Key of the consensus function; see :mod:`coterie.consensus.registry`.
    random_state : int, RandomState or None
    max_tuples : int
        The largest number of distinct tuples that are all fitted.
    sample_size : int
        Approximate number of tuples in the sample; at least K, and 2.
    max_sweeps : int
        The largest number of sweeps; they also end when one lowers the cost by less than 0.01%.
    memory_limit : str, optional
        DuckDB memory limit, for example "2GB"; data beyond it goes to temporary files.
    threads : int, optional
        Threads of DuckDB or of a local Spark session.
    parse_text : bool, optional
        Read text columns as the program reads CSV files: ``NA``, ``NaN``, ``nan`` and ``null``
        are missing, and a column of integers is integer. By default for CSV files only.
    **settings
        Parameters of the consensus function.

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
    ['user', 'label', 'margin']
    """
    check_source(source)
    estimator = _estimator(method, n_clusters, random_state, settings)
    check_whole("max_tuples", max_tuples)
    least = n_clusters if isinstance(n_clusters, int) else 0
    check_whole("sample_size", sample_size, least=max(2, least))
    check_whole("max_sweeps", max_sweeps)
    carried = [ids] if isinstance(ids, str) else list(ids or [])
    columns = [columns] if isinstance(columns, str) else columns
    check_carried(carried, are_ids=True)
    with (
        _ignore_ibis_deprecation(),
        _connected(source, engine, memory_limit, threads) as connection,
        LocalTables(connection) as local,
    ):
        run = TableRun(local, estimator, max_tuples, sample_size, max_sweeps)
        if out is not None:
            run.output = plan_output(out, connection.name, local_files(source))
        with run.stage("profile", "looking at the columns"):
            found = open_source(source, local)
            table, partitions = found.table, _partitions(found, columns, carried)
            refuse_durations(local_files(source), partitions)
            if found.is_text if parse_text is None else parse_text:
                table = read_text_as_in_csv(table, partitions, found.name)
            profile = profile_labels(table, partitions, found.name)
            layout = lay_out(profile, table)
            names = [column.name for column in layout.columns]
            warn_of_ids(names, layout.n_listed, profile.n_rows, "pass it in ids")
        if out is not None and not carried:
            check_carried(partitions, are_ids=False)
            carried = partitions
        rows = layout.packed(table, carried, local.add)
        packed = PackedTable(rows, layout, profile.n_rows, tuple(carried), local.add)
        may_configure = isinstance(engine, str) and not is_ibis_table(source)
        result = run.consensus(packed, may_configure=may_configure)
    return replace(result, source=found.name, peak_memory=_peak_memory())


@dataclass(frozen=True, eq=False)
class TableConsensus:
    """A consensus of the rows of a table.

    Attributes
    ----------
    estimator : fitted consensus function
        Fitted on the distinct tuples, weighted by their counts, or on a sample of them; the
        clusters of a sample are then changed by sweeps over all rows. ``predict`` returns the
        labels that were written.
    path : {"tuples", "grouped", "streamed"}
        All distinct tuples were fitted; or a sample was fitted and then improved by sweeps over all
        distinct tuples, kept in the engine; or by sweeps over all rows.
    reason : str
        Why this path was taken.
    engine : str
    source : str
        Name of the table.
    partitions : tuple of str
        The label columns.
    n_rows : int
    n_tuples : int
        Number of distinct label tuples.
    n_tuples_exact : bool
        Whether that number was counted or estimated from a sample.
    n_fitted : int
        Number of tuples that the estimator was fitted on.
    sizes : (K,) int array
        Number of rows in each cluster.
    n_unplaced : int
        Number of rows without a label that the estimator knows; their label is −1.
    mean_margin : float
        Mean over all rows.
    objective : float
        J over the rows in clusters and the labels that the estimator knows. On the tuples path
        these are all rows and labels; on the other paths a label outside the sample counts as
        missing.
    partition_agreement : (V,) array
        Adjusted Rand index of each partition with the consensus, over the same rows and labels.
    sweeps : tuple of float
        The cost after each sweep, over the same rows and labels; empty on the tuples path. The
        cost is J with pairs joined against a partition weighted by 2τ, and pairs separated
        against a partition by 2(1 − τ), where τ is ``estimator.threshold_``. At τ = ½ it is J.
    seconds : dict of str to float
        Time of each stage: profile, group, fit, keep, sweeps, write.
    peak_memory : int
        Largest number of bytes this process, with DuckDB, has used; workers of a cluster are not
        included.
    out : Path or None
    bytes_written : int
    """

    estimator: Any
    path: TablePath
    reason: str
    engine: str
    source: str
    partitions: tuple[str, ...]
    n_rows: int
    n_tuples: int
    n_tuples_exact: bool
    n_fitted: int
    sizes: Ints
    n_unplaced: int
    mean_margin: float
    objective: float
    partition_agreement: Floats
    sweeps: tuple[float, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    out: Path | None = None
    bytes_written: int = 0

    __repr__ = short_repr

    def as_dict(self) -> dict[str, Any]:
        """Return all attributes except the estimator as values for JSON."""
        return {
            "source": self.source,
            "engine": self.engine,
            "path": self.path,
            "reason": self.reason,
            "rows": self.n_rows,
            "partitions": list(self.partitions),
            "tuples": self.n_tuples,
            "tuples_exact": self.n_tuples_exact,
            "tuples_fitted": self.n_fitted,
            "clusters": len(self.sizes),
            "sizes": self.sizes.tolist(),
            "unplaced": self.n_unplaced,
            "mean_margin": float(self.mean_margin),
            "objective": float(self.objective),
            "partition_agreement": self.partition_agreement.tolist(),
            "sweeps": list(self.sweeps),
            "seconds": {stage: round(value, 3) for stage, value in self.seconds.items()},
            "peak_memory": self.peak_memory,
            "out": None if self.out is None else str(self.out),
            "bytes_written": self.bytes_written,
        }

    def in_words(self) -> str:
        """Describe the run in a few lines."""
        about = "" if self.n_tuples_exact else "about "
        lines = [
            f"{self.source}: {self.n_rows:,} rows, {len(self.partitions)} partitions, "
            f"{about}{self.n_tuples:,} distinct label tuples",
            f"{len(self.sizes)} clusters by {self.engine}, {self.path} path: {self.reason}",
        ]
        if self.sweeps:
            each = ", ".join(f"{value:.6g}" for value in self.sweeps)
            lines.append(f"cost after each sweep over all rows: {each}")
        if self.n_unplaced:
            rows = "1 row has" if self.n_unplaced == 1 else f"{self.n_unplaced:,} rows have"
            lines.append(f"{rows} only labels outside the sample: label -1")
        lines.append(self.cost_in_words())
        if self.out is not None:
            lines.append(f"wrote {self.out}, {readable_bytes(self.bytes_written)}")
        return "\n".join(lines)

    def cost_in_words(self) -> str:
        """Describe the time of each stage and the peak memory in one line."""
        stages = ", ".join(f"{stage} {value:.1f} s" for stage, value in self.seconds.items())
        return f"{stages}; at most {readable_bytes(self.peak_memory)} of memory"


@dataclass(eq=False)
class TableRun:
    """The settings of a run, its output, and the time of its stages."""

    local: LocalTables  # of the engine
    estimator: Any  # fitted by the run
    max_tuples: int
    sample_size: int
    max_sweeps: int
    output: TableOutput | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def stage(self, name: str, message: str, *values: Any) -> Iterator[None]:
        """Log a message and measure the time of a stage."""
        _log.info(message, *values)
        started = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started

    def consensus(self, table: PackedTable, *, may_configure: bool) -> TableConsensus:
        """Count, fit and write, on the path that the number of tuples allows."""
        unfinished = contextlib.nullcontext() if self.output is None else self.output.unfinished()
        with unfinished as folder:
            connection: Any = table.rows.get_backend()
            if folder is not None and may_configure and connection.name == "duckdb":
                # temporary files beside the output are removed with it; DuckDB refuses to move a
                # folder that is in use
                with contextlib.suppress(Exception):
                    connection.settings["temp_directory"] = str(folder / "spill")
            with self.stage("group", "counting the tuples of %d rows", table.n_rows):
                tuples, are_all = self._tuples(table)
            fit_and_write = self._by_tuples if are_all else self._streamed
            result = fit_and_write(table, tuples, folder)
        if self.output is None:
            return result
        return replace(result, out=self.output.path, bytes_written=self.output.size())

    def _tuples(self, table: PackedTable) -> tuple[TupleCounts, bool]:
        """Return all tuples and True, or a sample of them and False if there are too many."""
        share = min(1.0, self.sample_size / table.n_rows)
        sample = None
        # counting many distinct tuples is costly: estimate their number first
        if table.n_rows > self.max_tuples and not table.is_repetitive(self.sample_size):
            sample = table.sample_tuples(share)
        if sample is None or sample.estimate <= self.max_tuples:
            tuples = table.count_tuples(self.max_tuples)
            if tuples is not None:
                return tuples, True
        if sample is None:
            sample = table.sample_tuples(share)
        enough = min(1.0, self.sample_size / max(sample.estimate, self.max_tuples))
        if enough > 2 * sample.share:
            sample = table.sample_tuples(enough)
        # an estimate from a few tuples can be far too high
        K = getattr(self.estimator, "n_clusters", None)
        least = max(self.sample_size / 4, K if isinstance(K, int) else 2)
        while sample.n_tuples < least and sample.share < 1:
            sample = table.sample_tuples(min(1.0, 4 * sample.share))
        return sample, False

    def _by_tuples(
        self, table: PackedTable, tuples: TupleCounts, folder: Path | None
    ) -> TableConsensus:
        with self.stage("fit", "consensus of %d tuples", tuples.n_tuples):
            fitted = fit_tuples(self.estimator, table.layout, tuples)
        if folder is not None and self.output is not None:
            with self.stage("write", "writing %d rows", table.n_rows):
                self.output.write(table.labelled(tuples, fitted), folder)
        sizes = np.bincount(fitted.labels_, weights=tuples.counts)
        reason = f"at most max_tuples={self.max_tuples:,} distinct tuples"
        return self._result("tuples", reason, table, tuples, sizes)

    def _streamed(
        self, table: PackedTable, sample: TupleCounts, folder: Path | None
    ) -> TableConsensus:
        """Fit a sample, then sweep over all distinct tuples or over all rows, and label the rows.

        Tuples are kept in the engine if at most a quarter as many as rows.
        """
        with self.stage("fit", "consensus of a sample of %d tuples", sample.n_tuples):
            fitted = fit_tuples(self.estimator, table.layout, sample)
            rule = AssignmentRule.of(fitted, table.layout)
        swept, path = table, "streamed"
        why = "more than a quarter as many as rows"
        with contextlib.ExitStack() as stack:
            if sample.estimate <= table.n_rows * _FEW_TUPLES:
                try:
                    with self.stage("keep", "keeping about %d tuples", sample.estimate):
                        swept = stack.enter_context(table.grouped(self.local))
                    path, why = "grouped", "at most a quarter as many as rows"
                except TableError as error:  # for example because the disk is full
                    _log.info("%s; sweeping over rows instead", error)
                    why = "the engine keeps no temporary table of them"
            with self.stage("sweeps", "sweeping over %d rows", table.n_rows):
                found = sweep(fitted, rule, swept, sample, self.max_sweeps)
        reason = f"more than max_tuples={self.max_tuples:,} distinct tuples, {why}"
        result = self._result(path, reason, table, sample, found.counted.tables.size)
        if folder is not None and self.output is not None:
            with self.stage("write", "writing %d rows", table.n_rows):
                write_labels(table, found.rule, self.output, folder)
        margin = found.counted.margin / table.n_rows
        return replace(result, sweeps=tuple(found.costs), mean_margin=margin)

    def _result(
        self,
        path: Any,
        reason: str,
        table: PackedTable,
        tuples: TupleCounts,
        sizes: AnyArray,
    ) -> TableConsensus:
        fitted = self.estimator
        return TableConsensus(
            estimator=fitted,
            path=path,
            reason=reason,
            engine=table.rows.get_backend().name,
            source="",
            partitions=tuple(column.name for column in table.layout.columns),
            n_rows=table.n_rows,
            n_tuples=tuples.estimate,
            n_tuples_exact=tuples.share == 1,
            n_fitted=tuples.n_tuples,
            sizes=sizes.astype(np.int64),
            n_unplaced=table.n_rows - int(sizes.sum()),
            mean_margin=float(np.average(fitted.margin_, weights=tuples.counts)),
            objective=float(fitted.objective_),
            partition_agreement=fitted.partition_agreement_,
            seconds=self.seconds,
        )


@contextlib.contextmanager
def _ignore_ibis_deprecation() -> Iterator[None]:
    """Ignore the warning that Ibis calls a method of DuckDB by its old name."""
    with warnings.catch_warnings():
        old = r"fetch_arrow_table\(\) is deprecated"
        warnings.filterwarnings("ignore", old, DeprecationWarning)
        yield


@contextlib.contextmanager
def _connected(
    source: Any, engine: str | BaseBackend, memory_limit: str | None, threads: int | None
) -> Iterator[BaseBackend]:
    """Yield the engine of the table, the engine given, or a new connection for this run."""
    if is_ibis_table(source):
        engine = source.get_backend() if computes(source.get_backend()) else "duckdb://"
    if not isinstance(engine, str):
        if memory_limit is not None or threads is not None:
            raise InvalidParameterError(
                "memory_limit and threads need an engine named by a URL; for an existing "
                "connection set them where the connection is made"
            )
        if not computes(engine):
            raise InvalidParameterError(
                f"{engine.name} does not compute consensus; pass one of its tables as the source"
            )
        yield engine
        return
    connection = connect(engine, memory_limit=memory_limit, threads=threads)
    try:
        yield connection
    finally:
        # a Spark session may be shared with other code, so it is not stopped
        if connection.name != "pyspark":
            connection.disconnect()


def _partitions(
    found: LabelSource, columns: Sequence[str] | None, carried: Sequence[str]
) -> list[str]:
    """Return the names of the partitions; refuse unknown and repeated names."""
    known = list(found.table.columns)
    partitions = [name for name in known if name not in carried] if columns is None else [*columns]
    wanted = [*carried, *partitions]
    for name in wanted:
        if name not in known:
            raise TableError(
                f"{found.name} has no column {name!r}; it has {', '.join(map(repr, known))}"
            )
        if wanted.count(name) > 1:
            raise InvalidParameterError(f"column {name!r} is asked for twice; name it once")
    if not partitions:
        raise TableError(f"{found.name} has no label column; it needs one besides the ids")
    return partitions


def _estimator(
    method: str, n_clusters: int | str | None, random_state: Any, settings: Mapping[str, Any]
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


def _peak_memory() -> int:
    """Return the largest number of bytes of memory that this process has used so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
