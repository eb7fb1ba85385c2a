"""Label tuples packed into a few integers by the engine, and unpacked by numpy."""

from __future__ import annotations

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InvalidLabelsError
from coterie.labels.encode import as_label_matrix
from coterie.tables import keys as packed_keys
from coterie.tables.engines import fetch
from coterie.tables.keys import HASH_RANGE, KeyLayout, lay_out, profile_labels


def packed(columns: dict) -> tuple[KeyLayout, pa.Table]:
    """Return the layout of a table, and its keys and hashes in the order of its rows."""
    rows = pa.table({"row": np.arange(len(next(iter(columns.values())))), **columns})
    table = ibis.memtable(rows)
    layout = lay_out(profile_labels(table, list(columns), "the table"), table)
    found = layout.packed(table, ["row"], ibis.memtable)
    keys = fetch(found.mutate(hashed=layout.key_hash(found))).sort_by("row")
    return layout, keys


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
    """Return whether a cell holds a label."""
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


def test_the_matrix_is_that_of_the_rows_themselves():
    """Unpacked keys equal as_label_matrix of the rows."""
    rng = np.random.default_rng(0)
    P = rng.integers(-1, 5, (200, 30))
    P[:, 0] = np.arange(200) % 7
    layout, keys = packed({f"p{v}": P[:, v] for v in range(30)})
    ours = layout.as_label_matrix([keys[name].to_numpy() for name in layout.key_names])
    theirs = as_label_matrix(P)
    assert np.array_equal(ours.codes, theirs.codes)
    assert [c.tolist() for c in ours.categories] == [c.tolist() for c in theirs.categories]


def test_forty_columns_of_ten_clusters_are_three_integers():
    """A key has as many digits as fit in 63 bits."""
    layout, keys = packed({f"p{v}": np.array([0, 9]) for v in range(40)})
    assert [len(group) for group in layout.groups] == [18, 18, 4]
    assert all(11.0 ** len(group) < 2.0**63 for group in layout.groups)
    assert keys["coterie_key_0"].to_pylist()[1] == sum(10 * 11**d for d in range(18))


def test_equal_tuples_and_no_others_have_equal_keys():
    """The number of distinct keys is the number of distinct rows."""
    P = np.random.default_rng(1).integers(-1, 2, (500, 6))
    P[(P < 0).all(axis=1), 0] = 0
    layout, keys = packed({f"p{v}": P[:, v] for v in range(6)})
    distinct = {tuple(row) for row in P.tolist()}
    assert len(set(zip(*(keys[k].to_pylist() for k in layout.key_names), strict=True))) == len(
        distinct
    )


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
    layout, keys = packed({"p": np.array([2**64 - 1, 5, 2**64 - 1], dtype=np.uint64)})
    matrix = layout.as_label_matrix([keys[name].to_numpy() for name in layout.key_names])
    assert matrix.categories[0][matrix.codes[:, 0]].tolist() == [2**64 - 1, 5, 2**64 - 1]


def test_a_column_like_an_id_is_refused(monkeypatch):
    """A column with too many different values is no partition."""
    monkeypatch.setattr(packed_keys, "_MOST_VALUES", 5)
    with pytest.raises(InvalidLabelsError, match="'name' has more than 5 different labels"):
        packed({"name": [f"user {i}" for i in range(6)]})
