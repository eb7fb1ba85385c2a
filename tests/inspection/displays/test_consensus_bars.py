"""Bars of cluster consensus and item consensus."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_hex

from coterie import (
    ClusterConsensusDisplay,
    EvidenceAccumulation,
    L2Consensus,
    RobustConsensus,
    cluster_consensus,
    item_consensus,
    planted_partitions,
)
from coterie.inspection.displays.palette import cluster_colours


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


def test_panels_take_the_place_of_a_subplot(fitted: RobustConsensus) -> None:
    """Both panels are drawn in place of given axes."""
    figure, ax = plt.subplots()
    display = ClusterConsensusDisplay.from_estimator(fitted, ax=ax)
    assert display.figure_ is figure
    assert not ax.axison
