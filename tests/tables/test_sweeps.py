"""Sweeps over batches of rows equal a sweep over all rows in memory."""

from __future__ import annotations

import functools
import operator
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import RobustConsensus, planted_partitions
from coterie.counts.cluster_tables import ClusterTables
from coterie.errors import TableError
from coterie.inspection.scores import mirkin_objective
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import compress_labels
from coterie.tables import keys
from coterie.tables.engines import LocalTables
from coterie.tables.keys import PackedTable, lay_out, profile_labels
from coterie.tables.outputs import TableOutput
from coterie.tables.sweeps import (
    AssignmentRule,
    SweepCounts,
    _partial_sums,
    count_rows,
    fit_tuples,
    sweep_until_converged,
    threshold_cost,
    write_labels,
)
from engine_tables import engine_with_table


def rows_and_rule(seed: int, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray, AssignmentRule]:
    """Return labels, their indicator columns, and a rule fitted on a tenth of the rows."""
    rng = np.random.default_rng(seed)
    P, _ = planted_partitions([150, 100, 50], 7, 2, 0.3, random_state=seed)
    P = np.where(rng.random(P.shape) < missing, -1, P)
    P[(P < 0).all(axis=1), 0] = 0
    tuples = compress_labels(as_label_matrix(P))
    codes = np.ascontiguousarray(tuples.expand(tuples.codes))
    few = rng.choice(300, 30, replace=False)
    labels = RobustConsensus(3, random_state=0).fit(P).labels_[few].astype(np.int64)
    sample = replace(tuples, codes=codes[few], weights=np.ones(30))
    tables = ClusterTables.of(sample, labels, np.ones(7), 3)
    return (
        P,
        codes,
        rule_of(tuples, replace(tables, complete=missing == 0)),
    )


def rule_of(tuples, tables) -> AssignmentRule:
    """Return a rule for rows that are given by their codes."""
    return AssignmentRule((), (), (), np.arange(0), tuples, tables, 0.5)


def count(rule: AssignmentRule, codes: np.ndarray, weights=None) -> SweepCounts:
    """Count rows, each with weight 1 unless weights are given."""
    return rule.count_codes(codes, np.ones(len(codes)) if weights is None else weights)


def counted(rule: AssignmentRule, batches: list[np.ndarray]) -> SweepCounts:
    """Return the counts of all batches: one sweep."""
    return functools.reduce(operator.add, (count(rule, one) for one in batches))


