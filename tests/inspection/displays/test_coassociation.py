"""Displays of the co-association: heat map, dendrogram, and bars of the clusters and points."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from scipy.cluster.hierarchy import cophenet, dendrogram, is_valid_linkage, leaves_list, linkage
from scipy.spatial.distance import squareform

from coterie import (
    ClusterConsensusDisplay,
    ClustermapDisplay,
    CoassociationDisplay,
    EvidenceAccumulation,
    L2Consensus,
    RobustConsensus,
    cluster_consensus,
    coassociation,
    item_consensus,
    planted_partitions,
)
from coterie.errors import InvalidLabelsError, InvalidParameterError
from coterie.inspection.displays.colours_and_axes import cluster_colours
from soft_memberships import random_memberships


def test_heat_map_is_the_weighted_coassociation_reordered(
    spoilt: np.ndarray, fitted: RobustConsensus
) -> None:
    """The heat map is M with the weights of the estimator, in the order of ``points``."""
    display = CoassociationDisplay.from_estimator(fitted, spoilt)
    M = coassociation(spoilt, fitted.partition_weights_)
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


def test_confidence_of_any_labels_is_that_of_a_consensus(spoilt: np.ndarray) -> None:
    """With the labels of a consensus, the default order is that of its confidence."""
    est = L2Consensus(3, random_state=0).fit(spoilt)
    of_estimator = CoassociationDisplay.from_estimator(est, spoilt)
    of_labels = CoassociationDisplay.from_labels(spoilt, est.labels_)
    assert of_labels.points.tolist() == of_estimator.points.tolist()


def test_labels_may_be_text_and_tables_frames(spoilt: np.ndarray) -> None:
    """Ticks have the names of the clusters; a frame gives the same matrix as an array."""
    names = np.array(["low", "high"])[(spoilt[:, 0] > 0).astype(int)]
    display = CoassociationDisplay.from_labels(pd.DataFrame(spoilt), names)
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["high", "low"]
    array = CoassociationDisplay.from_labels(spoilt, names)
    np.testing.assert_array_equal(display.matrix, array.matrix)


def test_many_points_are_sampled_by_cluster() -> None:
    """A sample keeps the shares of the clusters, and one point of the smallest."""
    P, y = planted_partitions([900, 298, 2], 4, n_bad=0, noise=0.1, random_state=0)
    display = CoassociationDisplay.from_labels(P, y, max_points=120, random_state=0)
    assert display.matrix.shape == (120, 120)
    assert len(set(display.points.tolist())) == 120
    shown = np.bincount(display.labels)
    assert np.all(np.abs(shown - [90, 29.8, 0.2]) <= 1)
    assert shown[2] == 1
    M = coassociation(P)[np.ix_(display.points, display.points)]
    np.testing.assert_allclose(display.matrix, M)
    again, other = (
        CoassociationDisplay.from_labels(P, y, max_points=120, random_state=seed).points.tolist()
        for seed in (0, 1)
    )
    assert again == display.points.tolist() != other


@pytest.mark.parametrize("name", ["labels", "confidence"])
def test_values_of_the_wrong_length_are_refused(spoilt: np.ndarray, name: str) -> None:
    """The message has both lengths; the number of points shown is checked, too."""
    values = {"labels": spoilt[:, 0], "confidence": np.ones(100)} | {name: np.zeros(7)}
    with pytest.raises(InvalidLabelsError, match=rf"{name} has shape \(7,\), P has 100 points"):
        CoassociationDisplay.from_labels(spoilt, **values)
    with pytest.raises(InvalidParameterError, match="max_points=0"):
        CoassociationDisplay.from_labels(spoilt, spoilt[:, 0], max_points=0)


def test_plot_can_be_called_again(spoilt: np.ndarray, fitted: RobustConsensus) -> None:
    """A second call draws a new figure."""
    display = CoassociationDisplay.from_estimator(fitted, spoilt)
    first = display.figure_
    assert display.plot(cmap="Greys") is display
    assert display.figure_ is not first
    assert display.image_.get_cmap().name == "Greys"


def test_partitions_are_those_of_the_fit_by_default(
    spoilt: np.ndarray, fitted: RobustConsensus
) -> None:
    """Without P the display shows the fitted partitions, in the same order."""
    given, fitted_ones = (CoassociationDisplay.from_estimator(fitted, P) for P in (spoilt, None))
    assert fitted_ones.points.tolist() == given.points.tolist()
    np.testing.assert_array_equal(fitted_ones.matrix, given.matrix)


def test_points_outside_the_fit_are_not_shown(spoilt: np.ndarray) -> None:
    """``points`` are rows of P, even if some rows have no label and others have weight 0."""
    P, weights = spoilt.copy(), np.ones(100)
    P[[3, 50]], weights[[0, 70, 99]] = -1, 0
    est = RobustConsensus(3, random_state=0).fit(P, sample_weight=weights)
    display = CoassociationDisplay.from_estimator(est)
    assert sorted(display.points) == sorted(set(range(100)) - {0, 3, 50, 70, 99})
    assert display.labels.tolist() == est.labels_[display.points].tolist()
    M = coassociation(P[display.points], est.partition_weights_)
    np.testing.assert_allclose(display.matrix, M)


def test_soft_partitions_have_a_heat_map() -> None:
    """Memberships give the co-association of memberships."""
    P = random_memberships(np.random.default_rng(0), 12, [2, 3, 3], missing=False)
    est = L2Consensus(2, random_state=0).fit(P)
    display = CoassociationDisplay.from_estimator(est)
    M = coassociation(P)[np.ix_(display.points, display.points)]
    np.testing.assert_allclose(display.matrix, M)
    of_labels = CoassociationDisplay.from_labels(P, est.labels_)
    np.testing.assert_allclose(of_labels.matrix, coassociation(P)[np.ix_(*[of_labels.points] * 2)])


@pytest.fixture(scope="module")
def display(fitted: RobustConsensus) -> ClustermapDisplay:
    """Return the display of the shared consensus."""
    return ClustermapDisplay.from_estimator(fitted)


def test_heat_map_is_in_the_order_of_the_tree(
    spoilt: np.ndarray, fitted: RobustConsensus, display: ClustermapDisplay
) -> None:
    """M has the weights of the estimator; the leaves of the tree are 0, 1, 2, … from the top."""
    M = coassociation(spoilt, fitted.partition_weights_)
    np.testing.assert_allclose(display.matrix, M[np.ix_(display.points, display.points)])
    assert sorted(display.points) == list(range(100))
    assert display.labels.tolist() == fitted.labels_[display.points].tolist()
    assert is_valid_linkage(display.tree)
    assert leaves_list(display.tree).tolist() == list(range(100))
    assert display.labels[0] <= display.labels[-1]


def test_tree_is_average_linkage() -> None:
    """The tree has the distances of SciPy's average linkage on 1 − M, if there are no ties."""
    P, _ = planted_partitions([15, 10], 9, n_bad=0, noise=0.4, random_state=0)
    weights = np.random.default_rng(0).random(9)
    est = EvidenceAccumulation(2, partition_weights=weights).fit(P)
    display = ClustermapDisplay.from_estimator(est)
    D = squareform(1 - display.matrix, checks=False)
    np.testing.assert_allclose(cophenet(display.tree), cophenet(linkage(D, "average")))


