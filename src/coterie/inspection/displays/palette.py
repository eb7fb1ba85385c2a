"""Colours of the displays, which colour-blind readers can tell apart.

The first eight colours are those of Okabe and Ito. Each further colour is the one that is farthest
from all colours before it, in a perceptually even space and for the eyes of every kind of reader.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BLUE",
    "NO_LABEL",
    "VERMILION",
    "cluster_colours",
    "colour_distances",
    "ordered_colours",
]

Array = NDArray[np.float64]

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
# candidates of further colours: steps of each channel, and the lightness that is neither too
# pale on white paper nor too close to black
_STEPS = 18
_LIGHTNESS = (0.35, 0.87)


@cache
def cluster_colours(n: int) -> tuple[str, ...]:
    """Return the colours of clusters 0, 1, …, n − 1; more clusters keep the colours of fewer.

    >>> cluster_colours(3)
    ('#0072B2', '#E69F00', '#009E73')
    """
    if n <= len(_OKABE_ITO):
        return _OKABE_ITO[:n]
    levels = np.linspace(0, 255, _STEPS).round()
    candidates = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(-1, 3)
    lightness = _seen(candidates)[0][:, 0]
    candidates = candidates[(lightness > _LIGHTNESS[0]) & (lightness < _LIGHTNESS[1])]
    # white is the paper
    taken = [*_OKABE_ITO, NO_LABEL, "#FFFFFF"]
    nearest = colour_distances(candidates, _channels(taken)).min(axis=1)
    colours = list(_OKABE_ITO)
    while len(colours) < n:
        best = candidates[[np.argmax(nearest)]]
        colours.append("#" + "".join(f"{int(value):02X}" for value in best[0]))
        nearest = np.minimum(nearest, colour_distances(candidates, best)[:, 0])
    return tuple(colours)


def ordered_colours(n: int) -> list[Any]:
    """Return colours for n curves in an order, from dark to light; a single one is blue."""
    if n == 1:
        return [BLUE]
    from matplotlib import colormaps

    # the lightest tenth of the map is too pale on white
    return list(colormaps["viridis"](np.linspace(0, 0.9, n)))


def colour_distances(a: Array, b: Array) -> Array:
    """Return the distance of colours (p, 3) and (q, 3) for the reader who sees it least, (p, q).

    Channels are red, green and blue from 0 to 255.

    >>> black, white = np.zeros((1, 3)), np.full((1, 3), 255.0)
    >>> colour_distances(black, white).round(2)
    array([[1.]])
    """
    gaps = _seen(a)[:, :, None] - _seen(b)[:, None]
    return np.asarray(np.sqrt((gaps**2).sum(axis=-1)).min(axis=0))


def _channels(colours: list[str]) -> Array:
    return np.array([list(bytes.fromhex(colour[1:])) for colour in colours], dtype=np.float64)


def _seen(channels: Array) -> Array:
    """Return the OKLab coordinates of colours (p, 3) for each kind of reader, (3, p, 3)."""
    share = channels / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ _VISION.transpose(0, 2, 1), 0, 1)
    return np.asarray(np.cbrt(seen @ _TO_CONES.T) @ _TO_LAB.T)
