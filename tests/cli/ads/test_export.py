"""Tests of ``coterie ads export``: curves and forecasts of all advertisers as Parquet."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from answers import assert_fits, assert_one_line
from coterie.ads.fitting.forecaster import load_forecaster
from coterie.ads.service.served_model import file_version


@pytest.fixture(scope="module")
def model(segmented):
    """The model file of the small market."""
    return segmented["model_file"]


def test_folder_has_the_tables(run, model, tmp_path):
    """The summary names the files and their rows."""
    result = run("ads", "export", model, "-o", tmp_path / "tables")
    assert result.exit_code == 0, result.stderr
    assert_fits(result.stdout)
    for name in ("advertisers", "segments", "curves", "forecasts"):
        file = tmp_path / "tables" / f"{name}.parquet"
        assert f"wrote {file}" in result.stdout
        assert f"{pq.ParquetFile(file).metadata.num_rows:,}" in result.stdout


def test_forecasts_are_those_asked_for(run, model, tmp_path):
    """Bids, days and level are those of the options; the file names the model's version."""
    file = tmp_path / "forecasts.parquet"
    words = ("--bid", "1:2:0.5", "--days", "1, 30", "--day", "2026-03-10", "--level", "50")
    result = run("ads", "export", model, "-o", file, "--tables", "forecasts", *words, "--json")
    [facts] = json.loads(result.stdout)["tables"]
    table = pq.read_table(file)
    assert facts == {"name": "forecasts", "path": str(file), "rows": table.num_rows}
    first = table.slice(4, 1).to_pylist()[0]
    name = first["advertiser"]
    one = load_forecaster(model).forecast(name, 1.5, days=30, day="2026-03-10", level=0.5)
    assert (first["bid"], first["days"], first["spend"]) == (1.5, 30, one.spend)
    assert table.schema.metadata[b"model_version"].decode() == file_version(model)


def test_bids_are_multiples_of_the_mean_bid(run, model, tmp_path):
    """By default each advertiser has bids around its own."""
    words = ("--tables", "advertisers, forecasts", "--factors", "1,2", "--days", "1", "--quiet")
    result = run("ads", "export", model, "-o", tmp_path / "tables", *words)
    assert result.stdout == ""
    means, bids = (
        pq.read_table(tmp_path / "tables" / f"{name}.parquet")[column].to_pylist()
        for name, column in (("advertisers", "mean_bid"), ("forecasts", "bid"))
    )
    assert bids == [factor * mean for mean in means for factor in (1, 2)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--factors", "1", "--bid", "2"), "--bid and --factors exclude each other"),
        (("--factors", "0"), "--factors 0: write numbers above 0"),
        (("--factors", "x"), "--factors x: write numbers above 0"),
        (("--factors", "1,inf"), "--factors 1,inf: write numbers above 0"),
        (("--days", "week"), "--days week: write numbers of days"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(run, model, tmp_path, words, message):
    """What cannot be written is refused with one line."""
    assert_one_line(run("ads", "export", model, "-o", tmp_path / "tables", *words), message)
    assert list(tmp_path.iterdir()) == []


def test_the_model_is_not_overwritten(run, model):
    """The tables cannot be written over the model."""
    before = model.read_bytes()
    assert_one_line(run("ads", "export", model, "-o", model), "this path is the model")
    assert model.read_bytes() == before
