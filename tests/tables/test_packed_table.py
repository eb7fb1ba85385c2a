"""Distinct tuples of a packed table, counted by the engine or estimated from a sample of them."""

from __future__ import annotations

from dataclasses import replace

import ibis
import numpy as np
import pyarrow as pa
import pytest

from coterie.errors import TableError
from coterie.tables.engines import LocalTables, connect
from coterie.tables.keys import PackedTable, lay_out, profile_labels


def pack(rows: pa.Table) -> PackedTable:
    """Pack a table whose columns are all partitions."""
    table = ibis.memtable(rows)
    layout = lay_out(profile_labels(table, list(table.columns), "t"), table)
    packed = layout.packed(table, [], ibis.memtable)
    return PackedTable(packed, layout, rows.num_rows, (), ibis.memtable)


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    """Return 20,000 rows of 25 columns, about 4,400 distinct, too long for one key."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 10, (5000, 25))
    return kinds[rng.integers(0, 5000, 20_000) * rng.integers(0, 5, 20_000) // 4]


@pytest.fixture(scope="module")
def table(labels) -> PackedTable:
    """Return the packed rows."""
    packed = pack(pa.table({f"p{v}": labels[:, v] for v in range(25)}))
    assert len(packed.layout.groups) == 2
    return packed


def test_counts_are_those_of_numpy(table, labels):
    """Every distinct row has its count, and the tuples are in the order of their keys."""
    found = table.count_tuples(10_000)
    tuples, counts = np.unique(labels, axis=0, return_counts=True)
    assert found.n_tuples == found.estimate == len(tuples)
    matrix = table.layout.as_label_matrix(found.keys)
    named = np.column_stack([c[matrix.codes[:, v]] for v, c in enumerate(matrix.categories)])
    order = np.lexsort(named.T[::-1])
    assert np.array_equal(named[order], tuples)
    assert np.array_equal(found.counts[order], counts)
    assert np.array_equal(np.lexsort(found.keys), np.arange(found.n_tuples))


def test_too_many_tuples_give_none(table):
    """The limit itself is allowed."""
    n_tuples = table.count_tuples(10_000).n_tuples
    assert table.count_tuples(n_tuples).n_tuples == n_tuples
    assert table.count_tuples(n_tuples - 1) is None


def test_lost_or_doubled_rows_are_refused(table):
    """Counting compares the number of rows with that of the profile."""
    for rows in (table.rows.union(table.rows), table.rows.limit(19_999)):
        with pytest.raises(TableError, match=r"had 20,000 rows .* and (40,000|19,999) when"):
            replace(table, rows=rows).count_tuples(10_000)


def test_batches_hold_every_row_once(table):
    """The keys read in batches are those that the engine counts."""
    keys = [
        np.concatenate([batch[name] for batch in table.batches()]) for name in table.rows.columns
    ]
    _, counts = np.unique(np.column_stack(keys), axis=0, return_counts=True)
    assert sorted(counts) == sorted(table.count_tuples(10_000).counts)


def test_grouped_rows_are_the_tuples_with_their_counts():
    """They are read in batches, and dropped at the end."""
    connection = connect(threads=1)
    with LocalTables(connection) as local:
        rows = local.add(pa.table({"p": [1, 2, 1, 1], "q": ["a", "b", "a", "b"]}))
        layout = lay_out(profile_labels(rows, ["p", "q"], "t"), rows)
        packed = PackedTable(layout.packed(rows, ["p"], local.add), layout, 4, ("p",), local.add)
        expected = packed.count_tuples(10)
        with packed.grouped(local) as grouped:
            found = pa.Table.from_batches(grouped.batches()).sort_by("coterie_key_0")
            n_tables = len(connection.con.sql("FROM duckdb_tables()").fetchall())
        assert found["coterie_key_0"].to_pylist() == expected.keys[0].tolist()
        assert found["coterie_count"].to_pylist() == expected.counts.tolist()
        assert len(connection.con.sql("FROM duckdb_tables()").fetchall()) == n_tables - 1


def test_a_sample_has_whole_tuples_and_estimates_their_number(table):
    """Sampled tuples have all of their rows; the estimate is within four standard deviations."""
    everything = table.count_tuples(10_000)
    counts = dict(zip(zip(*everything.keys, strict=True), everything.counts, strict=True))
    sample = table.sample_tuples(0.2)
    for *key, count in zip(*sample.keys, sample.counts, strict=True):
        assert counts[tuple(key)] == count
    spread = 4 * np.sqrt(sample.n_tuples) / sample.share
    assert abs(sample.estimate - everything.n_tuples) < spread
    assert table.sample_tuples(1.0).n_tuples == everything.n_tuples


@pytest.mark.parametrize(("n_labels", "repetitive"), [(3, True), (10**9, False)])
def test_repetition_is_seen_in_some_rows(n_labels, repetitive):
    """Rows with few distinct tuples are repetitive."""
    column = np.random.default_rng(0).integers(0, n_labels, 2000)
    assert pack(pa.table({"p": column})).is_repetitive(1000) is repetitive
