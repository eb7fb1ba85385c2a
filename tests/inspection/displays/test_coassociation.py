"""Displays of the co-association: heat map, dendrogram, and bars of the clusters and points."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from scipy.cluster.hierarchy import cophenet, dendrogram, is_valid_linkage, leaves_list, linkage
from scipy.spatial.distance import squareform

import coterie as ct
from coterie.errors import InvalidLabelsError, InvalidParameterError
from coterie.inspection.displays.colours_and_axes import cluster_colours
from soft_memberships import random_memberships


def test_heat_map_is_the_weighted_coassociation_reordered(spoilt, fitted):
    """The heat map is M with the weights of the estimator, in the order of ``points``."""
    display = ct.CoassociationDisplay.from_estimator(fitted, spoilt)
    M = ct.coassociation(spoilt, fitted.partition_weights_)
    drawn = np.asarray(display.image_.get_array())
    np.testing.assert_allclose(drawn, M[np.ix_(display.points, display.points)], rtol=1e-12)
    assert sorted(display.points) == list(range(100))
    assert display.ax_.figure is display.figure_
    assert display.image_.get_clim() == (0, 1)
    # clusters are in the order of their labels; the most certain points of each are first
    assert display.labels.tolist() == np.sort(fitted.labels_).tolist()
    assert display.labels.tolist() == fitted.labels_[display.points].tolist()
    for cluster in range(3):
        confidence = fitted.confidence_[display.points[display.labels == cluster]]
        assert np.all(np.diff(confidence) <= 0)
    # each cluster has a square from its first point to its last
    sizes = np.bincount(fitted.labels_)
    starts = np.cumsum(sizes) - sizes
    squares = [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in display.ax_.patches]
    assert squares == [
        (a - 0.5, a - 0.5, size, size) for a, size in zip(starts, sizes, strict=True)
    ]


def test_confidence_of_any_labels_is_that_of_a_consensus(spoilt):
    """With the labels of a consensus, the default order is that of its confidence."""
    est = ct.L2Consensus(3, random_state=0).fit(spoilt)
    of_estimator = ct.CoassociationDisplay.from_estimator(est, spoilt)
    of_labels = ct.CoassociationDisplay.from_labels(spoilt, est.labels_)
    assert of_labels.points.tolist() == of_estimator.points.tolist()


def test_labels_may_be_text_and_tables_frames(spoilt):
    """Ticks have the names of the clusters; a frame gives the same matrix as an array."""
    names = np.array(["low", "high"])[(spoilt[:, 0] > 0).astype(int)]
    display = ct.CoassociationDisplay.from_labels(pd.DataFrame(spoilt), names)
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["high", "low"]
    array = ct.CoassociationDisplay.from_labels(spoilt, names)
    np.testing.assert_array_equal(display.matrix, array.matrix)


@pytest.mark.parametrize("name", ["labels", "confidence"])
def test_values_of_the_wrong_length_are_refused(spoilt, name):
    """The message has both lengths; the number of points shown is checked, too."""
    values = {"labels": spoilt[:, 0], "confidence": np.ones(100)} | {name: np.zeros(7)}
    with pytest.raises(InvalidLabelsError, match=rf"{name} has shape \(7,\), P has 100 points"):
        ct.CoassociationDisplay.from_labels(spoilt, **values)
    with pytest.raises(InvalidParameterError, match="max_points=0"):
        ct.CoassociationDisplay.from_labels(spoilt, spoilt[:, 0], max_points=0)


@pytest.mark.parametrize("display", [ct.CoassociationDisplay, ct.ClustermapDisplay])
def test_soft_partitions_have_a_heat_map(display):
    """Memberships give the co-association of memberships."""
    P = random_memberships(np.random.default_rng(0), 12, [2, 3, 3], missing=False)
    est = ct.L2Consensus(2, random_state=0).fit(P)
    shown = [display.from_estimator(est), ct.CoassociationDisplay.from_labels(P, est.labels_)]
    for one in shown:
        np.testing.assert_allclose(one.matrix, ct.coassociation(P)[np.ix_(one.points, one.points)])


@pytest.fixture(scope="module")
def display(fitted):
    """Return the display of the shared consensus."""
    return ct.ClustermapDisplay.from_estimator(fitted)


def test_heat_map_is_in_the_order_of_the_tree(spoilt, fitted, display):
    """M has the weights of the estimator; the leaves of the tree are 0, 1, 2, … from the top."""
    M = ct.coassociation(spoilt, fitted.partition_weights_)
    np.testing.assert_allclose(display.matrix, M[np.ix_(display.points, display.points)])
    assert sorted(display.points) == list(range(100))
    assert display.labels.tolist() == fitted.labels_[display.points].tolist()
    assert is_valid_linkage(display.tree)
    assert leaves_list(display.tree).tolist() == list(range(100))
    assert display.labels[0] <= display.labels[-1]
    # tree and strip are left of their rows, with the first point at the top
    panels = (display.tree_ax_, display.strip_ax_, display.ax_)
    assert {panel.get_ylim() for panel in panels} == {(99.5, -0.5)}
    display.figure_.canvas.draw()
    for left, right in pairwise(panel.get_position() for panel in panels):
        assert left.x1 < right.x0


def test_tree_is_average_linkage():
    """The tree has the distances of SciPy's average linkage on 1 − M, if there are no ties."""
    P, _ = ct.planted_partitions([15, 10], 9, n_bad=0, noise=0.4, random_state=0)
    weights = np.random.default_rng(0).random(9)
    est = ct.EvidenceAccumulation(2, partition_weights=weights).fit(P)
    display = ct.ClustermapDisplay.from_estimator(est)
    D = squareform(1 - display.matrix, checks=False)
    np.testing.assert_allclose(cophenet(display.tree), cophenet(linkage(D, "average")))


