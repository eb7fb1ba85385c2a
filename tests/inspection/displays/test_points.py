"""Points in two dimensions: coordinates, colours, confidence, and input of every kind."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib.colors import to_hex
from scipy.sparse import csr_matrix
from sklearn.cluster import DBSCAN, KMeans
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from coterie import ConsensusClusterer, MultiViewClusterer, MultiViewKMeans, PointsDisplay
from coterie.errors import InvalidParameterError
from coterie.inspection.displays.colours_and_axes import NO_LABEL, cluster_colours


@pytest.fixture(scope="module", name="X")
def features():
    """Return 60 points in three groups, with five features."""
    rng = np.random.default_rng(0)
    centres = 6 * np.eye(3, 5)
    return rng.normal(size=(60, 5)) + np.repeat(centres, 20, axis=0)


@pytest.fixture(scope="module")
def est(X):
    """Return their consensus."""
    return ConsensusClusterer(3, n_partitions=8, random_state=0).fit(X)


def test_one_or_two_features_are_drawn_as_they_are(est, X):
    """Axes have the names of the features, those of a frame if any; one is next to the row."""
    display = PointsDisplay.from_estimator(est, X[:, :2])
    np.testing.assert_array_equal(display.coordinates, X[:, :2])
    assert display.axis_names == ("feature 0", "feature 1")
    for name, scatter in display.scatters_.items():
        np.testing.assert_array_equal(scatter.get_offsets(), X[est.labels_ == name, :2])
    for table in (pd.DataFrame, pa.table):
        ax = PointsDisplay.from_estimator(est, table({"width": X[:, 0], "height": X[:, 1]})).ax_
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    one = PointsDisplay.from_estimator(est, X[:, [0]])
    np.testing.assert_array_equal(one.coordinates, np.column_stack([X[:, 0], np.arange(60)]))
    assert one.axis_names == ("feature 0", "row")


def test_wide_features_are_projected(est, X):
    """Coordinates are principal components, and the axes have their share of the variance."""
    model = PCA(2, random_state=0).fit(X)
    display = PointsDisplay.from_estimator(est, X)
    np.testing.assert_allclose(display.coordinates, model.transform(X), atol=1e-9)
    share = model.explained_variance_ratio_[1]
    assert display.ax_.get_ylabel() == f"principal component 2 ({share:.0%} of the variance)"


def test_sparse_features_are_projected_without_centring(est, X):
    """A sparse matrix stays sparse; with two columns it is drawn as it is."""
    display = PointsDisplay.from_estimator(est, csr_matrix(X))
    expected = TruncatedSVD(2, random_state=0).fit_transform(csr_matrix(X))
    np.testing.assert_allclose(np.abs(display.coordinates), np.abs(expected))
    assert display.axis_names[0].startswith("singular vector 1 (")
    narrow = PointsDisplay.from_estimator(est, csr_matrix(X[:, :2]))
    np.testing.assert_array_equal(narrow.coordinates, X[:, :2])


def test_uncertain_points_are_paler_and_smaller(X, est):
    """Opacity and size grow with the confidence; without confidence all points are equal."""
    display = PointsDisplay.from_estimator(est, X)
    display.confidence = np.linspace(0, 1, 60)
    display.plot(size=50)
    for name, scatter in display.scatters_.items():
        own = display.confidence[display.labels == name]
        opacity = scatter.get_facecolors()[:, 3]
        assert np.corrcoef(own, opacity)[0, 1] == pytest.approx(1)
        assert np.corrcoef(own, scatter.get_sizes())[0, 1] == pytest.approx(1)
        assert to_hex(scatter.get_facecolors()[0]).upper() == cluster_colours(3)[name]
    plain = PointsDisplay.from_estimator(KMeans(3, random_state=0).fit(X), X)
    assert plain.confidence is None
    assert plain.ax_.get_title(loc="left") == "60 points by cluster"
    assert np.ptp(plain.scatters_[0].get_sizes()) == 0


def test_points_without_a_label_are_grey(X):
    """Label −1 is last in the legend, below the others, and has no name in the plot."""
    X = np.vstack([X, np.full((2, 5), 40.0)])
    display = PointsDisplay.from_estimator(DBSCAN(eps=3).fit(X), X)
    assert list(display.scatters_)[-1] == -1
    grey = display.scatters_[-1]
    assert {to_hex(colour).upper() for colour in grey.get_facecolors()} == {NO_LABEL}
    assert grey.get_zorder() < display.scatters_[0].get_zorder()
    legend = display.ax_.get_legend()
    assert legend is not None
    assert legend.get_texts()[-1].get_text() == "no label"
    assert "-1" not in [text.get_text() for text in display.ax_.texts]
    nothing = PointsDisplay.from_estimator(DBSCAN(eps=0.01).fit(X), X)
    assert list(nothing.scatters_) == [-1]
    with_gaps = DBSCAN(eps=3).fit(X)
    with_gaps.labels_ = with_gaps.labels_.copy()
    with_gaps.labels_[:3] = -3  # as HDBSCAN labels missing features
    assert PointsDisplay.from_estimator(with_gaps, X).labels.min() == -1


def test_every_cluster_is_named_inside_and_apart(X):
    """A name is at a point of its cluster; with many clusters there is no legend."""
    many = KMeans(20, n_init=1, random_state=0).fit(X)
    display = PointsDisplay.from_estimator(many, X)
    assert display.ax_.get_legend() is None
    names = {int(text.get_text()): text.get_position() for text in display.ax_.texts}
    assert list(names) == list(range(20))
    for name, place in names.items():
        assert place in map(tuple, display.coordinates[display.labels == name])
    same = PointsDisplay.from_estimator(KMeans(2, random_state=0).fit(X), np.zeros((60, 2)))
    assert len(same.ax_.texts) == 2


def test_clusterers_of_several_views_take_one_view(X):
    """The user chooses the view; a list or dict of views is refused."""
    views = {"first": X[:, :2], "second": X[:, 2:]}
    est = MultiViewClusterer(3, n_partitions=3, random_state=0).fit(views)
    assert PointsDisplay.from_estimator(est, views["first"]).confidence is not None
    without = MultiViewKMeans(3, random_state=0).fit(list(views.values()))
    assert PointsDisplay.from_estimator(without, views["second"]).confidence is None
    for several in (views, list(views.values())):
        with pytest.raises(InvalidParameterError, match="several views; give the features of one"):
            PointsDisplay.from_estimator(est, several)


def test_many_points_are_sampled(X, est):
    """A sample of each cluster is shown, on given axes, with the projection of all points."""
    _, ax = plt.subplots()
    display = PointsDisplay.from_estimator(est, X, max_points=20, ax=ax)
    assert display.ax_ is ax
    everything = PointsDisplay.from_estimator(est, X)
    np.testing.assert_array_equal(display.coordinates, everything.coordinates[display.points])
    assert display.labels.tolist() == est.labels_[display.points].tolist()
    assert np.bincount(display.labels).tolist() == [7, 7, 6]


@pytest.mark.parametrize(
    ("estimator", "rows", "error", "message"),
    [
        (KMeans(3), 60, NotFittedError, "not fitted"),
        (StandardScaler().fit(np.zeros((2, 2))), 60, InvalidParameterError, "has no labels_"),
        (None, 59, InvalidParameterError, "X has 59 rows, but the estimator has labels of 60"),
    ],
)
def test_wrong_input_is_refused(est, X, estimator, rows, error, message):
    with pytest.raises(error, match=message):
        PointsDisplay.from_estimator(estimator or est, X[:rows])
    with pytest.raises(InvalidParameterError, match="column 'city' holds text"):
        PointsDisplay.from_estimator(est, pd.DataFrame(X).assign(city="Rome"))
