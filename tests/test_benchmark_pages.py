"""The pages of the benchmarks begin with the finding, and fold the tables."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(page for page in (DOCS / "benchmarks").glob("*.md") if page.stem != "index")


@pytest.fixture
def extension(monkeypatch):
    """Import the extension as Sphinx does."""
    pytest.importorskip("sphinx", reason="Sphinx is needed to write the documentation")
    monkeypatch.syspath_prepend(DOCS / "_extensions")
    import folded_figures

    yield folded_figures
    sys.modules.pop("folded_figures")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_begins_with_the_finding(page: Path) -> None:
    """Question, finding and picture come before the first heading; tables are folded."""
    text = page.read_text(encoding="utf-8")
    start = text.split("\n## ")[0]
    question, finding, *_ = [part for part in start.split("\n\n")[1:] if not part.startswith("```")]
    assert question.count(".") + question.count("?") >= 1
    assert finding.count(".") >= 2
    (figures,) = re.findall(r"^```\{figures\} (generated/\S+)$", text, re.MULTILINE)
    generated = (page.parent / figures).read_text(encoding="utf-8")
    assert "{include}" not in text
    assert ("{image}" in start) == ("![" in generated)
    assert start.find("{image}") < text.find("{figures}")


def test_tables_are_divided_from_texts(extension) -> None:
    """A table is what follows a title in bold; the rest stays as it is."""
    table = "| x |\n|---|\n| 1 |\n"
    text = f"**A**\n\n{table}\n**B**\n\n{table}\nA note.\n"
    assert list(extension.parts_of(text)) == [("A", table), ("B", table), (None, "\nA note.\n")]
    assert list(extension.parts_of("A note.\n")) == [(None, "A note.\n")]


def test_a_picture_is_shown_once(extension) -> None:
    """Pictures that the page shows by itself are left out."""
    text = "![](a.png)\n\n![](b.png)\n"
    assert extension.without_pictures(text, "```{image} generated/b.png") == "![](a.png)\n\n"
