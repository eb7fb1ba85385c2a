"""Axes for the displays: given ones, or those of a new figure. matplotlib is imported here."""

from __future__ import annotations

from typing import Any

from coterie.errors import InvalidParameterError, MissingExtraError

__all__ = ["axes_or_new", "panels", "without_frame"]


def axes_or_new(ax: Any, size: tuple[float, float]) -> Any:
    """Return ``ax``, or the axes of a new figure; ``size`` is in inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib: pip install 'coterie[plots]'") from error
    return plt.subplots(figsize=size, layout="constrained")[1]


def panels(
    ax: Any,
    size: tuple[float, float],
    rows: int,
    columns: int,
    *,
    widths: Any = None,
    heights: Any = None,
    **shared: Any,
) -> tuple[Any, Any]:
    """Return a grid of panels in place of ``ax`` or on a new figure, and the figure."""
    ax = axes_or_new(ax, size)
    place = ax.get_subplotspec()
    if place is None:
        raise InvalidParameterError("ax is no subplot; create it with plt.subplots()")
    ax.set_axis_off()
    grid = place.subgridspec(rows, columns, width_ratios=widths, height_ratios=heights)
    return grid.subplots(**shared), ax.figure


def without_frame(ax: Any, *sides: str) -> None:
    """Hide the frame of some axes at these sides; top and right by default."""
    ax.spines[list(sides or ("top", "right"))].set_visible(False)
