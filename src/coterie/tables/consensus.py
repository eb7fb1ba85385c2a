"""The consensus of a label table that stays in its engine: count, fit, sweep, label.

The engine packs the labels of each row into a few integers (:mod:`coterie.tables.keys`) and counts
the distinct tuples. If memory holds them, their weighted consensus is that of all rows. Otherwise
a sample of the tuples is fitted and improved by sweeps.

A sweep reads all rows, or all distinct tuples, and keeps only cluster tables N. Every row joins the
cluster with the largest gain at the threshold τ under the tables of the clustering G before; the
rows counted in their new clusters give the next tables and the cost of the new clustering,

    J_τ(G) = Σ_v α_v [2τ · #(together in G, not in v) + 2(1 − τ) · #(together in v, not in G)] / Σ α

over ordered pairs. The gains at τ lower this cost; at τ = ½ it is J. Counts are sums of integers,
so they depend neither on the order of the rows nor on how these are divided into batches.

DuckDB streams the rows to this process in batches. Spark's executors sweep where the rows are: the
driver sends them the rule, and the sums of all partitions or the labelled rows, which Spark writes,
are queries without side effects. So a task that is lost with its executor is repeated and counted
once, and no row comes to the driver.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coterie.arrays import AnyArray, Floats, Ints
from coterie.consensus.base import assign_by_equal_votes, label_probabilities
from coterie.consensus.registry import DEFAULT_METHOD, consensus_method
from coterie.counts.cluster_tables import ClusterTables
from coterie.ensembles.input_checks import check_whole
from coterie.errors import InvalidParameterError, OutputError, TableError
from coterie.labels.encode import MISSING, warn_of_ids
from coterie.labels.tuples import LabelTuples
from coterie.runtime.atomic_files import output_errors
from coterie.runtime.devices import readable_bytes
from coterie.runtime.wording import short_repr
from coterie.tables.columns import chosen_columns
from coterie.tables.engines import LocalTables, computes, connect, engine_errors, spark_frame
from coterie.tables.keys import (
    COUNT_COLUMN,
    KeyLayout,
    PackedTable,
    TupleCounts,
    numbers,
    pack_labels,
    read_text_as_in_csv,
    unpack,
)
from coterie.tables.sources import (
    check_source,
    is_ibis_table,
    local_files,
    open_source,
    refuse_durations,
)
from coterie.tables.writing import TableOutput, check_carried, plan_output

# after the module of engines, which names the extra that has it
import pyarrow as pa  # isort: skip
import pyarrow.parquet as pq  # isort: skip

if TYPE_CHECKING:
    from ibis.backends import BaseBackend

_log = logging.getLogger(__name__)

# Up to this number of tuples per row, tuples are kept in the engine: writing them must pay off.
_FEW_TUPLES = 0.25
_ROWS_A_BATCH = 1 << 16

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
    seconds: dict[str, float] = {}
    output, bytes_written = None, 0
    with (
        warnings.catch_warnings(),
        _connected(source, engine, memory_limit, threads) as connection,
        LocalTables(connection) as local,
    ):
        # Ibis calls a method of DuckDB by its old name
        old = r"fetch_arrow_table\(\) is deprecated"
        warnings.filterwarnings("ignore", old, DeprecationWarning)
        if out is not None:
            output = plan_output(out, connection.name, local_files(source))
        with _stage(seconds, "profile", "looking at the columns"):
            found = open_source(source, local)
            table = found.table
            partitions = chosen_columns(found.name, table.columns, carried, columns)
            if found.parquet:
                refuse_durations(found.parquet, partitions)
            if found.is_text if parse_text is None else parse_text:
                table = read_text_as_in_csv(table, partitions, found.name)
            if output is not None and not carried:
                check_carried(partitions, are_ids=False)
                carried = partitions
            packed = pack_labels(table, partitions, found.name, local.add, carried)
            warn_of_ids(partitions, packed.layout.n_listed, packed.n_rows, "pass it in ids")
        with contextlib.nullcontext() if output is None else output.unfinished() as folder:
            is_ours = isinstance(engine, str) and not is_ibis_table(source)
            if folder is not None and is_ours and connection.name == "duckdb":
                # temporary files next to the output are removed with it; DuckDB refuses to move a
                # folder that is in use
                with contextlib.suppress(Exception):
                    connection.settings["temp_directory"] = str(folder / "spill")
            with _stage(seconds, "group", "counting the tuples of %d rows", packed.n_rows):
                K = getattr(estimator, "n_clusters", None)
                least = K if isinstance(K, int) else 2
                tuples, are_all = count_or_sample(packed, max_tuples, sample_size, least)
            what = "consensus of %d tuples" if are_all else "consensus of a sample of %d tuples"
            with _stage(seconds, "fit", what, tuples.n_tuples):
                fitted = fit_tuples(estimator, packed.layout, tuples)
            path: TablePath = "tuples"
            reason = f"at most max_tuples={max_tuples:,} distinct tuples"
            swept: Sweep | None = None
            costs: list[float] = []
            if not are_all:
                swept, costs, path, why = sweep_table(
                    fitted, packed, tuples, local, max_sweeps, seconds
                )
                reason = f"more than max_tuples={max_tuples:,} distinct tuples, {why}"
            if output is not None and folder is not None:
                with _stage(seconds, "write", "writing %d rows", packed.n_rows):
                    if swept is None:
                        output.write(packed.labelled(tuples, fitted), folder)
                    else:
                        write_labels(packed, swept.rule, output, folder)
        if output is not None:
            bytes_written = output.size()
    if swept is None:
        sizes: AnyArray = np.bincount(fitted.labels_, weights=tuples.counts)
        mean_margin = float(np.average(fitted.margin_, weights=tuples.counts))
    else:
        sizes = swept.tables.size
        mean_margin = swept.margin / packed.n_rows
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return TableConsensus(
        estimator=fitted,
        path=path,
        reason=reason,
        engine=connection.name,
        source=found.name,
        partitions=tuple(partitions),
        n_rows=packed.n_rows,
        n_tuples=tuples.estimate,
        n_tuples_exact=tuples.share == 1,
        n_fitted=tuples.n_tuples,
        sizes=sizes.astype(np.int64),
        n_unplaced=packed.n_rows - int(sizes.sum()),
        mean_margin=mean_margin,
        objective=float(fitted.objective_),
        partition_agreement=fitted.partition_agreement_,
        sweeps=tuple(costs),
        seconds=seconds,
        peak_memory=peak if sys.platform == "darwin" else peak * 1024,
        out=None if output is None else output.path,
        bytes_written=bytes_written,
    )


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


@contextlib.contextmanager
def _stage(seconds: dict[str, float], name: str, message: str, *values: Any) -> Iterator[None]:
    _log.info(message, *values)
    started = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - started


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


# ---- Count and fit


def count_or_sample(
    table: PackedTable, max_tuples: int, sample_size: int, n_clusters: int
) -> tuple[TupleCounts, bool]:
    """Return all tuples and True, or a sample of them and False if there are too many."""
    share = min(1.0, sample_size / table.n_rows)
    sample = None
    # counting many distinct tuples is costly: estimate their number first
    if table.n_rows > max_tuples and not table.is_repetitive(sample_size):
        sample = table.sample_tuples(share)
    if sample is None or sample.estimate <= max_tuples:
        tuples = table.count_tuples(max_tuples)
        if tuples is not None:
            return tuples, True
    if sample is None:
        sample = table.sample_tuples(share)
    enough = min(1.0, sample_size / max(sample.estimate, max_tuples))
    if enough > 2 * sample.share:
        sample = table.sample_tuples(enough)
    # an estimate from a few tuples can be far too high
    while sample.n_tuples < max(sample_size / 4, n_clusters) and sample.share < 1:
        sample = table.sample_tuples(min(1.0, 4 * sample.share))
    return sample, False


def fit_tuples(estimator: Any, layout: KeyLayout, tuples: TupleCounts) -> Any:
    matrix = layout.as_label_matrix(tuples.keys)
    for name, categories in zip(matrix.names, matrix.categories, strict=True):
        if not len(categories):
            raise InvalidParameterError(
                f"partition '{name}' labels so few rows that none of the {tuples.n_tuples:,} "
                "tuples in the sample has a label there; raise sample_size, or leave it out"
            )
    return estimator.fit(matrix, sample_weight=tuples.counts)


# ---- Sweep


@dataclass(frozen=True, eq=False)
class AssignmentRule:
    """The rule that assigns packed rows to clusters, small enough to be sent to executors."""

    key_names: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]  # for each key, its partitions; the last is the lowest
    codes_of: tuple[AnyArray, ...]  # per partition, the indicator column of each digit; or −1
    places: Ints  # (V,), the column of the codes for each partition
    tuples: LabelTuples  # without rows; they define the indicator columns
    tables: ClusterTables  # counts of the current clusters, of all rows or of a sample
    threshold: float  # τ, the share of votes above which two points should be together

    @classmethod
    def of(cls, estimator: Any, layout: KeyLayout) -> AssignmentRule:
        """Return the rule of an estimator that was fitted on a sample; other labels are missing."""
        tuples, codes_of, start = estimator._tuples, [], 0
        for labels, known in zip(layout.labels, estimator._vocabulary.categories, strict=True):
            columns = np.full(len(labels) + 1, MISSING, dtype=tuples.codes.dtype)
            # both lists of labels are sorted
            columns[np.searchsorted(labels, known) + 1] = tuples.recode[start : start + len(known)]
            codes_of.append(columns)
            start += len(known)
        has_gaps = layout.has_missing or any((one[1:] == MISSING).any() for one in codes_of)
        tables = replace(estimator._tables, complete=estimator._tables.complete and not has_gaps)
        none = {name: getattr(tuples, name)[:0] for name in ("codes", "weights", "inverse")}
        places = np.argsort(tuples.partition_order)
        bare = replace(tuples, **none)
        how = (places, bare, tables, estimator.threshold_)
        return cls(layout.key_names, layout.groups, tuple(codes_of), *how)

    def codes(self, keys: Sequence[Ints]) -> AnyArray:
        """Return the indicator columns (n, V) of rows given by their keys."""
        return unpack(keys, self.groups, self.codes_of, self.places)

    def assign(self, codes: AnyArray) -> tuple[Ints, Floats]:
        """Return labels and margins of rows of indicator columns (n, V).

        A row that only partitions of weight 0 label follows those partitions, with margin 0. A row
        without any label gets −1.
        """
        labels, margin = self.tables.assign(codes, self.threshold)
        unweighted = (labels < 0) & (codes >= 0).any(axis=1)
        if unweighted.any():
            labels[unweighted] = assign_by_equal_votes(
                self.tables, codes, None, unweighted, self.threshold
            )
        return labels, margin

    def count_codes(self, codes: AnyArray, weights: Floats) -> Floats:
        """Assign rows, each with a weight, and return the m·K + K + 2 sums of them.

        These are the table, the sizes, the number of rows, and the sum of their margins.
        """
        labels, margin = self.assign(codes)
        rows = replace(self.tuples, codes=codes, weights=weights)
        tables = ClusterTables.of(rows, labels, self.tables.alpha, len(self.tables.size))
        return np.concatenate(
            [tables.table.ravel(), tables.size, [weights.sum(), margin @ weights]]
        )

    def count(self, batches: Iterable[pa.RecordBatch]) -> Floats:
        """Assign the packed rows of some batches, and return their sums."""
        sums = np.zeros(self.tables.table.size + len(self.tables.size) + 2)
        for batch in batches:
            codes = self.codes([numbers(batch, name) for name in self.key_names])
            weights = np.ones(len(codes))
            if COUNT_COLUMN in batch.schema.names:
                weights = numbers(batch, COUNT_COLUMN).astype(np.float64)
            sums += self.count_codes(codes, weights)
        return sums

    def count_on_executor(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the sums that are not 0, with their places."""
        sums = self.count(batches)
        places = np.flatnonzero(sums)
        if len(places):
            yield from pa.table({"place": places, "value": sums[places]}).to_batches(_ROWS_A_BATCH)

    def label(
        self, carried: Sequence[str], batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the carried columns, label and margin of every row."""
        for batch in batches:
            keys = [numbers(batch, name) for name in self.key_names]
            labels, margin = self.assign(self.codes(keys))
            columns = [batch[name] for name in carried]
            columns += [pa.array(labels.astype(np.int32)), pa.array(margin)]
            yield pa.RecordBatch.from_arrays(columns, [*carried, "label", "margin"])


@dataclass(frozen=True, eq=False)
class Sweep:
    """All rows in the clusters that a rule assigns: tables, number of rows, sum of margins."""

    rule: AssignmentRule
    tables: ClusterTables
    n_rows: int
    margin: float

    @classmethod
    def of(cls, rule: AssignmentRule, sums: Floats) -> Sweep:
        """Return the counts in the sums of a rule."""
        m, K = rule.tables.table.shape
        table, size = sums[: m * K].reshape(m, K), sums[m * K : -2]
        present = np.add.reduceat(table, rule.tables.offsets[:-1], axis=0)
        tables = replace(rule.tables, table=table, present=present, size=size)
        return cls(rule, tables, round(sums[-2]), float(sums[-1]))


def count_rows(table: PackedTable, rule: AssignmentRule) -> Sweep:
    """Count all rows in the clusters that a rule assigns."""
    if table.is_on_spark:
        with engine_errors("Spark cannot count the rows"):
            frame = spark_frame(table.read())
            parts = frame.mapInArrow(rule.count_on_executor, "place long, value double")
            found = parts.groupBy("place").sum("value").toArrow()
        sums = np.zeros(rule.tables.table.size + len(rule.tables.size) + 2)
        sums[found[0].to_numpy()] = found[1].to_numpy()
    else:
        sums = rule.count(table.batches())
    counted = Sweep.of(rule, sums)
    table.check_row_count(counted.n_rows)
    return counted


def sweep_table(
    estimator: Any,
    table: PackedTable,
    sample: TupleCounts,
    local: LocalTables,
    max_sweeps: int,
    seconds: dict[str, float],
) -> tuple[Sweep, list[float], TablePath, str]:
    """Sweep over all distinct tuples, if they are few enough to be kept, or over all rows.

    The clusters, by falling size, are stored in the fitted estimator. Return the best sweep, J_τ
    after each, and the path with its reason.
    """
    path: TablePath = "streamed"
    rows, why = table, "more than a quarter as many as rows"
    with contextlib.ExitStack() as stack:
        if sample.estimate <= table.n_rows * _FEW_TUPLES:
            try:
                with _stage(seconds, "keep", "keeping about %d tuples", sample.estimate):
                    rows = stack.enter_context(table.grouped(local))
                path, why = "grouped", "at most a quarter as many as rows"
            except TableError as error:  # for example because the disk is full
                _log.info("%s; sweeping over rows instead", error)
                why = "the engine keeps no temporary table of them"
        with _stage(seconds, "sweeps", "sweeping over %d rows", table.n_rows):
            rule = AssignmentRule.of(estimator, table.layout)
            best, costs = sweep_until_converged(partial(count_rows, rows), rule, max_sweeps)
    size = best.tables.size
    order = np.argsort(-size, kind="stable")[: int((size > 0).sum())]
    rule = replace(best.rule, tables=_columns(best.rule.tables, order))
    best = replace(best, rule=rule, tables=_columns(best.tables, order))

    # the estimator predicts what is written
    codes = rule.codes(sample.keys)
    labels, estimator.margin_ = rule.assign(codes)
    estimator.confidence_ = label_probabilities(rule.tables, codes, None, labels)
    estimator.labels_ = labels.astype(np.int32)
    estimator._tuple_labels = rule.assign(estimator._tuples.codes)[0]
    estimator._tables = rule.tables
    estimator.n_clusters_ = len(order)
    estimator.objective_ = best.tables.objective()
    estimator.partition_agreement_ = estimator._tuples.in_given_order(best.tables.agreement())
    if hasattr(estimator, "lower_bound_"):
        # the bound of the sample is not a bound for all rows
        estimator.lower_bound_ = estimator.gap_ = float("nan")
    return best, costs, path, why


def sweep_until_converged(
    count: Callable[[AssignmentRule], Sweep],
    rule: AssignmentRule,
    max_sweeps: int = 3,
    tol: float = 1e-4,
) -> tuple[Sweep, list[float]]:
    """Sweep while J_τ falls by more than a share ``tol``, at most ``max_sweeps`` times.

    ``count`` is one sweep. Return the one with the smallest J_τ, which is at most that of the
    clustering by ``rule``, and J_τ after each.
    """
    costs: list[float] = []
    best = None
    for number in range(max_sweeps):
        _log.info("sweep %d over all rows", number + 1)
        counted = count(rule)
        costs.append(threshold_cost(counted.tables, rule.threshold))
        least = min(costs[:-1], default=np.inf)
        if costs[-1] < least:
            best = counted
        if best is None or costs[-1] >= least * (1 - tol):
            break
        rule = replace(rule, tables=counted.tables)
    assert best is not None
    return best, costs


def threshold_cost(counted: ClusterTables, threshold: float) -> float:
    """Return J_τ of the clustering that was counted."""
    both, label, cluster = counted.pairs_within()
    costs = 2 * threshold * (cluster - both) + 2 * (1 - threshold) * (label - both)
    return float(costs @ counted.alpha / counted.alpha.sum())


def _columns(tables: ClusterTables, order: AnyArray) -> ClusterTables:
    return replace(
        tables,
        table=np.ascontiguousarray(tables.table[:, order]),
        present=np.ascontiguousarray(tables.present[:, order]),
        size=tables.size[order],
    )


# ---- Label


def write_labels(
    table: PackedTable, rule: AssignmentRule, output: TableOutput, folder: Path
) -> None:
    place, n_written = output.rows_in(folder), 0
    if table.is_on_spark:
        from pyspark.sql.types import DoubleType, IntegerType, StructType

        # Spark cannot map columns whose names have dots
        safe = tuple(f"carried_{i}" for i in range(len(table.carried)))
        frame = spark_frame(table.read(table.carried)).toDF(*safe, *rule.key_names)
        schema = StructType([frame.schema[name] for name in safe])
        schema = schema.add("label", IntegerType()).add("margin", DoubleType())
        with engine_errors(f"cannot write {output.path}", OutputError):
            rows = frame.mapInArrow(partial(rule.label, safe), schema)
            rows = rows.toDF(*table.carried, "label", "margin")
            rows.write.parquet(place.absolute().as_uri())
        n_written = sum(pq.read_metadata(part).num_rows for part in place.rglob("*.parquet"))
    else:
        writer = None
        for batch in rule.label(table.carried, table.batches(table.carried)):
            with output_errors(output.path):
                writer = writer or pq.ParquetWriter(output.new_file(folder), batch.schema)
                writer.write_batch(batch)
            n_written += batch.num_rows
        if writer is not None:
            with output_errors(output.path):
                writer.close()
    table.check_row_count(n_written)
