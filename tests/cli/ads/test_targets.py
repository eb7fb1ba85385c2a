"""Tests of ``coterie ads targets``, and of the options --dimension and --where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from answers import as_options
from coterie.ads.decisions.decision_answers import TargetRanking
from coterie.ads.decisions.target_ranking import rank_targets
from coterie.ads.fitting.forecaster import load_forecaster
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.cli.program import app

KNOWN = "adv-00007"


def run(*arguments: Any) -> Any:
    """Run ``coterie ads`` with these arguments."""
    return CliRunner().invoke(app, ["ads", *map(str, arguments)])


@pytest.fixture(scope="module")
def divided(tmp_path_factory) -> Path:
    """Simulate a market with two dimensions, as bids/ and advertisers.parquet."""
    folder = tmp_path_factory.mktemp("divided") / "market"
    settings = MarketSettings(
        advertisers=40, segments=3, days=4, bids_per_day=40, dimensions=2, newcomers=0.0, seed=1
    )
    return simulate_logs(settings, folder).folder


@pytest.fixture(scope="module")
def model(divided, tmp_path_factory) -> Path:
    """A model of the first three days, with three dimensions under names of their own."""
    file = tmp_path_factory.mktemp("model") / "market.coterie"
    days = [f"{divided}/bids/bids-2026-03-0[234].parquet"]
    texts = ["--advertisers", divided / "advertisers.parquet"]
    dimensions = ["--dimension", "device", "--dimension", "nation=country", "--dimension", "hour"]
    done = run("segment", *days, *texts, "-k", 3, "-o", file, *dimensions, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)["dimensions"]
    assert list(facts) == ["device", "nation", "hour"]
    assert "phone" in facts["device"]
    assert len(facts["hour"]) == 24
    return file


@pytest.mark.parametrize(
    "asked",
    [
        {"advertiser": KNOWN, "bid": 2.0, "by": "cost", "days": 3, "level": 0.5},
        {"advertiser": KNOWN, "dimension": "device", "day": "2026-03-14"},
        {"text": "flights hotel", "supply": 1e5, "bid": 2.0},
    ],
)
def test_the_program_answers_as_python_does(model, asked):
    """The JSON is the ranking that Python gives, and every option reaches it."""
    done = run("targets", model, *as_options(asked), "--json")
    found = msgspec.json.decode(done.stdout, type=TargetRanking)
    assert found == rank_targets(load_forecaster(model), **asked)
    assert found.model_version


def test_the_table_shows_every_value(model):
    """A person reads the values of the dimension asked for, the best first."""
    done = run("targets", model, "--advertiser", KNOWN, "--dimension", "device")
    assert done.exit_code == 0
    for word in ("phone", "desktop", "tablet", "tv", "own", "best", "CPC"):
        assert word in done.output
    assert "nation" not in done.output


def test_a_table_is_written(model, tmp_path):
    """The file has a row for each value, with two columns for each interval."""
    file = tmp_path / "targets.csv"
    done = run("targets", model, "--advertiser", KNOWN, "-o", file, "--quiet")
    assert done.exit_code == 0
    heading, *rows = file.read_text(encoding="utf-8").splitlines()
    assert {"value", "clicks_low", "clicks_high", "chance_best"} <= set(heading.split(","))
    assert len(rows) == 4 + 8 + 24


def test_a_new_advertiser_needs_a_bid(model):
    """It has no mean bid."""
    done = run("targets", model, "--text", "flights hotel", "--supply", 1e5)
    assert done.exit_code == 1
    assert "bid is missing" in done.output


def test_a_forecast_of_one_value_says_so(model):
    """The grounds of the forecast name the value and its share."""
    asked = ["--advertiser", KNOWN, "--bid", 2, "--where", "device=phone", "--where", "nation=DE"]
    done = run("forecast", model, *asked)
    assert done.exit_code == 0
    assert "device phone and nation DE" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "device"], "write NAME=VALUE"),
        (["--where", "device=tv", "--where", "device=phone"], "each dimension once"),
        (["--where", "planet=Mars"], "the dimensions of the model are device, nation, hour"),
        (["--where", "device=toaster"], "device has no value 'toaster'"),
    ],
)
def test_wrong_values_are_refused_in_one_line(model, arguments, message):
    """The message says what there is."""
    done = run("forecast", model, "--advertiser", KNOWN, "--bid", 2, *arguments)
    assert done.exit_code == 1
    assert message in " ".join(done.output.split())


def test_a_missing_column_is_refused(divided, tmp_path):
    """The message names it, and nothing is written."""
    file = tmp_path / "model.coterie"
    done = run("segment", divided, "-o", file, "--dimension", "planet")
    assert done.exit_code == 1
    assert "column planet missing" in " ".join(done.output.split())
    assert not file.exists()


@pytest.mark.slow
def test_an_update_reads_the_dimensions_of_the_model(divided, model, tmp_path):
    """A column with another name must be named again; then the counts are those of all days."""
    new = divided / "bids" / "bids-2026-03-05.parquet"
    file = tmp_path / "updated.coterie"
    done = run("update", model, new, "-o", file)
    assert done.exit_code == 1
    assert "column nation missing" in " ".join(done.output.split())
    done = run("update", model, new, "-o", file, "--dimension", "nation=country", "--quiet")
    assert done.exit_code == 0, done.output
    before, after = load_forecaster(model), load_forecaster(file)
    assert after.targets_.dimensions == before.targets_.dimensions
    assert len(after.days_) == 4


def test_campaigns_have_targets_too(divided, tmp_path):
    """With --by campaign, a campaign is ranked by its own auctions and its segment's."""
    table = pq.read_table(divided / "bids" / "bids-2026-03-02.parquet")
    campaign = pa.array([f"c{i % 2}" for i in range(len(table))])
    log, file = tmp_path / "log.parquet", tmp_path / "campaigns.coterie"
    pq.write_table(table.append_column("campaign_id", campaign), log)
    done = run(
        "segment", log, "--by", "campaign", "-k", 2, "-o", file, "--dimension", "device", "--quiet"
    )
    assert done.exit_code == 0, done.output
    done = run("targets", file, "--advertiser", f"{KNOWN}/c1", "--json")
    assert {row["value"] for row in json.loads(done.stdout)["targets"]} >= {"phone", "tv"}


def test_the_zone_of_hours_is_said(model):
    """Hours are ranked in UTC, and the note says it where there are any."""
    note = "Hours that come from time stamps are in UTC."
    for dimension, is_said in (("hour", True), ("device", False)):
        shown = run("targets", model, "--advertiser", KNOWN, "--dimension", dimension).stdout
        assert (note in shown) == is_said
