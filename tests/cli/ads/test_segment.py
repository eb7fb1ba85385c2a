"""Tests of ``coterie ads segment``: segments, and a model for forecasts."""

from __future__ import annotations

import json

import numpy as np
import pytest

from answers import assert_fits, assert_one_line, unwrapped
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.fitted_market import Choice
from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.cli.ads.inputs.reading import LogInput
from coterie.cli.ads.segment import (
    choice_facts,
    model_facts,
    print_segments,
    segment_columns,
)
from coterie.errors import InvalidParameterError
from coterie.models import load_model
from table_files import columns_of

HOSTILE = (
    "<script>alert(1)</script>",
    "'; DROP TABLE bids; --",
    "🦊 fox, inc.",
    'say "hi"',
    "two\nlines",
    "\x1b[2J",
    "[bold]x[/bold]",
    "../../etc/passwd",
)


def test_members_are_those_of_the_model(segmented):
    """The table has a row per advertiser: segment, its name, confidence, bids, outlier."""
    model = load_model(segmented["model_file"])
    columns = columns_of(segmented["members_file"])
    assert list(columns) == [
        "advertiser_id",
        "segment",
        "segment_name",
        "confidence",
        "bids",
        "outlier",
    ]
    assert columns["advertiser_id"] == model.advertisers_.tolist()
    assert columns["segment"] == model.labels_.tolist()
    assert columns["segment_name"] == [model.segments_[s].name for s in model.labels_]
    assert columns["confidence"] == pytest.approx(model.confidence_)
    assert np.flatnonzero(columns["outlier"]).tolist() == sorted(model.outliers_)


def test_json_has_every_segment(segmented):
    """--json has segments, views and the choice; every advertiser is in a segment."""
    assert sum(row["size"] for row in segmented["segments"]) == segmented["advertisers"] == 48
    assert len(segmented["segments"]) <= 4
    assert {"name", "words", "price_level", "median_price", "size", "observations"} <= set(
        segmented["segments"][0]
    )
    views = segmented["views"]
    assert len(views["names"]) == len(views["say"]) == len(views["adjusted_rand_with_segments"])
    assert segmented["days"] == ["2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05"]
    assert (segmented["auction"], segmented["currency"]) == ("second", "USD")
    choice = segmented["choice"]
    assert choice["segments"] in {3, 4}
    assert choice["error"] > 0
    assert choice["days"] == 2
    assert segmented["warnings"] == []
    assert segmented["written"] == [str(segmented["members_file"]), str(segmented["model_file"])]
    assert segmented["notes"] == []


def test_summary_fits_80_columns(segmented, capsys):
    """Each segment is one row with its full name, within 80 columns."""
    print_segments(segmented)
    printed = capsys.readouterr().out
    assert_fits(printed)
    lines = printed.splitlines()
    for row in segmented["segments"]:
        (line,) = (line for line in lines if line.strip().startswith(row["name"]))
        assert f"{row['size']:,}" in line
    assert unwrapped(segmented["views"]["sentence"]) in unwrapped(printed)
    assert f"wrote {segmented['model_file']}" in lines


@pytest.mark.parametrize(
    ("choice", "parts"),
    [
        ({}, ["chose 4 segments", "curves of the market that count as much as 100 own auctions"]),
        ({}, ["and equal weights of all days", "error (WAPE) is 12.0%, its bias −3.0%."]),
        ({"half_life": 7.0}, ["and a half-life of 7 days."]),
        ({"strength": None}, ["chose 4 segments", "the curves of the market alone, and equal"]),
        *(
            ({"error": error, "bias": None}, ["Its error (WAPE) is above 1000%, because the days"])
            for error in (1.8e15, None)
        ),
        (
            {"segments": 12},
            ["chose 12 segments at most (empty and very small ones are left out), curves"],
        ),
        ({"days": 0, "error": None, "bias": None}, ["too few days for a backtest"]),
    ],
)
def test_summary_says_what_the_backtest_chose(segmented, capsys, choice, parts):
    """The summary has number of segments, strength, half-life, error and bias."""
    usual = {"segments": 4, "strength": 100.0, "half_life": None, "error": 0.12, "bias": -0.03}
    print_segments(segmented | {"choice": usual | {"days": 2} | choice})
    said = unwrapped(capsys.readouterr().out)
    assert all(part in said for part in parts)


def test_an_infinite_strength_is_null_in_json():
    """JSON has no infinity; an infinite strength or half-life is null."""
    facts = choice_facts(Choice(3, np.inf, np.inf, 0.1, 0.0, 0.01, 2))
    assert (facts["strength"], facts["half_life"], facts["segments"]) == (None, None, 3)


def test_warnings_of_the_model_are_printed_once(run, tmp_path, capsys):
    """A warning is one note, and in the facts; the summary does not repeat it."""
    settings = MarketSettings(advertisers=40, segments=4, days=8, price_rise=0.3, seed=1)
    log, model = simulate_logs(settings, tmp_path / "market").folder, tmp_path / "m.coterie"
    result = run("ads", "segment", log, "-k", 4, "-o", model, "--json")
    assert result.stderr.count("note: prices rose by ") == 1
    facts = json.loads(result.stdout)
    assert facts["warnings"] == facts["notes"] == load_model(model).warnings_
    print_segments(facts)
    assert "prices rose" not in capsys.readouterr().out


