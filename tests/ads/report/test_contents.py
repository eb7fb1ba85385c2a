"""Tests of the contents of a report, from a model and an evaluation."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.exceptions import NotFittedError

import coterie
from coterie.ads.curves.day_levels import fit_levels
from coterie.ads.curves.landscapes import curve_at
from coterie.ads.evaluation.evaluation import evaluate
from coterie.ads.evaluation.paper_tables import paper_tables
from coterie.ads.fitting.forecaster import AdForecaster
from coterie.ads.forecasts.forecast_tables import tables_of
from coterie.ads.report import contents
from coterie.ads.report.contents import (
    Report,
    day_points,
    report_payload,
    shown_advertisers,
)
from coterie.ads.report.rendering import render_report
from coterie.errors import InvalidParameterError
from markets import (
    EASY,
    MICROS,
    ODD_WITH_SEGMENTS,
    ODD_WITHOUT_SEGMENTS,
    QUICK,
    evaluated,
    fitted,
    log_of,
    market,
    odd_market,
    odd_model,
)

NOTE = {"severity": "warning", "what": "prices above bids", "count": 3, "examples": ["row 7"]}


@pytest.fixture(scope="module")
def payload():
    """Return the report of an easy market, with every part."""
    return report_payload(
        fitted(),
        evaluated(),
        source="logs",
        engine="duckdb",
        quality=[NOTE],
        steps=[("read", "all of it")],
        title="Week 10",
    )


def of_market(log, texts=None, **how):
    """Return the report of a log."""
    model = AdForecaster(**{**vars(QUICK), **how}).fit(log, texts)
    return report_payload(model, source="logs", engine="duckdb")


def assert_plain(report: Report) -> None:
    """Assert that a report is plain JSON and that its curves are rates on an increasing grid."""
    plain = report.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert (np.diff(report.grid) > 0).all() and report.grid[0] >= 0
    for one in (*report.segments, *report.advertisers):
        low, win, high, cost = map(np.array, (one.win_low, one.win, one.win_high, one.cost))
        assert len(low) == len(win) == len(high) == len(cost) == len(report.grid)
        assert ((low >= 0) & (low <= win + 1e-12) & (win <= high + 1e-12) & (win <= 1)).all()
        assert (cost >= 0).all()
    for one in report.advertisers:
        spend = np.array(one.win) * one.cost / 1000
        assert (np.array(one.spend_low) <= spend * (1 + 1e-9)).all()
        assert (np.array(one.spend_high) >= spend * (1 - 1e-9)).all()
        assert min(one.spend_low) >= 0


def test_report_is_plain(payload):
    """A report converts to JSON and back without loss."""
    assert_plain(payload)


def test_headline_figures_are_those_of_the_log(payload):
    """Rows, wins, spend and days equal those of the histograms."""
    histograms = market(EASY).histograms
    assert payload.rows == histograms.daily("count").sum()
    assert payload.wins == histograms.daily("wins").sum()
    assert payload.spend == pytest.approx(histograms.daily("cost").sum() / 1e9)
    assert (payload.first_day, payload.last_day) == ("2026-03-02", "2026-03-05")
    assert (payload.n_days, payload.auction, payload.currency) == (4, "second", "USD")
    assert (payload.title, payload.source, payload.engine) == ("Week 10", "logs", "duckdb")
    assert payload.version == coterie.__version__
    assert payload.quality == [NOTE]
    assert payload.how == [{"step": "read", "detail": "all of it"}]
    assert datetime.fromisoformat(payload.made).tzinfo is not None


def test_advertisers_have_the_curves_of_their_forecasts(payload):
    """Curves and intervals of an advertiser are those that the model forecasts for a day."""
    model = fitted()
    grid = np.array(payload.grid) * MICROS
    assert [one.id for one in payload.advertisers] == model.advertisers_.tolist()
    for row in (0, 33, 89):
        one = payload.advertisers[row]
        own = curve_at(model.curve(one.id).own[None], model.edges_, grid.round())[0]
        np.testing.assert_allclose(one.own, own)
        for place, forecast in enumerate(model.forecast(one.id, payload.grid)):
            assert one.supply == pytest.approx(forecast.supply)
            assert one.win[place] == pytest.approx(forecast.win_rate)
            assert one.cost[place] == pytest.approx(forecast.cost)
            for ends, names in (
                (forecast.impressions_interval, ("win_low", "win_high")),
                (forecast.spend_interval, ("spend_low", "spend_high")),
            ):
                shown = [getattr(one, name)[place] * one.supply for name in names]
                assert shown == pytest.approx(ends, abs=1e-12)
        weekday = model.forecast(one.id, 1.0, day="2026-03-11").supply
        assert one.supply_by_weekday[2] == pytest.approx(weekday)
        assert one.segment == model.labels_[row]
        assert one.click_rate == pytest.approx(model.click_rate_[row])
        assert one.source == "pooled"


def test_an_advertiser_without_supply_has_intervals():
    """If no auctions are expected, the intervals are those of very many."""
    model = AdForecaster(**vars(QUICK)).fit(*odd_market("five advertisers"))
    level = model.supply_.level.copy()
    level[0] = 0.0
    model.supply_ = replace(model.supply_, level=level)
    found = report_payload(model, source="logs", engine="duckdb")
    assert_plain(found)
    one, tables = found.advertisers[0], tables_of(model)
    assert one.supply == 0.0
    curves = tables.curves_at(tables.placer.placed(one.id), np.array(found.grid))
    for name, curve in (("win", "win"), ("win_low", "low"), ("win_high", "high")):
        assert getattr(one, name) == pytest.approx(curves[curve], abs=1e-12)


def test_segments_list_their_members(payload):
    """A segment lists at most 12 members, the most confident first."""
    model = fitted()
    assert len(payload.segments) == len(model.segments_)
    for s, segment in enumerate(payload.segments):
        profile = model.segments_[s]
        assert (segment.name, segment.size) == (profile.name, profile.size)
        assert segment.median_price == pytest.approx(profile.median_price / MICROS)
        assert 0 < len(segment.members) <= 12
        assert all(model.labels_[a] == s for a in segment.members)
        confidence = model.confidence_[segment.members].round(2)
        assert (np.diff(confidence) <= 0).all()
        assert (np.diff(segment.win) >= -1e-12).all()


def test_dissenting_views_of_each_advertiser(payload):
    """An advertiser lists the views that place it in another segment."""
    model = fitted()
    for a, one in enumerate(payload.advertisers):
        elsewhere = [
            name
            for name, placed in zip(model.agreement_.names, model.agreement_.placed[a], strict=True)
            if placed >= 0 and placed != model.labels_[a]
        ]
        assert one.dissent == elsewhere
    assert payload.views["names"] == model.agreement_.names
    assert payload.views["sentence"] == model.agreement_.sentence


def test_the_evaluation_is_the_one_given(payload):
    """Sources, non-empty strata, differences and the paper's tables are those of the evaluation."""
    expected = evaluated().as_dict()
    shown = payload.evaluation
    for name in ("holdout", "sources", "differences", "default"):
        assert shown[name] == expected[name]
    assert next(iter(shown["sources"])) == shown["default"] == "dictionary"
    assert [s["name"] for s in shown["strata"]] == [
        s["name"] for s in expected["strata"] if s["advertisers"]
    ]
    assert shown["chosen"]["number of segments"] == expected["chosen"]["dictionary"]["k"]
    assert payload.tables == paper_tables(evaluated(), fitted().agreement_)
    assert payload.warnings == fitted().warnings_


