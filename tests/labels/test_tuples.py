"""Label tuples: compression, their order, and growth."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from all_partitions import same_partition
from coterie.consensus.registry import make_consensus
from coterie.errors import InvalidLabelsError, LabelWarning
from coterie.labels.encode import as_label_matrix
from coterie.labels.soft import as_memberships
from coterie.labels.tuples import (
    append_partitions,
    as_label_tuples,
    compress_labels,
    compress_memberships,
    group_rows,
    known_tuples,
    order_colours,
    recoded_rows,
    refine_colours,
)
from label_matrices import assert_same_tuples, label_matrices
from soft_memberships import any_partitions, random_memberships, soft_partitions

properties = settings(deadline=None, max_examples=25)
seeds = st.integers(0, 99)


@properties
@given(P=label_matrices())
def test_tuples_are_the_distinct_rows(P):
    """Tuples and weights are the unique rows of numpy with their counts, each in its columns."""
    matrix = as_label_matrix(P)
    tuples = compress_labels(matrix)
    _, inverse, counts = np.unique(P, axis=0, return_inverse=True, return_counts=True)
    assert same_partition(tuples.inverse, inverse.ravel())
    assert_array_equal(tuples.expand(tuples.weights), counts[inverse.ravel()])
    assert (tuples.n_tuples, tuples.n_points) == (len(counts), len(P))
    assert_array_equal(tuples.in_given_order(tuples.n_labels), matrix.n_labels)
    codes = tuples.expand(tuples.codes)
    assert_array_equal(tuples.columns_of(matrix.codes), codes)
    assert_array_equal(tuples.subset(slice(None)).columns_of(matrix.codes[::-1]), codes[::-1])
    full = tuples.without_compression()
    assert_array_equal(full.codes, codes)
    assert_array_equal(full.weights, np.ones(len(P)))
    assert_array_equal(full.inverse, np.arange(len(P)))


@properties
@given(P=any_partitions, seed=seeds)
def test_tuples_do_not_depend_on_the_order_of_input(P, seed):
    """Permuting points and partitions or renaming labels does not change codes and weights.

    This holds if all tuples differ in colour; tuples of equal colour are interchangeable.
    """
    rng, one = np.random.default_rng(seed), as_label_tuples(P)
    points, partitions = rng.permutation(len(P[0])), rng.permutation(len(P))
    other = as_label_tuples([P[v][points][:, rng.permutation(P[v].shape[1])] for v in partitions])
    assert_array_equal(one.offsets, other.offsets)
    assert sorted(one.weights) == sorted(other.weights)
    weights = one.weights.astype(np.uint64)
    colours, *_ = refine_colours(one.codes, one.offsets, weights, one.memberships)
    assume(len(np.unique(colours)) == one.n_tuples)
    for field in ("codes", "weights", *(["memberships"] if one.memberships is not None else [])):
        assert_array_equal(getattr(one, field), getattr(other, field))
    assert_array_equal(one.inverse[points], other.inverse)


def test_columns_keep_the_names_of_their_partitions():
    """Names follow their partitions when columns are sorted or dropped; arrays have numbers."""
    y = np.arange(12)
    table = {"halves": y // 6, "all": y, "thirds": y // 4}
    tuples = as_label_tuples(table)
    for column, name in enumerate(tuples.partition_names):
        labels = tuples.expand(tuples.labels_of_partition(column))
        assert same_partition(labels, table[name])
    kept = np.array([name != "halves" for name in tuples.partition_names])
    assert set(tuples.restricted_to(kept)[0].partition_names) == {"all", "thirds"}
    assert set(as_label_tuples(np.column_stack([y, y // 2])).partition_names) == {"0", "1"}


@pytest.mark.parametrize("n_labels", [100, 33_000])
def test_codes_are_contiguous(n_labels):
    """Codes are C-contiguous, in two bytes or four."""
    P = np.column_stack([np.arange(n_labels), np.arange(n_labels) % 7, np.arange(n_labels) % 3])
    tuples = as_label_tuples(np.asfortranarray(P))
    restricted, _ = tuples.restricted_to(tuples.partition_order > 0)
    for some in (tuples, restricted, tuples.without_compression()):
        assert some.codes.flags.c_contiguous
    assert tuples.columns_of(as_label_matrix(P).codes).flags.c_contiguous
    assert tuples.codes.dtype == (np.int16 if n_labels == 100 else np.int32)
    assert tuples.codes.max() == tuples.n_columns - 1 == n_labels + 9
    assert restricted.n_tuples == 21


@pytest.mark.parametrize("method", ["one-hot", "l2"])
def test_interchangeable_tuples_give_one_objective(method):
    """If tuples are interchangeable, every order of the rows gives the same J."""
    tables = [
        np.repeat(np.arange(5), [12, 10, 5, 4, 4])[:, None] * np.ones((1, 5), dtype=int),
        np.array([[4, 1, 4], [4, 2, 3], [0, 4, 4], [1, 4, 4], [1, 1, 4], [2, 3, 4], [0, 0, 0]]),
    ]
    rng = np.random.default_rng(0)
    for P, K in zip(tables, (4, 2), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = {
                round(make_consensus(method, K, 0).fit(P[rng.permutation(len(P))]).objective_, 6)
                for _ in range(3)
            }
        assert len(found) == 1


def indicator_of(tuples):
    """Return Z of the points, (n, m)."""
    return tuples.expand(tuples.indicator(np.ones(tuples.n_partitions)).toarray())


@properties
@given(P=any_partitions, seed=seeds)
def test_tuples_hold_the_memberships(P, seed):
    """Z, masses and squares are those of the given partitions, labels or memberships."""
    tuples = as_label_tuples(P)
    order, V = tuples.partition_order, len(P)
    assert_allclose(indicator_of(tuples)[:, tuples.recode], np.hstack([m[:, m.any(0)] for m in P]))
    mass = np.column_stack([m.sum(axis=1) for m in P])[:, order]
    assert_allclose(tuples.expand(tuples.mass), mass)
    squares = np.column_stack([(m**2).sum(axis=1) for m in P])[:, order]
    assert_allclose(tuples.expand(tuples.squares), squares)
    whole, used = mass > 1 - 1e-9, np.random.default_rng(seed).random(V) < 0.5
    assert tuples.has_missing == (not whole.all())
    assert tuples.is_complete(used * 2.0) == whole[:, used].all()
    labelled = tuples.expand(tuples.has_weighted_label(used * 2.0))
    assert_array_equal(labelled, (mass[:, used] > 0).any(axis=1))


@properties
@given(P=any_partitions, seed=seeds)
def test_slots_and_labels_follow_the_indicator(P, seed):
    """Slots hold the entries of Z; a label is the column of the largest one of a partition."""
    tuples, rng = as_label_tuples(P), np.random.default_rng(seed)
    Z, rows = indicator_of(tuples), np.arange(tuples.n_tuples)[:, None]
    codes, values = tuples.slots()
    from_slots = np.zeros((tuples.n_tuples, tuples.n_columns + 1))
    np.add.at(from_slots, (rows, codes), values)
    assert_array_equal(tuples.expand(from_slots[:, :-1]), Z)
    for v in range(tuples.n_partitions):
        own = Z[:, tuples.offsets[v] : tuples.offsets[v + 1]]
        expected = np.where(own.any(axis=1), own.argmax(axis=1), -1)
        assert_array_equal(tuples.expand(tuples.labels_of_partition(v)), expected)
    by_partition, by_tuple = rng.random(tuples.n_partitions), rng.random((tuples.n_tuples, 1))
    scaled = tuples.indicator(by_partition).toarray()
    assert_allclose(tuples.expand(scaled), Z * np.repeat(by_partition, tuples.n_labels))
    scaled = tuples.indicator(by_tuple).toarray()
    assert_allclose(tuples.expand(scaled), Z * tuples.expand(by_tuple))


@properties
@given(P=any_partitions, seed=seeds)
def test_restriction_keeps_the_memberships(P, seed):
    """Restricted tuples have the columns of the kept partitions, and merge equal rows."""
    tuples = as_label_tuples(P)
    kept = np.random.default_rng(seed).random(len(P)) < 0.5
    kept[0] = True
    restricted, group = tuples.restricted_to(kept)
    assert (restricted is tuples) == kept.all()
    columns = np.repeat(kept, tuples.n_labels)
    Z = indicator_of(tuples)[:, columns]
    assert_array_equal(indicator_of(restricted), Z)
    assert restricted.n_tuples == len(np.unique(Z, axis=0))
    assert_array_equal(group[tuples.inverse], restricted.inverse)
    assert_array_equal(np.bincount(restricted.inverse), restricted.weights)
    assert_array_equal(restricted.partition_order, tuples.partition_order[kept])
    # the remaining clusters stay in the user's order
    remaining = tuples.recode[columns[tuples.recode]]
    assert_array_equal(np.flatnonzero(columns)[restricted.recode], remaining)
    every = tuples.without_compression()
    assert_array_equal(indicator_of(every), indicator_of(tuples))
    assert every.n_tuples == len(P[0]) == tuples.subset(slice(None)).n_points


def test_new_points_get_the_slots_of_their_tuples():
    """Memberships of the fitted points are read back; hard ones are labels."""
    P = random_memberships(np.random.default_rng(0), 30, [3, 4, 2])
    tuples = as_label_tuples(P)
    codes, memberships = tuples.slots_of(as_memberships(P))
    assert_array_equal(codes, tuples.expand(tuples.codes))
    assert_array_equal(memberships, tuples.expand(tuples.memberships))
    assert as_label_tuples(tuples) is tuples
    labels = np.array([[0, 1], [1, 0], [2, 2], [0, 1]])
    assert_same_tuples(as_label_tuples([np.eye(3)[y] for y in labels.T]), as_label_tuples(labels))
    assert repr(as_label_tuples(labels)).startswith("LabelTuples(codes=int16 (3, 2), offsets=")


@properties
@given(P=any_partitions, seed=seeds)
def test_points_set_apart_are_tuples_of_their_own(P, seed):
    """Weights and Z of the points stay; tuples without a point left are gone."""
    rng, tuples = np.random.default_rng(seed), as_label_tuples(P)
    n = len(P[0])
    weights, points = rng.integers(1, 9, n).astype(float), rng.permutation(n)[: n // 2]
    tuples = replace(tuples, weights=np.bincount(tuples.inverse, weights))
    apart, kept = tuples.with_points_apart(points, weights)
    assert_array_equal(indicator_of(apart), indicator_of(tuples))
    assert_array_equal(np.bincount(apart.inverse, weights), apart.weights)
    assert apart.inverse[points].tolist() == list(range(len(kept), apart.n_tuples))
    assert_array_equal(apart.codes[: len(kept)], tuples.codes[kept])


@given(st.integers(1, 30), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_every_row_finds_its_tuple(n, seed):
    """Fitted rows find their tuple, the first of equal ones; rows not fitted find none."""
    rng = np.random.default_rng(seed)
    tuples = as_label_tuples(rng.integers(0, 3, (n, 2)))
    rows = rng.integers(-1, tuples.n_columns, (20, 2)).astype(tuples.codes.dtype)
    tuples, _ = tuples.with_points_apart(np.arange(rng.integers(0, 2)))
    every = tuples.codes.tolist()
    expected = [every.index(row) if row in every else -1 for row in rows.tolist()]
    assert known_tuples(rows, None, tuples).tolist() == expected


def test_soft_rows_are_compared_by_their_memberships():
    """Rows with the same clusters but other memberships are different."""
    tuples = as_label_tuples([np.array([[0.9, 0.1], [0.5, 0.5], [0.9, 0.1]])])
    codes, shares = tuples.slots()
    assert known_tuples(codes, shares, tuples).tolist() == [0, 1]
    assert known_tuples(codes, shares[::-1], tuples).tolist() == [1, 0]
    assert known_tuples(codes[:1], shares[:1] / 2, tuples).tolist() == [-1]


def path(n):
    """Tuples of which neighbours share a cluster in one of two partitions."""
    return np.column_stack([np.arange(n) // 2, (np.arange(n) + 1) // 2])


SOME_OF_4000 = np.random.default_rng(2).integers(0, 4000, 5000)


@pytest.mark.parametrize("n", [21, 40])
def test_colours_are_refined_to_the_end(n):
    """On a path of tuples only mirror images share a colour."""
    tuples = as_label_tuples(path(n))
    colours, *_ = refine_colours(tuples.codes, tuples.offsets, tuples.weights.astype(np.uint64))
    at_point = tuples.expand(colours)
    # for odd n the mirror image swaps the two partitions
    assert_array_equal(at_point, at_point[::-1])
    assert len(np.unique(at_point)) == (n + 1) // 2


@pytest.mark.parametrize("shares", [None, np.array([[0.25, 0.75], [0.5, 0.5]])])
def test_missing_labels_and_memberships_colour(shares):
    """A missing label differs from every cluster, and other memberships differ."""
    codes = np.array([[0, 2], [1, -1]] if shares is None else [[0, 1], [0, 1]], dtype=np.int16)
    offsets = np.array([0, 2, 3] if shares is None else [0, 2])
    tuples, clusters, _ = order_colours(codes, offsets, np.ones(2), shares)
    assert tuples[0] != tuples[1] and clusters[0] != clusters[1]


@properties
@given(
    st.sampled_from([np.int8, np.int16, np.int32, np.int64]).flatmap(
        lambda dtype: arrays(
            dtype,
            array_shapes(min_dims=2, max_dims=2, max_side=30),
            elements=st.integers(-1, 2),
        )
    )
)
@example(np.random.default_rng(0).integers(-1, 30_000, (4000, 6), np.int16)[SOME_OF_4000])
@example(np.random.default_rng(1).integers(-1, 30_000, (50, 6), np.int16)[SOME_OF_4000 % 50])
def test_groups_are_the_unique_rows(codes):
    """Only equal rows share a group, even if hashes collide; groups have the order of appearance.

    Rows may be strided in memory.
    """
    for rows in (codes, codes[::2, ::-2]):
        first, inverse, counts = group_rows(rows)
        _, np_first, np_inverse, np_counts = np.unique(
            rows, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(np_first)
        assert_array_equal(first, np_first[order])
        assert_array_equal(counts, np_counts[order])
        assert_array_equal(inverse, np.argsort(order)[np_inverse.ravel()])


@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_recoded_rows(dtype, monkeypatch):
    """Rows and columns are selected and codes looked up, on any number of threads."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 4, (500, 6)).astype(dtype)
    rows, columns = rng.permutation(500)[:300], rng.permutation(6)[:4]
    starts, lookup = np.arange(4) * 4, rng.permutation(16).astype(np.int32)
    taken = codes[rows[:, None], columns]
    expected = np.where(taken < 0, -1, lookup[taken + starts])
    monkeypatch.setattr("coterie.labels.tuples._MIN_THREAD_ROWS", 10)
    for threads in ("1", "4"):
        monkeypatch.setenv("COTERIE_NUM_THREADS", threads)
        found = recoded_rows(codes, rows, columns, starts, lookup)
        assert found.dtype == lookup.dtype
        assert_array_equal(found, expected)


