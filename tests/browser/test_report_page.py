"""The report in a browser: what it answers, what it shows of hostile input, how it looks."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from colours import can_be_read, colour, contrast, fits_phones, luminance, serious_findings
from coterie.ads.report.rendering import write_report
from coterie.runtime import wording as words
from report_payloads import HOSTILE_IDS, make_payload, twin_forecast, twin_intervals
from service_pages import refuses_markup

pytestmark = pytest.mark.slow

PAYLOAD = make_payload()
HOSTILE = make_payload(hostile=True)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A usual report on disk."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(PAYLOAD, path)
    return path


@pytest.fixture
def opened(open_tab):
    """Open a report without a network."""
    return lambda path, **settings: open_tab(path.as_uri(), offline=True, **settings)


@pytest.fixture(scope="module")
def page(report, shared_tab):
    """The page of a usual report, for tests that leave it as it is."""
    return shared_tab(report.as_uri(), offline=True).page


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory):
    """A report of advertisers whose ids are attacks."""
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    write_report(HOSTILE, path)
    return path


def answers(page):
    """The exact numbers behind the figures in large type."""
    names = ("impressions", "spend", "win", "cost")
    return {
        name: float(page.locator(f"#{name}-value data").get_attribute("value")) for name in names
    }


def choose(page, query):
    """Search for an advertiser and take the first found."""
    page.fill("#advertiser", query)
    page.keyboard.press("Enter")


def bid_of(page):
    """The bid in its field."""
    return float(page.input_value("#bid"))


def test_begins_with_the_largest_spender(page):
    """At first the advertiser that spends most is shown, at its mean bid."""
    bids = [one.bid for one in PAYLOAD.advertisers]
    spend = [twin_forecast(PAYLOAD, i, bid)["spend"] for i, bid in enumerate(bids)]
    largest = int(np.argmax(spend))
    assert page.input_value("#advertiser") == PAYLOAD.advertisers[largest].id
    assert bid_of(page) == pytest.approx(bids[largest], rel=1e-3)
    assert "This is the log’s mean bid" in page.inner_text("#sentence")


def test_intervals_are_those_of_the_report(report, opened):
    """Impressions and spend have intervals of their own, from the curves of the advertiser."""
    page = opened(report).page
    for index, bid in ((7, 2.5), (19, 0.9)):
        choose(page, PAYLOAD.advertisers[index].id)
        page.fill("#bid", str(bid))
        for name, ends in twin_intervals(PAYLOAD, index, bid).items():
            shown = page.locator(f"#{name}-small data")
            found = [float(end.get_attribute("value")) for end in shown.all()]
            assert found == pytest.approx(ends, rel=2e-3)


def test_day_of_the_week(report, opened):
    """Choosing a day takes that day's auctions and prices; typing a number says so."""
    page = opened(report).page
    choose(page, PAYLOAD.advertisers[3].id)
    saturday = PAYLOAD.advertisers[3].supply_by_weekday[5]
    page.select_option("#day", label="Saturday")
    assert float(page.input_value("#supply")) == pytest.approx(saturday, rel=1e-3)
    assert "on a Saturday" in page.inner_text("#sentence")
    expected = twin_forecast(
        PAYLOAD, 3, PAYLOAD.advertisers[3].bid, saturday, PAYLOAD.prices_by_weekday[5]
    )
    found = answers(page)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-3)
    # intervals are those of an average day
    assert page.locator("#impressions-small data").count() == 0
    assert page.locator("#impressions-chart .band").count() == 0
    page.fill("#supply", "100")
    assert page.inner_text("#supply-hint").startswith("your number")
    assert "of its 100 auctions a day" in page.inner_text("#sentence")


