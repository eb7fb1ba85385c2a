"""Sweeps over batches of rows compared with a sweep over all rows in one batch."""

from __future__ import annotations

import functools
import operator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import RobustConsensus, planted_partitions
from coterie.counts.cluster_tables import ClusterTables
from coterie.engines.label_tables.streamed_consensus import (
    AssignmentRule,
    SweepCounts,
    sweep_until_converged,
    threshold_cost,
)
from coterie.inspection.scores import mirkin_objective
from coterie.labels.encode import as_label_matrix
from coterie.labels.tuples import compress_labels


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
        AssignmentRule(tuples.without_points(), replace(tables, complete=missing == 0), 0.5),
    )


def counted(rule: AssignmentRule, batches: list[np.ndarray]) -> SweepCounts:
    """Return the counts of all batches: one sweep."""
    return functools.reduce(operator.add, map(rule.count, batches))


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
    whole = rule.count(codes)
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
        rule.count(codes, times.astype(float)),
        rule.count(codes.repeat(times, axis=0)),
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
    found = sweep_until_converged(lambda r: r.count(codes), rule, max_sweeps=6, tol=0.0)
    assert threshold_cost(found.counted.tables, threshold) == min(found.costs) <= found.costs[0]
    assert all(np.diff(found.costs[:-1]) < 0)
    first = rule.count(codes).tables
    assert found.counted.tables.score(threshold) >= first.score(threshold)
    assert same(found.rule.count(codes).tables, found.counted.tables)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_cost_weighs_the_two_ways_to_differ(missing):
    """The cost equals a count over all pairs of points; at τ = ½ it is J."""
    P, codes, rule = rows_and_rule(5, missing)
    labels, found = rule.assign(codes)[0], rule.count(codes).tables
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
    once = sweep_until_converged(lambda r: r.count(codes), rule, max_sweeps=1)
    assert len(once.costs) == 1 and once.rule is rule
    impatient = sweep_until_converged(lambda r: r.count(codes), rule, max_sweeps=9, tol=0.999)
    assert len(impatient.costs) == 2


def test_rows_that_no_vote_labels_follow_the_other_partitions():
    """Such rows have margin 0; a row without any label is in no cluster."""
    tuples = compress_labels(as_label_matrix([[0, 0], [0, 0], [1, 1], [1, 1]]))
    codes = tuples.expand(tuples.codes)
    tables = ClusterTables.of(tuples, tuples.labels_of_partition(0), np.array([1.0, 0.0]), 2)
    rule = AssignmentRule(tuples, replace(tables, complete=False), 0.5)
    rows = codes[[0, 2, 0]].copy()
    rows[1:, 0], rows[2, 1] = -1, -1
    labels, margin = rule.assign(rows)
    assert labels[1] == rule.assign(codes)[0][2] != labels[0]
    assert (labels[2], margin.tolist()) == (-1, [1.0, 0.0, 0.0])
