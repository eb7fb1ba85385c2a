"""The label columns of a table in its engine: their profile, their keys, their distinct tuples.

One query profiles the columns. Labels mean the same as in
:func:`~coterie.labels.encode.as_label_matrix`: −1, NULL, NaN and empty text are missing, and
floats with integer values are allowed. An engine has no row numbers, so messages name the column
and an example.

The engine then packs the tuple of each row into a few 64-bit integers, and NumPy unpacks them.
Label ℓ of partition v becomes the digit d_v = ℓ − low_v + 1 (0 if it is missing) of radix
r_v = high_v − low_v + 2. Partitions share a key while the product of their radices is below 2⁶³:

    key = (…(d_1 · r_2 + d_2) · r_3 + …) · r_k + d_k

So 40 columns of ten clusters become three integers, and keys are equal exactly if the tuples are.
Text, and integers in a wide range, are first numbered by a join with the list of their values.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from coterie.arrays import AnyArray, Ints
from coterie.errors import InvalidLabelsError, TableError
from coterie.labels.encode import FEATURES_HINT, MISSING, LabelMatrix
from coterie.labels.kernels import unpack_keys
from coterie.runtime.devices import map_row_blocks
from coterie.runtime.wording import short_repr
from coterie.tables.columns import (
    COMMA_FRACTION,
    DECIMAL_COMMA_PATTERN,
    INTEGER_PATTERN,
    MISSING_TEXTS,
    NUMBER_PATTERN,
)
from coterie.tables.engines import (
    LocalTables,
    batches,
    engine_errors,
    fetch,
    is_written_as,
    spark_frame,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

#: A prime; hashes of keys are below it.
HASH_RANGE = 2**31 - 1
#: Column with the number of rows with a tuple.
COUNT_COLUMN = "coterie_count"

#: Integers with this number of digits fit in 64 bits.
_LONGEST_INTEGER = 18
_INFINITE = ("inf", "-inf", "infinity", "-infinity")
#: The smallest number that a float type may confuse with its neighbours.
_FIRST_INEXACT = {"float16": 2.0**11, "float32": 2.0**24, "float64": 2.0**53}
_WIDEST_RANGE = 1 << 16
_MOST_VALUES = 1 << 20
_LARGEST_KEY = 2**63
_MULTIPLIER = 630_360_016
#: Primes whose product exceeds 2⁶³, so that the three remainders identify a key.
_MODULI = (2_097_169, 2_097_211, 2_097_223)
_CELLS_A_BATCH = 1 << 25
_MOST_ROWS = 1 << 20
_FEWEST_ROWS = 1 << 12


# ---- Labels


@dataclass(frozen=True)
class LabelColumn:
    name: str
    values: ir.Column  # int64, uint64 or text; NULL means missing, and −1 in an int64 column
    bounds: tuple[int, int] | None  # smallest and largest integer label; None for text
    has_missing: bool

    @property
    def is_ranged(self) -> bool:
        """Whether the labels are integers in a range narrow enough to subtract its start."""
        low, high = self.bounds or (0, _LARGEST_KEY)
        return high - low < _WIDEST_RANGE and high < 2**62


def profile_labels(
    table: ir.Table, names: Sequence[str], source: str
) -> tuple[int, list[LabelColumn]]:
    """Return the number of rows and the label columns; refuse values that cannot be labels.

    ``source`` is the name of the table for messages.
    """
    values: dict[str, ir.Column] = {}
    measures: dict[str, Any] = {"n": table.count()}
    for v, name in enumerate(names):
        values[name], of_column = _labels(table[name], name)
        measures |= {f"{measure}{v}": value for measure, value in of_column.items()}
    (found,) = fetch(table.aggregate(**measures)).to_pylist()
    n_rows = int(found["n"])
    if not n_rows:
        raise TableError(f"{source} has no rows; a table needs at least one")
    columns = []
    for v, name in enumerate(names):
        present, low, high = (found.get(f"{measure}{v}") for measure in ("present", "low", "high"))
        if found.get(f"odd{v}"):
            raise InvalidLabelsError(
                f"partition '{name}' has labels of type {table[name].type()} such as "
                f"{found[f'example{v}']} ({found[f'odd{v}']:,} in all) that are not integers, or "
                f"too large for an exact float; {FEATURES_HINT}"
            )
        if low is not None and low < -1:
            raise InvalidLabelsError(
                f"label {int(low)} in partition '{name}' is negative; labels are at least 0, and "
                "-1 means missing"
            )
        if not present or (high is not None and high < 0):
            raise InvalidLabelsError(f"partition '{name}' has no label at all; leave it out")
        bounds = None if f"low{v}" not in found else (max(int(low), 0), int(high))
        has_missing = present < n_rows or (bounds is not None and low < 0)
        columns.append(LabelColumn(name, values[name], bounds, has_missing))
    if all(column.has_missing for column in columns):
        is_empty = (
            column.values.isnull()
            if column.bounds is None or column.values.type().is_unsigned_integer()
            else column.values.isnull() | (column.values == -1).fill_null(False)
            for column in columns
        )
        unlabelled = functools.reduce(operator.and_, is_empty)
        (measured,) = fetch(table.aggregate(n=unlabelled.sum().fill_null(0))).to_pylist()
        if measured["n"]:
            raise InvalidLabelsError(
                f"rows without a label in any partition: {measured['n']:,}; remove them, or label "
                "them"
            )
    return n_rows, columns


def read_text_as_in_csv(table: ir.Table, names: Sequence[str], source: str) -> ir.Table:
    """Read text columns as :func:`coterie.tables.columns.label_columns` reads them."""
    import ibis

    texts = [name for name in names if table[name].type().is_string()]
    if not texts:
        return table
    present = {
        name: ibis.ifelse(table[name].strip().isin(MISSING_TEXTS), ibis.null("string"), table[name])
        for name in texts
    }
    measures: dict[str, Any] = {}
    for v, name in enumerate(texts):
        trimmed, is_present = present[name].strip(), present[name].notnull()
        # longer integers stay text, which is a valid label, too
        integer = trimmed.re_search(INTEGER_PATTERN) & (trimmed.length() <= _LONGEST_INTEGER)
        point, comma = map(trimmed.re_search, (NUMBER_PATTERN, DECIMAL_COMMA_PATTERN))
        number = point | comma
        fraction = point.ifelse(
            point.ifelse(trimmed, ibis.null("string")).try_cast("float64") % 1 != 0,
            comma & trimmed.re_search(COMMA_FRACTION),
        )
        measures |= {
            f"other{v}": (~integer & is_present).sum().fill_null(0),
            f"words{v}": (~number & is_present).sum().fill_null(0),
            f"fraction{v}": present[name].max(where=fraction),
        }
    (found,) = fetch(table.aggregate(**measures)).to_pylist()
    read = {}
    for v, name in enumerate(texts):
        if not found[f"words{v}"] and found[f"fraction{v}"] is not None:
            raise InvalidLabelsError(
                f"column {name!r} of {source} holds {found[f'fraction{v}']}: labels are names of "
                "clusters, not measurements; use `coterie cluster` for features"
            )
        only_integers = not found[f"other{v}"]
        read[name] = present[name].strip().cast("int64") if only_integers else present[name]
    return table.mutate(**read)


def _labels(column: ir.Column, name: str) -> tuple[ir.Column, dict[str, Any]]:
    """Return a column as int64, uint64 or text, and the aggregates that describe it.

    Empty text and non-finite numbers are NULL.
    """
    import ibis

    kind = column.type()
    if kind.is_string():
        texts = column.nullif("")
        return texts, {"present": texts.count()}
    if kind.is_floating():
        number, inexact = ~is_written_as(column, ("nan",)), _FIRST_INEXACT[str(kind).lower()]
        infinite = is_written_as(column, _INFINITE)
        finite = ibis.ifelse(infinite | ~number, 0, column)
        odd = number & (infinite | (finite.abs() >= inexact) | (finite % 1 != 0))
        unknown = is_written_as(column, ("nan", *_INFINITE))
        return ibis.ifelse(unknown, ibis.null(kind), column).cast("int64"), {
            "present": number.sum().fill_null(0),
            "low": column.min(where=number),
            "high": column.max(where=number),
            "odd": odd.sum().fill_null(0),
            "example": column.max(where=odd),
        }
    # Ibis has no type for columns of Parquet that hold only NULL
    is_null = kind.is_null() or (kind.is_unknown() and 'kind="NULL"' in str(kind))
    if not (kind.is_integer() or kind.is_boolean() or is_null):
        raise InvalidLabelsError(
            f"partition '{name}' has labels of type {kind}; convert them to integers or text, or "
            "name the columns to use"
        )
    is_uint64 = kind.is_unsigned_integer() and kind.nbytes == 8
    values = column if is_uint64 else column.cast("int64")
    # of the raw column: engines answer these from statistics, without reading it
    raw = column if kind.is_integer() else values
    return values, {"present": column.count(), "low": raw.min(), "high": raw.max()}


# ---- Keys


@dataclass(frozen=True, eq=False)
class KeyLayout:
    """The digit and key of each partition, and the label of each digit."""

    columns: tuple[LabelColumn, ...]
    labels: tuple[AnyArray, ...]  # for each partition, the labels of its digits from 1 up
    groups: tuple[tuple[int, ...], ...]  # for each key, its partitions; the last is the lowest

    __repr__ = short_repr

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(f"coterie_key_{g}" for g in range(len(self.groups)))

    @property
    def radices(self) -> Ints:
        """The radices r_v, shape (V,)."""
        return np.array([len(labels) + 1 for labels in self.labels], dtype=np.int64)

    @property
    def n_listed(self) -> list[int]:
        """Number of labels of each partition if they were listed, otherwise 0."""
        pairs = zip(self.columns, self.labels, strict=True)
        return [0 if column.is_ranged else len(labels) for column, labels in pairs]

    @property
    def has_missing(self) -> bool:
        """Whether any label of the table is missing."""
        return any(column.has_missing for column in self.columns)

    def as_label_matrix(self, keys: Sequence[Ints]) -> LabelMatrix:
        """Return the label matrix of packed rows, with only the labels that occur in them."""
        small = self.radices.max() <= np.iinfo(np.int16).max
        digits = [np.arange(-1, r - 1, dtype=np.int16 if small else np.int32) for r in self.radices]
        codes = unpack(keys, self.groups, digits, np.arange(len(self.columns)))
        categories = []
        for v, labels in enumerate(self.labels):
            seen = np.bincount(codes[:, v] + 1, minlength=len(labels) + 1)[1:] > 0
            categories.append(labels[seen])
            if not seen.all():
                dense = np.where(seen, np.cumsum(seen) - 1, MISSING).astype(codes.dtype)
                codes[:, v] = np.append(dense, codes.dtype.type(MISSING))[codes[:, v]]
        return LabelMatrix(codes, tuple(categories), tuple(c.name for c in self.columns))


def unpack(
    keys: Sequence[Ints],
    groups: Sequence[Sequence[int]],
    codes_of: Sequence[AnyArray],
    places: Ints,
) -> AnyArray:
    """Return the codes (n, V) of packed rows.

    ``codes_of[v]`` holds the code of each digit of partition v, which is column ``places[v]``.
    """
    n, radices = len(keys[0]), np.array([len(codes) for codes in codes_of], dtype=np.int64)
    codes = np.empty((n, len(codes_of)), dtype=codes_of[0].dtype)
    starts = np.concatenate([[0], np.cumsum(radices)[:-1]])
    lookup = np.concatenate(codes_of)
    for key, group in zip(keys, groups, strict=True):
        digits = np.array(group[::-1])
        arrays = (
            np.ascontiguousarray(key).view(np.uint64),
            radices[digits].astype(np.uint64),
            starts[digits],
            places[digits],
            lookup,
            codes,
        )
        map_row_blocks(partial(unpack_keys, *arrays), n)
    return codes


def pack_labels(
    table: ir.Table,
    names: Sequence[str],
    source: str,
    put: Callable[[pa.Table], ir.Table],
    carried: Sequence[str] = (),
) -> PackedTable:
    """Assign a digit of a key to every partition, a value of it to every label, and pack the rows.

    ``put`` copies an Arrow table to the engine, as ``ibis.memtable`` does.
    """
    import ibis

    n_rows, columns = profile_labels(table, names, source)
    labels = tuple(_labels_of(column, table) for column in columns)
    groups: list[list[int]] = []
    product = _LARGEST_KEY
    for v, known in enumerate(labels):
        radix = len(known) + 1
        if product * radix > _LARGEST_KEY:
            groups.append([])
            product = 1
        groups[-1].append(v)
        product *= radix
    layout = KeyLayout(tuple(columns), labels, tuple(map(tuple, groups)))

    values = {f"coterie_value_{v}": column.values for v, column in enumerate(columns)}
    rows = table.select(*carried, **values)
    for v, column in enumerate(columns):
        if not column.is_ranged:
            digits = np.arange(1, len(labels[v]) + 1, dtype=np.int64)
            numbered = {f"coterie_label_{v}": labels[v], f"coterie_digit_{v}": digits}
            same = (f"coterie_value_{v}", f"coterie_label_{v}")
            rows = rows.left_join(put(pa.table(numbered)), [same])

    def digit(v: int) -> ir.IntegerColumn:
        if not columns[v].is_ranged:
            return rows[f"coterie_digit_{v}"].fill_null(0)
        value = rows[f"coterie_value_{v}"]
        present = value.cast("int64") - (int(labels[v][0]) - 1)
        return (
            ibis.ifelse(value >= 0, present, 0).cast("int64") if columns[v].has_missing else present
        )

    keys = {}
    for name, group in zip(layout.key_names, groups, strict=True):
        keys[name] = digit(group[0])
        for v in group[1:]:
            keys[name] = keys[name] * int(len(labels[v]) + 1) + digit(v)
    # a view, so that further joins nest
    packed = rows.select(*carried, **keys).view()
    return PackedTable(packed, layout, n_rows, tuple(carried), put)


def _labels_of(column: LabelColumn, table: ir.Table) -> AnyArray:
    """Return the label of each digit from 1 up: a range of integers, or the sorted values."""
    if column.bounds is not None and column.is_ranged:
        return np.arange(column.bounds[0], column.bounds[1] + 1, dtype=np.int64)
    values = table.select(value=column.values).distinct()
    found = fetch(values.filter(values.value.notnull()).limit(_MOST_VALUES + 1))["value"]
    if len(found) > _MOST_VALUES:
        raise InvalidLabelsError(
            f"partition '{column.name}' has more than {_MOST_VALUES:,} different labels; if it is "
            "an id, pass it as one, or name the columns to use"
        )
    labels = found.to_numpy()
    if labels.dtype != object:
        return np.sort(labels[labels != -1])
    ends_in_nul = [label for label in labels if label.endswith("\0")]
    if ends_in_nul:
        # numpy drops a NUL at the end: the label would equal another one, or be empty
        raise InvalidLabelsError(
            f"partition '{column.name}' has {len(ends_in_nul):,} labels such as {ends_in_nul[0]!r} "
            "that end in the character NUL; remove it from them"
        )
    return np.sort(labels.astype(str))


# ---- Tuples and rows


@dataclass(frozen=True, eq=False)
class TupleCounts:
    """Distinct label tuples in the order of their keys, which is the same in every engine."""

    keys: list[Ints]  # one (u,) array per key
    counts: Ints  # (u,), number of rows with each tuple
    share: float = 1.0  # of all possible tuples, how many were eligible; below 1 for a sample

    __repr__ = short_repr

    @property
    def n_tuples(self) -> int:
        return len(self.counts)

    @property
    def estimate(self) -> int:
        """Estimated number of distinct tuples in the table."""
        return round(self.n_tuples / self.share)


@dataclass(frozen=True, eq=False)
class PackedTable:
    """A label table in its engine, with its labels packed into keys."""

    rows: ir.Table  # the carried columns and the keys
    layout: KeyLayout
    n_rows: int
    carried: tuple[str, ...]  # columns to copy to the output
    put: Callable[[pa.Table], ir.Table]  # copies an Arrow table to the engine
    is_grouped: bool = False  # the rows are distinct tuples, with the number of rows of each

    def count_tuples(self, at_most: int) -> TupleCounts | None:
        """Count all distinct tuples; return None if there are more than ``at_most``."""
        tuples = self._in_order(fetch(_counted(self._keys()).limit(at_most + 1)))
        if tuples.n_tuples > at_most:
            return None
        self.check_row_count(int(tuples.counts.sum()))
        return tuples

    def sample_tuples(self, share: float) -> TupleCounts:
        """Count the tuples whose hash is in the lowest ``share`` of the range of hashes.

        A sampled tuple has all of its rows, and the sample depends on the labels only. The number
        of its tuples s, divided by ``share``, estimates the number of all tuples without bias and
        with a relative error of about 1/√s.
        """
        keys, names = self._keys(), self.layout.key_names
        below = max(1, round(share * HASH_RANGE))
        if self.is_on_spark:
            # as an expression, the hash names every key many times, and Spark would compute the
            # key from its labels each time
            with engine_errors("pyspark cannot read the table"):
                frame = spark_frame(keys)
                sample = partial(_rows_of_low_hash, names, below)
                rows = frame.mapInArrow(sample, frame.schema).groupBy(*names).count()
                counted = rows.withColumnRenamed("count", COUNT_COLUMN).toArrow()
        else:
            hashed = key_hash([keys[name] for name in names])
            counted = fetch(_counted(keys.filter(hashed < below)))
        return replace(self._in_order(counted), share=below / HASH_RANGE)

    def is_repetitive(self, n_rows: int) -> bool:
        """Return whether ``n_rows`` rows hold at most half as many distinct tuples."""
        some = self._keys().limit(n_rows)
        counted = _counted(some)
        found = fetch(counted.aggregate(rows=counted[COUNT_COLUMN].sum(), tuples=counted.count()))
        (numbers,) = found.to_pylist()
        return bool(numbers["tuples"] <= numbers["rows"] / 2)

    def labelled(self, tuples: TupleCounts, fitted: Any) -> ir.Table:
        """Join the labels and margins of the tuples to the carried columns of every row."""
        names = [f"{name}_of_tuple" for name in self.layout.key_names]
        columns = dict(zip(names, tuples.keys, strict=True))
        columns |= {"label": fitted.labels_.astype(np.int32), "margin": fitted.margin_}
        same = list(zip(self.layout.key_names, names, strict=True))
        joined = self.rows.inner_join(self.put(pa.table(columns)), same)
        return joined.select(*self.carried, "label", "margin")

    @property
    def is_on_spark(self) -> bool:
        """Whether the rows are in Spark, whose executors can read them."""
        return bool(self.rows.get_backend().name == "pyspark")

    @contextlib.contextmanager
    def grouped(self, local: LocalTables) -> Iterator[PackedTable]:
        """Keep all distinct tuples with their counts in the engine while they are read repeatedly.

        The table that is yielded has the same rows.
        """
        with local.kept(_counted(self._keys())) as tuples:
            yield replace(self, rows=tuples, carried=(), is_grouped=True)

    def read(self, carried: Sequence[str] = ()) -> ir.Table:
        """Return the query of given columns, keys and, of grouped rows, counts."""
        counts = [COUNT_COLUMN] if self.is_grouped else []
        return self.rows.select(*carried, *self.layout.key_names, *counts)

    def batches(self, carried: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield the rows of :meth:`read` in batches of bounded size, each row once."""
        cells = _CELLS_A_BATCH // len(self.layout.columns)
        return batches(self.read(carried), max(_FEWEST_ROWS, min(_MOST_ROWS, cells)))

    def check_row_count(self, n_found: int) -> None:
        """Refuse to continue if packing lost or doubled rows, or if the table has changed."""
        if n_found != self.n_rows:
            raise TableError(
                f"the table had {self.n_rows:,} rows when its columns were read, and {n_found:,} "
                "when their labels were counted; either it is being written to, or the engine "
                "takes different labels for equal: write it to Parquet files and use these"
            )

    def _keys(self) -> ir.Table:
        return self.rows.select(*self.layout.key_names)

    def _in_order(self, table: pa.Table) -> TupleCounts:
        columns = [table[name].to_numpy() for name in self.layout.key_names]
        order = np.lexsort(columns)
        counts = table[COUNT_COLUMN].to_numpy()
        return TupleCounts([column[order] for column in columns], counts[order])


