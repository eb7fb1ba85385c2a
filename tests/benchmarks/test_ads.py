"""The grid of simulated markets: one small draw, and the summary of several."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.ads import FLAGSHIP, TARGETS, run, summarise_cell
from benchmarks.harness import Context


def test_a_small_market_is_evaluated_by_every_source(tmp_path):
    """The smallest run gives finite errors of every source, and kept draws are used again."""
    context = Context(quick=True, keep=tmp_path)
    result = run(context, advertisers=30)
    found = json.loads(result.json_text())
    errors = found["cells"][0]["draws"][0]
    for target in TARGETS:
        assert {"own", "global", FLAGSHIP, "true", "true+pooled"} <= errors[target].keys()
        assert np.isfinite([by_source["wape"] for by_source in errors[target].values()]).all()
    assert all(len(row) == len(table.headings) for table in result.tables for row in table.rows)
    assert result.plots[""]().axes
    assert run(context, advertisers=30).data == result.data


def test_a_cell_is_summarised_by_means_and_paired_errors():
    """Means over draws; the truth does not compete; errors of means shrink with the draws."""

    def draw(l2):
        wape = {"own": 0.3, "l2+pooled": l2, FLAGSHIP: 0.22, "true+pooled": 0.1}
        thin = {"own": 0.5, "l2+pooled": 0.4, FLAGSHIP: 0.35, "true+pooled": 0.3}
        errors = {"standard_error": 0.03, "paired_error": 0.04}
        return {
            "spend": {name: {"wape": wape[name], "thin": thin[name], **errors} for name in wape}
        }

    found = summarise_cell([draw(0.1), draw(0.3)], "spend")
    assert found["wape"]["l2+pooled"] == pytest.approx(0.2)
    assert found["best"] == "l2+pooled"
    assert found["behind"] == pytest.approx(0.02)
    assert found["paired_standard_error"] == pytest.approx(0.04 / np.sqrt(2))
    assert found["standard_error_of_best"] == pytest.approx(0.03 / np.sqrt(2))
    assert found["closed"] == pytest.approx(0.75)
