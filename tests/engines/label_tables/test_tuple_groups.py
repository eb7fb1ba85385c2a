"""Distinct tuples, counted by the engine or estimated from a sample of them."""

from __future__ import annotations

import ibis
import numpy as np
import pyarrow as pa
import pytest

from coterie.engines.label_tables.label_profile import profile_labels
from coterie.engines.label_tables.packed_keys import lay_out
from coterie.engines.label_tables.tuple_groups import are_repetitive, count_tuples, sample_tuples
from coterie.errors import TableError


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    """20,000 rows of 25 columns, about 4,400 distinct: too many for one key."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 10, (5000, 25))
    return kinds[rng.integers(0, 5000, 20_000) * rng.integers(0, 5, 20_000) // 4]


@pytest.fixture(scope="module")
def packed(labels):
    """The packed table and its layout."""
    table = ibis.memtable(pa.table({f"p{v}": labels[:, v] for v in range(25)}))
    layout = lay_out(profile_labels(table, list(table.columns), "t"), table)
    assert len(layout.groups) == 2
    return layout.packed(table, [], ibis.memtable), layout


def test_counts_are_those_of_numpy(packed, labels):
    """Every distinct row with its number, in the order of the keys."""
    rows, layout = packed
    found = count_tuples(rows, layout, 10_000, 20_000)
    tuples, counts = np.unique(labels, axis=0, return_counts=True)
    assert found.n_tuples == found.estimate == len(tuples)
    matrix = layout.as_label_matrix(found.keys)
    named = np.column_stack([c[matrix.codes[:, v]] for v, c in enumerate(matrix.categories)])
    order = np.lexsort(named.T[::-1])
    assert np.array_equal(named[order], tuples)
    assert np.array_equal(found.counts[order], counts)
    assert np.array_equal(np.lexsort(found.keys), np.arange(found.n_tuples))


def test_too_many_tuples_are_not_brought_here(packed):
    """One more than allowed is enough to know."""
    rows, layout = packed
    n_tuples = count_tuples(rows, layout, 10_000, 20_000).n_tuples
    assert count_tuples(rows, layout, n_tuples, 20_000).n_tuples == n_tuples
    assert count_tuples(rows, layout, n_tuples - 1, 20_000) is None


def test_rows_that_are_lost_or_doubled_are_noticed(packed):
    """Before anything is made of their counts."""
    rows, layout = packed
    for doubled in (rows.union(rows), rows.limit(19_999)):
        with pytest.raises(TableError, match=r"had 20,000 rows .* and (40,000|19,999) when"):
            count_tuples(doubled, layout, 10_000, 20_000)


def test_a_sample_has_whole_tuples_and_estimates_their_number(packed):
    """Each tuple in it with all of its rows; within four standard deviations of the truth."""
    rows, layout = packed
    everything = count_tuples(rows, layout, 10_000, 20_000)
    counts = dict(zip(zip(*everything.keys, strict=True), everything.counts, strict=True))
    sample = sample_tuples(rows, layout, 0.2)
    for *key, count in zip(*sample.keys, sample.counts, strict=True):
        assert counts[tuple(key)] == count
    spread = 4 * np.sqrt(sample.n_tuples) / sample.share
    assert abs(sample.estimate - everything.n_tuples) < spread
    assert sample_tuples(rows, layout, 1.0).n_tuples == everything.n_tuples


def test_repetition_is_seen_in_some_rows():
    """Few tuples among them, or as many as rows."""
    for n_labels, repetitive in ((3, True), (10**9, False)):
        column = np.random.default_rng(0).integers(0, n_labels, 2000)
        assert are_repetitive(ibis.memtable(pa.table({"key": column})), 1000) is repetitive
