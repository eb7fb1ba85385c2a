"""The same model with and without segments: a small run."""

from __future__ import annotations

import numpy as np

from benchmarks.ads_segments import GROUPS, STRATA, run
from benchmarks.harness import Context


def test_new_advertisers_gain_from_planted_segments(tmp_path):
    """Nothing but its group is known of a new advertiser: planted groups beat none."""
    context = Context(quick=True, keep=tmp_path)
    result = run(context, advertisers=240)
    assert all(len(row) == len(table.headings) for table in result.tables for row in table.rows)
    for cell in result.data["cells"]:
        wapes = {name: cell["wape"][name]["impressions"] for name in GROUPS}
        assert np.isfinite([by_stratum["all"] for by_stratum in wapes.values()]).all()
        assert wapes["planted"]["new"] < wapes["none"]["new"]
        assert wapes["none"].keys() == set(STRATA)
    assert result.plots[""]().axes
    assert run(context, advertisers=240).data == result.data
