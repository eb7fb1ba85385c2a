"""Tests of ``coterie ads compare``: what changed, for whom, and is it noise."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

from answers import assert_fits, assert_one_line, unwrapped
from coterie.ads.decisions.comparison.comparison_results import ModelComparison
from coterie.ads.decisions.comparison.model_comparison import compare_periods
from coterie.ads.forecasts.fitted_market import load_market
from table_files import columns_of

FIRST, LAST = "2026-03-02:2026-03-03", "2026-03-04:2026-03-05"


@pytest.fixture(scope="module")
def model(segmented):
    """The model file of the small market."""
    return segmented["model_file"]


@pytest.fixture(scope="module")
def known(model):
    """What Python says of the two periods."""
    periods = (tuple(text.split(":")) for text in (FIRST, LAST))
    return compare_periods(load_market(model), *periods)


def test_json_is_the_comparison(run, model, known):
    """The JSON has exactly the members of the result of Python."""
    result = run("ads", "compare", model, "--before", FIRST, "--after", LAST, "--json")
    assert result.exit_code == 0, result.stderr
    found = msgspec.json.decode(result.stdout, type=ModelComparison)
    assert found == known
    assert json.loads(result.stdout) == json.loads(msgspec.json.encode(known))


def test_summary_has_market_segments_and_reasons(run, model, known):
    """People see the market first, then segments, and how sure it all is."""
    result = run("ads", "compare", model, "--before", FIRST, "--after", LAST)
    assert result.exit_code == 0, result.stderr
    assert_fits(result.stdout)
    shown = unwrapped(result.stdout)
    assert "2–3 March 2026 against 4–5 March 2026" in shown
    for words in ("auctions per day", "price level", "why impressions changed", "own bids"):
        assert words in shown
    assert "10% of the changes marked" in shown
    assert "do not have the same weekdays" in shown
    assert f"{len(known.advertisers)} advertisers in both periods" in shown


def test_one_advertiser(run, model, known):
    """With --advertiser, only its changes are shown, before and after."""
    name = known.advertisers[3].advertiser
    told = ("ads", "compare", model, "--before", FIRST, "--after", LAST, "--advertiser", name)
    shown = run(*told).stdout
    assert name in shown and "before" in shown and "segment " not in shown
    facts = json.loads(run(*told, "--json").stdout)
    assert [one["advertiser"] for one in facts["advertisers"]] == [name]


def test_a_model_does_not_differ_from_itself(run, model):
    """Two equal models differ by nothing."""
    result = run("ads", "compare", model, model)
    assert "No advertiser changed by more than noise." in unwrapped(result.stdout)
    assert "Both models have the same days." in unwrapped(result.stdout)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_table_has_a_row_for_each_advertiser(run, model, known, tmp_path, suffix):
    """The table has the figures of the comparison."""
    file = tmp_path / f"changes.{suffix}"
    result = run("ads", "compare", model, "--before", FIRST, "--after", LAST, "-o", file)
    assert f"wrote {file}" in result.stdout
    columns = columns_of(file)
    column = columns["impressions_by_market_price"]
    expected = [one.parts.market_price for one in known.advertisers]
    np.testing.assert_allclose([float(value) for value in column], expected)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (("--before", FIRST, "--after", FIRST), "both periods have"),
        (("--before", FIRST, "--after", "2030-01-01:2030-01-02"), "no day in this period"),
        (("--before", "soon", "--after", LAST), "a period has two dates"),
        (("--before", FIRST, "--after", "2026-03-04:2026-03-05:1"), "write the first and the last"),
        (("--before", FIRST, "--after", LAST, "--fdr", "2"), "false_discovery_rate=2"),
        (("--before", FIRST, "--after", LAST, "--advertiser", "x"), "it is in no log"),
    ],
)
def test_bad_input_is_one_line(run, model, told, message):
    """What cannot be compared is refused with one line."""
    result = run("ads", "compare", model, *told)
    assert_one_line(result, message)


@pytest.mark.parametrize("told", [(), ("--before", FIRST), ("MODEL", "--before", FIRST)])
def test_models_and_periods_exclude_each_other(run, model, told):
    """A second model, or two periods: anything else is wrong usage."""
    result = run("ads", "compare", model, *(model if part == "MODEL" else part for part in told))
    assert result.exit_code == 2
    assert "second model" in unwrapped(result.stderr)


def test_the_model_is_not_overwritten(run, model):
    """A table cannot be written over a model."""
    before = model.read_bytes()
    result = run("ads", "compare", model, model, "-o", model)
    assert result.exit_code == 1
    assert model.read_bytes() == before
