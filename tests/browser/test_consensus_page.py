"""The report on a consensus in a browser: sorting, filtering, pictures, colours, narrow screens."""

from __future__ import annotations

import re

import numpy as np
import pytest

from colours import can_be_read, colour, contrast, luminance
from consensus_pages import HOSTILE_NAMES, clustered_features, fitted
from coterie import EvidenceAccumulation, choose_k, planted_partitions
from coterie.inspection.report.consensus_page import write_report
from service_pages import refuses_markup

pytestmark = pytest.mark.slow

FEATURES, PARTITIONS, _ = clustered_features()


@pytest.fixture(scope="module")
def estimator():
    """Return a consensus that chose the number of clusters."""
    est = fitted(PARTITIONS)
    est.k_choice_ = choose_k(PARTITIONS, range(2, 6), random_state=0)
    return est


@pytest.fixture(scope="module")
def report(estimator, tmp_path_factory):
    """Write a usual report."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    names = ["height", "width", "noise", "constant"]
    rows = [f"point {i}" for i in range(len(FEATURES))]
    write_report(estimator, path, FEATURES, feature_names=names, index=rows)
    return path


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory):
    """Write a report whose names are attacks, with too many partitions for a table."""
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    P, _ = planted_partitions([30, 20, 10], 16, 3, 0.2, random_state=0)
    names = [HOSTILE_NAMES[v % len(HOSTILE_NAMES)] for v in range(60)]
    settings = {"names": names[:16], "feature_names": names[:4], "index": names}
    write_report(fitted(P), path, FEATURES, title=HOSTILE_NAMES[0], **settings)
    return path


@pytest.fixture
def opened(open_tab):
    """Open a report without a network."""
    return lambda path, **settings: open_tab(path.as_uri(), offline=True, **settings)


@pytest.fixture(scope="module")
def page(report, shared_tab):
    """Return the page of a usual report, for tests that leave it as it is."""
    return shared_tab(report.as_uri(), offline=True).page


def column(page, table, number):
    """Return the visible texts of a column of a table."""
    cells = page.locator(f"{table} tbody tr:visible > :nth-child({number})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_tables_sort_by_number_and_by_name(report, opened):
    """A click on a header sorts by its exact numbers, a second one in the other direction."""
    page = opened(report).page
    header = page.locator("#points th", has_text="Confidence")
    rising = [float(text) for text in column(page, "#points", 4)]
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert [float(text) for text in column(page, "#points", 4)] == rising
    header.get_by_role("button").press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert [float(text) for text in column(page, "#points", 4)] == rising[::-1]
    page.locator("#points th", has_text="Point").get_by_role("button").click()
    numbers = [int(name.removeprefix("point ")) for name in column(page, "#points", 1)]
    assert numbers == sorted(numbers)
    assert header.get_attribute("aria-sort") is None


def test_cells_without_a_value_are_last(tmp_path, opened):
    """Clusters of one point have no consensus, and are last in both directions."""
    est = EvidenceAccumulation(3).fit([[0, 0], [0, 0], [1, 1], [1, 2], [3, 3]])
    write_report(est, tmp_path / "report.html")
    page = opened(tmp_path / "report.html").page
    button = page.locator("#decided th", has_text="Consensus").get_by_role("button")
    for _ in range(2):
        button.click()
        assert column(page, "#decided table", 5)[-1] == "–"


def test_filter_finds_points(report, estimator, opened):
    """The filter keeps the rows that have the text, and says how many these are."""
    page = opened(report).page
    names = column(page, "#points", 1)
    page.fill("#filter", "POINT 1")
    found = [name for name in names if "point 1" in name]
    assert column(page, "#points", 1) == found
    assert page.inner_text("#filter-count") == f"{len(found)} of {len(names)}"
    page.fill("#filter", "nothing has this")
    assert column(page, "#points", 1) == []
    page.fill("#filter", "")
    assert column(page, "#points", 1) == names
    assert page.inner_text("#filter-count") == ""


def test_map_shows_one_cluster_alone(report, estimator, opened):
    """A button of the legend shows the points of its cluster alone; again, all points."""
    page = opened(report).page
    button = page.get_by_role("button", name="cluster 1")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    shown = page.locator("#points-map circle:visible")
    assert shown.count() == (estimator.labels_ == 1).sum()
    assert set(shown.evaluate_all("all => all.map(one => one.dataset.cluster)")) == {"1"}
    button.click()
    assert shown.count() == len(FEATURES)


def test_points_have_their_colour_name_and_confidence(page, estimator):
    """The title of a point has its name, cluster and confidence."""
    titles = page.locator("#points-map title").evaluate_all("all => all.map(t => t.textContent)")
    expected = {
        f"point {i}: cluster {label}, confidence {confidence:.2f}"
        for i, (label, confidence) in enumerate(
            zip(estimator.labels_, estimator.confidence_.round(3), strict=True)
        )
    }
    assert len(set(titles) & expected) >= 0.95 * len(expected)  # .5 is rounded up or to even


def test_heat_map_can_be_read(page):
    """Pointing at the first cell of the co-association reads the pair and its value."""
    canvas = page.locator("#coassociation-map")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 6)
    said = page.inner_text("#coassociation-said")
    assert re.fullmatch(r"point (\d+) and point \1: 1\.00", said)


def test_heat_map_is_drawn_in_both_schemes(report, opened):
    """The picture is drawn in the colours of the scheme."""
    pixels = {}
    for scheme in ("light", "dark"):
        page = opened(report, color_scheme=scheme).page
        pixels[scheme] = page.evaluate(
            """() => {
              const canvas = document.getElementById("coassociation-map");
              const at = [canvas.width - 8, canvas.height - 8, 1, 1];
              return [...canvas.getContext("2d").getImageData(...at).data];
            }"""
        )
    assert pixels["light"][3] == pixels["dark"][3] == 255
    assert pixels["light"] != pixels["dark"]


@pytest.mark.parametrize("which", ["report", "hostile_report"])
@pytest.mark.parametrize("width", [320, 768])
def test_fits_narrow_screens(which, width, request, opened):
    """Nothing makes the page wider than a phone, with every part opened."""
    page = opened(request.getfixturevalue(which), width=width).page
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(report, opened, scheme):
    """Text stands out from its ground by 4.5 to 1 at least, in light and in dark."""
    page = opened(report, color_scheme=scheme).page
    texts = ("body", ".lead", ".note", "nav a", "summary", "tr.dissenting th", "figcaption")
    can_be_read(page, scheme, texts)
    for cell in page.locator(".heat td[class^=shade]").all()[:1]:
        for level in range(11):
            cell.evaluate("(e, level) => { e.className = `shade-${level}` }", level)
            place = ".heat td[class^=shade]"
            own = [colour(page, place, what) for what in ("color", "backgroundColor")]
            assert contrast(*own) >= 4.5, level


def test_hostile_names_are_text(hostile_report, opened):
    """Names that are attacks appear as text: no script runs, no element is added."""
    tab = opened(hostile_report)
    assert tab.complaints == []
    assert tab.page.locator("script").count() == 2
    assert tab.page.locator("img, main b").count() == 0
    assert tab.page.inner_text("h1") == HOSTILE_NAMES[0]
    assert tab.page.locator("#agreement-map").is_visible()


def test_markup_cannot_be_inserted(page):
    """The policy forbids what the script never does: markup from text, scripts, requests."""
    refuses_markup(page)


def test_prints(report, opened, tmp_path):
    """On paper the page is light, without fields, and shows all rows of all tables."""
    page = opened(report, color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert luminance(colour(page, "body", "backgroundColor")) > 0.9
    assert page.locator("nav").is_hidden()
    assert page.locator(".filter").is_hidden()
    clipped = page.locator(".scroll").evaluate_all(
        "all => all.filter((one) => one.scrollHeight > one.clientHeight + 1).length"
    )
    assert clipped == 0
    assert page.pdf(path=tmp_path / "report.pdf", format="A4").startswith(b"%PDF")


def test_reads_without_scripts(report, estimator, opened):
    """Without JavaScript all tables are there, and the page says which pictures are not."""
    page = opened(report, java_script_enabled=False).page
    assert page.locator("#filter").is_hidden()
    assert page.locator("#certainty noscript").is_visible()
    assert column(page, "#decided table", 2) == [
        str(size) for size in np.bincount(estimator.labels_)
    ]


def test_tables_can_be_reached_by_keyboard(page):
    """Wide tables are regions that can be focused and scrolled; every picture has a text."""
    for region in page.locator(".scroll").all():
        assert region.get_attribute("tabindex") == "0"
        assert region.get_attribute("aria-label")
    for picture in page.locator("[role=img]").all():
        assert picture.get_attribute("aria-label")
