"""Every display takes every fitted estimator that has partitions, and refuses others clearly."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import coterie as ct
from coterie.consensus.registry import make_consensus
from coterie.errors import InvalidParameterError

OF_PARTITIONS = [
    ct.ChooseKDisplay,
    ct.ClusterConsensusDisplay,
    ct.ClustermapDisplay,
    ct.CoassociationDisplay,
    ct.ConsensusCDFDisplay,
    ct.PartitionAgreementDisplay,
    ct.TrackingDisplay,
]
OF_POINTS = [
    ct.ClusterConsensusDisplay,
    ct.ClustermapDisplay,
    ct.CoassociationDisplay,
    ct.TrackingDisplay,
]


@pytest.fixture(scope="module", name="X")
def features():
    """Forty points in two groups."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 2)) + np.repeat([[0, 0], [9, 9]], 20, axis=0)


@pytest.fixture(scope="module")
def clusterers(X):
    """A clusterer of features and one of two views, which hold a consensus."""
    return (
        ct.ConsensusClusterer(2, n_partitions=5, random_state=0).fit(X),
        ct.MultiViewClusterer(2, n_partitions=3, random_state=0).fit([X[:, :1], X[:, 1:]]),
    )


@pytest.mark.parametrize("display", [*OF_PARTITIONS, ct.ConvergenceDisplay])
def test_pictures_are_drawn_in_place_of_given_axes(display, fitted):
    """A display draws on given axes, or puts its panels in their place."""
    figure, ax = plt.subplots()
    drawn = display.from_estimator(fitted, ax=ax)
    assert drawn.figure_ is figure
    assert drawn.ax_ is ax or not ax.axison
    assert drawn.plot() is drawn
    assert drawn.figure_ is not figure


@pytest.mark.parametrize("display", OF_PARTITIONS)
def test_a_clusterer_is_drawn_through_its_consensus(display, clusterers):
    """It shows the partitions of its consensus, and prints one line below the picture."""
    for est in clusterers:
        drawn, expected = (display.from_estimator(e) for e in (est, est.consensus_))
        assert drawn.ax_.figure is drawn.figure_
        for name in vars(expected):
            if not name.endswith("_") and name != "choice":
                np.testing.assert_array_equal(getattr(drawn, name), getattr(expected, name))
        text = repr(drawn)
        assert text.startswith(f"{display.__name__}(") and "\n" not in text and len(text) < 1_000


@pytest.mark.parametrize("display", OF_POINTS)
def test_many_points_are_sampled_by_cluster(display, fitted):
    """A sample, which the seed decides, keeps the shares of the clusters."""
    first, again, other = (
        display.from_estimator(fitted, max_points=20, random_state=seed).points.tolist()
        for seed in (0, 0, 1)
    )
    assert first == again and sorted(first) != sorted(other)
    assert len(set(first)) == 20
    assert np.abs(np.bincount(fitted.labels_[first]) - [12, 6, 2]).max() <= 1


@pytest.mark.parametrize("display", OF_POINTS)
def test_points_outside_the_fit_are_not_shown(display, spoilt):
    """``points`` are rows of P, even if some rows have no label and others have weight 0."""
    P, weights = spoilt.copy(), np.ones(100)
    P[[3, 50]], weights[[0, 70, 99]] = -1, 0
    est = ct.RobustConsensus(3, random_state=0).fit(P, sample_weight=weights)
    drawn = display.from_estimator(est)
    assert sorted(drawn.points) == sorted(set(range(100)) - {0, 3, 50, 70, 99})
    if display is not ct.TrackingDisplay:
        assert drawn.labels.tolist() == est.labels_[drawn.points].tolist()


@pytest.mark.parametrize("key", ["robust", "weighted", "eac", "mcla"])
def test_consensus_functions_have_pictures(key, spoilt):
    """All displays of partitions draw methods with camps, with learned weights, with a tree.

    The displays read what all methods have from the base class; the partitions miss labels.
    """
    P = spoilt[:40].copy()
    P[::7, 1] = -1
    est = make_consensus(key, 3, random_state=0).fit(P)
    for display in OF_PARTITIONS:
        assert display.from_estimator(est).figure_.axes


def test_a_clusterer_has_convergence_and_points(X, clusterers):
    """The relaxation of the consensus, and the features of the clusterer, are drawn, too."""
    est = clusterers[0]
    assert len(ct.ConvergenceDisplay.from_estimator(est).ax_.lines) == 1
    assert ct.PointsDisplay.from_estimator(est, X).confidence is not None


@pytest.mark.parametrize("display", OF_PARTITIONS)
def test_estimators_without_partitions_are_refused(display, X, spoilt):
    """The message names estimators that have partitions; unfitted ones are refused, too."""
    views = ct.MultiViewKMeans(2, random_state=0).fit([X, X])
    for est in (views, ct.RobustSpectral(3, random_state=0).fit(ct.coassociation(spoilt))):
        with pytest.raises(InvalidParameterError, match="is not a consensus of partitions; give"):
            display.from_estimator(est)
    for unfitted in (ct.RobustConsensus(2), ct.ConsensusClusterer(2)):
        for kind in (display, ct.ConvergenceDisplay):
            with pytest.raises(NotFittedError):
                kind.from_estimator(unfitted)
