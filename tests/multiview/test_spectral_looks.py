"""A second look at a view, and what MultiViewClusterer makes of it."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_circles

import coterie as ct
from coterie.errors import InvalidParameterError
from coterie.multiview.spectral_views import spectral_features


@pytest.fixture(scope="module")
def rings():
    """Two rings, one inside the other: no k-means run in the plane tells them apart."""
    return make_circles(200, factor=0.4, noise=0.04, random_state=0)


def test_the_embedding_separates_what_hangs_together(rings):
    """Points of one ring are seen on one side, those of the other across."""
    X, y = rings
    seen = spectral_features(X, 2, random_state=0).embedding
    cosine = seen @ seen.T
    assert cosine[y[:, None] == y].min() > cosine[y[:, None] != y].max()


def test_rows_are_seen_where_they_were_embedded(rings):
    """Fitted rows keep their place, equal rows share one, new rows stand where the nearest is."""
    X = np.vstack([rings[0], rings[0][:5]])
    look = spectral_features(X, 2, random_state=0)
    assert (look.transform(X) == look.embedding).all()
    assert (look.embedding[-5:] == look.embedding[:5]).all()
    assert (look.transform(X[:3] + 1e-6) == look.embedding[:3]).all()


def test_sparse_rows_and_few_rows():
    """A sparse view is embedded as the dense one; more dimensions than rows are not asked for."""
    X = np.random.default_rng(0).random((12, 3))
    dense, sparse = (spectral_features(V, 20, random_state=0).embedding for V in (X, csr_array(X)))
    assert dense.shape == (12, 12)
    np.testing.assert_allclose(abs(dense @ dense.T), abs(sparse @ sparse.T), atol=1e-6)


def test_views_are_looked_at_twice(rings):
    """Rings in two views are found with the spectral look, and not without."""
    X, y = rings
    views = {"here": X, "turned": X[:, ::-1] * [2.0, 1.0]}
    found = ct.MultiViewClusterer(2, random_state=0).fit(views)
    missed = ct.MultiViewClusterer(2, spectral=False, random_state=0).fit(views)
    assert list(found.ensembles_) == ["here", "here (spectral)", "turned", "turned (spectral)"]
    assert list(missed.ensembles_) == ["here", "turned"]
    accuracy = [ct.clustering_accuracy(y, est.labels_) for est in (missed, found)]
    assert accuracy[0] < 0.8 < accuracy[1]
    assert set(found.view_agreement_) == {"here", "turned"}
    assert (found.predict(views) == found.labels_).all()


def test_a_setting_that_is_none_is_refused():
    """spectral is "auto", True or False."""
    with pytest.raises(InvalidParameterError, match="spectral='yes'"):
        ct.MultiViewClusterer(2, spectral="yes").fit([np.eye(5)])
