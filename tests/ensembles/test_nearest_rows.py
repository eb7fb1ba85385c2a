"""Runs that label new rows like the nearest fitted row; Ward's linkage."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import AgglomerativeClustering
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

from coterie.ensembles.nearest_rows import NearestRowMember, fit_ward
from coterie.ensembles.runs import Run, fit_run
from coterie.ensembles.scalings import Scaling

IRIS = np.unique(load_iris().data, axis=0)
ROWS, NEW = IRIS[::2], IRIS[1::2]


@pytest.mark.parametrize("make", [np.asarray, np.float32, sp.csr_array])
def test_ward_is_scikit_learns(make):
    """Labels are those of AgglomerativeClustering; new rows get those of the nearest row."""
    member = fit_ward(make(ROWS), 5, Scaling())
    oracle = AgglomerativeClustering(5).fit_predict(ROWS)
    np.testing.assert_array_equal(member.predict(make(ROWS)), oracle)
    nearest = KNeighborsClassifier(1).fit(ROWS, oracle)
    # distances to rows of different clusters can be equal
    distances = np.sort(nearest.kneighbors(NEW, 2)[0], axis=1)
    unique = distances[:, 0] < distances[:, 1] - 1e-6
    np.testing.assert_array_equal(member.predict(make(NEW))[unique], nearest.predict(NEW)[unique])


def test_equal_rows_have_equal_labels():
    """Clusters of Ward's linkage that contain only copies of other rows are dropped."""
    X = np.repeat([[0.0, 1.0], [2.0, 3.0], [9.0, 9.0]], 4, axis=0)
    run = Run(kind="ward", n_clusters=8, scaling=Scaling(), drawn=None, seed=0)
    member, labels = fit_run(X, run)
    np.testing.assert_array_equal(np.unique(labels), [0, 1, 2])
    assert (labels.reshape(3, 4) == labels[::4, None]).all()
    np.testing.assert_array_equal(member.predict(X[::-1]), labels[::-1])


def test_noise_stays_noise():
    """A new row whose nearest row is noise is −1."""
    member = NearestRowMember(
        rows=np.array([[0.0], [4.0]]), row_labels=np.array([0, -1], dtype=np.int32)
    )
    np.testing.assert_array_equal(member.predict(np.array([[3.0], [1.0]])), [-1, 0])


def test_dropped_clusters_are_renumbered():
    """``with_clusters`` numbers the kept clusters from 0."""
    rows = np.arange(4.0)[:, None]
    member = NearestRowMember(rows=rows, row_labels=np.array([0, 1, 2, 2], dtype=np.int32))
    np.testing.assert_array_equal(member.with_clusters(np.array([0, 2])).row_labels, [0, -1, 1, 1])
