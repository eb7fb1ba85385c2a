"""Forecasts by campaign: campaigns are units, and borrow from others of their advertiser."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from coterie.ads import AdForecaster, open_logs, read_histograms, split_budget
from coterie.cli.program import app
from coterie.errors import InvalidParameterError, TableError
from coterie.models import load_model


def _log(folder, days):
    """Write a log of 12 advertisers with 3 campaigns each; prices differ by advertiser."""
    rng = np.random.default_rng(0)
    n = 1000 * len(days)
    advertiser, campaign = rng.integers(12, size=n), rng.integers(3, size=n)
    price = np.exp(0.2 * advertiser + 0.3 * rng.standard_normal(n)) * 1e6
    bid = np.exp(0.2 * advertiser + 0.4 * rng.standard_normal(n)) * 1e6
    won = bid >= price
    table = {
        "advertiser_id": [f"adv/{a:02d}" for a in advertiser],
        "campaign_id": [f"c/{c}" for c in campaign],
        "day": np.asarray(days)[rng.integers(len(days), size=n)],
        "bid_micros": bid.astype(np.int64),
        "won": won,
        "price_micros": pa.array(price.astype(np.int64), mask=~won),
        "auction_type": np.full(n, 2),
    }
    path = folder / f"{days[0]}.parquet"
    pq.write_table(pa.table(table), path)
    return path


def test_campaigns_are_counted_apart_and_named_after_their_advertiser(tmp_path):
    """36 campaigns of 12 advertisers; the last slash divides a name."""
    logs = open_logs(_log(tmp_path, ["2026-03-02", "2026-03-03"]), by="campaign")
    histograms = read_histograms(logs)
    assert len(histograms.advertisers) == 36
    assert histograms.advertisers[0] == "adv/00/c_0"
    assert sorted(set(histograms.parents.tolist())) == [f"adv/{a:02d}" for a in range(12)]
    whole = read_histograms(open_logs(logs.files))
    assert whole.parents is None
    assert histograms.bids.count.sum() == whole.bids.count.sum()


@pytest.mark.slow
def test_the_program_forecasts_and_updates_by_campaign(tmp_path):
    """A model by campaign keeps its unit when days are added."""
    first = _log(tmp_path, ["2026-03-02", "2026-03-03", "2026-03-04"])
    later = _log(tmp_path, ["2026-03-05"])
    model = tmp_path / "market.coterie"
    runner = CliRunner()
    command = ["ads", "segment", str(first), "-o", str(model), "--by", "campaign", "-k", "3", "-q"]
    assert runner.invoke(app, command).exit_code == 0
    update = runner.invoke(app, ["ads", "update", str(model), str(later), "--json"])
    assert update.exit_code == 0, update.output
    assert json.loads(update.stdout)["added"]["new_advertisers"] == 0
    found = load_model(model)
    assert isinstance(found, AdForecaster) and found.stored_days_.unit == "campaign"
    assert found.forecast("adv/03/c_1", 1.5).impressions > 0
    # an advertiser is not a new one: its campaigns are known
    with pytest.raises(InvalidParameterError, match="such as 'adv/03/c_0'"):
        found.forecast("adv/03", 1.5, supply=100)
    with pytest.raises(InvalidParameterError, match="such as 'adv/03/c_0'"):
        split_budget(found, 1, ["adv/03"])
    assert found.forecast("adv", 1.5, supply=100).curve == "global"


def test_a_log_without_campaigns_is_refused(tmp_path):
    """The message names the column."""
    path = _log(tmp_path, ["2026-03-02"])
    pq.write_table(pq.read_table(path).drop_columns("campaign_id"), path)
    with pytest.raises(TableError, match="no column campaign_id"):
        open_logs(path, by="campaign")
