"""The evaluation in the report: forecasts against what happened, coverage, days."""

from __future__ import annotations

import pytest

from coterie.ads.report.rendering import write_report
from coterie.runtime import wording as words
from report_payloads import make_payload

pytestmark = pytest.mark.slow

PAYLOAD = make_payload()
POINTS = PAYLOAD.evaluation["points"]


def outside(target):
    """Which points are outside their interval."""
    low, high, actual = (POINTS[target][name] for name in ("low", "high", "actual"))
    return [a < lo or a > hi for lo, hi, a in zip(low, high, actual, strict=True)]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A usual report on disk."""
    path = tmp_path_factory.mktemp("evaluation") / "report.html"
    write_report(PAYLOAD, path)
    return path


@pytest.fixture
def opened(report, open_tab):
    """Open the report without a network."""
    return lambda **settings: open_tab(report.as_uri(), offline=True, **settings).page


@pytest.mark.parametrize(("target", "width"), [("impressions", 1280), ("spend", 360)])
def test_every_advertiser_is_a_point(opened, target, width):
    """Circles are inside their interval, diamonds outside, all of them on the chart."""
    page = opened(width=width)
    chart = page.locator(f"#{target}-points svg")
    missed = outside(target)
    assert chart.locator("path.outside").count() == sum(missed) > 0
    assert chart.locator("circle.inside").count() == len(missed) - sum(missed)
    box = chart.bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= width


def test_points_are_read_by_the_keyboard(opened):
    """Arrow keys go through the advertisers by forecast; Enter shows the forecast of one."""
    page = opened()
    chart = page.locator("#impressions-points svg")
    order = sorted(range(40), key=POINTS["impressions"]["forecast"].__getitem__)
    chart.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    shown = chart.get_attribute("aria-valuetext")
    name = POINTS["advertisers"][order[1]]
    assert shown.startswith(f"{name}, forecast ")
    actual = POINTS["impressions"]["actual"][order[1]]
    assert f"actual {words.format_count(actual)}" in shown
    assert page.locator("#impressions-points .tip").is_visible()
    assert page.locator("#impressions-points .pointer line").count() == 3
    page.keyboard.press("Enter")
    assert page.input_value("#advertiser") == name


@pytest.mark.parametrize("settings", [{}, {"width": 360, "has_touch": True}])
def test_points_are_read_by_pointing(opened, settings):
    """A mouse over a point, or a tap on it, shows its figures and its interval."""
    page = opened(**settings)
    mark = page.locator("#spend-points path.outside").first
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    if settings:
        page.touchscreen.tap(*place)
    else:
        page.mouse.move(*place)
    tip = page.locator("#spend-points .tip")
    assert "outside the interval" in tip.inner_text()
    assert tip.locator("div").first.inner_text() in POINTS["advertisers"]


@pytest.mark.parametrize("width", [1280, 360])
def test_the_largest_misses_come_first(opened, width):
    """The table next to the points has the same figures, and can be filtered."""
    page = opened(width=width)
    page.locator("summary", has_text="largest misses").click()
    figures = POINTS["impressions"]
    gaps = [abs(f - a) for f, a in zip(figures["forecast"], figures["actual"], strict=True)]
    largest = max(range(40), key=gaps.__getitem__)
    rows = page.locator("#point-list tbody tr")
    assert rows.first.locator("th").inner_text() == POINTS["advertisers"][largest]
    wanted = POINTS["advertisers"][17]
    page.locator("#point-list input").fill(wanted)
    page.locator("#point-list .count", has_text="1–1 of 1").wait_for()
    forecast = words.format_count(float(f"{figures['forecast'][17]:.7g}"))
    assert rows.first.locator("td").first.inner_text() == forecast
    rows.first.locator("a").click()
    assert page.input_value("#advertiser") == wanted


def test_says_that_points_are_a_part(opened):
    """Where not all advertisers are drawn, the page says how many are."""
    shown = opened().inner_text("#errors")
    assert "40 of 160 advertisers" in shown
    assert "7 of 160 outside" in shown


@pytest.mark.parametrize("mode", ["given", "forecast"])
def test_coverage_is_drawn(opened, mode):
    """Every level has a point of impressions, spend and clicks, higher for a larger share."""
    chart = opened().locator(f"#{mode}-coverage svg")
    rows = PAYLOAD.evaluation["coverage"]["rows"][:3]
    for kind, row in zip(["main", "segment", "own"], rows, strict=True):
        points = chart.locator(f"circle.of-{kind}")
        heights = points.evaluate_all("all => all.map((one) => -Number(one.getAttribute('cy')))")
        shares = row[mode]
        assert sorted(range(4), key=heights.__getitem__) == sorted(range(4), key=shares.__getitem__)


@pytest.mark.parametrize("name", ["price", "supply"])
def test_days_outside_their_band_are_marked(opened, name):
    """Each day is a dot, or a diamond outside the band; the table has the same numbers."""
    page = opened()
    rows = [row[name] for row in PAYLOAD.days]
    missed = [row["low"] and not row["low"] <= row["observed"] <= row["high"] for row in rows]
    chart = page.locator(f"#{name}-days svg")
    assert chart.locator("path.outside").count() == sum(map(bool, missed))
    assert chart.locator("circle.filled").count() == 7 - sum(map(bool, missed))
    table = page.get_by_role("region", name="Levels by day")
    place = 0 if name == "price" else 3
    page.locator("#drift summary").click()
    shown = [row.locator("td").nth(place).inner_text() for row in table.locator("tbody tr").all()]
    assert shown == [words.percent(float(f"{row['observed']:.7g}")) for row in rows]


def test_warnings_stand_beside_the_days(opened):
    """What the model warns of is said above the charts of the days."""
    assert "Prices rose by 12.0%" in opened().inner_text("#drift")
