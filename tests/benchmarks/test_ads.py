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
    (cell,) = found["cells"]
    errors = cell["draws"][0]["wape"]
    assert {"own", "global", FLAGSHIP, "true", "true+pooled"} <= errors.keys()
    assert np.isfinite([by_target[t] for by_target in errors.values() for t in TARGETS]).all()
    assert all(len(row) == len(table.headings) for table in result.tables for row in table.rows)
    assert result.plots[""]().axes
    assert run(context, advertisers=30).data == result.data


def draw(errors: dict[str, float], thin: dict[str, float]) -> dict:
    """Return the outcome of a draw in which impressions and spend have the same errors."""

    def twice(values):
        return {name: dict.fromkeys(TARGETS, value) for name, value in values.items()}

    return {
        "wape": twice(errors),
        "standard_error": twice(dict.fromkeys(errors, 0.03)),
        "thin": twice(thin),
        "against": {t: {name: [0.0, 0.04] for name in errors} for t in TARGETS},
    }


def test_a_cell_is_summarised_by_means_and_paired_errors():
    """Means over draws; the truth does not compete; errors of means shrink with the draws."""
    thin = {"own": 0.5, FLAGSHIP: 0.35, "true+pooled": 0.3}
    draws = [
        draw({"own": 0.3, "l2+pooled": low, FLAGSHIP: 0.22, "true+pooled": 0.1}, thin)
        for low in (0.1, 0.3)
    ]
    found = summarise_cell(draws, "spend")
    assert found["wape"]["l2+pooled"] == pytest.approx(0.2)
    assert found["best"] == "l2+pooled"
    assert found["behind"] == pytest.approx(0.02)
    assert found["paired_standard_error"] == pytest.approx(0.04 / np.sqrt(2))
    assert found["standard_error_of_best"] == pytest.approx(0.03 / np.sqrt(2))
    assert found["closed"] == pytest.approx(0.75)
    level = [draw(dict.fromkeys(thin, 0.2), dict.fromkeys(thin, 0.2))]
    assert summarise_cell(level, "spend")["closed"] is None
