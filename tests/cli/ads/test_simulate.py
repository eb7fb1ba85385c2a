"""Tests of ``coterie ads simulate``: a complete folder or none."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from answers import assert_fits, assert_one_line, unwrapped
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.cli.ads.simulate import simulate

SMALL = ("--advertisers", 12, "--segments", 3, "--days", 2, "--bids-per-day", 5)
FILES = [
    "advertisers.parquet",
    "bids",
    "bids/bids-2026-03-02.parquet",
    "bids/bids-2026-03-03.parquet",
    "truth.parquet",
]


def test_the_folder_holds_logs_texts_and_truth(run, tmp_path, monkeypatch):
    """The folder has one file of bids per day, the texts and the truth."""
    monkeypatch.chdir(tmp_path)
    folder = Path("market")
    result = run("ads", "simulate", folder, *SMALL)
    assert result.exit_code == 0, result.stderr
    there = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    assert there == FILES
    rows = sum(pq.read_metadata(path).num_rows for path in folder.glob("bids/*"))
    assert f"market: {rows:,} auctions of 12 advertisers on 2 days" in unwrapped(result.stdout)
    assert "wrote market/truth.parquet\n" in result.stdout
    assert_fits(result.stdout)
    assert result.stderr == ""


def test_json_is_one_object(run, tmp_path):
    """--json counts rows and wins, and names the files."""
    folder = tmp_path / "market"
    facts = json.loads(run("ads", "simulate", folder, *SMALL, "--json").stdout)
    logs = [pq.read_table(path) for path in facts["logs"]]
    assert facts["rows"] == sum(map(len, logs))
    assert facts["wins"] == sum(log["won"].to_numpy().sum() for log in logs)
    assert (facts["advertisers"], facts["segments"], facts["days"]) == (12, 3, 2)
    assert facts["texts"] == str(folder / "advertisers.parquet")
    assert facts["truth"] == str(folder / "truth.parquet")


def test_options_reach_the_settings(run, tmp_path):
    """The settings in the truth file are those of the options."""
    options = {
        "--auction": "first",
        "--bid-move": 0.1,
        "--text-error": 0.2,
        "--text-missing": 0.3,
        "--outliers": 0.4,
        "--newcomers": 0.25,
        "--price-rise": -0.26,
        "--weekday-effect": 2.0,
        "--young": 0.3,
        "--own-weekdays": 0.2,
        "--markup": 0.1,
        "--price-noise": 0.2,
        "--common-floors": 0.5,
        "--value-prices": 0.1,
        "--dimensions": 2,
        "--start": "2026-05-04",
        "--seed": 5,
    }
    words = [word for pair in options.items() for word in pair]
    folder = tmp_path / "market"
    result = run(
        "ads", "simulate", folder, *SMALL, *words, "--log-minimum", "--no-floors", "--quiet"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    truth = pq.read_metadata(folder / "truth.parquet").metadata
    settings = json.loads(truth[b"settings"])
    for option, value in options.items():
        assert settings[option[2:].replace("-", "_")] == value
    assert (settings["minimum_logged"], settings["floors"]) == (True, False)
    assert (folder / "bids" / "bids-2026-05-04.parquet").exists()


def test_every_setting_is_an_option():
    """It has the default of the setting of its name, and says what it means."""
    options = inspect.signature(simulate).parameters
    for name, usual in vars(MarketSettings()).items():
        assert options[name].default == usual, name
        (option,) = options[name].annotation.__metadata__
        assert option.help, name


def test_non_empty_folder_is_refused(run, tmp_path):
    """A folder with files is refused and unchanged."""
    (tmp_path / "mine.txt").write_text("mine")
    assert_one_line(run("ads", "simulate", tmp_path, *SMALL), "the folder is not empty")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--bids-per-day", -1), ("--text-error", 1.5), ("--bid-move", 9), ("--start", "March")),
        *(("--price-rise", -3), ("--weekday-effect", -1)),
    ],
)
def test_settings_out_of_range_are_refused(run, tmp_path, option, value):
    """A setting out of range is one line, and no folder is left."""
    result = run("ads", "simulate", tmp_path / "market", option, value)
    assert_one_line(result, f"{option} {value}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong", [["--auction", "third"], ["--advertisers", 0], ["--days", "x"], ["--seed", -1]]
)
def test_wrong_usage_ends_with_2(run, tmp_path, wrong):
    """Invalid values are wrong usage."""
    assert run("ads", "simulate", tmp_path / "market", *wrong).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_full_disk_leaves_nothing(run, tmp_path, full_disk):
    """If a file cannot be written, no folder is left."""
    full_disk()
    result = run("ads", "simulate", tmp_path / "market", *SMALL)
    assert_one_line(result, "cannot write", "No space left on device")
    assert list(tmp_path.iterdir()) == []
