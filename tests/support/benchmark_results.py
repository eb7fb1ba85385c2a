"""Checks that hold for the result of every benchmark."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.results import Result


def check_result(result: Result) -> dict[str, Any]:
    """Check tables and pictures of a result; return its JSON, which has no infinite number."""
    for table in result.tables:
        assert table.rows
        assert all(len(row) == len(table.headings) for row in table.rows)
        assert table.title in result.markdown()
    for draw in result.plots.values():
        assert all(axes.get_lines() for axes in draw().axes)
    return json.loads(result.json_text())
