"""The picture of sizes shows the figures of the benchmarks."""

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


def test_the_picture_has_every_curve(script, tmp_path):
    """Every curve has a run in the results of the benchmarks, and is drawn."""
    picture = tmp_path / "sizes.png"
    script.main(picture=picture)
    assert {point.curve for point in script.read_points(script.GENERATED)} == set(script.STYLES)
    assert picture.stat().st_size > 5000
