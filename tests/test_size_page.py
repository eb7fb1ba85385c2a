"""The page of sizes shows the figures of the benchmarks."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "make_size_curves.py"


@pytest.fixture
def script():
    """Return the script that draws the curves, which is not part of a package."""
    spec = importlib.util.spec_from_file_location("make_size_curves", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table_and_picture_are_those_of_the_benchmarks(script, tmp_path):
    """The table in the repository is up to date; every curve has a run."""
    picture, table = tmp_path / "sizes.png", tmp_path / "sizes.md"
    script.main(picture=picture, table=table)
    assert table.read_text(encoding="utf-8") == script.TABLE.read_text(encoding="utf-8")
    assert {point.curve for point in script.read_points(script.GENERATED)} == set(script.STYLES)
    assert picture.stat().st_size > 5000
