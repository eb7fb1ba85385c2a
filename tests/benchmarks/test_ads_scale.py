"""The program on growing markets: the smallest run, its scores and its stages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmark_results import check_result
from benchmarks import ads_scale
from benchmarks.harness import Context
from benchmarks.program_runs import ProgramRun
from coterie.errors import InvalidParameterError


@pytest.fixture
def few(monkeypatch):
    """One market of sixty advertisers."""
    monkeypatch.setattr(ads_scale, "SIZES", {60: 12_000})
    monkeypatch.setattr(ads_scale, "AUCTIONS", {"second": ("blue", "o")})


def test_the_smallest_run_finds_segments_and_forecasts(few, tmp_path):
    """It is measured and scored; a second run reads the kept trial."""
    context = Context(quick=True, keep=tmp_path / "trials")
    result = ads_scale.run(context, folder=str(tmp_path / "logs"))
    data = check_result(result)
    (trial,) = data["trials"]
    assert (trial["status"], trial["scored"]) == ("done", pytest.approx(59, abs=1))
    assert trial["ari"] > 0.1
    errors = trial["wape"]
    assert errors["model"]["impressions"] < errors["own mean"]["impressions"] < 1
    assert errors["model"]["spend"] < 0.5 and errors["own curve"]["spend"] < 1
    assert any(stage.startswith("Counting bids") for stage in trial["stages"])
    assert (tmp_path / "logs" / "second-60" / "truth.parquet").exists()
    assert ads_scale.run(context).data["trials"] == data["trials"]


def test_a_market_with_other_settings_is_not_used(few, tmp_path):
    """Kept logs are used again only if they are the wanted ones."""
    settings = ads_scale.settings_of("second", 60, 12_000)
    folder = ads_scale.simulated(tmp_path, settings)
    assert ads_scale.simulated(tmp_path, settings) == folder
    with pytest.raises(InvalidParameterError, match="a market with other settings; remove it"):
        ads_scale.simulated(tmp_path, replace(settings, seed=1))


def test_stages_last_until_the_next_one(tmp_path):
    """Paths and numbers are left out; the last stage ends with the run."""
    lines = [
        f"stage 500 Opening {tmp_path}/bids",
        "a warning",
        "stage 2000 Comparing 1,268 curves",
        "stage 2500 Comparing 90 curves",
        "stage 3000 Opening",
    ]
    run = ProgramRun(0, True, 10.0, 9.0, 1, "", "\n".join(lines))
    assert ads_scale.stages_of(run, tmp_path) == {
        "Opening": 8.5,
        "Comparing n curves": 1.0,
    }


def test_growth_is_the_slope_of_the_logarithms():
    """Of second-price markets from 20,000 advertisers on; one has no slope."""
    trials = [
        {
            "auction": "second",
            "status": "done",
            "advertisers": n,
            "seconds": n / 1e3,
            "processor_seconds": n**2 / 1e6,
            "peak_bytes": 7,
        }
        for n in (1_268, 20_000, 100_000)
    ]
    growth = ads_scale.growth_of(trials)
    assert list(growth.values()) == pytest.approx([1, 2, 0])
    assert ads_scale.growth_of(trials[:2]) == {}
