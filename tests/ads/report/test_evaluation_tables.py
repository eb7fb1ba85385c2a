"""Tests of the tables of an evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.ads.report import evaluation_tables
from coterie.ads.report.evaluation_tables import (
    best_other,
    coverage_by_level,
    coverage_by_stratum,
    errors_by_stratum,
    figure_in,
    forecast_points,
    shown_targets,
)
from markets import evaluated


@pytest.fixture(scope="module")
def found():
    """Return the evaluation of an easy market."""
    return evaluated().as_dict()


@pytest.mark.slow
def test_coverage_at_every_level(found):
    """Each target has the coverage of the evaluation at four levels, for both kinds of supply."""
    table = coverage_by_level(found)
    assert table["levels"] == [0.5, 0.8, 0.9, 0.95]
    assert [row["target"] for row in table["rows"]][:2] == ["impressions", "spend"]
    for interval in evaluated().intervals:
        place = table["levels"].index(interval.level)
        for row in table["rows"]:
            expected = evaluated().coverage(interval, row["target"])
            assert row[interval.supply][place] == expected


def test_targets_that_the_log_lacks_have_no_row(found):
    """A target without intervals is left out, and clicks without clicks are."""
    intervals = [
        row | {"coverage": None} if row["target"] == "conversions" else row
        for row in found["intervals"]
    ]
    names = [row["target"] for row in coverage_by_level(found | {"intervals": intervals})["rows"]]
    assert "conversions" not in names and "spend" in names
    errors = found["sources"]["dictionary"]
    unclicked = {"dictionary": errors | {"clicks": errors["clicks"] | {"wape": None}}}
    assert shown_targets(found | {"sources": unclicked}) == ["impressions", "spend"]


def test_coverage_of_strata(found):
    """Strata with advertisers have the coverage of one level."""
    rows = coverage_by_stratum(found, 0.8)
    assert [row["name"] for row in rows] == [s["name"] for s in found["strata"] if s["advertisers"]]
    for row in rows:
        (expected,) = (
            one["coverage"]
            for one in found["intervals"]
            if (one["stratum"], one["target"], one["supply"], one["level"])
            == (row["name"], "spend", "forecast", 0.8)
        )
        assert row["spend"]["forecast"] == expected


def test_sources_that_forecast_nothing_have_no_error(found):
    """New advertisers have an error of the default, and none of a source that forecasts 0."""
    rows = {row["name"]: row["sources"] for row in errors_by_stratum(found)}
    assert rows["new"]["dictionary"]["impressions"]["wape"] > 0
    assert rows["new"]["own"]["impressions"] == {"wape": None, "bias": None}
    thin = next(s for s in found["strata"] if s["name"] == "10–199 bids")["sources"]["own"]
    assert rows["10–199 bids"]["own"]["spend"]["bias"] == thin["spend"]["bias"]


def test_the_best_other_source(found):
    """The best other source is neither the default nor own curves, even if these are better."""
    best = best_other(found, "spend")
    others = set(found["sources"]) - {"dictionary", "own"}
    assert best in others
    least = min(found["sources"][name]["spend"]["wape"] for name in others)
    assert found["sources"][best]["spend"]["wape"] == least
    alone = {name: found["sources"][name] for name in ("dictionary", "own")}
    assert best_other(found | {"sources": alone}, "spend") is None


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (0.1234, "MAPE, paper", "12.3%"),
        (None, "TPN", "–"),
        (0.05, "p", "0.050"),
        (1234, "similar pairs", "1,234"),
        ("text", "view", "text"),
    ],
)
def test_cells_of_the_papers_tables(value, column, text):
    """Errors and shares are in percent, other fractions have three digits."""
    assert figure_in(value, column) == text


@pytest.mark.parametrize("target", ["impressions", "spend"])
def test_points_are_the_forecasts_and_the_truth(target):
    """Each point has the forecast, the interval and the actual value of its advertiser."""
    evaluation = evaluated()
    found = forecast_points(evaluation, 0.8)
    rows = np.searchsorted(evaluation.advertisers, found["advertisers"])
    stated = next(one for one in evaluation.intervals if (one.level, one.supply) == (0.8, "given"))
    expected = {
        "forecast": getattr(evaluation.forecasts["dictionary"], target),
        "low": stated.low[target],
        "high": stated.high[target],
        "actual": getattr(evaluation.truth, target),
    }
    assert found[target] == {name: column[rows].tolist() for name, column in expected.items()}
    assert found["of"] == len(rows) == evaluation.as_dict()["advertisers"]
    inside = evaluation.coverage(stated, target)
    assert 1 - found["outside"][target] / found["of"] == pytest.approx(inside)


def test_many_advertisers_are_thinned(monkeypatch):
    """Of more advertisers than wanted every n-th by size is kept, from the largest to the least."""
    whole = forecast_points(evaluated(), 0.9)
    monkeypatch.setattr(evaluation_tables, "_MOST_POINTS", 7)
    some = forecast_points(evaluated(), 0.9)
    assert len(some["advertisers"]) == 7
    assert some["of"] == whole["of"]
    assert some["outside"] == whole["outside"]
    ends = (whole["advertisers"][0], whole["advertisers"][-1])
    assert (some["advertisers"][0], some["advertisers"][-1]) == ends
    sizes = some["impressions"]["actual"]
    assert sizes == sorted(sizes, reverse=True)
