"""The what-if page of a real service: what it answers, by mouse and keyboard, and of whom."""

from __future__ import annotations

import re

import numpy as np
import pytest

from coterie.ads.forecasts.profiles import Profiles
from coterie.runtime import wording as words
from fitted_models import HOSTILE_IDS
from service_pages import PATIENCE, choose, drawn, exact, link, set_bid, settle, shows

pytestmark = pytest.mark.slow

ONE = "adv-00021"
OTHER = "adv-00034"
TEXT = "cheap flights and hotels by the sea"


def mean_bid(market, name):
    """The mean bid that an advertiser made."""
    row = market.advertisers_.tolist().index(name)
    return float(market.bid_[row]) / 1_000_000


def test_begins_with_the_largest_spender(address, market, open_address):
    """At first the advertiser that spent most is shown at its present bid, without a complaint."""
    tab = open_address(address)
    name = str(market.advertisers_[market.cost_.argmax()])
    bid = mean_bid(market, name)
    assert tab.page.input_value("#advertiser") == name
    assert shows(tab.page, market.forecast(name, bid), market.forecast(name, bid))
    assert "This is the log’s mean bid" in tab.page.inner_text("#sentence")
    assert tab.page.title().startswith(name)
    assert tab.complaints == []
    outside = [url for url in tab.asked if not url.startswith((address, "data:"))]
    assert outside == []


def test_periods(address, market, open_address):
    """An average day, a date, 7 and 30 days: figures and words are those of the period."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    bids = [3.0, mean_bid(market, ONE)]
    for option, asked, per, when in (
        ("days-7", {"days": 7}, "in 7 days", r"in the next 7 days \(7–13 March 2026\):"),
        ("days-30", {"days": 30}, "in 30 days", r"in the next 30 days \(7 March .* 2026\):"),
        ("date", {"day": "2026-03-07"}, "on the day", r"on Saturday,? 7 March 2026:"),
        ("mean", {}, "a day", "on an average day:"),
    ):
        page.select_option("#day", option)
        settle(page)
        expected = market.forecast(ONE, bids, **asked)
        assert shows(page, *expected), option
        assert float(page.input_value("#supply")) == pytest.approx(expected[0].supply, rel=1e-3)
        assert re.search(when, page.inner_text("#sentence"))
        for place in ("#impressions dt", "#spend dt", "#clicks dt", ".supply label"):
            assert page.inner_text(place).endswith(per), place
        titles = page.locator("figcaption strong, #bid-table, thead th").all_text_contents()
        assert sum(per in title for title in titles) >= 6
        assert f" {per}, " in page.inner_text("#sentence")


def test_a_number_of_auctions(address, market, open_address):
    """A number typed in is taken as it is, for the days chosen; an emptied field expects again."""
    page = open_address(link(address, advertiser=ONE, bid=3, days=7)).page
    bids = [3.0, mean_bid(market, ONE)]
    page.fill("#supply", "12345.5")
    settle(page)
    assert shows(page, *market.forecast(ONE, bids, supply=12345.5, days=7))
    assert page.inner_text("#supply-hint").startswith("your number")
    page.fill("#supply", "")
    page.locator("#supply").blur()
    settle(page)
    assert shows(page, *market.forecast(ONE, bids, days=7))
    assert page.inner_text("#supply-hint") == "expected"
    # the service takes a number or a date
    page.select_option("#day", "date")
    page.fill("#date", "2026-03-09")
    page.fill("#supply", "50")
    settle(page)
    assert page.input_value("#day") == "mean"
    assert page.locator("#date").is_hidden()
    assert shows(page, *market.forecast(ONE, bids, supply=50.0))


def test_slider_and_chart_move_the_bid(address, market, open_address):
    """However the bid is moved, the figures are those of the bid that the field then shows."""
    page = open_address(link(address, advertiser=ONE)).page
    mean = market.forecast(ONE, mean_bid(market, ONE))

    def agrees():
        settle(page)
        bid = float(page.input_value("#bid"))
        assert shows(page, market.forecast(ONE, bid), mean)
        return bid

    page.focus("#bid-slider")
    page.keyboard.press("Home")
    lowest = agrees()
    assert lowest == pytest.approx(market.edges_[0] / 1e6, rel=0.01)
    page.mouse.click(*point_at(page, "spend", 0.5))
    assert agrees() > lowest


def test_charts_are_the_forecasts(address, market, open_address):
    """The solid lines, read from their axes, are the forecasts; the pointer says the chosen one."""
    page = open_address(link(address, advertiser=ONE, bid=4.5)).page
    for chart in ("impressions", "spend"):
        points = drawn(page, chart, "main")
        assert len(points) >= len(Profiles(market).grid)
        expected = [getattr(one, chart) for one in market.forecast(ONE, [b for b, _ in points])]
        np.testing.assert_allclose([v for _, v in points], expected, atol=0.01 * max(expected))
        chosen = getattr(market.forecast(ONE, 4.5), chart)
        told = page.locator(f"#{chart}-chart svg").get_attribute("aria-valuetext")
        format_ = words.format_count if chart == "impressions" else lambda v: words.money(v, "$")
        assert told.startswith(f"$4.50 → {format_(chosen)} (")


def test_own_and_segment_curves_stand_apart(address, market, open_address):
    """Own, segment's and pooled curve are three lines, each named and dashed in its own way."""
    page = open_address(link(address, advertiser=ONE)).page
    row = market.advertisers_.tolist().index(ONE)
    detail = Profiles(market).advertiser(row)
    grid, supply = detail["curves"]["grid"], detail["supply"]
    for kind in ("own", "segment"):
        points = drawn(page, "impressions", kind)
        expected = supply * np.interp([b for b, _ in points], grid, detail["curves"][kind]["win"])
        np.testing.assert_allclose([v for _, v in points], expected, atol=0.01 * supply)
    names = page.locator("#impressions-chart text.name").all_text_contents()
    assert sorted(names) == ["own", "pooled", "segment"]
    dashes = page.locator("#impressions-chart path.line").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).strokeDasharray)"
    )
    assert len(set(dashes)) == 3


