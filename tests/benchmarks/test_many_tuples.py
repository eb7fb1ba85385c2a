"""Tables with many tuples: their repetition, their truth and their scores."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import many_tuples
from benchmarks.many_tuples import N_CLUSTERS, NOISE, write_many_tuples
from benchmarks.planted_tables import PlantedTables
from coterie.errors import TableError


@pytest.mark.parametrize(("repeats", "n_tuples"), [(1, 2500), (2, 1250), (8, 313)])
def test_a_table_has_its_tuples_and_its_truth(tmp_path, monkeypatch, repeats, n_tuples):
    """Rows are written in chunks; labels follow the cluster in the id, except for noise."""
    monkeypatch.setattr(many_tuples, "_ROWS_A_CHUNK", 2500)
    write_many_tuples(tmp_path / "t.parquet", 5000, 40, repeats)
    table = pq.read_table(tmp_path / "t.parquet")
    ids, P = table["id"].to_numpy(), np.column_stack(table.columns[1:])
    assert np.array_equal(ids // N_CLUSTERS, np.arange(5000))
    for rows in (slice(0, 2500), slice(2500, 5000)):
        assert len(np.unique(P[rows], axis=0)) == n_tuples
    right = (P - np.arange(40)) % N_CLUSTERS == (ids % N_CLUSTERS)[:, None]
    share = 1 - NOISE + NOISE / N_CLUSTERS
    assert right[:, :24].mean() == pytest.approx(share, abs=0.02)
    assert right[:, 24:].mean() < 0.3
    sizes = np.bincount(ids % N_CLUSTERS) / 5000
    assert sizes[0] == pytest.approx(0.19, abs=0.05) and sizes[9] < 0.05


def test_an_output_is_scored_by_its_ids(tmp_path):
    """Clusters are matched best; a lost row is no answer."""
    with PlantedTables(tmp_path) as tables:
        truth = np.arange(200) % N_CLUSTERS
        labels = (truth + 3) % N_CLUSTERS
        labels[:20] = 99
        columns = {"id": np.arange(200) * N_CLUSTERS + truth, "label": labels}
        pq.write_table(pa.table(columns), tmp_path / "out.parquet")
        assert tables.accuracy_by_id(tmp_path / "out.parquet", 200, N_CLUSTERS) == 0.9
        with pytest.raises(TableError, match="not the 201 ids"):
            tables.accuracy_by_id(tmp_path / "out.parquet", 201, N_CLUSTERS)
