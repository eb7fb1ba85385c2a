"""Axes of the displays: given ones, new ones, and no matplotlib at all."""

from __future__ import annotations

import builtins
from typing import Any

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


def test_panels_take_the_place_of_a_subplot(fitted: RobustConsensus) -> None:
    """The panels replace a given subplot; other axes are refused."""
    figure, (left, right) = plt.subplots(1, 2, layout="constrained")
    display = PartitionAgreementDisplay.from_estimator(fitted, ax=right)
    assert display.figure_ is figure
    assert not right.axison
    figure.canvas.draw()
    assert display.ax_.get_position().x0 > left.get_position().x1
    with pytest.raises(InvalidParameterError, match="no subplot"):
        ConvergenceDisplay.from_estimator(fitted, ax=figure.add_axes((0, 0, 1, 1)))


def test_without_matplotlib_the_extra_is_named(
    spoilt: np.ndarray, fitted: RobustConsensus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    real_import = builtins.__import__

    def no_matplotlib(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    for draw in (
        lambda: CoassociationDisplay.from_estimator(fitted, spoilt),
        lambda: PartitionAgreementDisplay.from_estimator(fitted),
        lambda: ConvergenceDisplay.from_estimator(fitted),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install 'coterie\[plots\]'"):
            draw()