def point_at(page, chart, share):
    """Where a share of the width of a chart is on the screen."""
    place = page.locator(f"#{chart}-chart svg")
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    return box["x"] + box["width"] * share, box["y"] + box["height"] / 2


def reads_elsewhere(page, market, chosen):
    """Whether tooltips, tiles and sentence are at a bid that is not chosen, near its forecast."""
    tip = page.inner_text("#impressions-chart .tip")
    bid = float(re.match(r"\$([\d.]+)", tip)[1])
    expected = market.forecast(ONE, bid)
    [shown] = exact(page, "#impressions-value")
    assert shown == pytest.approx(expected.impressions, rel=0.02)
    assert f"{words.format_count(shown)} impressions" in tip
    assert f"from {words.money(chosen, '$')}" in tip
    assert page.locator("#spend-chart .tip").is_visible()
    assert page.inner_text("#caption").startswith(f"Pointing at {words.money(bid, '$')}")
    assert f"bid of {words.money(bid, '$')}" in page.inner_text("#sentence")
    return bid != chosen


def test_pointing_reads_another_bid(address, market, open_address):
    """While the mouse is on a chart everything reads there; then all is as before, unmoved."""
    tab = open_address(link(address, advertiser=ONE, bid=4.5))
    page = tab.page
    x, y = point_at(page, "impressions", 0.4)
    top, asked = page.locator("#spend-chart").bounding_box()["y"], len(tab.asked)
    page.mouse.move(x, y)
    assert reads_elsewhere(page, market, 4.5)
    assert page.locator("#spend-chart").bounding_box()["y"] == pytest.approx(top, abs=0.5)
    page.mouse.move(2, 2)
    assert page.locator(".tip:visible").count() == 0
    assert exact(page, "#impressions-value") == [market.forecast(ONE, 4.5).impressions]
    assert (page.input_value("#bid"), len(tab.asked)) == ("4.5", asked)


def test_fingers_read_and_tap(address, market, open_address):
    """On a phone a finger that slides reads, and a tap chooses."""
    page = open_address(link(address, advertiser=ONE, bid=4.5), width=390, has_touch=True).page
    x, y = point_at(page, "impressions", 0.35)
    touch = page.context.new_cdp_session(page)

    def send(kind, *points):
        at = [{"x": x, "y": y} for x, y in points]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    send("touchStart", (x, y))
    send("touchMove", (x + 40, y))
    assert reads_elsewhere(page, market, 4.5)
    send("touchEnd")
    assert page.locator(".tip:visible").count() == 0
    assert page.input_value("#bid") == "4.5"
    page.touchscreen.tap(x, y)
    settle(page)
    bid = float(page.input_value("#bid"))
    assert bid != 4.5
    assert exact(page, "#impressions-value") == [market.forecast(ONE, bid).impressions]


def test_keys_read_and_choose(address, market, open_address):
    """On a focused chart arrow keys move bid and tooltip; Escape takes them back."""
    page = open_address(link(address, advertiser=ONE, bid=4.5)).page
    page.focus("#advertiser")
    page.locator("#impressions-chart svg").focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    bid = float(page.input_value("#bid"))
    assert bid > 4.5
    assert words.money(bid, "$") in page.inner_text("#impressions-chart .tip")
    page.keyboard.press("Escape")
    settle(page)
    assert page.input_value("#bid") == "4.5"
    page.keyboard.press("Tab")
    assert page.locator("#impressions-chart .tip").is_hidden()


