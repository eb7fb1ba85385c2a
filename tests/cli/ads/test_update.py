"""Tests of ``coterie ads update``: new days in a model, without the old log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from answers import assert_fits, assert_one_line, unwrapped
from coterie.cli.program import app
from coterie.models import load_model

pytestmark = pytest.mark.slow

SPLIT = 3  # days of the first log


@pytest.fixture(scope="module")
def days(market, tmp_path_factory) -> dict[str, Path]:
    """Split the market by day files: the first days, the last day, and the model of the first."""
    folder = tmp_path_factory.mktemp("days")
    files = sorted((market / "bids").iterdir())
    shutil.copy(market / "advertisers.parquet", folder)
    parts = {"before": files[:SPLIT], "after": files[SPLIT:]}
    for name, some in parts.items():
        (folder / name).mkdir()
        for file in some:
            shutil.copy(file, folder / name)
    model = folder / "before.coterie"
    asked = ["ads", "segment", str(folder / "before"), "-k", "3,4", "-o", str(model)]
    assert CliRunner().invoke(app, asked).exit_code == 0
    return {"before": folder / "before", "after": folder / "after", "model": model}


@pytest.fixture
def model(days, tmp_path) -> Path:
    """Copy the model of the first days, to be replaced."""
    return Path(shutil.copy(days["model"], tmp_path / "m.coterie"))


def test_an_update_is_a_fit_of_both_logs(run, days, segmented, model):
    """The updated model is bit for bit that of all days, and replaces the old one."""
    result = run("ads", "update", model, days["after"], "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    updated, whole = load_model(model), load_model(segmented["model_file"])
    for name in ("win_", "spread_", "labels_", "shares_", "advertisers_", "days_"):
        assert np.array_equal(getattr(updated, name), getattr(whole, name))
    assert np.array_equal(updated.calibration_.factors, whole.calibration_.factors)
    assert model.read_bytes() == segmented["model_file"].read_bytes()


def test_json_says_what_was_added(run, days, segmented, model, tmp_path):
    """--json has days, bids and new advertisers; with --output the old model stays."""
    before, out = model.read_bytes(), tmp_path / "new.coterie"
    facts = json.loads(run("ads", "update", model, days["after"], "-o", out, "--json").stdout)
    old = load_model(days["model"])
    assert facts["added"] == {
        "source": str(days["after"]),
        "days": ["2026-03-05"],
        "new_advertisers": 48 - len(old.advertisers_),
        "bids": sum(pq.read_metadata(file).num_rows for file in days["after"].iterdir()),
    }
    assert facts["added"]["new_advertisers"] > 0
    assert facts["choice"] == segmented["choice"]
    assert facts["written"] == [str(out)]
    assert model.read_bytes() == before
    assert out.read_bytes() == segmented["model_file"].read_bytes()


def test_summary_is_that_of_segment(run, days, model, segmented, monkeypatch):
    """The summary says what was added, then describes the model; it fits 80 columns."""
    monkeypatch.chdir(model.parent)
    shutil.copytree(days["after"], "new")
    shutil.copy(days["after"].parent / "advertisers.parquet", ".")
    result = run("ads", "update", "m.coterie", "new")
    assert result.exit_code == 0, result.stderr
    said = unwrapped(result.stdout)
    assert said.startswith("new: added 1 day (2026-03-05), 1,420 bids and ")
    assert "m.coterie: 48 advertisers, 4 days, second price, " in said
    assert unwrapped(segmented["views"]["sentence"]) in said
    assert result.stdout.endswith("wrote m.coterie\n")
    assert_fits(result.stdout)


class TestRefusals:
    """An update that fails is one line, and leaves the model as it was."""

    @pytest.fixture
    def refused(self, run, model):
        """Return a function that asserts that an update fails and changes nothing."""
        before, files = model.read_bytes(), sorted(model.parent.iterdir())

        def check(log, *parts: str, options=()) -> None:
            assert_one_line(run("ads", "update", model, log, *options), *parts)
            assert model.read_bytes() == before
            assert sorted(path for path in model.parent.iterdir() if path != log) == files

        return check

    def changed(self, days, folder: Path, **columns) -> Path:
        """Write the last day with other columns."""
        (file,) = days["after"].iterdir()
        table = pq.read_table(file)
        for name, value in columns.items():
            column = pa.array([value] * len(table))
            place = table.column_names.index(name) if name in table.column_names else None
            table = (
                table.append_column(name, column)
                if place is None
                else table.set_column(place, name, column)
            )
        path = folder / "new.parquet"
        pq.write_table(table, path)
        return path

    def test_a_day_of_the_model(self, days, refused):
        """A day that the model has is named."""
        refused(days["before"], "the model already has 2026-03-02 and 2 other days")

    def test_another_currency(self, days, refused, tmp_path):
        """Both currencies are named."""
        log = self.changed(days, tmp_path, currency="EUR")
        refused(log, "the currency of the model is 'USD' and that of the new log 'EUR'")

    def test_another_auction_type(self, write_log, refused):
        """Both auction types are named."""
        n = 12 * 3 * 30
        bids = [2_000_000 + 1000 * (i % 700) for i in range(n)]
        log = write_log(
            bid_micros=bids,
            won=[i % 3 > 0 for i in range(n)],
            price_micros=[bid if i % 3 else None for i, bid in enumerate(bids)],
            auction_type=[1] * n,
            currency=["USD"] * n,
            day=["2026-03-09"] * n,
        )
        refused(log, "the auction type of the model is 'second' and that of the new log 'first'")

    def test_a_log_with_faults(self, days, refused, tmp_path):
        """A log with errors is refused, with the command that lists them."""
        log = self.changed(days, tmp_path, bid_micros=-5)
        refused(log, "the bid is 0 or below", f"See: coterie ads check {log}")

    def test_a_log_without_wins(self, days, refused, tmp_path):
        """A log in which no bid won is refused, even if none of its bids was clicked."""
        log = self.changed(days, tmp_path, won=False)
        refused(log, "no bid won", f"See: coterie ads check {log}")

    def test_a_full_disk(self, days, refused, full_disk):
        """If the new model cannot be written, the old one stays."""
        full_disk()
        refused(days["after"], "No space left on device")

    def test_an_interrupt(self, run, days, model, monkeypatch):
        """An interrupt during the fit leaves the old model."""

        def interrupted(*_, **__):
            raise KeyboardInterrupt

        before = model.read_bytes()
        monkeypatch.setattr("coterie.ads.fitting.forecaster.AdForecaster.fit", interrupted)
        result = run("ads", "update", model, days["after"])
        assert (result.exit_code, result.stderr) == (130, "interrupted; nothing was written\n")
        assert model.read_bytes() == before

    def test_the_new_log_is_not_overwritten(self, days, refused, tmp_path):
        """The output may not be a file of the new log."""
        log = self.changed(days, tmp_path, currency="USD")
        refused(log, "this path is a part of the log", options=("-o", log))


@pytest.mark.slow
def test_the_auction_type_is_that_of_the_model(run, write_log, tmp_path):
    """A log without an auction type has that of the model, unless --auction is given."""
    n = 12 * 3 * 30
    bids = [2_000_000 + 1000 * (i % 700) for i in range(n)]
    won = [i % 3 > 0 for i in range(n)]
    prices = [bid if is_won else None for bid, is_won in zip(bids, won, strict=True)]
    first = {"bid_micros": bids, "won": won, "price_micros": prices, "auction_type": [1] * n}
    model = tmp_path / "m.coterie"
    assert run("ads", "segment", write_log(**first), "-k", 2, "-o", model).exit_code == 0
    # too few wins to recognise the auction type by the prices
    few = {"advertisers": ["shop-0", "shop-1"], "days": 1, "bids": 9}
    rows = {name: first[name][:18] for name in ("bid_micros", "won", "price_micros")}
    log = write_log(**few, **rows, day=["2026-03-05"] * 18)
    result = run("ads", "update", model, log, "--auction", "second")
    assert_one_line(result, "the auction type of the model is 'first'")
    result = run("ads", "update", model, log, "--json")
    assert json.loads(result.stdout)["auction"] == "first"