def test_slider_keys_and_pointer_move_the_bid(report, opened):
    """The slider, arrow keys on a chart and a press on it all choose the bid."""
    page = opened(report).page
    page.focus("#bid-slider")
    page.keyboard.press("Home")
    assert bid_of(page) == pytest.approx(PAYLOAD.grid[0], rel=0.01)
    chart = page.locator("#impressions-chart svg")
    chart.focus()
    bids = [bid_of(page)]
    for _ in range(4):
        page.keyboard.press("ArrowRight")
        bids.append(bid_of(page))
    assert all(before < after for before, after in pairwise(bids))
    page.keyboard.press("End")
    assert bid_of(page) == pytest.approx(PAYLOAD.grid[-1], rel=0.01)
    chart.click()  # in its middle, once the page has stopped moving
    page.wait_for_function(
        "last => Number(document.getElementById('bid').value) < last", arg=PAYLOAD.grid[-1] / 2
    )
    assert PAYLOAD.grid[0] < bid_of(page) < PAYLOAD.grid[-1]
    assert answers(page)["win"] == pytest.approx(
        twin_forecast(PAYLOAD, shown(page), bid_of(page))["win"], rel=1e-9
    )


def shown(page):
    """The index of the advertiser shown."""
    ids = [one.id for one in PAYLOAD.advertisers]
    return ids.index(page.input_value("#advertiser"))


def test_scenarios_work_offline(report, opened):
    """Bids that are kept stand side by side and are marked on the charts."""
    page = opened(report).page
    page.get_by_role("button", name="Keep to compare").click()
    page.get_by_role("button", name="+20%").click()
    page.get_by_role("button", name="Keep to compare").click()
    assert page.locator("#scenarios tr").count() == 2
    assert page.locator("#spend-chart circle.kept").count() == 2
    page.get_by_role("button", name="Remove").first.click()
    assert page.locator("#scenarios tr").count() == 1


@pytest.mark.parametrize("width", [1280, 360])
def test_bids_stand_beside_those_of_the_segment(report, opened, width):
    """The c.d.f.s of wins and cost are drawn for both, their distance in words and as a bar."""
    page = opened(report, width=width).page
    assert "is 0.217 for wins and 0.217 for cost" in page.inner_text("#bid-shares")
    for name in ("wins", "cost"):
        chart = page.locator(f"#{name}-below svg")
        assert chart.locator("path.main, path.segment").count() == 2
        assert chart.locator("line.gap").count() == 1
        assert chart.get_attribute("aria-valuetext").startswith("at $2.50: ")
    page.locator("#wins-below svg").focus()
    page.keyboard.press("End")
    one = PAYLOAD.advertisers[shown(page)]
    ends = [one.wins_below[-1], PAYLOAD.segments[one.segment].wins_below[-1]]
    own, segment = (words.percent(round(float(f"{end:.4g}"), 3)) for end in ends)
    pair = f"{own}, segment {segment}"
    assert pair in page.inner_text("#wins-below-said")


def test_bids_never_seen_are_said(report, opened):
    """Beyond the grid the answer stays that of its end, and says so."""
    page = opened(report).page
    page.fill("#bid", str(PAYLOAD.grid[-1]))
    at_end = answers(page)
    assert "outside the bids seen" not in page.inner_text("#sentence")
    page.fill("#bid", str(10 * PAYLOAD.grid[-1]))
    assert answers(page) == at_end
    assert "outside the bids seen" in page.inner_text("#sentence")


def test_bad_numbers_are_said(report, opened):
    """A field that holds no number is marked, the figures stay, and a good number mends it."""
    page = opened(report).page
    for text in ("", "-1", "1e999"):
        before = answers(page)
        page.fill("#bid", text)
        assert "The bid must be a number" in page.inner_text("#fault")
        assert page.get_attribute("#bid", "aria-invalid") == "true"
        assert answers(page) == before
        page.fill("#bid", f"{len(text)}.5")
        assert page.inner_text("#fault") == ""
        assert page.get_attribute("#bid", "aria-invalid") == "false"


