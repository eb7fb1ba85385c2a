"""Scenarios of the what-if page: bids side by side, what more costs, on a desk and on a phone."""

from __future__ import annotations

import csv
import io
from urllib.parse import parse_qs, urlsplit

import pytest

from coterie.ads.forecasts.profiles import Profiles
from coterie.runtime import wording as words
from service_pages import PATIENCE, exact, link, set_bid, settle

pytestmark = pytest.mark.slow

ONE = "adv-00021"


def marginal(market, bid, **asked):
    """The slope of spend over impressions from a bid of the curve to the next that wins more."""
    curve = market.forecast(ONE, [float(one) for one in Profiles(market).grid], **asked)
    low = max((one for one in curve if one.bid <= bid), key=lambda one: one.bid)
    least = low.impressions + 1e-4 * curve[-1].impressions
    high = next(one for one in curve if one.bid > low.bid and one.impressions > least)
    return 1000 * (high.spend - low.spend) / (high.impressions - low.impressions)


def keep(page):
    """Keep the chosen bid."""
    page.get_by_role("button", name="Keep to compare").click()
    settle(page)


def test_what_the_next_thousand_cost(address, market, open_address):
    """The tile shows d spend / d impressions between neighbouring bids of the curve."""
    page = open_address(link(address, advertiser=ONE, bid=4.321)).page
    expected = marginal(market, 4.321)
    assert exact(page, "#marginal-value") == [pytest.approx(expected)]
    assert exact(page, "#bid-table tr.chosen td:last-child") == [pytest.approx(expected)]


def test_curves_without_a_rise(address, shared_tab):
    """Flat pieces are passed over; where nothing more is to be won there is no marginal cost."""
    page = shared_tab(address).page
    cost = page.evaluate(
        """() => {
          const curve = [[1, 0, 0], [2, 0, 0], [3, 100, 0.2], [4, 100, 0.2], [5, 100.001, 0.3]]
            .map(([bid, won, paid]) =>
              ({ bid, impressions: { value: won }, spend: { value: paid } }));
          return [0.5, 1, 2.5, 3, 9].map((bid) => coterieNumbers.marginalCost(curve, bid));
        }"""
    )
    assert cost == [2, 2, 2, None, None]


def test_quick_buttons_change_the_bid(address, market, open_address):
    """−20% to +20% of the chosen bid, and back to the log's mean."""
    page = open_address(link(address, advertiser=ONE, bid=4)).page
    bids = {"+10%": 4.4, "−20%": 3.52, "+20%": 4.224, "−10%": 3.802}
    for name, bid in bids.items():
        page.get_by_role("button", name=name).click()
        settle(page)
        assert page.input_value("#bid") == str(bid)
        assert exact(page, "#spend-value") == [market.forecast(ONE, bid).spend]
    page.get_by_role("button", name="Log’s mean", exact=True).click()
    settle(page)
    assert "This is the log’s mean bid" in page.inner_text("#sentence")


@pytest.mark.parametrize("width", [1280, 390])
def test_scenarios_side_by_side(address, market, open_address, width):
    """Kept bids and the chosen one are compared with the first, marked, and can be removed."""
    page = open_address(link(address, advertiser=ONE, bid=3), width=width).page
    assert page.locator("#compare").is_hidden()
    keep(page)
    for bid in (4, 5):
        set_bid(page, bid)
        keep(page)
    set_bid(page, 6)
    rows = page.locator("#scenarios tr")
    for row, one in zip(rows.all(), market.forecast(ONE, [3.0, 4.0, 5.0, 6.0]), strict=True):
        figures = [one.bid, one.impressions, one.spend, one.clicks, one.cost]
        shown = [float(v) for v in row.locator("data").evaluate_all("all => all.map(d => d.value)")]
        assert shown == pytest.approx([*figures, marginal(market, one.bid)])
    first, last = market.forecast(ONE, [3.0, 6.0])
    change = f"+{100 * (last.impressions / first.impressions - 1):,.0f}%"
    assert rows.last.locator("td small").first.inner_text() == change
    assert rows.last.locator(".badge").inner_text() == "now"
    for chart in ("impressions", "spend"):
        assert page.locator(f"#{chart}-chart text.kept").all_text_contents() == ["1", "2", "3"]
    page.get_by_role("button", name="Use $4.00").click()
    settle(page)
    assert page.input_value("#bid") == "4"
    assert page.locator("#keep").is_disabled()
    page.get_by_role("button", name="Remove $3.00").click()
    settle(page)
    assert page.locator("#scenarios tr").count() == 2
    assert page.locator("#impressions-chart text.kept").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_four_bids_can_be_kept(address, open_address):
    """After the fourth the button says so, until one is removed."""
    page = open_address(link(address, advertiser=ONE, bid=6, keep="2,3,4")).page
    keep(page)
    set_bid(page, 7)
    full = page.get_by_role("button", name="4 bids are kept")
    assert full.is_disabled()
    page.get_by_role("button", name="Remove $2.00").click()
    assert page.get_by_role("button", name="Keep to compare").is_enabled()


def test_scenarios_are_shared(address, market, open_address, tmp_path):
    """The link and the CSV hold them; a neighbour is compared at the same bids."""
    asked = {"advertiser": ONE, "bid": "3", "keep": "2.5,4.25", "days": "7"}
    page = open_address(link(address, **asked)).page
    assert page.locator("#scenarios tr").count() == 3
    with page.expect_download(timeout=PATIENCE) as download:
        page.get_by_role("button", name="Save as CSV").click()
    download.value.save_as(tmp_path / "saved.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "saved.csv").read_text("utf-8"))))
    kept = {row["scenario"]: row for row in rows if row["scenario"]}
    assert {name: float(row["bid"]) for name, row in kept.items()} == {"1": 2.5, "2": 4.25}
    assert {row["days"] for row in rows} == {"7"}
    for row in kept.values():
        bid = float(row["bid"])
        assert float(row["spend"]) == market.forecast(ONE, bid, days=7).spend
        assert float(row["marginal_cost"]) == pytest.approx(marginal(market, bid, days=7))
    assert rows[-1]["marginal_cost"] == ""
    page.locator("#neighbours a").first.click()
    settle(page)
    parts = {k: v[0] for k, v in parse_qs(urlsplit(page.url).fragment).items()}
    assert {**parts, "advertiser": ONE} == asked
    assert page.locator("#scenarios tr th data").all_inner_texts() == [
        words.money(bid, "$") for bid in (2.5, 4.25, 3)
    ]
