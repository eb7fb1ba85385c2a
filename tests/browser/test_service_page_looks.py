"""How the what-if page looks: at first, on phones, in the dark, on paper, and to axe."""

from __future__ import annotations

import re

import pytest

from colours import can_be_read, colour, contrast, fits_phones, luminance, serious_findings
from fitted_models import HOSTILE_IDS
from service_pages import link, refuses_markup, settle

pytestmark = pytest.mark.slow

ONE = "adv-00021"
LONGEST = max(HOSTILE_IDS, key=len)
#: Text that only this page has, and where it is filled rather than coloured.
TEXTS = (
    ".lead",
    ".note",
    ".switch label",
    "#impressions-small",
    "#impressions-change .whole",
    "#sentence",
    ".chart .name.main",
    ".chart .name.segment",
    ".chart .name.own",
    "#facts dt",
    "#views small",
    "#neighbours small",
    "button.more",
    "footer",
)


@pytest.mark.parametrize("name", [ONE, LONGEST], ids=["usual", "long"])
def test_fits_narrow_screens(address, open_address, name):
    """Nothing makes the page wider than a phone, with every part opened."""
    page = open_address(link(address, advertiser=name, day="2026-03-11"), width=360).page
    page.evaluate("coterieNotices.showNotice('trouble', 'The service does not answer.', 'Try now')")
    fits_phones(page)


@pytest.fixture(scope="module")
def page(address, shared_tab):
    """The page of an advertiser, for tests that leave it as it is."""
    shared = shared_tab(link(address, advertiser=ONE)).page
    settle(shared)
    return shared


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(page, scheme):
    """Text stands out from its ground by 4.5 to 1 at least, in light and in dark."""
    page.evaluate("document.querySelector('#views li').classList.add('dissenting')")
    can_be_read(page, scheme, (*TEXTS, ".dissenting small"))
    button = [colour(page, "#token-form button", what) for what in ("color", "backgroundColor")]
    assert contrast(*button) >= 4.5


def test_the_structure_is_there_at_once(address, open_tab):
    """Before anything has answered the panel stands, waits visibly, and nothing jumps later."""
    held = []
    script = """
      window.shift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.shift += entry.value;
      }).observe({ type: "layout-shift", buffered: true });"""
    page = open_tab("about:blank", script=script, reduced_motion="reduce").page
    page.route("**/v1/model", lambda route: held.append(route), times=1)  # noqa: PLW0108
    page.goto(link(address, advertiser=ONE))
    for place in (".controls", "#impressions dt", "#spend-chart", ".charts figcaption >> nth=0"):
        assert page.locator(place).is_visible(), place
    assert page.get_attribute("#figures", "aria-busy") == "true"
    assert page.locator(".controls[inert]").count() == 1
    moving = "getComputedStyle(document.querySelector('#sentence'), '::before').animationName"
    assert page.evaluate(moving) == "none"
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) == "waiting"
    while not held:
        page.evaluate("0")
    held[0].continue_()
    page.wait_for_selector("body[data-state=settled]")
    assert page.get_attribute("#figures", "aria-busy") == "false"
    assert page.locator(".controls[inert]").count() == 0
    assert page.evaluate("window.shift") < 0.02


def test_errors_stand_out(address, open_address):
    """An error has a colour of its own, a sign beside it and enough contrast."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    page.fill("#bid", "1,234")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colours = [colour(page, "#fault", what) for what in ("color", "backgroundColor")]
        assert contrast(*colours) >= 4.5
        assert colours[0] != colour(page, "#sentence", "color")
    sign = "getComputedStyle(document.querySelector('#fault'), '::before').content"
    assert "\u26a0" in page.evaluate(sign)
    assert page.get_attribute("#bid", "aria-errormessage") == "fault"


def test_prints_on_few_pages(address, open_address, tmp_path):
    """On paper: light, without fields and buttons, with table, charts and scenarios."""
    asked = link(address, advertiser=ONE, bid=3, keep="2,3,4,5")
    page = open_address(asked, color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert luminance(colour(page, "body", "backgroundColor")) > 0.9
    for place in (".controls", ".tools", "#notices", "[data-picture=spend]", "#keep"):
        assert page.locator(place).is_hidden(), place
    for place in ("#sentence", "#spend-chart path.main", "#scenarios", "#views", ".card.own"):
        assert page.locator(place).is_visible(), place
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#bid-table tr").first.is_visible()
    printed = page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= 3


@pytest.mark.parametrize(
    ("fragment", "settings"),
    [
        (f"advertiser={ONE}", {}),
        (f"advertiser={ONE}&keep=2,3", {"color_scheme": "dark"}),
        (f"advertiser={ONE}&keep=2,3&days=7&beside=adv-00034", {"width": 390}),
        ("bid=-3&days=0", {}),
        ("bid=-3&days=0", {"color_scheme": "dark", "width": 390}),
        ("text=", {}),
    ],
    ids=["light", "scenarios, dark", "scenarios, phone", "error", "error, dark phone", "text"],
)
def test_axe_finds_nothing_serious(address, open_address, fragment, settings):
    """No serious or critical finding of axe-core, with every part opened."""
    # the policy of the page lets no script in, not even this one
    page = open_address(f"{address}/#{fragment}", bypass_csp=True, **settings).page
    assert serious_findings(page) == []


def test_says_what_is_served(page, market):
    """The page names the model, its version and its days."""
    told = page.inner_text("footer")
    assert "Model market.coterie, version " in told
    assert "5 days (2–6 March 2026)" in told
    assert f"{len(market.advertisers_)} advertisers in {len(market.segments_)} segments" in (
        page.inner_text("#lead")
    )
    assert page.inner_text("#advertiser-count") == str(len(market.advertisers_))


def test_says_that_it_needs_scripts(address, open_address):
    """Without JavaScript the page says what it lacks, and shows no empty fields."""
    page = open_address(address, settled=False, java_script_enabled=False).page
    assert "JavaScript" in page.inner_text("main")
    assert page.locator(".controls").is_hidden()


def test_markup_cannot_be_inserted(page):
    """The policy forbids what the scripts never do: markup from text, styles, other hosts."""
    refuses_markup(page)
    page.evaluate("document.body.setAttribute('style', 'color: rgb(1, 2, 3)')")
    assert page.evaluate("getComputedStyle(document.body).color") != "rgb(1, 2, 3)"