def test_branches_are_those_of_a_dendrogram(display: ClustermapDisplay) -> None:
    """The lines equal those of SciPy, which puts leaf i at 5 + 10·i."""
    expected = dendrogram(display.tree, no_plot=True)
    lines = {
        tuple(np.round(np.column_stack([d, (np.array(i) - 5) / 10]).ravel(), 6))
        for i, d in zip(expected["icoord"], expected["dcoord"], strict=True)
    }
    (drawn,) = display.tree_ax_.collections
    assert {tuple(np.round(np.ravel(segment), 6)) for segment in drawn.get_segments()} == lines


def test_branches_within_a_cluster_have_its_colour(display: ClustermapDisplay) -> None:
    """The strip has the colours of the clusters; branches that join clusters are grey."""
    (drawn,) = display.tree_ax_.collections
    palette = cluster_colours(3)
    members: dict[int, set[int]] = {i: {int(label)} for i, label in enumerate(display.labels)}
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


def test_tree_and_strip_are_beside_their_rows(display: ClustermapDisplay) -> None:
    """All three have the same vertical axis, with the first point at the top."""
    limits = {panel.get_ylim() for panel in (display.ax_, display.tree_ax_, display.strip_ax_)}
    assert limits == {(99.5, -0.5)}


def test_one_and_two_points_have_trees() -> None:
    """A tree needs no minimum number of points; a chain of 1,500 merges is drawn, too."""
    for n in (1, 2):
        est = EvidenceAccumulation(1).fit(np.zeros((n, 2), dtype=int))
        assert ClustermapDisplay.from_estimator(est).tree.shape == (n - 1, 4)
    chain = np.triu(np.ones((1_500, 30), dtype=int), -1_470)
    est = EvidenceAccumulation(2).fit(chain)
    display = ClustermapDisplay.from_estimator(est, max_points=1_500)
    assert len(display.tree) == 1_499