def test_a_new_advertiser_by_its_text(address, market, open_address):
    """A text and a number of auctions have the figures of AdForecaster, and say their grounds."""
    page = open_address(address).page
    page.get_by_label("a new advertiser, by its text").check()
    settle(page)
    assert page.locator("#figures").is_hidden()
    page.fill("#text", TEXT)
    page.locator("#figures").wait_for(timeout=PATIENCE)
    settle(page)
    page.fill("#supply", "5000")
    set_bid(page, 3.2)
    expected = market.forecast(bid=3.2, text=TEXT, supply=5000.0)
    assert shows(page, expected, None)
    assert page.inner_text("#why") == expected.why
    assert page.inner_text("#placed") == expected.segment
    assert "a new advertiser" in page.inner_text("#sentence")
    page.select_option("#day", "days-7")
    settle(page)
    week = market.forecast(bid=3.2, text=TEXT, supply=35_000.0, days=7)
    assert shows(page, week, None)
    page.get_by_label("an advertiser in the log").check()
    page.locator("#sentence .id").wait_for(timeout=PATIENCE)
    settle(page)
    assert page.locator("#text").is_hidden()


def test_an_empty_text_explains_itself(address, market, open_address):
    """Without a text the page says what to write and offers examples, in words of the market."""
    page = open_address(f"{address}/#text=").page
    assert page.locator("#explain").is_visible()
    assert page.locator("#figures").is_hidden()
    assert page.locator(".card.own").count() == 0
    example = page.locator("#examples button").first
    text = example.inner_text()
    example.click()
    settle(page)
    assert page.input_value("#text") == text
    assert page.locator("#explain").is_hidden()
    bid = float(page.input_value("#bid"))
    expected = market.forecast(bid=bid, text=text, supply=10_000.0)
    assert exact(page, "#spend-value") == [expected.spend]
    assert page.locator(".card.own h3 bdi").inner_text() == expected.segment


def test_bids_never_seen_are_said(address, market, open_address):
    """Above every bid of the log the page says so, and how it is taken."""
    page = open_address(link(address, advertiser=ONE, bid=5)).page
    assert page.locator("#sentence em").count() == 0
    set_bid(page, 99)
    assert shows(page, market.forecast(ONE, 99.0), market.forecast(ONE, mean_bid(market, ONE)))
    assert page.inner_text("#sentence em").strip().startswith("Above every bid in the log")
    assert page.inner_text("#marginal").split("\n")[1:] == ["–", "no more to win"]


