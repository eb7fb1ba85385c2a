"""Tables that stay in an engine: the generated tables, their scores, and runs that are killed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import tables as benchmark
from benchmarks.planted_tables import (
    N_CLUSTERS,
    N_PARTITIONS,
    N_TUPLES,
    N_WRONG,
    NOISE_PERCENT,
    PlantedTables,
)
from coterie.errors import TableError
from coterie.inspection.scores import clustering_accuracy

N_ROWS = 12_000
PRIME = 2**31 - 1


def mixed(x):
    """Return the hash of the recipe, in Python's integers."""
    return (x * 48271 + 11) ** 2 % PRIME * 1000003 % PRIME


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return tables in a folder whose name has special characters of SQL and globs."""
    folder = tmp_path_factory.mktemp("tables") / "it's [here]"
    folder.mkdir()
    with PlantedTables(folder) as made:
        yield made


@pytest.fixture(scope="module")
def expected():
    """Return truth and labels of every row, computed in Python."""
    found: dict[tuple[int, ...], int] = {}
    for number in range(2 * N_TUPLES):
        draws = [mixed(mixed(number * 64 + place) + 7) for place in range(2 + 2 * N_PARTITIONS)]
        truth = int(np.searchsorted([35, 60, 78, 91], draws[0] % 100, side="right"))
        votes = [truth] * (N_PARTITIONS - N_WRONG) + [draws[1] % N_CLUSTERS] * N_WRONG
        for v in range(N_PARTITIONS):
            if draws[2 + v] % 100 < NOISE_PERCENT:
                votes[v] = draws[2 + N_PARTITIONS + v]
        found.setdefault(tuple((vote + v) % N_CLUSTERS for v, vote in enumerate(votes)), truth)
    tuples = list(found)[:N_TUPLES]
    later = [mixed(i) ** 2 // PRIME * N_TUPLES // PRIME for i in range(N_TUPLES, N_ROWS)]
    of_row = np.concatenate([np.arange(N_TUPLES), later]).astype(int)
    return np.array([found[votes] for votes in tuples])[of_row], np.array(tuples)[of_row]


def write(path, labels, margin=0.5, ids=None):
    """Write a table as the program does."""
    ids = np.arange(len(labels)) if ids is None else np.asarray(ids)
    margin = np.broadcast_to(np.asarray(margin, dtype=float), len(ids))
    columns = {"id": ids, "label": np.asarray(labels, dtype=np.int32), "margin": margin}
    pq.write_table(pa.table(columns), path)
    return path


def test_a_table_follows_the_recipe(tables, expected):
    """Every label of every row, in small types; all prototypes occur."""
    table = pq.read_table(tables.file(N_ROWS)).sort_by("id")
    names = [f"p{v}" for v in range(N_PARTITIONS)]
    assert table.schema.types == [pa.int64(), *[pa.uint8()] * N_PARTITIONS]
    assert table["id"].to_pylist() == list(range(N_ROWS))
    P = np.column_stack([table[n] for n in names])
    assert np.array_equal(P, expected[1]) and len(np.unique(P, axis=0)) == N_TUPLES


@pytest.mark.parametrize("n_labels", [3, 9])
def test_accuracy_equals_that_of_the_library(tables, expected, tmp_path, n_labels):
    """DuckDB counts what the library computes from arrays, in any order of rows."""
    rng = np.random.default_rng(n_labels)
    redrawn = rng.integers(n_labels, size=N_ROWS)
    labels = np.where(rng.random(N_ROWS) < 0.4, redrawn, (expected[0] + 2) % n_labels)
    order = rng.permutation(N_ROWS)
    out = write(tmp_path / "out.parquet", labels[order], ids=order)
    assert tables.accuracy(out, N_ROWS) == pytest.approx(clustering_accuracy(expected[0], labels))


@pytest.mark.parametrize(
    "ids",
    [
        range(N_ROWS - 1),
        [0, *range(N_ROWS - 1)],
        [0, 0, 3, 3, *range(4, N_ROWS)],
    ],
)
def test_lost_or_repeated_ids_are_no_answer(tables, tmp_path, ids):
    """Also where their number, or their number and their sum, are right."""
    out = write(tmp_path / "out.parquet", np.zeros(len(ids)), ids=ids)
    with pytest.raises(TableError, match="not the 12,000 ids"):
        tables.accuracy(out, N_ROWS)


@pytest.mark.parametrize(
    ("change", "n_different"),
    [
        ({"margin": [0.5 + 1e-13, 0.5, 0.5]}, 0),
        ({"margin": [0.5 + 1e-11, 0.5, 0.5]}, 1),
        ({"margin": [np.nan, 0.5, 0.5]}, 1),
        ({"labels": [0, 1, 1]}, 1),
        ({"ids": [2, 1, 0], "labels": [2, 1, 0]}, 0),
        ({"ids": [0, 1, 7]}, 2),
    ],
)
def test_different_rows_are_counted(tables, tmp_path, change, n_different):
    """Rows are joined by id; a folder of files is a table too."""
    one = write(tmp_path / "one.parquet", [0, 1, 2])
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "part.parquet", **{"labels": [0, 1, 2], **change})
    (tmp_path / "other" / "_SUCCESS").touch()
    assert tables.n_different(one, tmp_path / "other") == n_different
    assert tables.n_different(tmp_path / "other", one) == n_different


def test_the_state_of_an_output(tables, tmp_path):
    """No output, a whole one, and partial ones; unfinished folders of this run only."""
    bench = benchmark.Bench(tables, tmp_path)
    whole, out = write(tmp_path / "whole.parquet", [0, 1, 2]), tmp_path / "out.parquet"
    assert bench.output_state(out, whole) == "none"
    assert bench.output_state(write(out, [0, 1, 2]), whole) == "whole"
    assert bench.output_state(write(out, [0, 1]), whole) == "partial"
    out.write_bytes(whole.read_bytes()[:-9])
    assert bench.output_state(out, whole) == "partial"
    for name, content in ((".a.unfinished", b"12345"), (".b.unfinished", b"12")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.parquet").write_bytes(content)
    assert benchmark.unfinished_bytes(tmp_path, {tmp_path / ".a.unfinished"}) == 2
    assert benchmark.n_unfinished(tmp_path) == 2
