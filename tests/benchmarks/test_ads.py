"""The grid of simulated markets: one small draw, and the summary of several."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.ads import DEFAULT, TARGETS, TRUE, run, summarise_cell
from benchmarks.harness import Context


def test_a_small_market_is_evaluated_by_every_source(tmp_path):
    """The smallest run gives finite errors of every source, and kept draws are used again."""
    context = Context(quick=True, keep=tmp_path)
    result = run(context, advertisers=40)
    found = json.loads(result.json_text())
    assert [cell["auction"] for cell in found["cells"]] == ["second", "first"]
    errors = found["cells"][0]["draws"][0]
    for target in TARGETS:
        assert {"own", "global", "lognormal", "boosting", DEFAULT, TRUE} <= errors[target].keys()
        assert np.isfinite([by_source["wape"] for by_source in errors[target].values()]).all()
    inside = [row for row in found["cells"][0]["coverage"] if row["level"] == 0.95]
    assert all(0 <= row["covered"] <= row["advertisers"] for row in inside)
    assert all(len(row) == len(table.headings) for table in result.tables for row in table.rows)
    assert result.plots[""]().axes
    assert run(context, advertisers=40).data == result.data


def test_a_cell_is_summarised_by_means_and_paired_errors():
    """Means over draws; the truth does not compete; errors of means shrink with the draws."""

    def draw(l2):
        wape = {"own": 0.3, "l2+pooled": l2, DEFAULT: 0.22, TRUE: 0.1}
        others = {"bias": 0.01, "thin": 0.4, "paired_error": 0.04}
        return {"spend": {name: {"wape": wape[name], **others} for name in wape}}

    found = summarise_cell([draw(0.1), draw(0.3)], "spend")
    assert found["wape"]["l2+pooled"] == pytest.approx(0.2)
    assert found["best"] == "l2+pooled"
    assert found["ahead"] == pytest.approx(-0.02)
    assert found["paired_standard_error"] == pytest.approx(0.04 / np.sqrt(2))
    assert found["closed"] == pytest.approx(0.4)
