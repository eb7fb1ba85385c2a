"""Landmark-spectral runs: the dense normalised cut is the oracle; clusters of any shape."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_circles, make_moons

from coterie.ensembles import landmark_spectral
from coterie.ensembles.execution import fit_run
from coterie.ensembles.landmark_spectral import _embedding, _leading_axes, _links
from coterie.ensembles.plans import Run
from coterie.ensembles.scalings import centring

IRIS = load_iris().data


def spectral_run(X, n_clusters, seed=0):
    """Return member and labels of a spectral run."""
    scaling = centring(X)
    run = Run(kind="spectral", n_clusters=n_clusters, scaling=scaling, drawn=None, seed=seed)
    return fit_run(X, run)


@pytest.mark.parametrize("n_axes", [2, 5])
def test_the_embedding_is_that_of_the_dense_normalised_cut(n_axes):
    """If every row is a landmark, the embedding equals that of the graph B R⁻¹ Bᵀ of the rows.

    That graph has row sums D, with R and D the column and row sums in the module. Its normalised
    cut embeds row i by row i of D^−½ V, for the leading eigenvectors V of D^−½ B R⁻¹ Bᵀ D^−½. The
    inner products of unit rows do not depend on the basis.
    """
    X = np.unique(IRIS[::2], axis=0)
    links, _ = _links(X, X, 5)
    B = links.toarray()
    D, R = B.sum(axis=1), B.sum(axis=0)
    values, V = np.linalg.eigh(B @ np.diag(1 / R) @ B.T / np.sqrt(np.outer(D, D)))
    V, gap = V[:, ::-1][:, :n_axes], values[-n_axes] - values[-n_axes - 1]
    assert gap > 1e-6  # the space of the leading eigenvectors is unique
    # the landmark form scales axis r by the root of its eigenvalue
    rows = V / np.sqrt(D)[:, None] * np.sqrt(values[::-1][:n_axes])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = _embedding(links, _leading_axes(links, n_axes))
    np.testing.assert_allclose(found @ found.T, rows @ rows.T, atol=1e-7)


def test_links_fall_with_the_squared_distance():
    """Each row is linked to its nearest landmarks, relative to the nearest by the Gaussian."""
    landmarks, rows = np.array([[0.0], [1.0], [5.0]]), np.array([[0.25], [4.0]])
    links, width = _links(rows, landmarks, 2)
    assert width == pytest.approx(np.mean([0.25, 0.75, 1.0, 3.0]))
    squares = np.array([[0.25**2, 0.75**2, np.inf], [np.inf, 9.0, 1.0]])
    expected = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2 * width**2))
    np.testing.assert_allclose(links.toarray(), expected)


@pytest.mark.parametrize("make", [make_moons, make_circles])
def test_curved_clusters_are_not_mixed(make):
    """The clusters of a fine run of two moons or rings are pure, for rows and for new rows."""
    options = {"factor": 0.4} if make is make_circles else {}
    X, y = make(1500, noise=0.04, random_state=0, **options)
    member, labels = spectral_run(X[::2], 15)
    table = np.zeros((labels.max() + 1, 2), dtype=int)
    np.add.at(table, (labels, y[::2]), 1)
    assert (table.min(axis=1) == 0).all()
    np.testing.assert_array_equal(table.argmax(axis=1)[member.predict(X[1::2])], y[1::2])


def test_sparse_rows_are_landmarks_themselves(monkeypatch):
    """Landmarks of sparse rows are some of them, so that they stay sparse."""
    monkeypatch.setattr(landmark_spectral, "_LANDMARKS", 20)
    X = sp.random(90, 30, density=0.2, random_state=0, format="csr")
    member, _ = spectral_run(X, 4)
    assert sp.issparse(member.landmarks)
    assert member.landmarks.shape[0] <= 20
    rows = {tuple(row) for row in X.toarray()}
    assert {tuple(row) for row in member.landmarks.toarray()} <= rows


@pytest.mark.parametrize("p", [3, 20])
def test_few_distinct_rows_are_separated(p):
    """Repeated rows give one cluster for each distinct row, in any batch and order."""
    rng = np.random.default_rng(0)
    distinct = rng.normal(size=(4, p))
    which = rng.integers(4, size=200)
    member, labels = spectral_run(distinct[which], 10)
    assert len(np.unique(labels)) == 4
    assert len(set(zip(labels.tolist(), which.tolist(), strict=True))) == 4
    np.testing.assert_array_equal(member.predict(distinct)[which], labels)


@pytest.mark.slow
@pytest.mark.parametrize("make", [np.asarray, np.float32, sp.csr_array])
def test_ties_between_landmarks_do_not_depend_on_the_batch(make):
    """Rows of zeros and ones are equally far from many landmarks; one rule chooses among them."""
    dense = (np.random.default_rng(0).random((400, 20)) < 0.2).astype(float)
    X = make(dense)
    member, labels = spectral_run(X, 20)
    order = np.random.default_rng(1).permutation(400)
    np.testing.assert_array_equal(member.predict(X[order]), labels[order])
    alone = [member.predict(X[i : i + 1])[0] for i in order[:40]]
    np.testing.assert_array_equal(alone, labels[order[:40]])
    np.testing.assert_array_equal(member.predict(dense), labels)
    np.testing.assert_array_equal(member.predict(sp.csr_array(dense)), labels)
