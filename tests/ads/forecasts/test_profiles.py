"""What is known of an advertiser, of a segment and of a model, ready for JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from coterie.ads.curves.landscapes import curve_at
from coterie.ads.forecasts.profiles import ProfileBook, shown_grid
from coterie.ads.report.contents import report_payload
from fitted_models import (
    HOSTILE_IDS,
    first_price_model,
    minimum_model,
    small_model,
    textless_model,
)
from markets import MICROS

MODELS = [small_model, first_price_model, minimum_model, textless_model]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model.__name__)
def model(request):
    """One of every kind."""
    return request.param()


@pytest.fixture(scope="module")
def book(model):
    """What is known of it."""
    return ProfileBook(model)


def is_plain(value):
    """Whether a value is made of what JSON has, and of finite numbers; no numpy inside."""
    if isinstance(value, dict):
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    if type(value) is float:
        return np.isfinite(value)
    return value is None or type(value) in {str, int, bool}


def test_everything_is_plain_json(model, book):
    """Of every advertiser and segment, and of the model."""
    known = [
        book.summary(),
        *book.segments(),
        *map(book.advertiser, range(len(model.advertisers_))),
    ]
    for one in known:
        assert is_plain(one) and json.loads(json.dumps(one, allow_nan=False)) == one
    assert [one["id"] for one in known[-len(model.advertisers_) :]] == model.advertisers_.tolist()
    assert set(HOSTILE_IDS) <= {one.get("id") for one in known}


def test_the_summary_is_that_of_the_model(model, book):
    """Days, sizes, currency, and what the log has."""
    known = book.summary()
    assert (known["currency"], known["symbol"]) == ("USD", "$")
    assert (known["auction"], known["days"]) == (model.auction_, 5)
    assert (known["first_day"], known["last_day"]) == ("2026-03-02", "2026-03-06")
    assert (known["advertisers"], known["segments"]) == (60, len(model.segments_))
    assert known["rows"] == model.rows_ and known["interval"] == 0.9 and known["grid"] == book.grid
    assert known["has_clicks"] is True and known["has_texts"] is (model.text_view_ is not None)
    assert known["weekdays_seen"] == [True] * 5 + [False] * 2


def test_pooled_curves_are_those_of_the_forecasts(model, book):
    """The win rate at every bid of the grid, and within its interval."""
    for row in (0, 20, 59):
        curves = book.advertiser(row)["curves"]
        assert curves["grid"] == book.grid
        name = str(model.advertisers_[row])
        found = model.forecast(name, [bid for bid in book.grid if bid > 0], supply=1000)
        pooled = curves["pooled"]
        np.testing.assert_allclose(pooled["win"], [one.win_rate for one in found], rtol=1e-9)
        for low, win, high in zip(pooled["low"], pooled["win"], pooled["high"], strict=True):
            assert 0 <= low <= win <= high <= 1
        won = [at for at, one in enumerate(found) if one.win_rate > 1e-3]
        np.testing.assert_allclose(
            np.array(pooled["cost"])[won], [found[at].cost for at in won], rtol=1e-6
        )
        own = curve_at(model.curve(name).own[None], model.edges_, np.array(book.grid) * MICROS)
        np.testing.assert_allclose(curves["own"]["win"], own[0], atol=1e-12)


def test_segment_curves_are_those_of_the_segment(model, book):
    """The same whether asked of the segment or of a member."""
    segments = book.segments()
    for row in (3, 33):
        known = book.advertiser(row)
        of_segment = segments[known["segment"]]
        assert known["segment_name"] == of_segment["name"]
        for name in ("win", "cost"):
            assert known["curves"]["segment"][name] == of_segment[name]


def test_the_book_and_the_report_say_the_same(model, book):
    """Curves, places, supplies and rates, on the same grid; intervals are of other supplies."""
    payload = report_payload(model, source="logs", engine="duckdb").as_dict()
    assert payload["grid"] == book.grid
    for row, shown in enumerate(payload["advertisers"]):
        known = book.advertiser(row)
        for name in ("id", "segment", "confidence", "observations", "bid", "supply", "outlier"):
            assert known[name] == shown[name]
        for name in ("click_rate", "supply_by_weekday"):
            assert known[name] == shown[name]
        np.testing.assert_allclose(known["curves"]["pooled"]["win"], shown["win"], atol=1e-7)
        assert [view["view"] for view in known["views"] if view["dissents"]] == shown["dissent"]
        for name, share in (known["bid_shares"] or {}).items():
            assert share["own"] == shown[f"{name}_below"]
            assert share["segment"] == payload["segments"][shown["segment"]][f"{name}_below"]
            assert [share["distance"], share["bid"]] == shown["gaps"][name == "cost"]
    for known, shown in zip(book.segments(), payload["segments"], strict=True):
        for name in shown.keys() - {"members", "wins_below", "cost_below"}:
            assert known[name] == shown[name]
        members = [str(model.advertisers_[a]) for a in shown["members"]]
        assert [member["id"] for member in known["members"]] == members


def test_notable_shares_are_shown_largest_first(model, book):
    """Those of at least a hundredth; the last column is nobody's segment."""
    for row in range(0, 60, 7):
        known = book.advertiser(row)["shares"]
        shares = [one["share"] for one in known]
        assert shares == sorted(shares, reverse=True) and min(shares) >= 0.01
        assert len(known) == (model.shares_[row] >= 0.01).sum()
        for one in known:
            column = -1 if one["segment"] is None else one["segment"]
            assert one["share"] == pytest.approx(model.shares_[row, column])
            segment = None if column == -1 else model.segments_[column].name
            assert one["name"] == (segment or "all advertisers")


