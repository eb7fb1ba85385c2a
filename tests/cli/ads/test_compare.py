"""Tests of ``coterie ads compare``: what changed, for whom, and is it noise."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from answers import assert_fits, assert_one_line, unwrapped
from coterie.ads.decisions.comparison import ModelComparison, compare_models, compare_periods
from coterie.ads.forecasts.fitted_market import load_market
from coterie.ads.histograms.stored_days import pack_days, unpack_days
from coterie.cli.ads.compare import _periods
from coterie.models import load_model, save_model
from table_files import columns_of

FIRST, LAST = "2026-03-02:2026-03-03", "2026-03-04:2026-03-05"
PERIODS = ("--before", FIRST, "--after", LAST)


@pytest.fixture(scope="module")
def model(segmented):
    """The model file of the small market."""
    return segmented["model_file"]


@pytest.fixture(scope="module")
def known(model):
    """What Python says of the two periods."""
    periods = (tuple(text.split(":")) for text in (FIRST, LAST))
    return compare_periods(load_market(model), *periods)


@pytest.fixture(scope="module")
def halved(model, tmp_path_factory):
    """A model of the same days, on which everybody bids and wins half as often."""
    other, file = load_model(model), tmp_path_factory.mktemp("halved") / "halved.coterie"
    log, texts = unpack_days(other.stored_days_)
    names = ("count", "square", "bid", "wins", "cost", "clicks", "conversions")
    halved = replace(log.bids, **{name: getattr(log.bids, name) / 2 for name in names})
    other.stored_days_ = pack_days(replace(log, bids=halved), texts)
    save_model(other, file)
    return file


def of_json(run, *words):
    """The comparison that the program prints."""
    result = run("ads", "compare", *words, "--json")
    assert result.exit_code == 0, result.stderr
    return msgspec.json.decode(result.stdout, type=ModelComparison)


def test_json_is_the_comparison(run, model, known):
    """The JSON has exactly the members of the result of Python."""
    assert of_json(run, model, *PERIODS) == known


@pytest.mark.parametrize("kind", ["models", "periods"])
def test_the_rate_decides_what_has_changed(run, model, halved, kind):
    """--fdr is that of the comparison, whether of two models or of two periods."""
    words = (model, halved) if kind == "models" else (model, *PERIODS)
    strict, loose = (of_json(run, *words, "--fdr", rate) for rate in (1e-12, 0.9))
    assert (strict.false_discovery_rate, loose.false_discovery_rate) == (1e-12, 0.9)
    numbers = [sum(row.changed for row in one.rows) for one in (strict, loose)]
    assert numbers[0] < numbers[1]
    if kind == "models":
        expected = compare_models(load_market(model), load_market(halved), false_discovery_rate=0.9)
        assert loose == expected
    shown = unwrapped(run("ads", "compare", *words, "--fdr", 0.9).stdout)
    assert "90% of the changes marked" in shown


def test_summary_has_market_segments_and_advertisers(run, model, known):
    """People see the market first, then segments, and how sure it all is."""
    result = run("ads", "compare", model, *PERIODS)
    assert result.exit_code == 0, result.stderr
    assert_fits(result.stdout)
    shown = unwrapped(result.stdout)
    assert "2–3 March 2026 against 4–5 March 2026" in shown
    for words in ("auctions per day", "price level", "of new advertisers"):
        assert words in shown
    assert "10% of the changes marked" in shown
    assert "do not have the same weekdays" in shown
    supplies = [row for row in known.rows if (row.kind, row.measure) == ("advertiser", "supply")]
    both = sum(bool(row.before and row.after) for row in supplies)
    assert f"{both} advertisers in both periods" in shown


def test_one_advertiser(run, model, known, tmp_path):
    """With --advertiser, all outputs have its rows alone."""
    name = next(row.subject for row in known.rows if row.kind == "advertiser" and row.error)
    file, words = tmp_path / "one.csv", (model, *PERIODS, "--advertiser", name)
    shown = run("ads", "compare", *words, "-o", file).stdout
    assert name in shown and "before" in shown and "win rate" in shown
    assert of_json(run, *words).rows == tuple(known.of("advertiser", name).values())
    assert set(columns_of(file)["subject"]) == {name}


def test_a_model_does_not_differ_from_itself(run, model):
    """Two equal models differ by nothing."""
    shown = unwrapped(run("ads", "compare", model, model).stdout)
    assert "No advertiser changed by more than noise." in shown
    assert "Both models have the same days." in shown
    assert "0 moved to another segment (adjusted Rand index 1.00)" in shown


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_table_has_the_rows(run, model, known, tmp_path, suffix):
    """The table has the figures of the comparison."""
    file = tmp_path / f"changes.{suffix}"
    assert f"wrote {file}" in run("ads", "compare", model, *PERIODS, "-o", file).stdout
    columns = columns_of(file)
    assert list(columns["measure"]) == [row.measure for row in known.rows]
    sums = np.array([row.measure == "total_impressions" for row in known.rows])
    found = np.array([value or "nan" for value in columns["after"]], dtype=float)[sums]
    assert found == pytest.approx(
        [row.after for row in known.rows if row.measure == "total_impressions"]
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--before", FIRST, "--after", FIRST), "both periods have"),
        (("--before", FIRST, "--after", "2030-01-01:2030-01-02"), "no day in this period"),
        (("--before", "soon", "--after", LAST), "a period has two dates"),
        (("--before", FIRST, "--after", "2026-03-04:2026-03-05:1"), "write the first and the last"),
        ((*PERIODS, "--fdr", "2"), "false_discovery_rate=2"),
        ((*PERIODS, "--advertiser", "x"), "it bids in neither period"),
    ],
)
def test_bad_input_is_one_line(run, model, words, message):
    """What cannot be compared is refused with one line."""
    assert_one_line(run("ads", "compare", model, *words), message)


def test_a_period_may_be_one_day():
    """A period is its first and last day; one day alone is both."""
    expected = [("2026-03-02", "2026-03-05"), ("2026-03-06", "2026-03-06")]
    assert _periods(None, "2026-03-02:2026-03-05", "2026-03-06") == expected


@pytest.mark.parametrize("words", [(), ("--before", FIRST), ("MODEL", "--before", FIRST)])
def test_models_and_periods_exclude_each_other(run, model, words):
    """A second model, or two periods: anything else is wrong usage."""
    result = run("ads", "compare", model, *(model if part == "MODEL" else part for part in words))
    assert result.exit_code == 2
    assert "second model" in unwrapped(result.stderr)


def test_the_models_are_not_overwritten(run, model, halved):
    """A table cannot be written over a model."""
    for output in (model, halved):
        before = output.read_bytes()
        assert run("ads", "compare", model, halved, "-o", output).exit_code == 1
        assert output.read_bytes() == before
