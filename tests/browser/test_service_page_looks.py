"""How the what-if page looks: on phones, in the dark, on paper, and what its policy forbids."""

from __future__ import annotations

import pytest

from colours import can_be_read, colour, contrast, fits_phones, luminance
from fitted_models import HOSTILE_IDS
from service_pages import link, refuses_markup, settle

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

pytestmark = pytest.mark.xdist_group("the service's page")


@pytest.mark.parametrize("name", [ONE, LONGEST], ids=["usual", "long"])
def test_fits_narrow_screens(address, open_address, name):
    """Nothing makes the page wider than a phone, with every part opened."""
    page = open_address(link(address, advertiser=name, day="2026-03-11"), width=360).page
    page.evaluate("coterieNotices.tell('trouble', 'The service does not answer.', 'Try now')")
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


def test_prints(address, open_address, tmp_path):
    """On paper: light, without fields and buttons, with the table open and the charts drawn."""
    page = open_address(link(address, advertiser=ONE, bid=3), color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert luminance(colour(page, "body", "backgroundColor")) > 0.9
    for place in (".controls", ".tools", "#notices", "[data-picture=spend]"):
        assert page.locator(place).is_hidden(), place
    for place in ("#sentence", "#spend-chart path.main", "#views", "#segment-0-win", "footer"):
        assert page.locator(place).is_visible(), place
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#bid-table tr").first.is_visible()
    assert page.pdf(path=tmp_path / "page.pdf", format="A4").startswith(b"%PDF")


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