def test_search_among_some_says_that_others_are_left_out(tmp_path, opened):
    """Who is not in the report may be in the log, and is not a link in the table of points."""
    whole = make_payload()
    absent = whole.advertisers[-1].id
    some = replace(whole, advertisers=whole.advertisers[:-1], left_out=1200)
    indices = range(len(some.advertisers))
    lists = {
        n: [i for i in getattr(some, n) if i in indices] for n in ("outliers", "low_confidence")
    }
    cards = [replace(s, members=[i for i in s.members if i in indices]) for s in some.segments]
    write_report(replace(some, segments=cards, **lists), tmp_path / "report.html")
    page = opened(tmp_path / "report.html").page
    page.fill("#advertiser", absent)
    said = page.inner_text("#advertisers-found")
    assert "None of those in this report" in said and "1,200 others are left out" in said
    page.keyboard.press("Escape")
    page.locator("summary", has_text="largest misses").click()
    page.locator("#point-list input").fill(absent)
    row = page.locator("#point-list tbody tr", has_text=absent)
    row.wait_for()
    assert row.locator("a").count() == 0


def test_search_copes_with_many(page):
    """Among 20,000 ids those that begin with the query come first, and only some are listed."""
    found = page.evaluate(
        """() => {
          const items = Array.from({ length: 20000 }, (_, i) => ({ key: `id-${i}` }));
          items.push({ key: "199" });
          return coterieCombobox.search(items, " 199", 40).map((item) => item.key);
        }"""
    )
    assert found[0] == "199"
    assert len(found) == 40
    assert all("199" in key for key in found)


def test_members_can_be_listed_and_lead_to_their_forecast(tmp_path, opened):
    """Where a segment has more members than the typical ones, a button lists them all."""
    write_report(make_payload(60, 2), tmp_path / "report.html")
    page = opened(tmp_path / "report.html").page
    card = page.locator("#segment-0")
    card.locator("summary").click()
    assert card.locator("[data-advertiser]").count() == 12
    card.get_by_role("button", name="List all 30").click()
    assert page.inner_text("#advertiser-list .count") == "1–25 of 30"
    last = page.locator("#advertiser-list [data-advertiser]").last
    name = last.inner_text()
    last.click()
    assert page.input_value("#advertiser") == name
    assert page.locator("#facts a").inner_text() == card.locator("h3").inner_text()


