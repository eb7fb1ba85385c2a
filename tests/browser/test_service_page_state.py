"""The what-if page's address and what can be taken along: links, back and forward, CSV, PNG."""

from __future__ import annotations

import csv
import io
import re
from urllib.parse import parse_qs, urlsplit

import httpx
import numpy as np
import pytest

from coterie.ads.forecasts.profiles import Profiles
from coterie.cli.ads.forecast import _columns
from fitted_models import HOSTILE_IDS
from service_pages import PATIENCE, choose, exact, link, set_bid, settle, shows

pytestmark = pytest.mark.slow

ONE = "adv-00021"
OTHER = "adv-00034"
#: What begins a formula, and what spreadsheets pass over before it.
FORMULA_SIGNS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
BEFORE_FORMULAS = ("", " ", "  ", "\u00a0", "\u3000", "\ufeff", "\u200b", "\ufeff ")


@pytest.fixture(scope="module")
def page(address, shared_tab):
    """The page, for tests that only call its functions."""
    return shared_tab(address).page


def asks(page, **expected):
    """Wait until the address asks for something."""

    def same(url):
        return parse_qs(urlsplit(url).fragment) == {k: [v] for k, v in expected.items()}

    page.wait_for_url(same, timeout=PATIENCE)


def waits_for(page, name, bid, market):
    """Wait until the page shows the forecast of an advertiser at a bid."""
    value = market.forecast(name, bid).impressions
    page.locator(f'#impressions-value data[value="{value!r}"]').wait_for(timeout=PATIENCE)
    page.locator("#sentence .id").get_by_text(name, exact=True).wait_for(timeout=PATIENCE)
    settle(page)


@pytest.mark.parametrize(
    "asked",
    [
        {"advertiser": ONE, "bid": "3.754321", "day": "2026-03-11"},
        {"advertiser": "a/b c?d#e%2F", "bid": "2", "supply": "7.5"},
        {"text": "<b>flights</b> & hotels", "bid": "0.5", "supply": "1000"},
        {"advertiser": ONE, "bid": "3", "days": "7"},
        {"text": "flights", "bid": "3", "days": "30", "supply": "1000"},
    ],
    ids=["day", "supply", "text", "days", "text and days"],
)
def test_a_link_restores_what_was_asked(address, market, open_address, asked):
    """A link holds advertiser or text, bid, period and auctions; the server never sees them."""
    tab = open_address(link(address, **asked))
    options = {name: asked[name] for name in ("day", "text") if name in asked}
    if "supply" in asked:
        options["supply"] = float(asked["supply"])
    if "days" in asked:
        options["days"] = int(asked["days"])
    expected = market.forecast(asked.get("advertiser"), float(asked["bid"]), **options)
    for name, place in (("impressions", "#impressions-value"), ("spend", "#spend-value")):
        assert exact(tab.page, place) == [getattr(expected, name)]
    assert tab.page.input_value("#bid") == asked["bid"]
    asks(tab.page, **asked)
    assert not any("bid=" in url.split("#")[0] for url in tab.asked)


def test_links_that_ask_nonsense_ask_nothing(address, market, open_address):
    """What is no bid, number or day in a link is left out and said, until something is asked."""
    page = open_address(address).page
    name = str(market.advertisers_[market.cost_.argmax()])
    for fragment, left in {
        "what-if&=&&%": "",
        "bid=-3&supply=x&day=2026-02-30": "bid=-3, supply=x, day=2026-02-30.",
        "bid=1,000": "bid=1,000.",
        "day=2026-13-01&days=367&keep=2,x": "keep=2,x, day=2026-13-01, days=367.",
    }.items():
        page.goto("about:blank")
        page.goto(f"{address}/#{fragment}")
        settle(page)
        assert page.input_value("#advertiser") == name
        assert page.input_value("#day") == "mean"
        assert left in page.inner_text("#fault")
        assert ("could not be used" in page.inner_text("#fault")) == bool(left)
    set_bid(page, 3)
    assert page.inner_text("#fault") == ""


