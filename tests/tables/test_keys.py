"""Label columns: profile, keys that are the tuples, counted and sampled tuples."""

from __future__ import annotations

import datetime
from dataclasses import replace

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InvalidLabelsError, LabelWarning, TableError
from coterie.labels.encode import as_label_matrix
from coterie.tables import keys as packed_keys
from coterie.tables.engines import LocalTables, connect, fetch
from coterie.tables.keys import (
    HASH_RANGE,
    KeyLayout,
    PackedTable,
    key_hash,
    pack_labels,
    profile_labels,
    read_text_as_in_csv,
)

BAD = {
    "negative": pa.array([0, -2, 1]),
    "fraction": pa.array([0.0, 1.5, 1.0]),
    "infinite": pa.array([0.0, np.inf, 1.0]),
    "huge": pa.array([0.0, 2.0**60, 1.0]),
    "float32 beyond its digits": pa.array([0.0, 2.0**25, 1.0], pa.float32()),
    "no label": pa.array([-1, None, -1]),
    "no text": pa.array(["", None, ""]),
    "nothing": pa.array([None, None, None], pa.float64()),
    "days": pa.array([datetime.date(2026, 3, 2)] * 3),
    "lists": pa.array([[1], [2], [3]]),
}


def parquet(tmp_path, columns: dict):
    """Write a table to Parquet, whose statistics engines use, and open it."""
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    return connect(threads=1).read_parquet(str(tmp_path / "t.parquet"))


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_a_label_is_refused_as_in_memory(kind, tmp_path):
    """The engine and as_label_matrix refuse the same columns, by name."""
    columns = {"fine": pa.array([0, 1, 2]), "odd one": BAD[kind]}
    with pytest.raises(InvalidLabelsError, match="'odd one'"):
        profile_labels(parquet(tmp_path, columns), list(columns), "t")
    # in memory a column without labels is left out with a warning
    with pytest.raises((InvalidLabelsError, LabelWarning), match="'odd one'"):
        as_label_matrix(pa.table(columns))


def test_bounds_and_gaps_are_found_in_every_kind_of_column(tmp_path):
    """All types of integers, floats, booleans and text; NaN is missing in spite of statistics."""
    columns = {
        "small": pa.array([3, 7, 5], pa.int8()),
        "unsigned": pa.array([3, None, 5], pa.uint16()),
        "minus one": pa.array([-1, 7, 5]),
        "float": pa.array([1.0, 4.0, np.nan], pa.float32()),
        "double": pa.array([None, 4.0, np.nan]),
        "truth": pa.array([True, False, True]),
        "text": pa.array(["a", "", "b"]),
        "category": pa.array(["a", "b", "b"]).dictionary_encode(),
    }
    n_rows, found = profile_labels(parquet(tmp_path, columns), list(columns), "t")
    assert n_rows == 3
    assert {column.name: (column.bounds, column.has_missing) for column in found} == {
        "small": ((3, 7), False),
        "unsigned": ((3, 5), True),
        "minus one": ((0, 7), True),
        "float": ((1, 4), True),
        "double": ((4, 4), True),
        "truth": ((0, 1), False),
        "text": (None, True),
        "category": (None, False),
    }


def test_tables_without_rows_and_rows_without_labels_are_refused(tmp_path):
    """The message has the name of the table, or the number of such rows."""
    with pytest.raises(TableError, match="march has no rows"):
        profile_labels(parquet(tmp_path, {"a": pa.array([], pa.int64())}), ["a"], "march")
    columns = {"a": [0, -1, None, 1], "b": ["x", "", None, ""], "c": [np.nan, np.nan, np.nan, 1.0]}
    with pytest.raises(InvalidLabelsError, match="without a label in any partition: 2;"):
        profile_labels(parquet(tmp_path, columns), list(columns), "t")


