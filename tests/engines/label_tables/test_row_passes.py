"""Passes over the rows of an engine, in batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie import RobustConsensus, planted_partitions
from coterie.engines.label_tables import packed_table
from coterie.engines.label_tables.label_profile import profile_labels
from coterie.engines.label_tables.packed_keys import lay_out
from coterie.engines.label_tables.packed_table import PackedTable
from coterie.engines.label_tables.row_passes import BatchPasses
from coterie.engines.label_tables.streamed_consensus import StreamedConsensus, fit_tuples
from coterie.engines.label_tables.table_outputs import TableOutput
from coterie.engines.queries import LocalTables
from coterie.errors import TableError
from engine_tables import engine_with_table

# Ibis asks pandas for an option that is going away
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")

N_ROWS = 600


@pytest.fixture(params=["duckdb", "sqlite"])
def case(request, tmp_path, monkeypatch):
    """Return a packed table read 100 rows at a time, and a consensus of a sample of it."""
    monkeypatch.setattr(packed_table, "_MOST_ROWS", 100)
    monkeypatch.setattr(packed_table, "_FEWEST_ROWS", 1)
    P, _ = planted_partitions([300, 200, 100], 8, 2, 0.15, random_state=0)
    rows = pa.table({"id": np.arange(N_ROWS)} | {f"p{v}": P[:, v] for v in range(8)})
    connection = engine_with_table(request.param, rows, tmp_path)
    with LocalTables(connection) as local:
        table = connection.table("t")
        layout = lay_out(profile_labels(table, [f"p{v}" for v in range(8)], "t"), table)
        packed = PackedTable(
            layout.packed(table, ["id"], local.add), layout, N_ROWS, ("id",), local.add
        )
        fitted = fit_tuples(RobustConsensus(3, random_state=0), layout, packed.sample_tuples(0.5))
        yield packed, StreamedConsensus.of(fitted, layout), rows.drop_columns("id"), local
    connection.disconnect()


def test_a_sweep_counts_every_row_once(case):
    """Rows in batches and weighted tuples count what all rows in memory count."""
    packed, found, _, local = case
    keys = [pa.Table.from_batches(packed.batches())[k].to_numpy() for k in packed.layout.key_names]
    expected = found.rule.count(found.coder.codes_of_keys(keys))
    assert max(batch.num_rows for batch in packed.batches()) <= 100
    with packed.grouped(local) as grouped:
        for table in (packed, grouped):
            counted = BatchPasses(table).count(found.coder, found.rule)
            assert np.array_equal(counted.tables.table, expected.tables.table)
            assert counted.n_rows == N_ROWS
            assert counted.margin == pytest.approx(expected.margin)
        with pytest.raises(TableError, match="had 599 rows"):
            BatchPasses(replace(grouped, n_rows=599)).count(found.coder, found.rule)


def test_labelled_rows_are_what_the_model_predicts(case, tmp_path):
    """Carried columns, label and margin of every row are written."""
    packed, found, rows, _ = case
    output = TableOutput(tmp_path / "out.parquet", is_folder=False)
    with output.unfinished() as folder:
        BatchPasses(packed).write(found.coder, found.rule, output, folder)
    out = pq.read_table(output.path).sort_by("id")
    labels, margin = found.estimator._assign(*found.estimator._encode_rows(rows))
    assert out.schema.names == ["id", "label", "margin"]
    assert out["label"].to_pylist() == labels.tolist()
    np.testing.assert_allclose(out["margin"].to_numpy(), margin)


def test_a_table_that_changes_is_refused(case, tmp_path):
    """Rows that come or go between the passes are noticed, and nothing is written."""
    packed, found, _, _ = case
    passes = BatchPasses(replace(packed, n_rows=601))
    with pytest.raises(TableError, match=r"had 601 rows .* and 600 when"):
        passes.count(found.coder, found.rule)
    output = TableOutput(tmp_path / "out.parquet", is_folder=False)
    with pytest.raises(TableError, match="had 601 rows"), output.unfinished() as folder:
        passes.write(found.coder, found.rule, output, folder)
    assert not output.path.exists()
