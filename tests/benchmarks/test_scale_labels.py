"""Large tables: what is drawn is what is written, whatever the size and the chunks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import scale_labels
from benchmarks.scale_labels import Recipe, label_chunks, write_labels
from coterie.inspection.scores import adjusted_rand_index, contingency


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of few rows, so that small tables have several."""
    monkeypatch.setattr(scale_labels, "CHUNK_ROWS", 4096)


def rows_of(recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """All labels (n, V) and the truth (n,) of a recipe."""
    chunks = list(label_chunks(recipe))
    P = np.vstack([np.column_stack(chunk.columns) for chunk in chunks])
    return P, np.concatenate([chunk.y for chunk in chunks])


@pytest.mark.parametrize("family", ["fixed", "diverse"])
def test_a_smaller_table_is_the_beginning_of_a_larger_one(small_chunks, family):
    """What is drawn for a row depends on neither n nor the chunks after it."""
    P, y = rows_of(Recipe(family, 9000))
    head, head_y = rows_of(Recipe(family, 5000))
    np.testing.assert_array_equal(head, P[:5000])
    np.testing.assert_array_equal(head_y, y[:5000])
    assert not np.array_equal(P[:4096], P[4096:8192])


@pytest.mark.parametrize(("family", "most"), [("fixed", 10), ("diverse", 40)])
def test_right_partitions_split_the_truth_and_wrong_ones_another(small_chunks, family, most):
    """Without noise a right label lies in one cluster of y; wrong ones know nothing of y."""
    recipe = Recipe(family, 4000, noise=0.0)
    P, y = rows_of(recipe)
    n_labels = [len(np.unique(column)) for column in P.T]
    assert recipe.n_wrong == 16
    assert min(n_labels) >= 10
    assert max(n_labels) <= most
    assert len(set(n_labels)) > 5 or family == "fixed"
    for column in P.T[:24]:
        assert (np.diff(contingency(column, y).indptr) == 1).all()
    for column in P.T[24:]:
        assert abs(adjusted_rand_index(column, y)) < 0.02
        assert adjusted_rand_index(column, P[:, -1]) > 0.3


def test_noise_redraws_its_share_of_the_labels(small_chunks):
    """A redrawn label is the old one in one of ten cases: 18% differ of 20% redrawn."""
    P, _ = rows_of(Recipe("fixed", 4000, noise=0.2))
    clean, _ = rows_of(Recipe("fixed", 4000, noise=0.0))
    np.testing.assert_allclose((P != clean).mean(axis=0), 0.18, atol=0.03)
    assert (P != clean).mean() == pytest.approx(0.18, abs=0.005)


@settings(deadline=None, max_examples=15)
@given(
    n=st.integers(1, 9000),
    V=st.integers(1, 6),
    K=st.integers(1, 31),
    family=st.sampled_from(["fixed", "diverse"]),
)
def test_labels_fit_into_a_byte(n, V, K, family):
    """Whatever n, V and K: n rows, labels from 0 up to 4K − 1 at most, clusters below K."""
    P, y = rows_of(Recipe(family, n, V, K))
    assert P.shape == (n, V)
    assert P.dtype == np.int8
    assert 0 <= P.min() <= P.max() < (4 * K if family == "diverse" else K)
    assert y.max() < K


def test_what_is_written_is_what_was_drawn(small_chunks, tmp_path):
    """An int64 id, a byte a label, a row group a chunk; the truth is found by id."""
    recipe = Recipe("diverse", 5000)
    files = write_labels(recipe, tmp_path)
    table, (P, y) = pq.read_table(files.table), rows_of(recipe)
    assert [field.type for field in table.schema] == [pa.int64()] + [pa.int8()] * 40
    assert pq.ParquetFile(files.table).num_row_groups == 2
    np.testing.assert_array_equal(table["id"], np.arange(5000))
    np.testing.assert_array_equal(np.column_stack(table.columns[1:]), P)
    np.testing.assert_array_equal(np.load(files.truth), y)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "diverse-5000-truth.npy",
        "diverse-5000.parquet",
    ]


@pytest.mark.parametrize("spoil", ["recipe", "table", "truth"])
def test_a_table_is_written_once_unless_it_is_another(small_chunks, tmp_path, spoil):
    """Of another seed, damaged, or without its truth it is written anew; else it stays."""
    recipe = Recipe("fixed", 100)
    files = write_labels(recipe, tmp_path)
    first = files.table.stat().st_ino
    assert write_labels(recipe, tmp_path).table.stat().st_ino == first
    if spoil == "recipe":
        recipe = replace(recipe, seed=1)
    elif spoil == "table":
        files.table.write_bytes(b"PAR1 or not")
    else:
        files.truth.unlink()
    write_labels(recipe, tmp_path)
    np.testing.assert_array_equal(np.load(files.truth), rows_of(recipe)[1])
    np.testing.assert_array_equal(pq.read_table(files.table)["p0"], rows_of(recipe)[0][:, 0])
