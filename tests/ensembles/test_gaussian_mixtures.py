"""Gaussian mixtures: scikit-learn's mixture on the principal coordinates is the oracle."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from coterie.ensembles.execution import fit_run
from coterie.ensembles.gaussian_mixtures import fit_mixture, principal_axes
from coterie.ensembles.plans import Run
from coterie.ensembles.scalings import Scaling, centring

IRIS = load_iris().data
DIGITS = load_digits().data[:400]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_labels_are_those_of_scikit_learns_mixture(covariance):
    """Predict equals GaussianMixture.predict on the principal coordinates, also of new rows."""
    Z = DIGITS - DIGITS.mean(axis=0)
    fitted, new = Z[::2], Z[1::2]
    axes = principal_axes(fitted, 0)
    Y = fitted @ axes
    member = fit_mixture(fitted, 6, 3, Scaling(), axes, covariance)
    oracle = GaussianMixture(
        6,
        covariance_type=covariance,
        reg_covar=0.01 * Y.var(axis=0).mean(),
        max_iter=50,
        random_state=3,
    ).fit(Y)
    np.testing.assert_array_equal(member.predict(fitted), oracle.predict(Y))
    np.testing.assert_array_equal(member.predict(new), oracle.predict(new @ axes))


@pytest.mark.parametrize(("n", "q", "r"), [(200, 64, 10), (20, 64, 5), (200, 3, 3), (3, 9, 1)])
def test_axes_are_the_leading_principal_axes(n, q, r):
    """There are min(10, q, n/4) axes, at least one; they span those of PCA."""
    Z = np.random.default_rng(0).normal(size=(n, q)) * np.linspace(9, 1, q)
    axes = principal_axes(Z, 0)
    assert axes.shape == (q, r)
    oracle = PCA(r, svd_solver="full").fit(Z).components_.T
    np.testing.assert_allclose(axes @ axes.T, oracle @ oracle.T, atol=1e-6)


def test_axes_of_sparse_rows_are_singular_vectors():
    """A sparse matrix is not centred; if it has few columns, they are the axes."""
    Z = sp.random(100, 30, density=0.2, random_state=0, format="csr")
    axes = principal_axes(Z, 0)
    assert axes.shape == (30, 10)
    singular = np.linalg.svd(Z.toarray(), full_matrices=False)[1]
    kept = np.linalg.norm(Z @ axes)
    assert 0.98 * np.linalg.norm(singular[:10]) <= kept <= np.linalg.norm(singular[:10]) + 1e-9
    np.testing.assert_array_equal(principal_axes(Z[:, :8], 0), np.eye(8))


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_the_origin_does_not_matter(covariance):
    """Features far from 0 have the same labels: sparse ones, and others with an outlier."""
    far = np.round(IRIS * 10) + np.array([0.0, 2.0**30, 0.0, -(2.0**30)])
    near = fit_mixture(np.round(IRIS * 10), 3, 0, Scaling(), np.eye(4), covariance)
    shift = np.zeros(4)  # an outlier that was not fitted can be the cause of a useless shift
    for make, scaling in (
        (np.asarray, Scaling()),
        (sp.csr_array, Scaling()),
        (np.asarray, Scaling(shift=shift)),
    ):
        shifted = fit_mixture(make(far), 3, 0, scaling, np.eye(4), covariance)
        np.testing.assert_allclose(shifted.factors, near.factors, rtol=1e-5, atol=1e-9)
        labels = near.predict(np.round(IRIS * 10))
        np.testing.assert_array_equal(shifted.predict(make(far)), labels)


def test_clusters_of_different_spread_are_found():
    """A wide and a narrow cluster with the same mean are separated, unlike by k-means."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(300, 2)) * 0.2, rng.normal(size=(300, 2)) * 5])
    run = Run(kind="mixture", n_clusters=2, scaling=centring(X), drawn=None, seed=0)
    labels = fit_run(X, run)[1]
    assert (labels[:300] == labels[0]).mean() > 0.97
    assert (labels[300:] != labels[0]).mean() > 0.9