@settings(max_examples=25, deadline=None)
@given(label_matrices(max_points=14, max_partitions=6), st.data())
def test_tuples_are_those_of_all_partitions(P, data):
    """Adding partitions gives the tuples of all partitions compressed together, weighted or not."""
    P = P[:, (P >= 0).any(axis=0)]
    assume(P.shape[1] > 1)
    n_before = data.draw(st.integers(1, P.shape[1] - 1))
    weights = data.draw(st.sampled_from([None, np.arange(1.0, len(P) + 1)]))
    fitted = as_label_matrix(P[:, :n_before], allow_unlabelled_rows=True)
    before = compress_labels(fitted, weights)
    tuples, _ = append_partitions(before, fitted.without_rows(), P[:, n_before:], weights)
    assert_same_tuples(tuples, compress_labels(as_label_matrix(P), weights))


def test_many_labels_take_wider_codes():
    """Codes get four bytes if the old or the new partitions have many clusters."""
    few, many = (np.arange(40_000)[:, None] % K for K in (2, 40_000))
    for old, new in ((few, many), (many, few)):
        fitted = as_label_matrix(old)
        found, _ = append_partitions(compress_labels(fitted), fitted, new)
        assert_same_tuples(found, compress_labels(as_label_matrix(np.hstack([old, new]))))


