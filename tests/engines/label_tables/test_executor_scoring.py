"""The scorer of the executors gives what the compiled kernels give, bit by bit."""

from __future__ import annotations

import ast
import itertools
import sys
from dataclasses import replace
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.counts.cluster_tables import ClusterTables
from coterie.engines.label_tables import executor_scoring
from coterie.engines.label_tables.executor_scoring import (
    COUNT_COLUMN,
    batches_of_low_hash,
    count_batches,
    label_batches,
    n_counts,
)
from coterie.engines.label_tables.label_profile import LabelColumn
from coterie.engines.label_tables.packed_keys import HASH_RANGE, KeyLayout
from coterie.engines.label_tables.spark_passes import row_scorer, sweep_counts
from coterie.engines.label_tables.streamed_consensus import AssignmentRule, RowCoder
from coterie.engines.queries import fetch
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import compress_labels

N_ROWS, N_LABELS = 90, 4


def packed_rows(P: np.ndarray) -> tuple[KeyLayout, pa.RecordBatch]:
    """Pack labels −1..3 of V columns, at most three to a key; return layout and keys."""
    V = P.shape[1]
    columns = tuple(LabelColumn(f"p{v}", None, (0, 3), bool((P[:, v] < 0).any())) for v in range(V))
    groups = tuple(tuple(range(v, min(v + 3, V))) for v in range(0, V, 3))
    layout = KeyLayout(columns, (np.arange(N_LABELS),) * V, groups)
    keys = []
    for group in groups:
        key = np.zeros(len(P), dtype=np.int64)
        for v in group:
            key = key * (N_LABELS + 1) + P[:, v] + 1
        keys.append(pa.array(key))
    return layout, pa.RecordBatch.from_arrays(keys, layout.key_names)


def rule_and_rows(
    seed: int, V: int, missing: float, weights: str
) -> tuple[RowCoder, AssignmentRule, pa.RecordBatch]:
    """Return a rule fitted on a third of random rows, which lacks some labels, and all rows."""
    rng = np.random.default_rng(seed)
    P = rng.integers(0, rng.integers(1, N_LABELS, V, endpoint=True), (N_ROWS, V))
    P[rng.random(P.shape) < missing] = -1
    layout, batch = packed_rows(P)
    known = P[: N_ROWS // 3]
    known[0, (known < 0).all(axis=0)] = 0
    matrix = as_label_matrix(known[(known >= 0).any(axis=1)])
    tuples = compress_labels(matrix)
    coder = RowCoder.of(layout, tuples, matrix)
    alpha = {"equal": np.ones(V), "fractions": rng.random(V), "zeros": 1.0 * (rng.random(V) < 0.4)}
    chosen = alpha[weights] if alpha[weights].any() else np.eye(V)[0]
    labels = rng.integers(0, 3, tuples.n_tuples)
    tables = ClusterTables.of(tuples, labels, chosen, 4)  # cluster 3 is empty
    tables = replace(tables, complete=tables.complete and not coder.leaves_some_missing)
    return coder, AssignmentRule(tuples, tables, rng.choice([0.3, 0.5, 0.9])), batch


cases = {
    "seed": st.integers(0, 10**6),
    "V": st.integers(1, 11),
    "missing": st.sampled_from([0.0, 0.2, 0.8]),
    "weights": st.sampled_from(["equal", "fractions", "zeros"]),
}


@settings(deadline=None, max_examples=150)
@given(**cases, complete=st.booleans())
def test_labels_and_margins_are_those_of_the_kernels(seed, V, missing, weights, complete):
    """Also with missing labels, partitions of weight 0, rows without a vote, and ties."""
    coder, rule, batch = rule_and_rows(seed, V, missing, weights)
    if complete:  # a complete table may place rows with gaps
        present = np.broadcast_to(rule.tables.size, rule.tables.present.shape).copy()
        rule = replace(rule, tables=replace(rule.tables, present=present, complete=True))
    codes = coder.codes_of_keys([batch[name].to_numpy() for name in coder.layout.key_names])
    labels, margin = rule.assign(codes)
    (found,) = label_batches(row_scorer(coder, rule), (), [batch])
    assert found["label"].to_pylist() == labels.tolist()
    assert found["margin"].to_pylist() == margin.tolist()


@settings(deadline=None, max_examples=100)
@given(**cases, is_grouped=st.booleans(), edges=st.lists(st.integers(0, N_ROWS), max_size=3))
def test_counts_are_those_of_the_kernels(seed, V, missing, weights, is_grouped, edges):
    """The sums over any batches, of rows or of tuples with counts, are those of all rows."""
    coder, rule, batch = rule_and_rows(seed, V, missing, weights)
    times = np.random.default_rng(seed).integers(1, 9, N_ROWS) if is_grouped else np.ones(N_ROWS)
    codes = coder.codes_of_keys([batch[name].to_numpy() for name in coder.layout.key_names])
    expected = rule.count(codes, times.astype(float))
    if is_grouped:
        batch = batch.append_column(COUNT_COLUMN, pa.array(times))
    scorer = row_scorer(coder, rule)
    bounds = [0, *sorted(edges), N_ROWS]
    sums = np.zeros(n_counts(scorer))
    for start, stop in itertools.pairwise(bounds):
        for part in count_batches(scorer, [batch[start:stop]]):
            sums[part["place"].to_numpy()] += part["value"].to_numpy()
    found = sweep_counts(sums, rule)
    for name in ("table", "present", "size"):
        assert np.array_equal(getattr(found.tables, name), getattr(expected.tables, name))
    assert found.n_rows == expected.n_rows == times.sum()
    assert found.margin == pytest.approx(expected.margin, rel=1e-12)


def test_hashes_are_those_of_the_engine():
    """The same rows are below a bound in NumPy and in DuckDB, also of keys near 2⁶³."""
    keys = {f"coterie_key_{g}": np.random.default_rng(g).integers(0, 2**63, 2000) for g in range(2)}
    layout = KeyLayout((), (), ((0,), (1,)))
    table = ibis.memtable(pa.table(keys))
    below = HASH_RANGE // 3
    expected = fetch(table.filter(layout.key_hash(table) < below))
    batches = pa.table(keys).to_batches(700)
    found = batches_of_low_hash(layout.hash_factors, HASH_RANGE, below, batches)
    rows = pa.Table.from_batches(found)
    assert 500 < rows.num_rows < 800
    assert rows.sort_by("coterie_key_0").equals(expected.sort_by("coterie_key_0"))


def test_tables_larger_than_a_batch_are_counted():
    """A count of few rows in a large table and one of many rows are the same."""
    counts = {}
    cells, weights = np.array([3, 1, 3, 999]), np.array([2.0, 1.0, 5.0, 1.0])
    for size in (1000, 10):
        counts[size] = np.zeros(size)
        executor_scoring._add(counts[size], cells % size, weights)
    assert counts[1000][[1, 3, 999]].tolist() == [1.0, 7.0, 1.0] and counts[1000].sum() == 9
    assert counts[10][[1, 3, 9]].tolist() == [1.0, 7.0, 1.0] and counts[10].sum() == 9


def test_the_module_needs_only_numpy_and_pyarrow():
    """Executors have no other package; numpy and pyarrow are those that Spark needs itself."""
    tree = ast.parse(Path(executor_scoring.__file__).read_text(encoding="utf-8"))
    imported = {
        (node.names[0].name if isinstance(node, ast.Import) else node.module).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported - set(sys.stdlib_module_names) == {"numpy", "pyarrow"}
