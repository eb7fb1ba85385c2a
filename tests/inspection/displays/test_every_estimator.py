"""Every display takes every fitted estimator that has partitions, and refuses others clearly."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from coterie import (
    ChooseKDisplay,
    ClusterConsensusDisplay,
    ClustermapDisplay,
    CoassociationDisplay,
    ConsensusCDFDisplay,
    ConsensusClusterer,
    ConvergenceDisplay,
    MultiViewClusterer,
    MultiViewKMeans,
    PartitionAgreementDisplay,
    PointsDisplay,
    RobustConsensus,
    RobustSpectral,
    TrackingDisplay,
    coassociation,
)
from coterie.consensus.registry import make_consensus
from coterie.errors import InvalidParameterError

OF_PARTITIONS = [
    ChooseKDisplay,
    ClusterConsensusDisplay,
    ClustermapDisplay,
    CoassociationDisplay,
    ConsensusCDFDisplay,
    PartitionAgreementDisplay,
    TrackingDisplay,
]


@pytest.fixture(scope="module", name="X")
def features() -> np.ndarray:
    """Return 40 points in two groups."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 2)) + np.repeat([[0, 0], [9, 9]], 20, axis=0)


@pytest.fixture(scope="module")
def of_features(X: np.ndarray) -> ConsensusClusterer:
    """Return a clusterer of features that holds a consensus."""
    return ConsensusClusterer(2, n_partitions=5, random_state=0).fit(X)


@pytest.fixture(scope="module")
def of_views(X: np.ndarray) -> MultiViewClusterer:
    """Return a clusterer of two views that holds a consensus."""
    return MultiViewClusterer(2, n_partitions=3, random_state=0).fit([X[:, :1], X[:, 1:]])


@pytest.fixture(scope="module")
def without_partitions(X: np.ndarray, spoilt: np.ndarray) -> list[Any]:
    """Return fitted estimators that are no consensus of partitions."""
    return [
        MultiViewKMeans(2, random_state=0).fit([X, X]),
        RobustSpectral(3, random_state=0).fit(coassociation(spoilt)),
    ]


@pytest.mark.parametrize("display", [*OF_PARTITIONS, ConvergenceDisplay])
def test_pictures_are_drawn_in_place_of_given_axes(display: Any, fitted: RobustConsensus) -> None:
    """A display draws on given axes, or puts its panels in their place."""
    figure, ax = plt.subplots()
    drawn = display.from_estimator(fitted, ax=ax)
    assert drawn.figure_ is figure
    assert drawn.ax_ is ax or not ax.axison
    assert drawn.plot() is drawn
    assert drawn.figure_ is not figure


@pytest.mark.parametrize("display", OF_PARTITIONS)
def test_a_clusterer_is_drawn_through_its_consensus(
    display: Any, of_features: ConsensusClusterer, of_views: MultiViewClusterer
) -> None:
    """Clusterers of features and of views show the partitions of their consensus."""
    for est in (of_features, of_views):
        drawn, expected = (display.from_estimator(e) for e in (est, est.consensus_))
        assert drawn.ax_.figure is drawn.figure_
        for name in vars(expected):
            if not name.endswith("_") and name != "choice":
                np.testing.assert_array_equal(getattr(drawn, name), getattr(expected, name))


@pytest.mark.parametrize("key", ["robust", "weighted", "eac", "mcla"])
def test_consensus_functions_have_pictures(key: str, spoilt: np.ndarray) -> None:
    """All displays of partitions draw methods with camps, with learned weights, with a tree.

    The displays read what all methods have from the base class; the partitions miss labels.
    """
    P = spoilt[:40].copy()
    P[::7, 1] = -1
    est = make_consensus(key, 3, random_state=0).fit(P)
    for display in OF_PARTITIONS:
        assert display.from_estimator(est).figure_.axes


@pytest.mark.parametrize("display", OF_PARTITIONS)
def test_a_display_prints_one_line(display: Any, of_features: ConsensusClusterer) -> None:
    """A notebook that ends a cell with a display shows the picture and one line of text."""
    text = repr(display.from_estimator(of_features))
    assert text.startswith(f"{display.__name__}(")
    assert "\n" not in text
    assert len(text) < 1_000


def test_a_clusterer_has_convergence_and_points(
    X: np.ndarray, of_features: ConsensusClusterer
) -> None:
    """The relaxation of the consensus, and the features of the clusterer, are drawn, too."""
    assert len(ConvergenceDisplay.from_estimator(of_features).ax_.lines) == 1
    assert PointsDisplay.from_estimator(of_features, X).confidence is not None


@pytest.mark.parametrize("display", OF_PARTITIONS)
def test_estimators_without_partitions_are_refused(
    display: Any, without_partitions: list[Any]
) -> None:
    """The message names estimators that have partitions; unfitted ones are refused, too."""
    for est in without_partitions:
        with pytest.raises(InvalidParameterError, match="is not a consensus of partitions; give"):
            display.from_estimator(est)
    for unfitted in (RobustConsensus(2), ConsensusClusterer(2)):
        for kind in (display, ConvergenceDisplay):
            with pytest.raises(NotFittedError):
                kind.from_estimator(unfitted)
