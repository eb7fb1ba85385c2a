"""Colours, axes, and the points that are shown."""

import sys
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

import coterie as ct
from coterie.errors import InvalidParameterError, MissingExtraError
from coterie.inspection.displays.coassociation import coassociation_of_points
from coterie.inspection.displays.colours_and_axes import (
    NO_LABEL,
    cluster_colours,
    colour_distances,
    name_blocks,
)
from coterie.inspection.displays.points import sample_points
from coterie.labels.tuples import as_label_tuples


def test_more_clusters_keep_the_colours_of_fewer():
    """The palette of n colours begins with every smaller palette."""
    longest = cluster_colours(40)
    assert len(set(longest)) == 40
    for n in (0, 1, 8, 9, 20):
        assert cluster_colours(n) == longest[:n]


def test_colours_differ_for_every_reader():
    """Up to 20 colours the least distance is that of the eight by Okabe and Ito."""

    def least_distance(colours):
        channels = 255 * np.array([to_rgb(colour) for colour in colours])
        distances = colour_distances(channels, channels)
        return float(distances[np.triu_indices(len(colours), 1)].min())

    assert least_distance(cluster_colours(20)) == least_distance(cluster_colours(8)) > 0.07
    # white paper and the grey of points without a label are different, too
    assert least_distance((*cluster_colours(20), NO_LABEL, "#FFFFFF")) > 0.05


def test_distance_is_that_of_the_reader_who_sees_least():
    """Red and green of equal lightness differ for most readers, but not for the green-blind."""
    red, green = np.array([[[200.0, 80, 60]], [[120.0, 130, 40]]])
    grey, blue = np.array([[[128.0, 128, 128]], [[80.0, 80, 220]]])
    assert colour_distances(red, green)[0, 0] < colour_distances(grey, blue)[0, 0] / 2
    assert colour_distances(red, red)[0, 0] == 0


def test_panels_take_the_place_of_a_subplot(fitted):
    """The panels replace a given subplot; other axes are refused."""
    figure, (left, right) = plt.subplots(1, 2, layout="constrained")
    display = ct.PartitionAgreementDisplay.from_estimator(fitted, ax=right)
    assert display.figure_ is figure
    assert not right.axison
    figure.canvas.draw()
    assert display.ax_.get_position().x0 > left.get_position().x1
    with pytest.raises(InvalidParameterError, match="not a subplot"):
        ct.ConvergenceDisplay.from_estimator(fitted, ax=figure.add_axes((0, 0, 1, 1)))


def test_without_matplotlib_the_extra_is_named(spoilt, fitted, monkeypatch):
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (
        lambda: ct.CoassociationDisplay.from_estimator(fitted, spoilt),
        lambda: ct.PartitionAgreementDisplay.from_estimator(fitted),
        lambda: ct.ConvergenceDisplay.from_estimator(fitted),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install .*\[plots\]'"):
            draw()


def test_names_of_blocks_do_not_overlap():
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


def test_a_sample_has_points_of_every_cluster_in_rising_order():
    """Few points are all shown; of many, each cluster keeps its share and at least one."""
    labels = np.repeat([7, -1, 3], [60, 1, 39])
    assert sample_points(labels, 100, 0).tolist() == list(range(100))
    points = sample_points(labels, 20, 0)
    assert points.tolist() == sorted(set(points.tolist()))
    assert np.abs(np.bincount(labels[points] + 1)[[8, 4]] - [12, 8]).max() <= 1
    assert 60 in points
    with pytest.raises(InvalidParameterError, match="max_points"):
        sample_points(labels, 0, 0)


def test_points_with_equal_labels_have_their_own_rows(spoilt):
    """M of some points is the part of M that belongs to them, even if points are repeated."""
    P = np.vstack([spoilt[:10], spoilt[:10]])
    tuples = as_label_tuples(P)
    points = np.array([3, 13, 0, 19])
    alpha = np.arange(1.0, 11)
    M = coassociation_of_points(tuples, points, alpha[tuples.partition_order])
    np.testing.assert_allclose(M, ct.coassociation(P, alpha)[np.ix_(points, points)])