def test_text_is_read_as_in_a_csv():
    """Integers and words for missing are; other text is kept, and measurements are refused."""
    table = ibis.memtable(
        pa.table(
            {
                "numbers": [" 3", "NA", "-1", "12"],
                "padded": ["03", "3", "null", "4"],
                "long": ["9" * 30, "1", "", "2"],
                "words": ["a ", "nan", "1.5", " "],
            }
        )
    )
    read = read_text_as_in_csv(table, list(table.columns), "t.csv")
    assert fetch(read).to_pydict() == {
        "numbers": [3, None, -1, 12],
        "padded": ["03", "3", None, "4"],
        "long": ["9" * 30, "1", None, "2"],
        "words": ["a ", None, "1.5", None],
    }
    for cells in (["1.37", "2", "1e3"], ["1,37", "2", "1,0"]):
        table = ibis.memtable(pa.table({"height": cells}))
        with pytest.raises(InvalidLabelsError, match=f"'height' of t.csv holds {cells[0]}"):
            read_text_as_in_csv(table, ["height"], "t.csv")


def packed(columns: dict) -> tuple[KeyLayout, pa.Table]:
    """Return the layout of a table, and its keys and hashes in the order of its rows."""
    rows = pa.table({"row": np.arange(len(next(iter(columns.values())))), **columns})
    table = ibis.memtable(rows)
    found = pack_labels(table, list(columns), "the table", ibis.memtable, ["row"])
    hashed = key_hash([found.rows[name] for name in found.layout.key_names])
    return found.layout, fetch(found.rows.mutate(hashed=hashed)).sort_by("row")


def label_columns() -> st.SearchStrategy[dict]:
    """Draw a few columns of one length: small or far apart integers, text, missing labels."""
    integers = st.integers(0, 9)
    kinds = [
        st.one_of(st.none(), st.just(-1), integers),
        st.one_of(st.none(), integers.map(lambda x: x * 10**17)),
        st.one_of(st.none(), st.sampled_from(["", "a", "b'", "ä\n", "NA"])),
    ]
    return st.integers(1, 12).flatmap(
        lambda n: st.lists(
            st.sampled_from(kinds).flatmap(lambda kind: st.lists(kind, min_size=n, max_size=n)),
            min_size=1,
            max_size=4,
        ).map(lambda columns: {"all": list(range(n))} | dict(zip("pqrs", columns, strict=False)))
    )


def is_label(value: object) -> bool:
    return value is not None and value not in (-1, "")


@settings(deadline=None, max_examples=40)
@given(label_columns())
def test_keys_come_back_as_the_labels_they_were_made_of(columns):
    """Unpacked keys give every label and every missing cell back."""
    columns = {name: col for name, col in columns.items() if any(map(is_label, col))}
    layout, keys = packed({name: pa.array(col) for name, col in columns.items()})
    matrix = layout.as_label_matrix([keys[name].to_numpy() for name in layout.key_names])
    for v, (name, column) in enumerate(columns.items()):
        assert matrix.names[v] == name
        labels = [matrix.categories[v][c] if c >= 0 else None for c in matrix.codes[:, v]]
        assert labels == [value if is_label(value) else None for value in column]


def test_forty_columns_of_ten_clusters_are_three_integers():
    """A key has as many digits as fit in 63 bits."""
    layout, keys = packed({f"p{v}": np.array([0, 9]) for v in range(40)})
    assert [len(group) for group in layout.groups] == [18, 18, 4]
    assert all(11.0 ** len(group) < 2.0**63 for group in layout.groups)
    assert keys["coterie_key_0"].to_pylist()[1] == sum(10 * 11**d for d in range(18))


def test_hashes_are_those_of_python_and_spread_evenly():
    """Hashes equal the formula in exact integers and are uniformly distributed."""
    P = np.random.default_rng(2).integers(0, 10, (5000, 40))
    layout, keys = packed({f"p{v}": P[:, v] for v in range(40)})
    hashed = keys["hashed"].to_numpy()
    for row in range(50):
        rests = [keys[k][row].as_py() % m for k in layout.key_names for m in packed_keys._MODULI]
        total = sum(rest * packed_keys._MULTIPLIER ** (j + 1) for j, rest in enumerate(rests))
        assert hashed[row] == pow(total, 5, HASH_RANGE)
    shares = np.histogram(hashed, bins=10, range=(0, HASH_RANGE))[0] / 5000
    assert np.abs(shares - 0.1).max() < 0.02


