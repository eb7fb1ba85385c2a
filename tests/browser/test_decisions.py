"""Goals, budgets and a second advertiser in a browser, in the report and in the service's page."""

from __future__ import annotations

import re

import numpy as np
import pytest

from coterie.ads.decisions.budgets import plan_budget
from coterie.ads.decisions.goals import bid_for
from coterie.ads.report.rendering import write_report
from coterie.runtime import wording as words
from report_payloads import make_payload, twin_forecast
from service_pages import PATIENCE, link, set_bid, settle

pytestmark = pytest.mark.slow

ONE = "adv-00021"
OTHER = "adv-00034"
PAYLOAD = make_payload()
WIDTHS = [1280, 360]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A usual report on disk."""
    path = tmp_path_factory.mktemp("decisions") / "report.html"
    write_report(PAYLOAD, path)
    return path


@pytest.fixture
def opened(report, open_tab):
    """Open the report without a network."""
    return lambda **settings: open_tab(report.as_uri(), offline=True, **settings).page


def money(amount):
    """Return an amount as the page writes it."""
    return words.money(amount, "$")


def find_bid(page, text):
    """Ask for the bid that reaches a goal."""
    page.fill("#goal-amount", text)
    page.press("#goal-amount", "Enter")


def told(page, place, part):
    """Wait until a place says something."""
    page.locator(place).filter(has_text=part).wait_for(timeout=PATIENCE)
    settle(page)
    return page.inner_text(place)


class TestGoalsInTheReport:
    @pytest.mark.parametrize(("goal", "width"), [("impressions", 1280), ("spend", 360)])
    def test_the_bid_is_the_least_that_reaches_it(self, opened, goal, width):
        """The bid moves to one whose forecast is the goal, and a lower one is below it."""
        page = opened(width=width)
        index = [one.id for one in PAYLOAD.advertisers].index(page.input_value("#advertiser"))
        amount = round(twin_forecast(PAYLOAD, index, 3.0)[goal], 1)
        page.select_option("#goal-kind", goal)
        find_bid(page, str(amount))
        bid = float(page.input_value("#bid"))
        assert twin_forecast(PAYLOAD, index, bid)[goal] >= amount
        assert twin_forecast(PAYLOAD, index, 0.997 * bid)[goal] < amount
        assert page.inner_text("#goal-said").startswith(f"{money(bid)} is the least bid")

    def test_a_goal_out_of_reach_says_why(self, opened):
        """The bid stays, and the sentence names what the highest bid gives."""
        page = opened()
        before = page.input_value("#bid")
        find_bid(page, "100,000,000 impressions")
        index = [one.id for one in PAYLOAD.advertisers].index(page.input_value("#advertiser"))
        most = twin_forecast(PAYLOAD, index, PAYLOAD.grid[-1])["impressions"]
        [given] = re.findall(r"expected to give ([\d,]+)", page.inner_text("#goal-said"))
        assert abs(float(given.replace(",", "")) - most) <= 0.5
        assert page.input_value("#bid") == before
        assert page.get_attribute("#goal-amount", "aria-invalid") == "true"

    def test_budgets_are_left_to_the_service(self, opened):
        """The report says where budgets are planned, and has no field for one."""
        page = opened()
        assert "coterie ads budget" in page.inner_text(".decisions")
        assert page.locator("#budget-form").count() == 0

    def test_what_was_found_is_of_one_advertiser(self, opened):
        """Another advertiser or period takes the sentence away, another bid does not."""
        page = opened()
        find_bid(page, "1 impressions")
        page.fill("#bid", "3")
        assert "least bid" in page.inner_text("#goal-said")
        page.select_option("#day", label="Saturday")
        assert page.inner_text("#goal-said") == ""


class TestGoalsInTheService:
    @pytest.mark.parametrize(
        ("text", "goal", "amount", "width"),
        [("20 impressions", "impressions", 20, 360), ("0.05 of spend", "spend", 0.05, 1280)],
    )
    def test_the_bid_is_that_of_the_model(
        self, address, market, open_address, text, goal, amount, width
    ):
        """The name of the goal may be typed; bid and safe bid are those that the model finds."""
        page = open_address(link(address, advertiser=ONE, days=7), width=width).page
        find_bid(page, text)
        expected = bid_for(market, ONE, days=7, **{goal: amount})
        assert expected.reached
        sentence = told(page, "#goal-said", "least bid")
        assert page.input_value("#goal-kind") == goal
        bid = float(page.input_value("#bid"))
        assert expected.bid <= bid <= 1.002 * expected.bid
        if expected.safe_bid is not None:
            assert f"From {money(expected.safe_bid)} on" in sentence

    def test_refusals_and_reasons_are_said(self, address, market, open_address):
        """A goal out of reach has the reason of the service; what is no number is refused here."""
        page = open_address(link(address, advertiser=ONE)).page
        find_bid(page, "100,000 impressions")
        expected = bid_for(market, ONE, impressions=100_000)
        assert not expected.reached
        sentence = told(page, "#goal-said", "No bid")
        assert sentence.rstrip(".").lower() == expected.why.lower()
        for text, fault in (("many", "above 0"), ("0", "above 0"), ("", "above 0")):
            find_bid(page, text)
            assert fault in page.inner_text("#goal-said")
        page.select_option("#goal-kind", "spend")
        find_bid(page, "1,000")
        assert "may mean 1000 or 1.000" in page.inner_text("#goal-said")


class TestBudgets:
    @pytest.mark.parametrize("width", WIDTHS)
    def test_a_budget_finds_its_bid(self, address, market, open_address, width):
        """The bid that uses it, what it buys and day by day what is spent, are the model's."""
        page = open_address(link(address, advertiser=ONE), width=width).page
        assert page.locator("#budget-plan").is_hidden()
        page.fill("#budget-amount", "0.2")
        page.fill("#budget-days", "5")
        page.press("#budget-days", "Enter")
        plan = plan_budget(market, ONE, budget=0.2, days=5)
        sentence = told(page, "#budget-said", "uses the budget")
        assert f"A bid of {money(plan.using_bid)} uses the budget" in sentence
        assert f"{words.format_count(plan.impressions)} impressions" in sentence
        assert float(page.input_value("#bid")) == pytest.approx(plan.using_bid, rel=1e-3)
        rows = page.locator("#budget-table tr")
        assert [row.locator("th").inner_text() for row in rows.all()] == [
            one.day for one in plan.by_day
        ]
        spent = rows.locator("td:nth-child(5) data").evaluate_all("all => all.map((a) => a.value)")
        assert [float(one) for one in spent] == pytest.approx([one.spent for one in plan.by_day])
        chart = page.locator("#budget-chart svg")
        assert chart.locator("path.band").count() == 1
        assert chart.locator("line.gap").count() == 1
        box = chart.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width

    def test_a_bid_says_when_the_money_is_gone(self, address, market, open_address):
        """After another bid is chosen the plan is that of the bid, and names the one to use."""
        page = open_address(link(address, advertiser=ONE)).page
        page.fill("#budget-amount", "0.2")
        page.press("#budget-amount", "Enter")
        told(page, "#budget-said", "uses the budget")
        set_bid(page, 12)
        sentence = told(page, "#budget-said", "At $12.00")
        plan = plan_budget(market, ONE, budget=0.2, days=7, bid=12.0)
        assert money(plan.using_bid) in sentence
        if plan.days_until_empty is not None:
            assert f"{plan.days_until_empty:.3g} days" in sentence

    def test_nonsense_is_refused(self, address, open_address):
        """A budget or a number of days that is none is said, and nothing is asked."""
        tab = open_address(link(address, advertiser=ONE))
        page = tab.page
        for budget, days, fault in (
            ("", "7", "above 0"),
            ("-5", "7", "above 0"),
            ("5", "0", "1 to 366"),
            ("5", "1.5", "1 to 366"),
            ("5", "400", "1 to 366"),
        ):
            page.fill("#budget-amount", budget)
            page.fill("#budget-days", days)
            page.press("#budget-days", "Enter")
            assert fault in page.inner_text("#budget-said")
        assert not any("budgets" in url for url in tab.asked)

    def test_a_budget_that_cannot_be_spent_says_why(self, address, market, open_address):
        """The reason is that of the model, and the plan is at the highest bid of the log."""
        page = open_address(link(address, advertiser=ONE)).page
        page.fill("#budget-amount", "1000000")
        page.press("#budget-amount", "Enter")
        plan = plan_budget(market, ONE, budget=1_000_000, days=7)
        assert plan.using_bid is None
        sentence = told(page, "#budget-said", "it buys")
        assert sentence.lower().startswith(plan.why.lower())