def test_segments_are_read_together(report, opened):
    """Moving over one segment reads every segment at the same bid."""
    page = opened(report).page
    middle = PAYLOAD.grid[len(PAYLOAD.grid) // 2]
    assert page.inner_text("#segment-bid") == words.money(middle, "$")
    page.locator("#segment-2-win svg").focus()
    page.keyboard.press("Home")
    for place, segment in enumerate(PAYLOAD.segments):
        assert page.inner_text(f"#segment-{place}-win-said") == words.percent(segment.win[0])
        said = page.inner_text(f"#segment-{place}-cost-said")
        assert said == words.money(segment.cost[0], "$")


def test_hostile_ids_are_text(hostile_report, opened):
    """Ids, names and titles that are markup, code or worse are shown and do nothing."""
    tab = opened(hostile_report)
    page = tab.page
    scripts = page.locator("script").count()
    for index, name in enumerate(HOSTILE_IDS):
        visible = words.visible(name)
        choose(page, visible)
        assert page.locator("#sentence .id").text_content() == visible
        assert answers(page) == pytest.approx(
            twin_forecast(HOSTILE, index, HOSTILE.advertisers[index].bid), rel=2e-3
        )
    assert page.title() == HOSTILE.title
    assert page.inner_text("h1") == HOSTILE.title
    assert page.inner_text("#segment-0 h3") == HOSTILE.segments[0].name
    assert page.locator("script").count() == scripts
    assert page.locator("img").count() == 0
    assert tab.complaints == []
    assert len(tab.asked) <= 2


def test_markup_cannot_be_inserted(page):
    """The policy forbids what the scripts never do: markup from text, scripts, requests."""
    refuses_markup(page)


@pytest.mark.parametrize("which", ["report", "hostile_report"])
def test_fits_narrow_screens(which, request, opened):
    """Nothing makes the page wider than a phone, with every part opened."""
    page = opened(request.getfixturevalue(which), width=360).page
    fits_phones(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(page, scheme):
    """Text stands out from its ground by 4.5 to 1 at least, in light and in dark."""
    texts = ("body", ".lead", ".note", "nav a", ".small", "summary", ".severity")
    can_be_read(page, scheme, (*texts, ".chart .name.main"))
    cell = page.locator(".heat td[class^=shade]").first
    for level in range(11):
        cell.evaluate("(e, level) => { e.className = `shade-${level}` }", level)
        own = [
            colour(page, ".heat td[class^=shade]", what) for what in ("color", "backgroundColor")
        ]
        assert contrast(*own) >= 4.5, level


def test_prints(report, opened, tmp_path):
    """On paper: light, without fields, with all tables open and the charts drawn."""
    page = opened(report, color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert luminance(colour(page, "body", "backgroundColor")) > 0.9
    assert page.locator(".controls").is_hidden()
    assert page.locator("nav").is_hidden()
    assert page.locator("#impressions-chart svg path.main").is_visible()
    assert page.locator("#bid-table tr").first.is_visible()
    for table in page.locator("table:not(#compare table, #side-by-side table)").all():
        assert table.is_visible()
    printed = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 3


def test_reads_without_scripts(report, opened):
    """Without JavaScript all tables and figures are there, and the page says what is not."""
    page = opened(report, java_script_enabled=False).page
    text = page.inner_text("main")
    assert "JavaScript" in page.locator("#what-if noscript").inner_text()
    assert words.exact(PAYLOAD.rows) in text
    for segment in PAYLOAD.segments:
        assert segment.name in text
    wape = PAYLOAD.evaluation["sources"]["robust+pooled"]["spend"]["wape"]
    assert words.percent(wape) in page.inner_text("#errors table >> nth=0")
    assert page.locator(".controls").is_hidden()


def test_scripts_interpolate_as_numpy(page):
    """The page's interpolation is numpy's: on the grid, between, and flat beyond it."""
    rng = np.random.default_rng(0)
    for n in (2, 3, 64):
        xs = np.cumsum(rng.uniform(0.1, 1, n))
        ys = rng.normal(size=n)
        asked = np.concatenate([xs, rng.uniform(xs[0] - 1, xs[-1] + 1, 50)])
        given = page.evaluate(
            "([xs, ys, asked]) => asked.map((x) => coterieNumbers.interpolate(xs, ys, x))",
            [xs.tolist(), ys.tolist(), asked.tolist()],
        )
        np.testing.assert_allclose(given, np.interp(asked, xs, ys), rtol=1e-12, atol=1e-12)


def test_scripts_write_numbers_as_python(page):
    """Numbers in tables and in charts are written by the same rules."""
    rng = np.random.default_rng(1)
    numbers = [0.0, *np.exp(rng.uniform(-14, 25, 300)).tolist()]
    given = page.evaluate(
        """(numbers) => numbers.map((n) => [
          coterieNumbers.count(n), coterieNumbers.money(n, "$"), coterieNumbers.percent(n / 1e3),
          coterieNumbers.signed(n / 1e3), coterieNumbers.signed(-n / 1e3),
        ])""",
        numbers,
    )
    expected = [
        [
            words.format_count(n),
            words.money(n, "$"),
            *(write(n / 1e3) for write in (words.percent, words.signed)),
            words.signed(-n / 1e3),
        ]
        for n in numbers
    ]
    assert given == expected


def test_scripts_show_characters_as_python(page):
    """Characters that cannot be seen are shown by the same signs in scripts and in Python."""
    codes = [*range(0x250), 0x200D, 0x2028, 0xD800, 0xDFFF, 0xFFFD, 0x1F469]
    given = page.evaluate(
        """(codes) => codes.map((code) => {
          const text = coterieNodes.visible(`a${String.fromCodePoint(code)}b`);
          return [...text].map((one) => one.codePointAt(0));
        })""",
        codes,
    )
    assert given == [[ord(one) for one in words.visible(f"a{chr(code)}b")] for code in codes]


def test_axes_have_round_ticks(page):
    """Ticks of any grid, logarithmic or not, are 1, 2, 3 or 5 times a power of ten apart."""
    for low, high in ((0.15, 24.0), (0.01, 900.0), (10.0, 10.7), (2.0, 9.0)):
        grid = np.geomspace(low, high, 64).tolist()
        ticks = page.evaluate("(grid) => coterieScales.bidTicks(grid, 8)", grid)
        assert 2 <= len(ticks) <= 9
        assert all(low <= tick <= high for tick in ticks)
        tried = ticks if high / low > 20 else np.diff(ticks)
        leading = {f"{value:.3e}"[0] for value in tried}
        assert leading <= {"1", "2", "3", "5"}


@pytest.mark.parametrize(
    "case", ["no wins", "one advertiser", "two bids", "nothing measured", "no currency", "no views"]
)
def test_spare_reports_can_be_shown(case, tmp_path, opened):
    """Markets with missing parts give a page without console messages or NaN."""
    write_report(spare_report(case), tmp_path / "report.html")
    tab = opened(tmp_path / "report.html")
    tab.page.locator("#impressions-chart svg").focus()
    tab.page.keyboard.press("ArrowRight")
    assert tab.complaints == []
    text = tab.page.inner_text("main")
    assert not re.search(r"NaN|undefined|Infinity|None|null", text)
    drawn = tab.page.locator("svg [d], svg [x1], svg [cx]").evaluate_all(
        "(shapes) => shapes.map((shape) => shape.outerHTML).join('')"
    )
    assert "NaN" not in drawn


def spare_report(case):
    """Return a report in which something is missing."""
    if case == "one advertiser":
        return replace(make_payload(1, 1), n_days=1, last_day="2026-03-02")
    if case == "two bids":
        return make_payload(n_bids=2)
    if case == "no wins":
        nothing = dict.fromkeys(("win", "win_low", "cost"), [0.0] * len(PAYLOAD.grid))
        return replace(
            PAYLOAD,
            wins=0,
            spend=0.0,
            segments=[replace(one, **nothing) for one in PAYLOAD.segments],
            advertisers=[replace(one, **nothing) for one in PAYLOAD.advertisers],
        )
    if case == "nothing measured":
        first, *others = PAYLOAD.advertisers
        first = replace(first, segment=None, click_rate=None, own=None, supply=0)
        return replace(
            PAYLOAD,
            evaluation=None,
            tables=[],
            quality=[],
            outliers=[],
            advertisers=[first, *others],
        )
    if case == "no currency":
        return replace(PAYLOAD, currency="", interval=None)
    empty = {name: [] for name in ("names", "ari", "weights", "tpn_fpn")} | {"dissenting": None}
    return replace(PAYLOAD, views=PAYLOAD.views | empty)


@pytest.mark.parametrize(
    "settings", [{}, {"color_scheme": "dark", "width": 360}], ids=["light", "dark phone"]
)
def test_axe_finds_nothing_serious(report, opened, settings):
    """No serious or critical finding of axe-core, with every part opened and both compared."""
    # the policy of the page lets no script in, not even this one
    page = opened(report, bypass_csp=True, **settings).page
    page.fill("#beside", PAYLOAD.advertisers[7].id)
    page.keyboard.press("Enter")
    page.fill("#goal-amount", "many")
    page.keyboard.press("Enter")
    assert serious_findings(page) == []