def test_hashes_of_radices_that_are_powers_of_two_differ():
    """About u² / 2p pairs of u tuples collide, although 2³¹ mod p = 1."""
    P = np.random.default_rng(3).integers(0, 3, (20_000, 31))
    layout, keys = packed({f"p{v}": P[:, v] for v in range(31)})
    assert set(layout.radices) == {4} and len(layout.groups) == 1
    n_tuples = len(np.unique(keys["coterie_key_0"].to_numpy()))
    assert n_tuples - len(np.unique(keys["hashed"].to_numpy())) < 10


def test_texts_that_numpy_cannot_hold_are_refused():
    """numpy drops a NUL at the end, so that such text would equal another."""
    with pytest.raises(InvalidLabelsError, match=r"'p' has 1 labels such as 'a\\x00' that end"):
        packed({"p": ["a", "a\0", "b"]})
    layout, keys = packed({"p": ["a", "\0a", "b"]})
    assert len(set(keys["coterie_key_0"].to_pylist())) == len(layout.labels[0]) == 3


def test_unsigned_labels_beyond_63_bits_are_labels():
    """Labels up to 2⁶⁴ − 1 are numbered by a join."""
    for labels in ([2**64 - 1, 5, 2**64 - 1], [2**64 - 1, 2**64 - 2, 2**64 - 2]):
        layout, keys = packed({"p": np.array(labels, dtype=np.uint64)})
        matrix = layout.as_label_matrix([keys[name].to_numpy() for name in layout.key_names])
        assert matrix.categories[0][matrix.codes[:, 0]].tolist() == labels


def test_a_column_like_an_id_is_refused(monkeypatch):
    """A column with too many different values is no partition."""
    monkeypatch.setattr(packed_keys, "_MOST_VALUES", 5)
    with pytest.raises(InvalidLabelsError, match="'name' has more than 5 different labels"):
        packed({"name": [f"user {i}" for i in range(6)]})


def pack(rows: pa.Table) -> PackedTable:
    """Pack a table whose columns are all partitions."""
    return pack_labels(ibis.memtable(rows), rows.column_names, "t", ibis.memtable)


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    """Return 20,000 rows of 25 columns, about 4,400 distinct, too long for one key."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 10, (5000, 25))
    return kinds[rng.integers(0, 5000, 20_000) * rng.integers(0, 5, 20_000) // 4]


@pytest.fixture(scope="module")
def table(labels) -> PackedTable:
    packed = pack(pa.table({f"p{v}": labels[:, v] for v in range(25)}))
    assert len(packed.layout.groups) == 2
    return packed


def test_counts_are_those_of_numpy(table, labels):
    """Tuples have their counts, in the order of their keys; there are None if they are too many."""
    found = table.count_tuples(10_000)
    tuples, counts = np.unique(labels, axis=0, return_counts=True)
    assert found.n_tuples == found.estimate == len(tuples)
    matrix = table.layout.as_label_matrix(found.keys)
    named = np.column_stack([c[matrix.codes[:, v]] for v, c in enumerate(matrix.categories)])
    order = np.lexsort(named.T[::-1])
    assert np.array_equal(named[order], tuples)
    assert np.array_equal(found.counts[order], counts)
    assert np.array_equal(np.lexsort(found.keys), np.arange(found.n_tuples))
    assert table.count_tuples(found.n_tuples).n_tuples == found.n_tuples
    assert table.count_tuples(found.n_tuples - 1) is None


def test_lost_or_doubled_rows_are_refused(table):
    """Counting compares the number of rows with that of the profile."""
    for rows in (table.rows.union(table.rows), table.rows.limit(19_999)):
        with pytest.raises(TableError, match=r"had 20,000 rows .* and (40,000|19,999) when"):
            replace(table, rows=rows).count_tuples(10_000)


def test_grouped_rows_are_the_tuples_with_their_counts():
    """They are read in batches, and dropped at the end."""
    connection = connect(threads=1)
    with LocalTables(connection) as local:
        rows = local.add(pa.table({"p": [1, 2, 1, 1], "q": ["a", "b", "a", "b"]}))
        packed = pack_labels(rows, ["p", "q"], "t", local.add, ["p"])
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