class TestTwoAdvertisers:
    @pytest.mark.parametrize("width", WIDTHS)
    def test_the_report_shows_both(self, opened, width):
        """Both curves are in the charts, both figures in columns, with their difference."""
        page = opened(width=width)
        page.fill("#advertiser", PAYLOAD.advertisers[3].id)
        page.keyboard.press("Enter")
        page.fill("#beside", PAYLOAD.advertisers[7].id)
        page.keyboard.press("Enter")
        page.fill("#bid", "2.5")
        first, second = (twin_forecast(PAYLOAD, i, 2.5)["impressions"] for i in (3, 7))
        row = page.locator("#beside-table tr", has_text="Impressions")
        shown = row.locator("data").evaluate_all("all => all.map((one) => Number(one.value))")
        assert shown == pytest.approx([first, second, second - first], rel=1e-6)
        for target in ("impressions", "spend"):
            assert page.locator(f"#{target}-chart path.second").count() == 1
        page.get_by_role("button", name="Remove", exact=True).click()
        assert page.locator("#side-by-side").is_hidden()
        assert page.locator("path.second").count() == 0
        assert page.input_value("#beside") == ""

    @pytest.mark.parametrize("width", WIDTHS)
    def test_the_service_shows_both(self, address, market, open_address, width):
        """A link restores both; figures are those of the model at the same bid and period."""
        asked = link(address, advertiser=ONE, beside=OTHER, bid=3, days=7)
        page = open_address(asked, width=width).page
        assert page.input_value("#beside") == OTHER
        told(page, "#side-by-side", OTHER)
        pair = [market.forecast(name, 3.0, days=7).impressions for name in (ONE, OTHER)]
        row = page.locator("#beside-table tr", has_text="Impressions")
        shown = row.locator("data").evaluate_all("all => all.map((one) => Number(one.value))")
        assert shown == pytest.approx([*pair, np.diff(pair)[0]], rel=1e-9)
        set_bid(page, 3.333)
        page.wait_for_function(
            "(wanted) => Math.abs(document.querySelector("
            "'#beside-table tr:nth-child(3) td:nth-of-type(2) data').value / wanted - 1) < 1e-9",
            arg=market.forecast(OTHER, 3.333, days=7).impressions,
            timeout=PATIENCE,
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width

    def test_a_second_advertiser_is_a_step_of_the_history(self, address, open_address):
        """Choosing one changes the address; the back button takes it away again."""
        page = open_address(link(address, advertiser=ONE)).page
        page.fill("#beside", OTHER)
        page.locator("#beside-found [role=option]").first.click(timeout=PATIENCE)
        told(page, "#side-by-side", OTHER)
        assert f"beside={OTHER}" in page.url
        page.go_back()
        page.locator("#side-by-side").wait_for(state="hidden", timeout=PATIENCE)
        assert page.input_value("#beside") == ""
