"""Checks that hold for the result of every benchmark, and measurements without a new process."""

from __future__ import annotations

import json
import pickle
from typing import Any

from benchmarks.measuring import Measurement, Stopwatch, Work
from benchmarks.results import Result, Table


def check_result(result: Result) -> dict[str, Any]:
    """Check tables and pictures of a result; return its JSON, which has no infinite number."""
    for table in result.tables:
        assert table.rows
        assert all(len(row) == len(table.headings) for row in table.rows)
        assert (
            Table.from_json(json.loads(json.dumps(table.to_json()))).markdown() == table.markdown()
        )
    for draw in result.plots.values():
        assert draw().axes
    return json.loads(result.json_text())


def measured_here(work: Work) -> Measurement:
    """Measure a work in this process, which is quicker, and as if it were sent to another one."""
    watch = Stopwatch()
    facts = pickle.loads(pickle.dumps(work))(watch)
    return Measurement(facts=facts, **watch.measured)
