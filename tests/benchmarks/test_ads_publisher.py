"""The publisher's orders: what is read, how they are grouped, what is forecast, what is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import sem

from auction_rows import row, weekly_rows, write_rows
from benchmarks.ads_order_forecasts import (
    SOURCES,
    Candidate,
    History,
    Shapes,
    forecast,
    forecasts,
    weekday_evidence,
)
from benchmarks.ads_order_views import price_curves, read_orders, views_of_orders
from benchmarks.ads_publisher import paired_difference, run_publisher, wape
from coterie.errors import InvalidParameterError, TableError
from coterie.inspection.scores import adjusted_rand_index

amounts = arrays(np.float64, st.tuples(st.integers(1, 4), st.just(17)), elements=st.integers(0, 9))
WEEKDAYS = np.arange(22) % 7


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Twelve orders of two kinds over thirty days."""
    return read_orders(write_rows(tmp_path_factory.mktemp("log") / "rows.csv.gz", weekly_rows()))


def test_rows_are_counted_kept_and_left_out(tmp_path):
    """No impressions or negative revenue: out. Equal rows: in, and counted."""
    rows = [
        row(0, 7, 10, 0.5),
        row(0, 7, 10, 0.5),
        row(0, 7, 10, 0.4),
        row(2, 5, 4, 0.2, site=3),
        row(1, 7, 0, 0.01),
        row(1, 7, 6, -0.3),
    ]
    log = read_orders(write_rows(tmp_path / "rows.csv.gz", rows))
    assert log.orders.tolist() == [5, 7]
    assert [str(day) for day in log.days] == ["2019-06-01", "2019-06-02", "2019-06-03"]
    assert log.daily("impressions").tolist() == [[0, 0, 4], [30, 0, 0]]
    assert log.daily("revenue") == pytest.approx(np.array([[0, 0, 0.2], [1.4, 0, 0]]))
    assert log.notes == {
        "rows": 6,
        "rows_without_impressions": 1,
        "revenue_without_impressions": 0.01,
        "rows_with_negative_revenue": 1,
        "rows_repeated": 1,
        "impressions_repeated": 10,
        "impressions": 34,
        "revenue": pytest.approx(1.6),
    }


def test_other_files_are_refused(tmp_path):
    """A missing column and a file without a usable row are told."""
    path = tmp_path / "rows.csv.gz"
    with pytest.raises(TableError, match="no row with impressions and revenue"):
        read_orders(write_rows(path, [row(0, 1, 0, 0.0)]))
    (tmp_path / "other.csv").write_text("date,order_id\n2019-06-01,3\n")
    with pytest.raises(TableError, match="no column 'total_impressions'"):
        read_orders(tmp_path / "other.csv")


def test_looks_find_the_kinds_and_see_no_later_day(log):
    """Sites, countries and prices tell the two kinds apart, from the days given alone."""
    views = views_of_orders(log, 10, [2], seeds=[0, 1])
    kinds = log.orders % 2
    assert {name: labels.shape for name, labels in views.items()} == dict.fromkeys(
        ("placement", "audience", "price"), (12, 2)
    )
    for labels in views.values():
        assert adjusted_rand_index(kinds, labels[:, 0]) == 1.0
    later = replace(log, impressions=np.where(log.day >= 10, 3 * log.impressions, log.impressions))
    again = views_of_orders(later, 10, [2], seeds=[0, 1])
    assert all(np.array_equal(views[name], again[name]) for name in views)


def test_price_curves_are_weighted_distributions(tmp_path):
    """The share of impressions at most so dear; observations count rows by their size."""
    rows = [row(0, 1, 3, 0.003), row(0, 1, 1, 0.005), row(0, 2, 2, 0.01)]
    log = read_orders(write_rows(tmp_path / "rows.csv.gz", rows))
    curves, observations = price_curves(log, np.ones(3, dtype=bool))
    assert observations.tolist() == pytest.approx([16 / 10, 1])
    assert np.unique(curves[0].round(9)).tolist() == pytest.approx([0.75, 1.0])
    assert np.unique(curves[1].round(9)).tolist() == pytest.approx([0.0, 1.0])
    nothing, none = price_curves(log, np.zeros(3, dtype=bool))
    assert not nothing.any()
    assert not none.any()


@settings(deadline=None, max_examples=50)
@given(amounts)
def test_weekday_factors_are_ratios_of_means(table):
    """x / y is the mean on that weekday over the mean of all days, and y the number of days."""
    weekday = WEEKDAYS[:17]
    x, y = weekday_evidence(table, weekday)
    for a, values in enumerate(table):
        if not values.any():
            assert not x[a].any()
            assert not y[a].any()
            continue
        for w in range(7):
            assert y[a, w] == (weekday == w).sum()
            assert x[a, w] / y[a, w] == pytest.approx(values[weekday == w].mean() / values.mean())


@settings(deadline=None, max_examples=50)
@given(amounts, st.floats(0.5, 20))
def test_a_forecast_scales_with_the_order(table, half_life):
    """Ten times the impressions and the revenue: ten times the forecast of either."""
    shapes = Shapes(np.full((len(table), 7), 1.0), np.full((len(table), 7), 1.0))
    small = forecast(History(table, 0.5 * table, WEEKDAYS), shapes, half_life)
    large = forecast(History(10 * table, 5 * table, WEEKDAYS), shapes, half_life)
    for few, many in zip(small, large, strict=True):
        assert many == pytest.approx(10 * few)
    assert small[1] == pytest.approx(0.5 * small[0])