@pytest.mark.parametrize(("amount", "won"), [(1, True), (MICROS, False)])
def test_log_of_one_bid(amount, won):
    """The grid of a log with one bid is 0 and that bid; at 0 nothing is won."""
    log = log_of(bid=[amount], won=[won], price=[amount], edges=[amount])
    found = of_market(log)
    assert_plain(found)
    assert found.grid == [0.0, amount / MICROS]
    assert found.advertisers[0].own == [0.0, float(won)]
    assert found.segments[0].name == "all advertisers"
    assert found.segments[0].size == 1 and found.outliers == []


# With very few advertisers the views may form camps, and forecasts may be far off.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::coterie.errors.CoterieWarning")
@pytest.mark.parametrize("name", [*ODD_WITH_SEGMENTS, *ODD_WITHOUT_SEGMENTS])
def test_odd_markets(name):
    """Degenerate markets give plain reports, with an evaluation if there are bids to learn from."""
    log, texts = odd_market(name)
    has_training = log.daily("count")[:, :-1].sum() > 0
    evaluation = evaluate(log, texts, settings=QUICK) if has_training else None
    found = report_payload(odd_model(name), evaluation, source="logs", engine="duckdb")
    assert_plain(found)
    if name == "one day":
        assert found.first_day == found.last_day == "2026-03-02"
    if name in ODD_WITHOUT_SEGMENTS:
        assert [segment.name for segment in found.segments] == ["all advertisers"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": AdForecaster()}, NotFittedError, "not fitted"),
        ({"model": None}, TypeError, "AdForecaster, got NoneType"),
        ({"evaluation": {}}, TypeError, "evaluate returns, or None, got dict"),
        ({"source": Path("logs")}, TypeError, "source must be a string, got PosixPath"),
        ({"quality": [{"what": "odd"}]}, InvalidParameterError, "severity, what, count and exam"),
        ({"quality": [NOTE | {"severity": "fatal"}]}, InvalidParameterError, "'fatal' must be"),
    ],
)
def test_wrong_arguments_are_named(change, error, message):
    """A wrong argument is refused with its name and what it must be."""
    arguments = {"model": fitted(), "source": "logs", "engine": "duckdb"} | change
    with pytest.raises(error, match=message):
        report_payload(**arguments)


