"""The fields of the what-if page: numbers as people type them, dates, searches, spare models."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from markets import odd_model
from service_pages import PATIENCE, exact, link, set_bid, settle

pytestmark = pytest.mark.slow

ONE = "adv-00021"
LAST_GOOD = "the figures are for the last good one."


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2.80", 2.8),
        ("2,80", 2.8),
        (" 2,8 ", 2.8),
        ("2,", 2.0),
        (",5", 0.5),
        ("0,280", 0.28),
        ("2,8000", 2.8),
        ("1234,567", 1234.567),
        ("1,000,000", 1e6),
        ("1,234.50", 1234.5),
        ("1 234 567,5", 1234567.5),
        ("1e6", 1e6),
        ("-1", -1.0),
        ("1.234,56", 1234.56),
        ("1'234.50", 1234.5),
        ("1.234.567", 1234567.0),
        ("1.234", 1.234),
        ("$3", 3.0),
        ("2.5 USD", 2.5),
        ("usd 2,5", 2.5),
        ("€ 2,50", 2.5),
        ("1,234.56 €", 1234.56),
    ],
)
def test_numbers_as_people_type_them(address, shared_tab, text, value):
    """A comma that can only be a decimal one, or only part groups, is read as that."""
    page = shared_tab(address).page
    assert page.evaluate("(text) => coterieNumbers.enteredMoney(text).value", text) == value


def test_unclear_numbers_are_refused(address, open_address):
    """What may mean two numbers, or means none, is never taken for one."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    texts = ["", "abc", "1.2.3", "1,2,3", "1.00,5", "0x10", "1e999", "10,00,000", "0,123,456"]
    texts += ["1,000", "12,345", "NaN", "Infinity", "2,80,", "$", "$1,000", "3 $ 4"]
    read = "(texts) => texts.map((text) => coterieNumbers.enteredMoney(text).value ?? null)"
    assert page.evaluate(read, texts) == [None] * len(texts)
    before = exact(page, "#spend-value")
    page.fill("#bid", "1,000")
    said = page.inner_text("#fault")
    assert "may mean 1000 or 1.000" in said
    assert said.endswith(LAST_GOOD)
    assert exact(page, "#spend-value") == before


def test_a_decimal_comma_is_no_hundredfold(address, market, open_address):
    """Bid and auctions typed key by key with a comma have the figures of the number meant."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    for field, text in (("#bid", "2,80"), ("#supply", "1234,5")):
        page.fill(field, "")
        page.locator(field).press_sequentially(text)
    settle(page)
    assert page.inner_text("#fault") == ""
    assert exact(page, "#spend-value") == [market.forecast(ONE, 2.8, supply=1234.5).spend]


def test_an_amount_in_another_currency_is_told(address, market, open_address):
    """The number is taken, and the page says in which currency."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    set_bid(page, "€ 2,50")
    assert exact(page, "#spend-value") == [market.forecast(ONE, 2.5).spend]
    assert "amounts are in USD: the bid is taken as $2.50" in page.inner_text("#note")
    set_bid(page, "$2.50")
    assert page.inner_text("#note") == ""


