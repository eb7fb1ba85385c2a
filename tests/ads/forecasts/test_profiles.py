"""What is known of an advertiser, of a segment and of a model, ready for JSON."""

from __future__ import annotations

import json
from copy import copy

import numpy as np
import pytest

from coterie.ads.curves.landscapes import curve_at
from coterie.ads.forecasts.profiles import Profiles, shown_grid
from coterie.ads.report.contents import report_payload
from fitted_models import (
    HOSTILE_IDS,
    first_price_model,
    minimum_model,
    small_model,
    textless_model,
)
from markets import MICROS, odd_model

MODELS = [small_model, first_price_model, minimum_model, textless_model]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model.__name__)
def model(request):
    """One of every kind."""
    return request.param()


@pytest.fixture(scope="module")
def book(model):
    """What is known of it."""
    return Profiles(model)


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
        assert asked.why.startswith(known[row]["why"] + "; supply and prices of an average day")
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


def by_definition(model, wins, row):
    """The likeness of everyone to one, 0 to itself: segments in common, curves and texts."""
    found = np.minimum(model.shares_[row], model.shares_).sum(axis=1)
    found *= 1 - abs(wins[row] - wins).max(axis=1)
    if model.vectors_ is not None:
        found *= (1 + np.maximum(model.vectors_ @ model.vectors_[row], 0)) / 2
    found[row] = 0.0
    return found


@pytest.mark.parametrize("model", MODELS)
def test_those_found_are_the_most_alike_of_all(model):
    """Eight at most, most alike first, never itself: as the definition has it of everyone."""
    model = model()
    profiles = Profiles(model)
    bins = np.unique(np.linspace(0, len(model.edges_) - 1, 32).round().astype(int))
    wins = model.win_[:, bins].astype(float)
    for row in (0, 7, 31, 59):
        found = profiles.neighbours(row)
        expected = by_definition(model, wins, row)
        alike = [likeness for _, likeness in found]
        np.testing.assert_allclose(alike, expected[[b for b, _ in found]], atol=1e-5)
        np.testing.assert_allclose(alike, -np.sort(-expected[expected > 0])[:8], atol=1e-5)
        assert alike == sorted(alike, reverse=True) and row not in [b for b, _ in found]
    there, back = (dict(profiles.neighbours(row, n=59)) for row in (0, 31))
    assert there.get(31, 0.0) == pytest.approx(back.get(0, 0.0), abs=1e-12)


def test_a_twin_is_the_nearest():
    """One with the same curve, shares and text is as like as can be."""
    model = copy(small_model())
    rows = np.arange(60)
    rows[41] = 5
    for name in ("shares_", "win_", "vectors_"):
        setattr(model, name, getattr(model, name)[rows])
    nearest, likeness = Profiles(model).neighbours(5)[0]
    has_text = model.vectors_[5].any()
    assert nearest == 41 and likeness == pytest.approx(1.0 if has_text else 0.5, abs=1e-6)


def test_of_equals_the_first_are_found():
    """Where everyone is alike, in the order of rows."""
    model = copy(textless_model())
    same = np.full(60, 3)
    for name in ("shares_", "win_"):
        setattr(model, name, getattr(model, name)[same])
    assert [row for row, _ in Profiles(model).neighbours(2)] == [0, 1, 3, 4, 5, 6, 7, 8]
    assert [row for row, _ in Profiles(model).neighbours(30, n=3)] == [0, 1, 2]


def test_who_has_nothing_in_common_is_left_out():
    """Rather than listed with a likeness of 0; alone there is nobody."""
    model = copy(textless_model())
    shares = np.zeros_like(model.shares_)
    shares[:4, 0], shares[4:, 1] = 1.0, 1.0
    model.shares_ = shares
    assert {row for row, _ in Profiles(model).neighbours(1)} == {0, 2, 3}
    assert Profiles(odd_model("one advertiser")).neighbours(0) == []