def test_soft_partitions_and_given_axes() -> None:
    """Memberships have a clustermap; it fits into given axes."""
    P = random_memberships(np.random.default_rng(0), 12, [2, 3, 3], missing=False)
    figure, ax = plt.subplots(layout="constrained")
    est = L2Consensus(2, random_state=0).fit(P)
    display = ClustermapDisplay.from_estimator(est, ax=ax)
    assert display.ax_ is ax
    M = coassociation(P)[np.ix_(display.points, display.points)]
    np.testing.assert_allclose(display.matrix, M)
    figure.canvas.draw()
    assert display.tree_ax_.get_position().x1 < display.strip_ax_.get_position().x0
    assert display.strip_ax_.get_position().x1 < ax.get_position().x0


def test_numbers_are_those_of_the_functions(fitted: RobustConsensus) -> None:
    """Bars have the cluster consensus; points are by cluster and falling item consensus."""
    display = ClusterConsensusDisplay.from_estimator(fitted)
    np.testing.assert_array_equal(display.cluster_consensus, cluster_consensus(fitted))
    np.testing.assert_array_equal(display.item_consensus, item_consensus(fitted)[display.points])
    assert display.labels.tolist() == np.sort(fitted.labels_).tolist()
    assert sorted(display.points) == list(range(100))
    for cluster in range(3):
        own = display.item_consensus[display.labels == cluster, cluster]
        assert np.all(np.diff(own) <= 0)
    heights = [bar.get_height() for bar in display.bars_]
    np.testing.assert_allclose(heights, display.cluster_consensus)
    colours = [to_hex(bar.get_facecolor()).upper() for bar in display.bars_]
    assert colours == list(cluster_colours(3))


def test_parts_of_a_bar_are_stacked_with_the_own_cluster_below(fitted: RobustConsensus) -> None:
    """The parts of a bar do not overlap, begin at 0 with the own cluster, and sum to its height."""
    display = ClusterConsensusDisplay.from_estimator(fitted)
    areas = [area.get_paths()[0] for area in display.items_ax_.collections]
    for i in (0, 70, 99):
        items, own = display.item_consensus[i], display.labels[i]
        middles = np.cumsum(np.append(0, [items[own], *np.delete(items, own)]))
        order = [own, *(b for b in range(3) if b != own)]
        for b, low, high in zip(order, middles, middles[1:], strict=False):
            inside = high - low > 1e-6
            assert areas[b].contains_point((i, (low + high) / 2)) == inside
        assert not any(area.contains_point((i, middles[-1] + 0.01)) for area in areas)


def test_a_single_point_has_no_bar() -> None:
    """A cluster without pairs is labelled as one point."""
    est = EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1]])
    display = ClusterConsensusDisplay.from_estimator(est)
    assert [bar.get_height() for bar in display.bars_] == [1, 0]
    assert [text.get_text() for text in display.ax_.texts] == ["1.00", "one point"]


def test_many_points_are_sampled_and_points_outside_the_fit_left_out() -> None:
    """A sample of each cluster is shown, without points that have no label."""
    P, _ = planted_partitions([500, 290, 10], 6, n_bad=0, noise=0.1, random_state=0)
    P[:5] = -1
    est = L2Consensus(3, random_state=0).fit(P)
    display = ClusterConsensusDisplay.from_estimator(est, max_points=100)
    assert display.item_consensus.shape == (100, 3)
    assert display.points.min() >= 5
    assert set(display.labels.tolist()) == {0, 1, 2}
    assert np.isfinite(display.item_consensus).all()