def test_arrows_step_the_bid(address, market, open_address):
    """An arrow key in the field moves the bid by about a hundredth of the axis."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    ends = np.array([market.edges_[0], market.edges_[-1]]) / 1e6
    page.focus("#bid")
    bids = [3.0]
    for key in ("ArrowUp", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
        settle(page)
        bids.append(float(page.input_value("#bid")))
        assert exact(page, "#spend-value") == [market.forecast(ONE, bids[-1]).spend]
    assert bids[0] < bids[3] < bids[2]
    assert bids[0] < bids[1] < bids[2] < bids[0] + 0.1 * (ends[1] - ends[0])
    set_bid(page, 1000)
    page.keyboard.press("ArrowUp")
    settle(page)
    assert float(page.input_value("#bid")) > 1000


def test_fields_say_whose_figures_stay(address, market, open_address):
    """A bid, number of auctions or date that is none is marked, and the last good one is said."""
    page = open_address(link(address, advertiser=ONE, bid=3, day="2026-03-09")).page
    before = exact(page, "#spend-value")
    for field, bad in (("#bid", "x"), ("#supply", "-1"), ("#date", "")):
        page.fill(field, bad)
        assert page.get_attribute(field, "aria-invalid") == "true"
        assert page.inner_text("#fault").count(LAST_GOOD) == 1, field
        assert exact(page, "#spend-value") == before
        good = {"#bid": "3", "#supply": "", "#date": "2026-03-09"}[field]
        if field == "#supply":
            # another bid is answered; what is typed beside it stays, and stays marked
            set_bid(page, 4)
            assert page.input_value("#supply") == "-1"
            assert exact(page, "#spend-value") == [
                market.forecast(ONE, 4.0, day="2026-03-09").spend
            ]
            set_bid(page, 3)
            page.select_option("#day", "mean")
            page.select_option("#day", "date")
            page.fill("#date", "2026-03-09")
        else:
            page.fill(field, good)
        settle(page)
        assert page.inner_text("#fault") == ""
        assert page.get_attribute(field, "aria-invalid") == "false"
        assert exact(page, "#spend-value") == before


def test_counts_are_whole(address, market, open_address):
    """Things that were counted are told to the last one below a million."""
    page = open_address(link(address, advertiser=ONE)).page
    seen = market.observations_[market.advertisers_.tolist().index(ONE)]
    assert page.locator("#facts data").nth(1).inner_text() == f"{seen:,.0f}"
    tally = "(numbers) => numbers.map(coterieNumbers.tally)"
    assert page.evaluate(tally, [7, 85192, 999999, 1234567]) == ["7", "85,192", "999,999", "1.23M"]


def test_models_without_segments_speak_of_none(serve, open_address):
    """Where there are no segments and no texts, neither is named, offered or drawn."""
    page = open_address(link(serve(odd_model("one advertiser")), advertiser="adv-00000")).page
    assert page.inner_text("#lead").startswith("1 advertiser, from the ")
    assert page.locator(".switch").is_hidden()
    assert page.locator("#segments").is_hidden()
    names = page.locator("#impressions-chart text.name").all_text_contents()
    assert names and "segment" not in names
    figures = page.inner_text("#figures").lower()
    for words in ("segment’s", "segments’", "shares in segments"):
        assert words not in figures


def test_warnings_about_the_model_are_told(serve, market, open_address):
    """Each is a notice above the panel, as text, that a press takes away; figures come anyway."""
    changed = copy.copy(market)
    changed.warnings_ = [
        "prices <b>rose</b> by 30% from 2026-03-12 on",
        "intervals had to be widened",
    ]
    page = open_address(link(serve(changed), advertiser=ONE, bid=3)).page
    told = page.locator("#notices .notice span")
    assert told.all_inner_texts() == [
        "Prices <b>rose</b> by 30% from 2026-03-12 on.",
        "Intervals had to be widened.",
    ]
    page.locator("#notices button").first.click()
    assert told.all_inner_texts() == ["Intervals had to be widened."]
    assert exact(page, "#spend-value") == [market.forecast(ONE, 3.0).spend]


def test_shares_won_have_an_interval_where_auctions_are_given(address, market, open_address):
    """A forecast number of auctions varies too: its interval says nothing of the share won."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    assert page.inner_text("#win-small") == ""
    page.fill("#supply", "5000")
    settle(page)
    ends = market.forecast(ONE, 3.0, supply=5000.0).impressions_interval
    assert exact(page, "#win-small") == pytest.approx([end / 5000 for end in ends])
    assert "90% interval" in page.inner_text("#win-small")


def test_open_lists_leave_no_hole(address, open_address):
    """A segment's opened list of members moves nothing, and no label of an axis is cut off."""
    page = open_address(address).page
    height = "document.querySelector('footer').offsetTop"
    before = page.evaluate(height)
    page.locator("#segment-0 summary").click()
    page.locator("#segment-0 .members a").first.wait_for(timeout=PATIENCE)
    assert page.evaluate(height) == before
    beyond = page.locator(".card svg.chart").evaluate_all(
        """(all) => all.map((svg) => {
          const right = svg.getBoundingClientRect().right;
          const labels = [...svg.querySelectorAll(".axes text")];
          return Math.max(...labels.map((one) => one.getBoundingClientRect().right - right));
        })"""
    )
    assert max(beyond) <= 0