def test_options_reach_the_estimator(run, write_log, tmp_path):
    """Options set the parameters of the same name."""
    log, file = write_log(), tmp_path / "a.coterie"
    result = run("ads", "segment", log, "-k", 2, "--consensus", "l2", "--seed", 3, "-o", file)
    assert result.exit_code == 0, result.stderr
    saved = load_model(file)
    assert saved.n_segments == [2]
    assert type(saved.consensus).__name__ == "L2Consensus"
    assert saved.random_state == 3


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["segment", "-o", "m.coterie", "--by", "campaign"], ("campaign", {"device": "kind"})),
        (["evaluate", "--by", "campaign"], ("campaign", {})),
        (["update"], ("advertiser", {})),
    ],
)
def test_options_of_the_log_reach_its_reader(
    run, segmented, tmp_path, monkeypatch, command, expected
):
    """Faults are allowed only if they are; units and dimensions are those asked for."""
    monkeypatch.chdir(tmp_path)
    read = []

    def spy(source, allow_faults=False):
        read.append((source.by, dict(source.dimensions), source.usual_auction, allow_faults))
        raise InvalidParameterError("enough")

    monkeypatch.setattr(LogInput, "read", spy)
    model = [segmented["model_file"]] if command == ["update"] else []
    device = ["--dimension", "device=kind"] if expected[1] else []
    for more, allowed in (([], False), (["--allow-faults"], True)):
        name, *options = command
        assert_one_line(run("ads", name, *model, "log.csv", *options, *device, *more), "enough")
        assert read.pop() == (*expected, "second" if model else None, allowed)


def test_hostile_ids_are_unchanged(run, write_log, tmp_path):
    """Ids with HTML, SQL, terminal escapes or emoji are written unchanged, and can be forecast."""
    names = [*HOSTILE, "a", "b", "c", "d"]
    log, model, members = write_log(advertisers=names), tmp_path / "m", tmp_path / "members.csv"
    result = run("ads", "segment", log, "-k", 2, "-o", model, "--members", members)
    assert result.exit_code == 0, result.stderr
    assert "\x1b" not in result.output
    assert sorted(columns_of(members)["advertiser_id"]) == sorted(names)
    for name in HOSTILE:
        result = run("ads", "forecast", model, "--advertiser", name, "--bid", 2)
        assert result.exit_code == 0, result.stderr
        assert "Its 90 bids, completed by" in unwrapped(result.stdout)
        assert "\x1b" not in result.stdout
        assert result.stdout.startswith(name.replace("\x1b", "␛").replace("\n", "␊"))


def test_log_of_one_advertiser(run, write_log, tmp_path):
    """A log of one advertiser gives a model without segments."""
    log, out = write_log(advertisers=["only"]), tmp_path / "m.coterie"
    result = run("ads", "segment", log, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert "1 advertiser, 3 days" in unwrapped(result.stdout)
    model = load_model(out)
    assert model_facts(model)["advertisers"] == 1
    assert list(segment_columns(model)["advertiser_id"]) == ["only"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["-k", "few"],
        ["-k", "0"],
        ["--consensus", "loud"],
        ["--auction", "third"],
        ["--seed", "-1"],
        ["--seed", str(2**31)],
    ],
)
def test_wrong_usage_ends_with_2_before_the_log_is_read(run, tmp_path, untouched, wrong):
    """Wrong usage is refused before any work."""
    (tmp_path / "log.csv").touch()
    result = run("ads", "segment", tmp_path / "log.csv", "-o", tmp_path / "m", *wrong)
    assert result.exit_code == 2
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("model", "members", "message"),
    [
        ("none/m.coterie", "a.csv", "does not exist"),
        ("m.coterie", "a.xlsx", "must end in one of .csv"),
        ("a.csv", "a.csv", "this path is the model"),
    ],
)
def test_outputs_are_checked_before_the_work(run, tmp_path, untouched, model, members, message):
    """Both files are checked before the log is opened."""
    (tmp_path / "log.parquet").touch()
    result = run(
        *("ads", "segment", tmp_path / "log.parquet"),
        *("-o", tmp_path / model, "--members", tmp_path / members),
    )
    assert_one_line(result, message)


def test_full_disk_leaves_nothing(run, write_log, tmp_path, full_disk):
    """If the model cannot be written, no file is left."""
    log, out = write_log(), tmp_path / "m.coterie"
    full_disk()
    result = run("ads", "segment", log, "-k", 2, "-o", out)
    assert_one_line(result, f"cannot write {out}: No space left on device")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_interrupt_names_complete_files(run, write_log, tmp_path, monkeypatch):
    """An interrupt between the two files names the first."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("coterie.models.save_model", interrupted)
    out, members = tmp_path / "m.coterie", tmp_path / "members.csv"
    result = run("ads", "segment", write_log(), "-k", 2, "-o", out, "--members", members)
    assert (result.exit_code, result.stderr) == (130, f"interrupted after writing {members}\n")
    assert not out.exists()


def test_interrupted_fit_writes_nothing(run, write_log, tmp_path, monkeypatch):
    """An interrupt during the work leaves no file."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(AdForecaster, "fit", interrupted)
    out = tmp_path / "m.coterie"
    result = run("ads", "segment", write_log(), "-o", out, "--members", tmp_path / "a.csv")
    assert (result.exit_code, result.stderr) == (130, "interrupted; nothing was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_members_on_standard_output(run, write_log, tmp_path):
    """--members - prints the table after the model is written; other outputs need files."""
    log, model = write_log(), tmp_path / "m.coterie"
    result = run("ads", "segment", log, "-k", 2, "-o", model, "--members", "-")
    assert result.exit_code == 0, result.stderr
    header, *rows = result.stdout.splitlines()
    assert header.startswith("advertiser_id,segment,")
    assert len(rows) == len(load_model(model).advertisers_)
    assert "wrote the table to standard output\n" in result.stderr
    result = run("ads", "segment", log, "-o", "-")
    assert_one_line(result, "cannot write the model to standard output")