def key_hash(keys: Sequence[Any]) -> Any:
    """Return a hash below HASH_RANGE of keys, which are columns of an engine or arrays.

    It is (Σ_j m_j ρ_j)⁵ mod p with p = HASH_RANGE. The ρ_j are the remainders of all keys by three
    primes each, the m_j are powers of a primitive root of p. x ↦ x⁵ is a permutation that breaks
    the linear structure of the sum.
    """
    sums = []
    for g, key in enumerate(keys):
        factors = [pow(_MULTIPLIER, 3 * g + j, HASH_RANGE) for j in (1, 2, 3)]
        # all products are below 2⁵⁵
        terms = (key % modulus * m for modulus, m in zip(_MODULI, factors, strict=True))
        sums.append(functools.reduce(operator.add, terms) % HASH_RANGE)
    mixed = functools.reduce(operator.add, sums) % HASH_RANGE
    square = mixed * mixed % HASH_RANGE
    return square * square % HASH_RANGE * mixed % HASH_RANGE


def _rows_of_low_hash(
    names: Sequence[str], below: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose hash is below a bound; runs on an executor."""
    for batch in batches:
        yield batch.filter(pa.array(key_hash([numbers(batch, name) for name in names]) < below))


def numbers(batch: pa.RecordBatch, name: str) -> AnyArray:
    return np.asarray(batch[name].to_numpy(zero_copy_only=False))


def _counted(keys: ir.Table) -> ir.Table:
    return keys.group_by(list(keys.columns)).agg(**{COUNT_COLUMN: keys.count()})
