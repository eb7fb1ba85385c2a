"""The pages of the paper's tables, in Markdown and HTML, and their picture."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from benchmarks import paper_tables_page as page
from benchmarks import paper_tables_report as report
from benchmarks.environment import environment
from benchmarks.paper_figures import TABLE3
from benchmarks.paper_tables import RunSettings, TableResults
from paper_results import table2_results, table3_results


@pytest.fixture
def table2():
    """Two conditions, two sets."""
    return table2_results()


@pytest.fixture
def table3():
    """One set of two views."""
    return table3_results()


def test_a_page_on_which_all_went_well_has_no_notes(table3):
    """There is no heading for them either."""
    assert "go smoothly" not in page.as_page(table3, environment())


@pytest.mark.parametrize("which", ["table2", "table3"])
def test_the_page_says_it_all(which, request):
    """Tables, picture, summary, notes, limits and machine are on the page."""
    results = request.getfixturevalue(which)
    described = environment()
    text = page.as_page(results, described)
    for table in (report.printed_table(results.table), *report.as_tables(results)):
        assert table.markdown() in text
    assert f"({which}.png)" in text
    for line in (*report.summary_lines(results), *report.notes(results)):
        assert f"- {line}" in text
    assert described["cpu"] in text
    assert f"python -m benchmarks {which}" in text


def test_the_pages_say_what_cannot_be_reproduced(table2, table3):
    """Scaling, signs, reconstructions, classes, documents and features are named as they are."""
    second, third = (page.as_page(results, environment()) for results in (table2, table3))
    for words in (
        "is what standardising the features gives",
        "the iterations of RCC diverge",
        "ES and CorC are reconstructions",
        "counts 7 classes; 6 of them occur",
        "which 2,900 documents",
        "columns k-means and RCC are at hand",
    ):
        assert words in second
    for words in ("Classemes are in none of the data", "never published", "LCC is a reconstruct"):
        assert words in third


class Tags(HTMLParser):
    """Collects tags, and refuses a page in which they do not match."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        """Remember it; those that are never closed are left."""
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in {"src", "href"}]
        if tag not in {"meta", "br", "img"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):  # noqa: ARG002 (the parser's signature)
        """One that closes itself, in the picture."""
        self.seen.append(tag)

    def handle_endtag(self, tag):
        """It must be the last that was opened."""
        assert self.open.pop() == tag


def test_the_html_page_is_whole_and_in_one_file(table2):
    """Tags match, texts are escaped, the picture is within, nothing is fetched."""
    text = page.as_html(table2, environment(), page.as_picture(table2))
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.seen.count("table") == 3
    assert tags.seen.count("svg") == 1
    assert not [link for link in tags.links if link.startswith(("http:", "https:", "//"))]
    assert "&lt;b&gt; &amp; co" in text
    assert "<strong>.970 ± .010</strong>" in text
    again = page.as_html(table2, environment(), page.as_picture(table2))
    assert text[text.index("<svg") : text.index("</svg>")] in again


def test_the_picture_has_a_panel_a_recipe_and_hollow_marks(table2, table3):
    """What was measured is filled, what is printed hollow, a row a set."""
    figure = page.as_picture(table2)
    raw, mixed = figure.axes
    assert (raw.get_title(), mixed.get_title()) == ("recipe raw, fixed K", "recipe mixed, fixed K")
    assert [label.get_text() for label in raw.get_yticklabels()] == ["Wine", "Zoo"]
    marks = [(line.get_label(), line.get_markerfacecolor()) for line in mixed.get_lines()]
    hollow = [label for label, face in marks if face == "none"]
    assert hollow == ["k-means, printed", "RCC, printed"] * 2
    # CSPA failed on wine, and is drawn on zoo alone
    assert len(marks) - len(hollow) == 3 + 4
    (axes,) = page.as_picture(table3).axes
    assert len(axes.get_lines()) == 3 + 4


def test_a_table_without_rows_still_has_a_page():
    """Where no set is here the page says so, and the picture is empty."""
    nothing = TableResults(TABLE3, {}, dict.fromkeys(TABLE3.sets, "gone"), RunSettings(1))
    picture = page.as_picture(nothing)
    assert report.summary_lines(nothing) == []
    text = page.as_html(nothing, environment(), picture)
    assert "Not here: MSRC-v1, because gone" in text