def test_of_many_the_busiest_are_shown(monkeypatch):
    """And the typical members of segments, to which the cards of segments point."""
    model = fitted()
    n = len(model.advertisers_)
    np.testing.assert_array_equal(shown_advertisers(model), np.arange(n))
    monkeypatch.setattr(contents, "_MOST_ADVERTISERS", 7)
    shown = shown_advertisers(model)
    busiest = np.argsort(-model.observations_, kind="stable")[:7]
    assert set(busiest) <= set(shown) and (np.diff(shown) > 0).all()
    assert 7 < len(shown) <= 7 + 12 * len(model.segments_)


@pytest.mark.parametrize("most", [5, 40])
def test_a_report_of_some_advertisers(most, monkeypatch):
    """Rows, members and outliers are those of the whole report, numbered anew."""
    model = fitted()
    whole = report_payload(model, source="logs", engine="duckdb")
    monkeypatch.setattr(contents, "_MOST_ADVERTISERS", most)
    part = report_payload(model, source="logs", engine="duckdb")
    by_id = {one.id: one for one in whole.advertisers}
    assert [by_id[one.id] for one in part.advertisers] == part.advertisers
    assert part.left_out == len(whole.advertisers) - len(part.advertisers) > 0
    for one, other in zip(part.segments, whole.segments, strict=True):
        members = [part.advertisers[i].id for i in one.members]
        assert members == [whole.advertisers[i].id for i in other.members]
        assert one.size == other.size
    shown = {one.id for one in part.advertisers}
    for name in ("outliers", "low_confidence"):
        ids = [part.advertisers[i].id for i in getattr(part, name)]
        every = [whole.advertisers[i].id for i in getattr(whole, name)]
        assert ids == [one for one in every if one in shown]
    page = render_report(part)
    assert f"leaves out {part.left_out} others" in page
    assert f"{len(whole.advertisers)} advertisers" in page
    # a search that finds nothing must not say that an advertiser does not exist
    assert f'"left_out":{part.left_out}' in page
    assert "among those shown" in page and "among those shown" not in render_report(whole)


def test_days_are_expected_from_those_before():
    """A day is expected as the levels of the days before say; the mean factor is 1."""
    days = np.datetime64("2026-03-02") + np.arange(9)
    values = np.random.default_rng(3).normal(0.4, 0.05, 9)
    levels = fit_levels(days, values, np.full(9, 1e-4))
    rows = day_points(levels, levels, 0.9)
    assert [row["day"] for row in rows] == [str(day) for day in days]
    assert np.log([row["price"]["observed"] for row in rows]).mean() == pytest.approx(0)
    mean, variance = levels.one_day_ahead()
    for d in range(1, 9):
        one = rows[d]["supply"]
        assert np.log(one["expected"]) == pytest.approx(mean[d] - values.mean())
        half = ndtri(0.95) * np.sqrt(variance[d])
        assert np.log(one["high"] / one["low"]) == pytest.approx(2 * half)
