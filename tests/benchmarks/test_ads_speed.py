"""Speed of histograms and similarities: both ways of each give the same answer."""

from __future__ import annotations

from benchmarks.ads_speed import run
from benchmarks.harness import Context


def test_both_ways_give_the_same_answer():
    """Hand-written SQL counts the same cells; the graph decides like float64 arithmetic."""
    result = run(Context(quick=True), rows=4000, advertisers=120, repeats=1)
    engine, similarity = result.data["engine"], result.data["similarity"]
    assert engine["equal"]
    assert engine["seconds"].keys() == engine["peak_bytes"].keys()
    assert similarity["differing_decisions"] == 0
    assert similarity["largest_error"] < 2**-23
    assert [len(table.rows) for table in result.tables] == [3, 3]
