"""The extension of the documentation writes the pages of the methods."""

import json
import sys
from pathlib import Path

import pytest

from coterie.consensus.registry import CONSENSUS_METHODS, MULTIVIEW_METHODS

EXTENSIONS = Path(__file__).parents[1] / "docs" / "_extensions"


@pytest.fixture
def pages(monkeypatch):
    pytest.importorskip("sphinx", reason="Sphinx is needed to write the documentation")
    monkeypatch.setattr(sys, "path", [str(EXTENSIONS), *sys.path])
    import method_pages

    return method_pages


def test_every_method_has_a_page(pages, tmp_path):
    """Every method has a page, and a table links all; a second run changes no file."""
    pages.write_pages(tmp_path)
    folder = tmp_path / "api" / "methods" / "generated"
    keys = [*CONSENSUS_METHODS, *MULTIVIEW_METHODS]
    assert {page.name for page in folder.iterdir()} == {f"{key}.md" for key in keys} | {
        "overview.inc"
    }
    overview = (folder / "overview.inc").read_text(encoding="utf-8")
    assert all(f"](generated/{key}.md)" in overview for key in keys)
    before = {page: page.stat().st_mtime_ns for page in folder.iterdir()}
    (folder / "of_no_method.md").write_text("# old\n")
    pages.write_pages(tmp_path)
    assert {page: page.stat().st_mtime_ns for page in folder.iterdir()} == before


def test_a_variant_states_its_settings(pages):
    page = pages.method_page(CONSENSUS_METHODS["rcc"], {})
    settings = 'relaxation="admm", refine="relaxation", partition_weights=None'
    assert f"RobustConsensus(3, {settings}).fit(P)" in page
    assert ".. autoclass:: RobustConsensus" in page and "--method rcc" in page
    assert "## Measured" not in page


def test_measured_figures_are_shown(pages, tmp_path):
    """The page has regret and accuracies from the files of the benchmarks."""
    regret = {"summary": {"report": {"l2": {"mean": 0.012, "worst": 0.1}}}}
    ran, large = {"status": "ran", "mean": 0.89}, {"status": "too large", "mean": None}
    cells = [
        {"condition": "mixed, fixed", "dataset": "iris", "methods": {"l2": ran, "kl": ran}},
        {"condition": "mixed, fixed", "dataset": "reuters", "methods": {"l2": ran, "kl": large}},
    ]
    views = [{"condition": "", "dataset": "msrc_v1", "methods": {"fc": ran}}]
    (tmp_path / "regret.json").write_text(json.dumps(regret))
    (tmp_path / "table2.json").write_text(json.dumps({"cells": cells}))
    (tmp_path / "table3.json").write_text(json.dumps({"cells": views}))
    figures = pages.measured_figures(tmp_path)
    assert figures == {
        "l2": {
            "regret, report": "0.012 on average, 0.100 at worst",
            "accuracy, mixed, fixed": "iris 0.89, reuters 0.89",
        },
        "kl": {"accuracy, mixed, fixed": "iris 0.89, reuters too large"},
        "fc": {"accuracy": "msrc_v1 0.89"},
    }
    page = pages.method_page(CONSENSUS_METHODS["l2"], figures)
    assert "## Measured" in page and "| accuracy, mixed, fixed | iris 0.89, reuters 0.89 |" in page
