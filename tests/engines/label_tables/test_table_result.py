"""The description of a consensus of a table."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.engines.label_tables import TableConsensus, consensus_table


@pytest.mark.filterwarnings("ignore:all 4 partitions are the same")
def test_a_result_describes_its_run_for_json_and_in_words(tmp_path):
    """Both have the stages, the memory, the path taken and its reason."""
    labels = {f"p{v}": np.arange(60) % 3 for v in range(4)}
    pq.write_table(pa.table({"id": np.arange(60), **labels}), tmp_path / "labels.parquet")
    out = tmp_path / "out.parquet"
    found = consensus_table(tmp_path / "labels.parquet", n_clusters=3, ids="id", out=out)
    assert isinstance(found, TableConsensus)
    facts = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert list(facts["seconds"]) == ["profile", "group", "fit", "write"]
    assert facts["bytes_written"] == out.stat().st_size > 0
    assert facts["peak_memory"] > 0
    for part in ("60 rows", "4 partitions", "tuples path", "max_tuples", str(out), "write "):
        assert part in found.in_words()
