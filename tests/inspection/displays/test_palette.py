"""Colours that all readers can tell apart."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_rgb

from coterie.inspection.displays.palette import (
    NO_LABEL,
    cluster_colours,
    colour_distances,
)


def test_more_clusters_keep_the_colours_of_fewer() -> None:
    """The palette of n colours begins with every smaller palette."""
    longest = cluster_colours(40)
    assert len(set(longest)) == 40
    for n in (0, 1, 8, 9, 20):
        assert cluster_colours(n) == longest[:n]


def test_colours_differ_for_every_reader() -> None:
    """Up to 20 colours the least distance is that of the eight by Okabe and Ito."""

    def least_distance(colours: tuple[str, ...]) -> float:
        channels = 255 * np.array([to_rgb(colour) for colour in colours])
        distances = colour_distances(channels, channels)
        return float(distances[np.triu_indices(len(colours), 1)].min())

    assert least_distance(cluster_colours(20)) == least_distance(cluster_colours(8)) > 0.07
    # white paper and the grey of points without a label are different, too
    assert least_distance((*cluster_colours(20), NO_LABEL, "#FFFFFF")) > 0.05


def test_distance_is_that_of_the_reader_who_sees_least() -> None:
    """Red and green of equal lightness differ for most readers, but not for the green-blind."""
    red, green = np.array([[[200.0, 80, 60]], [[120.0, 130, 40]]])
    grey, blue = np.array([[[128.0, 128, 128]], [[80.0, 80, 220]]])
    assert colour_distances(red, green)[0, 0] < colour_distances(grey, blue)[0, 0] / 2
    assert colour_distances(red, red)[0, 0] == 0
