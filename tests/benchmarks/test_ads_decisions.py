"""Decisions against what then happened: a small run."""

from __future__ import annotations

from benchmarks.ads_decisions import run
from benchmarks.harness import Context


def test_decisions_hold_in_the_week_after(tmp_path):
    """Intervals contain most outcomes, and a division by marginal cost beats that of the log."""
    context = Context(quick=True, keep=tmp_path)
    result = run(context, advertisers=80)
    assert all(len(row) == len(table.headings) for table in result.tables for row in table.rows)
    for found in result.data["means"].values():
        assert found["impressions inside"] > 0.75 and found["spend inside"] > 0.75
        assert found["ours amount"] > found["log amount"]
        assert found["ours amount"] <= found["best amount"] * 1.1
        assert abs(found["below the solver"]) < 1e-3
        assert abs(found["below the bound"]) < 1e-3
    assert run(context, advertisers=80).data == result.data
