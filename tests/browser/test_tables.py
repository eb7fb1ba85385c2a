"""Tables in a browser: sorted by their headers, filtered by a field, on screens of any width."""

from __future__ import annotations

import pytest

from coterie.ads.report.rendering import write_report
from coterie.runtime import wording as words
from report_payloads import make_payload
from service_pages import PATIENCE, settle

pytestmark = pytest.mark.slow

PAYLOAD = make_payload(60)
WIDTHS = [1280, 360]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report on disk."""
    path = tmp_path_factory.mktemp("tables") / "report.html"
    write_report(PAYLOAD, path)
    return path


@pytest.fixture
def opened(report, open_tab):
    """Open the report without a network; each time in a new window, which keeps no filter."""
    return lambda **settings: open_tab(report.as_uri(), offline=True, **settings).page


def header(place, name):
    """The header of a column."""
    return place.locator("thead th", has=place.page.get_by_role("button", name=name, exact=True))


def column(place, number):
    """The visible texts of a column."""
    rows = place.locator("tbody tr:visible")
    return [row.locator("th, td").nth(number).inner_text() for row in rows.all()]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_of_advertisers_is_sorted(opened, width):
    """A press sorts by exact numbers, the largest first, a second one the smallest first."""
    place = opened(width=width).locator("#advertiser-list")
    by_bids = sorted(PAYLOAD.advertisers, key=lambda one: -one.observations)
    bids = header(place, "Bids seen")
    bids.locator("button").click()
    assert bids.get_attribute("aria-sort") == "descending"
    assert column(place, 0) == [one.id for one in by_bids[:25]]
    bids.locator("button").press("Enter")
    assert bids.get_attribute("aria-sort") == "ascending"
    assert column(place, 3) == [words.format_count(one.observations) for one in by_bids[::-1][:25]]
    assert place.locator("[aria-sort]").count() == 1


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_of_advertisers_is_filtered(opened, width):
    """The field keeps ids with a text, the choice those of a segment; pages have the rest."""
    page = opened(width=width)
    place = page.locator("#advertiser-list")
    assert page.inner_text("#advertiser-list .count") == "1–25 of 60"
    place.get_by_role("button", name="Next").click()
    assert page.inner_text("#advertiser-list .count") == "26–50 of 60"
    page.locator("#filter-advertisers").fill("-000")
    place.locator(".count", has_text="of 10").wait_for()
    assert sorted(column(place, 0)) == sorted(one.id for one in PAYLOAD.advertisers[:10])
    place.get_by_label("Segment").select_option("1")
    assert set(column(place, 1)) <= {PAYLOAD.segments[1].name}
    page.locator("#filter-advertisers").fill("nobody")
    place.locator(".count", has_text="none found").wait_for()


def test_what_was_filtered_survives_a_reload(opened):
    """After a reload the filter, the segment and the order are as before."""
    page = opened()
    place = page.locator("#advertiser-list")
    page.locator("#filter-advertisers").fill("-00")
    header(place, "Advertiser").locator("button").click()
    place.locator(".count", has_text="of 60").wait_for()
    before = column(place, 0)
    page.reload()
    assert page.locator("#filter-advertisers").input_value() == "-00"
    assert header(place, "Advertiser").get_attribute("aria-sort") == "ascending"
    assert column(place, 0) == before == sorted(before)
    # other tests share the window
    page.evaluate("sessionStorage.clear()")


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_of_sources_are_sorted_and_filtered(opened, width):
    """Errors are sorted as numbers under headers of two rows, and sources found by name."""
    page = opened(width=width)
    place = page.get_by_role("region", name="Forecast errors")
    place.get_by_role("button", name="WAPE").nth(1).click()
    errors = PAYLOAD.evaluation["sources"].values()
    expected = sorted((one["spend"]["wape"] for one in errors), reverse=True)
    assert column(place, 4) == [words.percent(value) for value in expected]
    page.get_by_label("Filter the sources").fill("consensus")
    page.locator(".count", has_text="4 of 16").wait_for()
    assert all("consensus" in name for name in column(place, 0))
    page.evaluate("sessionStorage.clear()")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12.5%", 12.5),
        ("−3.1%", -3.1),
        ("+0.4%", 0.4),
        ("$1,204", 1204),
        ("€0.0031", 0.0031),
        ("1.25M", 1.25e6),
        ("<0.01%", 0.01),
        ("8.1% +2.0%", 8.1),
        ("–", None),
        ("unknown", None),
    ],
)
def test_numbers_are_read_as_people_write_them(report, shared_tab, text, number):
    """Signs, currencies, groups of digits and letters for sizes are understood."""
    page = shared_tab(report.as_uri(), offline=True).page
    assert page.evaluate("(text) => coterieTables.numberIn(text)", text) == number


@pytest.mark.parametrize("width", WIDTHS)
def test_the_service_sorts_and_filters(address, market, open_address, width):
    """The service's list is sorted and filtered by the service, and leads to forecasts."""
    page = open_address(address, width=width).page
    place = page.locator("#advertiser-list")
    place.locator("tbody tr").first.wait_for(timeout=PATIENCE)
    header(place, "Bids seen").locator("button").click()
    settle(page)
    largest = sorted(market.observations_.tolist(), reverse=True)[:25]
    shown = place.locator("tbody td:nth-child(4) data").evaluate_all(
        "all => all.map((a) => a.value)"
    )
    assert [float(value) for value in shown] == largest
    page.locator("#filter-advertisers").fill("adv-0002")
    place.locator(".count", has_text="of 10").wait_for(timeout=PATIENCE)
    link = place.locator("tbody a").first
    name = link.inner_text()
    link.click()
    page.locator("#sentence .id").get_by_text(name, exact=True).wait_for(timeout=PATIENCE)
    page.evaluate("sessionStorage.clear()")