def test_an_exact_week_is_forecast_exactly():
    """Level times weekday factor, eCPM times weekday factor: own finds both, whatever half-life."""
    shape, price = np.array([1, 2, 3, 4, 5, 6, 7.0]), np.array([7, 6, 5, 4, 3, 2, 1.0])
    days = np.arange(26) % 7
    impressions = np.outer([10.0, 300.0], shape[days])
    revenue = impressions * price[days]
    history = History(impressions[:, :21], revenue[:, :21], days)
    found = dict(forecasts(history, {2: np.array([0, 1])}, [2.0], [1.0]))
    for source in ("own", "global", "global+pooled"):
        candidate = next(c for c in found if c.source == source)
        assert found[candidate][0] == pytest.approx(impressions[:, 21:], rel=1e-6)
    own = found[Candidate("own", half_life=2.0)]
    assert own[1] == pytest.approx(revenue[:, 21:], rel=1e-6)


def test_sources_and_their_settings():
    """All sources, with every setting each of them has and no other."""
    rng = np.random.default_rng(0)
    table = rng.poisson(20.0, (6, 17)).astype(float)
    labels = {2: np.array([0, 0, 0, 1, 1, -1]), 3: np.array([0, 0, 1, 1, 2, -1])}
    found = dict(forecasts(History(table, table / 100, WEEKDAYS), labels, [1.0, 4.0], [0.5, 2.0]))
    number = {source: sum(c.source == source for c in found) for source in SOURCES}
    assert number == {
        "last week": 1,
        "flat": 2,
        "own": 2,
        "global": 2,
        "segment": 4,
        "global+pooled": 4,
        "segment+pooled": 8,
    }
    assert np.array_equal(found[Candidate("last week")][0], table[:, 10:15])
    # an order in no segment takes what all orders share
    lone = found[Candidate("segment", 2, None, 1.0)][0][5]
    assert lone == pytest.approx(found[Candidate("global", half_life=1.0)][0][5])
    # pooling lies between the two it pools, and strong pooling is the prior
    strong = dict(forecasts(History(table, table, WEEKDAYS), labels, [1.0], [1e9]))
    assert strong[Candidate("segment+pooled", 3, 1e9, 1.0)][0] == pytest.approx(
        strong[Candidate("segment", 3, None, 1.0)][0], rel=1e-6
    )


def test_orders_without_anything_are_forecast_to_have_nothing():
    """No impressions, no revenue, no not-a-number."""
    table = np.zeros((2, 17))
    table[1] = 5.0
    found = dict(forecasts(History(table, 0 * table, WEEKDAYS), {1: np.array([0, 0])}))
    for impressions, revenue in found.values():
        assert not impressions[0].any()
        assert not revenue.any()
        assert np.isfinite(impressions).all()


@settings(deadline=None, max_examples=50)
@given(arrays(np.float64, (2, 5), elements=st.floats(0, 9)), st.floats(1, 100))
def test_paired_differences(errors, total):
    """The difference of the two WAPEs, with the standard error of a sum over orders."""
    found = paired_difference(errors[0], errors[1], total)
    gaps = errors[0] - errors[1]
    assert found["mean"] == pytest.approx(gaps.sum() / total)
    assert found["se"] == pytest.approx(len(gaps) * sem(gaps) / total)


def test_no_truth_no_wape():
    """Nothing can be divided by nothing."""
    assert wape(np.ones(2), np.zeros(2)) is None


def test_settings_are_chosen_before_the_holdout(log):
    """Another holdout changes errors, not settings; and one half-life serves all sources."""
    before = run_publisher(log, origins=2, numbers=(2,))
    spoiled = replace(log, impressions=np.where(log.day >= 25, 5.0, log.impressions))
    after = run_publisher(spoiled, origins=2, numbers=(2,))
    for source in SOURCES:
        one, other = before["sources"][source], after["sources"][source]
        assert (one["settings"], one["backtest"]) == (other["settings"], other["backtest"])
        assert one["impressions"]["wape"] < other["impressions"]["wape"]
    half_lives = {s["settings"].get("half_life") for s in before["sources"].values()}
    assert len(half_lives - {None}) == 1


def test_segments_that_matter_are_found_and_used(log):
    """Two kinds of week: a segment's shape beats that of all orders, and random segments'."""
    steps = []
    found = run_publisher(log, origins=2, numbers=(2,), after_origin=lambda: steps.append(1))
    assert len(steps) == 3
    assert found["segments"]["sizes"] == [6, 6]
    assert found["segments"]["view_agreement"] == dict.fromkeys(
        ("placement", "audience", "price"), pytest.approx(1.0)
    )
    errors = {name: told["impressions"]["wape"] for name, told in found["sources"].items()}
    assert errors["segment"] < 0.15
    assert errors["global"] > 2 * errors["segment"]
    assert errors["flat"] > errors["global"]
    assert found["random_segments"]["segment"]["impressions"]["mean"] > 2 * errors["segment"]
    difference = found["sources"]["segment"]["impressions"]["difference_from"]["global"]
    assert difference["mean"] == pytest.approx(errors["segment"] - errors["global"])


@pytest.mark.parametrize("settings_", [{"horizon": 8}, {"origins": 0}, {"origins": 20}])
def test_too_few_days_are_refused(log, settings_):
    """A week before the first origin, and a horizon of a week at most."""
    with pytest.raises(InvalidParameterError, match="lower origins or horizon"):
        run_publisher(log, **settings_)