def test_neighbours_are_named_with_their_segments(model, book):
    """Up to eight others, most alike first."""
    rows = {str(name): row for row, name in enumerate(model.advertisers_)}
    known = book.advertiser(9)
    likenesses = [one["likeness"] for one in known["neighbours"]]
    assert 0 < len(likenesses) <= 8 and likenesses == sorted(likenesses, reverse=True)
    for one in known["neighbours"]:
        assert one["id"] != known["id"] and 0 < one["likeness"] <= 1
        assert one["segment"] == model.labels_[rows[one["id"]]]
        assert one["segment_name"] == model.segments_[one["segment"]].name


def test_figures_of_an_advertiser_are_those_of_the_log(model, book):
    """Wins, spend and mean bid; outliers and doubtful members as the model has them."""
    known = [book.advertiser(row) for row in range(60)]
    assert sum(one["wins"] for one in known) == pytest.approx(model.wins_.sum())
    assert sum(one["spend"] for one in known) == pytest.approx(model.cost_.sum() / 1e9)
    assert [row for row, one in enumerate(known) if one["outlier"]] == sorted(model.outliers_)
    assert [row for row, one in enumerate(known) if one["doubtful"]] == sorted(model.doubtful_)
    for row in (0, 30):
        assert known[row]["bid"] == pytest.approx(model.bid_[row] / MICROS)
        asked = model.forecast(known[row]["id"], 1.0)
        assert asked.why == known[row]["why"] + "; supply and prices of an average day"
        assert known[row]["supply"] == asked.supply
        assert known[row]["curve"] == "pooled"
        assert known[row]["conversion_rate"] == model.conversion_rate_[row]


@pytest.mark.parametrize("n", [1, 2, 64, 65, 1000])
def test_shown_grids_are_short_and_have_both_ends(n):
    """At most 64 bids of the grid, rising."""
    edges = np.unique(np.geomspace(1_000, 1e7, n).astype(np.int64))
    shown = shown_grid(edges)
    assert 2 <= len(shown) <= 64 and (np.diff(shown) > 0).all()
    assert shown[-1] == edges[-1] and shown[0] == (edges[0] if n > 1 else 0)
    assert set(shown.tolist()) <= {0, *edges.tolist()}
