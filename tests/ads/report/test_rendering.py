"""Tests of the HTML report: self-contained, escaped, readable without scripts, written whole."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.report.contents import Report
from coterie.ads.report.rendering import SCRIPTS, render_report, write_report
from coterie.runtime import wording as words
from report_payloads import HOSTILE_IDS, make_payload

PAYLOAD = make_payload()


class Page(HTMLParser):
    """Tags, attributes and text of an HTML page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.text: list[str] = []
        self._inside: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a tag and its attributes."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._inside = tag if tag in self.raw else None

    def handle_endtag(self, _tag: str) -> None:
        """Leave a script or a style."""
        self._inside = None

    def handle_data(self, data: str) -> None:
        """Record text, separately for scripts and styles."""
        (self.raw[self._inside] if self._inside else self.text).append(data)

    def attribute(self, tag: str, name: str) -> list[str]:
        """Return all values of an attribute."""
        return [value for t, n, value in self.attributes if (t, n) == (tag, name)]

    @property
    def data(self) -> dict[str, Any]:
        """Return what the scripts read."""
        return json.loads(self.raw["script"][0])


def fingerprint(text: str) -> str:
    """Return the source expression of a script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy(page: Page) -> dict[str, list[str]]:
    """Return the Content-Security-Policy of a page by directive."""
    (content,) = [c for c in page.attribute("meta", "content") if "default-src" in c]
    return {part.split()[0]: part.split()[1:] for part in content.split(";")}


def test_refers_to_nothing_outside() -> None:
    """Links stay in the page; nothing is loaded, styled or run by attribute."""
    page = Page(render_report(PAYLOAD))
    assert page.attribute("link", "href") == ["data:,"]
    anchors = page.attribute("a", "href")
    names = {value for _, name, value in page.attributes if name == "id"}
    assert anchors
    assert all(href.startswith("#") and href[1:] in names for href in anchors)
    for _, name, _value in page.attributes:
        assert name not in {"src", "srcset", "style", "action"}
        assert not name.startswith("on")


def test_policy_names_every_script_and_style() -> None:
    """Only the scripts and the style in the page may run, by their SHA-256; nothing is loaded."""
    page = Page(render_report(PAYLOAD))
    rules = policy(page)
    code = page.raw["script"][1:]
    assert len(code) == len(SCRIPTS)
    assert rules["default-src"] == ["'none'"]
    assert rules["script-src"] == [fingerprint(text) for text in code]
    assert rules["style-src"] == [fingerprint(text) for text in page.raw["style"]]
    assert rules["require-trusted-types-for"] == ["'script'"]
    assert not any("unsafe" in source for sources in rules.values() for source in sources)


def test_hostile_ids_reach_the_scripts() -> None:
    """The scripts get every id unchanged, except for control characters."""
    html = render_report(make_payload(hostile=True))
    page = Page(html)
    assert page.data["advertisers"]["id"][: len(HOSTILE_IDS)] == list(
        map(words.visible, HOSTILE_IDS)
    )
    embedded = page.raw["script"][0]
    assert not re.search("[<>&\u2028\u2029]", embedded)


def report_with_text(text: str) -> Report:
    """Return a small report that shows a text in every place that can hold one."""
    report = make_payload(2, 1, n_bids=3)
    table = report.tables[0] | {"rows": [[text, *report.tables[0]["rows"][0][1:]]]}
    return replace(
        report,
        title=text,
        segments=[replace(report.segments[0], name=text)],
        advertisers=[replace(report.advertisers[0], id=text), report.advertisers[1]],
        quality=[{"severity": "warning", "what": text, "count": 1, "examples": [text]}],
        how=[{"step": text, "detail": "detail"}],
        tables=[table],
    )


@cache
def harmless() -> Page:
    """Return the same page with a harmless text."""
    return Page(render_report(report_with_text("peace")))


@settings(deadline=None, max_examples=20)
@given(st.text(st.characters(), min_size=1, max_size=40) | st.sampled_from(HOSTILE_IDS))
def test_any_text_is_text(text: str) -> None:
    """Any id, name, title or example is shown as text, and adds no tag and no attribute."""
    html = render_report(report_with_text(text))
    html.encode()
    page = Page(html)
    assert page.tags == harmless().tags
    assert [one[:2] for one in page.attributes] == [one[:2] for one in harmless().attributes]
    assert page.data["advertisers"]["id"][0] == words.visible(text)
    assert page.text.count(words.visible(text)) >= 6


def test_curves_keep_four_digits() -> None:
    """Win rates are in percent, spend per thousand; shares below a bid are rises in thousandths."""
    data = Page(render_report(PAYLOAD)).data
    scales = {"cost": 1, "spend_low": 1000, "spend_high": 1000}
    for name in ("win", "win_low", "win_high", "own", "cost", "spend_low", "spend_high"):
        for i, one in enumerate(PAYLOAD.advertisers):
            place = data["advertisers"][name][i]
            if getattr(one, name) is None:
                assert place is None
                continue
            scale = scales.get(name, 100)
            np.testing.assert_allclose(
                np.array(data["curves"][place]) / scale, getattr(one, name), rtol=1e-3, atol=1e-300
            )
    for name in ("wins_below", "cost_below"):
        for i, one in enumerate(PAYLOAD.advertisers):
            rises = np.array(data["curves"][data["advertisers"][name][i]])
            np.testing.assert_allclose(rises.cumsum() / 1000, getattr(one, name), atol=5.1e-4)
    assert data["grid"] == PAYLOAD.grid


def test_equal_curves_are_stored_once() -> None:
    """Advertisers with the curves of their segment share one copy."""
    first = PAYLOAD.segments[0]
    curves = {name: getattr(first, name) for name in ("win", "win_low", "win_high", "cost")}
    spend = {"spend_low": first.cost, "spend_high": first.win}
    curves |= {name: [value / 1000 for value in curve] for name, curve in spend.items()}
    below = {"wins_below": first.wins_below, "cost_below": first.cost_below}
    rows = [replace(one, **curves, **below, own=None) for one in PAYLOAD.advertisers]
    data = Page(render_report(replace(PAYLOAD, advertisers=rows))).data
    assert set(data["advertisers"]["win"]) == {data["segments"][0]["win"]}
    # the upper end of spend is the win rate in other units
    assert set(data["advertisers"]["spend_low"]) == {data["segments"][0]["cost"]}
    assert set(data["advertisers"]["cost_below"]) == {data["segments"][0]["cost_below"]}
    assert len(data["curves"]) == 6 * len(PAYLOAD.segments) + 1


def test_a_close_grid_stays_increasing() -> None:
    """Bids that agree in four digits are not rounded to the same number."""
    report = replace(make_payload(2, 1, n_bids=3), grid=[10.00001, 10.00002, 10.00003])
    assert Page(render_report(report)).data["grid"] == report.grid


@pytest.mark.slow
def test_a_market_of_1268_advertisers_fits_in_4_and_a_half_megabytes() -> None:
    """The report of a usual market is below 4.5 MB."""
    assert len(render_report(make_payload(1268, 10)).encode()) < 4_500_000


def test_tables_are_in_the_page_itself() -> None:
    """Headline, segments, errors, strata, differences, tables and notes need no script."""
    text = " ".join(" ".join(Page(render_report(PAYLOAD)).text).split())
    evaluation = PAYLOAD.evaluation
    expected = [words.exact(PAYLOAD.rows), words.money(PAYLOAD.spend, "$")]
    expected += [segment.name for segment in PAYLOAD.segments]
    for source in evaluation["sources"].values():
        for target in ("impressions", "spend", "clicks"):
            expected += [
                words.percent(source[target]["mape"]),
                words.signed(source[target]["bias"]),
            ]
    for stratum in evaluation["strata"]:
        expected += [
            stratum["name"],
            words.signed(stratum["sources"]["dictionary"]["spend"]["bias"]),
        ]
    expected += [
        words.signed(float(f"{one['difference']:.4g}"))
        for one in evaluation["differences"]
        if one["target"] != "clicks"
    ]
    for row in evaluation["coverage"]["rows"]:
        expected += [words.percent(share) for share in (*row["given"], *row["forecast"])]
    for row in evaluation["coverage_by_stratum"]:
        expected += [words.percent(row["spend"]["forecast"])]
    expected += [table["title"] for table in PAYLOAD.tables]
    expected += [one["what"] for one in PAYLOAD.quality]
    expected += [one["detail"] for one in PAYLOAD.how]
    expected += [PAYLOAD.views["sentence"], PAYLOAD.source, "9 March 2026, 08:30 UTC"]
    assert [one for one in expected if one not in text] == []


def test_a_card_has_a_child_for_each_of_its_rows() -> None:
    """A card of a mixture has no further one, which would be drawn over the rows of the others."""
    html = render_report(make_payload(hostile=True))
    assert "mixture" in html
    [rows] = re.findall(r"\.card {[^}]*grid-row: span (\d+)", html)
    cards = re.findall(r'<article class="card".*?</article>', html, re.DOTALL)
    assert cards
    for card in cards:
        # children stand two spaces deeper than the card
        assert len(re.findall(r"^      <[a-z]", card, re.MULTILINE)) == int(rows)


def test_warnings_are_at_the_top() -> None:
    """The warnings of the model come before the forecasts, as text with a full stop."""
    html = render_report(PAYLOAD)
    notice = "Prices rose by 12.0% from 2026-03-06 on; &lt;b&gt;read&lt;/b&gt; this</bdi>."
    assert html.index(notice) < html.index('id="what-if"')
    without = render_report(replace(PAYLOAD, warnings=[]))
    assert 'aria-label="Warnings"' not in without


def test_the_default_is_marked() -> None:
    """The default has a marked row in the tables of errors, and only it."""
    html = render_report(PAYLOAD)
    rows = re.findall(r"<tr([^>]*)><th scope=\"row\">([^<]*)", html)
    chosen = [name.strip() for kind, name in rows if "chosen" in kind]
    assert chosen == ["market curves"] * 2


@pytest.mark.parametrize(
    ("difference", "verdict"),
    [(-0.03, "the default"), (0.03, "the other"), (0.01, "not clear")],
)
def test_verdicts_follow_two_standard_errors(difference: float, verdict: str) -> None:
    """A difference counts if it exceeds two standard errors, in either direction."""
    one = PAYLOAD.evaluation["differences"][0] | {"standard_error": 0.01, "difference": difference}
    both = [one, one | {"target": "spend"}]
    evaluation = PAYLOAD.evaluation | {"differences": both}
    html = render_report(replace(PAYLOAD, evaluation=evaluation))
    table = html.partition("Is the difference real?")[2].partition("</section>")[0]
    found = [one for one in Page(table).text if one in {"the default", "the other", "not clear"}]
    assert found == [verdict] * 2


def test_unknown_errors_are_shown_as_unknown() -> None:
    """Errors that could not be computed are dashes and unknown verdicts, not zeros."""
    sources, differences = (PAYLOAD.evaluation[name] for name in ("sources", "differences"))
    unknown = dict.fromkeys(("mape", "wape", "smape", "bias", "coverage"))
    evaluation = PAYLOAD.evaluation | {
        "sources": sources | {"own": sources["own"] | {"impressions": unknown}},
        "differences": [
            one | {"difference": None, "standard_error": None} for one in differences[:3]
        ],
    }
    page = Page(render_report(replace(PAYLOAD, evaluation=evaluation)))
    assert "unknown" in page.text
    assert page.text.count("–") >= 5
    assert "Forecast error" not in page.text


def test_report_without_evaluation_says_so() -> None:
    """Without held-out days the page says that nothing was measured, and how to measure it."""
    text = " ".join(Page(render_report(replace(PAYLOAD, evaluation=None))).text)
    assert "have not been measured" in text
    assert "coterie ads evaluate" in text


def test_long_lists_are_cut_with_a_count() -> None:
    """Of many outliers the 100 with most bids are listed, and the page states the total."""
    payload = replace(make_payload(150, 2, n_bids=3), outliers=list(range(150)), low_confidence=[])
    page = Page(render_report(payload))
    text = " ".join(" ".join(page.text).split())
    assert "The 100 with most bids of 150 are listed." in text
    listed = [int(value) for value in page.attribute("a", "data-advertiser")][-100:]
    most = sorted(range(150), key=lambda i: -payload.advertisers[i].observations)[:100]
    assert listed == most


def test_writes_the_file(tmp_path: Path) -> None:
    """The file holds the rendered page in UTF-8 and replaces an existing file."""
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(PAYLOAD, path)
    assert path.read_text(encoding="utf-8") == render_report(PAYLOAD)
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("payload", [None, {"title": "Week 10"}, PAYLOAD.as_dict()])
def test_only_reports_are_written(tmp_path: Path, payload: Any) -> None:
    """Anything but a Report is refused before the file is touched."""
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(TypeError, match="Report that report_payload returns, got"):
        write_report(payload, path)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_rendering_changes_nothing() -> None:
    """Rendering does not change the report."""
    report = make_payload(hostile=True)
    before = report.as_dict()
    render_report(report)
    assert report.as_dict() == before