def test_branches_are_those_of_a_dendrogram(display):
    """The lines equal those of SciPy, which puts leaf i at 5 + 10·i."""
    expected = dendrogram(display.tree, no_plot=True)
    lines = {
        tuple(np.round(np.column_stack([d, (np.array(i) - 5) / 10]).ravel(), 6))
        for i, d in zip(expected["icoord"], expected["dcoord"], strict=True)
    }
    (drawn,) = display.tree_ax_.collections
    assert {tuple(np.round(np.ravel(segment), 6)) for segment in drawn.get_segments()} == lines


def test_branches_within_a_cluster_have_its_colour(display):
    """The strip has the colours of the clusters; branches that join clusters are grey."""
    (drawn,) = display.tree_ax_.collections
    palette = cluster_colours(3)
    members = {i: {int(label)} for i, label in enumerate(display.labels)}
    for step, (a, b) in enumerate(display.tree[:, :2].astype(int).tolist()):
        members[100 + step] = members[a] | members[b]
        clusters = members[100 + step]
        colour = to_hex(drawn.get_colors()[step]).upper()
        assert colour == (palette[min(clusters)] if len(clusters) == 1 else "#595959")
    (strip,) = display.strip_ax_.images
    assert np.asarray(strip.get_array())[:, 0].tolist() == display.labels.tolist()
    assert [to_hex(c).upper() for c in strip.to_rgba(np.arange(3))] == list(palette)
    legend = display.ax_.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["0", "1", "2"]


def test_one_and_two_points_have_trees():
    """A tree needs no minimum number of points; a chain of 1,500 merges is drawn, too."""
    for n in (1, 2):
        est = ct.EvidenceAccumulation(1).fit(np.zeros((n, 2), dtype=int))
        assert ct.ClustermapDisplay.from_estimator(est).tree.shape == (n - 1, 4)
    chain = np.triu(np.ones((1_500, 30), dtype=int), -1_470)
    est = ct.EvidenceAccumulation(2).fit(chain)
    display = ct.ClustermapDisplay.from_estimator(est, max_points=1_500)
    assert len(display.tree) == 1_499


def test_numbers_are_those_of_the_functions(fitted):
    """Bars have the cluster consensus; points are by cluster and falling item consensus."""
    display = ct.ClusterConsensusDisplay.from_estimator(fitted)
    np.testing.assert_array_equal(display.cluster_consensus, ct.cluster_consensus(fitted))
    np.testing.assert_array_equal(display.item_consensus, ct.item_consensus(fitted)[display.points])
    assert display.labels.tolist() == np.sort(fitted.labels_).tolist()
    assert sorted(display.points) == list(range(100))
    for cluster in range(3):
        own = display.item_consensus[display.labels == cluster, cluster]
        assert np.all(np.diff(own) <= 0)
    heights = [bar.get_height() for bar in display.bars_]
    np.testing.assert_allclose(heights, display.cluster_consensus)
    colours = [to_hex(bar.get_facecolor()).upper() for bar in display.bars_]
    assert colours == list(cluster_colours(3))


def test_parts_of_a_bar_are_stacked_with_the_own_cluster_below(fitted):
    """The parts of a bar do not overlap, begin at 0 with the own cluster, and sum to its height."""
    display = ct.ClusterConsensusDisplay.from_estimator(fitted)
    areas = [area.get_paths()[0] for area in display.items_ax_.collections]
    for i in (0, 70, 99):
        items, own = display.item_consensus[i], display.labels[i]
        middles = np.cumsum(np.append(0, [items[own], *np.delete(items, own)]))
        order = [own, *(b for b in range(3) if b != own)]
        for b, low, high in zip(order, middles, middles[1:], strict=False):
            inside = high - low > 1e-6
            assert areas[b].contains_point((i, (low + high) / 2)) == inside
        assert not any(area.contains_point((i, middles[-1] + 0.01)) for area in areas)


def test_a_single_point_has_no_bar():
    """A cluster without pairs is labelled as one point."""
    est = ct.EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1]])
    display = ct.ClusterConsensusDisplay.from_estimator(est)
    assert [bar.get_height() for bar in display.bars_] == [1, 0]
    assert [text.get_text() for text in display.ax_.texts] == ["1.00", "one point"]
