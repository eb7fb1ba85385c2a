"""The extensions of the documentation link public names and examples."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

EXTENSIONS = Path(__file__).parents[1] / "docs" / "_extensions"


@pytest.fixture
def linked_names(monkeypatch):
    pytest.importorskip("sphinx", reason="Sphinx is needed to write the documentation")
    monkeypatch.setattr(sys, "path", [str(EXTENSIONS), *sys.path])
    import linked_names

    return linked_names


def test_public_names_are_found_and_common_words_are_not(linked_names):
    """Names of coterie, coterie.ads and coterie.errors have targets; common words have none."""
    assert linked_names.target_of("RobustConsensus()") == "coterie.RobustConsensus"
    assert linked_names.target_of("ads.evaluate") == "coterie.ads.evaluate"
    assert linked_names.target_of("DissentWarning") == "coterie.errors.DissentWarning"
    assert linked_names.target_of("AdForecaster") == "coterie.ads.AdForecaster"
    assert [linked_names.target_of(word) for word in ("summary", "evaluate", "KMeans")] == [
        None
    ] * 3


def test_names_in_text_become_links_and_those_in_headings_do_not(linked_names):
    """A literal in a paragraph is wrapped into a reference; one in a title stays as it is."""
    from docutils import nodes
    from sphinx.addnodes import pending_xref

    page = nodes.section(
        "",
        nodes.title("", "", nodes.literal("", "choose_k")),
        nodes.paragraph("", "", nodes.literal("", "choose_k"), nodes.literal("", "labels_")),
    )
    app = SimpleNamespace(env=SimpleNamespace(docname="user_guide/features"))
    linked_names.link_names(app, page)
    links = list(page.findall(pending_xref))
    assert [(link["reftarget"], link.astext()) for link in links] == [
        ("coterie.choose_k", "choose_k")
    ]
    assert isinstance(links[0].parent, nodes.paragraph)


def test_links_to_examples_lead_to_the_gallery(linked_names):
    """Files of examples become pages of the gallery, from any folder; other links stay."""
    import example_links

    text = "[a](../examples/plot_a.py) [all](../../examples/README.rst) [b](../benchmarks/b.md)"
    assert example_links.in_gallery(text) == (
        "[a](/gallery/plot_a.rst) [all](/gallery/index.rst) [b](../benchmarks/b.md)"
    )
