"""The page of the demo: complete, self-contained, escaped."""

from __future__ import annotations

import base64
import dataclasses
import re
from html.parser import HTMLParser

import pytest

from coterie.command_line.demo_page import demo_page

VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """The elements of a page: tags, attributes, text; fails where tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that the innermost element ends."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Collect the text."""
        if "style" not in self.open:
            self.text += data


@pytest.fixture(scope="module")
def html(demonstration) -> str:
    """The page."""
    return demo_page(demonstration)


def test_nothing_is_fetched(html):
    """The page refers to nothing outside itself, and forbids it too."""
    without_pictures = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", html)
    assert not re.search(r"https?:|//|@import|url\(|<script", without_pictures)
    for _, attributes in Page(html).tags:
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:")
    assert "default-src 'none'" in html


def test_pictures_are_whole(html):
    """Both pictures are PNGs with a text for those who cannot see them."""
    pictures = [attributes for tag, attributes in Page(html).tags if tag == "img"]
    assert len(pictures) == 2
    for picture in pictures:
        kind, data = (picture["src"] or "").split(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data, validate=True).startswith(b"\x89PNG")
        assert len(picture["alt"] or "") > 40


def test_the_table_has_a_row_a_method(html, demonstration):
    """Every method is there with its numbers, in their order."""
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)<small>.*?<td>(.*?)</td>", html)
    assert rows == [(r.method, f"{r.accuracy:.1%}") for r in demonstration.recoveries]


def test_the_story_is_told(html, demonstration):
    """The page says what was planted, what was spoiled, and who was found out."""
    text = " ".join(Page(html).text.split())
    assert "100 points were put into 3 clusters of 60, 30 and 10 points" in text
    assert "The last 4 of them (p6, p7, p8 and p9) were spoiled" in text
    assert demonstration.verdict in text
    assert text.count("coterie c") == 3


def test_what_is_inserted_is_escaped(demonstration):
    """Text from outside cannot become markup."""
    first, *others = demonstration.recoveries
    odd = dataclasses.replace(first, method="<script>&", idea="a < b", notes=("<b>note</b>",))
    page = demo_page(dataclasses.replace(demonstration, recoveries=(odd, *others)))
    assert "&lt;script&gt;&amp;" in page
    assert "a &lt; b" in page
    assert "<script" not in page
    assert "<b>" not in page
    assert "<script>&" in Page(page).text
