"""What the displays share: the colours of clusters, axes and panels.

matplotlib is imported when the first display is drawn.

Colour-blind readers can tell the colours of clusters apart. The first eight are those of Okabe and
Ito. Each further colour is the one that is farthest from all colours before it, in a perceptually
even space and for the eyes of every kind of reader.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Self

import numpy as np

from coterie.arrays import AnyArray, Floats, Ints
from coterie.errors import InvalidParameterError
from coterie.runtime.imports import require_extra
from coterie.runtime.wording import short_repr

BLUE, VERMILION = "#0072B2", "#D55E00"
#: Colour of points without a label.
NO_LABEL = "#B0B0B0"

_OKABE_ITO = (
    BLUE, "#E69F00", "#009E73", VERMILION, "#56B4E9", "#CC79A7", "#F0E442", "#000000",
)  # fmt: skip
# how red-blind and green-blind readers see linear RGB (Machado, Oliveira, Fernandes 2009)
_VISION = np.array(
    [
        np.eye(3),
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]],
    ]
)  # fmt: skip
# linear RGB to OKLab (Ottosson 2020): to the responses of the cones, and from their cube roots
_TO_CONES = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
     [0.0883024619, 0.2817188376, 0.6299787005]]
)  # fmt: skip
_TO_LAB = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
     [0.0259040371, 0.7827717662, -0.8086757660]]
)  # fmt: skip
# further colours: steps of each channel, and lightness neither too pale on white nor near black
_STEPS = 18
_LIGHTNESS = (0.35, 0.87)

# inches: height of a line of text, and width of a letter
_LINE, _LETTER = 0.17, 0.09
# share of the axes that titles and colour bars leave
_LEFT_BY_LAYOUT = 0.85


class Display:
    """Base of the displays: dataclasses of the numbers that ``_draw`` shows."""

    __repr__ = short_repr

    _draw: Callable[[Any], None]

    def plot(self, ax: Any = None) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib axes, optional
            A picture of several panels takes their place. By default a new figure is made.
        """
        self._draw(ax)
        return self

    def _axes(self, ax: Any, size: tuple[float, float]) -> Any:
        """Return ``ax``, or the axes of a new figure of a size in inches."""
        if ax is None:
            require_extra("plots", "plots need", "matplotlib")
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=size, layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _panels(
        self,
        ax: Any,
        size: tuple[float, float],
        shape: tuple[int, int],
        width_ratios: Any = None,
        height_ratios: Any = None,
        **shared: Any,
    ) -> Any:
        """Return a grid of panels in place of ``ax`` or on a new figure."""
        place = self._axes(ax, size).get_subplotspec()
        if place is None:
            raise InvalidParameterError("ax is not a subplot; create it with plt.subplots()")
        self.ax_.set_axis_off()
        grid = place.subgridspec(*shape, width_ratios=width_ratios, height_ratios=height_ratios)
        drawn = grid.subplots(**shared)
        self.ax_ = np.ravel(drawn)[0]
        return drawn


@cache
def cluster_colours(n: int) -> tuple[str, ...]:
    """Return the colours of clusters 0, 1, …, n − 1; more clusters keep the colours of fewer."""
    if n <= len(_OKABE_ITO):
        return _OKABE_ITO[:n]
    levels = np.linspace(0, 255, _STEPS).round()
    candidates = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(-1, 3)
    lightness = _seen(candidates)[0][:, 0]
    candidates = candidates[(lightness > _LIGHTNESS[0]) & (lightness < _LIGHTNESS[1])]
    taken = [*_OKABE_ITO, NO_LABEL, "#FFFFFF"]  # white is the paper
    channels = np.array([list(bytes.fromhex(colour[1:])) for colour in taken], dtype=np.float64)
    nearest = colour_distances(candidates, channels).min(axis=1)
    colours = list(_OKABE_ITO)
    while len(colours) < n:
        best = candidates[[np.argmax(nearest)]]
        colours.append("#" + "".join(f"{int(value):02X}" for value in best[0]))
        nearest = np.minimum(nearest, colour_distances(candidates, best)[:, 0])
    return tuple(colours)


def colour_distances(a: Floats, b: Floats) -> Floats:
    """Return the distance of colours (p, 3) and (q, 3) for the reader who sees it least, (p, q).

    Channels are red, green and blue from 0 to 255.
    """
    gaps = _seen(a)[:, :, None] - _seen(b)[:, None]
    return np.asarray(np.sqrt((gaps**2).sum(axis=-1)).min(axis=0))


def _seen(channels: Floats) -> Floats:
    """Return the OKLab coordinates of colours (p, 3) for each kind of reader, (3, p, 3)."""
    share = channels / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ _VISION.transpose(0, 2, 1), 0, 1)
    return np.asarray(np.cbrt(seen @ _TO_CONES.T) @ _TO_LAB.T)


def without_frame(ax: Any, *sides: str) -> None:
    """Hide the frame of some axes at these sides; top and right by default."""
    ax.spines[list(sides or ("top", "right"))].set_visible(False)


def name_blocks(ax: Any, blocks: AnyArray, *, axes: str = "x") -> None:
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


def cluster_image(ax: Any, numbers: Ints) -> Any:
    """Draw cells (rows, columns) in the colours of the clusters that they name."""
    from matplotlib.colors import ListedColormap

    colours = cluster_colours(int(numbers.max()) + 1)
    limits = {"vmin": -0.5, "vmax": len(colours) - 0.5}
    cmap = ListedColormap(colours)
    return ax.imshow(numbers, cmap=cmap, aspect="auto", interpolation="nearest", **limits)
