"""The extension of the documentation folds the tables of the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def extension(monkeypatch):
    pytest.importorskip("sphinx", reason="Sphinx is needed to write the documentation")
    monkeypatch.syspath_prepend(DOCS / "_extensions")
    import folded_figures

    yield folded_figures
    sys.modules.pop("folded_figures")


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
