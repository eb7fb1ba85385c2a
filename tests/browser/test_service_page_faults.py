"""The what-if page when something is wrong: tokens, services that are gone or busy, refusals."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest

from markets import odd_model
from running_service import running_service
from service_pages import PATIENCE, choose, exact, link, set_bid, settle

pytestmark = pytest.mark.slow

ONE = "adv-00021"
OTHER = "adv-00034"
TOKEN = "correct-horse-battery-staple"


def spare():
    """A model that knows one advertiser, which made one bid."""
    return odd_model("one won bid")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service that asks for a token."""
    folder = tmp_path_factory.mktemp("guarded")
    with running_service(spare(), folder, environment={"COTERIE_TOKEN": TOKEN}) as service:
        yield service


def test_asks_for_the_token(guarded, open_address):
    """A token is asked for once, again where it is wrong, and is kept in the tab alone."""
    tab = open_address(link(guarded.address, advertiser="adv-00000", bid=3), settled=False)
    page = tab.page
    page.locator("#token-dialog[open]").wait_for(timeout=PATIENCE)
    assert page.locator(".controls[inert]").count() == 1
    page.fill("#token", "two words")
    page.keyboard.press("Enter")
    page.get_by_text("no spaces").wait_for(timeout=PATIENCE)
    page.fill("#token", "wrong-" + TOKEN)
    page.keyboard.press("Enter")
    page.get_by_text("did not accept this token").wait_for(timeout=PATIENCE)
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    settle(page)
    assert page.locator("#token-dialog").is_hidden()
    assert page.input_value("#token") == ""
    assert exact(page, "#spend-value") == [spare().forecast("adv-00000", 3.0).spend]
    page.reload()
    settle(page)
    assert exact(page, "#spend-value") == [spare().forecast("adv-00000", 3.0).spend]
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    assert not any(TOKEN in url for url in tab.asked)
    assert TOKEN not in guarded.logged


def test_a_token_not_given_is_not_kept(guarded, open_address):
    """A dialog that is closed forgets what was typed, and can be opened again."""
    page = open_address(guarded.address, settled=False).page
    page.locator("#token-dialog[open]").wait_for(timeout=PATIENCE)
    page.fill("#token", TOKEN)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Enter it").click()
    assert page.input_value("#token") == ""
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    settle(page)
    assert exact(page, "#spend-value")


def test_spare_models_can_be_shown(guarded, open_address):
    """A model with next to nothing in it makes a page too, without a complaint or a NaN."""
    tab = open_address(
        guarded.address, script=f"sessionStorage.setItem('coterie-token', '{TOKEN}')"
    )
    page = tab.page
    page.locator("#impressions-chart svg").focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.inner_text("#fault") == ""
    bid = float(page.input_value("#bid"))
    assert exact(page, "#spend-value") == [spare().forecast("adv-00000", bid).spend]
    assert not re.search(r"NaN|undefined|Infinity|null", page.inner_text("main"))
    shapes = page.locator("svg [d], svg [x1], svg [cx]").evaluate_all(
        "(all) => all.map((one) => one.outerHTML).join('')"
    )
    assert "NaN" not in shapes
    assert tab.complaints == []


def test_a_service_that_is_gone_comes_back(address, market, open_address):
    """While nobody answers the page says so, reads its curve and asks again until one does."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
    page.fill("#bid", "4")
    page.get_by_text("The service does not answer").wait_for(timeout=PATIENCE)
    assert exact(page, "#spend-value") == pytest.approx([market.forecast(ONE, 4.0).spend], rel=0.02)
    assert "read from the curve" in page.inner_text("#caption")
    assert page.locator("body[data-state=asking]").count() == 1
    page.unroute("**/v1/**")
    settle(page)
    assert exact(page, "#spend-value") == [market.forecast(ONE, 4.0).spend]
    assert page.locator("#notices p").count() == 0


def test_a_new_model_is_told(serve, market, open_address):
    """Once another model answers, the page says so, and loads all of it when told to."""
    page = open_address(link(serve(market), advertiser=ONE, bid=3)).page
    changed = copy.copy(market)
    changed.currency_ = "EUR"
    serve(changed)
    set_bid(page, 4)
    page.locator("#notice-model").get_by_role("button").click()
    page.locator("#spend-value", has_text="€").wait_for(timeout=PATIENCE)
    settle(page)
    assert page.locator("#notices p").count() == 0
    assert page.input_value("#bid") == "4"
    assert exact(page, "#spend-value") == [market.forecast(ONE, 4.0).spend]


def test_a_busy_service_is_asked_again(address, market, open_address):
    """A service that has no room says when to come back; the page does, and says so meanwhile."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    busy = {"status": 503, "headers": {"Retry-After": "900"}, "body": "{}"}
    page.route("**/v1/forecast", lambda route: route.fulfill(**busy), times=1)
    page.fill("#bid", "4")
    page.get_by_text("The service is busy").wait_for(timeout=PATIENCE)
    page.get_by_role("button", name="Try now").click()
    settle(page)
    assert exact(page, "#spend-value") == [market.forecast(ONE, 4.0).spend]
    assert page.locator("#notices p").count() == 0