def test_an_unknown_advertiser_is_said(address, open_address):
    """A link to somebody the model does not know says so, shows no figures, and can be mended."""
    page = open_address(link(address, advertiser="<i>nobody</i>", bid=2)).page
    assert "is not in the log" in page.inner_text("#fault")
    assert page.locator("#figures").is_hidden()
    choose(page, ONE, ONE)
    assert page.inner_text("#fault") == ""
    assert page.locator("#figures").is_visible()


def test_back_and_forward(address, market, open_address):
    """Every advertiser and every bid that was rested at is a step of the back button."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    set_bid(page, 5)
    asks(page, advertiser=ONE, bid="5")
    choose(page, OTHER, OTHER)
    asks(page, advertiser=OTHER)
    mean = float(page.locator("#bid-table tr.chosen th data").get_attribute("value"))
    page.go_back()
    waits_for(page, ONE, 5.0, market)
    page.go_back()
    waits_for(page, ONE, 3.0, market)
    assert page.input_value("#bid") == "3"
    page.go_forward()
    waits_for(page, ONE, 5.0, market)
    page.go_forward()
    waits_for(page, OTHER, mean, market)
    assert page.input_value("#advertiser") == OTHER


def test_dragging_asks_once(address, market, open_address):
    """A slider on its way reads the curve; at rest one exact request and one step of history."""
    tab = open_address(link(address, advertiser=ONE, bid=3))
    page = tab.page
    before, asked = page.evaluate("history.length"), len(tab.asked)
    read = page.evaluate(
        """() => {
          const slider = document.getElementById("bid-slider");
          return Array.from({ length: 100 }, (_, i) => {
            slider.value = 300 + 3 * i;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            const [bid, spend] = ["bid", "spend-value"].map((id) => document.getElementById(id));
            return [Number(bid.value), Number(spend.querySelector("data").value)];
          });
        }"""
    )
    settle(page)
    bids, spend = zip(*read, strict=True)
    expected = [one.spend for one in market.forecast(ONE, list(bids))]
    np.testing.assert_allclose(spend, expected, rtol=0.02)
    assert shows(page, market.forecast(ONE, bids[-1]), None)
    asks(page, advertiser=ONE, bid=page.input_value("#bid"))
    assert page.evaluate("history.length") == before + 1
    assert len(tab.asked) - asked == 1
    # a bid that was asked is known
    set_bid(page, 3)
    set_bid(page, bids[-1])
    assert len(tab.asked) - asked == 1


def test_typing_is_one_step(address, market, open_address):
    """However long one rests while typing, it is one step until the field is left."""
    page = open_address(link(address, advertiser=ONE, bid=3)).page
    before = page.evaluate("history.length")
    for bid in ("4", "4.55"):
        set_bid(page, bid)
        asks(page, advertiser=ONE, bid=bid)
    assert page.evaluate("history.length") == before + 1
    page.locator("#bid").blur()
    set_bid(page, 6)
    asks(page, advertiser=ONE, bid="6")
    assert page.evaluate("history.length") == before + 2
    page.go_back()
    waits_for(page, ONE, 4.55, market)
    page.go_back()
    waits_for(page, ONE, 3.0, market)


def test_neighbours_are_compared_at_one_bid(address, market, open_address):
    """A neighbour is shown at the same bid and number of auctions."""
    page = open_address(link(address, advertiser=ONE, bid=3.21)).page
    before = page.evaluate("history.length")
    page.fill("#supply", "777")
    settle(page)
    nearest = page.locator("#neighbours a").first
    name = nearest.get_attribute("data-advertiser")
    nearest.click()
    asks(page, advertiser=name, bid="3.21", supply="777")
    settle(page)
    expected = market.forecast(name, 3.21, supply=777.0)
    assert exact(page, "#spend-value") == [expected.spend]
    # what was typed, then whom it was taken to
    assert page.evaluate("history.length") == before + 2


def test_addresses_say_all_of_it(page):
    """Whatever is asked, an address that is written and read again asks the same."""
    days = [
        None,
        {"kind": "mean", "supply": 0.5},
        {"kind": "date", "date": "2024-02-29"},
        {"kind": "days", "days": 7},
        {"kind": "days", "days": 30, "supply": 0},
    ]
    texts = [*HOSTILE_IDS, "", "+ &=#%", "日本 👩‍👧", "a\nb", "\u202e"]
    states = [
        ({"text": text} if place % 2 else {"advertiser": text or "-"})
        | ({"bid": 10.0 ** (place - 8)} if place % 4 else {})
        | ({"kept": [2.5, 0.125, 1e9][: place % 4]} if place % 4 else {})
        | ({"day": days[place % 5]} if place % 5 else {})
        for place, text in enumerate(texts)
    ]
    read = "(all) => all.map((one) => coterieAddress.read(coterieAddress.write(one)))"
    assert page.evaluate(read, states) == states


@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "not allowed"])
def test_copies_a_link(address, open_address, allowed):
    """The link of what is shown goes to the clipboard; where that is closed it can be copied."""
    clipboard = (
        "{ writeText: async (text) => { window.copied = text } }" if allowed else "undefined"
    )
    script = f"Object.defineProperty(navigator, 'clipboard', {{ value: {clipboard} }})"
    page = open_address(link(address, advertiser=ONE), script=script).page
    set_bid(page, 6.25)
    page.get_by_role("button", name="Copy link").click()
    expected = link(address, advertiser=ONE, bid=6.25)
    if allowed:
        page.get_by_text("Copied.").wait_for(timeout=PATIENCE)
        assert page.evaluate("window.copied") == expected
    else:
        page.locator("#link").wait_for(timeout=PATIENCE)
        assert page.input_value("#link") == expected


def test_csv_is_what_the_service_says(address, market, open_address, tmp_path):
    """The file holds all that is plotted, in the command line's columns, with every digit."""
    page = open_address(link(address, advertiser='"quoted"', bid=2.5, supply=333)).page
    with page.expect_download(timeout=PATIENCE) as download:
        page.get_by_role("button", name="Save as CSV").click()
    download.value.save_as(tmp_path / "saved.csv")
    assert download.value.suggested_filename == "forecast-quoted.csv"
    rows = list(csv.DictReader(io.StringIO((tmp_path / "saved.csv").read_text("utf-8"))))
    bids = [float(row["bid"]) for row in rows]
    assert bids == sorted(set(bids))
    assert {2.5, *exact(page, "#bid-table th"), *Profiles(market).grid} <= {0.0, *bids}
    columns = list(_columns(market.forecast('"quoted"', bids, supply=333)))
    assert list(rows[0]) == [
        *columns,
        *("text", "day", "days", "model", "marginal_cost", "scenario"),
    ]
    assert {row["currency"] for row in rows} == {market.currency_}
    question = {"advertiser": '"quoted"', "bid": bids, "supply": 333}
    asked = httpx.post(f"{address}/v1/forecast", json=question, trust_env=False, timeout=60)
    answer = asked.json()
    for row, one in zip(rows, answer["forecasts"], strict=True):
        assert row["advertiser"] == '"quoted"'
        assert row["why"].startswith(answer["why"])
        assert (row["model"], row["curve"]) == (answer["model"]["version"], answer["curve"])
        for name in ("bid", "win_rate", "cost", "impressions", "spend", "clicks", "conversions"):
            assert float(row[name]) == one[name]
        assert float(row["level"]) == answer["level"] == 0.9
        for name in ("impressions", "spend", "clicks", "conversions"):
            assert [float(row[f"{name}_{end}"]) for end in ("low", "high")] == one[
                f"{name}_interval"
            ]