@settings(max_examples=25, deadline=None)
@given(soft_partitions(), st.data())
def test_soft_tuples_are_those_of_all_partitions(P, data):
    """Adding membership matrices gives the tuples of all matrices compressed together."""
    assume(len(P) > 1)
    n_before = data.draw(st.integers(1, len(P) - 1))
    fitted = as_memberships(P[:n_before], allow_unlabelled_rows=True)
    weights = data.draw(st.sampled_from([None, np.arange(1.0, len(P[0]) + 1)]))
    before = compress_memberships(fitted, weights)
    tuples, names = append_partitions(before, fitted.without_rows(), P[n_before:], weights)
    whole = as_memberships(P)
    assert_same_tuples(tuples, compress_memberships(whole, weights))
    assert names.n_points == 0 and names.names == whole.names
    for field in ("columns", "widths"):
        assert (getattr(names, field) == getattr(whole, field)).all()


@pytest.mark.parametrize(
    ("fitted", "new", "words"),
    [
        ([[0], [1]], [[0], [1], [1]], r"have 3 rows \(points\), the fitted ones have 2; give"),
        ({"a": [0, 1]}, {"b": [0, 1], "a": [0, 1]}, r"'a' \(new column 1\) was fitted already"),
        ({"a": [0, 1]}, pd.DataFrame([[0, 1], [1, 1]], columns=["b", "b"]), "'b' .* given twice"),
        ([[0], [1]], [np.eye(2)], "partitions are labels, but the new ones are membership"),
        ([np.eye(2)], [[0], [1]], "are membership matrices, but the new ones are labels"),
        ([np.eye(2)], [np.eye(3)], r"have 3 rows \(points\), the fitted ones have 2; give"),
    ],
)
def test_partitions_that_do_not_fit_are_refused(fitted, new, words):
    """Other points, other kinds of partitions and partitions given twice are refused."""
    soft = isinstance(fitted[0], np.ndarray) if isinstance(fitted, list) else False
    read = as_memberships(fitted) if soft else as_label_matrix(fitted)
    before = compress_memberships(read) if soft else compress_labels(read)
    with pytest.raises(InvalidLabelsError, match=words):
        append_partitions(before, read, new)


def test_columns_without_names_continue_the_numbers():
    """New columns are numbered after the fitted ones; places of empty columns count all columns."""
    with pytest.warns(LabelWarning):
        fitted = as_label_matrix([[0, -1], [1, -1]])
        tuples, both = append_partitions(compress_labels(fitted), fitted, [[-1, 0, 0], [-1, 1, 0]])
    assert both.names == tuples.names == ("0", "1", "2")
    assert both.empty == (1, 2)
    assert append_partitions(tuples, both, {"c": [0, 1]})[1].names == ("0", "1", "2", "c")
