"""The heat map of the co-association matrix: its numbers, its order and its sample."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from coterie import (
    CoassociationDisplay,
    L2Consensus,
    RobustConsensus,
    coassociation,
    planted_partitions,
)
from coterie.errors import InvalidLabelsError, InvalidParameterError
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
    display = CoassociationDisplay.from_labels(P, y, max_points=120)
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


def test_it_draws_on_given_axes(spoilt: np.ndarray, fitted: RobustConsensus) -> None:
    """With ``ax`` no other axes are created; the colour bar is optional."""
    figure, ax = plt.subplots()
    display = CoassociationDisplay.from_estimator(fitted, spoilt, ax=ax, colorbar=False)
    assert display.ax_ is ax
    assert figure.axes == [ax]


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
    """``points`` are rows of P, also if some rows have no label and others have weight 0."""
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
