"""Tracking plots: rows are consensus labels, colours follow clusters, points are in order."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from sklearn.metrics import adjusted_rand_score

from coterie import (
    EvidenceAccumulation,
    L2Consensus,
    LocallyWeightedConsensus,
    RobustConsensus,
    TrackingDisplay,
    planted_partitions,
)
from coterie.errors import InvalidParameterError
from coterie.inspection.displays.palette import cluster_colours
from coterie.inspection.displays.tracking_plot import carry_colours
from coterie.inspection.stability import resampled_ensembles


def _is_same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return adjusted_rand_score(a, b) == 1.0


def test_rows_of_ensembles_are_cuts_of_average_linkage() -> None:
    """Each row has the labels of EvidenceAccumulation on the ensemble of its K."""
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0, 0], [5, 5]], 20, axis=0)
    ensembles = resampled_ensembles(X, [4, 2, 3], 12, random_state=0)
    display = TrackingDisplay.from_ensembles(ensembles)
    assert display.ks.tolist() == [2, 3, 4]
    assert sorted(display.points) == list(range(40))
    for k, row in zip(display.ks.tolist(), display.tracks, strict=True):
        labels = EvidenceAccumulation(k).fit(ensembles[k]).labels_
        assert _is_same_partition(row, labels[display.points])


def test_rows_of_an_estimator_are_cuts_of_its_locally_weighted_tree(
    spoilt: np.ndarray, fitted: RobustConsensus
) -> None:
    """Each row has the labels of LocallyWeightedConsensus with the weights of the estimator."""
    display = TrackingDisplay.from_estimator(fitted, range(2, 6))
    for k, row in zip(display.ks.tolist(), display.tracks, strict=True):
        method = LocallyWeightedConsensus(k, partition_weights=fitted.partition_weights_)
        assert _is_same_partition(row, method.fit(spoilt).labels_[display.points])


def test_rows_of_an_estimator_split_the_rows_above(fitted: RobustConsensus) -> None:
    """All rows come from one tree, so every cluster is one run of columns in every row."""
    display = TrackingDisplay.from_estimator(fitted)
    assert display.ks.tolist() == [2, 3, 4, 5, 6]
    for k, row in zip(display.ks.tolist(), display.tracks, strict=True):
        assert np.count_nonzero(np.diff(row)) == k - 1
    for above, below in zip(display.tracks, display.tracks[1:], strict=False):
        # one cluster is split: its larger part keeps the colour
        assert len(np.unique(np.stack([above, below]), axis=1).T) == len(np.unique(below))


def test_colours_are_those_of_the_estimator(fitted: RobustConsensus) -> None:
    """In the row of its K, most points have the colours that other pictures give them."""
    display = TrackingDisplay.from_estimator(fitted, range(2, 7))
    labels = fitted.labels_[display.points]
    assert np.mean(display.tracks[1] == labels) > 0.9
    assert set(display.tracks[1].tolist()) == {0, 1, 2}


@given(
    rows=st.lists(
        st.lists(st.integers(0, 4), min_size=12, max_size=12).map(np.array), min_size=1, max_size=4
    )
)
def test_colours_change_no_cluster(rows: list[np.ndarray]) -> None:
    """Clusters stay the same; equal rows have equal colours."""
    tracks = carry_colours([*rows, rows[-1]])
    for row, track in zip(rows, tracks, strict=False):
        assert _is_same_partition(row, track)
        assert len(np.unique(row)) == len(np.unique(track))
    assert tracks[-1].tolist() == tracks[-2].tolist()


def test_most_points_keep_their_colour() -> None:
    """Colours follow the best overlap; a new cluster takes a colour that was not in use."""
    first = np.repeat([0, 1, 2], [10, 8, 6])
    second = first.copy()
    second[:3], second[10:12] = 3, 2
    tracks = carry_colours([first, (second + 1) % 4])
    assert tracks[0].tolist() == first.tolist()
    assert tracks[1].tolist() == second.tolist()


def test_rows_are_drawn_in_the_colours_of_the_palette(fitted: RobustConsensus) -> None:
    """The picture has a row for each K and the palette's colour for each number."""
    _, ax = plt.subplots()
    display = TrackingDisplay.from_estimator(fitted, [2, 3], ax=ax)
    assert display.ax_ is ax
    np.testing.assert_array_equal(display.image_.get_array(), display.tracks)
    drawn = display.image_.to_rgba(np.arange(3))
    assert [to_hex(colour).upper() for colour in drawn] == list(cluster_colours(3))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["2", "3"]


def test_many_points_are_sampled() -> None:
    """A sample of each cluster is shown, with the rows of P."""
    P, _ = planted_partitions([400, 250, 150], 6, n_bad=0, noise=0.1, random_state=0)
    est = L2Consensus(3, random_state=0).fit(P)
    display = TrackingDisplay.from_estimator(est, max_points=100)
    assert display.tracks.shape == (5, 100)
    assert _is_same_partition(display.tracks[1], est.labels_[display.points])
    ensembles = {2: P, 3: P}
    assert TrackingDisplay.from_ensembles(ensembles, max_points=50).points.shape == (50,)


def test_points_without_a_deciding_vote_are_left_out(spoilt: np.ndarray) -> None:
    """A point with labels only in partitions of weight 0 is not in the tree."""
    P, weights = spoilt.copy(), np.repeat([1.0, 0.0], [6, 4])
    P[[5, 80], :6] = -1
    P[9] = -1
    est = EvidenceAccumulation(3, partition_weights=weights).fit(P)
    display = TrackingDisplay.from_estimator(est)
    assert sorted(display.points) == sorted(set(range(100)) - {5, 9, 80})


def test_few_distinct_points_limit_the_default_range() -> None:
    """The default ends at the number of distinct points; larger K must be given and possible."""
    est = EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1], [2, 1]])
    assert TrackingDisplay.from_estimator(est).ks.tolist() == [2, 3]
    single = EvidenceAccumulation(1).fit([[0, 0], [0, 0]])
    assert TrackingDisplay.from_estimator(single).tracks.tolist() == [[0, 0]]
    with pytest.raises(InvalidParameterError, match="more than the number of points"):
        TrackingDisplay.from_estimator(est, [2, 5])