def csv_of(page, texts):
    """What the page would save of texts, each beside a number below 0."""
    rows = "(texts) => coterieExports.csv(texts.map((text) => ({ text, number: -1.5e-7 })))"
    return str(page.evaluate(rows, texts))


def test_csv_cells_are_no_formulas(page):
    """Text that a spreadsheet would run is kept from it; all other text comes through as it is."""
    formulas = [
        *(before + sign + "1" for before in BEFORE_FORMULAS for sign in FORMULA_SIGNS),
        *("\tx", "\rx", "\nx"),
    ]
    plain = [*HOSTILE_IDS, "a\nb", "1=1", "", " 1", "a; b-c, d@e", "\ufeffx", "it's"]
    given = csv_of(page, formulas + plain)
    rows = list(csv.DictReader(io.StringIO(given, newline="")))
    assert [row["text"] for row in rows] == [f"'{text}" for text in formulas] + plain
    assert {float(row["number"]) for row in rows} == {-1.5e-7}


def test_no_part_of_a_csv_cell_is_a_formula(page):
    """However a spreadsheet splits the file, no cell of it begins with the sign of a formula."""
    ends = (";", "\t", "\n", "\r", "\r\n", ";;", "\n;", '"\n', '";', "\u2028", "\x85")
    texts = [
        f"x{end}{before}{sign}1"
        for end in ends
        for before in (*BEFORE_FORMULAS, '"', '" "')
        for sign in FORMULA_SIGNS
    ]
    given = csv_of(page, texts)
    whole = [row["text"] for row in csv.DictReader(io.StringIO(given, newline=""))]
    assert [text.replace("'", "") for text in whole] == texts
    # with quotes as they are meant, and by a reader who minds none
    for separator in (",", ";", "\t"):
        meant = csv.reader(io.StringIO(given, newline=""), delimiter=separator)
        plain = csv.reader(given.splitlines(), delimiter=separator, quoting=csv.QUOTE_NONE)
        for cell in [cell for row in (*meant, *plain) for cell in row]:
            seen = re.sub(r'^[\s"\ufeff\u200b]+', "", cell)
            assert seen[:1] not in FORMULA_SIGNS or not seen or seen.startswith("-1.5e-7")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_png_is_a_picture_of_the_chart(address, open_address, tmp_path, scheme):
    """A chart is saved at twice its size with its title, in the colours of the screen."""
    pictures = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    noted = """
      const written = XMLSerializer.prototype.serializeToString;
      XMLSerializer.prototype.serializeToString = function (node) {
        window.titles = [...node.querySelectorAll(":scope > text")].map((one) => one.textContent);
        return written.call(this, node);
      };"""
    asked = link(address, advertiser=HOSTILE_IDS[0], bid=2.5, supply=85192)
    page = open_address(asked, width=900, color_scheme=scheme, script=noted).page
    with page.expect_download(timeout=PATIENCE) as download:
        page.locator("[data-picture=spend]").click()
    download.value.save_as(tmp_path / "saved.png")
    assert re.fullmatch(r"spend-[\w.-]+\.png", download.value.suggested_filename)
    chart = page.locator("#spend-chart svg")
    wide, high = (int(chart.get_attribute(name)) for name in ("width", "height"))
    with pictures.open(tmp_path / "saved.png") as picture:
        width, height = picture.size
        colours = np.asarray(picture.convert("RGB"), dtype=int) @ [65536, 256, 1]
    assert (width, height) == (2 * (wide + 32), 2 * (high + 108))
    assert page.evaluate("titles") == [
        "Spend a day by bid",
        f"Bid $2.50: {HOSTILE_IDS[0]}"[: int(wide / (0.55 * 13))],
        "85,192 auctions a day",
        "Log of 2–6 March 2026",
    ]
    line, ground = {"light": (0x0072B2, 0xFFFFFF), "dark": (0x56B4E9, 0x0F1318)}[scheme]
    assert {line, ground} <= set(np.unique(colours).tolist())