def test_refusals_are_shown_in_words(address, open_address):
    """What the service refuses is said as it says it, the figures stay, and a good bid mends it."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    before = exact(page, "#spend-value")
    set_bid(page, 1e12)
    assert re.search(r"The service refused this: bid: ", page.inner_text("#fault"))
    assert exact(page, "#spend-value") == before
    assert page.inner_text("#fault").endswith("The figures are those of the last answer.")
    broken = {"status": 500, "body": '{"request_id": "r-17"}'}
    page.route("**/v1/forecast", lambda route: route.fulfill(**broken), times=1)
    set_bid(page, 4)
    assert "The service failed (request r-17)" in page.inner_text("#fault")
    assert page.inner_text("#fault").endswith("The figures are read from the curve.")
    set_bid(page, 5)
    assert page.inner_text("#fault") == ""
    assert exact(page, "#spend-value") != before


def hold(page, pattern):
    """Leave the next request to an address without an answer; it is in the list once it came."""
    held: list[Any] = []

    def keep(route):
        held.append(route)

    page.route(pattern, keep, times=1)
    return held


def no_figures(page):
    """Whether nothing of a forecast is to be seen, or taken along."""
    return page.locator("#spend-value, #sentence, #spend-chart svg").filter(
        visible=True
    ).count() == 0 and not page.evaluate(
        """() => {
          let saved = false;
          const clicked = HTMLAnchorElement.prototype.click;
          HTMLAnchorElement.prototype.click = () => { saved = true };
          document.getElementById("save-csv").click();
          HTMLAnchorElement.prototype.click = clicked;
          return saved;
        }"""
    )


def test_figures_are_of_the_one_that_is_named(address, market, open_address, tmp_path):
    """Where somebody else's forecast is refused, nobody's is shown or saved, until it is mended."""
    page = open_address(link(address, advertiser=ONE)).page
    page.evaluate(f"location.hash = '#supply=1e300&advertiser={OTHER}'")
    page.locator("#fault", has_text="The service refused this").wait_for(timeout=PATIENCE)
    settle(page)
    assert page.input_value("#advertiser") == OTHER
    assert no_figures(page)
    assert re.search(r"refused this: auctions: .+\.$", page.inner_text("#fault"))
    page.fill("#supply", "100")
    settle(page)
    bid = float(page.locator("#bid-table tr.chosen th data").get_attribute("value"))
    expected = market.forecast(OTHER, bid, supply=100.0)
    assert exact(page, "#spend-value") == [expected.spend]
    assert page.inner_text("#fault") == ""
    with page.expect_download(timeout=PATIENCE) as download:
        page.get_by_role("button", name="Save as CSV").click()
    download.value.save_as(tmp_path / "saved.csv")
    assert (tmp_path / "saved.csv").read_text("utf-8").splitlines()[1].startswith(f"{OTHER},")


@pytest.mark.parametrize("asked", ["**/v1/advertisers/**", "**/v1/forecast"])
def test_figures_wait_for_their_answer(address, market, open_address, asked):
    """While somebody else's answer is on its way, the former one's figures are not shown."""
    page = open_address(link(address, advertiser=ONE)).page
    held = hold(page, asked)
    with page.expect_request(asked, timeout=PATIENCE):
        page.evaluate(f"location.hash = '#bid=3&advertiser={OTHER}'")
    assert no_figures(page)
    while not held:
        page.evaluate("0")
    held[0].continue_()
    page.locator("#spend-value").wait_for(timeout=PATIENCE)
    settle(page)
    assert exact(page, "#spend-value") == [market.forecast(OTHER, 3.0).spend]
    assert page.locator("#sentence .id").inner_text() == OTHER


def test_a_text_that_is_refused_has_no_figures(address, market, open_address):
    """A text that fails, or is taken away, leaves no figures of the one before it."""
    page = open_address(link(address, text="flights", supply=50, bid=3)).page
    broken = {"status": 500, "body": '{"request_id": "r-18"}'}
    page.route("**/v1/forecast", lambda route: route.fulfill(**broken), times=1)
    page.fill("#text", "hotels")
    page.locator("#fault", has_text="request r-18").wait_for(timeout=PATIENCE)
    settle(page)
    assert no_figures(page)
    set_bid(page, 4)
    expected = market.forecast(text="hotels", bid=4.0, supply=50.0)
    assert exact(page, "#spend-value") == [expected.spend]
    page.fill("#text", " ")
    page.locator("#figures").wait_for(state="hidden", timeout=PATIENCE)
    settle(page)
    assert no_figures(page)
    set_bid(page, 5)
    assert no_figures(page)
    page.fill("#text", "flights")
    page.locator("#figures").wait_for(timeout=PATIENCE)
    settle(page)
    expected = market.forecast(text="flights", bid=5.0, supply=50.0)
    assert exact(page, "#spend-value") == [expected.spend]


def test_ids_that_are_only_dots(serve, open_address):
    """An id that no browser can put into a path has its forecast, and says what is left out."""
    model = copy.copy(spare())
    model.advertisers_ = np.array([".."])
    page = open_address(link(serve(model), advertiser="..", bid=3)).page
    assert page.input_value("#advertiser") == ".."
    assert exact(page, "#spend-value") == [model.forecast("..", 3.0).spend]
    assert "only dots" in page.inner_text("#facts")
    page.evaluate("location.hash = '#advertiser=.'")
    page.locator("#fault").filter(visible=True).wait_for(timeout=20_000)
    assert "no such advertiser" in page.inner_text("#fault")
    settle(page)
    assert no_figures(page)


def test_the_latest_question_wins(address, market, open_address):
    """An answer that is late is given up for that to a later question, about somebody else."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    held = hold(page, "**/v1/forecast")
    with page.expect_request("**/v1/forecast", timeout=PATIENCE) as late:
        page.fill("#bid", "4")
    with page.expect_event("requestfailed", timeout=PATIENCE) as given_up:
        choose(page, OTHER, OTHER)
    bid = float(page.locator("#bid-table tr.chosen th data").get_attribute("value"))
    assert exact(page, "#spend-value") == [market.forecast(OTHER, bid).spend]
    assert len(held) == 1
    assert given_up.value == late.value
