"""Axes of the displays: given ones, new ones, and no matplotlib at all."""

from __future__ import annotations

import sys
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest

from coterie import (
    CoassociationDisplay,
    ConvergenceDisplay,
    PartitionAgreementDisplay,
    RobustConsensus,
)
from coterie.errors import InvalidParameterError, MissingExtraError
from coterie.inspection.displays.figure_panels import name_blocks


def test_panels_take_the_place_of_a_subplot(fitted: RobustConsensus) -> None:
    """The panels replace a given subplot; other axes are refused."""
    figure, (left, right) = plt.subplots(1, 2, layout="constrained")
    display = PartitionAgreementDisplay.from_estimator(fitted, ax=right)
    assert display.figure_ is figure
    assert not right.axison
    figure.canvas.draw()
    assert display.ax_.get_position().x0 > left.get_position().x1
    with pytest.raises(InvalidParameterError, match="not a subplot"):
        ConvergenceDisplay.from_estimator(fitted, ax=figure.add_axes((0, 0, 1, 1)))


def test_without_matplotlib_the_extra_is_named(
    spoilt: np.ndarray, fitted: RobustConsensus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (
        lambda: CoassociationDisplay.from_estimator(fitted, spoilt),
        lambda: PartitionAgreementDisplay.from_estimator(fitted),
        lambda: ConvergenceDisplay.from_estimator(fitted),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install .*\[plots\]'"):
            draw()


def test_names_of_blocks_do_not_overlap() -> None:
    """Every block is named at its middle; names that would overlap are left out."""
    _, ax = plt.subplots(figsize=(4, 4), layout="constrained")
    ax.imshow(np.zeros((60, 60)), aspect="auto")
    name_blocks(ax, np.repeat(["one", "two"], [20, 40]), axes="xy")
    assert ax.get_xticks().tolist() == ax.get_yticks().tolist() == [9.5, 39.5]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["one", "two"]
    name_blocks(ax, np.arange(100, 160), axes="xy")
    ax.figure.canvas.draw()
    across = [tick.get_window_extent() for tick in ax.get_xticklabels()]
    down = [tick.get_window_extent() for tick in ax.get_yticklabels()]
    assert 5 < len(across) < len(down) < 60
    assert all(left.x1 < right.x0 for left, right in pairwise(across))
    assert all(above.y0 > below.y1 - 1 for above, below in pairwise(down))
