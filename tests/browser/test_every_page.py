"""Every page once, in a wide window: opens without a complaint and shows the figures of Python.

Other tests of this folder are slow.
"""

from __future__ import annotations

import pytest

from consensus_pages import clustered_features, fitted
from coterie.ads.report import rendering
from coterie.inspection.report import consensus_page
from coterie.runtime import wording as words
from report_payloads import make_payload, twin_forecast
from service_pages import choose, exact, set_bid, shows


def says_what_it_shows(page, bid, impressions):
    """Check that the sentence has the bid and the impressions."""
    said = page.inner_text("#sentence")
    assert (
        words.money(bid, "$") in said and f"{words.format_count(impressions)} impressions" in said
    )


def test_a_report_opens_offline(tmp_path, open_tab):
    """It asks for nothing but itself, and answers as Python's interpolation."""
    payload, file = make_payload(), tmp_path / "report.html"
    rendering.write_report(payload, file)
    tab = open_tab(file.as_uri(), offline=True)
    assert tab.page.locator(".card svg").count() == 2 * len(payload.segments)
    for index, bid, supply in ((7, 2.5, None), (0, 2.5, 12_000), (33, 99.0, 1e6), (33, 0.01, None)):
        tab.page.fill("#advertiser", payload.advertisers[index].id)
        tab.page.keyboard.press("Enter")
        tab.page.fill("#bid", str(bid))
        if supply is not None:
            tab.page.fill("#supply", str(supply))
        expected = twin_forecast(payload, index, bid, supply)
        for name, value in expected.items():
            assert exact(tab.page, f"#{name}-value") == pytest.approx([value], rel=1e-9)
        says_what_it_shows(tab.page, bid, expected["impressions"])
    assert [url for url in tab.asked if not url.startswith("data:")] == [file.as_uri()]
    assert tab.complaints == []


def test_a_report_on_a_consensus_opens_offline(tmp_path, open_tab):
    """It asks for nothing but itself, and draws every point."""
    features, partitions, _ = clustered_features()
    consensus_page.write_report(fitted(partitions), tmp_path / "report.html", features)
    tab = open_tab((tmp_path / "report.html").as_uri(), offline=True)
    assert tab.page.locator("#points-map circle").count() == len(features)
    assert [url for url in tab.asked if not url.startswith("data:")] == [tab.page.url]
    assert tab.complaints == []


@pytest.mark.slow
def test_the_page_of_the_service_answers_as_python(address, market, open_address):
    """An advertiser found by its id, at a bid typed in, has the figures of AdForecaster."""
    tab = open_address(address)
    choose(tab.page, "ADV-00034", "adv-00034")
    for bid in (0.01, 12.5):
        set_bid(tab.page, bid)
        expected = market.forecast("adv-00034", bid)
        assert shows(tab.page, expected, None)
        says_what_it_shows(tab.page, bid, expected.impressions)
        assert tab.page.inner_text("#why") == expected.why
    assert [url for url in tab.asked if not url.startswith((address, "data:"))] == []
    assert tab.complaints == []