def test_the_segment_of_the_advertiser_comes_first(address, market, open_address):
    """Its card leads and is marked, all are read at the chosen bid; a phone shows it alone."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    own = Profiles(market).advertiser(market.advertisers_.tolist().index(ONE))["segment"]
    assert page.locator(".card").first.get_attribute("id") == f"segment-{own}"
    assert page.locator(".card.own .mine:visible").count() == 1
    assert page.inner_text("#segment-bid") == "$3.00"
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.locator(".card:visible").count() == 1
    page.get_by_role("button", name=f"Show all {len(market.segments_)} segments").click()
    assert page.locator(".card:visible").count() == len(market.segments_)


def test_what_is_known_of_an_advertiser(address, market, open_address):
    """Segment, confidence, shares, views and neighbours are those of the model; neighbours lead."""
    page = open_address(link(address, advertiser=ONE)).page
    detail = Profiles(market).advertiser(market.advertisers_.tolist().index(ONE))
    assert exact(page, "#facts")[:2] == [detail["confidence"], detail["observations"]]
    assert page.inner_text("#facts a") == detail["segment_name"]
    assert exact(page, "#shares") == [one["share"] for one in detail["shares"]]
    views = page.locator("#views li").all_inner_texts()
    assert len(views) == len(detail["views"])
    for text, one in zip(views, detail["views"], strict=True):
        assert text.startswith(one["view"])
        assert ("dissents" in text) == one["dissents"]
    assert exact(page, "#neighbours") == [one["likeness"] for one in detail["neighbours"]]
    nearest = page.locator("#neighbours a").first
    name = detail["neighbours"][0]["id"]
    assert nearest.inner_text() == words.visible(name)
    nearest.click()
    page.locator("#sentence .id").get_by_text(name, exact=True).wait_for(timeout=PATIENCE)


def test_segments_lead_to_their_members(address, market, open_address):
    """Every segment has its two charts, lists all its members, and each leads to its forecast."""
    page = open_address(address).page
    assert page.locator(".card").count() == len(market.segments_)
    assert page.locator(".card svg.chart").count() == 2 * len(market.segments_)
    place = int(np.argmax([one.size for one in market.segments_]))
    card = page.locator(f"#segment-{place}")
    assert card.locator("h3 bdi").inner_text() == market.segments_[place].name
    card.locator("summary").click()
    size = market.segments_[place].size
    assert card.locator("li").count() == 12 < size
    card.get_by_role("button", name=f"List all {size}").click()
    members = market.advertisers_[market.labels_ == place].tolist()
    rows = page.locator("#advertiser-list tbody tr")
    told = page.locator("#advertiser-list .count")
    expect = re.compile(rf"^1–{min(size, 25)} of {size}$")
    told.filter(has_text=expect).wait_for(timeout=PATIENCE)
    listed = rows.locator("th a").all_inner_texts()
    assert set(listed) <= set(map(words.visible, members))
    name = listed[-1]
    rows.locator("th a", has_text=name).click()
    page.locator("#sentence .id").get_by_text(name, exact=True).wait_for(timeout=PATIENCE)


@pytest.mark.parametrize("width", [1280, 360])
def test_bids_stand_beside_those_of_the_segment(address, market, open_address, width):
    """The c.d.f.s of wins and cost are drawn with their distance; a new advertiser has none."""
    page = open_address(link(address, advertiser=ONE), width=width).page
    row = market.advertisers_.tolist().index(ONE)
    shares = Profiles(market).advertiser(row)["bid_shares"]
    for name in ("wins", "cost"):
        assert f"{shares[name]['distance']:.3f} for {name}" in page.inner_text("#bid-shares")
        assert page.locator(f"#{name}-below path.line").count() == 2
    page.locator("[name=who][value=text]").check()
    settle(page)
    assert page.locator("#bid-shares").is_hidden()


def test_works_by_the_keyboard_alone(address, market, open_address):
    """From the skip link on, all can be reached, seen to be reached, and used without a mouse."""
    page = open_address(address).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "what-if"
    reached = []
    while "advertiser" not in reached:
        page.keyboard.press("Tab")
        focus = page.evaluate(
            """() => {
              const { id, name } = document.activeElement;
              return [id || name, getComputedStyle(document.activeElement).outlineStyle];
            }"""
        )
        assert focus[1] != "none", focus
        reached.append(focus[0])
    assert reached == ["who", "advertiser"]
    page.keyboard.type("00034")
    page.keyboard.press("Enter")
    page.locator("#sentence .id").get_by_text(OTHER, exact=True).wait_for(timeout=PATIENCE)
    settle(page)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    settle(page)
    bid = float(page.input_value("#bid"))
    assert bid == pytest.approx(market.edges_[-1] / 1e6, rel=0.01)
    assert shows(page, market.forecast(OTHER, bid), market.forecast(OTHER, mean_bid(market, OTHER)))
    assert page.get_attribute("#sentence", "aria-live") == "polite"


def test_search_lists_and_takes_back(address, market, open_address):
    """The list holds what is found, and says of how many; Escape and leaving take it back."""
    page = open_address(link(address, advertiser=ONE)).page
    page.click("#advertiser")
    page.locator("#advertisers-found .rest").wait_for(timeout=PATIENCE)
    told = page.inner_text("#advertisers-found .rest")
    assert told.startswith(f"20 of {len(market.advertisers_)}: ")
    page.fill("#advertiser", "adv-0003")
    page.locator("#advertisers-found .id", has_text="adv-0003").first.wait_for(timeout=PATIENCE)
    page.locator("#advertisers-found .rest").wait_for(state="detached", timeout=PATIENCE)
    found = page.locator("#advertisers-found .id").all_inner_texts()
    assert all(one.startswith("adv-0003") for one in found)
    page.keyboard.press("ArrowDown")
    active = page.get_attribute("#advertiser", "aria-activedescendant")
    assert page.inner_text(f"#{active} .id") == found[1]
    page.keyboard.press("Escape")
    assert page.input_value("#advertiser") == ONE
    page.fill("#advertiser", "nobody of that name")
    page.keyboard.press("Enter")
    page.locator("#advertiser[aria-invalid=true]").wait_for(timeout=PATIENCE)
    page.locator("#advertisers-found .nothing").wait_for(timeout=PATIENCE)
    page.keyboard.press("Tab")
    assert page.input_value("#advertiser") == ONE
    assert page.get_attribute("#advertiser", "aria-invalid") == "false"


def test_hostile_ids_are_text(address, market, open_address):
    """Ids that are markup, paths, quotes or very long are found, shown as text and answered."""
    tab = open_address(address)
    page = tab.page
    scripts = page.locator("script").count()
    for name in HOSTILE_IDS:
        choose(page, name[:40], name[:40])
        assert page.locator("#sentence .id").text_content() == name
        mean = market.forecast(name, mean_bid(market, name))
        assert shows(page, mean, mean)
        assert not re.search(r"NaN|undefined|null", page.inner_text("main"))
    assert page.locator("script").count() == scripts
    assert page.locator("img").count() == 0
    assert tab.complaints == []