def same(one: ClusterTables, other: ClusterTables) -> bool:
    """Return whether two tables hold equal counts."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("table", "present", "size")
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(st.integers(0, 50), st.lists(st.integers(0, 300), max_size=6), st.booleans())
def test_batches_count_what_one_batch_counts(seed, edges, with_gaps):
    """Size and order of batches do not change the counts."""
    _, codes, rule = rows_and_rule(seed, 0.2 if with_gaps else 0.0)
    batches = [part for part in np.split(codes, sorted(edges)) if len(part)]
    whole = count(rule, codes)
    for found in (counted(rule, batches), counted(rule, batches[::-1])):
        assert same(found.tables, whole.tables)
        assert found.n_rows == whole.n_rows == 300
        assert found.margin == pytest.approx(whole.margin)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_weighted_tuples_count_what_their_rows_count(missing):
    """A row of weight w adds what w equal rows add."""
    _, codes, rule = rows_and_rule(2, missing)
    times = np.random.default_rng(0).integers(1, 5, len(codes))
    found, expected = (
        count(rule, codes, times.astype(float)),
        count(rule, codes.repeat(times, axis=0)),
    )
    assert same(found.tables, expected.tables) and found.n_rows == expected.n_rows == times.sum()
    assert found.margin == pytest.approx(expected.margin)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_one_sweep_is_an_assignment_and_a_count(missing):
    """A sweep equals an assignment of all rows in memory; J is that of its labels."""
    P, codes, rule = rows_and_rule(3, missing)
    labels, _ = rule.assign(codes)
    found = counted(rule, np.array_split(codes, 7)).tables
    tuples = replace(rule.tuples, codes=codes, weights=np.ones(len(codes)))
    assert same(found, ClusterTables.of(tuples, labels, rule.tables.alpha, 3))
    if not missing:
        assert found.objective() == pytest.approx(mirkin_objective(P, labels))


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_the_cost_never_rises(seed, threshold):
    """The result has the smallest cost of all sweeps, and its tables are those of its rule."""
    _, codes, rule = rows_and_rule(seed, 0.1)
    rule = replace(rule, threshold=threshold)
    found = sweep_until_converged(lambda r: count(r, codes), rule, max_sweeps=6, tol=0.0)
    assert threshold_cost(found.counted.tables, threshold) == min(found.costs) <= found.costs[0]
    assert all(np.diff(found.costs[:-1]) < 0)
    first = count(rule, codes).tables
    assert found.counted.tables.score(threshold) >= first.score(threshold)
    assert same(count(found.rule, codes).tables, found.counted.tables)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_cost_weighs_the_two_ways_to_differ(missing):
    """The cost equals a count over all pairs of points; at τ = ½ it is J."""
    P, codes, rule = rows_and_rule(5, missing)
    labels, found = rule.assign(codes)[0], count(rule, codes).tables
    together = labels[:, None] == labels
    for threshold in (0.25, 0.5):
        cost = 0.0
        for column in P.T:
            seen = (column[:, None] >= 0) & (column >= 0)
            same = column[:, None] == column
            cost += 2 * threshold * (seen & together & ~same).sum() / 7
            cost += 2 * (1 - threshold) * (seen & same & ~together).sum() / 7
        assert threshold_cost(found, threshold) == pytest.approx(cost)
    assert threshold_cost(found, 0.5) == pytest.approx(found.objective())


def test_sweeps_stop_when_little_is_gained_or_there_were_enough():
    """Sweeps end after the first small gain, or at the limit."""
    _, codes, rule = rows_and_rule(1, 0.1)
    once = sweep_until_converged(lambda r: count(r, codes), rule, max_sweeps=1)
    assert len(once.costs) == 1 and once.rule is rule
    impatient = sweep_until_converged(lambda r: count(r, codes), rule, max_sweeps=9, tol=0.999)
    assert len(impatient.costs) == 2


def test_rows_that_no_vote_labels_follow_the_other_partitions():
    """Such rows have margin 0; a row without any label is in no cluster."""
    tuples = compress_labels(as_label_matrix([[0, 0], [0, 0], [1, 1], [1, 1]]))
    codes = tuples.expand(tuples.codes)
    tables = ClusterTables.of(tuples, tuples.labels_of_partition(0), np.array([1.0, 0.0]), 2)
    rule = rule_of(tuples, replace(tables, complete=False))
    rows = codes[[0, 2, 0]].copy()
    rows[1:, 0], rows[2, 1] = -1, -1
    labels, margin = rule.assign(rows)
    assert labels[1] == rule.assign(codes)[0][2] != labels[0]
    assert (labels[2], margin.tolist()) == (-1, [1.0, 0.0, 0.0])


N_ROWS = 600


@pytest.fixture
def case(tmp_path, monkeypatch):
    """Return a packed table read 100 rows at a time, and a consensus of a sample of it."""
    monkeypatch.setattr(keys, "_MOST_ROWS", 100)
    monkeypatch.setattr(keys, "_FEWEST_ROWS", 1)
    P, _ = planted_partitions([300, 200, 100], 8, 2, 0.15, random_state=0)
    rows = pa.table({"id": np.arange(N_ROWS)} | {f"p{v}": P[:, v] for v in range(8)})
    connection = engine_with_table("duckdb", rows, tmp_path)
    with LocalTables(connection) as local:
        table = connection.table("t")
        layout = lay_out(profile_labels(table, [f"p{v}" for v in range(8)], "t"), table)
        packed = PackedTable(
            layout.packed(table, ["id"], local.add), layout, N_ROWS, ("id",), local.add
        )
        fitted = fit_tuples(RobustConsensus(3, random_state=0), layout, packed.sample_tuples(0.5))
        yield packed, fitted, AssignmentRule.of(fitted, layout), rows.drop_columns("id"), local
    connection.disconnect()


def test_a_sweep_counts_every_row_once(case):
    """Rows in batches and weighted tuples count what all rows in memory count."""
    packed, _, rule, _, local = case
    names = packed.layout.key_names
    codes = rule.codes([pa.Table.from_batches(packed.batches())[k].to_numpy() for k in names])
    expected = count(rule, codes)
    assert max(batch.num_rows for batch in packed.batches()) <= 100
    with packed.grouped(local) as grouped:
        for table in (packed, grouped):
            found = count_rows(table, rule)
            assert same(found.tables, expected.tables) and found.n_rows == N_ROWS
            assert found.margin == pytest.approx(expected.margin)
        with pytest.raises(TableError, match="had 599 rows"):
            count_rows(replace(grouped, n_rows=599), rule)


def test_a_rule_that_is_pickled_counts_the_same(case):
    """Executors of Spark get the rule without the rows of the sample; their sums add up."""
    packed, _, rule, _, _ = case
    sent = pickle.loads(pickle.dumps(rule))
    assert len(pickle.dumps(rule)) < 20_000
    parts = [list(_partial_sums(sent, [batch])) for batch in packed.batches()]
    sums = np.zeros(rule.tables.table.size + 5)
    for part in parts:
        for rows in part:
            sums[rows["place"].to_numpy()] += rows["value"].to_numpy()
    expected = count_rows(packed, rule)
    assert np.array_equal(sums[:-5], expected.tables.table.ravel())
    assert np.array_equal(sums[-5:-2], expected.tables.size) and sums[-2] == N_ROWS
    assert sums[-1] == pytest.approx(expected.margin)
    assert list(_partial_sums(sent, [])) == []


def test_a_table_that_changes_is_refused(case, tmp_path):
    """Rows that come or go between the passes are noticed, and nothing is written."""
    packed, _, rule, _, _ = case
    changed = replace(packed, n_rows=601)
    with pytest.raises(TableError, match=r"had 601 rows .* and 600 when"):
        count_rows(changed, rule)
    output = TableOutput(tmp_path / "out.parquet", is_folder=False)
    with pytest.raises(TableError, match="had 601 rows"), output.unfinished() as folder:
        write_labels(changed, rule, output, folder)
    assert not output.path.exists()
