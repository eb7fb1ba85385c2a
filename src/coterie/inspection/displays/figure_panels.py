"""Axes for the displays: given ones, or those of a new figure. matplotlib is imported here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.errors import InvalidParameterError
from coterie.runtime.missing_extras import require_extra

__all__ = ["axes_or_new", "name_blocks", "panels", "without_frame"]

# inches: height of a line of text, and width of a letter
_LINE, _LETTER = 0.17, 0.09
# share of the axes that titles and colour bars leave
_LEFT_BY_LAYOUT = 0.85


def axes_or_new(ax: Any, size: tuple[float, float]) -> Any:
    """Return ``ax``, or the axes of a new figure; ``size`` is in inches."""
    if ax is not None:
        return ax
    require_extra("plots", "plots need", "matplotlib")
    import matplotlib.pyplot as plt

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
        raise InvalidParameterError("ax is not a subplot; create it with plt.subplots()")
    ax.set_axis_off()
    grid = place.subgridspec(rows, columns, width_ratios=widths, height_ratios=heights)
    return grid.subplots(**shared), ax.figure


def without_frame(ax: Any, *sides: str) -> None:
    """Hide the frame of some axes at these sides; top and right by default."""
    ax.spines[list(sides or ("top", "right"))].set_visible(False)


def name_blocks(ax: Any, blocks: NDArray[Any], *, axes: str = "x") -> None:
    """Name each run of equal values at its middle, and leave out names that would overlap.

    ``blocks`` (s,) are the sorted values along the axes ``"x"``, ``"y"`` or ``"xy"``.
    """
    names, starts, sizes = np.unique(blocks, return_index=True, return_counts=True)
    middles = starts + (sizes - 1) / 2
    longest = max(len(str(name)) for name in names.tolist())
    needed = {"x": _LETTER * (longest + 0.7), "y": _LINE}
    inches = ax.get_position().size * ax.figure.get_size_inches() * _LEFT_BY_LAYOUT
    for axis in axes:
        gap = len(blocks) * needed[axis] / inches["xy".index(axis)]
        kept: list[int] = []
        for block, middle in enumerate(middles):
            if not kept or middle - middles[kept[-1]] >= gap:
                kept.append(block)
        getattr(ax, f"set_{axis}ticks")(middles[kept], names[kept])
    ax.tick_params(axis="both" if axes == "xy" else axes, length=0)
