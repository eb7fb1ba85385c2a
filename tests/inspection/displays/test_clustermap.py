"""Heat map, dendrogram and strip of clusters."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.cluster.hierarchy import cophenet, dendrogram, is_valid_linkage, leaves_list, linkage
from scipy.spatial.distance import squareform

from coterie import (
    ClustermapDisplay,
    EvidenceAccumulation,
    L2Consensus,
    RobustConsensus,
    coassociation,
    planted_partitions,
)
from coterie.inspection.displays.palette import cluster_colours
from soft_memberships import random_memberships


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


def test_many_points_are_sampled() -> None:
    """A sample of each cluster is shown."""
    P, _ = planted_partitions([500, 290, 10], 6, n_bad=0, noise=0.1, random_state=0)
    est = L2Consensus(3, random_state=0).fit(P)
    display = ClustermapDisplay.from_estimator(est, max_points=80, colorbar=False)
    assert display.matrix.shape == (80, 80)
    assert set(display.labels.tolist()) == {0, 1, 2}


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
